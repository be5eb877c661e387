/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that go bad on disk or cannot be written there, and what leaves with a record that is lost [R4, P4, T5, T6].
 */
#include "tests/unit/engine/thin_rig.h"

static void add_blocks(void *context, struct sel_node *node) {
    uint64_t *bytes = context;
    *bytes += (uint64_t)SEL_BLOCK_BYTES * (node->disk.pages_blocks + node->disk.row_blocks);
}

static uint64_t lsm_records(void) {
    struct sel_lsm_stats lsm;
    sel_lsm_get_stats(world.store->lsm, &lsm);
    return lsm.records;
}

/* A publish without a warm tier whose chain is lost while its data is being written; its end. */
static struct selene_event publish_lost(const struct sequence *sequence, uint32_t tokens) {
    struct selene_publish_result result;
    struct sel_disk_fault fault = {.action = SEL_DISK_FAULT_HOLD, .kinds = 1u << SEL_DISK_WRITE, .countdown = 1};
    sel_disk_fault_arm(world.disk, &fault);
    request_fill(&world, &request, sequence, tokens);
    assert_ok(selene_publish(world.store, sequence->prefix, tokens, &request.state, &result));
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    for (int i = 0; i < 1000 && sel_disk_fault_held(world.disk) == 0; i++)
        poll_some(1);
    struct sel_node *root = world_node(&world, sequence, 8);
    sel_pin(world.store, root, SEL_TIER_DISK);
    sel_copy_failed(world.store, root, SEL_TIER_DISK, SEL_LSM_PAGES, SELENE_E_CORRUPT);
    sel_doom(world.store, root);
    sel_unpin(world.store, root, SEL_TIER_DISK);
    sel_disk_fault_release(world.disk);
    sel_disk_fault_clear(world.disk);
    return world_wait(&world, result.ticket);
}

/* [T5, R4, T6, fault 7]: the chain is lost while a row of it, or a record, streams to disk: it leaves with all that was
 * written, once, also when a transaction fails that should remove it. */
static void test_doomed_without_memory(void **state) {
    (void)state;
    for (int turn = 0; turn < 4; turn++) {
        struct sequence a, b;
        begin(0, 0);
        sequence_make(&world, &a, 1, 200);
        sequence_make(&world, &b, 2, 200);
        grow(&a, 8, 24);
        grow(&b, 8, 8);
        settle();
        assert_int_equal(publish_lost(&a, turn % 2 ? 32 : 16).result, SELENE_E_GONE);
        if (turn >= 2)
            sel_catalog_sim_fail(world.catalog_sim, 1, 0, SELENE_E_IO);
        settle();
        sel_lsm_flush(world.store->lsm);
        poll_some(200);
        settle();
        assert_int_equal(sel_tree_count(world.store->tree), 1);
        assert_int_equal(lsm_records(), 1);
        uint64_t bytes = 0;
        sel_tree_visit(world.store->tree, add_blocks, &bytes);
        assert_int_equal(world_stats(&world).disk_live_bytes, bytes);
        reopen(&b);
        assert_int_equal(world_stats(&world).records[SELENE_TIER_DISK], 1);
        assert_int_equal(world_restore(&world, &request, &b, 8, NULL), 8);
        sequence_free(&a);
        sequence_free(&b);
        end();
    }
}

/* [R4, P2]: a row that went bad on disk while memory has a good one is written again by itself. */
static void test_bad_disk_row(void **state) {
    struct sequence sequence;
    (void)state;
    begin(1, 400);
    sequence_make(&world, &sequence, 1, 200);
    grow(&sequence, 8, 24);
    assert_int_equal(world_drain(&world).result, 0);
    struct sel_node *node = world_node(&world, &sequence, 24);
    sel_pin(world.store, node, SEL_TIER_DISK);
    sel_copy_failed(world.store, node, SEL_TIER_DISK, SEL_LSM_ROW, SELENE_E_CORRUPT);
    assert_true(node->tier[SEL_TIER_MEMORY].parked);
    world_check(&world);
    sel_unpin(world.store, node, SEL_TIER_DISK);
    assert_false(disk_row(&sequence, 24));
    assert_int_equal(world_drain(&world).drained_written, 1);
    assert_true(disk_row(&sequence, 24));
    world_reopen(&world, &sequence, 1);
    assert_int_equal(world_restore(&world, &request, &sequence, 30, NULL), 24);
    /* One that the disk would not keep is not written. */
    publish(&sequence, 32);
    publish(&sequence, 40);
    assert_int_equal(world_drain(&world).result, 0);
    sequence_free(&sequence);
    end();
}

