/* SPDX-License-Identifier: Apache-2.0
 *
 * Group `index`, second part: opening a store with --records records [P7]. The store is written through the record store
 * onto a hollow disk (bench_hollow.h), in conversations of 170 turns of about 12 page keys each. What is timed:
 *
 *   scan            one pass over all tables of the opened catalogue, as LMDB gives them
 *   index checked   opening the catalogue: the validator reads the file, LMDB maps it
 *   opened          catalogue and record store, every record visited and nothing done with it
 *   opened, tree    the same, and every record put into the prefix tree: what a start has to do
 *   after a crash   the same; about half a group of records had been written and not committed
 *
 * All with the file in the page cache: the device is the other groups' business.
 */
#include "tools/bench/bench_open.h"

#include "tools/bench/bench_hollow.h"
#include "tools/bench/bench_talks.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 3 /* a round takes a minute at a million records */
#define TAIL_TALKS 3 /* written before the crash: 510 records, 27 MiB */

struct opening {
    const char *directory;
    struct sel_layout *layout;
    struct sel_random random;
    struct sel_tree *tree; /* NULL: visited records are counted only */
    uint64_t visited;
    struct bench_hollow hollow;
};

/* What the engine does for each record at start. */
static int plant(void *context, const struct sel_lsm_record *record, const struct sel_location *location) {
    struct opening *opening = context;
    struct sel_node *node = NULL;
    opening->visited++;
    if (opening->tree == NULL)
        return 0;
    struct sel_node_spec spec = {.ns = record->ns,
                                 .page_tokens = record->page_tokens,
                                 .tokens = record->tokens,
                                 .key = record->key,
                                 .page_keys = record->page_keys,
                                 .page_key_count = record->page_key_count,
                                 .base_key = record->base_key};
    if (record->parent_tokens)
        spec.parent = sel_tree_find(opening->tree, record->ns, &record->parent_key, record->parent_tokens);
    if (record->parent_tokens && spec.parent == NULL)
        return SELENE_E_PARENT;
    int rc = sel_tree_insert(opening->tree, &spec, &node);
    if (rc == 0) {
        sel_tree_touch(opening->tree, node, opening->visited);
        rc = sel_tree_add_to(opening->tree, node, SEL_TIER_DISK, false);
    }
    if (rc == 0)
        node->disk = *location;
    return rc;
}

static int count_entry(void *context, uint64_t key, uint32_t part, const uint8_t value[SEL_CATALOG_VALUE]) {
    uint64_t *sum = context;
    *sum += key + part + value[0];
    return 0;
}

/* Opens the catalogue alone and scans it; nanoseconds of both, and the file's size. */
static int scan(struct opening *opening, double *check_ns, double *scan_ns, uint64_t *bytes,
                struct selene_message *message) {
    struct sel_catalog *catalog = NULL;
    bool rebuild;
    uint64_t sum = 0, from = bench_now_ns();
    int rc = sel_catalog_lmdb_open(&catalog, opening->directory, UINT64_C(16) << 30, NULL, &rebuild, message);
    *check_ns = (double)(bench_now_ns() - from);
    if (rc)
        return rc;
    from = bench_now_ns();
    for (unsigned table = 0; rc == 0 && table < SEL_CATALOG_TABLES; table++)
        rc = catalog->ops->iterate(catalog, (enum sel_catalog_table)table, count_entry, &sum);
    *scan_ns = (double)(bench_now_ns() - from);
    *bytes = catalog->ops->file_bytes(catalog);
    catalog->ops->close(catalog);
    return rc ? sel_fail(message, rc, "index: scanning: %s", sel_error_text(rc)) : 0;
}

static int open_store(struct opening *opening, struct bench_store *store, bool with_tree, double *ns,
                      struct selene_message *message) {
    *store = (struct bench_store){.wrap = bench_hollow_wrap, .wrap_context = &opening->hollow};
    opening->hollow.ready = &store->rig.ready;
    opening->visited = 0;
    opening->tree = NULL;
    int rc = with_tree ? sel_tree_create(&opening->tree, 4711) : 0;
    if (rc == 0 && with_tree)
        rc = sel_tree_load_begin(opening->tree);
    if (rc == 0)
        rc = bench_store_open(store, opening->directory, SEL_LSM_RELAXED, plant, opening, message);
    uint64_t from = bench_now_ns();
    if (with_tree && opening->tree)
        sel_tree_load_end(opening->tree);
    if (ns)
        *ns = (double)(store->open_ns + bench_now_ns() - from);
    return rc;
}

static void drop_tree(struct opening *opening) {
    if (opening->tree)
        sel_tree_destroy(&opening->tree);
}

static int check_visited(const struct opening *opening, uint64_t expected, struct selene_message *message) {
    if (opening->visited == expected)
        return 0;
    return sel_fail(message, SELENE_E_INTERNAL, "index: %" PRIu64 " records after opening, expected %" PRIu64,
                    opening->visited, expected);
}

enum { SCAN, CHECK, OPEN, OPEN_TREE, CRASH, KINDS };

