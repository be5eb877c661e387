/* SPDX-License-Identifier: Apache-2.0
 *
 * Driving, closing and aborting a store.
 *
 * Close: everything finished is committed, what is in flight ends, segments are sealed and their tails given back,
 * empty ones are removed, and one last transaction says that all segments are indexed to their ends and that the stop
 * was a clean one. Abort: nothing of that; what is in flight ends, since it uses memory, and all else fails.
 */
#include "lsm/lsm_priv.h"

#include <stdlib.h>

void sel_lsm_poll(struct sel_lsm *lsm) {
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    if (lsm->aborting)
        sel_forward_poll(lsm);
    else {
        sel_issue_deferred(lsm);
        sel_group_poll(lsm);
        sel_state_poll(lsm);
        sel_make_ahead(lsm);
        sel_reclaim_poll(lsm);
        sel_forward_poll(lsm);
    }
    sel_disk_poll(lsm->config.disk);
}

uint64_t sel_lsm_deadline_ns(const struct sel_lsm *lsm) {
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    if (!sel_list_empty((struct sel_list *)&lsm->deferred))
        return 0;
    uint64_t deadline = SEL_MIN(sel_group_deadline_ns(lsm), sel_state_deadline_ns(lsm));
    if (sel_forward_busy(lsm))
        deadline = SEL_MIN(deadline, sel_mono_ns(lsm->config.clock) + SEL_NS_PER_MS);
    if (!lsm->closing)
        deadline = SEL_MIN(deadline, lsm->reclaim ? lsm->reclaim_ns : lsm->look_again_ns);
    return deadline;
}

static bool busy(const struct sel_lsm *lsm) {
    return !sel_list_empty((struct sel_list *)&lsm->inflight) || lsm->commit.active || lsm->works > 0 || lsm->probe ||
           lsm->lane[0].making || lsm->lane[1].making || sel_forward_busy(lsm);
}

static bool unjoined(const struct sel_lsm *lsm) {
    SEL_LIST_FOR_EACH(at, (struct sel_list *)&lsm->writes) {
        const struct sel_lsm_write *write = SEL_LIST_ENTRY(at, struct sel_lsm_write, link);
        if (write->state == SEL_WRITE_FINISHED || write->state == SEL_WRITE_JOINED)
            return true;
    }
    return false;
}

static void close_file(struct sel_segment *segment) {
    struct sel_disk_io io = {.kind = SEL_DISK_CLOSE, .file = segment->file};
    if (segment->file < 0)
        return;
    sel_file_closed(segment);
    sel_lsm_run(segment->lsm, &io);
}

static void remove_segment(struct sel_segment *segment) {
    struct sel_lsm *lsm = segment->lsm;
    struct sel_disk_io io = {.kind = SEL_DISK_UNLINK, .name = segment->name};
    close_file(segment);
    if (sel_lsm_run(lsm, &io))
        return;
    if (segment->known)
        sel_u64s_push(&lsm->drop_segments, segment->id);
    sel_segment_forget(&segment);
}

static void give_tail_back(struct sel_segment *segment) {
    struct sel_disk_io io = {.kind = SEL_DISK_TRUNCATE, .file = segment->file, .bytes = segment->end};
    if (!segment->truncate || segment->file < 0 || segment->pending_blocks || sel_lsm_run(segment->lsm, &io))
        return;
    segment->bytes = segment->end;
    segment->blocks = (uint32_t)(segment->end / SEL_DISK_BLOCK);
    segment->catalog_dirty = true;
}

static void settle_segments(struct sel_lsm *lsm) {
    size_t dropped = lsm->drop_segments.count;
    for (size_t i = lsm->segment_count; i-- > 0;) {
        struct sel_segment *segment = lsm->segments[i];
        if (segment->state == SEL_OPEN || segment->state == SEL_READY)
            sel_segment_seal(segment);
        bool empty = segment->state == SEL_SPARE || segment->state == SEL_DOOMED ||
                     (segment->state == SEL_SEALED && segment->live_blocks == 0 && segment->pending_blocks == 0);
        if (empty)
            remove_segment(segment);
        else if (segment->state == SEL_SEALED)
            give_tail_back(segment);
    }
    /* Their entries may go only when their names are gone for good: a segment that comes back without one is unknown,
     * and would be searched for records. */
    struct sel_disk_io io = {.kind = SEL_DISK_SYNC_DIR};
    if (lsm->drop_segments.count > dropped && sel_lsm_run(lsm, &io))
        lsm->drop_segments.count = dropped;
}

