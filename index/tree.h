/* SPDX-License-Identifier: Apache-2.0
 *
 * The prefix tree in memory: every record that any tier holds, its place in the chain, and per tier its presence, its
 * children and its place in the use order. No I/O, no clock; all steps O(log n) or better. One thread.
 *
 * Invariants (sel_tree_check verifies all of them):
 *   - a node's parent is in the tree; a node lives while some tier holds it or a node below it exists
 *   - tier[t].children counts the child nodes that are present in tier t
 *   - a node is in the use order of tier t exactly when it is *evictable* there: present in t, not pinned in t, no
 *     child present in t, and (present in another tier, or no child node at all): never in mid-chain [P6]
 *   - each tier keeps two orders, clean and parked (SEL_ORDER_*), and a node is in the one its `parked` flag names;
 *     tiers other than memory use the clean one only
 *   - orders are by last_use; a node that loses a child takes over the child's last_use if that is later [P5]
 *   - every full page that a node carries is in the page map; a mid-page record hangs in the tail list of the page key
 *     it extends [L5], and an ancestor or the record itself carries that page
 */
#ifndef SEL_INDEX_TREE_H
#define SEL_INDEX_TREE_H

#include "base/error.h"
#include "index/keys.h"

/* Snapshots in VRAM are the arena's (gpu/): they alias pages and have an order of their own. */
enum sel_tier { SEL_TIER_MEMORY = 0, SEL_TIER_DISK = 1, SEL_TIER_POOL = 2, SEL_TIER_COUNT = 3 };
#define SEL_TREE_NOWHERE UINT32_MAX
enum sel_order { SEL_ORDER_CLEAN = 0, SEL_ORDER_PARKED = 1, SEL_ORDER_COUNT = 2 };

struct sel_tier_state {
    uint32_t children; /* child nodes present in this tier */
    uint32_t position; /* in the use order, SEL_TREE_NOWHERE when in none */
    uint16_t pins;
    uint8_t present;
    uint8_t parked; /* which order: SEL_ORDER_ */
};

/* Where the lsm keeps a record; opaque numbers here, see lsm/lsm.h. */
struct sel_location {
    uint64_t sequence;     /* 0: not on disk */
    uint64_t pages;        /* packed segment and offset */
    uint64_t row;          /* 0: no row on disk */
    uint32_t pages_blocks; /* extent lengths in 4 KiB blocks */
    uint32_t row_blocks;
};

struct sel_node {
    struct sel_key key;
    /* Private to the tree: numbers of nodes and page entries, see tree_priv.h. Beside the key, as a look-up reads both. */
    uint32_t place[5];
    uint32_t pages;
    uint32_t tokens;
    uint16_t ns;             /* number of the namespace in the tree's table */
    uint16_t flags;          /* the engine's */
    struct sel_node *parent; /* NULL: root */
    struct sel_node *child;  /* first child, then by sibling */
    struct sel_node *sibling_next;
    uint64_t last_use;     /* any increasing number: the engine uses its clock */
    uint32_t sibling_prev; /* private, a number too */
    struct sel_tier_state tier[SEL_TIER_COUNT];
    struct sel_location disk; /* the engine's and lsm's */
    void *memory;             /* the engine's memory copy, NULL when none */
};
_Static_assert(sizeof(struct sel_node) <= 176, "index memory per record, goal P10");

struct sel_tree;

/* All that describes a record to the tree. */
struct sel_node_spec {
    const uint8_t *ns; /* 32 bytes */
    uint32_t page_tokens;
    uint32_t tokens;         /* > 0, > parent->tokens */
    struct sel_key key;      /* key at `tokens` */
    struct sel_node *parent; /* NULL: root */
    /* Keys of the full pages carried: K(first+1) .. K(tokens / P), where first = floor(parent tokens / P). When tokens
     * is a page boundary the last equals `key`. */
    const struct sel_key *page_keys;
    uint32_t page_key_count;
    /* K(tokens / P) of a mid-page record: the page key its tail hangs under; ignored at page boundaries. */
    struct sel_key base_key;
};

int sel_tree_create(struct sel_tree **out, uint64_t hash_seed);
void sel_tree_destroy(struct sel_tree **tree); /* frees all nodes; their `memory` must be NULL by then */

/* Adds a node that no tier holds yet; the caller adds it to a tier next (or removes it). SELENE_E_INVALID when the spec
 * contradicts itself or the parent, SELENE_E_NOMEM; `*out` NULL then. The key must not be in the tree (see
 * sel_tree_find). */
