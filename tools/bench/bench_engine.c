/* SPDX-License-Identifier: Apache-2.0
 *
 * Publish and restore of one long prompt in a store with a warm tier and no disk, from the call to its event, beside
 * plain copies of as many bytes by as many threads. Each round publishes another prompt, so the coldest goes; all slots
 * and pages were touched before. A first restore is compared byte by byte.
 *
 * With four ranks [K1] the bytes are those of all ranks, the plain copies' too. They are alike; or in each record one byte
 * of the last rank is not: the first one compared, or the last, which is the worst case.
 */
#include "tools/bench/bench_engine.h"

#include "tools/bench/bench_memory.h"

#include "base/check.h"
#include "base/random.h"
#include "engine/selene.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PAGE_TOKENS 64

#define PAGE_GROUP 16
#define PAGES_MIN  16

enum likeness { ALIKE, FIRST_DIFFERS, LAST_DIFFERS };

static const struct shape {
    const char *name;
    uint32_t ranks, plane_count, plane_bytes;
    enum likeness likeness;
} shapes[] = {
    {"planes of 128 KiB", 1, 72, 131072, ALIKE},
    {"planes of 16 KiB", 1, 64, 16384, ALIKE},
    {"planes of 4 KiB", 1, 64, 4096, ALIKE},
    {"4 ranks alike, planes of 128 KiB", 4, 18, 131072, ALIKE},
    {"4 ranks alike, planes of 16 KiB", 4, 64, 16384, ALIKE},
    {"4 ranks alike, planes of 4 KiB", 4, 64, 4096, ALIKE},
    {"4 ranks, first byte differs, planes of 128 KiB", 4, 18, 131072, FIRST_DIFFERS},
    {"4 ranks, first byte differs, planes of 16 KiB", 4, 64, 16384, FIRST_DIFFERS},
    {"4 ranks, first byte differs, planes of 4 KiB", 4, 64, 4096, FIRST_DIFFERS},
    {"4 ranks, last byte differs, planes of 128 KiB", 4, 18, 131072, LAST_DIFFERS},
    {"4 ranks, last byte differs, planes of 16 KiB", 4, 64, 16384, LAST_DIFFERS},
    {"4 ranks, last byte differs, planes of 4 KiB", 4, 64, 4096, LAST_DIFFERS},
};

struct engine {
    selene_store *store;
    const struct shape *shape;
    struct selene_plane *planes;
    struct selene_plane_memory *memory;
    uint8_t *device;                     /* each plane of each rank an array of 2 * pages blocks */
    uint32_t pages, *from, *to, *tokens; /* blocks that hold the prompt, blocks it is restored to */
    uint64_t device_bytes, payload_bytes;
    uint8_t *copy_to; /* of the plain copies */
};

static uint32_t planes_of(const struct shape *shape) { return shape->ranks * shape->plane_count; }

static int get_memory(struct engine *engine, uint64_t bytes) {
    const struct shape *shape = engine->shape;
    uint64_t block_bytes = (uint64_t)planes_of(shape) * shape->plane_bytes;
    engine->pages = (uint32_t)SEL_MAX(bytes / block_bytes, PAGES_MIN);
    engine->payload_bytes = engine->pages * block_bytes;
    engine->device_bytes = 2 * engine->payload_bytes;
    engine->planes = calloc(shape->plane_count, sizeof *engine->planes);
    engine->memory = calloc(planes_of(shape), sizeof *engine->memory);
    engine->from = calloc(engine->pages, sizeof *engine->from);
    engine->to = calloc(engine->pages, sizeof *engine->to);
    engine->tokens = calloc((size_t)engine->pages * PAGE_TOKENS, sizeof *engine->tokens);
    engine->device = bench_memory(engine->device_bytes, 5);
    engine->copy_to = bench_memory(engine->payload_bytes, 6);
    return engine->planes && engine->memory && engine->from && engine->to && engine->tokens && engine->device &&
                   engine->copy_to
               ? 0
               : SELENE_E_NOMEM;
}

