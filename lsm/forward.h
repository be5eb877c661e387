/* SPDX-License-Identifier: Apache-2.0
 *
 * Copy forward, shared by forward.c (which segment, which extents, what becomes of them) and forward_copy.c (copying
 * one).
 */
#ifndef SEL_LSM_FORWARD_H
#define SEL_LSM_FORWARD_H

#include "lsm/verify.h"

enum sel_copy_step { SEL_COPY_IDLE, SEL_COPY_HEADER, SEL_COPY_PLACE, SEL_COPY_READ, SEL_COPY_HASH, SEL_COPY_WRITE };

/* One extent on its way to another segment, until its transaction is over. */
struct sel_move {
    struct sel_list link;
    struct sel_lsm_write *write;
    struct sel_record_entry entry; /* as in the catalogue before */
    uint8_t kind;
};

struct sel_forward {
    struct sel_lsm *lsm;
    struct sel_segment *victim;
    bool held; /* the victim's file is */
    struct sel_file_waiter waiter;
    /* the listing, on the catalogue's helper */
    struct sel_job job;
    bool listing;
    struct sel_record_entry *entries;
    size_t count, capacity, next;
    uint32_t id;
    uint64_t generation;
    uint8_t kind;
    bool any;              /* an extent was worth copying */
    struct sel_list moves; /* written, not over */
    /* the extent being copied */
    uint8_t step;
    struct sel_move *move;
    unsigned ios;
    int result;
    uint64_t offset; /* of it in the victim */
    uint8_t *header;
    uint32_t header_bytes;
    struct sel_extent extent;
    struct sel_blocks blocks;
    struct sel_fold fold;
    struct sel_window window;
    uint64_t written; /* end of the data written so far */
    struct sel_lsm_io io;
    struct iovec iov;
    struct sel_op write_op;
};

/* forward_copy.c */
int sel_copy_begin(struct sel_forward *forward, const struct sel_record_entry *entry);
/* Goes on as far as it can without waiting. SELENE_E_RETRY: waits; 0: the copy is with the group; else it failed. */
int sel_copy_poll(struct sel_forward *forward);
void sel_copy_cancel(struct sel_forward *forward); /* once nothing of it is in flight */

#endif
