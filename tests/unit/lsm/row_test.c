/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that are given up and brought back [T2, T5, T6], packed and per rank by turns [K3]: what can come between, and
 * what a crash leaves.
 */
#include "lsm/lsm_priv.h"
#include "tests/lib/lsm_rig_row.h"
#include "tests/lib/test.h"

static const uint64_t planes[] = {5000, 300, 0};

static struct rig_record *on_moved_record;
static void on_moved(struct rig *rig, uint64_t id, const struct sel_location *to) {
    (void)rig;
    if (on_moved_record && on_moved_record->id == id)
        on_moved_record->location = *to;
}

static struct sel_disk *wrap(struct rig *rig, struct sel_disk *disk) {
    struct sel_disk *out;
    assert_ok(sel_disk_fault_create(&out, disk, &rig->ready));
    return out;
}

static void create(struct rig *rig) {
    rig_create(rig, RIG_SIM, "row", planes, 2, 20000);
    rig->config.segment_bytes = 256 << 10;
    rig->flush = true;
    rig->wrap = wrap;
    rig->on_moved = on_moved;
    on_moved_record = NULL;
    rig_open(rig);
}

static void destroy(struct rig *rig) {
    rig_check(rig);
    rig_close(rig);
    rig_destroy(rig);
}

/* Bytes, accounts, and the same again after a clean stop, a crash and a rebuild. */
static void check_record(struct rig *rig, struct rig_record *record, bool crash, bool lose) {
    rig_check(rig);
    assert_ok(rig_read(rig, record, &record->location, SEL_LSM_PAGES));
    if (record->has_row)
        assert_ok(rig_read(rig, record, &record->location, SEL_LSM_ROW));
    else
        assert_int_equal(rig_read(rig, record, &record->location, SEL_LSM_ROW), SELENE_E_GONE);
    uint64_t live = rig_stats(rig).live_bytes;
    if (crash)
        rig_abort(rig);
    else
        rig_close(rig);
    if (lose)
        rig_lose_catalog(rig);
    rig_open(rig);
    const struct rig_seen *seen = rig_find_seen(rig, record->id);
    assert_non_null(seen);
    if (record->has_row) {
        assert_true(seen->record.has_row);
        assert_int_equal(seen->record.row_replicated, record->row_replicated);
    } else
        assert_false(seen->record.has_row && !lose);
    assert_int_equal(seen->record.pages_replicated, record->pages_replicated);
    if (!lose || record->has_row)
        assert_int_equal(rig_stats(rig).live_bytes, live); /* never two rows charged, never none */
    rig_verify_seen(rig);
    record->location = seen->location;
}

/* Thin, bring back, thin again, bring back packed: through clean stops, crashes and rebuilds [T2, T5, K3]. */
static void test_back_and_forth(void **state) {
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        struct rig rig;
        create(&rig);
        struct rig_record record = {.id = 1, .tokens = 70, .has_row = variant % 2, .pages_replicated = variant > 1};
        assert_ok(rig_write(&rig, &record, NULL));
        uint64_t bare = record.location.row_blocks;
        for (int i = 0; i < 6; i++) {
            if (record.has_row)
                rig_thin(&rig, &record);
            check_record(&rig, &record, i % 2, false);
            record.row_replicated = i % 2;
            assert_ok(rig_row_write(&rig, &record));
            assert_true(record.location.row != 0);
            assert_true(bare == 0 || record.row_replicated || record.location.row_blocks == bare);
            check_record(&rig, &record, i % 3 == 0, i % 3 == 2);
        }
        assert_int_equal(rig_stats(&rig).records, 1);
        destroy(&rig);
    }
}

