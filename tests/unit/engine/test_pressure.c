/* SPDX-License-Identifier: Apache-2.0
 *
 * Many requests, little room: reads shared between restores, slots that are all pinned, a warm set beside cold
 * restores, a full or failing disk. Simulated disk.
 */
#include "tests/unit/engine/world.h"

static struct world world;

static void begin(const struct world_layout *shape, uint64_t warm_slots, uint64_t disk_limit) {
    world_init(&world, shape, 1024, warm_slots, true);
    world_disk(&world, 1);
    world.options.disk_limit_bytes = disk_limit;
    world_open(&world);
}

/* Starts a restore of the whole prefix into its own blocks. */
static uint64_t start(struct device_request *request, const struct sequence *sequence, uint64_t tokens) {
    uint64_t ticket;
    request_clear(&world, request, 0xee);
    int result = selene_restore(world.store, sequence->prefix, tokens, &request->state, &ticket);
    assert_true(result == 0 || result == SELENE_E_RETRY);
    return result ? 0 : ticket;
}

/* [R2]: restores of one record at the same time read it once, kept in memory or not. Several reads are in flight, so a
 * device's latency does not add up [fault 19]. */
static void restores_share_reads(uint64_t warm_slots) {
    enum { COUNT = 6 };
    struct device_request requests[COUNT];
    struct sequence chain;
    uint64_t tickets[COUNT];
    begin(&world_with_rows, warm_slots, 0);
    sequence_make(&world, &chain, 1, 120);
    for (int i = 0; i < COUNT; i++)
        request_make(&world, &requests[i], (uint32_t)i * 32, 32);
    for (uint32_t at = 16; at <= 112; at += 16)
        assert_int_equal(world_publish(&world, &requests[0], &chain, at), SELENE_ACCEPTED);
    world_reopen(&world, &chain, 1);
    assert_int_equal(world_restore(&world, &requests[0], &chain, 120, NULL), 112);
    uint64_t once = world_stats(&world).disk_read_bytes;
    world_reopen(&world, &chain, 1);
    for (int i = 0; i < COUNT; i++)
        tickets[i] = start(&requests[i], &chain, 112);
    for (int i = 0; i < COUNT; i++) {
        struct selene_event event = world_wait(&world, tickets[i]);
        assert_int_equal(event.result, 0);
        for (int k = i + 1; k < COUNT; k++) /* the events of the others may come first */
            assert_true(tickets[k] != 0);
        assert_int_equal(request_wrong(&world, &requests[i], &chain, 112, true), 0);
        break;
    }
    while (!sel_list_empty(&world.store->requests)) {
        struct selene_event event;
        world_poll(&world, &event, 1);
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(request_wrong(&world, &requests[i], &chain, 112, true), 0);
    uint64_t all = world_stats(&world).disk_read_bytes;
    if (warm_slots)
        assert_int_equal(all, once);
    else
        assert_true(all < 2 * once); /* the rows come one after another */
    struct sel_disk_sim_stats disk;
    sel_disk_sim_get_stats(world.disk_sim, &disk);
    assert_true(disk.reads_in_flight_max >= 2);
    world_check(&world);
    for (int i = 0; i < COUNT; i++)
        request_free(&world, &requests[i]);
    sequence_free(&chain);
    world_destroy(&world);
}
static void test_restores_share_reads(void **state) {
    (void)state;
    restores_share_reads(100);
    restores_share_reads(0);
}

/* [faults 24, 25]: restores that wait for their caller's event hold every slot they can get; publishes are told to come
 * again at once, further restores wait or are told so; when the event happens all of it works again. */
static void test_all_slots_pinned(void **state) {
    enum { COUNT = 40 };
    static struct device_request requests[COUNT];
    static struct sequence chains[COUNT];
    uint64_t tickets[COUNT] = {0};
    uint32_t wait = 0;
    (void)state;
    begin(&world_with_rows, 24, 0);
    for (int i = 0; i < COUNT; i++) {
        request_make(&world, &requests[i], (uint32_t)i * 12, 12);
        sequence_make(&world, &chains[i], (uint64_t)i + 1, 96);
        assert_int_equal(world_publish(&world, &requests[i], &chains[i], 88), SELENE_ACCEPTED);
    }
    for (int i = 0; i < COUNT; i++) {
        requests[i].state.wait = &wait;
        uint64_t tokens = world_lookup(&world, &chains[i], 96, NULL);
        assert_int_equal(tokens, 88);
        tickets[i] = start(&requests[i], &chains[i], tokens);
    }
    struct selene_event event;
    for (int i = 0; i < 300; i++)
        assert_int_equal(world_poll(&world, &event, 1), 0);
    world_check(&world);
    struct sequence late;
    struct selene_publish_result result;
    struct device_request other;
    request_make(&world, &other, 600, 24);
    sequence_make(&world, &late, 99, 180);
    request_fill(&world, &other, &late, 150);
    assert_ok(selene_publish(world.store, late.prefix, 150, &other.state, &result));
    assert_int_equal(result.answer, SELENE_RETRY);
    assert_int_equal(result.reason, SELENE_RETRY_SLOTS);
    selene_publish_abandoned(world.store, result.reason);
    assert_int_equal(world_stats(&world).publishes_abandoned[SELENE_RETRY_SLOTS], 1);
    /* Cancelled ones give back what they hold [fault 23]. */
    for (int i = 0; i < COUNT; i += 2)
        if (tickets[i])
            assert_ok(selene_cancel(world.store, tickets[i]));
    __atomic_store_n(&wait, 1, __ATOMIC_RELEASE);
    int ended = 0, expected = 0;
    for (int i = 0; i < COUNT; i++)
        expected += tickets[i] != 0;
    for (int round = 0; round < 5000 && ended < expected; round++)
        if (world_poll(&world, &event, 1)) {
            assert_true(event.result == 0 || event.result == SELENE_E_CANCELLED);
            ended++;
        }
    assert_int_equal(ended, expected);
    for (int i = 1; i < COUNT; i += 2)
        if (tickets[i])
            assert_int_equal(request_wrong(&world, &requests[i], &chains[i], 88, true), 0);
    assert_int_equal(world_publish(&world, &other, &late, 150), SELENE_ACCEPTED);
    assert_int_equal(world_restore(&world, &other, &late, 150, NULL), 150);
    for (int i = 0; i < COUNT; i++) {
        requests[i].state.wait = NULL;
        assert_int_equal(world_restore(&world, &requests[i], &chains[i], 96, NULL), 88);
    }
    request_free(&world, &other);
    sequence_free(&late);
    for (int i = 0; i < COUNT; i++) {
        request_free(&world, &requests[i]);
        sequence_free(&chains[i]);
    }
    world_destroy(&world);
}

/* [R5]: many cold restores at once do not flush the warm tier; a record restored again and again does come in. */
static void test_cold_restores(void **state) {
    enum { COUNT = 30, HOT = 4 };
    static struct sequence chains[COUNT];
    struct device_request request;
    (void)state;
    begin(&world_with_rows, 60, 0);
    request_make(&world, &request, 0, 16);
    for (int i = 0; i < COUNT; i++) {
        sequence_make(&world, &chains[i], (uint64_t)i + 1, 64);
        assert_int_equal(world_publish(&world, &request, &chains[i], 64), SELENE_ACCEPTED);
    }
    world_reopen(&world, chains, COUNT);
    /* Room is free at first: the first come in, and are hot. */
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < HOT; i++)
            assert_int_equal(world_restore(&world, &request, &chains[i], 64, NULL), 64);
    for (int i = 0; i < HOT; i++) {
        int tier;
        world_lookup(&world, &chains[i], 64, &tier);
        assert_int_equal(tier, SELENE_TIER_MEMORY);
    }
    for (int i = HOT; i < COUNT; i++)
        assert_int_equal(world_restore(&world, &request, &chains[i], 64, NULL), 64);
    for (int i = 0; i < HOT; i++) {
        int tier;
        world_lookup(&world, &chains[i], 64, &tier);
        assert_int_equal(tier, SELENE_TIER_MEMORY);
    }
    int tier = SELENE_TIER_DISK;
    for (int round = 0; round < 3; round++)
        assert_int_equal(world_restore(&world, &request, &chains[COUNT - 1], 64, NULL), 64);
    world_lookup(&world, &chains[COUNT - 1], 64, &tier);
    assert_int_equal(tier, SELENE_TIER_MEMORY);
    for (int i = 0; i < COUNT; i++)
        sequence_free(&chains[i]);
    request_free(&world, &request);
    world_destroy(&world);
}

