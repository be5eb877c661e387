/* SPDX-License-Identifier: Apache-2.0
 *
 * Inserting many records at once, at open. One by one nearly all the time goes into waiting for memory: each of a
 * record's keys is a jump into the map, the items there and the items of the bucket that is split. So:
 *
 *   - while records come, only the records themselves are known, in a small open-addressed table of the upper halves of
 *     their hashes: parents are found there, and a record that comes twice;
 *   - at the end the map is made at its full size, and all items are added in the order in which they lie in memory;
 *     buckets are fetched some items ahead. Two bytes for each bucket, one bit of which each item sets, says that none of
 *     its items can have this key: then none is looked at, and adding touches the bucket and the item itself only.
 *
 * The table's slots are in order of the upper half of the hash, so that making it larger is one pass from front to back.
 * K0 is in the map from the start, and what hangs under K0 hangs there from the start: only the spec knows which K0 that
 * is. Items of the slabs that were freed again (an insert ran out of memory) have an impossible token count.
 */
#include "index/tree_priv.h"

#include <stdlib.h>
#include <sys/mman.h>

#define BITS_MIN 10
#define BITS_MAX 32
#define HUGE     (UINT64_C(2) << 20)
#define PIPE     32 /* items between fetching and adding */

/* ---- the table ---- */

static void *zeroed(uint64_t bytes) {
    void *memory = NULL;

    if (bytes < HUGE)
        return calloc(1, bytes);
    if (posix_memalign(&memory, HUGE, bytes) != 0)
        return NULL;
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memset(memory, 0, bytes);
}

static uint64_t place_of(uint32_t bits, uint32_t tag) { return (uint64_t)tag >> (32 - bits); }

static void put(uint64_t *slots, uint32_t bits, uint64_t item) {
    uint64_t at = place_of(bits, (uint32_t)(item >> 32));

    while (slots[at] != 0)
        at = (at + 1) & ((UINT64_C(1) << bits) - 1);
    slots[at] = item;
}

int sel_tree_load_reserve(struct sel_tree *tree) {
    struct sel_tree_load *load = &tree->load;
    uint32_t bits = load->slots ? load->bits + 1 : BITS_MIN;

    if (load->slots && load->count < (UINT64_C(1) << load->bits) / 4 * 3)
        return 0;
    uint64_t *slots = bits <= BITS_MAX ? zeroed(sizeof *slots << bits) : NULL;
    if (slots == NULL)
        return SELENE_E_NOMEM;
    for (uint64_t i = 0; load->slots && i < UINT64_C(1) << load->bits; i++)
        if (load->slots[i] != 0)
            put(slots, bits, load->slots[i]);
    free(load->slots);
    load->slots = slots;
    load->bits = bits;
    return 0;
}

void sel_tree_load_add(struct sel_tree *tree, const struct sel_node *node) {
    uint64_t tag = sel_tree_map_hash(&tree->map, &node->key) >> 32;

    put(tree->load.slots, tree->load.bits, tag << 32 | sel_node_number(node));
    tree->load.count++;
}

uint32_t sel_tree_load_find(const struct sel_tree *tree, const struct sel_identity *identity) {
    const struct sel_tree_load *load = &tree->load;
    uint64_t tag = sel_tree_map_hash(&tree->map, identity->key) >> 32, mask = (UINT64_C(1) << load->bits) - 1;

    for (uint64_t at = place_of(load->bits, (uint32_t)tag); load->slots[at] != 0; at = (at + 1) & mask) {
        if (load->slots[at] >> 32 != tag)
            continue;
        uint32_t number = (uint32_t)load->slots[at];
        const struct sel_node *node = sel_node_at(tree, number);
        if (node->tokens == identity->tokens && node->ns == identity->ns && sel_key_equal(&node->key, identity->key))
            return number;
    }
    return 0;
}

void sel_tree_load_drop(struct sel_tree_load *load) {
    free(load->slots);
    *load = (struct sel_tree_load){0};
}

uint64_t sel_tree_load_bytes(const struct sel_tree_load *load) {
    return load->slots ? sizeof *load->slots << load->bits : 0;
}

/* ---- the end of it ---- */

