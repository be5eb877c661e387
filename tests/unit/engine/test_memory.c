/* SPDX-License-Identifier: Apache-2.0
 *
 * A store in memory alone: publish, look-up, restore, eviction.
 */
#include "tests/unit/engine/world.h"

static struct world world;
static struct device_request request;

static void begin(const struct world_layout *shape, uint64_t warm_slots, bool inline_edges) {
    world_init(&world, shape, 256, warm_slots, inline_edges);
    world_open(&world);
    request_make(&world, &request, 0, 64);
}

static void end(void) {
    request_free(&world, &request);
    world_destroy(&world);
}

/* [P1, R1, R2, I1, L4]: a chain of checkpoints in mid-page, restored at each of them and at every limit. */
static void chain_with_rows(bool inline_edges) {
    static const uint32_t at[] = {5, 20, 24, 31, 64, 100};
    struct sequence sequence;
    world_init(&world, &world_with_rows, 256, 200, inline_edges);
    world.options.no_thinning = 1;
    world_open(&world);
    request_make(&world, &request, 0, 64);
    sequence_make(&world, &sequence, 1, 120);
    assert_int_equal(world_lookup(&world, &sequence, 119, NULL), 0);
    for (size_t i = 0; i < SEL_COUNT(at); i++) {
        assert_int_equal(world_publish(&world, &request, &sequence, at[i]), SELENE_ACCEPTED);
        assert_int_equal(world_publish(&world, &request, &sequence, at[i]), SELENE_PRESENT);
    }
    for (uint32_t limit = 1, held = 0; limit <= 120; limit++) {
        for (size_t i = 0; i < SEL_COUNT(at); i++)
            held = at[i] <= limit ? at[i] : held;
        if (limit < 5)
            held = 0;
        assert_int_equal(world_restore(&world, &request, &sequence, limit, NULL), held);
        held = 0;
    }
    sequence_free(&sequence);
    end();
}
static void test_chain_with_rows(void **state) { (void)state, chain_with_rows(true), chain_with_rows(false); }

/* [L6]: without rows every page boundary can be resumed at, a publish is cut into groups. */
static void chain_without_rows(bool inline_edges) {
    struct sequence sequence;
    begin(&world_without_rows, 200, inline_edges);
    sequence_make(&world, &sequence, 1, 120);
    assert_int_equal(world_publish(&world, &request, &sequence, 7), SELENE_PRESENT); /* no whole page */
    assert_int_equal(world_publish(&world, &request, &sequence, 45), SELENE_ACCEPTED);
    assert_int_equal(world_publish(&world, &request, &sequence, 40), SELENE_PRESENT);
    assert_int_equal(world_publish(&world, &request, &sequence, 24), SELENE_PRESENT);
    assert_int_equal(world_publish(&world, &request, &sequence, 120), SELENE_ACCEPTED);
    for (uint32_t limit = 1; limit <= 120; limit++)
        assert_int_equal(world_restore(&world, &request, &sequence, limit, NULL), limit - limit % 8);
    struct selene_stats stats;
    assert_ok(selene_get_stats(world.store, &stats, sizeof stats));
    /* 0-4, 4-5, 5-8, 8-12, 12-15 */
    assert_int_equal(stats.records[SELENE_TIER_MEMORY], 5);
    sequence_free(&sequence);
    end();
}
static void test_chain_without_rows(void **state) { (void)state, chain_without_rows(true), chain_without_rows(false); }

/* [L6]: a fork inside a group starts a new record at the group's start. */
static void test_fork_inside_group(void **state) {
    struct sequence a, b;
    (void)state;
    begin(&world_without_rows, 200, true);
    sequence_make(&world, &a, 1, 96);
    sequence_fork(&world, &b, &a, 50, 2, 96);
    assert_int_equal(world_publish(&world, &request, &a, 96), SELENE_ACCEPTED);
    assert_int_equal(world_lookup(&world, &b, 95, NULL), 48);
    request_fill(&world, &request, &b, 96);
    struct selene_publish_result result;
    assert_ok(selene_publish(world.store, b.prefix, 96, &request.state, &result));
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    assert_int_equal(result.from_tokens, 32);
    world_wait(&world, result.ticket);
    assert_int_equal(world_restore(&world, &request, &a, 96, NULL), 96);
    assert_int_equal(world_restore(&world, &request, &b, 96, NULL), 96);
    sequence_free(&a);
    sequence_free(&b);
    end();
}

