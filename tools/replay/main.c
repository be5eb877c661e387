/* SPDX-License-Identifier: Apache-2.0
 *
 * selene-replay: plays requests through a store and verifies every restored byte.
 *
 *   set the stage (options, layout, trace; nothing is written), listen for whom the counters are
 *   the ideal: the whole workload through an endless cache, without a store
 *   play, in one piece; or up to a restart and on; or in a child up to its crash and on
 *   report; exit code
 *
 * With files of results and --plot it draws them and plays nothing.
 */
#include "cli/metrics_http.h"
#include "tools/replay/crash.h"
#include "tools/replay/engine_sim.h"
#include "tools/replay/ideal.h"
#include "tools/replay/ideal_thin.h"
#include "tools/replay/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct run {
    struct replay_stage stage;
    struct totals totals;
    uint32_t *ideal, *thinned_ideal;
    uint8_t *done;
    struct sel_progress progress;
    struct sel_metrics_http *metrics; /* NULL: none */
    struct selene_message message;
};

static size_t requests_until(const struct run *run, double fraction) {
    size_t count = run->stage.workload->count, until = (size_t)ceil((double)count * fraction);
    return until < 1 ? 1 : until > count ? count : until;
}

static void ideal_tick(void *context, size_t done) { sel_progress_update(context, done, "ideal"); }

/* Without rows nothing is thinned and nothing deferred. */
static int thinned_ideal_make(struct run *run) {
    const struct replay_options *options = run->stage.options;
    const struct workload *workload = run->stage.workload;
    double end_at = options->crash_at > 0 ? options->crash_at : options->restart_at;
    if (run->stage.kv.row_bytes == 0) {
        memcpy(run->thinned_ideal, run->ideal, workload->count * sizeof *run->ideal);
        return 0;
    }
    struct ideal_thin_rules rules = {.page_tokens = run->stage.kv.page_tokens,
                                     .thin = !options->no_thin,
                                     .defer = !options->no_defer,
                                     .spare_rows = options->spare_rows,
                                     .restart_at = end_at > 0 ? requests_until(run, end_at) : SIZE_MAX};
    return ideal_thin_play(workload, &rules, run->thinned_ideal, ideal_tick, &run->progress);
}

static int ideal_make(struct run *run) {
    const struct workload *workload = run->stage.workload;
    run->ideal = calloc(workload->count, sizeof *run->ideal);
    run->thinned_ideal = calloc(workload->count, sizeof *run->thinned_ideal);
    run->done = calloc(workload->count, sizeof *run->done);
    if (run->ideal == NULL || run->thinned_ideal == NULL || run->done == NULL)
        return sel_fail(&run->message, SELENE_E_NOMEM, "no memory for the requests");
    run->totals.ideal = run->ideal, run->totals.thinned_ideal = run->thinned_ideal;
    sel_progress_start(&run->progress, "prepare", workload->count, !run->stage.options->quiet);
    int result = ideal_play(workload, run->stage.kv.page_tokens, run->stage.kv.row_bytes > 0, run->ideal, ideal_tick,
                            &run->progress);
    if (result == 0)
        result = thinned_ideal_make(run);
    sel_progress_finish(&run->progress);
    return result ? sel_fail(&run->message, result, "no memory for the ideal") : 0;
}

static void sample_take(struct run *run, selene_store *store) {
    struct selene_stats stats;
    if (selene_get_stats(store, &stats, sizeof stats) == 0)
        totals_sample(&run->totals, &stats);
}

static void request_finished(void *context, const struct replay_result *result, selene_store *store) {
    struct run *run = context;
    char note[64];
    totals_add(&run->totals, result);
    if (totals_sample_due(&run->totals))
        sample_take(run, store);
    const struct replay_result *sum = &run->totals.sum;
    snprintf(note, sizeof note, "%.1f %% restored%s",
             sum->tokens_in ? 100.0 * (double)sum->tokens_hit / (double)sum->tokens_in : 0,
             sum->bytes.wrong ? ", WRONG BYTES" : "");
    sel_progress_update(&run->progress, run->totals.requests, note);
}

/* A second without new numbers is no error: whatever fails here is tried again. */
static void metrics_tick(void *context, selene_store *store) {
    struct run *run = context;
    uint64_t now = run->metrics ? sel_cli_now_ns() : 0;
    if (run->metrics == NULL || !sel_metrics_http_due(run->metrics, now))
        return;
    int64_t bytes = selene_metrics_text(store, NULL, 0);
    char *text = bytes > 0 ? malloc((size_t)bytes + 1) : NULL;
    if (text && selene_metrics_text(store, text, (size_t)bytes + 1) == bytes)
        sel_metrics_http_set(run->metrics, &text, (size_t)bytes, now);
    free(text);
}

static int metrics_start(struct run *run) {
    const struct replay_options *options = run->stage.options;
    int result = options->metrics ? sel_metrics_http_start(&run->metrics, options->metrics, &run->message) : 0;
    if (run->metrics && !options->quiet)
        fprintf(stderr, "metrics: http://%s/metrics\n", sel_metrics_http_address(run->metrics));
    return result;
}

