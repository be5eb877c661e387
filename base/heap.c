/* SPDX-License-Identifier: Apache-2.0
 *
 * 4-ary min-heap. Invariant: entries[i].priority >= entries[(i - 1) / 4].priority, and the position stored in
 * entries[i].item is i. Four children share one cache line, so a pop touches half as many lines as in a binary heap.
 */
#include "base/heap.h"

#include "base/check.h"
#include "base/error.h"

#include <stdlib.h>

#define ARITY        4
#define CAPACITY_MIN 16

static uint32_t *position_of(const struct sel_heap *heap, const void *item) {
    return (uint32_t *)((char *)(uintptr_t)item + heap->position_offset);
}

static void place(struct sel_heap *heap, size_t index, struct sel_heap_entry entry) {
    heap->entries[index] = entry;
    *position_of(heap, entry.item) = (uint32_t)index;
}

static void sift_up(struct sel_heap *heap, size_t index, struct sel_heap_entry entry) {
    while (index > 0) {
        size_t parent = (index - 1) / ARITY;
        if (heap->entries[parent].priority <= entry.priority)
            break;
        place(heap, index, heap->entries[parent]);
        index = parent;
    }
    place(heap, index, entry);
}

static void sift_down(struct sel_heap *heap, size_t index, struct sel_heap_entry entry) {
    for (;;) {
        size_t first = index * ARITY + 1;
        if (first >= heap->count)
            break;
        size_t end = SEL_MIN(first + ARITY, heap->count);
        size_t least = first;
        for (size_t child = first + 1; child < end; child++)
            if (heap->entries[child].priority < heap->entries[least].priority)
                least = child;
        if (heap->entries[least].priority >= entry.priority)
            break;
        place(heap, index, heap->entries[least]);
        index = least;
    }
    place(heap, index, entry);
}

static void sift(struct sel_heap *heap, size_t index, struct sel_heap_entry entry) {
    if (index > 0 && heap->entries[(index - 1) / ARITY].priority > entry.priority)
        sift_up(heap, index, entry);
    else
        sift_down(heap, index, entry);
}

/* The index of an item, or SEL_HEAP_NONE. A stored position that is not the item's own is a bug of the caller. */
static uint32_t find(const struct sel_heap *heap, const void *item) {
    uint32_t index = *position_of(heap, item);
    if (index != SEL_HEAP_NONE)
        SEL_CHECK(index < heap->count && heap->entries[index].item == item);
    return index;
}

void sel_heap_init(struct sel_heap *heap, size_t position_offset) {
    *heap = (struct sel_heap){.position_offset = position_offset};
}

void sel_heap_destroy(struct sel_heap *heap) {
    free(heap->entries);
    heap->entries = NULL;
    heap->count = heap->capacity = 0;
}

int sel_heap_reserve(struct sel_heap *heap, size_t count) {
    if (count <= heap->capacity)
        return 0;
    if (count >= SEL_HEAP_NONE || count > SIZE_MAX / sizeof *heap->entries)
        return SELENE_E_NOMEM;
    struct sel_heap_entry *entries = realloc(heap->entries, count * sizeof *entries);
    if (entries == NULL)
        return SELENE_E_NOMEM;
    heap->entries = entries;
    heap->capacity = count;
    return 0;
}

int sel_heap_push(struct sel_heap *heap, void *item, uint64_t priority) {
    SEL_DEBUG(*position_of(heap, item) == SEL_HEAP_NONE);
    if (heap->count == heap->capacity) {
        int rc = sel_heap_reserve(heap, SEL_MAX(heap->count + heap->count / 2, (size_t)CAPACITY_MIN));
        if (rc)
            return rc;
    }
    heap->count++;
    sift_up(heap, heap->count - 1, (struct sel_heap_entry){priority, item});
    return 0;
}

void sel_heap_remove(struct sel_heap *heap, void *item) {
    uint32_t index = find(heap, item);
    if (index == SEL_HEAP_NONE)
        return;
    *position_of(heap, item) = SEL_HEAP_NONE;
    heap->count--;
    if (index < heap->count)
        sift(heap, index, heap->entries[heap->count]);
}

void sel_heap_update(struct sel_heap *heap, void *item, uint64_t priority) {
    uint32_t index = find(heap, item);
    SEL_CHECK(index != SEL_HEAP_NONE);
    sift(heap, index, (struct sel_heap_entry){priority, item});
}

void *sel_heap_first(const struct sel_heap *heap) { return heap->count > 0 ? heap->entries[0].item : NULL; }

uint64_t sel_heap_priority(const struct sel_heap *heap, const void *item) {
    uint32_t index = find(heap, item);
    SEL_CHECK(index != SEL_HEAP_NONE);
    return heap->entries[index].priority;
}
