/* SPDX-License-Identifier: Apache-2.0
 *
 * Making segments, ahead of need and one at a time a kind [D1, D5].
 *
 *   fresh      open (create) -> allocate -> write head -> sync -> stat -> sync directory -> ready
 *   recycled   (open) -> write head with a new generation -> sync -> stat -> ready
 *
 * A recycled segment's old extents stop existing when its new head is durable; nothing is written past the head before
 * that. A file system without fallocate works as well: the planned size is charged all the same.
 */
#include "lsm/lsm_priv.h"

#include <stdio.h>
#include <string.h>

enum make_step { STEP_OPEN, STEP_ALLOCATE, STEP_HEAD, STEP_SYNC, STEP_STAT, STEP_SYNC_DIR };

static void step(struct sel_segment *segment, uint8_t what);

static void ready(struct sel_segment *segment) {
    struct sel_lsm *lsm = segment->lsm;
    struct sel_lane *lane = &lsm->lane[segment->kind];
    sel_buffer_put(lsm, &segment->head);
    segment->state = SEL_READY;
    segment->working = false;
    segment->whole = segment->bytes == lsm->segment_bytes && !lsm->no_allocate;
    lane->making = NULL;
    lane->demand = 0;
    sel_list_add_tail(&lane->ready, &segment->link);
    sel_segment_account(segment);
}

static void failed(struct sel_segment *segment, int result) {
    struct sel_lsm *lsm = segment->lsm;
    sel_log_debug(lsm->config.log, "%s: making the segment failed: %s", segment->name, sel_error_text(result));
    if (segment->work_step == STEP_OPEN && !lsm->aborting) /* the others are noted with their io */
        sel_state_note(lsm, SEL_DISK_WRITE, result);
    sel_buffer_put(lsm, &segment->head);
    lsm->lane[segment->kind].making = NULL;
    segment->working = false;
    segment->suspect = true;
    sel_segment_doom(segment);
}

static void stepped(struct sel_lsm_io *io, int result) {
    struct sel_segment *segment = io->owner;
    uint8_t done = segment->work_step;
    bool recycled = segment->recycled;
    if (done == STEP_OPEN && result == 0)
        sel_file_opened(segment, io->io.file);
    if (done == STEP_ALLOCATE && result == SELENE_E_UNSUPPORTED) {
        segment->lsm->no_allocate = true;
        result = 0;
    }
    if (result) {
        failed(segment, result);
        return;
    }
    switch (done) {
    case STEP_OPEN:
        step(segment, recycled || segment->lsm->no_allocate ? STEP_HEAD : STEP_ALLOCATE);
        break;
    case STEP_STAT:
        segment->allocated = SEL_MAX(segment->allocated, io->io.allocated_bytes);
        if (recycled)
            ready(segment);
        else
            step(segment, STEP_SYNC_DIR);
        break;
    case STEP_SYNC_DIR:
        ready(segment);
        break;
    default:
        step(segment, (uint8_t)(done + 1));
    }
}

static void fill_head(struct sel_segment *segment) {
    struct sel_lsm *lsm = segment->lsm;
    sel_random_fill(lsm->config.random, segment->generation, sizeof segment->generation);
    struct sel_segment_head head = {.segment_bytes = segment->bytes, .segment_id = segment->id, .kind = segment->kind};
    memcpy(head.store_id, lsm->store_id, sizeof head.store_id);
    memcpy(head.generation, segment->generation, sizeof head.generation);
    sel_segment_head_pack(segment->head, &head);
}

static void step(struct sel_segment *segment, uint8_t what) {
    static const uint8_t kinds[] = {SEL_DISK_OPEN, SEL_DISK_ALLOCATE, SEL_DISK_WRITE,
                                    SEL_DISK_SYNC, SEL_DISK_STAT,     SEL_DISK_SYNC_DIR};
    struct sel_disk_io *io = &segment->work_io.io;
    bool recycled = segment->recycled;
    *io = (struct sel_disk_io){.kind = kinds[what], .file = segment->file, .name = segment->name};
    segment->work_step = what;
    if (what == STEP_OPEN)
        io->flags = SEL_DISK_OPEN_WRITE | (recycled ? 0 : SEL_DISK_OPEN_CREATE);
    else if (what == STEP_ALLOCATE)
        io->bytes = segment->bytes;
    else if (what == STEP_HEAD) {
        fill_head(segment);
        segment->head_iov = (struct iovec){.iov_base = segment->head, .iov_len = SEL_DISK_BLOCK};
        io->iov = &segment->head_iov;
        io->iov_count = 1;
    }
    sel_lsm_io_start(segment->lsm, &segment->work_io, stepped, segment);
}

