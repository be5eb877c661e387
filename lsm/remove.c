/* SPDX-License-Identifier: Apache-2.0
 *
 * Removing records, or only their rows. A removal is part of the next transaction; when that is synced its blocks are
 * dead and reclaim.c may give them back, except where a reader is still on them [D5].
 *
 * A removal waits while its extent lies past the mark that the transaction sets for the segment, that is, while an
 * earlier extent there is neither committed nor given up, or a copy of it that was carried forward is neither: after a
 * crash the search of the tails would find the removed record again. So it would where an extent that was given up lies
 * past a mark, since that may be whole and hold any record: all removals wait for that mark, which is rare.
 */
#include "lsm/lsm_priv.h"

#include <stdlib.h>
#include <string.h>

struct sel_segment *sel_remove_segment(const struct sel_lsm *lsm, uint64_t place, uint32_t blocks) {
    struct sel_segment *segment = sel_segment_find(lsm, (uint32_t)(place >> 32));
    if (segment == NULL || (segment->state != SEL_OPEN && segment->state != SEL_SEALED) ||
        !sel_segment_is_live(segment, (uint32_t)place, blocks))
        return NULL;
    return segment;
}

/* The generation tells a segment that was recycled since: what lies there now is another record's. */
void sel_remove_extent(struct sel_lsm *lsm, uint64_t place, uint32_t blocks, uint64_t generation) {
    struct sel_segment *segment = sel_remove_segment(lsm, place, blocks);
    if (segment && sel_generation_short(segment->generation) == generation)
        sel_segment_set_dead(segment, (uint32_t)place, blocks);
}

/* Only sealed segments give space back. */
static uint64_t coming_bytes(const struct sel_lsm *lsm, uint64_t place, uint32_t blocks) {
    const struct sel_segment *segment = sel_remove_segment(lsm, place, blocks);
    return segment && segment->state == SEL_SEALED && !lsm->no_punch ? (uint64_t)blocks * SEL_DISK_BLOCK : 0;
}

static void queue(struct sel_lsm *lsm, const struct sel_location *location, const struct sel_record_entry *entry,
                  struct sel_op *op) {
    if (op)
        sel_op_start(op);
    if (lsm->aborting) { /* the last transaction is over */
        if (op)
            sel_ready_post(lsm->config.ready, op, SELENE_E_CLOSED);
        return;
    }
    struct sel_segment *pages = sel_remove_segment(lsm, location->pages, location->pages_blocks);
    struct sel_removal *removal = location->sequence && pages ? calloc(1, sizeof *removal) : NULL;
    if (removal == NULL) {
        if (op)
            sel_ready_post(lsm->config.ready, op, location->sequence && pages ? SELENE_E_NOMEM : SELENE_E_GONE);
        return;
    }
    removal->op = op;
    removal->location = *location;
    removal->row_only = entry != NULL;
    if (entry)
        removal->entry = *entry;
    else
        removal->bytes = coming_bytes(lsm, location->pages, location->pages_blocks);
    removal->entry.pages_generation = sel_generation_short(pages->generation);
    struct sel_segment *row = sel_remove_segment(lsm, location->row, location->row_blocks);
    if (row) {
        removal->bytes += coming_bytes(lsm, location->row, location->row_blocks);
        removal->row_generation = sel_generation_short(row->generation);
    } else
        removal->location.row = 0;
    sel_forward_cancel(lsm, location->sequence);
    sel_row_write_refuse(lsm, location->sequence);
    if (sel_list_empty(&lsm->removals))
        lsm->removals_since_ns = sel_mono_ns(lsm->config.clock);
    sel_list_init(&removal->link);
    sel_list_add_tail(&lsm->removals, &removal->link);
    lsm->removal_count++;
    lsm->removal_bytes += removal->bytes;
    if (lsm->pressed)
        lsm->flush_removals = true;
}

void sel_lsm_remove(struct sel_lsm *lsm, const struct sel_location *location, struct sel_op *op) {
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    queue(lsm, location, NULL, op);
}

