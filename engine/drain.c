/* SPDX-License-Identifier: Apache-2.0
 *
 * selene_drain [P8]: what is only in memory goes to disk, the latest used leaf first, each with its uncommitted chain
 * from the root-most record on. A chain that cannot be through by the deadline is not started: half a chain without its
 * leaf is worth less than the next one whole. What is in flight at the deadline counts as skipped. On a disk that is too
 * small for all of it nothing used later makes way for what was used earlier.
 *
 * A leaf is a parked record without a parked child. Leaves are remembered by key, since records may leave while the
 * drain waits. One whose chain cannot be written as it is now, since a copy in it failed and is still being read, is
 * passed over and tried again while somebody reads; the others do not wait for it.
 *
 * What is left is counted when the drain ends, each record once, with the reason of the first of its leaves.
 */
#include "engine/store_priv.h"

/* A drain gives up when nothing was committed for so long: the disk does not take it. */
#define SEL_DRAIN_PATIENCE_NS (60 * SEL_NS_PER_SECOND)
/* So much must be committed before the drain's own speed, commits included, says more than that of earlier writes. */
#define SEL_DRAIN_SAMPLE_BYTES (UINT64_C(64) << 20)

/* Why a leaf's chain was not written. */
enum sel_drain_skip {
    SEL_SKIP_NONE = 0,
    SEL_SKIP_DEADLINE,
    SEL_SKIP_FAILED,
    SEL_SKIP_PARENT,
    SEL_SKIP_ROOM,
    SEL_SKIPS
};

struct sel_drain_leaf {
    struct sel_key key;
    uint32_t tokens;
    uint32_t skip; /* enum sel_drain_skip */
    uint64_t last_use;
};

struct sel_drain {
    struct sel_request request;
    selene_store *store;
    uint64_t deadline_ns; /* UINT64_MAX: none */
    uint64_t started_ns;
    uint64_t progress_ns; /* when something was last committed, or dropped */
    uint64_t bytes;       /* committed since started_ns */
    struct sel_drain_leaf *leaves;
    size_t count, next;
    size_t passed_over; /* leaves with SEL_SKIP_PARENT */
    bool again;         /* what is left must be looked for anew: a write failed, or a leaf is gone */
    bool cancelled;
};

