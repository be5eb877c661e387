/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated engine against a store that can be made to misbehave: a good store gives the ideal and no wrong byte;
 * one wrong byte anywhere is seen; refusals and short restores cost tokens and nothing else.
 */
#include "tests/lib/test.h"

#include "tests/unit/replay/mock_store.h"
#include "tools/replay/engine_sim.h"
#include "tools/replay/ideal.h"
#include "tools/replay/ideal_thin.h"
#include "tools/replay/totals.h"

#define REQUESTS 40

static const struct selene_plane planes[] = {{64 * 4, 1, 4}, {64, 4, 4}, {9, 0, 0}};

struct bench {
    struct replay_options options;
    struct replay_stage stage;
    struct totals totals;
    uint32_t ideal[REQUESTS];
    uint8_t done[REQUESTS];
    struct selene_message message;
};

static void bench_make(struct bench *bench, uint64_t row_bytes, bool sequential) {
    memset(bench, 0, sizeof *bench);
    bench->options = (struct replay_options){.sequential = sequential, .concurrency = 4, .seed = 1, .no_defer = true};
    bench->stage.options = &bench->options;
    assert_ok(workload_agent_create(&bench->stage.workload, 5, REQUESTS, UINT32_MAX));
    const struct selene_layout layout = {64, 2, 3, planes, row_bytes, "m", 1};
    assert_ok(layout_scale(&bench->stage.layout, &layout, false, false, 1));
    assert_ok(kv_init(&bench->stage.kv, &bench->stage.layout.layout, false, false, 1));
    assert_ok(ideal_play(bench->stage.workload, 64, row_bytes > 0, bench->ideal, NULL, NULL));
    bench->totals.ideal = bench->totals.thinned_ideal = bench->ideal;
    mock_faults = (struct mock_faults){0};
}

static void bench_free(struct bench *bench) {
    replay_stage_close(&bench->stage);
    totals_free(&bench->totals);
}

static void finished(void *context, const struct replay_result *result, selene_store *store) {
    (void)store;
    totals_add(context, result);
}

static int play(struct bench *bench) {
    struct replay_sink sink = {.context = &bench->totals, .finished = finished};
    struct sim *sim;
    struct selene_event event;
    assert_ok(sim_open(&sim, &bench->stage, false, &bench->message));
    int result = sim_play(sim, bench->done, REQUESTS / 2, &sink, &bench->message);
    if (result == 0) {
        assert_int_equal(bench->totals.requests, REQUESTS / 2);
        result = sim_play(sim, bench->done, REQUESTS, &sink, &bench->message);
    }
    if (result == 0)
        assert_ok(sim_drain(sim, &sink, &event, &bench->message));
    assert_ok(sim_close(&sim, NULL));
    return result;
}

static void assert_played(struct bench *bench) {
    if (play(bench))
        fail_msg("%s", bench->message.text);
    assert_int_equal(bench->totals.requests, REQUESTS);
}

static void assert_perfect(struct bench *bench) {
    assert_played(bench);
    assert_int_equal(bench->totals.sum.bytes.wrong, 0);
    assert_true(bench->totals.sum.bytes.verified > 100000);
    assert_false(totals_bad(&bench->totals));
    assert_int_equal(bench->totals.beyond_ideal, 0);
}

/* The mock finds only whole checkpoints: with rows that is the ideal; without, at most it. */
static void a_good_store_gives_the_ideal_and_no_wrong_byte(void **state) {
    (void)state;
    for (uint64_t row = 0; row <= 77; row += 77) {
        struct bench bench;
        bench_make(&bench, row, true);
        assert_perfect(&bench);
        if (row)
            assert_int_equal(bench.totals.sum.tokens_hit, bench.totals.ideal_tokens);
        assert_true(bench.totals.sum.tokens_hit > bench.totals.ideal_tokens / 2);
        bench_free(&bench);
    }
}

static void requests_in_flight_together_change_nothing(void **state) {
    (void)state;
    struct bench bench;
    bench_make(&bench, 77, false);
    assert_perfect(&bench);
    bench_free(&bench);
}

/* [O1, O2]: against the ideal under the same rules. Deferred captures are offered when their session resumes there, and
 * what is offered then is restored and verified. */
static void deferred_captures_are_offered_when_resumed(void **state) {
    (void)state;
    for (int conversation = 0; conversation < 3; conversation++) {
        struct bench bench;
        uint32_t hits[REQUESTS];
        const struct conversation_options options = {.conversations = 2,
                                                     .turns = REQUESTS / 2,
                                                     .context_tokens = 3000,
                                                     .checkpoints_per_turn = 4,
                                                     .rerender = conversation == 2};
        bench_make(&bench, 77, true);
        bench.options.no_defer = false;
        if (conversation) {
            workload_destroy(&bench.stage.workload);
            assert_ok(workload_conversation_create(&bench.stage.workload, 5, SIZE_MAX, &options));
            assert_ok(ideal_play(bench.stage.workload, 64, true, bench.ideal, NULL, NULL));
        }
        const struct ideal_thin_rules rules = {.page_tokens = 64, .defer = true, .restart_at = SIZE_MAX};
        assert_ok(ideal_thin_play(bench.stage.workload, &rules, hits, NULL, NULL));
        bench.totals.thinned_ideal = hits;
        assert_perfect(&bench);
        const struct replay_result *sum = &bench.totals.sum;
        assert_int_equal(sum->tokens_hit, bench.totals.thinned_ideal_tokens);
        assert_true(sum->offers_deferred >= REQUESTS); /* each reply */
        assert_true(conversation == 2 ? sum->offers_resumed == 0 : sum->offers_resumed > REQUESTS / 3);
        assert_int_equal(sum->offers_made, sum->publishes + sum->present);
        bench_free(&bench);
    }
}

