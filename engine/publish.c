/* SPDX-License-Identifier: Apache-2.0
 *
 * selene_publish [P1]: the answer, and the life of an accepted publish.
 *
 * Order: what is held already is Present; what is on its way is Retry (in flight), also when only a part of it is,
 * since the rest would carry the pages of that part once more; what can never fit is Oversize; no slots is Retry
 * (slots). Otherwise the deepest ancestor is pinned, keys and block ids are copied, and the copies start.
 */
#include "engine/publish_priv.h"

#include "engine/prefix_priv.h"

#include <string.h>

static void publish_end(struct sel_publish *publish) {
    selene_store *store = publish->store;
    int result = publish->result;
    sel_list_remove(&publish->waiting);
    if (publish->parent)
        sel_unpin(store, publish->parent, publish->parent_tier);
    if (publish->thinned)
        sel_unpin(store, publish->thinned, publish->thinned_tier);
    if (result == 0 && publish->cancelled && publish->request.event.tokens < publish->tokens)
        result = SELENE_E_CANCELLED;
    free(publish->blocks);
    free(publish->rows);
    free(publish->keys);
    store->event_waits -= publish->wait != NULL;
    store->stats.publishes_failed += result != 0 && result != SELENE_E_CANCELLED;
    sel_request_end(store, &publish->request, result);
}

void sel_publish_advance(struct sel_publish *publish, struct sel_node *node) {
    selene_store *store = publish->store;
    struct sel_node *old = publish->parent;
    enum sel_tier old_tier = publish->parent_tier;
    publish->parent_tier = sel_pin_lowest(store, node);
    publish->parent = node;
    publish->request.event.tokens = node->tokens;
    memcpy(publish->request.event.key, node->key.bytes, sizeof node->key.bytes);
    if (old)
        sel_unpin(store, old, old_tier);
}

static struct sel_draft *last_draft(const struct sel_publish *publish) {
    const struct sel_list *drafts = &publish->drafts;
    return sel_list_empty(drafts) ? NULL : SEL_LIST_ENTRY(drafts->prev, struct sel_draft, link);
}

/* True when all drafts that were given up have ended: the publish goes on from where the first of them began. */
static bool drop_given_up(struct sel_publish *publish) {
    struct sel_draft *last;
    while ((last = last_draft(publish)) != NULL && last->restart) {
        if (!last->done)
            return false;
        sel_draft_free(&last);
    }
    publish->restarting = false;
    return true;
}

void sel_publish_collect(struct sel_publish *publish) {
    selene_store *store = publish->store;
    bool again = publish->restarting && !publish->result && !publish->cancelled && drop_given_up(publish);
    while (!sel_list_empty(&publish->drafts)) {
        struct sel_draft *draft = SEL_LIST_ENTRY(publish->drafts.next, struct sel_draft, link);
        bool given_up = draft->restart && !publish->result && !publish->cancelled;
        if (!draft->done || given_up)
            break;
        int result = publish->result ? publish->result : draft->result;
        if (result == 0) {
            uint64_t bytes = sel_draft_bytes(store, draft);
            result = sel_draft_insert(draft);
            if (result == 0) {
                publish->request.event.bytes += bytes;
                store->stats.published_bytes += bytes;
            }
        }
        if (!publish->result)
            publish->result = result;
        sel_draft_free(&draft);
    }
    bool through = publish->cursor == publish->tokens || publish->result || publish->cancelled;
    if (sel_list_empty(&publish->drafts) && through)
        publish_end(publish);
    else if (again)
        sel_publish_go_on(publish);
}

static void publish_cancel(struct sel_request *request) {
    struct sel_publish *publish = SEL_CONTAINER(request, struct sel_publish, request);
    publish->cancelled = true;
    sel_list_remove(&publish->waiting); /* nothing more is started */
    SEL_LIST_FOR_EACH(link, &publish->drafts) {
        struct sel_draft *draft = SEL_LIST_ENTRY(link, struct sel_draft, link);
        if (draft->stream)
            sel_stream_cancel(draft);
        sel_draft_stop(draft);
    }
    sel_publish_collect(publish);
}

