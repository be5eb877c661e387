/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys that describe a record, read back from the tree: what its spec had.
 */
#include "index/tree_priv.h"

/* The K0 that a record hangs under: known to those behind others of its length, the first walks past longer tails. */
static const struct sel_key *k0_of(const struct sel_tree *tree, const struct sel_node *node) {
    const uint32_t *place = node->place;

    if (place[PLACE_TAIL_PREV] == 0)
        return sel_ref_identity(tree, place[PLACE_TAIL_K0]).key;
    while (!(place[PLACE_TAIL_PREV] & SEL_REF_HOLDER))
        place = sel_ref_place(tree, place[PLACE_TAIL_PREV]);
    return sel_ref_identity(tree, place[PLACE_TAIL_PREV] & ~SEL_REF_HOLDER).key;
}

/* K(tokens / P) of a mid-page record: its own last full page, or that of the nearest ancestor that has one. Not by way
 * of the tails, since any number of them may have the same length. */
const struct sel_key *sel_tree_base_key(const struct sel_tree *tree, const struct sel_node *node) {
    for (const struct sel_node *at = node; at != NULL; at = at->parent) {
        if (sel_node_aligned(tree, at))
            return &at->key;
        if (at->pages != 0)
            return &sel_entry_at(tree, at->pages)->key;
    }
    return k0_of(tree, node);
}

void sel_tree_keys(const struct sel_tree *tree, const struct sel_node *node, struct sel_key *page_keys,
                   struct sel_key *base_key) {
    SEL_CHECK(!sel_tree_loading(tree));
    uint32_t page_tokens = sel_tree_page_tokens(tree, node);
    uint32_t count = node->tokens / page_tokens - (node->parent ? node->parent->tokens : 0) / page_tokens;
    bool aligned = sel_node_aligned(tree, node);
    uint32_t at = count;
    if (aligned)
        page_keys[--at] = node->key;
    for (uint32_t entry = node->pages; entry != 0 && at > 0; entry = sel_entry_at(tree, entry)->next)
        page_keys[--at] = sel_entry_at(tree, entry)->key;
    SEL_CHECK(at == 0);
    *base_key = *sel_tree_base_key(tree, node);
}
