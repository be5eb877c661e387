/* SPDX-License-Identifier: Apache-2.0
 *
 * The actions of the crash test, see workload.h.
 */
#include "tests/crash/workload.h"

#include "tests/lib/test.h"

uint64_t load_below(struct workload *load, uint64_t bound) { return sel_random_below(&load->random, bound); }

/* ---- writing ---- */

static struct world_write *write_of(struct workload *load, const struct model_record *record) {
    for (int i = 0; i < WRITES; i++)
        if (load->used[i] && load->writes[i].record == record && load->writes[i].row == NULL)
            return &load->writes[i];
    return NULL;
}

static bool can_be_parent(struct workload *load, struct model_record *record) {
    if (record->fields.tokens > 100)
        return false;
    return record->state == MODEL_COMMITTED ||
           ((record->state == MODEL_BEGUN || record->state == MODEL_FINISHED) && write_of(load, record));
}

struct model_record *load_pick(struct workload *load, bool (*fits)(struct workload *, struct model_record *)) {
    struct model *model = &load->run->model;
    if (model->count == 0)
        return NULL;
    uint32_t first = (uint32_t)load_below(load, model->count);
    for (uint32_t i = 0; i < model->count; i++) {
        struct model_record *record = &model->records[(first + i) % model->count];
        if (fits(load, record))
            return record;
    }
    return NULL;
}

/* The key's newest record, its parent still there. */
static bool can_be_rewritten(struct workload *load, struct model_record *record) {
    if (record->state != MODEL_REMOVED || (record->parent && record->parent->state != MODEL_COMMITTED))
        return false;
    for (uint32_t i = record->number + 1; i < load->run->model.count; i++)
        if (load->run->model.records[i].key_id == record->key_id)
            return false;
    return true;
}

static void choose_record(struct workload *load, struct model_spec *spec) {
    const struct model_record *old = load_below(load, 5) ? NULL : load_pick(load, can_be_rewritten);
    *spec = (struct model_spec){.has_row = load_below(load, 2),
                                .pages_replicated = load_below(load, 4) == 0,
                                .row_replicated = load_below(load, 3) == 0};
    if (old) {
        spec->key_id = old->key_id;
        spec->parent = old->parent;
        spec->tokens = old->fields.tokens;
        load->rewritten++;
        return;
    }
    spec->parent = load_below(load, 4) ? load_pick(load, can_be_parent) : NULL;
    spec->tokens = (spec->parent ? spec->parent->fields.tokens : 0) + 1 + (uint32_t)load_below(load, 9);
}

static int free_slot(const struct workload *load) {
    int slot = 0;
    while (slot < WRITES && load->used[slot])
        slot++;
    return slot;
}

static void begin_failed(struct workload *load, int rc) {
    WORLD_CHECK(rc == SELENE_E_RETRY || rc == SELENE_E_NOSPACE || rc == SELENE_E_PARENT ||
                    (rc == SELENE_E_DEGRADED && (load->sync_faults || load->index_faults)),
                "begin: %s", sel_error_name(rc));
    struct model_record *victim = rc == SELENE_E_NOSPACE ? load_pick(load, load_can_be_removed) : NULL;
    load->full += rc == SELENE_E_NOSPACE;
    if (victim)
        load_start_removal(load, victim, false);
}

void load_start_write(struct workload *load) {
    struct cut_run *run = load->run;
    struct model_spec spec;
    int slot = free_slot(load);
    if (slot == WRITES)
        return;
    choose_record(load, &spec);
    uint32_t before = run->model.count;
    struct model_record *record = before + 8 < MODEL_RECORDS ? model_add(&run->model, &spec) : NULL;
    if (record == NULL)
        return;
    const struct world_write *parent = spec.parent ? write_of(load, spec.parent) : NULL;
    int rc = write_begin(&load->writes[slot], &run->world, record, parent ? parent->write : NULL);
    if (rc == 0) {
        load->used[slot] = true;
        return;
    }
    model_cut(&run->model, before);
    begin_failed(load, rc);
}

/* A row for a record that has none, or whose row is on its way out [T5]. */
static bool can_get_row(struct workload *load, struct model_record *record) {
    for (int i = 0; i < WRITES; i++)
        if (load->used[i] && load->writes[i].record == record)
            return false;
    return record->state == MODEL_COMMITTED && !model_current(record) && record->row_count < MODEL_ROWS;
}

void load_start_row(struct workload *load) {
    struct cut_run *run = load->run;
    int slot = free_slot(load);
    struct model_record *record = slot < WRITES ? load_pick(load, can_get_row) : NULL;
    if (record == NULL)
        return;
    model_add_row(&run->model, record, load_below(load, 2));
    int rc = write_begin_row(&load->writes[slot], &run->world, record, &record->location);
    load->used[slot] = rc == 0;
    load->rows_written += rc == 0;
    if (rc == 0)
        return;
    model_drop_row(record);
    begin_failed(load, rc);
}

static void end_write(struct workload *load, int slot) {
    struct world_write *write = &load->writes[slot];
    load->used[slot] = false;
    WORLD_CHECK(write->result == 0 || write->result == (write->row ? SELENE_E_GONE : SELENE_E_PARENT) ||
                    (write->result == SELENE_E_IO && (load->sync_faults || load->index_faults)),
                "finish: %s", sel_error_name(write->result));
    if (write->row && write->result == SELENE_E_GONE)
        WORLD_CHECK(write->record->state != MODEL_COMMITTED || model_row(write->record) == MODEL_ROW_REMOVING ||
                        model_row(write->record) == MODEL_ROW_REMOVED || load->index_faults,
                    "record %u: gone, they say", write->record->number);
    sel_lsm_write_free(&write->write);
}

