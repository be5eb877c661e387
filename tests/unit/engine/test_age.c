/* SPDX-License-Identifier: Apache-2.0
 *
 * The maximum age [A1] under a clock that is moved by hand: who leaves, when, how many at a time, and what clocks that
 * jump do.
 */
#include "tests/unit/engine/world.h"

#define MINUTE (60 * SEL_NS_PER_SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

static struct world world;
static struct device_request request;

static void begin(const struct world_layout *shape, uint64_t warm_slots, bool disk, uint64_t max_age_ns) {
    world_init(&world, shape, 64, warm_slots, true);
    if (disk)
        world_disk(&world, 1);
    world.options.max_age_ns = max_age_ns;
    world_open(&world);
    request_make(&world, &request, 0, 32);
}

static void end(void) {
    world_check(&world);
    request_free(&world, &request);
    world_destroy(&world);
}

/* Polls until nothing happens any more, without moving the clock by more than the world does. */
static void settle(void) {
    struct selene_event event;
    for (int i = 0; i < 50; i++)
        world_poll(&world, &event, 1);
}

static void pass(uint64_t ns) {
    sel_clock_manual_advance(&world.clock, ns);
    settle();
}

static uint64_t held(enum selene_tier tier) { return world_stats(&world).records[tier]; }
static uint64_t expired(enum selene_tier tier) { return world_stats(&world).expiries[tier]; }

/* Sequences of one record each. */
static struct sequence *many(size_t count, uint32_t tokens) {
    struct sequence *sequences = calloc(count, sizeof *sequences);
    assert_non_null(sequences);
    for (size_t i = 0; i < count; i++) {
        sequence_make(&world, &sequences[i], 1000 + i, tokens);
        assert_int_equal(world_publish(&world, &request, &sequences[i], tokens), SELENE_ACCEPTED);
    }
    return sequences;
}

static void many_free(struct sequence *sequences, size_t count) {
    for (size_t i = 0; i < count; i++)
        sequence_free(&sequences[i]);
    free(sequences);
}

/* Off: nothing leaves, nobody is woken. On: the store wakes once a minute. */
static void test_off(void **state) {
    (void)state;
    begin(&world_without_rows, 100, false, 0);
    struct sequence *sequences = many(3, 16);
    pass(1000 * DAY);
    assert_int_equal(held(SELENE_TIER_MEMORY), 3);
    assert_true(selene_deadline_ns(world.store) == UINT64_MAX);
    many_free(sequences, 3);
    end();
    begin(&world_without_rows, 100, false, DAY);
    settle();
    uint64_t deadline = selene_deadline_ns(world.store), now = world.clock.mono;
    assert_true(deadline > now && deadline <= now + MINUTE);
    world.store->closing = true; /* a close that takes long sleeps */
    assert_true(selene_deadline_ns(world.store) == UINT64_MAX);
    world.store->closing = false;
    end();
}

/* They leave memory and disk when they were unused for so long, not before; counted by tier, and not as evictions. */
static void test_both_tiers(void **state) {
    (void)state;
    begin(&world_with_rows, 200, true, DAY);
    struct sequence *sequences = many(3, 20);
    assert_int_equal(world_drain(&world).result, 0);
    pass(DAY - MINUTE / 2);
    assert_int_equal(held(SELENE_TIER_MEMORY), 3);
    assert_int_equal(held(SELENE_TIER_DISK), 3);
    assert_int_equal(world_restore(&world, &request, &sequences[1], 20, NULL), 20); /* used again */
    pass(4 * MINUTE);
    struct selene_stats stats = world_stats(&world);
    assert_int_equal(stats.records[SELENE_TIER_MEMORY], 1);
    assert_int_equal(stats.records[SELENE_TIER_DISK], 1);
    assert_int_equal(stats.expiries[SELENE_TIER_MEMORY], 2);
    assert_int_equal(stats.expiries[SELENE_TIER_DISK], 2);
    assert_int_equal(stats.evictions[SELENE_TIER_MEMORY] + stats.evictions[SELENE_TIER_DISK], 0);
    assert_int_equal(stats.dropped_records, 0);
    assert_int_equal(world_restore(&world, &request, &sequences[1], 20, NULL), 20);
    assert_int_equal(world_lookup(&world, &sequences[0], 20, NULL), 0);
    /* And they stay away. */
    world_reopen(&world, sequences, 3);
    assert_int_equal(held(SELENE_TIER_DISK), 1);
    many_free(sequences, 3);
    end();
}

