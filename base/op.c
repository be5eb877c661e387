/* SPDX-License-Identifier: Apache-2.0
 *
 * The queue of completed ops. `local` belongs to the store's thread. Other threads append to `remote` under the lock
 * and set `remote_waiting`, which the store's thread reads without the lock, so that an idle sel_ready_run() costs two
 * loads. Order: local ops first, then the remote ones that were there when the run looked; within a side first in,
 * first out.
 */
#include "base/op.h"

void sel_op_init(struct sel_op *op, sel_op_done *done) {
    sel_list_init(&op->link);
    op->done = done;
    op->result = 0;
    op->in_flight = false;
}

void sel_op_start(struct sel_op *op) {
    SEL_CHECK(!op->in_flight);
    op->in_flight = true;
    op->result = 0;
}

void sel_ready_init(struct sel_ready *ready, void (*wake)(void *context), void *wake_context) {
    sel_list_init(&ready->local);
    sel_list_init(&ready->remote);
    SEL_CHECK(pthread_mutex_init(&ready->lock, NULL) == 0);
    ready->remote_waiting = false;
    ready->wake = wake;
    ready->wake_context = wake_context;
}

void sel_ready_destroy(struct sel_ready *ready) {
    /* Taking the lock waits for a poster that is still inside its wake call. */
    pthread_mutex_lock(&ready->lock);
    SEL_CHECK(sel_list_empty(&ready->local) && sel_list_empty(&ready->remote));
    pthread_mutex_unlock(&ready->lock);
    pthread_mutex_destroy(&ready->lock);
}

void sel_ready_post(struct sel_ready *ready, struct sel_op *op, int result) {
    SEL_CHECK(op->in_flight);
    op->result = result;
    sel_list_add_tail(&ready->local, &op->link);
}

void sel_ready_post_remote(struct sel_ready *ready, struct sel_op *op, int result) {
    SEL_CHECK(op->in_flight);
    op->result = result;
    pthread_mutex_lock(&ready->lock);
    bool was_empty = sel_list_empty(&ready->remote);
    sel_list_add_tail(&ready->remote, &op->link);
    __atomic_store_n(&ready->remote_waiting, true, __ATOMIC_RELEASE);
    /* Under the lock: once it is dropped the op may run, and its owner may tear the store down. */
    if (was_empty && ready->wake)
        ready->wake(ready->wake_context);
    pthread_mutex_unlock(&ready->lock);
}

static void take_remote(struct sel_ready *ready) {
    if (!__atomic_load_n(&ready->remote_waiting, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&ready->lock);
    sel_list_splice_tail(&ready->local, &ready->remote);
    __atomic_store_n(&ready->remote_waiting, false, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&ready->lock);
}

size_t sel_ready_run(struct sel_ready *ready, size_t budget) {
    size_t ran = 0;
    take_remote(ready);
    while (ran < budget) {
        struct sel_list *first = sel_list_pop(&ready->local);
        if (first == NULL) {
            take_remote(ready);
            first = sel_list_pop(&ready->local);
            if (first == NULL)
                break;
        }
        struct sel_op *op = SEL_LIST_ENTRY(first, struct sel_op, link);
        op->in_flight = false;
        ran++;
        op->done(op);
    }
    return ran;
}

bool sel_ready_pending(struct sel_ready *ready) {
    return !sel_list_empty(&ready->local) || __atomic_load_n(&ready->remote_waiting, __ATOMIC_RELAXED);
}
