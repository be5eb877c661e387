/* SPDX-License-Identifier: Apache-2.0
 *
 * What the record store tells at open and when it moves things: the tree is built from it. Records come in sequence
 * order, so parents first; one whose parent is unknown is refused, its space is then given back. Records of other
 * layouts are taken too: they never match, but they are in the disk's use order like all others [D1].
 */
#include "engine/store_priv.h"

#include <string.h>

int sel_recover_visit(void *context, const struct sel_lsm_record *record, const struct sel_location *location) {
    selene_store *store = context;
    struct sel_node *parent = NULL, *node;
    if (record->parent_tokens) {
        parent = sel_tree_find(store->tree, record->ns, &record->parent_key, record->parent_tokens);
        if (!parent)
            return SELENE_E_PARENT;
    }
    /* The same record twice: one removal was not committed before the crash. */
    if (sel_tree_find(store->tree, record->ns, &record->key, record->tokens))
        return SELENE_E_INVALID;
    /* Packed records are read from the issue on that writes them. */
    if (record->pages_replicated || record->row_replicated)
        return SELENE_E_UNSUPPORTED;
    struct sel_node_spec spec = {.ns = record->ns,
                                 .page_tokens = record->page_tokens,
                                 .tokens = record->tokens,
                                 .key = record->key,
                                 .parent = parent,
                                 .page_keys = record->page_keys,
                                 .page_key_count = record->page_key_count,
                                 .base_key = record->base_key};
    int result = sel_tree_insert(store->tree, &spec, &node);
    if (result)
        return result;
    result = sel_tree_add_to(store->tree, node, SEL_TIER_DISK, false);
    if (result) {
        sel_tree_release(store->tree, &node);
        return result;
    }
    node->disk = *location;
    store->stats.held_bytes[SEL_TIER_DISK] += sel_node_bytes(store, node, SEL_TIER_DISK);
    /* Use goes on from the time of the commit; within a second in order of the sequence. */
    uint64_t second = SEL_MIN(record->time_s, sel_wall_ns(store->clock) / SEL_NS_PER_SECOND);
    sel_tree_touch(store->tree, node, second * SEL_NS_PER_SECOND + location->sequence % (SEL_NS_PER_SECOND - 1));
    return 0;
}

struct move {
    const struct sel_key *key;
    const struct sel_location *from, *to;
};

static void move_one(void *context, struct sel_node *node) {
    const struct move *move = context;
    if (node->disk.sequence == move->from->sequence && node->tier[SEL_TIER_DISK].present &&
        sel_key_equal(&node->key, move->key))
        node->disk = *move->to;
}

void sel_recover_moved(void *context, const struct sel_key *key, const struct sel_location *from,
                       const struct sel_location *to) {
    selene_store *store = context;
    struct move move = {key, from, to};
    /* The lsm names neither namespace nor tokens, so the record is searched for. Copying forward is rare, and a search
     * costs less than the copy did. */
    sel_tree_visit(store->tree, move_one, &move);
}
