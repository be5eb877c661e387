/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops, the ready queue and both sides of the worker pool. Meant to be run under the thread sanitizer too.
 */
#include "base/error.h"
#include "base/workers.h"
#include "tests/lib/test.h"

#include <signal.h>
#include <unistd.h>

#define JOBS 2000

static int done_order[JOBS], done_count;
static struct sel_op *ops_by_number[JOBS];

static void note_done(struct sel_op *op) {
    assert_false(op->in_flight);
    for (int i = 0; i < JOBS; i++)
        if (ops_by_number[i] == op)
            done_order[done_count++] = i;
}

static void test_post_and_run(void **state) {
    (void)state;
    struct sel_op ops[3];
    struct sel_ready ready;
    sel_ready_init(&ready, NULL, NULL);
    done_count = 0;
    assert_false(sel_ready_pending(&ready));
    assert_int_equal(sel_ready_run(&ready, 10), 0);
    for (int i = 0; i < 3; i++) {
        sel_op_init(&ops[i], note_done);
        sel_op_start(&ops[i]);
        ops_by_number[i] = &ops[i];
        sel_ready_post(&ready, &ops[i], -i);
    }
    assert_int_equal(done_count, 0); /* never inside the call that posts */
    assert_true(sel_ready_pending(&ready));
    assert_int_equal(sel_ready_run(&ready, 2), 2);
    assert_true(ops[2].in_flight);
    assert_int_equal(sel_ready_run(&ready, 2), 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(done_order[i], i);
        assert_int_equal(ops[i].result, -i);
    }
    assert_false(sel_ready_pending(&ready));
    sel_ready_destroy(&ready);
}

struct again {
    struct sel_op op;
    struct sel_ready *ready;
    int left;
};

static void post_again(struct sel_op *op) {
    struct again *again = SEL_CONTAINER(op, struct again, op);
    if (again->left-- == 0)
        return;
    sel_op_start(op);
    sel_ready_post(again->ready, op, 0);
}

/* What is posted by a callback runs in the same call, within its budget. */
static void test_resubmitting_in_done(void **state) {
    (void)state;
    struct sel_ready ready;
    struct again again = {.ready = &ready, .left = 10};
    sel_ready_init(&ready, NULL, NULL);
    sel_op_init(&again.op, post_again);
    sel_op_start(&again.op);
    sel_ready_post(&ready, &again.op, 0);
    assert_int_equal(sel_ready_run(&ready, 4), 4);
    assert_int_equal(sel_ready_run(&ready, 100), 7);
    sel_ready_destroy(&ready);
}

static void count_wake(void *context) { ++*(int *)context; }

static void test_wake_only_from_empty(void **state) {
    (void)state;
    struct sel_op ops[3];
    struct sel_ready ready;
    int wakes = 0;
    sel_ready_init(&ready, count_wake, &wakes);
    for (int i = 0; i < 3; i++) {
        sel_op_init(&ops[i], note_done);
        ops_by_number[i] = &ops[i];
    }
    done_count = 0;
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < 3; i++) {
            sel_op_start(&ops[i]);
            sel_ready_post_remote(&ready, &ops[i], 0);
        }
        assert_int_equal(wakes, round);
        assert_true(sel_ready_pending(&ready));
        assert_int_equal(sel_ready_run(&ready, 100), 3);
        assert_false(sel_ready_pending(&ready));
    }
    sel_op_start(&ops[0]);
    sel_ready_post(&ready, &ops[0], 0);
    assert_int_equal(wakes, 2); /* the store's own thread needs no waking */
    sel_ready_run(&ready, 1);
    sel_ready_destroy(&ready);
}

struct job {
    struct sel_job job;
    int input;
    int output;
    pthread_t thread;
};

static int run_order[JOBS], run_count; /* inline side only */

static int run_job(struct sel_job *job) {
    struct job *self = SEL_CONTAINER(job, struct job, job);
    self->output = self->input * 3;
    self->thread = pthread_self();
    return self->input % 7 == 0 ? SELENE_E_IO : 0;
}

static int run_job_noting(struct sel_job *job) {
    run_order[run_count++] = SEL_CONTAINER(job, struct job, job)->input;
    return run_job(job);
}

static void submit_all(struct sel_workers *workers, struct sel_ready *ready, struct job *jobs, int count,
                       int (*run)(struct sel_job *)) {
    done_count = run_count = 0;
    for (int i = 0; i < count; i++) {
        sel_op_init(&jobs[i].job.op, note_done);
        jobs[i].job.run = run;
        jobs[i].input = i;
        jobs[i].output = -1;
        ops_by_number[i] = &jobs[i].job.op;
        sel_workers_submit(workers, ready, &jobs[i].job);
    }
}

