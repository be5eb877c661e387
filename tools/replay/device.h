/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's device memory: blocks of one page each, given out and taken back by number, as a paged KV cache does.
 * It is host memory here, one mapping a rank; a block's planes lie packed one after another.
 */
#ifndef SELENE_REPLAY_DEVICE_H
#define SELENE_REPLAY_DEVICE_H

#include "tools/replay/replay.h"

struct device {
    const struct kv *kv;
    uint8_t **shares; /* [rank]: the mapping */
    uint64_t mapping_bytes;
    uint32_t block_count;
    uint32_t *free_blocks; /* a stack */
    uint32_t free_count;
    struct selene_plane_memory *planes; /* [rank * plane_count + plane], for the store */
};

int device_open(struct device *device, const struct kv *kv, uint64_t block_count, struct selene_message *message);
void device_close(struct device *device); /* half-built ones too */

/* `count` blocks into `blocks`; false: not that many are free (none is taken). */
bool device_take(struct device *device, uint32_t *blocks, uint32_t count);
void device_give(struct device *device, const uint32_t *blocks, uint32_t count);
/* Fills blocks with KV_POISON, so that nothing read later can be left over from an earlier request. */
void device_poison(struct device *device, const uint32_t *blocks, uint32_t count);

static inline uint8_t *device_share(const struct device *device, uint32_t rank, uint32_t block) {
    return device->shares[rank] + (uint64_t)block * device->kv->block_bytes;
}

#endif
