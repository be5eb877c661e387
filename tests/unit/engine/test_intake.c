/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory plan [M1, M2]: warm tier, intake and budget, and that configured memory is memory used [fault 29]. What is
 * counted is the mapping and what malloc has given out, not resident pages: those depend on the machine.
 */
#include "tests/unit/engine/world.h"

#include <malloc.h>

#define WINDOWS (2 * SEL_WINDOW_SLOTS)

static struct world world;

static void count_warnings(void *context, int level, const char *text) {
    int *count = context;
    *count += level <= SEL_LOG_WARNING && strstr(text, "host_budget_bytes of ") != NULL;
}

/* Opens a store with so many slots of warm tier and budget, uses it, and tells what it had. */
static struct selene_stats plan(const struct world_layout *shape, uint64_t warm, uint64_t budget, uint32_t active,
                                int *warnings) {
    struct sequence sequence;
    struct device_request request;
    *warnings = 0;
    world_init(&world, shape, 64, warm, true);
    world_disk(&world, 1);
    world.options.host_budget_bytes = budget * world.slot_bytes;
    world.options.max_active_requests = active;
    world.options.no_packing = 1; /* else what is oversize is known after the comparison */
    world.options.log = count_warnings;
    world.options.log_context = warnings;
    world.options.log_level = SEL_LOG_WARNING;
    world_open(&world);
    struct selene_stats stats = world_stats(&world);
    assert_int_equal((uintptr_t)world.store->slots.base % 4096, 0);
    if (stats.slots_total * world.slot_bytes >= 2 << 20)
        assert_int_equal((uintptr_t)world.store->slots.base % (2 << 20), 0);
    request_make(&world, &request, 0, 20);
    for (uint64_t i = 0; i < 4; i++) {
        sequence_make(&world, &sequence, i, 60);
        int answer = world_publish(&world, &request, &sequence, 40); /* 5 pages, a row of 3 slots */
        if (stats.slots_total - stats.slots_intake >= 8)
            assert_int_equal(answer, SELENE_ACCEPTED);
        if (answer == SELENE_ACCEPTED)
            assert_int_equal(world_restore(&world, &request, &sequence, 59, NULL), 40);
        sequence_free(&sequence);
    }
    request_free(&world, &request);
    world_destroy(&world);
    return stats;
}

/* [M2]: two rows an active request and two windows, on top of the warm tier; nothing is said when it fits. */
static void test_intake_size(void **state) {
    int warnings;
    (void)state;
    for (uint32_t active = 1; active <= 9; active += 4) {
        struct selene_stats stats = plan(&world_with_rows, 40, 0, active, &warnings);
        assert_int_equal(stats.slots_intake, 2 * active * 3 + WINDOWS);
        assert_int_equal(stats.slots_total, 40 + stats.slots_intake);
        assert_int_equal(warnings, 0);
        stats = plan(&world_with_rows, 40, stats.slots_total, active, &warnings);
        assert_int_equal(stats.slots_total, 40 + stats.slots_intake);
        assert_int_equal(warnings, 0);
    }
    assert_int_equal(plan(&world_without_rows, 40, 0, 9, &warnings).slots_intake, WINDOWS);
    assert_int_equal(plan(&world_with_rows, 0, 0, 2, &warnings).slots_total, 2 * 2 * 3 + WINDOWS);
    assert_int_equal(warnings, 0);
}

/* [M2]: in every budget there is a plan, and the store works. It keeps to the budget, the intake has two windows where
 * they take no more than half of it, the warm tier gives way only then, and one warning says so. */
static void test_budgets(void **state) {
    (void)state;
    for (uint64_t warm = 0; warm <= 100; warm += warm < 20 ? 5 : 40)
        for (uint64_t budget = SEL_MAX(warm, 1); budget <= 150; budget += budget < 12 ? 1 : 23) {
            int warnings;
            uint64_t full = 2 * 4 * 3 + WINDOWS;
            struct selene_stats stats = plan(&world_with_rows, warm, budget, 4, &warnings);
            uint64_t left = stats.slots_total - stats.slots_intake;
            assert_true(stats.slots_total <= SEL_MAX(budget, 3));
            assert_true(stats.slots_intake >= 2 && stats.slots_intake <= full && left <= warm);
            assert_true((left > 0) == (warm > 0));
            assert_true(stats.slots_intake >= SEL_MIN(WINDOWS, budget / 2));
            assert_int_equal(warnings, warm + full > budget);
            if (warm + WINDOWS <= budget)
                assert_int_equal(left, warm);
            if (warm + full <= budget)
                assert_int_equal(stats.slots_intake, full);
        }
}

/* [M2, fault 29]: the mapping is what was configured, to the slot, and what stands beside it (numbers of slots, checksums,
 * what a record's copy needs) is less than 5 % of it, even for the smallest slots and records; the index aside. */
static void test_configured_is_used(void **state) {
    enum { SLOTS = 3000 };
    const struct world_layout shape = {
        .page_tokens = 8, .rank_count = 1, .entry_bytes = {256, 256}, .entry_tokens = {1, 1}, .row_bytes = 0};
    struct device_request request;
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("a sanitizer's malloc does not count\n");
    skip();
#endif
    world_init(&world, &shape, 64, SLOTS, true);
    request_make(&world, &request, 0, 2);
    struct mallinfo2 before = mallinfo2();
    world_open(&world);
    struct selene_stats stats = world_stats(&world);
    assert_int_equal(stats.slots_total, SLOTS + WINDOWS);
    assert_int_equal(world.slot_bytes, 4096);
    for (uint64_t i = 0; i < SLOTS + 1000; i++) {
        struct sequence sequence;
        sequence_make(&world, &sequence, i, 8);
        struct selene_publish_result result;
        assert_ok(selene_publish(world.store, sequence.prefix, 8, &request.state, &result));
        assert_int_equal(result.answer, SELENE_ACCEPTED);
        assert_int_equal(world_wait(&world, result.ticket).result, 0);
        sequence_free(&sequence);
    }
    struct mallinfo2 after = mallinfo2();
    stats = world_stats(&world);
    assert_true(stats.records[SELENE_TIER_MEMORY] >= SLOTS);
    uint64_t configured = (SLOTS + WINDOWS) * world.slot_bytes;
    uint64_t beside = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd - stats.memory_index_bytes;
    print_message("%lu bytes configured, %lu beside them, index %lu\n", (unsigned long)configured,
                  (unsigned long)beside, (unsigned long)stats.memory_index_bytes);
    assert_true(beside <= configured / 20);
    request_free(&world, &request);
    world_destroy(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_intake_size), cmocka_unit_test(test_budgets),
                                       cmocka_unit_test(test_configured_is_used)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
