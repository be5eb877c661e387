/* SPDX-License-Identifier: Apache-2.0
 *
 * Failing disks and catalogues [P3, P4, D9]: failed writes, syncs and transactions, and the states of the tier; files
 * that are not the store's to touch.
 */
#include "base/checksum.h"
#include "lsm/format.h"
#include "lsm/lsm_priv.h"
#include "tests/lib/lsm_rig.h"
#include "tests/lib/test.h"

#include <fcntl.h>
#include <unistd.h>

static const uint64_t planes[] = {5000, 0};

static struct sel_disk *wrap(struct rig *rig, struct sel_disk *disk) {
    struct sel_disk *out;
    assert_ok(sel_disk_fault_create(&out, disk, &rig->ready));
    return out;
}

static void create(struct rig *rig, enum rig_disk kind) {
    rig_create(rig, kind, "fault", planes, 2, 10000);
    rig->config.durability = SEL_LSM_STRICT;
    rig->config.segment_bytes = 1 << 20;
    rig->wrap = wrap;
    rig_open(rig);
    struct rig_record first = {.id = 1, .tokens = 16, .has_row = true};
    assert_ok(rig_write(rig, &first, NULL));
    for (int i = 0; i < 50; i++)
        rig_turn(rig, SEL_NS_PER_MS);
}

/* A failed write fails its record and takes its descendants along; a second try lands in another segment [P4]. */
static void test_write_fails(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, RIG_SIM);
    struct sel_disk_fault fault = {.kinds = 1u << SEL_DISK_WRITE, .names = "seg-*", .countdown = 1};
    sel_disk_fault_arm(rig.disk, &fault);
    struct rig_record parent = {.id = 2, .tokens = 20},
                      child = {.id = 3, .parent = 2, .parent_tokens = 20, .tokens = 40};
    assert_ok(rig_start(&rig, &parent, NULL));
    assert_ok(rig_start(&rig, &child, parent.write));
    assert_int_equal(rig_wait(&rig, &parent), SELENE_E_IO);
    assert_int_equal(rig_wait(&rig, &child), SELENE_E_PARENT);
    assert_int_equal(fault.hits, 1);
    assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_OK);
    rig_check(&rig);
    struct rig_record again = {.id = 2, .tokens = 20}, child_again = child;
    assert_ok(rig_write(&rig, &again, NULL));
    child_again.write = NULL;
    assert_ok(rig_write(&rig, &child_again, NULL));
    assert_int_equal(rig_stats(&rig).write_errors, 1);
    sel_disk_fault_clear(rig.disk);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(rig.seen_count, 3);
    rig_verify_seen(&rig);
    rig_close(&rig);
    rig_destroy(&rig);
}

/* The n-th write fails, for every n: what failed is not findable, what did not is whole [fault 2]. */
static void test_every_write(void **state) {
    (void)state;
    for (uint64_t n = 1; n <= 14; n++) {
        struct rig rig;
        create(&rig, RIG_SIM);
        struct sel_disk_fault fault = {.action = n % 2 ? SEL_DISK_FAULT_SHORT : SEL_DISK_FAULT_FAIL,
                                       .kinds = 1u << SEL_DISK_WRITE,
                                       .names = "seg-*",
                                       .countdown = n};
        sel_disk_fault_arm(rig.disk, &fault);
        int result[6];
        for (uint64_t i = 0; i < 6; i++) {
            struct rig_record record = {.id = 2 + i, .tokens = 40, .has_row = i % 2 == 0};
            result[i] = rig_write(&rig, &record, NULL);
        }
        sel_disk_fault_clear(rig.disk);
        rig_check(&rig);
        rig_abort(&rig);
        if (n % 3 == 0)
            rig_lose_catalog(&rig);
        rig_open(&rig);
        for (uint64_t i = 0; i < 6; i++) {
            struct rig_seen *seen = rig_find_seen(&rig, 2 + i);
            assert_true(result[i] != 0 || seen != NULL);
            /* A record whose row failed may come back without it. */
            assert_true(result[i] == 0 || seen == NULL || !seen->record.has_row);
        }
        rig_verify_seen(&rig);
        rig_close(&rig);
        rig_destroy(&rig);
    }
}

