/* SPDX-License-Identifier: Apache-2.0
 *
 * selene_get_stats: counters as they are, gauges filled in now.
 */
#include "engine/store_priv.h"

#include <string.h>

static void fill(selene_store *store, struct selene_stats *out) {
    *out = store->stats;
    for (int tier = 0; tier < SEL_TIER_COUNT; tier++)
        out->records[tier] = sel_tree_tier_count(store->tree, (enum sel_tier)tier);
    out->slots_total = store->slots.total;
    out->slots_used = store->slots.total - store->slots.free_count;
    out->slots_intake = store->intake_slots;
    out->memory_index_bytes = sel_tree_bytes(store->tree);
    if (!store->lsm)
        return;
    struct sel_lsm_stats lsm;
    sel_lsm_get_stats(store->lsm, &lsm);
    out->disk_written_bytes = lsm.written_bytes;
    out->disk_read_bytes = lsm.read_bytes;
    out->disk_allocated_bytes = lsm.allocated_bytes;
    out->disk_live_bytes = lsm.live_bytes;
    out->disk_dead_bytes = lsm.dead_bytes;
    out->index_bytes = lsm.catalog_bytes;
    out->disk_segments = lsm.segments;
    out->recovered_records = lsm.recovered_records;
    out->torn_extents = lsm.torn_extents;
    out->recycled_segments = lsm.recycled_segments;
    out->punched_bytes = lsm.punched_bytes;
    out->copied_forward_bytes = lsm.copied_forward_bytes;
    out->disk_state = (int)sel_lsm_state(store->lsm);
}

int selene_get_stats(selene_store *store, struct selene_stats *out, size_t stats_bytes) {
    int result = sel_store_usable(store);
    if (result)
        return result;
    if (!out || stats_bytes == 0)
        return SELENE_E_INVALID;
    struct selene_stats stats;
    fill(store, &stats);
    memset(out, 0, stats_bytes);
    memcpy(out, &stats, SEL_MIN(stats_bytes, sizeof stats));
    return 0;
}

const char *selene_disk_backend(const selene_store *store, int *direct) {
    bool used = store && store->disk;
    if (direct)
        *direct = used && store->disk->ops->direct(store->disk);
    return used ? store->disk->ops->backend(store->disk) : "none";
}
