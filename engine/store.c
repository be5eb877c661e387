/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing a store.
 *
 * Open: options and layout are checked before anything is made; then the memory plan, edges (clock, workers, device),
 * slots, tree, and the disk: directory, lock, catalogue, segments, from which the tree is built. Whatever fails, what
 * was made so far is undone by the same function that closes a store.
 *
 * Close: requests are cancelled, whatever touches the caller's memory or the slots ends, the record store commits what
 * was already written, and everything is freed, in reverse.
 */
#include "engine/publish_priv.h"
#include "engine/store_disk.h"

#include <inttypes.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SEL_ACTIVE_REQUESTS 8  /* when the caller does not say */
#define SEL_PAGE_GROUP      16 /* pages: one window */
#define SEL_WORKERS         8  /* most threads chosen by ourselves: copies are bound by memory, not by processors */

static void set_defaults(selene_store *store) {
    struct selene_options *options = &store->options;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (options->max_active_requests == 0)
        options->max_active_requests = SEL_ACTIVE_REQUESTS;
    if (options->page_group == 0)
        options->page_group = SEL_PAGE_GROUP;
    if (options->worker_threads == 0)
        options->worker_threads = processors > 0 ? (uint32_t)SEL_MIN(processors, (long)SEL_WORKERS) : 1;
}

/* What a budget leaves of warm tier and intake [M2]. The intake shrinks, down to two windows; below that the warm tier
 * gives way, since nothing gets into it without them; in a budget so small that they would take more than half of it the
 * windows shrink, down to a slot each. */
static void fit_budget(selene_store *store, uint64_t *warm, uint64_t *intake, uint64_t budget) {
    uint64_t slot = store->layout->slot_bytes, wanted = *warm, full = *intake;
    uint64_t least = SEL_MAX(SEL_MIN((uint64_t)2 * SEL_WINDOW_SLOTS, budget / 2), 2);
    if (wanted <= budget && full <= budget - wanted)
        return;
    *intake = SEL_MAX(budget > wanted ? budget - wanted : 0, least);
    if (wanted)
        *warm = SEL_MAX(SEL_MIN(wanted, budget > *intake ? budget - *intake : 0), 1);
    sel_log_warning(&store->log,
                    "host_budget_bytes shrinks the intake from %" PRIu64 " to %" PRIu64
                    " slots and the warm tier from %" PRIu64 " to %" PRIu64
                    "; all of it needs a host_budget_bytes of %" PRIu64,
                    full, *intake, wanted, *warm, (wanted + full) * slot);
}

/* How many slots, and for what [M2]. */
static int plan_slots(selene_store *store, bool disk, struct selene_message *message) {
    const struct selene_options *options = &store->options;
    const struct sel_layout *layout = store->layout;
    uint64_t slot = layout->slot_bytes, warm = options->memory_bytes / slot;
    uint64_t intake = (uint64_t)2 * options->max_active_requests * layout->row_slots + 2 * SEL_WINDOW_SLOTS;
    if (options->memory_bytes && warm == 0)
        return sel_fail(message, SELENE_E_INVALID,
                        "memory_bytes: %" PRIu64 ", expected 0 or at least one slot of %" PRIu64, options->memory_bytes,
                        slot);
    if (warm == 0 && !disk)
        return 0; /* holds nothing [P7] */
    if (options->host_budget_bytes)
        fit_budget(store, &warm, &intake, options->host_budget_bytes / slot);
    if (warm + intake > UINT32_MAX / 2)
        return sel_fail(message, SELENE_E_INVALID, "memory_bytes: %" PRIu64 ", expected at most %" PRIu64,
                        options->memory_bytes, (uint64_t)(UINT32_MAX / 2) * slot);
    store->warm_slots = (uint32_t)warm;
    store->intake_slots = (uint32_t)intake;
    store->window_slots = SEL_MAX(SEL_MIN(SEL_WINDOW_SLOTS, store->intake_slots / 2), 1);
    /* A group larger than memory could never be published. */
    if (warm)
        store->options.page_group = SEL_MIN(store->options.page_group, store->warm_slots);
    return 0;
}

static int copy_planes(selene_store *store) {
    size_t count = (size_t)store->layout->desc.rank_count * store->layout->desc.plane_count;
    store->planes = calloc(count, sizeof *store->planes);
    if (!store->planes)
        return SELENE_E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        store->planes[i].base = store->options.planes[i].base;
        store->planes[i].stride = store->options.planes[i].stride_bytes;
    }
    return 0;
}

static int make_workers(selene_store *store, const struct sel_store_env *env) {
    int result = 0;
    store->workers = env->workers;
    store->blocking = env->blocking;
    if (!store->workers) {
        result = sel_workers_create_threads(&store->own_workers, "copy", store->options.worker_threads);
        store->workers = store->own_workers;
    }
    if (!result && !store->blocking) {
        result = sel_workers_create_threads(&store->own_blocking, "commit", 1);
        store->blocking = store->own_blocking;
    }
    return result;
}

/* Everything but the disk. */
static int make_core(selene_store *store, const struct sel_store_env *env, struct selene_message *message) {
    int result = make_workers(store, env);
    if (result)
        return sel_fail(message, result, "cannot start worker threads");
    store->device = env->device;
    if (!store->device) {
        result = sel_device_host_create(&store->own_device, store->layout, store->workers, store->ready);
        store->device = store->own_device;
    }
    if (result)
        return sel_fail(message, result, "cannot create the device");
    result = sel_tree_create(&store->tree, sel_random_u64(store->random));
    if (!result)
        result = sel_slots_create(&store->slots, store->layout->slot_bytes, store->warm_slots + store->intake_slots,
                                  env->poison_slots);
    if (result)
        return sel_fail(message, result, "memory_bytes: %" PRIu64 " bytes in %" PRIu32 " slots cannot be had",
                        store->options.memory_bytes, store->warm_slots + store->intake_slots);
    return copy_planes(store);
}

