/* SPDX-License-Identifier: Apache-2.0
 *
 * Drains that cannot end as wished: without time, with a disk that is too small, or that does not answer [P8]; and what
 * is reported of commits and drops.
 */
#include "tests/unit/engine/world.h"

static struct world world;

static void begin(const struct world_layout *shape, uint64_t warm_slots, uint64_t disk_limit) {
    world_init(&world, shape, 1024, warm_slots, true);
    world_disk(&world, 1);
    world.options.disk_limit_bytes = disk_limit;
    world_open(&world);
}

/* [P8, fault 14]: a drain without time starts nothing it cannot end, says what it left, and leaves nothing behind. */
static void test_drain_deadline(void **state) {
    enum { COUNT = 20 };
    static struct sequence chains[COUNT];
    struct device_request request;
    (void)state;
    begin(&world_with_rows, 400, 0);
    request_make(&world, &request, 0, 16);
    for (int i = 0; i < COUNT; i++) {
        sequence_make(&world, &chains[i], (uint64_t)i + 1, 64);
        assert_int_equal(world_publish(&world, &request, &chains[i], 64), SELENE_ACCEPTED);
    }
    uint64_t ticket, second;
    assert_ok(selene_drain(world.store, world.clock.mono + 1000, &ticket));
    assert_int_equal(selene_drain(world.store, 0, &second), SELENE_E_RETRY);
    struct selene_event event = world_wait(&world, ticket);
    assert_int_equal(event.result, SELENE_E_DEADLINE);
    assert_int_equal(event.drained_written, 0);
    assert_int_equal(event.drained_skipped_deadline, COUNT);
    assert_int_equal(event.drained_skipped_failed, 0);
    assert_ok(selene_drain(world.store, 0, &ticket));
    assert_ok(selene_cancel(world.store, ticket));
    assert_int_equal(world_wait(&world, ticket).result, SELENE_E_CANCELLED);
    world_check(&world);
    event = world_drain(&world);
    assert_int_equal(event.result, 0);
    event = world_drain(&world); /* nothing left */
    assert_int_equal(event.drained_written, 0);
    world_reopen(&world, chains, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(world_restore(&world, &request, &chains[i], 64, NULL), 64);
        sequence_free(&chains[i]);
    }
    request_free(&world, &request);
    world_destroy(&world);
}

/* [P8, D6]: a disk that is too small for all that is in memory keeps the latest used of it. */
static void test_drain_small_disk(void **state) {
    enum { COUNT = 100 };
    static struct sequence chains[COUNT];
    struct device_request request;
    (void)state;
    begin(&world_with_rows, 3000, 24 << 20);
    request_make(&world, &request, 0, 16);
    for (int i = 0; i < COUNT; i++) {
        sequence_make(&world, &chains[i], (uint64_t)i + 1, 100);
        assert_int_equal(world_publish(&world, &request, &chains[i], 100), SELENE_ACCEPTED);
    }
    assert_int_equal(world_stats(&world).spills, 0);
    struct selene_event event = world_drain(&world);
    assert_int_equal(event.result, SELENE_E_DEGRADED);
    assert_true(event.drained_written > 10);
    assert_int_equal(event.drained_written + event.drained_skipped_room, COUNT);
    assert_int_equal(event.drained_skipped_failed + event.drained_skipped_parent + event.drained_skipped_deadline, 0);
    assert_int_equal(world_stats(&world).evictions[SELENE_TIER_DISK], 0);
    world_close(&world);
    world_open(&world);
    for (int i = 0; i < COUNT; i++) {
        sequence_prefix(&world, &chains[i]);
        bool written = (uint64_t)(COUNT - i) <= event.drained_written;
        assert_int_equal(world_restore(&world, &request, &chains[i], 100, NULL), written ? 100 : 0);
        sequence_free(&chains[i]);
    }
    request_free(&world, &request);
    world_destroy(&world);
}

