/* SPDX-License-Identifier: Apache-2.0
 *
 * The prefix tree: creating it, adding and freeing nodes, walking it. Orders: tree_order.c; the page map: tree_map.c
 * and tree_tails.c; look-ups: tree_lookup.c.
 *
 * Adding: check the spec (it may come from a damaged disk), take the memory, then link, which cannot fail: page
 * entries, the node itself, its tail, its parent. Freeing undoes that in reverse.
 */
#include "index/tree_priv.h"

#include <stdlib.h>

int sel_tree_create(struct sel_tree **out, uint64_t hash_seed) {
    struct sel_tree *tree = calloc(1, sizeof *tree);

    *out = NULL;
    if (tree == NULL)
        return SELENE_E_NOMEM;
    tree->magic = SEL_TREE_MAGIC;
    sel_slab_init(&tree->nodes, sizeof(struct sel_node));
    sel_slab_init(&tree->entries, sizeof(struct sel_page_entry));
    if (sel_tree_map_init(&tree->map, hash_seed) != 0) {
        sel_tree_destroy(&tree);
        return SELENE_E_NOMEM;
    }
    *out = tree;
    return 0;
}

static void check_no_memory(void *context, struct sel_node *node) {
    (void)context;
    SEL_CHECK(node->memory == NULL);
}

void sel_tree_destroy(struct sel_tree **tree) {
    struct sel_tree *t = *tree;

    *tree = NULL;
    if (t == NULL)
        return;
    SEL_CHECK_MAGIC(t, SEL_TREE_MAGIC);
    sel_tree_visit(t, check_no_memory, NULL);
    for (int tier = 0; tier < SEL_TIER_COUNT; tier++)
        for (int order = 0; order < SEL_ORDER_COUNT; order++)
            free(t->orders[tier][order].nodes);
    sel_tree_load_drop(&t->load);
    sel_tree_map_destroy(&t->map);
    sel_slab_destroy(&t->entries);
    sel_slab_destroy(&t->nodes);
    free(t->namespaces);
    t->magic = 0;
    free(t);
}

int sel_tree_find_namespace(const struct sel_tree *tree, const uint8_t ns[SEL_NAMESPACE_BYTES]) {
    for (uint32_t i = 0; i < tree->namespace_count; i++)
        if (memcmp(tree->namespaces[i].bytes, ns, SEL_NAMESPACE_BYTES) == 0)
            return (int)i;
    return -1;
}

/* The number of the spec's namespace, entered into the table if it is new; or an error. */
static int enter_namespace(struct sel_tree *tree, const struct sel_node_spec *spec) {
    int found = sel_tree_find_namespace(tree, spec->ns);

    if (spec->page_tokens == 0 || spec->page_tokens > SELENE_PAGE_TOKENS_MAX)
        return SELENE_E_INVALID;
    if (found >= 0)
        return tree->namespaces[found].page_tokens == spec->page_tokens ? found : SELENE_E_INVALID;
    if (tree->namespace_count > UINT16_MAX)
        return SELENE_E_OVERFLOW;
    struct sel_tree_namespace *grown =
        realloc(tree->namespaces, (tree->namespace_count + 1) * sizeof *tree->namespaces);
    if (grown == NULL)
        return SELENE_E_NOMEM;
    tree->namespaces = grown;
    memcpy(grown[tree->namespace_count].bytes, spec->ns, SEL_NAMESPACE_BYTES);
    grown[tree->namespace_count].page_tokens = spec->page_tokens;
    return (int)tree->namespace_count++;
}

/* The base key of a mid-page record without a full page of its own must be that of its chain: whatever hangs under a
 * page key relies on an ancestor to carry that page. */
static bool base_is_of_chain(const struct sel_tree *tree, const struct sel_node_spec *spec, uint16_t ns) {
    uint32_t base_tokens = spec->tokens - spec->tokens % spec->page_tokens;

    if (base_tokens == 0 && spec->parent != NULL)
        return sel_tree_map_find(tree, &(struct sel_identity){&spec->base_key, 0, ns}) != 0;
    for (const struct sel_node *node = spec->parent; node != NULL; node = node->parent) {
        if (sel_node_aligned(tree, node))
            return node->tokens == base_tokens && sel_key_equal(&node->key, &spec->base_key);
        if (node->pages != 0) {
            const struct sel_page_entry *entry = sel_entry_at(tree, node->pages);
            return entry->tokens == base_tokens && sel_key_equal(&entry->key, &spec->base_key);
        }
    }
    return base_tokens == 0;
}

