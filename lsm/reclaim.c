/* SPDX-License-Identifier: Apache-2.0
 *
 * Giving space back [D5], off the write path, a few segments at a time. Looked at are sealed segments only:
 *
 *   nothing live, nobody on it   -> a spare for recycling when it is whole, else closed, unlinked, forgotten
 *   a long tail never written    -> truncated
 *   dead extents                 -> punched in one batch when they are many or room is short, then the file's true
 *                                   size is asked for
 *
 * What a reader is on is left for later. A failure leaves the bytes charged as dead and is tried again after a while;
 * one segment's failure does not stop the others.
 */
#include "lsm/lsm_priv.h"

enum work_step { WORK_TRUNCATE, WORK_PUNCH, WORK_STAT, WORK_CLOSE, WORK_UNLINK, WORK_SYNC_DIR };

static void work(struct sel_segment *segment, uint8_t what);

static void work_over(struct sel_segment *segment) {
    segment->working = false;
    segment->lsm->works--;
    segment->lsm->reclaim = true; /* others may have had to wait */
    sel_segment_account(segment);
}

/* The part of [*from, *to) blocks that comes first and has no reader on it; false: there is none, *to is where to go on.
 */
static bool unread_part(const struct sel_segment *segment, uint32_t *from, uint32_t *to) {
    bool moved = true;
    while (moved && *from < *to) {
        moved = false;
        SEL_LIST_FOR_EACH(at, (struct sel_list *)&segment->readers) {
            const struct sel_lsm_reader *reader = SEL_LIST_ENTRY(at, struct sel_lsm_reader, link);
            uint32_t start = (uint32_t)(reader->offset / SEL_DISK_BLOCK);
            uint32_t end = start + (uint32_t)(reader->extent_bytes / SEL_DISK_BLOCK);
            if (start > *from && start < *to) {
                *to = start;
            } else if (start <= *from && end > *from) {
                *from = end;
                moved = true;
            }
        }
    }
    return *from < *to;
}

static bool is_dead(const struct sel_segment *segment, uint32_t block) {
    uint64_t bit = UINT64_C(1) << (block % 64);
    return (segment->held[block / 64] & bit) && !(segment->live[block / 64] & bit);
}

/* The next run of dead blocks that hold space, from work_block on; false: no more. */
static bool next_run(struct sel_segment *segment) {
    uint32_t at = segment->work_block;
    for (;;) {
        while (at < segment->blocks && !is_dead(segment, at))
            at = (segment->held[at / 64] & ~segment->live[at / 64]) == 0 ? (at / 64 + 1) * 64 : at + 1;
        if (at >= segment->blocks)
            return false;
        uint32_t end = at;
        while (end < segment->blocks && is_dead(segment, end))
            end++;
        uint32_t whole = end;
        if (unread_part(segment, &at, &end)) {
            segment->blocked |= end < whole;
            segment->work_block = at;
            segment->work_count = end - at;
            return true;
        }
        segment->blocked = true; /* looked at again when the reader is gone */
        at = SEL_MAX(at, end);
    }
}

static void punch_next(struct sel_segment *segment) { work(segment, next_run(segment) ? WORK_PUNCH : WORK_STAT); }

static void punched(struct sel_segment *segment) {
    sel_bits_set(segment->held, segment->work_block, segment->work_count, false);
    segment->whole = false;
    segment->lsm->stats.punched_bytes += (uint64_t)segment->work_count * SEL_DISK_BLOCK;
    segment->work_block += segment->work_count;
}

static void truncated(struct sel_segment *segment) {
    uint32_t blocks = (uint32_t)(segment->end / SEL_DISK_BLOCK);
    sel_bits_set(segment->held, blocks, segment->blocks - blocks, false);
    segment->bytes = segment->end;
    segment->blocks = blocks;
    segment->truncate = false;
    segment->whole = false;
    segment->catalog_dirty = true;
}

static void gone(struct sel_segment *segment) {
    struct sel_lsm *lsm = segment->lsm;
    if (segment->known)
        sel_u64s_push(&lsm->drop_segments, segment->id); /* without memory a stale entry stays: harmless */
    lsm->works--;
    lsm->reclaim = true;
    segment->working = false;
    sel_segment_forget(&segment);
}

