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

static int check_row(const struct sel_layout *layout, const struct sel_copy *copy) {
    if (layout->row_slots == 0 || copy->rows == NULL || copy->row_hashes == NULL)
        return SELENE_E_INVALID;
    for (uint32_t r = 0; r < layout->desc.rank_count; r++)
        if (copy->rows[r] == NULL)
            return SELENE_E_INVALID;
    for (size_t i = 0; i < copy->item_count; i++)
        if (!slot_is_good(&copy->items[i]) || copy->items[i].row_part >= layout->row_slots)
            return SELENE_E_INVALID;
    return 0;
}

/* The last block of every plane must end inside the address space. */
static int check_planes(const struct sel_layout *layout, const struct sel_copy *copy) {
    if (copy->planes == NULL || copy->block_limit == 0)
        return SELENE_E_INVALID;
    for (uint32_t r = 0; r < layout->desc.rank_count; r++)
        for (uint32_t p = 0; p < layout->desc.plane_count; p++) {
            const struct sel_device_plane *plane = &copy->planes[(size_t)r * layout->desc.plane_count + p];
            uint64_t end;
            if (plane->base == NULL || __builtin_mul_overflow(plane->stride, copy->block_limit - 1, &end) ||
                __builtin_add_overflow(end, layout->desc.planes[p].bytes, &end) ||
                __builtin_add_overflow(end, (uintptr_t)plane->base, &end))
                return SELENE_E_INVALID;
        }
    return 0;
}

static int check_pages(const struct sel_layout *layout, const struct sel_copy *copy) {
    int rc = check_planes(layout, copy);
    for (size_t i = 0; i < copy->item_count && rc == 0; i++) {
        const struct sel_copy_item *item = &copy->items[i];
        if (!slot_is_good(item) || item->sums == NULL || item->block >= copy->block_limit || item->tokens == 0 ||
            item->tokens > layout->desc.page_tokens)
            rc = SELENE_E_INVALID;
    }
    return rc;
}

int sel_copy_check(const struct sel_layout *layout, const struct sel_copy *copy) {
    if (copy->direction != SEL_COPY_OUT && copy->direction != SEL_COPY_IN)
        return SELENE_E_INVALID;
    if (copy->replicated && copy->direction == SEL_COPY_OUT)
        return SELENE_E_UNSUPPORTED;
    if (copy->item_count == 0)
        return 0;
    if (copy->items == NULL || copy->item_count > SEL_COPY_ITEMS_MAX)
        return SELENE_E_INVALID;
    return copy->row ? check_row(layout, copy) : check_pages(layout, copy);
}
