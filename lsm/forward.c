/* SPDX-License-Identifier: Apache-2.0
 *
 * Copy forward [D5]: the live extents of a segment that is mostly dead are written again elsewhere, so that it can be
 * recycled or removed. Needed where holes cannot be punched, and when files become too many.
 *
 *   choose a victim -> list its live records (the catalogue, on the helper thread) -> copy extent after extent, data
 *   verified on the way -> each joins the group like a write; its transaction changes the record's place -> moved()
 *   is called, the old extent is dead
 *
 * A removal that comes while an extent is on its way cancels the copy; while its transaction is under way, the removal
 * is told the new place afterwards. A damaged extent is dropped and the owner told: moved() to sequence 0, or to row 0.
 */
#include "lsm/forward.h"

#include <stdlib.h>
#include <string.h>

#define FILES_MANY   64
#define ENTRIES_STEP 256
#define MOVES_MAX    16

static bool too_many_files(const struct sel_lsm *lsm) {
    return lsm->segment_count > FILES_MANY && lsm->live_bytes < lsm->segment_count * lsm->segment_bytes / 4;
}

static bool worth_it(const struct sel_lsm *lsm, const struct sel_segment *segment, bool many) {
    uint64_t live = (uint64_t)segment->live_blocks * SEL_DISK_BLOCK;
    if (live == 0 || segment->pending_blocks || segment->working || segment->syncing || segment->unmovable)
        return false;
    if (many && live < lsm->segment_bytes / 4)
        return true;
    return lsm->no_punch && segment->counted_dead > 0 &&
           live < (lsm->pressed ? segment->bytes / 4 * 3 : segment->bytes / 4);
}

static struct sel_segment *choose(struct sel_lsm *lsm) {
    struct sel_segment *best = NULL;
    bool many = too_many_files(lsm);
    if (!many && !lsm->no_punch)
        return NULL;
    SEL_LIST_FOR_EACH(at, &lsm->sealed) {
        struct sel_segment *segment = SEL_LIST_ENTRY(at, struct sel_segment, link);
        if (worth_it(lsm, segment, many) && (best == NULL || segment->live_blocks < best->live_blocks))
            best = segment;
    }
    return best;
}

static int collect(void *context, uint64_t key, uint32_t part, const uint8_t value[SEL_CATALOG_VALUE]) {
    struct sel_forward *forward = context;
    struct sel_record_entry entry;
    if (part != 0 || sel_record_entry_unpack(&entry, key, value))
        return 0;
    uint64_t place = forward->kind == SEL_LSM_ROW ? entry.location.row : entry.location.pages;
    uint64_t generation = forward->kind == SEL_LSM_ROW ? entry.row_generation : entry.pages_generation;
    if (place == 0 || place >> 32 != forward->id || generation != forward->generation)
        return 0;
    if (forward->count == forward->capacity) {
        size_t capacity = forward->capacity + ENTRIES_STEP;
        struct sel_record_entry *entries = realloc(forward->entries, capacity * sizeof *entries);
        if (entries == NULL)
            return SELENE_E_NOMEM;
        forward->entries = entries;
        forward->capacity = capacity;
    }
    forward->entries[forward->count++] = entry;
    return 0;
}

static int list_run(struct sel_job *job) {
    struct sel_forward *forward = SEL_CONTAINER(job, struct sel_forward, job);
    struct sel_catalog *catalog = forward->lsm->config.catalog;
    return catalog->ops->iterate(catalog, SEL_CATALOG_RECORDS, collect, forward);
}

static void listed(struct sel_op *op) {
    struct sel_forward *forward = SEL_CONTAINER(op, struct sel_forward, job.op);
    forward->listing = false;
    if (op->result)
        forward->victim->unmovable = true;
}