static bool parked(const struct sel_node *node) {
    return node->tier[SEL_TIER_MEMORY].present && node->tier[SEL_TIER_MEMORY].parked && !(node->flags & SEL_DOOMED);
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

static int collect_leaves(struct sel_drain *drain) {
    struct sel_tree *tree = drain->store->tree;
    struct collect collect = {0};
    free(drain->leaves);
    drain->leaves = NULL;
    drain->count = drain->next = drain->passed_over = 0;
    drain->again = false;
    if (!drain->store->lsm)
        return 0;
    sel_tree_visit(tree, collect_leaf, &collect);
    drain->leaves = collect.leaves = malloc(collect.count * sizeof *drain->leaves + 1);
    if (!drain->leaves)
        return SELENE_E_NOMEM;
    collect.count = 0;
    sel_tree_visit(tree, collect_leaf, &collect);
    drain->count = collect.count;
    qsort(drain->leaves, drain->count, sizeof *drain->leaves, later_first);
    return 0;
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
    struct sel_drain *drain = calloc(1, sizeof *drain);
    if (!drain)
        return SELENE_E_NOMEM;
    drain->store = store;
    if ((result = collect_leaves(drain)) != 0) {
        free(drain);
        return result;
    }
    drain->deadline_ns = deadline_ns ? deadline_ns : UINT64_MAX;
    drain->started_ns = drain->progress_ns = sel_mono_ns(store->clock);
    store->drain = drain;
    sel_request_begin(store, &drain->request, SELENE_EVENT_DRAIN, drain_cancel);
    *ticket = drain->request.event.ticket;
    sel_store_wake(store);
    return 0;
}

void sel_drain_committed(selene_store *store, uint64_t bytes) {
    struct sel_drain *drain = store->drain;
    drain->progress_ns = sel_mono_ns(store->clock);
    drain->bytes += bytes;
    drain->request.event.drained_written++;
}

void sel_drain_again(selene_store *store) { store->drain->again = true; }

/* The node after this one in walking order under `top`, or NULL. */
static struct sel_node *next_under(const struct sel_node *top, struct sel_node *node) {
    if (node->child)
        return node->child;
    while (node != top && !node->sibling_next)
        node = node->parent;
    return node == top ? NULL : node->sibling_next;
}

void sel_drain_dropped(selene_store *store, struct sel_node *top) {
    struct selene_event *event = &store->drain->request.event;
    store->drain->progress_ns = sel_mono_ns(store->clock);
    for (struct sel_node *node = top; node; node = next_under(top, node))
        if (node == top)
            event->drained_skipped_failed++;
        else if (parked(node))
            event->drained_skipped_parent++;
}

void sel_drain_row_dropped(selene_store *store) {
    store->drain->progress_ns = sel_mono_ns(store->clock);
    store->drain->request.event.drained_skipped_failed++;
}

/* ---- the end ---- */

static struct sel_node *find(const struct sel_drain *drain, const struct sel_drain_leaf *leaf) {
    return sel_tree_find(drain->store->tree, drain->store->layout->ns, &leaf->key, leaf->tokens);
}

/* Parked records by the reason of their leaf; those without one of their own have that of `rest`. */
static void count_left(const struct sel_drain *drain, enum sel_drain_skip rest, uint64_t left[SEL_SKIPS]) {
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < drain->count; i++) {
            const struct sel_drain_leaf *leaf = &drain->leaves[i];
            struct sel_node *node = find(drain, leaf);
            for (; pass == 0 && node && parked(node) && !(node->flags & SEL_DRAIN_COUNTED); node = node->parent) {
                node->flags |= SEL_DRAIN_COUNTED;
                left[leaf->skip ? leaf->skip : rest]++;
            }
            for (; pass == 1 && node && (node->flags & SEL_DRAIN_COUNTED); node = node->parent)
                node->flags &= (uint16_t)~SEL_DRAIN_COUNTED;
        }
    if (!drain->store->lsm)
        left[SEL_SKIP_FAILED] = drain->store->parked_count;
}

static void add_to_stats(struct selene_stats *stats, const struct selene_event *event) {
    stats->drained_written += event->drained_written;
    stats->drained_skipped_deadline += event->drained_skipped_deadline;
    stats->drained_skipped_failed += event->drained_skipped_failed;
    stats->drained_skipped_parent += event->drained_skipped_parent;
    stats->drained_skipped_room += event->drained_skipped_room;
}

static void drain_end(struct sel_drain *drain, enum sel_drain_skip rest) {
    selene_store *store = drain->store;
    struct selene_event *event = &drain->request.event;
    uint64_t left[SEL_SKIPS] = {0};
    int result = 0;
    count_left(drain, rest, left);
    event->drained_skipped_deadline += left[SEL_SKIP_DEADLINE];
    event->drained_skipped_failed += left[SEL_SKIP_FAILED];
    event->drained_skipped_parent += left[SEL_SKIP_PARENT];
    event->drained_skipped_room += left[SEL_SKIP_ROOM];
    if (drain->cancelled)
        result = SELENE_E_CANCELLED;
    else if (event->drained_skipped_deadline)
        result = SELENE_E_DEADLINE;
    else if (event->drained_skipped_failed + event->drained_skipped_parent + event->drained_skipped_room)
        result = store->lsm ? SELENE_E_DEGRADED : SELENE_E_UNSUPPORTED;
    add_to_stats(&store->stats, event);
    free(drain->leaves);
    store->drain = NULL;
    sel_request_end(store, &drain->request, result);
}

/* ---- under way ---- */

/* Bytes that must be written for this leaf to be on disk, those in flight included. */
static uint64_t bytes_ahead(const selene_store *store, const struct sel_node *node) {
    uint64_t bytes = store->spill_bytes;
    for (; node && parked(node); node = node->parent) {
        const struct sel_memory *memory = node->memory;
        if (!memory->spill)
            bytes += sel_memory_slots(memory) * store->slots.slot_bytes;
    }
    return bytes;
}

