/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads, header sizes, and the packing of version 2 headers. Unpacking is in format_unpack.c, catalogue values in
 * format_entry.c.
 */
#include "lsm/format.h"

#include "base/check.h"
#include "base/checksum.h"

/* The checksum of `count` bytes, taking the 8 bytes at `check_offset` as zero; `bytes` is not changed in the end. */
static uint64_t hash_without(uint8_t *bytes, size_t count, size_t check_offset) {
    uint8_t kept[8];
    memcpy(kept, bytes + check_offset, 8);
    memset(bytes + check_offset, 0, 8);
    uint64_t hash = sel_hash64(bytes, count);
    memcpy(bytes + check_offset, kept, 8);
    return hash;
}

void sel_segment_head_pack(uint8_t block[SEL_DISK_BLOCK], const struct sel_segment_head *head) {
    struct sel_segment_head_disk disk = {0};
    memcpy(disk.magic, SEL_SEGMENT_MAGIC, 8);
    sel_put_u32(&disk.version, SEL_SEGMENT_VERSION);
    sel_put_u32(&disk.prefix_bytes, SEL_SEGMENT_PREFIX);
    sel_put_u64(&disk.prefix_check, sel_hash64(&disk, SEL_SEGMENT_PREFIX));
    memcpy(disk.store_id, head->store_id, sizeof disk.store_id);
    memcpy(disk.generation, head->generation, sizeof disk.generation);
    sel_put_u64(&disk.segment_bytes, head->segment_bytes);
    sel_put_u32(&disk.segment_id, head->segment_id);
    disk.kind = head->kind;
    sel_put_u64(&disk.check, sel_hash64(&disk, sizeof disk));
    memcpy(block, &disk, sizeof disk);
}

static bool all_zero(const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return false;
    return true;
}

static int head_prefix(const struct sel_segment_head_disk *disk, struct selene_message *message) {
    uint8_t prefix[SEL_SEGMENT_PREFIX];
    memcpy(prefix, disk, sizeof prefix);
    if (memcmp(disk->magic, SEL_SEGMENT_MAGIC, 8) != 0)
        return sel_fail(message, SELENE_E_CORRUPT, "no segment magic in block 0");
    if (sel_get_u32(&disk->prefix_bytes) != SEL_SEGMENT_PREFIX)
        return sel_fail(message, SELENE_E_CORRUPT, "segment prefix length %u, expected %u",
                        sel_get_u32(&disk->prefix_bytes), SEL_SEGMENT_PREFIX);
    uint64_t want = hash_without(prefix, sizeof prefix, offsetof(struct sel_segment_head_disk, prefix_check));
    if (sel_get_u64(&disk->prefix_check) != want)
        return sel_fail(message, SELENE_E_CORRUPT, "segment prefix checksum is wrong");
    if (sel_get_u32(&disk->version) > SEL_SEGMENT_VERSION)
        return sel_fail(message, SELENE_E_VERSION, "segment version %u, newest known is %u",
                        sel_get_u32(&disk->version), SEL_SEGMENT_VERSION);
    return 0;
}

int sel_segment_head_unpack(struct sel_segment_head *head, const uint8_t block[SEL_DISK_BLOCK],
                            struct selene_message *message) {
    struct sel_segment_head_disk disk;
    memcpy(&disk, block, sizeof disk);
    memset(head, 0, sizeof *head);
    int rc = head_prefix(&disk, message);
    if (rc)
        return rc;
    uint64_t found = sel_get_u64(&disk.check);
    if (found != hash_without((uint8_t *)&disk, sizeof disk, offsetof(struct sel_segment_head_disk, check)))
        return sel_fail(message, SELENE_E_CORRUPT, "segment head checksum is wrong");
    head->version = sel_get_u32(&disk.version);
    head->segment_bytes = sel_get_u64(&disk.segment_bytes);
    head->segment_id = sel_get_u32(&disk.segment_id);
    head->kind = disk.kind;
    memcpy(head->store_id, disk.store_id, sizeof head->store_id);
    memcpy(head->generation, disk.generation, sizeof head->generation);
    if (head->version != SEL_SEGMENT_VERSION || head->kind > SEL_EXTENT_KIND_ROW ||
        head->segment_bytes % SEL_DISK_BLOCK != 0 || head->segment_bytes < 2 * SEL_DISK_BLOCK ||
        head->segment_bytes / SEL_DISK_BLOCK > UINT32_MAX ||
        !all_zero(disk.prefix_reserved, sizeof disk.prefix_reserved) || !all_zero(disk.reserved, sizeof disk.reserved))
        return sel_fail(message, SELENE_E_CORRUPT, "segment head: version %u, kind %u, %llu bytes: not valid",
                        head->version, head->kind, (unsigned long long)head->segment_bytes);
    return 0;
}

