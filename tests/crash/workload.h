/* SPDX-License-Identifier: Apache-2.0
 *
 * What the crash test does to a store, action by action: writes in pieces, new rows, removals, readers that are held.
 */
#ifndef SEL_TESTS_CRASH_WORKLOAD_H
#define SEL_TESTS_CRASH_WORKLOAD_H

#include "tests/crash/cut.h"

#define WRITES  5
#define READERS 2

struct held_reader {
    struct model_record *record;
    struct sel_lsm_reader *reader;
    struct sel_op op;
    struct iovec iov;
    int part;
    struct model_part want; /* the record's row may be another one when the reader is closed */
};

struct removal {
    struct sel_op op;
    struct model_record *record;
    struct model_row *row;
    bool row_only, busy, may_fail;
};

struct workload {
    struct cut_run *run;
    struct sel_random random;
    struct world_write writes[WRITES];
    bool used[WRITES];
    struct held_reader readers[READERS];
    struct removal removals[MODEL_RECORDS * 2];
    size_t removal_count;
    bool shrinking;
    bool sync_faults;  /* now and then a sync fails, and what it should have made durable may be lost */
    bool index_faults; /* ... or a transaction */
    bool inner;        /* inner records are removed, too, as damaged ones are, and may be written again [R4] */
    uint64_t full, rewritten, abandoned, rows_removed, rows_written, removed, reopened;
    struct sel_lsm_stats stats; /* summed over openings */
};

uint64_t load_below(struct workload *load, uint64_t bound);
/* A random record that fits, or NULL. */
struct model_record *load_pick(struct workload *load, bool (*fits)(struct workload *, struct model_record *));
void load_start_write(struct workload *load); /* of a record; of a row for one that has none */
void load_start_row(struct workload *load);
void load_advance_write(struct workload *load, int slot); /* the next piece, finish, end; or given up */
bool load_can_be_removed(struct workload *load, struct model_record *record);
bool load_row_can_be_removed(struct workload *load, struct model_record *record);
void load_start_removal(struct workload *load, struct model_record *record, bool row_only);
void load_turn_reader(struct workload *load, struct held_reader *held); /* opens, or compares and closes */

#endif
