/* SPDX-License-Identifier: Apache-2.0
 *
 * Validates a layout, copies it, and derives from it what every other room uses [L1].
 *
 * Order: check every bound on the caller's description (which may hold any numbers), copy it, place the planes, hash
 * the canonical encoding. After the checks no sum below can overflow: a share is at most 1 GiB of planes, 63 bytes of
 * padding for each of 4096 planes, and 4 KiB.
 */
#include "index/layout.h"

#include "base/bytes.h"
#include "base/check.h"
#include "index/sha256.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int check_range(struct selene_message *message, const char *field, uint64_t value, uint64_t low, uint64_t high) {
    if (value >= low && value <= high)
        return 0;
    return sel_fail(message, SELENE_E_INVALID, "layout: %s is %" PRIu64 ", allowed are %" PRIu64 " to %" PRIu64, field,
                    value, low, high);
}

/* The entries of plane i: whole when entry_tokens is 0, else they divide the page and fit the plane. */
static int check_entries(struct selene_message *message, const struct selene_layout *desc, uint32_t i) {
    const struct selene_plane *plane = &desc->planes[i];

    if (plane->entry_tokens == 0) {
        if (plane->entry_bytes == 0)
            return 0;
        return sel_fail(message, SELENE_E_INVALID,
                        "layout: planes[%" PRIu32 "].entry_bytes is %" PRIu32 ", must be 0 when entry_tokens is 0", i,
                        plane->entry_bytes);
    }
    if (desc->page_tokens % plane->entry_tokens != 0)
        return sel_fail(message, SELENE_E_INVALID,
                        "layout: planes[%" PRIu32 "].entry_tokens is %" PRIu32
                        ", must be 0 or a divisor of page_tokens (%" PRIu32 ")",
                        i, plane->entry_tokens, desc->page_tokens);
    uint64_t limit = plane->bytes / (desc->page_tokens / plane->entry_tokens);
    if (plane->entry_bytes == 0 || plane->entry_bytes > limit)
        return sel_fail(message, SELENE_E_INVALID,
                        "layout: planes[%" PRIu32 "].entry_bytes is %" PRIu32 ", allowed are 1 to %" PRIu64 " (%" PRIu32
                        " entries in %" PRIu64 " bytes)",
                        i, plane->entry_bytes, limit, desc->page_tokens / plane->entry_tokens, plane->bytes);
    return 0;
}

static int check_planes(struct selene_message *message, const struct selene_layout *desc) {
    uint64_t sum = 0;

    if (desc->planes == NULL)
        return sel_fail(message, SELENE_E_INVALID, "layout: planes is NULL, expected %" PRIu32 " planes",
                        desc->plane_count);
    for (uint32_t i = 0; i < desc->plane_count; i++) {
        char field[40];
        snprintf(field, sizeof field, "planes[%" PRIu32 "].bytes", i);
        int rc = check_range(message, field, desc->planes[i].bytes, 1, SELENE_PLANE_BYTES_MAX);
        if (rc == 0)
            rc = check_entries(message, desc, i);
        if (rc != 0)
            return rc;
        sum += desc->planes[i].bytes; /* at most 4096 GiB */
    }
    return check_range(message, "sum of planes[].bytes", sum, 1, SELENE_SHARE_BYTES_MAX);
}

static int check_layout(struct selene_message *message, const struct selene_layout *desc) {
    int rc;

    if (desc == NULL)
        return sel_fail(message, SELENE_E_INVALID, "layout: none given");
    if ((rc = check_range(message, "page_tokens", desc->page_tokens, 1, SELENE_PAGE_TOKENS_MAX)) != 0 ||
        (rc = check_range(message, "rank_count", desc->rank_count, 1, SELENE_RANKS_MAX)) != 0 ||
        (rc = check_range(message, "plane_count", desc->plane_count, 1, SELENE_PLANES_MAX)) != 0 ||
        (rc = check_planes(message, desc)) != 0 ||
        (rc = check_range(message, "row_bytes", desc->row_bytes, 0, SELENE_ROW_BYTES_MAX)) != 0 ||
        (rc = check_range(message, "description_bytes", desc->description_bytes, 0, SELENE_DESCRIPTION_BYTES_MAX)) != 0)
        return rc;
    if (desc->description == NULL && desc->description_bytes > 0)
        return sel_fail(message, SELENE_E_INVALID, "layout: description is NULL, description_bytes is %zu",
                        desc->description_bytes);
    return 0;
}

