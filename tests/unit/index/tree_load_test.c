/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading the tree [D7, goal P7]: what is known while records come, and what ends it. That a loaded tree is the same as
 * one built record by record is shown by the random model, half of whose trees begin with loaded records.
 */
#include "index/tree.h"
#include "tests/lib/test.h"

#define PAGE 4

static struct sel_tree *tree;
static const uint8_t ns[32] = {7};

static void set_up(void) {
    assert_ok(sel_tree_create(&tree, 3));
    assert_ok(sel_tree_load_begin(tree));
}

static void tear_down(void) {
    sel_tree_load_end(tree);
    assert_ok(sel_tree_check(tree, NULL));
    sel_tree_destroy(&tree);
}

static struct sel_key key_of(uint32_t number) {
    struct sel_key key;
    assert_ok(sel_sha256(key.bytes, &number, sizeof number));
    return key;
}

/* A record that carries at most one full page, whose key is that of `page`. */
static int insert(uint32_t number, uint32_t tokens, uint32_t page, struct sel_node *parent, struct sel_node **out) {
    struct sel_key page_key = key_of(page);
    struct sel_node_spec spec = {.ns = ns,
                                 .page_tokens = PAGE,
                                 .tokens = tokens,
                                 .key = tokens % PAGE ? key_of(number) : page_key,
                                 .parent = parent,
                                 .page_keys = &page_key,
                                 .base_key = page_key};
    spec.page_key_count = tokens / PAGE - (parent ? parent->tokens : 0) / PAGE;
    return sel_tree_insert(tree, &spec, out);
}

static struct sel_node *find(uint32_t number, uint32_t tokens) {
    struct sel_key key = key_of(number);
    return sel_tree_find(tree, ns, &key, tokens);
}

/* A chain much longer than the table is at first: every record knows its parent, none comes twice. */
static void records_are_found_while_they_come(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    struct sel_node *parent = NULL, *node;

    set_up();
    for (uint32_t i = 1; i <= COUNT; i++) {
        assert_null(find(i, i * PAGE));
        assert_ok(insert(0, i * PAGE, i, parent, &node));
        assert_int_equal(insert(0, i * PAGE, i, parent, &parent), SELENE_E_INVALID);
        assert_null(parent);
        assert_ptr_equal(find(i, i * PAGE), node);
        assert_null(find(i, i * PAGE + PAGE));
        assert_ok(sel_tree_add_to(tree, node, SEL_TIER_DISK, false));
        parent = node;
    }
    assert_ptr_equal(find(17, 17 * PAGE), find(18, 18 * PAGE)->parent);
    sel_tree_load_end(tree);
    sel_tree_load_end(tree); /* nothing to do */
    assert_ok(sel_tree_check(tree, NULL));
    assert_ptr_equal(find(COUNT, COUNT * PAGE), node);
    assert_ok(insert(0, (COUNT + 1) * PAGE, COUNT + 1, node, &node));
    tear_down();
}

/* One page carried by many records, and tails of several K0, of a page carried by the record itself and of the
 * parent's. */
static void pages_and_tails_are_shared(void **state) {
    (void)state;
    struct sel_node *first, *node;

    set_up();
    assert_ok(insert(100, 5, 1, NULL, &first)); /* carries page 1 */
    assert_ok(insert(101, 6, 1, NULL, &node));  /* carries it, too */
    assert_ok(insert(102, 7, 1, first, &node)); /* does not */
    assert_ok(insert(103, 6, 1, first, &node));
    assert_ok(insert(0, 4, 1, NULL, &node)); /* ends there */
    assert_ok(insert(200, 2, 50, NULL, &node));
    assert_ok(insert(201, 3, 50, node, &node));
    assert_int_equal(insert(202, 3, 52, NULL, &node), 0);
    assert_int_equal(insert(203, 4 + 3, 9, find(102, 7), &node), SELENE_E_INVALID);
    tear_down();
}

static void releasing_ends_it(void **state) {
    (void)state;
    struct sel_node *kept, *gone;

    set_up();
    assert_ok(insert(1, 2, 50, NULL, &kept));
    assert_ok(sel_tree_add_to(tree, kept, SEL_TIER_DISK, false));
    assert_ok(insert(2, 3, 51, NULL, &gone)); /* the only one under its K0 */
    sel_tree_release(tree, &gone);
    assert_null(gone);
    assert_null(find(2, 3));
    assert_ptr_equal(find(1, 2), kept);
    assert_ok(insert(3, 9, 2, NULL, &gone) == SELENE_E_INVALID ? 0 : 1); /* two pages */
    assert_ok(insert(3, 6, 2, NULL, &gone));
    assert_int_equal(sel_tree_count(tree), 2);
    tear_down();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_found_while_they_come),
        cmocka_unit_test(pages_and_tails_are_shared),
        cmocka_unit_test(releasing_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
