/* SPDX-License-Identifier: Apache-2.0
 *
 * Edges of the record store that need a longer run-up: persistent faults of one kind only [D9], room that is promised and
 * does not come back [D5, D6], hostile bytes in segments and catalogue [D8].
 */
#include "lsm/lsm_priv.h"
#include "tests/lib/lsm_rig.h"
#include "tests/lib/test.h"

static const uint64_t planes[] = {5000, 0};

static struct sel_disk *wrap(struct rig *rig, struct sel_disk *disk) {
    struct sel_disk *out;
    assert_ok(sel_disk_fault_create(&out, disk, &rig->ready));
    return out;
}

static void turns(struct rig *rig, int count, uint64_t ns) {
    for (int i = 0; i < count; i++)
        rig_turn(rig, ns);
}

static void create(struct rig *rig) {
    rig_create(rig, RIG_SIM, "edge", planes, 2, 10000);
    rig->config.durability = SEL_LSM_STRICT;
    rig->config.segment_bytes = 1 << 20;
    rig->wrap = wrap;
}

static void create_open(struct rig *rig) {
    create(rig);
    rig_open(rig);
    struct rig_record first = {.id = 1, .tokens = 16, .has_row = true};
    assert_ok(rig_write(rig, &first, NULL));
    turns(rig, 50, SEL_NS_PER_MS);
}

static uint64_t ios(const struct rig *rig, enum sel_disk_kind kind) {
    struct sel_disk_sim_stats stats;
    sel_disk_sim_get_stats(rig->sim, &stats);
    return stats.ios[kind];
}

/* One kind of io fails for ever, and all others succeed in between: that is a failing disk, too [D9]. Segments are not
 * made and removed without end. */
static void test_one_kind_fails(void **state) {
    (void)state;
    static const uint8_t kinds[] = {SEL_DISK_SYNC, SEL_DISK_WRITE, SEL_DISK_ALLOCATE, SEL_DISK_SYNC_DIR};
    for (size_t i = 0; i < SEL_COUNT(kinds); i++) {
        struct rig rig;
        create(&rig);
        rig_open(&rig);
        struct sel_disk_fault fault = {.kinds = 1u << kinds[i], .names = "seg-*", .countdown = 1, .repeat = UINT64_MAX};
        if (kinds[i] == SEL_DISK_SYNC_DIR)
            fault.names = NULL;
        sel_disk_fault_arm(rig.disk, &fault);
        uint64_t opened = ios(&rig, SEL_DISK_OPEN);
        for (int n = 0; n < 300 && sel_lsm_state(rig.lsm) == SEL_LSM_OK; n++) {
            struct rig_record record = {.id = 2, .tokens = 20, .has_row = true};
            if (rig_start(&rig, &record, NULL) == 0)
                assert_true(rig_wait(&rig, &record) != 0);
            turns(&rig, 1, SEL_NS_PER_MS / 10);
        }
        assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_FAILING);
        assert_true(ios(&rig, SEL_DISK_OPEN) - opened < 12);
        sel_disk_fault_clear(rig.disk);
        turns(&rig, 40, 100 * SEL_NS_PER_MS);
        assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_OK);
        struct rig_record record = {.id = 3, .tokens = 20, .has_row = true};
        assert_ok(rig_write(&rig, &record, NULL));
        rig_check(&rig);
        rig_close(&rig);
        rig_destroy(&rig);
    }
}

/* So is one whose index alone cannot be written. */
static void test_index_fails(void **state) {
    (void)state;
    struct rig rig;
    create_open(&rig);
    sel_catalog_sim_fail(rig.catalog_sim, 1, 1000, SELENE_E_IO);
    for (uint64_t n = 0; n < 20 && sel_lsm_state(rig.lsm) == SEL_LSM_OK; n++) {
        struct rig_record record = {.id = 2 + n, .tokens = 20};
        int rc = rig_write(&rig, &record, NULL);
        assert_true(rc == SELENE_E_IO || rc == SELENE_E_DEGRADED);
    }
    assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_FAILING);
    sel_catalog_sim_fail(rig.catalog_sim, 0, 0, 0);
    turns(&rig, 40, 100 * SEL_NS_PER_MS);
    struct rig_record record = {.id = 50, .tokens = 20};
    assert_ok(rig_write(&rig, &record, NULL));
    rig_close(&rig);
    rig_destroy(&rig);
}

/* While the disk does not answer there is nothing to poll for: no busy loop [D9, fault 21]. */
static void test_stalled_sleeps(void **state) {
    (void)state;
    struct rig rig;
    create_open(&rig);
    struct sel_disk_fault fault = {.action = SEL_DISK_FAULT_HOLD, .kinds = 1u << SEL_DISK_WRITE, .countdown = 1};
    sel_disk_fault_arm(rig.disk, &fault);
    struct rig_record one = {.id = 2, .tokens = 20};
    assert_ok(rig_start(&rig, &one, NULL));
    turns(&rig, 40, SEL_NS_PER_SECOND);
    assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_STALLED);
    assert_true(sel_lsm_deadline_ns(rig.lsm) > rig.clock.mono);
    sel_disk_fault_clear(rig.disk);
    sel_disk_fault_release(rig.disk);
    assert_ok(rig_wait(&rig, &one));
    turns(&rig, 40, 100 * SEL_NS_PER_MS);
    assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_OK);
    rig_close(&rig);
    rig_destroy(&rig);
}

