#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What thinning, packing and deferred offers save: the same conversations with all of it and with none.

  compare.py BUILD OUT [--scale N] [--scale-many N] [--keep]

1. One conversation of 170 turns to 130,000 tokens, four checkpoints a turn, in a memory that is large enough, drained to
   disk at the end; and again with a client that re-renders replies, so that no request resumes at the end of one.
2. 32 such conversations in a memory that holds a tenth of the bytes that they take without any of it.

Model: DeepSeek-V4-Flash on four ranks, with a row of 15,425,920 bytes a rank at any position. Its bytes are divided by
--scale (16) for 1 and by --scale-many (256) for 2: at full size the plain run of 1 holds 43 GiB, that of 2 1.4 TiB. Slots
are whole pages of 4 KiB, so that small bytes are padded more than large ones; bytes held are counted without padding.

Writes results (JSON), drawings (SVG) and compare.md into OUT, prints the latter, and fails when a byte was wrong, or
bytes or slots of 1 shrink by less than the goals. --keep: what is in OUT is not played again, if scale and memory are
the same.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys

LAYOUT = "deepseek-v4-flash-tp4-midpage"
PLAIN = ("--no-thin", "--no-pack", "--no-defer")
BYTES_GOAL, SLOTS_GOAL = 30, 20
CONVERSATIONS = 32
MEMORY_ONE = 60 << 30  # at full size: more than the plain run takes, padding included


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def play(setup, name, scale, memory, *options):
    """Plays a run in a store of its own and returns its results."""
    path, store = os.path.join(setup.out, name + ".json"), os.path.join(setup.out, name + ".store")
    kept = load(path) if setup.keep and os.path.exists(path) else {}
    if (kept.get("scale"), kept.get("memory_bytes")) != (scale, memory):
        shutil.rmtree(store, ignore_errors=True)
        command = [os.path.join(setup.build, "tools", "selene-replay"), "--generate", "conversation", "--layout", LAYOUT,
                   "--turns", "170", "--context", "130000", "--checkpoints-per-turn", "4", "--disk", store,
                   "--drain-at-end", "--json", path, "--scale", str(scale), "--memory", str(memory),
                   *map(str, options)]
        print("compare:", *command, file=sys.stderr, flush=True)
        try:
            # Its table is not wanted, its progress and warnings, on standard error, are.
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        finally:
            shutil.rmtree(store, ignore_errors=True)
    return load(path)


def draw(setup, name, *runs):
    results = [os.path.join(setup.out, run + ".json") for run in runs]
    subprocess.run([os.path.join(setup.build, "tools", "selene-replay"), "--plot",
                    os.path.join(setup.out, name + ".svg"), *results], check=True)


def size(count):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 10240 or unit == "GiB":
            return f"{count:,.0f} B" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024


