/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing and unpacking of catalogue values. A value is refused (SELENE_E_CORRUPT) when its checksum, its kind, the key
 * it names, a reserved byte or the relation between its counts is wrong.
 */
#include "base/check.h"
#include "base/checksum.h"
#include "lsm/format.h"

#define CHECK_BYTES 8

static void seal(uint8_t value[SEL_CATALOG_VALUE]) {
    memset(value, 0, CHECK_BYTES);
    sel_put_u64(value, sel_hash64(value, SEL_CATALOG_VALUE));
}

static int open_value(uint8_t copy[SEL_CATALOG_VALUE], const uint8_t value[SEL_CATALOG_VALUE], uint32_t magic) {
    memcpy(copy, value, SEL_CATALOG_VALUE);
    memset(copy, 0, CHECK_BYTES);
    if (sel_hash64(copy, SEL_CATALOG_VALUE) != sel_get_u64(value) || sel_get_u32(value + CHECK_BYTES) != magic)
        return SELENE_E_CORRUPT;
    return 0;
}

static bool all_zero(const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return false;
    return true;
}

void sel_record_entry_pack(uint8_t value[SEL_CATALOG_VALUE], const struct sel_record_entry *e) {
    struct sel_record_disk disk = {0};
    sel_put_u32(&disk.magic, SEL_ENTRY_RECORD);
    sel_put_u32(&disk.flags, (e->has_row ? SEL_ENTRY_HAS_ROW : 0) |
                                 (e->pages_replicated ? SEL_ENTRY_PAGES_REPLICATED : 0) |
                                 (e->row_replicated ? SEL_ENTRY_ROW_REPLICATED : 0));
    sel_put_u64(&disk.sequence, e->location.sequence);
    sel_put_u64(&disk.row_sequence, e->row_sequence);
    memcpy(disk.ns, e->ns, 32);
    memcpy(disk.key, &e->key, 32);
    memcpy(disk.parent_key, &e->parent_key, 32);
    memcpy(disk.base_key, &e->base_key, 32);
    sel_put_u32(&disk.page_tokens, e->page_tokens);
    sel_put_u32(&disk.tokens, e->tokens);
    sel_put_u32(&disk.parent_tokens, e->parent_tokens);
    sel_put_u32(&disk.page_key_count, e->page_key_count);
    sel_put_u64(&disk.pages, e->location.pages);
    sel_put_u64(&disk.row, e->location.row);
    sel_put_u32(&disk.pages_blocks, e->location.pages_blocks);
    sel_put_u32(&disk.row_blocks, e->location.row_blocks);
    sel_put_u64(&disk.pages_generation, e->pages_generation);
    sel_put_u64(&disk.row_generation, e->row_generation);
    sel_put_u64(&disk.time_s, e->time_s);
    memcpy(value, &disk, sizeof disk);
    seal(value);
}

int sel_record_entry_unpack(struct sel_record_entry *e, uint64_t key, const uint8_t value[SEL_CATALOG_VALUE]) {
    struct sel_record_disk disk;
    memset(e, 0, sizeof *e);
    if (open_value((uint8_t *)&disk, value, SEL_ENTRY_RECORD))
        return SELENE_E_CORRUPT;
    uint32_t flags = sel_get_u32(&disk.flags);
    e->has_row = flags & SEL_ENTRY_HAS_ROW;
    e->pages_replicated = flags & SEL_ENTRY_PAGES_REPLICATED;
    e->row_replicated = flags & SEL_ENTRY_ROW_REPLICATED;
    e->row_sequence = sel_get_u64(&disk.row_sequence);
    memcpy(e->ns, disk.ns, 32);
    memcpy(&e->key, disk.key, 32);
    memcpy(&e->parent_key, disk.parent_key, 32);
    memcpy(&e->base_key, disk.base_key, 32);
    e->page_tokens = sel_get_u32(&disk.page_tokens);
    e->tokens = sel_get_u32(&disk.tokens);
    e->parent_tokens = sel_get_u32(&disk.parent_tokens);
    e->page_key_count = sel_get_u32(&disk.page_key_count);
    e->location = (struct sel_location){.sequence = sel_get_u64(&disk.sequence),
                                        .pages = sel_get_u64(&disk.pages),
                                        .row = sel_get_u64(&disk.row),
                                        .pages_blocks = sel_get_u32(&disk.pages_blocks),
                                        .row_blocks = sel_get_u32(&disk.row_blocks)};
    e->pages_generation = sel_get_u64(&disk.pages_generation);
    e->row_generation = sel_get_u64(&disk.row_generation);
    e->time_s = sel_get_u64(&disk.time_s);
    if (e->location.sequence != key || key == 0 || key > SEL_SEQUENCE_MAX || e->row_sequence > SEL_SEQUENCE_MAX ||
        flags > 7 || !all_zero(disk.reserved, sizeof disk.reserved) ||
        !sel_record_counts_valid(e->page_tokens, e->tokens, e->parent_tokens, e->page_key_count) ||
        e->has_row != (e->location.row != 0))
        return SELENE_E_CORRUPT;
    return 0;
}

