/* SPDX-License-Identifier: Apache-2.0
 *
 * Thinning on disk, and in memory over a disk [T1-T8, P6]: rows that leave by a transaction, or are never written; rows
 * that come back; transactions and writes that fail; what a crash leaves behind.
 */
#include "tests/unit/engine/world.h"

static struct world world;
static struct device_request request;

static void begin(uint32_t spare_rows, uint64_t warm_slots) {
    world_init(&world, &world_with_rows, 256, warm_slots, true);
    world_disk(&world, 1);
    world.options.spare_rows = spare_rows;
    world_open(&world);
    request_make(&world, &request, 0, 64);
}

static void end(void) {
    world_check(&world);
    request_free(&world, &request);
    world_destroy(&world);
}

static void publish(const struct sequence *sequence, uint32_t tokens) {
    assert_int_equal(world_publish(&world, &request, sequence, tokens), SELENE_ACCEPTED);
}

static void grow(const struct sequence *sequence, uint32_t from, uint32_t to) {
    for (uint32_t at = from; at <= to; at += 8)
        publish(sequence, at);
}

static bool disk_row(const struct sequence *sequence, uint32_t tokens) {
    const struct sel_node *node = world_node(&world, sequence, tokens);
    return node->disk.row != 0 && !(node->flags & SEL_THINNING_DISK);
}

static bool memory_row(const struct sequence *sequence, uint32_t tokens) {
    const struct sel_memory *memory = world_node(&world, sequence, tokens)->memory;
    return memory && memory->row.count > 0;
}

static void poll_some(int rounds) {
    struct selene_event event;
    for (int i = 0; i < rounds; i++)
        world_poll(&world, &event, 1);
}

/* Until the last transaction is through. */
static void settle(void) {
    for (int i = 0; i < 1000 && (!sel_list_empty(&world.store->removals) || world.store->spill_count); i++)
        poll_some(1);
    assert_true(sel_list_empty(&world.store->removals));
    world_check(&world);
}

static void reopen(struct sequence *sequence) {
    settle();
    world_close(&world);
    world_open(&world);
    sequence_prefix(&world, sequence);
}

/* [T1, T2, T8]: record by record on disk, with and without a warm tier over it, each tier by its own rule. */
static void chain(uint32_t spare, uint64_t warm) {
    struct sequence sequence;
    begin(spare, warm);
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
        chain(spare, 400);
        chain(spare, 0);
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

/* [T6]: what does not want to go any more when it is tried again stays. */
static void test_fails_then_forks(void **state) {
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
    /* One child is there, and the other comes while the removal fails. */
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

/* [T6]: space that cannot be given back stays charged as dead while the row is gone. */
static void test_punch_fails(void **state) {
    struct sequence sequence;
    struct sel_disk_fault fault = {
        .action = SEL_DISK_FAULT_FAIL, .kinds = 1u << SEL_DISK_PUNCH, .countdown = 1, .repeat = UINT64_MAX};
    (void)state;
    begin(0, 400);
    sel_disk_fault_arm(world.disk, &fault);
    sequence_make(&world, &sequence, 1, 200);
    for (uint32_t at = 8; at <= 80; at += 8) {
        publish(&sequence, at);
        assert_int_equal(world_drain(&world).result, 0);
    }
    settle();
    struct selene_stats stats = world_stats(&world);
    assert_int_equal(stats.rows_thinned[SELENE_TIER_DISK], 8);
    assert_int_equal(stats.rows[SELENE_TIER_DISK], 2);
    assert_true(stats.disk_dead_bytes >= 8 * 2 * world.shape.row_bytes);
    assert_int_equal(stats.punched_bytes, 0);
    assert_int_equal(world_restore(&world, &request, &sequence, 79, NULL), 8);
    assert_int_equal(world_restore(&world, &request, &sequence, 80, NULL), 80);
    sel_disk_fault_clear(world.disk);
    sequence_free(&sequence);
    end();
}

/* [T5]: a row that comes back is written as one new row extent, and is there after a restart; its hold ends in each
 * tier with the next child that commits there. */
static void test_brought_back(void **state) {
    struct sequence a, b;
    (void)state;
    begin(0, 400);
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
    written = world_stats(&world).disk_written_bytes - written;
    assert_int_equal(written, (uint64_t)node->disk.row_blocks * SEL_BLOCK_BYTES);
    assert_int_equal(world_stats(&world).rows[SELENE_TIER_DISK], 3);
    assert_int_equal(world_stats(&world).rows_brought_back, 1);
    sequence_fork(&world, &b, &a, 40, 2, 200);
    publish(&b, 48);
    assert_int_equal(node->flags, SEL_HOLD_DISK);
    assert_int_equal(world_drain(&world).result, 0);
    assert_int_equal(node->flags, 0);
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

/* [P4]: a row write that fails is tried once more; then the row is given up, and the record is not. */
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
        assert_int_equal(world_drain(&world).result, 0);
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
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_spilled_later),
        cmocka_unit_test(test_spilled_while_pinned),
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_clean_by_rule),
        cmocka_unit_test(test_hold_ends_on_the_way),
        cmocka_unit_test(test_transaction_fails),
        cmocka_unit_test(test_fails_then_forks),
        cmocka_unit_test(test_punch_fails),
        cmocka_unit_test(test_brought_back),
        cmocka_unit_test(test_brought_back_from_disk),
        cmocka_unit_test(test_brought_back_meanwhile),
        cmocka_unit_test(test_brought_back_without_memory),
        cmocka_unit_test(test_cancelled_without_memory),
        cmocka_unit_test(test_bad_disk_row),
        cmocka_unit_test(test_row_write_fails),
        cmocka_unit_test(test_crash),
        cmocka_unit_test(test_evicted),
        cmocka_unit_test(test_parked_row_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
