/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening, first half: what is in the directory and what the catalogue says of it.
 *
 *   1. the store's own entry; 2. segment files: sizes and heads; 3. the catalogue's segments: which are the generation
 *   it knows, and how far they are indexed; 4. its records, in sequence order: each is checked against the segments and
 *   shown to the visitor, parents first; its blocks are live.
 *
 * An entry that is damaged, or points into a segment that is missing, too short, recycled or not readable, or at blocks
 * that another record has, is dropped and counted [D7, D8]. A record whose pages are fine and whose row is not goes on
 * without the row. No extent is read.
 */
#include "lsm/open.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "seg-%08x.sel", exactly as this store writes it. */
static bool parse_name(const char *name, uint32_t *id) {
    char again[24];
    unsigned value;
    if (strlen(name) != 16 || sscanf(name, "seg-%8x.sel", &value) != 1)
        return false;
    snprintf(again, sizeof again, "seg-%08x.sel", value);
    *id = value;
    return strcmp(again, name) == 0;
}

static int found_name(void *context, const char *name) {
    struct sel_opening *opening = context;
    uint32_t id;
    if (strcmp(name, "probe.tmp") == 0)
        opening->probe_left = true;
    return parse_name(name, &id) ? sel_u64s_push(&opening->ids, id) : 0;
}

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int meta_visit(void *context, uint64_t key, uint32_t part, const uint8_t value[SEL_CATALOG_VALUE]) {
    struct sel_opening *opening = context;
    if (key == 0 && part == 0 && sel_meta_entry_unpack(&opening->meta, value) == 0)
        opening->has_meta = true;
    return 0;
}

static void leave_alone(struct sel_segment *segment) {
    segment->state = SEL_LEFT;
    sel_list_add_tail(&segment->lsm->left, &segment->link);
    sel_segment_account(segment);
}

static int read_head(struct sel_segment *segment, uint8_t *block) {
    struct iovec iov = {.iov_base = block, .iov_len = SEL_DISK_BLOCK};
    struct sel_disk_io io = {.kind = SEL_DISK_READ, .file = segment->file, .iov = &iov, .iov_count = 1};
    return segment->bytes < SEL_DISK_BLOCK ? SELENE_E_CORRUPT : sel_lsm_run(segment->lsm, &io);
}

int sel_open_file(struct sel_segment *segment) {
    if (segment->file >= 0)
        return 0;
    struct sel_disk_io io = {.kind = SEL_DISK_OPEN, .flags = SEL_DISK_OPEN_WRITE, .name = segment->name};
    int rc = sel_lsm_run(segment->lsm, &io);
    if (!rc)
        sel_file_opened(segment, io.file);
    return rc;
}

void sel_open_close_file(struct sel_segment *segment) {
    struct sel_disk_io io = {.kind = SEL_DISK_CLOSE, .file = segment->file};
    if (segment->file < 0)
        return;
    sel_file_closed(segment);
    sel_lsm_run(segment->lsm, &io);
}

static int open_and_measure(struct sel_segment *segment) {
    struct sel_disk_io io;
    int rc = sel_open_file(segment);
    if (rc)
        return rc;
    io = (struct sel_disk_io){.kind = SEL_DISK_STAT, .file = segment->file};
    rc = sel_lsm_run(segment->lsm, &io);
    if (rc)
        return rc;
    segment->allocated = io.allocated_bytes;
    uint64_t blocks = io.size_bytes / SEL_DISK_BLOCK;
    segment->bytes = SEL_MIN(blocks, UINT32_MAX - 1) * SEL_DISK_BLOCK;
    return 0;
}

/* What the head says; E_VERSION and E_CORRUPT as sel_segment_head_unpack. */
static int judge_head(struct sel_opening *opening, struct sel_segment *segment, const uint8_t *block,
                      struct selene_message *message) {
    struct sel_segment_head head;
    int rc = sel_segment_head_unpack(&head, block, message);
    if (rc)
        return rc;
    if (head.segment_id != segment->id)
        return sel_fail(message, SELENE_E_CORRUPT, "the head is that of segment %08x", head.segment_id);
    if (!opening->has_store_id) {
        memcpy(opening->lsm->store_id, head.store_id, sizeof head.store_id);
        opening->has_store_id = true;
    }
    if (memcmp(head.store_id, opening->lsm->store_id, sizeof head.store_id) != 0)
        return sel_fail(message, SELENE_E_VERSION, "the head is that of another store");
    memcpy(segment->generation, head.generation, sizeof segment->generation);
    segment->kind = head.kind;
    return 0;
}

