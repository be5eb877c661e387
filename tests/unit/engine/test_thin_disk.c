/* SPDX-License-Identifier: Apache-2.0
 *
 * Thinning on disk, and in memory over a disk [T1-T8, P6]: rows that leave by a transaction, or are never written;
 * transactions that fail; what a crash leaves behind; what eviction takes along.
 */
#include "tests/unit/engine/thin_rig.h"

/* [T1, T2, T8]: record by record on disk, with and without a warm tier over it, each tier by its own rule. */
static void chain(uint32_t spare, uint64_t warm, bool alike) {
    struct sequence sequence;
    begin_alike(spare, warm, alike);
    sequence_make(&world, &sequence, 1, 200);
    for (uint32_t n = 1; n <= 10; n++) {
        publish(&sequence, 8 * n);
        if (warm)
            assert_int_equal(world_drain(&world).result, 0);
        settle();
        uint64_t rows = SEL_MIN(n, 2 + spare);
        struct selene_stats stats = world_stats(&world);
        assert_int_equal(stats.rows[SELENE_TIER_DISK], rows);
        assert_int_equal(stats.rows_thinned[SELENE_TIER_DISK], n - rows);
        assert_int_equal(stats.packed_rows[SELENE_TIER_DISK], alike ? rows : 0);
        assert_int_equal(stats.records[SELENE_TIER_DISK], n);
        assert_int_equal(stats.rows[SELENE_TIER_MEMORY], warm ? rows : 0);
        assert_int_equal(stats.rows_thinned[SELENE_TIER_MEMORY], warm ? n - rows : 0);
        for (uint32_t i = 1; i <= n; i++)
            assert_int_equal(disk_row(&sequence, 8 * i), i == 1 || i + spare >= n);
    }
    /* [T4], and again after a restart: the index says so, too. */
    for (int again = 0; again < 2; again++) {
        for (uint32_t limit = 8; limit <= 88; limit += 5) {
            uint32_t records = SEL_MIN(limit / 8, 10);
            uint64_t expected = records + spare >= 10 ? 8 * records : 8;
            assert_int_equal(world_restore(&world, &request, &sequence, limit, NULL), expected);
        }
        reopen(&sequence);
        assert_int_equal(world_stats(&world).rows[SELENE_TIER_DISK], 2 + spare);
        assert_int_equal(world_stats(&world).records[SELENE_TIER_DISK], 10);
    }
    sequence_free(&sequence);
    end();
}
static void test_chain(void **state) {
    (void)state;
    for (uint32_t spare = 0; spare <= 2; spare++) {
        chain(spare, 400, false);
        chain(spare, 400, true);
        chain(spare, 0, false);
        chain(spare, 0, true);
    }
}

/* [T2]: what is spilled after its child exists is written without its row: no row extent, nothing to remove. */
static void test_spilled_later(void **state) {
    (void)state;
    for (uint32_t spare = 0; spare <= 1; spare++) {
        struct sequence sequence;
        begin(spare, 400);
        sequence_make(&world, &sequence, 1, 200);
        grow(&sequence, 8, 80);
        assert_int_equal(world_drain(&world).drained_written, 10);
        settle();
        struct selene_stats stats = world_stats(&world);
        assert_int_equal(stats.rows[SELENE_TIER_DISK], 2 + spare);
        assert_int_equal(stats.rows_thinned[SELENE_TIER_DISK], 0);
        struct sel_lsm_stats lsm;
        sel_lsm_get_stats(world.store->lsm, &lsm);
        assert_int_equal(lsm.dead_bytes, 0);
        for (uint32_t at = 8; at <= 80; at += 8)
            assert_int_equal(disk_row(&sequence, at), at == 8 || at + 8 * spare >= 80);
        sequence_free(&sequence);
        end();
    }
}

