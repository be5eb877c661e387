/* SPDX-License-Identifier: Apache-2.0
 *
 * The prefix tree: what the random test does not reach. Refused specs, many records under one page key, the key K0,
 * pages shared by a fork, extreme page sizes, page hashes, memory.
 */
#include "base/check.h"
#include "base/random.h"
#include "index/tree.h"
#include "tests/lib/test.h"

#define P 8

struct fixture {
    struct sel_layout *layout;
    struct sel_tree *tree;
    struct sel_key keys[64];
};

static struct fixture f;

static struct sel_layout *layout_with(uint32_t page_tokens) {
    struct selene_plane plane = {page_tokens, 1, 1};
    struct selene_layout desc = {.page_tokens = page_tokens, .rank_count = 1, .plane_count = 1, .planes = &plane};
    struct sel_layout *layout;

    assert_ok(sel_layout_create(&layout, &desc, NULL));
    return layout;
}

static int begin(void **state) {
    (void)state;
    f.layout = layout_with(P);
    return sel_tree_create(&f.tree, 5);
}

static int end(void **state) {
    (void)state;
    sel_tree_destroy(&f.tree);
    sel_layout_destroy(&f.layout);
    return 0;
}

static void check_tree(void) {
    struct selene_message message = {""};
    if (sel_tree_check(f.tree, &message) != 0)
        fail_msg("%s", message.text);
}

/* `shared` tokens that all have in common, then `own` tokens that depend on `salt`. */
static struct sel_prefix *prefix_of(const struct sel_layout *layout, uint32_t shared, uint32_t own, uint32_t salt) {
    struct sel_prefix *prefix;

    assert_ok(sel_prefix_create(&prefix, layout, NULL, 0));
    for (uint32_t i = 0; i < shared + own; i++) {
        uint32_t token = i < shared ? i : salt * 1000 + i;
        assert_ok(sel_prefix_append(prefix, &token, 1));
    }
    return prefix;
}

static struct sel_node_spec spec_of(const struct sel_prefix *prefix, uint32_t tokens, struct sel_node *parent) {
    uint32_t page_tokens = f.layout->desc.page_tokens;
    uint32_t first = (parent ? parent->tokens : 0) / page_tokens;
    struct sel_node_spec spec = {.ns = f.layout->ns,
                                 .page_tokens = page_tokens,
                                 .tokens = tokens,
                                 .parent = parent,
                                 .page_keys = f.keys,
                                 .page_key_count = tokens / page_tokens - first,
                                 .base_key = *sel_prefix_page_key(prefix, tokens / page_tokens)};

    assert_true(spec.page_key_count <= SEL_COUNT(f.keys));
    for (uint32_t i = 0; i < spec.page_key_count; i++)
        f.keys[i] = *sel_prefix_page_key(prefix, first + i + 1);
    assert_ok(sel_prefix_key_at(prefix, tokens, &spec.key));
    return spec;
}

static struct sel_node *add(const struct sel_prefix *prefix, uint32_t tokens, struct sel_node *parent) {
    struct sel_node_spec spec = spec_of(prefix, tokens, parent);
    struct sel_node *node;

    assert_ok(sel_tree_insert(f.tree, &spec, &node));
    assert_ok(sel_tree_add_to(f.tree, node, SEL_TIER_DISK, false));
    return node;
}

static void drop(struct sel_node *node) {
    sel_tree_remove_from(f.tree, node, SEL_TIER_DISK);
    sel_tree_release(f.tree, &node);
    assert_null(node);
}

static void refuse(const struct sel_node_spec *spec) {
    struct sel_node *node = (void *)1;

    assert_int_equal(sel_tree_insert(f.tree, spec, &node), SELENE_E_INVALID);
    assert_null(node);
    check_tree();
}