/* After a failed sync nothing that was not committed is trusted [D4, fault 12]. */
static void test_sync_fails(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, RIG_SIM);
    struct sel_disk_fault fault = {.kinds = 1u << SEL_DISK_SYNC, .names = "seg-*", .countdown = 1};
    sel_disk_fault_arm(rig.disk, &fault);
    struct rig_record one = {.id = 2, .tokens = 20}, two = {.id = 3, .tokens = 20, .has_row = true};
    assert_ok(rig_start(&rig, &one, NULL));
    assert_ok(rig_start(&rig, &two, NULL));
    assert_int_equal(rig_wait(&rig, &one), SELENE_E_IO);
    assert_true(rig_wait(&rig, &two) != 0); /* on the same segment, whether in that group or not */
    assert_int_equal(rig_stats(&rig).records, 1);
    assert_int_equal(rig_stats(&rig).sync_errors, 1);
    rig_check(&rig);
    struct rig_record three = {.id = 4, .tokens = 20, .has_row = true};
    assert_ok(rig_write(&rig, &three, NULL));
    rig_abort(&rig);
    rig_open(&rig);
    assert_non_null(rig_find_seen(&rig, 4));
    rig_verify_seen(&rig);
    rig_close(&rig);
    rig_destroy(&rig);
}

/* A failed transaction: nothing is committed, nothing is removed; then all works again. */
static void test_transaction_fails(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, RIG_SIM);
    struct rig_record kept = {.id = 2, .tokens = 20};
    assert_ok(rig_write(&rig, &kept, NULL));
    sel_catalog_sim_fail(rig.catalog_sim, 1, 1, SELENE_E_IO);
    struct rig_record one = {.id = 3, .tokens = 20};
    assert_int_equal(rig_write(&rig, &one, NULL), SELENE_E_IO);
    assert_int_equal(rig_remove(&rig, &kept.location), SELENE_E_IO);
    assert_ok(rig_read(&rig, &kept, &kept.location, SEL_LSM_PAGES));
    rig_check(&rig);
    assert_int_equal(rig_stats(&rig).records, 2);
    struct rig_record two = {.id = 4, .tokens = 20};
    assert_ok(rig_write(&rig, &two, NULL));
    assert_ok(rig_remove(&rig, &kept.location));
    assert_int_equal(rig_read(&rig, &kept, &kept.location, SEL_LSM_PAGES), SELENE_E_GONE);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(rig.seen_count, 2);
    rig_close(&rig);
    rig_destroy(&rig);
}

static void degraded(struct sel_disk_fault fault, enum sel_lsm_state expected) {
    struct rig rig;
    create(&rig, RIG_SIM);
    unsigned warnings = rig.warnings;
    fault.repeat = UINT64_MAX;
    fault.countdown = 1;
    sel_disk_fault_arm(rig.disk, &fault);
    for (uint64_t i = 0; i < 60 && sel_lsm_state(rig.lsm) == SEL_LSM_OK; i++) {
        struct rig_record record = {.id = 10 + i, .tokens = 100, .has_row = true};
        rig_write(&rig, &record, NULL);
    }
    assert_int_equal(sel_lsm_state(rig.lsm), expected);
    struct rig_record record = {.id = 5, .tokens = 20};
    assert_int_equal(rig_begin(&rig, &record, NULL), SELENE_E_DEGRADED);
    for (int i = 0; i < 100; i++) /* ten seconds of it: probes go on, and no further warning */
        rig_turn(&rig, 100 * SEL_NS_PER_MS);
    assert_int_equal(sel_lsm_state(rig.lsm), expected);
    assert_true(rig.warnings <= warnings + 1 + (expected == SEL_LSM_FAILING ? 4 : 0));
    assert_non_null(strstr(rig.log_text, "degraded"));
    sel_disk_fault_clear(rig.disk);
    for (int i = 0; i < 40; i++)
        rig_turn(&rig, 100 * SEL_NS_PER_MS);
    assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_OK);
    assert_ok(rig_write(&rig, &record, NULL));
    rig_check(&rig);
    rig_abort(&rig);
    rig_open(&rig);
    assert_non_null(rig_find_seen(&rig, 5));
    assert_non_null(rig_find_seen(&rig, 1));
    rig_verify_seen(&rig);
    rig_close(&rig);
    rig_destroy(&rig);
}

static void test_full(void **state) { /* [D9, fault 21] */
    (void)state;
    degraded((struct sel_disk_fault){.kinds = 1u << SEL_DISK_ALLOCATE, .error = SELENE_E_NOSPACE}, SEL_LSM_FULL);
}

static void test_readonly(void **state) {
    (void)state;
    degraded((struct sel_disk_fault){.kinds = 1u << SEL_DISK_WRITE | 1u << SEL_DISK_OPEN, .error = SELENE_E_READONLY},
             SEL_LSM_READONLY);
}

