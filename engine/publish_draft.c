/* SPDX-License-Identifier: Apache-2.0
 *
 * Drafts of a store with a warm tier: slots, copies, and the moment a draft becomes a record.
 *
 * A draft becomes visible only when its copies are complete and its checksums are there [faults 2, 3]. If its key came
 * into the tree meanwhile (another publish was faster), the draft's slots are given back and the chain goes on from the
 * record that is there.
 */
#include "engine/publish_priv.h"

#include <string.h>

uint64_t sel_draft_end(const struct sel_publish *publish) {
    const selene_store *store = publish->store;
    if (store->layout->desc.row_bytes)
        return publish->tokens;
    /* Absolute multiples of the group, so that shared prefixes are cut alike [L6]. */
    uint64_t group_tokens = (uint64_t)store->options.page_group * store->layout->desc.page_tokens;
    uint64_t end = (publish->cursor / group_tokens + 1) * group_tokens;
    return SEL_MIN(end, publish->tokens);
}

static uint32_t page_tokens_of(const struct sel_draft *draft, uint32_t index) {
    uint64_t page_tokens = draft->publish->store->layout->desc.page_tokens;
    uint64_t start = (uint64_t)(draft->first_page + index) * page_tokens;
    return (uint32_t)SEL_MIN(draft->tokens - start, page_tokens);
}

uint64_t sel_draft_bytes(const selene_store *store, const struct sel_draft *draft) {
    const struct sel_layout *layout = store->layout;
    uint64_t ranks = layout->desc.rank_count, pages = 0;
    if (draft->page_count) /* the last may be a partial one */
        pages = (uint64_t)(draft->page_count - 1) * layout->page_bytes +
                sel_page_bytes(store, page_tokens_of(draft, draft->page_count - 1)) / ranks;
    return (draft->pages_packed ? 1 : ranks) * pages + (draft->row_packed ? 1 : ranks) * layout->desc.row_bytes;
}

struct sel_draft *sel_draft_create(struct sel_publish *publish) {
    const struct sel_layout *layout = publish->store->layout;
    struct sel_draft *draft = calloc(1, sizeof *draft);
    if (!draft)
        return NULL;
    sel_list_init(&draft->link);
    draft->publish = publish;
    draft->parent_tokens = publish->cursor;
    draft->tokens = sel_draft_end(publish);
    draft->first_page = sel_layout_first_page(layout, draft->parent_tokens);
    if (!publish->thinned)
        draft->page_count = sel_layout_end_page(layout, draft->tokens) - draft->first_page;
    draft->key = draft->tokens == publish->tokens
                     ? publish->key
                     : publish->keys[draft->tokens / layout->desc.page_tokens - publish->first_page];
    return draft;
}

void sel_draft_free(struct sel_draft **draft) {
    if (!*draft)
        return;
    sel_list_remove(&(*draft)->link);
    sel_draft_give_back(*draft, 0);
    free((*draft)->slots);
    sel_memory_destroy((*draft)->publish->store, &(*draft)->memory);
    sel_stream_free(&(*draft)->stream);
    free((*draft)->items);
    free((*draft)->row_hashes);
    free(*draft);
    *draft = NULL;
}

void sel_draft_spec(const struct sel_draft *draft, struct sel_node_spec *spec) {
    const struct sel_publish *publish = draft->publish;
    const struct sel_layout *layout = publish->store->layout;
    uint32_t end = (uint32_t)(draft->tokens / layout->desc.page_tokens);
    *spec = (struct sel_node_spec){
        .ns = layout->ns,
        .page_tokens = layout->desc.page_tokens,
        .tokens = (uint32_t)draft->tokens,
        .key = draft->key,
        .parent = publish->parent,
        .page_keys = &publish->keys[draft->first_page + 1 - publish->first_page],
        .page_key_count = end - draft->first_page,
        .base_key = publish->keys[end - publish->first_page],
    };
}

static void draft_done(struct sel_draft *draft) {
    selene_store *store = draft->publish->store;
    const struct sel_layout *layout = store->layout;
    if (draft->result == 0 && draft->row_hashes)
        for (uint32_t rank = 0; rank < (draft->row_packed ? 1 : layout->desc.rank_count); rank++)
            draft->memory->row.sums[rank] =
                sel_checksum_finish(draft->row_hashes + (size_t)rank * layout->row_blocks, layout->row_blocks);
    draft->done = true;
    sel_publish_collect(draft->publish);
}

static void copy_done(struct sel_draft *draft, int result) {
    if (!draft->result)
        draft->result = result;
    if (--draft->in_flight == 0)
        draft_done(draft);
}
static void page_copy_done(struct sel_op *op) {
    copy_done(SEL_CONTAINER(op, struct sel_draft, page_copy.op), op->result);
}
static void row_copy_done(struct sel_op *op) {
    copy_done(SEL_CONTAINER(op, struct sel_draft, row_copy.op), op->result);
}

void sel_draft_page_item(const struct sel_draft *draft, uint32_t index, struct sel_copy_item *item) {
    const struct sel_publish *publish = draft->publish;
    item->block = publish->blocks[draft->first_page + index - publish->first_page];
    item->tokens = page_tokens_of(draft, index);
}

