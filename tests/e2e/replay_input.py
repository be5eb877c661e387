#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad input of selene-replay gets a message, exit code 2, and leaves nothing behind.

SCRIPT --program PATH --source DIR --scratch DIR CASE; a CASE is a function case_CASE below.
"""
import json
import os
import random
import signal
import subprocess
import time
import xml.etree.ElementTree

import replay_common as common
from replay_common import PLAIN, agent, bytes_in, expect, expect_good, play, results, run, small_trace


def expect_refused(directory, words, *arguments):
    before = sorted(os.listdir(directory))
    out, err = play(*arguments, code=2)
    expect(out == "" and words in err, f"{arguments}: found `{err}`, expected `{words}`")
    expect(sorted(os.listdir(directory)) == before, f"{arguments}: something was written")


def case_options(directory):
    store = ("--generate", "agent", "--disk", f"{directory}/store")
    talk = ("--generate", "conversation", "--disk", f"{directory}/store")
    for words, *arguments in (
            ("found no trace",),
            ("unrecognized option", *store, "--nosuch"),
            ("--scale: found `0`", *store, "--scale", 0),
            ("--scale: found `-1`", *store, "--scale=-1"),
            ("--memory: found `much`, expected a size", *store, "--memory", "much"),
            ("--memory: found `99999999999T`", *store, "--memory", "99999999999T"),
            ("--seed: found `99999999999999999999`, expected 0 to 18446744073709551615", *store, "--seed",
             "99999999999999999999"),
            ("--requests: found `1e3`", *store, "--requests", "1e3"),
            ("--durability: found `hard`, expected one of: relaxed, strict", *store, "--durability", "hard"),
            ("--restart-at: found `1.5`", *store, "--restart-at", 1.5),
            ("--restart-at: found `nan`", *store, "--restart-at", "nan"),
            ("--crash-at: found `0`", *store, "--crash-at", 0),
            ("expected one of them", *store, "--crash-at", 0.5, "--restart-at", 0.5),
            ("--crash-at needs --disk", "--generate", "agent", "--crash-at", 0.5),
            ("--disk-limit needs --disk", "--generate", "agent", "--disk-limit", "1G"),
            ("--generate: found `chat`, expected one of: agent, conversation", "--generate", "chat"),
            ("--drain-at-end needs --disk", "--generate", "agent", "--drain-at-end"),
            ("--spare-rows: found `-1`, expected a whole number", *store, "--spare-rows=-1"),
            ("--threads: found `257`, expected 1 to 256", *store, "--threads", 257),
            ("--spare-rows: found `65`, expected 0 to 64", *store, "--spare-rows", 65),
            ("--max-age: found `1d`, expected a whole number", *store, "--max-age", "1d"),
            ("--max-age: found `3153600001`", *store, "--max-age", 3153600001),
            ("--conversations: found `0`, expected 1 to", *talk, "--conversations", 0),
            ("--turns: found `0`, expected 1 to", *talk, "--turns", 0),
            ("--turns: found `x`, expected a whole number", *talk, "--turns", "x"),
            ("--context: found `16777217`", *talk, "--context", 16777217),
            ("--context: found 100, expected at least 2550 for 170 turns of 4 checkpoints", *talk, "--context", 100),
            ("--checkpoints-per-turn: found `1`, expected 2 to 64", *talk, "--checkpoints-per-turn", 1),
            ("--conversations: found 60000 of 2000 turns, expected at most", *talk, "--conversations", 60000, "--turns",
             2000),
            ("found --sessions with --generate conversation, expected --conversations", *talk, "--sessions", 2),
            ("--conversations needs --generate conversation", *store, "--conversations", 2),
            ("--turns needs --generate conversation", *store, "--turns", 2),
            ("--context needs --generate conversation", "trace", "--context", 1000),
            ("--checkpoints-per-turn needs --generate conversation", *store, "--checkpoints-per-turn", 2),
            ("--rerender needs --generate conversation", "trace", "--rerender"),
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
    first = subprocess.Popen([common.program, "--quiet"] + arguments)
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


def case_plot(directory):
    """A run draws itself; files of results are drawn side by side; results that hold anything are refused."""
    small, results_file, drawing = ("--generate", "agent", "--requests", 20), f"{directory}/a.json", f"{directory}/a.svg"
    play(*small, "--quiet", "--json", results_file, "--plot", drawing)
    alone = xml.etree.ElementTree.parse(drawing)
    play("--plot", drawing, results_file, results_file)
    both = xml.etree.ElementTree.parse(drawing)
    count = len(alone.findall(".//{http://www.w3.org/2000/svg}polyline"))
    expect(count > 0 and len(both.findall(".//{http://www.w3.org/2000/svg}polyline")) == 2 * count, "no two columns")
    expect(play("--plot", "-", results_file)[0].startswith("<?xml"), "nothing on standard output")
    os.unlink(drawing)
    with open(results_file) as file:
        found = json.load(file)
    bad = f"{directory}/bad.json"
    changes = ({"series": []}, {"series": None}, {"series": [{}]}, {"slots": 7}, {"scale": 0}, {"form": 1},
               {"series": [dict(found["series"][0], slots_used=-1)]},
               {"series": [dict(found["series"][0], tokens_in=float("nan"))]},
               {"series": found["series"][::-1]})
    for change in changes:
        with open(bad, "w") as file:
            json.dump({**found, **change}, file)
        expect_refused(directory, f"{bad}:", "--plot", drawing, results_file, bad)
    expect_refused(directory, "found a third file", "--plot", drawing, bad, bad, bad)
    expect_refused(directory, "found results to draw and --generate", *small, "--plot", drawing, bad)
    expect_refused(directory, "No such file", *small, "--plot", f"{directory}/none/a.svg")
    # The drawing forgotten, or in the place of the results: they would be lost.
    expect_refused(directory, "expected a file to draw into", "--plot", results_file, results_file)
    expect_refused(directory, "where --json writes already", *small, "--json", drawing, "--plot", drawing)


if __name__ == "__main__":
    run(__doc__, globals())
