/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the record store share. See README.md for which file does what.
 *
 * States of a segment:
 *
 *   MAKING --head synced--> READY --first extent needs it--> OPEN --full, suspect, or at close--> SEALED
 *   SEALED --nothing live, nobody uses it--> SPARE (whole, kept to be recycled) or DOOMED (unlinked, forgotten)
 *   SPARE  --picked for a new segment--> MAKING (a new generation comes first)
 *   MAKING --failure--> DOOMED
 *   LEFT   a file that is not ours to touch: from the future, foreign, or damaged; only its bytes are counted
 *
 * Every block of a segment past its head and below `end` is exactly one of: live (a bit in `live`), pending (in a part
 * of a write that has neither committed nor failed), dead. Extents never share a block.
 */
#ifndef SEL_LSM_PRIV_H
#define SEL_LSM_PRIV_H

#include "base/check.h"
#include "lsm/format.h"
#include "lsm/lsm.h"

#define SEL_LSM_MAGIC    UINT32_C(0x4d534c31)
#define SEL_WRITE_MAGIC  UINT32_C(0x54525731)
#define SEL_READER_MAGIC UINT32_C(0x52445231)

#define SEL_SEGMENT_BYTES_DEFAULT (UINT64_C(256) << 20)
#define SEL_SEGMENT_BYTES_MIN     (UINT64_C(512) << 10) /* so that the smallest limit has room for more than four */
#define SEL_GROUP_BYTES_DEFAULT   (UINT64_C(64) << 20)
/* A preallocated file takes a few blocks more than its size, for the file system's own map of it. */
#define SEL_SEGMENT_OVERHEAD (UINT64_C(16) << 10)
#define SEL_FILES_MAX        512                               /* open at once; the rest is opened when read */
#define SEL_QUIET_NS         (UINT64_C(5) * SEL_NS_PER_SECOND) /* without a removal before a segment is punched at ease */
#define SEL_SPARES_MAX       4 /* dead segments kept for recycling: overwriting is faster than fresh blocks */
#define SEL_WORKS_MAX        4 /* segments whose space is being given back at once */
#define SEL_PROBE_NS         (UINT64_C(1) * SEL_NS_PER_SECOND)
#define SEL_FAILURES_MAX     3                       /* failures of one kind in a row that make a disk a failing one */
#define SEL_NOTE_INDEX       (SEL_DISK_SYNC_DIR + 1) /* an index transaction, beside enum sel_disk_kind */
#define SEL_NOTE_KINDS       (SEL_NOTE_INDEX + 1)

struct sel_lsm_io;
typedef void sel_lsm_then(struct sel_lsm_io *io, int result);

/* One io of the store, in flight in the order of starting so that a stalled disk shows at the list's head. */
struct sel_lsm_io {
    struct sel_disk_io io;
    struct sel_lsm *lsm;
    struct sel_list link;
    uint64_t started_ns;
    sel_lsm_then *then;
    void *owner;
};

/* Someone who waits for a segment's file. */
struct sel_file_waiter {
    struct sel_list link;
    void (*then)(struct sel_file_waiter *waiter, int result);
};

enum sel_segment_state { SEL_MAKING, SEL_READY, SEL_OPEN, SEL_SEALED, SEL_SPARE, SEL_DOOMED, SEL_LEFT };

