/* SPDX-License-Identifier: Apache-2.0
 *
 * The option --crash-at against a store whose "disk" can lose records: each one that was reported committed and is not
 * found again is counted, none other.
 */
#include "tests/lib/test.h"

#include "tests/unit/replay/mock_store.h"
#include "tools/replay/crash.h"
#include "tools/replay/engine_sim.h"
#include "tools/replay/ideal.h"

#define REQUESTS 40

static const struct selene_plane planes[] = {{64 * 4, 1, 4}, {64, 4, 4}};

struct bench {
    struct replay_options options;
    struct replay_stage stage;
    struct totals totals;
    uint32_t ideal[REQUESTS];
    uint8_t done[REQUESTS];
    struct sel_progress progress;
    struct selene_message message;
};

static void bench_make(struct bench *bench, uint64_t row_bytes) {
    memset(bench, 0, sizeof *bench);
    bench->options = (struct replay_options){.sequential = true, .seed = 1, .no_defer = true, .no_thin = true};
    bench->stage.options = &bench->options;
    assert_ok(workload_agent_create(&bench->stage.workload, 5, REQUESTS, UINT32_MAX));
    const struct selene_layout layout = {64, 2, 2, planes, row_bytes, "m", 1};
    assert_ok(layout_scale(&bench->stage.layout, &layout, false, false, 1));
    assert_ok(kv_init(&bench->stage.kv, &bench->stage.layout.layout, false, false, 1));
    assert_ok(ideal_play(bench->stage.workload, 64, row_bytes > 0, bench->ideal, NULL, NULL));
    bench->totals.ideal = bench->totals.thinned_ideal = bench->ideal;
    mock_faults = (struct mock_faults){0};
    mock_disk_start();
}

static void bench_free(struct bench *bench) {
    mock_disk_stop();
    replay_stage_close(&bench->stage);
    totals_free(&bench->totals);
}

static void finished(void *context, const struct replay_result *result, selene_store *store) {
    (void)store;
    totals_add(context, result);
}

/* Kills after half of the requests, opens with `lost` records missing, verifies, and plays the rest. */
static void crash_and_go_on(struct bench *bench, uint32_t lost, uint32_t evictions) {
    struct replay_sink sink = {.context = &bench->totals, .finished = finished};
    struct crash *crash;
    struct sim *sim;
    assert_ok(
        crash_run(&crash, &bench->stage, REQUESTS / 2, bench->done, &bench->totals, &bench->progress, &bench->message));
    assert_true(bench->totals.requests >= REQUESTS / 2);
    mock_disk_lost = lost, mock_disk_evictions = evictions;
    assert_ok(sim_open(&sim, &bench->stage, false, &bench->message));
    assert_ok(crash_verify(crash, &bench->stage, sim_store(sim), &bench->totals, &bench->message));
    assert_ok(sim_play(sim, bench->done, REQUESTS, &sink, &bench->message));
    assert_ok(sim_close(&sim, &bench->message));
    crash_free(&crash);
    assert_int_equal(bench->totals.requests, REQUESTS);
    assert_int_equal(bench->totals.sum.bytes.wrong, 0);
    assert_true(bench->totals.committed_before_crash > REQUESTS / 4);
}

static void what_was_committed_is_found(void **state) {
    (void)state;
    for (uint64_t row = 0; row <= 50; row += 50) {
        struct bench bench;
        bench_make(&bench, row);
        crash_and_go_on(&bench, 0, 0);
        assert_int_equal(bench.totals.lost_committed, 0);
        assert_false(totals_bad(&bench.totals));
        bench_free(&bench);
    }
}

/* Without rows a lost record may be covered by a longer one of the same sequence: with rows none is. */
static void each_lost_record_is_counted(void **state) {
    (void)state;
    for (uint32_t lost = 1; lost < 12; lost += 5) {
        struct bench bench;
        bench_make(&bench, 50);
        crash_and_go_on(&bench, lost, 0);
        assert_int_equal(bench.totals.lost_committed, lost);
        assert_true(totals_bad(&bench.totals));
        bench_free(&bench);
    }
}

/* [T4] What gave up its row is carried by a longer record; with no record left at all everything is lost. */
static void thinned_records_are_not_called_lost(void **state) {
    (void)state;
    for (uint32_t lost = 6; lost <= 500; lost += 494) {
        struct bench bench;
        bench_make(&bench, 50);
        bench.options.no_thin = false;
        crash_and_go_on(&bench, lost, 0);
        assert_true(lost == 6 ? bench.totals.lost_committed < lost
                              : bench.totals.lost_committed == bench.totals.committed_before_crash);
        bench_free(&bench);
    }
}

static void evicted_records_are_not_called_lost(void **state) {
    (void)state;
    struct bench bench;
    bench_make(&bench, 50);
    crash_and_go_on(&bench, 3, 1);
    assert_true(bench.totals.lost_unknown);
    assert_int_equal(bench.totals.lost_committed, 0);
    bench_free(&bench);
}

static void errors_of_the_child_arrive(void **state) {
    (void)state;
    struct bench bench;
    struct crash *crash;
    bench_make(&bench, 50);
    mock_faults.fail_publish = true;
    assert_true(crash_run(&crash, &bench.stage, 5, bench.done, &bench.totals, &bench.progress, &bench.message) < 0);
    assert_string_equal(bench.message.text, "request 1: selene_publish: invalid argument");
    assert_null(crash);
    bench_free(&bench);
}

/* Killed by somebody else. */
static void a_child_that_dies_by_itself_is_an_error(void **state) {
    (void)state;
    struct bench bench;
    struct crash *crash;
    bench_make(&bench, 50);
    mock_faults.die_at_publish = 7;
    assert_true(crash_run(&crash, &bench.stage, REQUESTS, bench.done, &bench.totals, &bench.progress, &bench.message) <
                0);
    assert_non_null(strstr(bench.message.text, "ended by itself after 3 requests, expected 40"));
    bench_free(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_committed_is_found),
        cmocka_unit_test(each_lost_record_is_counted),
        cmocka_unit_test(thinned_records_are_not_called_lost),
        cmocka_unit_test(evicted_records_are_not_called_lost),
        cmocka_unit_test(errors_of_the_child_arrive),
        cmocka_unit_test(a_child_that_dies_by_itself_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
