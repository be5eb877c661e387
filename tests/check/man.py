#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages render without a warning, and each tool that is built has one."""
import os
import re
import shutil
import subprocess
import sys

import checklib

GROFF = shutil.which("groff")
SKIPPED = 77
TOOL = re.compile(r"add_executable\((selene[\w-]*)")


def check(root):
    problems = []
    for path in checklib.files(root, (".1",)):
        # -ww: every warning groff knows; -rCHECKSTYLE would be stricter than Debian's groff 1.22 can be.
        result = subprocess.run([GROFF, "-man", "-ww", "-z", "-Tutf8", path], cwd=root, capture_output=True, text=True)
        problems += [line for line in result.stderr.split("\n") if line]
        if not re.search(r"^\.SH NAME", checklib.read(root, path), re.M):
            problems.append(f"{path}:1: has no NAME section")
    for path in checklib.files(root, ("CMakeLists.txt",)):
        for tool in TOOL.findall(checklib.read(root, path)):
            if not os.path.isfile(os.path.join(root, "docs", "man", tool + ".1")):
                problems.append(f"{path}:1: {tool} has no docs/man/{tool}.1")
    return problems


PAGE = '.TH SELENE 1\n.SH NAME\nselene \\- a tool\n.SH OPTIONS\n.TP\n.B \\-\\-memory\nHow much.\n'
CLEAN = {"docs/man/selene-x.1": PAGE, "tools/CMakeLists.txt": "add_executable(selene-x x.c)\n"}
PLANTS = [
    ("docs/man/selene-y.1", PAGE + ".NOSUCH macro\n", "docs/man/selene-y.1"),
    ("docs/man/selene-y.1", PAGE + "\\[nosuch]\n", "docs/man/selene-y.1"),
    ("docs/man/selene-y.1", ".TH SELENE 1\n.SH OPTIONS\nNone.\n", "has no NAME section"),
    ("tools/y/CMakeLists.txt", "add_executable(selene-y y.c)\n", "selene-y has no docs/man/selene-y.1"),
]

if __name__ == "__main__":
    if GROFF is None:
        print("skipped: groff is not installed (make deps installs groff-base)")
        sys.exit(SKIPPED)
    checklib.main(check, CLEAN, PLANTS)
