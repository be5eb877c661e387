# SPDX-License-Identifier: Apache-2.0
"""What the cases of selene-replay share: running the program, what its results must show, and the command line."""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
MIDPAGE = "deepseek-v4-flash-tp4-midpage"
PLAIN, ROWS, SHARED_ROWS = "qwen3-8b", "qwen3-next-80b-tp2", "deepseek-v4-flash-tp4"
program = source = scratch = None


class Failure(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failure(text)


def play(*arguments, code=0):
    """Runs the program; returns (stdout, stderr)."""
    command = [program] + [str(argument) for argument in arguments]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=800)
    if done.returncode != code:
        raise Failure(f"{' '.join(command)}\nexit code {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def results(*arguments, code=0):
    out, err = play("--json", "-", "--check", *arguments, code=code)
    if err:
        print(err, end="")
    found = json.loads(out)
    names = ("requests", "hit_ratio", "ideal_hit_ratio", "tokens_hit_by_tier", "verified_bytes", "wrong_bytes",
             "disk_written_bytes", "disk_allocated_bytes", "recovered_records", "committed_records_before_crash",
             "lost_committed_records", "seconds")
    print(" ".join(map(str, arguments)), {name: found[name] for name in names})
    return found


def expect_good(found, tier=None):
    expect(found["wrong_bytes"] == 0 and found["verified_bytes"] > 0, "wrong bytes, or none verified")
    expect(found["invariant_failures"] == 0, "an invariant does not hold")
    if tier:
        expect(found["tokens_hit_by_tier"][tier] > 0, f"nothing came from {tier}")


def expect_ideal(found, tier=None):
    """Tiers thin each for itself: a row that memory gave up may still be on disk. Without rows both are the same."""
    expect_good(found, tier)
    expect(found["thinned_ideal_tokens_hit"] <= found["tokens_hit"] <= found["ideal_tokens_hit"],
           "hits are not between the ideals")


def expect_thinned(found, tier=None):
    """One request at a time, memory alone and large enough: exactly what the rules of thinning and offering leave."""
    expect_ideal(found, tier)
    expect(found["tokens_hit"] == found["thinned_ideal_tokens_hit"], "hits differ from the thinned ideal")
    expect(sum(found["evictions_by_tier"].values()) == 0, "memory was too small: no test")


def agent(directory, layout, *more, requests=120, memory="8M"):
    """A generated workload whose memory is too small for it."""
    os.makedirs(directory, exist_ok=True)
    return ("--generate", "agent", "--requests", requests, "--layout", layout, "--scale", 1024, "--memory", memory,
            "--disk", os.path.join(directory, "store")) + more


def bytes_in(directory):
    """Allocated, as the limit counts it."""
    return sum(os.lstat(path).st_blocks * 512 for path in glob.glob(f"{directory}/**", recursive=True)
               if os.path.isfile(path))


def small_trace(directory, requests=30):
    path = f"{directory}/small.jsonl"
    with open(path, "w") as file:
        for i in range(requests):
            blocks, rest = 20 + 10 * (i // 6), 7 if i % 6 < 3 else 0  # each prompt twice, the second time without a rest
            json.dump({"s": i % 3, "a": 0, "inp": blocks * 64 + rest, "out": 5, "runs": [[1, blocks]]}, file)
            file.write("\n")
    return path


def run(description, cases):
    """`cases`: globals() of the script."""
    global program, source, scratch
    parser = argparse.ArgumentParser(description=description)
    for option in ("program", "source", "scratch"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("case")
    arguments = parser.parse_args()
    program, source, scratch = arguments.program, arguments.source, arguments.scratch
    directory = tempfile.mkdtemp(prefix=f"replay-{arguments.case}-", dir=os.environ.get("SELENE_TEST_DIR", scratch))
    try:
        cases[f"case_{arguments.case}"](directory)
    except Failure as failure:
        print(f"FAILED: {failure}")
        sys.exit(1)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