/* Specs come from disks too: one that contradicts itself or its parent is refused and changes nothing. */
static void bad_specs_are_refused(void **state) {
    (void)state;
    struct sel_prefix *prefix = prefix_of(f.layout, 40, 0, 0), *other = prefix_of(f.layout, 0, 40, 1);
    struct sel_node *parent = add(prefix, 12, NULL), *stranger = add(other, 12, NULL);
    struct selene_layout desc = f.layout->desc;
    struct sel_layout *layout;
    desc.rank_count = 2;
    assert_ok(sel_layout_create(&layout, &desc, NULL));
    struct sel_node_spec bad, good = spec_of(prefix, 24, parent);

    bad = spec_of(prefix, 12, parent), bad.key.bytes[0] ^= 1; /* no longer than its parent */
    refuse(&bad);
    bad = spec_of(prefix, 10, parent);
    refuse(&bad);
    bad = good, bad.tokens = 0;
    refuse(&bad);
    bad = good, bad.page_tokens = 0;
    refuse(&bad);
    bad = good, bad.page_tokens = SELENE_PAGE_TOKENS_MAX + 1;
    refuse(&bad);
    bad = good, bad.page_tokens = 4, bad.page_key_count = 3; /* the namespace has 8 */
    f.keys[2] = f.keys[1];
    refuse(&bad);
    bad = good, bad.page_key_count = 1;
    refuse(&bad);
    bad = good, bad.page_key_count = UINT32_MAX;
    refuse(&bad);
    bad = good, bad.page_keys = NULL;
    refuse(&bad);
    bad = good, bad.key.bytes[31] ^= 1; /* not its last page key */
    refuse(&bad);
    bad = good, bad.ns = layout->ns; /* another namespace than the parent's */
    refuse(&bad);
    bad = spec_of(prefix, 20, parent), bad.base_key.bytes[0] ^= 1; /* mid-page, base is not its last page key */
    refuse(&bad);
    bad = spec_of(prefix, 14, parent), bad.base_key.bytes[0] ^= 1; /* mid-page, no page of its own */
    refuse(&bad);
    bad = spec_of(prefix, 14, stranger); /* its page is held, but not by this chain */
    refuse(&bad);
    bad = spec_of(prefix, 12, NULL); /* there already */
    refuse(&bad);
    assert_int_equal(sel_tree_count(f.tree), 2);

    good = spec_of(prefix, 24, parent);
    struct sel_node *node;
    assert_ok(sel_tree_insert(f.tree, &good, &node));
    assert_int_equal(sel_tree_count(f.tree), 3);
    sel_layout_destroy(&layout);
    sel_prefix_destroy(&prefix);
    sel_prefix_destroy(&other);
}

/* [D8] A record on disk claims our namespace with smaller pages, and it is the first that the tree sees. */
static void a_lie_about_the_page_size_matches_nothing(void **state) {
    (void)state;
    struct sel_prefix *prefix = prefix_of(f.layout, 12, 0, 0);
    struct sel_key keys[3] = {*sel_prefix_page_key(prefix, 1), {{1}}, {{2}}};
    struct sel_node_spec spec = {.ns = f.layout->ns,
                                 .page_tokens = P / 2,
                                 .tokens = 3 * P / 2,
                                 .key = keys[2],
                                 .page_keys = keys,
                                 .page_key_count = 3};
    struct sel_node *node;

    assert_ok(sel_tree_insert(f.tree, &spec, &node));
    assert_ok(sel_tree_add_to(f.tree, node, SEL_TIER_DISK, false));
    for (int has_rows = 0; has_rows < 2; has_rows++)
        assert_null(sel_tree_longest(f.tree, prefix, UINT64_MAX, has_rows, NULL, NULL).node);
    assert_null(sel_tree_ancestor(f.tree, prefix, UINT64_MAX));
    sel_prefix_destroy(&prefix);
}

static void too_many_tokens_are_refused(void **state) {
    (void)state;
    uint32_t count = SEL_PREFIX_TOKENS_MAX / SELENE_PAGE_TOKENS_MAX;
    struct sel_key *keys = calloc(count, sizeof *keys);
    struct sel_node_spec spec = {.ns = f.layout->ns,
                                 .page_tokens = SELENE_PAGE_TOKENS_MAX,
                                 .tokens = SEL_PREFIX_TOKENS_MAX,
                                 .page_keys = keys,
                                 .page_key_count = count};
    struct sel_node *node;

    for (uint32_t i = 0; i < count; i++)
        assert_ok(sel_sha256(keys[i].bytes, &i, sizeof i));
    spec.key = spec.base_key = keys[count - 1];
    assert_ok(sel_tree_insert(f.tree, &spec, &node));
    check_tree();
    sel_tree_release(f.tree, &node);
    spec.tokens++;
    spec.key.bytes[0] ^= 1;
    refuse(&spec);
    free(keys);
}

/* 20,000 conversations with the same system prompt of two pages, stored as roots: the same page keys 20,000 times,
 * and mid-page records with the same tail length under one page key. Every step stays cheap. */
