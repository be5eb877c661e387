/* SPDX-License-Identifier: Apache-2.0
 *
 * Group commit [D4] and ancestors first [P3]: when groups close, in which order writes become committed, and that
 * nothing is visible before.
 */
#include "tests/lib/lsm_rig.h"
#include "tests/lib/test.h"

static const uint64_t planes[] = {5000, 0};

static void create(struct rig *rig, enum sel_lsm_durability durability) {
    rig_create(rig, RIG_SIM, "group", planes, 2, 10000);
    rig->config.durability = durability;
    rig->config.segment_bytes = 4 << 20;
    rig_open(rig);
    struct rig_record first = {.id = 1, .tokens = 16, .has_row = true};
    assert_ok(rig_write(rig, &first, NULL)); /* makes the segments */
}

static void turns(struct rig *rig, int count, uint64_t ns) {
    for (int i = 0; i < count; i++)
        rig_turn(rig, ns);
}

static void test_relaxed(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, SEL_LSM_RELAXED);
    struct rig_record one = {.id = 2, .tokens = 20}, two = {.id = 3, .tokens = 20};
    uint64_t transactions = rig_stats(&rig).transactions;
    uint64_t start = rig.clock.mono;
    assert_ok(rig_start(&rig, &one, NULL));
    assert_ok(rig_start(&rig, &two, NULL));
    while (rig.clock.mono < start + 900 * SEL_NS_PER_MS)
        rig_turn(&rig, 10 * SEL_NS_PER_MS);
    assert_int_equal(one.result, 1);
    assert_int_equal(rig_stats(&rig).records, 1); /* not visible before it is complete [fault 3] */
    assert_true(sel_lsm_deadline_ns(rig.lsm) <= start + 1100 * SEL_NS_PER_MS);
    assert_ok(rig_wait(&rig, &one));
    assert_ok(rig_wait(&rig, &two));
    assert_true(rig.clock.mono < start + 1300 * SEL_NS_PER_MS);
    assert_int_equal(rig_stats(&rig).transactions, transactions + 1); /* one for both */
    rig_close(&rig);
    rig_destroy(&rig);
}

static void test_flush_and_bytes(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, SEL_LSM_RELAXED);
    struct rig_record one = {.id = 2, .tokens = 20};
    assert_ok(rig_start(&rig, &one, NULL));
    sel_lsm_flush(rig.lsm); /* before its I/O is done: counts for it all the same */
    uint64_t start = rig.clock.mono;
    turns(&rig, 100, 0);
    assert_ok(rig_wait(&rig, &one));
    assert_true(rig.clock.mono < start + 500 * SEL_NS_PER_MS);
    rig_close(&rig);

    rig.config.group_bytes = 200000;
    rig_open(&rig);
    struct rig_record more[8];
    for (uint64_t i = 0; i < 8; i++) { /* 4 pages of 2 * 8 KiB each */
        more[i] = (struct rig_record){.id = 10 + i, .tokens = 64};
        while (rig_start(&rig, &more[i], NULL))
            rig_turn(&rig, 0);
    }
    start = rig.clock.mono;
    turns(&rig, 200, 0);
    assert_int_equal(more[0].result, 0);
    assert_true(rig.clock.mono < start + 500 * SEL_NS_PER_MS);
    for (int i = 0; i < 8; i++)
        assert_ok(rig_wait(&rig, &more[i]));
    rig_close(&rig);
    rig_destroy(&rig);
}

static void test_strict(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, SEL_LSM_STRICT);
    for (uint64_t i = 2; i < 10; i++) {
        struct rig_record one = {.id = i, .tokens = 20, .has_row = true};
        uint64_t transactions = rig_stats(&rig).transactions;
        assert_ok(rig_start(&rig, &one, NULL));
        uint64_t start = rig.clock.mono;
        turns(&rig, 60, 0);
        assert_int_equal(one.result, 0);
        assert_true(rig.clock.mono < start + 100 * SEL_NS_PER_MS);
        assert_int_equal(rig_stats(&rig).transactions, transactions + 1);
        assert_ok(rig_wait(&rig, &one));
    }
    rig_close(&rig);
    rig_destroy(&rig);
}