/* A byte of the last rank in the block that holds a page: the first one, or the last one. */
static uint8_t *byte_of(const struct engine *engine, uint32_t page, bool last) {
    const struct shape *shape = engine->shape;
    uint32_t plane = (shape->ranks - 1) * shape->plane_count + (last ? shape->plane_count - 1 : 0);
    uint8_t *block = (uint8_t *)engine->memory[plane].base + (uint64_t)engine->from[page] * shape->plane_bytes;
    return last ? block + shape->plane_bytes - 1 : block;
}

static void fill_ranks(struct engine *engine) {
    const struct shape *shape = engine->shape;
    uint64_t bytes = engine->device_bytes / shape->ranks;
    for (uint32_t r = 1; r < shape->ranks; r++)
        memcpy(engine->device + r * bytes, engine->device, bytes);
    for (uint32_t i = 0; i < engine->pages; i++) {
        bool ends = i % PAGE_GROUP == PAGE_GROUP - 1 || i + 1 == engine->pages;
        if (shape->likeness == FIRST_DIFFERS && i % PAGE_GROUP == 0)
            *byte_of(engine, i, false) ^= 1;
        else if (shape->likeness == LAST_DIFFERS && ends)
            *byte_of(engine, i, true) ^= 1;
    }
}

static int open_engine(struct engine *engine, const struct bench_options *options, const char *disk,
                       struct selene_message *message) {
    const struct shape *shape = engine->shape;
    if (get_memory(engine, options->bytes))
        return sel_fail(message, SELENE_E_NOMEM, "memory: out of memory (--bytes)");
    for (uint32_t p = 0; p < shape->plane_count; p++)
        engine->planes[p] = (struct selene_plane){shape->plane_bytes, 1, shape->plane_bytes / PAGE_TOKENS};
    for (uint32_t p = 0; p < planes_of(shape); p++)
        engine->memory[p] = (struct selene_plane_memory){
            engine->device + (uint64_t)p * 2 * engine->pages * shape->plane_bytes, shape->plane_bytes};
    for (uint32_t i = 0; i < engine->pages; i++) { /* scattered, as an engine's blocks are */
        engine->from[i] = 2 * ((i * 5) % engine->pages);
        engine->to[i] = 2 * ((i * 3) % engine->pages) + 1;
        if (engine->pages % 5 == 0 || engine->pages % 3 == 0)
            engine->from[i] = 2 * i, engine->to[i] = 2 * i + 1;
    }
    fill_ranks(engine);
    const struct selene_layout layout = {.page_tokens = PAGE_TOKENS,
                                         .rank_count = shape->ranks,
                                         .plane_count = shape->plane_count,
                                         .planes = engine->planes,
                                         .description = "selene-bench",
                                         .description_bytes = 12};
    struct selene_options open;
    selene_options_init(&open);
    open.layout = &layout;
    open.planes = engine->memory;
    open.block_count = 2 * engine->pages;
    open.memory_bytes = engine->payload_bytes + engine->payload_bytes / 2;
    if (shape->likeness == ALIKE) /* one share of each is kept */
        open.memory_bytes /= shape->ranks;
    open.page_group = PAGE_GROUP;
    open.disk_directory = disk;
    open.worker_threads = options->threads;
    return selene_open(&engine->store, &open, message);
}

static void close_engine(struct engine *engine) {
    if (engine->store)
        (void)selene_close(&engine->store);
    free(engine->planes);
    free(engine->memory);
    free(engine->from);
    free(engine->to);
    free(engine->tokens);
    bench_memory_free(engine->device, engine->device_bytes);
    bench_memory_free(engine->copy_to, engine->payload_bytes);
}

static int wait_for(struct engine *engine, uint64_t ticket, struct selene_event *event) {
    for (;;) {
        int count = selene_poll(engine->store, event, 1);
        if (count < 0)
            return count;
        if (count == 1 && event->ticket == ticket)
            return event->result;
        if (count == 0)
            (void)selene_wait(engine->store, 100000000);
    }
}