/* Starts drafts until the chain is complete or slots run out. One that is not settled yet comes first. */
static int start_drafts(struct sel_publish *publish) {
    int result = 0;
    struct sel_draft *last = last_draft(publish);
    if (last && last->lacking)
        result = sel_draft_settle(last);
    while (!result && publish->cursor < publish->tokens && !publish->result && !publish->cancelled) {
        last = last_draft(publish);
        if (publish->restarting || (last && last->comparing))
            return 0;
        result = sel_draft_start(publish);
    }
    return result;
}

static void wait_for_slots(struct sel_publish *publish) {
    selene_store *store = publish->store;
    if (sel_list_linked(&publish->waiting))
        return;
    publish->waiting_since_ns = sel_mono_ns(store->clock);
    sel_list_add_tail(&store->waiting_publishes, &publish->waiting);
}

void sel_publish_go_on(struct sel_publish *publish) {
    int result = start_drafts(publish);
    if (result == SELENE_E_RETRY)
        wait_for_slots(publish);
    else if (!publish->result)
        publish->result = result;
    sel_publish_collect(publish);
}

/* Helps a chain that is longer than memory: its committed part may leave memory while it is being published. */
static void publish_unblock(struct sel_publish *publish) {
    selene_store *store = publish->store;
    struct sel_node *parent = publish->parent;
    if (!parent || !store->lsm || publish->parent_tier == SEL_TIER_DISK)
        return;
    if (sel_node_pages_readable(parent, SEL_TIER_DISK)) {
        publish->parent_tier = sel_pin_lowest(store, parent);
        sel_unpin(store, parent, SEL_TIER_MEMORY);
    } else if (sel_spill_chain(store, parent, false) == 0) {
        store->flush_wanted = true;
    }
}

static bool wait_is_over(const struct sel_publish *publish) {
    const selene_store *store = publish->store;
    const struct sel_draft *last = last_draft(publish);
    bool alone = store->spill_count == 0 && store->load_count == 0 && store->request_count == 1;
    /* Those before it may still become records, and what they become is kept. */
    bool only = !last || (last->lacking && last->link.prev == &publish->drafts);
    if (alone && only && sel_memory_is_last(store))
        return true;
    return sel_mono_ns(store->clock) - publish->waiting_since_ns > SEL_PUBLISH_WAIT_NS;
}

/* Nothing but `own` requests of the caller is under way whose end would make room, and memory and disk have let go of all
 * that may go: the chain that this publish continues fills them by itself. A disk that takes nothing for now is another
 * matter, and so is an empty one. */
static bool no_room_ever(const selene_store *store, uint32_t own) {
    bool idle = store->request_count == own && store->spill_count == 0 && store->load_count == 0 &&
                sel_list_empty(&store->removals);
    if (!store->lsm)
        return idle;
    return idle && store->disk_stuck && sel_lsm_state(store->lsm) == SEL_LSM_OK &&
           sel_tree_tier_count(store->tree, SEL_TIER_DISK) > 0;
}

/* In memory alone no part of a chain may leave before its end: one that is longer than memory never fits. */
static int wait_result(const struct sel_publish *publish) {
    const selene_store *store = publish->store;
    if (store->lsm)
        return no_room_ever(store, 1) ? SELENE_E_OVERSIZE : SELENE_E_RETRY;
    const struct sel_layout *layout = store->layout;
    const struct sel_draft *last = last_draft(publish);
    uint64_t slots = last && last->lacking ? sel_draft_slots(last) : 0;
    if (publish->cursor < publish->tokens) {
        uint32_t first = sel_layout_first_page(layout, publish->cursor);
        bool packed = sel_pack_allowed(store) && store->pages_pack;
        slots += sel_part_slots(store, sel_layout_end_page(layout, publish->tokens) - first, packed);
    }
    for (const struct sel_node *node = publish->parent; node; node = node->parent) {
        const struct sel_memory *memory = node->memory;
        slots += memory ? memory->pages.count : 0;
    }
    return slots > store->warm_slots ? SELENE_E_OVERSIZE : SELENE_E_RETRY;
}