static int copy_desc(struct sel_layout *layout, const struct selene_layout *desc) {
    struct selene_plane *planes = malloc(desc->plane_count * sizeof *planes);
    /* One byte more, so that an empty description is not a NULL pointer. */
    uint8_t *description = malloc(desc->description_bytes + 1);

    layout->desc = *desc;
    layout->desc.planes = planes;
    layout->desc.description = description;
    layout->plane_offset = malloc(desc->plane_count * sizeof *layout->plane_offset);
    if (planes == NULL || description == NULL || layout->plane_offset == NULL)
        return SELENE_E_NOMEM;
    memcpy(planes, desc->planes, desc->plane_count * sizeof *planes);
    if (desc->description_bytes > 0)
        memcpy(description, desc->description, desc->description_bytes);
    description[desc->description_bytes] = 0;
    return 0;
}

static uint64_t blocks_of(uint64_t bytes) { return (bytes + SEL_BLOCK_BYTES - 1) / SEL_BLOCK_BYTES; }

static void place_planes(struct sel_layout *layout) {
    const struct selene_layout *desc = &layout->desc;
    uint64_t offset = 0;

    for (uint32_t i = 0; i < desc->plane_count; i++) {
        offset = sel_align_up(offset, SEL_PLANE_ALIGNMENT);
        layout->plane_offset[i] = offset;
        offset += desc->planes[i].bytes;
        layout->page_bytes += desc->planes[i].bytes;
        layout->page_blocks += (uint32_t)blocks_of(desc->planes[i].bytes);
    }
    layout->share_bytes = sel_align_up(offset, SEL_BLOCK_BYTES);
    layout->slot_bytes = layout->share_bytes * desc->rank_count;
    layout->row_slots = (uint32_t)((desc->row_bytes + layout->share_bytes - 1) / layout->share_bytes);
    layout->row_blocks = (uint32_t)blocks_of(desc->row_bytes);
}

static void add_u32(struct sel_sha256_state *state, uint32_t value) {
    uint8_t bytes[4];
    sel_put_u32(bytes, value);
    sel_sha256_add(state, bytes, sizeof bytes);
}

static void add_u64(struct sel_sha256_state *state, uint64_t value) {
    uint8_t bytes[8];
    sel_put_u64(bytes, value);
    sel_sha256_add(state, bytes, sizeof bytes);
}

static void name_layout(struct sel_layout *layout) {
    static const char magic[] = "selene layout 1\n";
    const struct selene_layout *desc = &layout->desc;
    struct sel_sha256_state state;

    sel_sha256_begin(&state);
    sel_sha256_add(&state, magic, sizeof magic - 1);
    add_u32(&state, desc->page_tokens);
    add_u32(&state, desc->rank_count);
    add_u32(&state, desc->plane_count);
    add_u64(&state, desc->row_bytes);
    for (uint32_t i = 0; i < desc->plane_count; i++) {
        add_u64(&state, desc->planes[i].bytes);
        add_u32(&state, desc->planes[i].entry_tokens);
        add_u32(&state, desc->planes[i].entry_bytes);
    }
    add_u64(&state, desc->description_bytes);
    sel_sha256_add(&state, desc->description, desc->description_bytes);
    sel_sha256_end(&state, layout->ns);
}

int sel_layout_create(struct sel_layout **out, const struct selene_layout *desc, struct selene_message *message) {
    struct sel_layout *layout;
    int rc;

    *out = NULL;
    rc = check_layout(message, desc);
    if (rc != 0)
        return rc;
    layout = calloc(1, sizeof *layout);
    rc = layout == NULL ? SELENE_E_NOMEM : copy_desc(layout, desc);
    if (rc != 0) {
        sel_layout_destroy(&layout);
        return sel_fail(message, rc, "layout: no memory for %" PRIu32 " planes", desc->plane_count);
    }
    place_planes(layout);
    name_layout(layout);
    *out = layout;
    return 0;
}

void sel_layout_destroy(struct sel_layout **layout) {
    struct sel_layout *l = *layout;

    *layout = NULL;
    if (l == NULL)
        return;
    free((void *)(uintptr_t)l->desc.planes);
    free((void *)(uintptr_t)l->desc.description);
    free(l->plane_offset);
    free(l);
}

uint64_t sel_layout_valid_bytes(const struct sel_layout *layout, uint32_t plane, uint32_t tokens) {
    const struct selene_plane *p = &layout->desc.planes[plane];

    SEL_DEBUG(plane < layout->desc.plane_count);
    if (p->entry_tokens == 0 || tokens >= layout->desc.page_tokens)
        return p->bytes;
    return (uint64_t)(tokens / p->entry_tokens) * p->entry_bytes;
}