/* What begin refuses, and that an abandoned one leaves room for the next [T5]. */
static void test_begin(void **state) {
    (void)state;
    struct rig rig;
    struct rig_row row, second;
    create(&rig);
    struct rig_record record = {.id = 1, .tokens = 70, .has_row = true}, other = {.id = 2, .tokens = 70};
    assert_ok(rig_write(&rig, &record, NULL));
    assert_ok(rig_write(&rig, &other, NULL));
    assert_int_equal(rig_row_begin(&rig, &record, &row), SELENE_E_GONE); /* it has one */
    struct sel_location nowhere = {.sequence = 9, .pages = record.location.pages + 1, .pages_blocks = 1000};
    struct rig_record ghost = {.id = 3, .tokens = 70, .location = nowhere};
    assert_int_equal(rig_row_begin(&rig, &ghost, &row), SELENE_E_GONE);
    rig_thin(&rig, &record);
    struct sel_lsm_record bare = {.has_row = false};
    struct sel_lsm_write *none;
    assert_int_equal(sel_lsm_write_row_begin(rig.lsm, rig.layout, &bare, &record.location, &none), SELENE_E_INVALID);
    rig_row_begin_soon(&rig, &record, &row);
    assert_int_equal(rig_row_begin(&rig, &record, &second), SELENE_E_RETRY); /* one at a time */
    sel_lsm_write_abandon(&row.write);
    assert_ok(rig_row_write(&rig, &record));
    assert_int_equal(rig_row_begin(&rig, &record, &second), SELENE_E_GONE);
    check_record(&rig, &record, true, false);
    /* The record is on its way out. */
    struct rig_removal removal = {.result = 1};
    sel_op_init(&removal.op, rig_removed);
    sel_lsm_remove(rig.lsm, &rig_find_seen(&rig, 2)->location, &removal.op);
    other.location = rig_find_seen(&rig, 2)->location;
    assert_int_equal(rig_row_begin(&rig, &other, &row), SELENE_E_GONE);
    sel_lsm_flush(rig.lsm);
    rig_until(&rig, &removal.result, 1);
    assert_int_equal(rig_row_begin(&rig, &other, &row), SELENE_E_GONE);
    destroy(&rig);
}

/* A removal of the row that is on its way comes first, in one transaction or an earlier one; the new row stays. */
static void test_after_removal(void **state) {
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        struct rig rig;
        struct rig_row row;
        struct rig_removal removal, many[40];
        struct rig_record others[40];
        create(&rig);
        struct rig_record record = {.id = 1, .tokens = 70, .has_row = true};
        assert_ok(rig_write(&rig, &record, NULL));
        for (uint64_t i = 0; i < SEL_COUNT(others) && !alone; i++) {
            others[i] = (struct rig_record){.id = 10 + i, .tokens = 10};
            assert_ok(rig_write(&rig, &others[i], NULL));
        }
        uint64_t live = rig_stats(&rig).live_bytes, transactions = rig_stats(&rig).transactions;
        for (size_t i = 0; i < SEL_COUNT(others) && !alone; i++) { /* more than one transaction takes */
            live -= (uint64_t)others[i].location.pages_blocks * SEL_DISK_BLOCK;
            sel_op_init(&many[i].op, rig_removed);
            sel_lsm_remove(rig.lsm, &others[i].location, &many[i].op);
        }
        struct sel_location old = record.location;
        rig_thin_start(&rig, &record, &removal);
        rig_row_start(&rig, &record, &row);
        while (row.write->state != SEL_WRITE_JOINED)
            rig_turn(&rig, 0);
        if (!alone)
            rig.lsm->config.limit_bytes = 1; /* no room for the catalogue to grow: 32 removals at a time */
        sel_lsm_flush(rig.lsm);
        while (row.result == 1) { /* its owner hears of the removal first */
            if (sel_ready_run(&rig.ready, 1) == 0) {
                sel_lsm_poll(rig.lsm);
                sel_clock_manual_advance(&rig.clock, SEL_NS_PER_MS / 10);
            }
            assert_true(row.result == 1 || removal.result == 0);
        }
        assert_ok(rig_row_end(&row));
        rig.lsm->config.limit_bytes = 0;
        assert_int_equal(rig_stats(&rig).transactions - transactions, alone ? 1 : 2);
        assert_int_equal(rig_stats(&rig).live_bytes, live);
        assert_true(old.row != record.location.row);
        check_record(&rig, &record, false, false);
        destroy(&rig);
    }
}