void sel_publishes_step(selene_store *store) {
    SEL_LIST_FOR_EACH(link, &store->waiting_publishes) {
        struct sel_publish *publish = SEL_LIST_ENTRY(link, struct sel_publish, waiting);
        int result = start_drafts(publish);
        if (result == SELENE_E_RETRY) {
            publish_unblock(publish);
            if (!wait_is_over(publish))
                continue;
            result = wait_result(publish);
            if (last_draft(publish) && last_draft(publish)->lacking)
                sel_draft_give_up(last_draft(publish), result);
        }
        sel_list_remove(&publish->waiting);
        if (!publish->result)
            publish->result = result;
        sel_publish_collect(publish);
    }
}

/* ---- the answer ---- */

/* Where a new record goes. */
struct place {
    struct sel_node *parent;
    struct sel_node *thinned; /* the record itself, when only its row is missing in `tier` [T5] */
    enum sel_tier tier;
};

static bool already_held(selene_store *store, const struct sel_prefix *prefix, uint64_t tokens) {
    struct sel_match match = sel_match_find(store, prefix, tokens);
    if (!match.node || match.tokens != tokens)
        return false;
    sel_tree_touch(store->tree, match.node, sel_store_use(store));
    /* A row that is about to go stays for the fork that this announces [T5]. */
    if (match.node->flags & (SEL_THIN_MEMORY | SEL_THIN_DISK))
        sel_thin_hold(match.node);
    return true;
}

/* True when a publish in flight will bring the key at `tokens`, or one between the ancestor and it. */
static bool on_its_way(const selene_store *store, const struct sel_prefix *prefix, uint64_t tokens, uint64_t from) {
    const struct sel_layout *layout = store->layout;
    for (const struct sel_list *link = store->requests.next; link != &store->requests; link = link->next) {
        const struct sel_request *request = SEL_LIST_ENTRY(link, struct sel_request, link);
        if (request->event.kind != SELENE_EVENT_PUBLISH)
            continue;
        const struct sel_publish *other = SEL_LIST_ENTRY(request, struct sel_publish, request);
        uint64_t common = layout->desc.row_bytes ? other->tokens : SEL_MIN(other->tokens, tokens);
        uint32_t page = (uint32_t)(common / layout->desc.page_tokens);
        if (common > tokens || common <= from || page < other->first_page ||
            !sel_key_equal(&other->keys[page - other->first_page], sel_prefix_page_key(prefix, page)))
            continue;
        struct sel_key key;
        if (common % layout->desc.page_tokens == 0)
            return true;
        if (sel_prefix_key_at(prefix, common, &key) == 0 && sel_key_equal(&key, &other->key))
            return true;
    }
    return false;
}

/* Whether it fits in no form: what fits when packed is not known to be too large before it was compared [M5]. */
static bool oversize(const selene_store *store, uint64_t tokens, uint64_t from) {
    const struct sel_layout *layout = store->layout;
    uint64_t end = sel_layout_end_page(layout, tokens);
    uint64_t pages = end - sel_layout_first_page(layout, from);
    bool rows = layout->desc.row_bytes > 0, packed = sel_pack_allowed(store);
    uint32_t row = sel_part_slots(store, layout->row_slots, packed);
    if (store->warm_slots == 0)
        return store->lsm == NULL || store->slots.total == 0;
    if (!rows)
        pages = SEL_MIN(pages, store->options.page_group);
    /* In memory alone no part of a chain may leave before its end. */
    if (store->lsm == NULL)
        pages = end;
    return (uint64_t)sel_part_slots(store, (uint32_t)pages, packed) + row > store->warm_slots;
}