/* [R4, D5, T6]: the transaction that removes a bad row fails: it is tried again, and nothing of the row stays charged
 * when another was written. */
static void test_bad_disk_row_stays_named(void **state) {
    struct sequence sequence;
    (void)state;
    begin(1, 400);
    sequence_make(&world, &sequence, 1, 200);
    grow(&sequence, 8, 24);
    assert_int_equal(world_drain(&world).result, 0);
    settle();
    struct sel_node *node = world_node(&world, &sequence, 24);
    sel_pin(world.store, node, SEL_TIER_DISK);
    sel_copy_failed(world.store, node, SEL_TIER_DISK, SEL_LSM_ROW, SELENE_E_CORRUPT);
    sel_catalog_sim_fail(world.catalog_sim, 1, 0, SELENE_E_IO);
    sel_unpin(world.store, node, SEL_TIER_DISK);
    struct sel_lsm_stats lsm;
    sel_lsm_get_stats(world.store->lsm, &lsm);
    for (uint64_t i = 0, before = lsm.transactions; i < 1000 && lsm.transactions == before; i++) {
        poll_some(1);
        sel_lsm_get_stats(world.store->lsm, &lsm);
        assert_false(sel_node_row_readable(node, SEL_TIER_DISK));
    }
    assert_int_equal(world_drain(&world).drained_written, 1);
    settle();
    assert_true(disk_row(&sequence, 24));
    assert_int_equal(node->tier[SEL_TIER_DISK].pins, 0);
    assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_DISK], 0);
    uint64_t bytes = 0;
    sel_tree_visit(world.store->tree, add_blocks, &bytes);
    assert_int_equal(world_stats(&world).disk_live_bytes, bytes);
    world_reopen(&world, &sequence, 1);
    assert_int_equal(world_restore(&world, &request, &sequence, 30, NULL), 24);
    sequence_free(&sequence);
    end();
}

/* [P4, P8]: a row write that fails is tried once more; then the row is given up, and the record is not. The drain says
 * so. */
static void test_row_write_fails(void **state) {
    struct sequence sequence;
    (void)state;
    for (int twice = 0; twice < 2; twice++) {
        begin(0, 400);
        sequence_make(&world, &sequence, 1, 200);
        grow(&sequence, 8, 80);
        assert_int_equal(world_drain(&world).result, 0);
        publish(&sequence, 40);
        struct sel_node *node = world_node(&world, &sequence, 40);
        ((struct sel_memory *)node->memory)->write_failures = (uint8_t)twice;
        struct sel_disk_fault fault = {.action = SEL_DISK_FAULT_FAIL, .kinds = 1u << SEL_DISK_WRITE, .countdown = 1};
        sel_disk_fault_arm(world.disk, &fault);
        struct selene_event event = world_drain(&world);
        assert_int_equal(event.result, twice ? SELENE_E_DEGRADED : 0);
        assert_int_equal(event.drained_written, !twice);
        assert_int_equal(event.drained_skipped_failed, twice);
        settle();
        assert_int_equal(fault.hits, 1);
        sel_disk_fault_clear(world.disk);
        assert_int_equal(disk_row(&sequence, 40), !twice);
        assert_int_equal(memory_row(&sequence, 40), !twice);
        assert_int_equal(world_stats(&world).dropped_records, 0);
        assert_int_equal(world_restore(&world, &request, &sequence, 47, NULL), twice ? 8 : 40);
        assert_int_equal(world_restore(&world, &request, &sequence, 80, NULL), 80);
        world_close_failed(&world);
        sequence_free(&sequence);
        request_free(&world, &request);
        world_destroy(&world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doomed_without_memory),
        cmocka_unit_test(test_bad_disk_row),
        cmocka_unit_test(test_bad_disk_row_stays_named),
        cmocka_unit_test(test_row_write_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