static bool in_time(const struct sel_drain *drain, const struct sel_node *node, uint64_t now) {
    double rate = drain->store->write_rate.bytes_per_ns;
    if (drain->deadline_ns == UINT64_MAX)
        return true;
    if (drain->bytes >= SEL_DRAIN_SAMPLE_BYTES && now > drain->started_ns)
        rate = (double)drain->bytes / (double)(now - drain->started_ns);
    return rate <= 0 || (double)bytes_ahead(drain->store, node) / rate <= (double)(drain->deadline_ns - now);
}

/* Starts the chain of one leaf; what the spill said. A leaf that is done with says 0. */
static int start_chain(struct sel_drain *drain, struct sel_drain_leaf *leaf, uint64_t now) {
    struct sel_node *node = find(drain, leaf);
    drain->again |= node == NULL; /* its parent may be a leaf now */
    if (!node || !parked(node))
        return 0;
    if (!in_time(drain, node, now)) {
        leaf->skip = SEL_SKIP_DEADLINE;
        return 0;
    }
    int result = sel_spill_chain(drain->store, node, true);
    if (result == SELENE_E_PARENT) {
        leaf->skip = SEL_SKIP_PARENT;
        drain->passed_over++;
        return 0;
    }
    if (result == 0)
        leaf->skip = SEL_SKIP_NONE;
    return result == SELENE_E_OVERSIZE ? 0 : result; /* it was dropped, and counted */
}

/* Starts chains until there are enough in flight; the last answer of the spill. */
static int start_chains(struct sel_drain *drain, uint64_t now) {
    int result = 0;
    while (drain->next < drain->count && (result = start_chain(drain, &drain->leaves[drain->next], now)) == 0)
        drain->next++;
    if (result || !drain->passed_over)
        return result;
    drain->passed_over = 0;
    for (size_t i = 0; i < drain->count && result == 0; i++)
        if (drain->leaves[i].skip == SEL_SKIP_PARENT)
            result = start_chain(drain, &drain->leaves[i], now);
    return result;
}

/* Everything was started and has ended, but some of it not well. */
static bool begin_again(struct sel_drain *drain, int result, bool waiting) {
    return result == 0 && !waiting && drain->again && collect_leaves(drain) == 0;
}

/* What no answer or event can change any more ends the drain. */
static bool hopeless(const struct sel_drain *drain, int result, enum sel_drain_skip *rest) {
    /* A chain that was passed over waits for those who read in it. */
    if (result == 0)
        return drain->passed_over == 0 || drain->store->request_count == 1;
    *rest = result == SELENE_E_NOSPACE ? SEL_SKIP_ROOM : SEL_SKIP_FAILED;
    return result == SELENE_E_DEGRADED || result == SELENE_E_NOSPACE || result == SELENE_E_NOMEM;
}

void sel_drain_step(selene_store *store) {
    struct sel_drain *drain = store->drain;
    enum sel_drain_skip rest = SEL_SKIP_FAILED;
    uint64_t now = sel_mono_ns(store->clock);
    if (!store->lsm || drain->cancelled || now >= drain->deadline_ns) {
        drain_end(drain, SEL_SKIP_DEADLINE);
        return;
    }
    int result = start_chains(drain, now);
    /* Removals make room, but those of a disk that takes nothing wait for better times. */
    bool degraded = sel_lsm_state(store->lsm) != SEL_LSM_OK;
    bool removing = !degraded && !sel_list_empty(&store->removals);
    bool waiting = store->spill_count || removing;
    if (begin_again(drain, result, waiting))
        return; /* for the next step */
    bool stuck = now - drain->progress_ns > SEL_DRAIN_PATIENCE_NS;
    bool over = !waiting && hopeless(drain, result, &rest);
    if (stuck || over) {
        drain_end(drain, rest);
        return;
    }
    /* A group closes by itself when it is large. It is asked to when nothing more will join it soon: asked at each step,
     * groups would be as small as one record, with a sync each. */
    if (removing || (store->spill_count && store->spills_writing == 0))
        sel_lsm_flush(store->lsm);
}
