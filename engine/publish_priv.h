/* SPDX-License-Identifier: Apache-2.0
 *
 * A publish inside: a chain of drafts, records that are not visible yet.
 *
 *   waiting   no slots for the next draft, or for one that was compared; sel_publishes_step tries again
 *   copying   drafts in flight: compared first where ranks may be alike (pack.c), then copied; they become records in order, parents first
 *   ended     all drafts are records, or one failed, or it was cancelled: when nothing touches the caller's memory
 *
 * `parent` is the record that the first draft in the list goes under: it is in the tree, and pinned in `parent_tier`.
 */
#ifndef SEL_ENGINE_PUBLISH_PRIV_H
#define SEL_ENGINE_PUBLISH_PRIV_H

#include "engine/store_priv.h"

/* How long an accepted publish waits for slots for the rest of its chain, and others are refused because they would
 * overtake it. Long enough for a slow disk to take what stands before it, short enough that device memory is not held for
 * ever. */
#define SEL_PUBLISH_WAIT_NS (10 * SEL_NS_PER_SECOND)

struct sel_publish {
    struct sel_request request;
    selene_store *store;
    struct sel_list waiting; /* in store->waiting_publishes */
    uint64_t waiting_since_ns;
    uint32_t *blocks; /* of pages first_page on */
    void **rows;
    const void *wait;
    uint32_t first_page;  /* of the first draft */
    uint64_t tokens;      /* of the last record */
    struct sel_key key;   /* at `tokens` */
    struct sel_key *keys; /* K(first_page) .. K(tokens / P) */
    struct sel_node *parent;
    enum sel_tier parent_tier;
    /* The record is there with its pages, and only its row is copied [T5]; pinned in thinned_tier. NULL: all is. */
    struct sel_node *thinned;
    enum sel_tier thinned_tier;
    uint64_t cursor; /* where the next draft begins */
    struct sel_list drafts;
    bool cancelled;
    bool pages_differ;       /* a window of a packed stream said so: the pages that follow are stored per rank [K2] */
    bool restarting;         /* from `cursor`, when the drafts that were given up have ended */
    uint64_t retried_tokens; /* of the record whose write failed and was begun again [P4] */
    int result;              /* the first failure */
};

/* A record on its way. With a warm tier it holds all its slots; without one it is streamed (publish_stream.c). */
struct sel_draft {
    struct sel_list link; /* in publish->drafts */
    struct sel_publish *publish;
    uint64_t parent_tokens, tokens;
    struct sel_key key;
    uint32_t first_page, page_count; /* 0 pages: a row that is brought back [T5] */
    uint32_t *slots;                 /* taken ahead, until the memory copy has them */
    uint32_t slot_count;
    bool pages_packed, row_packed; /* predicted; once settled, how it is stored */
    bool comparing;                /* on the device; not settled yet */
    bool decided;                  /* a stream's form is no prediction any more */
    bool lacking;                  /* compared, and waiting for slots, with none; a stream: for room on disk */
    bool restart;                  /* a stream that was given up, to be begun again */
    struct sel_compare page_compare, row_compare;
    struct sel_memory *memory;
    struct sel_copy page_copy, row_copy;
    struct sel_copy_item *items; /* pages, then the pieces of the row */
    uint64_t *row_hashes;
    unsigned in_flight; /* comparisons, then copies */
    bool done;
    int result;
    struct sel_stream *stream;
};

/* Where the draft that begins at publish->cursor ends. */
uint64_t sel_draft_end(const struct sel_publish *publish);
/* Unpadded valid bytes that a record of these pages copies, its row included. */
uint64_t sel_draft_bytes(const selene_store *store, const struct sel_draft *draft);
/* A draft for the next record, empty. NULL: no memory. */
struct sel_draft *sel_draft_create(struct sel_publish *publish);
void sel_draft_free(struct sel_draft **draft);
void sel_draft_spec(const struct sel_draft *draft, struct sel_node_spec *spec);
/* Starts the copies of the next draft. SELENE_E_RETRY: no slots. */
int sel_draft_start(struct sel_publish *publish);
/* Turns drafts that are done into records, and ends the publish when nothing is left. May free the publish's parts. */
void sel_publish_collect(struct sel_publish *publish);
/* The same for a warm tier: one draft becomes a record in memory. */
int sel_draft_insert(struct sel_draft *draft);
/* The chain goes on from `node`, which takes the parent's pin over. */
void sel_publish_advance(struct sel_publish *publish, struct sel_node *node);

/* Starts the copies of a draft that has its memory copy. */
void sel_draft_copy(struct sel_draft *draft);
/* Goes on with drafts that can be settled or started; then collects. */
void sel_publish_go_on(struct sel_publish *publish);

/* pack.c */
bool sel_pack_allowed(const selene_store *store);
uint32_t sel_draft_slots(const struct sel_draft *draft); /* that it takes as it is predicted, or stored */
void sel_draft_predict(struct sel_draft *draft);
/* Brings the slots held to as many as it takes. SELENE_E_RETRY or SELENE_E_OVERSIZE: none is held. */
int sel_draft_take(struct sel_draft *draft);
/* Gives back all but `keep`. */
void sel_draft_give_back(struct sel_draft *draft, uint32_t keep);
/* Compares its first pages, and its row if it has one. */
void sel_draft_compare(struct sel_draft *draft, uint32_t pages);
/* Slots, memory copy and copies of a draft whose form is known. SELENE_E_RETRY: it lacks slots. 0 otherwise; it may
 * have ended then (`done`, with its result). */
int sel_draft_settle(struct sel_draft *draft);
/* A draft that lacks slots ends. */
void sel_draft_give_up(struct sel_draft *draft, int code);
/* What is in flight ends as soon as it can. */
void sel_draft_stop(struct sel_draft *draft);

/* publish_stream.c */
int sel_stream_start(struct sel_publish *publish);
/* Begins to write a stream whose form is decided. SELENE_E_RETRY: no room on disk now. */
int sel_stream_begin(struct sel_draft *draft);
void sel_stream_cancel(struct sel_draft *draft);
/* The committed record appears on disk. */
int sel_stream_insert(struct sel_draft *draft);
void sel_stream_free(struct sel_stream **stream);
uint32_t sel_stream_slots(const struct sel_stream *stream); /* that it holds now */

/* Fills one page's copy item. */
void sel_draft_page_item(const struct sel_draft *draft, uint32_t index, struct sel_copy_item *item);

#endif