/* One file never keeps the others from being opened; only a lack of memory does. */
static int load_segment(struct sel_opening *opening, uint32_t id, uint8_t *block) {
    struct sel_lsm *lsm = opening->lsm;
    struct sel_segment *segment;
    struct selene_message message = {{0}};
    int rc = sel_segment_create(lsm, id, &segment);
    if (rc)
        return rc;
    rc = open_and_measure(segment);
    bool measured = rc == 0;
    uint64_t bytes = segment->bytes;
    int resized = sel_segment_resize(segment, bytes);
    if (resized)
        return resized;
    segment->end = segment->bytes;
    if (!rc)
        rc = read_head(segment, block);
    if (!rc)
        rc = judge_head(opening, segment, block, &message);
    if (rc == 0) {
        segment->state = SEL_SEALED;
        sel_list_add_tail(&lsm->sealed, &segment->link);
        return 0;
    }
    if (rc == SELENE_E_VERSION)
        lsm->stats.future_segments++;
    else
        lsm->stats.bad_segments++;
    segment->suspect = measured && rc != SELENE_E_VERSION; /* its head is damaged: looked at again later */
    sel_log_warning(lsm->config.log, "%s: left alone: %s", segment->name,
                    message.text[0] ? message.text : sel_error_text(rc));
    leave_alone(segment);
    return 0;
}

int sel_open_segments(struct sel_opening *opening) {
    struct sel_lsm *lsm = opening->lsm;
    int rc = lsm->config.disk->ops->list(lsm->config.disk, found_name, opening);
    uint8_t *block = sel_buffer_get(lsm, SEL_DISK_BLOCK);
    if (!rc && block == NULL)
        rc = SELENE_E_NOMEM;
    if (opening->ids.count)
        qsort(opening->ids.items, opening->ids.count, sizeof *opening->ids.items, by_number);
    for (size_t i = 0; i < opening->ids.count && !rc; i++) {
        uint32_t id = (uint32_t)opening->ids.items[i];
        rc = load_segment(opening, id, block);
        struct sel_segment *segment = sel_segment_find(lsm, id);
        /* A stray file must not use the numbers up: a high one that is left alone is only stepped over. */
        bool counts = id < UINT32_MAX / 2 || (segment && segment->state != SEL_LEFT);
        if (counts && id >= lsm->next_segment && id < UINT32_MAX)
            lsm->next_segment = id + 1;
        if (segment && lsm->file_count >= SEL_FILES_MAX / 2)
            sel_open_close_file(segment);
    }
    sel_buffer_put(lsm, &block);
    return rc;
}

static int segment_visit(void *context, uint64_t key, uint32_t part, const uint8_t value[SEL_CATALOG_VALUE]) {
    struct sel_opening *opening = context;
    struct sel_lsm *lsm = opening->lsm;
    struct sel_segment_entry entry;
    struct sel_segment *segment = key <= UINT32_MAX ? sel_segment_find(lsm, (uint32_t)key) : NULL;
    if (part != 0 || sel_segment_entry_unpack(&entry, key, value) || segment == NULL)
        return sel_u64s_push(&lsm->drop_segments, key);
    if (segment->state == SEL_LEFT && segment->suspect && segment->bytes > SEL_DISK_BLOCK) {
        /* A damaged head: the extents name their generation, too, and each is verified when it is read. */
        memcpy(segment->generation, entry.generation, sizeof segment->generation);
        segment->kind = entry.kind;
        segment->state = SEL_SEALED;
        sel_list_remove(&segment->link);
        sel_list_add_tail(&lsm->sealed, &segment->link);
    }
    if (segment->state != SEL_SEALED)
        return 0;
    segment->known = true;
    if (memcmp(entry.generation, segment->generation, sizeof entry.generation) != 0 || entry.kind != segment->kind)
        return 0;
    uint64_t mark = SEL_MIN(entry.indexed_bytes, segment->bytes) / SEL_DISK_BLOCK * SEL_DISK_BLOCK;
    segment->indexed_bytes = entry.sealed ? segment->bytes : mark;
    return 0;
}

/* ---- records ---- */