/* 1,000 records at 64 a minute, the oldest first; a minute that was missed is not made up for. */
static void test_many(void **state) {
    (void)state;
    begin(&world_without_rows, 1100, false, DAY);
    struct sequence *sequences = many(1000, 8);
    pass(2 * DAY);
    assert_int_equal(held(SELENE_TIER_MEMORY), 1000 - 64);
    for (uint64_t minute = 1; minute < 16; minute++) {
        pass(MINUTE / 2);
        assert_int_equal(expired(SELENE_TIER_MEMORY), SEL_MIN(64 * minute, 1000));
        assert_int_equal(world_lookup(&world, &sequences[64 * minute], 8, NULL), 8);
        assert_int_equal(world_lookup(&world, &sequences[64 * minute - 1], 8, NULL), 0);
        pass(MINUTE / 2 + SEL_NS_PER_MS);
    }
    assert_int_equal(held(SELENE_TIER_MEMORY), 0);
    assert_int_equal(expired(SELENE_TIER_MEMORY), 1000);
    many_free(sequences, 1000);
    end();
}

/* A sweep stops at the first fresh leaf, and a leaf that was used keeps the chain above it [P5, P6]. */
static void test_chain(void **state) {
    struct sequence chain, fork;
    (void)state;
    begin(&world_without_rows, 400, true, DAY);
    sequence_make(&world, &chain, 1, 200);
    sequence_fork(&world, &fork, &chain, 96, 2, 200);
    for (uint32_t at = 32; at <= 192; at += 32)
        assert_int_equal(world_publish(&world, &request, &chain, at), SELENE_ACCEPTED);
    assert_int_equal(world_publish(&world, &request, &fork, 192), SELENE_ACCEPTED);
    assert_int_equal(world_drain(&world).result, 0);
    uint64_t all = held(SELENE_TIER_MEMORY);
    pass(DAY - 10 * MINUTE);
    assert_int_equal(world_restore(&world, &request, &fork, 192, NULL), 192);
    pass(20 * MINUTE);
    /* What only the first one needs is gone, from its end on. */
    assert_int_equal(world_lookup(&world, &chain, 200, NULL), 96);
    assert_int_equal(world_restore(&world, &request, &fork, 192, NULL), 192);
    assert_int_equal(held(SELENE_TIER_MEMORY), all - 3);
    assert_int_equal(expired(SELENE_TIER_DISK), 3);
    pass(2 * DAY);
    assert_int_equal(held(SELENE_TIER_MEMORY), 0);
    assert_int_equal(held(SELENE_TIER_DISK), 0);
    sequence_free(&chain);
    sequence_free(&fork);
    end();
}

/* With rows: ancestors that gave theirs up go with the last leaf that needed their pages [P6], in the same sweep. */
static void test_thinned(void **state) {
    struct sequence chain;
    (void)state;
    begin(&world_with_rows, 400, true, DAY);
    sequence_make(&world, &chain, 1, 200);
    for (uint32_t at = 20; at <= 200; at += 20)
        assert_int_equal(world_publish(&world, &request, &chain, at), SELENE_ACCEPTED);
    assert_int_equal(world_drain(&world).result, 0);
    assert_int_equal(held(SELENE_TIER_DISK), 10);
    assert_true(world_stats(&world).rows[SELENE_TIER_DISK] < 10);
    pass(2 * DAY);
    struct selene_stats stats = world_stats(&world);
    assert_int_equal(stats.records[SELENE_TIER_MEMORY] + stats.records[SELENE_TIER_DISK], 0);
    assert_int_equal(stats.expiries[SELENE_TIER_MEMORY], 10);
    assert_int_equal(stats.expiries[SELENE_TIER_DISK], 10);
    assert_int_equal(stats.evictions[SELENE_TIER_MEMORY] + stats.evictions[SELENE_TIER_DISK], 0);
    assert_int_equal(stats.slots_used, 0);
    sequence_free(&chain);
    end();
}

/* 64 records a sweep, those that go along with their leaf included: one leaf more than fits takes its chain along [A1, P6]. */
static void test_thinned_many(void **state) {
    const uint64_t length = 10, count = 12;
    struct sequence chain[12];
    (void)state;
    begin(&world_with_rows, 2000, true, DAY);
    for (uint64_t i = 0; i < count; i++) {
        sequence_make(&world, &chain[i], 1 + i, 200);
        for (uint32_t at = 20; at <= 20 * length; at += 20)
            assert_int_equal(world_publish(&world, &request, &chain[i], at), SELENE_ACCEPTED);
    }
    uint64_t all = held(SELENE_TIER_MEMORY);
    assert_int_equal(all, count * length);
    pass(2 * DAY);
    uint64_t gone = expired(SELENE_TIER_MEMORY);
    assert_true(gone >= 64 && gone < 64 + length);
    assert_int_equal(held(SELENE_TIER_MEMORY), all - gone);
    pass(MINUTE);
    assert_int_equal(held(SELENE_TIER_MEMORY), 0);
    for (uint64_t i = 0; i < count; i++)
        sequence_free(&chain[i]);
    end();
}

