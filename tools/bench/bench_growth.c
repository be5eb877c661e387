/* SPDX-License-Identifier: Apache-2.0
 *
 * Group `growth`: what one operation takes in a store with 1,000 records and in one with --records. Conversations of ten
 * turns, a record and a row each, in memory alone; the device is one that copies nothing, so that what is timed is the
 * store's own work: the tree, the use orders, slots, thinning, evicting.
 *
 * Timed: sel_tree_insert with its place in a tier's order; selene_publish and the poll that brings its event, apart for
 * turns that thin a row and turns that do not, and for a store that is full, where each publish evicts. Keys are made
 * beforehand. A small store is made anew for each round, so that it stays small.
 */
#include "tools/bench/bench.h"
#include "tools/bench/bench_tree.h"

#include "base/check.h"
#include "engine/store_env.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TALK_TURNS  10
#define TURN_TOKENS 16 /* one page */
#define PIECE_BYTES 4096
#define SMALL       1000
#define ROUND_TALKS 60 /* published in a round */

/* ---- a device that copies nothing ---- */

struct hollow {
    struct sel_device device;
    struct sel_ready *ready;
};

static void hollow_submit(struct sel_device *device, struct sel_copy *copy) {
    sel_op_start(&copy->op);
    sel_ready_post(SEL_CONTAINER(device, struct hollow, device)->ready, &copy->op, 0);
}
static void hollow_compare(struct sel_device *device, struct sel_compare *compare) {
    sel_op_start(&compare->op);
    compare->identical = false;
    sel_ready_post(SEL_CONTAINER(device, struct hollow, device)->ready, &compare->op, 0);
}
static void hollow_poll(struct sel_device *device) { (void)device; }
static void hollow_cancel(struct sel_device *device, struct sel_copy *copy) { (void)device, (void)copy; }
static void hollow_cancel_compare(struct sel_device *device, struct sel_compare *compare) {
    (void)device, (void)compare;
}
static const char *hollow_name(const struct sel_device *device) {
    (void)device;
    return "none";
}
static const struct sel_device_ops hollow_ops = {.submit = hollow_submit,
                                                 .compare = hollow_compare,
                                                 .poll = hollow_poll,
                                                 .cancel = hollow_cancel,
                                                 .cancel_compare = hollow_cancel_compare,
                                                 .name = hollow_name,
                                                 .destroy = hollow_poll};

/* ---- a store and its conversations ---- */

enum kind { INSERT, PUBLISH, THIN, EVICT, KINDS };

struct growth {
    uint64_t records;
    unsigned rounds; /* that there is room for */
    struct hollow hollow;
    struct sel_ready ready;
    selene_store *store;
    uint64_t next_talk;
    uint8_t page[PIECE_BYTES], row[PIECE_BYTES];
};

/* Times of single operations: their median, for a round is short and the machine may look away in it. */
struct times {
    uint64_t ns[ROUND_TALKS * TALK_TURNS];
    size_t count;
};

