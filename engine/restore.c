/* SPDX-License-Identifier: Apache-2.0
 *
 * selene_restore [R2, R4, R6]: the plan, and what happens when a part of it fails.
 *
 * Plan: the look-up is done again; the chain from the root to the matching record gives one piece each, since page p
 * comes from the deepest record that carries it [L4]: a record gives its pages up to where its child on the chain
 * begins. All pieces run in parallel; the row comes last.
 *
 * A page that is nowhere: without rows the contiguous good pages count. With rows the restore aims at the deepest
 * record above whose row can be had: the pages before it are in place already, but its partial last page was taken from
 * its child, so that page (`tail`) and the row are brought again.
 */
#include "engine/prefix_priv.h"
#include "engine/restore_priv.h"

#include <string.h>

static bool has_rows(const struct sel_restore *restore) { return restore->store->layout->desc.row_bytes > 0; }

static uint64_t piece_end_tokens(const struct sel_restore *restore, const struct sel_piece *piece) {
    uint64_t page_tokens = restore->store->layout->desc.page_tokens;
    return SEL_MIN((piece->page + piece->count) * page_tokens, restore->tokens);
}

/* Counts what a piece brought, up to `tokens`. */
static void count_piece(struct sel_restore *restore, const struct sel_piece *piece, uint64_t tokens) {
    selene_store *store = restore->store;
    uint64_t page_tokens = store->layout->desc.page_tokens, bytes = 0;
    if (piece->count == 0)
        return;
    if (piece->part == SEL_LSM_ROW) {
        bytes = store->layout->desc.row_bytes * store->layout->desc.rank_count;
    } else {
        uint64_t begin = piece->page * page_tokens, end = SEL_MIN(piece_end_tokens(restore, piece), tokens);
        if (end <= begin)
            return;
        restore->request.event.tokens_by_tier[piece->source] += end - begin;
        for (uint64_t at = begin; at < end; at += page_tokens)
            bytes += sel_page_bytes(store, (uint32_t)SEL_MIN(end - at, page_tokens));
    }
    restore->request.event.bytes += bytes;
    store->stats.restored_bytes[piece->source] += bytes;
}

/* The whole time, waiting for the caller's event included, goes to the slowest tier that was read. */
static void count_time(struct sel_restore *restore) {
    const struct selene_event *event = &restore->request.event;
    int slowest = restore->row.state == SEL_PIECE_GOOD ? (int)restore->row.source : SEL_TIER_MEMORY;
    for (int tier = slowest; tier < SEL_TIER_COUNT; tier++)
        if (event->tokens_by_tier[tier])
            slowest = tier;
    restore->store->stats.restore_ns[slowest] += event->elapsed_ns;
}

static void restore_end(struct sel_restore *restore, uint64_t tokens, int result) {
    selene_store *store = restore->store;
    if (result == 0 && tokens < restore->asked_tokens)
        result = SELENE_E_GONE; /* less was held than was asked for */
    restore->request.event.tokens = tokens;
    for (uint32_t i = 0; tokens && i <= restore->target; i++)
        count_piece(restore, &restore->pieces[i], tokens);
    if (tokens && restore->tail.state == SEL_PIECE_GOOD)
        count_piece(restore, &restore->tail, tokens);
    if (tokens && restore->row.state == SEL_PIECE_GOOD)
        count_piece(restore, &restore->row, tokens);
    sel_piece_free(&restore->row);
    sel_piece_free(&restore->tail);
    for (uint32_t i = restore->chain_count; i-- > 0;)
        sel_piece_free(&restore->pieces[i]);
    free(restore->pieces);
    free(restore->blocks);
    free(restore->rows);
    store->event_waits -= restore->wait != NULL;
    if (sel_list_linked(&restore->late))
        sel_list_remove(&restore->late);
    sel_request_end(store, &restore->request, result);
    if (tokens)
        count_time(restore);
}

/* Without rows: tokens of the pages that are good without a gap. */
static uint64_t good_tokens(const struct sel_restore *restore) {
    uint64_t page_tokens = restore->store->layout->desc.page_tokens;
    for (uint32_t i = 0; i <= restore->target; i++) {
        const struct sel_piece *piece = &restore->pieces[i];
        if (piece->state == SEL_PIECE_GOOD)
            continue;
        uint32_t good = 0;
        while (piece->items && good < piece->count && piece->items[good].result == 0)
            good++;
        return (piece->page + good) * page_tokens;
    }
    return restore->tokens;
}

/* Index of the first record whose pages are not good; chain_count: all are. */
static uint32_t first_failed(const struct sel_restore *restore) {
    for (uint32_t i = 0; i <= restore->target; i++)
        if (restore->pieces[i].state == SEL_PIECE_FAILED)
            return i;
    return restore->tail.state == SEL_PIECE_FAILED ? restore->target : restore->chain_count;
}

