/* SPDX-License-Identifier: Apache-2.0
 *
 * sel_op: one in-flight request; and sel_ready, the queue that completed ones come back through.
 *
 * An op is embedded in the struct of whoever submits it, which owns the memory and keeps it alive until `done` ran. The
 * room that carries the work out sets `result` and posts the op to the store's sel_ready; sel_ready_run(), called from
 * the store's poll and from nowhere else, then calls `done(op)` on the store's thread. So `done` never runs inside a
 * submit call, and never on another thread.
 *
 *   idle --submit--> in flight --post--> ready --run--> idle (done(op) runs; the owner may free or resubmit it there)
 *
 * Ops posted while `done` callbacks run are handled in the same sel_ready_run(), up to its budget.
 */
#ifndef SEL_BASE_OP_H
#define SEL_BASE_OP_H

#include "base/list.h"

#include <pthread.h>

struct sel_op;
typedef void sel_op_done(struct sel_op *op);

struct sel_op {
    struct sel_list link; /* in whatever queue holds it; free for the carrying room to use while in flight */
    sel_op_done *done;    /* set by the owner before submitting */
    int result;           /* 0 or a negative SELENE_E_ code; valid in `done` */
    bool in_flight;       /* set by sel_op_start, cleared just before `done` */
};

/* A queue of completed ops. One per store. `wake` (may be NULL) is called, on any thread, when a remote post makes the
 * remote side non-empty: the store passes a function that writes to its eventfd. It runs under the queue's lock, so it
 * must be short and must not call back into the queue; in return, an op that was seen has no wake call pending. */
struct sel_ready {
    struct sel_list local;
    pthread_mutex_t lock;
    struct sel_list remote; /* under lock */
    bool remote_waiting;    /* `remote` is not empty; atomic, written under lock, read without */
    void (*wake)(void *context);
    void *wake_context;
};

void sel_op_init(struct sel_op *op, sel_op_done *done);

/* Marks an op in flight; a room calls it first thing in its submit function. An op in flight twice is a bug
 * (SEL_CHECK). */
void sel_op_start(struct sel_op *op);

void sel_ready_init(struct sel_ready *ready, void (*wake)(void *context), void *wake_context);
void sel_ready_destroy(struct sel_ready *ready); /* must be empty */

/* Completes an op with a result. The first from the store's thread, the second from any other. */
void sel_ready_post(struct sel_ready *ready, struct sel_op *op, int result);
void sel_ready_post_remote(struct sel_ready *ready, struct sel_op *op, int result);

/* Runs up to `budget` completions; returns how many ran. Store's thread only, not re-entrant. */
size_t sel_ready_run(struct sel_ready *ready, size_t budget);

/* True when a completion is waiting (either side). */
bool sel_ready_pending(struct sel_ready *ready);

#endif
