/* SPDX-License-Identifier: Apache-2.0
 *
 * Group `memory`: the host device's copies between paged memory and slots, checksums made on the way out and verified on
 * the way in, beside memcpy and a streaming copy of as many bytes by as many threads [P2]. Pages lie scattered, as an
 * engine's do; the copies they are compared with are contiguous, in one piece a thread.
 */
#include "tools/bench/bench_memory.h"
#include "tools/bench/bench_engine.h"
#include "tools/bench/bench_rig.h"

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

/* The streaming copy of what the device copies, piece by piece, no checksums: tells what lies in the scattering alone. */
static void gather_part(void *context, unsigned i, unsigned count) {
    const struct bench_rig *rig = context;
    const struct sel_layout *layout = rig->layout;
    for (size_t at = rig->count * i / count; at < rig->count * (i + 1) / count; at++)
        for (uint32_t p = 0; p < layout->desc.plane_count; p++)
            bench_copy_streaming(rig->slots + at * layout->slot_bytes + layout->plane_offset[p],
                                 (const uint8_t *)rig->planes[p].base + rig->planes[p].stride * rig->items[at].block,
                                 layout->desc.planes[p].bytes);
}

enum { MEMCPY, STREAMING, GATHER, OUT, IN, KINDS };

static int measure(struct bench_rig *rig, const struct bench_options *options, struct bench_series series[KINDS],
                   struct selene_message *message) {
    int rc = 0;
    for (unsigned round = 0; rc == 0 && round <= options->rounds; round++) {
        double rates[KINDS] = {0};
        rates[MEMCPY] = bench_plain_copy(rig->slots, rig->pages, rig->payload_bytes, false, options->threads);
        rates[STREAMING] = bench_plain_copy(rig->slots, rig->pages, rig->payload_bytes, true, options->threads);
        rates[GATHER] = bench_gb_per_s(rig->payload_bytes, bench_parallel(options->threads, gather_part, rig));
        uint64_t ns[2] = {0};
        rc = bench_rig_copy(rig, SEL_COPY_OUT, false, &ns[0], message);
        if (rc == 0)
            rc = bench_rig_copy(rig, SEL_COPY_IN, false, &ns[1], message);
        rates[OUT] = bench_gb_per_s(rig->payload_bytes, ns[0]);
        rates[IN] = bench_gb_per_s(rig->payload_bytes, ns[1]);
        for (unsigned kind = 0; kind < KINDS && round > 0; kind++)
            bench_add(&series[kind], rates[kind]);
    }
    return rc;
}

struct bench_series bench_faster(const struct bench_series *a, const struct bench_series *b) {
    return bench_median(a) >= bench_median(b) ? *a : *b;
}

static int run_shape(struct bench *bench, const struct bench_shape *shape, struct selene_message *message) {
    struct bench_rig rig;
    struct bench_series series[KINDS] = {0};
    int rc = bench_rig_create(&rig, shape, 1, bench_options(bench), message);
    if (rc == 0)
        rc = measure(&rig, bench_options(bench), series, message);
    if (rc == 0) {
        struct bench_series best = bench_faster(&series[MEMCPY], &series[STREAMING]);
        struct bench_series out = bench_divide(&series[OUT], &best), in = bench_divide(&series[IN], &best);
        bench_value(bench, &series[MEMCPY], "GB/s", "%s: memcpy", shape->name);
        bench_value(bench, &series[STREAMING], "GB/s", "%s: streaming copy", shape->name);
        bench_value(bench, &series[GATHER], "GB/s", "%s: streaming copy, scattered likewise", shape->name);
        bench_value(bench, &series[OUT], "GB/s", "%s: device copy out, checksums made", shape->name);
        bench_value(bench, &series[IN], "GB/s", "%s: device copy in, checksums verified", shape->name);
        bench_goal(bench, &out, "ratio", "P2", BENCH_AT_LEAST, 0.8, "%s: out : faster copy", shape->name);
        bench_goal(bench, &in, "ratio", "P2", BENCH_AT_LEAST, 0.8, "%s: in : faster copy", shape->name);
    }
    bench_rig_destroy(&rig);
    return rc;
}

int bench_memory_group(struct bench *bench, struct selene_message *message) {
    bench_group(bench, "memory", "publish and restore in memory, beside plain copies by as many threads");
    bench_note(bench, "%u threads; device copies gather and scatter pages, plain copies are contiguous",
               bench_options(bench)->threads);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < BENCH_SHAPES; i++)
        rc = run_shape(bench, &bench_shapes[i], message);
    if (rc == 0)
        rc = bench_ranks(bench, message);
    return rc ? rc : bench_engine_memory(bench, message);
}
