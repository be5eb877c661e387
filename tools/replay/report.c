/* SPDX-License-Identifier: Apache-2.0
 *
 * Results: JSON for programs, a table for people.
 */
#include "tools/replay/totals.h"

#include "cli/json.h"
#include "cli/sizes.h"
#include "cli/table.h"

#include <inttypes.h>

static const char *const tiers[SELENE_TIER_COUNT] = {"memory", "disk", "pool"};

static double ratio(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 0; }

/* ---- JSON ---- */

static int json_setup(struct sel_json *json, const struct replay_stage *stage) {
    const struct replay_options *options = stage->options;
    const struct selene_layout *layout = &stage->layout.layout;
    return sel_json_set_string(json, "version", selene_version()) |
           sel_json_set_string(json, "workload", options->trace ? options->trace : "generated") |
           sel_json_set_string(json, "form", stage->workload->name) |
           sel_json_set_string(json, "layout", stage->layout_name) | sel_json_set_u64(json, "scale", options->scale) |
           sel_json_set_u64(json, "page_tokens", layout->page_tokens) |
           sel_json_set_u64(json, "rank_count", layout->rank_count) |
           sel_json_set_u64(json, "page_bytes", stage->kv.block_bytes * layout->rank_count) |
           sel_json_set_u64(json, "row_bytes", layout->row_bytes * layout->rank_count) |
           sel_json_set_u64(json, "memory_bytes", options->memory_bytes) |
           sel_json_set_u64(json, "disk_limit_bytes", options->disk_limit_bytes) |
           sel_json_set_string(json, "durability", options->durability == SELENE_STRICT ? "strict" : "relaxed") |
           sel_json_set_bool(json, "sequential", options->sequential) |
           sel_json_set_u64(json, "concurrency", options->sequential ? 1 : options->concurrency) |
           sel_json_set_u64(json, "seed", options->seed);
}

static int json_tokens(struct sel_json *json, const struct totals *totals) {
    const struct replay_result *sum = &totals->sum;
    struct sel_json *by_tier = sel_json_object();
    int result = sel_json_set_u64(json, "requests", totals->requests) |
                 sel_json_set_u64(json, "tokens_in", sum->tokens_in) |
                 sel_json_set_u64(json, "tokens_hit", sum->tokens_hit) |
                 sel_json_set_double(json, "hit_ratio", ratio(sum->tokens_hit, sum->tokens_in)) |
                 sel_json_set_u64(json, "ideal_tokens_hit", totals->ideal_tokens) |
                 sel_json_set_double(json, "ideal_hit_ratio", ratio(totals->ideal_tokens, sum->tokens_in)) |
                 sel_json_set_u64(json, "requests_beyond_ideal", totals->beyond_ideal);
    for (int tier = 0; tier < SELENE_TIER_COUNT; tier++)
        result |= sel_json_set_u64(by_tier, tiers[tier], sum->tokens_hit_by_tier[tier]);
    return result | sel_json_set(json, "tokens_hit_by_tier", by_tier);
}

static int json_bytes(struct sel_json *json, const struct totals *totals) {
    const struct replay_result *sum = &totals->sum;
    const struct selene_stats *store = &totals->store;
    return sel_json_set_u64(json, "verified_bytes", sum->bytes.verified) |
           sel_json_set_u64(json, "wrong_bytes", sum->bytes.wrong) |
           sel_json_set_u64(json, "published_bytes", sum->published_bytes) |
           sel_json_set_u64(json, "disk_written_bytes", store->disk_written_bytes) |
           sel_json_set_u64(json, "disk_read_bytes", store->disk_read_bytes) |
           sel_json_set_u64(json, "disk_allocated_bytes", store->disk_allocated_bytes) |
           sel_json_set_u64(json, "disk_live_bytes", store->disk_live_bytes) |
           sel_json_set_u64(json, "index_bytes", store->index_bytes) |
           sel_json_set_string(json, "disk_backend", totals->backend) |
           sel_json_set_bool(json, "disk_direct", totals->direct != 0);
}

