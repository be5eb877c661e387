/* SPDX-License-Identifier: Apache-2.0
 *
 * Thinning in memory [T1, T3-T5, T8, P6]: which rows stay when chains grow and fork, to the slot; what a later fork
 * resumes at; how a row comes back.
 */
#include "tests/unit/engine/world.h"

static struct world world;
static struct device_request request;

static void begin(const struct world_layout *shape, uint32_t spare_rows, uint64_t warm_slots) {
    world_init(&world, shape, 256, warm_slots, true);
    world.options.spare_rows = spare_rows;
    world_open(&world);
    request_make(&world, &request, 0, 64);
}

static void end(void) {
    request_free(&world, &request);
    world_destroy(&world);
}

static bool has_row(const struct sequence *sequence, uint32_t tokens) {
    const struct sel_memory *memory = world_node(&world, sequence, tokens)->memory;
    return memory && memory->row.count > 0;
}

static void publish(const struct sequence *sequence, uint32_t tokens) {
    assert_int_equal(world_publish(&world, &request, sequence, tokens), SELENE_ACCEPTED);
}

/* Whole pages from `from` on up to `to`, one a record. */
static void grow(const struct sequence *sequence, uint32_t from, uint32_t to) {
    for (uint32_t at = from; at <= to; at += 8)
        publish(sequence, at);
}

/* [T1, T2, T8]: of a chain the root keeps its row, the leaf, and as many above the leaf as there are spare ones; the
 * slots of all others are free at once, and each counts once. */
static void chain(const struct world_layout *shape) {
    for (uint32_t spare = 0; spare <= 2; spare++) {
        struct sequence sequence;
        begin(shape, spare, 400);
        sequence_make(&world, &sequence, 1, 200);
        uint64_t row = sel_part_slots(world.store, world.store->layout->row_slots, shape->row_alike);
        for (uint32_t n = 1; n <= 20; n++) {
            publish(&sequence, 8 * n);
            uint64_t rows = SEL_MIN(n, 2 + spare);
            struct selene_stats stats = world_stats(&world);
            assert_int_equal(stats.slots_used, n + rows * row);
            assert_int_equal(stats.rows[SELENE_TIER_MEMORY], rows);
            assert_int_equal(stats.packed_rows[SELENE_TIER_MEMORY], shape->row_alike ? rows : 0);
            assert_int_equal(stats.rows_thinned[SELENE_TIER_MEMORY], n - rows);
            assert_int_equal(stats.records[SELENE_TIER_MEMORY], n);
            for (uint32_t i = 1; i <= n; i++)
                assert_int_equal(has_row(&sequence, 8 * i), i == 1 || i + spare >= n);
        }
        /* [T4]: at every limit the nearest row below it, over the pages of those without. */
        for (uint32_t limit = 8; limit <= 200; limit++) {
            uint32_t records = SEL_MIN(limit / 8, 20);
            uint64_t expected = records + spare >= 20 ? 8 * records : 8;
            assert_int_equal(world_restore(&world, &request, &sequence, limit, NULL), expected);
        }
        sequence_free(&sequence);
        end();
    }
}

static void test_chain(void **state) {
    struct world_layout alike = world_with_rows;
    (void)state;
    chain(&world_with_rows);
    alike.row_alike = true; /* the row packed, the pages not [K1] */
    chain(&alike);
}

/* [T1]: branch points keep their rows, and so do the leaves of all branches. */
static void test_branches(void **state) {
    (void)state;
    for (uint32_t spare = 0; spare <= 1; spare++) {
        struct sequence a, b;
        begin(&world_with_rows, spare, 400);
        sequence_make(&world, &a, 1, 200);
        sequence_fork(&world, &b, &a, 24, 2, 200);
        grow(&a, 8, 32);
        if (spare == 0) /* the row at 24 is gone already */
            publish(&a, 24);
        publish(&b, 32);
        grow(&a, 40, 80);
        grow(&b, 40, 64);
        for (uint32_t at = 8; at <= 80; at += 8) {
            assert_int_equal(has_row(&a, at), at == 8 || at == 24 || at + 8 * spare >= 80);
            if (at > 24 && at <= 64)
                assert_int_equal(has_row(&b, at), at + 8 * spare >= 64);
        }
        assert_int_equal(world_stats(&world).rows[SELENE_TIER_MEMORY], 4 + 2 * spare);
        sequence_free(&a);
        sequence_free(&b);
        end();
    }
}