int sel_extent_size(struct sel_extent_size *size, uint8_t kind, uint64_t pieces, uint32_t stored_ranks,
                    uint64_t share_bytes, uint64_t run_count, uint64_t page_key_count) {
    memset(size, 0, sizeof *size);
    uint64_t cells = 0, data = 0, header = 0, keys = 0, sums = 0;
    if (__builtin_mul_overflow(pieces, (uint64_t)stored_ranks, &cells) ||
        __builtin_mul_overflow(cells, share_bytes, &data) || run_count > SELENE_PLANES_MAX)
        return SELENE_E_OVERFLOW;
    uint64_t shares = kind == SEL_EXTENT_KIND_ROW ? stored_ranks : cells;
    if (__builtin_mul_overflow(page_key_count, UINT64_C(32), &keys) ||
        __builtin_mul_overflow(shares, UINT64_C(8), &sums) || __builtin_add_overflow(keys, sums, &header))
        return SELENE_E_OVERFLOW;
    uint64_t fixed = sizeof(struct sel_extent_header_disk) + run_count * sizeof(struct sel_plane_run_disk);
    if (header > SEL_EXTENT_HEADER_MAX - fixed)
        return SELENE_E_OVERFLOW;
    header = sel_align_up(header + fixed, SEL_DISK_BLOCK);
    /* Block numbers are 32 bits wide. */
    if (data > (uint64_t)UINT32_MAX * SEL_DISK_BLOCK / 2)
        return SELENE_E_OVERFLOW;
    size->shares = shares;
    size->header_bytes = header;
    size->data_bytes = data;
    return 0;
}

static void pack_fixed(struct sel_extent_header_disk *disk, const struct sel_extent *e) {
    memset(disk, 0, sizeof *disk);
    memcpy(disk->magic, SEL_EXTENT_MAGIC, 8);
    sel_put_u32(&disk->version, SEL_EXTENT_VERSION_2);
    sel_put_u32(&disk->header_bytes, (uint32_t)e->header_bytes);
    memcpy(disk->generation, e->generation, sizeof disk->generation);
    sel_put_u64(&disk->offset, e->offset);
    sel_put_u64(&disk->extent_bytes, e->extent_bytes);
    sel_put_u32(&disk->segment_id, e->segment_id);
    disk->kind = e->kind;
    disk->flags = (uint8_t)((e->has_row ? SEL_EXTENT_HAS_ROW : 0) | (e->replicated ? SEL_EXTENT_REPLICATED : 0));
    sel_put_u64(&disk->sequence, e->sequence);
    sel_put_u64(&disk->pages_sequence, e->pages_sequence);
    memcpy(disk->ns, e->ns, 32);
    memcpy(disk->key, &e->key, 32);
    memcpy(disk->parent_key, &e->parent_key, 32);
    memcpy(disk->base_key, &e->base_key, 32);
    sel_put_u32(&disk->page_tokens, e->page_tokens);
    sel_put_u32(&disk->tokens, e->tokens);
    sel_put_u32(&disk->parent_tokens, e->parent_tokens);
    sel_put_u32(&disk->rank_count, e->rank_count);
    sel_put_u32(&disk->first_page, e->first_page);
    sel_put_u32(&disk->page_count, e->page_count);
    sel_put_u64(&disk->share_bytes, e->share_bytes);
    sel_put_u64(&disk->row_bytes, e->row_bytes);
    sel_put_u64(&disk->time_s, e->time_s);
    sel_put_u32(&disk->run_count, e->run_count);
    sel_put_u32(&disk->page_key_count, e->page_key_count);
    sel_put_u32(&disk->sum_count, e->sum_count);
}

void sel_extent_seal(uint8_t *raw, uint32_t header_bytes) {
    size_t at = offsetof(struct sel_extent_header_disk, check);
    sel_put_u64(raw + at, hash_without(raw, header_bytes, at));
}

void sel_extent_move(uint8_t *raw, const uint8_t *generation, uint32_t segment_id, uint64_t offset) {
    memcpy(raw + offsetof(struct sel_extent_header_disk, generation), generation, SEL_GENERATION_BYTES);
    sel_put_u32(raw + offsetof(struct sel_extent_header_disk, segment_id), segment_id);
    sel_put_u64(raw + offsetof(struct sel_extent_header_disk, offset), offset);
    sel_put_u32(raw + offsetof(struct sel_extent_header_disk, version), SEL_EXTENT_VERSION_2);
    sel_extent_seal(raw, sel_get_u32(raw + offsetof(struct sel_extent_header_disk, header_bytes)));
}

void sel_extent_pack(uint8_t *raw, const struct sel_extent *extent, const struct sel_plane_run *runs,
                     const struct sel_key *page_keys, const uint64_t *sums) {
    struct sel_extent_header_disk disk;
    pack_fixed(&disk, extent);
    memcpy(raw, &disk, sizeof disk);
    uint8_t *at = raw + sizeof disk;
    for (uint32_t i = 0; i < extent->run_count; i++, at += sizeof(struct sel_plane_run_disk)) {
        sel_put_u32(at, runs[i].count);
        sel_put_u32(at + 4, 0);
        sel_put_u64(at + 8, runs[i].bytes);
    }
    if (extent->page_key_count)
        memcpy(at, page_keys, (size_t)extent->page_key_count * 32);
    at += (size_t)extent->page_key_count * 32;
    for (uint32_t i = 0; i < extent->sum_count; i++, at += 8)
        sel_put_u64(at, sums[i]);
    SEL_CHECK(at <= raw + extent->header_bytes);
    memset(at, 0, (size_t)(raw + extent->header_bytes - at));
    sel_extent_seal(raw, (uint32_t)extent->header_bytes);
}
