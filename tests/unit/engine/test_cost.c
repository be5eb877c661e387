/* SPDX-License-Identifier: Apache-2.0
 *
 * The restore estimate [R3] as functions of samples and time, and what a store makes of it (fault 27).
 */
#include "engine/cost.h"
#include "tests/unit/engine/world.h"

#define MS     SEL_NS_PER_MS
#define SECOND SEL_NS_PER_SECOND
#define MINUTE (60 * SECOND)
#define MB     UINT64_C(1000000)

/* A tier that moves `rate` bytes a nanosecond after `latency`: samples of one size. */
static void feed(struct sel_cost *cost, double rate, uint64_t latency_ns, uint64_t bytes, int count, uint64_t now_ns) {
    for (int i = 0; i < count; i++)
        sel_cost_sample(cost, bytes, latency_ns + (uint64_t)((double)bytes / rate), now_ns);
}

static void assert_near(uint64_t found, double expected, double tolerance) {
    if ((double)found < expected * (1 - tolerance) || (double)found > expected * (1 + tolerance))
        fail_msg("found %.0f, expected %.0f within %.0f %%", (double)found, expected, 100 * tolerance);
}

static void test_nothing_known(void **state) {
    struct sel_cost cost;
    (void)state;
    sel_cost_init(&cost, 0.5, 150e3);
    assert_int_equal(sel_cost_time(&cost, MB, SECOND), 0);
    sel_cost_sample(&cost, 0, MS, SECOND);
    sel_cost_sample(&cost, MB, 0, SECOND);
    assert_int_equal(sel_cost_time(&cost, MB, SECOND), 0);
    sel_cost_sample(&cost, MB, MS, SECOND);
    assert_near(sel_cost_time(&cost, MB, SECOND), MS, 0.01);
    assert_int_equal(sel_cost_time(&cost, 0, SECOND), 0);
    assert_true(sel_cost_time(&cost, UINT64_MAX, SECOND) <= UINT64_C(1000000000000000000));
}

/* Bytes over the measured rate plus latency: both are found from restores of all sizes, in any order. */
static void test_rate_and_latency(void **state) {
    (void)state;
    for (int order = 0; order < 3; order++) {
        struct sel_cost cost;
        sel_cost_init(&cost, 0.5, 150e3);
        /* 1 GB/s after 2 ms. */
        for (int i = 0; i < 30; i++) {
            uint64_t bytes = order == 0   ? (i < 15 ? 4096 : 500 * MB)
                             : order == 1 ? (i < 15 ? 500 * MB : 4096)
                             : i % 2      ? 4096
                                          : 500 * MB;
            feed(&cost, 1, 2 * MS, bytes, 1, SECOND);
        }
        assert_near(sel_cost_time(&cost, 500 * MB, SECOND), 502e6, 0.05);
        if (order)
            assert_near(sel_cost_time(&cost, 4096, SECOND), 2.004e6, 0.1);
    }
}

/* A change is followed within a few samples; one outlier does not rule, whether it is a stall or a gift. */
static void test_change_and_outlier(void **state) {
    struct sel_cost cost;
    (void)state;
    sel_cost_init(&cost, 0.1, 0);
    feed(&cost, 2, 0, 100 * MB, 10, SECOND); /* 50 ms */
    sel_cost_sample(&cost, 100 * MB, 30 * SECOND, SECOND);
    assert_near(sel_cost_time(&cost, 100 * MB, SECOND), 50e6 * 1.75, 0.05);
    feed(&cost, 2, 0, 100 * MB, 10, SECOND);
    assert_near(sel_cost_time(&cost, 100 * MB, SECOND), 50e6, 0.05);
    feed(&cost, 200, 0, 100 * MB, 1, SECOND);
    assert_near(sel_cost_time(&cost, 100 * MB, SECOND), 50e6 * 0.75, 0.05);
    feed(&cost, 0.2, 0, 100 * MB, 10, SECOND);
    assert_near(sel_cost_time(&cost, 100 * MB, SECOND), 500e6, 0.1);
    /* A small one says little about the speed. */
    sel_cost_sample(&cost, MB, 20 * MS, SECOND);
    assert_near(sel_cost_time(&cost, 100 * MB, SECOND), 500e6, 0.1);
}

