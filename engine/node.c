/* SPDX-License-Identifier: Apache-2.0
 *
 * What a record holds and where it can be read from: functions of the node alone.
 */
#include "engine/store_priv.h"

#include <string.h>

static uint64_t parent_tokens(const struct sel_node *node) { return node->parent ? node->parent->tokens : 0; }

uint32_t sel_node_first_page(const selene_store *store, const struct sel_node *node) {
    return sel_layout_first_page(store->layout, parent_tokens(node));
}

uint32_t sel_node_page_count(const selene_store *store, const struct sel_node *node) {
    return sel_layout_end_page(store->layout, node->tokens) - sel_node_first_page(store, node);
}

bool sel_node_foreign(const selene_store *store, const struct sel_node *node) {
    return memcmp(sel_tree_namespace(store->tree, node->ns), store->layout->ns, SEL_NAMESPACE_BYTES) != 0;
}

uint64_t sel_page_bytes(const selene_store *store, uint32_t tokens) {
    const struct sel_layout *layout = store->layout;
    uint64_t bytes = 0;
    if (tokens == layout->desc.page_tokens)
        return layout->page_bytes * layout->desc.rank_count;
    for (uint32_t plane = 0; plane < layout->desc.plane_count; plane++)
        bytes += sel_layout_valid_bytes(layout, plane, tokens);
    return bytes * layout->desc.rank_count;
}

/* How a tier stores the part [K1]. */
static bool packed(const struct sel_node *node, enum sel_tier tier, enum sel_lsm_part part) {
    const struct sel_memory *memory = node->memory;
    if (tier == SEL_TIER_DISK)
        return node->flags & (part == SEL_LSM_ROW ? SEL_DISK_ROW_PACKED : SEL_DISK_PAGES_PACKED);
    return memory && (part == SEL_LSM_ROW ? memory->row.packed : memory->pages.packed);
}

uint64_t sel_node_bytes(const selene_store *store, const struct sel_node *node, enum sel_tier tier) {
    const struct sel_layout *layout = store->layout;
    const struct sel_memory *memory = node->memory;
    bool row = tier == SEL_TIER_MEMORY ? memory && memory->row.count > 0 : node->disk.row != 0;
    /* Of other layouts only the extents are known. */
    if (tier == SEL_TIER_DISK && sel_node_foreign(store, node))
        return (uint64_t)SEL_BLOCK_BYTES * ((uint64_t)node->disk.pages_blocks + node->disk.row_blocks);
    uint64_t ranks = layout->desc.rank_count;
    uint64_t pages = (packed(node, tier, SEL_LSM_PAGES) ? 1 : ranks) * sel_node_page_count(store, node);
    return pages * layout->page_bytes +
           (row ? (packed(node, tier, SEL_LSM_ROW) ? 1 : ranks) * layout->desc.row_bytes : 0);
}

void sel_node_count(selene_store *store, const struct sel_node *node, enum sel_tier tier, int sign) {
    struct selene_stats *stats = &store->stats;
    const struct sel_memory *memory = node->memory;
    uint64_t one = (uint64_t)(int64_t)sign;
    stats->held_bytes[tier] += one * sel_node_bytes(store, node, tier);
    if (packed(node, tier, SEL_LSM_PAGES))
        stats->packed_records[tier] += one;
    else
        stats->per_rank_records[tier] += one;
    if (tier == SEL_TIER_MEMORY ? memory->row.count == 0 : node->disk.row == 0)
        return;
    stats->rows[tier] += one;
    if (packed(node, tier, SEL_LSM_ROW))
        stats->packed_rows[tier] += one;
}

bool sel_node_pages_readable(const struct sel_node *node, enum sel_tier tier) {
    unsigned bad = tier == SEL_TIER_MEMORY ? SEL_BAD_MEMORY : SEL_BAD_DISK;
    return node->tier[tier].present && !(node->flags & (bad | SEL_DOOMED));
}

bool sel_node_row_readable(const struct sel_node *node, enum sel_tier tier) {
    const struct sel_memory *memory = node->memory;
    if (!sel_node_pages_readable(node, tier))
        return false;
    if (tier == SEL_TIER_MEMORY)
        return memory->row.count > 0 && !(node->flags & SEL_BAD_MEMORY_ROW);
    return node->disk.row != 0 && !(node->flags & (SEL_BAD_DISK_ROW | SEL_THINNING_DISK));
}

int sel_node_tier(const struct sel_node *node, enum sel_lsm_part part) {
    for (int tier = SEL_TIER_MEMORY; tier <= SEL_TIER_DISK; tier++) {
        bool readable = part == SEL_LSM_ROW ? sel_node_row_readable(node, (enum sel_tier)tier)
                                            : sel_node_pages_readable(node, (enum sel_tier)tier);
        if (readable)
            return tier;
    }
    return -1;
}

bool sel_node_row_usable(void *store, const struct sel_node *node) {
    (void)store;
    return sel_node_tier(node, SEL_LSM_ROW) >= 0 && sel_node_tier(node, SEL_LSM_PAGES) >= 0;
}

void sel_node_identify(const selene_store *store, const struct sel_node *node, struct sel_lsm_record *record) {
    memset(record, 0, sizeof *record);
    memcpy(record->ns, store->layout->ns, sizeof record->ns);
    record->page_tokens = store->layout->desc.page_tokens;
    record->tokens = node->tokens;
    record->parent_tokens = (uint32_t)parent_tokens(node);
    record->page_key_count = record->tokens / record->page_tokens - record->parent_tokens / record->page_tokens;
    record->key = node->key;
    record->pages_replicated = packed(node, SEL_TIER_DISK, SEL_LSM_PAGES);
    record->row_replicated = node->disk.row != 0 && packed(node, SEL_TIER_DISK, SEL_LSM_ROW);
    if (node->parent)
        record->parent_key = node->parent->key;
}

int sel_node_describe(const selene_store *store, const struct sel_node *node, struct sel_lsm_record *record,
                      struct sel_key **keys) {
    *keys = NULL;
    if (sel_node_foreign(store, node)) /* its pages are of another size */
        return SELENE_E_INVALID;
    sel_node_identify(store, node, record);
    *keys = malloc(record->page_key_count * sizeof **keys + 1);
    if (!*keys)
        return SELENE_E_NOMEM;
    sel_tree_keys(store->tree, node, *keys, &record->base_key);
    record->page_keys = *keys;
    record->has_row = node->disk.row != 0;
    record->time_s = sel_age_time_s(store, node->last_use);
    return 0;
}

int sel_node_chain(selene_store *store, struct sel_node *node, size_t *count) {
    size_t n = 0;
    for (; node; node = node->parent) {
        if (n == store->chain_capacity) {
            size_t capacity = n ? 2 * n : 256;
            struct sel_node **chain = realloc(store->chain, capacity * sizeof *chain);
            if (!chain)
                return SELENE_E_NOMEM;
            store->chain = chain;
            store->chain_capacity = capacity;
        }
        store->chain[n++] = node;
    }
    *count = n;
    return 0;
}