/* [T2, T3]: one that is pinned in memory when it is spilled has its row there still, and is written without it. */
static void test_spilled_while_pinned(void **state) {
    struct sequence a, b;
    (void)state;
    for (int fork = 0; fork < 2; fork++) {
        begin(0, 400);
        sequence_make(&world, &a, 1, 200);
        sequence_fork(&world, &b, &a, 16, 2, 200);
        grow(&a, 8, 16);
        struct sel_node *node = world_node(&world, &a, 16);
        sel_pin(world.store, node, SEL_TIER_MEMORY);
        publish(&a, 24);
        assert_int_equal(world_drain(&world).drained_written, 3);
        assert_true(memory_row(&a, 16));
        assert_false(disk_row(&a, 16));
        assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_DISK], 0);
        assert_false(node->tier[SEL_TIER_MEMORY].parked);
        if (fork)
            publish(&b, 24);
        sel_unpin(world.store, node, SEL_TIER_MEMORY);
        world_check(&world);
        /* A branch point after all: its row is one that the disk lacks. */
        assert_int_equal(memory_row(&a, 16), fork);
        assert_int_equal(world_drain(&world).result, 0);
        assert_int_equal(disk_row(&a, 16), fork);
        sequence_free(&a);
        sequence_free(&b);
        end();
    }
}

/* [T3]: a pin on disk delays the removal, and not the one in memory. */
static void test_pins(void **state) {
    struct sequence sequence;
    (void)state;
    begin(0, 400);
    sequence_make(&world, &sequence, 1, 200);
    grow(&sequence, 8, 16);
    assert_int_equal(world_drain(&world).result, 0);
    struct sel_node *node = world_node(&world, &sequence, 16);
    sel_pin(world.store, node, SEL_TIER_DISK);
    publish(&sequence, 24);
    assert_false(memory_row(&sequence, 16));
    assert_int_equal(world_drain(&world).result, 0);
    assert_true(disk_row(&sequence, 16));
    assert_int_equal(world_lookup(&world, &sequence, 16, NULL), 16);
    sel_unpin(world.store, node, SEL_TIER_DISK);
    assert_false(disk_row(&sequence, 16)); /* from now on, not from the transaction on */
    assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_DISK], 0);
    assert_int_equal(world_lookup(&world, &sequence, 16, NULL), 8);
    settle();
    assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_DISK], 1);
    sequence_free(&sequence);
    end();
}

/* [T6, fault 2]: a transaction that fails leaves the row where it was, usable and not counted; it is tried again. */
static void test_transaction_fails(void **state) {
    struct sequence sequence;
    (void)state;
    begin(0, 400);
    sequence_make(&world, &sequence, 1, 200);
    grow(&sequence, 8, 24);
    sel_pin(world.store, world_node(&world, &sequence, 16), SEL_TIER_MEMORY);
    assert_int_equal(world_drain(&world).result, 0);
    sel_unpin(world.store, world_node(&world, &sequence, 16), SEL_TIER_MEMORY);
    sequence_free(&sequence);
    sequence_make(&world, &sequence, 2, 200);
    grow(&sequence, 8, 16);
    assert_int_equal(world_drain(&world).result, 0);
    publish(&sequence, 24);
    /* The child's own transaction is good, the next is not. */
    sel_catalog_sim_fail(world.catalog_sim, 2, 3, SELENE_E_IO);
    struct sel_node *node = world_node(&world, &sequence, 16);
    uint64_t ticket;
    assert_ok(selene_drain(world.store, 0, &ticket));
    bool thinning = false, failed = false;
    for (int i = 0; i < 3000 && (node->disk.row || node->flags & SEL_THINNING_DISK); i++) {
        poll_some(1);
        thinning |= (node->flags & SEL_THINNING_DISK) != 0;
        if (!thinning || node->flags & SEL_THINNING_DISK || node->disk.row == 0)
            continue;
        failed = true;
        assert_true(sel_node_row_usable(world.store, node));
        assert_int_equal(world_lookup(&world, &sequence, 16, NULL), 16);
        assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_DISK], 0);
        assert_true(node->tier[SEL_TIER_DISK].pins > 0); /* it waits for the next try */
        world_check(&world);
    }
    assert_true(thinning && failed);
    assert_false(disk_row(&sequence, 16));
    assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_DISK], 1);
    assert_int_equal(node->tier[SEL_TIER_DISK].pins, 0);
    settle();
    sequence_free(&sequence);
    end();
}

