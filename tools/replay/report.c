/* SPDX-License-Identifier: Apache-2.0
 *
 * Results for people: a table.
 */
#include "tools/replay/totals.h"

#include "cli/sizes.h"
#include "cli/table.h"

#include <inttypes.h>
#include <stdarg.h>

static const char *const tiers[SELENE_TIER_COUNT] = {"memory", "disk", "pool"};

static double ratio(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 0; }

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

static void rows_tokens(struct sel_table *table, const struct replay_stage *stage, const struct totals *totals) {
    const struct replay_result *sum = &totals->sum;
    row_count(table, "requests", totals->requests);
    row_tokens(table, "tokens asked for", sum->tokens_in, sum->tokens_in);
    row_tokens(table, "tokens restored", sum->tokens_hit, sum->tokens_in);
    row_tokens(table, "  from memory", sum->tokens_hit_by_tier[SELENE_TIER_MEMORY], sum->tokens_in);
    row_tokens(table, "  from disk", sum->tokens_hit_by_tier[SELENE_TIER_DISK], sum->tokens_in);
    row_tokens(table, "an endless cache", totals->ideal_tokens, sum->tokens_in);
    if (stage->layout.layout.row_bytes)
        row_tokens(table, "  that thins and defers", totals->thinned_ideal_tokens, sum->tokens_in);
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

/* The rest of a row that begins with a count. */
static void row_note(struct sel_table *table, const char *name, uint64_t number, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void row_note(struct sel_table *table, const char *name, uint64_t number, const char *format, ...) {
    char text[SEL_SIZE_TEXT], note[128];
    va_list list;
    va_start(list, format);
    vsnprintf(note, sizeof note, format, list);
    va_end(list);
    sel_table_cell(table, "%s", name);
    sel_table_cell(table, "%s", sel_count_print(text, number));
    sel_table_cell(table, "%s", note);
}

static void rows_held(struct sel_table *table, const struct replay_stage *stage, const struct totals *totals) {
    const struct selene_stats *store = &totals->store;
    const struct replay_result *sum = &totals->sum;
    char text[SEL_SIZE_TEXT];
    for (int tier = 0; tier < SELENE_TIER_COUNT; tier++) {
        char name[32];
        if (store->records[tier] == 0 && store->evictions[tier] == 0)
            continue;
        snprintf(name, sizeof name, "records %s %s", tier == SELENE_TIER_DISK ? "on" : "in", tiers[tier]);
        row_note(table, name, store->records[tier],
                 "%s, %" PRIu64 " packed, %" PRIu64 " rows, %" PRIu64 " thinned, %" PRIu64 " evicted",
                 sel_size_print(text, store->held_bytes[tier]), store->packed_records[tier], store->rows[tier],
                 store->rows_thinned[tier], store->evictions[tier]);
    }
    row_note(table, "slots used", store->slots_used, "of %" PRIu64, store->slots_total);
    if (stage->layout.layout.row_bytes)
        row_note(table, "offers", sum->offers_made, "%" PRIu32 " deferred, %" PRIu32 " resumed, %" PRIu32 " dropped",
                 sum->offers_deferred, sum->offers_resumed, sum->offers_deferred - sum->offers_resumed);
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
    } rows[] = {
        {"publishes abandoned", sum->abandoned},
        {"publishes too large", sum->oversize},
        {"publishes failed", sum->failed},
        {"restores that came short", sum->restores_short},
        {"restores declined", sum->declined},
        {"checksum failures on disk", totals->store.checksum_failures[SELENE_TIER_DISK]},
        {"checksum failures in memory", totals->store.checksum_failures[SELENE_TIER_MEMORY]},
        {"disk errors", totals->store.io_errors[SELENE_TIER_DISK]},
        {"records dropped", totals->store.dropped_records},
        {"records expired", totals->store.expiries[SELENE_TIER_MEMORY] + totals->store.expiries[SELENE_TIER_DISK]},
        {"records not drained in time", totals->drained.skipped_deadline},
        {"records not drained, failed", totals->drained.skipped_failed},
        {"records not drained, parent", totals->drained.skipped_parent},
        {"records not drained, no room", totals->drained.skipped_room},
        {"requests beyond the ideal", totals->beyond_ideal},
        {"broken invariants", totals->invariant_failures}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].count)
            row_count(table, rows[i].name, rows[i].count);
    if (totals->restarts || totals->drained.written)
        row_count(table, "records drained", totals->drained.written);
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
    rows_tokens(table, stage, totals);
    rows_bytes(table, stage, totals);
    rows_held(table, stage, totals);
    rows_times(table, totals);
    rows_trouble(table, totals);
    sel_table_print(table, file);
    sel_table_destroy(&table);
}