static int copy_request(struct sel_publish *publish, const struct sel_prefix *prefix,
                        const struct selene_device_state *state) {
    const struct sel_layout *layout = publish->store->layout;
    uint32_t pages = sel_layout_end_page(layout, publish->tokens) - publish->first_page;
    uint32_t keys = (uint32_t)(publish->tokens / layout->desc.page_tokens) - publish->first_page + 1;
    publish->blocks = malloc(pages * sizeof *publish->blocks);
    publish->keys = malloc(keys * sizeof *publish->keys);
    if (layout->desc.row_bytes)
        publish->rows = malloc(layout->desc.rank_count * sizeof *publish->rows);
    if (!publish->blocks || !publish->keys || (layout->desc.row_bytes && !publish->rows))
        return SELENE_E_NOMEM;
    memcpy(publish->blocks, state->blocks + publish->first_page, pages * sizeof *publish->blocks);
    for (uint32_t i = 0; i < keys; i++)
        publish->keys[i] = *sel_prefix_page_key(prefix, publish->first_page + i);
    if (layout->desc.row_bytes)
        memcpy(publish->rows, state->rows, layout->desc.rank_count * sizeof *publish->rows);
    publish->wait = state->wait;
    return sel_prefix_key_at(prefix, publish->tokens, &publish->key);
}

static void publish_abort(struct sel_publish **publish) {
    free((*publish)->blocks);
    free((*publish)->rows);
    free((*publish)->keys);
    free(*publish);
    *publish = NULL;
}

/* All are pinned before the first slot is asked for, since that may evict. */
static void pin_place(struct sel_publish *publish, const struct place *place) {
    selene_store *store = publish->store;
    publish->parent = place->parent;
    publish->thinned = place->thinned;
    if (place->parent)
        publish->parent_tier = sel_pin_lowest(store, place->parent);
    publish->thinned_tier = place->tier;
    if (place->thinned)
        sel_pin(store, place->thinned, place->tier);
}

/* Accepts or says why not: 0, SELENE_E_RETRY for slots, or another error. */
static int publish_begin(selene_store *store, const struct sel_prefix *prefix, uint64_t tokens,
                         const struct place *place, const struct selene_device_state *state, uint64_t *ticket) {
    struct sel_node *parent = place->parent;
    struct sel_publish *publish = calloc(1, sizeof *publish);
    if (!publish)
        return SELENE_E_NOMEM;
    publish->store = store;
    publish->tokens = tokens;
    publish->cursor = parent ? parent->tokens : 0;
    publish->first_page = sel_layout_first_page(store->layout, publish->cursor);
    sel_list_init(&publish->waiting);
    sel_list_init(&publish->drafts);
    int result = copy_request(publish, prefix, state);
    if (result) {
        publish_abort(&publish);
        return result;
    }
    pin_place(publish, place);
    result = start_drafts(publish);
    if (result && sel_list_empty(&publish->drafts)) {
        if (parent)
            sel_unpin(store, parent, publish->parent_tier);
        if (place->thinned)
            sel_unpin(store, place->thinned, place->tier);
        publish_abort(&publish);
        return result;
    }
    if (result == SELENE_E_RETRY)
        wait_for_slots(publish);
    else
        publish->result = result;
    store->event_waits += publish->wait != NULL;
    sel_request_begin(store, &publish->request, SELENE_EVENT_PUBLISH, publish_cancel);
    *ticket = publish->request.event.ticket;
    sel_publish_collect(publish); /* a draft that failed with nothing in flight has ended already */
    return 0;
}

/* Finds it; of a record that is there without its row, its own parent. */
static int find_place(selene_store *store, const struct sel_prefix *prefix, uint64_t tokens, struct place *out) {
    struct sel_key key;
    memset(out, 0, sizeof *out);
    int result = sel_prefix_key_at(prefix, tokens, &key);
    if (result)
        return result;
    struct sel_node *node = sel_tree_find(store->tree, store->layout->ns, &key, tokens);
    out->parent = node ? node->parent : sel_tree_ancestor(store->tree, prefix, tokens - 1);
    /* Something on the chain failed and is about to leave. */
    for (struct sel_node *above = node ? node : out->parent; above; above = above->parent)
        if (sel_node_tier(above, SEL_LSM_PAGES) < 0)
            return SELENE_E_RETRY;
    /* Without a warm tier the row goes where the pages are; with one, a record that is on disk alone comes whole. */
    out->tier = store->warm_slots ? SEL_TIER_MEMORY : SEL_TIER_DISK;
    if (node && store->layout->row_slots && sel_node_pages_readable(node, out->tier))
        out->thinned = node;
    /* A bad row waits there for its last pin to go; one that is being removed makes way. */
    const struct sel_memory *memory = node ? node->memory : NULL;
    bool bad = out->thinned && (out->tier == SEL_TIER_MEMORY ? memory->row.count > 0
                                                             : node->disk.row && !(node->flags & SEL_THINNING_DISK));
    return bad ? SELENE_E_RETRY : 0;
}