/* If the removal of the row fails, the row is as it was, and the one that was to take its place is not written [T6]. */
static void test_removal_fails(void **state) {
    (void)state;
    struct rig rig;
    struct rig_row row;
    struct rig_removal removal;
    create(&rig);
    struct rig_record record = {.id = 1, .tokens = 70, .has_row = true};
    assert_ok(rig_write(&rig, &record, NULL));
    sel_catalog_sim_fail(rig.catalog_sim, 1, 0, SELENE_E_IO);
    rig_thin_start(&rig, &record, &removal);
    rig_row_begin_soon(&rig, &record, &row);
    rig_row_data(&row);
    sel_lsm_flush(rig.lsm);
    rig_until(&rig, &removal.result, 1);
    assert_int_equal(removal.result, SELENE_E_IO);
    rig_row_finish(&row);
    assert_int_equal(rig_row_end(&row), SELENE_E_GONE);
    check_record(&rig, &record, true, false);
    destroy(&rig);
}

/* A removal that comes after begin: what is not in its transaction yet fails, and nothing of it is left [T5]. */
static void test_removed_meanwhile(void **state) {
    (void)state;
    for (int variant = 0; variant < 6; variant++) {
        struct rig rig;
        struct rig_row row;
        struct rig_removal removal = {.result = 1};
        bool whole = variant % 2;
        create(&rig);
        struct rig_record record = {.id = 1, .tokens = 70}, other = {.id = 2, .tokens = 70};
        assert_ok(rig_write(&rig, &other, NULL));
        uint64_t live = rig_stats(&rig).live_bytes;
        assert_ok(rig_write(&rig, &record, NULL));
        if (!whole)
            live = rig_stats(&rig).live_bytes;
        rig_row_begin_soon(&rig, &record, &row);
        rig_row_data(&row);
        if (variant >= 2)
            rig_row_finish(&row);
        if (variant >= 4) { /* its transaction is under way */
            sel_lsm_flush(rig.lsm);
            for (int i = 0; row.write->state != SEL_WRITE_COMMITTING || !rig.lsm->commit.changes; i++) {
                assert_true(i < 1000 && row.result == 1);
                sel_ready_run(&rig.ready, 1);
                sel_lsm_poll(rig.lsm);
                sel_clock_manual_advance(&rig.clock, SEL_NS_PER_MS);
            }
        }
        if (whole) {
            sel_op_init(&removal.op, rig_removed);
            sel_lsm_remove(rig.lsm, &record.location, &removal.op);
        } else
            rig_thin_start(&rig, &record, &removal);
        if (variant < 2)
            rig_row_finish(&row);
        assert_int_equal(rig_row_end(&row), variant >= 4 ? 0 : SELENE_E_GONE);
        sel_lsm_flush(rig.lsm);
        rig_until(&rig, &removal.result, 1);
        assert_ok(removal.result);
        rig_check(&rig);
        assert_int_equal(rig_stats(&rig).live_bytes, live);
        rig_abort(&rig);
        rig_open(&rig);
        assert_int_equal(rig.seen_count, whole ? 1 : 2);
        assert_true(whole || !rig_find_seen(&rig, 1)->record.has_row);
        assert_int_equal(rig_stats(&rig).live_bytes, live);
        destroy(&rig);
    }
}

