/* SPDX-License-Identifier: Apache-2.0
 *
 * A device with memory, slots and a layout, and an independent idea of what a share should hold. Everything around the
 * bytes that a copy may write is filled with GUARD.
 */
#ifndef SEL_TESTS_GPU_WORLD_H
#define SEL_TESTS_GPU_WORLD_H

#include "base/random.h"
#include "gpu/device.h"
#include "tests/lib/test.h"

#define GUARD 0xa5

struct world {
    struct sel_layout *layout;
    struct sel_workers *workers;
    struct sel_ready ready;
    struct sel_device *device;
    struct sel_random random;
    uint32_t blocks;
    uint8_t *arena; /* all planes and rows of the device */
    size_t arena_bytes;
    struct sel_device_plane *planes;
    void **rows;
    uint8_t *slots; /* `slot_count` slots */
    size_t slot_count;
    struct sel_copy copy;
    bool done;
};

/* A random layout of small planes; `threads` 0: inline workers. */
void world_create(struct world *world, uint64_t seed, unsigned threads);
/* The same with a given layout. */
void world_create_with(struct world *world, uint64_t seed, unsigned threads, const struct selene_layout *desc);
void world_destroy(struct world *world);

uint8_t *world_slot(const struct world *world, size_t slot);
uint8_t *world_plane(const struct world *world, uint32_t rank, uint32_t plane, uint32_t block);
void world_fill_random(struct world *world, void *bytes, size_t count);

/* Prepares world->copy for `items`. */
void world_prepare(struct world *world, enum sel_copy_direction direction, struct sel_copy_item *items, size_t count);
/* Polls until the copy is done and returns its result. */
int world_finish(struct world *world);
int world_copy(struct world *world); /* submit and finish */

/* What a share should hold, padding included, by reading the device byte by byte; and its checksum, block by block. */
void world_expect_share(const struct world *world, uint32_t rank, uint32_t block, uint32_t tokens, uint8_t *share);
uint64_t world_expect_sum(const struct world *world, const uint8_t *share);

#endif
