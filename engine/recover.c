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
    /* The namespace stands for the page size, too: a directory that says otherwise lies, and whatever is computed from
     * this store's layout would be wrong for the record. */
    if (memcmp(record->ns, store->layout->ns, sizeof record->ns) == 0 &&
        record->page_tokens != store->layout->desc.page_tokens)
        return SELENE_E_INVALID;
    if (record->parent_tokens) {
        parent = sel_tree_find(store->tree, record->ns, &record->parent_key, record->parent_tokens);
        if (!parent)
            return SELENE_E_PARENT;
    }
    /* The same record twice: one removal was not committed before the crash. */
    if (sel_tree_find(store->tree, record->ns, &record->key, record->tokens))
        return SELENE_E_INVALID;
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
    /* Use goes on from the time in the index; within a second in order of the sequence. Before it
     * enters the order, where it then goes to its place at once. */
    uint64_t second = SEL_MIN(record->time_s, sel_age_now(store) / SEL_NS_PER_SECOND);
    sel_tree_touch(store->tree, node, second * SEL_NS_PER_SECOND + location->sequence % (SEL_NS_PER_SECOND - 1));
    result = sel_tree_add_to(store->tree, node, SEL_TIER_DISK, false);
    if (result) {
        sel_tree_release(store->tree, &node);
        return result;
    }
    node->disk = *location;
    node->flags |= (uint16_t)((record->pages_replicated ? SEL_DISK_PAGES_PACKED : 0) |
                              (location->row && record->row_replicated ? SEL_DISK_ROW_PACKED : 0));
    sel_node_count(store, node, SEL_TIER_DISK, 1);
    /* What is used from now on is used later, whatever the clock says. */
    store->use_counter = SEL_MAX(store->use_counter, node->last_use);
    return 0;
}

struct move {
    selene_store *store;
    const struct sel_location *from, *to;
    bool lost;
};

static void move_one(void *context, struct sel_node *node) {
    struct move *move = context;
    struct selene_stats *stats = &move->store->stats;
    if (!node->tier[SEL_TIER_DISK].present || node->disk.sequence != move->from->sequence)
        return;
    sel_node_count(move->store, node, SEL_TIER_DISK, -1);
    if (move->to->sequence) {
        if (node->disk.row && !move->to->row)
            stats->checksum_failures[SEL_TIER_DISK]++;
        node->disk = *move->to;
        if (!move->to->row)
            node->flags &= (uint16_t)~SEL_DISK_ROW_PACKED;
    } else {
        /* Found damaged and given up: not read from now on, and dropped when that is safe (sel_recover_step). */
        node->disk.pages = 0;
        node->flags |= SEL_BAD_DISK;
        stats->checksum_failures[SEL_TIER_DISK]++;
        move->lost = true;
    }
    sel_node_count(move->store, node, SEL_TIER_DISK, 1);
    if (!(node->flags & SEL_BAD_DISK))
        sel_memory_refresh(move->store, node);
}

/* A record that the record store gave up, until the store's own step takes it up. */
struct sel_lost {
    struct sel_list link;
    struct sel_key key;
};

void sel_recover_moved(void *context, const struct sel_key *key, const struct sel_location *from,
                       const struct sel_location *to) {
    selene_store *store = context;
    struct move move = {store, from, to, false};
    sel_tree_visit_key(store->tree, key, move_one, &move);
    sel_removals_moved(store, from, to);
    struct sel_lost *lost = move.lost ? malloc(sizeof *lost) : NULL;
    if (!lost) /* without memory the record stays unread until a restore or a restart drops it */
        return;
    lost->key = *key;
    sel_list_init(&lost->link);
    sel_list_add_tail(&store->lost, &lost->link);
}

static void find_lost(void *context, struct sel_node *node) {
    struct sel_node **found = context;
    if (node->flags & SEL_BAD_DISK)
        *found = node;
}

void sel_recover_step(selene_store *store) {
    struct sel_list *link;
    while ((link = sel_list_pop(&store->lost)) != NULL) {
        struct sel_lost *lost = SEL_LIST_ENTRY(link, struct sel_lost, link);
        struct sel_node *node = NULL;
        sel_tree_visit_key(store->tree, &lost->key, find_lost, &node);
        free(lost);
        if (!node)
            continue;
        sel_memory_refresh(store, node);
        if (sel_node_tier(node, SEL_LSM_PAGES) < 0)
            sel_doom(store, node);
        else
            sel_settle(store, node);
    }
}

void sel_recover_free(selene_store *store) {
    struct sel_list *link;
    while ((link = sel_list_pop(&store->lost)) != NULL)
        free(SEL_LIST_ENTRY(link, struct sel_lost, link));
}