static void test_failing(void **state) {
    (void)state;
    degraded((struct sel_disk_fault){.kinds = 1u << SEL_DISK_WRITE, .error = SELENE_E_IO}, SEL_LSM_FAILING);
}

/* A disk that does not answer for 30 s: the tier stops taking work, and goes on when it answers. */
static void test_stalled(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, RIG_SIM);
    struct sel_disk_fault fault = {.action = SEL_DISK_FAULT_HOLD, .kinds = 1u << SEL_DISK_WRITE, .countdown = 1};
    sel_disk_fault_arm(rig.disk, &fault);
    struct rig_record one = {.id = 2, .tokens = 20}, two = {.id = 3, .tokens = 20};
    assert_ok(rig_start(&rig, &one, NULL));
    for (int i = 0; i < 29; i++)
        rig_turn(&rig, SEL_NS_PER_SECOND);
    assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_OK);
    for (int i = 0; i < 5; i++)
        rig_turn(&rig, SEL_NS_PER_SECOND);
    assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_STALLED);
    assert_int_equal(rig_begin(&rig, &two, NULL), SELENE_E_DEGRADED);
    sel_disk_fault_release(rig.disk);
    sel_disk_fault_clear(rig.disk);
    assert_ok(rig_wait(&rig, &one));
    for (int i = 0; i < 40; i++)
        rig_turn(&rig, 100 * SEL_NS_PER_MS);
    assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_OK);
    assert_ok(rig_write(&rig, &two, NULL));
    rig_close(&rig);
    rig_destroy(&rig);
}

/* Who has not polled for a while, with I/O in flight, does not meet a stalled disk. */
static void test_pause(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, RIG_SIM);
    unsigned warnings = rig.warnings;
    struct rig_record one = {.id = 2, .tokens = 20};
    assert_ok(rig_start(&rig, &one, NULL));
    rig_turn(&rig, 0);
    sel_clock_manual_advance(&rig.clock, 100 * SEL_NS_PER_SECOND);
    assert_ok(rig_wait(&rig, &one));
    assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_OK);
    assert_int_equal(rig.warnings, warnings);
    rig_close(&rig);
    rig_destroy(&rig);
}

static void put_file(const struct rig *rig, const char *name, const void *bytes, size_t count) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", rig->directory, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), (ssize_t)count);
    assert_int_equal(fsync(fd), 0); /* so that its blocks are allocated */
    close(fd);
}

static bool is_there(const struct rig *rig, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", rig->directory, name);
    return access(path, F_OK) == 0;
}

static void future_head(uint8_t head[SEL_DISK_BLOCK], uint32_t id) {
    struct sel_segment_head fields = {.segment_bytes = 1 << 20, .segment_id = id};
    memset(head, 0, SEL_DISK_BLOCK);
    sel_segment_head_pack(head, &fields);
    sel_put_u32(head + 8, SEL_SEGMENT_VERSION + 1);
    memset(head + 16, 0, 8);
    sel_put_u64(head + 16, sel_hash64(head, SEL_SEGMENT_PREFIX));
    head[1000] = 7; /* whatever the future puts there */
}

/* A segment from the future is left alone, counted against the limit, reported once, and its number is not used [D3].
 * Files with other names do not matter; one with a segment's name and garbage inside does no harm. */
static void test_other_files(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, RIG_REAL);
    rig_close(&rig);
    uint8_t head[SEL_DISK_BLOCK];
    future_head(head, 0x99);
    put_file(&rig, "seg-00000099.sel", head, sizeof head);
    put_file(&rig, "seg-00000050.sel", "short", 5);
    memset(head, 0xa5, sizeof head);
    put_file(&rig, "seg-00000051.sel", head, sizeof head);
    put_file(&rig, "seg-0000005G.sel", head, sizeof head);
    put_file(&rig, "seg-00000052.sel.bak", head, sizeof head);
    put_file(&rig, "notes.txt", "mine", 4);
    rig.config.limit_bytes = 64 << 20;
    rig_open(&rig);
    assert_int_equal(rig_stats(&rig).future_segments, 1);
    assert_int_equal(rig.seen_count, 1);
    assert_non_null(strstr(rig.log_text, "seg-00000099.sel: left alone"));
    struct rig_record one = {.id = 2, .tokens = 20, .has_row = true};
    assert_ok(rig_write(&rig, &one, NULL));
    assert_true(one.location.pages >> 32 > 0x99);
    assert_true(rig_stats(&rig).allocated_bytes >= rig_directory_bytes(&rig) - 4096 * 4);
    rig_verify_seen(&rig);
    rig_close(&rig);
    assert_true(is_there(&rig, "seg-00000099.sel"));
    assert_true(is_there(&rig, "seg-0000005G.sel"));
    assert_true(is_there(&rig, "seg-00000052.sel.bak"));
    assert_true(is_there(&rig, "notes.txt"));
    rig_destroy(&rig);
}

