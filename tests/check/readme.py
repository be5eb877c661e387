#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C code that README.md shows is code that is compiled and run: each block stands word for word in the example, and
the Makefile has every target that a shell block names."""
import re

import checklib

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


def check(root):
    problems = []
    example, makefile = checklib.read(root, "docs/examples/minimal.c"), checklib.read(root, "Makefile")
    text = checklib.read(root, "README.md")
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        language, block = match.groups()
        if language == "c" and block not in example:
            problems.append(f"README.md:{line}: this code is not in docs/examples/minimal.c")
        for target in re.findall(r"^make ([\w-]+)", block, re.M) if language == "sh" else []:
            if not re.search(rf"^([\w-]+ )*{target}( [\w-]+)*:", makefile, re.M):
                problems.append(f"README.md:{line}: the Makefile has no target {target}")
    return problems


EXAMPLE = "int f(void) {\n    return 0;\n}\n"
CLEAN = {
    "README.md": f"```c\n{EXAMPLE}```\n```sh\nmake test # all\n```\n",
    "docs/examples/minimal.c": f"int x;\n{EXAMPLE}",
    "Makefile": "demo test: all\n",
}
PLANTS = [
    ("README.md", "```c\nint g(void);\n```\n", "README.md:1: this code is not in"),
    ("README.md", "text\n```sh\nmake tests\n```\n", "README.md:2: the Makefile has no target tests"),
]

if __name__ == "__main__":
    checklib.main(check, CLEAN, PLANTS)