static void abandon(struct workload *load, int slot) {
    struct world_write *write = &load->writes[slot];
    if (write->row == NULL) {
        write->record->state = MODEL_ABANDONED;
        if (write->record->parent)
            write->record->parent->children--;
    }
    load->used[slot] = false;
    load->abandoned++;
    sel_lsm_write_abandon(&write->write);
}

void load_advance_write(struct workload *load, int slot) {
    struct world_write *write = &load->writes[slot];
    if (!load->used[slot])
        return;
    if (write->finished) {
        if (!write_busy(write))
            end_write(load, slot);
    } else if (!write_busy(write) && load_below(load, 20) == 0) {
        abandon(load, slot);
    } else if (write->sent < write->pieces) {
        write_send(write);
    } else {
        write_finish(write);
    }
}

/* ---- removing ---- */

bool load_can_be_removed(struct workload *load, struct model_record *record) {
    return record->state == MODEL_COMMITTED && !write_of(load, record) &&
           (record->children == 0 || (load->inner && load_below(load, 3) == 0));
}

/* One removal at a time: of the row that is there, or of one that is being written. */
bool load_row_can_be_removed(struct workload *load, struct model_record *record) {
    enum model_row_state row = model_row(record);
    for (uint32_t i = 0; i < record->row_count; i++)
        if (record->rows[i].state == MODEL_ROW_REMOVING)
            return false;
    return record->state == MODEL_COMMITTED && !write_of(load, record) &&
           (model_current(record) ||
            ((row == MODEL_ROW_BEGUN || row == MODEL_ROW_FINISHED) && load_below(load, 4) == 0));
}

static void removal_done(struct sel_op *op) {
    struct removal *removal = SEL_CONTAINER(op, struct removal, op);
    struct model_record *record = removal->record;
    WORLD_CHECK(op->result == 0 || (op->result == SELENE_E_IO && removal->may_fail), "remove: %s",
                sel_error_name(op->result));
    removal->busy = false;
    if (removal->row_only) {
        removal->row->state = op->result == 0         ? MODEL_ROW_REMOVED
                              : removal->row->written ? MODEL_ROW_THERE
                                                      : MODEL_ROW_FAILED; /* [T6] */
        if (op->result == 0 && !model_current(record))
            record->location.row = record->location.row_blocks = 0;
        return;
    }
    if (op->result) {
        record->state = MODEL_COMMITTED;
        return;
    }
    record->state = MODEL_REMOVED;
    if (record->parent)
        record->parent->children--;
}

void load_start_removal(struct workload *load, struct model_record *record, bool row_only) {
    struct removal *removal = &load->removals[load->removal_count++];
    SEL_CHECK(load->removal_count < SEL_COUNT(load->removals));
    *removal = (struct removal){.record = record, .row_only = row_only, .busy = true, .may_fail = load->index_faults};
    sel_op_init(&removal->op, removal_done);
    if (!row_only) {
        record->state = MODEL_REMOVING;
        load->removed++;
        sel_lsm_remove(load->run->world.lsm, &record->location, &removal->op);
        return;
    }
    removal->row = model_current(record) ? model_current(record) : &record->rows[record->row_count - 1];
    removal->row->state = MODEL_ROW_REMOVING;
    load->rows_removed++;
    struct sel_lsm_record rest = record->fields;
    rest.has_row = rest.row_replicated = false;
    sel_lsm_remove_row(load->run->world.lsm, &rest, &record->location, &removal->op);
}

/* ---- readers that are held while other things happen ---- */

static bool can_be_read(struct workload *load, struct model_record *record) {
    (void)load;
    return record->state == MODEL_COMMITTED;
}

static void read_done(struct sel_op *op) {
    WORLD_CHECK(op->result == 0, "reading a committed record: %s", sel_error_name(op->result));
}

static void release_reader(const struct model *model, struct held_reader *held) {
    WORLD_CHECK(model_same_bytes(model, &held->want, held->part, held->iov.iov_base), "record %u, part %d: wrong bytes",
                held->record->number, held->part);
    sel_lsm_reader_close(&held->reader);
    free(held->iov.iov_base);
    held->record = NULL;
}

void load_turn_reader(struct workload *load, struct held_reader *held) {
    if (held->record) {
        if (!held->op.in_flight)
            release_reader(&load->run->model, held);
        return;
    }
    held->record = load_pick(load, can_be_read);
    if (held->record == NULL)
        return;
    const struct model_row *row = model_current(held->record);
    struct sel_lsm_record fields = held->record->fields;
    held->part = row && load_below(load, 2) ? SEL_LSM_ROW : SEL_LSM_PAGES;
    held->want = held->part == SEL_LSM_ROW ? row->part : held->record->part[0];
    fields.row_replicated = row && row->replicated;
    held->iov.iov_len = held->want.count;
    held->iov.iov_base = aligned_alloc(4096, held->iov.iov_len);
    assert_non_null(held->iov.iov_base);
    sel_op_init(&held->op, read_done);
    sel_lsm_reader_open(load->run->world.lsm, load->run->model.layout, &fields, &held->record->location,
                        (enum sel_lsm_part)held->part, &held->iov, 1, &held->reader, &held->op);
}
