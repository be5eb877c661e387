#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names that the libraries give away: the shared one exports selene_* and nothing else; global names of the static one
begin with selene_ or sel_, so that it fits into any program."""
import os
import re
import subprocess
import sys
import tempfile

SHARED, STATIC = re.compile(r"^selene_"), re.compile(r"^(selene|sel)_")


def names(library, dynamic):
    command = ["nm", "--defined-only", "--format=posix"] + (["--dynamic"] if dynamic else ["--extern-only"]) + [library]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in output.split("\n") if not line.endswith(":")]
    return [row[0] for row in rows if len(row) >= 2 and row[1] not in ("a", "A")]


def problems(library, dynamic):
    found, allowed = names(library, dynamic), SHARED if dynamic else STATIC
    if not found:
        return [f"{library}: no names at all"]
    return [f"{library}: gives away {name}" for name in found if not allowed.match(name)]


def self_test(cc):
    cases = [
        ("int selene_a; int selene_f(void) { return 0; }", True, None),
        ("int selene_a; int sel_f(void) { return 0; }", True, "sel_f"),
        ("int selene_a; int sel_f(void) { return 0; }", False, None),
        ("int sel_a; int helper(void) { return 0; }", False, "helper"),
        ("static int x; static int *f(void) { return &x; } int *(*sel_f)(void) = f;", False, None),
    ]
    failures = 0
    for text, dynamic, planted in cases:
        with tempfile.TemporaryDirectory() as folder:
            source, product = os.path.join(folder, "a.c"), os.path.join(folder, "a.so" if dynamic else "a.o")
            with open(source, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            kind = ["-shared", "-fPIC"] if dynamic else ["-c"]
            subprocess.run([cc, *kind, source, "-o", product], check=True)
            found = problems(product, dynamic)
        if len(found) != (1 if planted else 0) or (planted and planted not in found[0]):
            print(f"{text!r}: found {found}, planted {planted}")
            failures += 1
    print(f"self-test: {len(cases)} libraries, {failures} failures")
    return failures


def main():
    if sys.argv[1] == "--self-test":
        return self_test(sys.argv[2])
    found = problems(sys.argv[1], True) + problems(sys.argv[2], False)
    print(*found, sep="\n")
    print(f"{len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