static void check_all(struct job *jobs, int count) {
    assert_int_equal(done_count, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(jobs[i].output, i * 3);
        assert_int_equal(jobs[i].job.op.result, i % 7 == 0 ? SELENE_E_IO : 0);
    }
}

static void write_wake(void *context) { assert_int_equal(write(*(int *)context, "w", 1), 1); }

static void test_threads(void **state) {
    (void)state;
    static struct job jobs[JOBS];
    struct sel_workers *workers;
    struct sel_ready ready;
    int ends[2];
    char byte;
    assert_ok(pipe(ends));
    sel_ready_init(&ready, write_wake, &ends[1]);
    assert_ok(sel_workers_create_threads(&workers, "test", 3));
    assert_int_equal(sel_workers_count(workers), 3);
    for (int round = 0; round < 3; round++) {
        submit_all(workers, &ready, jobs, JOBS, run_job);
        while (done_count < JOBS) { /* hangs if a wake is lost */
            assert_int_equal(read(ends[0], &byte, 1), 1);
            sel_ready_run(&ready, SIZE_MAX);
        }
        check_all(jobs, JOBS);
    }
    for (int i = 0; i < JOBS; i++)
        assert_false(pthread_equal(jobs[i].thread, pthread_self()));
    sel_workers_destroy(&workers);
    assert_null(workers);
    sel_workers_destroy(&workers);
    sel_ready_destroy(&ready);
    close(ends[0]);
    close(ends[1]);
}

/* Destroying runs what is queued; the ops are still there to be taken. */
static void test_destroy_runs_what_is_queued(void **state) {
    (void)state;
    static struct job jobs[JOBS];
    struct sel_workers *workers;
    struct sel_ready ready;
    for (int side = 0; side < 2; side++) {
        sel_ready_init(&ready, NULL, NULL);
        if (side)
            assert_ok(sel_workers_create_inline(&workers));
        else
            assert_ok(sel_workers_create_threads(&workers, "a-name-that-is-much-too-long-for-the-kernel", 2));
        submit_all(workers, &ready, jobs, JOBS, run_job);
        sel_workers_destroy(&workers);
        for (int i = 0; i < JOBS; i++)
            assert_int_equal(jobs[i].output, i * 3);
        assert_int_equal(sel_ready_run(&ready, SIZE_MAX), JOBS);
        check_all(jobs, JOBS);
        sel_ready_destroy(&ready);
    }
}

static void test_inline_order(void **state) {
    (void)state;
    static struct job jobs[JOBS];
    struct sel_workers *workers;
    struct sel_ready ready;
    sel_ready_init(&ready, NULL, NULL);
    assert_ok(sel_workers_create_inline(&workers));
    assert_int_equal(sel_workers_count(workers), 1);
    submit_all(workers, &ready, jobs, 50, run_job_noting);
    assert_int_equal(run_count, 0); /* not inside submit */
    while (sel_ready_run(&ready, 3) > 0)
        ;
    check_all(jobs, 50);
    assert_int_equal(run_count, 50);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(run_order[i], i);
        assert_int_equal(done_order[i], i);
        assert_true(pthread_equal(jobs[i].thread, pthread_self()));
    }
    sel_workers_destroy(&workers);
    sel_ready_destroy(&ready);
}

static char seen_name[16];
static sigset_t seen_signals;

static int look_around(struct sel_job *job) {
    (void)job;
    pthread_getname_np(pthread_self(), seen_name, sizeof seen_name);
    pthread_sigmask(SIG_SETMASK, NULL, &seen_signals);
    return 0;
}

static void test_thread_name_and_signals(void **state) {
    (void)state;
    struct sel_workers *workers;
    struct sel_ready ready;
    struct job job;
    sel_ready_init(&ready, NULL, NULL);
    assert_int_equal(sel_workers_create_threads(&workers, "copy", 0), SELENE_E_INVALID);
    assert_null(workers);
    assert_int_equal(sel_workers_create_threads(&workers, "copy", UINT32_MAX), SELENE_E_INVALID);
    assert_ok(sel_workers_create_threads(&workers, "copy", 1));
    submit_all(workers, &ready, &job, 1, look_around);
    sel_workers_destroy(&workers);
    sel_ready_run(&ready, 1);
    if (access("/proc/self/comm", W_OK) == 0) /* glibc names another thread through it */
        assert_string_equal(seen_name, "selene-copy-0");
    assert_true(sigismember(&seen_signals, SIGTERM) && sigismember(&seen_signals, SIGUSR1));
    sigset_t mine;
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    assert_false(sigismember(&mine, SIGTERM));
    sel_ready_destroy(&ready);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_post_and_run),
        cmocka_unit_test(test_resubmitting_in_done),
        cmocka_unit_test(test_wake_only_from_empty),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_destroy_runs_what_is_queued),
        cmocka_unit_test(test_inline_order),
        cmocka_unit_test(test_thread_name_and_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