/* A rate measured low recovers with time even without new samples, to what was seen before and no further; where it was
 * no mistake, one sample says so again. */
static void test_recovers(void **state) {
    struct sel_cost cost;
    (void)state;
    sel_cost_init(&cost, 0.5, 150e3);
    feed(&cost, 4, 0, 100 * MB, 20, SECOND);    /* 25 ms, better than the typical */
    feed(&cost, 0.01, 0, 100 * MB, 20, SECOND); /* 10 s */
    uint64_t before = sel_cost_time(&cost, 100 * MB, SECOND), low = before;
    assert_near(before, 10e9, 0.1);
    for (int minute = 1; minute <= 12; minute++) {
        uint64_t after = sel_cost_time(&cost, 100 * MB, SECOND + (uint64_t)minute * MINUTE);
        assert_true(after < before || after <= 26 * MS);
        before = after;
    }
    assert_near(before, 25e6, 0.05);
    assert_near(sel_cost_time(&cost, 100 * MB, UINT64_MAX), 25e6, 0.05);
    assert_near(sel_cost_time(&cost, 100 * MB, 0), (double)low, 0.01); /* a clock that went back changes nothing */
    feed(&cost, 0.01, 0, 100 * MB, 1, SECOND + 12 * MINUTE);
    assert_near(sel_cost_time(&cost, 100 * MB, SECOND + 12 * MINUTE), 10e9, 0.1);
}

/* The first sample of all may be a bad one, and the latency may be. */
static void test_recovers_from_first(void **state) {
    struct sel_cost cost;
    (void)state;
    sel_cost_init(&cost, 0.5, 150e3);
    sel_cost_sample(&cost, MB, 20 * SECOND, SECOND); /* 50 KB/s */
    assert_near(sel_cost_time(&cost, MB, SECOND), 20e9, 0.01);
    assert_near(sel_cost_time(&cost, MB, SECOND + 30 * MINUTE), 150e3 + 500e3, 0.01);
    sel_cost_init(&cost, 0.5, 150e3);
    feed(&cost, 2, 0, 100 * MB, 10, SECOND);
    for (int i = 0; i < 40; i++)
        sel_cost_sample(&cost, 4096, SECOND, SECOND);
    assert_near(sel_cost_time(&cost, 4096, SECOND), 1e9, 0.01);
    assert_near(sel_cost_time(&cost, 100 * MB, SECOND), 1.05e9, 0.01);
    assert_near(sel_cost_time(&cost, 4096, SECOND + 20 * MINUTE), 150e3, 0.05);
}

/* What is better than the typical does not recover to it. */
static void test_better_stays(void **state) {
    struct sel_cost cost;
    (void)state;
    sel_cost_init(&cost, 0.5, 150e3);
    sel_cost_sample(&cost, 4096, 3000, SECOND);
    assert_near(sel_cost_time(&cost, 4096, SECOND), 3000, 0.01);
    assert_near(sel_cost_time(&cost, 4096, SECOND + 60 * MINUTE), 3000, 0.01);
}

static void wave_all(struct sel_wave *wave, struct sel_cost *cost, uint64_t now_ns) {
    uint64_t bytes, ns;
    if (sel_wave_take(wave, now_ns, &bytes, &ns))
        sel_cost_sample(cost, bytes, ns, now_ns);
}

/* Eight restores side by side on a device of 1 GB/s: each takes 800 ms, and all together do, too. One alone would take
 * 100 ms, and that is what the estimate says. */
static void test_wave_is_one_transfer(void **state) {
    struct sel_wave wave = {0};
    struct sel_cost cost;
    (void)state;
    sel_cost_init(&cost, 0.1, 0);
    for (uint64_t i = 0; i < 8; i++) {
        sel_wave_join(&wave);
        sel_wave_begin(&wave, SECOND);
    }
    for (uint64_t i = 0; i < 8; i++) {
        sel_wave_end(&wave, 100 * MB, SECOND + 800 * MS);
        sel_wave_leave(&wave);
        wave_all(&wave, &cost, SECOND + 800 * MS);
    }
    assert_near(sel_cost_time(&cost, 100 * MB, 2 * SECOND), 100e6, 0.01);
}

