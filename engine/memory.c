/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory copy of a record: slots and checksums of its pages and of its row, and the counts that follow from its
 * state [M4]. A copy is attached whole; attaching makes it clean or parked by what the lower tiers hold.
 */
#include "engine/store_priv.h"

#include <string.h>

struct sel_memory *sel_memory_create(void) {
    return calloc(1, sizeof(struct sel_memory));
}

uint32_t sel_part_per_slot(const selene_store *store, bool packed) {
    return packed ? store->layout->desc.rank_count : 1;
}

uint32_t sel_part_slots(const selene_store *store, uint32_t pieces, bool packed) {
    uint32_t each = sel_part_per_slot(store, packed);
    return pieces / each + (pieces % each != 0);
}

uint8_t *sel_part_share(const selene_store *store, const struct sel_copy_part *part, uint32_t piece) {
    uint32_t each = sel_part_per_slot(store, part->packed);
    return sel_slot_at(&store->slots, part->slots[piece / each]) + piece % each * store->layout->share_bytes;
}

uint64_t *sel_part_sums(const selene_store *store, const struct sel_copy_part *part, uint32_t piece) {
    return part->sums + (size_t)piece * (part->packed ? 1 : store->layout->desc.rank_count);
}

int sel_part_iov(const selene_store *store, const struct sel_copy_part *part, const uint32_t *slots, uint32_t first,
                 uint32_t count, struct iovec *iov) {
    const struct sel_layout *layout = store->layout;
    uint64_t bytes = part->pieces * (part->packed ? layout->share_bytes : layout->slot_bytes);
    uint64_t left = bytes - first * layout->slot_bytes;
    int vectors = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *slot = sel_slot_at(&store->slots, slots[i]);
        uint64_t here = SEL_MIN(left, layout->slot_bytes);
        struct iovec *last = vectors ? &iov[vectors - 1] : NULL;
        if (last && (uint8_t *)last->iov_base + last->iov_len == slot)
            last->iov_len += here;
        else
            iov[vectors++] = (struct iovec){.iov_base = slot, .iov_len = here};
        left -= here;
    }
    return vectors;
}

int sel_copy_part_create(struct sel_copy_part *part, uint32_t count, size_t sums) {
    /* One block: checksums first, since they need the alignment. */
    uint8_t *block = malloc(sums * sizeof(uint64_t) + count * sizeof(uint32_t) + 1);
    if (!block)
        return SELENE_E_NOMEM;
    part->sums = (uint64_t *)block;
    part->slots = (uint32_t *)(block + sums * sizeof(uint64_t));
    part->count = 0; /* becomes `count` when the slots are taken */
    return 0;
}

void sel_copy_part_destroy(selene_store *store, struct sel_copy_part *part) {
    sel_slots_give(&store->slots, part->slots, part->count);
    free(part->sums);
    memset(part, 0, sizeof *part);
}

void sel_memory_destroy(selene_store *store, struct sel_memory **memory) {
    if (!*memory)
        return;
    SEL_CHECK((*memory)->spill == NULL);
    sel_copy_part_destroy(store, &(*memory)->pages);
    sel_copy_part_destroy(store, &(*memory)->row);
    free(*memory);
    *memory = NULL;
}

static void count_copy(selene_store *store, const struct sel_node *node, int sign) {
    const struct sel_memory *memory = node->memory;
    if (node->tier[SEL_TIER_MEMORY].parked)
        store->parked_count += (uint64_t)(int64_t)sign;
    else
        store->clean_slots += (uint64_t)((int64_t)sign * sel_memory_slots(memory));
    sel_node_count(store, node, SEL_TIER_MEMORY, sign);
}

bool sel_memory_row_kept(const struct sel_node *node) {
    const struct sel_memory *memory = node->memory;
    return memory && memory->row.count > 0 && !(node->flags & (SEL_BAD_MEMORY_ROW | SEL_THIN_MEMORY));
}

bool sel_memory_row_parked(const selene_store *store, const struct sel_node *node) {
    return sel_memory_row_kept(node) && !sel_node_row_readable(node, SEL_TIER_DISK) && !sel_thin_ahead(store, node);
}

/* A bad copy on disk is about to leave. */
static bool parked(const selene_store *store, const struct sel_node *node) {
    return !sel_node_pages_readable(node, SEL_TIER_DISK) || sel_memory_row_parked(store, node);
}

int sel_memory_attach(selene_store *store, struct sel_node *node, struct sel_memory **memory) {
    SEL_CHECK(node->memory == NULL);
    node->memory = *memory;
    int result = sel_tree_add_to(store->tree, node, SEL_TIER_MEMORY, parked(store, node));
    if (result) {
        node->memory = NULL;
        sel_memory_destroy(store, memory);
        return result;
    }
    *memory = NULL;
    count_copy(store, node, 1);
    return 0;
}

void sel_memory_attach_row(selene_store *store, struct sel_node *node, struct sel_copy_part *row) {
    struct sel_memory *memory = node->memory;
    SEL_CHECK(memory != NULL && memory->row.count == 0);
    count_copy(store, node, -1);
    sel_copy_part_destroy(store, &memory->row);
    memory->row = *row;
    memset(row, 0, sizeof *row);
    count_copy(store, node, 1);
    sel_memory_refresh(store, node);
}

void sel_memory_drop_row(selene_store *store, struct sel_node *node) {
    struct sel_memory *memory = node->memory;
    struct sel_copy_part row = memory->row;
    count_copy(store, node, -1);
    memset(&memory->row, 0, sizeof memory->row);
    count_copy(store, node, 1);
    sel_copy_part_destroy(store, &row);
    node->flags &= (uint16_t) ~(SEL_BAD_MEMORY_ROW | SEL_THIN_MEMORY);
}

void sel_memory_detach(selene_store *store, struct sel_node *node) {
    struct sel_memory *memory = node->memory;
    SEL_CHECK(memory != NULL);
    count_copy(store, node, -1);
    sel_tree_remove_from(store->tree, node, SEL_TIER_MEMORY);
    node->memory = NULL;
    node->flags &= (uint16_t) ~(SEL_BAD_MEMORY | SEL_BAD_MEMORY_ROW | SEL_THIN_MEMORY | SEL_HOLD_MEMORY);
    sel_memory_destroy(store, &memory);
}

void sel_memory_refresh(selene_store *store, struct sel_node *node) {
    if (!node->memory || node->tier[SEL_TIER_MEMORY].parked == parked(store, node))
        return;
    count_copy(store, node, -1);
    sel_tree_set_parked(store->tree, node, SEL_TIER_MEMORY, parked(store, node));
    count_copy(store, node, 1);
}