static int check_spec(const struct sel_tree *tree, const struct sel_node_spec *spec, int ns) {
    uint32_t from = spec->parent ? spec->parent->tokens : 0;
    uint32_t count = spec->page_key_count;

    if (spec->tokens <= from || spec->tokens > SEL_PREFIX_TOKENS_MAX || (count > 0 && spec->page_keys == NULL) ||
        (spec->parent != NULL && spec->parent->ns != ns) ||
        count != spec->tokens / spec->page_tokens - from / spec->page_tokens)
        return SELENE_E_INVALID;
    if (spec->tokens % spec->page_tokens == 0) {
        if (!sel_key_equal(&spec->page_keys[count - 1], &spec->key))
            return SELENE_E_INVALID;
    } else if (count > 0 ? !sel_key_equal(&spec->page_keys[count - 1], &spec->base_key)
                         : !base_is_of_chain(tree, spec, (uint16_t)ns)) {
        return SELENE_E_INVALID;
    }
    return sel_tree_find(tree, spec->ns, &spec->key, spec->tokens) == NULL ? 0 : SELENE_E_INVALID;
}

static void give_entries(struct sel_tree *tree, uint32_t first) {
    while (first != 0) {
        uint32_t next = sel_entry_at(tree, first)->next;
        sel_slab_give(&tree->entries, first);
        first = next;
    }
}

/* Page entries of all full pages but the one that a page-aligned node stands for itself, the deepest first. */
static int take_entries(struct sel_tree *tree, const struct sel_node_spec *spec, uint32_t owner, uint32_t *first) {
    uint32_t aligned = spec->tokens % spec->page_tokens == 0;
    uint32_t page = (spec->parent ? spec->parent->tokens : 0) / spec->page_tokens;

    *first = 0;
    for (uint32_t i = 0; i + aligned < spec->page_key_count; i++) {
        uint32_t number = sel_slab_take(&tree->entries);
        if (number == 0) {
            give_entries(tree, *first);
            *first = 0;
            return SELENE_E_NOMEM;
        }
        struct sel_page_entry *entry = sel_entry_at(tree, number);
        entry->key = spec->page_keys[i];
        entry->tokens = (page + i + 1) * spec->page_tokens;
        entry->owner = owner;
        entry->next = *first;
        *first = number;
    }
    return 0;
}

/* The holder that a mid-page record of the first page needs: K0, made when its first tail comes. */
static int need_k0(struct sel_tree *tree, const struct sel_node_spec *spec, uint16_t ns) {
    if (spec->tokens >= spec->page_tokens ||
        sel_tree_map_find(tree, &(struct sel_identity){&spec->base_key, 0, ns}) != 0)
        return 0;
    uint32_t number = sel_slab_take(&tree->entries);
    if (number == 0)
        return SELENE_E_NOMEM;
    struct sel_page_entry *entry = sel_entry_at(tree, number);
    entry->key = spec->base_key;
    entry->next = ns;
    sel_tree_map_add(tree, number | SEL_REF_ENTRY);
    return 0;
}

static void link_parent(struct sel_tree *tree, struct sel_node *node) {
    struct sel_node **first = node->parent ? &node->parent->child : &tree->roots;

    node->sibling_next = *first;
    if (*first != NULL)
        (*first)->sibling_prev = sel_node_number(node);
    *first = node;
    if (node->parent != NULL)
        sel_tree_refresh(tree, node->parent);
}

static void unlink_parent(struct sel_tree *tree, struct sel_node *node) {
    if (node->sibling_next != NULL)
        node->sibling_next->sibling_prev = node->sibling_prev;
    if (node->sibling_prev != 0)
        sel_node_at(tree, node->sibling_prev)->sibling_next = node->sibling_next;
    else if (node->parent != NULL)
        node->parent->child = node->sibling_next;
    else
        tree->roots = node->sibling_next;
    if (node->parent != NULL) {
        sel_tree_inherit(tree, node->parent, node);
        sel_tree_refresh(tree, node->parent);
    }
}

/* Memory is there, nothing can fail any more. */
static void link_node(struct sel_tree *tree, struct sel_node *node, const struct sel_node_spec *spec) {
    bool aligned = sel_node_aligned(tree, node);

    tree->aligned_count += aligned;
    link_parent(tree, node);
    if (sel_tree_loading(tree)) {
        sel_tree_load_add(tree, node);
        if (node->tokens < spec->page_tokens)
            sel_tree_hang(tree, node, &spec->base_key);
        return;
    }
    for (uint32_t entry = node->pages; entry != 0; entry = sel_entry_at(tree, entry)->next)
        sel_tree_map_add(tree, entry | SEL_REF_ENTRY);
    sel_tree_map_add(tree, sel_node_number(node));
    if (!aligned)
        sel_tree_hang(tree, node, &spec->base_key);
}

