/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery [D7, D8]: one way for a crash (the tails past the marks), a catalogue that was rolled back (segments it does
 * not know) and one that is gone (all segments).
 *
 * What the scan found is sorted by sequence. An extent whose record is live already is a copy left by copy forward. A
 * pages extent is a record; with it goes the row extent that names its sequence, if that is whole; if not, the record
 * is taken over without its row, as if thinned: its pages are whole and verified, and its descendants need them. (The
 * visitor drops such records when nothing hangs under them [T7].) A row without its pages is dead. Records are shown in
 * sequence order, after those of the catalogue, so parents always come first; those that the visitor takes are put into
 * the catalogue, synced, before the segments are marked as indexed to their ends.
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

static uint64_t order_of(const struct sel_found *found) {
    return found->kind == SEL_EXTENT_KIND_ROW ? found->pages_sequence : found->sequence;
}

/* Pages before rows; each by the sequence of the pages. */
static int by_sequence(const void *a, const void *b) {
    const struct sel_found *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (order_of(x) != order_of(y))
        return order_of(x) < order_of(y) ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static size_t first_of(const struct sel_opening *opening, uint8_t kind, uint64_t sequence) {
    size_t low = 0, high = opening->found_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct sel_found *found = &opening->found[middle];
        if (found->kind < kind || (found->kind == kind && order_of(found) < sequence))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_of(const struct sel_opening *opening, size_t at, uint8_t kind, uint64_t sequence) {
    return at < opening->found_count && opening->found[at].kind == kind && order_of(&opening->found[at]) == sequence;
}

/* A record of the catalogue that is live: what has its sequence is a copy. */
static int drop_copies(void *context, uint64_t key, uint32_t part, const uint8_t value[SEL_CATALOG_VALUE]) {
    struct sel_opening *opening = context;
    struct sel_record_entry entry;
    size_t at = first_of(opening, SEL_EXTENT_KIND_PAGES, key);
    if (part != 0 || !is_of(opening, at, SEL_EXTENT_KIND_PAGES, key) || sel_record_entry_unpack(&entry, key, value))
        return 0;
    const struct sel_location *place = &entry.location;
    struct sel_segment *segment = sel_segment_find(opening->lsm, (uint32_t)(place->pages >> 32));
    if (segment == NULL || sel_generation_short(segment->generation) != entry.pages_generation ||
        !sel_segment_is_live(segment, (uint32_t)place->pages, place->pages_blocks))
        return 0;
    for (; is_of(opening, at, SEL_EXTENT_KIND_PAGES, key); at++)
        opening->found[at].dropped = true;
    return 0;
}

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

static uint64_t generation_at(const struct sel_lsm *lsm, uint64_t place) {
    return sel_generation_short(sel_segment_find(lsm, (uint32_t)(place >> 32))->generation);
}

static void attach_row(const struct sel_opening *opening, struct sel_record_entry *entry) {
    uint64_t sequence = entry->location.sequence;
    size_t at = first_of(opening, SEL_EXTENT_KIND_ROW, sequence);
    for (; is_of(opening, at, SEL_EXTENT_KIND_ROW, sequence); at++) {
        const struct sel_found *row = &opening->found[at];
        if (!sel_key_equal(&row->entry.key, &entry->key) || row->entry.tokens != entry->tokens ||
            memcmp(row->entry.ns, entry->ns, sizeof entry->ns) != 0)
            continue;
        entry->location.row = row->place;
        entry->location.row_blocks = row->blocks;
        entry->row_sequence = row->sequence;
        entry->row_replicated = row->replicated;
        entry->row_generation = generation_at(opening->lsm, row->place);
        return;
    }
    entry->has_row = false;
}

static int take_over(struct recovery *recovery, const struct sel_found *pages) {
    struct sel_opening *opening = recovery->opening;
    struct sel_lsm *lsm = opening->lsm;
    struct sel_record_entry entry = pages->entry;
    entry.pages_replicated = pages->replicated;
    entry.location =
        (struct sel_location){.sequence = pages->sequence, .pages = pages->place, .pages_blocks = pages->blocks};
    entry.pages_generation = generation_at(lsm, pages->place);
    if (entry.has_row)
        attach_row(opening, &entry);
    int rc = sel_open_show(opening, &entry, pages->page_keys);
    if (rc == SELENE_E_NOMEM)
        return rc;
    if (rc) {
        lsm->stats.refused_records++;
        return 0;
    }
    lsm->stats.recovered_records++;
    return put_record(recovery, &entry, pages->page_keys);
}

static int take_over_all(struct recovery *recovery) {
    struct sel_opening *opening = recovery->opening;
    struct sel_lsm *lsm = opening->lsm;
    int rc = 0;
    for (size_t i = 0; i < lsm->drop_records.count && !rc; i++)
        rc = add(recovery, SEL_CATALOG_DELETE, lsm->drop_records.items[i], 0, NULL);
    if (!rc)
        rc = flush(recovery);
    lsm->drop_records.count = rc ? lsm->drop_records.count : 0;
    uint64_t before = 0;
    for (size_t i = 0; i < opening->found_count && !rc; i++) {
        const struct sel_found *found = &opening->found[i];
        if (found->kind != SEL_EXTENT_KIND_PAGES)
            break;
        if (found->dropped || found->sequence == before)
            continue;
        before = found->sequence;
        rc = take_over(recovery, found);
    }
    return rc ? rc : flush(recovery);
}

/* A damaged head and nothing behind it: the making of a segment that was cut off. */
static int judge_damaged(struct sel_segment *segment) {
    bool any = true;
    int rc = segment->file >= 0 ? sel_scan_for_headers(segment, &any) : 0;
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

int sel_open_recover(struct sel_opening *opening) {
    struct sel_catalog *catalog = opening->lsm->config.catalog;
    struct recovery recovery = {.opening = opening};
    int rc = scan_all(opening);
    if (rc || opening->found_count == 0)
        return rc;
    qsort(opening->found, opening->found_count, sizeof *opening->found, by_sequence);
    rc = catalog->ops->iterate(catalog, SEL_CATALOG_RECORDS, drop_copies, opening);
    recovery.changes = malloc(CHANGES_MAX * sizeof *recovery.changes);
    recovery.values = malloc((size_t)CHANGES_MAX * SEL_CATALOG_VALUE);
    if (recovery.changes == NULL || recovery.values == NULL)
        rc = SELENE_E_NOMEM;
    if (!rc)
        rc = take_over_all(&recovery);
    free(recovery.changes);
    free(recovery.values);
    return rc;
}
