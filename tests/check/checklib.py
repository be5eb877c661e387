# SPDX-License-Identifier: Apache-2.0
"""What the checks of the tree share: which files there are, and the two ways to run a check.

A check is a function of a root folder that returns a list of problems, "path:line: what". `--root DIR` runs it and
fails when there is a problem. `--self-test` first runs it on a small clean tree, which must have none, then plants one
violation after another, each of which must be found: a check that cannot fail would be worth nothing.
"""
import argparse
import os
import sys
import tempfile

C_FILES = (".c", ".h", ".cu")
SKIPPED_FOLDERS = ("build", ".git", "__pycache__")


def files(root, endings=None):
    """Paths relative to root of all files of the tree, in order; no git needed: a plain copy of the tree will do."""
    found = []
    for folder, below, names in os.walk(root):
        relative = os.path.relpath(folder, root)
        below[:] = sorted(d for d in below if not (relative == "." and d in SKIPPED_FOLDERS) and d != "__pycache__")
        for name in names:
            path = os.path.normpath(os.path.join(relative, name))
            if endings is None or name.endswith(tuple(endings)):
                found.append(path)
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def write(root, path, text):
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as file:
        file.write(text)


def self_test(check, clean, plants):
    failures = 0
    for planted in [None] + plants:
        with tempfile.TemporaryDirectory() as root:
            for path, text in clean.items():
                write(root, path, text)
            if planted:
                write(root, planted[0], planted[1])
            problems = check(root)
        if planted is None and problems:
            print("the clean tree has problems:", *problems, sep="\n  ")
            failures += 1
        if planted and not any(planted[2] in problem for problem in problems):
            print(f"planted in {planted[0]}, not found: {planted[2]!r}; found {problems}")
            failures += 1
    print(f"self-test: {len(plants)} planted violations, {failures} failures")
    return failures


def main(check, clean, plants, arguments=()):
    """`arguments`: names of further options, passed to the check by name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default=os.path.join(os.path.dirname(__file__), "..", ".."))
    parser.add_argument("--self-test", action="store_true")
    for name in arguments:
        parser.add_argument("--" + name, required=True)
    options = vars(parser.parse_args())
    more = {name: options[name] for name in arguments}
    if options["self_test"]:
        sys.exit(1 if self_test(lambda root: check(root, **more), clean, plants) else 0)
    problems = check(options["root"], **more)
    print(*problems, sep="\n")
    print(f"{len(problems)} problems")
    sys.exit(1 if problems else 0)