struct sel_segment {
    struct sel_lsm *lsm;
    struct sel_list link; /* in the list of its state */
    struct sel_list file_link;
    struct sel_list waiters; /* for the file to be opened */
    uint32_t id;
    uint8_t kind;
    uint8_t state;
    bool suspect;       /* an I/O on it failed: nothing new is written to it */
    bool sync_failed;   /* nothing unsynced in it is trusted */
    bool known;         /* the catalogue has an entry for it */
    bool catalog_dirty; /* ... that must be written again */
    bool whole;         /* of the standard size and never punched: good for recycling */
    bool recycled;      /* being made of a dead one */
    bool truncate;      /* sealed: the tail past `end` is to be given back */
    bool dirty;         /* dead blocks may hold space */
    bool punch_all;     /* since opening: look at every dead block */
    bool working;       /* work_io is in use */
    bool keeps;         /* giving its space back failed: tried again, but not counted upon */
    bool syncing;
    bool blocked;    /* dead blocks could not be punched because of readers */
    bool unmovable;  /* copy forward failed on it */
    bool committing; /* its entry is in the transaction under way */
    char name[24];
    uint8_t generation[SEL_GENERATION_BYTES];
    int file;       /* -1: not open */
    unsigned users; /* of the file */
    uint64_t bytes; /* of the file; extents end by there */
    uint64_t end;   /* where the next extent goes */
    uint64_t indexed_bytes;
    uint64_t given_up_end; /* behind the last extent that was given up here since the head was written; 0: none */
    struct sel_list given_up_link; /* in lsm->given_up while that may lie past the mark in the catalogue */
    uint32_t blocks;
    uint64_t *live; /* a bit a block */
    uint64_t *held; /* a bit a block: may hold space of the device */
    uint32_t live_blocks;
    uint32_t pending_blocks;
    uint64_t died_ns;   /* when something in it died last, or it was sealed */
    uint64_t allocated; /* as the file system says, or planned if that is more */
    uint64_t counted_allocated, counted_live, counted_dead, counted_reclaimable; /* its share in the lsm's totals */
    struct sel_list pending;                                                     /* sel_part, by offset */
    struct sel_list readers;                                                     /* sel_lsm_reader */
    struct sel_lsm_io work_io, sync_io, file_io;
    struct sel_file_waiter work_waiter;
    uint8_t work_step;
    uint32_t work_block, work_count; /* the run being punched */
    uint8_t *head;                   /* buffer while being made */
    struct iovec head_iov;
};

struct sel_piece { /* data that the caller gave, until its I/O is done */
    struct sel_list link;
    struct sel_op *op;
    uint64_t offset, bytes;
    const struct iovec *iov;
    int iov_count;
};

struct sel_part { /* one extent of a write */
    struct sel_lsm_write *write;
    struct sel_segment *segment; /* NULL: the write has no such part */
    struct sel_list link;        /* in segment->pending */
    uint64_t offset, header_bytes, data_bytes;
    uint32_t sum_count;
    uint8_t kind;
    bool replicated;
    bool header_written;
    uint8_t *header;
    struct sel_list pieces; /* not issued yet, by offset */
};

enum sel_write_state {
    SEL_WRITE_OPEN,       /* data comes */
    SEL_WRITE_FINISHED,   /* header and data in flight, or waiting for the parent */
    SEL_WRITE_JOINED,     /* in the group */
    SEL_WRITE_COMMITTING, /* in the transaction under way */
    SEL_WRITE_COMMITTED,
    SEL_WRITE_FAILED
};

struct sel_lsm_write {
    uint32_t magic;
    uint8_t state;
    bool finished; /* finish was called */
    struct sel_lsm *lsm;
    struct sel_list link;       /* all writes */
    struct sel_list group_link; /* the group or the commit */
    struct sel_list deferred_link;
    struct sel_list children; /* writes that wait for this one to join */
    struct sel_list sibling;
    struct sel_lsm_write *parent; /* NULL when committed, or a root */
    int error;
    unsigned ios;
    struct sel_lsm_record record;
    struct sel_key *page_keys;
    struct sel_plane_run *runs;
    uint32_t run_count, rank_count;
    uint64_t share_bytes, row_bytes;
    uint64_t sequence, row_sequence;
    struct sel_part part[2];
    struct sel_op *op;
    struct sel_move *move;    /* copy forward: not a record's first write */
    bool row_only;            /* a new row for a committed record: `sequence` is that of its pages, see write_row.c */
    struct sel_list row_link; /* in lsm->row_writes until that is decided */
    uint64_t pages_generation;
    struct sel_location location;
};

struct sel_removal {
    struct sel_list link;
    struct sel_op *op;
    bool row_only;
    bool own; /* nobody else asks for it again: after a transaction that failed it goes with the next one */
    struct sel_location location;
    uint64_t bytes; /* that come back */
    uint64_t row_generation;
    struct sel_record_entry entry; /* row_only: what remains */
};

enum sel_reader_state { SEL_READER_OPENING, SEL_READER_READING, SEL_READER_READY };

struct sel_lsm_reader {
    uint32_t magic;
    uint8_t state;
    struct sel_lsm *lsm;
    struct sel_list link;     /* in segment->readers */
    struct sel_list all_link; /* all readers */
    struct sel_segment *segment;
    bool acquired;
    uint64_t offset, extent_bytes, header_bytes, data_bytes;
    uint32_t run_count;
    struct sel_plane_run *runs;
    uint8_t kind;
    bool replicated;
    struct sel_lsm_record record; /* page_keys not kept */
    uint64_t sequence;
    uint64_t share_bytes, row_bytes;
    uint32_t rank_count;
    uint8_t *header;
    uint64_t *sums;
    size_t sum_count;
    struct iovec *iov;
    int iov_count;
    struct sel_lsm_io io;
    struct sel_file_waiter waiter;
    struct sel_op *op;
    unsigned ios;
};