/* [D6, P6]: a disk with a limit holds the latest used, never more than the limit; a used record outlives the others. */
static void test_disk_limit(void **state) {
    enum { COUNT = 120 };
    static struct sequence chains[COUNT];
    struct device_request request;
    const uint64_t limit = 24 << 20;
    (void)state;
    begin(&world_with_rows, 40, limit);
    request_make(&world, &request, 0, 16);
    for (int i = 0; i < COUNT; i++) {
        sequence_make(&world, &chains[i], (uint64_t)i + 1, 100);
        for (uint32_t at = 50; at <= 100; at += 50)
            assert_int_equal(world_publish(&world, &request, &chains[i], at), SELENE_ACCEPTED);
        assert_int_equal(world_restore(&world, &request, &chains[0], 100, NULL), 100);
        struct selene_stats stats = world_stats(&world);
        assert_true(stats.disk_allocated_bytes + stats.index_bytes <= limit);
    }
    struct selene_stats stats = world_stats(&world);
    assert_true(stats.evictions[SELENE_TIER_DISK] > 0);
    assert_int_equal(stats.dropped_records, 0);
    assert_int_equal(world_restore(&world, &request, &chains[COUNT - 1], 100, NULL), 100);
    int held = 0;
    for (int i = 0; i < COUNT; i++)
        held += world_restore(&world, &request, &chains[i], 100, NULL) > 0;
    assert_true(held > 10 && held < COUNT);
    for (int i = 0; i < COUNT; i++)
        sequence_free(&chains[i]);
    request_free(&world, &request);
    world_destroy(&world);
}