/* Takes the counters, checks if asked to, and closes. */
static int store_close(struct run *run, struct sim **sim) {
    struct selene_stats stats;
    struct selene_message found = {""};
    int result = selene_get_stats(sim_store(*sim), &stats, sizeof stats);
    if (result)
        sel_fail(&run->message, result, "selene_get_stats: %s", selene_error_text(result));
    else
        totals_add_store(&run->totals, &stats);
    snprintf(run->totals.backend, sizeof run->totals.backend, "%s",
             selene_disk_backend(sim_store(*sim), &run->totals.direct));
    if (run->stage.options->check && selene_check(sim_store(*sim), &found)) {
        sel_cli_error("an invariant does not hold: %s", found.text);
        run->totals.invariant_failures++;
    }
    int closed = sim_close(sim, &run->message);
    return result ? result : closed;
}

static int play_and_close(struct run *run, struct sim *sim, size_t end, bool drain) {
    struct replay_sink sink = {.context = run, .finished = request_finished, .tick = metrics_tick};
    struct selene_event event = {0};
    int result = sim_play(sim, run->done, end, &sink, &run->message);
    if (result == 0 && drain) {
        result = sim_drain(sim, &sink, &event, &run->message);
        totals_add_drain(&run->totals, &event);
    }
    if (result == 0)
        sample_take(run, sim_store(sim));
    if (result) {
        sim_close(&sim, NULL);
        return result;
    }
    return store_close(run, &sim);
}

static int play_once(struct run *run, size_t end, bool drain) {
    struct sim *sim;
    int result = sim_open(&sim, &run->stage, false, &run->message);
    return result ? result : play_and_close(run, sim, end, drain);
}

static int play_with_restart(struct run *run) {
    int result = play_once(run, requests_until(run, run->stage.options->restart_at), true);
    run->totals.restarts++;
    return result ? result : play_once(run, run->stage.workload->count, run->stage.options->drain_at_end);
}

static int play_with_crash(struct run *run) {
    struct crash *crash;
    struct sim *sim;
    int result = crash_run(&crash, &run->stage, requests_until(run, run->stage.options->crash_at), run->done,
                           &run->totals, &run->progress, &run->message);
    if (result)
        return result;
    result = sim_open(&sim, &run->stage, false, &run->message);
    if (result == 0)
        result = crash_verify(crash, &run->stage, sim_store(sim), &run->totals, &run->message);
    crash_free(&crash);
    if (result) {
        sim_close(&sim, NULL);
        return result;
    }
    return play_and_close(run, sim, run->stage.workload->count, run->stage.options->drain_at_end);
}

static int play(struct run *run) {
    const struct replay_options *options = run->stage.options;
    uint64_t start = sel_cli_now_ns();
    totals_sample_every(&run->totals, run->stage.workload->count);
    sel_progress_start(&run->progress, "replay", run->stage.workload->count, !options->quiet);
    int result = options->crash_at > 0     ? play_with_crash(run)
                 : options->restart_at > 0 ? play_with_restart(run)
                                           : play_once(run, run->stage.workload->count, options->drain_at_end);
    sel_progress_finish(&run->progress);
    run->totals.seconds = (double)(sel_cli_now_ns() - start) * 1e-9;
    return result;
}

static int report(struct run *run) {
    const struct replay_options *options = run->stage.options;
    int result = options->json || options->plot ? report_json(&run->stage, &run->totals, &run->message) : 0;
    if (!options->quiet && !(options->json && strcmp(options->json, "-") == 0) &&
        !(options->plot && strcmp(options->plot, "-") == 0))
        report_table(&run->stage, &run->totals, stdout);
    if (result == 0 && (fflush(stdout) || ferror(stdout)))
        result = sel_fail(&run->message, SELENE_E_IO, "cannot write to standard output");
    if (run->totals.sum.bytes.wrong)
        sel_cli_error("%llu wrong bytes", (unsigned long long)run->totals.sum.bytes.wrong);
    if (run->totals.lost_committed)
        sel_cli_error("%llu committed records are lost", (unsigned long long)run->totals.lost_committed);
    return result;
}

static int draw_results(const struct replay_options *options) {
    struct selene_message message = {""};
    int result = plot_files(options->plot, options->results, options->results[1] ? 2 : 1, &message);
    if (result)
        sel_cli_error("%s", *message.text ? message.text : selene_error_text(result));
    return result ? SEL_EXIT_USAGE : SEL_EXIT_OK;
}

int main(int argc, char **argv) {
    struct replay_options options;
    static struct run run;
    replay_options_parse(&options, argc, argv);
    if (options.results[0])
        return draw_results(&options);
    int result = replay_stage_open(&run.stage, &options, &run.message);
    if (result == 0) /* before anything that takes long: the address may be in use */
        result = metrics_start(&run);
    if (result == 0)
        result = ideal_make(&run);
    if (result == 0)
        result = play(&run);
    sel_metrics_http_stop(&run.metrics);
    if (result == 0)
        result = report(&run);
    if (result)
        sel_cli_error("%s", *run.message.text ? run.message.text : selene_error_text(result));
    bool bad = totals_bad(&run.totals);
    replay_stage_close(&run.stage);
    totals_free(&run.totals);
    free(run.ideal);
    free(run.thinned_ideal);
    free(run.done);
    return result ? SEL_EXIT_USAGE : bad ? SEL_EXIT_FOUND : SEL_EXIT_OK;
}
