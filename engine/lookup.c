/* SPDX-License-Identifier: Apache-2.0
 *
 * selene_lookup [R1]: the longest usable match, where it lies, and how long it may take [R3]. Pins nothing, no I/O.
 */
#include "engine/prefix_priv.h"

#include <string.h>

/* Bytes that a restore of this match reads from each tier. */
static void count_bytes(const selene_store *store, struct sel_match match, uint64_t bytes[SEL_TIER_COUNT]) {
    const struct sel_layout *layout = store->layout;
    uint32_t end = sel_layout_end_page(layout, match.tokens);
    uint64_t ranks = layout->desc.rank_count, tail = match.tokens % layout->desc.page_tokens;
    for (const struct sel_node *node = match.node; node; node = node->parent) {
        uint32_t first = sel_node_first_page(store, node);
        int tier = sel_node_tier(node, SEL_LSM_PAGES);
        if (end > first && tier >= 0)
            bytes[tier] += ranks * layout->page_bytes * (end - first);
        if (node == match.node && tail && tier >= 0)
            bytes[tier] -= ranks * layout->page_bytes - sel_page_bytes(store, (uint32_t)tail);
        end = SEL_MIN(end, first);
    }
    int tier = layout->desc.row_bytes ? sel_node_tier(match.node, SEL_LSM_ROW) : -1;
    if (tier >= 0)
        bytes[tier] += ranks * layout->desc.row_bytes;
}

static uint64_t time_of(const struct sel_rate *rate, uint64_t bytes, bool *known) {
    if (bytes == 0)
        return 0;
    if (rate->bytes_per_ns <= 0) {
        *known = false;
        return 0;
    }
    return (uint64_t)((double)bytes / rate->bytes_per_ns);
}

int selene_lookup(selene_store *store, const selene_prefix *prefix, uint64_t limit_tokens, struct selene_match *out) {
    int result = sel_store_usable(store);
    if (result)
        return result;
    if (!out)
        return SELENE_E_INVALID;
    if ((result = sel_prefix_usable(store, prefix)) != 0)
        return result;
    memset(out, 0, sizeof *out);
    out->tier = SELENE_TIER_NONE;
    store->stats.lookups++;
    uint64_t limit = SEL_MIN(limit_tokens, sel_prefix_tokens(prefix->keys));
    struct sel_match match = sel_match_find(store, prefix->keys, limit);
    if (!match.node) {
        store->stats.lookup_misses++;
        return 0;
    }
    uint64_t bytes[SEL_TIER_COUNT] = {0};
    bool known = true;
    count_bytes(store, match, bytes);
    out->tokens = match.tokens;
    for (int tier = 0; tier < SEL_TIER_COUNT; tier++) {
        out->bytes += bytes[tier];
        if (bytes[tier])
            out->tier = tier;
    }
    /* Both are read at the same time, but into the same device memory: their times are added. */
    out->estimate_ns = time_of(&store->memory_rate, bytes[SEL_TIER_MEMORY], &known) +
                       time_of(&store->disk_rate, bytes[SEL_TIER_DISK], &known);
    if (!known)
        out->estimate_ns = 0;
    store->stats.lookup_hits[out->tier]++;
    return 0;
}
