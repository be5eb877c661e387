/* SPDX-License-Identifier: Apache-2.0
 *
 * selene_drain [P8]: what is only in memory goes to disk, the latest used leaf first, each with its uncommitted chain
 * from the root-most record on. A chain that cannot be through by the deadline is not started: half a chain without its
 * leaf is worth less than the next one whole. What is in flight at the deadline counts as skipped. On a disk that is too
 * small for all of it nothing used later makes way for what was used earlier.
 *
 * Leaves are remembered by key, since records may leave while the drain waits.
 */
#include "engine/store_priv.h"

/* A drain gives up when nothing was committed for so long: the disk does not take it. */
#define SEL_DRAIN_PATIENCE_NS (60 * SEL_NS_PER_SECOND)

struct sel_drain_leaf {
    struct sel_key key;
    uint32_t tokens;
    uint64_t last_use;
};

struct sel_drain {
    struct sel_request request;
    selene_store *store;
    uint64_t deadline_ns; /* UINT64_MAX: none */
    uint64_t progress_ns; /* when something was last committed, or dropped */
    struct sel_drain_leaf *leaves;
    size_t count, next;
    bool skipped; /* a chain for lack of time */
    bool cancelled;
};

static bool parked(const struct sel_node *node) {
    return node->tier[SEL_TIER_MEMORY].present && node->tier[SEL_TIER_MEMORY].parked;
}

struct collect {
    struct sel_drain_leaf *leaves; /* NULL: only count */
    size_t count;
};

static void collect_leaf(void *context, struct sel_node *node) {
    struct collect *collect = context;
    if (!parked(node))
        return;
    for (const struct sel_node *child = node->child; child; child = child->sibling_next)
        if (parked(child))
            return;
    if (collect->leaves)
        collect->leaves[collect->count] =
            (struct sel_drain_leaf){.key = node->key, .tokens = node->tokens, .last_use = node->last_use};
    collect->count++;
}

static int later_first(const void *a, const void *b) {
    const struct sel_drain_leaf *x = a, *y = b;
    return (x->last_use < y->last_use) - (x->last_use > y->last_use);
}

static void drain_cancel(struct sel_request *request) {
    SEL_CONTAINER(request, struct sel_drain, request)->cancelled = true;
}

int selene_drain(selene_store *store, uint64_t deadline_ns, uint64_t *ticket) {
    int result = sel_store_usable(store);
    if (result)
        return result;
    if (!ticket)
        return SELENE_E_INVALID;
    *ticket = 0;
    if (store->drain)
        return SELENE_E_RETRY;
    struct collect collect = {0};
    struct sel_drain *drain = calloc(1, sizeof *drain);
    if (!drain)
        return SELENE_E_NOMEM;
    if (store->lsm)
        sel_tree_visit(store->tree, collect_leaf, &collect);
    drain->leaves = collect.leaves = malloc(collect.count * sizeof *drain->leaves + 1);
    if (!drain->leaves) {
        free(drain);
        return SELENE_E_NOMEM;
    }
    collect.count = 0;
    if (store->lsm)
        sel_tree_visit(store->tree, collect_leaf, &collect);
    drain->count = collect.count;
    qsort(drain->leaves, drain->count, sizeof *drain->leaves, later_first);
    drain->store = store;
    drain->deadline_ns = deadline_ns ? deadline_ns : UINT64_MAX;
    drain->progress_ns = sel_mono_ns(store->clock);
    store->drain = drain;
    sel_request_begin(store, &drain->request, SELENE_EVENT_DRAIN, drain_cancel);
    *ticket = drain->request.event.ticket;
    sel_store_wake(store);
    return 0;
}

void sel_drain_committed(selene_store *store, bool good) {
    struct sel_drain *drain = store->drain;
    drain->progress_ns = sel_mono_ns(store->clock);
    if (good)
        drain->request.event.drained_written++;
    else
        drain->request.event.drained_skipped_failed++;
}

static void drain_end(struct sel_drain *drain, bool late) {
    selene_store *store = drain->store;
    struct selene_event *event = &drain->request.event;
    int result = 0;
    if (late || drain->skipped)
        event->drained_skipped_deadline = store->parked_count;
    else
        event->drained_skipped_failed += store->parked_count;
    if (drain->cancelled)
        result = SELENE_E_CANCELLED;
    else if (event->drained_skipped_deadline)
        result = SELENE_E_DEADLINE;
    else if (event->drained_skipped_failed)
        result = store->lsm ? SELENE_E_DEGRADED : SELENE_E_UNSUPPORTED;
    free(drain->leaves);
    store->drain = NULL;
    sel_request_end(store, &drain->request, result);
}

/* Bytes of the records that must be written for this one to be on disk, those in flight included. */
static uint64_t bytes_ahead(const selene_store *store, const struct sel_node *node) {
    uint64_t bytes = store->spill_bytes;
    for (; node && !node->tier[SEL_TIER_DISK].present; node = node->parent) {
        const struct sel_memory *memory = node->memory;
        if (memory && !memory->spill)
            bytes += sel_memory_slots(memory) * store->slots.slot_bytes;
    }
    return bytes;
}

static bool in_time(const struct sel_drain *drain, const struct sel_node *node, uint64_t now) {
    double rate = drain->store->write_rate.bytes_per_ns;
    if (drain->deadline_ns == UINT64_MAX || rate <= 0)
        return true;
    return (double)bytes_ahead(drain->store, node) / rate <= (double)(drain->deadline_ns - now);
}

/* Starts chains until there are enough in flight; the last answer of the spill. */
static int start_chains(struct sel_drain *drain, uint64_t now) {
    selene_store *store = drain->store;
    for (; drain->next < drain->count; drain->next++) {
        const struct sel_drain_leaf *leaf = &drain->leaves[drain->next];
        struct sel_node *node = sel_tree_find(store->tree, store->layout->ns, &leaf->key, leaf->tokens);
        if (!node || !parked(node))
            continue;
        if (!in_time(drain, node, now)) {
            drain->skipped = true;
            continue;
        }
        int result = sel_spill_chain(store, node, true);
        if (result == SELENE_E_OVERSIZE)
            drain->request.event.drained_skipped_failed++;
        else if (result)
            return result;
    }
    return 0;
}

void sel_drain_step(selene_store *store) {
    struct sel_drain *drain = store->drain;
    uint64_t now = sel_mono_ns(store->clock);
    if (!store->lsm || drain->cancelled || now >= drain->deadline_ns) {
        drain_end(drain, store->lsm && now >= drain->deadline_ns);
        return;
    }
    int result = start_chains(drain, now);
    /* Removals make room, but those of a disk that takes nothing wait for better times. */
    bool degraded = sel_lsm_state(store->lsm) != SEL_LSM_OK;
    bool waiting = store->spill_count || (!degraded && !sel_list_empty(&store->removals));
    bool hopeless = result == SELENE_E_DEGRADED || result == SELENE_E_NOSPACE || result == SELENE_E_NOMEM;
    bool stuck = now - drain->progress_ns > SEL_DRAIN_PATIENCE_NS;
    if (stuck || (!waiting && (result == 0 || hopeless))) {
        drain_end(drain, false);
        return;
    }
    if (waiting)
        sel_lsm_flush(store->lsm);
}
