/* SPDX-License-Identifier: Apache-2.0
 *
 * Records that nobody used for the maximum age leave memory and disk [A1].
 *
 * Which go: leaves of the whole tree, oldest first, never in mid-chain [P6]; the parent that becomes a leaf inherits the
 * use of what was below it and is next when that was long ago, too; one without a row goes along at once [P6]. A sweep
 * runs at most once a minute, looks at 64 records at most, those that go along included (the last leaf takes along what it
 * must), and stops at the first fresh leaf. What is pinned waits. Without a maximum age a poll compares one number with 0.
 *
 * Clocks. Uses are stamped by an *age clock*: the wall time at open, and from then on the monotonic clock. So a wall clock
 * that jumps while the store runs, forward or back, changes no age at all. Across a restart age counts from the wall time
 * in the index, where each record has the time of its last use before it was written. What a wrong clock can do there:
 *   - a time in the future counts as now: those records go late
 *   - a clock that is ahead at open, or was behind when they were written, makes records look old: 64 a minute go, which
 *     costs recomputing; a warning says so when all of them look so old
 *   - a record used again after it was written has the older time in the index, and may go up to one maximum age early
 * Time in which the machine is suspended does not count until a restart.
 */
#include "engine/store_priv.h"

#include <inttypes.h>
#include <string.h>

#define SWEEP_NS      (60 * SEL_NS_PER_SECOND)
#define SWEEP_RECORDS 64
/* Children looked at for each record on the way down to a leaf. */
#define SWEEP_CHILDREN 64

void sel_age_init(selene_store *store) {
    /* May wrap around, as the sum then does. */
    store->age_base_ns = sel_wall_ns(store->clock) - sel_mono_ns(store->clock);
}

uint64_t sel_age_now(const selene_store *store) { return store->age_base_ns + sel_mono_ns(store->clock); }

uint64_t sel_age_time_s(const selene_store *store, uint64_t use) {
    uint64_t now = sel_age_now(store), wall = sel_wall_ns(store->clock), age = now > use ? now - use : 0;
    return (wall > age ? wall - age : 0) / SEL_NS_PER_SECOND;
}

uint64_t sel_age_deadline_ns(const selene_store *store) {
    if (store->options.max_age_ns == 0 || store->drain || store->closing) /* a drain is not disturbed */
        return UINT64_MAX;
    return store->sweep_mono_ns ? store->sweep_mono_ns + SWEEP_NS : 0;
}

/* The record used longest ago of those that may leave a tier, or NULL. */
static struct sel_node *oldest(const selene_store *store) {
    struct sel_node *found[] = {sel_tree_coldest(store->tree, SEL_TIER_MEMORY, SEL_ORDER_CLEAN),
                                sel_tree_coldest(store->tree, SEL_TIER_MEMORY, SEL_ORDER_PARKED),
                                sel_tree_coldest(store->tree, SEL_TIER_DISK, SEL_ORDER_CLEAN)};
    struct sel_node *node = NULL;
    for (size_t i = 0; i < SEL_COUNT(found); i++)
        if (found[i] && (!node || found[i]->last_use < node->last_use))
            node = found[i];
    return node;
}

/* The leaf below that was used last, as far as the way down shows. */
static struct sel_node *leaf_below(struct sel_node *node) {
    while (node->child) {
        struct sel_node *latest = node->child, *child = latest->sibling_next;
        for (unsigned i = 1; child && i < SWEEP_CHILDREN; i++, child = child->sibling_next)
            if (child->last_use > latest->last_use)
                latest = child;
        node = latest;
    }
    return node;
}

/* The leaf may be in no tier now. Ancestors that go along [P6] are counted as evictions there: they expired, too. Returns
 * how many they were. */
static uint64_t release(selene_store *store, struct sel_node *leaf) {
    struct selene_stats *stats = &store->stats;
    uint64_t before[SEL_TIER_COUNT], along = 0;
    memcpy(before, stats->evictions, sizeof before);
    if (leaf->tier[SEL_TIER_MEMORY].present || leaf->tier[SEL_TIER_DISK].present)
        sel_thin_barren(store, leaf);
    else
        sel_thin_release(store, &leaf);
    for (int tier = 0; tier < SEL_TIER_COUNT; tier++) {
        uint64_t gone = stats->evictions[tier] - before[tier];
        along = SEL_MAX(along, gone);
        stats->expiries[tier] += gone;
        stats->evictions[tier] = before[tier];
    }
    return along;
}

/* Removes a leaf from the tiers where nothing pins it. Returns how many records left, 0: none. */
static uint64_t expire(selene_store *store, struct sel_node *node) {
    bool gone = false;
    if (node->tier[SEL_TIER_MEMORY].present && node->tier[SEL_TIER_MEMORY].pins == 0) {
        store->stats.expiries[SEL_TIER_MEMORY]++;
        sel_memory_detach(store, node);
        gone = true;
    }
    if (node->tier[SEL_TIER_DISK].present && node->tier[SEL_TIER_DISK].pins == 0) {
        store->stats.expiries[SEL_TIER_DISK]++;
        sel_disk_detach(store, node);
        gone = true;
    }
    return gone ? 1 + release(store, node) : 0;
}

/* What is to be done about the oldest record, which was not used since `limit`. It may be no leaf, since it may leave one
 * tier where another has its children: it was used when they were, and waits when they do. Returns how many of a sweep's
 * records that took. */
static uint64_t sweep_one(selene_store *store, struct sel_node *node, uint64_t limit) {
    struct sel_node *leaf = leaf_below(node);
    uint64_t use = leaf->last_use, left;
    if (use <= node->last_use) {
        if ((left = expire(store, leaf)) > 0)
            return left;
        use = limit + 1;
    }
    sel_tree_touch(store->tree, node, use);
    return 1;
}

static uint64_t age_limit(const selene_store *store) {
    uint64_t now = sel_age_now(store), max_age = store->options.max_age_ns;
    return now > max_age ? now - max_age : 0;
}

void sel_age_recovered(selene_store *store) {
    if (store->options.max_age_ns && store->use_counter && store->use_counter <= age_limit(store))
        sel_log_warning(&store->log,
                        "by the clock all records are older than the maximum age of %" PRIu64
                        " s: they leave, %d a minute",
                        store->options.max_age_ns / SEL_NS_PER_SECOND, SWEEP_RECORDS);
}

void sel_age_step(selene_store *store) {
    uint64_t mono = sel_mono_ns(store->clock);
    if (mono < sel_age_deadline_ns(store))
        return;
    uint64_t limit = age_limit(store);
    store->sweep_mono_ns = mono;
    struct sel_node *node;
    for (uint64_t count = 0; count < SWEEP_RECORDS; count += sweep_one(store, node, limit))
        if ((node = oldest(store)) == NULL || node->last_use > limit)
            return;
}