static int by_time(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void add_median(struct bench_series *series, struct times *times) {
    if (times->count == 0)
        return;
    qsort(times->ns, times->count, sizeof times->ns[0], by_time);
    bench_add(series, (double)times->ns[times->count / 2]);
}

static int open_store(struct growth *growth, struct selene_message *message) {
    const struct selene_plane plane = {.bytes = PIECE_BYTES};
    const struct selene_layout layout = {.page_tokens = TURN_TOKENS,
                                         .rank_count = 1,
                                         .plane_count = 1,
                                         .planes = &plane,
                                         .row_bytes = PIECE_BYTES,
                                         .description = "selene-bench",
                                         .description_bytes = 12};
    const struct selene_plane_memory memory = {growth->page, PIECE_BYTES};
    const struct sel_store_env env = {.ready = &growth->ready, .device = &growth->hollow.device};
    struct selene_options options;
    /* Ten pages, and rows of the root, the last turn and the one before. */
    uint64_t talks = growth->records / TALK_TURNS + (uint64_t)growth->rounds * ROUND_TALKS;
    sel_ready_init(&growth->ready, NULL, NULL);
    growth->hollow = (struct hollow){.device = {&hollow_ops}, .ready = &growth->ready};
    growth->next_talk = 0;
    selene_options_init(&options);
    options.layout = &layout;
    options.planes = &memory;
    options.block_count = 1;
    options.worker_threads = 1;
    options.memory_bytes = (talks + 1) * (TALK_TURNS + 3) * PIECE_BYTES;
    return sel_store_open_env(&growth->store, &options, &env, message);
}

static void close_store(struct growth *growth) {
    if (!growth->store)
        return;
    (void)selene_close(&growth->store);
    sel_ready_destroy(&growth->ready);
}

static int publish(struct growth *growth, const selene_prefix *prefix, uint64_t tokens, uint64_t *ns) {
    static const uint32_t blocks[TALK_TURNS];
    void *const rows[] = {growth->row};
    struct selene_device_state state = {.blocks = blocks, .block_count = TALK_TURNS, .rows = rows};
    struct selene_publish_result offer = {0};
    struct selene_event event = {0};
    uint64_t from = bench_now_ns();
    int rc = selene_publish(growth->store, prefix, tokens, &state, &offer);
    int count = rc ? rc : selene_poll(growth->store, &event, 1);
    *ns = bench_now_ns() - from;
    if (rc == 0 && (offer.answer != SELENE_ACCEPTED || count != 1 || event.result))
        rc = SELENE_E_INTERNAL;
    return rc;
}

/* One conversation; its operations are added by what they did. */
static int publish_talk(struct growth *growth, struct times times[KINDS]) {
    uint32_t tokens[TALK_TURNS * TURN_TOKENS];
    selene_prefix *prefix = NULL;
    struct selene_stats before, after;
    for (size_t i = 0; i < SEL_COUNT(tokens); i++)
        tokens[i] = (uint32_t)(sel_mix64(i + (growth->next_talk << 16)) % 150000);
    growth->next_talk++;
    int rc = selene_prefix_create(&prefix, growth->store, NULL, 0);
    if (rc == 0)
        rc = selene_prefix_append(prefix, tokens, SEL_COUNT(tokens));
    for (unsigned turn = 1; rc == 0 && turn <= TALK_TURNS; turn++) {
        uint64_t ns = 0;
        if (times)
            rc = selene_get_stats(growth->store, &before, sizeof before);
        if (rc == 0)
            rc = publish(growth, prefix, (uint64_t)turn * TURN_TOKENS, &ns);
        if (rc || !times)
            continue;
        rc = selene_get_stats(growth->store, &after, sizeof after);
        bool evicted = after.evictions[SELENE_TIER_MEMORY] > before.evictions[SELENE_TIER_MEMORY];
        bool thinned = after.rows_thinned[SELENE_TIER_MEMORY] > before.rows_thinned[SELENE_TIER_MEMORY];
        struct times *kind = &times[evicted ? EVICT : thinned ? THIN : PUBLISH];
        kind->ns[kind->count++] = ns;
    }
    selene_prefix_destroy(&prefix);
    return rc;
}

static int fill(struct growth *growth, struct selene_message *message) {
    int rc = open_store(growth, message);
    for (uint64_t talk = 0; rc == 0 && talk < growth->records / TALK_TURNS; talk++)
        rc = publish_talk(growth, NULL);
    return rc;
}

static int fill_up(struct growth *growth) {
    struct selene_stats stats = {0};
    int rc = 0;
    while (rc == 0 && stats.evictions[SELENE_TIER_MEMORY] == 0) {
        rc = publish_talk(growth, NULL);
        if (rc == 0)
            rc = selene_get_stats(growth->store, &stats, sizeof stats);
    }
    return rc;
}

static int publish_round(struct growth *growth, struct times times[KINDS]) {
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < ROUND_TALKS; i++)
        rc = publish_talk(growth, times);
    return rc;
}

/* ---- the tree alone ---- */

static int insert_talk(struct sel_tree *tree, struct sel_random *random, uint64_t *clock) {
    struct sel_node *node = NULL;
    int rc = 0;
    for (unsigned turn = 1; rc == 0 && turn <= TALK_TURNS; turn++) {
        struct sel_key key;
        sel_random_fill(random, &key, sizeof key);
        struct sel_node_spec spec = {.ns = (const uint8_t *)"a namespace of thirty-two bytes.",
                                     .page_tokens = TURN_TOKENS,
                                     .tokens = turn * TURN_TOKENS,
                                     .key = key,
                                     .base_key = key,
                                     .parent = node,
                                     .page_keys = &key,
                                     .page_key_count = 1};
        rc = sel_tree_insert(tree, &spec, &node);
        if (rc == 0)
            rc = sel_tree_add_to(tree, node, SEL_TIER_DISK, false);
        if (rc == 0)
            sel_tree_touch(tree, node, ++*clock);
    }
    return rc;
}