/* [P8, D9, fault 21]: a drain without a deadline ends on a disk that does not answer, and on one whose index takes
 * nothing, not even removals; later everything is written all the same. */
static void test_drain_gives_up(void **state) {
    (void)state;
    for (int index = 0; index < 2; index++) {
        struct sel_disk_fault fault = {
            .action = SEL_DISK_FAULT_HOLD, .kinds = 1u << SEL_DISK_WRITE, .countdown = 1, .repeat = UINT64_MAX};
        struct sequence first, second;
        struct device_request request;
        struct selene_event event;
        begin(&world_with_rows, 100, 0);
        request_make(&world, &request, 0, 16);
        sequence_make(&world, &first, 1, 64);
        sequence_make(&world, &second, 2, 64);
        assert_int_equal(world_publish(&world, &request, &first, 64), SELENE_ACCEPTED);
        assert_int_equal(world_drain(&world).drained_written, 1);
        assert_int_equal(world_publish(&world, &request, &second, 64), SELENE_ACCEPTED);
        if (index) {
            sel_catalog_sim_fail(world.catalog_sim, 1, UINT64_MAX, SELENE_E_IO);
            sel_disk_detach(world.store, world_node(&world, &first, 64));
        } else {
            sel_disk_fault_arm(world.disk, &fault);
        }
        event = world_drain(&world);
        assert_int_equal(event.result, SELENE_E_DEGRADED);
        assert_int_equal(event.drained_written, 0);
        assert_true(event.drained_skipped_failed > 0);
        world_check(&world);
        sel_catalog_sim_fail(world.catalog_sim, 0, 0, 0);
        sel_disk_fault_clear(world.disk);
        sel_disk_fault_release(world.disk);
        for (int i = 0; i < 3000 && (i < 300 || world_stats(&world).disk_state != 0); i++)
            world_poll(&world, &event, 1);
        (void)world_publish(&world, &request, &second, 64); /* dropped, or still there */
        assert_int_equal(world_drain(&world).result, 0);
        assert_int_equal(world_restore(&world, &request, &second, 64, NULL), 64);
        sequence_free(&first);
        sequence_free(&second);
        request_free(&world, &request);
        world_close_failed(&world);
        world_destroy(&world);
    }
}

/* [P8]: a chain with a record that cannot be written now does not hold the others up, and what hangs under it is told
 * apart from what the disk did not take. A record whose write fails for good takes the parked ones under it along [P4]. */
static void test_drain_reasons(void **state) {
    enum { COUNT = 6 };
    static struct sequence chains[COUNT];
    struct device_request request;
    (void)state;
    begin(&world_with_rows, 400, 0);
    request_make(&world, &request, 0, 16);
    for (int i = 0; i < COUNT; i++) {
        sequence_make(&world, &chains[i], (uint64_t)i + 1, 100);
        for (uint32_t at = 30; at <= 90; at += 30)
            assert_int_equal(world_publish(&world, &request, &chains[i], at), SELENE_ACCEPTED);
        if (i == 0) /* the segments are there */
            assert_int_equal(world_drain(&world).drained_written, 3);
    }
    /* The latest used chain, so the first that the drain looks at. */
    struct sel_node *bad = world_node(&world, &chains[COUNT - 1], 60);
    sel_pin(world.store, bad, SEL_TIER_MEMORY);
    sel_copy_failed(world.store, bad, SEL_TIER_MEMORY, SEL_LSM_PAGES, SELENE_E_CORRUPT);
    /* The next one had its first failure, and its write fails again: header and data of its first record go out first. */
    ((struct sel_memory *)world_node(&world, &chains[COUNT - 2], 30)->memory)->write_failures = 1;
    struct sel_disk_fault fault = {.action = SEL_DISK_FAULT_FAIL, .kinds = 1u << SEL_DISK_WRITE, .countdown = 3};
    sel_disk_fault_arm(world.disk, &fault);
    struct selene_event event = world_drain(&world);
    sel_disk_fault_clear(world.disk);
    assert_int_equal(event.result, SELENE_E_DEGRADED);
    assert_int_equal(event.drained_skipped_failed, 1);
    assert_int_equal(event.drained_skipped_parent, 2 + 2);
    assert_int_equal(event.drained_skipped_deadline + event.drained_skipped_room, 0);
    assert_int_equal(event.drained_written, 3 * COUNT - 5 - 3);
    struct selene_stats stats = world_stats(&world);
    assert_int_equal(stats.drained_written, event.drained_written + 3);
    assert_int_equal(stats.drained_skipped_failed, 1);
    assert_int_equal(stats.drained_skipped_parent, 4);
    assert_int_equal(stats.dropped_records, 3);
    world_check(&world);
    sel_unpin(world.store, bad, SEL_TIER_MEMORY);
    world_close_failed(&world);
    world_open(&world);
    for (int i = 0; i < COUNT; i++) {
        static const uint32_t held[] = {90, 90, 90, 90, 0, 30};
        sequence_prefix(&world, &chains[i]);
        assert_int_equal(world_restore(&world, &request, &chains[i], 100, NULL), held[i]);
        sequence_free(&chains[i]);
    }
    request_free(&world, &request);
    world_destroy(&world);
}