static int begin(struct sel_segment *segment, uint8_t kind, bool recycled) {
    struct sel_lsm *lsm = segment->lsm;
    segment->head = sel_buffer_get(lsm, SEL_DISK_BLOCK);
    if (segment->head == NULL)
        return SELENE_E_NOMEM;
    sel_bits_set(segment->held, 0, segment->blocks, true);
    segment->kind = kind;
    segment->state = SEL_MAKING;
    segment->end = SEL_DISK_BLOCK;
    segment->indexed_bytes = SEL_DISK_BLOCK;
    segment->allocated = SEL_MAX(segment->allocated, segment->bytes + SEL_SEGMENT_OVERHEAD);
    segment->working = true;
    segment->recycled = recycled;
    lsm->lane[kind].making = segment;
    sel_segment_account(segment);
    step(segment, recycled && segment->file >= 0 ? STEP_HEAD : STEP_OPEN);
    return 0;
}

static struct sel_segment *pick_spare(struct sel_lsm *lsm, uint64_t bytes) {
    SEL_LIST_FOR_EACH(at, &lsm->spare) {
        struct sel_segment *segment = SEL_LIST_ENTRY(at, struct sel_segment, link);
        if (segment->bytes == bytes && !segment->working)
            return segment;
    }
    return NULL;
}

/* Its old entry leaves the catalogue with the next transaction; the generation in it says already that it is stale. */
static int recycle(struct sel_segment *segment, uint8_t kind) {
    struct sel_lsm *lsm = segment->lsm;
    sel_list_remove(&segment->link);
    lsm->spare_count--;
    segment->catalog_dirty = segment->dirty = segment->suspect = false;
    segment->keeps = segment->unmovable = segment->punch_all = false;
    int rc = begin(segment, kind, true);
    if (rc) {
        sel_list_add_tail(&lsm->spare, &segment->link);
        lsm->spare_count++;
        return rc;
    }
    lsm->stats.recycled_segments++;
    return 0;
}

/* Those of files that were left alone are stepped over. When all were used they begin anew: a transaction forgets the old
 * ones before it notes the new ones, and generations tell them apart. */
static uint32_t free_number(const struct sel_lsm *lsm) {
    uint32_t number = lsm->next_segment;
    while (number == UINT32_MAX || sel_segment_find(lsm, number))
        number = number == UINT32_MAX ? 1 : number + 1;
    return number;
}

int sel_make_segment(struct sel_lsm *lsm, uint8_t kind, uint64_t bytes) {
    struct sel_lane *lane = &lsm->lane[kind];
    if (lane->making)
        return 0;
    struct sel_segment *segment = pick_spare(lsm, bytes);
    if (segment)
        return recycle(segment, kind);
    if (!sel_space_room(lsm, bytes + SEL_SEGMENT_OVERHEAD))
        return SELENE_E_NOSPACE;
    uint32_t number = free_number(lsm);
    int rc = sel_segment_create(lsm, number, &segment);
    if (rc)
        return rc;
    lsm->next_segment = number + 1;
    rc = sel_segment_resize(segment, bytes);
    if (!rc)
        rc = begin(segment, kind, false);
    if (rc)
        sel_segment_forget(&segment);
    return rc;
}

/* One segment of each kind in use is kept ready, so that a write seldom has to wait for one. */
void sel_make_ahead(struct sel_lsm *lsm) {
    if (lsm->state != SEL_LSM_OK || lsm->closing)
        return;
    for (uint8_t kind = 0; kind < 2; kind++) {
        struct sel_lane *lane = &lsm->lane[kind];
        if (lane->used && !lane->making && (sel_list_empty(&lane->ready) || lane->demand))
            sel_make_segment(lsm, kind, lane->demand ? lane->demand : lsm->segment_bytes);
    }
}
