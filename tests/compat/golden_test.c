/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores that were written once and are kept in the tree: every version is read for ever, byte by byte [D3, K3].
 */
#include "tests/compat/golden.h"
#include "tests/lib/store_v1.h"
#include "tests/lib/test.h"

static void copy_store(const char *from, const char *to) {
    char command[1024];
    snprintf(command, sizeof command, "cp '%s'/*.sel '%s'/", from, to);
    assert_int_equal(system(command), 0);
}

static void check_store(int version, const char *from) {
    struct rig rig;
    rig_create(&rig, RIG_THREADS, "golden", golden_planes, GOLDEN_RANKS, GOLDEN_ROW_BYTES);
    rig.config.segment_bytes = 128 << 10;
    rig.flush = true;
    if (from)
        copy_store(from, rig.directory);
    else {
        struct rig_record records[GOLDEN_RECORDS];
        for (int i = 0; i < GOLDEN_RECORDS; i++)
            records[i] = golden_record(version, i);
        store_v1_write(&rig, rig.directory, records, GOLDEN_RECORDS);
    }
    rig_open(&rig); /* no catalogue: from the segments */
    assert_int_equal(rig.seen_count, GOLDEN_RECORDS);
    for (int i = 0; i < GOLDEN_RECORDS; i++) {
        struct rig_record record = golden_record(version, i);
        struct rig_seen *seen = rig_find_seen(&rig, record.id);
        assert_non_null(seen);
        assert_int_equal(seen->record.has_row, record.has_row);
        assert_int_equal(seen->record.pages_replicated, record.pages_replicated);
        assert_int_equal(seen->record.row_replicated, record.row_replicated);
    }
    rig_verify_seen(&rig);
    struct rig_record more = {.id = 9, .parent = 3, .parent_tokens = 50, .tokens = 70, .has_row = true};
    assert_ok(rig_write(&rig, &more, NULL)); /* and written on, in the newest version */
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(rig.seen_count, GOLDEN_RECORDS + 1);
    rig_verify_seen(&rig);
    rig_close(&rig);
    rig_destroy(&rig);
}

static void test_v1(void **state) {
    (void)state;
    check_store(1, GOLDEN_DIR "/store-v1");
}

static void test_v1_fresh(void **state) {
    (void)state;
    check_store(1, NULL);
}

static void test_v2(void **state) {
    (void)state;
    check_store(2, GOLDEN_DIR "/store-v2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v1),
        cmocka_unit_test(test_v1_fresh),
        cmocka_unit_test(test_v2),
    };
    return cmocka_run_group_tests_name("golden stores", tests, NULL, NULL);
}
