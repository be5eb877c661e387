/* SPDX-License-Identifier: Apache-2.0
 *
 * Sleeping and waking (goal P10): the eventfd that callers wait on, and forks.
 *
 * Two write to the eventfd: helper threads through sel_store_wake, which also set `signalled`, and the disk and its ring
 * in the kernel, which cannot. So poll reads it when `signalled` is set, while there is work, and until one read found
 * it empty; after that an idle poll makes no system call, but for one in 64 in case the ring wrote late. It is read
 * before the round looks for what it announced, never after: what comes in between announces itself again.
 */
#include "engine/store_priv.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#define SEL_IDLE_POLLS 64
/* How often a caller's event is looked at while a copy waits for it. */
#define SEL_EVENT_WAIT_NS (50 * 1000)
/* How often a publish that waits for slots is looked at although nothing completed. */
#define SEL_SLOT_WAIT_NS (10 * SEL_NS_PER_MS)

static uint32_t fork_generation = 1;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void forked(void) { fork_generation++; }
static void watch_forks(void) { pthread_atfork(NULL, NULL, forked); }

uint32_t sel_fork_generation(void) {
    pthread_once(&fork_once, watch_forks);
    return fork_generation;
}

int sel_store_usable(const selene_store *store) {
    if (!store)
        return SELENE_E_INVALID;
    if (store->generation != sel_fork_generation())
        return SELENE_E_FORKED;
    SEL_CHECK_MAGIC(store, SEL_STORE_MAGIC);
    return 0;
}

uint64_t sel_store_use(selene_store *store) {
    uint64_t now = sel_age_now(store);
    store->use_counter = SEL_MAX(store->use_counter + 1, now);
    return store->use_counter;
}

void sel_store_wake(void *context) {
    selene_store *store = context;
    uint64_t one = 1;
    /* Written first: a flag without a write would be cleared by a poll that finds nothing to read. */
    ssize_t written = write(store->event_fd, &one, sizeof one);
    (void)written; /* full counter: readable all the same */
    atomic_store_explicit(&store->signalled, true, memory_order_release);
}

void sel_store_quiet_down(selene_store *store) {
    uint64_t count;
    bool signalled = atomic_load_explicit(&store->signalled, memory_order_acquire);
    if (store->quiet && !signalled && ++store->idle_polls % SEL_IDLE_POLLS != 0)
        return;
    if (signalled)
        atomic_store_explicit(&store->signalled, false, memory_order_relaxed);
    if (read(store->event_fd, &count, sizeof count) < 0)
        store->quiet = true; /* until this round finds something to do */
}

void sel_store_kick(selene_store *store) {
    if (store->lsm)
        sel_lsm_poll(store->lsm);
    if (sel_ready_pending(store->ready) || !sel_list_empty(&store->events))
        sel_store_wake(store);
}

int selene_event_fd(const selene_store *store) {
    int result = sel_store_usable(store);
    return result ? result : store->event_fd;
}

uint64_t selene_deadline_ns(const selene_store *store) {
    if (sel_store_usable(store))
        return UINT64_MAX;
    uint64_t deadline = SEL_MIN(store->lsm ? sel_lsm_deadline_ns(store->lsm) : UINT64_MAX, sel_age_deadline_ns(store));
    if (store->event_waits == 0 && sel_list_empty(&store->waiting_publishes) && !store->drain)
        return deadline;
    uint64_t pause = store->event_waits ? SEL_EVENT_WAIT_NS : SEL_SLOT_WAIT_NS;
    return SEL_MIN(deadline, sel_mono_ns(store->clock) + pause);
}

void sel_store_sleep(selene_store *store, uint64_t timeout_ns) {
    if (sel_ready_pending(store->ready))
        return;
    uint64_t now = sel_mono_ns(store->clock), deadline = selene_deadline_ns(store);
    uint64_t ns = SEL_MIN(timeout_ns, deadline > now ? deadline - now : 0);
    struct pollfd fd = {.fd = store->event_fd, .events = POLLIN};
    struct timespec timeout = {.tv_sec = (time_t)SEL_MIN(ns / SEL_NS_PER_SECOND, (uint64_t)INT32_MAX),
                               .tv_nsec = (long)(ns % SEL_NS_PER_SECOND)};
    if (ppoll(&fd, 1, &timeout, NULL) > 0)
        store->quiet = false;
}

int selene_wait(selene_store *store, uint64_t timeout_ns) {
    int result = sel_store_usable(store);
    if (result)
        return result;
    if (sel_list_empty(&store->events))
        sel_store_sleep(store, timeout_ns);
    return 0;
}
