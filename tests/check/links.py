#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Documents lead somewhere: each relative link in a .md file names a file or folder of the tree, each heading that is
linked to exists, and each room opens with a README.md."""
import os
import re

import checklib

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
HEADING = re.compile(r"^#+ +(.+)$", re.M)


def anchors(text):
    names = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        name = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        names.add(name.replace(" ", "-"))
    return names


def link_problem(root, path, target):
    if re.match(r"[a-z]+:", target):
        return None
    name, _, anchor = target.partition("#")
    full = os.path.normpath(os.path.join(root, os.path.dirname(path), name)) if name else os.path.join(root, path)
    if not os.path.exists(full):
        return f"{target} does not exist"
    if anchor and full.endswith(".md"):
        with open(full, encoding="utf-8") as file:
            if anchor not in anchors(file.read()):
                return f"{target}: no such heading"
    return None


def check(root):
    problems, rooms = [], set()
    for path in checklib.files(root):
        parts = path.split("/")
        if len(parts) > 1 and not parts[0].startswith("."):
            rooms.add(parts[0])
        if not path.endswith(".md"):
            continue
        text = FENCE.sub(lambda match: "\n" * match.group().count("\n"), checklib.read(root, path))
        for match in LINK.finditer(text):
            problem = link_problem(root, path, match.group(1))
            if problem:
                problems.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {problem}")
    for room in sorted(rooms):
        if not os.path.isfile(os.path.join(root, room, "README.md")):
            problems.append(f"{room}/README.md:1: a room without a README")
    return problems


CLEAN = {
    "README.md": "[docs](docs/README.md#some-words) [web](https://example.org/x) [here](#top)\n# Top\n",
    "docs/README.md": "# Docs\n## Some `words`\n```\n[not](a-link)\n```\n",
}
PLANTS = [
    ("docs/A.md", "text\n[gone](gone.md)\n", "docs/A.md:2: gone.md does not exist"),
    ("docs/A.md", "[x](README.md#nothing)\n", "README.md#nothing: no such heading"),
    ("attic/a.c", "int x;\n", "attic/README.md:1: a room without a README"),
]

if __name__ == "__main__":
    checklib.main(check, CLEAN, PLANTS)