def ratio(plain, full):
    if not (plain and full):
        return "-"
    return f"{plain / full:.1f}" if plain >= full else f"1 : {full / plain:.1f}"


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " ---: |" * (len(heads) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


# Name, how to find it, how to write it, whether plain : full means something.
HELD = (
    ("offers made", lambda run: run["offers"]["made"], "{:,}".format, True),
    ("captures never offered", lambda run: run["offers"]["dropped"], "{:,}".format, False),
    ("records in memory", lambda run: run["records_by_tier"]["memory"], "{:,}".format, True),
    ("rows in memory", lambda run: run["rows_by_tier"]["memory"], "{:,}".format, True),
    ("bytes held in memory", lambda run: run["held_bytes_by_tier"]["memory"], size, True),
    ("slots used", lambda run: run["slots"]["used"], "{:,}".format, True),
    ("records on disk", lambda run: run["records_by_tier"]["disk"], "{:,}".format, True),
    ("bytes held on disk", lambda run: run["held_bytes_by_tier"]["disk"], size, True),
    ("bytes written to disk, drain included", lambda run: run["disk_written_bytes"], size, True),
)
PRESSED = (
    ("evictions from memory", lambda run: run["evictions_by_tier"]["memory"], "{:,}".format, True),
    ("publishes given up", lambda run: run["publishes_abandoned"], "{:,}".format, False),
    ("tokens restored from disk", lambda run: run["tokens_hit_by_tier"]["disk"], "{:,}".format, True),
)
HITS = (
    ("tokens restored", lambda run: run["tokens_hit"], "{:,}".format, False),
    ("hit ratio", lambda run: 100 * run["hit_ratio"], "{:.3f} %".format, False),
    ("of an endless cache, under the same rules", lambda run: 100 * run["thinned_ideal_hit_ratio"], "{:.3f} %".format,
     False),
    ("wrong bytes", lambda run: run["wrong_bytes"], "{:,}".format, False),
)


def rows(kinds, pairs):
    for name, find, write, compared in kinds:
        row = [name]
        for plain, full in pairs:
            row += [write(find(plain)), write(find(full)), ratio(find(plain), find(full)) if compared else ""]
        yield row


def wrong_bytes(name, *runs):
    return [f"{name}{run['wrong_bytes']:,} wrong bytes" for run in runs if run["wrong_bytes"]]


def compare_one(setup):
    """The first table, and what missed its goal."""
    pairs, missed = [], []
    for name, options in (("one", ()), ("one-rerender", ("--rerender",))):
        memory = MEMORY_ONE // setup.scale
        common = (setup.scale, memory, "--sequential", *options)
        pairs.append((play(setup, name + "-plain", *common, *PLAIN), play(setup, name + "-full", *common)))
        draw(setup, name, name + "-plain", name + "-full")
    for (plain, full), name in zip(pairs, ("", "re-rendered: ")):
        missed += wrong_bytes(name, plain, full)
        if plain["evictions_by_tier"]["memory"] or full["evictions_by_tier"]["memory"]:
            missed.append(name + "the memory was too small")
        if plain["tokens_hit"] != full["tokens_hit"]:
            missed.append(f"{name}{full['tokens_hit']:,} tokens restored instead of {plain['tokens_hit']:,}")
        for what, goal, find in (("bytes in memory", BYTES_GOAL, lambda run: run["held_bytes_by_tier"]["memory"]),
                                 ("bytes on disk", BYTES_GOAL, lambda run: run["held_bytes_by_tier"]["disk"]),
                                 ("slots", SLOTS_GOAL, lambda run: run["slots"]["used"])):
            if not find(full) or find(plain) < goal * find(full):
                missed.append(f"{name}{what}: {ratio(find(plain), find(full))} times fewer, expected {goal}")
    heads = ("one conversation", "plain", "full", "plain : full", "re-rendered, plain", "re-rendered, full",
             "plain : full")
    text = f"Bytes of pages and rows divided by {setup.scale}.\n\n" + table(heads, rows(HELD + HITS, pairs))
    return text, missed, pairs[0][0]


def compare_many(setup, plain_one):
    """The second table, and what was wrong. What the plain runs would hold is the one conversation's, times 32."""
    plain_bytes = CONVERSATIONS * plain_one["held_bytes_by_tier"]["memory"] * setup.scale // setup.scale_many
    common = (setup.scale_many, plain_bytes // 10, "--conversations", CONVERSATIONS)
    pair = play(setup, "many-plain", *common, *PLAIN), play(setup, "many-full", *common)
    draw(setup, "many", "many-plain", "many-full")
    heads = (f"{CONVERSATIONS} conversations", "plain", "full", "plain : full")
    return (f"Bytes of pages and rows divided by {setup.scale_many}; a memory of {size(plain_bytes // 10)}, a tenth of the "
            f"{size(plain_bytes)} that the plain records take (as {CONVERSATIONS} times those of one conversation); "
            f"{pair[0]['concurrency']} requests at a time.\n\n" + table(heads, rows(HELD + PRESSED + HITS, [pair])),
            wrong_bytes("many: ", *pair))


def divisor(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text}, expected 1 or more")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("out")
    parser.add_argument("--scale", type=divisor, default=16)
    parser.add_argument("--scale-many", type=divisor, default=256)
    parser.add_argument("--keep", action="store_true")
    setup = parser.parse_args()
    os.makedirs(setup.out, exist_ok=True)
    one, missed, plain_one = compare_one(setup)
    many, missed_by_many = compare_many(setup, plain_one)
    text = one + "\n\n" + many + "\n"
    with open(os.path.join(setup.out, "compare.md"), "w", encoding="utf-8") as file:
        file.write(text)
    print(text, end="")
    for problem in missed + missed_by_many:
        print("compare:", problem, file=sys.stderr)
    return 1 if missed + missed_by_many else 0


if __name__ == "__main__":
    sys.exit(main())
