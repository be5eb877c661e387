/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of the catalogue's values: 256 each, little-endian, with a checksum of their own that also covers what kind of
 * value it is and the key it belongs to [D7]. Reserved bytes are zero and checked. See docs/FORMAT.md.
 */
#ifndef SEL_LSM_CATALOG_FORMAT_H
#define SEL_LSM_CATALOG_FORMAT_H

#include "index/catalog.h"

#include <stddef.h>
#include <stdint.h>

#define SEL_ENTRY_META    UINT32_C(0x4154454d) /* "META" */
#define SEL_ENTRY_SEGMENT UINT32_C(0x54474553) /* "SEGT" */
#define SEL_ENTRY_RECORD  UINT32_C(0x52434552) /* "RECR" */
#define SEL_ENTRY_KEYS    UINT32_C(0x5359454b) /* "KEYS" */

#define SEL_ENTRY_KEYS_EACH 7 /* page keys in one value */

#define SEL_ENTRY_HAS_ROW          1u
#define SEL_ENTRY_PAGES_REPLICATED 2u
#define SEL_ENTRY_ROW_REPLICATED   4u
#define SEL_ENTRY_SEALED           1u /* segment: indexed to its end */
#define SEL_ENTRY_CLEAN            1u /* meta: stopped cleanly */

struct sel_record_disk {
    uint64_t check; /* XXH3-64 of the value with this field zero */
    uint32_t magic;
    uint32_t flags;
    uint64_t sequence; /* the key */
    uint64_t row_sequence;
    uint8_t ns[32];
    uint8_t key[32];
    uint8_t parent_key[32];
    uint8_t base_key[32];
    uint32_t page_tokens;
    uint32_t tokens;
    uint32_t parent_tokens;
    uint32_t page_key_count;
    uint64_t pages; /* segment id << 32 | block */
    uint64_t row;
    uint32_t pages_blocks;
    uint32_t row_blocks;
    uint64_t pages_generation; /* first 8 bytes of the segment's generation: tells a recycled one */
    uint64_t row_generation;
    uint64_t time_s;
    uint8_t reserved[32];
};
_Static_assert(sizeof(struct sel_record_disk) == SEL_CATALOG_VALUE, "one value");
_Static_assert(offsetof(struct sel_record_disk, ns) == 32, "layout");
_Static_assert(offsetof(struct sel_record_disk, pages) == 176, "layout");
_Static_assert(offsetof(struct sel_record_disk, reserved) == 224, "no padding");

struct sel_keys_disk {
    uint64_t check;
    uint32_t magic;
    uint32_t part; /* 1.. */
    uint64_t sequence;
    uint8_t keys[SEL_ENTRY_KEYS_EACH][32]; /* unused ones zero */
    uint8_t reserved[8];
};
_Static_assert(sizeof(struct sel_keys_disk) == SEL_CATALOG_VALUE, "one value");
_Static_assert(offsetof(struct sel_keys_disk, reserved) == 248, "no padding");

struct sel_segment_disk {
    uint64_t check;
    uint32_t magic;
    uint32_t flags;
    uint64_t id; /* the key */
    uint8_t generation[16];
    uint64_t segment_bytes;
    uint64_t indexed_bytes; /* extents that begin below it are in the catalogue, or dead */
    uint8_t kind;
    uint8_t reserved[199];
};
_Static_assert(sizeof(struct sel_segment_disk) == SEL_CATALOG_VALUE, "one value");
_Static_assert(offsetof(struct sel_segment_disk, reserved) == 57, "no padding");

struct sel_meta_disk {
    uint64_t check;
    uint32_t magic;
    uint32_t flags;
    uint8_t store_id[16];
    uint64_t next_sequence; /* larger than every sequence taken before this transaction */
    uint32_t next_segment;
    uint32_t segment_version; /* newest versions in use when it was written */
    uint32_t extent_version;
    uint8_t reserved[204];
};
_Static_assert(sizeof(struct sel_meta_disk) == SEL_CATALOG_VALUE, "one value");
_Static_assert(offsetof(struct sel_meta_disk, reserved) == 52, "no padding");

#endif
