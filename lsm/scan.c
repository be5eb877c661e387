/* SPDX-License-Identifier: Apache-2.0
 *
 * Searching a segment for extents that the catalogue does not know [D7, D8]. Extents are found at multiples of 4 KiB by
 * a header of the segment's generation that names its own place. A whole one is hopped over; after a torn one, a hole or
 * garbage the search goes on at the next block. Live extents are skipped. Memory does not depend on what is in the file
 * but for 16 MiB of header at most and a description of each whole extent.
 *
 * Extents never overlap, so looking at torn ones cannot take more reading than the segment has bytes. Where it takes
 * twice that, somebody has laid headers over each other to make opening slow: the rest of the segment is given up.
 */
#include "lsm/open.h"

#include <stdlib.h>
#include <string.h>

#define SCAN_MIN    SEL_DISK_BLOCK /* behind an extent mostly lies the next one, or nothing */
#define SCAN_MAX    (UINT64_C(4) << 20)
#define SCAN_ERRORS 16 /* unreadable windows, then the rest of the segment is given up */

static int read_range(struct sel_segment *segment, uint64_t offset, void *to, uint64_t bytes) {
    struct iovec iov = {.iov_base = to, .iov_len = bytes};
    struct sel_disk_io io = {
        .kind = SEL_DISK_READ, .file = segment->file, .offset = offset, .iov = &iov, .iov_count = 1};
    int rc = sel_lsm_run(segment->lsm, &io);
    if (rc)
        segment->lsm->stats.read_errors++;
    else
        segment->lsm->stats.tail_bytes_read += bytes;
    return rc;
}

/* Where the search goes on: holes are hopped over [D8]. What was allocated ahead and never written is one, too, so that
 * a crash costs the reading of what was written. Where that cannot be told, all of it is read. */
static uint64_t skip_hole(struct sel_segment *segment, uint64_t offset) {
    if (offset >= segment->bytes)
        return offset;
    struct sel_disk_io io = {.kind = SEL_DISK_NEXT_DATA, .file = segment->file, .offset = offset};
    if (sel_lsm_run(segment->lsm, &io) != 0 || io.data_offset < offset)
        return offset;
    return io.data_offset / SEL_DISK_BLOCK * SEL_DISK_BLOCK;
}

static struct sel_found *new_found(struct sel_opening *opening) {
    if (opening->found_count == opening->found_capacity) {
        size_t capacity = opening->found_capacity ? opening->found_capacity * 2 : 64;
        struct sel_found *found = realloc(opening->found, capacity * sizeof *found);
        if (found == NULL)
            return NULL;
        opening->found = found;
        opening->found_capacity = capacity;
    }
    return &opening->found[opening->found_count];
}

static int keep(struct sel_opening *opening, const struct sel_segment *segment, const struct sel_extent *e) {
    struct sel_found *found = new_found(opening);
    if (found == NULL)
        return SELENE_E_NOMEM;
    *found = (struct sel_found){.sequence = e->sequence,
                                .pages_sequence = e->pages_sequence,
                                .place = sel_pack_place(segment->id, e->offset),
                                .blocks = (uint32_t)(e->extent_bytes / SEL_DISK_BLOCK),
                                .kind = e->kind,
                                .replicated = e->replicated};
    found->entry = (struct sel_record_entry){.has_row = e->has_row,
                                             .key = e->key,
                                             .parent_key = e->parent_key,
                                             .base_key = e->base_key,
                                             .page_tokens = e->page_tokens,
                                             .tokens = e->tokens,
                                             .parent_tokens = e->parent_tokens,
                                             .page_key_count = e->page_key_count,
                                             .time_s = e->time_s};
    memcpy(found->entry.ns, e->ns, sizeof found->entry.ns);
    if (e->kind == SEL_EXTENT_KIND_PAGES && e->page_key_count) {
        found->page_keys = malloc((size_t)e->page_key_count * sizeof *found->page_keys);
        if (found->page_keys == NULL)
            return SELENE_E_NOMEM;
        memcpy(found->page_keys, e->page_keys, (size_t)e->page_key_count * sizeof *found->page_keys);
    }
    opening->found_count++;
    return 0;
}

