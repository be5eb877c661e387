/* SPDX-License-Identifier: Apache-2.0
 *
 * The block pool.
 */
#include "tools/replay/device.h"

#include "cli/sizes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int size_check(const struct kv *kv, uint64_t block_count, uint64_t *rank_bytes, struct selene_message *message) {
    char needed_text[SEL_SIZE_TEXT], there_text[SEL_SIZE_TEXT];
    uint64_t there = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), needed;
    if (block_count > UINT32_MAX || __builtin_mul_overflow(block_count, kv->block_bytes, rank_bytes) ||
        __builtin_mul_overflow(*rank_bytes, (uint64_t)kv->rank_count, &needed))
        needed = UINT64_MAX;
    if (needed <= there / 4 * 3)
        return 0;
    return sel_fail(message, SELENE_E_OVERFLOW,
                    "the requests in flight need %s of device memory, this machine has %s: use a larger --scale or a "
                    "smaller --concurrency",
                    sel_size_print(needed_text, needed), sel_size_print(there_text, there));
}

static int mappings_make(struct device *device, struct selene_message *message) {
    for (uint32_t rank = 0; rank < device->kv->rank_count; rank++) {
        void *mapping = mmap(NULL, device->mapping_bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapping == MAP_FAILED)
            return sel_fail(message, SELENE_E_NOMEM, "no memory for the engine's blocks");
        device->shares[rank] = mapping;
    }
    return 0;
}

int device_open(struct device *device, const struct kv *kv, uint64_t block_count, struct selene_message *message) {
    uint64_t bytes = 0;
    *device = (struct device){.kv = kv};
    int result = size_check(kv, block_count, &bytes, message);
    if (result)
        return result;
    device->mapping_bytes = bytes;
    device->block_count = device->free_count = (uint32_t)block_count;
    device->shares = calloc(kv->rank_count, sizeof *device->shares);
    device->free_blocks = calloc(block_count, sizeof *device->free_blocks);
    device->planes = calloc((size_t)kv->rank_count * kv->plane_count, sizeof *device->planes);
    if (device->shares == NULL || device->free_blocks == NULL || device->planes == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "no memory for the engine's blocks");
    result = mappings_make(device, message);
    if (result)
        return result;
    for (uint32_t i = 0; i < device->block_count; i++)
        device->free_blocks[i] = device->block_count - 1 - i;
    for (uint32_t rank = 0; rank < kv->rank_count; rank++)
        for (uint32_t p = 0; p < kv->plane_count; p++)
            device->planes[(size_t)rank * kv->plane_count + p] =
                (struct selene_plane_memory){device->shares[rank] + kv->planes[p].offset, kv->block_bytes};
    return 0;
}

void device_close(struct device *device) {
    for (uint32_t rank = 0; device->shares && rank < device->kv->rank_count; rank++)
        if (device->shares[rank])
            munmap(device->shares[rank], device->mapping_bytes);
    free(device->shares);
    free(device->free_blocks);
    free(device->planes);
    *device = (struct device){0};
}

bool device_take(struct device *device, uint32_t *blocks, uint32_t count) {
    if (count > device->free_count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        blocks[i] = device->free_blocks[--device->free_count];
    return true;
}

/* Last ones first, so that a request that follows at once gets neighbouring blocks again. */
void device_give(struct device *device, const uint32_t *blocks, uint32_t count) {
    while (count-- > 0)
        device->free_blocks[device->free_count++] = blocks[count];
}

void device_poison(struct device *device, const uint32_t *blocks, uint32_t count) {
    for (uint32_t rank = 0; rank < device->kv->rank_count; rank++)
        for (uint32_t i = 0; i < count; i++)
            memset(device_share(device, rank, blocks[i]), KV_POISON, device->kv->block_bytes);
}