/* [P8, fault 14]: wherever its deadline cuts a drain off, and whether the store is then closed or crashes: what it says
 * is written is found, the store opens, checks, takes what is missing, and a second drain has nothing left over. */
static void drain_cut(uint64_t deadline_ns, bool crash, uint64_t *some) {
    enum { COUNT = 12, TURNS = 4 };
    static struct sequence chains[COUNT];
    struct device_request request;
    uint64_t ticket, found = 0;
    world_init(&world, &world_with_rows, 1024, 1000, true);
    world_disk(&world, 1);
    world.env.group_bytes = 256 << 10;
    world.options.no_thinning = 1; /* each record can be looked up */
    world_open(&world);
    request_make(&world, &request, 0, 16);
    for (uint32_t i = 0; i < COUNT * TURNS; i++) {
        if (i < COUNT)
            sequence_make(&world, &chains[i], i + 1, 100);
        assert_int_equal(world_publish(&world, &request, &chains[i % COUNT], (i / COUNT + 1) * 25), SELENE_ACCEPTED);
    }
    assert_ok(selene_drain(world.store, world.clock.mono + deadline_ns, &ticket));
    struct selene_event event = world_wait(&world, ticket);
    uint64_t skipped = event.drained_skipped_deadline;
    assert_int_equal(event.drained_written + skipped, COUNT * TURNS);
    assert_int_equal(event.drained_skipped_failed + event.drained_skipped_parent + event.drained_skipped_room, 0);
    assert_int_equal(event.result, skipped ? SELENE_E_DEADLINE : 0);
    *some += event.drained_written > 0 && skipped > 0;
    if (crash)
        world_crash(&world, deadline_ns);
    else
        world_close(&world);
    world_open(&world);
    world_check(&world);
    for (uint32_t i = 0; i < COUNT; i++) {
        sequence_prefix(&world, &chains[i]);
        for (uint32_t turn = 1; turn <= TURNS; turn++)
            found += world_lookup(&world, &chains[i], turn * 25, NULL) == turn * 25;
    }
    assert_true(found >= event.drained_written);
    for (uint32_t i = 0; i < COUNT * TURNS; i++)
        (void)world_publish(&world, &request, &chains[i % COUNT], (i / COUNT + 1) * 25);
    assert_int_equal(world_drain(&world).result, 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(world_restore(&world, &request, &chains[i], 100, NULL), 100);
        sequence_free(&chains[i]);
    }
    request_free(&world, &request);
    world_destroy(&world);
}
static void test_drain_cut(void **state) {
    uint64_t some = 0;
    (void)state;
    for (uint64_t us = 100; us <= 4000; us += 300)
        for (int crash = 0; crash < 2; crash++)
            drain_cut(us * 1000, crash, &some);
    assert_true(some >= 4); /* cut in the middle */
}

