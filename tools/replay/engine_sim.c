/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop: give idle seats the next requests, let each go on as far as it can, take the store's events, and wait when
 * nothing moved.
 */
#include "tools/replay/engine_sim.h"

#include "tools/replay/seat.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define EVENTS   64
#define PAUSE_NS SEL_NS_PER_MS           /* between tries that were answered "not now" */
#define WAIT_NS  (SEL_NS_PER_SECOND / 5) /* for events; the store wakes us */
#define STUCK_NS (180 * SEL_NS_PER_SECOND)

struct sim {
    const struct replay_stage *stage;
    struct device device;
    selene_store *store;
    struct seat *seats;
    uint32_t seat_count;
    struct captures *captures; /* gone when the store is closed, as when an engine ends */
    uint8_t *busy;             /* [session] */
    uint8_t *started;
    size_t cursor;     /* everything before it was started */
    uint64_t moved_ns; /* when something last happened */
};

/* ---- open and close ---- */

static void log_write(void *context, int level, const char *text) {
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    const char *clear = context ? "\r\033[K" : "";
    fprintf(stderr, "%s%s: %s: %s\n", clear, program_invocation_short_name, levels[level & 3], text);
}

static int store_open(struct sim *sim, bool report_commits, struct selene_message *message) {
    static char terminal;
    const struct replay_options *given = sim->stage->options;
    struct selene_options options;
    selene_options_init(&options);
    options.layout = &sim->stage->layout.layout;
    options.planes = sim->device.planes;
    options.block_count = sim->device.block_count;
    options.memory_bytes = given->memory_bytes;
    options.max_active_requests = sim->seat_count;
    options.disk_directory = given->disk;
    options.disk_limit_bytes = given->disk_limit_bytes;
    options.durability = given->durability;
    options.disk_threads_only = given->disk_threads;
    options.page_group = given->page_group;
    options.worker_threads = given->threads;
    options.no_thinning = given->no_thin;
    options.no_packing = given->no_pack;
    options.spare_rows = given->spare_rows;
    options.max_age_ns = given->max_age_seconds * SEL_NS_PER_SECOND;
    options.prefill_tokens_per_s = given->sequential ? 0 : (double)given->prefill_rate;
    options.report_commits = report_commits;
    options.log = log_write;
    options.log_context = isatty(STDERR_FILENO) ? &terminal : NULL;
    options.log_level = given->quiet ? 0 : 1;
    return selene_open(&sim->store, &options, message);
}

static int sim_build(struct sim *sim, bool report_commits, struct selene_message *message) {
    const struct workload *workload = sim->stage->workload;
    uint32_t page = sim->stage->kv.page_tokens;
    uint64_t blocks = (uint64_t)workload->tokens_max / page + 1;
    struct seat_world world = {sim->stage, &sim->device, NULL, NULL, message};
    int result = device_open(&sim->device, &sim->stage->kv, blocks * sim->seat_count, message);
    if (result)
        return result;
    sim->seats = calloc(sim->seat_count, sizeof *sim->seats);
    sim->busy = calloc(workload->session_count, 1);
    sim->started = calloc(workload->count, 1);
    if (sim->seats == NULL || sim->busy == NULL || sim->started == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "no memory for the requests in flight");
    result = captures_create(&sim->captures, page, sim->stage->kv.row_bytes && !sim->stage->options->no_defer,
                             workload->session_count);
    if (result)
        return sel_fail(message, result, "no memory for the captures");
    for (uint32_t i = 0; result == 0 && i < sim->seat_count; i++)
        result = seat_open(&sim->seats[i], &world);
    return result ? result : store_open(sim, report_commits, message);
}

int sim_open(struct sim **out, const struct replay_stage *stage, bool report_commits, struct selene_message *message) {
    *out = NULL;
    struct sim *sim = calloc(1, sizeof *sim);
    if (sim == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "no memory");
    sim->stage = stage;
    sim->seat_count = stage->options->sequential ? 1 : stage->options->concurrency;
    int result = sim_build(sim, report_commits, message);
    if (result)
        sim_close(&sim, NULL);
    *out = sim;
    return result;
}