/* [T8]: the walk to the nearest leaf ends at a branch point, however near its leaves are. */
static void test_above_a_branch(void **state) {
    struct sequence a, b;
    (void)state;
    begin(&world_with_rows, 3, 400);
    sequence_make(&world, &a, 1, 200);
    sequence_fork(&world, &b, &a, 24, 2, 200);
    grow(&a, 8, 32);
    assert_true(has_row(&a, 16));
    publish(&b, 32);
    assert_false(has_row(&a, 16));
    assert_true(has_row(&a, 24));
    assert_true(has_row(&a, 8));
    sequence_free(&a);
    sequence_free(&b);
    end();
}

/* Without rows, or with thinning switched off, nothing changes. */
static void test_off(void **state) {
    (void)state;
    for (int rows = 0; rows < 2; rows++) {
        struct sequence sequence;
        world_init(&world, rows ? &world_with_rows : &world_without_rows, 256, 400, true);
        world.options.spare_rows = 0;
        world.options.no_thinning = rows;
        world_open(&world);
        request_make(&world, &request, 0, 64);
        sequence_make(&world, &sequence, 1, 200);
        grow(&sequence, 8, 80);
        struct selene_stats stats = world_stats(&world);
        assert_int_equal(stats.rows_thinned[SELENE_TIER_MEMORY], 0);
        assert_int_equal(stats.rows[SELENE_TIER_MEMORY], rows ? 10 : 0);
        for (uint32_t at = 8; at <= 80; at += 8)
            assert_int_equal(world_restore(&world, &request, &sequence, at, NULL), at);
        sequence_free(&sequence);
        end();
    }
}

/* [T3]: a pin keeps the row, and who has it may read it; when the last one goes the rule is asked again. */
static void test_pins(void **state) {
    struct sequence a, b;
    (void)state;
    begin(&world_with_rows, 0, 400);
    sequence_make(&world, &a, 1, 200);
    sequence_fork(&world, &b, &a, 16, 2, 200);
    grow(&a, 8, 16);
    struct sel_node *node = world_node(&world, &a, 16);
    for (int fork = 0; fork < 2; fork++) {
        sel_pin(world.store, node, SEL_TIER_MEMORY);
        sel_pin(world.store, node, SEL_TIER_MEMORY);
        publish(fork ? &b : &a, 24);
        assert_true(has_row(&a, 16));
        assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_MEMORY], 0);
        assert_int_equal(world_restore(&world, &request, &a, 16, NULL), 16);
        assert_int_equal(world_publish(&world, &request, &a, 16), SELENE_PRESENT);
        sel_unpin(world.store, node, SEL_TIER_MEMORY);
        assert_true(has_row(&a, 16));
        if (fork == 0) /* a second child comes before the last pin goes: it is a branch point and keeps its row */
            publish(&b, 24);
        sel_unpin(world.store, node, SEL_TIER_MEMORY);
        world_check(&world);
        assert_true(has_row(&a, 16));
        if (fork == 0) {
            sequence_free(&b);
            sequence_fork(&world, &b, &a, 16, 3, 200);
        }
    }
    /* And without a fork it goes with the last pin. */
    node = world_node(&world, &a, 24);
    sel_pin(world.store, node, SEL_TIER_MEMORY);
    publish(&a, 32);
    assert_true(has_row(&a, 24));
    sel_unpin(world.store, node, SEL_TIER_MEMORY);
    assert_false(has_row(&a, 24));
    assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_MEMORY], 1);
    world_check(&world);
    sequence_free(&a);
    sequence_free(&b);
    end();
}

/* [T5]: a publish at a key whose row is about to go finds it Present, and it stays for the fork that is announced. */
static void test_present_and_held(void **state) {
    struct sequence a, b;
    (void)state;
    begin(&world_with_rows, 0, 400);
    sequence_make(&world, &a, 1, 200);
    sequence_fork(&world, &b, &a, 16, 2, 200);
    grow(&a, 8, 16);
    struct sel_node *node = world_node(&world, &a, 16);
    sel_pin(world.store, node, SEL_TIER_MEMORY);
    publish(&a, 24);
    assert_int_equal(world_publish(&world, &request, &a, 16), SELENE_PRESENT);
    sel_unpin(world.store, node, SEL_TIER_MEMORY);
    assert_true(has_row(&a, 16));
    publish(&b, 24);
    publish(&b, 32);
    assert_true(has_row(&a, 16));
    sequence_free(&a);
    sequence_free(&b);
    end();
}