static int json_counts(struct sel_json *json, const struct totals *totals) {
    const struct replay_result *sum = &totals->sum;
    return sel_json_set_u64(json, "restores", sum->restores) |
           sel_json_set_u64(json, "restores_short", sum->restores_short) |
           sel_json_set_u64(json, "restores_declined", sum->declined) |
           sel_json_set_u64(json, "publishes", sum->publishes) |
           sel_json_set_u64(json, "publishes_present", sum->present) |
           sel_json_set_u64(json, "publishes_oversize", sum->oversize) |
           sel_json_set_u64(json, "publishes_abandoned", sum->abandoned) |
           sel_json_set_u64(json, "publishes_failed", sum->failed) | sel_json_set_u64(json, "retries", sum->retries);
}

static int json_tiers(struct sel_json *json, struct totals *totals) {
    const struct selene_stats *store = &totals->store;
    struct sel_json *latency = sel_json_object(), *counters = sel_json_object();
    int result = 0;
    for (int tier = 0; tier < SELENE_TIER_COUNT; tier++) {
        struct sel_json *times = sel_json_object(), *counts = sel_json_object();
        result |= sel_json_set_u64(times, "count", totals->restore[tier].count) |
                  sel_json_set_double(times, "p50", latencies_ms(&totals->restore[tier], 50)) |
                  sel_json_set_double(times, "p99", latencies_ms(&totals->restore[tier], 99)) |
                  sel_json_set(latency, tiers[tier], times);
        result |= sel_json_set_u64(counts, "records", store->records[tier]) |
                  sel_json_set_u64(counts, "held_bytes", store->held_bytes[tier]) |
                  sel_json_set_u64(counts, "evictions", store->evictions[tier]) |
                  sel_json_set_u64(counts, "checksum_failures", store->checksum_failures[tier]) |
                  sel_json_set_u64(counts, "io_errors", store->io_errors[tier]) |
                  sel_json_set(counters, tiers[tier], counts);
    }
    return result | sel_json_set(json, "restore_ms", latency) | sel_json_set(json, "tiers", counters);
}

static int json_recovery(struct sel_json *json, const struct totals *totals) {
    int result = sel_json_set_u64(json, "restarts", totals->restarts) |
                 sel_json_set_u64(json, "crashes", totals->crashes) |
                 sel_json_set_u64(json, "drained_records", totals->drained_written) |
                 sel_json_set_u64(json, "drain_skipped_records", totals->drained_skipped) |
                 sel_json_set_u64(json, "recovered_records", totals->store.recovered_records) |
                 sel_json_set_u64(json, "torn_extents", totals->store.torn_extents) |
                 sel_json_set_u64(json, "spills", totals->store.spills) |
                 sel_json_set_u64(json, "dropped_records", totals->store.dropped_records) |
                 sel_json_set_u64(json, "committed_records_before_crash", totals->committed_before_crash) |
                 sel_json_set_u64(json, "lost_committed_records", totals->lost_committed) |
                 sel_json_set_bool(json, "lost_committed_records_known", !totals->lost_unknown) |
                 sel_json_set_u64(json, "invariant_failures", totals->invariant_failures);
    return result | sel_json_set_double(json, "seconds", totals->seconds);
}

int report_json(const struct replay_stage *stage, struct totals *totals, struct selene_message *message) {
    struct sel_json *json = sel_json_object();
    int result = json_setup(json, stage) | json_tokens(json, totals) | json_bytes(json, totals) |
                 json_counts(json, totals) | json_tiers(json, totals) | json_recovery(json, totals);
    if (result || totals->no_memory)
        result = sel_fail(message, SELENE_E_NOMEM, "no memory for the results");
    if (result == 0)
        result = sel_json_write(json, stage->options->json, message);
    sel_json_free(&json);
    return result;
}

/* ---- table ---- */

static void row_count(struct sel_table *table, const char *name, uint64_t number) {
    char text[SEL_SIZE_TEXT];
    sel_table_cell(table, "%s", name);
    sel_table_cell(table, "%s", sel_count_print(text, number));
    sel_table_end_row(table);
}

static void row_size(struct sel_table *table, const char *name, uint64_t bytes) {
    char text[SEL_SIZE_TEXT];
    sel_table_cell(table, "%s", name);
    sel_table_cell(table, "%s", sel_size_print(text, bytes));
    sel_table_end_row(table);
}

static void row_tokens(struct sel_table *table, const char *name, uint64_t tokens, uint64_t all) {
    char text[SEL_SIZE_TEXT];
    sel_table_cell(table, "%s", name);
    sel_table_cell(table, "%s", sel_count_print(text, tokens));
    sel_table_cell(table, "%.4f %%", 100 * ratio(tokens, all));
}

