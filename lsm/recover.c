/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery [D7, D8]: one way for a crash (the tails past the marks), a catalogue that was rolled back (segments it does
 * not know) and one that is gone (all segments).
 *
 * A pages extent that was found is a record; with it goes the row extent that names its sequence, if that is whole; if
 * not, the record is taken over without its row, as if thinned: its pages are whole and verified, and its descendants
 * need them. (The visitor drops such records when nothing hangs under them [T7].) A row without its pages is dead. How
 * what was found is merged with what the catalogue has, and shown, is merge.c's. What the visitor takes is put into the
 * catalogue, synced, before the segments are marked as indexed to their ends.
 */
#include "lsm/open.h"

#include <stdlib.h>
#include <string.h>

#define CHANGES_MAX 8192 /* in one transaction */

struct recovery {
    struct sel_opening *opening;
    struct sel_catalog_change *changes;
    uint8_t *values;
    size_t count;
};

static int flush(struct recovery *recovery) {
    struct sel_opening *opening = recovery->opening;
    struct sel_catalog *catalog = opening->lsm->config.catalog;
    int rc = 0;
    if (recovery->count > 0)
        rc = catalog->ops->commit(catalog, recovery->changes, recovery->count, opening->message);
    recovery->count = 0;
    return rc;
}

static int add(struct recovery *recovery, uint8_t kind, uint64_t key, uint32_t part, const uint8_t *value) {
    size_t at = recovery->count;
    recovery->changes[at] =
        (struct sel_catalog_change){.kind = kind, .table = SEL_CATALOG_RECORDS, .part = part, .key = key};
    if (value) {
        memcpy(recovery->values + at * SEL_CATALOG_VALUE, value, SEL_CATALOG_VALUE);
        recovery->changes[at].value = recovery->values + at * SEL_CATALOG_VALUE;
    }
    recovery->count++;
    return recovery->count == CHANGES_MAX ? flush(recovery) : 0;
}

/* Page keys first, so that a record that is cut off by the end of a transaction is not taken for a whole one: parts
 * without a part 0 are dropped by the next opening. */
static int put_record(struct recovery *recovery, const struct sel_record_entry *entry, const struct sel_key *keys) {
    uint8_t value[SEL_CATALOG_VALUE];
    uint64_t sequence = entry->location.sequence;
    uint32_t left = entry->page_key_count;
    int rc = 0;
    for (uint32_t part = 1; left > 0 && !rc; part++) {
        uint32_t count = SEL_MIN(left, SEL_ENTRY_KEYS_EACH);
        sel_keys_entry_pack(value, sequence, part, keys + (size_t)(part - 1) * SEL_ENTRY_KEYS_EACH, count);
        rc = add(recovery, SEL_CATALOG_PUT, sequence, part, value);
        left -= count;
    }
    sel_record_entry_pack(value, entry);
    return rc ? rc : add(recovery, SEL_CATALOG_PUT, sequence, 0, value);
}

static int put_changed(struct recovery *recovery, const struct sel_record_entry *entry) {
    uint8_t value[SEL_CATALOG_VALUE];
    sel_record_entry_pack(value, entry);
    return add(recovery, SEL_CATALOG_PUT, entry->location.sequence, 0, value);
}

/* Deletions first: what was dropped may have been found elsewhere under the same sequence. */
static int put_all(struct recovery *recovery) {
    struct sel_opening *opening = recovery->opening;
    struct sel_lsm *lsm = opening->lsm;
    int rc = 0;
    for (size_t i = 0; i < lsm->drop_records.count && !rc; i++)
        rc = add(recovery, SEL_CATALOG_DELETE, lsm->drop_records.items[i], 0, NULL);
    if (!rc)
        rc = flush(recovery);
    lsm->drop_records.count = rc ? lsm->drop_records.count : 0;
    for (size_t i = 0; i < opening->changed_count && !rc; i++)
        rc = put_changed(recovery, &opening->changed[i]);
    for (size_t i = 0; i < opening->found_count && !rc; i++)
        if (opening->found[i].accepted)
            rc = put_record(recovery, &opening->found[i].entry, opening->found[i].page_keys);
    return rc ? rc : flush(recovery);
}

/* A damaged head and nothing behind it: the making of a segment that was cut off. */
static int judge_damaged(struct sel_segment *segment) {
    bool any = true;
    bool open = segment->file >= 0;
    int rc = sel_open_file(segment) == 0 ? sel_scan_for_headers(segment, &any) : 0;
    if (!open)
        sel_open_close_file(segment);
    if (rc || any)
        return rc;
    sel_list_remove(&segment->link);
    sel_list_add_tail(&segment->lsm->sealed, &segment->link);
    segment->state = SEL_SEALED;
    segment->indexed_bytes = segment->bytes;
    segment->lsm->stats.bad_segments--;
    return 0;
}

static int scan_all(struct sel_opening *opening) {
    struct sel_lsm *lsm = opening->lsm;
    int rc = 0;
    for (size_t i = 0; i < lsm->segment_count && !rc; i++) {
        struct sel_segment *segment = lsm->segments[i];
        if (segment->state == SEL_LEFT && segment->suspect)
            rc = judge_damaged(segment);
        if (rc || segment->state != SEL_SEALED || segment->indexed_bytes >= segment->bytes)
            continue;
        rc = sel_open_file(segment);
        if (rc == 0)
            rc = sel_scan_segment(opening, segment);
        else if (rc != SELENE_E_NOMEM) {
            lsm->stats.read_errors++;
            rc = 0;
        }
        if (lsm->file_count >= SEL_FILES_MAX / 2)
            sel_open_close_file(segment);
    }
    return rc;
}

int sel_open_scan(struct sel_opening *opening) {
    int rc = scan_all(opening);
    return rc ? rc : sel_merge_prepare(opening);
}

int sel_open_recover(struct sel_opening *opening) {
    struct recovery recovery = {.opening = opening};
    int rc = 0;
    if (opening->found_count == 0)
        return 0;
    recovery.changes = malloc(CHANGES_MAX * sizeof *recovery.changes);
    recovery.values = malloc((size_t)CHANGES_MAX * SEL_CATALOG_VALUE);
    if (recovery.changes == NULL || recovery.values == NULL)
        rc = SELENE_E_NOMEM;
    if (!rc)
        rc = put_all(&recovery);
    free(recovery.changes);
    free(recovery.values);
    return rc;
}