/* [P8]: a chain that cannot be through by the deadline is not started at all: nothing of it is written. */
static void test_drain_not_started(void **state) {
    enum { COUNT = 6, TURNS = 3 };
    static struct sequence chains[COUNT];
    struct device_request request;
    uint64_t ticket, chain_bytes = 0;
    (void)state;
    begin(&world_with_rows, 400, 0);
    request_make(&world, &request, 0, 16);
    for (int i = 0; i <= COUNT; i++) {
        if (i == 1) /* the segments are there */
            assert_int_equal(world_drain(&world).drained_written, TURNS);
        if (i == COUNT)
            break;
        sequence_make(&world, &chains[i], (uint64_t)i + 1, 96);
        for (uint32_t at = 32; at <= 96; at += 32)
            assert_int_equal(world_publish(&world, &request, &chains[i], at), SELENE_ACCEPTED);
    }
    for (struct sel_node *node = world_node(&world, &chains[1], 96); node; node = node->parent)
        chain_bytes += sel_memory_slots(node->memory) * world.slot_bytes;
    world.store->write_rate.bytes_per_ns = (double)chain_bytes / 1e6; /* a chain in a millisecond */
    assert_ok(selene_drain(world.store, world.clock.mono + 2500000, &ticket));
    struct selene_event event = world_wait(&world, ticket);
    assert_int_equal(event.result, SELENE_E_DEADLINE);
    assert_int_equal(event.drained_written, 2 * TURNS);
    assert_int_equal(event.drained_skipped_deadline, 3 * TURNS);
    world_close(&world);
    world_open(&world);
    assert_int_equal(world_stats(&world).records[SELENE_TIER_DISK], 3 * TURNS);
    for (int i = 0; i < COUNT; i++) { /* those used last */
        sequence_prefix(&world, &chains[i]);
        bool written = i == 0 || i >= COUNT - 2;
        assert_int_equal(world_restore(&world, &request, &chains[i], 96, NULL), written ? 96 : 0);
        sequence_free(&chains[i]);
    }
    request_free(&world, &request);
    world_destroy(&world);
}

/* [P8, T5]: a row that was brought back and is in memory alone belongs to a drain, also with parked records under it. */
static void test_drain_row(void **state) {
    struct sequence chain, fork, third;
    struct device_request request;
    (void)state;
    begin(&world_with_rows, 400, 0);
    request_make(&world, &request, 0, 16);
    sequence_make(&world, &chain, 1, 100);
    sequence_fork(&world, &fork, &chain, 40, 2, 100);
    sequence_fork(&world, &third, &chain, 40, 3, 100);
    for (uint32_t at = 20; at <= 100; at += 20)
        assert_int_equal(world_publish(&world, &request, &chain, at), SELENE_ACCEPTED);
    assert_int_equal(world_drain(&world).result, 0);
    assert_int_equal(world_node(&world, &chain, 40)->disk.row, 0);
    assert_int_equal(world_publish(&world, &request, &fork, 40), SELENE_ACCEPTED); /* a thinned key */
    assert_int_equal(world_publish(&world, &request, &fork, 70), SELENE_ACCEPTED);
    struct selene_event event = world_drain(&world);
    assert_int_equal(event.result, 0);
    assert_int_equal(event.drained_written, 2);
    world_close(&world);
    world_open(&world);
    sequence_prefix(&world, &fork);
    sequence_prefix(&world, &third);
    assert_int_equal(world_restore(&world, &request, &fork, 100, NULL), 70);
    assert_int_equal(world_restore(&world, &request, &third, 100, NULL), 40);
    sequence_free(&chain);
    sequence_free(&fork);
    sequence_free(&third);
    request_free(&world, &request);
    world_destroy(&world);
}