static void rows_tokens(struct sel_table *table, const struct totals *totals) {
    const struct replay_result *sum = &totals->sum;
    row_count(table, "requests", totals->requests);
    row_tokens(table, "tokens asked for", sum->tokens_in, sum->tokens_in);
    row_tokens(table, "tokens restored", sum->tokens_hit, sum->tokens_in);
    row_tokens(table, "  from memory", sum->tokens_hit_by_tier[SELENE_TIER_MEMORY], sum->tokens_in);
    row_tokens(table, "  from disk", sum->tokens_hit_by_tier[SELENE_TIER_DISK], sum->tokens_in);
    row_tokens(table, "an endless cache", totals->ideal_tokens, sum->tokens_in);
    sel_table_rule(table);
}

static void rows_bytes(struct sel_table *table, const struct replay_stage *stage, const struct totals *totals) {
    row_size(table, "bytes verified", totals->sum.bytes.verified);
    row_count(table, "wrong bytes", totals->sum.bytes.wrong);
    row_size(table, "published", totals->sum.published_bytes);
    if (stage->options->disk) {
        row_size(table, "written to disk", totals->store.disk_written_bytes);
        row_size(table, "read from disk", totals->store.disk_read_bytes);
        row_size(table, "allocated on disk", totals->store.disk_allocated_bytes);
    }
    sel_table_rule(table);
}

static void rows_times(struct sel_table *table, struct totals *totals) {
    for (int tier = 0; tier < SELENE_TIER_COUNT; tier++) {
        struct latencies *latencies = &totals->restore[tier];
        char text[SEL_SIZE_TEXT];
        if (latencies->count == 0)
            continue;
        sel_table_cell(table, "restores from %s", tiers[tier]);
        sel_table_cell(table, "%s", sel_count_print(text, latencies->count));
        sel_table_cell(table, "p50 %.2f ms, p99 %.2f ms", latencies_ms(latencies, 50), latencies_ms(latencies, 99));
    }
    sel_table_cell(table, "seconds");
    sel_table_cell(table, "%.1f", totals->seconds);
    sel_table_end_row(table);
}

static void rows_trouble(struct sel_table *table, const struct totals *totals) {
    const struct replay_result *sum = &totals->sum;
    const struct {
        const char *name;
        uint64_t count;
    } rows[] = {{"publishes abandoned", sum->abandoned},
                {"publishes too large", sum->oversize},
                {"publishes failed", sum->failed},
                {"restores that came short", sum->restores_short},
                {"restores declined", sum->declined},
                {"checksum failures on disk", totals->store.checksum_failures[SELENE_TIER_DISK]},
                {"checksum failures in memory", totals->store.checksum_failures[SELENE_TIER_MEMORY]},
                {"disk errors", totals->store.io_errors[SELENE_TIER_DISK]},
                {"records dropped", totals->store.dropped_records},
                {"requests beyond the ideal", totals->beyond_ideal},
                {"broken invariants", totals->invariant_failures}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].count)
            row_count(table, rows[i].name, rows[i].count);
    if (totals->restarts)
        row_count(table, "records drained before the restart", totals->drained_written);
    if (totals->crashes == 0)
        return;
    row_count(table, "records committed before the crash", totals->committed_before_crash);
    row_count(table, "  of them lost", totals->lost_committed);
    row_count(table, "records found in the tail", totals->store.recovered_records);
}

void report_table(const struct replay_stage *stage, struct totals *totals, FILE *file) {
    char page[SEL_SIZE_TEXT], row[SEL_SIZE_TEXT];
    const struct selene_layout *layout = &stage->layout.layout;
    struct sel_table *table = sel_table_create("lrl");
    fprintf(file, "%s (%s), layout %s / %" PRIu64 ": %" PRIu32 " x %s a page of %" PRIu32 " tokens",
            stage->options->trace ? stage->options->trace : "generated", stage->workload->name, stage->layout_name,
            stage->options->scale, layout->rank_count, sel_size_print(page, stage->kv.block_bytes),
            layout->page_tokens);
    if (layout->row_bytes)
        fprintf(file, ", %" PRIu32 " x %s a row", layout->rank_count, sel_size_print(row, layout->row_bytes));
    fputs("\n\n", file);
    rows_tokens(table, totals);
    rows_bytes(table, stage, totals);
    rows_times(table, totals);
    rows_trouble(table, totals);
    sel_table_print(table, file);
    sel_table_destroy(&table);
}
