/* SPDX-License-Identifier: Apache-2.0
 *
 * Hash map from 32-byte keys to pointers, with several values a key allowed. It keeps 16 bytes a slot (a hash and the
 * pointer), not the key: the item holds the key and the owner gives a function that compares. The hash is seeded, so
 * that chosen keys cannot collide on purpose. It grows in small steps (two tables while it does), so that no single
 * insert takes time proportional to the number of items.
 */
#ifndef SEL_BASE_MAP_H
#define SEL_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sel_map;

/* True when `item` has this key. */
typedef bool sel_map_equal(const void *item, const uint8_t key[32]);

int sel_map_create(struct sel_map **out, uint64_t seed, sel_map_equal *equal);
void sel_map_destroy(struct sel_map **map); /* not the items */

int sel_map_insert(struct sel_map *map, const uint8_t key[32], void *item); /* 0 or SELENE_E_NOMEM (map unchanged) */
/* Removes this very item (pointer identity); false when it was not there. */
bool sel_map_remove(struct sel_map *map, const uint8_t key[32], const void *item);
/* Some item with the key, or NULL. */
void *sel_map_find(const struct sel_map *map, const uint8_t key[32]);
/* All items with the key, in no order: calls visit(context, item) until it returns false. */
void sel_map_visit(const struct sel_map *map, const uint8_t key[32], bool (*visit)(void *context, void *item),
                   void *context);
/* Fetches the cache line where the key would be, before a batch of finds. */
void sel_map_prefetch(const struct sel_map *map, const uint8_t key[32]);
size_t sel_map_count(const struct sel_map *map);
size_t sel_map_bytes(const struct sel_map *map); /* heap memory in use */

#endif
