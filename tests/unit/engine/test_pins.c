/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots that cannot be had: pinned by readers, by what was cancelled, behind a disk that does not answer, behind clean
 * copies [faults 23, 24, 25, 26]; and how far ahead of need write-back goes [P2]. Simulated edges.
 */
#include "tests/unit/engine/world.h"

enum { COUNT = 40 };

static struct world world;
static struct device_request requests[COUNT];
static struct sequence chains[COUNT];

/* `count` records of 8 pages and a row of 3 slots. */
static void begin(uint64_t warm_slots, bool disk, int count) {
    world_init(&world, &world_with_rows, COUNT * 12, warm_slots, true);
    if (disk)
        world_disk(&world, 1);
    world_open(&world);
    for (int i = 0; i < COUNT; i++) {
        request_make(&world, &requests[i], (uint32_t)i * 12, 12);
        sequence_make(&world, &chains[i], (uint64_t)i + 1, 96);
        if (i < count)
            assert_int_equal(world_publish(&world, &requests[i], &chains[i], 64), SELENE_ACCEPTED);
    }
}

static void end(void) {
    for (int i = 0; i < COUNT; i++) {
        request_free(&world, &requests[i]);
        sequence_free(&chains[i]);
    }
    world_destroy(&world);
}

static int publish_once(int i, struct selene_publish_result *result) {
    request_fill(&world, &requests[i], &chains[i], 64);
    assert_ok(selene_publish(world.store, chains[i].prefix, 64, &requests[i].state, result));
    return result->answer;
}

static void count_pins(void *context, struct sel_node *node) {
    uint64_t *pins = context;
    for (int tier = 0; tier < SEL_TIER_COUNT; tier++)
        *pins += node->tier[tier].pins;
}

/* [fault 25]: all of memory pinned by readers: "not now", in the call itself and without a poll that spins; when they are
 * through it works again. */
static void test_all_pinned(void **state) {
    struct selene_publish_result result;
    struct selene_event event;
    uint64_t tickets[COUNT];
    uint32_t wait = 0;
    int held = 0;
    (void)state;
    begin(33, false, 0);
    for (; publish_once(held, &result) == SELENE_ACCEPTED; held++) {
        assert_int_equal(world_wait(&world, result.ticket).result, 0);
        requests[held].state.wait = &wait;
        assert_ok(selene_restore(world.store, chains[held].prefix, 64, &requests[held].state, &tickets[held]));
        assert_true(held + 1 < COUNT);
    }
    assert_true(held >= 3);
    assert_int_equal(world_stats(&world).evictions[SELENE_TIER_MEMORY], 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(publish_once(held, &result), SELENE_RETRY);
        assert_int_equal(result.reason, SELENE_RETRY_SLOTS);
        assert_true(selene_deadline_ns(world.store) > world.clock.mono);
        assert_int_equal(world_poll(&world, &event, 1), 0);
    }
    world_check(&world);
    __atomic_store_n(&wait, 1, __ATOMIC_RELEASE);
    assert_int_equal(world_publish(&world, &requests[held], &chains[held], 64), SELENE_ACCEPTED);
    assert_int_equal(world_restore(&world, &requests[held], &chains[held], 64, NULL), 64);
    end();
}

/* [fault 23]: restores that are cancelled while the disk holds their reads back pin nothing and hold no slot once their
 * events have come, with a warm tier and without. */