/* A write that fails: its segment is not used any more, the next goes elsewhere [P4]. */
static void test_failed_write(void **state) {
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        struct rig rig;
        struct rig_row row;
        create(&rig);
        struct rig_record first = {.id = 2, .tokens = 70, .has_row = true}, record = {.id = 1, .tokens = 70};
        assert_ok(rig_write(&rig, &first, NULL)); /* so that a row segment is there */
        assert_ok(rig_write(&rig, &record, NULL));
        struct sel_disk_fault fault = {
            .kinds = 1u << (sync ? SEL_DISK_SYNC : SEL_DISK_WRITE), .names = "seg-*", .countdown = 1};
        rig_row_begin_soon(&rig, &record, &row);
        uint32_t segment = row.write->part[SEL_LSM_ROW].segment->id;
        sel_disk_fault_arm(rig.disk, &fault);
        rig_row_data(&row);
        rig_row_finish(&row);
        sel_lsm_flush(rig.lsm);
        assert_int_equal(rig_row_end(&row), SELENE_E_IO);
        sel_disk_fault_clear(rig.disk);
        assert_int_equal(fault.hits, 1);
        rig_row_start(&rig, &record, &row);
        assert_int_not_equal(row.write->part[SEL_LSM_ROW].segment->id, segment);
        sel_lsm_flush(rig.lsm);
        assert_ok(rig_row_end(&row));
        check_record(&rig, &record, true, sync);
        destroy(&rig);
    }
}

/* The transaction fails: no row, and a second try [T6]. */
static void test_failed_transaction(void **state) {
    (void)state;
    struct rig rig;
    create(&rig);
    struct rig_record record = {.id = 1, .tokens = 70};
    assert_ok(rig_write(&rig, &record, NULL));
    uint64_t live = rig_stats(&rig).live_bytes;
    sel_catalog_sim_fail(rig.catalog_sim, 1, 0, SELENE_E_IO);
    assert_int_equal(rig_row_write(&rig, &record), SELENE_E_IO);
    assert_int_equal(rig_stats(&rig).live_bytes, live);
    record.has_row = false;
    assert_int_equal(rig_read(&rig, &record, &record.location, SEL_LSM_ROW), SELENE_E_GONE);
    record.row_replicated = true; /* the first may be whole on the disk: the second is newer */
    assert_ok(rig_row_write(&rig, &record));
    check_record(&rig, &record, true, true);
    destroy(&rig);
}

/* Whole on the disk and not committed: found in the tail and taken, though its pages lie in a segment that is sealed
 * for long. A torn one is not [D7]. Ended by a crash, or by closing, which commits it. */
static void test_in_flight(void **state) {
    (void)state;
    for (int variant = 0; variant < 3; variant++) {
        struct rig rig;
        struct rig_row row;
        create(&rig);
        struct rig_record record = {.id = 1, .tokens = 70, .has_row = true};
        assert_ok(rig_write(&rig, &record, NULL));
        rig_thin(&rig, &record);
        uint64_t live = rig_stats(&rig).live_bytes;
        rig_close(&rig);
        rig_open(&rig);
        assert_int_equal(rig_find_seen(&rig, 1)->record.has_row, false);
        struct rig_record later = {.id = 2, .tokens = 70, .has_row = true};
        assert_ok(rig_write(&rig, &later, NULL));
        live += (uint64_t)(later.location.pages_blocks + later.location.row_blocks) * SEL_DISK_BLOCK;
        record.row_replicated = true;
        rig_row_begin_soon(&rig, &record, &row);
        uint64_t row_bytes = row.write->part[SEL_LSM_ROW].header_bytes + row.write->part[SEL_LSM_ROW].data_bytes;
        rig_row_data(&row);
        if (variant == 2)
            ((uint8_t *)row.iov.iov_base)[17] ^= 1; /* does not agree with its checksum */
        rig_row_finish(&row);
        while (row.data_op.in_flight)
            rig_turn(&rig, 0);
        assert_int_equal(row.result, 1);
        if (variant == 0)
            rig_close(&rig);
        else
            rig_abort(&rig);
        assert_int_equal(row.result, variant == 0 ? 0 : SELENE_E_CLOSED);
        free(row.iov.iov_base);
        free(row.sums);
        rig_open(&rig);
        const struct rig_seen *seen = rig_find_seen(&rig, 1);
        assert_int_equal(seen->record.has_row, variant != 2);
        assert_int_equal(rig_stats(&rig).live_bytes, live + (variant == 2 ? 0 : row_bytes));
        rig_verify_seen(&rig);
        record.has_row = seen->record.has_row;
        record.location = seen->location;
        check_record(&rig, &record, true, false); /* the catalogue has it now, too */
        destroy(&rig);
    }
}

