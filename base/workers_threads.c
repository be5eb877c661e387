/* SPDX-License-Identifier: Apache-2.0
 *
 * The side with threads: one FIFO queue under one lock. A thread leaves only when the pool stops and the queue is
 * empty, so every submitted job runs.
 */
#include "base/error.h"
#include "base/workers_priv.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX     1024
#define THREAD_NAME_MAX 15 /* the kernel's limit */
#define POOL_NAME_MAX   32

struct workers_threads {
    struct sel_workers base;
    pthread_mutex_t lock;
    pthread_cond_t work;   /* the queue got a job, or `stop` was set */
    struct sel_list queue; /* jobs by op.link, under lock */
    unsigned idle;         /* threads that wait on `work`, under lock */
    bool stop;             /* under lock */
    char name[POOL_NAME_MAX];
    unsigned started;
    pthread_t threads[];
};

static void *worker_main(void *argument) {
    struct workers_threads *self = argument;
    pthread_mutex_lock(&self->lock);
    for (;;) {
        struct sel_list *first = sel_list_pop(&self->queue);
        if (first == NULL) {
            if (self->stop)
                break;
            self->idle++;
            pthread_cond_wait(&self->work, &self->lock);
            self->idle--;
            continue;
        }
        pthread_mutex_unlock(&self->lock);
        struct sel_job *job = SEL_LIST_ENTRY(first, struct sel_job, op.link);
        sel_ready_post_remote(job->ready, &job->op, job->run(job));
        pthread_mutex_lock(&self->lock);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static void threads_submit(struct sel_workers *workers, struct sel_job *job) {
    struct workers_threads *self = SEL_CONTAINER(workers, struct workers_threads, base);
    pthread_mutex_lock(&self->lock);
    sel_list_add_tail(&self->queue, &job->op.link);
    bool signal = self->idle > 0;
    pthread_mutex_unlock(&self->lock);
    if (signal)
        pthread_cond_signal(&self->work);
}

static void threads_destroy(struct sel_workers *workers) {
    struct workers_threads *self = SEL_CONTAINER(workers, struct workers_threads, base);
    pthread_mutex_lock(&self->lock);
    self->stop = true;
    pthread_mutex_unlock(&self->lock);
    pthread_cond_broadcast(&self->work);
    for (unsigned i = 0; i < self->started; i++)
        pthread_join(self->threads[i], NULL);
    pthread_cond_destroy(&self->work);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

/* The number is kept when the pool's name is too long for the kernel. */
static void name_thread(struct workers_threads *self, unsigned index) {
    char number[16], text[64];
    int digits = snprintf(number, sizeof number, "-%u", index);
    snprintf(text, sizeof text, "selene-%s", self->name);
    text[THREAD_NAME_MAX - digits] = '\0';
    strcat(text, number);
    pthread_setname_np(self->threads[index], text);
}

/* Signals are for the host process's own threads: a worker starts with all of them blocked. */
static int start_threads(struct workers_threads *self) {
    sigset_t all, before;
    int rc = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (self->started < self->base.count && rc == 0) {
        rc = pthread_create(&self->threads[self->started], NULL, worker_main, self);
        if (rc == 0)
            name_thread(self, self->started++);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc ? SELENE_E_NOMEM : 0;
}

int sel_workers_create_threads(struct sel_workers **out, const char *name, unsigned thread_count) {
    *out = NULL;
    if (thread_count == 0 || thread_count > THREADS_MAX)
        return SELENE_E_INVALID;
    struct workers_threads *self = calloc(1, sizeof *self + thread_count * sizeof self->threads[0]);
    if (self == NULL)
        return SELENE_E_NOMEM;
    self->base = (struct sel_workers){SEL_WORKERS_MAGIC, thread_count, threads_submit, threads_destroy};
    sel_list_init(&self->queue);
    SEL_CHECK(pthread_mutex_init(&self->lock, NULL) == 0 && pthread_cond_init(&self->work, NULL) == 0);
    snprintf(self->name, sizeof self->name, "%s", name);
    struct sel_workers *base = &self->base;
    int rc = start_threads(self);
    if (rc)
        sel_workers_destroy(&base);
    *out = base;
    return rc;
}
