/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree's checker [fault 7]: recomputes by brute force what the tree keeps by increments, O(n). It assumes that
 * pointers and numbers can be followed; everything else may be wrong.
 */
#include "index/tree_priv.h"

#include <inttypes.h>

struct check {
    const struct sel_tree *tree;
    struct selene_message *message;
    uint64_t nodes;
    uint64_t entries;
    uint64_t aligned;
    uint64_t present[SEL_TIER_COUNT];
    uint64_t ordered[SEL_TIER_COUNT][SEL_ORDER_COUNT];
    /* as seen from the map */
    uint64_t firsts;
    uint64_t holders;
    uint64_t k0;
    uint64_t mid_page;
    uint64_t tails;
};

#define FAIL_UNLESS(check, condition, ...)                                                                             \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return sel_fail((check)->message, SELENE_E_INTERNAL, "tree: " __VA_ARGS__);                                \
    } while (0)

/* A node's children: their links, and how many are present in each tier. */
static int check_children(struct check *check, const struct sel_node *node) {
    uint32_t children[SEL_TIER_COUNT] = {0}, previous = 0;

    for (const struct sel_node *child = node->child; child != NULL; child = child->sibling_next) {
        FAIL_UNLESS(check,
                    child->parent == node && child->sibling_prev == previous && child->ns == node->ns &&
                        child->tokens > node->tokens,
                    "child at %" PRIu32 " tokens of node at %" PRIu32 ": bad links", child->tokens, node->tokens);
        for (int t = 0; t < SEL_TIER_COUNT; t++)
            children[t] += child->tier[t].present;
        previous = sel_node_number(child);
    }
    for (int t = 0; t < SEL_TIER_COUNT; t++)
        FAIL_UNLESS(check, children[t] == node->tier[t].children,
                    "node at %" PRIu32 " tokens: %" PRIu32 " children in tier %d, counted %" PRIu32, node->tokens,
                    node->tier[t].children, t, children[t]);
    return 0;
}

static int check_orders_of(struct check *check, const struct sel_node *node) {
    for (int t = 0; t < SEL_TIER_COUNT; t++) {
        const struct sel_tier_state *here = &node->tier[t];
        bool in_order = here->position != SEL_TREE_NOWHERE;

        FAIL_UNLESS(check,
                    here->present <= 1 && here->parked <= 1 && (here->present || !here->parked) &&
                        (t == SEL_TIER_MEMORY || !here->parked),
                    "node at %" PRIu32 " tokens: present %d and parked %d in tier %d", node->tokens, here->present,
                    here->parked, t);
        check->present[t] += here->present;
        FAIL_UNLESS(check, in_order == sel_tree_evictable(node, (enum sel_tier)t),
                    "node at %" PRIu32 " tokens: %s the order of tier %d", node->tokens,
                    in_order ? "must not be in" : "is missing in", t);
        if (!in_order)
            continue;
        const struct sel_order_heap *heap = &check->tree->orders[t][here->parked];
        FAIL_UNLESS(check, here->position < heap->count && heap->nodes[here->position] == sel_node_number(node),
                    "node at %" PRIu32 " tokens: wrong position %" PRIu32 " in the order of tier %d", node->tokens,
                    here->position, t);
        check->ordered[t][here->parked]++;
    }
    return 0;
}

/* A node's page entries: every full page since its parent's, the deepest first; in the map as one of theirs. */
static int check_pages(struct check *check, const struct sel_node *node) {
    uint32_t page_tokens = sel_tree_page_tokens(check->tree, node);
    uint32_t last = (node->parent ? node->parent->tokens : 0) / page_tokens;
    uint32_t page = node->tokens / page_tokens;

    if (sel_node_aligned(check->tree, node)) {
        check->aligned++;
        page--;
    }
    for (uint32_t number = node->pages; number != 0; page--) {
        const struct sel_page_entry *entry = sel_entry_at(check->tree, number);
        FAIL_UNLESS(check, page > last && entry->tokens == page * page_tokens && entry->owner == sel_node_number(node),
                    "node at %" PRIu32 " tokens: bad entry of page %" PRIu32, node->tokens, page);
        check->entries++;
        number = entry->next;
    }
    FAIL_UNLESS(check, page == last, "node at %" PRIu32 " tokens: page %" PRIu32 " has no entry", node->tokens, page);
    return 0;
}

