/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing and unpacking of segment heads, extent headers and catalogue values. One validator for every reader: restore,
 * recovery, rebuild, copy forward, fsck and the fuzzers. It accepts any bytes and never reads beyond what it was given.
 * No I/O; any thread.
 */
#ifndef SEL_LSM_FORMAT_H
#define SEL_LSM_FORMAT_H

#include "base/error.h"
#include "index/keys.h"
#include "index/tree.h"
#include "lsm/catalog_format.h"
#include "lsm/segment_format.h"

struct sel_segment_head {
    uint32_t version;
    uint8_t store_id[SEL_STORE_ID_BYTES];
    uint8_t generation[SEL_GENERATION_BYTES];
    uint64_t segment_bytes;
    uint32_t segment_id;
    uint8_t kind;
};

void sel_segment_head_pack(uint8_t block[SEL_DISK_BLOCK], const struct sel_segment_head *head);
/* 0; SELENE_E_VERSION: a sound prefix of a version from the future; SELENE_E_CORRUPT. */
int sel_segment_head_unpack(struct sel_segment_head *head, const uint8_t block[SEL_DISK_BLOCK],
                            struct selene_message *message);

struct sel_plane_run {
    uint32_t count;
    uint64_t bytes;
};

/* A header in host order. After unpacking, runs, page_keys and sums point into the raw header, little-endian. */
struct sel_extent {
    uint32_t version;
    uint32_t segment_id;
    uint8_t kind;
    bool has_row;
    bool replicated;
    uint8_t generation[SEL_GENERATION_BYTES];
    uint64_t offset;
    uint64_t header_bytes;
    uint64_t extent_bytes;
    uint64_t sequence;
    uint64_t pages_sequence;
    uint8_t ns[SEL_NAMESPACE_BYTES];
    struct sel_key key;
    struct sel_key parent_key;
    struct sel_key base_key;
    uint32_t page_tokens;
    uint32_t tokens;
    uint32_t parent_tokens;
    uint32_t rank_count;
    uint32_t first_page;
    uint32_t page_count;
    uint64_t share_bytes;
    uint64_t row_bytes;
    uint64_t time_s;
    uint32_t run_count;
    uint32_t page_key_count;
    uint32_t sum_count;
    const uint8_t *runs;
    const uint8_t *page_keys;
    const uint8_t *sums;
};

/* What one part of a record measures; computed with overflow checks from values that may be hostile. */
struct sel_extent_size {
    uint64_t shares; /* stored shares: checksums */
    uint64_t header_bytes;
    uint64_t data_bytes;
};
/* `pieces`: pages, or the slots of a row. SELENE_E_OVERFLOW when the header is too large or a size does not fit. */
int sel_extent_size(struct sel_extent_size *size, uint8_t kind, uint64_t pieces, uint32_t stored_ranks,
                    uint64_t share_bytes, uint64_t run_count, uint64_t page_key_count);

/* Where a header is expected. */
struct sel_extent_place {
    const uint8_t *generation;
    uint32_t segment_id;
    uint64_t offset;
    uint64_t limit_bytes; /* the extent must end by there */
};

/* Looks at the first block of a header only: is it one of this generation at this place? Gives its length, sane but not
 * verified, or an error. */
int sel_extent_peek(const uint8_t block[SEL_DISK_BLOCK], const struct sel_extent_place *place, uint32_t *header_bytes);
/* Verifies everything. The message names offset, field, found and expected. SELENE_E_CORRUPT, SELENE_E_VERSION. */
int sel_extent_unpack(struct sel_extent *extent, const uint8_t *raw, size_t raw_bytes,
                      const struct sel_extent_place *place, struct selene_message *message);
int sel_extent_unpack_v1(struct sel_extent *extent, const uint8_t *raw, struct selene_message *message);
int sel_extent_unpack_v2(struct sel_extent *extent, const uint8_t *raw, struct selene_message *message);
/* Writes a version 2 header; header_bytes of room. The arrays are in host order here. */
void sel_extent_pack(uint8_t *raw, const struct sel_extent *extent, const struct sel_plane_run *runs,
                     const struct sel_key *page_keys, const uint64_t *sums);
/* Gives a verified header another place; version 1 becomes version 2, which says the same with its mark not set. */
void sel_extent_move(uint8_t *raw, const uint8_t *generation, uint32_t segment_id, uint64_t offset);
/* Recomputes the header checksum of packed bytes. */
void sel_extent_seal(uint8_t *raw, uint32_t header_bytes);

struct sel_plane_run sel_extent_run(const struct sel_extent *extent, uint32_t index);
static inline uint64_t sel_extent_sum(const struct sel_extent *extent, size_t index) {
    return sel_get_u64(extent->sums + 8 * index);
}
static inline uint32_t sel_extent_row_slots(uint64_t row_bytes, uint64_t share_bytes) {
    return (uint32_t)((row_bytes + share_bytes - 1) / share_bytes);
}

/* The rules between token counts that every record obeys, wherever it is read from [L4]. */
bool sel_record_counts_valid(uint32_t page_tokens, uint32_t tokens, uint32_t parent_tokens, uint32_t page_key_count);

/* ---- catalogue values ---- */

struct sel_record_entry {
    bool has_row, pages_replicated, row_replicated;
    uint64_t row_sequence;
    uint8_t ns[SEL_NAMESPACE_BYTES];
    struct sel_key key, parent_key, base_key;
    uint32_t page_tokens, tokens, parent_tokens, page_key_count;
    struct sel_location location;
    uint64_t pages_generation, row_generation;
    uint64_t time_s;
};
struct sel_segment_entry {
    uint32_t id;
    uint8_t generation[SEL_GENERATION_BYTES];
    uint64_t segment_bytes, indexed_bytes;
    uint8_t kind;
    bool sealed;
};
struct sel_meta_entry {
    uint8_t store_id[SEL_STORE_ID_BYTES];
    uint64_t next_sequence;
    uint32_t next_segment;
    bool clean;
};

void sel_record_entry_pack(uint8_t value[SEL_CATALOG_VALUE], const struct sel_record_entry *entry);
int sel_record_entry_unpack(struct sel_record_entry *entry, uint64_t key, const uint8_t value[SEL_CATALOG_VALUE]);
/* Part `part` (from 1) of the page keys. */
void sel_keys_entry_pack(uint8_t value[SEL_CATALOG_VALUE], uint64_t sequence, uint32_t part, const struct sel_key *keys,
                         uint32_t count);
int sel_keys_entry_unpack(struct sel_key *keys, uint32_t count, uint64_t sequence, uint32_t part,
                          const uint8_t value[SEL_CATALOG_VALUE]);
void sel_segment_entry_pack(uint8_t value[SEL_CATALOG_VALUE], const struct sel_segment_entry *entry);
int sel_segment_entry_unpack(struct sel_segment_entry *entry, uint64_t key, const uint8_t value[SEL_CATALOG_VALUE]);
void sel_meta_entry_pack(uint8_t value[SEL_CATALOG_VALUE], const struct sel_meta_entry *entry);
int sel_meta_entry_unpack(struct sel_meta_entry *entry, const uint8_t value[SEL_CATALOG_VALUE]);

static inline uint32_t sel_keys_parts(uint32_t page_key_count) {
    return page_key_count / SEL_ENTRY_KEYS_EACH + (page_key_count % SEL_ENTRY_KEYS_EACH != 0);
}

#endif