void sel_lsm_remove_row(struct sel_lsm *lsm, const struct sel_lsm_record *record, const struct sel_location *location,
                        struct sel_op *op) {
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    struct sel_record_entry entry = {.pages_replicated = record->pages_replicated,
                                     .key = record->key,
                                     .parent_key = record->parent_key,
                                     .base_key = record->base_key,
                                     .page_tokens = record->page_tokens,
                                     .tokens = record->tokens,
                                     .parent_tokens = record->parent_tokens,
                                     .page_key_count = record->page_key_count,
                                     .location = *location,
                                     .time_s = record->time_s};
    memcpy(entry.ns, record->ns, sizeof entry.ns);
    entry.location.row = 0;
    entry.location.row_blocks = 0;
    entry.row_sequence = lsm->next_sequence - 1; /* no row that was written so far may come back after a crash */
    queue(lsm, location, &entry, op);
}

unsigned sel_remove_listed(const struct sel_list *removals, uint64_t sequence) {
    unsigned found = 0;
    SEL_LIST_FOR_EACH(at, (struct sel_list *)removals) {
        const struct sel_removal *removal = SEL_LIST_ENTRY(at, struct sel_removal, link);
        if (removal->location.sequence == sequence)
            found |= removal->row_only ? SEL_REMOVED_ROW : SEL_REMOVED_RECORD;
    }
    return found;
}

unsigned sel_remove_pending(const struct sel_lsm *lsm, uint64_t sequence) {
    return sel_remove_listed(&lsm->removals, sequence) | sel_remove_listed(&lsm->held, sequence) |
           sel_remove_listed(&lsm->commit.removals, sequence);
}

static bool past_mark(const struct sel_lsm *lsm, const struct sel_removal *removal) {
    uint64_t place = removal->location.pages;
    const struct sel_segment *segment = sel_remove_segment(lsm, place, removal->location.pages_blocks);
    return segment && sel_generation_short(segment->generation) == removal->entry.pages_generation &&
           (uint64_t)(uint32_t)place * SEL_DISK_BLOCK >= sel_segment_mark(segment, true);
}

static bool given_up_past_mark(const struct sel_lsm *lsm) {
    SEL_LIST_FOR_EACH(at, (struct sel_list *)&lsm->given_up) {
        const struct sel_segment *segment = SEL_LIST_ENTRY(at, struct sel_segment, given_up_link);
        if (sel_segment_mark(segment, true) < segment->given_up_end)
            return true;
    }
    return false;
}

void sel_remove_hold(struct sel_lsm *lsm, struct sel_list *removals) {
    bool all = given_up_past_mark(lsm);
    SEL_LIST_FOR_EACH(at, removals) {
        const struct sel_removal *removal = SEL_LIST_ENTRY(at, struct sel_removal, link);
        bool wait = all || past_mark(lsm, removal) || sel_forward_has(lsm, removal->location.sequence);
        if (lsm->closing || removal->row_only || !wait)
            continue;
        sel_list_remove(at);
        sel_list_add_tail(&lsm->held, at);
    }
}

void sel_remove_release(struct sel_lsm *lsm) {
    if (sel_list_empty(&lsm->held))
        return;
    if (sel_list_empty(&lsm->removals))
        lsm->removals_since_ns = sel_mono_ns(lsm->config.clock);
    sel_list_splice_tail(&lsm->removals, &lsm->held);
    if (lsm->pressed)
        lsm->flush_removals = true;
}

void sel_remove_commit(struct sel_lsm *lsm, struct sel_removal *removal, int result) {
    if (result && removal->row_only) /* its row is still there */
        sel_row_write_refuse(lsm, removal->location.sequence);
    if (result && removal->own && !lsm->closing && !lsm->aborting) {
        sel_list_init(&removal->link);
        sel_list_add_tail(&lsm->held, &removal->link);
        return;
    }
    lsm->removal_count--;
    lsm->removal_bytes -= removal->bytes;
    if (result == 0) {
        const struct sel_location *at = &removal->location;
        if (!removal->row_only)
            sel_remove_extent(lsm, at->pages, at->pages_blocks, removal->entry.pages_generation);
        if (at->row)
            sel_remove_extent(lsm, at->row, at->row_blocks, removal->row_generation);
        if (!removal->row_only && lsm->stats.records > 0)
            lsm->stats.records--;
    }
    if (removal->op)
        sel_ready_post(lsm->config.ready, removal->op, result);
    free(removal);
}
