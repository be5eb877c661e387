/* SPDX-License-Identifier: Apache-2.0
 *
 * A validated layout with everything derived from it: the namespace, and where each plane lies in a slot [L1, M1].
 *
 *   share   one rank's planes one after another, each at a multiple of SEL_PLANE_ALIGNMENT, the whole padded to 4 KiB
 *   slot    the R shares one after another: slot_bytes = R * share_bytes
 *   row     row_bytes per rank, cut into pieces of share_bytes; piece i of rank r is share r of the row's slot i
 */
#ifndef SEL_INDEX_LAYOUT_H
#define SEL_INDEX_LAYOUT_H

#include "base/error.h"
#include "index/selene_layout.h"

#define SEL_BLOCK_BYTES     4096
#define SEL_PLANE_ALIGNMENT 64
#define SEL_NAMESPACE_BYTES 32

struct sel_layout {
    struct selene_layout desc; /* deep copy; planes and description owned */
    uint8_t ns[SEL_NAMESPACE_BYTES];
    uint64_t *plane_offset; /* of each plane in a share */
    uint64_t share_bytes;   /* padded, a multiple of 4 KiB */
    uint64_t slot_bytes;    /* R * share_bytes */
    uint64_t page_bytes;    /* unpadded bytes of one share of a page: the sum of the planes */
    uint32_t row_slots;     /* slots that a row takes: ceil(row_bytes / share_bytes) */
    uint32_t page_blocks;   /* block hashes of one share of a page */
    uint32_t row_blocks;    /* block hashes of one share of a row */
};

/* Checks every bound and copies. On a bad layout SELENE_E_INVALID and a message that names the field, its value and the
 * limit. `*out` is NULL on failure. Free with sel_layout_destroy. */
int sel_layout_create(struct sel_layout **out, const struct selene_layout *desc, struct selene_message *message);
void sel_layout_destroy(struct sel_layout **layout);

/* Valid bytes of a plane in a page that holds its first `tokens` tokens (0 .. page_tokens) [L4]. */
uint64_t sel_layout_valid_bytes(const struct sel_layout *layout, uint32_t plane, uint32_t tokens);

/* floor(parent_tokens / P) .. ceil(tokens / P): the pages that a record carries [L4]. */
static inline uint32_t sel_layout_first_page(const struct sel_layout *layout, uint64_t parent_tokens) {
    return (uint32_t)(parent_tokens / layout->desc.page_tokens);
}
static inline uint32_t sel_layout_end_page(const struct sel_layout *layout, uint64_t tokens) {
    return (uint32_t)((tokens + layout->desc.page_tokens - 1) / layout->desc.page_tokens);
}

/* The canonical encoding whose SHA-256 is the namespace: "selene layout 1\n", then as little-endian numbers page_tokens
 * u32, rank_count u32, plane_count u32, row_bytes u64, each plane (bytes u64, entry_tokens u32, entry_bytes u32), and
 * description_bytes u64 with the description. Fixed for ever. */

#endif
