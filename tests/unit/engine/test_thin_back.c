/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that come back to records on disk, and rows that memory alone has [T5, P2, R4]: what is written, when, and what
 * meets on the way.
 */
#include "tests/unit/engine/thin_rig.h"

/* [T2, P2]: a row in memory that the disk does not keep is no reason to write; it is, once that would keep it. */
static void test_clean_by_rule(void **state) {
    struct sequence sequence;
    (void)state;
    begin(0, 400);
    sequence_make(&world, &sequence, 1, 200);
    grow(&sequence, 8, 16);
    assert_int_equal(world_drain(&world).result, 0);
    struct sel_node *node = world_node(&world, &sequence, 16);
    sel_pin(world.store, node, SEL_TIER_DISK);
    publish(&sequence, 24);
    assert_int_equal(world_drain(&world).result, 0);
    /* Read once more, and kept in memory, before it goes. */
    assert_int_equal(world_restore(&world, &request, &sequence, 16, NULL), 16);
    sel_unpin(world.store, node, SEL_TIER_DISK);
    settle();
    assert_true(memory_row(&sequence, 16));
    assert_false(disk_row(&sequence, 16));
    assert_false(node->tier[SEL_TIER_MEMORY].parked);
    assert_int_equal(world_drain(&world).drained_written, 0);
    /* Its child leaves: it is a leaf again, and memory has the only row. */
    struct sel_node *leaf = world_node(&world, &sequence, 24);
    sel_memory_detach(world.store, leaf);
    sel_disk_detach(world.store, leaf);
    sel_thin_release(world.store, &leaf);
    assert_true(node->tier[SEL_TIER_MEMORY].parked);
    world_check(&world);
    assert_int_equal(world_drain(&world).drained_written, 1);
    assert_true(disk_row(&sequence, 16));
    reopen(&sequence);
    assert_int_equal(world_restore(&world, &request, &sequence, 30, NULL), 16);
    sequence_free(&sequence);
    end();
}

/* [T5]: a hold that ends while the row is still being written. */
static void test_hold_ends_on_the_way(void **state) {
    struct sequence sequence;
    (void)state;
    begin(0, 400);
    sequence_make(&world, &sequence, 1, 200);
    grow(&sequence, 8, 24);
    assert_int_equal(world_drain(&world).result, 0);
    struct sel_node *node = world_node(&world, &sequence, 24);
    for (int tier = SEL_TIER_MEMORY; tier <= SEL_TIER_DISK; tier++) {
        sel_pin(world.store, node, (enum sel_tier)tier);
        sel_copy_failed(world.store, node, (enum sel_tier)tier, SEL_LSM_ROW, SELENE_E_CORRUPT);
        sel_unpin(world.store, node, (enum sel_tier)tier);
    }
    publish(&sequence, 24);
    assert_int_equal(node->flags, SEL_HOLD_MEMORY | SEL_HOLD_DISK);
    struct sel_disk_fault fault = {.action = SEL_DISK_FAULT_HOLD, .kinds = 1u << SEL_DISK_WRITE, .countdown = 1};
    sel_disk_fault_arm(world.disk, &fault);
    assert_ok(sel_spill_chain(world.store, node, false));
    poll_some(3);
    assert_int_equal(sel_disk_fault_held(world.disk), 1);
    publish(&sequence, 32);
    assert_true(memory_row(&sequence, 24)); /* it is being written */
    assert_ok(sel_spill_chain(world.store, world_node(&world, &sequence, 32), false));
    for (int i = 0; i < 1000 && !world_node(&world, &sequence, 32)->tier[SEL_TIER_DISK].present; i++)
        poll_some(1);
    assert_int_equal(node->flags & (SEL_HOLD_MEMORY | SEL_HOLD_DISK), 0);
    assert_false(disk_row(&sequence, 24));
    sel_disk_fault_release(world.disk);
    for (int i = 0; i < 1000 && world.store->spill_count; i++)
        poll_some(1);
    settle();
    assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_DISK], 1);
    assert_false(disk_row(&sequence, 24));
    assert_false(memory_row(&sequence, 24));
    assert_int_equal(node->tier[SEL_TIER_DISK].pins, 0);
    sequence_free(&sequence);
    end();
}