static int last_transaction(struct sel_lsm *lsm) {
    struct sel_catalog *catalog = lsm->config.catalog;
    lsm->commit.clean = true;
    int rc = sel_commit_build(lsm);
    if (!rc)
        rc = catalog->ops->commit(catalog, lsm->commit.changes, lsm->commit.change_count, &lsm->commit.message);
    if (rc)
        sel_log_warning(lsm->config.log, "the store could not be marked as cleanly stopped: %s", sel_error_text(rc));
    sel_commit_clear(lsm);
    return rc;
}

static void destroy(struct sel_lsm **pointer) {
    struct sel_lsm *lsm = *pointer;
    SEL_LIST_FOR_EACH(at, &lsm->readers) {
        struct sel_lsm_reader *reader = SEL_LIST_ENTRY(at, struct sel_lsm_reader, all_link);
        sel_lsm_reader_close(&reader);
    }
    while (lsm->segment_count > 0) {
        struct sel_segment *segment = lsm->segments[lsm->segment_count - 1];
        close_file(segment);
        sel_segment_forget(&segment);
    }
    sel_buffers_destroy(lsm);
    free(lsm->drop_segments.items);
    free(lsm->drop_records.items);
    free(lsm->segments);
    lsm->magic = 0;
    free(lsm);
    *pointer = NULL;
}

int sel_lsm_close(struct sel_lsm **pointer) {
    struct sel_lsm *lsm = *pointer;
    if (lsm == NULL)
        return 0;
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    sel_issue_deferred(lsm);
    lsm->closing = true;
    sel_remove_release(lsm);
    sel_forward_stop(lsm);
    uint64_t errors = lsm->stats.sync_errors + lsm->stats.write_errors;
    while (busy(lsm) || unjoined(lsm) || !sel_group_idle(lsm) || sel_ready_pending(lsm->config.ready))
        sel_lsm_turn(lsm);
    settle_segments(lsm);
    int rc = last_transaction(lsm);
    if (!rc && lsm->stats.sync_errors + lsm->stats.write_errors > errors)
        rc = SELENE_E_IO;
    sel_write_free_all(lsm);
    lsm->aborting = true; /* callbacks that still run may ask for removals */
    sel_ready_run(lsm->config.ready, SIZE_MAX);
    destroy(pointer);
    return rc;
}

void sel_lsm_abort(struct sel_lsm **pointer) {
    struct sel_lsm *lsm = *pointer;
    if (lsm == NULL)
        return;
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    lsm->aborting = lsm->closing = true;
    sel_forward_stop(lsm);
    sel_issue_deferred(lsm); /* completes with an error */
    while (busy(lsm) || sel_ready_pending(lsm->config.ready))
        sel_lsm_turn(lsm);
    sel_write_fail_all(lsm, SELENE_E_CLOSED);
    sel_remove_release(lsm);
    for (struct sel_list *at = sel_list_pop(&lsm->removals); at; at = sel_list_pop(&lsm->removals))
        sel_remove_commit(lsm, SEL_LIST_ENTRY(at, struct sel_removal, link), SELENE_E_CLOSED);
    sel_ready_run(lsm->config.ready, SIZE_MAX);
    sel_write_free_all(lsm);
    destroy(pointer);
}

void sel_lsm_get_stats(const struct sel_lsm *lsm, struct sel_lsm_stats *stats) {
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    *stats = lsm->stats;
    stats->live_bytes = lsm->live_bytes;
    stats->dead_bytes = lsm->dead_bytes;
    stats->allocated_bytes = lsm->allocated_bytes;
    stats->catalog_bytes = lsm->catalog_bytes;
    stats->segments = lsm->segment_count;
    stats->open_segments = (lsm->lane[0].open != NULL) + (lsm->lane[1].open != NULL);
}