/* Segments of one kind. */
struct sel_lane {
    struct sel_segment *open;
    struct sel_list ready;
    struct sel_segment *making;
    uint64_t demand; /* bytes that the next segment must have; 0: the standard size */
    bool used;
};

struct sel_buffers { /* header buffers: aligned, registered, reused */
    void *slab;
    uint32_t free_count;
    uint16_t *free;
};

struct sel_commit {
    struct sel_job job;
    bool active;
    struct sel_list writes, removals; /* writes by sequence */
    unsigned syncs;
    int error;
    struct sel_catalog_change *changes;
    size_t change_count;
    uint8_t *values;
    size_t value_count;
    size_t dropped_segments, dropped_records; /* so many of lsm->drop_* are in this transaction */
    bool clean;                               /* it marks a clean stop */
    struct selene_message message;
};

struct sel_u64s {
    uint64_t *items;
    size_t count, capacity;
};

struct sel_lsm {
    uint32_t magic;
    struct sel_lsm_config config;
    sel_lsm_visit *visit;
    sel_lsm_moved *moved;
    void *context;
    bool aborting, closing, no_allocate, no_punch;
    uint8_t store_id[SEL_STORE_ID_BYTES];
    uint64_t next_sequence;
    uint32_t next_segment;
    uint64_t segment_bytes, group_bytes, group_ns, stall_ns;

    struct sel_list inflight;
    struct sel_buffers buffers;

    struct sel_segment **segments; /* by id */
    size_t segment_count, segment_capacity;
    struct sel_lane lane[2];
    struct sel_list sealed, spare, doomed, left;
    unsigned spare_count, works;
    struct sel_list files; /* least recently used first */
    unsigned file_count;

    /* totals over segments, see sel_segment_account */
    uint64_t allocated_bytes, live_bytes, dead_bytes, reclaimable_bytes;
    uint64_t catalog_bytes;
    uint64_t left_bytes;     /* allocated to the files in `left` */
    uint64_t open_values;    /* catalogue values that writes not yet committed will need */
    bool tight;              /* as of the last poll: little room is left */
    bool pressed;            /* begin found no room */
    uint64_t blocked[2];     /* the segments that it would have needed */
    uint64_t blocked_values; /* ... and the growth of the catalogue */
    bool look_forward;       /* ... that forward.c should */
    bool reclaim;            /* something changed that reclaim.c should look at */
    uint64_t look_again_ns;  /* ... even if nothing changes */
    uint64_t forward_ns;     /* no copy forward before */
    uint64_t reclaim_ns;     /* not before, after a failure */

    struct sel_list writes, deferred, group, row_writes;
    uint64_t group_filled, group_since_ns, flush_sequence;
    struct sel_list removals, held; /* held: must wait, see remove.c */
    struct sel_list given_up;       /* segments with given_up_end */
    size_t removal_count;
    uint64_t removal_bytes; /* on their way out */
    uint64_t removals_since_ns;
    bool flush_removals;
    struct sel_commit commit;
    struct sel_u64s drop_segments, drop_records; /* catalogue keys to delete in the next transaction */
    struct sel_list readers;

    struct sel_forward *forward;

    uint8_t state;
    unsigned failures[SEL_NOTE_KINDS]; /* in a row, of each kind: where syncs fail, writes may well succeed */
    uint64_t probe_ns;
    bool overdue;      /* the last poll saw an I/O that was */
    bool index_failed; /* the last transaction did */
    bool try_index;    /* the disk is well again: one transaction is to show that the index is, too */
    struct sel_probe *probe;

    struct sel_lsm_stats stats;
};

/* io.c */
void sel_lsm_io_start(struct sel_lsm *lsm, struct sel_lsm_io *io, sel_lsm_then *then, void *owner);
int sel_buffers_create(struct sel_lsm *lsm);
void sel_buffers_destroy(struct sel_lsm *lsm);
uint8_t *sel_buffer_get(struct sel_lsm *lsm, uint64_t bytes); /* NULL: no memory */
void sel_buffer_put(struct sel_lsm *lsm, uint8_t **buffer);
int sel_u64s_push(struct sel_u64s *list, uint64_t item);
/* Drives everything until the condition holds: open, close and abort only. */
void sel_lsm_turn(struct sel_lsm *lsm);
/* Runs one io to its end, blocking. */
int sel_lsm_run(struct sel_lsm *lsm, struct sel_disk_io *io);