/* [T3]: a second child commits before the pin goes: the record is a branch point then, and keeps its row. */
static void test_fork_before_unpin(void **state) {
    struct sequence a, b;
    (void)state;
    begin(0, 400);
    sequence_make(&world, &a, 1, 200);
    sequence_fork(&world, &b, &a, 16, 2, 200);
    grow(&a, 8, 16);
    assert_int_equal(world_drain(&world).result, 0);
    publish(&a, 24);
    publish(&b, 24);
    struct sel_node *node = world_node(&world, &a, 16);
    assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_MEMORY], 1);
    sel_pin(world.store, node, SEL_TIER_DISK);
    assert_int_equal(world_drain(&world).result, 0);
    sel_unpin(world.store, node, SEL_TIER_DISK);
    settle();
    assert_true(disk_row(&a, 16));
    assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_DISK], 0);
    assert_int_equal(world_restore(&world, &request, &b, 23, NULL), 16);
    sequence_free(&a);
    sequence_free(&b);
    end();
}

/* [T6]: space that cannot be given back stays charged as dead while the row is gone, and goes when it can. */
static void test_punch_fails(void **state) {
    struct sequence sequence;
    struct sel_disk_fault fault = {
        .action = SEL_DISK_FAULT_FAIL, .kinds = 1u << SEL_DISK_PUNCH, .countdown = 1, .repeat = UINT64_MAX};
    enum { RECORDS = 40 }; /* more rows than a segment holds: only those that are full give space back */
    (void)state;
    begin(0, 400);
    sel_disk_fault_arm(world.disk, &fault);
    sequence_make(&world, &sequence, 1, 8 * RECORDS + 8);
    for (uint32_t at = 8; at <= 8 * RECORDS; at += 8) {
        publish(&sequence, at);
        assert_int_equal(world_drain(&world).result, 0);
    }
    settle();
    for (int i = 0; i < 20000 && fault.hits == 0; i++) /* not before removals have ended for a while */
        poll_some(1);
    struct selene_stats stats = world_stats(&world);
    assert_true(fault.hits > 0);
    assert_int_equal(stats.rows_thinned[SELENE_TIER_DISK], RECORDS - 2);
    assert_int_equal(stats.rows[SELENE_TIER_DISK], 2);
    assert_true(stats.disk_dead_bytes >= (RECORDS - 2) * 2 * world.shape.row_bytes);
    assert_int_equal(stats.punched_bytes, 0);
    assert_int_equal(world_restore(&world, &request, &sequence, 8 * RECORDS - 1, NULL), 8);
    assert_int_equal(world_restore(&world, &request, &sequence, 8 * RECORDS, NULL), 8 * RECORDS);
    sel_disk_fault_clear(world.disk);
    for (int i = 0; i < 20000 && world_stats(&world).disk_dead_bytes >= stats.disk_dead_bytes; i++)
        poll_some(1);
    assert_true(world_stats(&world).punched_bytes > 0);
    assert_true(world_stats(&world).disk_dead_bytes < stats.disk_dead_bytes);
    sequence_free(&sequence);
    end();
}

static void count_useless(void *context, struct sel_node *node) {
    uint64_t *useless = context;
    *useless += node->child == NULL && !sel_node_row_usable(world.store, node);
}
static uint64_t useless(void) {
    uint64_t count = 0;
    sel_tree_visit(world.store->tree, count_useless, &count);
    return count;
}

/* [T7]: parents that a crash left without the child they gave their rows up for go at open, repeating upward, and do
 * not come back. */
