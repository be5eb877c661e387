/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls that both sides of the worker pool share.
 */
#include "base/workers_priv.h"

void sel_workers_destroy(struct sel_workers **workers) {
    struct sel_workers *self = *workers;
    *workers = NULL;
    if (self == NULL)
        return;
    SEL_CHECK_MAGIC(self, SEL_WORKERS_MAGIC);
    self->destroy(self);
}

void sel_workers_submit(struct sel_workers *workers, struct sel_ready *ready, struct sel_job *job) {
    SEL_CHECK_MAGIC(workers, SEL_WORKERS_MAGIC);
    sel_op_start(&job->op);
    job->ready = ready;
    workers->submit(workers, job);
}

unsigned sel_workers_count(const struct sel_workers *workers) {
    SEL_CHECK_MAGIC(workers, SEL_WORKERS_MAGIC);
    return workers->count;
}
