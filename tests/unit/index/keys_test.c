/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefix keys [L2, L3]: golden vectors computed independently (Python's hashlib over the definitions in keys.h), and
 * the incremental ways of getting to a prefix against the direct one.
 */
#include "base/check.h"
#include "base/random.h"
#include "index/keys.h"
#include "tests/unit/index/hex.h"

static const struct selene_plane planes[] = {{4096, 1, 1024}, {130, 2, 65}, {77, 0, 0}};
static const struct selene_layout desc = {.page_tokens = 4,
                                          .rank_count = 2,
                                          .plane_count = 3,
                                          .planes = planes,
                                          .row_bytes = 10000,
                                          .description = "model x\0bf16",
                                          .description_bytes = 12};
static const uint32_t tokens[] = {1, 2, 3, 0xfffffffe, 5, 6, 7, 8, 9, 10};
static struct sel_layout *layout;

static int make_layout(void **state) {
    (void)state;
    return sel_layout_create(&layout, &desc, NULL);
}

static int free_layout(void **state) {
    (void)state;
    sel_layout_destroy(&layout);
    return 0;
}

static struct sel_prefix *prefix_of(size_t count) {
    struct sel_prefix *prefix;

    assert_ok(sel_prefix_create(&prefix, layout, NULL, 0));
    assert_ok(sel_prefix_append(prefix, tokens, count));
    return prefix;
}

static void assert_key_at(const struct sel_prefix *prefix, uint64_t count, const char *expected) {
    struct sel_key key;

    assert_ok(sel_prefix_key_at(prefix, count, &key));
    assert_hex(&key, expected);
}

/* Fault 8. */
static void keys_are_golden(void **state) {
    (void)state;
    struct sel_prefix *prefix = prefix_of(10);

    assert_hex(sel_prefix_page_key(prefix, 0), "3720703c4193d9dd0ff3d0f15627b172d18b6c93161bfc5ebfb90b4ad070589b");
    assert_hex(sel_prefix_page_key(prefix, 1), "128224aff8561797d1e1d0d6337d045c03104fa316b96e4e57676f1cf55b9f4c");
    assert_hex(sel_prefix_page_key(prefix, 2), "6959df0a8d2d1ce8ee6bf278eab7f8db99d783ef35eb628065e5d4f847785a51");
    assert_key_at(prefix, 10, "5ae6446ef487a7808d03f743d663ba31f0731793d549c82d9774240803fa280e");
    assert_key_at(prefix, 9, "2ce7c9dd924d4ea1b281a947b8e7705c005aa5977ce90a552cd21e9e9b01818c");
    assert_key_at(prefix, 8, "6959df0a8d2d1ce8ee6bf278eab7f8db99d783ef35eb628065e5d4f847785a51");
    assert_key_at(prefix, 3, "42e6cd709d0ee3c426452295a48402912961d558d76b65f4ea20783411a1dd4b");
    assert_memory_equal(sel_prefix_namespace(prefix), layout->ns, 32);
    assert_int_equal(sel_prefix_tokens(prefix), 10);
    sel_prefix_destroy(&prefix);
    assert_null(prefix);
}

static void salt_isolates(void **state) {
    (void)state;
    struct sel_prefix *prefix;

    assert_ok(sel_prefix_create(&prefix, layout, "tenant 7", 8));
    assert_key_at(prefix, 0, "2a1c47cd3c991d0424ba506b24b209921b904ae946a536d422fc8a0afb1d70a1");
    sel_prefix_destroy(&prefix);
    assert_int_equal(sel_prefix_create(&prefix, layout, NULL, 1), SELENE_E_INVALID);
    assert_null(prefix);
}

static void extra_enters_at_its_page(void **state) {
    (void)state;
    struct sel_prefix *prefix;

    assert_ok(sel_prefix_create(&prefix, layout, NULL, 0));
    assert_ok(sel_prefix_set_extra(prefix, 2, "img", 3)); /* ahead, and out of order */
    assert_ok(sel_prefix_append(prefix, tokens, 5));
    assert_ok(sel_prefix_set_extra(prefix, 1, "lora:42", 7));
    assert_ok(sel_prefix_append(prefix, tokens + 5, 5));
    assert_key_at(prefix, 4, "128224aff8561797d1e1d0d6337d045c03104fa316b96e4e57676f1cf55b9f4c");
    assert_key_at(prefix, 8, "da9099deb7668d576e3e3955b8615869635ebcc281f0432870cb8b6b0893f3cd");
    assert_key_at(prefix, 10, "b56f211c57edd8cd1cf6528aa747516968715dfe5b354f97d1287c2b368d456d");
    assert_int_equal(sel_prefix_set_extra(prefix, 0, "late", 4), SELENE_E_INVALID);
    assert_int_equal(sel_prefix_set_extra(prefix, 2, "twice", 5), SELENE_E_INVALID);
    assert_int_equal(sel_prefix_set_extra(prefix, 3, NULL, 5), SELENE_E_INVALID);
    assert_int_equal(sel_prefix_set_extra(prefix, 3, "", 0), SELENE_E_INVALID);
    assert_int_equal(sel_prefix_set_extra(prefix, UINT32_MAX, "far", 3), SELENE_E_INVALID);
    char *large = calloc(1, SEL_EXTRA_BYTES_MAX + 1);
    assert_int_equal(sel_prefix_set_extra(prefix, 3, large, SEL_EXTRA_BYTES_MAX + 1), SELENE_E_INVALID);
    assert_ok(sel_prefix_set_extra(prefix, 3, large, SEL_EXTRA_BYTES_MAX));
    free(large);
    sel_prefix_destroy(&prefix);
}

/* Cutting drops the extra material of pages without a token left, and only that. */
static void truncate_drops_extra(void **state) {
    (void)state;
    struct sel_prefix *prefix;

    assert_ok(sel_prefix_create(&prefix, layout, NULL, 0));
    assert_ok(sel_prefix_set_extra(prefix, 1, "lora:42", 7));
    assert_ok(sel_prefix_set_extra(prefix, 2, "img", 3));
    assert_ok(sel_prefix_append(prefix, tokens, 10));
    assert_ok(sel_prefix_truncate(prefix, 8));
    assert_ok(sel_prefix_append(prefix, tokens + 8, 2));
    assert_ok(sel_prefix_truncate(prefix, 5));
    assert_ok(sel_prefix_append(prefix, tokens + 5, 3));
    assert_key_at(prefix, 8, "da9099deb7668d576e3e3955b8615869635ebcc281f0432870cb8b6b0893f3cd");
    assert_ok(sel_prefix_truncate(prefix, 4));
    assert_ok(sel_prefix_append(prefix, tokens + 4, 6));
    assert_key_at(prefix, 10, "5ae6446ef487a7808d03f743d663ba31f0731793d549c82d9774240803fa280e");
    sel_prefix_destroy(&prefix);
}

static void page_hashes_are_golden(void **state) {
    (void)state;
    struct sel_prefix *prefix;
    struct sel_key key;
    uint8_t hashes[2][32];

    for (int i = 0; i < 64; i++)
        hashes[i / 32][i % 32] = (uint8_t)i;
    assert_ok(sel_prefix_create(&prefix, layout, NULL, 0));
    assert_ok(sel_prefix_append_hashes(prefix, hashes, 2));
    assert_int_equal(sel_prefix_tokens(prefix), 8);
    assert_key_at(prefix, 4, "665ad7da7150699ec2a2492ca8cfe8f449f5742df80336dc648ddd68ff6db788");
    assert_key_at(prefix, 8, "37b045491a86f6a724a3dae581bb752b6a52c216b0d1fec7733c5b95b4f8fa42");
    assert_int_equal(sel_prefix_key_at(prefix, 5, &key), SELENE_E_INVALID);
    assert_int_equal(sel_prefix_append(prefix, tokens, 1), SELENE_E_INVALID);
    assert_int_equal(sel_prefix_set_extra(prefix, 2, "x", 1), SELENE_E_INVALID);
    assert_int_equal(sel_prefix_truncate(prefix, 6), SELENE_E_INVALID);
    assert_ok(sel_prefix_truncate(prefix, 4));
    assert_int_equal(sel_prefix_tokens(prefix), 4);
    assert_int_equal(sel_prefix_append_hashes(prefix, hashes, SEL_PREFIX_TOKENS_MAX / 4), SELENE_E_OVERFLOW);
    assert_int_equal(sel_prefix_append_hashes(prefix, hashes, SIZE_MAX), SELENE_E_OVERFLOW);
    sel_prefix_destroy(&prefix);

    prefix = prefix_of(4);
    assert_int_equal(sel_prefix_append_hashes(prefix, hashes, 1), SELENE_E_INVALID);
    sel_prefix_destroy(&prefix);
}

static void bounds(void **state) {
    (void)state;
    struct sel_prefix *prefix = prefix_of(10);
    struct sel_key key;

    assert_int_equal(sel_prefix_append(prefix, tokens, SEL_PREFIX_TOKENS_MAX - 9), SELENE_E_OVERFLOW);
    assert_int_equal(sel_prefix_append(prefix, tokens, SIZE_MAX), SELENE_E_OVERFLOW);
    assert_int_equal(sel_prefix_append(prefix, NULL, 1), SELENE_E_INVALID);
    assert_ok(sel_prefix_append(prefix, NULL, 0));
    assert_int_equal(sel_prefix_key_at(prefix, 11, &key), SELENE_E_INVALID);
    assert_int_equal(sel_prefix_key_at(prefix, UINT64_MAX, &key), SELENE_E_INVALID);
    assert_null(sel_prefix_page_key(prefix, 3));
    assert_int_equal(sel_prefix_truncate(prefix, 11), SELENE_E_INVALID);
    assert_int_equal(sel_prefix_tokens(prefix), 10);
    sel_prefix_destroy(&prefix);
}

static void assert_same(const struct sel_prefix *a, const struct sel_prefix *b) {
    assert_int_equal(sel_prefix_tokens(a), sel_prefix_tokens(b));
    for (uint64_t at = 0; at <= sel_prefix_tokens(a); at++) {
        struct sel_key x, y;
        assert_ok(sel_prefix_key_at(a, at, &x));
        assert_ok(sel_prefix_key_at(b, at, &y));
        assert_true(sel_key_equal(&x, &y));
    }
}

/* [L3] Any mix of appends and cuts gives the keys of the sequence that is left. */
static void incremental_equals_from_scratch(void **state) {
    (void)state;
    struct sel_random random;

    sel_random_seed(&random, 3);
    for (int round = 0; round < 200; round++) {
        uint32_t sequence[64];
        size_t count = 0;
        struct sel_prefix *grown, *direct;

        assert_ok(sel_prefix_create(&grown, layout, "s", 1));
        for (int step = 0; step < 12; step++) {
            size_t more = sel_random_below(&random, 64 - count + 1);
            for (size_t i = 0; i < more; i++)
                sequence[count + i] = (uint32_t)sel_random_u64(&random);
            assert_ok(sel_prefix_append(grown, sequence + count, more));
            count += more;
            count = sel_random_below(&random, count + 1);
            assert_ok(sel_prefix_truncate(grown, count));
        }
        assert_ok(sel_prefix_create(&direct, layout, "s", 1));
        assert_ok(sel_prefix_append(direct, sequence, count));
        assert_same(grown, direct);
        sel_prefix_destroy(&grown);
        sel_prefix_destroy(&direct);
    }
}

/* Every token and every position counts, at each length. */
static void every_token_counts(void **state) {
    (void)state;
    struct sel_prefix *original = prefix_of(10);

    for (size_t changed = 0; changed < 10; changed++) {
        uint32_t other[10];
        struct sel_prefix *prefix;
        memcpy(other, tokens, sizeof other);
        other[changed] ^= 0x01000000;
        assert_ok(sel_prefix_create(&prefix, layout, NULL, 0));
        assert_ok(sel_prefix_append(prefix, other, 10));
        for (uint64_t at = 0; at <= 10; at++) {
            struct sel_key x, y;
            assert_ok(sel_prefix_key_at(original, at, &x));
            assert_ok(sel_prefix_key_at(prefix, at, &y));
            assert_int_equal(sel_key_equal(&x, &y), at <= changed);
        }
        sel_prefix_destroy(&prefix);
    }
    sel_prefix_destroy(&original);
}

static void sha256_of_known_text(void **state) {
    (void)state;
    uint8_t hash[32];

    assert_ok(sel_sha256(hash, "abc", 3)); /* FIPS 180-2 */
    assert_hex(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_ok(sel_sha256(hash, NULL, 0));
    assert_hex(hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_int_equal(sel_sha256(hash, NULL, 1), SELENE_E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_golden),
        cmocka_unit_test(salt_isolates),
        cmocka_unit_test(extra_enters_at_its_page),
        cmocka_unit_test(truncate_drops_extra),
        cmocka_unit_test(page_hashes_are_golden),
        cmocka_unit_test(bounds),
        cmocka_unit_test(incremental_equals_from_scratch),
        cmocka_unit_test(every_token_counts),
        cmocka_unit_test(sha256_of_known_text),
    };
    return cmocka_run_group_tests(tests, make_layout, free_layout);
}