/* Time in which nothing runs (an event that has not happened, slots that are not there) is no part of it. */
static void test_wave_pauses(void **state) {
    struct sel_wave wave = {0};
    uint64_t bytes, ns;
    (void)state;
    sel_wave_join(&wave);
    for (uint64_t i = 0; i < 4; i++) {
        sel_wave_begin(&wave, (10 * i + 1) * SECOND);
        sel_wave_begin(&wave, (10 * i + 1) * SECOND + 5 * MS);
        sel_wave_end(&wave, 0, (10 * i + 1) * SECOND + 10 * MS);
        sel_wave_end(&wave, MB, (10 * i + 1) * SECOND + 15 * MS);
        assert_false(sel_wave_take(&wave, (10 * i + 2) * SECOND, &bytes, &ns));
    }
    sel_wave_leave(&wave);
    assert_true(sel_wave_take(&wave, 50 * SECOND, &bytes, &ns));
    assert_int_equal(bytes, 4 * MB);
    assert_int_equal(ns, 60 * MS);
    sel_wave_join(&wave);
    sel_wave_leave(&wave);
    assert_true(sel_wave_take(&wave, 60 * SECOND, &bytes, &ns));
    assert_int_equal(bytes + ns, 0);
}

/* A second in which nothing came is not forgotten: it counts for what comes then. */
static void test_wave_without_bytes(void **state) {
    struct sel_wave wave = {0};
    uint64_t bytes, ns;
    (void)state;
    sel_wave_join(&wave);
    sel_wave_begin(&wave, 0);
    sel_wave_end(&wave, 0, 2 * SECOND);
    assert_false(sel_wave_take(&wave, 2 * SECOND, &bytes, &ns));
    sel_wave_begin(&wave, 2 * SECOND);
    sel_wave_end(&wave, MB, 3 * SECOND);
    assert_true(sel_wave_take(&wave, 3 * SECOND, &bytes, &ns));
    assert_int_equal(bytes, MB);
    assert_int_equal(ns, 3 * SECOND);
}

/* Restores that always overlap are measured all the same. */
static void test_wave_is_cut(void **state) {
    struct sel_wave wave = {0};
    uint64_t bytes, ns, samples = 0;
    (void)state;
    sel_wave_join(&wave);
    sel_wave_begin(&wave, 0);
    for (uint64_t now = 100 * MS; now <= 10 * SECOND; now += 100 * MS) {
        sel_wave_join(&wave);
        sel_wave_begin(&wave, now);
        sel_wave_end(&wave, 50 * MB, now);
        sel_wave_leave(&wave);
        if (!sel_wave_take(&wave, now, &bytes, &ns))
            continue;
        samples++;
        assert_int_equal(bytes, 500 * MB);
        assert_int_equal(ns, SECOND);
    }
    assert_int_equal(samples, 10);
}

/* ---- in a store ---- */

static struct world world;
static struct device_request request;
static struct sequence sequence;

static void begin(double prefill_tokens_per_s) {
    world_init(&world, &world_with_rows, 64, 200, true);
    world_disk(&world, 1);
    world.options.prefill_tokens_per_s = prefill_tokens_per_s;
    world_open(&world);
    request_make(&world, &request, 0, 32);
    sequence_make(&world, &sequence, 1, 200);
}

static void end(void) {
    world_check(&world);
    sequence_free(&sequence);
    request_free(&world, &request);
    world_destroy(&world);
}

/* Starts a restore and lets each step of it take so long. */
static struct selene_event slow_restore_of(uint64_t tokens, uint64_t step_ns) {
    struct selene_event event;
    uint64_t ticket;
    assert_ok(selene_restore(world.store, sequence.prefix, tokens, &request.state, &ticket));
    do
        sel_clock_manual_advance(&world.clock, step_ns);
    while (selene_poll(world.store, &event, 1) == 0 || event.ticket != ticket);
    assert_int_equal(event.result, 0);
    return event;
}

static struct selene_event slow_restore(uint64_t step_ns) { return slow_restore_of(200, step_ns); }

static struct selene_match look(void) {
    struct selene_match match;
    assert_ok(selene_lookup(world.store, sequence.prefix, 200, &match));
    assert_int_equal(match.tokens, 200);
    return match;
}

