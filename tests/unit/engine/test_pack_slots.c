/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing when slots are short [M5, K1]: they are taken at the call by what the last comparison said, and what turns out
 * to be too few is waited for, with none in hand.
 */
#include "tests/unit/engine/world.h"

enum { PAGE = 8, BLOCKS = 40, MANY = 6, RANKS = 4, ROW = 3 };

static struct world world;
static struct device_request requests[MANY];
static struct sequence sequences[MANY];

static void begin(bool alike, uint64_t warm_slots, bool disk) {
    struct world_layout shape = world_with_rows;
    shape.rank_count = RANKS;
    shape.pages_alike = shape.row_alike = alike;
    world_init(&world, &shape, MANY * BLOCKS, warm_slots, true);
    world.options.no_thinning = 1; /* so that slots can be counted */
    if (disk)
        world_disk(&world, 1);
    world_open(&world);
    for (uint32_t i = 0; i < MANY; i++) {
        request_make(&world, &requests[i], i * BLOCKS, BLOCKS);
        sequence_make(&world, &sequences[i], i + 1, BLOCKS * PAGE);
    }
}

static void end(void) {
    for (uint32_t i = 0; i < MANY; i++) {
        sequence_free(&sequences[i]);
        request_free(&world, &requests[i]);
    }
    world_destroy(&world);
}

static struct selene_publish_result publish(uint32_t i, uint32_t pages) {
    struct selene_publish_result result;
    request_fill(&world, &requests[i], &sequences[i], pages * PAGE);
    assert_ok(selene_publish(world.store, sequences[i].prefix, pages * PAGE, &requests[i].state, &result));
    return result;
}

static uint32_t used(void) { return world.store->slots.total - world.store->slots.free_count; }

/* Makes the store expect that everything is alike. */
static void expect_packed(void) { world.store->pages_pack = world.store->row_pack = true; }

/* [M5]: what fits only packed is accepted, and oversize when it turns out not to be; in no form it is oversize at once.
 */
static void test_oversize(void **state) {
    (void)state;
    for (int alike = 0; alike < 2; alike++)
        for (int disk = 0; disk < 2; disk++) {
            begin(alike, 20, disk);
            struct selene_publish_result result = publish(0, 32);
            assert_int_equal(result.answer, SELENE_ACCEPTED);
            assert_int_equal(used(), 8 + 1); /* as if it were packed */
            struct selene_event event = world_wait(&world, result.ticket);
            assert_int_equal(event.result, alike ? 0 : SELENE_E_OVERSIZE);
            assert_int_equal(used(), alike ? 8 + 1 : 0);
            assert_int_equal(world_restore(&world, &requests[0], &sequences[0], 32 * PAGE, NULL),
                             alike ? 32 * PAGE : 0);
            world.store->warm_slots = 8; /* with the row it needs 9 */
            assert_int_equal(publish(1, 32).answer, SELENE_OVERSIZE);
            world.store->warm_slots = 20;
            end();
        }
}

/* [M5]: in memory alone a chain that only fits packed is found to be too long while it comes: its event says so. */
static void test_long_chain(void **state) {
    (void)state;
    struct world_layout shape = world_without_rows;
    shape.rank_count = RANKS;
    world_init(&world, &shape, BLOCKS, 20, true);
    world_open(&world);
    request_make(&world, &requests[0], 0, BLOCKS);
    sequence_make(&world, &sequences[0], 1, BLOCKS * PAGE);
    struct selene_publish_result result = publish(0, 40);
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    assert_int_equal(world_wait(&world, result.ticket).result, SELENE_E_OVERSIZE);
    world_check(&world);

    request_free(&world, &requests[0]);
    sequence_free(&sequences[0]);
    world_destroy(&world);
}

/* [K1]: a surplus is given back, for pages and row each. */
static void test_surplus(void **state) {
    (void)state;
    begin(true, 100, false);
    assert_int_equal(publish(0, 10).answer, SELENE_ACCEPTED);
    assert_int_equal(used(), 10 + ROW); /* nothing is known yet */
    assert_int_equal(publish(1, 10).answer, SELENE_ACCEPTED);
    assert_int_equal(used(), 2 * (10 + ROW));
    struct selene_event event;
    for (int done = 0; done < 2;)
        done += world_poll(&world, &event, 1);
    assert_int_equal(used(), 2 * (3 + 1));
    assert_int_equal(publish(2, 10).answer, SELENE_ACCEPTED);
    assert_int_equal(used(), 3 * (3 + 1)); /* from now on it is expected */
    while (world_poll(&world, &event, 1) == 0)
        continue;
    world_check(&world);
    end();
}

