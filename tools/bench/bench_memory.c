/* SPDX-License-Identifier: Apache-2.0
 *
 * Group `memory`: the host device's copies between paged memory and slots, checksums made on the way out and verified on
 * the way in, beside memcpy and a streaming copy of as many bytes by as many threads [P2]. Pages lie scattered, as an
 * engine's do; the copies they are compared with are contiguous, in one piece a thread.
 */
#include "tools/bench/bench_memory.h"
#include "tools/bench/bench_engine.h"

#include "base/check.h"
#include "gpu/device.h"
#include "tools/bench/bench_wait.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the yardsticks ---- */

struct plain {
    uint8_t *to;
    const uint8_t *from;
    uint64_t bytes;
    bool streaming;
};

static void copy_part(void *context, unsigned i, unsigned count) {
    const struct plain *plain = context;
    uint64_t step = (plain->bytes / count) & ~UINT64_C(4095), at = step * i;
    uint64_t bytes = i + 1 == count ? plain->bytes - at : step;
    if (plain->streaming)
        bench_copy_streaming(plain->to + at, plain->from + at, bytes);
    else
        memcpy(plain->to + at, plain->from + at, bytes);
}

double bench_plain_copy(void *to, const void *from, uint64_t bytes, bool streaming, unsigned threads) {
    struct plain plain = {.to = to, .from = from, .bytes = bytes, .streaming = streaming};
    return bench_gb_per_s(bytes, bench_parallel(threads, copy_part, &plain));
}

/* ---- the device ---- */

static const struct shape {
    const char *name;
    uint32_t plane_count;
    uint32_t plane_bytes;
} shapes[] = {
    {"planes of 128 KiB", 72, 131072},
    {"planes of 16 KiB", 64, 16384},
    {"planes of 4 KiB", 64, 4096},
};

struct rig {
    struct bench_wait wait;
    struct sel_workers *workers;
    struct sel_layout *layout;
    struct sel_device *device;
    struct sel_device_plane *planes;
    struct sel_copy_item *items;
    uint64_t *sums;
    uint8_t *slots, *pages;
    uint64_t buffer_bytes, payload_bytes;
    size_t count; /* of items */
};

static int rig_layout(struct rig *rig, const struct shape *shape, struct selene_message *message) {
    struct selene_plane *planes = calloc(shape->plane_count, sizeof *planes);
    if (planes == NULL)
        return SELENE_E_NOMEM;
    for (uint32_t i = 0; i < shape->plane_count; i++)
        planes[i] = (struct selene_plane){
            .bytes = shape->plane_bytes, .entry_tokens = 1, .entry_bytes = shape->plane_bytes / 64};
    const struct selene_layout desc = {.page_tokens = 64,
                                       .rank_count = 1,
                                       .plane_count = shape->plane_count,
                                       .planes = planes,
                                       .description = "selene-bench",
                                       .description_bytes = 12};
    int rc = sel_layout_create(&rig->layout, &desc, message);
    free(planes);
    return rc;
}

/* Block i of plane p lies at p's base plus i times the plane's size: each plane is one array of blocks. The blocks that
 * items name are shuffled. */
static int rig_items(struct rig *rig, const struct shape *shape) {
    rig->planes = calloc(shape->plane_count, sizeof *rig->planes);
    rig->items = calloc(rig->count, sizeof *rig->items);
    rig->sums = calloc(rig->count, sizeof *rig->sums);
    if (!rig->planes || !rig->items || !rig->sums)
        return SELENE_E_NOMEM;
    for (uint32_t p = 0; p < shape->plane_count; p++)
        rig->planes[p] = (struct sel_device_plane){.base = rig->pages + (uint64_t)p * rig->count * shape->plane_bytes,
                                                   .stride = shape->plane_bytes};
    for (size_t i = 0; i < rig->count; i++) {
        size_t block = i * 7919 % rig->count; /* 7919 is prime: another block each unless it divides the count */
        rig->items[i] = (struct sel_copy_item){.slot = rig->slots + i * rig->layout->slot_bytes,
                                               .block = (uint32_t)(rig->count % 7919 ? block : i),
                                               .tokens = 64,
                                               .sums = &rig->sums[i]};
    }
    return 0;
}

static void rig_destroy(struct rig *rig) {
    if (rig->device)
        rig->device->ops->destroy(rig->device);
    sel_workers_destroy(&rig->workers);
    sel_layout_destroy(&rig->layout);
    bench_wait_destroy(&rig->wait);
    free(rig->planes);
    free(rig->items);
    free(rig->sums);
    bench_memory_free(rig->slots, rig->buffer_bytes);
    bench_memory_free(rig->pages, rig->buffer_bytes);
}