bool sel_open_place_fits(const struct sel_lsm *lsm, const struct sel_record_entry *entry, uint8_t kind) {
    bool row = kind == SEL_LSM_ROW;
    uint64_t place = row ? entry->location.row : entry->location.pages;
    struct sel_segment *segment = sel_segment_find(lsm, (uint32_t)(place >> 32));
    return segment && segment->state == SEL_SEALED && segment->kind == kind &&
           sel_generation_short(segment->generation) == (row ? entry->row_generation : entry->pages_generation) &&
           sel_segment_is_free(segment, (uint32_t)place,
                               row ? entry->location.row_blocks : entry->location.pages_blocks);
}

void sel_open_set_live(struct sel_lsm *lsm, const struct sel_location *at) {
    sel_segment_set_live(sel_segment_find(lsm, (uint32_t)(at->pages >> 32)), (uint32_t)at->pages, at->pages_blocks);
    if (at->row)
        sel_segment_set_live(sel_segment_find(lsm, (uint32_t)(at->row >> 32)), (uint32_t)at->row, at->row_blocks);
}

static void to_record(struct sel_lsm_record *record, const struct sel_record_entry *entry, const struct sel_key *keys) {
    *record = (struct sel_lsm_record){.page_tokens = entry->page_tokens,
                                      .tokens = entry->tokens,
                                      .parent_tokens = entry->parent_tokens,
                                      .key = entry->key,
                                      .parent_key = entry->parent_key,
                                      .base_key = entry->base_key,
                                      .page_keys = keys,
                                      .page_key_count = entry->page_key_count,
                                      .has_row = entry->has_row,
                                      .pages_replicated = entry->pages_replicated,
                                      .row_replicated = entry->row_replicated,
                                      .time_s = entry->time_s};
    memcpy(record->ns, entry->ns, sizeof record->ns);
}

/* Shows the record, whose places fit, to the visitor. 0: it is live now; what the visitor said: refused. */
int sel_open_show(struct sel_opening *opening, const struct sel_record_entry *entry, const struct sel_key *keys) {
    struct sel_lsm *lsm = opening->lsm;
    struct sel_lsm_record record;
    to_record(&record, entry, keys);
    int rc = lsm->visit ? lsm->visit(lsm->context, &record, &entry->location) : 0;
    if (rc)
        return rc;
    sel_open_set_live(lsm, &entry->location);
    lsm->stats.records++;
    return 0;
}

/* For the scan, which passes live blocks by. */
static void mark_live(struct sel_lsm *lsm, const struct sel_record_entry *entry) {
    struct sel_location at = entry->location;
    if (!sel_open_place_fits(lsm, entry, SEL_LSM_PAGES))
        return;
    if (!sel_open_place_fits(lsm, entry, SEL_LSM_ROW))
        at.row = 0;
    sel_open_set_live(lsm, &at);
}

/* The record gathered so far is complete, or the next one begins. */
static int gathered(struct sel_opening *opening) {
    struct sel_lsm *lsm = opening->lsm;
    struct sel_record_entry *entry = &opening->entry;
    if (!opening->gathering)
        return 0;
    opening->gathering = false;
    bool whole = opening->keys_gathered == entry->page_key_count;
    if (opening->pass != SEL_OPEN_SHOW) {
        if (whole && opening->pass == SEL_OPEN_MARK)
            mark_live(lsm, entry);
        else if (whole && sel_open_place_fits(lsm, entry, SEL_LSM_PAGES))
            sel_merge_supersede(opening, entry);
        return 0;
    }
    uint64_t sequence = entry->location.sequence;
    int rc = sel_merge_until(opening, sequence);
    if (!rc)
        rc = whole ? sel_merge_show(opening, entry, opening->keys) : SELENE_E_CORRUPT;
    if (!rc || rc == SELENE_E_NOMEM)
        return rc;
    lsm->stats.refused_records++;
    return sel_u64s_push(&lsm->drop_records, sequence);
}

/* The record is of no use: dropped from the catalogue, once. */
static int drop(struct sel_opening *opening, uint64_t key, bool count) {
    opening->bad_key = key;
    if (opening->pass != SEL_OPEN_SHOW)
        return 0;
    opening->lsm->stats.refused_records += count;
    return sel_u64s_push(&opening->lsm->drop_records, key);
}