/* [T3]: a restore that reads the row keeps it until its event. */
static void test_restore_pins(void **state) {
    struct sequence sequence;
    uint64_t ticket;
    (void)state;
    begin(&world_with_rows, 0, 400);
    sequence_make(&world, &sequence, 1, 200);
    grow(&sequence, 8, 16);
    struct device_request other;
    request_make(&world, &other, 64, 64);
    other.state.wait = &other.wait;
    assert_ok(selene_restore(world.store, sequence.prefix, 16, &other.state, &ticket));
    publish(&sequence, 24);
    publish(&sequence, 32);
    assert_true(has_row(&sequence, 16));
    assert_false(has_row(&sequence, 24));
    __atomic_store_n(&other.wait, 1, __ATOMIC_RELEASE);
    struct selene_event event = world_wait(&world, ticket);
    assert_int_equal(event.result, 0);
    assert_int_equal(event.tokens, 16);
    assert_int_equal(request_wrong(&world, &other, &sequence, 16, true), 0);
    assert_false(has_row(&sequence, 16));
    world_check(&world);
    request_free(&world, &other);
    sequence_free(&sequence);
    end();
}

/* [T5]: a publish at a thinned key is accepted, copies the row alone, and the row is held until the next child comes;
 * then the rule holds again. */
static void test_brought_back(void **state) {
    struct sequence a, b;
    (void)state;
    begin(&world_with_rows, 0, 400);
    sequence_make(&world, &a, 1, 200);
    grow(&a, 8, 80);
    struct selene_stats before = world_stats(&world);
    struct selene_publish_result result;
    request_fill(&world, &request, &a, 40);
    assert_ok(selene_publish(world.store, a.prefix, 40, &request.state, &result));
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    assert_int_equal(result.from_tokens, 40);
    /* Meanwhile it is on its way, and not Present. */
    struct selene_publish_result again;
    assert_ok(selene_publish(world.store, a.prefix, 40, &request.state, &again));
    assert_int_equal(again.answer, SELENE_RETRY);
    assert_int_equal(again.reason, SELENE_RETRY_IN_FLIGHT);
    struct selene_event event = world_wait(&world, result.ticket);
    assert_int_equal(event.result, 0);
    assert_int_equal(event.tokens, 40);
    assert_int_equal(event.bytes, 2 * world.shape.row_bytes);
    struct selene_stats after = world_stats(&world);
    assert_int_equal(after.slots_used, before.slots_used + world.store->layout->row_slots);
    assert_int_equal(after.rows_brought_back, 1);
    assert_int_equal(world_publish(&world, &request, &a, 40), SELENE_PRESENT);
    assert_int_equal(world_restore(&world, &request, &a, 47, NULL), 40);
    /* What happens elsewhere on the chain does not release it. */
    grow(&a, 88, 96);
    assert_true(has_row(&a, 40));
    /* The fork: a branch point from now on. */
    sequence_fork(&world, &b, &a, 40, 2, 200);
    publish(&b, 48);
    assert_false(world_node(&world, &a, 40)->flags & SEL_HOLD_MEMORY);
    grow(&b, 56, 80);
    assert_true(has_row(&a, 40));
    assert_int_equal(world_restore(&world, &request, &b, 47, NULL), 40);
    assert_int_equal(world_restore(&world, &request, &b, 200, NULL), 80);
    assert_int_equal(world_restore(&world, &request, &a, 200, NULL), 96);
    sequence_free(&a);
    sequence_free(&b);
    end();
}

/* [T5]: a hold ends with the next child even when that makes no branch point: a leaf that lost its row to damage. */
static void test_hold_ends(void **state) {
    struct sequence sequence;
    (void)state;
    begin(&world_with_rows, 0, 400);
    sequence_make(&world, &sequence, 1, 200);
    grow(&sequence, 8, 24);
    struct sel_node *node = world_node(&world, &sequence, 24);
    sel_pin(world.store, node, SEL_TIER_MEMORY);
    sel_copy_failed(world.store, node, SEL_TIER_MEMORY, SEL_LSM_ROW, SELENE_E_CORRUPT);
    /* While the bad row is pinned there is no place for another [R4]. */
    struct selene_publish_result result;
    request_fill(&world, &request, &sequence, 24);
    assert_ok(selene_publish(world.store, sequence.prefix, 24, &request.state, &result));
    assert_int_equal(result.answer, SELENE_RETRY);
    sel_unpin(world.store, node, SEL_TIER_MEMORY);
    assert_false(has_row(&sequence, 24)); /* a bad row only thins */
    assert_int_equal(world_stats(&world).rows_thinned[SELENE_TIER_MEMORY], 1);
    publish(&sequence, 24);
    assert_true(has_row(&sequence, 24));
    assert_true(node->flags & SEL_HOLD_MEMORY);
    publish(&sequence, 32);
    assert_false(has_row(&sequence, 24));
    sequence_free(&sequence);
    end();
}

