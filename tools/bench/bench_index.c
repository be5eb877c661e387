/* SPDX-License-Identifier: Apache-2.0
 *
 * Group `index`, first part: the prefix tree in memory with --records records, conversations of 130,050 tokens with a
 * record a turn (bench_tree.h). Look-ups are timed one by one, each for another conversation, so that the caches hold
 * little of what it needs; keys are known beforehand (goal P6). Bytes a record: P10. The second part
 * opens a store (bench_open.c).
 */
#include "tools/bench/bench_engine.h"
#include "tools/bench/bench_open.h"
#include "tools/bench/bench_tree.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdlib.h>

#define TALKS     64 /* conversations with real keys: looked up */
#define NEW_TURNS 20000

struct forest {
    struct sel_layout *layout;
    struct sel_tree *tree;
    struct sel_random random;
    struct sel_prefix *known[TALKS], *unknown[TALKS];
    uint64_t clock;
};

static int add_turn(struct forest *forest, const struct bench_turn *turn, struct sel_node **node) {
    struct sel_node_spec spec = turn->spec;
    spec.parent = *node;
    int rc = sel_tree_insert(forest->tree, &spec, node);
    if (rc == 0)
        rc = sel_tree_add_to(forest->tree, *node, SEL_TIER_DISK, false);
    if (rc == 0)
        sel_tree_touch(forest->tree, *node, ++forest->clock);
    return rc;
}

static int add_talk(struct forest *forest, const struct sel_prefix *prefix, unsigned turns) {
    struct bench_turn turn;
    struct sel_key base = {{0}};
    struct sel_node *node = NULL;
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < turns; i++) {
        bench_turn_make(&turn, i, prefix, &forest->random, forest->layout->ns, &base);
        rc = add_turn(forest, &turn, &node);
    }
    return rc;
}

static int grow_forest(struct forest *forest, uint64_t records) {
    int rc = bench_small_layout(&forest->layout, 4096);
    sel_random_seed(&forest->random, 1);
    if (rc == 0)
        rc = sel_tree_create(&forest->tree, 12345);
    for (uint64_t talk = 0; rc == 0 && talk < TALKS; talk++) {
        rc = bench_talk_prefix(&forest->known[talk], forest->layout, talk, BENCH_TALK_TOKENS);
        if (rc == 0)
            rc = bench_talk_prefix(&forest->unknown[talk], forest->layout, talk + 100000, BENCH_TALK_TOKENS);
    }
    /* The known ones are spread among the others, as they would be. */
    uint64_t talks = SEL_MAX(records / BENCH_TURNS, TALKS), step = talks / TALKS, known = 0;
    for (uint64_t talk = 0; rc == 0 && talk < talks; talk++)
        rc = add_talk(forest, talk % step == 0 && known < TALKS ? forest->known[known++] : NULL, BENCH_TURNS);
    return rc;
}

static void fell_forest(struct forest *forest) {
    for (unsigned i = 0; i < TALKS; i++) {
        sel_prefix_destroy(&forest->known[i]);
        sel_prefix_destroy(&forest->unknown[i]);
    }
    if (forest->tree)
        sel_tree_destroy(&forest->tree);
    sel_layout_destroy(&forest->layout);
}

static bool any_row(void *context, const struct sel_node *node) {
    (void)context, (void)node;
    return true;
}

/* Times one look-up of each conversation; microseconds. A wrong answer is an error: it would be no look-up. */
static int look_up(struct forest *forest, struct sel_prefix *const *prefixes, uint64_t expected,
                   struct bench_series *median, struct bench_series *slowest) {
    struct bench_series times = {.count = 0};
    for (unsigned i = 0; i < TALKS; i++) {
        uint64_t from = bench_now_ns();
        struct sel_match match = sel_tree_longest(forest->tree, prefixes[i], BENCH_TALK_TOKENS, true, any_row, NULL);
        bench_add(&times, (double)(bench_now_ns() - from) / 1000);
        if (match.tokens != expected)
            return SELENE_E_INTERNAL;
    }
    bench_add(median, bench_median(&times));
    bench_add(slowest, bench_most(&times));
    return 0;
}

/* Puts what the caches held of the tree out of them, as a busy process between two look-ups does. */
static void flush_caches(uint8_t *memory, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64)
        memory[i]++;
}

struct tree_series {
    struct bench_series hit, hit_slowest, miss, miss_slowest, insert;
};

static int measure_tree(struct forest *forest, unsigned rounds, struct tree_series *series) {
    size_t flush_bytes = (size_t)128 << 20;
    uint8_t *flush = bench_memory(flush_bytes, 9);
    int rc = flush ? 0 : SELENE_E_NOMEM;
    for (unsigned round = 0; rc == 0 && round < rounds; round++) {
        flush_caches(flush, flush_bytes);
        rc = look_up(forest, forest->known, BENCH_TALK_TOKENS, &series->hit, &series->hit_slowest);
        flush_caches(flush, flush_bytes);
        if (rc == 0)
            rc = look_up(forest, forest->unknown, 0, &series->miss, &series->miss_slowest);
        uint64_t spent = 0;
        struct bench_turn *turns = calloc(BENCH_TURNS, sizeof *turns);
        for (unsigned done = 0; turns && rc == 0 && done < NEW_TURNS; done += BENCH_TURNS) {
            struct sel_key base = {{0}};
            struct sel_node *node = NULL;
            for (unsigned i = 0; i < BENCH_TURNS; i++)
                bench_turn_make(&turns[i], i, NULL, &forest->random, forest->layout->ns, &base);
            uint64_t from = bench_now_ns();
            for (unsigned i = 0; rc == 0 && i < BENCH_TURNS; i++)
                rc = add_turn(forest, &turns[i], &node);
            spent += bench_now_ns() - from;
        }
        free(turns);
        bench_add(&series->insert, (double)spent / NEW_TURNS);
    }
    bench_memory_free(flush, flush_bytes);
    return rc;
}

