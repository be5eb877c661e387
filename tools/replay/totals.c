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
    for (int tier = 0; tier < SELENE_TIER_COUNT; tier++) {
        sum.evictions[tier] += old->evictions[tier];
        sum.checksum_failures[tier] += old->checksum_failures[tier];
        sum.io_errors[tier] += old->io_errors[tier];
    }
    totals->store = sum;
}

void totals_free(struct totals *totals) {
    for (int tier = 0; tier < SELENE_TIER_COUNT; tier++)
        free(totals->restore[tier].ns);
}

bool totals_bad(const struct totals *totals) {
    return totals->sum.bytes.wrong || totals->lost_committed || totals->invariant_failures;
}
