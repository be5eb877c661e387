/* SPDX-License-Identifier: Apache-2.0
 *
 * Worker pool: runs jobs (hashing, comparing, host copies, or one blocking catalogue commit) off the store's thread and
 * hands back their ops through sel_ready. It never takes a decision.
 *
 * Two sides. sel_workers_create_threads: N POSIX threads (names "selene-<name>-<i>", all signals blocked) with one FIFO
 * queue. sel_workers_create_inline: no thread; each job runs on the store's thread during a later sel_ready_run(), in
 * order of submission, so that a simulated store is deterministic. The same jobs run unchanged on either.
 */
#ifndef SEL_BASE_WORKERS_H
#define SEL_BASE_WORKERS_H

#include "base/op.h"

struct sel_job;
struct sel_workers;

/* Embedded in the owner's struct. `run` is called on a worker and must not touch anything but the job's own inputs and
 * outputs; op.done then runs on the store's thread with op.result = what run returned. */
struct sel_job {
    struct sel_op op;
    int (*run)(struct sel_job *job);
    struct sel_ready *ready; /* set by submit */
    struct sel_op turn;      /* the inline side's own */
};

int sel_workers_create_threads(struct sel_workers **out, const char *name, unsigned thread_count);
int sel_workers_create_inline(struct sel_workers **out);

/* Waits for running jobs; queued ones are run first. NULL-safe, nulls the pointer. Their ops may still lie in `ready`.
 */
void sel_workers_destroy(struct sel_workers **workers);

/* Queues a job; its op is posted to `ready` after it ran. The caller has set op.done and run. Never fails. */
void sel_workers_submit(struct sel_workers *workers, struct sel_ready *ready, struct sel_job *job);

/* How many threads serve the pool: 1 for the inline side. For splitting work into pieces. */
unsigned sel_workers_count(const struct sel_workers *workers);

#endif