/* Fault 27: a restore estimated slower than computing the prefix is declined, and counted; when time has passed without
 * one it is tried again. */
static void test_declines(void **state) {
    (void)state;
    begin(1000); /* 200 tokens: 200 ms */
    assert_int_equal(world_publish(&world, &request, &sequence, 200), SELENE_ACCEPTED);
    struct selene_match match = look();
    assert_int_equal(match.estimate_ns, 0); /* nothing is known: it is worth a try */
    assert_false(match.declined);
    assert_int_equal(world_stats(&world).estimates, 0);
    struct selene_event event = slow_restore(500 * MS);
    match = look();
    assert_true(match.estimate_ns > 200 * MS);
    assert_true(match.estimate_ns <= event.elapsed_ns + event.elapsed_ns / 10);
    assert_true(match.declined);
    struct selene_stats stats = world_stats(&world);
    assert_int_equal(stats.estimates, 1);
    assert_int_equal(stats.declines, 1);
    assert_int_equal(stats.restore_ns[SELENE_TIER_MEMORY], event.elapsed_ns);
    sel_clock_manual_advance(&world.clock, 30 * MINUTE);
    assert_false(look().declined);
    assert_int_equal(world_stats(&world).declines, 1);
    slow_restore(MS);
    assert_false(look().declined);
    end();
}

/* 0: never. */
static void test_never_declines(void **state) {
    (void)state;
    begin(0);
    assert_int_equal(world_publish(&world, &request, &sequence, 200), SELENE_ACCEPTED);
    slow_restore(900 * MS);
    struct selene_match match = look();
    assert_true(match.estimate_ns > 800 * MS);
    assert_false(match.declined);
    assert_int_equal(world_stats(&world).declines, 0);
    end();
}

/* A clock that goes on a little whenever it is read, so that what happens within one poll takes time. */
struct ticking {
    struct sel_clock clock;
    uint64_t now;
};

static uint64_t ticking_ns(struct sel_clock *clock) {
    struct ticking *ticking = SEL_CONTAINER(clock, struct ticking, clock);
    return ticking->now += 1000;
}

/* The wait for the caller's event is no part of the estimate; the event says it in elapsed_ns. */
static void test_event_wait(void **state) {
    struct ticking ticking = {{ticking_ns, ticking_ns}, SECOND};
    struct selene_event event;
    uint64_t ticket;
    (void)state;
    world_init(&world, &world_with_rows, 64, 200, true);
    world.env.clock = &ticking.clock;
    world_open(&world);
    request_make(&world, &request, 0, 32);
    sequence_make(&world, &sequence, 1, 200);
    assert_int_equal(world_publish(&world, &request, &sequence, 200), SELENE_ACCEPTED);
    request.state.wait = &request.wait;
    assert_ok(selene_restore(world.store, sequence.prefix, 200, &request.state, &ticket));
    for (int i = 0; i < 100; i++) {
        ticking.now += SECOND;
        assert_int_equal(selene_poll(world.store, &event, 1), 0);
    }
    request.wait = 1;
    while (selene_poll(world.store, &event, 1) == 0)
        ;
    assert_int_equal(event.result, 0);
    assert_true(event.elapsed_ns >= 100 * SECOND);
    struct selene_match match = look();
    assert_true(match.estimate_ns > 0);
    assert_true(match.estimate_ns < MS);
    end();
}

/* Disk and memory are measured apart; a match that needs both needs both to be known. */
static void test_tiers_apart(void **state) {
    (void)state;
    begin(0);
    assert_int_equal(world_publish(&world, &request, &sequence, 200), SELENE_ACCEPTED);
    slow_restore(MS);
    uint64_t memory = look().estimate_ns;
    assert_true(memory > 0);
    world_reopen(&world, &sequence, 1);
    assert_int_equal(look().tier, SELENE_TIER_DISK);
    assert_int_equal(look().estimate_ns, 0);
    slow_restore(100 * MS);
    const uint64_t read = 1000, bytes[3][SEL_TIER_COUNT] = {{0, read}, {read, 0}, {read, read}};
    assert_true(sel_cost_estimate(world.store, bytes[0]) > 0);
    assert_int_equal(sel_cost_estimate(world.store, bytes[1]), 0); /* this store read from disk only */
    assert_int_equal(sel_cost_estimate(world.store, bytes[2]), 0);
    assert_true(world_stats(&world).restore_ns[SELENE_TIER_DISK] >= 100 * MS);
    assert_int_equal(world_stats(&world).restore_ns[SELENE_TIER_MEMORY], 0);
    end();
}