/* [D9, fault 21]: a disk that refuses writes degrades the store to memory, which then drops its coldest; serving goes
 * on, and writing resumes when the disk can. */
static void degraded(int error) {
    enum { COUNT = 40 };
    static struct sequence chains[COUNT];
    struct device_request request;
    struct sel_disk_fault fault = {.action = SEL_DISK_FAULT_FAIL,
                                   .kinds = 1u << SEL_DISK_WRITE | 1u << SEL_DISK_ALLOCATE | 1u << SEL_DISK_SYNC |
                                            1u << SEL_DISK_OPEN,
                                   .error = error,
                                   .countdown = 1,
                                   .repeat = UINT64_MAX};
    begin(&world_with_rows, 40, 0);
    request_make(&world, &request, 0, 16);
    sel_disk_fault_arm(world.disk, &fault);
    for (int i = 0; i < COUNT; i++) {
        sequence_make(&world, &chains[i], (uint64_t)i + 1, 64);
        assert_int_equal(world_publish(&world, &request, &chains[i], 64), SELENE_ACCEPTED);
        assert_int_equal(world_restore(&world, &request, &chains[i], 64, NULL), 64);
    }
    assert_true(world_stats(&world).disk_state != 0);
    sel_disk_fault_clear(world.disk);
    struct selene_event event;
    for (int i = 0; i < 3000 && world_stats(&world).disk_state != 0; i++)
        world_poll(&world, &event, 1);
    assert_int_equal(world_stats(&world).disk_state, 0);
    for (int i = 0; i < COUNT; i++) {
        int answer = world_publish(&world, &request, &chains[i], 64);
        assert_true(answer == SELENE_ACCEPTED || answer == SELENE_PRESENT);
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(world_restore(&world, &request, &chains[i], 64, NULL), 64);
    assert_true(world_stats(&world).spills > 0);
    for (int i = 0; i < COUNT; i++)
        sequence_free(&chains[i]);
    request_free(&world, &request);
    world_close_failed(&world);
    world_destroy(&world);
}
static void test_degraded(void **state) {
    (void)state;
    degraded(SELENE_E_READONLY);
    degraded(SELENE_E_NOSPACE);
    degraded(SELENE_E_IO);
}

/* [fault 3]: without a warm tier nothing is found while a write completion is held back. */
static void test_held_write(void **state) {
    struct sequence chain;
    struct device_request request;
    struct selene_publish_result result;
    struct selene_event event;
    (void)state;
    struct sel_disk_fault fault = {
        .action = SEL_DISK_FAULT_HOLD, .kinds = 1u << SEL_DISK_WRITE, .countdown = 1, .repeat = UINT64_MAX};
    begin(&world_with_rows, 0, 0);
    request_make(&world, &request, 0, 16);
    sequence_make(&world, &chain, 1, 64);
    assert_int_equal(world_publish(&world, &request, &chain, 30), SELENE_ACCEPTED);
    sel_disk_fault_arm(world.disk, &fault);
    request_fill(&world, &request, &chain, 64);
    assert_ok(selene_publish(world.store, chain.prefix, 64, &request.state, &result));
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    assert_int_equal(result.from_tokens, 30);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(world_poll(&world, &event, 1), 0);
        assert_int_equal(world_lookup(&world, &chain, 64, NULL), 30);
    }
    sel_disk_fault_clear(world.disk);
    sel_disk_fault_release(world.disk);
    assert_int_equal(world_wait(&world, result.ticket).result, 0);
    assert_int_equal(world_restore(&world, &request, &chain, 64, NULL), 64);
    sequence_free(&chain);
    request_free(&world, &request);
    world_destroy(&world);
}

