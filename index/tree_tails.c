/* SPDX-License-Identifier: Apache-2.0
 *
 * Tails: the mid-page records under one page key [L5]. See tree_priv.h for the shape of the lists.
 */
#include "index/tree_priv.h"

/* Hangs `node` behind `other`, which has the same length. */
static void add_same(struct sel_tree *tree, uint32_t holder, uint32_t other, struct sel_node *node) {
    uint32_t number = sel_node_number(node);
    uint32_t *before = sel_ref_place(tree, other);

    node->place[PLACE_TAIL_K0] = sel_ref_owner(tree, holder) == NULL ? holder : 0;
    node->place[PLACE_SAME_TAIL] = before[PLACE_SAME_TAIL];
    node->place[PLACE_SAME_TAIL_PREV] = other;
    if (before[PLACE_SAME_TAIL] != 0)
        sel_ref_place(tree, before[PLACE_SAME_TAIL])[PLACE_SAME_TAIL_PREV] = number;
    before[PLACE_SAME_TAIL] = number;
}

/* The link that names a tail which is the one of its length: in its holder or in the tail before it. */
static uint32_t *link_before(struct sel_tree *tree, uint32_t previous) {
    if (previous & SEL_REF_HOLDER)
        return &sel_ref_place(tree, previous & ~SEL_REF_HOLDER)[PLACE_TAILS];
    return &sel_ref_place(tree, previous)[PLACE_TAIL_NEXT];
}

void sel_tree_tail_add(struct sel_tree *tree, uint32_t holder, struct sel_node *node) {
    uint32_t number = sel_node_number(node);
    uint32_t previous = holder | SEL_REF_HOLDER;
    uint32_t next = *link_before(tree, previous);

    while (next != 0 && sel_node_at(tree, next)->tokens > node->tokens) {
        previous = next;
        next = *link_before(tree, previous);
    }
    if (next != 0 && sel_node_at(tree, next)->tokens == node->tokens) {
        add_same(tree, holder, next, node);
        return;
    }
    node->place[PLACE_TAIL_NEXT] = next;
    node->place[PLACE_TAIL_PREV] = previous;
    *link_before(tree, previous) = number;
    if (next != 0)
        sel_ref_place(tree, next)[PLACE_TAIL_PREV] = number;
}

void sel_tree_hang(struct sel_tree *tree, struct sel_node *node, const struct sel_key *base_key) {
    uint32_t base_tokens = node->tokens - node->tokens % sel_tree_page_tokens(tree, node);
    uint32_t holder = sel_tree_map_find(tree, &(struct sel_identity){base_key, base_tokens, node->ns});

    SEL_CHECK(holder != 0);
    sel_tree_tail_add(tree, holder, node);
}

/* Puts `heir` (0: nobody) where `node` is among the lengths. */
static void replace_tail(struct sel_tree *tree, const struct sel_node *node, uint32_t heir) {
    uint32_t next = node->place[PLACE_TAIL_NEXT], previous = node->place[PLACE_TAIL_PREV];

    *link_before(tree, previous) = heir ? heir : next;
    if (next != 0)
        sel_ref_place(tree, next)[PLACE_TAIL_PREV] = heir ? heir : previous;
    if (heir != 0) {
        uint32_t *place = sel_ref_place(tree, heir);
        place[PLACE_TAIL_NEXT] = next;
        place[PLACE_TAIL_PREV] = previous;
        place[PLACE_SAME_TAIL_PREV] = 0;
    }
}

static void free_empty_k0(struct sel_tree *tree, uint32_t holder) {
    if (!(holder & SEL_REF_ENTRY))
        return;
    struct sel_page_entry *entry = sel_entry_at(tree, holder & SEL_NUMBER_MAX);
    if (entry->owner == 0 && entry->place[PLACE_TAILS] == 0) {
        sel_tree_map_remove(tree, holder);
        sel_slab_give(&tree->entries, holder & SEL_NUMBER_MAX);
    }
}

void sel_tree_tail_remove(struct sel_tree *tree, struct sel_node *node) {
    uint32_t previous = node->place[PLACE_TAIL_PREV];

    if (previous != 0) {
        replace_tail(tree, node, node->place[PLACE_SAME_TAIL]);
        if (previous & SEL_REF_HOLDER)
            free_empty_k0(tree, previous & ~SEL_REF_HOLDER);
    } else {
        uint32_t before = node->place[PLACE_SAME_TAIL_PREV], next = node->place[PLACE_SAME_TAIL];
        sel_ref_place(tree, before)[PLACE_SAME_TAIL] = next;
        if (next != 0)
            sel_ref_place(tree, next)[PLACE_SAME_TAIL_PREV] = before;
    }
    for (int i = PLACE_TAIL_NEXT; i <= PLACE_SAME_TAIL_PREV; i++)
        node->place[i] = 0;
}