static void test_crash(void **state) {
    (void)state;
    uint64_t dropped = 0;
    for (uint64_t cut = 0; cut < 40; cut++) {
        struct sequence sequences[4];
        uint64_t ticket;
        world_init(&world, &world_with_rows, 256, 400, true);
        world_disk(&world, cut);
        world.options.spare_rows = cut % 2;
        world.env.group_bytes = 128 << 10;
        world_open(&world);
        request_make(&world, &request, 0, 64);
        for (uint64_t i = 0; i < 4; i++) {
            sequence_make(&world, &sequences[i], i, 120);
            grow(&sequences[i], 8, 80);
        }
        assert_ok(selene_drain(world.store, 0, &ticket));
        for (int i = 0; i < 1000 && world_stats(&world).records[SELENE_TIER_DISK] <= cut; i++)
            poll_some(1);
        uint64_t before = world_stats(&world).records[SELENE_TIER_DISK];
        assert_true(before > cut);
        world_crash(&world, cut);
        world_open(&world);
        world_check(&world);
        assert_int_equal(useless(), 0);
        uint64_t after = world_stats(&world).records[SELENE_TIER_DISK];
        dropped += before > after;
        settle();
        world_crash(&world, cut + 1000);
        world_open(&world);
        assert_int_equal(world_stats(&world).records[SELENE_TIER_DISK], after);
        for (uint64_t i = 0; i < 4; i++) {
            sequence_prefix(&world, &sequences[i]);
            uint64_t held = world_lookup(&world, &sequences[i], 120, NULL);
            assert_int_equal(world_restore(&world, &request, &sequences[i], 120, NULL), held);
            sequence_free(&sequences[i]);
        }
        end();
    }
    assert_true(dropped > 0);
}

/* [T7]: records of other layouts are none of this store's business: theirs may have no rows at all. */
static void test_foreign(void **state) {
    struct sequence sequence;
    (void)state;
    world_init(&world, &world_without_rows, 256, 400, true);
    world_disk(&world, 1);
    world_open(&world);
    request_make(&world, &request, 0, 64);
    sequence_make(&world, &sequence, 1, 200);
    publish(&sequence, 80);
    world_reopen(&world, &sequence, 1);
    uint64_t records = world_stats(&world).records[SELENE_TIER_DISK];
    assert_true(records > 0);
    world_close(&world);
    world.layout.row_bytes = 30000;
    world_open(&world);
    assert_int_equal(world_stats(&world).records[SELENE_TIER_DISK], records);
    world_check(&world);
    world_close(&world);
    world.layout.row_bytes = 0;
    world_open(&world);
    sequence_prefix(&world, &sequence);
    assert_int_equal(world_restore(&world, &request, &sequence, 80, NULL), 80);
    sequence_free(&sequence);
    end();
}

/* [P6, D6]: a disk that is too small drops its coldest leaves with what they leave barren, in memory and on disk. */
static void test_evicted(void **state) {
    (void)state;
    for (uint64_t warm = 0; warm <= 60; warm += 60) {
        static struct sequence sequences[40];
        world_init(&world, &world_with_rows, 256, warm, true);
        world_disk(&world, 1);
        world.options.spare_rows = 0;
        world.options.disk_limit_bytes = 16 << 20;
        world_open(&world);
        request_make(&world, &request, 0, 64);
        for (uint64_t i = 0; i < SEL_COUNT(sequences); i++) {
            sequence_make(&world, &sequences[i], i, 120);
            grow(&sequences[i], 8, 80);
            world_check(&world);
        }
        settle();
        assert_true(world_stats(&world).evictions[SELENE_TIER_DISK] > 0);
        assert_int_equal(useless(), 0);
        for (uint64_t i = 0; i < SEL_COUNT(sequences); i++) {
            uint64_t held = world_lookup(&world, &sequences[i], 120, NULL);
            assert_int_equal(world_restore(&world, &request, &sequences[i], 120, NULL), held);
            sequence_free(&sequences[i]);
        }
        end();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_spilled_later),
        cmocka_unit_test(test_spilled_while_pinned),
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_transaction_fails),
        cmocka_unit_test(test_fork_before_unpin),
        cmocka_unit_test(test_punch_fails),
        cmocka_unit_test(test_crash),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_evicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
