/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the prefix tree.
 *
 * Memory is the point of this shape (goal P10): a million records must not cost more than 200 bytes each. So nodes and
 * page entries lie in slabs without an allocation header, and what only the tree follows is a 32-bit number, not a
 * pointer.
 *
 *   number   of a node or page entry in its slab, from 1; 0 is none
 *   ref      names either: the number, with SEL_REF_ENTRY set for a page entry
 *   holder   the ref that stands in the page map for a page key: a page-aligned node for its own key, a page entry for
 *            every other full page that a record carries, and for K0, which no record carries
 *
 * The map knows every (namespace, key, tokens) once, be it a page key or the key of a mid-page record. Records that
 * carry the same page hang behind the first in a list, so that a page shared by 100,000 records stays one item of the
 * map. A page-aligned node is always the first of its list: looking a record up never walks a list.
 *
 * Mid-page records hang under the first holder of the page key they extend, one for each tail length, longest first;
 * others of the same length hang behind that one. So a look-up sees each length once [L5].
 */
#ifndef SEL_INDEX_TREE_PRIV_H
#define SEL_INDEX_TREE_PRIV_H

#include "base/check.h"
#include "index/tree.h"

#define SEL_REF_ENTRY  UINT32_C(0x80000000)
#define SEL_REF_HOLDER UINT32_C(0x40000000) /* in PLACE_TAIL_PREV: what precedes is the holder */
#define SEL_NUMBER_MAX UINT32_C(0x3fffffff)

/* What place[] means. A page entry has the first four. */
enum {
    PLACE_MAP_NEXT = 0, /* next in the bucket: first holders and mid-page nodes */
    PLACE_TAILS = 1,    /* holder: first tail, in the first of the list only */
    PLACE_SAME_PAGE = 2,
    PLACE_SAME_PAGE_PREV = 3,
    PLACE_TAIL_NEXT = 1, /* mid-page node: the next shorter tail */
    PLACE_TAIL_K0 = 1,   /* of one behind another of its length: the ref of K0 when it hangs under that, else 0 */
    PLACE_TAIL_PREV = 2, /* 0: hangs behind another of its length */
    PLACE_SAME_TAIL = 3,
    PLACE_SAME_TAIL_PREV = 4
};

struct sel_page_entry {
    struct sel_key key;
    uint32_t place[4];
    uint32_t next;   /* of the same record, the page before; K0: the namespace */
    uint32_t owner;  /* the node; 0: K0 */
    uint32_t tokens; /* the key is that of so many tokens */
};

/* ---- slabs (tree_slab.c) ---- */

#define SEL_CHUNK_ALIGNMENT 65536
#define SEL_CHUNK_BYTES     (SEL_CHUNK_ALIGNMENT - 64) /* leaves room for malloc's header, so that chunks lie tight */

struct sel_chunk {
    uint32_t number;
    uint32_t reserved[3];
    uint8_t items[];
};

struct sel_slab {
    struct sel_chunk **chunks;
    uint32_t chunk_count;
    uint32_t chunk_capacity;
    uint32_t item_bytes;
    uint32_t items_a_chunk;
    uint32_t issued; /* numbers ever given out */
    uint32_t free;   /* first free number; the next is in its first bytes */
    uint32_t used;
};

void sel_slab_init(struct sel_slab *slab, uint32_t item_bytes);
void sel_slab_destroy(struct sel_slab *slab);
uint32_t sel_slab_take(struct sel_slab *slab); /* zeroed; 0: out of memory */
void sel_slab_give(struct sel_slab *slab, uint32_t number);
uint64_t sel_slab_bytes(const struct sel_slab *slab);

#define SEL_SLAB_ITEMS(type) ((uint32_t)((SEL_CHUNK_BYTES - sizeof(struct sel_chunk)) / sizeof(type)))
/* The item of a number; the divisor is a constant so that it costs a multiplication. */
#define SEL_SLAB_AT(slab, type, number)                                                                                \
    ((type *)(void *)(slab)->chunks[((number)-1) / SEL_SLAB_ITEMS(type)]->items + ((number)-1) % SEL_SLAB_ITEMS(type))

