/* SPDX-License-Identifier: Apache-2.0
 *
 * Results for programs: JSON. selene-replay(1) lists the fields.
 */
#include "tools/replay/totals.h"

#include "cli/json.h"
#include "tools/replay/plot.h"

static const char *const tiers[SELENE_TIER_COUNT] = {"memory", "disk", "pool"};

static double ratio(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 0; }

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
           sel_json_set_bool(json, "thinning", !options->no_thin) |
           sel_json_set_bool(json, "packing", !options->no_pack) |
           sel_json_set_bool(json, "deferring", !options->no_defer) |
           sel_json_set_u64(json, "spare_rows", options->spare_rows) |
           sel_json_set_u64(json, "max_age_seconds", options->max_age_seconds) |
           sel_json_set_u64(json, "seed", options->seed);
}

static int json_by_tier(struct sel_json *json, const char *name, const uint64_t numbers[SELENE_TIER_COUNT]) {
    struct sel_json *by_tier = sel_json_object();
    int result = 0;
    for (int tier = 0; tier < SELENE_TIER_COUNT; tier++)
        result |= sel_json_set_u64(by_tier, tiers[tier], numbers[tier]);
    return result | sel_json_set(json, name, by_tier);
}

static int json_tokens(struct sel_json *json, const struct totals *totals) {
    const struct replay_result *sum = &totals->sum;
    return sel_json_set_u64(json, "requests", totals->requests) | sel_json_set_u64(json, "tokens_in", sum->tokens_in) |
           sel_json_set_u64(json, "tokens_hit", sum->tokens_hit) |
           sel_json_set_double(json, "hit_ratio", ratio(sum->tokens_hit, sum->tokens_in)) |
           sel_json_set_u64(json, "ideal_tokens_hit", totals->ideal_tokens) |
           sel_json_set_double(json, "ideal_hit_ratio", ratio(totals->ideal_tokens, sum->tokens_in)) |
           sel_json_set_u64(json, "thinned_ideal_tokens_hit", totals->thinned_ideal_tokens) |
           sel_json_set_double(json, "thinned_ideal_hit_ratio", ratio(totals->thinned_ideal_tokens, sum->tokens_in)) |
           sel_json_set_u64(json, "requests_beyond_ideal", totals->beyond_ideal) |
           json_by_tier(json, "tokens_hit_by_tier", sum->tokens_hit_by_tier);
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

static int json_slots(struct sel_json *json, const struct selene_stats *store) {
    struct sel_json *slots = sel_json_object();
    int result = sel_json_set_u64(slots, "used", store->slots_used) |
                 sel_json_set_u64(slots, "total", store->slots_total) |
                 sel_json_set_u64(slots, "intake", store->slots_intake);
    return result | sel_json_set(json, "slots", slots);
}

static int json_retries(struct sel_json *json, const struct selene_stats *store) {
    struct sel_json *reasons = sel_json_object();
    int result = sel_json_set_u64(reasons, "slots", store->publishes_abandoned[SELENE_RETRY_SLOTS]) |
                 sel_json_set_u64(reasons, "in_flight", store->publishes_abandoned[SELENE_RETRY_IN_FLIGHT]) |
                 sel_json_set_u64(reasons, "pool", store->publishes_abandoned[SELENE_RETRY_POOL]);
    return result | sel_json_set(json, "retries_abandoned", reasons);
}

/* What records became of: held, thinned, packed, gone. */
static int json_lifetimes(struct sel_json *json, const struct totals *totals) {
    const struct selene_stats *store = &totals->store;
    return json_slots(json, store) | json_by_tier(json, "records_by_tier", store->records) |
           json_by_tier(json, "held_bytes_by_tier", store->held_bytes) |
           json_by_tier(json, "rows_by_tier", store->rows) |
           json_by_tier(json, "rows_thinned_by_tier", store->rows_thinned) |
           sel_json_set_u64(json, "rows_brought_back", store->rows_brought_back) |
           json_by_tier(json, "packed_records_by_tier", store->packed_records) |
           json_by_tier(json, "per_rank_records_by_tier", store->per_rank_records) |
           json_by_tier(json, "packed_rows_by_tier", store->packed_rows) |
           sel_json_set_u64(json, "abandoned_stores", store->abandoned_stores) |
           json_by_tier(json, "evictions_by_tier", store->evictions) |
           json_by_tier(json, "expiries_by_tier", store->expiries) | json_retries(json, store);
}

/* Deferred captures that nobody resumed at in the end were dropped. */
static int json_offers(struct sel_json *json, const struct replay_result *sum) {
    struct sel_json *offers = sel_json_object();
    int result = sel_json_set_u64(offers, "made", sum->offers_made) |
                 sel_json_set_u64(offers, "deferred", sum->offers_deferred) |
                 sel_json_set_u64(offers, "resumed", sum->offers_resumed) |
                 sel_json_set_u64(offers, "dropped", sum->offers_deferred - sum->offers_resumed);
    return result | sel_json_set(json, "offers", offers);
}

static int json_drain(struct sel_json *json, const struct drained *drained) {
    struct sel_json *drain = sel_json_object(), *skipped = sel_json_object();
    int result = sel_json_set_u64(skipped, "deadline", drained->skipped_deadline) |
                 sel_json_set_u64(skipped, "failed", drained->skipped_failed) |
                 sel_json_set_u64(skipped, "parent", drained->skipped_parent) |
                 sel_json_set_u64(skipped, "room", drained->skipped_room) |
                 sel_json_set_u64(drain, "written", drained->written);
    return result | sel_json_set(drain, "skipped", skipped) | sel_json_set(json, "drain", drain);
}

static int json_series(struct sel_json *json, const struct totals *totals) {
    struct sel_json *series = sel_json_array();
    int result = 0;
    for (size_t i = 0; i < totals->sample_count; i++) {
        const struct sample *sample = &totals->samples[i];
        struct sel_json *item = sel_json_object();
        result |= sel_json_set_u64(item, "request", sample->request) |
                  sel_json_set_u64(item, "slots_used", sample->slots_used) |
                  json_by_tier(item, "records_by_tier", sample->records) |
                  json_by_tier(item, "held_bytes_by_tier", sample->held_bytes) |
                  sel_json_set_u64(item, "disk_allocated_bytes", sample->disk_allocated_bytes) |
                  sel_json_set_u64(item, "disk_written_bytes", sample->disk_written_bytes) |
                  sel_json_set_u64(item, "tokens_in", sample->tokens_in) |
                  sel_json_set_u64(item, "tokens_hit", sample->tokens_hit) | sel_json_append(series, item);
    }
    return result | sel_json_set(json, "series", series);
}

static int json_recovery(struct sel_json *json, const struct totals *totals) {
    int result = sel_json_set_u64(json, "restarts", totals->restarts) |
                 sel_json_set_u64(json, "crashes", totals->crashes) |
                 sel_json_set_u64(json, "drained_records", totals->drained.written) |
                 sel_json_set_u64(json, "drain_skipped_records",
                                  totals->drained.skipped_deadline + totals->drained.skipped_failed +
                                      totals->drained.skipped_parent + totals->drained.skipped_room) |
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

static int draw(const struct replay_options *options, const struct sel_json *json, struct selene_message *message) {
    struct plot_run run;
    int result = plot_run_read(&run, json, options->trace ? options->trace : options->generate, message);
    if (result == 0)
        result = plot_write(options->plot, &run, 1, message);
    plot_run_free(&run);
    return result;
}

int report_json(const struct replay_stage *stage, struct totals *totals, struct selene_message *message) {
    const struct replay_options *options = stage->options;
    struct sel_json *json = sel_json_object();
    int result = json_setup(json, stage) | json_tokens(json, totals) | json_bytes(json, totals) |
                 json_counts(json, totals) | json_tiers(json, totals) | json_lifetimes(json, totals) |
                 json_offers(json, &totals->sum) | json_drain(json, &totals->drained) | json_recovery(json, totals) |
                 json_series(json, totals);
    if (result || totals->no_memory)
        result = sel_fail(message, SELENE_E_NOMEM, "no memory for the results");
    if (result == 0 && options->json)
        result = sel_json_write(json, options->json, message);
    if (result == 0 && options->plot)
        result = draw(options, json, message);
    sel_json_free(&json);
    return result;
}