/* [T5]: without room for the row the answer is Retry, and nothing has changed. */
static void test_no_room(void **state) {
    struct sequence sequence;
    (void)state;
    begin(&world_with_rows, 0, 400);
    sequence_make(&world, &sequence, 1, 200);
    grow(&sequence, 8, 80);
    uint32_t count = world.store->slots.free_count - 2, *ids = malloc(count * sizeof *ids);
    assert_non_null(ids);
    assert_true(sel_slots_take(&world.store->slots, ids, count));
    struct sel_node *leaf = world_node(&world, &sequence, 80);
    sel_pin(world.store, leaf, SEL_TIER_MEMORY);
    struct selene_publish_result result;
    request_fill(&world, &request, &sequence, 40);
    assert_ok(selene_publish(world.store, sequence.prefix, 40, &request.state, &result));
    assert_int_equal(result.answer, SELENE_RETRY);
    assert_int_equal(result.reason, SELENE_RETRY_SLOTS);
    assert_int_equal(world_node(&world, &sequence, 40)->tier[SEL_TIER_MEMORY].pins, 0);
    sel_unpin(world.store, leaf, SEL_TIER_MEMORY);
    sel_slots_give(&world.store->slots, ids, count);
    free(ids);
    world_check(&world);
    publish(&sequence, 40);
    assert_true(has_row(&sequence, 40));
    sequence_free(&sequence);
    end();
}

/* [T5, fault 23]: a publish at a thinned key that is cancelled leaves no pin, no slot and no hold behind. */
static void test_cancelled(void **state) {
    struct sequence sequence;
    struct selene_publish_result result;
    (void)state;
    begin(&world_with_rows, 0, 400);
    sequence_make(&world, &sequence, 1, 200);
    grow(&sequence, 8, 80);
    struct sel_node *node = world_node(&world, &sequence, 40);
    uint64_t used = world_stats(&world).slots_used;
    request_fill(&world, &request, &sequence, 40);
    request.wait = 0;
    request.state.wait = &request.wait;
    assert_ok(selene_publish(world.store, sequence.prefix, 40, &request.state, &result));
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    world_check(&world);
    assert_ok(selene_cancel(world.store, result.ticket));
    assert_int_equal(world_wait(&world, result.ticket).result, SELENE_E_CANCELLED);
    request.state.wait = NULL;
    assert_int_equal(world_stats(&world).slots_used, used);
    assert_int_equal(node->tier[SEL_TIER_MEMORY].pins, 0);
    assert_int_equal(node->flags, 0);
    world_check(&world);
    sequence_free(&sequence);
    end();
}

/* [T5]: the row is on its way when the fork itself commits: a branch point by then, it keeps the row all the same. */
static void test_fork_first(void **state) {
    struct sequence a, b;
    struct selene_publish_result result;
    (void)state;
    begin(&world_with_rows, 0, 400);
    sequence_make(&world, &a, 1, 200);
    grow(&a, 8, 80);
    struct device_request other;
    request_make(&world, &other, 64, 64);
    request_fill(&world, &other, &a, 40);
    other.state.wait = &other.wait;
    assert_ok(selene_publish(world.store, a.prefix, 40, &other.state, &result));
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    sequence_fork(&world, &b, &a, 40, 2, 200);
    grow(&b, 48, 64);
    assert_false(has_row(&a, 40));
    __atomic_store_n(&other.wait, 1, __ATOMIC_RELEASE);
    assert_int_equal(world_wait(&world, result.ticket).result, 0);
    grow(&b, 72, 80);
    assert_true(has_row(&a, 40));
    assert_int_equal(world_stats(&world).rows[SELENE_TIER_MEMORY], 4);
    request_free(&world, &other);
    sequence_free(&a);
    sequence_free(&b);
    end();
}

