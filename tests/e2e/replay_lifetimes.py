#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What becomes of records during a replay: conversations with many checkpoints, offers, the samples of the run.

SCRIPT --program PATH --source DIR --scratch DIR CASE; a CASE is a function case_CASE below.
"""
import shutil
import time

from replay_common import MIDPAGE, PLAIN, ROWS, SHARED_ROWS, expect, expect_good, expect_ideal, expect_thinned, results, run


def conversation(*more, layout=MIDPAGE, turns=40, context=12000):
    return ("--generate", "conversation", "--turns", turns, "--context", context, "--layout", layout, "--scale", 64,
            "--sequential", *more)


def case_conversation(directory):
    """[O1, O2] Deferred captures are offered when they are resumed; the same tokens are restored as without deferring.
    What is drained is found after a restart."""
    for more in ((), ("--rerender",), ("--conversations", 3), ("--checkpoints-per-turn", 2), ("--spare-rows", 0)):
        hits = []
        for index, plain in enumerate(((), ("--no-thin", "--no-pack", "--no-defer"))):
            store = f"{directory}/{len(more)}{more[-1:]}{index}"
            found = results(*conversation(*more, *plain, "--memory", "512M", "--disk", store, "--drain-at-end"))
            expect_ideal(found, "memory")
            hits.append(found["tokens_hit"])
            offers, drain, records = found["offers"], found["drain"], found["records_by_tier"]
            turns = found["requests"]
            if plain:
                expect(offers["deferred"] == 0 and found["rows_thinned_by_tier"]["memory"] == 0, "deferred, or thinned")
                expect(found["thinned_ideal_tokens_hit"] == found["ideal_tokens_hit"], "the ideals differ")
            else:
                expect(offers["deferred"] >= turns, "replies are not deferred")
                expect(offers["resumed"] == (0 if "--rerender" in more else turns - conversations_in(more)),
                       "other captures were resumed than the replies that came back")
            expect(offers["deferred"] == offers["resumed"] + offers["dropped"], "deferred captures are not accounted for")
            expect(offers["made"] == found["publishes"] + found["publishes_present"], "offers and publishes differ")
            expect(drain["written"] > 0 and sum(drain["skipped"].values()) == 0, "the drain left records")
            expect(records["disk"] == records["memory"] > 0, "records are not on disk after the drain")
            shutil.rmtree(store)
        expect(hits[0] == hits[1], "thinning, packing or deferring cost hits")


def case_thinned(directory):
    """[T1-T8] With 0, 1 and 2 spare rows, and without thinning, deferring, or both, when all is kept."""
    for layout in (ROWS, SHARED_ROWS):
        common = ("--generate", "agent", "--requests", 300, "--layout", layout, "--scale", 16384, "--sequential",
                  "--memory", "1G")
        hits, rows = {}, {}
        for more in ((), ("--spare-rows", 0), ("--spare-rows", 2), ("--no-thin",), ("--no-defer",),
                     ("--no-thin", "--no-defer")):
            found = results(*common, *more)
            expect_thinned(found, "memory")
            hits[more], rows[more] = found["tokens_hit"], found["rows_by_tier"]["memory"]
            expect((found["rows_thinned_by_tier"]["memory"] > 0) == ("--no-thin" not in more), "thinned, or not")
        expect(found["tokens_hit"] == found["ideal_tokens_hit"], "all was kept and offered, and not all was hit")
        expect(rows["--spare-rows", 0] < rows[()] < rows["--spare-rows", 2] < rows["--no-thin",], "rows held")
        expect(hits["--spare-rows", 0] < hits[()] <= hits["--spare-rows", 2] <= hits["--no-thin",], "hits")
    for more in ((), ("--rerender",), ("--conversations", 3)):
        expect_thinned(results(*conversation(*more, "--memory", "512M")), "memory")


def conversations_in(more):
    return int(more[more.index("--conversations") + 1]) if "--conversations" in more else 1


def case_long_conversation(directory):
    """Goal P5 [T1-T8, K1, O1]: 170 turns to 130,000 tokens with four checkpoints each, four ranks that hold the same, take
    30 times fewer bytes in memory and on disk, and 20 times fewer slots, than with everything kept. Planes are padded to
    64 bytes in slots: at a scale above 64 slots of pages are mostly padding, and rows take too few of them."""
    for rerender in ((), ("--rerender",)):
        found = []
        for plain in ((), ("--no-thin", "--no-pack", "--no-defer")):
            store = f"{directory}/{len(found)}"
            found.append(results("--generate", "conversation", "--sequential", "--layout", MIDPAGE, "--scale", 64, "--memory",
                                 "1G", "--disk", store, "--drain-at-end", *rerender, *plain))
            expect_ideal(found[-1], "memory")
            shutil.rmtree(store)
        kept, all_kept = found
        expect(kept["tokens_hit"] == all_kept["tokens_hit"], "other tokens were resumed")
        for tier in ("memory", "disk"):
            expect(kept["packed_records_by_tier"][tier] == kept["records_by_tier"][tier], f"{tier}: not all is packed")
            expect(all_kept["per_rank_records_by_tier"][tier] == all_kept["records_by_tier"][tier], f"{tier}: packed")
            factor = all_kept["held_bytes_by_tier"][tier] / kept["held_bytes_by_tier"][tier]
            print(f"{tier}: {factor:.1f} times fewer bytes")
            expect(factor >= 30, f"{tier}: {factor} times fewer bytes, expected 30")
        factor = all_kept["slots"]["used"] / kept["slots"]["used"]
        print(f"{factor:.1f} times fewer slots")
        expect(factor >= 20, f"{factor} times fewer slots, expected 20")


def case_burst(directory):
    """128 conversations, 32 at once. They share nothing, so each is restored as if it were alone wherever there is room:
    no publication is lost, in any combination of tiers. In a memory that is too small, what was dropped is counted."""
    common = ("--generate", "conversation", "--conversations", 128, "--turns", 5, "--context", 2000, "--concurrency", 32,
              "--scale", 256, "--layout")
    for layout in (PLAIN, MIDPAGE):
        for tiers in (("--memory", "1G"), ("--memory", "1G", "--disk"), ("--memory", "32M", "--disk"),
                      ("--memory", 0, "--disk")):
            store = (f"{directory}/{layout}{len(tiers)}{tiers[1]}",) if "--disk" in tiers else ()
            found = results(*common, layout, *tiers, *store)
            expect_ideal(found)
            expect(found["thinned_ideal_tokens_hit"] == found["ideal_tokens_hit"], "thinning cost hits")
            lost = ("publishes_abandoned", "publishes_oversize", "publishes_failed", "restores_short", "dropped_records")
            expect(all(found[name] == 0 for name in lost), f"lost: { {name: found[name] for name in lost} }")
            if store:
                shutil.rmtree(*store)
        found = results(*common, layout, "--memory", "8M")
        expect(found["wrong_bytes"] == 0 and found["invariant_failures"] == 0, "wrong bytes, or an invariant is broken")
        expect(found["evictions_by_tier"]["memory"] > 0, "memory was large enough: no test")
        if layout == MIDPAGE:  # without rows a publish makes several records
            gone = found["evictions_by_tier"]["memory"] + found["dropped_records"] + found["publishes_failed"]
            expect(found["publishes"] == found["records_by_tier"]["memory"] + gone, "records went uncounted")


def case_max_age(directory):
    """[A1] Age counts across restarts: records of an earlier run expire in the first sweep of a later one, or not yet."""
    for layout in (PLAIN, ROWS):
        common = ("--generate", "agent", "--requests", 40, "--layout", layout, "--scale", 4096, "--sequential", "--memory",
                  "64M", "--disk", f"{directory}/{layout}", "--drain-at-end")
        found = results(*common)
        expect_good(found, "memory")
        time.sleep(2.5)
        found = results(*common, "--max-age", 3600)
        expect_good(found, "disk")
        expect(sum(found["expiries_by_tier"].values()) == 0, "records expired too early")
        found = results(*common, "--max-age", 1)
        expect(found["wrong_bytes"] == 0 and found["invariant_failures"] == 0, "wrong bytes, or an invariant is broken")
        expect(found["expiries_by_tier"]["disk"] > 0, "nothing expired")
        expect(found["evictions_by_tier"]["disk"] == 0, "what expired was counted as evicted")


def case_drain_without_room(directory):
    """[P8, D6] A disk that is too small for all: what the drain left is counted, and nothing else is wrong."""
    for layout in (PLAIN, ROWS):
        found = results("--generate", "agent", "--requests", 200, "--layout", layout, "--scale", 1024, "--memory", "512M",
                        "--sequential", "--no-defer", "--no-thin", "--disk", f"{directory}/{layout}", "--disk-limit", "8M",
                        "--drain-at-end")
        expect_good(found, "memory")
        expect(found["drain"]["skipped"]["room"] > 0, "nothing was left: no test")
        expect(found["disk_allocated_bytes"] <= 8 << 20, "more allocated than the limit")


def case_series(directory):
    """At most about 500 samples; they end with what the whole run came to, after the drain."""
    for requests in (1, 499, 500, 1200):
        found = results("--generate", "agent", "--requests", requests, "--layout", PLAIN, "--scale", 65536, "--memory", "64M",
                        "--disk", f"{directory}/{requests}", "--drain-at-end")
        series = found["series"]
        expect(0 < len(series) <= 502, f"{len(series)} samples")
        for one, after in zip(series, series[1:]):
            expect(one["request"] <= after["request"] and one["tokens_in"] <= after["tokens_in"] and
                   one["tokens_hit"] <= after["tokens_hit"], "samples out of order")
        last = series[-1]
        expect(last["request"] == requests, "the last request has no sample")
        for name in ("tokens_in", "tokens_hit", "records_by_tier", "held_bytes_by_tier", "disk_written_bytes"):
            expect(last[name] == found[name], f"{name}: the last sample differs from the whole")
        expect(last["records_by_tier"]["disk"] > 0 and last["disk_allocated_bytes"] > 0, "no sample after the drain")


if __name__ == "__main__":
    run(__doc__, globals())