static void victim_open(struct sel_file_waiter *waiter, int result) {
    struct sel_forward *forward = SEL_CONTAINER(waiter, struct sel_forward, waiter);
    struct sel_lsm *lsm = forward->lsm;
    forward->held = result == 0;
    if (result || lsm->aborting || lsm->closing) {
        forward->victim->unmovable |= result != 0;
        forward->listing = false;
        return;
    }
    forward->job.run = list_run;
    sel_op_init(&forward->job.op, listed);
    sel_workers_submit(lsm->config.blocking, lsm->config.ready, &forward->job);
}

static void start(struct sel_lsm *lsm, struct sel_segment *victim) {
    struct sel_forward *forward = calloc(1, sizeof *forward);
    if (forward == NULL || sel_window_create(&forward->window, lsm)) {
        free(forward);
        return;
    }
    forward->lsm = lsm;
    forward->victim = victim;
    forward->id = victim->id;
    forward->kind = victim->kind;
    forward->generation = sel_generation_short(victim->generation);
    sel_list_init(&forward->moves);
    lsm->forward = forward;
    forward->listing = true;
    sel_segment_acquire(victim, &forward->waiter, victim_open);
}

/* The entry may be older than what became of the record since. */
static bool still_wanted(struct sel_forward *forward, const struct sel_record_entry *entry) {
    struct sel_lsm *lsm = forward->lsm;
    bool row = forward->kind == SEL_LSM_ROW;
    uint64_t place = row ? entry->location.row : entry->location.pages;
    uint32_t blocks = row ? entry->location.row_blocks : entry->location.pages_blocks;
    return sel_segment_is_live(forward->victim, (uint32_t)place, blocks) &&
           sel_remove_pending(lsm, entry->location.sequence) == 0;
}

/* The copy is damaged: the owner hears of it, and the catalogue forgets it. */
static void drop_damaged(struct sel_lsm *lsm, const struct sel_record_entry *entry, uint8_t kind) {
    struct sel_location to = entry->location;
    struct sel_removal *removal = calloc(1, sizeof *removal);
    if (removal == NULL)
        return;
    removal->own = true;
    removal->location = entry->location;
    removal->entry = *entry;
    removal->row_generation = entry->row_generation;
    if (kind == SEL_LSM_ROW) {
        removal->row_only = true;
        removal->entry.has_row = removal->entry.row_replicated = false;
        removal->entry.location.row = removal->entry.row_generation = 0;
        removal->entry.location.row_blocks = to.row_blocks = 0;
        to.row = 0;
    } else
        to = (struct sel_location){0};
    if (sel_list_empty(&lsm->removals))
        lsm->removals_since_ns = sel_mono_ns(lsm->config.clock);
    sel_list_init(&removal->link);
    sel_list_add_tail(&lsm->removals, &removal->link);
    lsm->removal_count++;
    lsm->stats.dropped_records++;
    if (lsm->moved)
        lsm->moved(lsm->context, &entry->key, &entry->location, &to);
}

static void copied(struct sel_forward *forward, int result) {
    struct sel_lsm *lsm = forward->lsm;
    struct sel_record_entry entry = forward->move->entry;
    if (result == 0) {
        sel_list_add_tail(&forward->moves, &forward->move->link);
        forward->move = NULL;
        sel_copy_cancel(forward); /* the buffers */
        return;
    }
    sel_copy_cancel(forward);
    if (result == SELENE_E_CORRUPT && still_wanted(forward, &entry)) {
        sel_log_warning(lsm->config.log, "%s: a damaged extent was found while copying it; dropped",
                        forward->victim->name);
        drop_damaged(lsm, &entry, forward->kind);
    } else if (result == SELENE_E_NOSPACE) { /* later */
        forward->next = forward->count;
        lsm->forward_ns = sel_mono_ns(lsm->config.clock) + SEL_PROBE_NS / 10;
    } else if (result != SELENE_E_CANCELLED)
        forward->victim->unmovable = true; /* until the next opening */
}

static void free_over(struct sel_forward *forward) {
    SEL_LIST_FOR_EACH(at, &forward->moves) {
        struct sel_move *move = SEL_LIST_ENTRY(at, struct sel_move, link);
        bool over = move->write->state == SEL_WRITE_COMMITTED || move->write->state == SEL_WRITE_FAILED;
        if (!over || move->write->ios > 0)
            continue;
        sel_list_remove(&move->link);
        sel_lsm_write_free(&move->write);
        free(move);
    }
}

