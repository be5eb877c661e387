/* SPDX-License-Identifier: Apache-2.0
 *
 * Making room, in memory [M3, P5, P6] and on disk [D6]: always the coldest leaf, never what is pinned, never in
 * mid-chain. The tree's use orders hold exactly what may go, so a victim costs O(log n).
 *
 *   memory   clean leaves; parked ones only when memory is the end of the chain: without a disk, with one that takes
 *            nothing [D9], or with one that is full of records whose children are in memory alone (`disk_stuck`): those
 *            may not go before their children [P6], so the coldest leaf of the chain is a parked one
 *   disk     the coldest leaf of the disk order; a record that has a memory copy becomes parked again, or leaves memory
 *            as well when that is what is short
 *
 * A removal from disk takes effect in the tree at once, since nobody may read it from then on; its transaction comes
 * later. One that fails is tried again: the record is unreachable meanwhile, its space stays charged.
 */
#include "engine/store_priv.h"

bool sel_memory_is_last(const selene_store *store) {
    return store->lsm == NULL || store->disk_stuck || sel_lsm_state(store->lsm) != SEL_LSM_OK;
}

static struct sel_node *memory_victim(selene_store *store) {
    struct sel_node *node = sel_tree_coldest(store->tree, SEL_TIER_MEMORY, SEL_ORDER_CLEAN);
    if (!node && sel_memory_is_last(store))
        node = sel_tree_coldest(store->tree, SEL_TIER_MEMORY, SEL_ORDER_PARKED);
    return node;
}

/* Said once for each time that the disk's state is bad [D9], and once in all for a disk that is too small: that may come
 * and go with every record. */
static void warn_of_drop(selene_store *store) {
    bool degraded = sel_lsm_state(store->lsm) != SEL_LSM_OK;
    bool *warned = degraded ? &store->warned_drop : &store->warned_stuck;
    if (!*warned && degraded)
        sel_log_warning(&store->log, "the disk takes no records: memory drops its coldest ones");
    else if (!*warned)
        sel_log_warning(&store->log,
                        "the disk limit leaves no room, and nothing on disk may go: memory drops its coldest "
                        "records");
    *warned = true;
}

static void leave_memory(selene_store *store, struct sel_node *node) {
    if (node->tier[SEL_TIER_MEMORY].parked && store->lsm && !sel_node_pages_readable(node, SEL_TIER_DISK)) {
        store->stats.dropped_records++;
        warn_of_drop(store);
    }
    store->stats.evictions[SEL_TIER_MEMORY]++;
    sel_memory_detach(store, node);
}

/* Without a row on disk the pages there are of no more use than without a record, unless a child needs them. */
static void evict_from_memory(selene_store *store, struct sel_node *node) {
    leave_memory(store, node);
    if (node->tier[SEL_TIER_DISK].present)
        sel_thin_barren(store, node);
    else
        sel_thin_release(store, &node);
}

bool sel_slots_obtain(selene_store *store, uint32_t *ids, uint32_t count, uint32_t reserve) {
    /* Each eviction frees a slot at least, so the work is bounded by what is asked for. */
    uint64_t want = (uint64_t)count + SEL_MAX(reserve, store->intake_slots);
    /* Nothing goes for a request that all clean copies could not make room for. */
    bool vain = !sel_memory_is_last(store) && store->slots.free_count + store->clean_slots < (uint64_t)count + reserve;
    while (!vain && store->slots.free_count < want) {
        struct sel_node *victim = memory_victim(store);
        if (!victim)
            break;
        evict_from_memory(store, victim);
    }
    if (store->slots.free_count < (uint64_t)count + reserve) {
        uint64_t wanted = SEL_MIN((uint64_t)count + reserve, store->slots.total);
        store->wanted_slots = SEL_MAX(store->wanted_slots, (uint32_t)wanted);
        store->flush_wanted = store->force_spill = true;
        return false;
    }
    store->wanted_slots = 0;
    return sel_slots_take(&store->slots, ids, count);
}

bool sel_slots_obtain_window(selene_store *store, uint32_t *ids, uint32_t count) {
    while (store->slots.free_count < count) {
        struct sel_node *victim = memory_victim(store);
        if (!victim)
            return false;
        evict_from_memory(store, victim);
    }
    return sel_slots_take(&store->slots, ids, count);
}

