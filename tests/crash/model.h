/* SPDX-License-Identifier: Apache-2.0
 *
 * What a crash test knows of the records it wrote: their fields, every byte of them, and how far each one got. A record
 * is found again by its time_s, which is its number; a key that is written again after its removal is another record.
 */
#ifndef SEL_TESTS_CRASH_MODEL_H
#define SEL_TESTS_CRASH_MODEL_H

#include "base/random.h"
#include "lsm/lsm.h"

#define MODEL_RECORDS     256
#define MODEL_PAGE_TOKENS 4
#define MODEL_RANKS       2
#define MODEL_TIME_S      1000
#define MODEL_ROWS        6

enum model_state {
    MODEL_BEGUN,     /* no header can be on the disk */
    MODEL_FINISHED,  /* finish was called: the record may be on the disk */
    MODEL_COMMITTED, /* reported */
    MODEL_REMOVING,  /* remove was called */
    MODEL_REMOVED,   /* reported */
    MODEL_FAILED,    /* reported */
    MODEL_ABANDONED
};
enum model_row_state {
    MODEL_ROW_NONE,     /* never one */
    MODEL_ROW_BEGUN,    /* no header can be on the disk; abandoned, too */
    MODEL_ROW_FINISHED, /* finish was called: it may be on the disk */
    MODEL_ROW_THERE,    /* reported; of a record's first row: as the record */
    MODEL_ROW_REMOVING,
    MODEL_ROW_REMOVED,
    MODEL_ROW_FAILED
};

struct model_part {
    uint8_t *bytes;
    size_t count;
    uint64_t *sums;
    size_t sum_count;
};

/* A record's row gives way to none, and is written again [T2, T5]; each time it has bytes of its own here, and may be
 * packed or not [K3]. */
struct model_row {
    enum model_row_state state;
    bool replicated, written; /* its commit was reported, whatever came then */
    struct model_part part;
};

struct model_record {
    uint32_t number;
    uint64_t key_id;
    struct model_record *parent;
    struct sel_lsm_record fields;
    struct sel_key keys[8];
    enum model_state state;
    struct sel_location location; /* from COMMITTED on */
    unsigned children;            /* begun, finished, committed or being removed */
    unsigned readers;
    struct model_part part[2]; /* pages, and the latest row's */
    struct model_row rows[MODEL_ROWS];
    uint32_t row_count;
};

struct model {
    struct sel_layout *layout;
    struct model_record records[MODEL_RECORDS];
    uint32_t count;
};

/* With rows: 6000 bytes per rank. */
void model_create(struct model *model);
void model_destroy(struct model *model);

struct model_spec {
    uint64_t key_id; /* 0: a new one */
    struct model_record *parent;
    uint32_t tokens;
    bool has_row, pages_replicated, row_replicated;
};
/* NULL: the model is full. */
struct model_record *model_add(struct model *model, const struct model_spec *spec);
/* Another row for the record: NULL when it had many. drop: forgets the latest again. */
struct model_row *model_add_row(struct model *model, struct model_record *record, bool replicated);
void model_drop_row(struct model_record *record);
enum model_row_state model_row(const struct model_record *record); /* of the latest */
/* The one that is THERE, or NULL: not the latest where a removal failed and the next row with it. */
struct model_row *model_current(struct model_record *record);
/* Forgets the records from `count` on. */
void model_cut(struct model *model, uint32_t count);

struct sel_key model_key(uint64_t key_id, uint32_t salt);
/* The record that the visitor tells of, or NULL when its fields are not exactly those of one (has_row may be missing). */
struct model_record *model_identify(struct model *model, const struct sel_lsm_record *fields);

/* Compares a part as it was read; padding is nobody's [I2]. */
bool model_same_bytes(const struct model *model, const struct model_part *part, int kind, const uint8_t *bytes);

#endif