struct committed {
    struct sel_key keys[64];
    uint32_t tokens[64];
    size_t count;
};
static void note_committed(void *context, struct sel_node *node) {
    struct committed *committed = context;
    if (!node->tier[SEL_TIER_DISK].present || committed->count == 64)
        return;
    committed->keys[committed->count] = node->key;
    committed->tokens[committed->count++] = node->tokens;
    /* [P3] */
    assert_true(node->parent == NULL || node->parent->tier[SEL_TIER_DISK].present);
}

/* [P3, D4]: at any moment a committed record's parent is committed, and after a crash all of them are found. */
static void test_parents_first(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct sequence chain;
        struct device_request request;
        struct committed committed = {.count = 0};
        begin(seed % 2 ? &world_with_rows : &world_without_rows, 30, 0);
        request_make(&world, &request, 0, 40);
        sequence_make(&world, &chain, seed, 300);
        for (uint32_t at = 8; at <= 280; at += 8)
            assert_true(world_publish(&world, &request, &chain, at) != SELENE_OVERSIZE);
        struct selene_event event;
        for (uint64_t i = 0; i < 250 + seed; i++) /* a group closes after a second */
            world_poll(&world, &event, 1);
        sel_tree_visit(world.store->tree, note_committed, &committed);
        assert_true(committed.count > 0);
        world_crash(&world, seed);
        world_open(&world);
        sequence_prefix(&world, &chain);
        uint32_t deepest = 0;
        for (size_t i = 0; i < committed.count; i++) {
            assert_non_null(
                sel_tree_find(world.store->tree, world.store->layout->ns, &committed.keys[i], committed.tokens[i]));
            deepest = SEL_MAX(deepest, committed.tokens[i]);
        }
        assert_true(world_restore(&world, &request, &chain, 300, NULL) >= deepest);
        sequence_free(&chain);
        request_free(&world, &request);
        world_destroy(&world);
    }
}

/* [P3]: a child whose own data is there first still commits after its parent; and a parent that is committed stays on
 * disk while a child is on its way. */
static void test_child_waits_for_parent(void **state) {
    (void)state;
    /* Each record is two writes, pages and row, the parent's before the child's. */
    for (uint64_t countdown = 1; countdown <= 3; countdown += 2) {
        struct sequence chain;
        struct device_request request;
        struct selene_event event;
        struct committed committed = {.count = 0};
        struct sel_disk_fault hold = {
            .action = SEL_DISK_FAULT_HOLD, .kinds = 1u << SEL_DISK_WRITE, .countdown = countdown, .repeat = 1};
        uint64_t ticket;
        begin(&world_with_rows, 100, 0);
        request_make(&world, &request, 0, 16);
        sequence_make(&world, &chain, 1, 100);
        assert_int_equal(world_publish(&world, &request, &chain, 10), SELENE_ACCEPTED);
        assert_int_equal(world_drain(&world).result, 0); /* the segments are there */
        for (int i = 0; i < 200; i++)
            world_poll(&world, &event, 1);
        assert_int_equal(world_publish(&world, &request, &chain, 40), SELENE_ACCEPTED);
        assert_int_equal(world_publish(&world, &request, &chain, 90), SELENE_ACCEPTED);
        sel_disk_fault_arm(world.disk, &hold);
        assert_ok(selene_drain(world.store, 0, &ticket));
        for (int i = 0; i < 300; i++)
            assert_int_equal(world_poll(&world, &event, 1), 0);
        assert_int_equal(sel_disk_fault_held(world.disk), 2);
        sel_tree_visit(world.store->tree, note_committed, &committed);
        assert_int_equal(committed.count, countdown == 1 ? 1 : 2);
        if (countdown == 3)
            assert_true(world_node(&world, &chain, 40)->tier[SEL_TIER_DISK].pins > 0);
        sel_disk_fault_clear(world.disk);
        sel_disk_fault_release(world.disk);
        event = world_wait(&world, ticket);
        assert_int_equal(event.result, 0);
        assert_int_equal(event.drained_written, 2);
        assert_int_equal(world_node(&world, &chain, 40)->tier[SEL_TIER_DISK].pins, 0);
        world_check(&world);
        sequence_free(&chain);
        request_free(&world, &request);
        world_destroy(&world);
    }
}

