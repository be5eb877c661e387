/* SPDX-License-Identifier: Apache-2.0
 *
 * Presence, pins and the use orders of the tiers [P5, P6].
 *
 * An order is a 4-ary min-heap of node numbers by last_use (base/heap.h keeps 16 bytes an item, this one 4: a record
 * in three tiers has three). Every change goes through sel_tree_refresh, which compares where a node is with where the
 * one predicate says it belongs. A heap has room for every node present in its tier before the node is added, so that
 * only adding can fail.
 */
#include "index/tree_priv.h"

#include <stdlib.h>

#define ARITY 4

static void put(const struct sel_tree *tree, enum sel_tier tier, struct sel_order_heap *heap, uint32_t at,
                uint32_t number) {
    heap->nodes[at] = number;
    sel_node_at(tree, number)->tier[tier].position = at;
}

static uint64_t use_at(const struct sel_tree *tree, const struct sel_order_heap *heap, uint32_t at) {
    return sel_node_at(tree, heap->nodes[at])->last_use;
}

static uint32_t sift_up(const struct sel_tree *tree, enum sel_tier tier, struct sel_order_heap *heap, uint32_t at,
                        uint64_t use) {
    while (at > 0) {
        uint32_t parent = (at - 1) / ARITY;
        if (use_at(tree, heap, parent) <= use)
            break;
        put(tree, tier, heap, at, heap->nodes[parent]);
        at = parent;
    }
    return at;
}

static uint32_t sift_down(const struct sel_tree *tree, enum sel_tier tier, struct sel_order_heap *heap, uint32_t at,
                          uint64_t use) {
    for (;;) {
        uint64_t first = (uint64_t)at * ARITY + 1;
        if (first >= heap->count)
            return at;
        uint32_t end = (uint32_t)SEL_MIN(first + ARITY, (uint64_t)heap->count);
        uint32_t least = (uint32_t)first;
        uint64_t least_use = use_at(tree, heap, least);
        for (uint32_t child = least + 1; child < end; child++) {
            uint64_t child_use = use_at(tree, heap, child);
            if (child_use < least_use) {
                least = child;
                least_use = child_use;
            }
        }
        if (least_use >= use)
            return at;
        put(tree, tier, heap, at, heap->nodes[least]);
        at = least;
    }
}

/* Places a node in the hole at `at`. */
static void settle(const struct sel_tree *tree, enum sel_tier tier, struct sel_order_heap *heap, uint32_t at,
                   struct sel_node *node) {
    uint32_t up = sift_up(tree, tier, heap, at, node->last_use);

    put(tree, tier, heap, up == at ? sift_down(tree, tier, heap, at, node->last_use) : up, sel_node_number(node));
}

static void take_out(const struct sel_tree *tree, enum sel_tier tier, struct sel_order_heap *heap,
                     struct sel_node *node) {
    uint32_t at = node->tier[tier].position;

    SEL_CHECK(at < heap->count && heap->nodes[at] == sel_node_number(node));
    node->tier[tier].position = SEL_TREE_NOWHERE;
    heap->count--;
    if (at < heap->count)
        settle(tree, tier, heap, at, sel_node_at(tree, heap->nodes[heap->count]));
}

static int reserve(struct sel_order_heap *heap, uint64_t needed) {
    if (needed <= heap->capacity)
        return 0;
    uint64_t capacity = SEL_MAX(needed, (uint64_t)heap->capacity + heap->capacity / 8 + 16);
    uint32_t *nodes = realloc(heap->nodes, capacity * sizeof *nodes);
    if (nodes == NULL)
        return SELENE_E_NOMEM;
    heap->nodes = nodes;
    heap->capacity = (uint32_t)capacity; /* nodes have 30-bit numbers */
    return 0;
}

bool sel_tree_evictable(const struct sel_node *node, enum sel_tier tier) {
    const struct sel_tier_state *here = &node->tier[tier];
    bool elsewhere = false;

    for (int t = 0; t < SEL_TIER_COUNT; t++)
        elsewhere |= t != (int)tier && node->tier[t].present;
    return here->present && here->pins == 0 && here->children == 0 && (elsewhere || node->child == NULL);
}

static void refresh_one(struct sel_tree *tree, struct sel_node *node, enum sel_tier tier) {
    struct sel_tier_state *here = &node->tier[tier];
    struct sel_order_heap *heap = &tree->orders[tier][here->parked];
    bool wanted = sel_tree_evictable(node, tier);

    if (wanted && here->position == SEL_TREE_NOWHERE) {
        SEL_CHECK(heap->count < heap->capacity);
        settle(tree, tier, heap, heap->count++, node);
    } else if (!wanted && here->position != SEL_TREE_NOWHERE) {
        take_out(tree, tier, heap, node);
    }
}