int sel_tree_insert(struct sel_tree *tree, const struct sel_node_spec *spec, struct sel_node **out);
/* Inserting many at once, at open. From begin (of a tree without nodes) to end the map is not kept: sel_tree_find knows
 * the records all the same, and sel_tree_longest, sel_tree_ancestor and sel_tree_keys must not be called. End enters all
 * keys in one pass, O(n), which is several times faster than one by one; it cannot fail and has no effect on a tree that
 * is not being loaded. Whatever else needs the map (releasing a node, visiting a key, checking) ends the loading first.
 * Needs 16 to 32 bytes a record of memory more until the end. Begin: 0 or SELENE_E_NOMEM. */
int sel_tree_load_begin(struct sel_tree *tree);
void sel_tree_load_end(struct sel_tree *tree);

/* Frees a node that no tier holds, that has no child and no pin; then the parents for which that became true, upward.
 * No effect on a node that is still needed. `*node` is nulled when it was freed. */
void sel_tree_release(struct sel_tree *tree, struct sel_node **node);

/* The record with this namespace, key and token count, or NULL. */
struct sel_node *sel_tree_find(const struct sel_tree *tree, const uint8_t ns[32], const struct sel_key *key,
                               uint64_t tokens);

/* Visits the records with this key, whatever their namespace and tokens (more than one only if the disk lies): for who
 * knows no more. `visit` must not change the tree's shape. */
void sel_tree_visit_key(struct sel_tree *tree, const struct sel_key *key,
                        void (*visit)(void *context, struct sel_node *node), void *context);

/* The keys that the node's spec had: page_keys (as many as its page_key_count) and base_key (of a page-aligned record:
 * its own key). */
void sel_tree_keys(const struct sel_tree *tree, const struct sel_node *node, struct sel_key *page_keys,
                   struct sel_key *base_key);

/* A place where a request may go on. */
struct sel_match {
    struct sel_node *node; /* the deepest record on the chain; NULL: no match */
    uint64_t tokens;       /* how far it goes: node->tokens, or a page boundary inside the node's pages */
};
/* Says whether a record's row is usable (layouts with rows). */
typedef bool sel_tree_usable(void *context, const struct sel_node *node);

/* The longest match of the prefix that is at most `limit_tokens` long [R1, L5, L6]. `has_rows`: only exact checkpoints
 * that `usable` accepts count; without rows every page boundary that is held counts. Finds the deepest page key by
 * bisection (held pages are closed under prefixes), then hashes only the recorded tail lengths. Records that no tier
 * holds are never matched, whatever `usable` (NULL: accepts all) says. */
struct sel_match sel_tree_longest(const struct sel_tree *tree, const struct sel_prefix *prefix, uint64_t limit_tokens,
                                  bool has_rows, sel_tree_usable *usable, void *context);
/* The deepest *record* (not a page inside one) that is a prefix of the sequence, has at most `limit_tokens` tokens and
 * is held by some tier, with or without a row: the parent of a publish [P1]. NULL: none. */
struct sel_node *sel_tree_ancestor(const struct sel_tree *tree, const struct sel_prefix *prefix, uint64_t limit_tokens);

/* Presence. Adding requires that the node is absent there, and makes it the first of its siblings; removing that it is
 * present and not pinned there. */
int sel_tree_add_to(struct sel_tree *tree, struct sel_node *node, enum sel_tier tier, bool parked);
void sel_tree_remove_from(struct sel_tree *tree, struct sel_node *node, enum sel_tier tier);
void sel_tree_set_parked(struct sel_tree *tree, struct sel_node *node, enum sel_tier tier, bool parked);
void sel_tree_touch(struct sel_tree *tree, struct sel_node *node, uint64_t now);
void sel_tree_pin(struct sel_tree *tree, struct sel_node *node, enum sel_tier tier);
void sel_tree_unpin(struct sel_tree *tree, struct sel_node *node, enum sel_tier tier);

/* The coldest evictable node of a tier's order, or NULL. */
struct sel_node *sel_tree_coldest(const struct sel_tree *tree, enum sel_tier tier, enum sel_order order);

uint64_t sel_tree_count(const struct sel_tree *tree);
uint64_t sel_tree_tier_count(const struct sel_tree *tree, enum sel_tier tier);
const uint8_t *sel_tree_namespace(const struct sel_tree *tree, uint32_t ns);
uint64_t sel_tree_bytes(const struct sel_tree *tree);          /* heap memory, page keys included */
uint64_t sel_tree_page_key_bytes(const struct sel_tree *tree); /* of which keys of pages (32 bytes each) */

/* Visits every node, parents before children. */
void sel_tree_visit(struct sel_tree *tree, void (*visit)(void *context, struct sel_node *node), void *context);
/* Verifies every invariant in the head of this file by brute force, O(n): tests and the checker of fault 7. 0, or
 * SELENE_E_INTERNAL with a message. */
int sel_tree_check(struct sel_tree *tree, struct selene_message *message);

#endif