/* Put back among the sealed ones: tried again later, its bytes stay charged. */
static void work_failed(struct sel_segment *segment, int result) {
    struct sel_lsm *lsm = segment->lsm;
    if (segment->work_step == WORK_PUNCH && result == SELENE_E_UNSUPPORTED) {
        if (!lsm->no_punch)
            sel_log_info(lsm->config.log, "the file system cannot punch holes: live extents are copied forward");
        lsm->no_punch = true;
        for (size_t i = 0; i < lsm->segment_count; i++)
            sel_segment_account(lsm->segments[i]);
    } else {
        sel_log_debug(lsm->config.log, "%s: giving space back failed: %s", segment->name, sel_error_text(result));
        lsm->reclaim_ns = sel_mono_ns(lsm->config.clock) + SEL_PROBE_NS;
        segment->dirty = true;
        segment->keeps = true;
    }
    if (segment->state == SEL_DOOMED) {
        segment->state = SEL_SEALED;
        sel_list_remove(&segment->link);
        sel_list_add_tail(&lsm->sealed, &segment->link);
    }
    work_over(segment);
}

static void worked(struct sel_lsm_io *io, int result) {
    struct sel_segment *segment = io->owner;
    uint8_t what = segment->work_step;
    if (what == WORK_CLOSE) {
        sel_file_closed(segment);
        result = 0;
    }
    if (what == WORK_UNLINK && result == SELENE_E_NOTFOUND)
        result = 0;
    if (result) {
        work_failed(segment, result);
        return;
    }
    switch (what) {
    case WORK_TRUNCATE:
        truncated(segment);
        work(segment, WORK_STAT);
        break;
    case WORK_PUNCH:
        punched(segment);
        punch_next(segment);
        break;
    case WORK_STAT:
        segment->allocated = io->io.allocated_bytes;
        segment->keeps = false;
        work_over(segment);
        break;
    case WORK_CLOSE:
    case WORK_UNLINK:
        work(segment, (uint8_t)(what + 1));
        break;
    default:
        gone(segment);
    }
}

static void work(struct sel_segment *segment, uint8_t what) {
    static const uint8_t kinds[] = {SEL_DISK_TRUNCATE, SEL_DISK_PUNCH,  SEL_DISK_STAT,
                                    SEL_DISK_CLOSE,    SEL_DISK_UNLINK, SEL_DISK_SYNC_DIR};
    struct sel_disk_io *io = &segment->work_io.io;
    *io = (struct sel_disk_io){.kind = kinds[what], .file = segment->file, .name = segment->name};
    segment->work_step = what;
    if (what == WORK_TRUNCATE)
        io->bytes = segment->end;
    if (what == WORK_PUNCH) {
        io->offset = (uint64_t)segment->work_block * SEL_DISK_BLOCK;
        io->bytes = (uint64_t)segment->work_count * SEL_DISK_BLOCK;
    }
    sel_lsm_io_start(segment->lsm, &segment->work_io, worked, segment);
}

void sel_segment_doom(struct sel_segment *segment) {
    struct sel_lsm *lsm = segment->lsm;
    sel_list_remove(&segment->link);
    sel_list_add_tail(&lsm->doomed, &segment->link);
    segment->state = SEL_DOOMED;
    segment->working = true;
    lsm->works++;
    sel_segment_account(segment);
    work(segment, segment->file >= 0 ? WORK_CLOSE : WORK_UNLINK);
}

static void retire(struct sel_segment *segment) {
    struct sel_lsm *lsm = segment->lsm;
    /* What was given up in it may come back until the catalogue has the mark behind it: not with a head in the making. */
    bool given_up = sel_list_linked(&segment->given_up_link);
    if (!segment->whole || segment->suspect || given_up || lsm->spare_count >= SEL_SPARES_MAX || lsm->pressed) {
        sel_segment_doom(segment);
        return;
    }
    sel_list_remove(&segment->link);
    sel_list_add_tail(&lsm->spare, &segment->link);
    lsm->spare_count++;
    segment->state = SEL_SPARE;
    sel_segment_account(segment);
}