/* [fault 24]: publishes that wait for their caller's event take slots, but leave a window for restores. */
static void test_restore_beside_publishes(void **state) {
    enum { COUNT = 60 };
    static struct device_request requests[COUNT];
    static struct sequence chains[COUNT];
    struct selene_publish_result result = {0};
    uint32_t wait = 0;
    int started = 0;
    (void)state;
    begin(&world_with_rows, 24, 0);
    for (int i = 0; i < COUNT; i++) {
        request_make(&world, &requests[i], (uint32_t)i * 8, 8);
        sequence_make(&world, &chains[i], (uint64_t)i + 1, 64);
    }
    assert_int_equal(world_publish(&world, &requests[0], &chains[0], 60), SELENE_ACCEPTED);
    world_reopen(&world, chains, COUNT);
    for (int i = 1; i < COUNT && result.answer == SELENE_ACCEPTED; i++) {
        requests[i].state.wait = &wait;
        request_fill(&world, &requests[i], &chains[i], 60);
        assert_ok(selene_publish(world.store, chains[i].prefix, 60, &requests[i].state, &result));
        started += result.answer == SELENE_ACCEPTED;
    }
    assert_int_equal(result.answer, SELENE_RETRY);
    assert_int_equal(result.reason, SELENE_RETRY_SLOTS);
    assert_int_equal(world_restore(&world, &requests[0], &chains[0], 64, NULL), 60);
    __atomic_store_n(&wait, 1, __ATOMIC_RELEASE);
    struct selene_event event;
    for (int round = 0; round < 1000 && started; round++)
        started -= world_poll(&world, &event, 1);
    assert_int_equal(started, 0);
    world_check(&world);
    for (int i = 0; i < COUNT; i++) {
        request_free(&world, &requests[i]);
        sequence_free(&chains[i]);
    }
    world_destroy(&world);
}

/* [P2, P6]: on a disk smaller than what write-back keeps ahead the end of the chain drops; nothing is written again and
 * again for the sake of clean slots that do not become more. */
static void test_disk_smaller_than_intake(void **state) {
    enum { COUNT = 80 };
    struct device_request request;
    struct selene_event event;
    uint64_t written, quiet = 0;
    (void)state;
    world_init(&world, &world_with_rows, 1024, 400, true);
    world_disk(&world, 1);
    world.options.disk_limit_bytes = 12 << 20;
    world.options.max_active_requests = 64;
    world_open(&world);
    request_make(&world, &request, 0, 16);
    for (int i = 0; i < COUNT; i++) {
        struct sequence sequence;
        sequence_make(&world, &sequence, (uint64_t)i + 1, 100);
        assert_int_equal(world_publish(&world, &request, &sequence, 100), SELENE_ACCEPTED);
        assert_int_equal(world_restore(&world, &request, &sequence, 100, NULL), 100);
        sequence_free(&sequence);
    }
    assert_true(world_stats(&world).evictions[SELENE_TIER_DISK] > 0);
    written = world_stats(&world).disk_written_bytes;
    for (int round = 0; round < 5000 && quiet < 500; round++) {
        assert_int_equal(world_poll(&world, &event, 1), 0);
        uint64_t now = world_stats(&world).disk_written_bytes;
        quiet = now == written ? quiet + 1 : 0;
        written = now;
    }
    assert_int_equal(quiet, 500);
    world_check(&world);
    request_free(&world, &request);
    world_destroy(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_restores_share_reads),
        cmocka_unit_test(test_all_slots_pinned),
        cmocka_unit_test(test_cold_restores),
        cmocka_unit_test(test_disk_limit),
        cmocka_unit_test(test_degraded),
        cmocka_unit_test(test_held_write),
        cmocka_unit_test(test_parents_first),
        cmocka_unit_test(test_disk_smaller_than_intake),
        cmocka_unit_test(test_child_waits_for_parent),
        cmocka_unit_test(test_restore_beside_publishes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