void sel_draft_copy(struct sel_draft *draft) {
    struct sel_publish *publish = draft->publish;
    selene_store *store = publish->store;
    struct sel_memory *memory = draft->memory;
    struct sel_copy_item *items = draft->items;
    for (uint32_t i = 0; i < draft->page_count; i++) {
        items[i].slot = sel_part_share(store, &memory->pages, i);
        items[i].sums = sel_part_sums(store, &memory->pages, i);
    }
    draft->page_copy = (struct sel_copy){.direction = SEL_COPY_OUT,
                                         .replicated = memory->pages.packed,
                                         .items = items,
                                         .item_count = draft->page_count,
                                         .planes = store->planes,
                                         .wait = publish->wait,
                                         .block_limit = store->options.block_count};
    sel_op_init(&draft->page_copy.op, page_copy_done);
    draft->in_flight = draft->page_count > 0;
    if (memory->row.count) {
        items += draft->page_count;
        for (uint32_t i = 0; i < memory->row.pieces; i++)
            items[i] = (struct sel_copy_item){.slot = sel_part_share(store, &memory->row, i), .row_part = i};
        draft->row_copy = (struct sel_copy){.direction = SEL_COPY_OUT,
                                            .row = true,
                                            .replicated = memory->row.packed,
                                            .items = items,
                                            .item_count = memory->row.pieces,
                                            .rows = publish->rows,
                                            .row_hashes = draft->row_hashes,
                                            .wait = publish->wait};
        sel_op_init(&draft->row_copy.op, row_copy_done);
        draft->in_flight++;
        store->device->ops->submit(store->device, &draft->row_copy);
    }
    if (draft->page_count)
        store->device->ops->submit(store->device, &draft->page_copy);
}

static int draft_buffers(struct sel_draft *draft) {
    const struct sel_layout *layout = draft->publish->store->layout;
    size_t pieces = (size_t)draft->page_count + layout->row_slots;
    draft->items = calloc(pieces, sizeof *draft->items);
    draft->slots = malloc(pieces * sizeof *draft->slots);
    if (layout->row_slots)
        draft->row_hashes = calloc((size_t)layout->desc.rank_count * layout->row_blocks, sizeof *draft->row_hashes);
    if (!draft->items || !draft->slots || (layout->row_slots && !draft->row_hashes))
        return SELENE_E_NOMEM;
    for (uint32_t i = 0; i < draft->page_count; i++)
        sel_draft_page_item(draft, i, &draft->items[i]);
    return 0;
}

int sel_draft_start(struct sel_publish *publish) {
    selene_store *store = publish->store;
    if (store->warm_slots == 0)
        return sel_stream_start(publish);
    struct sel_draft *draft = sel_draft_create(publish);
    if (!draft)
        return SELENE_E_NOMEM;
    sel_draft_predict(draft);
    int result = draft_buffers(draft);
    if (!result)
        result = sel_draft_take(draft);
    if (result) {
        sel_draft_free(&draft);
        return result;
    }
    sel_list_add_tail(&publish->drafts, &draft->link);
    publish->cursor = draft->tokens;
    if (sel_pack_allowed(store))
        sel_draft_compare(draft, draft->page_count);
    else
        (void)sel_draft_settle(draft); /* it has its slots */
    return 0;
}

/* The record becomes visible in memory; its parent's row may go with that. */
static int attach(struct sel_draft *draft, struct sel_node *node) {
    selene_store *store = draft->publish->store;
    int result = sel_memory_attach(store, node, &draft->memory);
    if (!result)
        sel_thin_committed(store, node, SEL_TIER_MEMORY);
    return result;
}

/* The key is there already: brings what is missing of it, where that fits. A row that comes back is held until the next
 * child, since a fork is about to happen there [T5]. */
static int refill(struct sel_draft *draft, struct sel_node *node) {
    selene_store *store = draft->publish->store;
    struct sel_memory *held = node->memory;
    bool missing = store->layout->row_slots && !sel_node_row_usable(store, node);
    int result = 0;
    if ((node->flags & SEL_DOOMED) || sel_node_tier(node, SEL_LSM_PAGES) < 0)
        return SELENE_E_GONE;
    if (missing)
        sel_thin_hold(node);
    if (!held && draft->page_count && node->parent == draft->publish->parent)
        result = attach(draft, node);
    else if (held && held->row.count == 0 && draft->memory->row.count)
        sel_memory_attach_row(store, node, &draft->memory->row);
    if (result || (store->layout->row_slots && !sel_node_row_usable(store, node)))
        return result ? result : SELENE_E_RETRY;
    store->stats.rows_brought_back += missing;
    return 0;
}

int sel_draft_insert(struct sel_draft *draft) {
    struct sel_publish *publish = draft->publish;
    selene_store *store = publish->store;
    struct sel_node_spec spec;
    int result;
    bool doomed = publish->parent && (publish->parent->flags & SEL_DOOMED);
    if (draft->stream && (!doomed || publish->thinned)) /* a row on disk is its record's, and goes with it */
        return sel_stream_insert(draft);
    if (doomed)
        return SELENE_E_GONE;
    struct sel_node *node = sel_tree_find(store->tree, store->layout->ns, &draft->key, draft->tokens);
    if (node) {
        result = refill(draft, node);
    } else if (publish->thinned) {
        result = SELENE_E_GONE;
    } else {
        sel_draft_spec(draft, &spec);
        result = sel_tree_insert(store->tree, &spec, &node);
        if (result)
            return result;
        result = attach(draft, node);
        if (result)
            sel_tree_release(store->tree, &node);
    }
    if (result)
        return result;
    sel_tree_touch(store->tree, node, sel_store_use(store));
    sel_publish_advance(publish, node);
    return 0;
}
