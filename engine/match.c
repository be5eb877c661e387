/* SPDX-License-Identifier: Apache-2.0
 *
 * From what the tree holds to what can be read now [R1, R4]. The tree answers with the longest match; a record on its
 * chain may have failed in every tier (and wait for its last pin to go), then the match ends above it.
 */
#include "engine/store_priv.h"

/* The topmost record of the chain that cannot be read, or NULL. */
static struct sel_node *topmost_broken(struct sel_node *node) {
    struct sel_node *broken = NULL;
    for (; node; node = node->parent)
        if (sel_node_tier(node, SEL_LSM_PAGES) < 0)
            broken = node;
    return broken;
}

struct sel_match sel_match_find(selene_store *store, const struct sel_prefix *prefix, uint64_t limit_tokens) {
    bool has_rows = store->layout->desc.row_bytes > 0;
    struct sel_match match = sel_tree_longest(store->tree, prefix, limit_tokens, has_rows, sel_node_row_usable, store);
    struct sel_node *broken = topmost_broken(match.node);
    if (!broken)
        return match;
    struct sel_node *node = broken->parent;
    while (has_rows && node && !sel_node_row_usable(store, node))
        node = node->parent;
    return (struct sel_match){.node = node, .tokens = node ? node->tokens : 0};
}
