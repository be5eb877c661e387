#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What scripts/compare.py makes of results: which it accepts, which it refuses, which it plays again.

SCRIPT --source DIR; the runs are made up.
"""
import argparse
import contextlib
import copy
import importlib
import io
import json
import os
import sys
import tempfile

TIERS = {"memory": 0, "disk": 0}
PLAIN = {"concurrency": 4, "offers": {"made": 680, "dropped": 0}, "records_by_tier": {"memory": 680, "disk": 680},
         "rows_by_tier": TIERS, "held_bytes_by_tier": {"memory": 4000 << 20, "disk": 4000 << 20},
         "slots": {"used": 9000}, "disk_written_bytes": 4000 << 20, "evictions_by_tier": TIERS,
         "publishes_abandoned": 0, "tokens_hit": 700, "tokens_hit_by_tier": TIERS, "hit_ratio": 0.9, "thinned_ideal_hit_ratio": 0.9, "wrong_bytes": 0}
FULL = {**PLAIN, "held_bytes_by_tier": {"memory": 100 << 20, "disk": 100 << 20}, "slots": {"used": 300}}


class Runs:
    """Stands for subprocess.run: makes results up, those of full runs changed by `change`."""

    def __init__(self, change=lambda run: None):
        self.change, self.played = change, 0

    def __call__(self, command, check, stdout=None):
        assert check
        if "--json" not in command:
            return
        self.played += 1
        run = copy.deepcopy(PLAIN if "--no-thin" in command else FULL)
        run["scale"] = int(command[command.index("--scale") + 1])
        run["memory_bytes"] = int(command[command.index("--memory") + 1])
        if "--no-thin" not in command:
            self.change(run)
        with open(command[command.index("--json") + 1], "w", encoding="utf-8") as file:
            json.dump(run, file)


def compare(module, out, runs, *options):
    """Exit code and what it said."""
    said, module.subprocess.run = io.StringIO(), runs
    sys.argv = ["compare.py", "build", out, *options]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = module.main()
    return code, said.getvalue()


def expect_missed(module, words, change):
    with tempfile.TemporaryDirectory() as out:
        code, said = compare(module, out, Runs(change))
        assert code == 1 and words in said, f"found {code} and `{said}`, expected `{words}`"
        # What was kept is judged as well.
        code, said = compare(module, out, Runs(), "--keep")
        assert code == 1 and words in said, f"kept: found {code} and `{said}`, expected `{words}`"


def expect_kept(module):
    with tempfile.TemporaryDirectory() as out:
        runs = Runs()
        code, said = compare(module, out, runs)
        assert code == 0 and "Bytes of pages and rows divided by 16" in said, said
        assert runs.played == 6, runs.played
        code, said = compare(module, out, runs, "--keep")
        assert code == 0 and runs.played == 6, runs.played
        code, said = compare(module, out, runs, "--keep", "--scale", "32")
        assert code == 0 and runs.played == 12, f"played {runs.played - 6} of 6 runs at another scale"
        assert os.path.exists(os.path.join(out, "compare.md"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    sys.path.insert(0, os.path.join(parser.parse_args().source, "scripts"))
    module = importlib.import_module("compare")
    expect_kept(module)
    for run in ("re-rendered", "many"):
        expect_missed(module, f"{run}: 1 wrong bytes", lambda run: run.update(wrong_bytes=1))
    expect_missed(module, "tokens restored instead of", lambda run: run.update(tokens_hit=699))
    expect_missed(module, "slots: 10.0 times fewer", lambda run: run.update(slots={"used": 900}))
    expect_missed(module, "memory was too small", lambda run: run.update(evictions_by_tier={"memory": 1}))
    for tier in TIERS:  # nothing there is not a saving
        expect_missed(module, f"bytes {'on' if tier == 'disk' else 'in'} {tier}",
                      lambda run, tier=tier: run["held_bytes_by_tier"].update({tier: 0}))


if __name__ == "__main__":
    main()
