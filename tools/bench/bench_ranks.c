/* SPDX-License-Identifier: Apache-2.0
 *
 * Group `memory`, four ranks on the host device [K1]. Alike: compared, then one share copied out; and one share copied to
 * all ranks. Not alike, in the first byte or in the last one compared: compared, then all shares copied out. Rates and
 * ratios count the bytes of all ranks, and so does the plain copy that they stand beside: what a store without packing
 * would have to move.
 */
#include "tools/bench/bench_memory.h"
#include "tools/bench/bench_rig.h"

#include "base/check.h"

#include <string.h>

#define RANKS 4

enum { MEMCPY, STREAMING, COMPARE, ALIKE_OUT, ALIKE_IN, PLAIN_OUT, FIRST_OUT, LAST_OUT, PLAIN_IN, KINDS };

static void make_alike(struct bench_rig *rig) {
    uint64_t bytes = rig->payload_bytes / RANKS;
    for (uint32_t r = 1; r < RANKS; r++)
        memcpy(rig->pages + r * bytes, rig->pages, bytes);
}

/* Compares and copies out what the answer says; `expected` is the right one. */
static int publish(struct bench_rig *rig, bool expected, uint64_t *compare_ns, uint64_t *ns,
                   struct selene_message *message) {
    bool identical = !expected;
    int rc = bench_rig_compare(rig, &identical, compare_ns, message);
    *ns += *compare_ns;
    if (rc == 0 && identical != expected)
        rc = sel_fail(message, SELENE_E_CORRUPT, "memory: a comparison gave the wrong answer");
    return rc ? rc : bench_rig_copy(rig, SEL_COPY_OUT, identical, ns, message);
}

/* With one byte of the last rank changed: of the first page's first plane or of the last page's last one. */
static int publish_different(struct bench_rig *rig, bool last, uint64_t *ns, struct selene_message *message) {
    const struct selene_layout *desc = &rig->layout->desc;
    const struct sel_device_plane *plane = &rig->planes[(RANKS - 1) * desc->plane_count];
    uint8_t *byte = (uint8_t *)plane->base + plane->stride * rig->items[0].block;
    if (last) {
        plane += desc->plane_count - 1;
        byte = (uint8_t *)plane->base + plane->stride * (rig->items[rig->count - 1].block + 1) - 1;
    }
    uint64_t compare_ns = 0;
    *byte ^= 1;
    int rc = publish(rig, false, &compare_ns, ns, message);
    *byte ^= 1;
    return rc;
}

static int one_round(struct bench_rig *rig, unsigned threads, double rates[KINDS], struct selene_message *message) {
    uint64_t ns[KINDS] = {0};
    rates[MEMCPY] = bench_plain_copy(rig->slots, rig->pages, rig->payload_bytes, false, threads);
    rates[STREAMING] = bench_plain_copy(rig->slots, rig->pages, rig->payload_bytes, true, threads);
    int rc = publish(rig, true, &ns[COMPARE], &ns[ALIKE_OUT], message);
    if (rc == 0)
        rc = bench_rig_copy(rig, SEL_COPY_IN, true, &ns[ALIKE_IN], message);
    if (rc == 0)
        rc = bench_rig_copy(rig, SEL_COPY_OUT, false, &ns[PLAIN_OUT], message);
    if (rc == 0)
        rc = bench_rig_copy(rig, SEL_COPY_IN, false, &ns[PLAIN_IN], message);
    if (rc == 0)
        rc = publish_different(rig, false, &ns[FIRST_OUT], message);
    if (rc == 0)
        rc = publish_different(rig, true, &ns[LAST_OUT], message);
    for (unsigned kind = COMPARE; kind < KINDS; kind++)
        rates[kind] = bench_gb_per_s(rig->payload_bytes, ns[kind]);
    return rc;
}

static const struct {
    unsigned kind;
    bool goal;
    const char *name;
} rows[] = {
    {ALIKE_OUT, true, "alike: compare, one share out"},       {ALIKE_IN, true, "alike: one share in, to all"},
    {PLAIN_OUT, true, "all shares out, not compared"},        {FIRST_OUT, true, "first byte differs: compare, all out"},
    {LAST_OUT, false, "last byte differs: compare, all out"}, {PLAIN_IN, true, "all shares in"},
};

static void report(struct bench *bench, const struct bench_shape *shape, const struct bench_series series[KINDS]) {
    struct bench_series best = bench_faster(&series[MEMCPY], &series[STREAMING]);
    bench_value(bench, &best, "GB/s", "4 ranks, %s: the faster plain copy", shape->name);
    bench_value(bench, &series[COMPARE], "GB/s", "4 ranks, %s: alike: compare alone", shape->name);
    for (size_t i = 0; i < SEL_COUNT(rows); i++) {
        struct bench_series ratio = bench_divide(&series[rows[i].kind], &best);
        if (rows[i].goal)
            bench_goal(bench, &ratio, "ratio", "P2", BENCH_AT_LEAST, 0.8, "4 ranks, %s: %s", shape->name, rows[i].name);
        else
            bench_value(bench, &ratio, "ratio", "4 ranks, %s: %s", shape->name, rows[i].name);
    }
}

int bench_ranks(struct bench *bench, struct selene_message *message) {
    const struct bench_options *options = bench_options(bench);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < BENCH_SHAPES; i++) {
        struct bench_rig rig;
        struct bench_series series[KINDS] = {0};
        rc = bench_rig_create(&rig, &bench_shapes[i], RANKS, options, message);
        if (rc == 0)
            make_alike(&rig);
        for (unsigned round = 0; rc == 0 && round <= options->rounds; round++) {
            double rates[KINDS] = {0};
            rc = one_round(&rig, options->threads, rates, message);
            for (unsigned kind = 0; kind < KINDS && round > 0; kind++)
                bench_add(&series[kind], rates[kind]);
        }
        if (rc == 0)
            report(bench, &bench_shapes[i], series);
        bench_rig_destroy(&rig);
    }
    bench_note(bench,
               "4 ranks: rates and ratios count the bytes of all ranks, the plain copy's too. Ranks that differ only "
               "in the last byte are the worst case, read twice: no goal");
    return rc;
}