/* ---- the tree ---- */

struct sel_order_heap {
    uint32_t *nodes; /* 4-ary min-heap of node numbers by last_use */
    uint32_t count;
    uint32_t capacity;
};

struct sel_tree_namespace {
    uint8_t bytes[SEL_NAMESPACE_BYTES];
    uint32_t page_tokens;
};

#define SEL_SEGMENT_SHIFT 12 /* buckets are allocated 4096 at a time */

struct sel_tree_map {
    uint32_t **segments;
    uint32_t segment_count;
    uint32_t segment_capacity;
    uint32_t bucket_count;
    uint32_t half; /* largest power of two <= bucket_count */
    uint64_t count;
    uint64_t seed;
};

/* Open addressing; tree_load.c. */
struct sel_tree_load {
    uint64_t *slots; /* upper half of the key's hash, then the node's number; 0: empty */
    uint32_t bits;   /* 1 << bits slots */
    uint32_t count;
};

struct sel_tree {
    uint32_t magic;
    uint32_t namespace_count;
    struct sel_tree_namespace *namespaces;
    struct sel_slab nodes;
    struct sel_slab entries;
    struct sel_tree_map map;
    struct sel_tree_load load; /* slots NULL: not loading */
    struct sel_node *roots;
    uint32_t aligned_count; /* page-aligned nodes: holders without a page entry */
    uint64_t tier_count[SEL_TIER_COUNT];
    struct sel_order_heap orders[SEL_TIER_COUNT][SEL_ORDER_COUNT];
};
#define SEL_TREE_MAGIC UINT32_C(0x45455254) /* "TREE" */

static inline struct sel_node *sel_node_at(const struct sel_tree *tree, uint32_t number) {
    return SEL_SLAB_AT(&tree->nodes, struct sel_node, number);
}
static inline struct sel_page_entry *sel_entry_at(const struct sel_tree *tree, uint32_t number) {
    return SEL_SLAB_AT(&tree->entries, struct sel_page_entry, number);
}
static inline uint32_t sel_node_number(const struct sel_node *node) {
    const struct sel_chunk *chunk = (const void *)((uintptr_t)node & ~(uintptr_t)(SEL_CHUNK_ALIGNMENT - 1));
    uint32_t index = (uint32_t)((uintptr_t)node - (uintptr_t)chunk->items) / (uint32_t)sizeof *node;
    return chunk->number * SEL_SLAB_ITEMS(struct sel_node) + index + 1;
}

static inline uint32_t sel_tree_page_tokens(const struct sel_tree *tree, const struct sel_node *node) {
    return tree->namespaces[node->ns].page_tokens;
}
static inline bool sel_node_aligned(const struct sel_tree *tree, const struct sel_node *node) {
    return node->tokens % sel_tree_page_tokens(tree, node) == 0;
}
static inline bool sel_node_present(const struct sel_node *node) {
    bool present = false;
    for (int t = 0; t < SEL_TIER_COUNT; t++)
        present |= node->tier[t].present != 0;
    return present;
}

static inline uint32_t *sel_ref_place(const struct sel_tree *tree, uint32_t ref) {
    return ref & SEL_REF_ENTRY ? sel_entry_at(tree, ref & SEL_NUMBER_MAX)->place : sel_node_at(tree, ref)->place;
}
/* The node that a holder belongs to; NULL for K0. */
static inline struct sel_node *sel_ref_owner(const struct sel_tree *tree, uint32_t ref) {
    uint32_t number = ref & SEL_REF_ENTRY ? sel_entry_at(tree, ref & SEL_NUMBER_MAX)->owner : ref;
    return number ? sel_node_at(tree, number) : NULL;
}