/* A header may start at `offset`. Gives the bytes to hop over: 0 when there is no whole extent. */
static int try_extent(struct sel_opening *opening, struct sel_segment *segment, uint64_t offset, const uint8_t *block,
                      uint64_t *hop) {
    struct sel_extent_place place = {
        .generation = segment->generation, .segment_id = segment->id, .offset = offset, .limit_bytes = segment->bytes};
    uint32_t header_bytes;
    *hop = 0;
    if (sel_extent_peek(block, &place, &header_bytes))
        return 0;
    uint8_t *raw = sel_buffer_get(opening->lsm, header_bytes);
    if (raw == NULL)
        return SELENE_E_NOMEM;
    struct sel_extent extent;
    uint64_t before = opening->lsm->stats.tail_bytes_read;
    int rc = read_range(segment, offset, raw, header_bytes);
    if (!rc)
        rc = sel_extent_unpack(&extent, raw, header_bytes, &place, NULL);
    if (!rc)
        opening->lsm->next_sequence = SEL_MAX(opening->lsm->next_sequence, extent.sequence + 1);
    if (!rc && (extent.kind != segment->kind || !sel_segment_is_free(segment, (uint32_t)(offset / SEL_DISK_BLOCK),
                                                                     (uint32_t)(extent.extent_bytes / SEL_DISK_BLOCK))))
        rc = SELENE_E_CORRUPT;
    if (!rc)
        rc = sel_verify_extent(opening, segment, &extent);
    if (rc == 0) {
        *hop = extent.extent_bytes;
        rc = keep(opening, segment, &extent);
    } else if (rc != SELENE_E_NOMEM) {
        opening->lsm->stats.torn_extents++;
        opening->torn_bytes_read += opening->lsm->stats.tail_bytes_read - before;
        rc = 0;
    }
    sel_buffer_put(opening->lsm, &raw);
    return rc;
}

static bool is_forged(const struct sel_opening *opening, const struct sel_segment *segment) {
    return opening->torn_bytes_read > 2 * segment->bytes;
}

/* One window; *next is where to go on. */
static int scan_window(struct sel_opening *opening, struct sel_segment *segment, const uint8_t *window, uint64_t offset,
                       uint64_t bytes, uint64_t *next) {
    *next = offset + bytes;
    for (uint64_t at = 0; at < bytes && !is_forged(opening, segment); at += SEL_DISK_BLOCK) {
        uint64_t hop;
        if (memcmp(window + at, SEL_EXTENT_MAGIC, 8) != 0)
            continue;
        if (!sel_segment_is_free(segment, (uint32_t)((offset + at) / SEL_DISK_BLOCK), 1))
            continue;
        int rc = try_extent(opening, segment, offset + at, window + at, &hop);
        if (rc)
            return rc;
        if (hop) {
            *next = offset + at + hop;
            return 0;
        }
    }
    return 0;
}

static uint64_t skip_live(const struct sel_segment *segment, uint64_t offset) {
    while (offset < segment->bytes && !sel_segment_is_free(segment, (uint32_t)(offset / SEL_DISK_BLOCK), 1))
        offset += SEL_DISK_BLOCK;
    return offset;
}

int sel_scan_segment(struct sel_opening *opening, struct sel_segment *segment) {
    uint64_t offset = SEL_MAX(segment->indexed_bytes, SEL_DISK_BLOCK), take = SCAN_MIN;
    unsigned errors = 0;
    bool first = true;
    uint8_t *window = sel_buffer_get(opening->lsm, SCAN_MAX);
    int rc = window ? 0 : SELENE_E_NOMEM;
    opening->torn_bytes_read = 0;
    while (!rc && errors < SCAN_ERRORS && !is_forged(opening, segment)) {
        offset = skip_live(segment, offset);
        uint64_t data = take > SCAN_MIN || first ? skip_hole(segment, offset) : offset;
        take = data > offset ? SCAN_MIN : take;
        first = false;
        offset = data;
        if (offset >= segment->bytes)
            break;
        uint64_t bytes = SEL_MIN(take, segment->bytes - offset), next = offset + bytes;
        if (read_range(segment, offset, window, bytes))
            errors++;
        else
            rc = scan_window(opening, segment, window, offset, bytes, &next);
        take = next != offset + bytes ? SCAN_MIN : SEL_MIN(take * 2, SCAN_MAX);
        offset = next;
    }
    if (errors)
        sel_log_warning(opening->lsm->config.log, "%s: parts of it cannot be read", segment->name);
    if (is_forged(opening, segment))
        sel_log_warning(opening->lsm->config.log, "%s: headers lie over each other: the rest of it is not searched",
                        segment->name);
    sel_buffer_put(opening->lsm, &window);
    return rc;
}

/* Does a damaged segment hold anything that once was an extent of it? */
int sel_scan_for_headers(struct sel_segment *segment, bool *any) {
    struct sel_lsm *lsm = segment->lsm;
    uint8_t *window = sel_buffer_get(lsm, SCAN_MAX);
    *any = window == NULL;
    for (uint64_t offset = SEL_DISK_BLOCK; !*any; offset += SCAN_MAX) {
        offset = skip_hole(segment, offset);
        if (offset >= segment->bytes)
            break;
        uint64_t bytes = SEL_MIN(SCAN_MAX, segment->bytes - offset);
        if (read_range(segment, offset, window, bytes))
            *any = true; /* not known: it stays */
        for (uint64_t at = 0; at < bytes && !*any; at += SEL_DISK_BLOCK) {
            const struct sel_extent_header_disk *header = (const void *)(window + at);
            *any = memcmp(header->magic, SEL_EXTENT_MAGIC, 8) == 0 && sel_get_u64(&header->offset) == offset + at &&
                   sel_get_u32(&header->segment_id) == segment->id;
        }
    }
    int rc = window ? 0 : SELENE_E_NOMEM;
    sel_buffer_put(lsm, &window);
    return rc;
}
