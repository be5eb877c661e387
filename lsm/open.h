/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that open a store share: load.c (directory and catalogue), scan.c and verify.c (extents that the
 * catalogue does not know), merge.c and recover.c (which of them are records), open.c (the order of it all).
 */
#ifndef SEL_LSM_OPEN_H
#define SEL_LSM_OPEN_H

#include "lsm/verify.h"

/* A whole extent that the catalogue does not know. */
struct sel_found {
    uint64_t sequence, pages_sequence;
    uint64_t place; /* packed */
    uint32_t blocks;
    uint8_t kind;
    bool replicated;
    bool dropped;                  /* another copy, or another record of the key, counts */
    bool accepted;                 /* by the visitor: `entry` is whole and goes into the catalogue */
    struct sel_record_entry entry; /* all but the location */
    struct sel_key *page_keys;
};

/* After a clean stop only the last one. */
enum sel_open_pass {
    SEL_OPEN_MARK,      /* mark them live, for the scan passes live blocks by */
    SEL_OPEN_SUPERSEDE, /* drop what was found under the same key and written earlier */
    SEL_OPEN_SHOW       /* show them to the visitor */
};

struct sel_opening {
    struct sel_lsm *lsm;
    struct selene_message *message;
    struct sel_u64s ids;
    bool probe_left;
    bool has_meta;
    struct sel_meta_entry meta;
    bool has_store_id;
    /* the record being gathered from the catalogue */
    bool gathering;
    uint64_t bad_key;
    struct sel_record_entry entry;
    struct sel_key *keys;
    uint32_t key_capacity, keys_gathered;
    uint64_t torn_bytes_read; /* by the scan of the segment at hand */
    /* what the scan found */
    struct sel_found *found;
    size_t found_count, found_capacity;
    struct sel_found **newest; /* the latest pages extent of each key, by key */
    size_t newest_count;
    size_t next_found;                /* the first one not shown or passed by */
    struct sel_record_entry *changed; /* of the catalogue, that lie elsewhere now */
    size_t changed_count, changed_capacity;
    struct sel_late *late; /* whose parent was not there when they were shown */
    size_t late_count, late_capacity;
    uint8_t pass;                /* enum sel_open_pass: what a walk over the catalogue's records is for */
    struct sel_window window[2]; /* verify.c's, made when first needed */
};

int sel_open_meta(struct sel_opening *opening);
int sel_open_segments(struct sel_opening *opening);
/* What the catalogue says of segments. */
int sel_open_marks(struct sel_opening *opening);
int sel_open_records(struct sel_opening *opening);
int sel_open_show(struct sel_opening *opening, const struct sel_record_entry *entry, const struct sel_key *keys);
bool sel_open_place_fits(const struct sel_lsm *lsm, const struct sel_record_entry *entry, uint8_t kind);
void sel_open_set_live(struct sel_lsm *lsm, const struct sel_location *at);
int sel_open_file(struct sel_segment *segment);
void sel_open_close_file(struct sel_segment *segment);

/* Reads [indexed_bytes, end) of a segment for extents of its generation. Errors of the device end that segment's scan,
 * not the opening. SELENE_E_NOMEM. */
int sel_scan_segment(struct sel_opening *opening, struct sel_segment *segment);
/* Whether a damaged segment holds headers of extents of its own. */
int sel_scan_for_headers(struct sel_segment *segment, bool *any);
/* Verifies all checksums of an extent's data. 0, SELENE_E_CORRUPT, SELENE_E_IO, SELENE_E_NOMEM. Blocking. */
int sel_verify_extent(struct sel_opening *opening, struct sel_segment *segment, const struct sel_extent *extent);
/* Scans what must be scanned. */
int sel_open_scan(struct sel_opening *opening);
/* Commits what the visitor accepted of it. */
int sel_open_recover(struct sel_opening *opening);

/* merge.c: sorts what was found and chooses the latest of each key; drops what an entry of the catalogue
 * supersedes; shows what was found with a lower sequence; shows a
 * record of the catalogue, wherever it lies now (SELENE_E_GONE: nowhere, or it was superseded). */
int sel_merge_prepare(struct sel_opening *opening);
void sel_merge_supersede(struct sel_opening *opening, const struct sel_record_entry *entry);
/* Was a record with its key found? */
bool sel_merge_was_found(const struct sel_opening *opening, const struct sel_record_entry *entry);
int sel_merge_until(struct sel_opening *opening, uint64_t sequence);
int sel_merge_show(struct sel_opening *opening, struct sel_record_entry *entry, const struct sel_key *keys);
/* Its blocks are still nobody's; without those of its row it goes on without that. */
bool sel_merge_still_fits(const struct sel_opening *opening, struct sel_record_entry *entry);
int sel_merge_keep_changed(struct sel_opening *opening, const struct sel_record_entry *entry);

/* late.c: keeps one that was refused for want of its parent (found: not in the catalogue); shows them all again. */
int sel_late_keep(struct sel_opening *opening, const struct sel_record_entry *entry, const struct sel_key *keys,
                  struct sel_found *found, bool changed);
int sel_late_show(struct sel_opening *opening);
void sel_late_free(struct sel_opening *opening);

#endif