/* segment.c */
int sel_segment_create(struct sel_lsm *lsm, uint32_t id, struct sel_segment **out); /* in the table, no state */
void sel_segment_forget(struct sel_segment **segment);                              /* out of the table, freed */
struct sel_segment *sel_segment_find(const struct sel_lsm *lsm, uint32_t id);
int sel_segment_resize(struct sel_segment *segment, uint64_t bytes); /* bitmaps for so many bytes, cleared */
void sel_segment_account(struct sel_segment *segment);
bool sel_segment_is_live(const struct sel_segment *segment, uint32_t block, uint32_t count); /* all of them */
bool sel_segment_is_free(const struct sel_segment *segment, uint32_t block, uint32_t count); /* none of them */
void sel_segment_set_live(struct sel_segment *segment, uint32_t block, uint32_t count);
void sel_segment_set_dead(struct sel_segment *segment, uint32_t block, uint32_t count);
void sel_segment_seal(struct sel_segment *segment);
void sel_segment_suspect(struct sel_segment *segment);
/* The mark: extents that begin below it are committed or dead, when `committing` ones count as committed. */
uint64_t sel_segment_mark(const struct sel_segment *segment, bool committing);
uint64_t sel_generation_short(const uint8_t generation[SEL_GENERATION_BYTES]);
static inline uint64_t sel_pack_place(uint32_t id, uint64_t offset) {
    return (uint64_t)id << 32 | offset / SEL_DISK_BLOCK;
}
void sel_bits_set(uint64_t *bits, uint32_t at, uint32_t count, bool value);
bool sel_bits_any(const uint64_t *bits, uint32_t at, uint32_t count);
bool sel_bits_all(const uint64_t *bits, uint32_t at, uint32_t count);
uint32_t sel_bits_count(const uint64_t *bits, uint32_t blocks);

/* files.c */
/* Calls waiter->then once the file is open, at once when it is; then `users` counts one more. */
void sel_segment_acquire(struct sel_segment *segment, struct sel_file_waiter *waiter,
                         void (*then)(struct sel_file_waiter *waiter, int result));
void sel_segment_release(struct sel_segment *segment);
void sel_file_opened(struct sel_segment *segment, int file);
void sel_file_closed(struct sel_segment *segment);

/* create.c */
void sel_make_ahead(struct sel_lsm *lsm);
/* 0: one was begun or is under way; SELENE_E_NOSPACE: the limit has no room. */
int sel_make_segment(struct sel_lsm *lsm, uint8_t kind, uint64_t bytes);

/* space.c */
uint64_t sel_space_catalog(const struct sel_lsm *lsm); /* the file and what it may grow by */
uint64_t sel_space_values(uint32_t page_keys);         /* what a record with so many may add to it */
size_t sel_space_removals(const struct sel_lsm *lsm);  /* that may be in one transaction */
bool sel_space_room(const struct sel_lsm *lsm, uint64_t bytes);
/* The segment in which an extent of so many bytes fits; E_RETRY, E_NOSPACE. Reserving takes it. */
int sel_space_find(struct sel_lsm *lsm, uint8_t kind, uint64_t bytes, bool copy, struct sel_segment **out);
/* No room: an open segment in which nothing is left is given up, also one of the other kind. Where few segments are all
 * that the limit allows, it may be what keeps the last room. */
void sel_space_seal_dead(struct sel_lsm *lsm);
void sel_space_reserve(struct sel_part *part, struct sel_segment *segment);
bool sel_space_oversize(const struct sel_lsm *lsm, uint64_t pages_bytes, uint64_t row_bytes);

/* write.c, issue.c */
void sel_issue_deferred(struct sel_lsm *lsm);
void sel_issue_part(struct sel_part *part);
/* Data that was not issued yet ends with `error`. */
void sel_issue_none(struct sel_part *part, int error);
void sel_write_headers(struct sel_lsm_write *write, const uint64_t *page_sums, const uint64_t *row_sums);
int sel_write_start(struct sel_lsm *lsm, struct sel_lsm_write *write); /* reserves; E_NOSPACE, E_RETRY, ... */
void sel_write_fail(struct sel_lsm_write *write, int error);
void sel_write_try_join(struct sel_lsm_write *write);
void sel_write_settle(struct sel_lsm_write *write); /* posts the finish op of a failed write whose I/O is over */
int sel_write_for_copy(struct sel_lsm *lsm, const struct sel_extent *e, struct sel_move *move,
                       struct sel_segment *segment, struct sel_lsm_write **out);
