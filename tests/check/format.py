#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every C file is as clang-format 14 writes it with the .clang-format of the tree; `make format` makes it so."""
import os
import shutil
import subprocess
import sys

import checklib

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAM = shutil.which("clang-format-14")
SKIPPED = 77


def check(root):
    paths = checklib.files(root, checklib.C_FILES)
    if not paths:
        return []
    style = "--style=file:" + os.path.join(TREE, ".clang-format")
    result = subprocess.run([PROGRAM, style, "--dry-run", "-Werror", *paths], cwd=root, capture_output=True, text=True)
    lines = [line for line in result.stderr.split("\n") if "error:" in line]
    if result.returncode != 0 and not lines:
        return [f"{PROGRAM} failed: {result.stderr.strip()}"]
    return lines


CLEAN = {"base/a.c": "int f(void) {\n    g();\n    return 0;\n}\n", "gpu/k.h": "#include <a.h>\n#include <b.h>\n"}
PLANTS = [
    ("base/b.c", "int f(void) {\n  return 0;\n}\n", "base/b.c:1:"),
    ("gpu/k.cu", "int f( void );\n", "gpu/k.cu:1:"),
    ("base/c.h", "#include <b.h>\n#include <a.h>\n", "base/c.h:1:"),
]

if __name__ == "__main__":
    if PROGRAM is None:
        print("skipped: clang-format-14 is not installed (make deps installs it)")
        sys.exit(SKIPPED)
    checklib.main(check, CLEAN, PLANTS)
