/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that are written while the record's pages are being carried to another segment [T5, D5]: at whatever moment the
 * one begins, the other ends up right.
 */
#include "lsm/forward.h"
#include "tests/lib/lsm_rig_row.h"
#include "tests/lib/test.h"

static const uint64_t planes[] = {5000, 300, 0};

#define RECORDS 12 /* of 52 KiB: nine fill a segment */
#define FIRST   0  /* they stay in the first segment, thinned */
#define SECOND  3

static struct rig_record records[RECORDS];

static void on_moved(struct rig *rig, uint64_t id, const struct sel_location *to) {
    (void)rig;
    records[id - 1].location = *to;
}

static struct sel_disk *wrap(struct rig *rig, struct sel_disk *disk) {
    struct sel_disk *out;
    assert_ok(sel_disk_fault_create(&out, disk, &rig->ready));
    return out;
}

static void create(struct rig *rig) {
    rig_create(rig, RIG_SIM, "rows", planes, 2, 20000);
    sel_disk_sim_destroy(&rig->sim);
    assert_ok(
        sel_disk_sim_create(&rig->sim, &(struct sel_disk_sim_config){.seed = 1, .no_fallocate = true}, &rig->clock));
    rig->config.segment_bytes = 512 << 10;
    rig->on_moved = on_moved;
    rig->flush = true;
    rig->wrap = wrap;
    rig_open(rig);
    for (uint64_t i = 0; i < RECORDS; i++) {
        records[i] = (struct rig_record){.id = i + 1, .tokens = 40, .has_row = i == FIRST || i == SECOND};
        assert_ok(rig_write(rig, &records[i], NULL));
    }
    assert_int_equal(records[FIRST].location.pages >> 32, records[SECOND].location.pages >> 32);
    assert_int_not_equal(records[RECORDS - 1].location.pages >> 32, records[SECOND].location.pages >> 32);
    rig_thin(rig, &records[FIRST]);
    rig_thin(rig, &records[SECOND]);
}

/* The first segment becomes one that is mostly dead. */
static void remove_others(struct rig *rig) {
    uint64_t segment = records[FIRST].location.pages >> 32;
    for (int i = 0; i < RECORDS; i++)
        if (i != FIRST && i != SECOND && records[i].location.pages >> 32 == segment)
            sel_lsm_remove(rig->lsm, &records[i].location, NULL);
    sel_lsm_flush(rig->lsm);
}

/* One step at a time. */
static void step(struct rig *rig) {
    sel_ready_run(&rig->ready, 1);
    sel_lsm_poll(rig->lsm);
    sel_clock_manual_advance(&rig->clock, SEL_NS_PER_MS / 10);
}

static void run(struct rig *rig, int turns) {
    for (int i = 0; i < turns; i++)
        rig_turn(rig, 5 * SEL_NS_PER_MS);
    rig_check(rig);
}

static void check_all(struct rig *rig, uint64_t segment) {
    uint64_t live = 0;
    run(rig, 4000);
    for (int i = 0; i < 2; i++) {
        struct rig_record *record = &records[i ? SECOND : FIRST];
        assert_int_not_equal(record->location.pages >> 32, segment); /* moved in the end */
        assert_ok(rig_read(rig, record, &record->location, SEL_LSM_PAGES));
        if (record->has_row)
            assert_ok(rig_read(rig, record, &record->location, SEL_LSM_ROW));
        live += (uint64_t)(record->location.pages_blocks + record->location.row_blocks) * SEL_DISK_BLOCK;
    }
    for (int i = SECOND + 1; i < RECORDS; i++)
        if (records[i].location.pages >> 32 != segment)
            live += (uint64_t)records[i].location.pages_blocks * SEL_DISK_BLOCK;
    assert_int_equal(rig_stats(rig).live_bytes, live);
    assert_int_equal(rig_stats(rig).dropped_records, 0);
    rig_abort(rig);
    rig_open(rig);
    assert_int_equal(rig_stats(rig).live_bytes, live);
    assert_int_equal(rig_find_seen(rig, FIRST + 1)->record.has_row, records[FIRST].has_row);
    assert_int_equal(rig_find_seen(rig, SECOND + 1)->record.has_row, records[SECOND].has_row);
    rig_verify_seen(rig);
    rig_close(rig);
    rig_destroy(rig);
}

