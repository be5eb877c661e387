/* SPDX-License-Identifier: Apache-2.0
 *
 * The validator of extent headers: any bytes in, a description that holds together or an error out. Order: what the
 * first block says about itself (magic, version, length, place), the checksum over the whole header, then every field
 * against every other, so that a header that is sound but was made by a faulty writer is refused too.
 */
#include "base/check.h"
#include "base/checksum.h"
#include "lsm/format.h"

#include <inttypes.h>
#include <stdlib.h>

int sel_extent_peek(const uint8_t block[SEL_DISK_BLOCK], const struct sel_extent_place *place, uint32_t *header_bytes) {
    struct sel_extent_header_disk disk;
    memcpy(&disk, block, sizeof disk);
    *header_bytes = 0;
    if (memcmp(disk.magic, SEL_EXTENT_MAGIC, 8) != 0)
        return SELENE_E_NOTFOUND;
    if (memcmp(disk.generation, place->generation, SEL_GENERATION_BYTES) != 0)
        return SELENE_E_NOTFOUND;
    uint32_t bytes = sel_get_u32(&disk.header_bytes);
    if (sel_get_u32(&disk.segment_id) != place->segment_id || sel_get_u64(&disk.offset) != place->offset)
        return SELENE_E_CORRUPT;
    if (bytes == 0 || bytes % SEL_DISK_BLOCK != 0 || bytes > SEL_EXTENT_HEADER_MAX ||
        place->offset > place->limit_bytes || bytes > place->limit_bytes - place->offset)
        return SELENE_E_CORRUPT;
    *header_bytes = bytes;
    return 0;
}

static void unpack_fixed(struct sel_extent *e, const struct sel_extent_header_disk *disk) {
    e->version = sel_get_u32(&disk->version);
    e->header_bytes = sel_get_u32(&disk->header_bytes);
    memcpy(e->generation, disk->generation, sizeof e->generation);
    e->offset = sel_get_u64(&disk->offset);
    e->extent_bytes = sel_get_u64(&disk->extent_bytes);
    e->segment_id = sel_get_u32(&disk->segment_id);
    e->kind = disk->kind;
    e->has_row = disk->flags & SEL_EXTENT_HAS_ROW;
    e->sequence = sel_get_u64(&disk->sequence);
    e->pages_sequence = sel_get_u64(&disk->pages_sequence);
    memcpy(e->ns, disk->ns, 32);
    memcpy(&e->key, disk->key, 32);
    memcpy(&e->parent_key, disk->parent_key, 32);
    memcpy(&e->base_key, disk->base_key, 32);
    e->page_tokens = sel_get_u32(&disk->page_tokens);
    e->tokens = sel_get_u32(&disk->tokens);
    e->parent_tokens = sel_get_u32(&disk->parent_tokens);
    e->rank_count = sel_get_u32(&disk->rank_count);
    e->first_page = sel_get_u32(&disk->first_page);
    e->page_count = sel_get_u32(&disk->page_count);
    e->share_bytes = sel_get_u64(&disk->share_bytes);
    e->row_bytes = sel_get_u64(&disk->row_bytes);
    e->time_s = sel_get_u64(&disk->time_s);
    e->run_count = sel_get_u32(&disk->run_count);
    e->page_key_count = sel_get_u32(&disk->page_key_count);
    e->sum_count = sel_get_u32(&disk->sum_count);
}

static bool all_zero(const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return false;
    return true;
}

static int bad(struct selene_message *message, const struct sel_extent *e, const char *field, uint64_t found) {
    return sel_fail(message, SELENE_E_CORRUPT,
                    "segment %08x offset %" PRIu64 ": extent header: %s is %" PRIu64 ", which does not fit the rest",
                    e->segment_id, e->offset, field, found);
}

bool sel_record_counts_valid(uint32_t page_tokens, uint32_t tokens, uint32_t parent_tokens, uint32_t page_key_count) {
    return page_tokens > 0 && page_tokens <= SELENE_PAGE_TOKENS_MAX && tokens > 0 && tokens <= SEL_PREFIX_TOKENS_MAX &&
           parent_tokens < tokens && page_key_count == tokens / page_tokens - parent_tokens / page_tokens;
}

struct sel_plane_run sel_extent_run(const struct sel_extent *extent, uint32_t index) {
    const uint8_t *at = extent->runs + (size_t)index * sizeof(struct sel_plane_run_disk);
    return (struct sel_plane_run){.count = sel_get_u32(at), .bytes = sel_get_u64(at + 8)};
}

