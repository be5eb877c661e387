/* SPDX-License-Identifier: Apache-2.0
 *
 * One piece of a restore: from its cheapest tier into device memory, checksums verified on the way, memory hits too
 * [I1]; to the next tier when a copy fails [R4].
 */
#include "engine/restore_priv.h"

#include <string.h>

static void piece_try(struct sel_piece *piece);

uint32_t sel_restore_page_tokens(const struct sel_restore *restore, uint32_t page) {
    uint64_t page_tokens = restore->store->layout->desc.page_tokens;
    return (uint32_t)SEL_MIN(restore->tokens - page * page_tokens, page_tokens);
}

static void piece_end(struct sel_piece *piece, enum sel_piece_state state) {
    struct sel_restore *restore = piece->restore;
    piece->state = state;
    if (state == SEL_PIECE_FAILED && !restore->result)
        restore->result = piece->reason;
    if (--restore->busy == 0)
        sel_restore_advance(restore);
}

/* Checksums of the row came with the first-level hashes of its copies. */
static int row_verify(const struct sel_piece *piece) {
    const struct sel_layout *layout = piece->restore->store->layout;
    const struct sel_memory *memory = piece->node->memory;
    const struct sel_copy_part *part = piece->load ? &piece->load->part : &memory->row;
    for (uint32_t rank = 0; rank < layout->desc.rank_count; rank++) {
        const uint64_t *hashes = piece->row_hashes + (size_t)rank * layout->row_blocks;
        if (sel_checksum_finish(hashes, layout->row_blocks) != part->sums[part->packed ? 0 : rank])
            return SELENE_E_CORRUPT;
    }
    return 0;
}

/* The piece uses the wave of the tier it is read from [R3]. */
static void wave_join(struct sel_piece *piece) {
    sel_transfer_join(piece->restore->store, piece->source);
    piece->timed = true;
}

/* True when it used one: the caller leaves it for the piece, when whatever follows has joined. */
static bool wave_handed_over(struct sel_piece *piece) {
    bool timed = piece->timed;
    piece->timed = false;
    return timed;
}

/* All copies of this attempt ended. */
static void attempt_done(struct sel_piece *piece) {
    selene_store *store = piece->restore->store;
    enum sel_tier source = piece->source;
    bool timed = wave_handed_over(piece);
    if (piece->result == 0 && piece->restore->cancelled)
        piece->result = SELENE_E_CANCELLED;
    if (piece->result == 0 && piece->part == SEL_LSM_ROW)
        piece->result = row_verify(piece);
    if (piece->result && piece->load)
        piece->load->bad = true;
    if (piece->result)
        sel_copy_failed(store, piece->node, (enum sel_tier)piece->tier, piece->part, piece->result);
    if (piece->load)
        sel_load_detach(piece);
    if (!piece->reason)
        piece->reason = piece->result;
    if (piece->result == 0)
        piece_end(piece, SEL_PIECE_GOOD);
    else if (sel_copy_innocent(piece->result))
        piece_end(piece, SEL_PIECE_FAILED);
    else
        piece_try(piece);
    if (timed)
        sel_transfer_leave(store, source);
}

/* What a copy moved, as far as it counts: what came from disk was counted when it was read. */
static uint64_t feed_bytes(const struct sel_feed *feed) {
    const struct sel_piece *piece = feed->piece;
    const struct sel_layout *layout = piece->restore->store->layout;
    uint64_t count = feed->copy.item_count, ranks = layout->desc.rank_count;
    if (feed->chunk || feed->copy.op.result)
        return 0;
    if (piece->part == SEL_LSM_ROW)
        return layout->desc.row_bytes * ranks * count / layout->row_slots;
    return layout->page_bytes * ranks * count;
}