selene_store *sim_store(struct sim *sim) { return sim->store; }

int sim_close(struct sim **pointer, struct selene_message *message) {
    struct sim *sim = *pointer;
    if (sim == NULL)
        return 0;
    struct seat_world world = {sim->stage, &sim->device, sim->captures, sim->store, message};
    /* Prefixes first: they belong to the store. Blocks last: the store may still read them until it is closed. */
    for (uint32_t i = 0; sim->seats && i < sim->seat_count; i++)
        selene_prefix_destroy(&sim->seats[i].prefix);
    int result = selene_close(&sim->store);
    for (uint32_t i = 0; sim->seats && i < sim->seat_count; i++)
        seat_close(&sim->seats[i], &world);
    device_close(&sim->device);
    captures_destroy(&sim->captures);
    free(sim->seats);
    free(sim->busy);
    free(sim->started);
    free(sim);
    *pointer = NULL;
    return result ? sel_fail(message, result, "selene_close: %s", selene_error_text(result)) : 0;
}

/* ---- requests into seats ---- */

/* The first request that may begin: of a session that has none in flight, since a turn follows from the one before. */
static bool next_request(struct sim *sim, size_t end, size_t *index) {
    const struct workload_request *requests = sim->stage->workload->requests;
    while (sim->cursor < end && sim->started[sim->cursor])
        sim->cursor++;
    for (size_t i = sim->cursor; i < end; i++)
        if (!sim->started[i] && !sim->busy[requests[i].session]) {
            *index = i;
            return true;
        }
    return false;
}

static int seats_fill(struct sim *sim, const struct seat_world *world, size_t end, const struct replay_sink *sink) {
    size_t index;
    for (uint32_t i = 0; i < sim->seat_count; i++) {
        if (sim->seats[i].state != SEAT_IDLE)
            continue;
        if (!next_request(sim, end, &index))
            return 0;
        sim->started[index] = 1;
        sim->busy[sim->stage->workload->requests[index].session] = 1;
        if (sink->started)
            sink->started(sink->context, index);
        int result = seat_start(&sim->seats[i], world, index);
        if (result)
            return result;
    }
    return 0;
}

static void seat_end(struct sim *sim, struct seat *seat, const struct seat_world *world, uint8_t *done,
                     const struct replay_sink *sink) {
    size_t index = (size_t)seat->result.index;
    sim->busy[seat->request->session] = 0;
    done[index] = 1;
    seat_finish(seat, world);
    sink->finished(sink->context, &seat->result, sim->store);
}

/* ---- events ---- */

static struct seat *seat_of(struct sim *sim, const struct selene_event *event) {
    for (uint32_t i = 0; i < sim->seat_count; i++) {
        struct seat *seat = &sim->seats[i];
        if (seat->ticket == event->ticket && (seat->state == SEAT_RESTORE || seat->state == SEAT_PUBLISHING))
            return seat;
    }
    return NULL;
}

static int event_take(struct sim *sim, const struct seat_world *world, const struct selene_event *event,
                      const struct replay_sink *sink) {
    if (event->kind == SELENE_EVENT_COMMITTED) {
        if (sink->committed)
            sink->committed(sink->context, event->key, event->tokens);
        return 0;
    }
    struct seat *seat = seat_of(sim, event);
    if (seat == NULL)
        return sel_fail(world->message, SELENE_E_INTERNAL,
                        "found an event of kind %d for ticket %" PRIu64 ", expected a ticket in flight", event->kind,
                        event->ticket);
    return seat_event(seat, world, event);
}

/* Who waits longest for the store comes first, so that none is refused for ever because others are asked before it. */
static uint32_t first_seat(const struct sim *sim) {
    uint32_t first = 0;
    for (uint32_t i = 1; i < sim->seat_count; i++) {
        const struct seat *seat = &sim->seats[i], *best = &sim->seats[first];
        if (seat->waiting && (!best->waiting || seat->waiting_since_ns < best->waiting_since_ns))
            first = i;
    }
    return first;
}

