/* SPDX-License-Identifier: Apache-2.0
 *
 * One conversation that is longer than memory and disk together [M5, P1]: its publishes come to an end (accepted, or
 * Oversize) after a bounded number of rounds, whatever the tiers, and what was held before and comes later is served.
 */
#include "tests/unit/engine/world.h"

enum { TURN = 24, TURNS = 120, PAGES = TURN * TURNS / 8 };

static struct world world;

/* Whether the chain was too long for these tiers. */
static bool too_long(const struct world_layout *shape, uint64_t warm_slots, uint64_t disk_limit, uint32_t step) {
    struct sequence chain, other;
    struct device_request request;
    uint32_t held = 0, oversize = 0;
    world_init(&world, shape, PAGES, warm_slots, true);
    if (disk_limit)
        world_disk(&world, 1);
    world.options.disk_limit_bytes = disk_limit;
    world.options.log_level = SEL_LOG_ERROR - 1;
    world_open(&world);
    request_make(&world, &request, 0, PAGES);
    sequence_make(&world, &chain, 1, TURN * TURNS);
    for (uint32_t at = step; at <= TURN * TURNS && oversize < 3; at += step) {
        struct selene_publish_result result;
        struct selene_event event;
        request_fill(&world, &request, &chain, at);
        for (int round = 0;; round++) {
            assert_true(round < 2000); /* not for ever */
            assert_ok(selene_publish(world.store, chain.prefix, at, &request.state, &result));
            if (result.answer == SELENE_ACCEPTED)
                /* One that was too long for what was left fails, and keeps the part that was not. */
                result.answer = world_wait(&world, result.ticket).result ? SELENE_RETRY : SELENE_ACCEPTED;
            if (result.answer != SELENE_RETRY)
                break;
            world_poll(&world, &event, 1);
        }
        world_check(&world);
        oversize += result.answer == SELENE_OVERSIZE;
        if (result.answer == SELENE_ACCEPTED && oversize == 0)
            held = at;
    }
    /* What came in is there as long as nothing else wants the room; then others come in all the same. */
    uint64_t found = world_lookup(&world, &chain, TURN * TURNS, NULL);
    assert_true(oversize == 0 ? found == TURN * TURNS : found >= held && found < TURN * TURNS);
    assert_int_equal(world_restore(&world, &request, &chain, TURN * TURNS, NULL), found);
    assert_true((world_stats(&world).publishes_oversize > 0) == (oversize > 0));
    for (uint64_t i = 0; i < 3; i++) {
        sequence_make(&world, &other, 2 + i, 40);
        assert_int_equal(world_publish(&world, &request, &other, 32), SELENE_ACCEPTED);
        assert_int_equal(world_restore(&world, &request, &other, 40, NULL), 32);
        sequence_free(&other);
    }
    sequence_free(&chain);
    request_free(&world, &request);
    world_destroy(&world);
    return oversize > 0;
}

/* Turn by turn, and all of it in one publish. */
static void test_long_chain(void **state) {
    (void)state;
    for (int all = 0; all < 2; all++) {
        uint32_t step = all ? TURN * TURNS : TURN;
        for (int rows = 0; rows < 2; rows++) {
            const struct world_layout *shape = rows ? &world_with_rows : &world_without_rows;
            assert_true(too_long(shape, 100, 0, step));       /* memory */
            assert_true(too_long(shape, 0, 8 << 20, step));   /* disk */
            assert_true(too_long(shape, 100, 8 << 20, step)); /* both */
            assert_false(too_long(shape, 1500, 0, step));     /* room enough */
            assert_false(too_long(shape, 0, 64 << 20, step));
            if (!rows || !all) /* else one record: larger than memory */
                assert_false(too_long(shape, 100, 64 << 20, step));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_long_chain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