static void report_tree(struct bench *bench, const struct tree_series *series, uint64_t records) {
    bench_goal(bench, &series->hit, "us", "P6", BENCH_AT_MOST, 100, "look-up, full hit of 130,050 tokens, median");
    bench_value(bench, &series->hit_slowest, "us", "look-up, full hit, slowest of %d", TALKS);
    bench_goal(bench, &series->miss, "us", "P6", BENCH_AT_MOST, 200, "look-up, total miss of 130,050 tokens, median");
    bench_value(bench, &series->miss_slowest, "us", "look-up, total miss, slowest of %d", TALKS);
    bench_value(bench, &series->insert, "ns", "insert of a record, with its place in the disk tier's order");
    bench_note(bench, "%" PRIu64 " records, one a turn of %d tokens, P = %d; caches are flushed before each round",
               records, BENCH_TURN_TOKENS, BENCH_PAGE_TOKENS);
}

/* ---- bytes ---- */

#define SMALL_RECORDS 200000

/* Memory of a tree of roots with `pages` page keys each, in bytes a record. */
static int bytes_a_record(unsigned pages, double *bytes) {
    struct sel_tree *tree = NULL;
    struct sel_random random;
    struct bench_turn turn = {.spec = {0}};
    int rc = sel_tree_create(&tree, 1);
    sel_random_seed(&random, pages);
    for (unsigned i = 0; rc == 0 && i < SMALL_RECORDS; i++) {
        struct sel_node *node = NULL;
        for (unsigned page = 0; page < pages; page++)
            sel_random_fill(&random, &turn.page_keys[page], sizeof turn.page_keys[page]);
        turn.spec = (struct sel_node_spec){.ns = (const uint8_t *)"a namespace of thirty-two bytes.",
                                           .page_tokens = BENCH_PAGE_TOKENS,
                                           .tokens = pages * BENCH_PAGE_TOKENS,
                                           .key = turn.page_keys[pages - 1],
                                           .base_key = turn.page_keys[pages - 1],
                                           .page_keys = turn.page_keys,
                                           .page_key_count = pages};
        rc = sel_tree_insert(tree, &turn.spec, &node);
        if (rc == 0)
            rc = sel_tree_add_to(tree, node, SEL_TIER_DISK, false);
    }
    *bytes = rc ? 0 : (double)sel_tree_bytes(tree) / SMALL_RECORDS;
    sel_tree_destroy(&tree);
    return rc;
}

/* A record with 1 page key and one with 13: the difference is what 12 page keys take, the rest is the record's own. */
static int report_bytes(struct bench *bench, const struct forest *forest) {
    double one = 0, thirteen = 0;
    int rc = bytes_a_record(1, &one);
    if (rc == 0)
        rc = bytes_a_record(13, &thirteen);
    if (rc)
        return rc;
    double records = (double)sel_tree_count(forest->tree), bytes = (double)sel_tree_bytes(forest->tree);
    double keys = (double)sel_tree_page_key_bytes(forest->tree), page = (thirteen - one) / 12;
    struct bench_series all = bench_once(bytes / records), strict = bench_once((bytes - keys) / records);
    struct bench_series own = bench_once(one - page), page_series = bench_once(page);
    bench_goal(bench, &own, "bytes", "P10", BENCH_AT_MOST, 200, "tree, a record beside all that its page keys take");
    bench_value(bench, &page_series, "bytes", "tree, a page key: 32 and its place in the map");
    bench_value(bench, &all, "bytes", "tree, a record of this workload, all in all");
    bench_value(bench, &strict, "bytes", "tree, a record of this workload beside 32 bytes a page key");
    return 0;
}

int bench_index(struct bench *bench, struct selene_message *message) {
    const struct bench_options *options = bench_options(bench);
    struct forest forest = {0};
    struct tree_series series = {0};
    bench_group(bench, "index", "the prefix tree, and opening a store");
    int rc = grow_forest(&forest, options->records);
    if (rc == 0)
        rc = measure_tree(&forest, options->rounds, &series);
    if (rc == 0) {
        report_tree(bench, &series, sel_tree_count(forest.tree));
        rc = report_bytes(bench, &forest);
    }
    if (rc)
        (void)sel_fail(message, rc, "index: the tree: %s", sel_error_text(rc));
    fell_forest(&forest);
    if (rc == 0)
        rc = bench_engine_idle(bench, message);
    return rc ? rc : bench_open(bench, message);
}
