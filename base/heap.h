/* SPDX-License-Identifier: Apache-2.0
 *
 * A min-heap of items by a 64-bit priority, in one array (4-ary). Each item stores its own position as a uint32_t at a
 * fixed offset, so that removing or moving any item is O(log n) without a search. Position SEL_HEAP_NONE: not in the
 * heap. The same calls give the same order every time, ties included.
 */
#ifndef SEL_BASE_HEAP_H
#define SEL_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEL_HEAP_NONE UINT32_MAX

struct sel_heap_entry {
    uint64_t priority;
    void *item;
};

struct sel_heap {
    struct sel_heap_entry *entries;
    size_t count;
    size_t capacity;
    size_t position_offset; /* of the uint32_t inside an item */
};

void sel_heap_init(struct sel_heap *heap, size_t position_offset);
void sel_heap_destroy(struct sel_heap *heap); /* frees the array, not the items */

/* Room for `count` items, so that that many pushes cannot fail. SELENE_E_NOMEM or 0. */
int sel_heap_reserve(struct sel_heap *heap, size_t count);

int sel_heap_push(struct sel_heap *heap, void *item, uint64_t priority);    /* not yet in it; SELENE_E_NOMEM or 0 */
void sel_heap_remove(struct sel_heap *heap, void *item);                    /* no effect when it is not in it */
void sel_heap_update(struct sel_heap *heap, void *item, uint64_t priority); /* must be in it */
void *sel_heap_first(const struct sel_heap *heap);                          /* the smallest priority, or NULL */
uint64_t sel_heap_priority(const struct sel_heap *heap, const void *item);

#endif
