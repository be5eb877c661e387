/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies that failed, and records that must leave: [R4], [P4], [T3].
 *
 * A copy that may not be read any more is marked at once in node->flags; it leaves its tier when nothing pins it there.
 * So a failure never takes memory away under a transfer, and a look-up never finds it again [fault 26].
 */
#include "engine/store_priv.h"

#include <inttypes.h>

void sel_pin(selene_store *store, struct sel_node *node, enum sel_tier tier) { sel_tree_pin(store->tree, node, tier); }

void sel_unpin(selene_store *store, struct sel_node *node, enum sel_tier tier) {
    sel_tree_unpin(store->tree, node, tier);
    if (node->flags & SEL_NODE_UNSETTLED)
        sel_settle(store, node);
}

enum sel_tier sel_pin_lowest(selene_store *store, struct sel_node *node) {
    enum sel_tier tier = sel_node_pages_readable(node, SEL_TIER_DISK) ? SEL_TIER_DISK : SEL_TIER_MEMORY;
    sel_pin(store, node, tier);
    return tier;
}

/* Does what the flags ask for where no pin is in the way; never frees the node. */
static void leave_tiers(selene_store *store, struct sel_node *node) {
    struct sel_tier_state *memory = &node->tier[SEL_TIER_MEMORY], *disk = &node->tier[SEL_TIER_DISK];
    if ((node->flags & (SEL_BAD_MEMORY | SEL_DOOMED)) && memory->present && memory->pins == 0)
        sel_memory_detach(store, node);
    if ((node->flags & SEL_BAD_MEMORY_ROW) && memory->present && memory->pins == 0)
        sel_memory_drop_row(store, node);
    if ((node->flags & (SEL_BAD_DISK | SEL_DOOMED)) && disk->present && disk->pins == 0)
        sel_disk_detach(store, node);
    if ((node->flags & SEL_BAD_DISK_ROW) && disk->present && disk->pins == 0)
        sel_disk_remove_row(store, node); /* without the memory for it: unread, until it is settled again */
    sel_memory_refresh(store, node);
}

void sel_settle(selene_store *store, struct sel_node *node) {
    bool barren = node->flags & SEL_BARREN;
    leave_tiers(store, node);
    sel_thin_settle(store, node);
    node->flags &= (uint16_t)~SEL_BARREN;
    if (barren && !node->child)
        sel_thin_barren(store, node);
    else
        sel_thin_release(store, &node);
}

/* The first leaf under a node in walking order. */
static struct sel_node *first_leaf(struct sel_node *node) {
    while (node->child)
        node = node->child;
    return node;
}

/* The leaf after `leaf` under `top`, or NULL. */
static struct sel_node *next_leaf(const struct sel_node *top, struct sel_node *leaf) {
    while (leaf != top && !leaf->sibling_next)
        leaf = leaf->parent;
    return leaf == top ? NULL : first_leaf(leaf->sibling_next);
}

static void doom_one(selene_store *store, struct sel_node *node) {
    if (!(node->flags & SEL_DOOMED))
        store->stats.dropped_records++;
    node->flags |= SEL_DOOMED;
    leave_tiers(store, node);
}

void sel_doom(selene_store *store, struct sel_node *top) {
    /* First all nodes leave their tiers, and none is freed. Then the leaves are released, which frees upward: the next
     * leaf is found before one is released, and it is no ancestor of it. */
    struct sel_node *node = top;
    for (;;) {
        doom_one(store, node);
        if (node->child) {
            node = node->child;
            continue;
        }
        while (node != top && !node->sibling_next)
            node = node->parent;
        if (node == top)
            break;
        node = node->sibling_next;
    }
    for (struct sel_node *leaf = first_leaf(top), *next; leaf; leaf = next) {
        next = next_leaf(top, leaf);
        sel_thin_release(store, &leaf);
    }
}

static void count_failure(selene_store *store, enum sel_tier tier, int code) {
    if (code == SELENE_E_CORRUPT)
        store->stats.checksum_failures[tier]++;
    else
        store->stats.io_errors[tier]++;
}

bool sel_copy_innocent(int code) {
    return code == SELENE_E_NOMEM || code == SELENE_E_RETRY || code == SELENE_E_CANCELLED;
}

void sel_copy_failed(selene_store *store, struct sel_node *node, enum sel_tier tier, enum sel_lsm_part part, int code) {
    uint16_t pages = tier == SEL_TIER_MEMORY ? SEL_BAD_MEMORY : SEL_BAD_DISK;
    uint16_t row = tier == SEL_TIER_MEMORY ? SEL_BAD_MEMORY_ROW : SEL_BAD_DISK_ROW;
    uint16_t flag = part == SEL_LSM_ROW ? row : pages;
    if (sel_copy_innocent(code) || (node->flags & flag)) /* or another reader saw it first */
        return;
    count_failure(store, tier, code);
    node->flags |= flag;
    sel_log_warning(&store->log, "a record's %s in %s failed (%s) and is dropped there: tokens %" PRIu32,
                    part == SEL_LSM_ROW ? "row" : "pages", tier == SEL_TIER_MEMORY ? "memory" : "disk",
                    sel_error_text(code), node->tokens);
    sel_memory_refresh(store, node); /* no lower tier has it any more */
}
