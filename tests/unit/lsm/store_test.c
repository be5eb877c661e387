/* SPDX-License-Identifier: Apache-2.0
 *
 * The record store as a user sees it, on all three disks: write, commit, read, remove, reopen.
 */
#include "tests/lib/lsm_rig.h"
#include "tests/lib/test.h"

static const uint64_t planes[] = {5000, 5000, 300, 0};

#define RECORDS 40

/* A forest: every third record is a root, the others are children of the one before. */
static struct rig_record record_number(uint64_t i) {
    struct rig_record record = {.id = i + 1, .tokens = 40 + (uint32_t)i, .has_row = i % 2 == 0};
    if (i % 3) {
        record.parent = i;
        record.parent_tokens = 40 + (uint32_t)i - 1;
        record.tokens += 100;
    } else if (i % 4 == 0)
        record.pages_replicated = true;
    if (i % 3 == 2)
        record.parent_tokens += 100;
    record.row_replicated = record.has_row && i % 5 == 0;
    return record;
}

static void write_all(struct rig *rig, struct rig_record *records) {
    for (uint64_t i = 0; i < RECORDS; i++) {
        records[i] = record_number(i);
        int rc;
        struct sel_lsm_write *parent = records[i].parent && i ? records[i - 1].write : NULL;
        while ((rc = rig_start(rig, &records[i], parent)) == SELENE_E_RETRY) {
            rig_turn(rig, 0);
            parent = records[i].parent && i ? records[i - 1].write : NULL;
        }
        assert_ok(rc);
    }
    for (uint64_t i = 0; i < RECORDS; i++)
        assert_ok(rig_wait(rig, &records[i]));
}

static void read_all(struct rig *rig, const struct rig_record *records) {
    for (uint64_t i = 0; i < RECORDS; i++) {
        assert_ok(rig_read(rig, &records[i], &records[i].location, SEL_LSM_PAGES));
        if (records[i].has_row)
            assert_ok(rig_read(rig, &records[i], &records[i].location, SEL_LSM_ROW));
    }
}

static void store_round_trip(enum rig_disk kind, enum sel_lsm_durability durability) {
    struct rig rig;
    struct rig_record records[RECORDS];
    rig_create(&rig, kind, "store", planes, 2, 20000);
    rig.config.durability = durability;
    rig.config.segment_bytes = 1 << 20;
    rig.config.group_ns = 50 * SEL_NS_PER_MS; /* turns move the clock by a millisecond */
    rig_open(&rig);
    write_all(&rig, records);
    rig_check(&rig);
    read_all(&rig, records);
    assert_int_equal(rig_stats(&rig).records, RECORDS);
    rig_close(&rig);

    rig_open(&rig);
    assert_int_equal(rig.seen_count, RECORDS);
    assert_int_equal(rig_stats(&rig).records, RECORDS);
    assert_int_equal(rig_stats(&rig).tail_bytes_read, 0); /* [D7] */
    assert_int_equal(rig_stats(&rig).recovered_records, 0);
    rig_verify_seen(&rig);
    for (size_t i = 0; i < RECORDS; i += 2)
        if (i % 3 == 2 || i == RECORDS - 1)
            assert_ok(rig_remove(&rig, &rig.seen[i].location));
    rig_check(&rig);
    uint64_t left = rig_stats(&rig).records;
    assert_true(left < RECORDS);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(rig.seen_count, left);
    rig_verify_seen(&rig);
    rig_close(&rig);
    rig_destroy(&rig);
}

static void test_sim(void **state) {
    (void)state;
    store_round_trip(RIG_SIM, SEL_LSM_RELAXED);
    store_round_trip(RIG_SIM, SEL_LSM_STRICT);
}

static void test_threads(void **state) {
    (void)state;
    store_round_trip(RIG_THREADS, SEL_LSM_RELAXED);
    store_round_trip(RIG_THREADS, SEL_LSM_STRICT);
}

static void test_real(void **state) {
    (void)state;
    store_round_trip(RIG_REAL, SEL_LSM_RELAXED);
    store_round_trip(RIG_REAL, SEL_LSM_STRICT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sim),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_real),
    };
    return cmocka_run_group_tests_name("lsm store", tests, NULL, NULL);
}
