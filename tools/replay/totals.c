/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums.
 */
#include "tools/replay/totals.h"

#include <stdlib.h>

static bool latencies_add(struct latencies *latencies, uint64_t ns) {
    if (latencies->count == latencies->capacity) {
        size_t capacity = latencies->capacity ? latencies->capacity * 2 : 1024;
        uint64_t *moved = reallocarray(latencies->ns, capacity, sizeof *moved);
        if (moved == NULL)
            return false;
        latencies->ns = moved, latencies->capacity = capacity;
    }
    latencies->ns[latencies->count++] = ns;
    return true;
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

double latencies_ms(struct latencies *latencies, unsigned percent) {
    if (latencies->count == 0)
        return 0;
    qsort(latencies->ns, latencies->count, sizeof *latencies->ns, compare);
    return (double)latencies->ns[(latencies->count - 1) * percent / 100] * 1e-6;
}

void totals_add(struct totals *totals, const struct replay_result *result) {
    struct replay_result *sum = &totals->sum;
    uint32_t ideal = totals->ideal[result->index];
    totals->requests++;
    totals->ideal_tokens += ideal;
    totals->thinned_ideal_tokens += totals->thinned_ideal[result->index];
    totals->beyond_ideal += result->tokens_hit > ideal;
    sum->tokens_in += result->tokens_in;
    sum->tokens_hit += result->tokens_hit;
    for (int tier = 0; tier < SELENE_TIER_COUNT; tier++)
        sum->tokens_hit_by_tier[tier] += result->tokens_hit_by_tier[tier];
    sum->bytes.verified += result->bytes.verified;
    sum->bytes.wrong += result->bytes.wrong;
    sum->restores += result->restores;
    sum->restores_short += result->restores_short;
    sum->declined += result->declined;
    sum->publishes += result->publishes;
    sum->present += result->present;
    sum->oversize += result->oversize;
    sum->retries += result->retries;
    sum->abandoned += result->abandoned;
    sum->failed += result->failed;
    sum->offers_made += result->offers_made;
    sum->offers_deferred += result->offers_deferred;
    sum->offers_resumed += result->offers_resumed;
    sum->published_bytes += result->published_bytes;
    if (result->restore_tier >= 0 && result->restore_tier < SELENE_TIER_COUNT &&
        !latencies_add(&totals->restore[result->restore_tier], result->restore_ns))
        totals->no_memory = true;
}

void totals_add_store(struct totals *totals, const struct selene_stats *stats) {
    struct selene_stats sum = *stats;
    const struct selene_stats *old = &totals->store;
    sum.disk_written_bytes += old->disk_written_bytes;
    sum.disk_read_bytes += old->disk_read_bytes;
    sum.recovered_records += old->recovered_records;
    sum.torn_extents += old->torn_extents;
    sum.spills += old->spills;
    sum.spill_retries += old->spill_retries;
    sum.dropped_records += old->dropped_records;
    sum.copied_forward_bytes += old->copied_forward_bytes;
    sum.punched_bytes += old->punched_bytes;
    sum.recycled_segments += old->recycled_segments;
    sum.rows_brought_back += old->rows_brought_back;
    sum.abandoned_stores += old->abandoned_stores;
    for (size_t reason = 0; reason < sizeof sum.publishes_abandoned / sizeof sum.publishes_abandoned[0]; reason++)
        sum.publishes_abandoned[reason] += old->publishes_abandoned[reason];
    for (int tier = 0; tier < SELENE_TIER_COUNT; tier++) {
        sum.evictions[tier] += old->evictions[tier];
        sum.expiries[tier] += old->expiries[tier];
        sum.rows_thinned[tier] += old->rows_thinned[tier];
        sum.checksum_failures[tier] += old->checksum_failures[tier];
        sum.io_errors[tier] += old->io_errors[tier];
    }
    totals->store = sum;
}

void totals_add_drain(struct totals *totals, const struct selene_event *event) {
    totals->drained.written += event->drained_written;
    totals->drained.skipped_deadline += event->drained_skipped_deadline;
    totals->drained.skipped_failed += event->drained_skipped_failed;
    totals->drained.skipped_parent += event->drained_skipped_parent;
    totals->drained.skipped_room += event->drained_skipped_room;
}

/* ---- samples ---- */

void totals_sample_every(struct totals *totals, uint64_t requests) {
    totals->sample_every = requests / SAMPLES_MAX + 1;
}

bool totals_sample_due(const struct totals *totals) {
    return totals->sample_every && totals->requests % totals->sample_every == 0;
}

void totals_sample(struct totals *totals, const struct selene_stats *stats) {
    if (totals->sample_count == totals->sample_capacity) {
        size_t capacity = totals->sample_capacity * 2 + 64;
        struct sample *moved = reallocarray(totals->samples, capacity, sizeof *moved);
        if (moved == NULL) {
            totals->no_memory = true;
            return;
        }
        totals->samples = moved, totals->sample_capacity = capacity;
    }
    struct sample *sample = &totals->samples[totals->sample_count++];
    *sample = (struct sample){.request = totals->requests,
                              .slots_used = stats->slots_used,
                              .disk_allocated_bytes = stats->disk_allocated_bytes,
                              .disk_written_bytes = totals->store.disk_written_bytes + stats->disk_written_bytes,
                              .tokens_in = totals->sum.tokens_in,
                              .tokens_hit = totals->sum.tokens_hit};
    for (int tier = 0; tier < SELENE_TIER_COUNT; tier++) {
        sample->records[tier] = stats->records[tier];
        sample->held_bytes[tier] = stats->held_bytes[tier];
    }
}

void totals_free(struct totals *totals) {
    for (int tier = 0; tier < SELENE_TIER_COUNT; tier++)
        free(totals->restore[tier].ns);
    free(totals->samples);
}

bool totals_bad(const struct totals *totals) {
    return totals->sum.bytes.wrong || totals->lost_committed || totals->invariant_failures;
}
