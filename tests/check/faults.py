#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of faults in docs/TESTING.md is true: each test that a row names exists and says "fault N" itself."""
import os
import re

import checklib

ROW = re.compile(r"^\| *(\d+) *\|[^|]*\|([^|]*)\|", re.M)
PATH = re.compile(r"`([^`]+)`")


def named(text, number):
    """Whether a text says "fault 7", or "faults 3, 7 and 9", or a range that holds it."""
    for words in re.findall(r"\b[Ff]aults?\s+(\d+(?:(?:\s*,\s*|\s+and\s+|\s*-\s*)\d+)*)", text):
        for first, last in re.findall(r"(\d+)(?:\s*-\s*(\d+))?", words):
            if int(first) <= number <= int(last or first):
                return True
    return False


def check(root):
    problems, rows = [], 0
    text = checklib.read(root, "docs/TESTING.md")
    for match in ROW.finditer(text):
        rows += 1
        place = f"docs/TESTING.md:{text.count(chr(10), 0, match.start()) + 1}: fault {match.group(1)}"
        tests = PATH.findall(match.group(2))
        if not tests and not match.group(2).strip().startswith("none:"):
            problems.append(f"{place}: names no test and does not say why")
        for path in tests:
            if not os.path.isfile(os.path.join(root, path)):
                problems.append(f"{place}: {path} does not exist")
            elif not named(checklib.read(root, path), int(match.group(1))):
                problems.append(f"{place}: {path} does not name it")
    if rows == 0:
        problems.append("docs/TESTING.md:1: has no table of faults")
    return problems


CLEAN = {
    "docs/TESTING.md": "| # | kind | tests |\n| --- | --- | --- |\n| 7 | drift | `tests/a.c`, `tests/b.c` |\n"
                       "| 6 | remote | none: no pool yet |\n",
    "tests/a.c": "/* Faults 3-9. */\n",
    "tests/b.c": "/* faults 1, 7 and 12 */\n",
}
PLANTS = [
    ("docs/TESTING.md", "| 7 | drift | `tests/c.c` |\n", "fault 7: tests/c.c does not exist"),
    ("tests/b.c", "/* fault 17 */\n", "fault 7: tests/b.c does not name it"),
    ("docs/TESTING.md", "| 7 | drift | soon |\n", "fault 7: names no test"),
    ("docs/TESTING.md", "none\n", "has no table"),
]

if __name__ == "__main__":
    checklib.main(check, CLEAN, PLANTS)
