/* SPDX-License-Identifier: Apache-2.0
 *
 * selene_lookup [R1]: the longest usable match, where it lies, and how long it may take [R3]. Pins nothing, no I/O.
 */
#include "engine/prefix_priv.h"

#include <string.h>

/* What a restore of a match moves, by tier. */
struct plan {
    uint64_t copied[SEL_TIER_COUNT]; /* into device memory */
    uint64_t read[SEL_TIER_COUNT];   /* of the tier: from disk one share of what is packed */
};

static void plan_part(struct plan *plan, const struct sel_node *node, enum sel_lsm_part part, uint64_t share_bytes,
                      uint32_t ranks) {
    uint16_t packed = part == SEL_LSM_ROW ? SEL_DISK_ROW_PACKED : SEL_DISK_PAGES_PACKED;
    int tier = sel_node_tier(node, part);
    if (tier < 0)
        return;
    plan->copied[tier] += share_bytes * ranks;
    plan->read[tier] += share_bytes * (tier == SEL_TIER_DISK && (node->flags & packed) ? 1 : ranks);
}

static void plan_make(const selene_store *store, struct sel_match match, struct plan *plan) {
    const struct sel_layout *layout = store->layout;
    uint32_t end = sel_layout_end_page(layout, match.tokens), ranks = layout->desc.rank_count;
    uint64_t tail = match.tokens % layout->desc.page_tokens;
    for (const struct sel_node *node = match.node; node; node = node->parent) {
        uint32_t first = sel_node_first_page(store, node);
        uint64_t share = end > first ? layout->page_bytes * (end - first) : 0;
        if (node == match.node && tail)
            share -= layout->page_bytes - sel_page_bytes(store, (uint32_t)tail) / ranks;
        plan_part(plan, node, SEL_LSM_PAGES, share, ranks);
        end = SEL_MIN(end, first);
    }
    plan_part(plan, match.node, SEL_LSM_ROW, layout->desc.row_bytes, ranks);
}

/* How long it may take, and whether computing the tokens would take less [R3]. Tiers are read at the same time, but into
 * the same device memory: their times are added. */
static void estimate(selene_store *store, const struct plan *plan, struct selene_match *match) {
    double rate = store->options.prefill_tokens_per_s;
    match->estimate_ns = sel_cost_estimate(store, plan->read);
    if (match->estimate_ns == 0)
        return;
    store->stats.estimates++;
    match->declined = rate > 0 && (double)match->estimate_ns * rate > (double)match->tokens * SEL_NS_PER_SECOND;
    store->stats.declines += (uint64_t)match->declined;
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
    struct plan plan = {0};
    plan_make(store, match, &plan);
    out->tokens = match.tokens;
    for (int tier = 0; tier < SEL_TIER_COUNT; tier++) {
        out->bytes += plan.copied[tier];
        if (plan.copied[tier])
            out->tier = tier;
    }
    estimate(store, &plan, out);
    store->stats.lookup_hits[out->tier]++;
    return 0;
}
