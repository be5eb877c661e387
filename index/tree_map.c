/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree's map: linear hashing with chains through the items. A bucket is 4 bytes and so is an item's link; there is
 * one bucket an item, and each insert splits one bucket, so that no insert takes long. When there is no memory for more
 * buckets, chains grow longer and nothing fails.
 *
 * The hash is seeded: keys are SHA-256 values, but whoever chooses prompts chooses among them.
 */
#include "base/random.h"
#include "index/tree_priv.h"

#include <stdlib.h>
#include <sys/mman.h>

#define SEGMENT_BUCKETS (UINT32_C(1) << SEL_SEGMENT_SHIFT)
#define SEGMENT_BYTES   (SEGMENT_BUCKETS * sizeof(uint32_t))
/* As slabs do: the first segments are allocated one by one, later ones by the huge page. */
#define GROUP_SEGMENTS UINT32_C(128)
#define GROUP_BYTES    (GROUP_SEGMENTS * SEGMENT_BYTES)
#define BUCKETS_MAX    (UINT32_C(1) << 31)

uint64_t sel_tree_map_hash(const struct sel_tree_map *map, const struct sel_key *key) {
    uint64_t words[2];

    memcpy(words, key->bytes, sizeof words);
    return sel_mix64(sel_mix64(words[0] ^ map->seed) + words[1]);
}

static uint32_t *bucket_at(const struct sel_tree_map *map, uint32_t bucket) {
    return &map->segments[bucket >> SEL_SEGMENT_SHIFT][bucket & (SEGMENT_BUCKETS - 1)];
}

uint32_t sel_tree_map_bucket_of(const struct sel_tree_map *map, uint64_t hash) {
    uint32_t bucket = (uint32_t)(hash & (2 * (uint64_t)map->half - 1));

    return bucket < map->bucket_count ? bucket : bucket - map->half;
}

uint32_t sel_tree_map_bucket(const struct sel_tree_map *map, const struct sel_key *key) {
    return sel_tree_map_bucket_of(map, sel_tree_map_hash(map, key));
}

static bool starts_allocation(uint32_t segment) { return segment < GROUP_SEGMENTS || segment % GROUP_SEGMENTS == 0; }

static uint32_t *segment_memory(const struct sel_tree_map *map) {
    uint32_t segment = map->segment_count;
    void *memory = NULL;

    if (segment < GROUP_SEGMENTS)
        return calloc(1, SEGMENT_BYTES);
    if (!starts_allocation(segment))
        return memset(map->segments[segment - 1] + SEGMENT_BUCKETS, 0, SEGMENT_BYTES);
    if (posix_memalign(&memory, GROUP_BYTES, GROUP_BYTES) != 0)
        return NULL;
    (void)madvise(memory, GROUP_BYTES, MADV_HUGEPAGE);
    return memset(memory, 0, SEGMENT_BYTES);
}

static bool add_segment(struct sel_tree_map *map) {
    if (map->segment_count == map->segment_capacity) {
        uint32_t capacity = map->segment_capacity ? map->segment_capacity * 2 : 4;
        uint32_t **segments = realloc(map->segments, capacity * sizeof *segments);
        if (segments == NULL)
            return false;
        map->segments = segments;
        map->segment_capacity = capacity;
    }
    uint32_t *segment = segment_memory(map);
    if (segment == NULL)
        return false;
    map->segments[map->segment_count++] = segment;
    return true;
}

int sel_tree_map_init(struct sel_tree_map *map, uint64_t seed) {
    *map = (struct sel_tree_map){.seed = seed, .bucket_count = 1, .half = 1};
    return add_segment(map) ? 0 : SELENE_E_NOMEM;
}

void sel_tree_map_destroy(struct sel_tree_map *map) {
    for (uint32_t i = 0; i < map->segment_count; i++)
        if (starts_allocation(i))
            free(map->segments[i]);
    free(map->segments);
    *map = (struct sel_tree_map){0};
}

uint64_t sel_tree_map_bytes(const struct sel_tree_map *map) {
    uint64_t segments = map->segment_count;

    if (segments > GROUP_SEGMENTS)
        segments = (segments + GROUP_SEGMENTS - 1) / GROUP_SEGMENTS * GROUP_SEGMENTS;
    return segments * SEGMENT_BYTES + map->segment_capacity * sizeof *map->segments;
}

struct sel_identity sel_ref_identity(const struct sel_tree *tree, uint32_t ref) {
    if (ref & SEL_REF_ENTRY) {
        const struct sel_page_entry *entry = sel_entry_at(tree, ref & SEL_NUMBER_MAX);
        uint16_t ns = entry->owner ? sel_node_at(tree, entry->owner)->ns : (uint16_t)entry->next;
        return (struct sel_identity){&entry->key, entry->tokens, ns};
    }
    const struct sel_node *node = sel_node_at(tree, ref);
    return (struct sel_identity){&node->key, node->tokens, node->ns};
}