static void feed_done(struct sel_op *op) {
    struct sel_feed *feed = SEL_CONTAINER(op, struct sel_feed, copy.op);
    struct sel_piece *piece = feed->piece;
    struct sel_chunk *chunk = feed->chunk;
    if (feed->timed)
        sel_transfer_end(piece->restore->store, piece->source, feed_bytes(feed));
    feed->timed = false;
    feed->state = SEL_FEED_DONE;
    feed->chunk = NULL;
    piece->in_flight--;
    piece->feeds_left--;
    if (op->result)
        sel_piece_stop(piece, op->result);
    if (chunk)
        sel_chunk_release(chunk);
    if (piece->feeds_left == 0)
        attempt_done(piece);
}

void sel_piece_stop(struct sel_piece *piece, int code) {
    if (!piece->result)
        piece->result = code;
    for (uint32_t i = 0; i < piece->feed_count; i++) {
        if (piece->feeds[i].state != SEL_FEED_WANTED)
            continue;
        piece->feeds[i].state = SEL_FEED_DONE;
        piece->feeds_left--;
    }
}

void sel_piece_fail(struct sel_piece *piece, int code) {
    sel_piece_stop(piece, code);
    if (piece->feeds_left == 0 && !piece->hold)
        attempt_done(piece);
}

void sel_feed_start(struct sel_piece *piece, struct sel_feed *feed, uint32_t offset, uint32_t count,
                    const struct sel_copy_part *part, uint32_t at) {
    struct sel_restore *restore = piece->restore;
    selene_store *store = restore->store;
    struct sel_copy_item *items = piece->items + offset;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t page = piece->page + offset + i;
        items[i] = (struct sel_copy_item){.slot = sel_part_share(store, part, at + i), .result = SELENE_E_IO};
        if (piece->part == SEL_LSM_ROW) {
            items[i].row_part = piece->first + offset + i;
        } else {
            items[i].block = restore->blocks[page];
            items[i].tokens = sel_restore_page_tokens(restore, page);
            items[i].sums = sel_part_sums(store, part, at + i);
        }
    }
    feed->copy = (struct sel_copy){.direction = SEL_COPY_IN,
                                   .row = piece->part == SEL_LSM_ROW,
                                   .replicated = part->packed,
                                   .items = items,
                                   .item_count = count,
                                   .planes = store->planes,
                                   .rows = restore->rows,
                                   .row_hashes = piece->row_hashes,
                                   .wait = restore->wait,
                                   .block_limit = store->options.block_count};
    sel_op_init(&feed->copy.op, feed_done);
    feed->state = SEL_FEED_COPYING;
    piece->in_flight++;
    if ((feed->timed = !sel_list_linked(&restore->late)))
        sel_transfer_begin(store, piece->source);
    store->device->ops->submit(store->device, &feed->copy);
}

/* Feeds for so many chunks; those the piece has no part in are done from the start. */
int sel_piece_feeds(struct sel_piece *piece, uint32_t count) {
    free(piece->feeds);
    piece->feed_count = piece->feeds_left = 0;
    piece->feeds = calloc(count, sizeof *piece->feeds);
    if (!piece->feeds)
        return SELENE_E_NOMEM;
    piece->feed_count = piece->feeds_left = count;
    for (uint32_t i = 0; i < count; i++)
        piece->feeds[i].piece = piece;
    return 0;
}

static int start_from_memory(struct sel_piece *piece) {
    struct sel_memory *memory = piece->node->memory;
    const struct sel_copy_part *part = piece->part == SEL_LSM_ROW ? &memory->row : &memory->pages;
    if (piece->first + piece->count > part->pieces)
        return SELENE_E_INTERNAL;
    int result = sel_piece_feeds(piece, 1);
    if (result)
        return result;
    sel_feed_start(piece, piece->feeds, 0, piece->count, part, piece->first);
    return 0;
}

/* Pins where the piece is going to be read, and lets go of where it was. */
static void move_pin(struct sel_piece *piece, int tier) {
    selene_store *store = piece->restore->store;
    int old = piece->tier;
    if (tier >= 0)
        sel_pin(store, piece->node, (enum sel_tier)tier);
    piece->tier = tier;
    if (old >= 0)
        sel_unpin(store, piece->node, (enum sel_tier)old);
}