void sel_keys_entry_pack(uint8_t value[SEL_CATALOG_VALUE], uint64_t sequence, uint32_t part, const struct sel_key *keys,
                         uint32_t count) {
    struct sel_keys_disk disk = {0};
    SEL_CHECK(count <= SEL_ENTRY_KEYS_EACH);
    sel_put_u32(&disk.magic, SEL_ENTRY_KEYS);
    sel_put_u32(&disk.part, part);
    sel_put_u64(&disk.sequence, sequence);
    memcpy(disk.keys, keys, (size_t)count * 32);
    memcpy(value, &disk, sizeof disk);
    seal(value);
}

int sel_keys_entry_unpack(struct sel_key *keys, uint32_t count, uint64_t sequence, uint32_t part,
                          const uint8_t value[SEL_CATALOG_VALUE]) {
    struct sel_keys_disk disk;
    if (count > SEL_ENTRY_KEYS_EACH || open_value((uint8_t *)&disk, value, SEL_ENTRY_KEYS) ||
        sel_get_u32(&disk.part) != part || sel_get_u64(&disk.sequence) != sequence ||
        !all_zero(disk.reserved, sizeof disk.reserved))
        return SELENE_E_CORRUPT;
    memcpy(keys, disk.keys, (size_t)count * 32);
    return 0;
}

void sel_segment_entry_pack(uint8_t value[SEL_CATALOG_VALUE], const struct sel_segment_entry *e) {
    struct sel_segment_disk disk = {0};
    sel_put_u32(&disk.magic, SEL_ENTRY_SEGMENT);
    sel_put_u32(&disk.flags, e->sealed ? SEL_ENTRY_SEALED : 0);
    sel_put_u64(&disk.id, e->id);
    memcpy(disk.generation, e->generation, sizeof disk.generation);
    sel_put_u64(&disk.segment_bytes, e->segment_bytes);
    sel_put_u64(&disk.indexed_bytes, e->indexed_bytes);
    disk.kind = e->kind;
    memcpy(value, &disk, sizeof disk);
    seal(value);
}

int sel_segment_entry_unpack(struct sel_segment_entry *e, uint64_t key, const uint8_t value[SEL_CATALOG_VALUE]) {
    struct sel_segment_disk disk;
    memset(e, 0, sizeof *e);
    if (open_value((uint8_t *)&disk, value, SEL_ENTRY_SEGMENT) || sel_get_u64(&disk.id) != key || key > UINT32_MAX ||
        sel_get_u32(&disk.flags) > SEL_ENTRY_SEALED || disk.kind > SEL_EXTENT_KIND_ROW ||
        !all_zero(disk.reserved, sizeof disk.reserved))
        return SELENE_E_CORRUPT;
    e->id = (uint32_t)key;
    memcpy(e->generation, disk.generation, sizeof e->generation);
    e->segment_bytes = sel_get_u64(&disk.segment_bytes);
    e->indexed_bytes = sel_get_u64(&disk.indexed_bytes);
    e->kind = disk.kind;
    e->sealed = sel_get_u32(&disk.flags) & SEL_ENTRY_SEALED;
    return 0;
}

void sel_meta_entry_pack(uint8_t value[SEL_CATALOG_VALUE], const struct sel_meta_entry *e) {
    struct sel_meta_disk disk = {0};
    sel_put_u32(&disk.magic, SEL_ENTRY_META);
    sel_put_u32(&disk.flags, e->clean ? SEL_ENTRY_CLEAN : 0);
    memcpy(disk.store_id, e->store_id, sizeof disk.store_id);
    sel_put_u64(&disk.next_sequence, e->next_sequence);
    sel_put_u32(&disk.next_segment, e->next_segment);
    sel_put_u32(&disk.segment_version, SEL_SEGMENT_VERSION);
    sel_put_u32(&disk.extent_version, SEL_EXTENT_VERSION_2);
    memcpy(value, &disk, sizeof disk);
    seal(value);
}

int sel_meta_entry_unpack(struct sel_meta_entry *e, const uint8_t value[SEL_CATALOG_VALUE]) {
    struct sel_meta_disk disk;
    memset(e, 0, sizeof *e);
    if (open_value((uint8_t *)&disk, value, SEL_ENTRY_META) || sel_get_u32(&disk.flags) > SEL_ENTRY_CLEAN ||
        !all_zero(disk.reserved, sizeof disk.reserved))
        return SELENE_E_CORRUPT;
    memcpy(e->store_id, disk.store_id, sizeof e->store_id);
    e->next_sequence = sel_get_u64(&disk.next_sequence);
    if (e->next_sequence > SEL_SEQUENCE_MAX)
        return SELENE_E_CORRUPT;
    e->next_segment = sel_get_u32(&disk.next_segment);
    e->clean = sel_get_u32(&disk.flags) & SEL_ENTRY_CLEAN;
    return 0;
}
