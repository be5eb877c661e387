/* SPDX-License-Identifier: Apache-2.0
 *
 * Parents that come later than their children: the copy of an inner record was given up, and it was written again [R4,
 * D7, D8].
 */
#include "tests/lib/lsm_rig_row.h"
#include "tests/lib/test.h"

static const uint64_t planes[] = {5000, 300, 0};

#define CHAIN 6

static struct rig_record records[CHAIN];

/* 1 <- 2 <- ... , and rows at some of them; then those of `again` are removed and written again, the last first, so
 * that children come before parents at several levels. The one of `lost` is removed only. */
static void create(struct rig *rig, const uint64_t *again, uint64_t lost, bool commit) {
    struct rig_record last[CHAIN];
    size_t count = 0;
    rig_create(rig, RIG_SIM, "late", planes, 2, 20000);
    rig->config.segment_bytes = 512 << 10;
    rig->flush = true;
    rig_open(rig);
    for (uint64_t id = 1; id <= CHAIN; id++) {
        struct rig_record *record = &records[id - 1];
        *record = (struct rig_record){.id = id,
                                      .parent = id - 1,
                                      .parent_tokens = (uint32_t)(id - 1) * 40,
                                      .tokens = (uint32_t)id * 40,
                                      .has_row = id % 2};
        assert_ok(rig_write(rig, record, NULL));
    }
    for (; again[count]; count++)
        assert_ok(rig_remove(rig, &records[again[count] - 1].location));
    if (lost)
        assert_ok(rig_remove(rig, &records[lost - 1].location));
    for (size_t i = 0; i < count; i++) {
        last[i] = records[again[i] - 1];
        int rc;
        while ((rc = rig_start(rig, &last[i], NULL)) == SELENE_E_RETRY)
            rig_turn(rig, 0);
        assert_ok(rc);
        if (commit)
            sel_lsm_flush(rig->lsm);
        while (commit ? last[i].result == 1 : last[i].page_op.in_flight || last[i].row_op.in_flight)
            rig_turn(rig, commit ? SEL_NS_PER_MS : 0);
    }
    if (commit)
        rig_close(rig);
    else /* they are whole in the tails */
        rig_abort(rig);
    for (size_t i = 0; i < count; i++)
        rig_record_free(&last[i]);
}

static void check(struct rig *rig, size_t seen, uint64_t refused) {
    uint64_t position[CHAIN + 1] = {0};
    rig_open(rig);
    assert_int_equal(rig->seen_count, seen);
    assert_int_equal(rig_stats(rig).refused_records, refused);
    assert_int_equal(rig_stats(rig).records, seen);
    for (size_t i = 0; i < seen; i++) {
        uint64_t id = rig->seen[i].id;
        position[id] = i + 1;
        assert_true(id == 1 || position[id - 1] > 0); /* after its parent */
        assert_int_equal(rig->seen[i].record.has_row, id % 2);
    }
    rig_verify_seen(rig);
}

static void test_late_parents(void **state) {
    (void)state;
    static const uint64_t agains[][CHAIN] = {{2, 0}, {4, 3, 2, 0}, {5, 3, 1, 0}, {6, 5, 4, 3, 2, 1}};
    for (size_t i = 0; i < SEL_COUNT(agains) * 3; i++) {
        struct rig rig;
        uint64_t again[CHAIN + 1] = {0};
        memcpy(again, agains[i / 3], sizeof agains[0]);
        create(&rig, again, 0, i % 3 != 1);
        if (i % 3 == 2)
            rig_lose_catalog(&rig);
        check(&rig, CHAIN, 0);
        /* They go on as any others, also for what is written below them and after another stop. */
        struct rig_record more = {.id = CHAIN + 1,
                                  .parent = CHAIN,
                                  .parent_tokens = CHAIN * 40,
                                  .tokens = CHAIN * 40 + 16,
                                  .has_row = (CHAIN + 1) % 2};
        assert_ok(rig_write(&rig, &more, NULL));
        rig_close(&rig);
        rig_open(&rig);
        assert_int_equal(rig.seen_count, CHAIN + 1);
        assert_int_equal(rig_stats(&rig).refused_records, 0);
        assert_int_equal(rig_stats(&rig).tail_bytes_read, 0);
        rig_close(&rig);
        rig_destroy(&rig);
    }
}

/* With the parent nowhere they are refused, once, and their space is given back; so is what was found in a tail. */
static void test_no_parent(void **state) {
    (void)state;
    for (int commit = 0; commit < 2; commit++) {
        struct rig rig;
        static const uint64_t again[] = {5, 4, 0};
        create(&rig, again, 3, commit);
        check(&rig, 2, 3);
        uint64_t live = (uint64_t)(records[0].location.pages_blocks + records[0].location.row_blocks +
                                   records[1].location.pages_blocks) *
                        4096;
        assert_int_equal(rig_stats(&rig).live_bytes, live);
        rig_abort(&rig);
        check(&rig, 2, 0);
        rig_close(&rig);
        rig_destroy(&rig);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_late_parents), cmocka_unit_test(test_no_parent)};
    return cmocka_run_group_tests_name("lsm late parents", tests, NULL, NULL);
}