/* Every record that is committed is reported once, with a warm tier and without, and before the drain or publish that
 * waited for it. */
static void reports_commits(uint64_t warm_slots) {
    struct sequence chain;
    struct device_request request;
    struct selene_publish_result result;
    struct selene_event event;
    uint64_t ticket, commits = 0;
    world_init(&world, &world_without_rows, 1024, warm_slots, true);
    world_disk(&world, 1);
    world.options.report_commits = 1;
    world_open(&world);
    request_make(&world, &request, 0, 32);
    sequence_make(&world, &chain, 1, 250);
    request_fill(&world, &request, &chain, 240);
    do { /* the first segment may not be there yet */
        world_poll(&world, &event, 1);
        assert_ok(selene_publish(world.store, chain.prefix, 240, &request.state, &result));
    } while (result.answer == SELENE_RETRY);
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    ticket = result.ticket;
    if (warm_slots) {
        assert_int_equal(world_wait(&world, ticket).result, 0);
        assert_ok(selene_drain(world.store, 0, &ticket));
    }
    do {
        if (world_poll(&world, &event, 1) == 0)
            event.ticket = 0;
        else if (event.kind == SELENE_EVENT_COMMITTED) {
            uint8_t key[32];
            assert_int_equal(event.tokens, ++commits * 32 > 240 ? 240 : commits * 32);
            assert_ok(selene_prefix_key(chain.prefix, event.tokens, key));
            assert_memory_equal(event.key, key, 32);
        }
    } while (event.ticket != ticket);
    assert_int_equal(event.result, 0);
    assert_int_equal(commits, 8);
    assert_int_equal(world_stats(&world).records[SELENE_TIER_DISK], 8);
    sequence_free(&chain);
    request_free(&world, &request);
    world_destroy(&world);
}
static void test_report_commits(void **state) {
    (void)state;
    reports_commits(100);
    reports_commits(0);
}

static void count_drops(void *context, int level, const char *text) {
    int *count = context;
    *count += level == SEL_LOG_WARNING && strstr(text, "memory drops") != NULL;
}

/* [D9, P6]: a full disk whose records all have children in memory alone: memory drops its coldest, which is said once and
 * not for every record. */
static void test_drops_said_once(void **state) {
    enum { CHAINS = 8, CHECKPOINTS = 16 };
    static struct sequence chains[CHAINS];
    struct device_request request;
    int warnings = 0;
    (void)state;
    world_init(&world, &world_with_rows, 1024, 400, true);
    world_disk(&world, 1);
    world.options.disk_limit_bytes = 12 << 20;
    world.options.log = count_drops;
    world.options.log_context = &warnings;
    world.options.log_level = SEL_LOG_WARNING;
    world_open(&world);
    request_make(&world, &request, 0, 128);
    for (uint32_t at = 1; at <= CHECKPOINTS; at++)
        for (uint32_t i = 0; i < CHAINS; i++) {
            if (at == 1)
                sequence_make(&world, &chains[i], i + 1, CHECKPOINTS * 50);
            assert_int_equal(world_publish(&world, &request, &chains[i], at * 50), SELENE_ACCEPTED);
        }
    print_message("%lu dropped, said %d times\n", (unsigned long)world_stats(&world).dropped_records, warnings);
    assert_true(world_stats(&world).dropped_records > 10);
    assert_true(warnings >= 1 && warnings <= 2);
    for (uint32_t i = 0; i < CHAINS; i++)
        sequence_free(&chains[i]);
    request_free(&world, &request);
    world_destroy(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drain_deadline),    cmocka_unit_test(test_drain_small_disk),
        cmocka_unit_test(test_drain_gives_up),    cmocka_unit_test(test_report_commits),
        cmocka_unit_test(test_drops_said_once),   cmocka_unit_test(test_drain_reasons),
        cmocka_unit_test(test_drain_cut),         cmocka_unit_test(test_drain_row),
        cmocka_unit_test(test_drain_not_started),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
