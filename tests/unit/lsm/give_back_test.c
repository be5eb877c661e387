/* SPDX-License-Identifier: Apache-2.0
 *
 * Giving space back when something fails: rows whose holes cannot be punched [T6], segments that hold what was given up
 * [D5].
 */
#include "lsm/lsm_priv.h"
#include "tests/lib/lsm_rig_row.h"
#include "tests/lib/test.h"

static const uint64_t planes[] = {5000, 300, 0};

static struct sel_disk *wrap(struct rig *rig, struct sel_disk *disk) {
    struct sel_disk *out;
    assert_ok(sel_disk_fault_create(&out, disk, &rig->ready));
    return out;
}

static void create(struct rig *rig) {
    rig_create(rig, RIG_SIM, "back", planes, 2, 20000);
    rig->config.segment_bytes = 256 << 10;
    rig->flush = true;
    rig->wrap = wrap;
    rig_open(rig);
}

static void destroy(struct rig *rig) {
    rig_check(rig);
    rig_close(rig);
    rig_destroy(rig);
}

static void turns(struct rig *rig, int count, uint64_t ns) {
    for (int i = 0; i < count; i++)
        rig_turn(rig, ns);
}

/* Rows are given up and their holes cannot be punched: the rows are gone, their bytes stay charged as dead, and it is
 * tried again until it works. One segment's failure does not stop another's [T6, D9]. */
static void test_punch_fails(void **state) {
    (void)state;
    struct rig rig;
    struct rig_record records[12];
    create(&rig);
    for (uint64_t i = 0; i < SEL_COUNT(records); i++) { /* four rows fill a segment */
        records[i] = (struct rig_record){.id = 1 + i, .tokens = 70, .has_row = true};
        assert_ok(rig_write(&rig, &records[i], NULL));
    }
    turns(&rig, 20, SEL_NS_PER_MS);
    uint64_t row_bytes = (uint64_t)records[0].location.row_blocks * SEL_DISK_BLOCK;
    uint32_t first = (uint32_t)(records[0].location.row >> 32), second = (uint32_t)(records[4].location.row >> 32);
    assert_true(first != second && records[3].location.row >> 32 == first);
    struct sel_disk_fault fault = {
        .kinds = 1u << SEL_DISK_PUNCH, .names = sel_segment_find(rig.lsm, first)->name, .countdown = 1, .repeat = 5};
    sel_disk_fault_arm(rig.disk, &fault);
    struct sel_lsm_stats before = rig_stats(&rig);
    for (size_t i = 0; i < 8; i++)
        if (i % 4)
            rig_thin(&rig, &records[i]);
    struct sel_lsm_stats thin = rig_stats(&rig);
    assert_int_equal(thin.live_bytes, before.live_bytes - 6 * row_bytes);
    turns(&rig, 100, SEL_QUIET_NS / 50);
    assert_in_range(fault.hits, 1, 5);
    struct sel_lsm_stats failed = rig_stats(&rig);
    assert_int_equal(failed.punched_bytes, 3 * row_bytes); /* those of the other segment */
    assert_int_equal(failed.live_bytes, thin.live_bytes);
    assert_true(failed.dead_bytes >= 3 * row_bytes); /* charged */
    assert_true(failed.allocated_bytes + 3 * row_bytes <= before.allocated_bytes);
    for (size_t i = 0; i < SEL_COUNT(records); i++) {
        int rc = rig_read(&rig, &records[i], &records[i].location, SEL_LSM_ROW);
        assert_int_equal(rc, records[i].has_row ? 0 : SELENE_E_GONE);
        assert_ok(rig_read(&rig, &records[i], &records[i].location, SEL_LSM_PAGES));
    }
    rig_check(&rig);
    turns(&rig, 100, SEL_QUIET_NS / 10); /* tried again, until it works */
    assert_int_equal(fault.hits, 6);
    struct sel_lsm_stats after = rig_stats(&rig);
    assert_int_equal(after.punched_bytes, 6 * row_bytes);
    assert_true(after.allocated_bytes + 3 * row_bytes <= failed.allocated_bytes);
    assert_true(after.dead_bytes + 3 * row_bytes <= failed.dead_bytes);
    sel_disk_fault_clear(rig.disk);
    rig_check(&rig);
    rig_abort(&rig);
    rig_open(&rig);
    for (size_t i = 0; i < SEL_COUNT(records); i++)
        assert_int_equal(rig_find_seen(&rig, 1 + i)->record.has_row, records[i].has_row);
    rig_verify_seen(&rig);
    destroy(&rig);
}

/* A write failed with its transaction and may lie whole behind the segment's mark. As long as no transaction has carried
 * a mark behind it, and the next one fails, too, the segment is not recycled: while its new head is being made a power
 * cut would leave the old one, the old mark, and that record [D5]. Its name goes instead. */
static void test_given_up(void **state) {
    (void)state;
    for (int heal = 0; heal < 2; heal++) {
        struct rig rig;
        create(&rig);
        struct rig_record old = {.id = 1, .tokens = 16}, lost = {.id = 2, .tokens = 70},
                          large = {.id = 3, .tokens = 200}, last = {.id = 4, .tokens = 16};
        assert_ok(rig_write(&rig, &old, NULL));
        rig_close(&rig);
        rig_open(&rig); /* what is written now goes to another segment */
        sel_catalog_sim_fail(rig.catalog_sim, 1, heal ? 0 : 1, SELENE_E_IO);
        assert_int_equal(rig_write(&rig, &lost, NULL), SELENE_E_IO);
        struct sel_segment *segment = rig.lsm->lane[SEL_LSM_PAGES].open;
        uint32_t id = segment->id;
        assert_true(sel_list_linked(&segment->given_up_link));
        assert_int_equal(rig_remove(&rig, &old.location), heal ? 0 : SELENE_E_IO);
        assert_int_equal(sel_list_linked(&segment->given_up_link), !heal);
        /* Nothing is live in it, and a large record seals it. */
        int rc;
        while ((rc = rig_begin(&rig, &large, NULL)) == SELENE_E_RETRY)
            rig_turn(&rig, SEL_NS_PER_MS);
        assert_ok(rc);
        assert_true(large.write->part[0].segment->id != id);
        turns(&rig, 30, SEL_NS_PER_MS);
        segment = sel_segment_find(rig.lsm, id);
        assert_true(heal ? segment->state == SEL_SPARE : segment == NULL);
        sel_lsm_write_abandon(&large.write);
        assert_ok(rig_write(&rig, &last, NULL));
        rig_abort(&rig);
        rig_open(&rig);
        assert_int_equal(rig.seen_count, heal ? 1 : 2);
        assert_null(rig_find_seen(&rig, lost.id));
        destroy(&rig);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_punch_fails), cmocka_unit_test(test_given_up)};
    return cmocka_run_group_tests_name("lsm giving back", tests, NULL, NULL);
}
