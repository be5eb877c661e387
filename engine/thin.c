/* SPDX-License-Identifier: Apache-2.0
 *
 * Thinning: rows that nobody will resume at go, their records stay as carriers of pages [T1-T8]; and records that carry
 * pages for nobody go as well [P6, T7].
 *
 * One predicate, sel_thin_wanted, says whether a tier keeps a record's row. It is asked when a child commits in that
 * tier, for the ancestors that this can have made interior, and again when the last pin goes, if one was in the way:
 *
 *   kept --child commits--> SEL_THIN_ (pins) --last pin goes--> memory: slots freed, counted
 *                                                               disk: SEL_THINNING_DISK, not usable, until the index says
 *                                                               "no row"; counted then; usable again if that fails [T6]
 *
 * A fork of which a tier sees one side only is judged as a fork: the disk waits for the side that memory has not brought
 * yet, memory keeps the row while the disk lacks it. So a fork's row is neither lost nor written twice, in whatever order
 * the records of its sides are written and evicted. Once the disk has a row that memory kept for it, memory goes by its
 * own children (sel_thin_written).
 *
 * A row in memory that the disk lacks is parked, unless the disk will not keep it once it has all records that memory
 * has: the same rule, asked of all children (sel_thin_ahead). So the memory copies of the nearest ancestors are refreshed
 * when a record comes or goes.
 */
#include "engine/store_priv.h"

static uint16_t thin_flag(enum sel_tier tier) { return tier == SEL_TIER_MEMORY ? SEL_THIN_MEMORY : SEL_THIN_DISK; }

static bool row_is_there(const struct sel_node *node, enum sel_tier tier) {
    const struct sel_memory *memory = node->memory;
    return tier == SEL_TIER_MEMORY ? memory && memory->row.count > 0 : node->disk.row != 0;
}

/* Where a row is judged: by a tier's children, or by all of them. */
enum view { VIEW_MEMORY = SEL_TIER_MEMORY, VIEW_DISK = SEL_TIER_DISK, VIEW_ALL = SEL_TIER_COUNT };

/* 0, 1 or more. */
static uint32_t children(const struct sel_node *node, enum view view) {
    if (view == VIEW_ALL)
        return node->child ? 1 + (node->child->sibling_next != NULL) : 0;
    return node->tier[view].children;
}

/* Children come first among siblings when they are added to a tier, so the search is short. */
static const struct sel_node *only_child(const struct sel_node *node, enum view view) {
    const struct sel_node *child = node->child;
    if (children(node, view) != 1)
        return NULL;
    while (view != VIEW_ALL && !child->tier[view].present)
        child = child->sibling_next;
    return child;
}

/* The rule [T1, T5, T8]. */
static bool superfluous(const selene_store *store, const struct sel_node *node, enum view view) {
    uint16_t hold = view == VIEW_MEMORY ? SEL_HOLD_MEMORY : SEL_HOLD_DISK;
    if (store->layout->row_slots == 0 || store->options.no_thinning || !node->parent || (node->flags & hold) ||
        sel_node_foreign(store, node))
        return false;
    const struct sel_node *at = only_child(node, view);
    if (!at)
        return false;
    for (uint32_t step = 0; step < store->options.spare_rows; step++) {
        if (children(at, view) == 0)
            return false; /* a leaf so near keeps this row */
        if (children(at, view) > 1)
            return true;
        at = only_child(at, view);
    }
    return true;
}

/* The rule of a tier [T1], and what one tier knows for the other: a fork of which the disk has one side only, since
 * memory has not brought the other yet, or which memory sees one side of, since the other has left it. The disk waits
 * until it sees the fork; memory keeps the row for the disk while that lacks it. */
bool sel_thin_wanted(const selene_store *store, const struct sel_node *node, enum sel_tier tier) {
    bool fork = children(node, VIEW_ALL) > 1;
    if (fork && (tier == SEL_TIER_DISK || !sel_node_row_readable(node, SEL_TIER_DISK)))
        return false;
    return superfluous(store, node, (enum view)tier);
}

bool sel_thin_ahead(const selene_store *store, const struct sel_node *node) {
    return superfluous(store, node, VIEW_ALL);
}

void sel_thin_committed(selene_store *store, struct sel_node *node, enum sel_tier tier) {
    struct sel_node *at = node->parent;
    if (store->layout->row_slots == 0 || !at)
        return;
    at->flags &= (uint16_t)(tier == SEL_TIER_MEMORY ? ~SEL_HOLD_MEMORY : ~SEL_HOLD_DISK);
    for (uint32_t step = 0; at && step <= store->options.spare_rows; step++, at = at->parent) {
        if (row_is_there(at, tier) && sel_thin_wanted(store, at, tier)) {
            at->flags |= thin_flag(tier);
            sel_thin_settle(store, at);
        }
        sel_memory_refresh(store, at);
    }
}