static int rig_create(struct rig *rig, const struct shape *shape, const struct bench_options *options,
                      struct selene_message *message) {
    *rig = (struct rig){0};
    bench_wait_init(&rig->wait);
    int rc = rig_layout(rig, shape, message);
    if (rc)
        return rc;
    rig->count = SEL_MAX(options->bytes / rig->layout->slot_bytes, 1);
    rig->buffer_bytes = rig->count * rig->layout->slot_bytes;
    rig->payload_bytes = rig->count * rig->layout->page_bytes;
    rig->slots = bench_memory(rig->buffer_bytes, 3);
    rig->pages = bench_memory(rig->buffer_bytes, 4);
    rc = rig->slots && rig->pages ? rig_items(rig, shape) : SELENE_E_NOMEM;
    if (rc == 0)
        rc = sel_workers_create_threads(&rig->workers, "bench", options->threads);
    if (rc == 0)
        rc = sel_device_host_create(&rig->device, rig->layout, rig->workers, &rig->wait.ready);
    return rc ? sel_fail(message, rc, "memory: setting up copies of %" PRIu64 " bytes", rig->buffer_bytes) : 0;
}

static int rig_copy(struct rig *rig, enum sel_copy_direction direction, double *rate, struct selene_message *message) {
    struct sel_copy copy = {.direction = direction,
                            .items = rig->items,
                            .item_count = rig->count,
                            .planes = rig->planes,
                            .block_limit = (uint32_t)rig->count};
    sel_op_init(&copy.op, bench_op_done);
    uint64_t from = bench_now_ns();
    rig->device->ops->submit(rig->device, &copy);
    while (copy.op.in_flight) {
        rig->device->ops->poll(rig->device);
        (void)bench_wait_for(&rig->wait, &copy.op);
    }
    *rate = bench_gb_per_s(rig->payload_bytes, bench_now_ns() - from);
    return copy.op.result
               ? sel_fail(message, copy.op.result, "memory: a copy failed: %s", sel_error_text(copy.op.result))
               : 0;
}

enum { MEMCPY, STREAMING, OUT, IN, KINDS };

static int measure(struct rig *rig, const struct bench_options *options, struct bench_series series[KINDS],
                   struct selene_message *message) {
    int rc = 0;
    for (unsigned round = 0; rc == 0 && round <= options->rounds; round++) {
        double rates[KINDS] = {0};
        rates[MEMCPY] = bench_plain_copy(rig->slots, rig->pages, rig->payload_bytes, false, options->threads);
        rates[STREAMING] = bench_plain_copy(rig->slots, rig->pages, rig->payload_bytes, true, options->threads);
        rc = rig_copy(rig, SEL_COPY_OUT, &rates[OUT], message);
        if (rc == 0)
            rc = rig_copy(rig, SEL_COPY_IN, &rates[IN], message);
        for (unsigned kind = 0; kind < KINDS && round > 0; kind++)
            bench_add(&series[kind], rates[kind]);
    }
    return rc;
}

struct bench_series bench_faster(const struct bench_series *a, const struct bench_series *b) {
    return bench_median(a) >= bench_median(b) ? *a : *b;
}

static int run_shape(struct bench *bench, const struct shape *shape, struct selene_message *message) {
    struct rig rig;
    struct bench_series series[KINDS] = {0};
    int rc = rig_create(&rig, shape, bench_options(bench), message);
    if (rc == 0)
        rc = measure(&rig, bench_options(bench), series, message);
    if (rc == 0) {
        struct bench_series best = bench_faster(&series[MEMCPY], &series[STREAMING]);
        struct bench_series out = bench_divide(&series[OUT], &best), in = bench_divide(&series[IN], &best);
        bench_value(bench, &series[MEMCPY], "GB/s", "%s: memcpy", shape->name);
        bench_value(bench, &series[STREAMING], "GB/s", "%s: streaming copy", shape->name);
        bench_value(bench, &series[OUT], "GB/s", "%s: device copy out, checksums made", shape->name);
        bench_value(bench, &series[IN], "GB/s", "%s: device copy in, checksums verified", shape->name);
        bench_goal(bench, &out, "ratio", "P2", BENCH_AT_LEAST, 0.8, "%s: out : faster copy", shape->name);
        bench_goal(bench, &in, "ratio", "P2", BENCH_AT_LEAST, 0.8, "%s: in : faster copy", shape->name);
    }
    rig_destroy(&rig);
    return rc;
}

int bench_memory_group(struct bench *bench, struct selene_message *message) {
    bench_group(bench, "memory", "publish and restore in memory, beside plain copies by as many threads");
    bench_note(bench, "%u threads; device copies gather and scatter pages, plain copies are contiguous",
               bench_options(bench)->threads);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < SEL_COUNT(shapes); i++)
        rc = run_shape(bench, &shapes[i], message);
    return rc ? rc : bench_engine_memory(bench, message);
}