void sel_tree_refresh(struct sel_tree *tree, struct sel_node *node) {
    for (int t = 0; t < SEL_TIER_COUNT; t++)
        refresh_one(tree, node, (enum sel_tier)t);
}

/* A new last_use moves the node in the orders that hold it. */
static void set_use(struct sel_tree *tree, struct sel_node *node, uint64_t now) {
    if (now <= node->last_use)
        return;
    node->last_use = now;
    for (int t = 0; t < SEL_TIER_COUNT; t++) {
        struct sel_tier_state *here = &node->tier[t];
        if (here->position != SEL_TREE_NOWHERE)
            settle(tree, (enum sel_tier)t, &tree->orders[t][here->parked], here->position, node);
    }
}

void sel_tree_inherit(struct sel_tree *tree, struct sel_node *parent, const struct sel_node *child) {
    set_use(tree, parent, child->last_use);
}

/* Before its siblings: who asks for the only child in a tier finds the one that came last at once, however many siblings
 * other tiers hold. */
static void put_first(struct sel_tree *tree, struct sel_node *node) {
    if (node->parent == NULL || node->sibling_prev == 0)
        return;
    sel_node_at(tree, node->sibling_prev)->sibling_next = node->sibling_next;
    if (node->sibling_next != NULL)
        node->sibling_next->sibling_prev = node->sibling_prev;
    node->sibling_prev = 0;
    node->sibling_next = node->parent->child;
    node->sibling_next->sibling_prev = sel_node_number(node);
    node->parent->child = node;
}

int sel_tree_add_to(struct sel_tree *tree, struct sel_node *node, enum sel_tier tier, bool parked) {
    int rc = reserve(&tree->orders[tier][SEL_ORDER_CLEAN], tree->tier_count[tier] + 1);

    SEL_CHECK(!node->tier[tier].present && (!parked || tier == SEL_TIER_MEMORY));
    if (rc == 0 && tier == SEL_TIER_MEMORY)
        rc = reserve(&tree->orders[tier][SEL_ORDER_PARKED], tree->tier_count[tier] + 1);
    if (rc != 0)
        return rc;
    node->tier[tier].present = 1;
    node->tier[tier].parked = parked ? SEL_ORDER_PARKED : SEL_ORDER_CLEAN;
    tree->tier_count[tier]++;
    sel_tree_refresh(tree, node);
    put_first(tree, node);
    if (node->parent != NULL) {
        node->parent->tier[tier].children++;
        refresh_one(tree, node->parent, tier);
    }
    return 0;
}

void sel_tree_remove_from(struct sel_tree *tree, struct sel_node *node, enum sel_tier tier) {
    struct sel_tier_state *here = &node->tier[tier];

    SEL_CHECK(here->present && here->pins == 0);
    if (here->position != SEL_TREE_NOWHERE)
        take_out(tree, tier, &tree->orders[tier][here->parked], node);
    here->present = 0;
    here->parked = SEL_ORDER_CLEAN;
    tree->tier_count[tier]--;
    sel_tree_refresh(tree, node); /* where it is left it may be the last copy now */
    if (node->parent != NULL) {
        SEL_CHECK(node->parent->tier[tier].children > 0);
        node->parent->tier[tier].children--;
        sel_tree_inherit(tree, node->parent, node);
        refresh_one(tree, node->parent, tier);
    }
}

void sel_tree_set_parked(struct sel_tree *tree, struct sel_node *node, enum sel_tier tier, bool parked) {
    struct sel_tier_state *here = &node->tier[tier];

    SEL_CHECK(here->present && (!parked || tier == SEL_TIER_MEMORY));
    if (here->position != SEL_TREE_NOWHERE)
        take_out(tree, tier, &tree->orders[tier][here->parked], node);
    here->parked = parked ? SEL_ORDER_PARKED : SEL_ORDER_CLEAN;
    refresh_one(tree, node, tier);
}

void sel_tree_touch(struct sel_tree *tree, struct sel_node *node, uint64_t now) { set_use(tree, node, now); }

void sel_tree_pin(struct sel_tree *tree, struct sel_node *node, enum sel_tier tier) {
    SEL_CHECK(node->tier[tier].pins < UINT16_MAX);
    node->tier[tier].pins++;
    refresh_one(tree, node, tier);
}

void sel_tree_unpin(struct sel_tree *tree, struct sel_node *node, enum sel_tier tier) {
    SEL_CHECK(node->tier[tier].pins > 0);
    node->tier[tier].pins--;
    refresh_one(tree, node, tier);
}

struct sel_node *sel_tree_coldest(const struct sel_tree *tree, enum sel_tier tier, enum sel_order order) {
    const struct sel_order_heap *heap = &tree->orders[tier][order];

    return heap->count > 0 ? sel_node_at(tree, heap->nodes[0]) : NULL;
}
