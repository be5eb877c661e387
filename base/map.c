/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probing and Robin Hood order: an item lies at or after its home slot, with no empty slot
 * between, and no item is further from home than the one before it plus one. So a search ends at the first slot whose
 * item is closer to its own home than the search is to the key's.
 *
 * A hash is mapped to its home by multiplication, not by a mask, so a table may have any size: it grows by half, which
 * keeps it at 58 to 87 % full. Homes have the order of the hashes, so moving to a new table reads and writes in order.
 *
 * Growing: `old` keeps the items and is emptied from slot 0 up, a few slots with every insert or remove. What was moved
 * or removed there leaves a tombstone (its hash stays, so that distances stay right). Nothing is inserted into `old`.
 * A table that is mostly empty shrinks in the same way.
 */
#include "base/map.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/error.h"

#include <stdlib.h>

#define CAPACITY_MIN 16
/* Slots of `old` looked at with every change. A table grown by half takes 0.44 * old capacity more inserts before it is
 * full again, so 3 would do. */
#define SLOTS_A_STEP 8

struct slot {
    uint64_t hash;
    void *item; /* NULL: empty; TOMBSTONE: only in `old` */
};

struct table {
    struct slot *slots;
    size_t capacity;
};

struct sel_map {
    struct table now;
    struct table old; /* slots NULL: not moving */
    size_t moved;     /* slots of `old` below this one hold nothing any more */
    size_t count;     /* items in both */
    uint64_t seed;
    sel_map_equal *equal;
};

static char tombstone;
#define TOMBSTONE ((void *)&tombstone)

static uint64_t hash_key(const struct sel_map *map, const uint8_t key[32]) {
    return sel_hash64_seeded(key, 32, map->seed);
}

static size_t home(const struct table *table, uint64_t hash) {
    return (size_t)(((unsigned __int128)hash * table->capacity) >> 64);
}

static size_t next(const struct table *table, size_t index) { return index + 1 == table->capacity ? 0 : index + 1; }

static size_t distance(const struct table *table, size_t index) {
    size_t from = home(table, table->slots[index].hash);
    return index >= from ? index - from : index + table->capacity - from;
}

static int table_create(struct table *table, size_t capacity) {
    if (capacity > SIZE_MAX / sizeof(struct slot))
        return SELENE_E_NOMEM;
    table->slots = calloc(capacity, sizeof(struct slot));
    table->capacity = capacity;
    return table->slots ? 0 : SELENE_E_NOMEM;
}

static void table_destroy(struct table *table) {
    free(table->slots);
    *table = (struct table){0};
}

/* There is room: the caller keeps the table below 7/8. */
static void table_insert(struct table *table, uint64_t hash, void *item) {
    struct slot carried = {hash, item};
    size_t index = home(table, hash);
    for (size_t away = 0; table->slots[index].item != NULL; index = next(table, index), away++) {
        size_t theirs = distance(table, index);
        if (theirs < away) {
            struct slot evicted = table->slots[index];
            table->slots[index] = carried;
            carried = evicted;
            away = theirs;
        }
    }
    table->slots[index] = carried;
}

/* Pulls the items behind a freed slot back by one, up to the first that is at home. */
static void table_close_gap(struct table *table, size_t index) {
    for (;;) {
        size_t following = next(table, index);
        if (table->slots[following].item == NULL || distance(table, following) == 0)
            break;
        table->slots[index] = table->slots[following];
        index = following;
    }
    table->slots[index].item = NULL;
}

/* Steps from slot to slot with this hash: start with *index = home and *away = 0. False at the end. */
static bool table_seek(const struct table *table, uint64_t hash, size_t *index, size_t *away) {
    for (; *away < table->capacity; *index = next(table, *index), ++*away) {
        const struct slot *slot = &table->slots[*index];
        if (slot->item == NULL)
            return false;
        if (slot->hash == hash) {
            if (slot->item != TOMBSTONE)
                return true;
        } else if (distance(table, *index) < *away) {
            return false;
        }
    }
    return false;
}

static bool table_visit(const struct sel_map *map, const struct table *table, uint64_t hash, const uint8_t key[32],
                        bool (*visit)(void *context, void *item), void *context) {
    size_t index = home(table, hash), away = 0;
    for (; table_seek(table, hash, &index, &away); index = next(table, index), away++) {
        void *item = table->slots[index].item;
        if (map->equal(item, key) && !visit(context, item))
            return false;
    }
    return true;
}

