#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""selene-replay as a user runs it: what it reports of a store that works, restarts or is killed; that it notices wrong
bytes; its output.

SCRIPT --program PATH --source DIR --scratch DIR CASE; a CASE is a function case_CASE below.
"""
import glob
import json
import os
import pty
import random
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

import replay_common as common
from replay_common import (PLAIN, ROWS, SHARED_ROWS, SKIPPED, agent, bytes_in, expect, expect_good, expect_ideal, expect_thinned,
                           play, results, run, small_trace)


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
                # Packed records need less of it.
                found = results(*agent(name, layout, "--sequential", "--durability", durability, "--crash-at", fraction,
                                       memory="2M" if layout == SHARED_ROWS else "8M"))
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
    expect_ideal(results("--generate", "agent", "--requests", 12, "--layout", f"{common.source}/docs/examples/layout.json",
                         "--sequential"))


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


# ---- output ----

def case_results(directory):
    path, small = f"{directory}/out.json", ("--generate", "agent", "--requests", 10, "--memory", "64M")
    out, err = play(*small, "--json", path)
    expect("tokens restored" in out and err == "", "no table, or text on standard error")
    with open(path) as file:
        found = json.load(file)
    for name in ("requests", "tokens_in", "tokens_hit", "hit_ratio", "ideal_hit_ratio", "tokens_hit_by_tier",
                 "verified_bytes", "wrong_bytes", "published_bytes", "disk_written_bytes", "disk_read_bytes",
                 "disk_allocated_bytes", "slots", "records_by_tier", "held_bytes_by_tier", "rows_by_tier",
                 "rows_thinned_by_tier", "packed_records_by_tier", "per_rank_records_by_tier", "offers",
                 "retries_abandoned", "evictions_by_tier", "expiries_by_tier", "spills", "drain",
                 "thinned_ideal_hit_ratio", "series", "restore_ms", "recovered_records", "seconds"):
        expect(name in found, f"no {name} in the JSON")
    with open(f"{common.source}/docs/man/selene-replay.1") as file:
        page = file.read().replace("\\-", "-")
    for name in (*found, *found["series"][0]):
        expect(re.search(rf"\b{name}\b", page), f"selene-replay(1) says nothing of the field {name}")
    told, known = (set(re.findall(r"--([a-z][a-z-]+)", text)) for text in (page, play("--help")[0]))
    expect(told == known, f"options in --help or selene-replay(1) only: {told ^ known}")
    for tier in ("memory", "disk"):
        expect({"p50", "p99"} <= set(found["restore_ms"][tier]), "no percentiles")
    expect(found["requests"] == 10 and sorted(os.listdir(directory)) == ["out.json"], "requests, or files left")
    expect(play(*small, "--quiet") == ("", ""), "--quiet is not quiet")
    with open("/dev/full", "w") as full:
        done = subprocess.run([common.program, *map(str, small)], stdout=full, stderr=subprocess.PIPE)
        listed = subprocess.run([common.program, "--list-layouts"], stdout=full, stderr=subprocess.PIPE, text=True)
    expect(done.returncode == 2, "a full standard output goes unnoticed")
    expect(listed.returncode == 2 and "standard output" in listed.stderr, "--list-layouts into a full file: unnoticed")


def case_metrics(directory):
    """Counters are served while it plays; a bad address is told before anything is written."""
    common_options = ("--generate", "agent", "--requests", 4000, "--scale", 1024, "--memory", "8M")
    process = subprocess.Popen([common.program, *map(str, common_options), "--metrics", "127.0.0.1:0"],
                               stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    try:
        url = process.stderr.readline().split()[-1]
        text = ""
        while not text:
            expect(process.poll() is None, "it ended before its counters were seen")
            try:
                with urllib.request.urlopen(url, timeout=60) as answer:
                    expect(answer.headers["Content-Type"] == "text/plain; version=0.0.4", "not Prometheus text")
                    text = answer.read().decode()
            except urllib.error.HTTPError as error:
                expect(error.code == 503, f"found {error.code}")
        expect('selene_records{tier="memory"} ' in text and "# TYPE selene_lookups_total counter" in text, text)
    finally:
        process.kill()
        process.communicate()
    for address in ("nowhere", "127.0.0.1:65536", ""):
        found = subprocess.run([common.program, *map(str, common_options), "--metrics", address, "--disk",
                                f"{directory}/never"], capture_output=True, text=True)
        expect(found.returncode == 2 and "expected HOST:PORT" in found.stderr, f"{address}: {found.stderr}")
        expect(not os.path.exists(f"{directory}/never"), "a store was opened")


def case_progress(directory):
    """The bar is drawn on a terminal and leaves nothing of itself."""
    try:
        leader, follower = pty.openpty()
    except OSError as error:
        print(f"skipped: no terminal to draw on: {error}")
        sys.exit(SKIPPED)
    process = subprocess.Popen([common.program, *map(str, agent(directory, PLAIN, "--sequential"))], stderr=follower,
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
    shared = os.environ.get("SELENE_SHARED") or os.path.join(common.source, "..", "shared")
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
        expect_thinned(results(*arguments, "--sequential", "--layout", layout, "--memory", "6G" if full() else "1G"))
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


if __name__ == "__main__":
    run(__doc__, globals())
