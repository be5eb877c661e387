#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Headers stand alone: each compiles as the only line of a file. The public ones also do so as C++, in strict standard
mode, and out of one folder, as they are installed."""
import concurrent.futures
import os
import shutil
import subprocess
import tempfile

import checklib

PUBLIC = ("engine/selene.h", "engine/selene_offers.h", "base/selene_error.h", "index/selene_layout.h")
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wshadow", "-Wundef"]


def compile_problem(command, path, what):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode == 0:
        return None
    errors = [line for line in result.stderr.split("\n") if "error:" in line] or [result.stderr.strip()]
    return f"{path}:1: does not stand alone as {what}: {errors[0]}"


def public_jobs(root, cc, folder):
    present = [path for path in PUBLIC if os.path.isfile(os.path.join(root, path))]
    for path in present:
        shutil.copy(os.path.join(root, path), folder)
    cxx = {"clang": "clang++"}.get(os.path.basename(cc), "g++")
    languages = [("C11", [cc, "-x", "c", "-std=c11"])]
    if shutil.which(cxx):
        languages.append(("C++11", [cxx, "-x", "c++", "-std=c++11"]))
    else:
        print(f"{cxx} is not installed: public headers are checked as C only")
    for path in present:
        for what, start in languages:
            name = os.path.basename(path)
            lone = os.path.join(folder, f"{name}.{what}.test")
            checklib.write(folder, os.path.basename(lone), f'#include "{name}"\n')
            yield start + STRICT + ["-fsyntax-only", "-I", folder, lone], path, what


def internal_jobs(root, cc):
    includes = ["-I", root, "-I", os.path.join(root, "base"), "-I", os.path.join(root, "index")]
    for path in checklib.files(root, (".h",)):
        flags = ["-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fsyntax-only"]
        yield [cc, *flags, *includes, "-include", os.path.join(root, path), "-x", "c", "/dev/null"], path, "C"


def check(root, cc):
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = list(public_jobs(root, cc, folder)) + list(internal_jobs(root, cc))
        problems = list(pool.map(lambda job: compile_problem(*job), jobs))
    return [problem for problem in problems if problem]


CLEAN = {
    "base/selene_error.h": "enum selene_error { SELENE_E_IO = -3 };\n",
    "engine/selene.h": '#include "selene_error.h"\nint selene_f(void);\n',
    "lsm/a.h": '#include "base/selene_error.h"\n#include <stdint.h>\nuint32_t f(void);\n',
}
PLANTS = [
    ("lsm/b.h", "uint32_t g(void);\n", "lsm/b.h:1: does not stand alone as C:"),
    ("lsm/b.h", '#include "lsm/none.h"\n', "lsm/b.h:1: does not stand alone as C:"),
    ("engine/selene.h", "int selene_f(int class);\n", "engine/selene.h:1: does not stand alone as C++11"),
    ("engine/selene.h", '#include "base/selene_error.h"\n', "engine/selene.h:1: does not stand alone as C11"),
]

if __name__ == "__main__":
    checklib.main(check, CLEAN, PLANTS, ["cc"])
