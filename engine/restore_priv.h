/* SPDX-License-Identifier: Apache-2.0
 *
 * A restore inside. It is cut into pieces: what it takes from one part (pages or row) of one record.
 *
 *   piece   idle -> busy -> good
 *                     |  -> busy in the next tier, when a copy failed [R4]
 *                      `-> failed, when no tier is left
 *
 * Pages come first, all in parallel; the row when they are good. What a piece reads is pinned until the restore ends,
 * so that the records above a failed one are still there to fall back to.
 *
 * Transfers are timed as waves [R3], see cost.h: reads from disk, and copies once the caller's event has happened.
 *
 * A load reads one part of one record from disk, in chunks of a window, for all pieces that want it at that time [R2].
 *
 *   chunk   idle -> reading -> ready -> (not kept: idle again when nobody uses or wants it)
 *
 * A load that is kept has slots for the whole part and becomes a memory copy when it ends [R5]; any other borrows
 * slots of the intake chunk by chunk. It never waits for slots while it holds some that others wait for: a chunk in
 * hand is copied and given back whatever else happens [faults 24, 25].
 */
#ifndef SEL_ENGINE_RESTORE_PRIV_H
#define SEL_ENGINE_RESTORE_PRIV_H

#include "engine/store_priv.h"

enum sel_piece_state { SEL_PIECE_IDLE = 0, SEL_PIECE_BUSY, SEL_PIECE_GOOD, SEL_PIECE_FAILED };
enum sel_feed_state { SEL_FEED_WANTED = 0, SEL_FEED_COPYING, SEL_FEED_DONE };

/* One copy into device memory: a piece's share of one chunk (all of it, when it comes from memory). */
struct sel_feed {
    struct sel_copy copy;
    struct sel_piece *piece;
    struct sel_chunk *chunk; /* while copying from a load */
    enum sel_feed_state state;
    bool timed; /* it counts as a transfer that is running */
};

struct sel_piece {
    struct sel_list link; /* in load->pieces */
    struct sel_restore *restore;
    struct sel_node *node; /* NULL: gone */
    enum sel_lsm_part part;
    uint32_t first, count; /* pages of the record, or pieces of its row */
    uint32_t page;         /* number of the first page in the sequence */
    int tier;              /* where it is pinned; -1: nowhere */
    enum sel_tier source;  /* where it was last read from */
    enum sel_piece_state state;
    bool timed;            /* it uses its source's wave */
    bool hold;             /* a row that is being read ahead while pages are not good yet */
    int result;            /* of this attempt */
    int reason;            /* of the first attempt that failed */
    uint64_t previous_use; /* the record's, before this restore touched it [R5] */
    struct sel_copy_item *items;
    struct sel_feed *feeds;
    uint32_t feed_count, feeds_left, in_flight;
    uint64_t *row_hashes;
    struct sel_load *load;
};

struct sel_restore {
    struct sel_request request;
    selene_store *store;
    uint32_t *blocks;
    void **rows;
    const void *wait;
    uint64_t asked_tokens;
    uint64_t tokens;          /* of the checkpoint aimed at */
    struct sel_piece *pieces; /* chain, root first */
    uint32_t chain_count;
    uint32_t target; /* index in the chain of the checkpoint aimed at */
    struct sel_piece tail, row;
    struct sel_list late; /* in store->late_restores while the caller's event has not happened */
    uint32_t busy;        /* pieces, plus one while the restore is being worked on */
    bool cancelled;
    int result; /* the first failure */
};

/* ---- cost.c: what the tiers are doing for restores ---- */
/* A piece begins to use a tier's wave; it is through. */
void sel_transfer_join(selene_store *store, enum sel_tier tier);
void sel_transfer_leave(selene_store *store, enum sel_tier tier);
/* A read or copy starts; it ended, and moved so many bytes. */
void sel_transfer_begin(selene_store *store, enum sel_tier tier);
void sel_transfer_end(selene_store *store, enum sel_tier tier, uint64_t bytes);

enum sel_chunk_state { SEL_CHUNK_IDLE = 0, SEL_CHUNK_READING, SEL_CHUNK_READY };
struct sel_chunk {
    struct sel_op op;
    struct sel_load *load;
    enum sel_chunk_state state;
    uint32_t first, count; /* slots */
    uint32_t users;        /* copies that read it */
    uint32_t *slots;       /* load->part.slots, or its own */
    struct iovec *iov;
};

struct sel_load {
    struct sel_list link; /* in store->loads */
    selene_store *store;
    struct sel_node *node; /* pinned on disk */
    enum sel_lsm_part part_kind;
    struct sel_copy_part part; /* pieces and sums; slots when kept */
    struct sel_lsm_record record;
    struct sel_lsm_reader *reader;
    struct sel_op open_op;
    bool opened;
    bool keep;
    bool bad; /* not to be kept or joined */
    int result;
    uint32_t slot_count;
    struct sel_chunk *chunks;
    uint32_t chunk_count, cursor;
    uint32_t reads;    /* in flight, the opening one included */
    uint32_t borrowed; /* chunks that hold slots of the intake */
    uint32_t hold;     /* being worked on: must not end */
    struct sel_list pieces;
};

/* Goes on when no piece is busy: row, an ancestor to fall back to, or the end. */
void sel_restore_advance(struct sel_restore *restore);
/* Valid tokens of a page, for the checkpoint aimed at. */
uint32_t sel_restore_page_tokens(const struct sel_restore *restore, uint32_t page);

void sel_piece_start(struct sel_piece *piece);
/* Pins what the piece is going to read, so that it is still there then: a row may lie in another tier than its pages and
 * would be thinned there meanwhile [T3]. */
void sel_piece_reserve(struct sel_piece *piece);
/* Reads a row into slots that will be kept while the pages are being copied, if that can be had. */
void sel_piece_read_ahead(struct sel_piece *piece);
void sel_piece_go_on(struct sel_piece *piece); /* a piece that was read ahead */
void sel_piece_free(struct sel_piece *piece);
/* No more copies start; those in flight end. */
void sel_piece_stop(struct sel_piece *piece, int code);
int sel_piece_feeds(struct sel_piece *piece, uint32_t count);

/* Attaches a busy piece on disk to a load of its part, joining one that is under way. */
int sel_load_attach(struct sel_piece *piece);
/* True when a load of this piece that keeps what it reads is under way or can be had now. */
int sel_load_attach_kept(struct sel_piece *piece);
/* The piece takes nothing more; ends the load when it was the last. */
void sel_load_detach(struct sel_piece *piece);
/* Copies what is ready to a piece that was held. */
void sel_load_feed(struct sel_piece *piece);
/* A copy from this chunk ended. */
void sel_chunk_release(struct sel_chunk *chunk);

/* Submits one copy, of items [offset, offset + count) of the piece: they are pieces `at` on of `part`. */
void sel_feed_start(struct sel_piece *piece, struct sel_feed *feed, uint32_t offset, uint32_t count,
                    const struct sel_copy_part *part, uint32_t at);
/* A load failed: the piece gets no more data from it. */
void sel_piece_fail(struct sel_piece *piece, int code);

#endif