static void many_records_share_pages(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    struct sel_node **nodes = calloc(COUNT, sizeof(struct sel_node *));
    struct sel_random random;

    sel_random_seed(&random, 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct sel_prefix *prefix = prefix_of(f.layout, 2 * P, P, i);
        nodes[i] = add(prefix, 2 * P + (i % 2 ? P : 3), NULL);
        sel_prefix_destroy(&prefix);
    }
    check_tree();
    struct sel_prefix *shared = prefix_of(f.layout, 2 * P, P, COUNT + 1);
    assert_int_equal(sel_tree_longest(f.tree, shared, UINT64_MAX, false, NULL, NULL).tokens, 2 * P);
    assert_null(sel_tree_longest(f.tree, shared, UINT64_MAX, true, NULL, NULL).node);
    sel_prefix_destroy(&shared);
    for (uint32_t left = COUNT; left > 0; left--) {
        uint64_t i = sel_random_below(&random, left);
        drop(nodes[i]);
        nodes[i] = nodes[left - 1];
        if (left % 4096 == 0)
            check_tree();
    }
    assert_int_equal(sel_tree_count(f.tree), 0);
    assert_int_equal(sel_tree_page_key_bytes(f.tree), 0);
    check_tree();
    free(nodes);
}

/* The keys of a record, which every spill asks for, are found without a walk past all records of its length: with one,
 * this test would run into its time limit. Under a page key that others carry too, and under K0. */
static void keys_among_many_of_one_length(void **state) {
    (void)state;
    enum { COUNT = 400000 };
    struct sel_node **nodes = calloc(COUNT, sizeof(struct sel_node *));
    struct sel_key keys[2], base;

    for (uint32_t shared = 0; shared <= P; shared += P) {
        struct sel_prefix *prefix = prefix_of(f.layout, shared, 3, 0);
        struct sel_node_spec spec = spec_of(prefix, shared + 3, NULL);
        for (uint32_t i = 0; i < COUNT; i++) {
            memcpy(spec.key.bytes, &i, sizeof i);
            assert_ok(sel_tree_insert(f.tree, &spec, &nodes[i]));
        }
        check_tree();
        for (uint32_t i = 0; i < COUNT; i++) {
            sel_tree_keys(f.tree, nodes[i], keys, &base);
            assert_true(sel_key_equal(&base, &spec.base_key));
            assert_true(shared == 0 || sel_key_equal(&keys[0], &f.keys[0]));
        }
        /* Each in turn is the first of them. */
        for (uint32_t i = 0; i < COUNT; i++) {
            struct sel_node *last = nodes[COUNT - 1];
            if (i % 1000 == 0) {
                sel_tree_keys(f.tree, last, keys, &base);
                assert_true(sel_key_equal(&base, &spec.base_key));
            }
            sel_tree_release(f.tree, &nodes[i]);
        }
        check_tree();
        sel_prefix_destroy(&prefix);
    }
    free(nodes);
}

/* A root with 50,000 children: adding and removing one walks none of the others. */
static void a_root_with_many_children(void **state) {
    (void)state;
    enum { COUNT = 50000 };
    struct sel_node **nodes = calloc(COUNT, sizeof(struct sel_node *));
    struct sel_prefix *root_prefix = prefix_of(f.layout, P, 0, 0);
    struct sel_node *root = add(root_prefix, P, NULL);

    for (uint32_t i = 0; i < COUNT; i++) {
        struct sel_prefix *prefix = prefix_of(f.layout, P, P, i);
        nodes[i] = add(prefix, 2 * P, root);
        sel_tree_touch(f.tree, nodes[i], i + 1);
        sel_prefix_destroy(&prefix);
    }
    check_tree();
    assert_int_equal(root->tier[SEL_TIER_DISK].children, COUNT);
    assert_ptr_equal(sel_tree_coldest(f.tree, SEL_TIER_DISK, SEL_ORDER_CLEAN), nodes[0]);
    for (uint32_t i = 0; i < COUNT; i++)
        drop(nodes[i]);
    assert_ptr_equal(sel_tree_coldest(f.tree, SEL_TIER_DISK, SEL_ORDER_CLEAN), root);
    assert_int_equal(root->last_use, COUNT); /* [P5] */
    sel_prefix_destroy(&root_prefix);
    free(nodes);
}

/* [L6] A fork inside a group carries pages again. The tails under such a page outlive the record that came first, and
 * a page-aligned record is found whoever else carries its page. */