/* Will its segment be searched? */
static bool is_searched(const struct sel_lsm *lsm, uint64_t place) {
    const struct sel_segment *segment = sel_segment_find(lsm, (uint32_t)(place >> 32));
    return segment && segment->state == SEL_SEALED && segment->indexed_bytes < segment->bytes;
}

/* The passes before the last one need few of the records. */
static bool wanted(const struct sel_opening *opening) {
    const struct sel_location *at = &opening->entry.location;
    if (opening->pass == SEL_OPEN_MARK)
        return is_searched(opening->lsm, at->pages) || (at->row && is_searched(opening->lsm, at->row));
    return opening->pass == SEL_OPEN_SHOW || sel_merge_was_found(opening, &opening->entry);
}

static int begin_record(struct sel_opening *opening, uint64_t key, const uint8_t *value) {
    struct sel_lsm *lsm = opening->lsm;
    int rc = gathered(opening);
    if (rc)
        return rc;
    if (key >= lsm->next_sequence && key < SEL_SEQUENCE_MAX) /* others are of no record */
        lsm->next_sequence = key + 1;
    if (sel_record_entry_unpack(&opening->entry, key, value))
        return drop(opening, key, true);
    if (opening->entry.row_sequence >= lsm->next_sequence)
        lsm->next_sequence = opening->entry.row_sequence + 1;
    opening->gathering = wanted(opening);
    if (!opening->gathering)
        opening->bad_key = key; /* its keys are passed by */
    opening->keys_gathered = 0;
    return 0;
}

static int record_visit(void *context, uint64_t key, uint32_t part, const uint8_t value[SEL_CATALOG_VALUE]) {
    struct sel_opening *opening = context;
    if (part == 0)
        return begin_record(opening, key, value);
    if (!opening->gathering || opening->entry.location.sequence != key) {
        /* Keys of a record that is not there. */
        return opening->bad_key == key ? 0 : drop(opening, key, false);
    }
    uint32_t total = opening->entry.page_key_count;
    uint64_t from = (uint64_t)(part - 1) * SEL_ENTRY_KEYS_EACH;
    if (from != opening->keys_gathered || from >= total)
        return 0; /* a gap, or more than it has: the count will not fit */
    uint32_t count = SEL_MIN(total - opening->keys_gathered, SEL_ENTRY_KEYS_EACH);
    if (opening->keys_gathered + count > opening->key_capacity) {
        uint32_t capacity = SEL_MAX(opening->key_capacity * 2, 64);
        struct sel_key *keys = realloc(opening->keys, capacity * sizeof *keys);
        if (keys == NULL)
            return SELENE_E_NOMEM;
        opening->keys = keys;
        opening->key_capacity = capacity;
    }
    if (sel_keys_entry_unpack(opening->keys + from, count, key, part, value) == 0)
        opening->keys_gathered += count;
    return 0;
}

int sel_open_meta(struct sel_opening *opening) {
    struct sel_lsm *lsm = opening->lsm;
    struct sel_catalog *catalog = lsm->config.catalog;
    int rc = catalog->ops->iterate(catalog, SEL_CATALOG_META, meta_visit, opening);
    if (rc || !opening->has_meta)
        return rc;
    memcpy(lsm->store_id, opening->meta.store_id, sizeof lsm->store_id);
    opening->has_store_id = true;
    lsm->next_sequence = SEL_MAX(lsm->next_sequence, opening->meta.next_sequence);
    lsm->next_segment = SEL_MAX(lsm->next_segment, opening->meta.next_segment);
    return 0;
}

int sel_open_marks(struct sel_opening *opening) {
    struct sel_catalog *catalog = opening->lsm->config.catalog;
    return catalog->ops->iterate(catalog, SEL_CATALOG_SEGMENTS, segment_visit, opening);
}

int sel_open_records(struct sel_opening *opening) {
    struct sel_catalog *catalog = opening->lsm->config.catalog;
    opening->bad_key = 0; /* no record's sequence */
    int rc = catalog->ops->iterate(catalog, SEL_CATALOG_RECORDS, record_visit, opening);
    if (!rc)
        rc = gathered(opening);
    if (!rc && opening->pass == SEL_OPEN_SHOW)
        rc = sel_merge_until(opening, UINT64_MAX);
    if (!rc && opening->pass == SEL_OPEN_SHOW)
        rc = sel_late_show(opening);
    return rc;
}
