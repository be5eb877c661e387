/* SPDX-License-Identifier: Apache-2.0
 *
 * selene_poll: one round of everything. The eventfd is emptied before anything is looked for (wake.c); then completions,
 * since they free what others wait for; then those who wait; then what is ahead of need; then what all of that
 * submitted is handed to the kernel. Each step costs nothing when it has nothing to do [M4].
 */
#include "engine/store_priv.h"

/* Completions handled in one poll at most, so that a poll stays short: some 100 us of copies and reads. */
#define SEL_POLL_BUDGET 256

/* Once a disk that took nothing takes records again, the next time it does not is said again. */
static void note_state(selene_store *store) {
    bool degraded = sel_lsm_state(store->lsm) != SEL_LSM_OK;
    if (store->degraded && !degraded)
        store->warned_drop = false;
    store->degraded = degraded;
}

static void disk_steps(selene_store *store) {
    if (!sel_list_empty(&store->streaming))
        sel_streams_step(store);
    if (!sel_list_empty(&store->loads))
        sel_loads_step(store);
    if (!sel_list_empty(&store->lost))
        sel_recover_step(store);
    if (!sel_list_empty(&store->removals))
        sel_removals_step(store);
    if (!store->closing)
        sel_spill_pressure(store);
    if (store->flush_wanted) {
        store->flush_wanted = false;
        sel_lsm_flush(store->lsm);
    }
    note_state(store);
}

void sel_store_step(selene_store *store) {
    sel_store_quiet_down(store);
    store->device->ops->poll(store->device);
    if (!sel_list_empty(&store->late_restores))
        sel_restores_late_step(store);
    if (store->lsm)
        sel_lsm_poll(store->lsm);
    size_t ran = sel_ready_run(store->ready, SEL_POLL_BUDGET);
    if (!sel_list_empty(&store->waiting_publishes))
        sel_publishes_step(store);
    if (store->lsm) {
        disk_steps(store);
        sel_lsm_poll(store->lsm);
    }
    if (store->drain)
        sel_drain_step(store);
    if (store->options.max_age_ns)
        sel_age_step(store);
    if (ran > 0)
        store->quiet = false;
}

int selene_poll(selene_store *store, struct selene_event *events, size_t capacity) {
    int result = sel_store_usable(store);
    if (result)
        return result;
    if (!events && capacity)
        return SELENE_E_INVALID;
    sel_store_step(store);
    size_t count = 0;
    struct sel_list *link;
    while (count < capacity && count < INT32_MAX && (link = sel_list_pop(&store->events)) != NULL) {
        struct sel_request *request = SEL_LIST_ENTRY(link, struct sel_request, link);
        events[count++] = request->event;
        free(request);
    }
    if (sel_ready_pending(store->ready) || !sel_list_empty(&store->events))
        sel_store_wake(store);
    return (int)count;
}
