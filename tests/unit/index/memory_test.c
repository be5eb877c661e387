/* SPDX-License-Identifier: Apache-2.0
 *
 * Out of memory at every allocation of layouts, keys and the tree: an error, nothing changed, nothing lost. The linker
 * routes the allocating calls of this program through the wrappers below.
 */
#include "index/tree.h"
#include "tests/lib/test.h"

static uint64_t allocations; /* so many succeed, then all fail */

static bool refused(void) {
    if (allocations == 0)
        return true;
    allocations--;
    return false;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes) { return refused() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t count, size_t bytes) { return refused() ? NULL : __real_calloc(count, bytes); }
void *__wrap_realloc(void *old, size_t bytes) { return refused() ? NULL : __real_realloc(old, bytes); }
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes) {
    return refused() ? 12 /* ENOMEM */ : __real_posix_memalign(out, alignment, bytes);
}

/* Runs a step with 0, 1, 2, ... allocations until it works; returns how many it needs. Each failure says E_NOMEM. */
static uint64_t until_it_works(int (*step)(void *context), void *context) {
    for (uint64_t n = 0;; n++) {
        allocations = n;
        int rc = step(context);
        allocations = UINT64_MAX;
        if (rc == 0)
            return n;
        assert_int_equal(rc, SELENE_E_NOMEM);
        assert_true(n < 100);
    }
}

static struct sel_layout *layout;
static struct sel_prefix *prefix;
static struct sel_tree *tree;
static const uint32_t tokens[64] = {1, 2, 3, 4, 5, 6, 7, 8};

static int create_layout(void *context) {
    static const struct selene_plane plane = {4096, 1, 512};
    static const struct selene_layout desc = {.page_tokens = 8, .rank_count = 1, .plane_count = 1, .planes = &plane};

    (void)context;
    int rc = sel_layout_create(&layout, &desc, NULL);
    assert_int_equal(layout == NULL, rc != 0);
    return rc;
}

static int create_prefix(void *context) {
    (void)context;
    int rc = sel_prefix_create(&prefix, layout, "salt", 4);
    assert_int_equal(prefix == NULL, rc != 0);
    return rc;
}

static int append(void *context) {
    (void)context;
    uint64_t before = sel_prefix_tokens(prefix);
    int rc = sel_prefix_append(prefix, tokens, 64);
    assert_int_equal(sel_prefix_tokens(prefix), before + (rc == 0 ? 64 : 0));
    return rc;
}

static int set_extra(void *context) { return sel_prefix_set_extra(prefix, *(uint32_t *)context, "image", 5); }

static int create_tree(void *context) {
    (void)context;
    int rc = sel_tree_create(&tree, 1);
    assert_int_equal(tree == NULL, rc != 0);
    return rc;
}

static int insert(void *context) {
    uint32_t at = *(uint32_t *)context;
    struct sel_key keys[8];
    struct sel_node *node;
    uint64_t before = sel_tree_count(tree);
    struct sel_node_spec spec = {.ns = layout->ns,
                                 .page_tokens = 8,
                                 .tokens = at,
                                 .page_keys = keys,
                                 .page_key_count = at / 8,
                                 .base_key = *sel_prefix_page_key(prefix, at / 8)};

    for (uint32_t i = 0; i < at / 8; i++)
        keys[i] = *sel_prefix_page_key(prefix, i + 1);
    assert_ok(sel_prefix_key_at(prefix, at, &spec.key));
    int rc = sel_tree_insert(tree, &spec, &node);
    assert_int_equal(node == NULL, rc != 0);
    assert_int_equal(sel_tree_count(tree), before + (rc == 0));
    uint64_t left = allocations;
    allocations = UINT64_MAX;
    assert_ok(sel_tree_check(tree, NULL));
    allocations = left;
    return rc;
}

static int begin_load(void *context) {
    (void)context;
    return sel_tree_load_begin(tree);
}

static int add_to(void *context) {
    int rc = sel_tree_add_to(tree, context, SEL_TIER_MEMORY, true);
    assert_ok(sel_tree_check(tree, NULL));
    return rc;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    uint64_t needed = 0;
    uint32_t pages[] = {0, 9};

    needed += until_it_works(create_layout, NULL);
    needed += until_it_works(create_prefix, NULL);
    needed += until_it_works(set_extra, &pages[0]);
    needed += until_it_works(append, NULL);
    needed += until_it_works(set_extra, &pages[1]);
    needed += until_it_works(append, NULL);
    needed += until_it_works(create_tree, NULL);
    for (uint32_t at = 1; at <= 64; at++)
        needed += until_it_works(insert, &at);
    struct sel_key key;
    assert_ok(sel_prefix_key_at(prefix, 40, &key));
    struct sel_node *node = sel_tree_find(tree, layout->ns, &key, 40);
    assert_non_null(node);
    needed += until_it_works(add_to, node);
    assert_true(needed >= 20);
    sel_tree_destroy(&tree);
    sel_prefix_destroy(&prefix);
    sel_layout_destroy(&layout);
}

