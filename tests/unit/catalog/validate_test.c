/* SPDX-License-Identifier: Apache-2.0
 *
 * The validator's checks one by one [D8]: a sound file, one field changed, and the reason that it must give. The file
 * has branch pages, a free list inside leaf nodes and one in overflow pages.
 */
#include "index/catalog_page.h"
#include "index/catalog_validate.h"
#include "tests/lib/test.h"
#include "tests/unit/catalog/damage.h"
#include "tests/unit/catalog/workload.h"

#include "base/check.h"

#include <stdbool.h>
#include <unistd.h>

#define PAGE 4096

/* Where the parts of the file lie, as offsets into it. */
struct fixture {
    char *directory, *path;
    struct image sound, image;
    size_t meta, branch, leaf, free_leaf, overflow;
};

static uint64_t u64_at(const struct fixture *fixture, size_t at) { return sel_native_u64(fixture->sound.bytes + at); }
static uint16_t u16_at(const struct fixture *fixture, size_t at) { return sel_native_u16(fixture->sound.bytes + at); }
static size_t node(const struct fixture *fixture, size_t page, unsigned index) {
    return page + u16_at(fixture, page + 16 + 2 * index);
}

static void locate(struct fixture *fixture) {
    fixture->meta = u64_at(fixture, 144) < u64_at(fixture, PAGE + 144) ? PAGE : 0;
    fixture->branch = (size_t)u64_at(fixture, fixture->meta + 88 + 40) * PAGE;
    assert_int_equal(u16_at(fixture, fixture->branch + 10), SEL_LMDB_BRANCH);
    fixture->leaf = sel_native_u32(fixture->sound.bytes + node(fixture, fixture->branch, 1)) * (size_t)PAGE;
    assert_int_equal(u16_at(fixture, fixture->leaf + 10), SEL_LMDB_LEAF);
    fixture->free_leaf = (size_t)u64_at(fixture, fixture->meta + 40 + 40) * PAGE;
    assert_int_equal(u16_at(fixture, fixture->free_leaf + 10), SEL_LMDB_LEAF);
    for (size_t page = 2 * PAGE; page < fixture->sound.count; page += PAGE)
        if (u16_at(fixture, page + 10) == SEL_LMDB_OVERFLOW && u64_at(fixture, page) == page / PAGE)
            fixture->overflow = page;
    assert_true(fixture->overflow > 0);
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct sel_catalog *catalog = NULL;
    struct workload load;
    bool rebuild;
    assert_non_null(fixture);
    fixture->directory = test_directory_make("validate");
    assert_true(asprintf(&fixture->path, "%s/index.v1.lmdb", fixture->directory) > 0);
    workload_init(&load, 3);
    assert_ok(sel_catalog_lmdb_open(&catalog, fixture->directory, UINT64_C(64) << 20, NULL, &rebuild, NULL));
    for (uint64_t key = 1; key <= 6000; key++)
        workload_put(&load, SEL_CATALOG_RECORDS, key, 0, key);
    assert_ok(workload_commit(&load, catalog, NULL));
    workload_clear(&load);
    for (uint64_t key = 1; key <= 6000; key++)
        workload_delete(&load, SEL_CATALOG_RECORDS, key);
    assert_ok(workload_commit(&load, catalog, NULL));
    workload_clear(&load);
    for (uint64_t key = 6001; key <= 6200; key++)
        workload_put(&load, SEL_CATALOG_RECORDS, key, 0, key);
    assert_ok(workload_commit(&load, catalog, NULL));
    catalog->ops->close(catalog);
    workload_destroy(&load);
    image_read(&fixture->sound, fixture->path);
    locate(fixture);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    image_free(&fixture->sound);
    image_free(&fixture->image);
    test_directory_remove(&fixture->directory);
    free(fixture->path);
    free(fixture);
    return 0;
}

/* Writes the image and expects the validator's answer. */
static void expect(struct fixture *fixture, const char *what, int code, const char *reason) {
    struct selene_message message = {""};
    image_write(&fixture->image, fixture->path);
    int rc = sel_catalog_validate(fixture->path, &message);
    if (rc != code || !strstr(message.text, reason))
        fail_msg("%s: %d \"%s\", expected %d \"%s\"", what, rc, message.text, code, reason);
}

static void expect_patch(struct fixture *fixture, const char *what, size_t at, size_t bytes, uint64_t value,
                         const char *reason) {
    image_copy(&fixture->image, &fixture->sound);
    assert_true(memcmp(fixture->image.bytes + at, &value, bytes) != 0);
    memcpy(fixture->image.bytes + at, &value, bytes);
    expect(fixture, what, SELENE_E_CORRUPT, reason);
}

static void the_sound_file_passes(void **state) {
    struct fixture *fixture = *state;
    image_copy(&fixture->image, &fixture->sound);
    expect(fixture, "sound", 0, "");
}