/* [faults 24, 25]: as many as fit packed are accepted at once, none of them is, and each of them needs more than half of
 * memory: they wait with nothing in hand, take turns, and none is lost. */
static void take_turns(bool disk) {
    struct selene_publish_result results[MANY];
    begin(false, 45, disk);
    expect_packed();
    for (uint32_t i = 0; i < MANY; i++) {
        results[i] = publish(i, 24);
        assert_int_equal(results[i].answer, SELENE_ACCEPTED);
        world.store->row_pack = world.store->pages_pack = true;
    }
    assert_int_equal(used(), MANY * 7);
    uint32_t good = 0, lacking = 0;
    for (int round = 0; good < MANY && round < 100000; round++) {
        struct selene_event event;
        lacking = SEL_MAX(lacking, world.store->lacking_count);
        if (world_poll(&world, &event, 1) == 0)
            continue;
        assert_int_equal(event.kind, SELENE_EVENT_PUBLISH);
        assert_int_equal(event.result, 0);
        good++;
        world_check(&world);
    }
    assert_int_equal(good, MANY);
    assert_true(lacking > 1);
    assert_int_equal(world.store->lacking_count, 0);
    for (uint32_t i = 0; i < MANY && disk; i++)
        assert_int_equal(world_restore(&world, &requests[i], &sequences[i], 24 * PAGE, NULL), 24 * PAGE);
    assert_int_equal(world_restore(&world, &requests[MANY - 1], &sequences[MANY - 1], 24 * PAGE, NULL), 24 * PAGE);
    end();
}
static void test_take_turns(void **state) {
    (void)state;
    take_turns(false);
    take_turns(true);
}

/* Fills memory with a record that is pinned, so that nothing can make room. */
static struct sel_node *block_memory(uint32_t pages) {
    struct selene_publish_result result = publish(0, pages);
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    assert_int_equal(world_wait(&world, result.ticket).result, 0);
    struct sel_node *node = world_node(&world, &sequences[0], pages * PAGE);
    sel_pin(world.store, node, SEL_TIER_MEMORY);
    return node;
}

/* [R6, faults 23, 25]: one that lacks slots waits holding none, nobody overtakes it, cancelling it ends it at once; and
 * one that is not cancelled goes on when room comes. */
static void test_lacking(void **state) {
    (void)state;
    for (int cancel = 0; cancel < 2; cancel++) {
        struct selene_event event;
        begin(false, 60, true);
        struct sel_node *node = block_memory(39);
        expect_packed();
        struct selene_publish_result result = publish(1, 39);
        assert_int_equal(result.answer, SELENE_ACCEPTED);
        assert_int_equal(used(), 39 + ROW + 10 + 1);
        for (int round = 0; round < 20; round++) {
            assert_int_equal(world_poll(&world, &event, 1), 0);
            world_check(&world);
        }
        assert_int_equal(world.store->lacking_count, 1);
        assert_int_equal(used(), 39 + ROW);
        assert_int_equal(publish(2, 1).answer, SELENE_RETRY);
        assert_int_equal(publish(2, 1).reason, SELENE_RETRY_SLOTS);
        if (cancel)
            assert_ok(selene_cancel(world.store, result.ticket));
        else
            sel_unpin(world.store, node, SEL_TIER_MEMORY);
        event = world_wait(&world, result.ticket);
        assert_int_equal(event.result, cancel ? SELENE_E_CANCELLED : 0);
        assert_int_equal(world.store->lacking_count, 0);
        if (cancel)
            sel_unpin(world.store, node, SEL_TIER_MEMORY);
        else
            assert_int_equal(world_restore(&world, &requests[1], &sequences[1], 39 * PAGE, NULL), 39 * PAGE);
        assert_int_equal(world_publish(&world, &requests[2], &sequences[2], PAGE), SELENE_ACCEPTED);
        end();
    }
}

/* [fault 25]: room never comes: it ends in bounded time, and everything works again afterwards. */
static void test_no_room(void **state) {
    (void)state;
    begin(false, 60, true);
    struct sel_node *node = block_memory(39);
    expect_packed();
    struct selene_publish_result result = publish(1, 39);
    assert_int_equal(world_wait(&world, result.ticket).result, SELENE_E_RETRY);
    assert_int_equal(world.store->lacking_count, 0);
    sel_unpin(world.store, node, SEL_TIER_MEMORY);
    assert_int_equal(world_publish(&world, &requests[1], &sequences[1], 39 * PAGE), SELENE_ACCEPTED);
    end();
}

/* [fault 25]: one after another comes to lack slots, each when its caller's event happens: others that have room are not
 * refused for longer than one of them may wait. */