/* A record on disk whose children are in memory alone is used when they are, though nobody restores it: it neither
 * leaves in mid-chain [P6] nor holds the others up. */
static void test_children_elsewhere(void **state) {
    struct sequence chain;
    (void)state;
    begin(&world_without_rows, 400, true, DAY);
    struct sequence *others = many(2, 16);
    sequence_make(&world, &chain, 1, 200);
    assert_int_equal(world_publish(&world, &request, &chain, 32), SELENE_ACCEPTED);
    assert_int_equal(world_drain(&world).result, 0);
    for (uint32_t at = 64; at <= 192; at += 32) {
        sel_clock_manual_advance(&world.clock, DAY / 2);
        assert_int_equal(world_publish(&world, &request, &chain, at), SELENE_ACCEPTED);
        settle();
    }
    struct sel_node *first = world_node(&world, &chain, 32);
    assert_true(first->tier[SEL_TIER_DISK].present && first->tier[SEL_TIER_MEMORY].present);
    assert_int_equal(world_lookup(&world, &chain, 200, NULL), 192);
    assert_int_equal(expired(SELENE_TIER_DISK), 2);
    assert_int_equal(held(SELENE_TIER_DISK), 1);
    many_free(others, 2);
    sequence_free(&chain);
    end();
}

/* A wall clock that jumps, forward or back, expires nothing; what is really old goes all the same. */
static void test_jumps(void **state) {
    (void)state;
    begin(&world_without_rows, 100, true, DAY);
    struct sequence *sequences = many(5, 16);
    for (int i = 0; i < 5; i++) {
        world.clock.wall += 365 * DAY;
        pass(2 * MINUTE);
        world.clock.wall -= 2 * 365 * DAY;
        pass(2 * MINUTE);
        world.clock.wall += 365 * DAY;
    }
    assert_int_equal(held(SELENE_TIER_MEMORY), 5);
    world.clock.wall -= 3000 * DAY;
    assert_int_equal(world_restore(&world, &request, &sequences[0], 16, NULL), 16);
    pass(DAY - 5 * MINUTE);
    assert_int_equal(held(SELENE_TIER_MEMORY), 1);
    assert_int_equal(expired(SELENE_TIER_MEMORY), 4);
    many_free(sequences, 5);
    end();
}

static void close_for(uint64_t ns, struct sequence *sequences, size_t count) {
    assert_int_equal(world_drain(&world).result, 0);
    world_close(&world);
    sel_clock_manual_advance(&world.clock, ns);
    world_open(&world);
    for (size_t i = 0; i < count; i++)
        sequence_prefix(&world, &sequences[i]);
}

/* After a restart age counts from the time in the index: of the last use before it was written, not of the writing. */
static void test_restart(void **state) {
    (void)state;
    begin(&world_without_rows, 100, true, DAY);
    struct sequence *sequences = many(3, 16);
    pass(DAY / 2);
    close_for(DAY / 4, sequences, 3); /* written half a day after they were used */
    assert_int_equal(held(SELENE_TIER_DISK), 3);
    assert_int_equal(world_restore(&world, &request, &sequences[2], 16, NULL), 16);
    pass(DAY / 4 - 5 * MINUTE);
    assert_int_equal(held(SELENE_TIER_DISK), 3);
    pass(10 * MINUTE);
    assert_int_equal(held(SELENE_TIER_DISK), 1);
    assert_int_equal(world_lookup(&world, &sequences[2], 16, NULL), 16);
    /* Reused, but nothing of that is in the index: up to one maximum age early. */
    close_for(0, sequences, 3);
    pass(MINUTE);
    assert_int_equal(held(SELENE_TIER_DISK), 0);
    many_free(sequences, 3);
    end();
}

static unsigned warnings;
static void count_warnings(void *context, int level, const char *text) {
    (void)context;
    warnings += level == 1 && strstr(text, "maximum age") != NULL;
}

/* A clock that jumped while the store was closed: back, and nothing goes early; forward, and at most 64 go a minute, with
 * a warning. */