/* Others were first. However many of them come to lack slots one after another, nobody is refused for their sake for
 * longer than one of them may wait. */
static bool would_overtake(const selene_store *store) {
    return store->lacking_count && sel_mono_ns(store->clock) - store->lacking_since_ns <= SEL_PUBLISH_WAIT_NS;
}

static int answer_retry(selene_store *store, struct selene_publish_result *out, int reason) {
    out->answer = SELENE_RETRY;
    out->reason = reason;
    store->stats.publishes_retry[reason]++;
    return 0;
}

static int publish_answer(selene_store *store, const struct sel_prefix *prefix, uint64_t tokens,
                          const struct selene_device_state *state, struct selene_publish_result *out) {
    struct place place;
    if (already_held(store, prefix, tokens)) {
        out->answer = SELENE_PRESENT;
        store->stats.publishes_present++;
        return 0;
    }
    int result = find_place(store, prefix, tokens, &place);
    if (result == SELENE_E_RETRY)
        return answer_retry(store, out, SELENE_RETRY_IN_FLIGHT);
    if (result)
        return result;
    uint64_t from = place.parent ? place.parent->tokens : 0;
    out->from_tokens = place.thinned ? tokens : from;
    if (oversize(store, tokens, out->from_tokens)) {
        out->answer = SELENE_OVERSIZE;
        store->stats.publishes_oversize++;
        return 0;
    }
    if (store->request_count >= SEL_REQUESTS_MAX || on_its_way(store, prefix, tokens, from))
        return answer_retry(store, out, SELENE_RETRY_IN_FLIGHT);
    if (would_overtake(store))
        return answer_retry(store, out, SELENE_RETRY_SLOTS);
    result = publish_begin(store, prefix, tokens, &place, state, &out->ticket);
    if (result == SELENE_E_RETRY && !place.thinned && no_room_ever(store, 0))
        result = SELENE_E_OVERSIZE;
    if (result == SELENE_E_OVERSIZE) {
        out->answer = SELENE_OVERSIZE;
        store->stats.publishes_oversize++;
        return 0;
    }
    if (result == SELENE_E_RETRY)
        return answer_retry(store, out, SELENE_RETRY_SLOTS);
    if (result == 0) {
        store->stats.publishes_accepted++;
        sel_store_kick(store);
    }
    return result;
}

int selene_publish(selene_store *store, const selene_prefix *prefix, uint64_t tokens,
                   const struct selene_device_state *state, struct selene_publish_result *out) {
    int result = sel_store_usable(store);
    if (result)
        return result;
    if (!out)
        return SELENE_E_INVALID;
    memset(out, 0, sizeof *out);
    if ((result = sel_prefix_usable(store, prefix)) != 0)
        return result;
    if (!state || tokens > sel_prefix_tokens(prefix->keys))
        return SELENE_E_INVALID;
    if (store->layout->desc.row_bytes == 0) {
        tokens -= tokens % store->layout->desc.page_tokens;
        if (tokens == 0) {
            out->answer = SELENE_PRESENT;
            store->stats.publishes_present++;
            return 0;
        }
    }
    result = sel_state_check(store, state, tokens);
    return result ? result : publish_answer(store, prefix->keys, tokens, state, out);
}

void selene_publish_abandoned(selene_store *store, int reason) {
    if (sel_store_usable(store) == 0 && reason >= 0 && reason < (int)SEL_COUNT(store->stats.publishes_abandoned))
        store->stats.publishes_abandoned[reason]++;
}