/* [T5]: a row that comes back is written as one new row extent, and is there after a restart; its hold ends in each
 * tier with the next child that commits there. */
static void brought_back(bool alike) {
    struct sequence a, b;
    begin_alike(0, 400, alike);
    sequence_make(&world, &a, 1, 200);
    grow(&a, 8, 80);
    assert_int_equal(world_drain(&world).result, 0);
    uint64_t written = world_stats(&world).disk_written_bytes;
    publish(&a, 40);
    struct sel_node *node = world_node(&world, &a, 40);
    assert_true(node->tier[SEL_TIER_MEMORY].parked);
    assert_int_equal(node->flags, SEL_HOLD_MEMORY | SEL_HOLD_DISK);
    assert_int_equal(world_drain(&world).drained_written, 1);
    assert_false(node->tier[SEL_TIER_MEMORY].parked);
    assert_true(disk_row(&a, 40));
    assert_int_equal((node->flags & SEL_DISK_ROW_PACKED) != 0, alike);
    written = world_stats(&world).disk_written_bytes - written;
    assert_int_equal(written, (uint64_t)node->disk.row_blocks * SEL_BLOCK_BYTES);
    assert_int_equal(world_stats(&world).rows[SELENE_TIER_DISK], 3);
    assert_int_equal(world_stats(&world).rows_brought_back, 1);
    sequence_fork(&world, &b, &a, 40, 2, 200);
    publish(&b, 48);
    assert_int_equal(node->flags & ~SEL_DISK_ROW_PACKED, SEL_HOLD_DISK);
    assert_int_equal(world_drain(&world).result, 0);
    assert_int_equal(node->flags & ~SEL_DISK_ROW_PACKED, 0);
    grow(&b, 56, 64);
    assert_int_equal(world_drain(&world).result, 0);
    assert_true(disk_row(&a, 40));
    reopen(&a);
    sequence_prefix(&world, &b);
    assert_int_equal(world_restore(&world, &request, &a, 47, NULL), 40);
    assert_int_equal(world_restore(&world, &request, &b, 47, NULL), 40);
    assert_int_equal(world_restore(&world, &request, &b, 199, NULL), 64);
    assert_int_equal(world_stats(&world).rows[SELENE_TIER_DISK], 4);
    sequence_free(&a);
    sequence_free(&b);
    end();
}
static void test_brought_back(void **state) { (void)state, brought_back(false), brought_back(true); }

/* The chain of one record, by the clock; a segment may still have to be made. */
static void spill(struct sel_node *node) {
    int result = sel_spill_chain(world.store, node, false);
    for (int i = 0; i < 1000 && (result || world.store->spill_count); i++) {
        poll_some(1);
        if (result)
            result = sel_spill_chain(world.store, node, false);
    }
    assert_int_equal(result, 0);
}

/* [T5, P8]: the fork commits before the older child does, so that the disk sees an only child for a while: the row is
 * written once all the same, and stays. */
static void test_fork_commits_first(void **state) {
    struct sequence a, b;
    (void)state;
    for (int turn = 0; turn < 4; turn++) {
        begin(turn % 2, 400);
        sequence_make(&world, &a, 1, 200);
        sequence_fork(&world, &b, &a, 16, 2, 200);
        grow(&a, 8, 40);
        struct sel_node *node = world_node(&world, &a, 16);
        spill(node);
        assert_false(disk_row(&a, 16));
        publish(&a, 16);
        if (turn < 2) /* the row is there before the fork */
            spill(node);
        grow(&b, 24, 40);
        spill(world_node(&world, &b, 40));
        settle();
        assert_int_equal(node->tier[SEL_TIER_DISK].children, 1);
        assert_true(disk_row(&a, 16));
        assert_false(node->tier[SEL_TIER_MEMORY].parked);
        assert_int_equal(world_drain(&world).result, 0);
        settle();
        assert_int_equal(world.store->parked_count, 0);
        assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_DISK], 0);
        assert_true(disk_row(&a, 16));
        reopen(&a);
        sequence_prefix(&world, &b);
        assert_int_equal(world_restore(&world, &request, &a, 23, NULL), 16);
        assert_int_equal(world_restore(&world, &request, &b, 23, NULL), 16);
        sequence_free(&a);
        sequence_free(&b);
        end();
    }
}