static bool table_find_item(const struct table *table, uint64_t hash, const void *item, size_t *index) {
    size_t away = 0;
    *index = home(table, hash);
    for (; table_seek(table, hash, index, &away); *index = next(table, *index), away++)
        if (table->slots[*index].item == item)
            return true;
    return false;
}

static void move_some(struct sel_map *map, size_t slots) {
    if (map->old.slots == NULL)
        return;
    size_t end = map->old.capacity - map->moved > slots ? map->moved + slots : map->old.capacity;
    for (; map->moved < end; map->moved++) {
        struct slot *slot = &map->old.slots[map->moved];
        if (slot->item == NULL || slot->item == TOMBSTONE)
            continue;
        table_insert(&map->now, slot->hash, slot->item);
        slot->item = TOMBSTONE;
    }
    if (map->moved == map->old.capacity)
        table_destroy(&map->old);
}

static int start_moving(struct sel_map *map, size_t capacity) {
    struct table larger;
    int rc = table_create(&larger, capacity);
    if (rc)
        return rc;
    move_some(map, SIZE_MAX); /* a safety net: by now the last move is long over */
    map->old = map->now;
    map->now = larger;
    map->moved = 0;
    return 0;
}

int sel_map_create(struct sel_map **out, uint64_t seed, sel_map_equal *equal) {
    *out = NULL;
    struct sel_map *map = calloc(1, sizeof *map);
    if (map == NULL)
        return SELENE_E_NOMEM;
    map->seed = seed;
    map->equal = equal;
    int rc = table_create(&map->now, CAPACITY_MIN);
    if (rc)
        sel_map_destroy(&map);
    *out = map;
    return rc;
}

void sel_map_destroy(struct sel_map **map) {
    if (*map == NULL)
        return;
    table_destroy(&(*map)->now);
    table_destroy(&(*map)->old);
    free(*map);
    *map = NULL;
}

int sel_map_insert(struct sel_map *map, const uint8_t key[32], void *item) {
    SEL_CHECK(item != NULL);
    size_t limit = map->now.capacity - map->now.capacity / 8;
    if (map->count >= limit) {
        int rc = start_moving(map, map->now.capacity + map->now.capacity / 2);
        if (rc)
            return rc;
    }
    move_some(map, SLOTS_A_STEP);
    table_insert(&map->now, hash_key(map, key), item);
    map->count++;
    return 0;
}

bool sel_map_remove(struct sel_map *map, const uint8_t key[32], const void *item) {
    uint64_t hash = hash_key(map, key);
    size_t index;
    move_some(map, SLOTS_A_STEP);
    if (table_find_item(&map->now, hash, item, &index))
        table_close_gap(&map->now, index);
    else if (map->old.slots && table_find_item(&map->old, hash, item, &index))
        map->old.slots[index].item = TOMBSTONE;
    else
        return false;
    map->count--;
    /* Without memory for the smaller table the larger one stays. */
    if (map->old.slots == NULL && map->now.capacity > CAPACITY_MIN && map->count < map->now.capacity / 4)
        (void)start_moving(map, SEL_MAX(map->now.capacity / 2, (size_t)CAPACITY_MIN));
    return true;
}

static bool take_first(void *context, void *item) {
    *(void **)context = item;
    return false;
}

void *sel_map_find(const struct sel_map *map, const uint8_t key[32]) {
    void *found = NULL;
    sel_map_visit(map, key, take_first, &found);
    return found;
}

void sel_map_visit(const struct sel_map *map, const uint8_t key[32], bool (*visit)(void *context, void *item),
                   void *context) {
    uint64_t hash = hash_key(map, key);
    if (table_visit(map, &map->now, hash, key, visit, context) && map->old.slots)
        table_visit(map, &map->old, hash, key, visit, context);
}

void sel_map_prefetch(const struct sel_map *map, const uint8_t key[32]) {
    uint64_t hash = hash_key(map, key);
    __builtin_prefetch(&map->now.slots[home(&map->now, hash)]);
    if (map->old.slots)
        __builtin_prefetch(&map->old.slots[home(&map->old, hash)]);
}

size_t sel_map_count(const struct sel_map *map) { return map->count; }

size_t sel_map_bytes(const struct sel_map *map) {
    return sizeof *map + (map->now.capacity + map->old.capacity) * sizeof(struct slot);
}