struct pipe {
    struct sel_tree *tree;
    uint16_t *seen; /* two bytes a bucket: bits of the hashes in it; NULL: not known */
    uint64_t count;
    struct {
        uint32_t ref, bucket;
        uint16_t bit;
    } items[PIPE];
};

static void add_oldest(struct pipe *pipe, uint64_t number) {
    uint32_t ref = pipe->items[number % PIPE].ref, bucket = pipe->items[number % PIPE].bucket;
    uint16_t bit = pipe->items[number % PIPE].bit;

    if (pipe->seen == NULL || (pipe->seen[bucket] & bit))
        sel_tree_map_add_at(pipe->tree, ref, bucket);
    else
        sel_tree_map_add_new(pipe->tree, ref, bucket);
    if (pipe->seen)
        pipe->seen[bucket] |= bit;
}

static void feed(struct pipe *pipe, uint32_t ref, const struct sel_key *key) {
    const struct sel_tree_map *map = &pipe->tree->map;
    uint64_t now = pipe->count++, hash = sel_tree_map_hash(map, key);
    uint32_t bucket = sel_tree_map_bucket_of(map, hash);

    if (now >= PIPE)
        add_oldest(pipe, now);
    pipe->items[now % PIPE].ref = ref;
    pipe->items[now % PIPE].bucket = bucket;
    pipe->items[now % PIPE].bit = (uint16_t)(1 << (hash >> 60));
    sel_tree_map_prefetch_bucket(map, bucket);
    if (pipe->seen)
        __builtin_prefetch(&pipe->seen[bucket], 1);
    if (now < PIPE / 2)
        return;
    now = (now - PIPE / 2) % PIPE;
    if (pipe->seen == NULL || (pipe->seen[pipe->items[now].bucket] & pipe->items[now].bit))
        sel_tree_map_prefetch_items(pipe->tree, pipe->items[now].bucket);
}

static void drain(struct pipe *pipe) {
    for (uint64_t i = pipe->count > PIPE ? pipe->count - PIPE : 0; i < pipe->count; i++)
        add_oldest(pipe, i);
}

static bool is_free(uint32_t tokens) { return tokens > SEL_PREFIX_TOKENS_MAX; }

static void map_all(struct sel_tree *tree) {
    struct pipe pipe = {.tree = tree, .seen = zeroed(sizeof(uint16_t) * (uint64_t)tree->map.bucket_count)};

    for (uint32_t number = 1; number <= tree->entries.issued; number++) {
        const struct sel_page_entry *entry = sel_entry_at(tree, number);
        if (!is_free(entry->tokens) && entry->owner != 0)
            feed(&pipe, number | SEL_REF_ENTRY, &entry->key);
    }
    for (uint32_t number = 1; number <= tree->nodes.issued; number++) {
        const struct sel_node *node = sel_node_at(tree, number);
        if (!is_free(node->tokens))
            feed(&pipe, number, &node->key);
    }
    drain(&pipe);
    free(pipe.seen);
}

/* Most hang under the last page that they carry themselves, which mostly is the first of its list. */
static void hang(struct sel_tree *tree, struct sel_node *node) {
    if (node->pages != 0 && sel_entry_at(tree, node->pages)->place[PLACE_SAME_PAGE_PREV] == 0)
        sel_tree_tail_add(tree, node->pages | SEL_REF_ENTRY, node);
    else
        sel_tree_hang(tree, node, sel_tree_base_key(tree, node));
}

static void hang_all(struct sel_tree *tree) {
    for (uint32_t number = 1; number <= tree->nodes.issued; number++) {
        struct sel_node *node = sel_node_at(tree, number);
        if (!is_free(node->tokens) && !sel_node_aligned(tree, node) && node->tokens > sel_tree_page_tokens(tree, node))
            hang(tree, node);
    }
}

int sel_tree_load_begin(struct sel_tree *tree) {
    SEL_CHECK(tree->nodes.used == 0 && !sel_tree_loading(tree));
    return sel_tree_load_reserve(tree);
}

void sel_tree_load_end(struct sel_tree *tree) {
    if (!sel_tree_loading(tree))
        return;
    sel_tree_load_drop(&tree->load);
    sel_tree_map_reserve(tree, (uint64_t)tree->nodes.used + tree->entries.used);
    map_all(tree);
    hang_all(tree);
}