/* [T1, P3]: memory thinned the record when it had one child; the fork resumed through the disk's row, and commits there
 * before that child: the row stays, since both sides are known. */
static void test_fork_has_row_on_disk_only(void **state) {
    struct sequence a, b;
    (void)state;
    begin(0, 400);
    sequence_make(&world, &a, 1, 200);
    sequence_fork(&world, &b, &a, 16, 2, 200);
    grow(&a, 8, 16);
    assert_int_equal(world_drain(&world).result, 0);
    publish(&a, 24);
    assert_false(memory_row(&a, 16));
    assert_int_equal(world_lookup(&world, &b, 24, NULL), 16);
    publish(&b, 24);
    spill(world_node(&world, &b, 24));
    settle();
    assert_int_equal(world_node(&world, &a, 16)->tier[SEL_TIER_DISK].children, 1);
    assert_true(disk_row(&a, 16));
    assert_int_equal(world_drain(&world).result, 0);
    settle();
    assert_true(disk_row(&a, 16));
    assert_int_equal(world_restore(&world, &request, &b, 23, NULL), 16);
    sequence_free(&a);
    sequence_free(&b);
    end();
}

/* [T5]: a record that memory does not have comes back with its pages, and only its row is written. */
static void test_brought_back_from_disk(void **state) {
    struct sequence sequence;
    (void)state;
    begin(0, 400);
    sequence_make(&world, &sequence, 1, 200);
    grow(&sequence, 8, 80);
    world_reopen(&world, &sequence, 1);
    publish(&sequence, 40);
    assert_true(memory_row(&sequence, 40));
    struct sel_node *node = world_node(&world, &sequence, 40);
    assert_true(node->tier[SEL_TIER_MEMORY].parked);
    uint64_t written = world_stats(&world).disk_written_bytes;
    assert_int_equal(world_drain(&world).drained_written, 1);
    written = world_stats(&world).disk_written_bytes - written;
    assert_int_equal(written, (uint64_t)node->disk.row_blocks * SEL_BLOCK_BYTES);
    world_reopen(&world, &sequence, 1);
    assert_int_equal(world_restore(&world, &request, &sequence, 47, NULL), 40);
    sequence_free(&sequence);
    end();
}

/* [T5, T2]: memory has the only row, and of the children none but the fork: that one's coming does not take the row away
 * before the disk has it, which will keep it. Then memory goes by its own children. */
static void test_brought_back_for_a_fork(void **state) {
    struct sequence a, b;
    (void)state;
    for (uint32_t spare = 0; spare <= 1; spare++) {
        begin(spare, 400);
        sequence_make(&world, &a, 1, 200);
        sequence_fork(&world, &b, &a, 40, 2, 200);
        grow(&a, 8, 80);
        world_reopen(&world, &a, 1);
        sequence_prefix(&world, &b);
        publish(&a, 40);
        grow(&b, 48, 64);
        struct sel_node *node = world_node(&world, &a, 40);
        assert_int_equal(node->tier[SEL_TIER_MEMORY].children, 1);
        assert_true(memory_row(&a, 40));
        assert_true(node->tier[SEL_TIER_MEMORY].parked);
        assert_int_equal(world_lookup(&world, &a, 47, NULL), 40);
        assert_int_equal(world_drain(&world).result, 0);
        settle();
        assert_true(disk_row(&a, 40));
        assert_false(memory_row(&a, 40));
        assert_int_equal(world_restore(&world, &request, &a, 47, NULL), 40);
        assert_int_equal(world_restore(&world, &request, &b, 47, NULL), 40);
        sequence_free(&a);
        sequence_free(&b);
        end();
    }
}

