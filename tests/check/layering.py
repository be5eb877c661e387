#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom (docs/ARCHITECTURE.md, "Rooms and arrows").

  - a room includes only the rooms that its arrows name, and no room's *_priv.h but its own
  - a header from outside (not C, POSIX or Linux) is included by one file of the whole tree, the one named here
  - every quoted include names a file of the tree
"""
import os
import re

import checklib

# A room, and what it may include beside itself: rooms or single headers.
ARROWS = {
    "base": [],
    "index": ["base"],
    "gpu": ["base", "index/layout.h", "index/selene_layout.h"],
    "netpool": ["base"],
    "netpool/manager": ["netpool", "base", "engine"],
    "lsm": ["base", "index"],
    "engine": ["base", "index", "lsm", "gpu", "netpool"],
    "cli": ["base", "index"],
    "fsck": ["base", "index", "lsm", "cli"],
    "tools": ["base", "index", "lsm", "gpu", "engine", "cli"],
}
# Public headers are included by their bare names: they are installed side by side.
PUBLIC = {"selene.h": "engine", "selene_offers.h": "engine", "selene_error.h": "base", "selene_layout.h": "index"}
OUTSIDE = {
    "xxhash.h": "base/xxh3.c",
    "openssl/": "index/sha256.c",
    "lmdb.h": "index/catalog_lmdb.c",
    "liburing": "lsm/disk_uring.c",
    "jansson.h": "cli/json.c",
    "microhttpd.h": "cli/http.c",
    "cmocka.h": "tests/lib/test.h",
    "rocksdb/": "tools/bench/bench_rocksdb.c",
}
SYSTEM_FOLDERS = ("sys/", "linux/", "asm/", "arpa/", "netinet/", "net/", "sanitizer/", "valgrind/")
SYSTEM = set("""assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg
stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings tgmath threads time uchar wchar wctype
aio byteswap cpio dirent dlfcn elf endian err execinfo fcntl fnmatch ftw getopt glob grp iconv ifaddrs immintrin
arm_neon emmintrin langinfo libgen link malloc mqueue netdb nl_types poll pthread pwd regex sched search semaphore
spawn syslog sysexits termios ucontext unistd utime x86intrin cpuid features""".split())
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def room_of(path):
    if path.startswith("netpool/manager/"):
        return "netpool/manager"
    return path.split("/")[0]


def resolve(root, path, name):
    """The file that a quoted include names, relative to root, or None."""
    for folder in (os.path.dirname(path), "", "base", "index"):
        candidate = os.path.normpath(os.path.join(folder, name))
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    if name in PUBLIC and os.path.isfile(os.path.join(root, PUBLIC[name], name)):
        return os.path.join(PUBLIC[name], name)
    return None


def quoted_problem(root, path, name):
    target = resolve(root, path, name)
    if target is None:
        return f'"{name}" is no file of the tree'
    room, other = room_of(path), room_of(target)
    if room == other or room in ("tests", "docs"):
        return None
    if target.endswith("_priv.h"):
        return f"{target} is private to {other}"
    if room not in ARROWS:
        return f"room {room} has no arrows"
    if other not in ARROWS[room] and target not in ARROWS[room]:
        return f"{room} may not use {target}"
    return None


def outside_problem(path, name, users):
    if name.startswith(SYSTEM_FOLDERS) or name.removesuffix(".h") in SYSTEM:
        return None
    for prefix, owner in OUTSIDE.items():
        if name.startswith(prefix):
            return None if path == owner else f"<{name}> is for {owner} alone"
    if name in PUBLIC and room_of(path) in ("tests", "docs"):
        return None
    users.setdefault(name, set()).add(path)
    return f"<{name}> is also in {sorted(users[name] - {path})[0]}" if len(users[name]) > 1 else None


def check(root):
    problems, users = [], {}
    for path in checklib.files(root, checklib.C_FILES):
        text = checklib.read(root, path)
        for match in INCLUDE.finditer(text):
            kind, name = match.groups()
            problem = quoted_problem(root, path, name) if kind == '"' else outside_problem(path, name, users)
            if problem:
                problems.append(f"{path}:{text.count(chr(10), 0, match.start(2)) + 1}: {problem}")
    return problems


CLEAN = {
    "base/a.h": "#include <stdint.h>\n#include <sys/uio.h>\n",
    "base/xxh3.c": "#include <xxhash.h>\n",
    "index/layout.h": '#include "base/a.h"\n',
    "index/tree.h": '#include "base/a.h"\n',
    "index/tree_priv.h": '#include "index/tree.h"\n',
    "gpu/g.c": '#include "index/layout.h"\n',
    "lsm/l.c": '#include "index/tree.h"\n#include <exotic.h>\n',
    "tests/unit/t.c": '#include "index/tree_priv.h"\n',
}
PLANTS = [
    ("base/b.c", '#include "index/layout.h"\n', "base/b.c:1: base may not use index/layout.h"),
    ("gpu/h.c", '#include <stdint.h>\n#include "index/tree.h"\n', "gpu/h.c:2: gpu may not use index/tree.h"),
    ("lsm/m.c", '#include "index/tree_priv.h"\n', "index/tree_priv.h is private to index"),
    ("index/i.c", '#include "tree_missing.h"\n', "no file of the tree"),
    ("index/i.c", "#  include <xxhash.h>\n", "<xxhash.h> is for base/xxh3.c alone"),
    ("index/i.c", "#include <openssl/evp.h>\n", "is for index/sha256.c alone"),
    ("lsm/n.c", "#include <exotic.h>\n", "<exotic.h> is also in lsm/l.c"),
    ("attic/a.c", '#include "base/a.h"\n', "room attic has no arrows"),
]

if __name__ == "__main__":
    checklib.main(check, CLEAN, PLANTS)