/* The runs are canonical and add up to share_bytes. */
static int check_runs(const struct sel_extent *e, struct selene_message *message) {
    uint64_t planes = 0, end = 0, before = 0;
    for (uint32_t i = 0; i < e->run_count; i++) {
        struct sel_plane_run run = sel_extent_run(e, i);
        const uint8_t *at = e->runs + (size_t)i * sizeof(struct sel_plane_run_disk);
        if (run.count == 0 || run.bytes == 0 || run.bytes > SELENE_PLANE_BYTES_MAX || run.bytes == before ||
            sel_get_u32(at + 4) != 0)
            return bad(message, e, "a plane run", run.bytes);
        before = run.bytes;
        planes += run.count;
        if (planes > SELENE_PLANES_MAX)
            return bad(message, e, "the number of planes", planes);
        end = sel_align_up(end, SEL_PLANE_ALIGNMENT);
        end += sel_align_up(run.bytes, SEL_PLANE_ALIGNMENT) * (run.count - 1) + run.bytes;
        /* 4096 planes of 1 GiB fit 64 bits: no overflow. */
    }
    if (sel_align_up(end, SEL_DISK_BLOCK) != e->share_bytes)
        return bad(message, e, "share_bytes", e->share_bytes);
    return 0;
}

static int check_counts(const struct sel_extent *e, struct selene_message *message) {
    if (!sel_record_counts_valid(e->page_tokens, e->tokens, e->parent_tokens, e->page_key_count))
        return bad(message, e, "tokens", e->tokens);
    if (e->parent_tokens == 0 && !all_zero(e->parent_key.bytes, 32))
        return bad(message, e, "a root's parent key", 1);
    if (e->rank_count == 0 || e->rank_count > SELENE_RANKS_MAX)
        return bad(message, e, "rank_count", e->rank_count);
    uint32_t first = e->parent_tokens / e->page_tokens;
    uint32_t end = e->tokens / e->page_tokens + (e->tokens % e->page_tokens != 0);
    if (e->first_page != first || e->page_count != end - first)
        return bad(message, e, "page_count", e->page_count);
    if (e->row_bytes > SELENE_ROW_BYTES_MAX || (e->has_row && e->row_bytes == 0))
        return bad(message, e, "row_bytes", e->row_bytes);
    if (e->run_count == 0 || e->run_count > SELENE_PLANES_MAX)
        return bad(message, e, "run_count", e->run_count);
    return 0;
}

/* kind, sequences and all sizes agree. */
static int check_shape(const struct sel_extent *e, struct selene_message *message) {
    bool row = e->kind == SEL_EXTENT_KIND_ROW;
    if (e->kind > SEL_EXTENT_KIND_ROW || (row && !e->has_row))
        return bad(message, e, "kind", e->kind);
    if (e->sequence == 0 || e->sequence > SEL_SEQUENCE_MAX || e->pages_sequence == 0 ||
        (row ? e->pages_sequence >= e->sequence : e->pages_sequence != e->sequence))
        return bad(message, e, "sequence", e->sequence);
    if (e->share_bytes == 0 || e->share_bytes % SEL_DISK_BLOCK != 0 ||
        e->share_bytes > SELENE_SHARE_BYTES_MAX + SELENE_PLANES_MAX * SEL_PLANE_ALIGNMENT + SEL_DISK_BLOCK)
        return bad(message, e, "share_bytes", e->share_bytes);
    struct sel_extent_size size;
    uint64_t pieces = row ? sel_extent_row_slots(e->row_bytes, e->share_bytes) : e->page_count;
    if (sel_extent_size(&size, e->kind, pieces, e->replicated ? 1 : e->rank_count, e->share_bytes, e->run_count,
                        e->page_key_count))
        return bad(message, e, "the size", e->extent_bytes);
    if (size.shares != e->sum_count)
        return bad(message, e, "sum_count", e->sum_count);
    if (size.header_bytes != e->header_bytes)
        return bad(message, e, "header_bytes", e->header_bytes);
    if (size.header_bytes + size.data_bytes != e->extent_bytes)
        return bad(message, e, "extent_bytes", e->extent_bytes);
    return 0;
}