/* A child whose own I/O is done waits for its parent; so does the grandchild [P3]. */
static void test_child_waits(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, SEL_LSM_STRICT);
    struct rig_record parent = {.id = 2, .tokens = 20},
                      child = {.id = 3, .parent = 2, .parent_tokens = 20, .tokens = 40},
                      grandchild = {.id = 4, .parent = 3, .parent_tokens = 40, .tokens = 50};
    assert_ok(rig_begin(&rig, &parent, NULL));
    assert_ok(rig_start(&rig, &child, parent.write));
    assert_ok(rig_start(&rig, &grandchild, child.write));
    turns(&rig, 200, 10 * SEL_NS_PER_MS);
    assert_int_equal(child.result, 1);
    assert_int_equal(grandchild.result, 1);
    assert_int_equal(rig_stats(&rig).records, 1);
    rig_data(&rig, &parent);
    rig_finish(&rig, &parent);
    assert_ok(rig_wait(&rig, &parent));
    assert_ok(rig_wait(&rig, &child));
    assert_ok(rig_wait(&rig, &grandchild));
    rig_check(&rig);
    rig_close(&rig);
    rig_destroy(&rig);
}

static void test_abandoned_parent(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, SEL_LSM_STRICT);
    struct rig_record parent = {.id = 2, .tokens = 20},
                      child = {.id = 3, .parent = 2, .parent_tokens = 20, .tokens = 40},
                      late = {.id = 4, .parent = 3, .parent_tokens = 40, .tokens = 50};
    assert_ok(rig_begin(&rig, &parent, NULL));
    assert_ok(rig_start(&rig, &child, parent.write));
    assert_ok(rig_begin(&rig, &late, child.write));
    turns(&rig, 50, SEL_NS_PER_MS);
    sel_lsm_write_abandon(&parent.write);
    assert_null(parent.write);
    assert_int_equal(rig_wait(&rig, &child), SELENE_E_PARENT);
    rig_data(&rig, &late);
    rig_finish(&rig, &late);
    assert_int_equal(rig_wait(&rig, &late), SELENE_E_PARENT);
    assert_int_equal(rig_stats(&rig).records, 1);
    rig_check(&rig);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(rig.seen_count, 1);
    rig_close(&rig);
    rig_destroy(&rig);
}

/* Data in pieces, out of order, some before and some after polls. */
static void test_pieces(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, SEL_LSM_STRICT);
    struct rig_record one = {.id = 2, .tokens = 64};
    assert_ok(rig_begin(&rig, &one, NULL));
    rig_data(&rig, &one); /* the whole once, to have the bytes; then again in pieces */
    uint64_t piece = one.page_iov.iov_len / 4;
    struct iovec iov[4];
    struct sel_op ops[4];
    static const int order[] = {2, 0, 3, 1};
    while (one.page_op.in_flight)
        rig_turn(&rig, 0);
    for (int i = 0; i < 4; i++) {
        int at = order[i];
        iov[at] = (struct iovec){(char *)one.pages + piece * (uint64_t)at, piece};
        sel_op_init(&ops[at], one.page_op.done);
        sel_lsm_write_data(one.write, SEL_LSM_PAGES, piece * (uint64_t)at, &iov[at], 1, &ops[at]);
        if (i == 1)
            turns(&rig, 3, 0);
    }
    rig_finish(&rig, &one);
    assert_ok(rig_wait(&rig, &one));
    for (int i = 0; i < 4; i++)
        assert_ok(ops[i].result);
    assert_ok(rig_read(&rig, &one, &one.location, SEL_LSM_PAGES));
    rig_close(&rig);
    rig_destroy(&rig);
}

/* What does not fit a part or is not aligned is refused and breaks nothing. */
static void test_bad_data(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, SEL_LSM_STRICT);
    struct rig_record one = {.id = 2, .tokens = 64};
    assert_ok(rig_begin(&rig, &one, NULL));
    rig_data(&rig, &one);
    while (one.page_op.in_flight)
        rig_turn(&rig, 0);
    const struct {
        uint64_t offset, bytes;
        enum sel_lsm_part part;
    } bad[] = {{1, 4096, 0}, {0, 100, 0}, {one.page_iov.iov_len, 4096, 0}, {UINT64_MAX - 4095, 8192, 0}, {0, 4096, 1}};
    for (size_t i = 0; i < SEL_COUNT(bad); i++) {
        struct iovec iov = {one.pages, bad[i].bytes};
        struct sel_op op;
        sel_op_init(&op, one.page_op.done);
        sel_lsm_write_data(one.write, bad[i].part, bad[i].offset, &iov, 1, &op);
        while (op.in_flight)
            rig_turn(&rig, 0);
        assert_int_equal(op.result, SELENE_E_INVALID);
    }
    rig_finish(&rig, &one);
    assert_ok(rig_wait(&rig, &one));
    rig_close(&rig);
    rig_destroy(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relaxed),     cmocka_unit_test(test_flush_and_bytes),  cmocka_unit_test(test_strict),
        cmocka_unit_test(test_child_waits), cmocka_unit_test(test_abandoned_parent), cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_bad_data),
    };
    return cmocka_run_group_tests_name("lsm groups", tests, NULL, NULL);
}