static int publish(struct engine *engine, selene_prefix *prefix, uint64_t tokens, uint64_t *ns) {
    struct selene_device_state state = {.blocks = engine->from, .block_count = engine->pages};
    struct selene_publish_result offer = {.answer = SELENE_RETRY};
    struct selene_event event = {0};
    uint64_t from = bench_now_ns(), patience = from + UINT64_C(20000000000);
    int rc = 0;
    while (rc == 0 && offer.answer == SELENE_RETRY && bench_now_ns() < patience) {
        rc = selene_publish(engine->store, prefix, tokens, &state, &offer);
        if (rc == 0 && offer.answer == SELENE_RETRY)
            (void)selene_poll(engine->store, &event, 1);
    }
    if (rc == 0 && offer.answer != SELENE_ACCEPTED)
        return SELENE_E_RETRY;
    if (rc == 0)
        rc = wait_for(engine, offer.ticket, &event);
    *ns = bench_now_ns() - from;
    return rc;
}

static int restore(struct engine *engine, selene_prefix *prefix, uint64_t tokens, uint64_t *ns) {
    struct selene_device_state state = {.blocks = engine->to, .block_count = engine->pages};
    struct selene_event event = {0};
    uint64_t ticket = 0, from = bench_now_ns();
    int rc = selene_restore(engine->store, prefix, tokens, &state, &ticket);
    if (rc == 0)
        rc = wait_for(engine, ticket, &event);
    *ns = bench_now_ns() - from;
    return rc == 0 && event.tokens != tokens ? SELENE_E_GONE : rc;
}

static bool is_right(const struct engine *engine) {
    uint64_t bytes = engine->shape->plane_bytes;
    for (uint32_t p = 0; p < planes_of(engine->shape); p++) {
        const uint8_t *plane = engine->memory[p].base;
        for (uint32_t i = 0; i < engine->pages; i++)
            if (memcmp(plane + engine->from[i] * bytes, plane + engine->to[i] * bytes, bytes) != 0)
                return false;
    }
    return true;
}

enum { MEMCPY, STREAMING, PUBLISH, RESTORE, KINDS };

static int one_round(struct engine *engine, unsigned round, unsigned threads, double rates[KINDS],
                     struct selene_message *message) {
    uint64_t tokens = (uint64_t)engine->pages * PAGE_TOKENS, ns[2] = {0};
    selene_prefix *prefix = NULL;
    for (uint64_t i = 0; i < tokens; i++)
        engine->tokens[i] = (uint32_t)(sel_mix64(i + ((uint64_t)round << 40)) % 150000);
    int rc = selene_prefix_create(&prefix, engine->store, NULL, 0);
    if (rc == 0)
        rc = selene_prefix_append(prefix, engine->tokens, tokens);
    rates[MEMCPY] = bench_plain_copy(engine->copy_to, engine->device, engine->payload_bytes, false, threads);
    rates[STREAMING] = bench_plain_copy(engine->copy_to, engine->device, engine->payload_bytes, true, threads);
    if (rc == 0)
        rc = publish(engine, prefix, tokens, &ns[0]);
    if (rc == 0)
        rc = restore(engine, prefix, tokens, &ns[1]);
    if (rc == 0 && round == 0 && !is_right(engine))
        rc = SELENE_E_CORRUPT;
    rates[PUBLISH] = bench_gb_per_s(engine->payload_bytes, ns[0]);
    rates[RESTORE] = bench_gb_per_s(engine->payload_bytes, ns[1]);
    selene_prefix_destroy(&prefix);
    return rc ? sel_fail(message, rc, "memory: publish and restore, round %u: %s", round, selene_error_text(rc)) : 0;
}