static void test_restart_jumps(void **state) {
    (void)state;
    world_init(&world, &world_without_rows, 64, 400, true);
    world_disk(&world, 1);
    world.options.max_age_ns = DAY;
    world.options.log = count_warnings;
    world.options.log_level = SEL_LOG_WARNING;
    warnings = 0;
    world_open(&world);
    request_make(&world, &request, 0, 32);
    struct sequence *sequences = many(150, 8);
    assert_int_equal(world_drain(&world).result, 0);
    world_close(&world);
    world.clock.wall -= 100 * DAY;
    world_open(&world);
    pass(DAY - 5 * MINUTE);
    assert_int_equal(held(SELENE_TIER_DISK), 150);
    assert_int_equal(warnings, 0);
    world_close(&world);
    world.clock.wall += 200 * DAY;
    world_open(&world);
    assert_int_equal(warnings, 1); /* whatever is published before the first poll */
    settle();
    assert_int_equal(held(SELENE_TIER_DISK), 150 - 64);
    assert_int_equal(warnings, 1);
    pass(MINUTE / 2);
    assert_int_equal(held(SELENE_TIER_DISK), 150 - 64);
    pass(MINUTE);
    assert_int_equal(held(SELENE_TIER_DISK), 150 - 128);
    assert_int_equal(warnings, 1);
    many_free(sequences, 150);
    end();
}

/* What is pinned waits, and goes at a later sweep. */
static void test_pins(void **state) {
    (void)state;
    begin(&world_without_rows, 100, true, DAY);
    struct sequence *sequences = many(3, 16);
    assert_int_equal(world_drain(&world).result, 0);
    struct sel_node *memory = world_node(&world, &sequences[0], 16), *disk = world_node(&world, &sequences[1], 16);
    sel_pin(world.store, memory, SEL_TIER_MEMORY);
    sel_pin(world.store, disk, SEL_TIER_DISK);
    pass(2 * DAY);
    /* Each left the tier where it was not pinned. */
    assert_int_equal(held(SELENE_TIER_MEMORY), 1);
    assert_int_equal(held(SELENE_TIER_DISK), 1);
    assert_int_equal(expired(SELENE_TIER_MEMORY), 2);
    pass(2 * MINUTE);
    assert_int_equal(held(SELENE_TIER_MEMORY) + held(SELENE_TIER_DISK), 2);
    world_check(&world);
    sel_unpin(world.store, memory, SEL_TIER_MEMORY);
    sel_unpin(world.store, disk, SEL_TIER_DISK);
    pass(2 * MINUTE);
    assert_int_equal(held(SELENE_TIER_MEMORY) + held(SELENE_TIER_DISK), 0);
    assert_int_equal(expired(SELENE_TIER_MEMORY), 3);
    assert_int_equal(expired(SELENE_TIER_DISK), 3);
    many_free(sequences, 3);
    end();
}

/* A record that waits since what is below it is pinned on disk holds up nobody else. */
static void test_pinned_below(void **state) {
    struct sequence chain;
    (void)state;
    begin(&world_without_rows, 400, true, DAY);
    sequence_make(&world, &chain, 1, 200);
    assert_int_equal(world_publish(&world, &request, &chain, 32), SELENE_ACCEPTED);
    assert_int_equal(world_publish(&world, &request, &chain, 64), SELENE_ACCEPTED);
    assert_int_equal(world_drain(&world).result, 0);
    struct sel_node *below = world_node(&world, &chain, 64);
    sel_memory_detach(world.store, below);
    sel_pin(world.store, below, SEL_TIER_DISK);
    struct sequence *others = many(3, 16);
    pass(2 * DAY);
    assert_int_equal(held(SELENE_TIER_MEMORY), 1);
    assert_int_equal(expired(SELENE_TIER_MEMORY), 3);
    sel_unpin(world.store, below, SEL_TIER_DISK);
    pass(2 * MINUTE);
    assert_int_equal(held(SELENE_TIER_MEMORY) + held(SELENE_TIER_DISK), 0);
    many_free(others, 3);
    sequence_free(&chain);
    end();
}

/* A restore that waits for its caller's event for longer than the maximum age is read to its end. */
static void test_being_read(void **state) {
    struct selene_event event;
    uint64_t ticket;
    (void)state;
    begin(&world_with_rows, 200, true, DAY);
    struct sequence *sequences = many(1, 20);
    world_reopen(&world, sequences, 1);
    request_clear(&world, &request, 0x11);
    request.state.wait = &request.wait;
    assert_ok(selene_restore(world.store, sequences[0].prefix, 20, &request.state, &ticket));
    pass(3 * DAY);
    assert_int_equal(held(SELENE_TIER_DISK), 1);
    request.wait = 1;
    event = world_wait(&world, ticket);
    assert_int_equal(event.result, 0);
    assert_int_equal(event.tokens, 20);
    assert_int_equal(request_wrong(&world, &request, &sequences[0], 20, true), 0);
    pass(2 * MINUTE);
    assert_int_equal(held(SELENE_TIER_DISK), 0);
    assert_int_equal(held(SELENE_TIER_MEMORY), 0);
    many_free(sequences, 1);
    end();
}