static void end(struct sel_lsm *lsm) {
    struct sel_forward *forward = lsm->forward;
    if (!forward->any) /* live blocks that no record of the catalogue accounts for: not again and again */
        forward->victim->unmovable = true;
    if (forward->held)
        sel_segment_release(forward->victim);
    sel_window_free(&forward->window);
    free(forward->entries);
    free(forward);
    lsm->forward = NULL;
    lsm->look_forward = true;
}

static void next_copy(struct sel_forward *forward) {
    unsigned under_way = 0;
    SEL_LIST_FOR_EACH(at, &forward->moves)
    under_way++;
    while (forward->move == NULL && under_way < MOVES_MAX && forward->next < forward->count) {
        const struct sel_record_entry *entry = &forward->entries[forward->next++];
        if (!still_wanted(forward, entry))
            continue;
        forward->any = true;
        if (sel_row_write_find(forward->lsm, entry->location.sequence)) { /* it is about to change: later */
            forward->lsm->forward_ns = sel_mono_ns(forward->lsm->config.clock) + SEL_PROBE_NS / 10;
            continue;
        }
        if (sel_copy_begin(forward, entry)) {
            forward->victim->unmovable = true;
            forward->next = forward->count;
        }
    }
}

void sel_forward_poll(struct sel_lsm *lsm) {
    struct sel_forward *forward = lsm->forward;
    if (forward == NULL) {
        if (!lsm->look_forward || lsm->closing || lsm->state != SEL_LSM_OK ||
            sel_mono_ns(lsm->config.clock) < lsm->forward_ns)
            return;
        lsm->look_forward = false;
        struct sel_segment *victim = choose(lsm);
        if (victim)
            start(lsm, victim);
        return;
    }
    if (forward->listing)
        return;
    if (forward->move) {
        int rc = sel_copy_poll(forward);
        if (rc != SELENE_E_RETRY)
            copied(forward, rc);
    }
    free_over(forward);
    if (forward->victim->unmovable || lsm->closing)
        forward->next = forward->count;
    else
        next_copy(forward);
    if (forward->move == NULL && sel_list_empty(&forward->moves) && forward->next == forward->count)
        end(lsm);
    else if (lsm->pressed && forward->move == NULL)
        sel_lsm_flush(lsm);
}

static bool undecided(const struct sel_move *move, uint64_t sequence) {
    return move->entry.location.sequence == sequence && move->write && move->write->state != SEL_WRITE_COMMITTING &&
           sel_list_linked(&move->write->part[move->kind].link);
}

bool sel_forward_has(const struct sel_lsm *lsm, uint64_t sequence) {
    const struct sel_forward *forward = lsm->forward;
    if (forward == NULL)
        return false;
    SEL_LIST_FOR_EACH(at, (struct sel_list *)&forward->moves)
    if (undecided(SEL_LIST_ENTRY(at, struct sel_move, link), sequence))
        return true;
    return forward->move && undecided(forward->move, sequence);
}

void sel_forward_cancel(struct sel_lsm *lsm, uint64_t sequence) {
    struct sel_forward *forward = lsm->forward;
    if (forward == NULL || forward->listing)
        return;
    if (forward->move && forward->move->entry.location.sequence == sequence)
        forward->result = SELENE_E_CANCELLED;
    SEL_LIST_FOR_EACH(at, &forward->moves) {
        struct sel_move *move = SEL_LIST_ENTRY(at, struct sel_move, link);
        uint8_t state = move->write->state;
        if (move->entry.location.sequence == sequence && (state == SEL_WRITE_FINISHED || state == SEL_WRITE_JOINED))
            sel_write_fail(move->write, SELENE_E_CANCELLED);
    }
}