/* Clean openings, then one after a crash, which finds what was written and not committed. */
static int one_round(struct opening *opening, uint64_t *records, double ns[KINDS], uint64_t *index_bytes,
                     uint64_t *tail_bytes, struct selene_message *message) {
    struct bench_store store;
    opening->hollow.solid = true;
    int rc = scan(opening, &ns[CHECK], &ns[SCAN], index_bytes, message);
    if (rc == 0)
        rc = open_store(opening, &store, false, &ns[OPEN], message);
    if (rc)
        return rc;
    rc = check_visited(opening, *records, message);
    bench_store_close(&store);
    if (rc == 0)
        rc = open_store(opening, &store, true, &ns[OPEN_TREE], message);
    drop_tree(opening);
    if (rc)
        return rc;
    rc = bench_talks_write(&store, opening->layout, &opening->random, TAIL_TALKS, false, message); /* aborts it */
    if (rc == 0)
        rc = open_store(opening, &store, true, &ns[CRASH], message);
    drop_tree(opening);
    if (rc)
        return rc;
    *tail_bytes = bench_store_stats(&store).tail_bytes_read;
    *records = opening->visited;
    bench_store_close(&store);
    return 0;
}

static void report(struct bench *bench, const struct bench_series series[KINDS], uint64_t records, uint64_t recovered,
                   uint64_t index_bytes, uint64_t tail_bytes) {
    static const char *const names[KINDS] = {
        [SCAN] = "plain scan of the index",
        [CHECK] = "index checked by the validator and mapped",
        [OPEN] = "opened after a clean stop, records visited",
        [OPEN_TREE] = "opened after a clean stop, records put into the tree",
        [CRASH] = "opened after a crash, records put into the tree",
    };
    for (unsigned kind = 0; kind < KINDS; kind++)
        bench_value(bench, &series[kind], "ms", "%s", names[kind]);
    struct bench_series over = {.count = 0}, size = bench_once((double)index_bytes / (double)records);
    struct bench_series visited = {.count = 0};
    for (unsigned i = 0; i < series[SCAN].count; i++) {
        bench_add(&over, (series[OPEN_TREE].value[i] - series[SCAN].value[i]) * 1000 / (double)records);
        bench_add(&visited, (series[OPEN].value[i] - series[SCAN].value[i]) * 1000 / (double)records);
    }
    bench_value(bench, &visited, "us", "opening without the tree, beyond the plain scan, a record");
    bench_goal(bench, &over, "us", "P7", BENCH_AT_MOST, 1, "opening, beyond the plain scan, a record");
    bench_value(bench, &size, "bytes", "index file, a record");
    bench_note(bench,
               "%" PRIu64
               " records with 12 page keys each on a disk that keeps the index only; after each crash %" PRIu64
               " uncommitted records of a tail of %" PRIu64 " KiB were recovered",
               records, recovered, tail_bytes >> 10);
}

static int measure(struct bench *bench, struct opening *opening, struct selene_message *message) {
    unsigned rounds = SEL_MIN(bench_options(bench)->rounds, ROUNDS_MAX);
    struct bench_series series[KINDS] = {0};
    uint64_t talks = SEL_MAX(bench_options(bench)->records / BENCH_TURNS, 1), records = talks * BENCH_TURNS;
    uint64_t first = records, before = records, index_bytes = 0, tail_bytes = 0;
    struct bench_store store;
    int rc = open_store(opening, &store, false, NULL, message);
    if (rc)
        return rc;
    rc = bench_talks_write(&store, opening->layout, &opening->random, talks, true, message);
    if (rc == 0)
        bench_store_close(&store);
    for (unsigned round = 0; rc == 0 && round < rounds; round++) {
        double ns[KINDS] = {0};
        before = records;
        rc = one_round(opening, &records, ns, &index_bytes, &tail_bytes, message);
        for (unsigned kind = 0; kind < KINDS; kind++)
            bench_add(&series[kind], ns[kind] / 1e6);
    }
    if (rc == 0)
        report(bench, series, first, records - before, index_bytes, tail_bytes);
    return rc;
}

int bench_open(struct bench *bench, struct selene_message *message) {
    struct opening opening = {.directory = bench_scratch(bench, message)};
    uint64_t need = bench_options(bench)->records * 1200 + (UINT64_C(1) << 30);
    if (opening.directory == NULL)
        return SELENE_E_IO;
    if (bench_scratch_free(bench) < need)
        return sel_fail(message, SELENE_E_NOSPACE,
                        "%s: %" PRIu64 " MiB free, %" PRIu64 " MiB needed (--records, --dir)",
                        bench_options(bench)->directory, bench_scratch_free(bench) >> 20, need >> 20);
    sel_random_seed(&opening.random, 2);
    int rc = bench_small_layout(&opening.layout, 4096);
    if (rc == 0)
        rc = measure(bench, &opening, message);
    sel_layout_destroy(&opening.layout);
    bench_scratch_clear(bench);
    return rc ? sel_fail(message, rc, "index: opening a store: %s", sel_error_text(rc)) : 0;
}