/* A removed row lies whole behind the mark, since an earlier extent is not decided: it stays removed, and the row that
 * was written after it is the one that is found [T2, T5]. Without a catalogue the newest counts. */
static void test_removed_row_in_tail(void **state) {
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        struct rig rig;
        struct rig_row hole, row;
        bool again = variant % 2, lose = variant / 2;
        create(&rig);
        struct rig_record record = {.id = 1, .tokens = 70}, other = {.id = 2, .tokens = 70};
        assert_ok(rig_write(&rig, &other, NULL));
        assert_ok(rig_write(&rig, &record, NULL));
        rig_row_begin_soon(&rig, &other, &hole); /* keeps the mark where it is */
        assert_ok(rig_row_write(&rig, &record));
        rig_thin(&rig, &record);
        uint64_t live = rig_stats(&rig).live_bytes;
        if (again) {
            record.row_replicated = true;
            rig_row_start(&rig, &record, &row);
            while (row.data_op.in_flight)
                rig_turn(&rig, 0);
            for (int i = 0; row.write->ios && i < 100; i++)
                rig_turn(&rig, 0);
            assert_int_equal(row.result, 1);
        }
        rig_abort(&rig);
        if (again) {
            free(row.iov.iov_base);
            free(row.sums);
        }
        if (lose)
            rig_lose_catalog(&rig);
        rig_open(&rig);
        const struct rig_seen *seen = rig_find_seen(&rig, 1);
        assert_int_equal(seen->record.has_row, again || lose);
        assert_int_equal(seen->record.row_replicated, again);
        if (!again && !lose)
            assert_int_equal(rig_stats(&rig).live_bytes, live);
        rig_verify_seen(&rig);
        destroy(&rig);
    }
}

/* A second row of the record while the catalogue still names the first, whose removal was to be in the same
 * transaction: one of them, and only one is charged. */
static void test_two_rows(void **state) {
    (void)state;
    struct rig rig;
    struct rig_row row;
    struct rig_removal removal;
    create(&rig);
    struct rig_record record = {.id = 1, .tokens = 70, .has_row = true};
    assert_ok(rig_write(&rig, &record, NULL));
    uint64_t live = rig_stats(&rig).live_bytes;
    rig_thin_start(&rig, &record, &removal);
    rig_row_start(&rig, &record, &row);
    while (row.data_op.in_flight)
        rig_turn(&rig, 0);
    rig_abort(&rig);
    assert_int_equal(removal.result, SELENE_E_CLOSED);
    free(row.iov.iov_base);
    free(row.sums);
    rig_open(&rig);
    assert_true(rig_find_seen(&rig, 1)->record.has_row);
    assert_int_equal(rig_stats(&rig).live_bytes, live);
    rig_verify_seen(&rig);
    destroy(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_back_and_forth),      cmocka_unit_test(test_begin),
        cmocka_unit_test(test_after_removal),       cmocka_unit_test(test_removal_fails),
        cmocka_unit_test(test_removed_meanwhile),   cmocka_unit_test(test_failed_write),
        cmocka_unit_test(test_failed_transaction),  cmocka_unit_test(test_in_flight),
        cmocka_unit_test(test_removed_row_in_tail), cmocka_unit_test(test_two_rows),
    };
    return cmocka_run_group_tests_name("lsm rows", tests, NULL, NULL);
}