static void cancelled(uint64_t warm_slots) {
    enum { CANCELLED = 12 };
    struct sel_disk_fault hold = {
        .action = SEL_DISK_FAULT_HOLD, .kinds = 1u << SEL_DISK_READ, .countdown = 1, .repeat = UINT64_MAX};
    uint64_t pins = 0, events = 0, started = 0;
    begin(warm_slots, true, CANCELLED);
    world_reopen(&world, chains, COUNT);
    sel_disk_fault_arm(world.disk, &hold);
    for (int i = 0; i < CANCELLED; i++) {
        uint64_t ticket;
        struct selene_event event;
        int result = selene_restore(world.store, chains[i].prefix, 64, &requests[i].state, &ticket);
        assert_true(result == 0 || result == SELENE_E_RETRY);
        started += result == 0;
        events += (uint64_t)world_poll(&world, &event, 1); /* of those before */
        if (result == 0)
            assert_ok(selene_cancel(world.store, ticket));
    }
    assert_true(started > 2);
    sel_disk_fault_clear(world.disk);
    for (int round = 0; events < started; round++) {
        struct selene_event event;
        assert_true(round < 2000);
        sel_disk_fault_release(world.disk);
        if (world_poll(&world, &event, 1)) {
            assert_int_equal(event.result, SELENE_E_CANCELLED);
            events++;
        }
    }
    for (int round = 0; round < 200; round++) { /* reads that nobody waits for any more */
        struct selene_event event;
        sel_disk_fault_release(world.disk);
        world_poll(&world, &event, 1);
    }
    sel_tree_visit(world.store->tree, count_pins, &pins);
    assert_int_equal(pins, 0);
    assert_int_equal(world.store->slots.free_count + world.store->clean_slots, world.store->slots.total);
    world_check(&world);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(world_restore(&world, &requests[i], &chains[i], 96, NULL), i < CANCELLED ? 64 : 0);
    end();
}
static void test_cancelled(void **state) {
    (void)state;
    cancelled(100);
    cancelled(0);
}

/* [fault 24, M3]: a warm tier full of durable copies is room: a publish is accepted in the call. */
static void test_clean_is_room(void **state) {
    struct selene_publish_result result;
    (void)state;
    begin(88, true, 8);
    assert_int_equal(world_drain(&world).result, 0);
    assert_int_equal(world.store->parked_count, 0);
    assert_int_equal(world.store->clean_slots, 88);
    for (int i = 8; i < 16; i++) {
        assert_int_equal(publish_once(i, &result), SELENE_ACCEPTED);
        assert_int_equal(world_wait(&world, result.ticket).result, 0);
    }
    end();
}

/* [faults 24, 25]: memory full of parked copies, and a disk that does not answer writes: restores from disk go on through
 * the intake, publishes are told to come again, and come through when the disk answers. */
static void test_staging_beside_parked(void **state) {
    enum { OLD = 10 };
    struct sel_disk_fault hold = {
        .action = SEL_DISK_FAULT_HOLD, .kinds = 1u << SEL_DISK_WRITE, .countdown = 1, .repeat = UINT64_MAX};
    struct selene_publish_result result;
    struct selene_event event;
    int next = OLD;
    (void)state;
    begin(60, true, OLD);
    world_reopen(&world, chains, COUNT);
    sel_disk_fault_arm(world.disk, &hold);
    while (publish_once(next, &result) == SELENE_ACCEPTED) {
        assert_int_equal(world_wait(&world, result.ticket).result, 0);
        assert_true(++next < COUNT);
    }
    assert_int_equal(result.reason, SELENE_RETRY_SLOTS);
    for (int i = 0; i < OLD; i++)
        assert_int_equal(world_restore(&world, &requests[i], &chains[i], 96, NULL), 64);
    assert_int_equal(publish_once(next, &result), SELENE_RETRY);
    sel_disk_fault_clear(world.disk);
    sel_disk_fault_release(world.disk);
    for (int i = next; i < COUNT; i++) {
        assert_int_equal(world_publish(&world, &requests[i], &chains[i], 64), SELENE_ACCEPTED);
        sel_disk_fault_release(world.disk);
    }
    assert_int_equal(world_stats(&world).dropped_records, 0);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(world_restore(&world, &requests[i], &chains[i], 96, NULL), 64);
    (void)event;
    end();
}

