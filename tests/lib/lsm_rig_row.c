/* SPDX-License-Identifier: Apache-2.0
 *
 * Giving up and writing again a record's row; see lsm_rig_row.h.
 */
#include "tests/lib/lsm_rig_row.h"

#include "tests/lib/test.h"

static void nothing(struct sel_op *op) { (void)op; }

static void row_done(struct sel_op *op) {
    struct rig_row *row = SEL_CONTAINER(op, struct rig_row, done_op);
    row->result = op->result;
    if (op->result == 0)
        row->record->location = sel_lsm_write_location(row->write);
}

int rig_row_begin(struct rig *rig, struct rig_record *record, struct rig_row *row) {
    struct sel_lsm_record full;
    struct sel_key *keys;
    *row = (struct rig_row){.rig = rig, .record = record, .result = 1};
    record->has_row = true;
    rig_fill(rig, record, &full, &keys);
    int rc = sel_lsm_write_row_begin(rig->lsm, rig->layout, &full, &record->location, &row->write);
    assert_true((rc == 0) == (row->write != NULL));
    free(keys);
    return rc;
}

/* Again and again while a segment is being made. */
void rig_row_begin_soon(struct rig *rig, struct rig_record *record, struct rig_row *row) {
    int rc;
    for (int i = 0; (rc = rig_row_begin(rig, record, row)) == SELENE_E_RETRY && i < 1000; i++)
        rig_turn(rig, SEL_NS_PER_MS);
    assert_ok(rc);
}

void rig_row_data(struct rig_row *row) {
    row->iov.iov_base = rig_make_part(row->rig, row->record, true, &row->sums);
    row->iov.iov_len = (uint64_t)row->rig->layout->row_slots * row->rig->layout->share_bytes *
                       (row->record->row_replicated ? 1 : row->rig->layout->desc.rank_count);
    sel_op_init(&row->data_op, nothing);
    sel_lsm_write_data(row->write, SEL_LSM_ROW, 0, &row->iov, 1, &row->data_op);
}

void rig_row_finish(struct rig_row *row) {
    sel_op_init(&row->done_op, row_done);
    sel_lsm_write_finish(row->write, NULL, row->sums, &row->done_op);
}

static void row_free(struct rig_row *row) {
    sel_lsm_write_free(&row->write);
    free(row->iov.iov_base);
    free(row->sums);
    row->sums = row->iov.iov_base = NULL;
}

int rig_row_end(struct rig_row *row) {
    rig_until(row->rig, &row->result, 1);
    while (row->data_op.in_flight)
        rig_turn(row->rig, 0);
    row_free(row);
    return row->result;
}

void rig_row_start(struct rig *rig, struct rig_record *record, struct rig_row *row) {
    rig_row_begin_soon(rig, record, row);
    rig_row_data(row);
    rig_row_finish(row);
}

int rig_row_write(struct rig *rig, struct rig_record *record) {
    struct rig_row row;
    rig_row_start(rig, record, &row);
    sel_lsm_flush(rig->lsm);
    return rig_row_end(&row);
}

void rig_removed(struct sel_op *op) { SEL_CONTAINER(op, struct rig_removal, op)->result = op->result; }

void rig_thin_start(struct rig *rig, const struct rig_record *record, struct rig_removal *removal) {
    struct rig_record rest = *record;
    struct sel_lsm_record full;
    struct sel_key *keys;
    rest.has_row = rest.row_replicated = false;
    rig_fill(rig, &rest, &full, &keys);
    removal->result = 1;
    sel_op_init(&removal->op, rig_removed);
    sel_lsm_remove_row(rig->lsm, &full, &record->location, &removal->op);
    free(keys);
}

void rig_thinned(struct rig_record *record) {
    record->has_row = false;
    record->location.row = record->location.row_blocks = 0;
}

void rig_thin(struct rig *rig, struct rig_record *record) {
    struct rig_removal removal;
    rig_thin_start(rig, record, &removal);
    sel_lsm_flush(rig->lsm);
    rig_until(rig, &removal.result, 1);
    assert_ok(removal.result);
    rig_thinned(record);
}