bool sel_slots_obtain_colder(selene_store *store, uint32_t *ids, uint32_t count, uint64_t use) {
    uint64_t want = (uint64_t)count + store->intake_slots;
    while (store->slots.free_count < want) {
        struct sel_node *victim = sel_tree_coldest(store->tree, SEL_TIER_MEMORY, SEL_ORDER_CLEAN);
        if (!victim || victim->last_use >= use)
            return false;
        evict_from_memory(store, victim);
    }
    return sel_slots_take(&store->slots, ids, count);
}

struct sel_removal {
    struct sel_op op;
    struct sel_list link; /* in store->removals */
    selene_store *store;
    struct sel_location location;
    struct sel_node *row_of; /* only its row goes: pinned on disk meanwhile, also while a failed one waits. NULL: all */
    bool bad;                /* that row: it goes whatever the rule says, and was not thinned */
    bool failed;
};

static void row_removal_end(struct sel_removal *removal) {
    sel_list_remove(&removal->link);
    sel_unpin(removal->store, removal->row_of, SEL_TIER_DISK);
    free(removal);
}

/* Its row is not there any more. */
static void forget_row(selene_store *store, struct sel_node *node) {
    struct sel_location bare = node->disk;
    bare.row = 0;
    bare.row_blocks = 0;
    sel_disk_set_row(store, node, bare, false);
}

static void row_removed(struct sel_removal *removal, int result) {
    selene_store *store = removal->store;
    struct sel_node *node = removal->row_of;
    node->flags &= (uint16_t)~SEL_THINNING_DISK;
    if (result == 0 || (result == SELENE_E_GONE && removal->bad))
        forget_row(store, node);
    store->stats.rows_thinned[SEL_TIER_DISK] += result == 0 && !removal->bad;
    sel_memory_refresh(store, node);
    if (result && result != SELENE_E_GONE) { /* a good one is usable again, and not counted [T6] */
        removal->failed = true;
        store->removals_failed++;
        return;
    }
    row_removal_end(removal);
}

/* Where the record is now, if its row is still to go; false: it is not, or there is no memory to say so. */
static bool row_removal_submit(struct sel_removal *removal) {
    selene_store *store = removal->store;
    struct sel_node *node = removal->row_of;
    struct sel_lsm_record record;
    struct sel_key *keys = NULL;
    bool thinned = sel_node_row_readable(node, SEL_TIER_DISK) && sel_thin_wanted(store, node, SEL_TIER_DISK);
    removal->failed = false;
    removal->bad = (node->flags & SEL_BAD_DISK_ROW) && sel_node_pages_readable(node, SEL_TIER_DISK);
    if (!(thinned || removal->bad) || sel_node_describe(store, node, &record, &keys) != 0)
        return false;
    record.has_row = record.row_replicated = false;
    node->flags |= SEL_THINNING_DISK;
    sel_memory_refresh(store, node); /* a copy there may be the only one now */
    sel_lsm_remove_row(store->lsm, &record, &node->disk, &removal->op);
    free(keys);
    return true;
}

static void removal_done(struct sel_op *op) {
    struct sel_removal *removal = SEL_CONTAINER(op, struct sel_removal, op);
    if (removal->row_of) {
        row_removed(removal, op->result);
        return;
    }
    if (op->result && op->result != SELENE_E_GONE) { /* what is not there any more needs no second try */
        removal->failed = true;
        removal->store->removals_failed++;
        return;
    }
    sel_list_remove(&removal->link);
    free(removal);
}

void sel_removals_step(selene_store *store) {
    if (store->removals_failed == 0 || sel_lsm_state(store->lsm) != SEL_LSM_OK)
        return;
    store->removals_failed = 0;
    SEL_LIST_FOR_EACH(link, &store->removals) {
        struct sel_removal *removal = SEL_LIST_ENTRY(link, struct sel_removal, link);
        if (removal->failed && removal->row_of) {
            if (!row_removal_submit(removal))
                row_removal_end(removal);
        } else if (removal->failed && removal->location.sequence == 0) {
            sel_list_remove(&removal->link); /* given up by the record store itself */
            free(removal);
        } else if (removal->failed) {
            removal->failed = false;
            sel_lsm_remove(store->lsm, &removal->location, &removal->op);
        }
    }
}

/* One that failed and waits may have been copied forward meanwhile. */
void sel_removals_moved(selene_store *store, const struct sel_location *from, const struct sel_location *to) {
    if (store->removals_failed == 0)
        return;
    SEL_LIST_FOR_EACH(link, &store->removals) {
        struct sel_removal *removal = SEL_LIST_ENTRY(link, struct sel_removal, link);
        if (removal->failed && !removal->row_of && removal->location.sequence == from->sequence)
            removal->location = *to;
    }
}