static void test_lacking_in_turn(void **state) {
    (void)state;
    begin(false, 60, true);
    struct selene_event event;
    struct selene_publish_result result;
    struct sel_node *node = block_memory(39);
    requests[2].state.wait = &requests[2].wait;
    for (uint32_t i = 1; i <= 2; i++) {
        expect_packed();
        assert_int_equal(publish(i, 39).answer, SELENE_ACCEPTED);
    }
    while (world.store->lacking_count == 0)
        world_poll(&world, &event, 1);
    uint64_t begun_ns = sel_mono_ns(&world.clock.clock), now_ns;
    do {
        now_ns = sel_mono_ns(&world.clock.clock);
        if (now_ns - begun_ns > 9 * SEL_NS_PER_SECOND)
            __atomic_store_n(&requests[2].wait, 1, __ATOMIC_RELEASE);
        world_poll(&world, &event, 1);
        result = publish(3, 1);
    } while (result.answer == SELENE_RETRY);
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    assert_true(now_ns - begun_ns < 11 * SEL_NS_PER_SECOND);
    assert_true(world.store->lacking_count > 0); /* the second at least still waits */
    sel_unpin(world.store, node, SEL_TIER_MEMORY);
    world_close(&world); /* before the memory that is being read goes */
    end();
}

/* [R6, fault 23]: cancelled while it is being compared, before that could start and after. */
static void test_cancel(void **state) {
    (void)state;
    for (int started = 0; started < 2; started++) {
        struct selene_publish_result result;
        begin(true, 60, false);
        requests[0].wait = (uint32_t)started;
        requests[0].state.wait = &requests[0].wait;
        result = publish(0, 10);
        assert_int_equal(result.answer, SELENE_ACCEPTED);
        assert_true(used() > 0);
        assert_ok(selene_cancel(world.store, result.ticket));
        assert_int_equal(world_wait(&world, result.ticket).result, SELENE_E_CANCELLED);
        assert_int_equal(used(), 0);
        world_check(&world);
        requests[0].state.wait = NULL;
        assert_int_equal(world_publish(&world, &requests[0], &sequences[0], 80), SELENE_ACCEPTED);
        end();
    }
}

/* Closing while it is compared, and while one lacks slots. */
static void test_close(void **state) {
    (void)state;
    begin(false, 60, true);
    struct sel_node *node = block_memory(39);
    expect_packed();
    struct selene_event event;
    assert_int_equal(publish(1, 39).answer, SELENE_ACCEPTED);
    while (world.store->lacking_count == 0)
        world_poll(&world, &event, 1);
    sel_unpin(world.store, node, SEL_TIER_MEMORY);
    world_close(&world);
    world_open(&world);
    for (uint32_t i = 0; i < MANY; i++)
        sequence_prefix(&world, &sequences[i]);
    requests[1].state.wait = &requests[1].wait;
    assert_int_equal(publish(1, 39).answer, SELENE_ACCEPTED);
    world_close(&world);
    end();
}

/* [R6, fault 23]: closed or cancelled at once or soon, while real threads compare. */
static void test_close_threads(void **state) {
    (void)state;
    struct world_layout shape = world_with_rows;
    shape.rank_count = RANKS;
    shape.pages_alike = shape.row_alike = true;
    world_init(&world, &shape, BLOCKS, 60, false);
    request_make(&world, &requests[0], 0, BLOCKS);
    for (uint32_t round = 0; round < 40; round++) {
        struct selene_publish_result result;
        struct selene_event event;
        world_open(&world);
        sequence_make(&world, &sequences[0], round, BLOCKS * PAGE);
        request_fill(&world, &requests[0], &sequences[0], 39 * PAGE);
        assert_ok(selene_publish(world.store, sequences[0].prefix, 39 * PAGE, &requests[0].state, &result));
        assert_int_equal(result.answer, SELENE_ACCEPTED);
        for (uint32_t i = 0; i < round % 4; i++)
            assert_true(selene_poll(world.store, &event, 1) >= 0);
        if (round & 4)
            (void)selene_cancel(world.store, result.ticket); /* it may be through */
        world_close(&world);
        sequence_free(&sequences[0]);
        /* Nothing reads it any more. */
        request_clear(&world, &requests[0], (uint8_t)round);
    }
    request_free(&world, &requests[0]);
    world_destroy(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oversize),      cmocka_unit_test(test_long_chain), cmocka_unit_test(test_surplus),
        cmocka_unit_test(test_take_turns),    cmocka_unit_test(test_lacking),    cmocka_unit_test(test_lacking_in_turn),
        cmocka_unit_test(test_no_room),       cmocka_unit_test(test_cancel),     cmocka_unit_test(test_close),
        cmocka_unit_test(test_close_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
