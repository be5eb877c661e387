/* SPDX-License-Identifier: Apache-2.0
 *
 * One catalogue transaction: deletions, records in sequence order with their page keys, the segments' marks, the
 * store's own entry. Built on the store's thread, committed (and synced) on the catalogue's helper thread.
 */
#include "lsm/lsm_priv.h"

#include <stdlib.h>
#include <string.h>

/* Those that are about to go, too, while their file may come back after a crash: behind an old mark, or without one, the
 * search of the tails would find what was given up there, as the copy of a record that this transaction removes. */
static bool wants_entry(const struct sel_segment *segment) {
    bool used = segment->state == SEL_OPEN || segment->state == SEL_SEALED;
    bool going = (segment->state == SEL_SPARE || segment->state == SEL_DOOMED) && segment->end > SEL_DISK_BLOCK;
    return (used || going) &&
           (segment->catalog_dirty || !segment->known || sel_segment_mark(segment, true) != segment->indexed_bytes);
}

static size_t count_values(struct sel_lsm *lsm) {
    size_t count = 1;
    SEL_LIST_FOR_EACH(at, &lsm->commit.writes)
    count += 1 + sel_keys_parts(SEL_LIST_ENTRY(at, struct sel_lsm_write, group_link)->record.page_key_count);
    SEL_LIST_FOR_EACH(at, &lsm->commit.removals)
    count++;
    for (size_t i = 0; i < lsm->segment_count; i++)
        count += wants_entry(lsm->segments[i]);
    return count;
}

static uint8_t *put(struct sel_commit *commit, enum sel_catalog_table table, uint64_t key, uint32_t part) {
    uint8_t *value = commit->values + commit->value_count++ * SEL_CATALOG_VALUE;
    commit->changes[commit->change_count++] = (struct sel_catalog_change){
        .kind = SEL_CATALOG_PUT, .table = (uint8_t)table, .part = part, .key = key, .value = value};
    return value;
}

static void delete (struct sel_commit *commit, enum sel_catalog_table table, uint64_t key) {
    commit->changes[commit->change_count++] =
        (struct sel_catalog_change){.kind = SEL_CATALOG_DELETE, .table = (uint8_t)table, .key = key};
}

static void write_entry(struct sel_lsm_write *write, struct sel_record_entry *entry) {
    const struct sel_lsm_record *r = &write->record;
    const struct sel_part *pages = &write->part[SEL_LSM_PAGES], *row = &write->part[SEL_LSM_ROW];
    *entry = (struct sel_record_entry){.has_row = r->has_row,
                                       .pages_replicated = r->pages_replicated,
                                       .row_replicated = r->has_row && r->row_replicated,
                                       .row_sequence = write->row_sequence,
                                       .key = r->key,
                                       .parent_key = r->parent_key,
                                       .base_key = r->base_key,
                                       .page_tokens = r->page_tokens,
                                       .tokens = r->tokens,
                                       .parent_tokens = r->parent_tokens,
                                       .page_key_count = r->page_key_count,
                                       .time_s = r->time_s};
    memcpy(entry->ns, r->ns, sizeof entry->ns);
    entry->location.sequence = write->sequence;
    if (write->row_only) {
        entry->location = write->location;
        entry->pages_generation = write->pages_generation;
    } else {
        entry->location.pages = sel_pack_place(pages->segment->id, pages->offset);
        entry->location.pages_blocks = (uint32_t)((pages->header_bytes + pages->data_bytes) / SEL_DISK_BLOCK);
        entry->pages_generation = sel_generation_short(pages->segment->generation);
    }
    if (row->segment) {
        entry->location.row = sel_pack_place(row->segment->id, row->offset);
        entry->location.row_blocks = (uint32_t)((row->header_bytes + row->data_bytes) / SEL_DISK_BLOCK);
        entry->row_generation = sel_generation_short(row->segment->generation);
    }
}

static void put_write(struct sel_lsm *lsm, struct sel_lsm_write *write) {
    struct sel_commit *commit = &lsm->commit;
    struct sel_record_entry entry;
    if (write->move) {
        sel_forward_change(lsm, write, &entry);
        sel_record_entry_pack(put(commit, SEL_CATALOG_RECORDS, entry.location.sequence, 0), &entry);
        return;
    }
    write_entry(write, &entry);
    write->location = entry.location;
    sel_record_entry_pack(put(commit, SEL_CATALOG_RECORDS, write->sequence, 0), &entry);
    uint32_t left = write->row_only ? 0 : write->record.page_key_count; /* they are there already */
    for (uint32_t part = 1; left > 0; part++) {
        uint32_t count = SEL_MIN(left, SEL_ENTRY_KEYS_EACH);
        sel_keys_entry_pack(put(commit, SEL_CATALOG_RECORDS, write->sequence, part), write->sequence, part,
                            write->page_keys + (size_t)(part - 1) * SEL_ENTRY_KEYS_EACH, count);
        left -= count;
    }
}

