/* SPDX-License-Identifier: Apache-2.0
 *
 * A host device with pages and slots (bench_rig.h).
 */
#include "tools/bench/bench_rig.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const struct bench_shape bench_shapes[BENCH_SHAPES] = {
    {"planes of 128 KiB", 72, 131072},
    {"planes of 16 KiB", 64, 16384},
    {"planes of 4 KiB", 64, 4096},
};

static int create_layout(struct bench_rig *rig, const struct bench_shape *shape, struct selene_message *message) {
    struct selene_plane *planes = calloc(shape->plane_count, sizeof *planes);
    if (planes == NULL)
        return SELENE_E_NOMEM;
    for (uint32_t i = 0; i < shape->plane_count; i++)
        planes[i] = (struct selene_plane){
            .bytes = shape->plane_bytes, .entry_tokens = 1, .entry_bytes = shape->plane_bytes / 64};
    const struct selene_layout desc = {.page_tokens = 64,
                                       .rank_count = rig->ranks,
                                       .plane_count = shape->plane_count,
                                       .planes = planes,
                                       .description = "selene-bench",
                                       .description_bytes = 12};
    int rc = sel_layout_create(&rig->layout, &desc, message);
    free(planes);
    return rc;
}

/* Block i of plane p lies at p's base plus i times the plane's size: each plane of each rank is one array of blocks. The
 * blocks that items name are shuffled. */
static int create_items(struct bench_rig *rig, const struct bench_shape *shape) {
    size_t planes = (size_t)rig->ranks * shape->plane_count;
    rig->planes = calloc(planes, sizeof *rig->planes);
    rig->items = calloc(rig->count, sizeof *rig->items);
    rig->sums = calloc(rig->count * rig->ranks, sizeof *rig->sums);
    if (!rig->planes || !rig->items || !rig->sums)
        return SELENE_E_NOMEM;
    for (size_t p = 0; p < planes; p++)
        rig->planes[p] = (struct sel_device_plane){.base = rig->pages + p * rig->count * shape->plane_bytes,
                                                   .stride = shape->plane_bytes};
    for (size_t i = 0; i < rig->count; i++) {
        size_t block = i * 7919 % rig->count; /* 7919 is prime: another block each unless it divides the count */
        rig->items[i] = (struct sel_copy_item){.slot = rig->slots + i * rig->layout->slot_bytes,
                                               .block = (uint32_t)(rig->count % 7919 ? block : i),
                                               .tokens = 64,
                                               .sums = &rig->sums[i * rig->ranks]};
    }
    return 0;
}

void bench_rig_destroy(struct bench_rig *rig) {
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

int bench_rig_create(struct bench_rig *rig, const struct bench_shape *shape, uint32_t ranks,
                     const struct bench_options *options, struct selene_message *message) {
    *rig = (struct bench_rig){.ranks = ranks};
    bench_wait_init(&rig->wait);
    int rc = create_layout(rig, shape, message);
    if (rc)
        return rc;
    rig->count = SEL_MAX(options->bytes / rig->layout->slot_bytes, 1);
    rig->buffer_bytes = rig->count * rig->layout->slot_bytes;
    rig->payload_bytes = rig->count * rig->layout->page_bytes * ranks;
    rig->slots = bench_memory(rig->buffer_bytes, 3);
    rig->pages = bench_memory(rig->buffer_bytes, 4);
    rc = rig->slots && rig->pages ? create_items(rig, shape) : SELENE_E_NOMEM;
    if (rc == 0)
        rc = sel_workers_create_threads(&rig->workers, "bench", options->threads);
    if (rc == 0)
        rc = sel_device_host_create(&rig->device, rig->layout, rig->workers, &rig->wait.ready);
    return rc ? sel_fail(message, rc, "memory: setting up copies of %" PRIu64 " bytes", rig->buffer_bytes) : 0;
}

static int wait_for(struct bench_rig *rig, struct sel_op *op, const char *what, struct selene_message *message) {
    while (op->in_flight) {
        rig->device->ops->poll(rig->device);
        (void)bench_wait_for(&rig->wait, op);
    }
    return op->result ? sel_fail(message, op->result, "memory: %s failed: %s", what, sel_error_text(op->result)) : 0;
}

int bench_rig_copy(struct bench_rig *rig, enum sel_copy_direction direction, bool packed, uint64_t *ns,
                   struct selene_message *message) {
    struct sel_copy copy = {.direction = direction,
                            .replicated = packed,
                            .items = rig->items,
                            .item_count = rig->count,
                            .planes = rig->planes,
                            .block_limit = (uint32_t)rig->count};
    uint64_t step = packed ? rig->layout->share_bytes : rig->layout->slot_bytes;
    for (size_t i = 0; i < rig->count; i++)
        rig->items[i].slot = rig->slots + i * step;
    sel_op_init(&copy.op, bench_op_done);
    uint64_t from = bench_now_ns();
    rig->device->ops->submit(rig->device, &copy);
    int rc = wait_for(rig, &copy.op, "a copy", message);
    *ns += bench_now_ns() - from;
    return rc;
}

int bench_rig_compare(struct bench_rig *rig, bool *identical, uint64_t *ns, struct selene_message *message) {
    struct sel_compare compare = {
        .items = rig->items, .item_count = rig->count, .planes = rig->planes, .block_limit = (uint32_t)rig->count};
    sel_op_init(&compare.op, bench_op_done);
    uint64_t from = bench_now_ns();
    rig->device->ops->compare(rig->device, &compare);
    int rc = wait_for(rig, &compare.op, "a comparison", message);
    *ns += bench_now_ns() - from;
    *identical = compare.identical;
    return rc;
}