/* Nor does one whose name has the last number that there is: segments are made all the same, now and after a restart,
 * also where the index says that all numbers were used. */
static void test_last_number(void **state) {
    (void)state;
    struct rig rig;
    uint8_t head[SEL_DISK_BLOCK];
    create(&rig, RIG_REAL);
    rig_close(&rig);
    memset(head, 0xa5, sizeof head);
    put_file(&rig, "seg-fffffffe.sel", head, sizeof head);
    put_file(&rig, "seg-ffffffff.sel", head, sizeof head);
    for (uint64_t id = 2; id < 6; id++) {
        struct rig_record one = {.id = id, .tokens = 20, .has_row = true};
        rig_open(&rig);
        if (id == 4)
            rig.lsm->next_segment = UINT32_MAX;
        assert_int_equal(rig.seen_count, id - 1);
        assert_ok(rig_write(&rig, &one, NULL));
        rig_check(&rig);
        rig_close(&rig);
    }
    rig_open(&rig);
    rig_verify_seen(&rig);
    rig_close(&rig);
    rig_destroy(&rig);
}

/* What files that were left alone take of the limit is not to be had: where they take too much, nothing fits, and a
 * record is told so at once instead of waiting for ever [D3, D6, M5]. */
static void test_left_files_fill_the_limit(void **state) {
    (void)state;
    struct rig rig;
    static uint8_t future[3 << 20];
    create(&rig, RIG_REAL);
    rig_close(&rig);
    rig.config.limit_bytes = 8 << 20;
    memset(future, 0xa5, sizeof future);
    for (uint32_t id = 0x100; id < 0x103; id++) {
        char name[32];
        snprintf(name, sizeof name, "seg-%08x.sel", id);
        future_head(future, id);
        put_file(&rig, name, future, sizeof future);
        rig_open(&rig);
        bool full = id > 0x100; /* three segments of 1 MiB are the least */
        assert_int_equal(sel_lsm_oversize(rig.lsm, rig.layout, 1, 1, false, false, false), full);
        assert_int_equal(strstr(rig.log_text, "no record can be written") != NULL, full);
        rig_check(&rig);
        rig_close(&rig);
    }
    rig_destroy(&rig);
}

/* Two namespaces in one directory, and in the same segments. */
static void test_two_layouts(void **state) {
    (void)state;
    struct rig rig, other;
    static const uint64_t more[] = {4096, 128, 128, 9000, 0};
    create(&rig, RIG_SIM);
    rig_create(&other, RIG_SIM, "other", more, 3, 0);
    struct sel_layout *own = rig.layout;
    struct rig_record records[10];
    for (uint64_t i = 0; i < 10; i++) {
        rig.layout = i % 2 ? other.layout : own;
        records[i] = (struct rig_record){.id = 10 + i, .tokens = 50};
        assert_ok(rig_write(&rig, &records[i], NULL));
    }
    assert_int_equal(records[0].location.pages >> 32, records[1].location.pages >> 32);
    rig.layout = own;
    rig_abort(&rig);
    rig_lose_catalog(&rig);
    rig_open(&rig);
    assert_int_equal(rig.seen_count, 11);
    for (uint64_t i = 0; i < 10; i++) {
        rig.layout = i % 2 ? other.layout : own;
        assert_ok(rig_read(&rig, &records[i], &records[i].location, SEL_LSM_PAGES));
        rig.layout = i % 2 ? own : other.layout; /* the wrong one is noticed */
        assert_true(rig_read(&rig, &records[i], &records[i].location, SEL_LSM_PAGES) != 0);
    }
    rig.layout = own;
    rig_close(&rig);
    rig_destroy(&rig);
    rig_destroy(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_fails),
        cmocka_unit_test(test_every_write),
        cmocka_unit_test(test_sync_fails),
        cmocka_unit_test(test_transaction_fails),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_readonly),
        cmocka_unit_test(test_failing),
        cmocka_unit_test(test_stalled),
        cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_two_layouts),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_last_number),
        cmocka_unit_test(test_left_files_fill_the_limit),
    };
    return cmocka_run_group_tests_name("lsm faults", tests, NULL, NULL);
}
