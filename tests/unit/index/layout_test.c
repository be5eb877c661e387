/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts [L1, L4]: every bound with its message, derived sizes, and the namespace with golden vectors that were
 * computed independently (Python's hashlib over the encoding in layout.h).
 */
#include "base/check.h"
#include "index/layout.h"
#include "tests/unit/index/hex.h"

static const struct selene_plane planes_a[] = {{4096, 1, 1024}, {130, 2, 65}, {77, 0, 0}};
static const struct selene_plane planes_b[] = {{1, 0, 0}};
static const char description_a[] = "model x\0bf16";

static struct selene_layout layout_a(void) {
    return (struct selene_layout){.page_tokens = 4,
                                  .rank_count = 2,
                                  .plane_count = 3,
                                  .planes = planes_a,
                                  .row_bytes = 10000,
                                  .description = description_a,
                                  .description_bytes = sizeof description_a - 1};
}

static struct selene_layout layout_b(void) {
    return (struct selene_layout){.page_tokens = 1, .rank_count = 1, .plane_count = 1, .planes = planes_b};
}

/* Fault 8: the same names in every process and for ever. */
static void namespaces_are_golden(void **state) {
    (void)state;
    struct selene_layout a = layout_a(), b = layout_b();
    struct sel_layout *layout;

    assert_ok(sel_layout_create(&layout, &a, NULL));
    assert_hex(layout->ns, "031dcc6edc6b0777a9eeeae1325c4b9623f07c77c1ac0371ef92b54bde5c2524");
    sel_layout_destroy(&layout);
    assert_null(layout);
    assert_ok(sel_layout_create(&layout, &b, NULL));
    assert_hex(layout->ns, "9ffab1be0516ccf4d2e4b1f13188bf7612aa53c3c69800243aa6bdb484168cb8");
    sel_layout_destroy(&layout);
}

static void sizes_are_derived(void **state) {
    (void)state;
    struct selene_layout a = layout_a();
    struct sel_layout *layout;

    assert_ok(sel_layout_create(&layout, &a, NULL));
    assert_ptr_not_equal(layout->desc.planes, planes_a);
    assert_memory_equal(layout->desc.description, description_a, sizeof description_a - 1);
    assert_int_equal(layout->plane_offset[0], 0);
    assert_int_equal(layout->plane_offset[1], 4096);
    assert_int_equal(layout->plane_offset[2], 4288);
    assert_int_equal(layout->share_bytes, 8192);
    assert_int_equal(layout->slot_bytes, 16384);
    assert_int_equal(layout->page_bytes, 4303);
    assert_int_equal(layout->row_slots, 2);
    assert_int_equal(layout->page_blocks, 3);
    assert_int_equal(layout->row_blocks, 3);
    assert_int_equal(sel_layout_first_page(layout, 7), 1);
    assert_int_equal(sel_layout_end_page(layout, 8), 2);
    assert_int_equal(sel_layout_end_page(layout, 9), 3);
    sel_layout_destroy(&layout);
}

static void valid_bytes_follow_the_entries(void **state) {
    (void)state;
    struct selene_layout a = layout_a();
    static const uint64_t expected[5][3] = {{0, 0, 77}, {1024, 0, 77}, {2048, 65, 77}, {3072, 65, 77}, {4096, 130, 77}};
    struct sel_layout *layout;

    assert_ok(sel_layout_create(&layout, &a, NULL));
    for (uint32_t tokens = 0; tokens <= 4; tokens++)
        for (uint32_t plane = 0; plane < 3; plane++)
            assert_int_equal(sel_layout_valid_bytes(layout, plane, tokens), expected[tokens][plane]);
    sel_layout_destroy(&layout);
}

/* A plane with padding behind its entries is whole when its page is. */
static void full_page_takes_the_padding(void **state) {
    (void)state;
    static const struct selene_plane plane = {100, 2, 30};
    struct selene_layout desc = {.page_tokens = 4, .rank_count = 1, .plane_count = 1, .planes = &plane};
    struct sel_layout *layout;

    assert_ok(sel_layout_create(&layout, &desc, NULL));
    assert_int_equal(sel_layout_valid_bytes(layout, 0, 3), 30);
    assert_int_equal(sel_layout_valid_bytes(layout, 0, 4), 100);
    sel_layout_destroy(&layout);
}

static void largest_layout_fits(void **state) {
    (void)state;
    struct selene_plane *planes = calloc(SELENE_PLANES_MAX, sizeof *planes);
    struct selene_layout desc = {.page_tokens = SELENE_PAGE_TOKENS_MAX,
                                 .rank_count = SELENE_RANKS_MAX,
                                 .plane_count = SELENE_PLANES_MAX,
                                 .planes = planes,
                                 .row_bytes = SELENE_ROW_BYTES_MAX};
    struct sel_layout *layout;

    for (uint32_t i = 0; i < SELENE_PLANES_MAX; i++)
        planes[i].bytes = SELENE_SHARE_BYTES_MAX / SELENE_PLANES_MAX - (i % 2 ? 1 : 0);
    assert_ok(sel_layout_create(&layout, &desc, NULL));
    assert_int_equal(layout->share_bytes, SELENE_SHARE_BYTES_MAX);
    assert_int_equal(layout->slot_bytes, SELENE_SHARE_BYTES_MAX * SELENE_RANKS_MAX);
    assert_int_equal(layout->row_slots, 8);
    sel_layout_destroy(&layout);
    free(planes);
}

/* Each case changes one field of layout A; the message names the field, its value and the limit [L1]. */
static void expect_invalid(const struct selene_layout *desc, const char *text) {
    struct selene_message message = {""};
    struct sel_layout *layout = (void *)1;

    assert_int_equal(sel_layout_create(&layout, desc, &message), SELENE_E_INVALID);
    assert_null(layout);
    assert_string_equal(message.text, text);
    assert_int_equal(sel_layout_create(&layout, desc, NULL), SELENE_E_INVALID);
}

static void bounds_of_fields(void **state) {
    (void)state;
    struct selene_layout d;

    expect_invalid(NULL, "layout: none given");
    d = layout_a();
    d.page_tokens = 0;
    expect_invalid(&d, "layout: page_tokens is 0, allowed are 1 to 65536");
    d = layout_a();
    d.page_tokens = 65537;
    expect_invalid(&d, "layout: page_tokens is 65537, allowed are 1 to 65536");
    d = layout_a();
    d.rank_count = 0;
    expect_invalid(&d, "layout: rank_count is 0, allowed are 1 to 64");
    d = layout_a();
    d.rank_count = 65;
    expect_invalid(&d, "layout: rank_count is 65, allowed are 1 to 64");
    d = layout_a();
    d.plane_count = 0;
    expect_invalid(&d, "layout: plane_count is 0, allowed are 1 to 4096");
    d = layout_a();
    d.plane_count = UINT32_MAX;
    expect_invalid(&d, "layout: plane_count is 4294967295, allowed are 1 to 4096");
    d = layout_a();
    d.planes = NULL;
    expect_invalid(&d, "layout: planes is NULL, expected 3 planes");
    d = layout_a();
    d.row_bytes = SELENE_ROW_BYTES_MAX + 1;
    expect_invalid(&d, "layout: row_bytes is 8589934593, allowed are 0 to 8589934592");
    d = layout_a();
    d.row_bytes = UINT64_MAX;
    expect_invalid(&d, "layout: row_bytes is 18446744073709551615, allowed are 0 to 8589934592");
    d = layout_a();
    d.description_bytes = 65537;
    expect_invalid(&d, "layout: description_bytes is 65537, allowed are 0 to 65536");
    d = layout_a();
    d.description = NULL;
    expect_invalid(&d, "layout: description is NULL, description_bytes is 12");
}

static void expect_invalid_plane(struct selene_plane plane, const char *text) {
    struct selene_plane planes[3] = {planes_a[0], plane, planes_a[2]};
    struct selene_layout desc = layout_a();

    desc.planes = planes;
    expect_invalid(&desc, text);
}

static void bounds_of_planes(void **state) {
    (void)state;
    expect_invalid_plane((struct selene_plane){0, 0, 0}, "layout: planes[1].bytes is 0, allowed are 1 to 1073741824");
    expect_invalid_plane((struct selene_plane){(1ULL << 30) + 1, 0, 0},
                         "layout: planes[1].bytes is 1073741825, allowed are 1 to 1073741824");
    expect_invalid_plane((struct selene_plane){UINT64_MAX, 0, 0},
                         "layout: planes[1].bytes is 18446744073709551615, allowed are 1 to 1073741824");
    expect_invalid_plane((struct selene_plane){130, 0, 1},
                         "layout: planes[1].entry_bytes is 1, must be 0 when entry_tokens is 0");
    expect_invalid_plane((struct selene_plane){130, 3, 1},
                         "layout: planes[1].entry_tokens is 3, must be 0 or a divisor of page_tokens (4)");
    expect_invalid_plane((struct selene_plane){130, 8, 1},
                         "layout: planes[1].entry_tokens is 8, must be 0 or a divisor of page_tokens (4)");
    expect_invalid_plane((struct selene_plane){130, 2, 0},
                         "layout: planes[1].entry_bytes is 0, allowed are 1 to 65 (2 entries in 130 bytes)");
    expect_invalid_plane((struct selene_plane){130, 2, 66},
                         "layout: planes[1].entry_bytes is 66, allowed are 1 to 65 (2 entries in 130 bytes)");
    /* page_tokens / entry_tokens * entry_bytes would wrap in 32 bits */
    expect_invalid_plane((struct selene_plane){130, 1, 0x40000000},
                         "layout: planes[1].entry_bytes is 1073741824, allowed are 1 to 32 (4 entries in 130 bytes)");
    expect_invalid_plane((struct selene_plane){1ULL << 30, 0, 0},
                         "layout: sum of planes[].bytes is 1073745997, allowed are 1 to 1073741824");
}

static void namespace_of(const struct selene_layout *desc, uint8_t ns[32]) {
    struct sel_layout *layout;

    assert_ok(sel_layout_create(&layout, desc, NULL));
    memcpy(ns, layout->ns, 32);
    sel_layout_destroy(&layout);
}

/* Fault 9: each bit of the description and each field is part of the identity. */
static void every_byte_of_the_description_counts(void **state) {
    (void)state;
    struct selene_layout desc = layout_a();
    char changed[sizeof description_a];
    uint8_t original[32], other[32];

    namespace_of(&desc, original);
    desc.description = changed;
    for (size_t i = 0; i < desc.description_bytes; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(changed, description_a, sizeof changed);
            changed[i] = (char)(changed[i] ^ (1 << bit));
            namespace_of(&desc, other);
            assert_memory_not_equal(original, other, 32);
        }
    memcpy(changed, description_a, sizeof changed);
    namespace_of(&desc, other);
    assert_memory_equal(original, other, 32);
    desc.description_bytes--;
    namespace_of(&desc, other);
    assert_memory_not_equal(original, other, 32);
}

static void every_field_counts(void **state) {
    (void)state;
    static const struct selene_plane variants[][3] = {
        {{4097, 1, 1024}, {130, 2, 65}, {77, 0, 0}}, {{4096, 2, 1024}, {130, 2, 65}, {77, 0, 0}},
        {{4096, 1, 1023}, {130, 2, 65}, {77, 0, 0}}, {{130, 2, 65}, {4096, 1, 1024}, {77, 0, 0}},
        {{4096, 1, 1024}, {130, 2, 65}, {78, 0, 0}}, {{4096, 1, 1024}, {130, 2, 65}, {77, 4, 0x4d}}};
    struct selene_layout desc[] = {layout_a(), layout_a(), layout_a(), layout_a(), layout_a(), layout_a(),
                                   layout_a(), layout_a(), layout_a(), layout_a(), layout_a()};
    uint8_t ns[SEL_COUNT(desc)][32];

    desc[1].page_tokens = 8;
    desc[2].rank_count = 1;
    desc[3].row_bytes = 10001;
    desc[4].plane_count = 2;
    for (size_t i = 0; i < SEL_COUNT(variants); i++)
        desc[5 + i].planes = variants[i];
    /* 8 tokens a page need smaller entries */
    static const struct selene_plane wide[3] = {{4096, 1, 512}, {130, 4, 65}, {77, 0, 0}};
    desc[1].planes = wide;
    for (size_t i = 0; i < SEL_COUNT(desc); i++)
        namespace_of(&desc[i], ns[i]);
    for (size_t i = 0; i < SEL_COUNT(desc); i++)
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(ns[i], ns[j], 32);
    /* page_tokens alone, on planes that allow both */
    desc[0].planes = desc[1].planes = wide;
    namespace_of(&desc[0], ns[0]);
    namespace_of(&desc[1], ns[1]);
    assert_memory_not_equal(ns[0], ns[1], 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(namespaces_are_golden),
        cmocka_unit_test(sizes_are_derived),
        cmocka_unit_test(valid_bytes_follow_the_entries),
        cmocka_unit_test(full_page_takes_the_padding),
        cmocka_unit_test(largest_layout_fits),
        cmocka_unit_test(bounds_of_fields),
        cmocka_unit_test(bounds_of_planes),
        cmocka_unit_test(every_byte_of_the_description_counts),
        cmocka_unit_test(every_field_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
