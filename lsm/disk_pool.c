/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that carry out ios with blocking calls, first in, first out. Their number bounds what is in flight; the rest
 * waits in the queue.
 */
#include "lsm/disk_posix.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sel_disk_pool {
    struct sel_disk_posix *posix;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    struct sel_list queue; /* ios, by priv.link */
    bool stop;
    unsigned thread_count;
    pthread_t threads[];
};

static void *pool_thread(void *argument) {
    struct sel_disk_pool *pool = argument;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        struct sel_list *first = sel_list_pop(&pool->queue);
        if (first) {
            struct sel_disk_io *io = SEL_LIST_ENTRY(first, struct sel_disk_io, priv.link);
            pthread_mutex_unlock(&pool->mutex);
            sel_disk_posix_complete_remote(pool->posix, io, sel_disk_posix_execute(pool->posix, io));
            pthread_mutex_lock(&pool->mutex);
        } else if (pool->stop) {
            break;
        } else {
            pthread_cond_wait(&pool->cond, &pool->mutex);
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

/* Signals are the host program's: its handlers must not run on our threads. */
static int start_threads(struct sel_disk_pool *pool, unsigned thread_count) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    while (pool->thread_count < thread_count && error == 0) {
        error = pthread_create(&pool->threads[pool->thread_count], NULL, pool_thread, pool);
        if (error == 0) {
            char name[16];
            snprintf(name, sizeof name, "selene-disk-%u", pool->thread_count % 100);
            pthread_setname_np(pool->threads[pool->thread_count++], name);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pool->thread_count ? 0 : error; /* fewer than asked for do the work too */
}

int sel_disk_pool_create(struct sel_disk_pool **out, struct sel_disk_posix *posix, unsigned thread_count,
                         struct selene_message *message) {
    *out = NULL;
    struct sel_disk_pool *pool = calloc(1, sizeof *pool + thread_count * sizeof pool->threads[0]);
    if (pool == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory for I/O threads", posix->directory);
    pool->posix = posix;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->cond, NULL);
    sel_list_init(&pool->queue);
    int error = start_threads(pool, thread_count);
    if (error) {
        sel_disk_pool_destroy(&pool);
        return sel_fail(message, sel_error_from_errno(error), "%s: cannot start I/O threads: %s", posix->directory,
                        strerror(error));
    }
    *out = pool;
    return 0;
}

void sel_disk_pool_destroy(struct sel_disk_pool **pool_at) {
    struct sel_disk_pool *pool = *pool_at;
    if (pool == NULL)
        return;
    *pool_at = NULL;
    if (pool->posix->fork_generation == sel_disk_fork_generation()) {
        pthread_mutex_lock(&pool->mutex);
        SEL_CHECK(sel_list_empty(&pool->queue));
        pool->stop = true;
        pthread_cond_broadcast(&pool->cond);
        pthread_mutex_unlock(&pool->mutex);
        for (unsigned i = 0; i < pool->thread_count; i++)
            pthread_join(pool->threads[i], NULL);
        pthread_cond_destroy(&pool->cond);
        pthread_mutex_destroy(&pool->mutex);
    }
    free(pool);
}

void sel_disk_pool_submit(struct sel_disk_pool *pool, struct sel_disk_io *io) {
    sel_list_init(&io->priv.link);
    pthread_mutex_lock(&pool->mutex);
    sel_list_add_tail(&pool->queue, &io->priv.link);
    pthread_cond_signal(&pool->cond);
    pthread_mutex_unlock(&pool->mutex);
}
