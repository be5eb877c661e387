/* SPDX-License-Identifier: Apache-2.0
 *
 * A new row for a committed record that has none [T5]. It is a write with one part, the row, whose header names the
 * sequence of the pages; its transaction writes the record's entry again, with the row.
 *
 * What else may change the record meanwhile is put in order with it:
 *
 *   removal of the row, asked for before   -> in the same transaction or an earlier one; if that fails, so does the write
 *   removal of the row, asked for after    -> the write fails, or, when its transaction is under way, its row goes next
 *   removal of the record                  -> before: begin refuses; after: as for the row
 *   copy of the record to another segment  -> given up, and none begun until the write is over; when its transaction is
 *                                             under way, the write is told of the new place afterwards
 *   another row                            -> begin refuses until the first is over
 *
 * After a crash the row is found and taken if it is newer than what the record's entry says of its rows (merge.c).
 */
#include "lsm/lsm_priv.h"

struct sel_lsm_write *sel_row_write_find(const struct sel_lsm *lsm, uint64_t sequence) {
    SEL_LIST_FOR_EACH(at, (struct sel_list *)&lsm->row_writes) {
        struct sel_lsm_write *write = SEL_LIST_ENTRY(at, struct sel_lsm_write, row_link);
        if (write->sequence == sequence)
            return write;
    }
    return NULL;
}

int sel_lsm_write_row_begin(struct sel_lsm *lsm, const struct sel_layout *layout, const struct sel_lsm_record *record,
                            const struct sel_location *location, struct sel_lsm_write **out) {
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    *out = NULL;
    if (lsm->state != SEL_LSM_OK)
        return SELENE_E_DEGRADED;
    if (!record->has_row)
        return SELENE_E_INVALID;
    const struct sel_segment *pages = sel_remove_segment(lsm, location->pages, location->pages_blocks);
    unsigned removed = sel_remove_pending(lsm, location->sequence);
    bool has_row = location->row && sel_remove_segment(lsm, location->row, location->row_blocks);
    if (location->sequence == 0 || pages == NULL || removed & SEL_REMOVED_RECORD ||
        (has_row && !(removed & SEL_REMOVED_ROW)))
        return SELENE_E_GONE;
    if (sel_row_write_find(lsm, location->sequence))
        return SELENE_E_RETRY;
    struct sel_location bare = *location;
    bare.row = bare.row_blocks = 0;
    uint64_t generation = sel_generation_short(pages->generation);
    int rc = sel_write_create(lsm, layout, record, &bare, out);
    if (rc)
        return rc;
    (*out)->pages_generation = generation;
    sel_list_add_tail(&lsm->row_writes, &(*out)->row_link);
    sel_forward_cancel(lsm, location->sequence);
    return 0;
}

void sel_row_write_refuse(struct sel_lsm *lsm, uint64_t sequence) {
    struct sel_lsm_write *write = sel_row_write_find(lsm, sequence);
    if (write && write->state != SEL_WRITE_COMMITTING)
        sel_write_fail(write, SELENE_E_GONE);
}

void sel_row_write_moved(struct sel_lsm *lsm, const struct sel_location *to, uint64_t pages_generation) {
    struct sel_lsm_write *write = sel_row_write_find(lsm, to->sequence);
    if (write == NULL)
        return;
    write->location.pages = to->pages;
    write->pages_generation = pages_generation;
}

/* The removal of the row before it may have found no room in this transaction. */
void sel_row_write_hold(struct sel_lsm *lsm) {
    SEL_LIST_FOR_EACH(at, &lsm->commit.writes) {
        struct sel_lsm_write *write = SEL_LIST_ENTRY(at, struct sel_lsm_write, group_link);
        if (!write->row_only || !sel_remove_listed(&lsm->removals, write->sequence))
            continue;
        sel_list_remove(at);
        sel_group_join(write);
    }
}

/* A removal that came while the transaction was under way takes the new row along. */
void sel_row_write_committed(struct sel_lsm_write *write) {
    struct sel_lsm *lsm = write->lsm;
    sel_list_remove(&write->row_link);
    sel_forward_row_written(lsm, write->sequence);
    SEL_LIST_FOR_EACH(at, &lsm->removals) {
        struct sel_removal *removal = SEL_LIST_ENTRY(at, struct sel_removal, link);
        if (removal->location.sequence != write->sequence)
            continue;
        removal->location.row = write->location.row;
        removal->location.row_blocks = write->location.row_blocks;
        removal->row_generation = sel_generation_short(write->part[SEL_LSM_ROW].segment->generation);
    }
}
