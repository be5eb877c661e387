#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes and manners of source files.

  - functions of at most 70 lines, files of at most 500
  - a source file opens with its licence and says what it is (CMakeLists.txt may be too small for that)
  - nothing left to be done, no tabs (but in Makefile), no space at the end of a line, a newline at the end of the file
  - nothing outside tests, CI and documents names the folder of traces that lies beside a checkout
"""
import os
import re

import checklib

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
SOURCES = checklib.C_FILES + (".py", ".sh", ".cmake", "CMakeLists.txt", "Makefile", ".ci/run")
LATER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
OUTSIDE_FOLDER = "../" + "shared"
COMMENTS_AND_STRINGS = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", re.M)
CPLUSPLUS = re.compile(r"^#ifdef __cplusplus$.*?^#endif$", re.M | re.S)


def blank(match):
    """Takes a piece of text out and keeps its lines."""
    return "\n" * match.group().count("\n")


def functions(text):
    """(first line, last line) of the bodies of all functions, from the opening brace on."""
    for pattern in (COMMENTS_AND_STRINGS, CPLUSPLUS, PREPROCESSOR):
        text = pattern.sub(blank, text)
    depth, line, begin, before = 0, 1, None, ""
    for character in text:
        if character == "\n":
            line += 1
        elif character == "{":
            if depth == 0 and before == ")":
                begin = line
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0 and begin:
                yield begin, line
                begin = None
        if not character.isspace():
            before = character


def opening_problem(path, text):
    lines = text.split("\n")
    at = 1 if lines[0].startswith("#!") else 0
    if "SPDX-License-Identifier: Apache-2.0" not in lines[at]:
        return f"{path}:{at + 1}: does not open with its licence"
    rest = "\n".join(lines[at + 1:]).lstrip(" *\n")
    if path.endswith(checklib.C_FILES):
        told = bool(re.match(r"/\* SPDX[^\n]*\n[ *\n]*\w", text)) or rest.startswith(("//", "/*"))
    else:
        told = rest.startswith(("#", '"""'))
    return None if told else f"{path}:{at + 2}: does not say what it is"


def line_problems(path, lines):
    c_like = path.endswith(checklib.C_FILES + (".py", ".cmake", "CMakeLists.txt"))
    for number, line in enumerate(lines, 1):
        if LATER.search(line):
            yield f"{path}:{number}: left to be done: {line.strip()}"
        if path.endswith(".md"):
            continue
        if line != line.rstrip():
            yield f"{path}:{number}: space at the end of the line"
        if "\t" in line and c_like:
            yield f"{path}:{number}: a tab"


def check_source(path, text):
    problem = None if path.endswith("CMakeLists.txt") else opening_problem(path, text)
    if problem:
        yield problem
    lines = text.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"{path}:{FILE_LINES_MAX}: the file has {lines} lines, at most {FILE_LINES_MAX} are allowed"
    if not path.endswith(checklib.C_FILES):
        return
    for begin, end in functions(text):
        if end - begin + 1 > FUNCTION_LINES_MAX:
            yield f"{path}:{begin}: a function of {end - begin + 1} lines, at most {FUNCTION_LINES_MAX} are allowed"


def check(root):
    problems = []
    for path in checklib.files(root, SOURCES + ("run", ".md", ".1", ".in", ".json")):
        if os.path.basename(path) == "run" and path != ".ci/run":
            continue
        text = checklib.read(root, path)
        problems += line_problems(path, text.split("\n"))
        if text and not text.endswith("\n"):
            problems.append(f"{path}:{text.count(chr(10)) + 1}: no newline at the end of the file")
        if OUTSIDE_FOLDER in text and not path.startswith(("tests/", ".ci/", "docs/")):
            problems.append(f"{path}:1: names {OUTSIDE_FOLDER}, which the product must not need")
        if path.endswith(SOURCES):
            problems += check_source(path, text)
    return problems


HEAD = "/* SPDX-License-Identifier: Apache-2.0\n *\n * What it is.\n */\n"
PYTHON = "#!/usr/bin/env python3\n# SPDX-License-Identifier: Apache-2.0\n"
CLEAN = {
    "base/a.c": HEAD + "#define BRACE {\nint f(void)\n{\n" + "    g('{', \"{\"); /* { */\n" * 68 + "}\n",
    "base/a.h": "/* SPDX-License-Identifier: Apache-2.0 */\n/* What it is. */\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n",
    "base/table.c": HEAD + "const int table[] = {\n" + "    1,\n" * 200 + "};\n",
    "tests/t.py": PYTHON + '"""What it is."""\n',
    "Makefile": "# SPDX-License-Identifier: Apache-2.0\n# What.\nall:\n\ttrue\n",
    "tests/data.c": HEAD + 'const char *traces = "' + OUTSIDE_FOLDER + '/traces";\n',
}
PLANTS = [
    ("base/b.c", HEAD + "int f(int a,\n      int b) {\n" + "    g();\n" * 69 + "}\n", "b.c:6: a function of 71 lines"),
    ("base/b.c", HEAD + "int x;\n" * 497, "the file has 501 lines"),
    ("base/b.c", "int x;\n", "b.c:1: does not open with its licence"),
    ("base/b.c", "/* SPDX-License-Identifier: Apache-2.0 */\n#include <a.h>\n", "b.c:2: does not say what it is"),
    ("tests/x.py", PYTHON + "import os\n", "x.py:3: does not say what it is"),
    ("base/b.c", HEAD + "/* FIX" + "ME: later */\n", "b.c:5: left to be done"),
    ("docs/D.md", "TO" + "DO\n", "D.md:1: left to be done"),
    ("base/b.c", HEAD + "int\tx;\n", "b.c:5: a tab"),
    ("base/b.c", HEAD + "int x; \n", "b.c:5: space at the end"),
    ("base/b.c", HEAD + "int x;", "b.c:5: no newline"),
    ("tools/b.c", HEAD + 'char *s = "' + OUTSIDE_FOLDER + '";\n', "which the product must not need"),
]

if __name__ == "__main__":
    checklib.main(check, CLEAN, PLANTS)