static int insert_rounds(uint64_t records, unsigned rounds, struct times *times, struct bench_series *series) {
    struct sel_tree *tree = NULL;
    struct sel_random random;
    uint64_t clock = 0, talks = 0;
    int rc = 0;
    sel_random_seed(&random, records);
    for (unsigned round = 0; rc == 0 && round <= rounds; round++) {
        if (tree && records == SMALL)
            sel_tree_destroy(&tree);
        if (!tree) {
            rc = sel_tree_create(&tree, 1);
            for (talks = 0; rc == 0 && talks < records / TALK_TURNS; talks++)
                rc = insert_talk(tree, &random, &clock);
        }
        times->count = 0;
        for (unsigned i = 0; rc == 0 && i < ROUND_TALKS; i++) {
            uint64_t from = bench_now_ns();
            rc = insert_talk(tree, &random, &clock);
            times->ns[times->count++] = (bench_now_ns() - from) / TALK_TURNS;
        }
        if (round > 0)
            add_median(series, times);
    }
    if (tree)
        sel_tree_destroy(&tree);
    return rc;
}

/* ---- rounds ---- */

/* First what there is room for, then what evicts. */
static int measure(uint64_t records, unsigned rounds, struct bench_series series[KINDS],
                   struct selene_message *message) {
    struct growth *growth = calloc(1, sizeof *growth);
    struct times *times = calloc(KINDS, sizeof *times);
    int rc = growth && times ? 0 : SELENE_E_NOMEM;
    bool small = records == SMALL;
    for (int full = 0; rc == 0 && full < 2; full++)
        for (unsigned round = 0; rc == 0 && round <= rounds; round++) {
            memset(times, 0, KINDS * sizeof *times);
            growth->records = records;
            growth->rounds = small ? 1 : rounds + 1;
            if (small)
                close_store(growth);
            if (!growth->store)
                rc = fill(growth, message);
            if (rc == 0 && full && (small || round == 0))
                rc = fill_up(growth);
            if (rc == 0)
                rc = publish_round(growth, times);
            if (round == 0) /* warms up */
                continue;
            if (full)
                add_median(&series[EVICT], &times[EVICT]);
            for (int kind = PUBLISH; kind < EVICT && !full; kind++)
                add_median(&series[kind], &times[kind]);
        }
    if (rc == 0)
        rc = insert_rounds(records, rounds, times, &series[INSERT]);
    if (growth)
        close_store(growth);
    free(growth);
    free(times);
    return rc ? sel_fail(message, rc, "growth: %" PRIu64 " records: %s", records, sel_error_text(rc)) : 0;
}

int bench_growth(struct bench *bench, struct selene_message *message) {
    static const char *const names[KINDS] = {"insert into the tree", "publish", "publish that thins a row",
                                             "publish that evicts"};
    const struct bench_options *options = bench_options(bench);
    struct bench_series series[2][KINDS] = {{{.count = 0}}};
    const uint64_t sizes[2] = {SMALL, options->records};
    bench_group(bench, "growth", "one operation in a small store and in a large one");
    int rc = 0;
    for (int i = 0; rc == 0 && i < 2; i++)
        rc = measure(sizes[i], options->rounds, series[i], message);
    for (int kind = 0; rc == 0 && kind < KINDS; kind++) {
        struct bench_series ratio = bench_divide(&series[1][kind], &series[0][kind]);
        for (int i = 0; i < 2; i++)
            bench_value(bench, &series[i][kind], "ns", "%s, %" PRIu64 " records", names[kind], sizes[i]);
        bench_value(bench, &ratio, "ratio", "%s, large : small", names[kind]);
    }
    if (rc == 0)
        bench_note(bench,
                   "memory alone, a device that copies nothing; a publish is the call and the poll with its event");
    return rc;
}