void sel_thin_written(selene_store *store, struct sel_node *node) {
    if (row_is_there(node, SEL_TIER_MEMORY) && sel_thin_wanted(store, node, SEL_TIER_MEMORY))
        node->flags |= SEL_THIN_MEMORY;
}

/* Records left, so that what the disk is going to keep may have changed for those above. */
static void refresh_from(selene_store *store, struct sel_node *at) {
    for (uint32_t step = 0; at && step <= store->options.spare_rows; step++, at = at->parent)
        sel_memory_refresh(store, at);
}

void sel_thin_settle(selene_store *store, struct sel_node *node) {
    if ((node->flags & SEL_THIN_MEMORY) && node->tier[SEL_TIER_MEMORY].pins == 0) {
        node->flags &= (uint16_t)~SEL_THIN_MEMORY;
        if (row_is_there(node, SEL_TIER_MEMORY) && sel_thin_wanted(store, node, SEL_TIER_MEMORY)) {
            sel_memory_drop_row(store, node);
            store->stats.rows_thinned[SEL_TIER_MEMORY]++;
        }
        sel_memory_refresh(store, node);
    }
    if ((node->flags & SEL_THIN_DISK) && node->tier[SEL_TIER_DISK].pins == 0) {
        node->flags &= (uint16_t)~SEL_THIN_DISK;
        if (sel_node_row_readable(node, SEL_TIER_DISK) && sel_thin_wanted(store, node, SEL_TIER_DISK))
            sel_disk_remove_row(store, node);
        sel_memory_refresh(store, node);
    }
}

void sel_thin_hold(struct sel_node *node) { node->flags |= SEL_HOLD_MEMORY | SEL_HOLD_DISK; }

/* ---- carriers of pages for nobody ---- */

static bool pinned(const struct sel_node *node) {
    bool found = false;
    for (int tier = 0; tier < SEL_TIER_COUNT; tier++)
        found |= node->tier[tier].pins > 0;
    return found;
}

static bool held(const struct sel_node *node) {
    return node->tier[SEL_TIER_MEMORY].present || node->tier[SEL_TIER_DISK].present;
}

/* Nobody resumes at it, so that without a child it is of no use. */
static bool thinned(selene_store *store, const struct sel_node *node) {
    return store->layout->row_slots > 0 && !sel_node_foreign(store, node) && !sel_node_row_usable(store, node);
}

/* It leaves all tiers; false: a pin is in the way, it goes when that goes. */
static bool leave(selene_store *store, struct sel_node *node) {
    if (pinned(node)) {
        node->flags |= SEL_BARREN;
        return false;
    }
    for (int tier = SEL_TIER_MEMORY; tier <= SEL_TIER_DISK; tier++)
        store->stats.evictions[tier] += node->tier[tier].present;
    if (node->tier[SEL_TIER_MEMORY].present)
        sel_memory_detach(store, node);
    if (node->tier[SEL_TIER_DISK].present)
        sel_disk_detach(store, node);
    return true;
}

void sel_thin_release(selene_store *store, struct sel_node **node) {
    struct sel_node *below = *node, *up = below->parent;
    if (held(below) || pinned(below) || below->child)
        return;
    /* While the one below is the only child: those that it leaves childless. */
    for (; up && up->child == below && !below->sibling_next; below = up, up = up->parent)
        if (held(up) && (!thinned(store, up) || !leave(store, up)))
            break;
    sel_tree_release(store->tree, node);
    if (store->layout->row_slots)
        refresh_from(store, up);
}

void sel_thin_barren(selene_store *store, struct sel_node *node) {
    if (!node || node->child || !thinned(store, node))
        return;
    if (leave(store, node))
        sel_thin_release(store, &node);
}

struct childless {
    selene_store *store;
    struct sel_node **nodes; /* NULL: only count */
    size_t count;
};

static void collect(void *context, struct sel_node *node) {
    struct childless *childless = context;
    if (node->child || !thinned(childless->store, node))
        return;
    if (childless->nodes)
        childless->nodes[childless->count] = node;
    childless->count++;
}

void sel_thin_recovered(selene_store *store) {
    struct childless childless = {.store = store};
    if (store->layout->row_slots == 0)
        return;
    sel_tree_visit(store->tree, collect, &childless);
    if (childless.count == 0)
        return;
    /* Without the memory for it they stay until they are the coldest. */
    childless.nodes = malloc(childless.count * sizeof *childless.nodes);
    if (!childless.nodes)
        return;
    childless.count = 0;
    sel_tree_visit(store->tree, collect, &childless);
    /* None of them is above another, so none is freed before its turn. */
    for (size_t i = 0; i < childless.count; i++)
        sel_thin_barren(store, childless.nodes[i]);
    store->stats.evictions[SEL_TIER_DISK] = 0; /* nothing else has begun; what a crash left is not evicted */
    free(childless.nodes);
}