static void tails_outlive_the_first_carrier(void **state) {
    (void)state;
    struct sel_prefix *a = prefix_of(f.layout, 2 * P, P, 1), *b = prefix_of(f.layout, 2 * P, P, 2);
    struct sel_node *first = add(a, 3 * P, NULL);      /* carries K1, K2, K3 */
    struct sel_node *tail = add(b, 2 * P + 3, NULL);   /* carries K1, K2; hangs under K2 */
    struct sel_node *longer = add(b, 2 * P + 5, tail); /* hangs under K2 too */
    struct sel_node *exact = add(b, 2 * P, NULL);      /* is K2 */

    check_tree();
    drop(first);
    check_tree();
    assert_ptr_equal(sel_tree_longest(f.tree, b, UINT64_MAX, true, NULL, NULL).node, longer);
    assert_ptr_equal(sel_tree_longest(f.tree, b, 2 * P + 4, true, NULL, NULL).node, tail);
    assert_ptr_equal(sel_tree_longest(f.tree, b, 2 * P + 2, true, NULL, NULL).node, exact);
    assert_ptr_equal(sel_tree_ancestor(f.tree, a, UINT64_MAX), exact);
    drop(exact);
    check_tree();
    assert_ptr_equal(sel_tree_longest(f.tree, b, UINT64_MAX, true, NULL, NULL).node, longer);
    drop(longer);
    drop(tail);
    assert_int_equal(sel_tree_page_key_bytes(f.tree), 0);
    sel_prefix_destroy(&a);
    sel_prefix_destroy(&b);
}

/* Records shorter than a page hang under K0, which comes with the first of them and goes with the last. */
static void k0_lives_while_needed(void **state) {
    (void)state;
    struct sel_prefix *prefix = prefix_of(f.layout, P, 0, 0);
    struct sel_node *three = add(prefix, 3, NULL), *five = add(prefix, 5, three);

    assert_int_equal(sel_tree_page_key_bytes(f.tree), 32);
    assert_ptr_equal(sel_tree_longest(f.tree, prefix, 7, true, NULL, NULL).node, five);
    assert_ptr_equal(sel_tree_longest(f.tree, prefix, 4, true, NULL, NULL).node, three);
    assert_null(sel_tree_longest(f.tree, prefix, 2, true, NULL, NULL).node);
    assert_int_equal(sel_tree_longest(f.tree, prefix, 7, false, NULL, NULL).tokens, 0);
    drop(five);
    assert_int_equal(sel_tree_page_key_bytes(f.tree), 32);
    drop(three);
    assert_int_equal(sel_tree_page_key_bytes(f.tree), 0);
    check_tree();
    sel_prefix_destroy(&prefix);
}

/* Releasing goes up to the first node that something still needs. */
static void release_goes_up(void **state) {
    (void)state;
    struct sel_prefix *prefix = prefix_of(f.layout, 4 * P, 0, 0);
    struct sel_node *a = add(prefix, P, NULL), *b = add(prefix, 2 * P, a), *c = add(prefix, 3 * P, b), *gone = c;

    sel_tree_pin(f.tree, a, SEL_TIER_MEMORY);
    sel_tree_remove_from(f.tree, a, SEL_TIER_DISK);
    sel_tree_remove_from(f.tree, b, SEL_TIER_DISK);
    sel_tree_release(f.tree, &b); /* has a child */
    assert_non_null(b);
    sel_tree_release(f.tree, &gone); /* is held */
    assert_non_null(gone);
    sel_tree_remove_from(f.tree, c, SEL_TIER_DISK);
    sel_tree_release(f.tree, &gone);
    assert_null(gone);
    assert_int_equal(sel_tree_count(f.tree), 1);
    sel_tree_unpin(f.tree, a, SEL_TIER_MEMORY);
    sel_tree_release(f.tree, &a);
    assert_null(a);
    assert_int_equal(sel_tree_count(f.tree), 0);
    sel_prefix_destroy(&prefix);
}

/* With an engine's own page hashes there are no keys in mid-page: records there are passed over. */
static void page_hashes_match_at_boundaries(void **state) {
    (void)state;
    struct sel_prefix *prefix;
    uint8_t hashes[4][32];

    for (size_t i = 0; i < sizeof hashes; i++)
        hashes[i / 32][i % 32] = (uint8_t)(i * 7);
    assert_ok(sel_prefix_create(&prefix, f.layout, NULL, 0));
    assert_ok(sel_prefix_append_hashes(prefix, hashes, 4));
    struct sel_node *node = add(prefix, 2 * P, NULL);
    struct sel_node_spec tail = {.ns = f.layout->ns,
                                 .page_tokens = P,
                                 .tokens = 2 * P + 1,
                                 .parent = node,
                                 .key = {{1, 2, 3}},
                                 .base_key = *sel_prefix_page_key(prefix, 2)};
    struct sel_node *other;
    assert_ok(sel_tree_insert(f.tree, &tail, &other));
    assert_ok(sel_tree_add_to(f.tree, other, SEL_TIER_DISK, false));
    assert_ptr_equal(sel_tree_longest(f.tree, prefix, UINT64_MAX, true, NULL, NULL).node, node);
    assert_int_equal(sel_tree_longest(f.tree, prefix, UINT64_MAX, false, NULL, NULL).tokens, 2 * P);
    sel_prefix_destroy(&prefix);
}