static void init_fields(selene_store *store, const struct selene_options *options, const struct sel_store_env *env) {
    store->magic = SEL_STORE_MAGIC;
    store->generation = sel_fork_generation();
    store->options = *options;
    store->log = (struct sel_log){options->log, options->log_context, options->log_level};
    store->clock = env->clock ? env->clock : sel_clock_system();
    store->random = env->random ? env->random : sel_random_system();
    store->ready = env->ready ? env->ready : &store->own_ready;
    sel_ready_init(&store->own_ready, sel_store_wake, store);
    sel_list_init(&store->requests);
    sel_list_init(&store->events);
    sel_list_init(&store->waiting_publishes);
    sel_list_init(&store->late_restores);
    sel_list_init(&store->streaming);
    sel_list_init(&store->loads);
    sel_list_init(&store->spills);
    sel_list_init(&store->removals);
    sel_list_init(&store->lost);
    sel_costs_init(store);
    sel_age_init(store);
    set_defaults(store);
}

static void clear_memory(void *context, struct sel_node *node) {
    struct sel_memory *memory = node->memory;
    node->memory = NULL;
    if (memory)
        sel_memory_destroy(context, &memory);
}

/* Accepts a store that was only half made. Nothing is in flight. */
static void store_free(selene_store *store) {
    struct sel_list *link;
    sel_store_close_disk(store);
    if (store->tree)
        sel_tree_visit(store->tree, clear_memory, store);
    sel_tree_destroy(&store->tree);
    if (store->own_device)
        store->own_device->ops->destroy(store->own_device);
    sel_workers_destroy(&store->own_workers);
    sel_workers_destroy(&store->own_blocking);
    while ((link = sel_list_pop(&store->events)) != NULL)
        free(SEL_LIST_ENTRY(link, struct sel_request, link));
    sel_slots_destroy(&store->slots);
    sel_ready_destroy(&store->own_ready);
    if (store->event_fd >= 0)
        close(store->event_fd);
    sel_layout_destroy(&store->layout);
    free(store->planes);
    free(store->chain);
    store->magic = 0;
    free(store);
}

int sel_store_open_env(selene_store **out, const struct selene_options *options, const struct sel_store_env *env,
                       struct selene_message *message) {
    if (message)
        message->text[0] = 0;
    if (!out)
        return sel_fail(message, SELENE_E_INVALID, "out: NULL");
    *out = NULL;
    int result = sel_options_check(options, message);
    if (result)
        return result;
    selene_store *store = calloc(1, sizeof *store);
    if (!store)
        return sel_fail(message, SELENE_E_NOMEM, "out of memory");
    init_fields(store, options, env);
    store->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (store->event_fd < 0)
        result = sel_fail(message, SELENE_E_IO, "cannot create an eventfd");
    if (!result)
        result = sel_layout_create(&store->layout, options->layout, message);
    if (!result)
        result = sel_options_check_planes(options, message);
    if (!result)
        result = plan_slots(store, env->disk || options->disk_directory, message);
    if (!result)
        result = make_core(store, env, message);
    if (!result && (env->disk || options->disk_directory))
        result = sel_store_open_disk(store, env, message);
    if (result) {
        store_free(store);
        return sel_fail(message, result, "%s", sel_error_text(result));
    }
    /* Pointers of the caller's: nothing may use them from here on. */
    store->options.layout = NULL;
    store->options.planes = NULL;
    store->options.disk_directory = NULL;
    *out = store;
    return 0;
}

int selene_open(selene_store **out, const struct selene_options *options, struct selene_message *message) {
    static const struct sel_store_env machine = {0};
    return sel_store_open_env(out, options, &machine, message);
}

/* Ends whatever touches the caller's memory or the slots. */
static void settle_requests(selene_store *store) {
    store->closing = true;
    SEL_LIST_FOR_EACH(link, &store->requests) {
        struct sel_request *request = SEL_LIST_ENTRY(link, struct sel_request, link);
        request->cancel(request);
    }
    for (;;) {
        sel_store_step(store);
        bool busy =
            !sel_list_empty(&store->requests) || !sel_list_empty(&store->loads) || sel_spill_data_in_flight(store);
        if (!busy)
            return;
        if (store->ready == &store->own_ready)
            sel_store_sleep(store, SEL_NS_PER_MS);
        else if (store->disk)
            store->disk->ops->wait(store->disk, SEL_NS_PER_MS);
    }
}

int selene_close(selene_store **out) {
    if (!out || !*out)
        return 0;
    selene_store *store = *out;
    int result = sel_store_usable(store);
    if (result)
        return result;
    settle_requests(store);
    if (store->lsm)
        result = sel_lsm_close(&store->lsm);
    store_free(store);
    *out = NULL;
    return result;
}

void sel_store_crash(selene_store **out) {
    selene_store *store = *out;
    *out = NULL;
    if (!store)
        return;
    settle_requests(store);
    sel_lsm_abort(&store->lsm);
    store_free(store);
}

const char *selene_version(void) { return "0.1.0"; }

const char *selene_error_text(int code) { return sel_error_text(code); }