static int check_node(struct check *check, const struct sel_node *node) {
    int rc;

    check->nodes++;
    FAIL_UNLESS(check, node->ns < check->tree->namespace_count, "namespace %d of %" PRIu32, node->ns,
                check->tree->namespace_count);
    if ((rc = check_children(check, node)) != 0 || (rc = check_orders_of(check, node)) != 0)
        return rc;
    return check_pages(check, node);
}

static int check_heap(struct check *check, int tier, int order) {
    const struct sel_order_heap *heap = &check->tree->orders[tier][order];

    FAIL_UNLESS(check, heap->count == check->ordered[tier][order] && heap->count <= heap->capacity,
                "order %d of tier %d holds %" PRIu32 ", counted %" PRIu64, order, tier, heap->count,
                check->ordered[tier][order]);
    for (uint32_t at = 1; at < heap->count; at++)
        FAIL_UNLESS(check,
                    sel_node_at(check->tree, heap->nodes[(at - 1) / 4])->last_use <=
                        sel_node_at(check->tree, heap->nodes[at])->last_use,
                    "order %d of tier %d is not ordered at %" PRIu32, order, tier, at);
    return 0;
}

/* The page that a mid-page node extends is carried by itself or its nearest ancestor with a full page. */
static bool hangs_where_it_belongs(const struct sel_tree *tree, const struct sel_node *node,
                                   const struct sel_identity *holder) {
    for (const struct sel_node *at = node; at != NULL; at = at->parent) {
        if (at != node && sel_node_aligned(tree, at))
            return at->tokens == holder->tokens && sel_key_equal(&at->key, holder->key);
        if (at->pages != 0)
            return sel_entry_at(tree, at->pages)->tokens == holder->tokens &&
                   sel_key_equal(&sel_entry_at(tree, at->pages)->key, holder->key);
    }
    return holder->tokens == 0;
}

/* All mid-page nodes of one length. */
static int check_same_tail(struct check *check, uint32_t first, uint32_t ref, const struct sel_identity *holder) {
    uint32_t tokens = sel_node_at(check->tree, first)->tokens, previous = 0, k0 = holder->tokens == 0 ? ref : 0;

    for (uint32_t number = first; number != 0;) {
        const struct sel_node *node = sel_node_at(check->tree, number);
        FAIL_UNLESS(check,
                    node->tokens == tokens && node->ns == holder->ns && node->place[PLACE_SAME_TAIL_PREV] == previous &&
                        (number == first || (node->place[PLACE_TAIL_PREV] == 0 && node->place[PLACE_TAIL_K0] == k0)) &&
                        hangs_where_it_belongs(check->tree, node, holder),
                    "mid-page node at %" PRIu32 " tokens hangs wrongly under %" PRIu32, node->tokens, holder->tokens);
        check->tails++;
        previous = number;
        number = node->place[PLACE_SAME_TAIL];
    }
    return 0;
}

static int check_tails(struct check *check, uint32_t ref) {
    struct sel_identity holder = sel_ref_identity(check->tree, ref);
    uint32_t limit = holder.tokens + check->tree->namespaces[holder.ns].page_tokens;
    uint32_t previous = ref | SEL_REF_HOLDER;

    for (uint32_t number = sel_ref_place(check->tree, ref)[PLACE_TAILS]; number != 0;) {
        const struct sel_node *node = sel_node_at(check->tree, number);
        FAIL_UNLESS(check,
                    node->tokens < limit && node->tokens > holder.tokens && node->place[PLACE_TAIL_PREV] == previous,
                    "tail at %" PRIu32 " tokens is out of order under %" PRIu32, node->tokens, holder.tokens);
        int rc = check_same_tail(check, number, ref, &holder);
        if (rc != 0)
            return rc;
        limit = node->tokens;
        previous = number;
        number = node->place[PLACE_TAIL_NEXT];
    }
    return 0;
}