/* 1: something happened. */
static int seats_drive(struct sim *sim, const struct seat_world *world, uint8_t *done, const struct replay_sink *sink) {
    struct selene_event events[EVENTS];
    int moved = 0;
    for (uint32_t i = 0, first = first_seat(sim); i < sim->seat_count; i++) {
        struct seat *seat = &sim->seats[(first + i) % sim->seat_count];
        int result = seat_step(seat, world);
        if (result < 0)
            return result;
        moved |= result;
        if (seat->state == SEAT_DONE) {
            seat_end(sim, seat, world, done, sink);
            moved = 1;
        }
    }
    int count = selene_poll(sim->store, events, EVENTS);
    if (count < 0)
        return sel_fail(world->message, count, "selene_poll: %s", selene_error_text(count));
    if (sink->tick)
        sink->tick(sink->context, sim->store);
    for (int i = 0; i < count; i++) {
        int result = event_take(sim, world, &events[i], sink);
        if (result)
            return result;
    }
    return moved | (count > 0);
}

static int pause_until(struct sim *sim, int moved, struct selene_message *message) {
    uint64_t now = sel_cli_now_ns(), wait = WAIT_NS;
    if (moved) {
        sim->moved_ns = now;
        return 0;
    }
    if (now - sim->moved_ns > STUCK_NS)
        return sel_fail(message, SELENE_E_STALLED, "nothing happened for %" PRIu64 " s",
                        (uint64_t)(STUCK_NS / SEL_NS_PER_SECOND));
    for (uint32_t i = 0; i < sim->seat_count; i++)
        if (sim->seats[i].waiting)
            wait = PAUSE_NS;
    int result = selene_wait(sim->store, wait);
    return result < 0 ? sel_fail(message, result, "selene_wait: %s", selene_error_text(result)) : 0;
}

static bool idle(const struct sim *sim) {
    for (uint32_t i = 0; i < sim->seat_count; i++)
        if (sim->seats[i].state != SEAT_IDLE)
            return false;
    return true;
}

int sim_play(struct sim *sim, uint8_t *done, size_t end, const struct replay_sink *sink,
             struct selene_message *message) {
    struct seat_world world = {sim->stage, &sim->device, sim->captures, sim->store, message};
    size_t index;
    for (size_t i = 0; i < sim->stage->workload->count; i++)
        sim->started[i] = done[i];
    sim->cursor = 0;
    sim->moved_ns = sel_cli_now_ns();
    int result = 0;
    while (result == 0 && (!idle(sim) || next_request(sim, end, &index))) {
        result = seats_fill(sim, &world, end, sink);
        if (result == 0)
            result = seats_drive(sim, &world, done, sink);
        if (result >= 0)
            result = pause_until(sim, result, message);
    }
    for (size_t i = 0; result == 0 && i < end; i++)
        if (!done[i])
            result = sel_fail(message, SELENE_E_INTERNAL, "request %zu was left out", i + 1);
    return result;
}

int sim_drain(struct sim *sim, const struct replay_sink *sink, struct selene_event *event,
              struct selene_message *message) {
    uint64_t ticket;
    int result = selene_drain(sim->store, 0, &ticket);
    if (result)
        return sel_fail(message, result, "selene_drain: %s", selene_error_text(result));
    sim->moved_ns = sel_cli_now_ns();
    for (;;) {
        int count = selene_poll(sim->store, event, 1);
        if (count < 0)
            return sel_fail(message, count, "selene_poll: %s", selene_error_text(count));
        if (sink->tick)
            sink->tick(sink->context, sim->store);
        if (count && event->kind == SELENE_EVENT_DRAIN && event->ticket == ticket)
            return 0;
        if (count && event->kind == SELENE_EVENT_COMMITTED && sink->committed)
            sink->committed(sink->context, event->key, event->tokens);
        result = pause_until(sim, count, message);
        if (result)
            return result;
    }
}