/* What the map tells items apart by. */
struct sel_identity {
    const struct sel_key *key;
    uint32_t tokens;
    uint16_t ns;
};
struct sel_identity sel_ref_identity(const struct sel_tree *tree, uint32_t ref);

/* ---- map and lists (tree_map.c, tree_tails.c) ---- */

int sel_tree_map_init(struct sel_tree_map *map, uint64_t seed);
void sel_tree_map_destroy(struct sel_tree_map *map);
uint64_t sel_tree_map_bytes(const struct sel_tree_map *map);
/* The first holder or the mid-page node with this identity, as a ref; 0: none. */
uint32_t sel_tree_map_find(const struct sel_tree *tree, const struct sel_identity *identity);
void sel_tree_map_prefetch(const struct sel_tree *tree, const struct sel_key *key);
void sel_tree_map_add(struct sel_tree *tree, uint32_t ref);
void sel_tree_map_remove(struct sel_tree *tree, uint32_t ref);
uint64_t sel_tree_map_hash(const struct sel_tree_map *map, const struct sel_key *key);
/* The bucket that a key belongs to. */
uint32_t sel_tree_map_bucket(const struct sel_tree_map *map, const struct sel_key *key);
uint32_t sel_tree_map_bucket_of(const struct sel_tree_map *map, uint64_t hash);
/* Makes buckets for so many items at once, O(buckets); fewer when there is no memory. */
void sel_tree_map_reserve(struct sel_tree *tree, uint64_t count);
void sel_tree_map_prefetch_bucket(const struct sel_tree_map *map, uint32_t bucket);
void sel_tree_map_prefetch_items(const struct sel_tree *tree, uint32_t bucket); /* the first of them */
/* As add, the bucket being known; makes no bucket. */
void sel_tree_map_add_at(struct sel_tree *tree, uint32_t ref, uint32_t bucket);
/* The same for what is known not to be in the map yet. */
void sel_tree_map_add_new(struct sel_tree *tree, uint32_t ref, uint32_t bucket);

/* Hangs a mid-page node under a first holder, and takes it off; a holder K0 that lost its last tail is freed. */
void sel_tree_tail_add(struct sel_tree *tree, uint32_t holder, struct sel_node *node);
void sel_tree_tail_remove(struct sel_tree *tree, struct sel_node *node);

/* ---- loading (tree_load.c) ---- */

/* Room for one more node, before it is taken. SELENE_E_NOMEM. */
int sel_tree_load_reserve(struct sel_tree *tree);
void sel_tree_load_add(struct sel_tree *tree, const struct sel_node *node);
/* The node with this identity, as a ref; 0: none. */
uint32_t sel_tree_load_find(const struct sel_tree *tree, const struct sel_identity *identity);
void sel_tree_load_drop(struct sel_tree_load *load);
uint64_t sel_tree_load_bytes(const struct sel_tree_load *load);
static inline bool sel_tree_loading(const struct sel_tree *tree) { return tree->load.slots != NULL; }

/* K(tokens / P) of a mid-page node (tree_keys.c); of an aligned one its own key. */
const struct sel_key *sel_tree_base_key(const struct sel_tree *tree, const struct sel_node *node);
/* Hangs a mid-page node under the holder of its base key. */
void sel_tree_hang(struct sel_tree *tree, struct sel_node *node, const struct sel_key *base_key);

/* ---- orders (tree_order.c) ---- */

/* Puts a node into the orders it belongs to and takes it out of the others, after anything about it changed. */
void sel_tree_refresh(struct sel_tree *tree, struct sel_node *node);
/* A parent takes over the last use of a child that goes [P5]. */
void sel_tree_inherit(struct sel_tree *tree, struct sel_node *parent, const struct sel_node *child);
bool sel_tree_evictable(const struct sel_node *node, enum sel_tier tier);

/* Number of a namespace; -1: unknown. */
int sel_tree_find_namespace(const struct sel_tree *tree, const uint8_t ns[SEL_NAMESPACE_BYTES]);

#endif