static void nowhere(struct sel_piece *piece) {
    if (piece->part == SEL_LSM_PAGES)
        sel_doom(piece->restore->store, piece->node);
    move_pin(piece, -1);
    if (piece->part == SEL_LSM_PAGES)
        piece->node = NULL;
    if (!piece->reason)
        piece->reason = SELENE_E_GONE;
    piece_end(piece, SEL_PIECE_FAILED);
}

static void piece_try(struct sel_piece *piece) {
    int tier = sel_node_tier(piece->node, piece->part);
    if (tier < 0) {
        nowhere(piece);
        return;
    }
    if (piece->restore->cancelled) { /* nothing more may touch the caller's memory */
        piece_end(piece, SEL_PIECE_FAILED);
        return;
    }
    move_pin(piece, tier);
    piece->result = 0;
    piece->source = (enum sel_tier)tier;
    wave_join(piece);
    int result = tier == SEL_TIER_MEMORY ? start_from_memory(piece) : sel_load_attach(piece);
    if (result) {
        if (wave_handed_over(piece))
            sel_transfer_leave(piece->restore->store, piece->source);
        piece->reason = result;
        piece_end(piece, SEL_PIECE_FAILED);
    }
}

static int piece_buffers(struct sel_piece *piece) {
    const struct sel_layout *layout = piece->restore->store->layout;
    piece->items = calloc(piece->count, sizeof *piece->items);
    if (piece->part == SEL_LSM_ROW)
        piece->row_hashes = calloc((size_t)layout->desc.rank_count * layout->row_blocks, sizeof *piece->row_hashes);
    if (!piece->items || (!piece->row_hashes && piece->part == SEL_LSM_ROW))
        return SELENE_E_NOMEM;
    for (uint32_t i = 0; i < piece->count; i++)
        piece->items[i].result = SELENE_E_IO; /* nothing is good yet */
    return 0;
}

void sel_piece_start(struct sel_piece *piece) {
    piece->restore->busy++;
    piece->state = SEL_PIECE_BUSY;
    if (piece->count == 0) { /* its child carries all of it again */
        piece_end(piece, SEL_PIECE_GOOD);
        return;
    }
    int result = piece_buffers(piece);
    if (result) {
        piece->reason = result;
        piece_end(piece, SEL_PIECE_FAILED);
        return;
    }
    piece_try(piece);
}

void sel_piece_reserve(struct sel_piece *piece) {
    int tier = sel_node_tier(piece->node, piece->part);
    if (tier >= 0)
        move_pin(piece, tier);
}

void sel_piece_read_ahead(struct sel_piece *piece) {
    if (sel_node_tier(piece->node, piece->part) != SEL_TIER_DISK)
        return;
    int result = piece_buffers(piece);
    piece->hold = true;
    piece->source = SEL_TIER_DISK;
    move_pin(piece, SEL_TIER_DISK);
    if (!result && sel_load_attach_kept(piece) == 0) {
        wave_join(piece);
        piece->state = SEL_PIECE_BUSY;
        return;
    }
    piece->hold = false;
    free(piece->items);
    free(piece->row_hashes);
    piece->items = NULL;
    piece->row_hashes = NULL;
}

void sel_piece_go_on(struct sel_piece *piece) {
    piece->restore->busy++;
    piece->hold = false;
    if (piece->result || piece->feeds_left == 0)
        attempt_done(piece);
    else
        sel_load_feed(piece);
}

void sel_piece_free(struct sel_piece *piece) {
    SEL_CHECK(piece->in_flight == 0);
    if (wave_handed_over(piece))
        sel_transfer_leave(piece->restore->store, piece->source);
    if (piece->load)
        sel_load_detach(piece);
    if (piece->tier >= 0 && piece->node)
        move_pin(piece, -1);
    free(piece->items);
    free(piece->feeds);
    free(piece->row_hashes);
    piece->items = NULL;
    piece->feeds = NULL;
    piece->row_hashes = NULL;
    piece->feed_count = 0;
}