static const struct sel_key *key_of(const struct sel_tree *tree, uint32_t ref) {
    return ref & SEL_REF_ENTRY ? &sel_entry_at(tree, ref & SEL_NUMBER_MAX)->key : &sel_node_at(tree, ref)->key;
}

static uint32_t find_in(const struct sel_tree *tree, uint32_t bucket, const struct sel_identity *identity) {
    uint32_t ref = *bucket_at(&tree->map, bucket);

    for (; ref != 0; ref = sel_ref_place(tree, ref)[PLACE_MAP_NEXT]) {
        if (!sel_key_equal(key_of(tree, ref), identity->key))
            continue;
        struct sel_identity found = sel_ref_identity(tree, ref);
        if (found.tokens == identity->tokens && found.ns == identity->ns)
            return ref;
    }
    return 0;
}

uint32_t sel_tree_map_find(const struct sel_tree *tree, const struct sel_identity *identity) {
    return find_in(tree, sel_tree_map_bucket(&tree->map, identity->key), identity);
}

void sel_tree_visit_key(struct sel_tree *tree, const struct sel_key *key,
                        void (*visit)(void *context, struct sel_node *node), void *context) {
    sel_tree_load_end(tree);
    uint32_t ref = *bucket_at(&tree->map, sel_tree_map_bucket(&tree->map, key));

    for (; ref != 0; ref = sel_ref_place(tree, ref)[PLACE_MAP_NEXT])
        if (!(ref & SEL_REF_ENTRY) && sel_key_equal(key_of(tree, ref), key))
            visit(context, sel_node_at(tree, ref));
}

void sel_tree_map_prefetch(const struct sel_tree *tree, const struct sel_key *key) {
    __builtin_prefetch(bucket_at(&tree->map, sel_tree_map_bucket(&tree->map, key)));
}

static void prefetch_item(const struct sel_tree *tree, uint32_t ref) {
    const char *item = (const char *)key_of(tree, ref);

    __builtin_prefetch(item);
    __builtin_prefetch(item + sizeof(struct sel_key));
}

void sel_tree_map_prefetch_bucket(const struct sel_tree_map *map, uint32_t bucket) {
    __builtin_prefetch(bucket_at(map, bucket), 1);
}

void sel_tree_map_prefetch_items(const struct sel_tree *tree, uint32_t bucket) {
    uint32_t ref = *bucket_at(&tree->map, bucket);

    if (ref != 0)
        prefetch_item(tree, ref);
}

/* Splitting waits for nothing but memory; which item comes next is known one insert ahead. */
static void fetch_next_split(const struct sel_tree *tree) {
    const struct sel_tree_map *map = &tree->map;
    uint32_t next = map->bucket_count == 2 * map->half ? 0 : map->bucket_count - map->half;
    uint32_t ref = *bucket_at(map, next);

    if (ref != 0)
        prefetch_item(tree, ref);
}

/* One more bucket: the items of the bucket it halves are shared out. */
static void split(struct sel_tree *tree) {
    struct sel_tree_map *map = &tree->map;

    if (map->bucket_count == BUCKETS_MAX ||
        (map->bucket_count == map->segment_count * SEGMENT_BUCKETS && !add_segment(map)))
        return;
    uint32_t added = map->bucket_count++;
    if (added == 2 * map->half)
        map->half *= 2;
    uint32_t *from = bucket_at(map, added - map->half);
    uint32_t ref = *from;
    *from = 0;
    while (ref != 0) {
        uint32_t *link = &sel_ref_place(tree, ref)[PLACE_MAP_NEXT];
        uint32_t next = *link;
        uint32_t *bucket = bucket_at(map, sel_tree_map_bucket(map, key_of(tree, ref)));
        *link = *bucket;
        *bucket = ref;
        ref = next;
    }
    fetch_next_split(tree);
}

/* The link in a bucket's chain that names `ref`. */
static uint32_t *link_to(struct sel_tree *tree, uint32_t ref) {
    uint32_t *link = bucket_at(&tree->map, sel_tree_map_bucket(&tree->map, key_of(tree, ref)));

    while (*link != ref) {
        SEL_CHECK(*link != 0);
        link = &sel_ref_place(tree, *link)[PLACE_MAP_NEXT];
    }
    return link;
}

/* `ref` becomes the first of its list in place of `first`: it takes over the place in the map and the tails. */
static void replace_first(struct sel_tree *tree, uint32_t first, uint32_t ref) {
    uint32_t *old = sel_ref_place(tree, first);
    uint32_t *new = sel_ref_place(tree, ref);

    *link_to(tree, first) = ref;
    new[PLACE_MAP_NEXT] = old[PLACE_MAP_NEXT];
    new[PLACE_TAILS] = old[PLACE_TAILS];
    old[PLACE_MAP_NEXT] = 0;
    old[PLACE_TAILS] = 0;
    if (new[PLACE_TAILS] != 0)
        sel_ref_place(tree, new[PLACE_TAILS])[PLACE_TAIL_PREV] = ref | SEL_REF_HOLDER;
}

