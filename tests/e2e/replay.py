#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""selene-replay as a user runs it: what it reports of a store that works, restarts or is killed; that it notices wrong
bytes; and that bad input gets a message, exit code 2, and leaves nothing behind.

replay.py --program PATH --source DIR --scratch DIR CASE; a CASE is a function case_CASE below.
"""
import argparse
import glob
import json
import os
import pty
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
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
    expect_good(found, tier)
    expect(found["tokens_hit"] == found["ideal_tokens_hit"], "hits differ from the ideal")


def agent(directory, layout, *more, requests=120, memory="8M"):
    """A generated workload whose memory is too small for it."""
    os.makedirs(directory, exist_ok=True)
    return ("--generate", "agent", "--requests", requests, "--layout", layout, "--scale", 1024, "--memory", memory,
            "--disk", os.path.join(directory, "store")) + more


# ---- stores that work ----

def case_sequential(directory):
    for layout in (PLAIN, ROWS):
        expect_ideal(results(*agent(f"{directory}/{layout}", layout, "--sequential")), "disk")


def case_restart(directory):
    for layout in (PLAIN, ROWS, SHARED_ROWS):
        for fraction in (0.5, 1):
            found = results(*agent(f"{directory}/{layout}{fraction}", layout, "--sequential", "--restart-at", fraction))
            expect_ideal(found, "disk" if fraction < 1 else None)
            expect(found["drained_records"] > 0 and found["drain_skipped_records"] == 0, "the drain left records")


def case_crash(directory):
    for layout in (PLAIN, ROWS, SHARED_ROWS):
        for durability in ("relaxed", "strict"):
            for fraction in (0.2, 0.5, 0.9):
                name = f"{directory}/{layout}-{durability}-{fraction}"
                found = results(*agent(name, layout, "--sequential", "--durability", durability, "--crash-at", fraction))
                expect_good(found)
                expect(found["lost_committed_records_known"] and found["lost_committed_records"] == 0, "records are lost")
                expect(found["hit_ratio"] <= found["ideal_hit_ratio"], "more hits than possible")
                expect(fraction < 0.9 or found["committed_records_before_crash"] > 0, "nothing was committed: no test")


def case_concurrent(directory):
    for layout in (PLAIN, ROWS):
        expect_good(results(*agent(f"{directory}/{layout}", layout, "--concurrency", 6)))
        expect_good(results(*agent(f"{directory}/{layout}", layout, "--concurrency", 6, "--crash-at", 0.5)))


def case_combinations(directory):
    """[P7] memory or none, disk or none."""
    common = ("--generate", "agent", "--requests", 40, "--scale", 1024, "--sequential")
    for layout in (PLAIN, ROWS):
        expect_ideal(results(*common, "--layout", layout, "--memory", "1G"), "memory")
        expect_ideal(results(*common, "--layout", layout, "--memory", 0, "--durability", "strict", "--disk",
                             f"{directory}/{layout}"), "disk")
        off = results(*common, "--layout", layout, "--memory", 0)
        expect(off["tokens_hit"] == 0 and off["verified_bytes"] == 0, "a cache that is off hits")
        expect_good(results(*common, "--layout", layout, "--memory", "4M"))
    expect_ideal(results(*common, "--disk-threads", "--memory", "8M", "--disk", f"{directory}/threads"))


def case_layouts(directory):
    listed = [line.split()[0] for line in play("--list-layouts")[0].splitlines()[1:]]
    expect(PLAIN in listed and ROWS in listed and len(listed) > 6, "--list-layouts lists too little")
    for layout in listed:
        expect_ideal(results("--generate", "agent", "--requests", 12, "--layout", layout, "--scale", 65536,
                             "--sequential", "--memory", "256M"))
    path = f"{directory}/own.json"
    with open(path, "w") as file:
        json.dump({"page_tokens": 48, "rank_count": 3, "row_bytes": 5000, "description_base16": "00ff",
                   "planes": [{"bytes": 500, "entry_tokens": 4, "entry_bytes": 41}, {"bytes": 77, "count": 3},
                              {"bytes": 480, "entry_tokens": 1, "entry_bytes": 10}]}, file)
    expect_ideal(results("--generate", "agent", "--requests", 60, "--layout", path, "--scale", 1, "--sequential",
                         "--memory", "16M", "--disk", f"{directory}/own", "--restart-at", 0.5))
    expect_ideal(results("--generate", "agent", "--requests", 12, "--layout", f"{source}/docs/examples/layout.json",
                         "--sequential"))


def bytes_in(directory):
    """Allocated, as the limit counts it."""
    return sum(os.lstat(path).st_blocks * 512 for path in glob.glob(f"{directory}/**", recursive=True)
               if os.path.isfile(path))


def case_limit(directory):
    """[D6], faults 20, 24. The smaller disk fills with records whose children are in memory alone: neither may wait for
    the other."""
    for layout, limit in ((PLAIN, 32 << 20), (ROWS, 32 << 20), (PLAIN, 16 << 20), (ROWS, 16 << 20)):
        where = f"{directory}/{layout}-{limit}"
        found = results(*agent(where, layout, "--disk-limit", limit, "--sequential", requests=300))
        expect_good(found, "disk")
        expect(found["tiers"]["disk"]["evictions"] > 0, "nothing was evicted: no test")
        expect(found["disk_allocated_bytes"] <= limit, "more allocated than the limit")
        expect(bytes_in(f"{where}/store") <= limit, "the directory is larger than the limit")


# ---- what must be noticed ----

def small_trace(directory, requests=30):
    path = f"{directory}/small.jsonl"
    with open(path, "w") as file:
        for i in range(requests):
            blocks, rest = 20 + 10 * (i // 6), 7 if i % 6 < 3 else 0  # each prompt twice, the second time without a rest
            json.dump({"s": i % 3, "a": 0, "inp": blocks * 64 + rest, "out": 5, "runs": [[1, blocks]]}, file)
            file.write("\n")
    return path


def case_other_bytes(directory):
    """Records whose bytes are those of another model run: every one restored is wrong. Exit code 1."""
    for layout in (PLAIN, ROWS):
        common = (small_trace(directory), "--layout", layout, "--sequential", "--disk", f"{directory}/{layout}")
        expect_ideal(results(*common, "--restart-at", 1))
        found = results(*common, "--seed", 2, code=1)
        expect(found["wrong_bytes"] > found["verified_bytes"] // 2, "other bytes were taken for right")
        expect(found["requests_beyond_ideal"] > 0, "the records of the first run were not found")


def case_rotten_bytes(directory):
    """[I1], fault 22: a flipped byte in a segment is a recompute, never a wrong byte."""
    for layout in (PLAIN, ROWS):
        store = f"{directory}/{layout}"
        common = (small_trace(directory), "--layout", layout, "--sequential", "--disk", store)
        expect_ideal(results(*common, "--restart-at", 1))
        generator, changed = random.Random(1), 0
        for path in sorted(glob.glob(f"{store}/**", recursive=True)):
            if not os.path.isfile(path) or "lmdb" in os.path.basename(path):
                continue
            with open(path, "r+b") as file:
                data = file.read()
                for block in range(4096, len(data), 4096):
                    if any(data[block:block + 4096]) and generator.random() < 0.5:
                        file.seek(block + generator.randrange(64))
                        file.write(b"\xee")
                        changed += 1
        expect(changed > 10, "nothing was changed: no test")
        found = results(*common)
        expect(found["wrong_bytes"] == 0, "a rotten byte was handed out")
        expect(found["tiers"]["disk"]["checksum_failures"] > 0, "no checksum failed: no test")


def case_gone_files(directory):
    """The index without its segments, the segments without their index."""
    for layout in (PLAIN, ROWS):
        for what in ("lmdb", "segments"):
            store = f"{directory}/{layout}-{what}"
            common = (small_trace(directory), "--layout", layout, "--sequential", "--disk", store)
            expect_ideal(results(*common, "--restart-at", 1))
            for path in glob.glob(f"{store}/**", recursive=True):
                name = os.path.basename(path)
                if os.path.isfile(path) and ("lmdb" in name) == (what == "lmdb") and "lock" not in name:
                    os.unlink(path)
            found = results(*common)
            expect(found["wrong_bytes"] == 0, "wrong bytes")
            if what == "lmdb":
                expect(found["requests_beyond_ideal"] > 0, "the index was not rebuilt")


# ---- bad input: a message, exit code 2, nothing written ----

def expect_refused(directory, words, *arguments):
    before = sorted(os.listdir(directory))
    out, err = play(*arguments, code=2)
    expect(out == "" and words in err, f"{arguments}: found `{err}`, expected `{words}`")
    expect(sorted(os.listdir(directory)) == before, f"{arguments}: something was written")


def case_options(directory):
    store = ("--generate", "agent", "--disk", f"{directory}/store")
    for words, *arguments in (
            ("found no trace",),
            ("unrecognized option", *store, "--nosuch"),
            ("--scale: found `0`", *store, "--scale", 0),
            ("--scale: found `-1`", *store, "--scale=-1"),
            ("--memory: found `much`, expected a size", *store, "--memory", "much"),
            ("--memory: found `99999999999T`", *store, "--memory", "99999999999T"),
            ("--requests: found `1e3`", *store, "--requests", "1e3"),
            ("--durability: found `hard`, expected one of: relaxed, strict", *store, "--durability", "hard"),
            ("--restart-at: found `1.5`", *store, "--restart-at", 1.5),
            ("--restart-at: found `nan`", *store, "--restart-at", "nan"),
            ("--crash-at: found `0`", *store, "--crash-at", 0),
            ("expected one of them", *store, "--crash-at", 0.5, "--restart-at", 0.5),
            ("--crash-at needs --disk", "--generate", "agent", "--crash-at", 0.5),
            ("--disk-limit needs --disk", "--generate", "agent", "--disk-limit", "1G"),
            ("--generate: found `chat`, expected one of: agent", "--generate", "chat"),
            ("--format: found `csv`", "--format", "csv", "trace"),
            ("found both a trace and --generate", *store, "trace"),
            ("found a second trace", "one", "two"),
            ("--concurrency: found `0`", *store, "--concurrency", 0),
            ("--disk: found an empty name", "--generate", "agent", "--disk="),
            ("device memory", *store, "--scale", 1, "--requests", 200, "--concurrency", 1024),
    ):
        expect_refused(directory, words, *arguments)
    expect("--crash-at" in play("--help")[0] and "selene-replay " in play("--version")[0], "--help or --version")


def case_bad_layouts(directory):
    good = {"page_tokens": 64, "planes": [{"bytes": 64, "entry_tokens": 1, "entry_bytes": 1}], "description": "m"}
    path = f"{directory}/layout.json"
    store = ("--generate", "agent", "--disk", f"{directory}/store", "--layout")
    changes = (({"page_tokens": 0}, "field `page_tokens`: found 0"), ({"planes": []}, "field `planes`"),
               ({"rank_count": 1000}, "field `rank_count`: found 1000"), ({"row_bytes": -1}, "field `row_bytes`"),
               ({"heads": 8}, "unknown field"), ({"description": None}, "field `description`: found null"),
               ({"planes": [{"bytes": 1 << 40}]}, "field `planes[0].bytes`"),
               ({"planes": [{"bytes": 64, "entry_tokens": 5, "entry_bytes": 1}]}, "field `planes[0].entry_tokens`"))
    for change, words in changes:
        with open(path, "w") as file:
            json.dump({**good, **change}, file)
        expect_refused(directory, f"{path}: {words}", *store, path)
    for text in ("", "{", "\0", "[" * 100000, '{"page_tokens": 1e999}'):
        with open(path, "w") as file:
            file.write(text)
        expect_refused(directory, f"{path}:1:", *store, path)
    expect_refused(directory, "No such file", *store, f"{directory}/none.json")
    expect_refused(directory, "found `gpt-17`, expected a JSON file or a known model", *store, "gpt-17")


def case_bad_traces(directory):
    store = ("--disk", f"{directory}/store")
    path = f"{directory}/trace.jsonl"
    with open(small_trace(directory), "rb") as file:
        good = file.read()
    generator = random.Random(1)
    for words, data in (
            ("found no request", b""), (":1:", b"garbage\n"), (":1:", bytes(generator.randbytes(5000))),
            (":30:", good[:-20]), (":2:", good.split(b"\n")[0] + b"\n{\"s\": 1e99}\n"),
            ("field `runs`", b'{"s": 1, "inp": 999999, "runs": [[1, 1]]}\n'),
            ("field `inp`", b'{"s": 1, "inp": 99999999999999999, "runs": [[1, 1]]}\n'),
            ("maximum parsing depth", b"[" * 200000), ("found an array", b"[]\n"),
            ("expected a request of a trace", b'{"prompt": "hello"}\n')):
        with open(path, "wb") as file:
            file.write(data)
        expect_refused(directory, words, path, *store)
    with open(f"{directory}/t.requests.jsonl", "w") as file:
        file.write('{"in": [[0, 9]], "input_tokens": 9, "out": [9, 1]}\n')
    with open(f"{directory}/t.tokens.u32le", "wb") as file:
        file.write(b"\0" * 39)
    for end in ("tokens.u32le", "requests.jsonl"):
        expect_refused(directory, "t.tokens.u32le: found 39 bytes", f"{directory}/t.{end}", *store)
    os.unlink(f"{directory}/t.tokens.u32le")
    expect_refused(directory, "No such file", f"{directory}/t.requests.jsonl", *store)
    expect_refused(directory, "No such file", f"{directory}/none.jsonl", *store)
    expect_refused(directory, "directory", directory, *store)
    expect_refused(directory, "field `input_length`", small_trace(directory), "--format", "mooncake", *store)


def case_bad_directories(directory):
    common = ("--generate", "agent", "--requests", 5, "--disk")
    with open(f"{directory}/file", "w") as file:
        file.write("x")
    expect_refused(directory, f"{directory}/file", *common, f"{directory}/file")
    expect_refused(directory, f"{directory}/no/store", *common, f"{directory}/no/store")
    if os.path.isdir("/proc/self"):  # not in a bare chroot
        expect_refused(directory, "/proc/nothing", *common, "/proc/nothing")
    expect_refused(directory, "No such file", *common, f"{directory}/store", "--json", f"{directory}/no/out.json")
    expect_refused(directory, "found a directory", *common, f"{directory}/store", "--json", directory)


def case_two_processes(directory):
    """Fault 16. The first process is stopped in the middle of its work while the second tries."""
    arguments = [str(argument) for argument in agent(directory, PLAIN, "--sequential", requests=2000, memory="1G")]
    first = subprocess.Popen([program, "--quiet"] + arguments)
    store, until = f"{directory}/store", time.monotonic() + 60
    while time.monotonic() < until and bytes_in(store) == 0 and first.poll() is None:
        time.sleep(0.01)
    try:
        expect(first.poll() is None, "the first process ended early")
        first.send_signal(signal.SIGSTOP)
        expect_refused(directory, "in use", *arguments)
    finally:
        first.kill()
        first.wait()
    expect_good(results(*agent(directory, PLAIN, "--sequential", requests=20)))


# ---- output ----

def case_results(directory):
    path, small = f"{directory}/out.json", ("--generate", "agent", "--requests", 10, "--memory", "64M")
    out, err = play(*small, "--json", path)
    expect("tokens restored" in out and err == "", "no table, or text on standard error")
    with open(path) as file:
        found = json.load(file)
    for name in ("requests", "tokens_in", "tokens_hit", "hit_ratio", "ideal_hit_ratio", "tokens_hit_by_tier",
                 "verified_bytes", "wrong_bytes", "published_bytes", "disk_written_bytes", "disk_read_bytes",
                 "disk_allocated_bytes", "restore_ms", "recovered_records", "seconds"):
        expect(name in found, f"no {name} in the JSON")
    for tier in ("memory", "disk"):
        expect({"p50", "p99"} <= set(found["restore_ms"][tier]), "no percentiles")
    expect(found["requests"] == 10 and sorted(os.listdir(directory)) == ["out.json"], "requests, or files left")
    expect(play(*small, "--quiet") == ("", ""), "--quiet is not quiet")
    with open("/dev/full", "w") as full:
        done = subprocess.run([program, *map(str, small)], stdout=full, stderr=subprocess.PIPE)
    expect(done.returncode == 2, "a full standard output goes unnoticed")


def case_progress(directory):
    """The bar is drawn on a terminal and leaves nothing of itself."""
    try:
        leader, follower = pty.openpty()
    except OSError as error:
        print(f"skipped: no terminal to draw on: {error}")
        sys.exit(SKIPPED)
    process = subprocess.Popen([program, *map(str, agent(directory, PLAIN, "--sequential"))], stderr=follower,
                               stdout=subprocess.PIPE)
    os.close(follower)
    drawn = b""
    while True:
        try:
            piece = os.read(leader, 4096)
        except OSError:
            break
        if not piece:
            break
        drawn += piece
    table = process.communicate()[0]
    expect(process.returncode == 0 and b"tokens restored" in table, "the replay failed")
    expect(b"replay  [" in drawn and b" / 120" in drawn, f"no bar was drawn: {drawn!r}")
    expect(drawn.endswith(b"\r\x1b[K"), "the bar was left on the screen")


# ---- real traces ----

def shared_trace(name):
    shared = os.environ.get("SELENE_SHARED") or os.path.join(source, "..", "shared")
    path = os.path.join(shared, "traces", name)
    if not os.path.exists(path):
        print(f"skipped: {path} is not there (SELENE_SHARED names the folder above traces/)")
        sys.exit(SKIPPED)
    return path


def trace_play(directory, *arguments):
    """Few requests by default; SELENE_TRACE_FULL=1 plays what the goals name. Memory is too small for all of it, but
    holds the largest single record: with rows a session's first prompt is one."""
    for layout in (PLAIN, ROWS):
        for name, more in (("once", ()), ("restart", ("--restart-at", 0.5)), ("crash", ("--crash-at", 0.5))):
            store = f"{directory}/{layout}-{name}"
            found = results(*arguments, "--sequential", "--layout", layout, "--disk", store, *more)
            if name == "crash":
                expect_good(found)
                expect(found["lost_committed_records"] == 0, "records are lost")
            else:
                expect_ideal(found)
            shutil.rmtree(store)
        expect_good(results(*arguments, "--layout", layout, "--disk", store))
        shutil.rmtree(store)