static void meta_pages(void **state) {
    struct fixture *fixture = *state;
    size_t meta = fixture->meta, other = PAGE - meta;
    uint64_t transaction = u64_at(fixture, meta + 144), pages = u64_at(fixture, meta + 136) + 1;
    expect_patch(fixture, "number", 0, 8, 5, "no meta page");
    expect_patch(fixture, "flags", PAGE + 10, 2, SEL_LMDB_LEAF, "no meta page");
    expect_patch(fixture, "magic of the older", other + 16, 4, 1, "magic");
    expect_patch(fixture, "version", meta + 20, 4, 2, "version 2");
    expect_patch(fixture, "page size", 40, 4, 1000, "page size 1000");
    expect_patch(fixture, "huge page size", 40, 4, 65536, "page size 65536");
    expect_patch(fixture, "two page sizes", PAGE + 40, 4, 8192, "page size");
    expect_patch(fixture, "older is newer", other + 144, 8, transaction + 2, "transaction");
    expect_patch(fixture, "last transaction", meta + 144, 8, UINT64_MAX - (transaction & 1 ? 0 : 1), "transaction");
    expect_patch(fixture, "no page", meta + 136, 8, 0, "last page");
    expect_patch(fixture, "endless pages", meta + 136, 8, UINT64_MAX, "last page");
    expect_patch(fixture, "pages that are not there", meta + 136, 8, pages + 1, "past its end");
    expect_patch(fixture, "too few pages", meta + 136, 8, pages / 2, "the last is");
    expect_patch(fixture, "small map", meta + 32, 8, (pages - 1) * PAGE, "map of");
    expect_patch(fixture, "fixed map flag", meta + 44, 2, SEL_LMDB_FREE_FLAGS | 1, "flags");
    expect_patch(fixture, "duplicates flag", meta + 92, 2, 4, "flags");
    expect_patch(fixture, "pad", meta + 88, 4, 8, "pad 8");
    expect_patch(fixture, "depth 0", meta + 94, 2, 0, "depth");
    expect_patch(fixture, "depth 1", meta + 94, 2, 1, "expected flags");
    expect_patch(fixture, "deeper", meta + 94, 2, 3, "expected flags");
    expect_patch(fixture, "far too deep", meta + 94, 2, 25, "depth");
    expect_patch(fixture, "no root", meta + 128, 8, UINT64_MAX, "depth");
    expect_patch(fixture, "root is a meta page", meta + 128, 8, 1, "refers to page 1");
    expect_patch(fixture, "root past the end", meta + 128, 8, pages, "refers to page");
    for (size_t at = 8; at <= 32; at += 8) {
        expect_patch(fixture, "count", meta + 88 + at, 8, 77777, "expected");
        expect_patch(fixture, "free list's count", meta + 40 + at, 8, 77777, "expected");
    }
}

static void tree_pages(void **state) {
    struct fixture *fixture = *state;
    size_t leaf = fixture->leaf, branch = fixture->branch, first = node(fixture, leaf, 0);
    uint16_t lower = u16_at(fixture, leaf + 12), upper = u16_at(fixture, leaf + 14);
    uint64_t first_child = sel_native_u32(fixture->sound.bytes + node(fixture, branch, 0));
    expect_patch(fixture, "number", leaf, 8, leaf / PAGE + 1, "number");
    expect_patch(fixture, "dirty", leaf + 10, 2, SEL_LMDB_LEAF | 0x10, "expected flags");
    expect_patch(fixture, "branch for leaf", leaf + 10, 2, SEL_LMDB_BRANCH, "expected flags");
    expect_patch(fixture, "no node", leaf + 12, 2, 16, "bounds");
    expect_patch(fixture, "odd lower", leaf + 12, 2, lower + 1u, "bounds");
    expect_patch(fixture, "lower above upper", leaf + 12, 2, upper + 2u, "bounds");
    expect_patch(fixture, "upper past the page", leaf + 14, 2, PAGE + 2, "bounds");
    expect_patch(fixture, "gap before the nodes", leaf + 14, 2, upper - 2u, "gaps");
    expect_patch(fixture, "one node less", leaf + 12, 2, lower - 2u, "gaps");
    expect_patch(fixture, "node below upper", leaf + 16, 2, upper - 2u, "node 0");
    expect_patch(fixture, "node past the page", leaf + 16, 2, PAGE - 2, "node 0");
    expect_patch(fixture, "odd node", leaf + 16, 2, u16_at(fixture, leaf + 16) + 1u, "node 0");
    expect_patch(fixture, "two in one place", leaf + 16, 2, u16_at(fixture, leaf + 18), "node 1");
    expect_patch(fixture, "value size", first, 4, 255, "node 0");
    expect_patch(fixture, "node flags", first + 4, 2, 2, "node 0");
    expect_patch(fixture, "key size", first + 6, 2, 14, "node 0");
    expect_patch(fixture, "table", first + 8, 1, 3, "no table");
    expect_patch(fixture, "below the branch key", first + 9, 8, 0, "out of order");
    expect_patch(fixture, "above the next", node(fixture, leaf, 3) + 9, 8, UINT64_MAX, "out of order");
    expect_patch(fixture, "child used twice", node(fixture, branch, 1), 4, first_child, "used twice");
    expect_patch(fixture, "child of 48 bits", node(fixture, branch, 1) + 4, 2, 1, "refers to page");
    expect_patch(fixture, "branch key size", node(fixture, branch, 1) + 6, 2, 0, "node 1");
    expect_patch(fixture, "branch key too high", node(fixture, branch, 1) + 9, 8, UINT64_MAX, "out of order");
    expect_patch(fixture, "branch with one child", branch + 12, 2, 18, "bounds");
}