void sel_write_finish_copy(struct sel_lsm_write *write, const struct sel_extent *old);
void sel_write_buffers_put(struct sel_lsm_write *write);
/* `row_of`: only a row, for the record that lies there; else NULL. */
int sel_write_create(struct sel_lsm *lsm, const struct sel_layout *layout, const struct sel_lsm_record *record,
                     const struct sel_location *row_of, struct sel_lsm_write **out);
void sel_write_fail_all(struct sel_lsm *lsm, int error);
void sel_write_free_all(struct sel_lsm *lsm);
void sel_part_drop(struct sel_part *part); /* its blocks are dead */
int sel_plane_runs(const struct sel_layout *layout, struct sel_plane_run **runs, uint32_t *count);
uint32_t sel_plane_run_count(const struct sel_layout *layout);

/* write_row.c */
struct sel_lsm_write *sel_row_write_find(const struct sel_lsm *lsm, uint64_t sequence); /* in flight, or NULL */
/* Fails one that is not in the transaction under way. */
void sel_row_write_refuse(struct sel_lsm *lsm, uint64_t sequence);
void sel_row_write_moved(struct sel_lsm *lsm, const struct sel_location *to, uint64_t pages_generation);
void sel_row_write_hold(struct sel_lsm *lsm); /* puts those that must wait back into the group */
void sel_row_write_committed(struct sel_lsm_write *write);

/* group.c, commit.c */
void sel_group_join(struct sel_lsm_write *write);
void sel_group_poll(struct sel_lsm *lsm);
uint64_t sel_group_deadline_ns(const struct sel_lsm *lsm);
int sel_commit_build(struct sel_lsm *lsm); /* 0, or E_NOMEM */
void sel_commit_submit(struct sel_lsm *lsm);
void sel_commit_clear(struct sel_lsm *lsm);
void sel_commit_finished(struct sel_lsm *lsm, int result);
bool sel_group_idle(const struct sel_lsm *lsm); /* nothing to commit and nothing being committed */

/* remove.c */
void sel_remove_hold(struct sel_lsm *lsm, struct sel_list *removals); /* moves what must wait to lsm->held */
void sel_remove_release(struct sel_lsm *lsm);                         /* lets it try again */
void sel_remove_commit(struct sel_lsm *lsm, struct sel_removal *removal, int result);
enum sel_removed { SEL_REMOVED_RECORD = 1, SEL_REMOVED_ROW = 2 };
unsigned sel_remove_listed(const struct sel_list *removals, uint64_t sequence); /* enum sel_removed */
unsigned sel_remove_pending(const struct sel_lsm *lsm, uint64_t sequence);      /* ... in any list */
struct sel_segment *sel_remove_segment(const struct sel_lsm *lsm, uint64_t place, uint32_t blocks); /* NULL: not live */
void sel_remove_extent(struct sel_lsm *lsm, uint64_t place, uint32_t blocks, uint64_t generation);

/* reclaim.c */
void sel_reclaim_poll(struct sel_lsm *lsm);
void sel_reclaim_look(const struct sel_segment *segment); /* something changed about it */
void sel_segment_doom(struct sel_segment *segment);

/* forward.c */
void sel_forward_poll(struct sel_lsm *lsm);
/* Gives up copies of the record that are not in the transaction under way: it is about to change. */
void sel_forward_cancel(struct sel_lsm *lsm, uint64_t sequence);
void sel_forward_row_written(struct sel_lsm *lsm, uint64_t sequence);
void sel_forward_change(struct sel_lsm *lsm, struct sel_lsm_write *write, struct sel_record_entry *entry);
void sel_forward_committed(struct sel_lsm *lsm, struct sel_lsm_write *write);
bool sel_forward_busy(const struct sel_lsm *lsm);
bool sel_forward_has(const struct sel_lsm *lsm, uint64_t sequence); /* a copy past the mark is neither here nor there */
void sel_forward_stop(struct sel_lsm *lsm);

/* state.c */
/* What an operation of this kind (enum sel_disk_kind, SEL_NOTE_INDEX) came to. */
void sel_state_note(struct sel_lsm *lsm, uint8_t kind, int result);
void sel_state_enter(struct sel_lsm *lsm, enum sel_lsm_state state, const char *why);
void sel_state_poll(struct sel_lsm *lsm);
void sel_state_index_tried(struct sel_lsm *lsm); /* to no avail */
uint64_t sel_state_deadline_ns(const struct sel_lsm *lsm);

#endif
