#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each rule that code or documents name, as [D4] or [M3, P5] or [L1-L6], is a rule of docs/RULES.md."""
import re

import checklib

RULES = "docs/RULES.md"
# What stands in brackets and begins like a rule; faults and words may follow: [I2, fault 22].
NAMED = re.compile(r"(?<![\w\]])\[([A-Z]\d{1,2}(?:[-,][^\]\n]*)?)\]")
RULE = re.compile(r"\b([A-Z])(\d{1,2})(?:\s*-\s*\1?(\d{1,2}))?\b")


def rules(text):
    found = set()
    for inside in NAMED.findall(text):
        for letter, first, last in RULE.findall(inside):
            found |= {f"{letter}{number}" for number in range(int(first), int(last or first) + 1)}
    return found


def check(root):
    problems, known = [], rules(checklib.read(root, RULES))
    for path in checklib.files(root, (".c", ".h", ".cu", ".md", ".1")):
        if path == RULES:
            continue
        for number, line in enumerate(checklib.read(root, path).split("\n"), 1):
            for rule in sorted(rules(line) - known):
                problems.append(f"{path}:{number}: [{rule}] is not in {RULES}")
    return problems


CLEAN = {
    RULES: "* [D4] Commit.\n* [D5] Space.\n* Not built [T1-T8].\n",
    "lsm/a.c": "/* [D4], [T3, T7] and [D4-D5, fault 12] */\nint a = b[A9] + T[D4];\n",
}
PLANTS = [
    ("lsm/a.c", "/* one\n * [D6] */\n", "lsm/a.c:2: [D6] is not in"),
    ("lsm/a.c", "/* [D3-D5] */\n", "[D3] is not in"),
    ("docs/A.md", "text [D4, X2]\n", "docs/A.md:1: [X2] is not in"),
]

if __name__ == "__main__":
    checklib.main(check, CLEAN, PLANTS)