/* [T5]: while the removal is on its way the key is not Present, and the row that is brought is not lost with it; nor
 * are there two. */
static void test_brought_back_meanwhile(void **state) {
    struct sequence sequence;
    (void)state;
    begin(0, 400);
    sequence_make(&world, &sequence, 1, 200);
    grow(&sequence, 8, 16);
    assert_int_equal(world_drain(&world).result, 0);
    struct sel_node *node = world_node(&world, &sequence, 16);
    sel_pin(world.store, node, SEL_TIER_DISK);
    publish(&sequence, 24);
    /* By the clock, since nothing may hurry the removal after it. */
    assert_ok(sel_spill_chain(world.store, world_node(&world, &sequence, 24), false));
    for (int i = 0; i < 1000 && world.store->spill_count; i++)
        poll_some(1);
    sel_unpin(world.store, node, SEL_TIER_DISK);
    assert_true(node->flags & SEL_THINNING_DISK);
    struct selene_publish_result result;
    request_fill(&world, &request, &sequence, 16);
    assert_ok(selene_publish(world.store, sequence.prefix, 16, &request.state, &result));
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    assert_int_equal(world_wait(&world, result.ticket).result, 0);
    assert_true(node->flags & SEL_THINNING_DISK);
    /* The row is written while the removal waits for its transaction. */
    uint64_t ticket;
    assert_ok(selene_drain(world.store, 0, &ticket));
    assert_int_equal(world_wait(&world, ticket).result, 0);
    settle();
    assert_true(disk_row(&sequence, 16));
    assert_true(memory_row(&sequence, 16));
    assert_false(node->tier[SEL_TIER_MEMORY].parked);
    assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_DISK], 1);
    assert_int_equal(world_stats(&world).rows[SELENE_TIER_DISK], 3);
    reopen(&sequence);
    assert_int_equal(world_restore(&world, &request, &sequence, 23, NULL), 16);
    sequence_free(&sequence);
    end();
}

/* [T5, M5]: without a warm tier the row streams to disk as one new extent, packed or not; whatever is on its way. */
static void test_brought_back_without_memory(void **state) {
    struct sequence a, b;
    struct selene_publish_result result;
    (void)state;
    for (int packing = 0; packing < 2; packing++)
        for (int meanwhile = 0; meanwhile < 2; meanwhile++) {
            world_init(&world, &world_with_rows, 256, 0, true);
            world_disk(&world, 1);
            world.options.spare_rows = 0;
            world.options.no_packing = !packing;
            world.options.report_commits = 1;
            world_open(&world);
            request_make(&world, &request, 0, 64);
            sequence_make(&world, &a, 1, 200);
            grow(&a, 8, 80);
            struct sel_node *node = world_node(&world, &a, 72);
            if (meanwhile)
                assert_true(node->flags & SEL_THINNING_DISK);
            else
                settle();
            uint64_t written = world_stats(&world).disk_written_bytes;
            request_fill(&world, &request, &a, 72);
            assert_ok(selene_publish(world.store, a.prefix, 72, &request.state, &result));
            assert_int_equal(result.answer, SELENE_ACCEPTED);
            assert_int_equal(result.from_tokens, 72);
            struct selene_event event = world_wait(&world, result.ticket);
            assert_int_equal(event.result, 0);
            assert_int_equal(event.bytes, 2 * world.shape.row_bytes);
            written = world_stats(&world).disk_written_bytes - written;
            assert_int_equal(written, (uint64_t)node->disk.row_blocks * SEL_BLOCK_BYTES);
            assert_int_equal(world_publish(&world, &request, &a, 72), SELENE_PRESENT);
            settle();
            assert_true(disk_row(&a, 72));
            assert_int_equal(node->flags & (SEL_HOLD_DISK | SEL_THINNING_DISK), SEL_HOLD_DISK);
            assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_DISK], 8);
            assert_int_equal(world_stats(&world).rows[SELENE_TIER_DISK], 3);
            assert_int_equal(world_stats(&world).rows_brought_back, 1);
            sequence_fork(&world, &b, &a, 72, 2, 200);
            grow(&b, 80, 96);
            reopen(&a);
            sequence_prefix(&world, &b);
            assert_int_equal(world_restore(&world, &request, &a, 79, NULL), 72);
            assert_int_equal(world_restore(&world, &request, &b, 200, NULL), 96);
            sequence_free(&a);
            sequence_free(&b);
            end();
        }
}

