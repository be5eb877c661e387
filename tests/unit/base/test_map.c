/* SPDX-License-Identifier: Apache-2.0
 *
 * The map against per-item flags: what is in it is found, and nothing else, through growing and shrinking.
 */
#include "base/map.h"
#include "base/random.h"
#include "tests/lib/test.h"

#define ITEMS 4000

struct item {
    uint8_t key[32];
    bool in;
};

static bool equal(const void *item, const uint8_t key[32]) {
    return memcmp(((const struct item *)item)->key, key, 32) == 0;
}

struct visited {
    size_t count;
    const uint8_t *key;
    struct item *items[ITEMS];
};

static bool collect(void *context, void *item) {
    struct visited *visited = context;
    assert_true(visited->count < ITEMS);
    assert_true(equal(item, visited->key));
    visited->items[visited->count++] = item;
    return true;
}

static bool stop_at_first(void *context, void *item) {
    (void)item;
    ++*(int *)context;
    return false;
}

static void check_key(struct sel_map *map, struct item *items, size_t keys, size_t which) {
    static struct visited visited;
    size_t expected = 0;
    for (size_t i = which; i < ITEMS; i += keys)
        expected += items[i].in;
    visited.count = 0;
    visited.key = items[which].key;
    sel_map_visit(map, items[which].key, collect, &visited);
    assert_int_equal(visited.count, expected);
    for (size_t i = 0; i < visited.count; i++) {
        assert_true(visited.items[i]->in);
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(visited.items[i], visited.items[j]);
    }
    struct item *found = sel_map_find(map, items[which].key);
    assert_int_equal(found != NULL, expected > 0);
    if (found)
        assert_true(found->in && equal(found, items[which].key));
}

static void toggle(struct sel_map *map, struct item *item) {
    if (item->in)
        assert_true(sel_map_remove(map, item->key, item));
    else
        assert_ok(sel_map_insert(map, item->key, item));
    item->in = !item->in;
}

/* Items i, i + keys, i + 2 keys, ... share a key. The share of items that are in swings between none and all. */
static void random_run(uint64_t seed, size_t keys) {
    static struct item items[ITEMS];
    struct sel_random random;
    struct sel_map *map;
    size_t count = 0;
    sel_random_seed(&random, seed);
    for (size_t i = 0; i < ITEMS; i++) {
        items[i].in = false;
        if (i < keys)
            sel_random_fill(&random, items[i].key, 32);
        else
            memcpy(items[i].key, items[i % keys].key, 32);
    }
    assert_ok(sel_map_create(&map, seed, equal));
    for (size_t step = 0; step < 40000; step++) {
        struct item *item = &items[sel_random_below(&random, ITEMS)];
        bool wanted = sel_random_below(&random, 10) < (step / 8000 % 2 ? 1 : 9);
        if (item->in == wanted) {
            assert_int_equal(sel_map_remove(map, items[0].key, &random), false);
            continue;
        }
        toggle(map, item);
        count += item->in ? 1 : (size_t)-1;
        assert_int_equal(sel_map_count(map), count);
        if (step % (keys < 100 ? 1024 : 16) == 0)
            check_key(map, items, keys, sel_random_below(&random, keys));
    }
    for (size_t i = 0; i < keys; i++)
        check_key(map, items, keys, i);
    for (size_t i = 0; i < ITEMS; i++)
        if (items[i].in)
            toggle(map, &items[i]);
    assert_int_equal(sel_map_count(map), 0);
    assert_true(sel_map_bytes(map) < 2000);
    sel_map_destroy(&map);
    assert_null(map);
    sel_map_destroy(&map);
}

static void test_random_operations(void **state) {
    (void)state;
    random_run(1, ITEMS);
    random_run(2, ITEMS / 8);
    random_run(3, 50);
    random_run(4, 1);
}

/* Small steps, and memory: never more than two tables, at least 58 % full once settled. */
static void test_memory_per_item(void **state) {
    (void)state;
    enum { MANY = 100000 };
    struct item *items = calloc(MANY, sizeof *items);
    struct sel_random random;
    struct sel_map *map;
    double worst = 0;
    sel_random_seed(&random, 9);
    assert_ok(sel_map_create(&map, 9, equal));
    for (size_t i = 0; i < MANY; i++) {
        sel_random_fill(&random, items[i].key, 32);
        sel_map_prefetch(map, items[i].key);
        assert_ok(sel_map_insert(map, items[i].key, &items[i]));
        size_t other = sel_random_below(&random, i + 1); /* also in the part of the old table that is left */
        assert_ptr_equal(sel_map_find(map, items[other].key), &items[other]);
        double each = (double)sel_map_bytes(map) / (double)(i + 1);
        if (i > 1000 && each > worst)
            worst = each;
    }
    for (size_t i = 0; i < MANY; i++)
        assert_ptr_equal(sel_map_find(map, items[i].key), &items[i]);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(sel_map_remove(map, items[i].key, &items[i]));
        assert_null(sel_map_find(map, items[i].key));
        size_t other = i + sel_random_below(&random, MANY - i);
        assert_int_equal(sel_map_find(map, items[other].key) == &items[other], other != i);
    }
    assert_true(worst < 16 / 0.875 * 2.5 + 1);
    sel_map_destroy(&map);
    free(items);
}

static void test_visit_stops(void **state) {
    (void)state;
    struct item items[3] = {0};
    struct sel_map *map;
    int calls = 0;
    assert_ok(sel_map_create(&map, 1, equal));
    for (int i = 0; i < 3; i++)
        assert_ok(sel_map_insert(map, items[i].key, &items[i]));
    sel_map_visit(map, items[0].key, stop_at_first, &calls);
    assert_int_equal(calls, 1);
    sel_map_destroy(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_memory_per_item),
        cmocka_unit_test(test_visit_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
