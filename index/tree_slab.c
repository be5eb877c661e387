/* SPDX-License-Identifier: Apache-2.0
 *
 * Slabs: items of one size in chunks of 64 KiB, named by number. A chunk lies at a multiple of its size, so that a
 * number can be computed from an address. Freed items are reused first; chunks are kept until the tree goes.
 */
#include "index/tree_priv.h"

#include <stdlib.h>

void sel_slab_init(struct sel_slab *slab, uint32_t item_bytes) {
    *slab = (struct sel_slab){.item_bytes = item_bytes};
    slab->items_a_chunk = (uint32_t)((SEL_CHUNK_BYTES - sizeof(struct sel_chunk)) / item_bytes);
}

void sel_slab_destroy(struct sel_slab *slab) {
    for (uint32_t i = 0; i < slab->chunk_count; i++)
        free(slab->chunks[i]);
    free(slab->chunks);
    *slab = (struct sel_slab){0};
}

static void *item_at(const struct sel_slab *slab, uint32_t number) {
    uint32_t index = number - 1;
    return slab->chunks[index / slab->items_a_chunk]->items + (size_t)(index % slab->items_a_chunk) * slab->item_bytes;
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
    void *memory = NULL;
    if (posix_memalign(&memory, SEL_CHUNK_ALIGNMENT, SEL_CHUNK_BYTES) != 0)
        return false;
    struct sel_chunk *chunk = memory;
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
    return (uint64_t)slab->chunk_count * SEL_CHUNK_ALIGNMENT + slab->chunk_capacity * sizeof *slab->chunks;
}