static bool tight(const struct sel_lsm *lsm) {
    return lsm->pressed || lsm->state == SEL_LSM_FULL || !sel_space_room(lsm, 2 * lsm->segment_bytes);
}

static void begin_work(struct sel_segment *segment) {
    if (segment->truncate) {
        work(segment, WORK_TRUNCATE);
        return;
    }
    segment->dirty = segment->punch_all = false;
    segment->work_block = 1;
    punch_next(segment);
}

static void file_ready(struct sel_file_waiter *waiter, int result) {
    struct sel_segment *segment = SEL_CONTAINER(waiter, struct sel_segment, work_waiter);
    if (result) {
        segment->work_step = WORK_CLOSE;
        work_failed(segment, result);
        return;
    }
    sel_segment_release(segment); /* `working` holds the file */
    begin_work(segment);
}

static void start(struct sel_segment *segment) {
    segment->working = true;
    segment->lsm->works++;
    sel_segment_acquire(segment, &segment->work_waiter, file_ready);
}

/* When its dead extents are to be punched; UINT64_MAX: there is nothing to punch, or too little while there is room. */
static uint64_t punch_due_ns(const struct sel_segment *segment) {
    const struct sel_lsm *lsm = segment->lsm;
    if (!segment->dirty || lsm->no_punch || segment->counted_dead == 0)
        return UINT64_MAX;
    if (lsm->tight || segment->punch_all)
        return 0;
    /* It may be dying as a whole, and a whole one can be recycled: wait for the removals to end. */
    return segment->counted_dead >= segment->bytes / 4 ? segment->died_ns + SEL_QUIET_NS : UINT64_MAX;
}

/* Called when something changed about it, so that the next poll looks at all of them only when that is of use: there may
 * be thousands. */
void sel_reclaim_look(const struct sel_segment *segment) {
    struct sel_lsm *lsm = segment->lsm;
    if (segment->state != SEL_SEALED)
        return;
    uint64_t due_ns = segment->live_blocks == 0 || segment->truncate ? 0 : punch_due_ns(segment);
    if (due_ns == 0)
        lsm->reclaim = true;
    lsm->look_again_ns = SEL_MIN(lsm->look_again_ns, due_ns);
}

static void look_at(struct sel_segment *segment, uint64_t now_ns) {
    struct sel_lsm *lsm = segment->lsm;
    bool idle = sel_list_empty(&segment->pending) && !segment->syncing && !segment->working;
    if (!idle)
        return;
    if (segment->live_blocks == 0 && segment->users == 0 && sel_list_empty(&segment->readers)) {
        retire(segment);
        return;
    }
    uint64_t due_ns = segment->truncate ? 0 : punch_due_ns(segment);
    if (due_ns <= now_ns)
        start(segment);
    else
        lsm->look_again_ns = SEL_MIN(lsm->look_again_ns, due_ns);
}

void sel_reclaim_poll(struct sel_lsm *lsm) {
    bool was_tight = lsm->tight;
    lsm->tight = tight(lsm);
    lsm->reclaim |= lsm->tight && !was_tight;
    if (!lsm->reclaim && lsm->look_again_ns == UINT64_MAX) /* idle: not even the clock is read */
        return;
    uint64_t now_ns = sel_mono_ns(lsm->config.clock);
    if (lsm->closing || now_ns < lsm->reclaim_ns || (!lsm->reclaim && now_ns < lsm->look_again_ns))
        return;
    lsm->reclaim = false;
    lsm->look_again_ns = UINT64_MAX;
    SEL_LIST_FOR_EACH(at, &lsm->sealed) {
        if (lsm->works >= SEL_WORKS_MAX)
            break;
        look_at(SEL_LIST_ENTRY(at, struct sel_segment, link), now_ns);
    }
    if (!lsm->pressed)
        return;
    SEL_LIST_FOR_EACH(at, &lsm->spare) {
        struct sel_segment *segment = SEL_LIST_ENTRY(at, struct sel_segment, link);
        lsm->spare_count--;
        sel_segment_doom(segment);
    }
}