/* [P6, M5]: memory alone drops its coldest leaves, never in mid-chain; what cannot fit is Oversize at once (where nothing
 * is packed: test_pack.c has the other case). */
static void test_eviction(void **state) {
    struct sequence chain, other[8];
    (void)state;
    begin(&world_with_rows, 40, true);
    world.store->options.no_packing = 1;
    sequence_make(&world, &chain, 1, 64);
    for (uint32_t at = 8; at <= 32; at += 8)
        assert_int_equal(world_publish(&world, &request, &chain, at), SELENE_ACCEPTED);
    for (uint64_t i = 0; i < 8; i++) {
        sequence_make(&world, &other[i], 100 + i, 16);
        assert_int_equal(world_publish(&world, &request, &other[i], 16), SELENE_ACCEPTED);
        uint64_t held = world_lookup(&world, &chain, 32, NULL);
        /* A prefix of the chain, whole records from its root on, and all of it good. */
        assert_int_equal(world_restore(&world, &request, &chain, 32, NULL), held);
        assert_int_equal(world_restore(&world, &request, &other[i], 16, NULL), 16);
    }
    assert_int_equal(world_restore(&world, &request, &other[0], 16, NULL), 0);
    struct selene_stats stats;
    assert_ok(selene_get_stats(world.store, &stats, sizeof stats));
    assert_true(stats.evictions[SELENE_TIER_MEMORY] > 0);
    assert_true(stats.slots_used <= 40);
    struct sequence large;
    sequence_make(&world, &large, 7, 400);
    struct device_request wide;
    request_make(&world, &wide, 64, 64);
    assert_int_equal(world_publish(&world, &wide, &large, 8 * 39), SELENE_OVERSIZE);
    assert_int_equal(world_publish(&world, &wide, &large, 8 * 37), SELENE_ACCEPTED);
    assert_int_equal(world_restore(&world, &wide, &large, 400, NULL), 8 * 37);
    request_free(&world, &wide);
    sequence_free(&large);
    sequence_free(&chain);
    for (int i = 0; i < 8; i++)
        sequence_free(&other[i]);
    end();
}

/* [P7]: with nothing configured the store holds nothing. */
static void test_nothing(void **state) {
    struct sequence sequence;
    (void)state;
    begin(&world_with_rows, 0, true);
    sequence_make(&world, &sequence, 1, 64);
    assert_int_equal(world_lookup(&world, &sequence, 63, NULL), 0);
    assert_int_equal(world_publish(&world, &request, &sequence, 64), SELENE_OVERSIZE);
    sequence_free(&sequence);
    end();
}

/* Nothing is visible or restored before the caller's event [faults 3, 4]; a second publish of the key is told to come
 * again, and so is one beyond it. */
static void test_waits_for_event(void **state) {
    struct sequence sequence;
    struct selene_publish_result first, second;
    struct selene_event event;
    (void)state;
    begin(&world_with_rows, 200, false);
    sequence_make(&world, &sequence, 1, 64);
    request.state.wait = &request.wait;
    assert_ok(selene_publish(world.store, sequence.prefix, 30, &request.state, &first));
    assert_int_equal(first.answer, SELENE_ACCEPTED);
    for (int i = 0; i < 20; i++)
        assert_int_equal(world_poll(&world, &event, 1), 0);
    assert_int_equal(world_lookup(&world, &sequence, 64, NULL), 0);
    for (uint32_t at = 30; at <= 31; at++) {
        assert_ok(selene_publish(world.store, sequence.prefix, at, &request.state, &second));
        assert_int_equal(second.answer, SELENE_RETRY);
        assert_int_equal(second.reason, SELENE_RETRY_IN_FLIGHT);
    }
    world_check(&world);
    request_fill(&world, &request, &sequence, 30);
    __atomic_store_n(&request.wait, 1, __ATOMIC_RELEASE);
    assert_int_equal(world_wait(&world, first.ticket).result, 0);
    /* The same for a restore: device memory is not touched before the event. */
    uint64_t ticket;
    request.wait = 0;
    request_clear(&world, &request, 0x11);
    assert_ok(selene_restore(world.store, sequence.prefix, 30, &request.state, &ticket));
    for (int i = 0; i < 20; i++)
        assert_int_equal(world_poll(&world, &event, 1), 0);
    assert_int_equal(request_touched(&world, &request, 0, 0x11), 0);
    __atomic_store_n(&request.wait, 1, __ATOMIC_RELEASE);
    event = world_wait(&world, ticket);
    assert_int_equal(event.result, 0);
    assert_int_equal(event.tokens, 30);
    assert_int_equal(request_wrong(&world, &request, &sequence, 30, true), 0);
    sequence_free(&sequence);
    end();
}