static void fill_node(struct sel_node *node, const struct sel_node_spec *spec, uint16_t ns) {
    node->key = spec->key;
    node->parent = spec->parent;
    node->tokens = spec->tokens;
    node->ns = ns;
    for (int t = 0; t < SEL_TIER_COUNT; t++)
        node->tier[t].position = SEL_TREE_NOWHERE;
}

int sel_tree_insert(struct sel_tree *tree, const struct sel_node_spec *spec, struct sel_node **out) {
    *out = NULL;
    if (!sel_tree_loading(tree))
        sel_tree_map_prefetch(tree, &spec->key);
    int ns = enter_namespace(tree, spec);
    int rc = ns < 0 ? ns : check_spec(tree, spec, ns);
    if (rc == 0 && sel_tree_loading(tree))
        rc = sel_tree_load_reserve(tree);
    if (rc != 0)
        return rc;
    uint32_t number = sel_slab_take(&tree->nodes);
    if (number == 0)
        return SELENE_E_NOMEM;
    struct sel_node *node = sel_node_at(tree, number);
    fill_node(node, spec, (uint16_t)ns);
    rc = take_entries(tree, spec, number, &node->pages);
    if (rc == 0)
        rc = need_k0(tree, spec, (uint16_t)ns);
    if (rc != 0) {
        /* No entries to give back: K0 is needed by records without a full page only. */
        sel_slab_give(&tree->nodes, number);
        return rc;
    }
    link_node(tree, node, spec);
    *out = node;
    return 0;
}

static bool needed(const struct sel_node *node) {
    bool pinned = false;

    for (int t = 0; t < SEL_TIER_COUNT; t++)
        pinned |= node->tier[t].pins != 0;
    return pinned || node->child != NULL || sel_node_present(node);
}

static void free_node(struct sel_tree *tree, struct sel_node *node) {
    unlink_parent(tree, node);
    if (sel_node_aligned(tree, node))
        tree->aligned_count--;
    else
        sel_tree_tail_remove(tree, node);
    sel_tree_map_remove(tree, sel_node_number(node));
    for (uint32_t entry = node->pages; entry != 0; entry = sel_entry_at(tree, entry)->next)
        sel_tree_map_remove(tree, entry | SEL_REF_ENTRY);
    give_entries(tree, node->pages);
    sel_slab_give(&tree->nodes, sel_node_number(node));
}

void sel_tree_release(struct sel_tree *tree, struct sel_node **node) {
    struct sel_node *going = *node;

    sel_tree_load_end(tree);
    while (going != NULL && !needed(going)) {
        struct sel_node *parent = going->parent;
        SEL_CHECK(going->memory == NULL);
        free_node(tree, going);
        *node = NULL;
        going = parent;
    }
}

uint64_t sel_tree_count(const struct sel_tree *tree) { return tree->nodes.used; }

uint64_t sel_tree_tier_count(const struct sel_tree *tree, enum sel_tier tier) { return tree->tier_count[tier]; }

const uint8_t *sel_tree_namespace(const struct sel_tree *tree, uint32_t ns) {
    return ns < tree->namespace_count ? tree->namespaces[ns].bytes : NULL;
}

uint64_t sel_tree_bytes(const struct sel_tree *tree) {
    uint64_t bytes = sizeof *tree + sel_slab_bytes(&tree->nodes) + sel_slab_bytes(&tree->entries) +
                     sel_tree_map_bytes(&tree->map) + sel_tree_load_bytes(&tree->load) +
                     tree->namespace_count * sizeof *tree->namespaces;

    for (int tier = 0; tier < SEL_TIER_COUNT; tier++)
        for (int order = 0; order < SEL_ORDER_COUNT; order++)
            bytes += (uint64_t)tree->orders[tier][order].capacity * sizeof(uint32_t);
    return bytes;
}

uint64_t sel_tree_page_key_bytes(const struct sel_tree *tree) {
    return ((uint64_t)tree->entries.used + tree->aligned_count) * sizeof(struct sel_key);
}

static struct sel_node *next_node(struct sel_node *node) {
    if (node->child != NULL)
        return node->child;
    while (node != NULL && node->sibling_next == NULL)
        node = node->parent;
    return node ? node->sibling_next : NULL;
}

void sel_tree_visit(struct sel_tree *tree, void (*visit)(void *context, struct sel_node *node), void *context) {
    for (struct sel_node *node = tree->roots; node != NULL; node = next_node(node))
        visit(context, node);
}
