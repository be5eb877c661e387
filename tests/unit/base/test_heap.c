/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap against a plain array, under random operations.
 */
#include "base/error.h"
#include "base/heap.h"
#include "base/random.h"
#include "tests/lib/test.h"

#define ITEMS 500

struct item {
    uint64_t expected; /* priority, when in the heap */
    uint32_t position;
};

static void items_init(struct item *items) {
    for (int i = 0; i < ITEMS; i++)
        items[i] = (struct item){0, SEL_HEAP_NONE};
}

static void check_heap(const struct sel_heap *heap, const struct item *items) {
    size_t count = 0;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < ITEMS; i++) {
        if (items[i].position == SEL_HEAP_NONE)
            continue;
        count++;
        least = items[i].expected < least ? items[i].expected : least;
        assert_ptr_equal(heap->entries[items[i].position].item, &items[i]);
        assert_int_equal(sel_heap_priority(heap, &items[i]), items[i].expected);
    }
    assert_int_equal(heap->count, count);
    struct item *first = sel_heap_first(heap);
    assert_int_equal(first == NULL, count == 0);
    if (first)
        assert_int_equal(first->expected, least);
}

static void step(struct sel_heap *heap, struct item *item, uint64_t priority, uint64_t what) {
    if (item->position == SEL_HEAP_NONE) {
        if (what < 2) {
            item->expected = priority;
            assert_ok(sel_heap_push(heap, item, priority));
        } else {
            sel_heap_remove(heap, item); /* no effect */
        }
    } else if (what == 0) {
        sel_heap_remove(heap, item);
        assert_int_equal(item->position, SEL_HEAP_NONE);
    } else {
        item->expected = priority;
        sel_heap_update(heap, item, priority);
    }
}

static void test_random_operations(void **state) {
    (void)state;
    static struct item items[ITEMS];
    struct sel_heap heap;
    struct sel_random random;
    for (uint64_t seed = 0; seed < 4; seed++) {
        sel_random_seed(&random, seed);
        sel_heap_init(&heap, offsetof(struct item, position));
        items_init(items);
        for (int i = 0; i < 5000; i++) {
            uint64_t priority = seed % 2 ? sel_random_below(&random, 20) : sel_random_u64(&random);
            step(&heap, &items[sel_random_below(&random, ITEMS)], priority, sel_random_below(&random, 3));
            check_heap(&heap, items);
        }
        sel_heap_destroy(&heap);
    }
}

/* The same calls give the same order, ties included. */
static void test_ties_are_deterministic(void **state) {
    (void)state;
    static struct item items[2][ITEMS];
    struct sel_heap heaps[2];
    for (int h = 0; h < 2; h++) {
        items_init(items[h]);
        sel_heap_init(&heaps[h], offsetof(struct item, position));
        for (int i = 0; i < ITEMS; i++)
            assert_ok(sel_heap_push(&heaps[h], &items[h][i], (uint64_t)i % 3));
    }
    for (int i = 0; i < ITEMS; i++) {
        struct item *a = sel_heap_first(&heaps[0]), *b = sel_heap_first(&heaps[1]);
        assert_int_equal(a - items[0], b - items[1]);
        sel_heap_remove(&heaps[0], a);
        sel_heap_remove(&heaps[1], b);
    }
    assert_null(sel_heap_first(&heaps[0]));
    sel_heap_destroy(&heaps[0]);
    sel_heap_destroy(&heaps[1]);
}

static void test_reserve(void **state) {
    (void)state;
    static struct item items[ITEMS];
    struct sel_heap heap;
    items_init(items);
    sel_heap_init(&heap, offsetof(struct item, position));
    assert_ok(sel_heap_reserve(&heap, ITEMS));
    struct sel_heap_entry *entries = heap.entries;
    for (int i = 0; i < ITEMS; i++)
        assert_ok(sel_heap_push(&heap, &items[i], (uint64_t)(ITEMS - i)));
    assert_ptr_equal(heap.entries, entries);
    assert_int_equal(sel_heap_reserve(&heap, UINT32_MAX), SELENE_E_NOMEM);
    assert_int_equal(sel_heap_reserve(&heap, SIZE_MAX), SELENE_E_NOMEM);
    assert_ptr_equal(sel_heap_first(&heap), &items[ITEMS - 1]);
    sel_heap_destroy(&heap);
    sel_heap_destroy(&heap);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_ties_are_deterministic),
        cmocka_unit_test(test_reserve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