/* [fault 26]: a load that failed is not tried again by itself, and a look-up does not promise it again. */
static void test_failed_load_ends(void **state) {
    struct sel_disk_fault fail = {
        .action = SEL_DISK_FAULT_FAIL, .kinds = 1u << SEL_DISK_READ, .countdown = 1, .repeat = UINT64_MAX};
    struct sel_disk_sim_stats before, after;
    struct selene_event event;
    uint64_t ticket;
    (void)state;
    begin(100, true, 3);
    world_reopen(&world, chains, COUNT);
    sel_disk_fault_arm(world.disk, &fail);
    assert_ok(selene_restore(world.store, chains[0].prefix, 64, &requests[0].state, &ticket));
    event = world_wait(&world, ticket);
    assert_int_equal(event.result, SELENE_E_IO);
    assert_int_equal(event.tokens, 0);
    assert_int_equal(world_lookup(&world, &chains[0], 96, NULL), 0);
    assert_int_equal(selene_restore(world.store, chains[0].prefix, 64, &requests[0].state, &ticket), SELENE_E_NOTFOUND);
    uint64_t hits = fail.hits;
    sel_disk_sim_get_stats(world.disk_sim, &before);
    for (int round = 0; round < 500; round++)
        assert_int_equal(world_poll(&world, &event, 1), 0);
    sel_disk_sim_get_stats(world.disk_sim, &after);
    assert_int_equal(after.ios[SEL_DISK_READ], before.ios[SEL_DISK_READ]);
    assert_int_equal(fail.hits, hits);
    sel_disk_fault_clear(world.disk);
    assert_int_equal(world_restore(&world, &requests[1], &chains[1], 96, NULL), 64);
    end();
}

/* [P2]: nothing is written while free and clean slots are above two intakes, and then not more than brings them back. */
static void test_ahead_of_need(void **state) {
    struct selene_event event;
    uint64_t target = 0;
    (void)state;
    begin(300, true, 0);
    target = 2 * world.store->intake_slots;
    for (int i = 0; i < COUNT; i++) {
        uint64_t spills = world_stats(&world).spills, room = world.store->slots.free_count + world.store->clean_slots;
        assert_int_equal(world_publish(&world, &requests[i], &chains[i], 64), SELENE_ACCEPTED);
        for (int round = 0; round < 300; round++) /* a group closes after a second */
            world_poll(&world, &event, 1);
        uint64_t now = world.store->slots.free_count + world.store->clean_slots;
        if (room >= target + 11)
            assert_int_equal(world_stats(&world).spills, spills);
        assert_true(now >= target && (i == 0 || now <= SEL_MAX(room, target + 11)));
    }
    assert_true(world_stats(&world).spills > 0);
    assert_true(world.store->parked_count > 10);
    end();
}

/* [P2, P3]: of conversations it is the coldest that goes, ancestors included, and these count: not one chain more than is
 * needed is written, and the latest used ones stay in memory alone. */
static void test_chains_ahead_of_need(void **state) {
    enum { TURNS = 4, CHAIN_SLOTS = TURNS * 2 + 3 * 3 };
    struct selene_event event;
    uint64_t most = 0;
    (void)state;
    begin(300, true, 0);
    uint64_t target = 2 * world.store->intake_slots;
    for (int i = 0; i < COUNT; i++)
        for (uint32_t at = 16; at <= 16 * TURNS; at += 16) {
            uint64_t room = world.store->slots.free_count + world.store->clean_slots;
            assert_int_equal(world_publish(&world, &requests[i], &chains[i], at), SELENE_ACCEPTED);
            most = SEL_MAX(most, world.store->spill_slots);
            for (int round = 0; round < 300; round++)
                world_poll(&world, &event, 1);
            uint64_t now = world.store->slots.free_count + world.store->clean_slots;
            assert_true(now >= target &&
                        now <= SEL_MAX(room + 3, target + CHAIN_SLOTS)); /* 3: a row that was thinned */
        }
    assert_true(world_stats(&world).spills > 0);
    assert_true(most > 0 && most <= CHAIN_SLOTS);
    assert_false(world_node(&world, &chains[COUNT - 1], 16)->tier[SEL_TIER_DISK].present);
    assert_true(world_node(&world, &chains[0], 64)->tier[SEL_TIER_DISK].present);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_pinned),           cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_clean_is_room),        cmocka_unit_test(test_staging_beside_parked),
        cmocka_unit_test(test_failed_load_ends),     cmocka_unit_test(test_ahead_of_need),
        cmocka_unit_test(test_chains_ahead_of_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
