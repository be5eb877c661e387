/* SPDX-License-Identifier: Apache-2.0
 *
 * Slabs: items of one size in chunks of 64 KiB, named by number. A chunk lies at a multiple of its size, so that a
 * number can be computed from an address. Freed items are reused first; chunks are kept until the tree goes.
 */
#include "index/tree_priv.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Look-ups jump about in all of it, and most of what a jump costs is the page table walk: huge pages, where they are to
 * be had, make inserting at a million records about a quarter faster. */
#define GROUP_CHUNKS 32u
#define GROUP_BYTES  ((size_t)GROUP_CHUNKS * SEL_CHUNK_ALIGNMENT)

void sel_slab_init(struct sel_slab *slab, uint32_t item_bytes) {
    *slab = (struct sel_slab){.item_bytes = item_bytes};
    slab->items_a_chunk = (uint32_t)((SEL_CHUNK_BYTES - sizeof(struct sel_chunk)) / item_bytes);
}

/* The first chunks are allocated one by one, so that a small tree is small; later ones by the group. */
static bool starts_allocation(uint32_t chunk) { return chunk < GROUP_CHUNKS || chunk % GROUP_CHUNKS == 0; }

void sel_slab_destroy(struct sel_slab *slab) {
    for (uint32_t i = 0; i < slab->chunk_count; i++)
        if (starts_allocation(i))
            free(slab->chunks[i]);
    free(slab->chunks);
    *slab = (struct sel_slab){0};
}

static void *item_at(const struct sel_slab *slab, uint32_t number) {
    uint32_t index = number - 1;
    return slab->chunks[index / slab->items_a_chunk]->items + (size_t)(index % slab->items_a_chunk) * slab->item_bytes;
}

static void *chunk_memory(const struct sel_slab *slab) {
    uint32_t chunk = slab->chunk_count;
    size_t bytes = chunk < GROUP_CHUNKS ? SEL_CHUNK_BYTES : GROUP_BYTES;
    void *memory = NULL;

    if (!starts_allocation(chunk))
        return (char *)slab->chunks[chunk - 1] + SEL_CHUNK_ALIGNMENT;
    if (posix_memalign(&memory, chunk < GROUP_CHUNKS ? SEL_CHUNK_ALIGNMENT : GROUP_BYTES, bytes) != 0)
        return NULL;
    if (bytes == GROUP_BYTES)
        (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

static bool add_chunk(struct sel_slab *slab) {
    if (slab->issued > SEL_NUMBER_MAX - slab->items_a_chunk)
        return false;
    if (slab->chunk_count == slab->chunk_capacity) {
        uint32_t capacity = slab->chunk_capacity ? slab->chunk_capacity * 2 : 8;
        struct sel_chunk **chunks = realloc(slab->chunks, capacity * sizeof *chunks);
        if (chunks == NULL)
            return false;
        slab->chunks = chunks;
        slab->chunk_capacity = capacity;
    }
    struct sel_chunk *chunk = chunk_memory(slab);
    if (chunk == NULL)
        return false;
    chunk->number = slab->chunk_count;
    slab->chunks[slab->chunk_count++] = chunk;
    return true;
}

uint32_t sel_slab_take(struct sel_slab *slab) {
    uint32_t number = slab->free;

    if (number != 0) {
        memcpy(&slab->free, item_at(slab, number), sizeof slab->free);
    } else {
        if (slab->issued == slab->chunk_count * slab->items_a_chunk && !add_chunk(slab))
            return 0;
        number = ++slab->issued;
    }
    slab->used++;
    memset(item_at(slab, number), 0, slab->item_bytes);
    return number;
}

void sel_slab_give(struct sel_slab *slab, uint32_t number) {
    void *item = item_at(slab, number);

    memset(item, 0xdb, slab->item_bytes); /* a stale pointer reads nonsense, not yesterday's truth */
    memcpy(item, &slab->free, sizeof slab->free);
    slab->free = number;
    slab->used--;
}

uint64_t sel_slab_bytes(const struct sel_slab *slab) {
    uint64_t chunks = slab->chunk_count;

    if (chunks > GROUP_CHUNKS)
        chunks = (chunks + GROUP_CHUNKS - 1) / GROUP_CHUNKS * GROUP_CHUNKS;
    return chunks * SEL_CHUNK_ALIGNMENT + slab->chunk_capacity * sizeof *slab->chunks;
}