static void refusals_are_tried_again(void **state) {
    (void)state;
    struct bench bench;
    bench_make(&bench, 77, true);
    mock_faults.retries = 3;
    assert_perfect(&bench);
    assert_int_equal(bench.totals.sum.tokens_hit, bench.totals.ideal_tokens);
    assert_true(bench.totals.sum.retries > REQUESTS);
    assert_int_equal(bench.totals.sum.abandoned, 0);
    bench_free(&bench);
}

/* [P1]: what was accepted and found no room in the end is kept and offered again; not for ever. */
static void what_is_handed_back_is_offered_again(void **state) {
    (void)state;
    struct bench bench;
    bench_make(&bench, 77, true);
    mock_faults.hand_back = 2;
    assert_perfect(&bench);
    assert_int_equal(bench.totals.sum.tokens_hit, bench.totals.ideal_tokens);
    assert_true(bench.totals.sum.retries > REQUESTS);
    assert_int_equal(bench.totals.sum.abandoned, 0);
    assert_int_equal(bench.totals.sum.failed, 0);
    bench_free(&bench);
    bench_make(&bench, 77, true);
    mock_faults.hand_back = UINT32_MAX;
    assert_played(&bench);
    assert_true(bench.totals.sum.abandoned >= REQUESTS);
    assert_int_equal(bench.totals.sum.failed, 0);
    bench_free(&bench);
}

static void a_short_restore_costs_tokens_only(void **state) {
    (void)state;
    for (uint64_t row = 0; row <= 77; row += 77)
        for (uint32_t n = 1; n < 30; n += 4) {
            struct bench bench;
            bench_make(&bench, row, true);
            mock_faults.short_restore = n;
            assert_perfect(&bench);
            assert_int_equal(bench.totals.sum.restores_short, 1);
            assert_true(bench.totals.sum.tokens_hit < bench.totals.ideal_tokens);
            bench_free(&bench);
        }
}

static void assert_wrong(uint32_t *fault, uint64_t row, uint64_t least, uint64_t most) {
    struct bench bench;
    bench_make(&bench, row, true);
    *fault = 5;
    assert_played(&bench);
    if (bench.totals.sum.bytes.wrong < least || bench.totals.sum.bytes.wrong > most)
        fail_msg("%llu wrong bytes", (unsigned long long)bench.totals.sum.bytes.wrong);
    assert_true(totals_bad(&bench.totals));
    bench_free(&bench);
}

static void one_wrong_byte_is_seen(void **state) {
    (void)state;
    assert_wrong(&mock_faults.flip_restore, 0, 1, 1);
    assert_wrong(&mock_faults.flip_restore, 77, 1, 1);
    assert_wrong(&mock_faults.flip_row, 77, 1, 1);
    assert_wrong(&mock_faults.stray_restore, 77, 1, 1);
    assert_wrong(&mock_faults.foreign_restore, 77, 1000, UINT64_MAX);
}

/* Reads before the blocks are computed give the poison or the last request's bytes (fault 4). */
static void a_store_that_does_not_wait_is_seen(void **state) {
    (void)state;
    struct bench bench;
    bench_make(&bench, 77, true);
    mock_faults.early = true;
    assert_played(&bench);
    assert_true(bench.totals.sum.bytes.wrong > 0);
    bench_free(&bench);
}

static void errors_of_the_store_end_the_replay_with_a_message(void **state) {
    (void)state;
    struct bench bench;
    bench_make(&bench, 0, true);
    mock_faults.fail_publish = true;
    assert_int_equal(play(&bench), SELENE_E_INVALID);
    assert_string_equal(bench.message.text, "request 1: selene_publish: invalid argument");
    bench_free(&bench);
}

static void percentiles(void **state) {
    (void)state;
    struct latencies latencies = {0};
    assert_true(latencies_ms(&latencies, 50) == 0);
    latencies.ns = calloc(100, sizeof *latencies.ns);
    latencies.count = 100;
    for (size_t i = 0; i < 100; i++)
        latencies.ns[i] = (100 - i) * 1000000;
    assert_true(latencies_ms(&latencies, 50) == 50);
    assert_true(latencies_ms(&latencies, 99) == 99);
    assert_true(latencies_ms(&latencies, 100) == 100);
    free(latencies.ns);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_store_gives_the_ideal_and_no_wrong_byte),
        cmocka_unit_test(requests_in_flight_together_change_nothing),
        cmocka_unit_test(deferred_captures_are_offered_when_resumed),
        cmocka_unit_test(refusals_are_tried_again),
        cmocka_unit_test(what_is_handed_back_is_offered_again),
        cmocka_unit_test(a_short_restore_costs_tokens_only),
        cmocka_unit_test(one_wrong_byte_is_seen),
        cmocka_unit_test(a_store_that_does_not_wait_is_seen),
        cmocka_unit_test(errors_of_the_store_end_the_replay_with_a_message),
        cmocka_unit_test(percentiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