static bool copying(const struct rig *rig) {
    const struct sel_forward *forward = rig->lsm->forward;
    return forward && forward->move && forward->move->entry.location.sequence == records[FIRST].location.sequence;
}

static bool joined(const struct rig *rig, uint8_t state) {
    const struct sel_forward *forward = rig->lsm->forward;
    if (forward == NULL || forward->listing)
        return false;
    SEL_LIST_FOR_EACH(at, (struct sel_list *)&forward->moves) {
        const struct sel_move *move = SEL_LIST_ENTRY(at, struct sel_move, link);
        if (move->entry.location.sequence == records[FIRST].location.sequence && move->write->state == state)
            return state != SEL_WRITE_COMMITTING || rig->lsm->commit.changes;
    }
    return false;
}

/* Begun before the copy could begin: the record is left alone until the row is there. */
static void test_before(void **state) {
    (void)state;
    struct rig rig;
    struct rig_row row;
    create(&rig);
    struct sel_location at = records[FIRST].location;
    rig_row_begin_soon(&rig, &records[FIRST], &row);
    remove_others(&rig);
    run(&rig, 4000);
    assert_int_equal(records[FIRST].location.pages, at.pages);
    assert_int_not_equal(records[SECOND].location.pages >> 32, at.pages >> 32); /* the other went */
    rig_row_data(&row);
    rig_row_finish(&row);
    sel_lsm_flush(rig.lsm);
    assert_ok(rig_row_end(&row));
    check_all(&rig, at.pages >> 32);
}

static bool is_time(const struct rig *rig, int when) {
    if (when < 2)
        return copying(rig) && (when == 0 || rig->lsm->forward->step >= SEL_COPY_WRITE);
    return joined(rig, when == 2 ? SEL_WRITE_JOINED : SEL_WRITE_COMMITTING);
}

/* Begun while the copy is being read and written, waits in the group, or is in the transaction under way. */
static void test_meanwhile(void **state) {
    (void)state;
    for (int when = 0; when < 4; when++) {
        struct rig rig;
        struct rig_row row;
        create(&rig);
        struct sel_location at = records[FIRST].location;
        remove_others(&rig);
        for (int i = 0; !is_time(&rig, when); i++) {
            assert_true(i < 100000);
            if (sel_ready_run(&rig.ready, 1) == 0)
                step(&rig);
        }
        assert_ok(rig_row_begin(&rig, &records[FIRST], &row));
        assert_int_equal(records[FIRST].location.pages, at.pages);
        rig_row_data(&row);
        rig_row_finish(&row);
        sel_lsm_flush(rig.lsm);
        assert_ok(rig_row_end(&row));
        assert_int_equal(records[FIRST].location.pages != at.pages, when == 3);
        check_all(&rig, at.pages >> 32);
    }
}

/* Begun and committed when the record was listed to be copied and is not yet: the listing knows nothing of the row. */
static void test_listed(void **state) {
    (void)state;
    struct rig rig;
    create(&rig);
    uint64_t segment = records[FIRST].location.pages >> 32;
    remove_others(&rig);
    while (!copying(&rig))
        step(&rig);
    struct sel_disk_fault fault = {
        .action = SEL_DISK_FAULT_HOLD, .kinds = 1u << SEL_DISK_READ, .countdown = 1, .repeat = UINT64_MAX};
    sel_disk_fault_arm(rig.disk, &fault);
    assert_ok(rig_row_write(&rig, &records[SECOND]));
    assert_int_equal(records[SECOND].location.pages >> 32, segment);
    assert_true(copying(&rig));
    sel_disk_fault_release(rig.disk);
    sel_disk_fault_clear(rig.disk);
    check_all(&rig, segment);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_before), cmocka_unit_test(test_meanwhile),
                                       cmocka_unit_test(test_listed)};
    return cmocka_run_group_tests_name("lsm rows and copy forward", tests, NULL, NULL);
}
