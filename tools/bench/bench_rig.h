/* SPDX-License-Identifier: Apache-2.0
 *
 * A host device with scattered pages of R ranks and the slots that they are copied to, for the memory group.
 */
#ifndef SEL_TOOLS_BENCH_RIG_H
#define SEL_TOOLS_BENCH_RIG_H

#include "gpu/device.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_wait.h"

#define BENCH_SHAPES 3
struct bench_shape {
    const char *name;
    uint32_t plane_count;
    uint32_t plane_bytes;
};
extern const struct bench_shape bench_shapes[BENCH_SHAPES];

struct bench_rig {
    struct bench_wait wait;
    uint32_t ranks;
    struct sel_workers *workers;
    struct sel_layout *layout;
    struct sel_device *device;
    struct sel_device_plane *planes;
    struct sel_copy_item *items; /* every block once */
    uint64_t *sums;
    uint8_t *slots, *pages;
    uint64_t buffer_bytes, payload_bytes; /* of all ranks */
    size_t count;                         /* of items */
};

/* --bytes of pages and as many of slots. Destroy what was half made, too. */
int bench_rig_create(struct bench_rig *rig, const struct bench_shape *shape, uint32_t ranks,
                     const struct bench_options *options, struct selene_message *message);
void bench_rig_destroy(struct bench_rig *rig);

/* Each adds the time from the call to the completion to `*ns`. Packed: one share a page, of rank 0 or to all ranks. */
int bench_rig_copy(struct bench_rig *rig, enum sel_copy_direction direction, bool packed, uint64_t *ns,
                   struct selene_message *message);
int bench_rig_compare(struct bench_rig *rig, bool *identical, uint64_t *ns, struct selene_message *message);

#endif
