/* SPDX-License-Identifier: Apache-2.0
 *
 * Open files. A store may have more segments than a process may have files, so at most SEL_FILES_MAX are open: a
 * sealed segment that nobody uses gives its file up when another needs one.
 */
#include "lsm/lsm_priv.h"

static bool may_close(const struct sel_segment *segment) {
    return segment->users == 0 && !segment->working && !segment->syncing && segment->state == SEL_SEALED &&
           sel_list_empty(&segment->pending);
}

static void evicted(struct sel_lsm_io *io, int result) {
    struct sel_segment *segment = io->owner;
    (void)result;
    segment->working = false;
    sel_file_closed(segment);
    sel_segment_account(segment);
}

static void make_place(struct sel_lsm *lsm) {
    if (lsm->file_count < SEL_FILES_MAX)
        return;
    SEL_LIST_FOR_EACH(at, &lsm->files) {
        struct sel_segment *segment = SEL_LIST_ENTRY(at, struct sel_segment, file_link);
        if (!may_close(segment))
            continue;
        segment->working = true;
        segment->work_io.io = (struct sel_disk_io){.kind = SEL_DISK_CLOSE, .file = segment->file};
        segment->file = -1;
        sel_list_remove(&segment->file_link);
        lsm->file_count--;
        sel_lsm_io_start(lsm, &segment->work_io, evicted, segment);
        return;
    }
}

void sel_file_opened(struct sel_segment *segment, int file) {
    segment->file = file;
    sel_list_add_tail(&segment->lsm->files, &segment->file_link);
    segment->lsm->file_count++;
}

void sel_file_closed(struct sel_segment *segment) {
    if (segment->file < 0)
        return;
    segment->file = -1;
    sel_list_remove(&segment->file_link);
    segment->lsm->file_count--;
}

static void opened(struct sel_lsm_io *io, int result) {
    struct sel_segment *segment = io->owner;
    if (result == 0)
        sel_file_opened(segment, io->io.file);
    struct sel_list waiters;
    sel_list_init(&waiters);
    sel_list_splice_tail(&waiters, &segment->waiters);
    for (struct sel_list *at = sel_list_pop(&waiters); at; at = sel_list_pop(&waiters)) {
        struct sel_file_waiter *waiter = SEL_LIST_ENTRY(at, struct sel_file_waiter, link);
        if (result)
            segment->users--;
        waiter->then(waiter, result);
    }
}

void sel_segment_acquire(struct sel_segment *segment, struct sel_file_waiter *waiter,
                         void (*then)(struct sel_file_waiter *waiter, int result)) {
    struct sel_lsm *lsm = segment->lsm;
    waiter->then = then;
    sel_list_init(&waiter->link);
    segment->users++;
    if (segment->file >= 0) {
        sel_list_remove(&segment->file_link);
        sel_list_add_tail(&lsm->files, &segment->file_link);
        then(waiter, 0);
        return;
    }
    bool first = sel_list_empty(&segment->waiters);
    sel_list_add_tail(&segment->waiters, &waiter->link);
    if (!first)
        return;
    make_place(lsm);
    segment->file_io.io =
        (struct sel_disk_io){.kind = SEL_DISK_OPEN, .flags = SEL_DISK_OPEN_WRITE, .name = segment->name};
    sel_lsm_io_start(lsm, &segment->file_io, opened, segment);
}

void sel_segment_release(struct sel_segment *segment) {
    SEL_CHECK(segment->users > 0);
    segment->users--;
    sel_reclaim_look(segment);
}
