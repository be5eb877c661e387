/* SPDX-License-Identifier: Apache-2.0
 *
 * The world of the device tests, see gpu_world.h: setting it up, filling it, and what should be where.
 */
#include "tests/unit/gpu/gpu_world.h"

#include "base/checksum.h"

#include <sched.h>

#define PLANES_MAX 9

static void random_desc(struct sel_random *random, struct selene_layout *desc, struct selene_plane *planes) {
    static const uint32_t page_tokens[] = {1, 4, 16, 64, 256};
    static const uint64_t scales[] = {70, 5000, 40000};
    *desc = (struct selene_layout){.planes = planes};
    desc->page_tokens = page_tokens[sel_random_below(random, 5)];
    desc->rank_count = 1 + (uint32_t)sel_random_below(random, 3);
    desc->plane_count = 1 + (uint32_t)sel_random_below(random, PLANES_MAX);
    for (uint32_t p = 0; p < desc->plane_count; p++) {
        struct selene_plane *plane = &planes[p];
        plane->bytes = 1 + sel_random_below(random, scales[sel_random_below(random, 3)]);
        plane->entry_tokens = plane->entry_bytes = 0;
        if (plane->bytes < desc->page_tokens || sel_random_below(random, 4) == 0)
            continue;
        plane->entry_tokens = desc->page_tokens >= 4 && sel_random_below(random, 3) == 0 ? 4 : 1;
        plane->entry_bytes = (uint32_t)(plane->bytes / (desc->page_tokens / plane->entry_tokens));
    }
    desc->row_bytes = 1 + sel_random_below(random, 100000);
}

void world_create(struct world *world, uint64_t seed, unsigned threads) {
    struct selene_plane planes[PLANES_MAX];
    struct selene_layout desc;
    struct sel_random random;
    sel_random_seed(&random, seed);
    random_desc(&random, &desc, planes);
    world_create_with(world, seed, threads, &desc);
}

/* Every plane has its own stride and an odd address; blocks keep a gap between them. */
static void place_planes(struct world *world) {
    const struct selene_layout *desc = &world->layout->desc;
    size_t plane_count = (size_t)desc->rank_count * desc->plane_count, at = 64;
    uint64_t offsets[SELENE_RANKS_MAX * 16], row_offsets[SELENE_RANKS_MAX];
    assert_true(plane_count <= SEL_COUNT(offsets));
    world->planes = calloc(plane_count, sizeof *world->planes);
    world->rows = calloc(desc->rank_count, sizeof *world->rows);
    for (size_t i = 0; i < plane_count; i++) {
        uint64_t bytes = desc->planes[i % desc->plane_count].bytes;
        world->planes[i].stride = bytes + sel_random_below(&world->random, 100);
        offsets[i] = at + sel_random_below(&world->random, 70);
        at = offsets[i] + world->planes[i].stride * world->blocks + 64;
    }
    for (uint32_t r = 0; r < desc->rank_count; r++) {
        row_offsets[r] = at + sel_random_below(&world->random, 70);
        at = row_offsets[r] + desc->row_bytes + 64;
    }
    world->arena_bytes = at;
    world->arena = malloc(at);
    assert_non_null(world->arena);
    for (size_t i = 0; i < plane_count; i++)
        world->planes[i].base = world->arena + offsets[i];
    for (uint32_t r = 0; r < desc->rank_count; r++)
        world->rows[r] = world->arena + row_offsets[r];
}

void world_create_with(struct world *world, uint64_t seed, unsigned threads, const struct selene_layout *desc) {
    struct selene_message message = {{0}};
    memset(world, 0, sizeof *world);
    sel_random_seed(&world->random, ~seed);
    assert_ok(sel_layout_create(&world->layout, desc, &message));
    sel_ready_init(&world->ready, NULL, NULL);
    assert_ok(threads ? sel_workers_create_threads(&world->workers, "test", threads)
                      : sel_workers_create_inline(&world->workers));
    assert_ok(sel_device_host_create(&world->device, world->layout, world->workers, &world->ready));
    world->blocks = 6;
    place_planes(world);
    world->slot_count = 6 + world->layout->row_slots;
    world->slots = aligned_alloc(SEL_BLOCK_BYTES, world->slot_count * world->layout->slot_bytes);
    assert_non_null(world->slots);
    memset(world->arena, GUARD, world->arena_bytes);
    memset(world->slots, GUARD, world->slot_count * world->layout->slot_bytes);
}

void world_destroy(struct world *world) {
    world->device->ops->destroy(world->device);
    sel_workers_destroy(&world->workers);
    sel_ready_destroy(&world->ready);
    sel_layout_destroy(&world->layout);
    free(world->arena);
    free(world->slots);
    free(world->planes);
    free(world->rows);
}

uint8_t *world_slot(const struct world *world, size_t slot) {
    assert_true(slot < world->slot_count);
    return world->slots + slot * world->layout->slot_bytes;
}

uint8_t *world_plane(const struct world *world, uint32_t rank, uint32_t plane, uint32_t block) {
    const struct sel_device_plane *at = &world->planes[rank * world->layout->desc.plane_count + plane];
    return (uint8_t *)at->base + at->stride * block;
}

void world_fill_random(struct world *world, void *bytes, size_t count) {
    sel_random_fill(&world->random, bytes, count);
}

static void note_done(struct sel_op *op) { SEL_CONTAINER(op, struct world, copy.op)->done = true; }

void world_prepare(struct world *world, enum sel_copy_direction direction, struct sel_copy_item *items, size_t count) {
    world->copy = (struct sel_copy){
        .direction = direction,
        .items = items,
        .item_count = count,
        .planes = world->planes,
        .rows = world->rows,
        .block_limit = world->blocks,
    };
    sel_op_init(&world->copy.op, note_done);
    world->done = false;
}

int world_finish(struct world *world) {
    while (!world->done) {
        world->device->ops->poll(world->device);
        if (sel_ready_run(&world->ready, 16) == 0)
            sched_yield();
    }
    return world->copy.op.result;
}

int world_copy(struct world *world) {
    world->device->ops->submit(world->device, &world->copy);
    assert_false(world->done);
    return world_finish(world);
}

void world_expect_share(const struct world *world, uint32_t rank, uint32_t block, uint32_t tokens, uint8_t *share) {
    const struct selene_layout *desc = &world->layout->desc;
    memset(share, 0, world->layout->share_bytes);
    for (uint32_t p = 0; p < desc->plane_count; p++) {
        const struct selene_plane *plane = &desc->planes[p];
        uint64_t valid = plane->bytes;
        if (plane->entry_tokens != 0 && tokens < desc->page_tokens)
            valid = tokens / plane->entry_tokens * (uint64_t)plane->entry_bytes;
        const uint8_t *from = world_plane(world, rank, p, block);
        for (uint64_t i = 0; i < valid; i++)
            share[world->layout->plane_offset[p] + i] = from[i];
    }
}

uint64_t world_expect_sum(const struct world *world, const uint8_t *share) {
    const struct selene_layout *desc = &world->layout->desc;
    uint64_t hashes[1024];
    size_t count = 0;
    for (uint32_t p = 0; p < desc->plane_count; p++)
        for (uint64_t at = 0; at < desc->planes[p].bytes; at += SEL_CHECKSUM_BLOCK) {
            assert_true(count < SEL_COUNT(hashes));
            hashes[count++] = sel_hash64(share + world->layout->plane_offset[p] + at,
                                         SEL_MIN(desc->planes[p].bytes - at, (uint64_t)SEL_CHECKSUM_BLOCK));
        }
    return sel_hash64(hashes, count * sizeof *hashes);
}
