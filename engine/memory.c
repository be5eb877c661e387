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
    store->stats.held_bytes[SEL_TIER_MEMORY] +=
        (uint64_t)(sign * (int64_t)sel_node_bytes(store, node, SEL_TIER_MEMORY));
}

int sel_memory_attach(selene_store *store, struct sel_node *node, struct sel_memory **memory) {
    bool parked = !sel_node_pages_readable(node, SEL_TIER_DISK); /* a bad copy there is about to leave */
    SEL_CHECK(node->memory == NULL);
    int result = sel_tree_add_to(store->tree, node, SEL_TIER_MEMORY, parked);
    if (result) {
        sel_memory_destroy(store, memory);
        return result;
    }
    node->memory = *memory;
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
}

void sel_memory_detach(selene_store *store, struct sel_node *node) {
    struct sel_memory *memory = node->memory;
    SEL_CHECK(memory != NULL);
    count_copy(store, node, -1);
    sel_tree_remove_from(store->tree, node, SEL_TIER_MEMORY);
    node->memory = NULL;
    node->flags &= (uint16_t) ~(SEL_BAD_MEMORY | SEL_BAD_MEMORY_ROW);
    sel_memory_destroy(store, &memory);
}

void sel_memory_set_parked(selene_store *store, struct sel_node *node, bool parked) {
    if (!node->memory || node->tier[SEL_TIER_MEMORY].parked == parked)
        return;
    count_copy(store, node, -1);
    sel_tree_set_parked(store->tree, node, SEL_TIER_MEMORY, parked);
    count_copy(store, node, 1);
}