/* ---- at random ---- */

#define TALKS  8
#define SHARED 90 /* tokens of a fork */

/* Conversations, half of them forks of the other half; how far each got, and when it was last used. */
struct talks {
    struct sequence sequence[TALKS];
    uint32_t held[TALKS];
    uint64_t used[TALKS];
};

static void talk_publish(struct talks *talks, unsigned i, uint32_t more) {
    uint32_t to = SEL_MIN(talks->held[i] + more, 200);
    int answer = world_publish(&world, &request, &talks->sequence[i], to);
    assert_true(answer == SELENE_ACCEPTED || answer == SELENE_PRESENT);
    talks->held[i] = world.shape.row_bytes ? to : to - to % world.shape.page_tokens;
    talks->used[i] = world.clock.mono;
}

/* What was used within a day is there; but in the shared part the other one may have made a row one of its inner ones. */
static void talk_restore(struct talks *talks, unsigned i) {
    bool own = world.shape.row_bytes == 0 || talks->held[i] > SHARED;
    bool fresh = own && world.clock.mono - talks->used[i] < DAY;
    uint32_t limit = SEL_MAX(talks->held[i], 8);
    uint64_t got = world_restore(&world, &request, &talks->sequence[i], limit, NULL);
    assert_true(!fresh || got >= talks->held[i]);
    talks->held[i] = (uint32_t)got;
    talks->used[i] = world.clock.mono;
}

static void random_step(struct talks *talks, struct sel_random *random) {
    unsigned i = (unsigned)(sel_random_u64(random) % TALKS);
    switch (sel_random_u64(random) % 8) {
    case 0:
    case 1:
    case 2:
        talk_publish(talks, i, 1 + (uint32_t)(sel_random_u64(random) % 40));
        break;
    case 3:
    case 4:
        talk_restore(talks, i);
        break;
    case 5:
        world.clock.wall += (sel_random_u64(random) % 2000) * DAY - 1000 * DAY;
        break;
    case 6:
        if (sel_random_u64(random) % 4 == 0)
            assert_int_equal(world_drain(&world).result, 0);
        break;
    default:
        pass(sel_random_u64(random) % (8 * HOUR));
    }
    world_check(&world);
}

static void random_run(uint64_t seed, const struct world_layout *shape) {
    struct sel_random random;
    struct talks talks = {0};
    sel_random_seed(&random, seed);
    begin(shape, 800, true, DAY);
    for (unsigned i = 0; i < TALKS / 2; i++) {
        sequence_make(&world, &talks.sequence[i], 10 + i, 200);
        sequence_fork(&world, &talks.sequence[TALKS / 2 + i], &talks.sequence[i], SHARED, 50 + i, 200);
    }
    for (int step = 0; step < 200; step++)
        random_step(&talks, &random);
    assert_int_equal(world_stats(&world).evictions[SELENE_TIER_MEMORY], 0);
    /* Then nobody uses anything: all of it goes, and nothing is left behind. */
    pass(DAY);
    for (int minute = 0; minute < 20; minute++)
        pass(MINUTE);
    struct selene_stats stats = world_stats(&world);
    if (stats.records[SELENE_TIER_MEMORY] + stats.records[SELENE_TIER_DISK] + stats.slots_used)
        fail_msg("seed %d: records or slots are left", (int)seed);
    for (unsigned i = 0; i < TALKS; i++)
        sequence_free(&talks.sequence[i]);
    end();
}

/* Publishes, forks, restores, drains, idle hours and wall clocks that jump years: what is fresh stays, what is old goes, and
 * the invariants hold after every step (fault 7). */
static void test_random(void **state) {
    uint64_t seeds = test_count("SELENE_TEST_SEEDS", 15);
    (void)state;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        random_run(seed, seed % 2 ? &world_with_rows : &world_without_rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off),          cmocka_unit_test(test_both_tiers),
        cmocka_unit_test(test_many),         cmocka_unit_test(test_chain),
        cmocka_unit_test(test_jumps),        cmocka_unit_test(test_children_elsewhere),
        cmocka_unit_test(test_restart),      cmocka_unit_test(test_restart_jumps),
        cmocka_unit_test(test_thinned),      cmocka_unit_test(test_thinned_many),
        cmocka_unit_test(test_pinned_below), cmocka_unit_test(test_pins),
        cmocka_unit_test(test_being_read),   cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
