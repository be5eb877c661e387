/* SPDX-License-Identifier: Apache-2.0
 *
 * The pieces of verifying an extent's data: the blocks that are hashed, in stored order; windows of data with their
 * reads and their hashing; and the folding of block hashes into the checksums of the header. Used by recovery, which
 * waits, and by copy forward, which does not.
 */
#ifndef SEL_LSM_VERIFY_H
#define SEL_LSM_VERIFY_H

#include "lsm/lsm_priv.h"

#define SEL_WINDOW_BYTES (UINT64_C(4) << 20) /* a share may be larger; blocks do not care */
#define SEL_WINDOW_READ  (UINT64_C(1) << 20)
#define SEL_WINDOW_READS (SEL_WINDOW_BYTES / SEL_WINDOW_READ)
#define SEL_WINDOW_JOBS  8

struct sel_block {
    uint64_t offset; /* in the extent's data */
    uint64_t slot;   /* where its hash belongs */
    uint32_t bytes;
    bool last; /* of a share (pages only) */
};

struct sel_blocks { /* an iterator */
    const struct sel_extent *extent;
    uint64_t share, inside, plane_offset, index, ranks, row_blocks;
    uint32_t run, plane;
};
void sel_blocks_start(struct sel_blocks *at, const struct sel_extent *extent);
bool sel_blocks_next(struct sel_blocks *at, struct sel_block *block);

struct sel_fold {
    const struct sel_extent *extent;
    uint64_t *hashes;
    uint64_t slots;
    size_t share;
};
int sel_fold_start(struct sel_fold *fold, const struct sel_extent *extent);
int sel_fold_add(struct sel_fold *fold, const struct sel_block *block, uint64_t hash); /* SELENE_E_CORRUPT */
int sel_fold_end(struct sel_fold *fold);
void sel_fold_free(struct sel_fold *fold);

struct sel_window;
struct sel_window_job {
    struct sel_job job;
    struct sel_window *window;
    size_t from, to;
};
struct sel_window {
    struct sel_lsm *lsm;
    uint8_t *memory;
    uint64_t offset, bytes; /* of the extent's data, multiples of 4 KiB */
    struct sel_block *blocks;
    uint64_t *hashes;
    size_t count, capacity;
    unsigned pending, hashing;
    int result;
    struct sel_lsm_io io[SEL_WINDOW_READS];
    struct iovec iov[SEL_WINDOW_READS];
    struct sel_window_job jobs[SEL_WINDOW_JOBS];
};
int sel_window_create(struct sel_window *window, struct sel_lsm *lsm);
void sel_window_free(struct sel_window *window);
int sel_window_plan(struct sel_window *window, struct sel_blocks *at); /* count 0: the end */
void sel_window_read(struct sel_window *window, struct sel_segment *segment, uint64_t data_start);
void sel_window_hash(struct sel_window *window); /* pending must be 0 */
int sel_window_fold(struct sel_window *window, struct sel_fold *fold);

/* Disk and completions only, nothing of the store: opening. */
void sel_wait_turn(struct sel_lsm *lsm);

#endif