/* [P6]: a leaf that leaves its last tier takes the thinned records above it along, up to one with a row or a child. */
static void test_barren(void **state) {
    struct sequence a, b;
    (void)state;
    for (int pinned = 0; pinned < 2; pinned++) {
        begin(&world_with_rows, 0, 400);
        sequence_make(&world, &a, 1, 200);
        sequence_fork(&world, &b, &a, 24, 2, 200);
        grow(&a, 8, 32);
        publish(&a, 24);
        publish(&b, 32);
        grow(&a, 40, 80);
        assert_int_equal(world_stats(&world).records[SELENE_TIER_MEMORY], 11);
        struct sel_node *middle = world_node(&world, &a, 56), *leaf = world_node(&world, &a, 80);
        if (pinned)
            sel_pin(world.store, middle, SEL_TIER_MEMORY);
        sel_memory_detach(world.store, leaf);
        sel_thin_release(world.store, &leaf);
        world_check(&world);
        assert_null(leaf);
        if (pinned) { /* up to what is pinned; the rest when that goes */
            assert_int_equal(world_stats(&world).records[SELENE_TIER_MEMORY], 8);
            sel_unpin(world.store, middle, SEL_TIER_MEMORY);
            world_check(&world);
        }
        /* The root, the record at 16 without a row, the branch point at 24 and the other branch. */
        assert_int_equal(world_stats(&world).records[SELENE_TIER_MEMORY], 4);
        assert_int_equal(world_lookup(&world, &a, 200, NULL), 24);
        assert_int_equal(world_restore(&world, &request, &b, 200, NULL), 32);
        sequence_free(&a);
        sequence_free(&b);
        end();
    }
}

/* [P6]: a pinned one that has a child again when its pin goes stays. */
static void test_barren_no_more(void **state) {
    struct sequence a;
    (void)state;
    begin(&world_with_rows, 0, 400);
    sequence_make(&world, &a, 1, 200);
    grow(&a, 8, 40);
    struct sel_node *middle = world_node(&world, &a, 32), *leaf = world_node(&world, &a, 40);
    sel_pin(world.store, middle, SEL_TIER_MEMORY);
    sel_memory_detach(world.store, leaf);
    sel_thin_release(world.store, &leaf);
    assert_true(middle->flags & SEL_BARREN);
    publish(&a, 40);
    sel_unpin(world.store, middle, SEL_TIER_MEMORY);
    world_check(&world);
    assert_int_equal(world_restore(&world, &request, &a, 200, NULL), 40);
    sequence_free(&a);
    end();
}

/* [P6, M3]: under pressure memory alone drops leaves and what they leave barren; whatever it still finds is whole. */
static void test_evicted(void **state) {
    struct sequence sequences[12];
    (void)state;
    begin(&world_with_rows, 1, 60);
    for (uint64_t i = 0; i < SEL_COUNT(sequences); i++) {
        sequence_make(&world, &sequences[i], i, 80);
        grow(&sequences[i], 8, 64);
        assert_int_equal(world_restore(&world, &request, &sequences[i], 80, NULL), 64);
    }
    uint64_t found = 0, records = world_stats(&world).records[SELENE_TIER_MEMORY];
    for (uint64_t i = 0; i < SEL_COUNT(sequences); i++) {
        uint64_t held = world_lookup(&world, &sequences[i], 80, NULL);
        assert_int_equal(world_restore(&world, &request, &sequences[i], 80, NULL), held);
        found += held / 8;
        sequence_free(&sequences[i]);
    }
    /* No record without a use: all of them lie on a chain to a row. */
    assert_int_equal(found, records);
    assert_true(world_stats(&world).evictions[SELENE_TIER_MEMORY] > 0);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),          cmocka_unit_test(test_branches),
        cmocka_unit_test(test_above_a_branch), cmocka_unit_test(test_off),
        cmocka_unit_test(test_pins),           cmocka_unit_test(test_present_and_held),
        cmocka_unit_test(test_restore_pins),   cmocka_unit_test(test_brought_back),
        cmocka_unit_test(test_hold_ends),      cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_cancelled),      cmocka_unit_test(test_fork_first),
        cmocka_unit_test(test_barren),         cmocka_unit_test(test_barren_no_more),
        cmocka_unit_test(test_evicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