static void free_lists(void **state) {
    struct fixture *fixture = *state;
    size_t big = node(fixture, fixture->free_leaf, 0), list = fixture->overflow + 16;
    for (unsigned i = 1; u16_at(fixture, big + 4) != SEL_LMDB_NODE_BIG; i++)
        big = node(fixture, fixture->free_leaf, i);
    assert_int_equal(u64_at(fixture, big + 16) * PAGE, fixture->overflow);
    uint64_t count = u64_at(fixture, list), transaction = u64_at(fixture, fixture->meta + 144);
    assert_true(count > 300);
    expect_patch(fixture, "transaction 0", big + 8, 8, 0, "transaction");
    expect_patch(fixture, "transaction to come", big + 8, 8, transaction + 1, "transaction");
    expect_patch(fixture, "record without a count", big, 4, 0, "node");
    expect_patch(fixture, "record of odd size", big, 4, 4001, "node");
    expect_patch(fixture, "record larger than its pages", big, 4, 1u << 20, "overflow page");
    expect_patch(fixture, "inline record too large", big + 4, 2, 0, "node");
    expect_patch(fixture, "overflow page is a leaf", big + 16, 8, fixture->leaf / PAGE, "overflow page");
    expect_patch(fixture, "overflow number", fixture->overflow, 8, 2, "overflow page");
    expect_patch(fixture, "no overflow pages", fixture->overflow + 12, 4, 0, "overflow page");
    expect_patch(fixture, "endless overflow pages", fixture->overflow + 12, 4, UINT32_MAX, "overflow page");
    expect_patch(fixture, "more pages than the record has", list, 8, sel_native_u32(fixture->sound.bytes + big) / 8,
                 "free list");
    expect_patch(fixture, "not descending", list + 8 * 10, 8, u64_at(fixture, list + 8 * 9), "after");
    expect_patch(fixture, "free and in use", list + 8 * count, 8, fixture->leaf / PAGE, "");
    expect_patch(fixture, "free meta page", list + 8 * count, 8, 1, "refers to page 1");
    expect_patch(fixture, "free past the last", list + 8, 8, u64_at(fixture, fixture->meta + 136) + 1,
                 "refers to page");
}

static void lengths(void **state) {
    struct fixture *fixture = *state;
    image_copy(&fixture->image, &fixture->sound);
    fixture->image.count = 0;
    expect(fixture, "empty", SELENE_E_NOTFOUND, "empty");
    for (size_t count = 1; count < 2 * PAGE; count += 61) {
        fixture->image.count = count;
        expect(fixture, "short", SELENE_E_CORRUPT, fixture->path);
    }
    fixture->image.count = fixture->leaf + PAGE - 1; /* a page that is used, cut by one byte */
    expect(fixture, "cut", SELENE_E_CORRUPT, "");
    assert_ok(unlink(fixture->path));
    assert_int_equal(sel_catalog_validate(fixture->path, NULL), SELENE_E_NOTFOUND);
    assert_int_equal(sel_catalog_validate(fixture->directory, NULL), SELENE_E_CORRUPT);
}

/* A file of holes pretends to a size for which nobody has the memory: damage, not a lack of memory. */
static void endless_holes(void **state) {
    struct fixture *fixture = *state;
    struct selene_message message = {""};
    uint64_t last_page = (UINT64_C(1) << 40) - 1, map_bytes = UINT64_C(1) << 60;
    image_copy(&fixture->image, &fixture->sound);
    memcpy(fixture->image.bytes + fixture->meta + 136, &last_page, 8);
    memcpy(fixture->image.bytes + fixture->meta + 32, &map_bytes, 8);
    image_write(&fixture->image, fixture->path);
    if (truncate(fixture->path, (off_t)15 << 40) != 0)
        skip(); /* a file system of small files */
    assert_int_equal(sel_catalog_validate(fixture->path, &message), SELENE_E_CORRUPT);
    assert_non_null(strstr(message.text, "last page"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_sound_file_passes),
                                       cmocka_unit_test(meta_pages),
                                       cmocka_unit_test(tree_pages),
                                       cmocka_unit_test(free_lists),
                                       cmocka_unit_test(endless_holes),
                                       cmocka_unit_test(lengths)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
