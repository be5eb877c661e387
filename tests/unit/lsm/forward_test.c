/* SPDX-License-Identifier: Apache-2.0
 *
 * Copy forward [D5]: where holes cannot be punched, when files become too many, and what it does with damaged extents.
 */
#include "tests/lib/lsm_rig.h"
#include "tests/lib/test.h"

static const uint64_t planes[] = {5000, 300, 0};

#define RECORDS 700

static struct rig_record records[RECORDS];
static bool gone[RECORDS];

static struct sel_disk *wrap(struct rig *rig, struct sel_disk *disk) {
    struct sel_disk *out;
    assert_ok(sel_disk_fault_create(&out, disk, &rig->ready));
    return out;
}

static void on_moved(struct rig *rig, uint64_t id, const struct sel_location *to) {
    (void)rig;
    records[id - 1].location = *to;
    gone[id - 1] = to->sequence == 0;
    records[id - 1].has_row = to->row != 0;
}

/* Records of 5 pages, 84 KiB, and rows of 28 KiB, in small segments; then all but every `keep`-th are removed. */
static void create(struct rig *rig, bool fallocate, uint64_t segment_bytes, size_t count, size_t keep) {
    rig_create(rig, RIG_SIM, "forward", planes, 2, 20000);
    sel_disk_sim_destroy(&rig->sim);
    assert_ok(sel_disk_sim_create(&rig->sim, &(struct sel_disk_sim_config){.seed = 1, .no_fallocate = !fallocate},
                                  &rig->clock));
    rig->config.segment_bytes = segment_bytes;
    rig->config.durability = SEL_LSM_STRICT;
    rig->on_moved = on_moved;
    rig->wrap = wrap;
    memset(gone, 0, sizeof gone);
    rig_open(rig);
    for (size_t i = 0; i < count; i++) {
        records[i] = (struct rig_record){.id = i + 1, .tokens = 70, .has_row = i % 5 == 0};
        assert_ok(rig_write(rig, &records[i], NULL));
    }
    for (size_t i = 0; i < count; i++)
        if (i % keep) {
            assert_ok(rig_remove(rig, &records[i].location));
            gone[i] = true;
        }
}

static void run(struct rig *rig) {
    for (int i = 0; i < 4000; i++)
        rig_turn(rig, 5 * SEL_NS_PER_MS);
    rig_check(rig);
}

static void check_all(struct rig *rig, size_t count) {
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        if (gone[i])
            continue;
        left++;
        assert_ok(rig_read(rig, &records[i], &records[i].location, SEL_LSM_PAGES));
        if (records[i].has_row)
            assert_ok(rig_read(rig, &records[i], &records[i].location, SEL_LSM_ROW));
    }
    rig_abort(rig);
    rig_open(rig);
    assert_int_equal(rig->seen_count, left);
    rig_verify_seen(rig);
    for (size_t i = 0; i < count; i++)
        assert_true(gone[i] == (rig_find_seen(rig, i + 1) == NULL));
    rig_close(rig);
    rig_destroy(rig);
}

static void test_no_punch(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, false, 1 << 20, 60, 10);
    uint64_t live = rig_stats(&rig).live_bytes;
    run(&rig);
    struct sel_lsm_stats stats = rig_stats(&rig);
    assert_true(rig.moved >= 3);
    assert_true(stats.copied_forward_bytes > 0);
    assert_int_equal(stats.live_bytes, live); /* the same records, elsewhere */
    assert_int_equal(stats.dropped_records, 0);
    check_all(&rig, 60);
}

static void test_many_files(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, true, 640 << 10, RECORDS, 7); /* one in seven stays in each segment */
    uint64_t before = rig_stats(&rig).segments;
    run(&rig);
    struct sel_lsm_stats stats = rig_stats(&rig);
    assert_true(before > 80);
    assert_true(stats.segments < before && stats.segments <= 70);
    assert_true(rig.moved > 20);
    check_all(&rig, RECORDS);
}

/* What the records that are left take. */
static uint64_t bytes_of_all(size_t count) {
    uint64_t blocks = 0;
    for (size_t i = 0; i < count; i++)
        if (!gone[i])
            blocks +=
                (uint64_t)records[i].location.pages_blocks + (records[i].has_row ? records[i].location.row_blocks : 0);
    return blocks * SEL_BLOCK_BYTES;
}

struct failing {
    struct rig *rig;
    unsigned failed;
};
/* Fails the first transaction after the damage was found. */
static int fail_once(void *context, enum sel_catalog_sim_step step, const struct sel_catalog_change *changes,
                     size_t count) {
    struct failing *failing = context;
    (void)changes, (void)count;
    if (step != SEL_CATALOG_SIM_BEFORE || failing->failed || rig_stats(failing->rig).dropped_records == 0)
        return 0;
    failing->failed++;
    return SELENE_E_IO;
}

/* A damaged copy is dropped and told of; the others go on [R4]. Where the transaction fails that was to forget it, the
 * next one does: nobody else would ask for it again. */
static void damaged(uint64_t corrupt_at, uint64_t countdown, bool fails) {
    struct rig rig;
    struct failing failing = {&rig, 0};
    create(&rig, false, 1 << 20, 60, 10);
    if (fails)
        sel_catalog_sim_set_hook(rig.catalog_sim, fail_once, &failing);
    struct sel_disk_fault fault = {.action = SEL_DISK_FAULT_CORRUPT,
                                   .kinds = 1u << SEL_DISK_READ,
                                   .names = "seg-*",
                                   .countdown = countdown,
                                   .corrupt_at = corrupt_at};
    sel_disk_fault_arm(rig.disk, &fault);
    run(&rig);
    sel_disk_fault_clear(rig.disk);
    assert_int_equal(fault.hits, 1);
    unsigned lost = 0;
    for (size_t i = 0; i < 60; i += 10)
        lost += gone[i] || !records[i].has_row;
    assert_int_equal(lost, 1);
    assert_int_equal(failing.failed, fails);
    assert_int_equal(rig_stats(&rig).dropped_records, 1);
    assert_int_equal(rig_stats(&rig).live_bytes, bytes_of_all(60));
    assert_true(fails || rig.moved >= 3);
    sel_catalog_sim_set_hook(rig.catalog_sim, NULL, NULL);
    check_all(&rig, 60);
}

static void test_damaged(void **state) {
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        damaged(100, 1, fails);  /* a header */
        damaged(4000, 2, fails); /* data */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_punch),
        cmocka_unit_test(test_many_files),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests_name("lsm copy forward", tests, NULL, NULL);
}
