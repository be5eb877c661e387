/* SPDX-License-Identifier: Apache-2.0
 *
 * Gather, scatter and row pieces on host memory. Bytes are hashed as they are copied (sel_checksum_copy), so a source
 * that changes meanwhile gives a checksum of what was really stored [I1].
 *
 * A plane of a partial page is: whole valid blocks | the block in which the valid bytes end | the invalid rest.
 * Out-bound the last two are filled up with zeros, in-bound they are hashed as they lie in the slot but not written
 * [L4].
 */
#include "gpu/dev_host_priv.h"

#include "base/check.h"
#include "base/checksum.h"

#include <string.h>

#define BLOCK SEL_CHECKSUM_BLOCK

static uint8_t *plane_address(const struct sel_layout *layout, const struct sel_copy *copy, uint32_t rank,
                              uint32_t plane, uint32_t block) {
    const struct sel_device_plane *at = &copy->planes[(size_t)rank * layout->desc.plane_count + plane];
    return (uint8_t *)at->base + at->stride * block;
}

static uint8_t *share_of(const struct sel_layout *layout, const struct sel_copy *copy, const struct sel_copy_item *item,
                         uint32_t rank) {
    return copy->replicated ? item->slot : item->slot + rank * layout->share_bytes;
}

static uint64_t *sum_of(const struct sel_copy *copy, const struct sel_copy_item *item, uint32_t rank) {
    return &item->sums[copy->replicated ? 0 : rank];
}

/* `valid` < `bytes`. */
static void gather_partial(const struct sel_host_layout *host, uint64_t *hashes, uint8_t *to, const uint8_t *from,
                           uint64_t valid, uint64_t bytes) {
    uint64_t whole = valid / BLOCK * BLOCK, at = whole;
    sel_checksum_copy_ahead(hashes, to, from, whole, NULL);
    memcpy(to + whole, from + whole, valid - whole);
    memset(to + valid, 0, bytes - valid);
    if (valid > whole) {
        at = SEL_MIN(whole + BLOCK, bytes);
        sel_checksum_plane(hashes + whole / BLOCK, to + whole, at - whole);
    }
    for (; bytes - at >= BLOCK; at += BLOCK)
        hashes[at / BLOCK] = host->zero_block_hash;
    if (at < bytes)
        sel_checksum_plane(hashes + at / BLOCK, to + at, bytes - at);
}

int sel_host_gather(const struct sel_host_layout *host, const struct sel_copy *copy, const struct sel_copy_item *item,
                    uint32_t rank, uint64_t *hashes) {
    const struct sel_layout *layout = host->layout;
    uint8_t *share = share_of(layout, copy, item, rank);
    uint64_t *at = hashes, end = 0;
    for (uint32_t p = 0; p < layout->desc.plane_count; p++) {
        uint64_t bytes = layout->desc.planes[p].bytes, valid = sel_layout_valid_bytes(layout, p, item->tokens);
        uint64_t offset = layout->plane_offset[p];
        const uint8_t *from = plane_address(layout, copy, rank, p, item->block);
        const uint8_t *next = NULL;
        if (p + 1 < layout->desc.plane_count)
            next = plane_address(layout, copy, rank, p + 1, item->block);
        memset(share + end, 0, offset - end);
        if (valid == bytes)
            sel_checksum_copy_ahead(at, share + offset, from, bytes, next);
        else
            gather_partial(host, at, share + offset, from, valid, bytes);
        at += sel_checksum_blocks(bytes);
        end = offset + bytes;
    }
    memset(share + end, 0, layout->share_bytes - end);
    sel_copy_fence();
    *sum_of(copy, item, rank) = sel_checksum_finish(hashes, (size_t)(at - hashes));
    return 0;
}

/* `valid` < `bytes`. The block in which the valid bytes end goes through `block`, so that it too is written as it was
 * hashed. */
static void scatter_partial(uint64_t *hashes, uint8_t *to, const uint8_t *from, uint64_t valid, uint64_t bytes) {
    uint64_t whole = valid / BLOCK * BLOCK, at = whole;
    sel_checksum_copy_ahead(hashes, to, from, whole, NULL);
    if (valid > whole) {
        uint8_t block[BLOCK];
        at = SEL_MIN(whole + BLOCK, bytes);
        memcpy(block, from + whole, at - whole);
        sel_checksum_plane(hashes + whole / BLOCK, block, at - whole);
        memcpy(to + whole, block, valid - whole);
    }
    sel_checksum_plane(hashes + at / BLOCK, from + at, bytes - at);
}

int sel_host_scatter(const struct sel_host_layout *host, const struct sel_copy *copy, const struct sel_copy_item *item,
                     uint32_t rank, uint64_t *hashes) {
    const struct sel_layout *layout = host->layout;
    const uint8_t *share = share_of(layout, copy, item, rank);
    uint64_t *at = hashes;
    for (uint32_t p = 0; p < layout->desc.plane_count; p++) {
        uint64_t bytes = layout->desc.planes[p].bytes, valid = sel_layout_valid_bytes(layout, p, item->tokens);
        const uint8_t *from = share + layout->plane_offset[p];
        uint8_t *to = plane_address(layout, copy, rank, p, item->block);
        if (valid == bytes)
            sel_checksum_copy_ahead(at, to, from, bytes, NULL);
        else
            scatter_partial(at, to, from, valid, bytes);
        at += sel_checksum_blocks(bytes);
    }
    sel_copy_fence();
    uint64_t found = sel_checksum_finish(hashes, (size_t)(at - hashes));
    return found == *sum_of(copy, item, rank) ? 0 : SELENE_E_CORRUPT;
}

int sel_host_copy_row(const struct sel_host_layout *host, const struct sel_copy *copy, const struct sel_copy_item *item,
                      uint32_t rank) {
    const struct sel_layout *layout = host->layout;
    uint64_t offset = item->row_part * layout->share_bytes;
    uint64_t bytes = SEL_MIN(layout->desc.row_bytes - offset, layout->share_bytes);
    uint64_t *hashes = copy->row_hashes + (size_t)rank * layout->row_blocks + offset / BLOCK;
    uint8_t *share = share_of(layout, copy, item, rank), *row = (uint8_t *)copy->rows[rank] + offset;
    if (copy->direction == SEL_COPY_IN) {
        sel_checksum_copy(hashes, row, share, bytes);
    } else {
        sel_checksum_copy(hashes, share, row, bytes);
        memset(share + bytes, 0, layout->share_bytes - bytes);
    }
    return 0;
}