static void plan_row(struct sel_restore *restore) {
    struct sel_piece *row = &restore->row;
    memset(row, 0, sizeof *row);
    sel_list_init(&row->link);
    row->restore = restore;
    row->node = restore->pieces[restore->target].node;
    row->part = SEL_LSM_ROW;
    row->count = restore->store->layout->row_slots;
    row->tier = -1;
    row->previous_use = restore->pieces[restore->target].previous_use;
}

/* Aims at the deepest record above `failed` that can be resumed at. False: there is none. */
static bool fall_back(struct sel_restore *restore, uint32_t failed) {
    uint64_t page_tokens = restore->store->layout->desc.page_tokens;
    struct sel_piece *tail = &restore->tail;
    sel_piece_free(&restore->row);
    sel_piece_free(tail);
    memset(tail, 0, sizeof *tail);
    sel_list_init(&tail->link);
    tail->tier = -1;
    while (failed > 0 && !sel_node_row_usable(restore->store, restore->pieces[failed - 1].node))
        failed--;
    plan_row(restore);
    if (failed == 0)
        return false;
    restore->target = failed - 1;
    const struct sel_piece *above = &restore->pieces[restore->target];
    restore->tokens = above->node->tokens;
    plan_row(restore);
    sel_piece_reserve(&restore->row);
    if (restore->tokens % page_tokens == 0)
        return true;
    tail->restore = restore;
    tail->node = above->node;
    tail->part = SEL_LSM_PAGES;
    tail->count = 1;
    tail->page = (uint32_t)(restore->tokens / page_tokens);
    tail->first = tail->page - sel_node_first_page(restore->store, above->node);
    tail->previous_use = above->previous_use;
    sel_piece_start(tail);
    return true;
}

/* The next step when nothing is busy; false when that was the end. */
static bool next_step(struct sel_restore *restore) {
    if (restore->cancelled) {
        restore_end(restore, 0, SELENE_E_CANCELLED);
        return false;
    }
    if (!has_rows(restore)) {
        restore_end(restore, good_tokens(restore), restore->result);
        return false;
    }
    uint32_t failed = first_failed(restore);
    if (failed == restore->chain_count) {
        if (restore->row.state == SEL_PIECE_GOOD) {
            restore_end(restore, restore->tokens, restore->result);
            return false;
        }
        if (restore->row.state == SEL_PIECE_IDLE) {
            sel_piece_start(&restore->row);
            return true;
        }
        if (restore->row.state == SEL_PIECE_BUSY) { /* read ahead */
            sel_piece_go_on(&restore->row);
            return true;
        }
        failed = restore->target;
    }
    if (fall_back(restore, failed))
        return true;
    restore_end(restore, 0, restore->result);
    return false;
}

void sel_restore_advance(struct sel_restore *restore) {
    do {
        restore->busy = 1;
        if (!next_step(restore))
            return;
    } while (--restore->busy == 0);
}

static void cancel_piece(struct sel_restore *restore, struct sel_piece *piece) {
    selene_store *store = restore->store;
    if (piece->state != SEL_PIECE_BUSY)
        return;
    for (uint32_t i = 0; i < piece->feed_count; i++)
        if (piece->feeds[i].state == SEL_FEED_COPYING)
            store->device->ops->cancel(store->device, &piece->feeds[i].copy);
    sel_piece_fail(piece, SELENE_E_CANCELLED);
}

static void restore_cancel(struct sel_request *request) {
    struct sel_restore *restore = SEL_CONTAINER(request, struct sel_restore, request);
    restore->cancelled = true;
    restore->busy++;
    for (uint32_t i = 0; i < restore->chain_count; i++)
        cancel_piece(restore, &restore->pieces[i]);
    if (restore->tail.restore)
        cancel_piece(restore, &restore->tail);
    cancel_piece(restore, &restore->row);
    if (--restore->busy == 0)
        sel_restore_advance(restore);
}

/* ---- the caller's event ---- */

static void piece_timed(const struct sel_restore *restore, struct sel_piece *piece) {
    for (uint32_t i = 0; i < piece->feed_count; i++) {
        struct sel_feed *feed = &piece->feeds[i];
        if (feed->state != SEL_FEED_COPYING || feed->timed)
            continue;
        feed->timed = true;
        sel_transfer_begin(restore->store, piece->source);
    }
}

/* From here on its copies count as running [R3]. */
static void event_happened(struct sel_restore *restore) {
    sel_list_remove(&restore->late);
    for (uint32_t i = 0; i < restore->chain_count; i++)
        piece_timed(restore, &restore->pieces[i]);
    piece_timed(restore, &restore->tail);
    piece_timed(restore, &restore->row);
}

void sel_restores_late_step(selene_store *store) {
    SEL_LIST_FOR_EACH(link, &store->late_restores) {
        struct sel_restore *restore = SEL_LIST_ENTRY(link, struct sel_restore, late);
        if (store->device->ops->happened(store->device, restore->wait))
            event_happened(restore);
    }
}

/* ---- the call ---- */