/* Writes and evicts, oldest first, as much as the store says is short: never stuck, never over the limit. */
static void churn(struct rig *rig, uint64_t writes, uint32_t tokens) {
    static struct sel_location live[1000];
    size_t first = 0, count = 0;
    for (uint64_t i = 0; i < writes; i++) {
        struct rig_record record = {.id = 100 + i, .tokens = tokens, .has_row = i % 3 == 0};
        int rc, tries = 0;
        while ((rc = rig_start(rig, &record, NULL)) != 0) {
            assert_true(rc == SELENE_E_RETRY || rc == SELENE_E_NOSPACE);
            assert_true(++tries < 3000);
            uint64_t shortage = rc == SELENE_E_NOSPACE ? sel_lsm_shortage(rig->lsm, 0) : 0;
            for (uint64_t removed = 0; removed < shortage && first < count; first++) {
                sel_lsm_remove(rig->lsm, &live[first], NULL);
                removed += (uint64_t)live[first].pages_blocks * 4096;
            }
            rig_turn(rig, 10 * SEL_NS_PER_MS);
        }
        assert_ok(rig_wait(rig, &record));
        live[count++] = record.location;
        uint64_t used = rig_directory_bytes(rig) + rig->catalog->ops->file_bytes(rig->catalog);
        assert_in_range(used, 1, rig->config.limit_bytes);
    }
    rig_check(rig);
}

/* A segment that cannot be given back stays charged, and others make room instead of it [D5, D6, D9]. */
static void test_kept_space(void **state) {
    (void)state;
    struct rig rig;
    create(&rig);
    rig.config.limit_bytes = 12 << 20;
    rig_open(&rig);
    struct sel_disk_fault fault = {.kinds = 1u << SEL_DISK_UNLINK | 1u << SEL_DISK_PUNCH | 1u << SEL_DISK_TRUNCATE |
                                            1u << SEL_DISK_SYNC_DIR,
                                   .names = "seg-0000000[123]*",
                                   .countdown = 1,
                                   .repeat = UINT64_MAX};
    sel_disk_fault_arm(rig.disk, &fault);
    churn(&rig, 400, 100);
    assert_true(fault.hits > 2);
    sel_disk_fault_clear(rig.disk);
    rig_close(&rig);
    rig_destroy(&rig);
}

/* What a record of many page keys adds to the catalogue is reserved before it begins, like its data [D6]. */
static void test_catalogue_growth(void **state) {
    (void)state;
    static const uint64_t tiny[] = {64, 0};
    struct rig rig;
    rig_create(&rig, RIG_SIM, "edge", tiny, 1, 0);
    rig.config.segment_bytes = 16 << 20;
    rig.config.limit_bytes = UINT64_C(1) << 30;
    rig_open(&rig);
    struct rig_record first = {.id = 1, .tokens = 16}, small = {.id = 2, .tokens = 16},
                      large = {.id = 3, .tokens = 25600};
    assert_ok(rig_write(&rig, &first, NULL));
    turns(&rig, 50, SEL_NS_PER_MS);
    struct sel_lsm_stats stats = rig_stats(&rig);
    rig.lsm->config.limit_bytes = stats.allocated_bytes + stats.catalog_bytes + (160 << 10);
    assert_ok(rig_write(&rig, &small, NULL));
    assert_int_equal(rig_begin(&rig, &large, NULL), SELENE_E_NOSPACE); /* 229 values */
    assert_true(sel_lsm_shortage(rig.lsm, 0) > 0);                     /* and the engine hears of it */
    rig.lsm->config.limit_bytes += 256 << 10;
    assert_ok(rig_write(&rig, &large, NULL));
    rig_close(&rig);
    rig_destroy(&rig);
}

static const struct sel_disk_ops *plain;

static void submit_without_punch(struct sel_disk *disk, struct sel_disk_io *io) {
    if (io->kind == SEL_DISK_PUNCH)
        io->kind = SEL_DISK_STAT;
    plain->submit(disk, io);
}

static struct sel_disk *wrap_without_punch(struct rig *rig, struct sel_disk *disk) {
    static struct sel_disk_ops ops;
    (void)rig;
    plain = disk->ops;
    ops = *plain;
    ops.submit = submit_without_punch;
    disk->ops = &ops;
    return disk;
}

/* A file system that punches and keeps the blocks: its segments come back as a whole only. */
static void test_idle_punch(void **state) {
    (void)state;
    struct rig rig;
    create(&rig);
    rig.config.limit_bytes = 12 << 20;
    rig.wrap = wrap_without_punch;
    rig_open(&rig);
    churn(&rig, 400, 100);
    rig_close(&rig);
    rig_destroy(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_kind_fails), cmocka_unit_test(test_index_fails),
        cmocka_unit_test(test_stalled_sleeps), cmocka_unit_test(test_kept_space),
        cmocka_unit_test(test_idle_punch),     cmocka_unit_test(test_catalogue_growth),
    };
    return cmocka_run_group_tests_name("lsm edges", tests, NULL, NULL);
}
