#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Error numbers are part of the ABI: the table in base/selene_error.h has the codes that errors.txt lists, with these
numbers and in this order. A new code goes to the end of both."""
import os
import re

import checklib

ROW = re.compile(r"^\s*X\((\w+),\s*(-?\d+),", re.M)
LISTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "errors.txt")


def check(root):
    with open(LISTED, encoding="utf-8") as file:
        listed = [tuple(line.split()) for line in file if line.strip() and not line.startswith("#")]
    table = ROW.findall(checklib.read(root, "base/selene_error.h"))
    problems = []
    for number in range(max(len(listed), len(table))):
        old = listed[number] if number < len(listed) else ("nothing", "")
        new = table[number] if number < len(table) else ("nothing", "")
        if old != new:
            problems.append(f"base/selene_error.h:1: {' '.join(new)} where errors.txt has {' '.join(old)}")
    return problems


def rows(pairs):
    return "\n".join(f'    X({name}, {number}, "text") \\' for name, number in pairs)


def plants():
    """The real list with a number changed, a code gone, and a code that nobody listed."""
    with open(LISTED, encoding="utf-8") as file:
        listed = [tuple(line.split()) for line in file if line.strip() and not line.startswith("#")]
    changed = [(name, "-99" if name == "E_IO" else number) for name, number in listed]
    header = "base/selene_error.h"
    return {header: rows(listed)}, [
        (header, rows(changed), "E_IO -99 where errors.txt has E_IO -3"),
        (header, rows(listed[:-1]), "nothing  where"),
        (header, rows(listed + [("E_NEW", "-26")]), "E_NEW -26 where errors.txt has nothing"),
    ]


if __name__ == "__main__":
    checklib.main(check, *plants())
