/* SPDX-License-Identifier: Apache-2.0
 *
 * Records that no disk of the given limit can ever hold, beside small ones that it holds already. Simulated disk.
 */
#include "tests/unit/engine/world.h"

enum { SMALL = 6, LARGE_TOKENS = 7000 };

static struct world world;
static struct sequence small[SMALL], large;
static struct device_request request;

static void begin(const struct world_layout *shape, uint64_t warm_slots) {
    world_init(&world, shape, 1024, warm_slots, true);
    world_disk(&world, 1);
    world.options.disk_limit_bytes = 12 << 20;
    world.options.page_group = 1024;
    world_open(&world);
    request_make(&world, &request, 0, 1024);
    for (int i = 0; i < SMALL; i++) {
        sequence_make(&world, &small[i], (uint64_t)i + 2, 64);
        assert_int_equal(world_publish(&world, &request, &small[i], 64), SELENE_ACCEPTED);
    }
    sequence_make(&world, &large, 1, LARGE_TOKENS);
    assert_int_equal(world_drain(&world).result, 0);
    assert_int_equal(world_stats(&world).records[SELENE_TIER_DISK], SMALL);
}

/* Nothing was removed from the disk for it, and all of it can still be used. */
static void end(void) {
    assert_int_equal(world_stats(&world).evictions[SELENE_TIER_DISK], 0);
    assert_int_equal(world_stats(&world).records[SELENE_TIER_DISK], SMALL);
    for (int i = 0; i < SMALL; i++) {
        assert_int_equal(world_restore(&world, &request, &small[i], 64, NULL), 64);
        sequence_free(&small[i]);
    }
    world_check(&world);
    sequence_free(&large);
    request_free(&world, &request);
    world_destroy(&world);
}

/* [M5]: without a warm tier what the disk can never hold is Oversize at once, not Retry for ever. */
static void stream(const struct world_layout *shape) {
    struct selene_publish_result answer;
    begin(shape, 0);
    request_fill(&world, &request, &large, LARGE_TOKENS);
    assert_int_equal(selene_publish(world.store, large.prefix, LARGE_TOKENS, &request.state, &answer), 0);
    assert_int_equal(answer.answer, SELENE_OVERSIZE);
    end();
}
static void test_stream(void **state) {
    (void)state;
    stream(&world_with_rows);
    stream(&world_without_rows);
}

/* [P6]: with one, memory is the end of its chain: it is dropped there and does not hold up the drain of the others. */
static void spill(const struct world_layout *shape) {
    begin(shape, 1000);
    assert_int_equal(world_publish(&world, &request, &large, LARGE_TOKENS), SELENE_ACCEPTED);
    struct selene_event event = world_drain(&world);
    assert_int_equal(event.drained_skipped_failed, 1);
    assert_int_equal(world_stats(&world).dropped_records, 1);
    assert_int_equal(world_restore(&world, &request, &large, LARGE_TOKENS, NULL), 0);
    end();
}
static void test_spill(void **state) {
    (void)state;
    spill(&world_with_rows);
    spill(&world_without_rows);
}

/* [D6, M5]: whatever the limit is, nothing is Retry for ever, and a drain comes to an end: a small record is kept
 * where the limit has room for it beside what is kept ahead. */
static bool kept(const struct world_layout *shape, uint64_t warm_slots, uint64_t limit) {
    world_init(&world, shape, 64, warm_slots, true);
    world_disk(&world, 1);
    world.options.disk_limit_bytes = limit;
    world_open(&world);
    request_make(&world, &request, 0, 16);
    sequence_make(&world, &large, 1, 64);
    int answer = world_publish(&world, &request, &large, 64);
    struct selene_event event = world_drain(&world);
    bool held = world_stats(&world).records[SELENE_TIER_DISK] > 0;
    assert_int_equal(answer, warm_slots || held ? SELENE_ACCEPTED : SELENE_OVERSIZE);
    assert_true(warm_slots && !held ? event.drained_skipped_failed > 0 : event.drained_skipped_failed == 0);
    sequence_free(&large);
    request_free(&world, &request);
    world_destroy(&world);
    return held;
}
static void test_limits(void **state) {
    const struct world_layout *shapes[] = {&world_with_rows, &world_without_rows};
    (void)state;
    for (int rows = 0; rows < 2; rows++) {
        for (uint64_t limit = 4 << 20; limit <= 9 << 20; limit += 128 << 10)
            for (uint64_t warm_slots = 0; warm_slots <= 40; warm_slots += 40)
                assert_true(kept(shapes[rows], warm_slots, limit) || limit <= 7 << 20);
        assert_false(kept(shapes[rows], 0, 4 << 20));
    }
}

/* [D6, P1]: in the smallest limit there is room for a chain of small records, and none of them leaves for room that is
 * kept ahead and cannot be had. */
static void test_smallest_limit(void **state) {
    const struct world_layout *shapes[] = {&world_with_rows, &world_without_rows};
    (void)state;
    for (int i = 0; i < 4; i++) {
        world_init(&world, shapes[i % 2], 64, i < 2 ? 0 : 40, true);
        world_disk(&world, 1);
        world.env.segment_bytes = 0; /* as for any user */
        world.options.disk_limit_bytes = 4 << 20;
        world_open(&world);
        request_make(&world, &request, 0, 16);
        sequence_make(&world, &large, 1, 64);
        for (uint64_t tokens = 8; tokens <= 64; tokens += 8)
            assert_int_equal(world_publish(&world, &request, &large, tokens), SELENE_ACCEPTED);
        assert_int_equal(world_drain(&world).result, 0);
        assert_int_equal(world_stats(&world).evictions[SELENE_TIER_DISK], 0);
        assert_int_equal(world_stats(&world).records[SELENE_TIER_DISK], 8);
        assert_int_equal(world_restore(&world, &request, &large, 64, NULL), 64);
        world_check(&world);
        sequence_free(&large);
        request_free(&world, &request);
        world_destroy(&world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stream), cmocka_unit_test(test_spill),
                                       cmocka_unit_test(test_limits), cmocka_unit_test(test_smallest_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