static int unpack_common(struct sel_extent *e, const uint8_t *raw, const struct sel_extent_header_disk *disk,
                         struct selene_message *message) {
    if (!all_zero(disk->reserved0, sizeof disk->reserved0) || !all_zero(disk->reserved1, sizeof disk->reserved1))
        return bad(message, e, "a reserved byte", 1);
    int rc = check_counts(e, message);
    if (!rc)
        rc = check_shape(e, message);
    if (rc)
        return rc;
    /* check_shape proved that the arrays fit header_bytes. */
    e->runs = raw + sizeof *disk;
    e->page_keys = e->runs + (size_t)e->run_count * sizeof(struct sel_plane_run_disk);
    e->sums = e->page_keys + (size_t)e->page_key_count * 32;
    const uint8_t *end = e->sums + (size_t)e->sum_count * 8;
    if (!all_zero(end, (size_t)(raw + e->header_bytes - end)))
        return bad(message, e, "the padding", 1);
    return check_runs(e, message);
}

int sel_extent_unpack_v1(struct sel_extent *extent, const uint8_t *raw, struct selene_message *message) {
    struct sel_extent_header_disk disk;
    memcpy(&disk, raw, sizeof disk);
    unpack_fixed(extent, &disk);
    if (disk.flags & ~SEL_EXTENT_HAS_ROW)
        return bad(message, extent, "flags (version 1)", disk.flags);
    extent->replicated = false;
    return unpack_common(extent, raw, &disk, message);
}

int sel_extent_unpack_v2(struct sel_extent *extent, const uint8_t *raw, struct selene_message *message) {
    struct sel_extent_header_disk disk;
    memcpy(&disk, raw, sizeof disk);
    unpack_fixed(extent, &disk);
    if (disk.flags & ~(SEL_EXTENT_HAS_ROW | SEL_EXTENT_REPLICATED))
        return bad(message, extent, "flags", disk.flags);
    extent->replicated = disk.flags & SEL_EXTENT_REPLICATED;
    return unpack_common(extent, raw, &disk, message);
}

/* The checksum without changing `raw`, which may be shared: hashed in a copy. */
static int check_sum(const uint8_t *raw, uint32_t header_bytes) {
    size_t at = offsetof(struct sel_extent_header_disk, check);
    uint8_t *copy = malloc(header_bytes);
    if (copy == NULL)
        return SELENE_E_NOMEM;
    memcpy(copy, raw, header_bytes);
    memset(copy + at, 0, 8);
    int rc = sel_hash64(copy, header_bytes) == sel_get_u64(raw + at) ? 0 : SELENE_E_CORRUPT;
    free(copy);
    return rc;
}

int sel_extent_unpack(struct sel_extent *extent, const uint8_t *raw, size_t raw_bytes,
                      const struct sel_extent_place *place, struct selene_message *message) {
    memset(extent, 0, sizeof *extent);
    uint32_t header_bytes;
    if (raw_bytes < SEL_DISK_BLOCK)
        return sel_fail(message, SELENE_E_CORRUPT, "offset %" PRIu64 ": %zu bytes are no header", place->offset,
                        raw_bytes);
    if (sel_extent_peek(raw, place, &header_bytes) || header_bytes > raw_bytes)
        return sel_fail(message, SELENE_E_CORRUPT,
                        "segment %08x offset %" PRIu64 ": no extent header of this "
                        "generation and place",
                        place->segment_id, place->offset);
    int rc = check_sum(raw, header_bytes);
    if (rc)
        return sel_fail(message, rc, "segment %08x offset %" PRIu64 ": extent header checksum is wrong",
                        place->segment_id, place->offset);
    uint32_t version = sel_get_u32(raw + offsetof(struct sel_extent_header_disk, version));
    switch (version) {
    case SEL_EXTENT_VERSION_1:
        rc = sel_extent_unpack_v1(extent, raw, message);
        break;
    case SEL_EXTENT_VERSION_2:
        rc = sel_extent_unpack_v2(extent, raw, message);
        break;
    default:
        return sel_fail(message, version > SEL_EXTENT_VERSION_2 ? SELENE_E_VERSION : SELENE_E_CORRUPT,
                        "segment %08x offset %" PRIu64 ": extent version %u, newest known is %u", place->segment_id,
                        place->offset, version, SEL_EXTENT_VERSION_2);
    }
    if (!rc && extent->extent_bytes > place->limit_bytes - place->offset)
        rc = bad(message, extent, "extent_bytes", extent->extent_bytes);
    return rc;
}