void sel_removals_free(selene_store *store) {
    struct sel_list *link;
    while ((link = sel_list_pop(&store->removals)) != NULL)
        free(SEL_LIST_ENTRY(link, struct sel_removal, link));
}

static struct sel_removal *removal_create(selene_store *store, const struct sel_location *location) {
    struct sel_removal *removal = calloc(1, sizeof *removal);
    if (!removal)
        return NULL;
    removal->store = store;
    removal->location = *location;
    sel_op_init(&removal->op, removal_done);
    sel_list_init(&removal->link);
    sel_list_add_tail(&store->removals, &removal->link);
    return removal;
}

void sel_disk_remove_row(selene_store *store, struct sel_node *node) {
    struct sel_removal *removal = removal_create(store, &node->disk);
    if (!removal)
        return; /* the row stays */
    removal->row_of = node;
    if (row_removal_submit(removal)) {
        sel_pin(store, node, SEL_TIER_DISK); /* what it submitted completes later */
        return;
    }
    sel_list_remove(&removal->link);
    free(removal);
}

void sel_disk_remove(selene_store *store, const struct sel_location *location) {
    struct sel_removal *removal = removal_create(store, location);
    /* Without memory for a second try the removal has one. */
    sel_lsm_remove(store->lsm, location, removal ? &removal->op : NULL);
}

void sel_disk_detach(selene_store *store, struct sel_node *node) {
    sel_node_count(store, node, SEL_TIER_DISK, -1);
    if (node->disk.pages) /* else the record store gave it up itself */
        sel_disk_remove(store, &node->disk);
    sel_tree_remove_from(store->tree, node, SEL_TIER_DISK);
    node->disk = (struct sel_location){0};
    node->flags &= (uint16_t) ~(SEL_BAD_DISK | SEL_BAD_DISK_ROW | SEL_THIN_DISK | SEL_HOLD_DISK |
                                SEL_DISK_PAGES_PACKED | SEL_DISK_ROW_PACKED);
    sel_memory_refresh(store, node);
}

void sel_disk_set_row(selene_store *store, struct sel_node *node, struct sel_location location, bool packed) {
    sel_node_count(store, node, SEL_TIER_DISK, -1);
    node->disk = location;
    node->flags &= (uint16_t) ~(SEL_BAD_DISK_ROW | SEL_DISK_ROW_PACKED);
    node->flags |= packed ? SEL_DISK_ROW_PACKED : 0;
    sel_node_count(store, node, SEL_TIER_DISK, 1);
    sel_memory_refresh(store, node);
    /* Its hold ended while it was on its way. */
    if (location.row && sel_thin_wanted(store, node, SEL_TIER_DISK))
        node->flags |= SEL_THIN_DISK;
}

bool sel_disk_make_room(selene_store *store, uint64_t bytes, const struct sel_room *room) {
    while (sel_lsm_shortage(store->lsm, bytes) > 0) {
        struct sel_node *victim = sel_tree_coldest(store->tree, SEL_TIER_DISK, SEL_ORDER_CLEAN);
        if (!victim) /* what is in flight may yet change that */
            store->disk_stuck = store->spill_count == 0 && store->load_count == 0 && sel_list_empty(&store->removals);
        /* The shortage counts room that is to be kept ahead; a disk that has nothing left to give up may take the record
         * all the same, which the record store alone knows. */
        if (!victim && store->disk_stuck && sel_tree_tier_count(store->tree, SEL_TIER_DISK) == 0)
            return true;
        if (!victim || (room->only_colder && victim->last_use >= room->use))
            return false;
        /* When memory is short, too, a colder copy there must not become parked: it would be written again, at the cost
         * of the next, and so on for ever. */
        if (!room->only_colder && victim->last_use < room->use &&
            victim->tier[SEL_TIER_MEMORY].position != SEL_TREE_NOWHERE)
            leave_memory(store, victim);
        store->stats.evictions[SEL_TIER_DISK]++;
        sel_disk_detach(store, victim);
        if (victim->tier[SEL_TIER_MEMORY].present)
            sel_thin_barren(store, victim);
        else
            sel_thin_release(store, &victim);
    }
    store->disk_stuck = false;
    return true;
}
