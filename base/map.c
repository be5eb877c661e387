/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probing and Robin Hood order: an item lies at or after its home slot, with no empty slot
 * between, and no item is further from home than the one before it plus one. So a search ends at the first slot whose
 * item is closer to its own home than the search is to the key's.
 *
 * A hash is mapped to its home by multiplication, not by a mask, so a table may have any size: it grows by half, which
 * keeps it at 58 to 87 % full. Homes have the order of the hashes, so moving to a new table reads and writes in order.
 *
 * Growing: `old` keeps the items and is emptied from slot 0 up, a few slots with every insert or remove; a search there
 * jumps over the slots below `moved`. What is removed from it leaves a tombstone (its hash stays, so that distances stay
 * right). Nothing is inserted into it. Its memory goes back piece by piece, since freeing tens of megabytes at once takes
 * milliseconds. A table that is mostly empty shrinks in the same way.
 */
#include "base/map.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/error.h"

#include <stdlib.h>
#include <sys/mman.h>

#define CAPACITY_MIN 16
/* Slots of `old` looked at with every change. A table grown by half takes 0.44 * old capacity more inserts before it is
 * full again, so 3 would do. */
#define SLOTS_A_STEP 8
/* What is given back at once; a multiple of any page size in use. */
#define PIECE_BYTES ((size_t)256 << 10)

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
    size_t moved;     /* slots of `old` below this one hold nothing any more, and may read as zeros */
    char *released;   /* memory of `old` below this went back */
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

/* A search for a hash in a table: the slots from its home on, without those below `first`. */
struct seek {
    const struct table *table;
    uint64_t hash;
    size_t first;
    size_t index;
    size_t away; /* from home */
};

static struct seek seek_start(const struct table *table, size_t first, uint64_t hash) {
    return (struct seek){table, hash, first, home(table, hash), 0};
}

static void seek_next(struct seek *seek) {
    seek->index = next(seek->table, seek->index);
    seek->away++;
}

/* Goes on to the slot with this hash, the one that it stands on included. False at the end. */
static bool seek_match(struct seek *seek) {
    for (; seek->away < seek->table->capacity; seek_next(seek)) {
        if (seek->index < seek->first) {
            seek->away += seek->first - seek->index;
            seek->index = seek->first;
        }
        const struct slot *slot = &seek->table->slots[seek->index];
        if (slot->item == NULL)
            return false;
        if (slot->hash == seek->hash) {
            if (slot->item != TOMBSTONE)
                return true;
        } else if (distance(seek->table, seek->index) < seek->away) {
            return false;
        }
    }
    return false;
}

static bool seek_visit(const struct sel_map *map, struct seek seek, const uint8_t key[32],
                       bool (*visit)(void *context, void *item), void *context) {
    for (; seek_match(&seek); seek_next(&seek)) {
        void *item = seek.table->slots[seek.index].item;
        if (map->equal(item, key) && !visit(context, item))
            return false;
    }
    return true;
}

static bool seek_item(struct seek seek, const void *item, size_t *index) {
    for (; seek_match(&seek); seek_next(&seek))
        if (seek.table->slots[seek.index].item == item) {
            *index = seek.index;
            return true;
        }
    return false;
}

static char *piece_up(void *address) { return (char *)address + (-(uintptr_t)address & (PIECE_BYTES - 1)); }

/* Gives whole pieces of `old` back that hold nothing any more. */
static void release_moved(struct sel_map *map) {
    char *end = (char *)(map->old.slots + map->moved);
    if (end - map->released < (ptrdiff_t)PIECE_BYTES)
        return;
    size_t bytes = (size_t)(end - map->released) & ~(PIECE_BYTES - 1);
    (void)madvise(map->released, bytes, MADV_DONTNEED); /* at worst free() has more to do */
    map->released += bytes;
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
    }
    if (map->moved == map->old.capacity)
        table_destroy(&map->old);
    else
        release_moved(map);
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
    map->released = piece_up(map->old.slots);
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
    if (seek_item(seek_start(&map->now, 0, hash), item, &index))
        table_close_gap(&map->now, index);
    else if (map->old.slots && seek_item(seek_start(&map->old, map->moved, hash), item, &index))
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
    if (seek_visit(map, seek_start(&map->now, 0, hash), key, visit, context) && map->old.slots)
        seek_visit(map, seek_start(&map->old, map->moved, hash), key, visit, context);
}

void sel_map_prefetch(const struct sel_map *map, const uint8_t key[32]) {
    uint64_t hash = hash_key(map, key);
    __builtin_prefetch(&map->now.slots[home(&map->now, hash)]);
    if (map->old.slots)
        __builtin_prefetch(&map->old.slots[home(&map->old, hash)]);
}

size_t sel_map_count(const struct sel_map *map) { return map->count; }

size_t sel_map_bytes(const struct sel_map *map) {
    size_t released = map->old.slots ? (size_t)(map->released - piece_up(map->old.slots)) : 0;
    return sizeof *map + (map->now.capacity + map->old.capacity) * sizeof(struct slot) - released;
}