static int copy_state(struct sel_restore *restore, const struct selene_device_state *state) {
    const struct sel_layout *layout = restore->store->layout;
    uint32_t pages = sel_layout_end_page(layout, restore->tokens);
    restore->blocks = malloc(pages * sizeof *restore->blocks);
    if (layout->desc.row_bytes)
        restore->rows = malloc(layout->desc.rank_count * sizeof *restore->rows);
    if (!restore->blocks || (layout->desc.row_bytes && !restore->rows))
        return SELENE_E_NOMEM;
    memcpy(restore->blocks, state->blocks, pages * sizeof *restore->blocks);
    if (layout->desc.row_bytes)
        memcpy(restore->rows, state->rows, layout->desc.rank_count * sizeof *restore->rows);
    restore->wait = state->wait;
    return 0;
}

/* One piece for each record of the chain; all of them count as used now. */
static int plan_chain(struct sel_restore *restore, struct sel_node *node) {
    selene_store *store = restore->store;
    size_t count;
    int result = sel_node_chain(store, node, &count);
    if (result)
        return result;
    restore->pieces = calloc(count, sizeof *restore->pieces);
    if (!restore->pieces)
        return SELENE_E_NOMEM;
    restore->chain_count = (uint32_t)count;
    restore->target = (uint32_t)count - 1;
    uint64_t use = sel_store_use(store);
    uint32_t end = sel_layout_end_page(store->layout, restore->tokens);
    for (uint32_t i = 0; i < count; i++) { /* store->chain is leaf first */
        struct sel_piece *piece = &restore->pieces[count - 1 - i];
        struct sel_node *record = store->chain[i];
        *piece = (struct sel_piece){.restore = restore, .node = record, .part = SEL_LSM_PAGES, .tier = -1};
        sel_list_init(&piece->link);
        piece->page = sel_node_first_page(store, record);
        piece->count = end - piece->page;
        piece->previous_use = record->last_use;
        end = piece->page;
        /* All are pinned before the first is started: starting one may evict others. */
        piece->tier = sel_node_tier(record, SEL_LSM_PAGES);
        sel_pin(store, record, (enum sel_tier)piece->tier);
        sel_tree_touch(store->tree, record, use);
    }
    return 0;
}

/* True when nothing can be loaded now and nothing is in flight whose end would change that [fault 25]. */
static bool no_way_to_load(selene_store *store, struct sel_node *node) {
    if (store->slots.free_count > 0 || !sel_list_empty(&store->loads) || store->spill_count > 0)
        return false;
    for (; node; node = node->parent)
        if (sel_node_tier(node, SEL_LSM_PAGES) == SEL_TIER_DISK)
            return sel_tree_coldest(store->tree, SEL_TIER_MEMORY, SEL_ORDER_CLEAN) == NULL;
    return false;
}

static int restore_begin(selene_store *store, struct sel_match match, uint64_t tokens,
                         const struct selene_device_state *state, uint64_t *ticket) {
    struct sel_restore *restore = calloc(1, sizeof *restore);
    if (!restore)
        return SELENE_E_NOMEM;
    restore->store = store;
    restore->asked_tokens = tokens;
    restore->tokens = match.tokens;
    restore->tail.tier = -1;
    sel_list_init(&restore->tail.link);
    sel_list_init(&restore->late);
    int result = copy_state(restore, state);
    if (!result)
        result = plan_chain(restore, match.node);
    if (result) {
        free(restore->blocks);
        free(restore->rows);
        free(restore->pieces);
        free(restore);
        return result;
    }
    plan_row(restore);
    sel_piece_reserve(&restore->row);
    store->event_waits += restore->wait != NULL;
    if (restore->wait && !store->device->ops->happened(store->device, restore->wait))
        sel_list_add_tail(&store->late_restores, &restore->late);
    sel_request_begin(store, &restore->request, SELENE_EVENT_RESTORE, restore_cancel);
    *ticket = restore->request.event.ticket;
    store->stats.restores++;
    restore->busy = 1;
    for (uint32_t i = 0; i < restore->chain_count; i++)
        sel_piece_start(&restore->pieces[i]);
    if (has_rows(restore))
        sel_piece_read_ahead(&restore->row);
    if (--restore->busy == 0)
        sel_restore_advance(restore);
    sel_store_kick(store);
    return 0;
}

int selene_restore(selene_store *store, const selene_prefix *prefix, uint64_t tokens,
                   const struct selene_device_state *state, uint64_t *ticket) {
    int result = sel_store_usable(store);
    if (result)
        return result;
    if (!ticket || !state)
        return SELENE_E_INVALID;
    if ((result = sel_prefix_usable(store, prefix)) != 0)
        return result;
    *ticket = 0;
    if (tokens > sel_prefix_tokens(prefix->keys) || (result = sel_state_check(store, state, tokens)) != 0)
        return SELENE_E_INVALID;
    struct sel_match match = sel_match_find(store, prefix->keys, tokens);
    if (!match.node)
        return SELENE_E_NOTFOUND;
    if (store->request_count >= SEL_REQUESTS_MAX || no_way_to_load(store, match.node))
        return SELENE_E_RETRY;
    return restore_begin(store, match, tokens, state, ticket);
}