static void extreme_page_sizes(void **state) {
    (void)state;
    static const uint32_t sizes[] = {1, 2, SELENE_PAGE_TOKENS_MAX};

    for (size_t i = 0; i < SEL_COUNT(sizes); i++) {
        sel_layout_destroy(&f.layout);
        f.layout = layout_with(sizes[i]);
        struct sel_prefix *prefix = prefix_of(f.layout, 50, 0, 0);
        struct sel_node *a = add(prefix, 13, NULL), *b = add(prefix, 32, a);
        check_tree();
        assert_ptr_equal(sel_tree_longest(f.tree, prefix, UINT64_MAX, true, NULL, NULL).node, b);
        assert_ptr_equal(sel_tree_longest(f.tree, prefix, 31, true, NULL, NULL).node, a);
        assert_int_equal(sel_tree_longest(f.tree, prefix, 31, false, NULL, NULL).tokens, 31 / sizes[i] * sizes[i]);
        sel_prefix_destroy(&prefix);
    }
}

static void visit_one(void *context, struct sel_node *node) {
    uint32_t *visited = context;

    assert_true(node->parent == NULL || (node->parent->flags & 1));
    node->flags |= 1;
    ++*visited;
}

static void visits_parents_first(void **state) {
    (void)state;
    struct sel_prefix *prefix = prefix_of(f.layout, 5 * P, 0, 0), *other = prefix_of(f.layout, P, 2 * P, 1);
    struct sel_node *a = add(prefix, P, NULL), *b = add(prefix, 2 * P, a);
    uint32_t visited = 0;

    add(prefix, 4 * P, b);
    add(other, 3 * P, a);
    add(other, 2 * P, NULL);
    sel_tree_visit(f.tree, visit_one, &visited);
    assert_int_equal(visited, 5);
    sel_prefix_destroy(&prefix);
    sel_prefix_destroy(&other);
}

/* Goal P10: at most 200 bytes a record beside its page keys, in one tier; at 100,000 records, of one page or mid-page.
 * Sizes only, so this cannot flake. */
static void memory_a_record(void **state) {
    (void)state;
    enum { COUNT = 100000 };

    for (uint32_t tokens = P - 1; tokens <= P; tokens++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            struct sel_prefix *prefix = prefix_of(f.layout, 0, tokens, i + 1);
            add(prefix, tokens, NULL);
            sel_prefix_destroy(&prefix);
        }
        uint64_t bytes = sel_tree_bytes(f.tree) - sel_tree_page_key_bytes(f.tree);
        print_message("%s records: %.1f bytes a record beside page keys\n", tokens == P ? "one-page" : "mid-page",
                      (double)bytes / COUNT);
        assert_true(bytes <= 200 * (uint64_t)COUNT);
        sel_tree_destroy(&f.tree);
        assert_ok(sel_tree_create(&f.tree, 5));
    }
}

/* [T1]: the one that a tier has is found without a search among those that other tiers have. */
static void last_added_is_first_child(void **state) {
    struct sel_prefix *root_prefix = prefix_of(f.layout, P, 0, 0);
    struct sel_node *root = add(root_prefix, P, NULL), *children[5];
    (void)state;
    for (uint32_t i = 0; i < SEL_COUNT(children); i++) {
        struct sel_prefix *prefix = prefix_of(f.layout, P, P, i + 1);
        children[i] = add(prefix, 2 * P, root);
        sel_prefix_destroy(&prefix);
        assert_ptr_equal(root->child, children[i]);
    }
    static const uint32_t order[] = {0, 2, 4, 3};
    for (uint32_t i = 0; i < SEL_COUNT(order); i++) {
        assert_ok(sel_tree_add_to(f.tree, children[order[i]], SEL_TIER_MEMORY, false));
        assert_ptr_equal(root->child, children[order[i]]);
        check_tree();
    }
    sel_prefix_destroy(&root_prefix);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(bad_specs_are_refused),
        TEST(a_lie_about_the_page_size_matches_nothing),
        TEST(too_many_tokens_are_refused),
        TEST(many_records_share_pages),
        TEST(keys_among_many_of_one_length),
        TEST(a_root_with_many_children),
        TEST(tails_outlive_the_first_carrier),
        TEST(k0_lives_while_needed),
        TEST(release_goes_up),
        TEST(page_hashes_match_at_boundaries),
        TEST(extreme_page_sizes),
        TEST(visits_parents_first),
        TEST(last_added_is_first_child),
        TEST(memory_a_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
