/* SPDX-License-Identifier: Apache-2.0
 *
 * The side without threads. A submitted job waits in `queue` (through job.op.link) and posts its `turn` op to the
 * store's ready queue. When that op's turn comes, inside sel_ready_run(), the job runs on the store's thread and its
 * own op is posted. So jobs interleave with other completions in one fixed order. All of it happens on the store's
 * thread.
 */
#include "base/error.h"
#include "base/workers_priv.h"

#include <stdlib.h>

struct workers_inline {
    struct sel_workers base;
    struct sel_list queue;
};

static void run_job(struct sel_job *job) {
    sel_list_remove(&job->op.link);
    sel_ready_post(job->ready, &job->op, job->run(job));
}

static void turn_done(struct sel_op *turn) { run_job(SEL_CONTAINER(turn, struct sel_job, turn)); }

static void inline_submit(struct sel_workers *workers, struct sel_job *job) {
    struct workers_inline *self = SEL_CONTAINER(workers, struct workers_inline, base);
    sel_list_add_tail(&self->queue, &job->op.link);
    sel_op_init(&job->turn, turn_done);
    sel_op_start(&job->turn);
    sel_ready_post(job->ready, &job->turn, 0);
}

static void inline_destroy(struct sel_workers *workers) {
    struct workers_inline *self = SEL_CONTAINER(workers, struct workers_inline, base);
    while (!sel_list_empty(&self->queue)) {
        struct sel_job *job = SEL_LIST_ENTRY(self->queue.next, struct sel_job, op.link);
        sel_list_remove(&job->turn.link);
        run_job(job);
    }
    free(self);
}

int sel_workers_create_inline(struct sel_workers **out) {
    *out = NULL;
    struct workers_inline *self = calloc(1, sizeof *self);
    if (self == NULL)
        return SELENE_E_NOMEM;
    self->base = (struct sel_workers){SEL_WORKERS_MAGIC, 1, inline_submit, inline_destroy};
    sel_list_init(&self->queue);
    *out = &self->base;
    return 0;
}