/* Links `ref` behind `previous` in the list of holders of one page key. */
static void link_same_page(struct sel_tree *tree, uint32_t previous, uint32_t ref) {
    uint32_t *before = sel_ref_place(tree, previous);
    uint32_t *place = sel_ref_place(tree, ref);

    place[PLACE_SAME_PAGE] = before[PLACE_SAME_PAGE];
    place[PLACE_SAME_PAGE_PREV] = previous;
    if (place[PLACE_SAME_PAGE] != 0)
        sel_ref_place(tree, place[PLACE_SAME_PAGE])[PLACE_SAME_PAGE_PREV] = ref;
    before[PLACE_SAME_PAGE] = ref;
}

void sel_tree_map_reserve(struct sel_tree *tree, uint64_t count) {
    struct sel_tree_map *map = &tree->map;
    uint64_t wanted = SEL_MIN(SEL_MAX(count, map->bucket_count), BUCKETS_MAX);
    uint32_t all = 0;

    for (uint32_t i = 0; i < map->bucket_count; i++) {
        uint32_t *bucket = bucket_at(map, i), ref;
        while ((ref = *bucket) != 0) {
            uint32_t *link = &sel_ref_place(tree, ref)[PLACE_MAP_NEXT];
            *bucket = *link;
            *link = all;
            all = ref;
        }
    }
    while ((uint64_t)map->segment_count * SEGMENT_BUCKETS < wanted && add_segment(map))
        ;
    map->bucket_count = (uint32_t)SEL_MIN(wanted, (uint64_t)map->segment_count * SEGMENT_BUCKETS);
    while (2 * (uint64_t)map->half <= map->bucket_count)
        map->half *= 2;
    while (all != 0) {
        uint32_t *link = &sel_ref_place(tree, all)[PLACE_MAP_NEXT], next = *link;
        uint32_t *bucket = bucket_at(map, sel_tree_map_bucket(map, key_of(tree, all)));
        *link = *bucket;
        *bucket = all;
        all = next;
    }
}

void sel_tree_map_add(struct sel_tree *tree, uint32_t ref) {
    sel_tree_map_add_at(tree, ref, sel_tree_map_bucket(&tree->map, key_of(tree, ref)));
    /* Two, to catch up when there was no memory for a while. */
    for (int i = 0; i < 2 && tree->map.count > tree->map.bucket_count; i++)
        split(tree);
}

void sel_tree_map_add_new(struct sel_tree *tree, uint32_t ref, uint32_t at) {
    uint32_t *bucket = bucket_at(&tree->map, at);

    sel_ref_place(tree, ref)[PLACE_MAP_NEXT] = *bucket;
    *bucket = ref;
    tree->map.count++;
}

void sel_tree_map_add_at(struct sel_tree *tree, uint32_t ref, uint32_t at) {
    struct sel_identity identity = sel_ref_identity(tree, ref);
    uint32_t first = find_in(tree, at, &identity);

    if (first == 0) {
        sel_tree_map_add_new(tree, ref, at);
    } else if (ref & SEL_REF_ENTRY) {
        link_same_page(tree, first, ref);
    } else {
        /* A page-aligned node goes first, so that it is found without walking the list. */
        uint32_t *place = sel_ref_place(tree, ref);
        SEL_CHECK(first & SEL_REF_ENTRY);
        replace_first(tree, first, ref);
        place[PLACE_SAME_PAGE] = first;
        sel_ref_place(tree, first)[PLACE_SAME_PAGE_PREV] = ref;
    }
}

/* Holders only. */
static void unlink_same_page(struct sel_tree *tree, uint32_t ref) {
    uint32_t *place = sel_ref_place(tree, ref);
    uint32_t next = place[PLACE_SAME_PAGE], previous = place[PLACE_SAME_PAGE_PREV];

    if (next != 0)
        sel_ref_place(tree, next)[PLACE_SAME_PAGE_PREV] = previous;
    if (previous != 0)
        sel_ref_place(tree, previous)[PLACE_SAME_PAGE] = next;
    place[PLACE_SAME_PAGE] = place[PLACE_SAME_PAGE_PREV] = 0;
}

void sel_tree_map_remove(struct sel_tree *tree, uint32_t ref) {
    uint32_t *place = sel_ref_place(tree, ref);
    bool holder = (ref & SEL_REF_ENTRY) || sel_node_aligned(tree, sel_node_at(tree, ref));

    if (holder && place[PLACE_SAME_PAGE_PREV] != 0) {
        unlink_same_page(tree, ref);
        return;
    }
    if (holder && place[PLACE_SAME_PAGE] != 0) {
        uint32_t next = place[PLACE_SAME_PAGE];
        replace_first(tree, ref, next);
        unlink_same_page(tree, ref);
        return;
    }
    /* A tail needs its page: it hangs under a record that carries it, or under K0 until the last one goes. */
    SEL_CHECK(!holder || place[PLACE_TAILS] == 0);
    uint32_t *link = link_to(tree, ref);
    *link = place[PLACE_MAP_NEXT];
    tree->map.count--;
}
