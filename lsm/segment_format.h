/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes on disk: the head of a segment and the header of an extent [D3]. Only structs and constants; docs/FORMAT.md
 * tells the whole story, format.c packs and unpacks. All numbers are little-endian and every field lies at its natural
 * alignment, so that the structs have no padding; reserved bytes are zero and checked.
 *
 *   segment  head (block 0) | extent | extent | ...           all at multiples of 4 KiB
 *   extent   header: struct, plane runs, page keys, checksums, zeros to a multiple of 4 KiB | data
 */
#ifndef SEL_LSM_SEGMENT_FORMAT_H
#define SEL_LSM_SEGMENT_FORMAT_H

#include "base/bytes.h"

#include <stddef.h>
#include <stdint.h>

#define SEL_DISK_BLOCK        4096
#define SEL_SEGMENT_VERSION   1
#define SEL_SEGMENT_MAGIC     "SELSEG\r\n"
#define SEL_SEGMENT_PREFIX    64
#define SEL_EXTENT_MAGIC      "SELEXT\r\n"
#define SEL_EXTENT_VERSION_1  1 /* always per rank; read for ever, never written */
#define SEL_EXTENT_VERSION_2  2 /* adds the replicated mark */
#define SEL_EXTENT_HEADER_MAX (UINT32_C(16) << 20)
#define SEL_SEQUENCE_MAX      (UINT64_C(1) << 62)
#define SEL_GENERATION_BYTES  16
#define SEL_STORE_ID_BYTES    16
#define SEL_EXTENT_HAS_ROW    1u
#define SEL_EXTENT_REPLICATED 2u /* version 2 only */
#define SEL_EXTENT_KIND_PAGES 0
#define SEL_EXTENT_KIND_ROW   1

/* Block 0 of a segment. The first 64 bytes, the prefix, mean the same in every version to come. */
struct sel_segment_head_disk {
    uint8_t magic[8];
    uint32_t version;
    uint32_t prefix_bytes; /* 64 */
    uint64_t prefix_check; /* XXH3-64 of the prefix with this field zero */
    uint8_t prefix_reserved[40];
    /* version 1 from here */
    uint64_t check; /* XXH3-64 of the whole block with this field zero */
    uint8_t store_id[SEL_STORE_ID_BYTES];
    uint8_t generation[SEL_GENERATION_BYTES];
    uint64_t segment_bytes; /* as preallocated; the file may be shorter (its tail was given back) */
    uint32_t segment_id;    /* as in the file name */
    uint8_t kind;           /* SEL_EXTENT_KIND_ */
    uint8_t reserved[SEL_DISK_BLOCK - 117];
};
_Static_assert(sizeof(struct sel_segment_head_disk) == SEL_DISK_BLOCK, "one block");
_Static_assert(offsetof(struct sel_segment_head_disk, check) == SEL_SEGMENT_PREFIX, "prefix");
_Static_assert(offsetof(struct sel_segment_head_disk, store_id) == 72, "layout");
_Static_assert(offsetof(struct sel_segment_head_disk, generation) == 88, "layout");
_Static_assert(offsetof(struct sel_segment_head_disk, segment_bytes) == 104, "layout");
_Static_assert(offsetof(struct sel_segment_head_disk, kind) == 116, "layout");
_Static_assert(offsetof(struct sel_segment_head_disk, reserved) == 117, "no padding");

/* Versions 1 and 2. The arrays follow at once: run_count runs, page_key_count keys of 32 bytes, sum_count sums of 8. */
struct sel_extent_header_disk {
    uint8_t magic[8];
    uint32_t version;
    uint32_t header_bytes; /* multiple of 4 KiB, at most SEL_EXTENT_HEADER_MAX */
    uint64_t check;        /* XXH3-64 of header_bytes bytes with this field zero */
    uint8_t generation[SEL_GENERATION_BYTES];
    uint64_t offset;       /* own position in the segment */
    uint64_t extent_bytes; /* header and data */
    uint32_t segment_id;
    uint8_t kind;
    uint8_t flags;
    uint8_t reserved0[2];
    uint64_t sequence;       /* unique among the extents of the store, but for copies moved elsewhere */
    uint64_t pages_sequence; /* a row: the sequence of its pages; pages: their own */
    uint8_t ns[32];
    uint8_t key[32];
    uint8_t parent_key[32]; /* zero: root */
    uint8_t base_key[32];
    uint32_t page_tokens;
    uint32_t tokens;
    uint32_t parent_tokens;
    uint32_t rank_count;
    uint32_t first_page;
    uint32_t page_count;
    uint64_t share_bytes;
    uint64_t row_bytes; /* of the layout, per rank */
    uint64_t time_s;
    uint32_t run_count;
    uint32_t page_key_count;
    uint32_t sum_count;
    uint8_t reserved1[20];
};
_Static_assert(sizeof(struct sel_extent_header_disk) == 288, "layout");
_Static_assert(offsetof(struct sel_extent_header_disk, generation) == 24, "layout");
_Static_assert(offsetof(struct sel_extent_header_disk, segment_id) == 56, "layout");
_Static_assert(offsetof(struct sel_extent_header_disk, sequence) == 64, "layout");
_Static_assert(offsetof(struct sel_extent_header_disk, ns) == 80, "layout");
_Static_assert(offsetof(struct sel_extent_header_disk, page_tokens) == 208, "layout");
_Static_assert(offsetof(struct sel_extent_header_disk, share_bytes) == 232, "layout");
_Static_assert(offsetof(struct sel_extent_header_disk, run_count) == 256, "layout");
_Static_assert(offsetof(struct sel_extent_header_disk, reserved1) == 268, "no padding");

/* `count` planes of `bytes` bytes one after another; neighbouring runs differ in `bytes`. */
struct sel_plane_run_disk {
    uint32_t count;
    uint32_t reserved;
    uint64_t bytes;
};
_Static_assert(sizeof(struct sel_plane_run_disk) == 16, "layout");

#endif