/* [T5, R6, fault 23]: a cancelled one leaves the record as it was, wherever it stood. */
static void test_cancelled_without_memory(void **state) {
    struct sequence sequence;
    struct selene_publish_result result;
    (void)state;
    for (int polls = 0; polls < 6; polls++) {
        begin(0, 0);
        sequence_make(&world, &sequence, 1, 200);
        grow(&sequence, 8, 80);
        settle();
        request_fill(&world, &request, &sequence, 40);
        assert_ok(selene_publish(world.store, sequence.prefix, 40, &request.state, &result));
        for (int i = 0; i < polls; i++)
            assert_int_equal(selene_poll(world.store, NULL, 0), 0);
        assert_ok(selene_cancel(world.store, result.ticket));
        struct selene_event event = world_wait(&world, result.ticket);
        assert_true(event.result == SELENE_E_CANCELLED || event.result == 0);
        settle();
        struct sel_node *node = world_node(&world, &sequence, 40);
        assert_int_equal(node->tier[SEL_TIER_DISK].pins, 0);
        assert_int_equal(disk_row(&sequence, 40), event.result == 0);
        assert_int_equal(world_restore(&world, &request, &sequence, 47, NULL), event.result == 0 ? 40 : 8);
        reopen(&sequence);
        assert_int_equal(world_restore(&world, &request, &sequence, 47, NULL), event.result == 0 ? 40 : 8);
        assert_int_equal(world_restore(&world, &request, &sequence, 80, NULL), 80);
        sequence_free(&sequence);
        end();
    }
}

/* [P6, M3]: a row that memory alone has is not evicted as if the disk had it: it is written first. */
static void test_parked_row_is_written(void **state) {
    static struct sequence others[20];
    struct sequence sequence;
    (void)state;
    begin(0, 60);
    sequence_make(&world, &sequence, 1, 120);
    grow(&sequence, 8, 40);
    assert_int_equal(world_drain(&world).result, 0);
    publish(&sequence, 24);
    for (uint64_t i = 0; i < SEL_COUNT(others); i++) {
        sequence_make(&world, &others[i], 100 + i, 80);
        publish(&others[i], 64);
        sequence_free(&others[i]);
    }
    struct sel_node *node = world_node(&world, &sequence, 24);
    assert_false(node->tier[SEL_TIER_MEMORY].present);
    assert_true(disk_row(&sequence, 24));
    assert_int_equal(world_restore(&world, &request, &sequence, 39, NULL), 24);
    sequence_free(&sequence);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean_by_rule),
        cmocka_unit_test(test_hold_ends_on_the_way),
        cmocka_unit_test(test_brought_back),
        cmocka_unit_test(test_fork_commits_first),
        cmocka_unit_test(test_fork_has_row_on_disk_only),
        cmocka_unit_test(test_brought_back_from_disk),
        cmocka_unit_test(test_brought_back_for_a_fork),
        cmocka_unit_test(test_brought_back_meanwhile),
        cmocka_unit_test(test_brought_back_without_memory),
        cmocka_unit_test(test_cancelled_without_memory),
        cmocka_unit_test(test_parked_row_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