/* [R6, fault 23]: cancelled at once, or while waiting; everything pinned comes back. */
static void test_cancel(void **state) {
    struct sequence sequence;
    struct selene_publish_result result;
    uint64_t ticket;
    (void)state;
    for (int inline_edges = 0; inline_edges < 2; inline_edges++) {
        begin(&world_with_rows, 200, inline_edges);
        sequence_make(&world, &sequence, 1, 64);
        request_fill(&world, &request, &sequence, 64);
        request.state.wait = &request.wait;
        assert_ok(selene_publish(world.store, sequence.prefix, 64, &request.state, &result));
        assert_ok(selene_cancel(world.store, result.ticket));
        assert_int_equal(world_wait(&world, result.ticket).result, SELENE_E_CANCELLED);
        assert_int_equal(selene_cancel(world.store, result.ticket), SELENE_E_NOTFOUND);
        world_check(&world);
        assert_int_equal(world.store->slots.free_count, world.store->slots.total);
        request.state.wait = NULL;
        assert_int_equal(world_publish(&world, &request, &sequence, 64), SELENE_ACCEPTED);
        request.state.wait = &request.wait;
        assert_ok(selene_restore(world.store, sequence.prefix, 64, &request.state, &ticket));
        assert_ok(selene_cancel(world.store, ticket));
        struct selene_event event = world_wait(&world, ticket);
        assert_int_equal(event.result, SELENE_E_CANCELLED);
        assert_int_equal(event.tokens, 0);
        request.state.wait = NULL;
        assert_ok(selene_restore(world.store, sequence.prefix, 64, &request.state, &ticket));
        assert_ok(selene_cancel(world.store, ticket)); /* may be through or not */
        world_wait(&world, ticket);
        world_check(&world);
        assert_int_equal(world_restore(&world, &request, &sequence, 64, NULL), 64);
        sequence_free(&sequence);
        end();
    }
}

/* [R6]: a publish that waits for slots starts nothing more once it was cancelled. */
static void test_cancel_waiting(void **state) {
    (void)state;
    struct sequence sequence;
    struct selene_publish_result result;
    world_init(&world, &world_without_rows, 64, 5, true);
    world_disk(&world, 1);
    world_open(&world);
    request_make(&world, &request, 0, 64);
    sequence_make(&world, &sequence, 1, 512);
    request_fill(&world, &request, &sequence, 512);
    assert_ok(selene_publish(world.store, sequence.prefix, 512, &request.state, &result));
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    struct selene_event event;
    while (sel_list_empty(&world.store->waiting_publishes))
        assert_int_equal(world_poll(&world, &event, 1), 0);
    uint32_t used = world.store->slots.total - world.store->slots.free_count;
    assert_ok(selene_cancel(world.store, result.ticket));
    sel_publishes_step(world.store);
    assert_true(sel_list_empty(&world.store->waiting_publishes));
    assert_int_equal(world.store->slots.total - world.store->slots.free_count, used);
    event = world_wait(&world, result.ticket);
    assert_int_equal(event.result, SELENE_E_CANCELLED);
    assert_true(event.tokens < 512);
    world_check(&world);
    sequence_free(&sequence);
    request_free(&world, &request);
    world_destroy(&world);
}

/* Closing with requests in flight. */
static void test_close_busy(void **state) {
    struct sequence sequence;
    struct selene_publish_result result;
    uint64_t ticket;
    (void)state;
    begin(&world_with_rows, 200, false);
    sequence_make(&world, &sequence, 1, 64);
    assert_int_equal(world_publish(&world, &request, &sequence, 32), SELENE_ACCEPTED);
    request.state.wait = &request.wait;
    assert_ok(selene_restore(world.store, sequence.prefix, 32, &request.state, &ticket));
    assert_ok(selene_publish(world.store, sequence.prefix, 64, &request.state, &result));
    world_close(&world);
    sequence_free(&sequence);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain_with_rows),
        cmocka_unit_test(test_chain_without_rows),
        cmocka_unit_test(test_fork_inside_group),
        cmocka_unit_test(test_eviction),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_waits_for_event),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_waiting),
        cmocka_unit_test(test_close_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