/* Without memory for more buckets the map goes on with longer chains. */
static void the_map_works_without_growing(void **state) {
    (void)state;
    enum { COUNT = 20000 };

    allocations = UINT64_MAX;
    assert_ok(create_layout(NULL));
    assert_ok(create_tree(NULL));
    for (uint32_t i = 1; i <= COUNT; i++) {
        struct sel_node_spec spec = {.ns = layout->ns, .page_tokens = 8, .tokens = 8, .page_key_count = 1};
        struct sel_node *node;
        assert_ok(sel_sha256(spec.key.bytes, &i, sizeof i));
        spec.page_keys = &spec.key;
        /* After a few, only chunks of nodes get memory: one try with it when the first has failed. */
        allocations = i < 100 ? UINT64_MAX : 0;
        if (sel_tree_insert(tree, &spec, &node) != 0) {
            allocations = 8;
            assert_ok(sel_tree_insert(tree, &spec, &node));
        }
        allocations = UINT64_MAX;
    }
    assert_ok(sel_tree_check(tree, NULL));
    sel_tree_destroy(&tree);
    sel_layout_destroy(&layout);
}

/* Page entries taken before the memory ran out are given back: the checker counts them. */
static void failed_inserts_leave_nothing(void **state) {
    (void)state;
    uint64_t failures = 0;

    allocations = UINT64_MAX;
    assert_ok(create_layout(NULL));
    assert_ok(create_tree(NULL));
    for (uint32_t i = 0; i < 1000; i++) {
        struct sel_key keys[8];
        struct sel_node_spec spec = {
            .ns = layout->ns, .page_tokens = 8, .tokens = 64, .page_keys = keys, .page_key_count = 8};
        struct sel_node *node;
        for (uint32_t k = 0; k < 8; k++)
            assert_ok(sel_sha256(keys[k].bytes, (uint32_t[2]){i, k}, 8));
        spec.key = keys[7];
        allocations = 0;
        int rc = sel_tree_insert(tree, &spec, &node);
        allocations = UINT64_MAX;
        if (rc == 0)
            continue;
        failures++;
        assert_int_equal(rc, SELENE_E_NOMEM);
        assert_ok(sel_tree_check(tree, NULL));
        assert_ok(sel_tree_insert(tree, &spec, &node));
    }
    assert_true(failures >= 6);
    assert_ok(sel_tree_check(tree, NULL));
    sel_tree_destroy(&tree);
    sel_layout_destroy(&layout);
}

/* The same while records are loaded; then there is no memory for the map, which gets long chains. */
static void loading_without_memory(void **state) {
    (void)state;
    enum { COUNT = 3000 };

    allocations = UINT64_MAX;
    assert_ok(create_layout(NULL));
    assert_ok(create_tree(NULL));
    uint64_t failures = until_it_works(begin_load, NULL);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct sel_key keys[8];
        struct sel_node_spec spec = {
            .ns = layout->ns, .page_tokens = 8, .tokens = 64, .page_keys = keys, .page_key_count = 8};
        struct sel_node *node;
        for (uint32_t k = 0; k < 8; k++)
            assert_ok(sel_sha256(keys[k].bytes, (uint32_t[2]){k == 0 ? 0 : i, k}, 8));
        spec.key = keys[7];
        allocations = 0;
        int rc = sel_tree_insert(tree, &spec, &node);
        allocations = UINT64_MAX;
        if (rc == 0)
            continue;
        failures++;
        assert_int_equal(rc, SELENE_E_NOMEM);
        if (i % 4 > 0)
            assert_ok(sel_tree_insert(tree, &spec, &node));
    }
    assert_true(failures >= 20);
    allocations = 0;
    sel_tree_load_end(tree);
    allocations = UINT64_MAX;
    assert_ok(sel_tree_check(tree, NULL));
    sel_tree_destroy(&tree);
    sel_layout_destroy(&layout);
}

int main(void) {
    allocations = UINT64_MAX;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(failed_inserts_leave_nothing),
        cmocka_unit_test(loading_without_memory),
        cmocka_unit_test(the_map_works_without_growing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