/* What is packed counts with the one share that is read of each page, though its last slot has room for more: else the disk
 * would seem as many times faster as there are ranks [K1]. */
static void test_packed_bytes(void **state) {
    struct world_layout shape = world_without_rows;
    (void)state;
    shape.rank_count = 4;
    shape.pages_alike = true;
    for (uint32_t pages = 1; pages <= 3; pages++) {
        world_init(&world, &shape, 64, 200, true);
        world_disk(&world, 1);
        world_open(&world);
        request_make(&world, &request, 0, 32);
        sequence_make(&world, &sequence, 1, 200);
        assert_int_equal(world_publish(&world, &request, &sequence, pages * shape.page_tokens), SELENE_ACCEPTED);
        assert_int_equal(world_stats(&world).packed_records[SELENE_TIER_MEMORY], 1);
        world_reopen(&world, &sequence, 1);
        slow_restore_of((uint64_t)pages * shape.page_tokens, MS);
        const struct sel_cost *cost = &world.store->cost[SEL_TIER_DISK];
        assert_true(cost->behind_bytes > 0);
        /* Of the only sample. */
        assert_int_equal((uint64_t)(cost->behind_bytes / 0.75 + 0.5), pages * world.store->layout->page_bytes);
        end();
    }
}

/* An estimate is of what is read: pages and row, of what is packed one share [K1]. */
static void estimate_bytes(bool pages_alike, bool row_alike) {
    struct world_layout shape = world_with_rows;
    shape.rank_count = 4;
    shape.pages_alike = pages_alike;
    shape.row_alike = row_alike;
    world_init(&world, &shape, 64, 0, true); /* no warm tier: it stays on disk alone */
    world_disk(&world, 1);
    world_open(&world);
    request_make(&world, &request, 0, 32);
    sequence_make(&world, &sequence, 1, 200);
    assert_int_equal(world_publish(&world, &request, &sequence, 3 * shape.page_tokens), SELENE_ACCEPTED);
    world_reopen(&world, &sequence, 1);
    slow_restore_of((uint64_t)3 * shape.page_tokens, MS);
    struct selene_match match;
    assert_ok(selene_lookup(world.store, sequence.prefix, 200, &match));
    assert_int_equal(match.tier, SELENE_TIER_DISK);
    const struct sel_layout *layout = world.store->layout;
    uint64_t bytes =
        3 * layout->page_bytes * (pages_alike ? 1 : 4) + layout->desc.row_bytes * (uint64_t)(row_alike ? 1 : 4);
    assert_int_equal(match.estimate_ns,
                     sel_cost_time(&world.store->cost[SEL_TIER_DISK], bytes, sel_mono_ns(world.store->clock)));
    assert_int_equal(match.bytes, 4 * (3 * layout->page_bytes + layout->desc.row_bytes));
    end();
}

static void test_estimate_bytes(void **state) {
    (void)state;
    for (unsigned alike = 0; alike < 4; alike++)
        estimate_bytes(alike & 1, alike & 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_known),
        cmocka_unit_test(test_rate_and_latency),
        cmocka_unit_test(test_change_and_outlier),
        cmocka_unit_test(test_recovers),
        cmocka_unit_test(test_recovers_from_first),
        cmocka_unit_test(test_wave_is_one_transfer),
        cmocka_unit_test(test_wave_pauses),
        cmocka_unit_test(test_wave_is_cut),
        cmocka_unit_test(test_declines),
        cmocka_unit_test(test_never_declines),
        cmocka_unit_test(test_event_wait),
        cmocka_unit_test(test_tiers_apart),
        cmocka_unit_test(test_packed_bytes),
        cmocka_unit_test(test_estimate_bytes),
        cmocka_unit_test(test_better_stays),
        cmocka_unit_test(test_wave_without_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