def full():
    return bool(os.environ.get("SELENE_TRACE_FULL"))


def case_trace_long_session(directory):
    limit = () if full() else ("--requests", 60)
    trace_play(directory, shared_trace("long_session.tokens.u32le"), *limit, "--scale", 4096, "--memory",
               "16M" if full() else "6M")


def case_trace_agent_sessions(directory):
    limit = ("--sessions", 200) if full() else ("--sessions", 3, "--requests", 120)
    trace_play(directory, shared_trace("agent_sessions.runs.jsonl"), *limit, "--scale", 16384, "--memory",
               "256M" if full() else "24M")


def case_trace_mooncake(directory):
    limit = 3000 if full() else 200
    trace_play(directory, shared_trace("mooncake_conversation.jsonl"), "--requests", limit, "--scale", 8192, "--memory",
               "256M" if full() else "16M")


def main():
    global program, source, scratch
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("program", "source", "scratch"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("case")
    arguments = parser.parse_args()
    program, source, scratch = arguments.program, arguments.source, arguments.scratch
    directory = tempfile.mkdtemp(prefix=f"replay-{arguments.case}-", dir=os.environ.get("SELENE_TEST_DIR", scratch))
    try:
        globals()[f"case_{arguments.case}"](directory)
    except Failure as failure:
        print(f"FAILED: {failure}")
        sys.exit(1)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
