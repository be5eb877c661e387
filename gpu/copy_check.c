/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine, and through it the caller, names blocks, tokens and addresses. All of them are looked at here, once, so
 * that the copying code can trust them.
 */
#include "gpu/copy_check.h"

#include <stdint.h>

static bool slot_is_good(const struct sel_copy_item *item) {
    return item->slot != NULL && (uintptr_t)item->slot % SEL_BLOCK_BYTES == 0;
}

static int check_rows(const struct sel_layout *layout, void *const *rows) {
    if (layout->row_slots == 0 || rows == NULL)
        return SELENE_E_INVALID;
    for (uint32_t r = 0; r < layout->desc.rank_count; r++) {
        uint64_t end;
        if (rows[r] == NULL || __builtin_add_overflow((uintptr_t)rows[r], layout->desc.row_bytes, &end))
            return SELENE_E_INVALID;
    }
    return 0;
}

static int check_row(const struct sel_layout *layout, const struct sel_copy *copy) {
    if (copy->row_hashes == NULL)
        return SELENE_E_INVALID;
    for (size_t i = 0; i < copy->item_count; i++)
        if (!slot_is_good(&copy->items[i]) || copy->items[i].row_part >= layout->row_slots)
            return SELENE_E_INVALID;
    return check_rows(layout, copy->rows);
}

/* The last block of every plane must end inside the address space. */
static int check_planes(const struct sel_layout *layout, const struct sel_device_plane *planes, uint32_t block_limit) {
    if (planes == NULL || block_limit == 0)
        return SELENE_E_INVALID;
    for (uint32_t r = 0; r < layout->desc.rank_count; r++)
        for (uint32_t p = 0; p < layout->desc.plane_count; p++) {
            const struct sel_device_plane *plane = &planes[(size_t)r * layout->desc.plane_count + p];
            uint64_t end;
            if (plane->base == NULL || __builtin_mul_overflow(plane->stride, block_limit - 1, &end) ||
                __builtin_add_overflow(end, layout->desc.planes[p].bytes, &end) ||
                __builtin_add_overflow(end, (uintptr_t)plane->base, &end))
                return SELENE_E_INVALID;
        }
    return 0;
}

static bool page_is_good(const struct sel_layout *layout, const struct sel_copy_item *item, uint32_t block_limit) {
    return item->block < block_limit && item->tokens > 0 && item->tokens <= layout->desc.page_tokens;
}

static int check_pages(const struct sel_layout *layout, const struct sel_copy *copy) {
    for (size_t i = 0; i < copy->item_count; i++) {
        const struct sel_copy_item *item = &copy->items[i];
        if (!slot_is_good(item) || item->sums == NULL || !page_is_good(layout, item, copy->block_limit))
            return SELENE_E_INVALID;
    }
    return check_planes(layout, copy->planes, copy->block_limit);
}

int sel_copy_check(const struct sel_layout *layout, const struct sel_copy *copy) {
    if (copy->direction != SEL_COPY_OUT && copy->direction != SEL_COPY_IN)
        return SELENE_E_INVALID;
    if (copy->item_count == 0)
        return 0;
    if (copy->items == NULL || copy->item_count > SEL_COPY_ITEMS_MAX)
        return SELENE_E_INVALID;
    return copy->row ? check_row(layout, copy) : check_pages(layout, copy);
}

int sel_compare_check(const struct sel_layout *layout, const struct sel_compare *compare) {
    if (compare->row)
        return check_rows(layout, compare->rows);
    if (compare->item_count == 0)
        return 0;
    if (compare->items == NULL || compare->item_count > SEL_COPY_ITEMS_MAX / SELENE_PLANES_MAX)
        return SELENE_E_INVALID;
    for (size_t i = 0; i < compare->item_count; i++)
        if (!page_is_good(layout, &compare->items[i], compare->block_limit))
            return SELENE_E_INVALID;
    return check_planes(layout, compare->planes, compare->block_limit);
}