/* A list of holders of one page key: a node only as the first, tails only at the first. */
static int check_holders(struct check *check, uint32_t first) {
    struct sel_identity identity = sel_ref_identity(check->tree, first);
    uint32_t previous = 0;

    for (uint32_t ref = first; ref != 0;) {
        struct sel_identity own = sel_ref_identity(check->tree, ref);
        const uint32_t *place = sel_ref_place(check->tree, ref);
        FAIL_UNLESS(check,
                    sel_key_equal(own.key, identity.key) && own.tokens == identity.tokens && own.ns == identity.ns &&
                        place[PLACE_SAME_PAGE_PREV] == previous,
                    "holders of the page at %" PRIu32 " tokens: bad list", identity.tokens);
        FAIL_UNLESS(check, ref == first || ((ref & SEL_REF_ENTRY) && place[PLACE_TAILS] == 0),
                    "holders of the page at %" PRIu32 " tokens: a node or tails behind the first", identity.tokens);
        if (sel_ref_owner(check->tree, ref) == NULL) {
            check->k0++;
            FAIL_UNLESS(check, identity.tokens == 0 && place[PLACE_TAILS] != 0, "a K0 without tails");
        } else {
            check->holders++;
        }
        previous = ref;
        ref = place[PLACE_SAME_PAGE];
    }
    return check_tails(check, first);
}

static int check_bucket(struct check *check, uint32_t bucket) {
    const struct sel_tree_map *map = &check->tree->map;
    uint32_t ref = map->segments[bucket >> SEL_SEGMENT_SHIFT][bucket & ((1u << SEL_SEGMENT_SHIFT) - 1)];

    for (; ref != 0; ref = sel_ref_place(check->tree, ref)[PLACE_MAP_NEXT]) {
        struct sel_identity identity = sel_ref_identity(check->tree, ref);
        check->firsts++;
        FAIL_UNLESS(check, sel_tree_map_bucket(map, identity.key) == bucket, "bucket %" PRIu32 " holds a stranger",
                    bucket);
        FAIL_UNLESS(check, sel_tree_map_find(check->tree, &identity) == ref, "key at %" PRIu32 " tokens is twice there",
                    identity.tokens);
        if (!(ref & SEL_REF_ENTRY) && !sel_node_aligned(check->tree, sel_node_at(check->tree, ref))) {
            check->mid_page++;
            continue;
        }
        int rc = check_holders(check, ref);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int check_counts(struct check *check) {
    const struct sel_tree *tree = check->tree;

    FAIL_UNLESS(check,
                check->nodes == tree->nodes.used && check->entries + check->k0 == tree->entries.used &&
                    check->aligned == tree->aligned_count && check->firsts == tree->map.count,
                "%" PRIu64 " nodes, %" PRIu64 " entries, %" PRIu64 " keys; counted %" PRIu32 ", %" PRIu32 ", %" PRIu64,
                check->nodes, check->entries + check->k0, check->firsts, tree->nodes.used, tree->entries.used,
                tree->map.count);
    FAIL_UNLESS(check, check->holders == check->entries + check->aligned,
                "%" PRIu64 " pages carried, %" PRIu64 " in the map", check->entries + check->aligned, check->holders);
    FAIL_UNLESS(check, check->mid_page == check->nodes - check->aligned && check->tails == check->mid_page,
                "%" PRIu64 " mid-page nodes, %" PRIu64 " in the map, %" PRIu64 " tails", check->nodes - check->aligned,
                check->mid_page, check->tails);
    for (int t = 0; t < SEL_TIER_COUNT; t++)
        FAIL_UNLESS(check, check->present[t] == tree->tier_count[t], "tier %d: %" PRIu64 " records, counted %" PRIu64,
                    t, tree->tier_count[t], check->present[t]);
    return 0;
}

struct walk {
    struct check *check;
    int rc;
};

static void visit_node(void *context, struct sel_node *node) {
    struct walk *walk = context;

    if (walk->rc == 0)
        walk->rc = check_node(walk->check, node);
}

int sel_tree_check(struct sel_tree *tree, struct selene_message *message) {
    struct check check = {.tree = tree, .message = message};
    struct walk walk = {&check, 0};

    SEL_CHECK_MAGIC(tree, SEL_TREE_MAGIC);
    sel_tree_load_end(tree);
    sel_tree_visit(tree, visit_node, &walk);
    for (int t = 0; t < SEL_TIER_COUNT; t++)
        for (int order = 0; order < SEL_ORDER_COUNT && walk.rc == 0; order++)
            walk.rc = check_heap(&check, t, order);
    for (uint32_t bucket = 0; bucket < tree->map.bucket_count && walk.rc == 0; bucket++)
        walk.rc = check_bucket(&check, bucket);
    return walk.rc != 0 ? walk.rc : check_counts(&check);
}
