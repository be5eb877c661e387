/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for ops: sel_ready's wake posts a semaphore.
 */
#include "tools/bench/bench_wait.h"

static void wake(void *context) { sem_post(context); }

void bench_wait_init(struct bench_wait *wait) {
    sem_init(&wait->posted, 0, 0);
    sel_ready_init(&wait->ready, wake, &wait->posted);
}

void bench_wait_destroy(struct bench_wait *wait) {
    sel_ready_destroy(&wait->ready);
    sem_destroy(&wait->posted);
}

void bench_op_done(struct sel_op *op) { (void)op; }

int bench_wait_for(struct bench_wait *wait, const struct sel_op *op) {
    while (op->in_flight) {
        if (sel_ready_run(&wait->ready, SIZE_MAX) == 0)
            sem_wait(&wait->posted);
    }
    return op->result;
}