/* The listing knows nothing of the row: the record is left for the next one. */
void sel_forward_row_written(struct sel_lsm *lsm, uint64_t sequence) {
    struct sel_forward *forward = lsm->forward;
    if (forward == NULL || forward->listing)
        return;
    for (size_t i = forward->next; i < forward->count; i++)
        if (forward->entries[i].location.sequence == sequence)
            forward->entries[i].location.pages_blocks = forward->entries[i].location.row_blocks = 0; /* never live */
    forward->any = true;
}

/* The record's entry after the move. */
void sel_forward_change(struct sel_lsm *lsm, struct sel_lsm_write *write, struct sel_record_entry *entry) {
    const struct sel_part *part = &write->part[write->move->kind];
    uint64_t place = sel_pack_place(part->segment->id, part->offset);
    uint64_t generation = sel_generation_short(part->segment->generation);
    *entry = write->move->entry;
    if (write->move->kind == SEL_LSM_ROW) {
        entry->location.row = place;
        entry->row_generation = generation;
    } else {
        entry->location.pages = place;
        entry->pages_generation = generation;
        const struct sel_location *at = &entry->location;
        struct sel_segment *row = at->row ? sel_segment_find(lsm, (uint32_t)(at->row >> 32)) : NULL;
        if (at->row && !(row && sel_generation_short(row->generation) == entry->row_generation &&
                         sel_segment_is_live(row, (uint32_t)at->row, at->row_blocks))) {
            entry->has_row = entry->row_replicated = false;
            entry->location.row = entry->row_generation = 0; /* row_sequence: up to there they are removed */
            entry->location.row_blocks = 0;
        }
    }
    write->location = entry->location;
}

static void patch_removals(struct sel_list *removals, const struct sel_lsm_write *write, uint64_t generation) {
    const struct sel_location *to = &write->location;
    SEL_LIST_FOR_EACH(at, removals) {
        struct sel_removal *removal = SEL_LIST_ENTRY(at, struct sel_removal, link);
        if (removal->location.sequence != to->sequence)
            continue;
        if (write->move->kind == SEL_LSM_ROW) {
            if (removal->location.row)
                removal->location.row = to->row;
            removal->row_generation = generation;
        } else {
            removal->location.pages = removal->entry.location.pages = to->pages;
            removal->entry.pages_generation = generation;
        }
    }
}

void sel_forward_committed(struct sel_lsm *lsm, struct sel_lsm_write *write) {
    struct sel_move *move = write->move;
    const struct sel_part *part = &write->part[move->kind];
    const struct sel_record_entry *old = &move->entry;
    if (move->kind == SEL_LSM_ROW)
        sel_remove_extent(lsm, old->location.row, old->location.row_blocks, old->row_generation);
    else
        sel_remove_extent(lsm, old->location.pages, old->location.pages_blocks, old->pages_generation);
    patch_removals(&lsm->removals, write, sel_generation_short(part->segment->generation));
    patch_removals(&lsm->held, write, sel_generation_short(part->segment->generation));
    if (move->kind == SEL_LSM_PAGES)
        sel_row_write_moved(lsm, &write->location, sel_generation_short(part->segment->generation));
    lsm->stats.copied_forward_bytes += part->header_bytes + part->data_bytes;
    if (lsm->moved)
        lsm->moved(lsm->context, &old->key, &old->location, &write->location);
}

bool sel_forward_busy(const struct sel_lsm *lsm) { return lsm->forward != NULL; }

/* Closing and aborting: no new copy; the one under way is given up. */
void sel_forward_stop(struct sel_lsm *lsm) {
    struct sel_forward *forward = lsm->forward;
    if (forward == NULL)
        return;
    forward->next = forward->count;
    if (forward->move)
        forward->result = SELENE_E_CANCELLED;
    SEL_LIST_FOR_EACH(at, &forward->moves) {
        struct sel_lsm_write *write = SEL_LIST_ENTRY(at, struct sel_move, link)->write;
        if (lsm->aborting && write->state < SEL_WRITE_COMMITTING)
            sel_write_fail(write, SELENE_E_CLOSED);
    }
}