static void put_segment(struct sel_lsm *lsm, struct sel_segment *segment) {
    struct sel_segment_entry entry = {.id = segment->id,
                                      .segment_bytes = segment->bytes,
                                      .indexed_bytes = sel_segment_mark(segment, true),
                                      .kind = segment->kind};
    entry.sealed = segment->state == SEL_SEALED && entry.indexed_bytes == segment->end;
    memcpy(entry.generation, segment->generation, sizeof entry.generation);
    sel_segment_entry_pack(put(&lsm->commit, SEL_CATALOG_SEGMENTS, segment->id, 0), &entry);
    segment->indexed_bytes = entry.indexed_bytes;
    segment->known = true;
    segment->catalog_dirty = segment->state == SEL_SEALED && !entry.sealed;
    segment->committing = true;
}

static void put_meta(struct sel_lsm *lsm) {
    struct sel_meta_entry meta = {
        .next_sequence = lsm->next_sequence, .next_segment = lsm->next_segment, .clean = lsm->commit.clean};
    memcpy(meta.store_id, lsm->store_id, sizeof meta.store_id);
    sel_meta_entry_pack(put(&lsm->commit, SEL_CATALOG_META, 0, 0), &meta);
}

int sel_commit_build(struct sel_lsm *lsm) {
    struct sel_commit *commit = &lsm->commit;
    size_t values = count_values(lsm);
    size_t deletions = lsm->removal_count + lsm->drop_segments.count + lsm->drop_records.count;
    commit->values = malloc(values * SEL_CATALOG_VALUE);
    commit->changes = malloc((values + deletions) * sizeof *commit->changes);
    if (commit->values == NULL || commit->changes == NULL)
        return SELENE_E_NOMEM;
    commit->dropped_segments = lsm->drop_segments.count;
    commit->dropped_records = lsm->drop_records.count;
    for (size_t i = 0; i < lsm->drop_segments.count; i++)
        delete (commit, SEL_CATALOG_SEGMENTS, lsm->drop_segments.items[i]);
    for (size_t i = 0; i < lsm->drop_records.count; i++)
        delete (commit, SEL_CATALOG_RECORDS, lsm->drop_records.items[i]);
    SEL_LIST_FOR_EACH(at, &commit->removals) {
        struct sel_removal *removal = SEL_LIST_ENTRY(at, struct sel_removal, link);
        if (!removal->row_only)
            delete (commit, SEL_CATALOG_RECORDS, removal->location.sequence);
        else
            sel_record_entry_pack(put(commit, SEL_CATALOG_RECORDS, removal->location.sequence, 0), &removal->entry);
    }
    SEL_LIST_FOR_EACH(at, &commit->writes)
    put_write(lsm, SEL_LIST_ENTRY(at, struct sel_lsm_write, group_link));
    for (size_t i = 0; i < lsm->segment_count; i++)
        if (wants_entry(lsm->segments[i]))
            put_segment(lsm, lsm->segments[i]);
    put_meta(lsm);
    return 0;
}

static int run(struct sel_job *job) {
    struct sel_commit *commit = SEL_CONTAINER(job, struct sel_commit, job);
    struct sel_lsm *lsm = SEL_CONTAINER(commit, struct sel_lsm, commit);
    return lsm->config.catalog->ops->commit(lsm->config.catalog, commit->changes, commit->change_count,
                                            &commit->message);
}

static void forget_dropped(struct sel_u64s *list, size_t count) {
    if (count == 0)
        return;
    memmove(list->items, list->items + count, (list->count - count) * sizeof *list->items);
    list->count -= count;
}

/* The segment's mark, as it now is in the catalogue, has come past all that was given up there: nothing of that can be
 * found after a crash any more. Not before: a segment with a head in the making is searched behind the mark it had. */
static void forget_given_up(struct sel_segment *segment) {
    if (!segment->committing || segment->indexed_bytes < segment->given_up_end)
        return;
    sel_list_remove(&segment->given_up_link);
    segment->given_up_end = 0;
}

static void ran(struct sel_op *op) {
    struct sel_commit *commit = SEL_CONTAINER(op, struct sel_commit, job.op);
    struct sel_lsm *lsm = SEL_CONTAINER(commit, struct sel_lsm, commit);
    lsm->stats.transactions++;
    lsm->catalog_bytes = lsm->config.catalog->ops->file_bytes(lsm->config.catalog);
    for (size_t i = 0; i < lsm->segment_count; i++) {
        struct sel_segment *segment = lsm->segments[i];
        if (op->result == 0)
            forget_given_up(segment);
        else
            segment->catalog_dirty |= segment->committing;
        segment->committing = false;
    }
    if (op->result == 0) {
        forget_dropped(&lsm->drop_segments, commit->dropped_segments);
        forget_dropped(&lsm->drop_records, commit->dropped_records);
    }
    if (!lsm->aborting)
        sel_state_note(lsm, SEL_NOTE_INDEX, op->result);
    commit->error = op->result;
    sel_commit_finished(lsm, op->result);
}

void sel_commit_submit(struct sel_lsm *lsm) {
    struct sel_commit *commit = &lsm->commit;
    sel_op_init(&commit->job.op, ran);
    commit->job.run = run;
    commit->message.text[0] = 0;
    sel_workers_submit(lsm->config.blocking, lsm->config.ready, &commit->job);
}

void sel_commit_clear(struct sel_lsm *lsm) {
    struct sel_commit *commit = &lsm->commit;
    free(commit->values);
    free(commit->changes);
    commit->values = NULL;
    commit->changes = NULL;
    commit->value_count = commit->change_count = 0;
    commit->dropped_segments = commit->dropped_records = 0;
}
