/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for ops without spinning: a spinning thread would take a processor from the workers that are measured.
 */
#ifndef SEL_TOOLS_BENCH_WAIT_H
#define SEL_TOOLS_BENCH_WAIT_H

#include "base/op.h"

#include <semaphore.h>

struct bench_wait {
    struct sel_ready ready;
    sem_t posted;
};

void bench_wait_init(struct bench_wait *wait);
void bench_wait_destroy(struct bench_wait *wait);
/* Runs completions until `op` is idle again; returns its result. */
int bench_wait_for(struct bench_wait *wait, const struct sel_op *op);
void bench_op_done(struct sel_op *op); /* a done function that does nothing */

#endif