/* A record that differs only in its last byte is read twice: no goal. */
static void report(struct bench *bench, const struct shape *shape, const struct bench_series series[KINDS]) {
    struct bench_series best = bench_faster(&series[MEMCPY], &series[STREAMING]);
    struct bench_series out = bench_divide(&series[PUBLISH], &best), in = bench_divide(&series[RESTORE], &best);
    if (shape->ranks == 1) {
        bench_value(bench, &best, "GB/s", "%s: the faster plain copy", shape->name);
        bench_value(bench, &series[PUBLISH], "GB/s", "%s: selene_publish, call to event", shape->name);
        bench_value(bench, &series[RESTORE], "GB/s", "%s: selene_restore, call to event", shape->name);
    }
    if (shape->likeness == LAST_DIFFERS)
        bench_value(bench, &out, "ratio", "%s: publish : faster copy", shape->name);
    else
        bench_goal(bench, &out, "ratio", "P2", BENCH_AT_LEAST, 0.8, "%s: publish : faster copy", shape->name);
    bench_goal(bench, &in, "ratio", "P2", BENCH_AT_LEAST, 0.8, "%s: restore : faster copy", shape->name);
}

/* That the store packed what is alike, and nothing else. */
static int check_packed(struct engine *engine, struct selene_message *message) {
    struct selene_stats stats = {0};
    int rc = selene_get_stats(engine->store, &stats, sizeof stats);
    bool expected = engine->shape->ranks > 1 && engine->shape->likeness == ALIKE;
    if (rc == 0 && (stats.packed_records[SELENE_TIER_MEMORY] > 0) != expected)
        rc = sel_fail(message, SELENE_E_CORRUPT, "memory: ranks were not packed as they are");
    return rc;
}

static int run_shape(struct bench *bench, const struct shape *shape, struct selene_message *message) {
    const struct bench_options *options = bench_options(bench);
    struct engine engine = {.shape = shape};
    struct bench_series series[KINDS] = {0};
    int rc = open_engine(&engine, options, NULL, message);
    /* Two rounds before those that count: by then every slot was used once. */
    for (unsigned round = 0; rc == 0 && round < options->rounds + 2; round++) {
        double rates[KINDS] = {0};
        rc = one_round(&engine, round, options->threads, rates, message);
        for (unsigned kind = 0; kind < KINDS && round >= 2; kind++)
            bench_add(&series[kind], rates[kind]);
    }
    if (rc == 0)
        rc = check_packed(&engine, message);
    if (rc == 0)
        report(bench, shape, series);
    close_engine(&engine);
    return rc;
}

int bench_engine_memory(struct bench *bench, struct selene_message *message) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < SEL_COUNT(shapes); i++)
        rc = run_shape(bench, &shapes[i], message);
    return rc;
}

/* ---- nothing to do ---- */

#define IDLE_POLLS 200000

int bench_engine_idle(struct bench *bench, struct selene_message *message) {
    static const struct shape small = {"", 1, 1, 65536, ALIKE};
    struct bench_options options = *bench_options(bench);
    const char *scratch = bench_scratch(bench, message);
    struct engine engine = {.shape = &small};
    struct bench_series series = {.count = 0};
    struct selene_event event;
    char path[4200];
    if (scratch == NULL)
        return SELENE_E_IO;
    snprintf(path, sizeof path, "%s/idle", scratch);
    options.bytes = UINT64_C(16) << 20;
    double rates[KINDS];
    int rc = open_engine(&engine, &options, path, message);
    if (rc == 0)
        rc = one_round(&engine, 0, options.threads, rates, message);
    for (unsigned round = 0; rc == 0 && round <= options.rounds; round++) {
        uint64_t from = bench_now_ns();
        for (unsigned i = 0; rc == 0 && i < IDLE_POLLS; i++)
            rc = selene_poll(engine.store, &event, 1);
        if (round > 0)
            bench_add(&series, (double)(bench_now_ns() - from) / IDLE_POLLS);
    }
    if (rc == 0)
        bench_goal(bench, &series, "ns", "P10", BENCH_AT_MOST, 1000, "selene_poll, idle, memory and disk tier");
    else
        (void)sel_fail(message, rc, "index: an idle store: %s", selene_error_text(rc));
    close_engine(&engine);
    bench_scratch_remove(path);
    return rc;
}
