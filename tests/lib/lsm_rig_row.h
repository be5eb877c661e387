/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the rig's records that are given up and written again [T2, T5].
 */
#ifndef SEL_TESTS_LSM_RIG_ROW_H
#define SEL_TESTS_LSM_RIG_ROW_H

#include "tests/lib/lsm_rig.h"

/* A row being written for a record that is there. */
struct rig_row {
    struct rig *rig;
    struct rig_record *record;
    struct sel_lsm_write *write;
    struct sel_op data_op, done_op;
    struct iovec iov;
    uint64_t *sums;
    int result; /* 1: not known yet */
};

/* What begin answers; begin_soon tries again while that is RETRY. The record then has a row. */
int rig_row_begin(struct rig *rig, struct rig_record *record, struct rig_row *row);
void rig_row_begin_soon(struct rig *rig, struct rig_record *record, struct rig_row *row);
void rig_row_data(struct rig_row *row);
void rig_row_finish(struct rig_row *row);
void rig_row_start(struct rig *rig, struct rig_record *record, struct rig_row *row); /* all three */
int rig_row_end(struct rig_row *row); /* waits, frees; the record's location is the new one */
int rig_row_write(struct rig *rig, struct rig_record *record);

struct rig_removal {
    struct sel_op op;
    int result;
};
void rig_removed(struct sel_op *op);
void rig_thin_start(struct rig *rig, const struct rig_record *record, struct rig_removal *removal);
void rig_thinned(struct rig_record *record); /* it has no row now */
void rig_thin(struct rig *rig, struct rig_record *record);

#endif
