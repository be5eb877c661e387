/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes on disk: golden values, round trips, and the validator against every changed byte [D3].
 */
#include "base/check.h"
#include "base/checksum.h"
#include "base/random.h"
#include "lsm/format.h"
#include "tests/lib/test.h"

static const uint8_t generation[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

#define GOLDEN_PAGES  UINT64_C(0xa91af7124ef2e0ed)
#define GOLDEN_PACKED UINT64_C(0x8b51333d8b6d8881)
#define GOLDEN_ROW    UINT64_C(0xc2e351dc5d91c8f5)
#define GOLDEN_HEAD   UINT64_C(0xe38b766e077b4edc)

#define SHARE     8192
#define HEADER    4096
#define PAGES     3
#define OFFSET    (UINT64_C(5) * 4096)
#define SEGMENT   7
#define SEG_BYTES (UINT64_C(1) << 20)

static const struct sel_plane_run runs[2] = {{.count = 1, .bytes = 5000}, {.count = 3, .bytes = 300}};

static struct sel_extent_place place_here(void) {
    return (struct sel_extent_place){
        .generation = generation, .segment_id = SEGMENT, .offset = OFFSET, .limit_bytes = SEG_BYTES};
}

/* tokens 20 .. 50 of a layout with pages of 16: pages 1, 2, 3; full are 1 and 2. */
static struct sel_extent example(uint8_t kind, bool replicated) {
    uint32_t ranks = replicated ? 1 : 2, pieces = kind ? 2 : PAGES;
    struct sel_extent e = {.segment_id = SEGMENT,
                           .kind = kind,
                           .has_row = true,
                           .replicated = replicated,
                           .offset = OFFSET,
                           .header_bytes = HEADER,
                           .extent_bytes = HEADER + (uint64_t)pieces * ranks * SHARE,
                           .sequence = kind ? 12 : 11,
                           .pages_sequence = 11,
                           .page_tokens = 16,
                           .tokens = 50,
                           .parent_tokens = 20,
                           .rank_count = 2,
                           .first_page = 1,
                           .page_count = PAGES,
                           .share_bytes = SHARE,
                           .row_bytes = 10000,
                           .time_s = 1234567890,
                           .run_count = 2,
                           .page_key_count = 2,
                           .sum_count = kind ? ranks : PAGES * ranks};
    memcpy(e.generation, generation, 16);
    memset(e.ns, 0x11, 32);
    memset(&e.key, 0x22, 32);
    memset(&e.parent_key, 0x33, 32);
    memset(&e.base_key, 0x44, 32);
    return e;
}

static void pack(uint8_t *raw, uint8_t kind, bool replicated) {
    struct sel_extent e = example(kind, replicated);
    struct sel_key keys[2];
    uint64_t sums[PAGES * 2];
    memset(keys, 0x55, sizeof keys);
    for (uint64_t i = 0; i < SEL_COUNT(sums); i++)
        sums[i] = 0x0102030405060708 * (i + 1);
    sel_extent_pack(raw, &e, runs, keys, sums);
}

static int unpack(struct sel_extent *e, const uint8_t *raw) {
    struct sel_extent_place place = place_here();
    return sel_extent_unpack(e, raw, HEADER, &place, NULL);
}

static void test_golden(void **state) {
    (void)state;
    static const uint64_t want[] = {GOLDEN_PAGES, GOLDEN_PACKED, GOLDEN_ROW};
    for (int i = 0; i < 3; i++) {
        uint8_t raw[HEADER];
        pack(raw, i == 2, i == 1);
        assert_memory_equal(raw, "SELEXT\r\n\x02\0\0\0\0\x10\0\0", 16);
        if (sel_hash64(raw, HEADER) != want[i])
            fail_msg("header %d hashes to %#llx", i, (unsigned long long)sel_hash64(raw, HEADER));
    }
    struct sel_segment_head head = {.segment_bytes = SEG_BYTES, .segment_id = SEGMENT, .kind = 1};
    memcpy(head.generation, generation, 16);
    memset(head.store_id, 0x66, 16);
    uint8_t block[SEL_DISK_BLOCK];
    sel_segment_head_pack(block, &head);
    if (sel_hash64(block, sizeof block) != GOLDEN_HEAD)
        fail_msg("head hashes to %#llx", (unsigned long long)sel_hash64(block, sizeof block));
}

static void test_round_trip(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        uint8_t raw[HEADER];
        struct sel_extent want = example(i & 1, i & 2), got;
        pack(raw, i & 1, i & 2);
        assert_ok(unpack(&got, raw));
        assert_int_equal(sel_extent_run(&got, 1).count, 3);
        assert_int_equal(sel_extent_run(&got, 1).bytes, 300);
        uint32_t last = got.sum_count - 1;
        assert_true(sel_extent_sum(&got, last) == 0x0102030405060708 * (last + UINT64_C(1)));
        assert_int_equal(got.page_keys[0], 0x55);
        want.version = SEL_EXTENT_VERSION_2;
        want.runs = got.runs;
        want.page_keys = got.page_keys;
        want.sums = got.sums;
        assert_int_equal(got.replicated, want.replicated);
        assert_int_equal(got.extent_bytes, want.extent_bytes);
        assert_memory_equal(&got.key, &want.key, 32);
        assert_memory_equal(&got.parent_key, &want.parent_key, 32);
        assert_memory_equal(got.ns, want.ns, 32);
        assert_int_equal(got.time_s, want.time_s);
        assert_int_equal(got.sequence, want.sequence);
        assert_int_equal(got.row_bytes, want.row_bytes);
    }
}

/* No changed byte is accepted: not in the header, its arrays or its padding [fault 22]. */
static void test_every_byte(void **state) {
    (void)state;
    uint8_t raw[HEADER], block[SEL_DISK_BLOCK];
    struct sel_extent e;
    struct sel_segment_head head = {.segment_bytes = SEG_BYTES, .segment_id = SEGMENT}, got;
    pack(raw, 0, false);
    sel_segment_head_pack(block, &head);
    for (size_t i = 0; i < HEADER; i++) {
        for (int bit = 0; bit < 8; bit += 7) {
            raw[i] ^= (uint8_t)(1 << bit);
            assert_true(unpack(&e, raw) != 0);
            raw[i] ^= (uint8_t)(1 << bit);
            block[i] ^= (uint8_t)(1 << bit);
            assert_true(sel_segment_head_unpack(&got, block, NULL) != 0);
            block[i] ^= (uint8_t)(1 << bit);
        }
    }
    assert_ok(unpack(&e, raw));
}

/* With a checksum that fits: what is accepted holds together, whatever the bytes; and the place is never another. */
static void test_resealed(void **state) {
    (void)state;
    struct sel_random random;
    sel_random_seed(&random, 3);
    uint64_t accepted = 0, count = test_count("SELENE_TEST_MUTATIONS", 60000);
    for (uint64_t i = 0; i < count; i++) {
        uint8_t raw[HEADER];
        struct sel_extent e;
        pack(raw, i & 1, i & 2);
        for (uint64_t j = sel_random_below(&random, 3); j < 3; j++) {
            size_t at = (size_t)sel_random_below(&random, j ? 420 : 288);
            raw[at] = (uint8_t)sel_random_u64(&random);
        }
        sel_extent_seal(raw, HEADER);
        if (unpack(&e, raw))
            continue;
        accepted++;
        assert_int_equal(e.segment_id, SEGMENT);
        assert_int_equal(e.offset, OFFSET);
        assert_true(e.offset + e.extent_bytes <= SEG_BYTES);
        assert_true(e.header_bytes == HEADER && e.extent_bytes > HEADER);
        assert_true(e.sums + 8 * (size_t)e.sum_count <= raw + HEADER);
        assert_true(sel_record_counts_valid(e.page_tokens, e.tokens, e.parent_tokens, e.page_key_count));
    }
    assert_true(accepted > 0 && accepted < count);
}

static void set_u32(uint8_t *raw, size_t offset, uint32_t value) {
    sel_put_u32(raw + offset, value);
    sel_extent_seal(raw, HEADER);
}

static void test_versions(void **state) {
    (void)state;
    uint8_t raw[HEADER];
    struct sel_extent e;
    pack(raw, 0, false);
    set_u32(raw, 8, 1);
    assert_ok(unpack(&e, raw));
    assert_int_equal(e.version, 1);
    set_u32(raw, 8, 3);
    assert_int_equal(unpack(&e, raw), SELENE_E_VERSION);
    set_u32(raw, 8, 0);
    assert_int_equal(unpack(&e, raw), SELENE_E_CORRUPT);
    pack(raw, 0, true); /* version 1 has no replicated mark */
    set_u32(raw, 8, 1);
    assert_int_equal(unpack(&e, raw), SELENE_E_CORRUPT);
}

static void test_places(void **state) {
    (void)state;
    uint8_t raw[HEADER];
    struct sel_extent e;
    pack(raw, 0, false);
    uint8_t other[16] = {9};
    struct sel_extent_place place = place_here();
    place.generation = other;
    assert_true(sel_extent_unpack(&e, raw, HEADER, &place, NULL) != 0);
    place = place_here();
    place.offset += 4096;
    assert_true(sel_extent_unpack(&e, raw, HEADER, &place, NULL) != 0);
    place = place_here();
    place.segment_id++;
    assert_true(sel_extent_unpack(&e, raw, HEADER, &place, NULL) != 0);
    place = place_here();
    place.limit_bytes = OFFSET + HEADER + PAGES * 2 * SHARE - 4096; /* one block short */
    assert_true(sel_extent_unpack(&e, raw, HEADER, &place, NULL) != 0);
    place.limit_bytes += 4096;
    assert_ok(sel_extent_unpack(&e, raw, HEADER, &place, NULL));
    sel_extent_move(raw, other, 9, 8192);
    place = (struct sel_extent_place){.generation = other, .segment_id = 9, .offset = 8192, .limit_bytes = SEG_BYTES};
    assert_ok(sel_extent_unpack(&e, raw, HEADER, &place, NULL));
}

/* Every byte of every catalogue value. */
static void test_entries(void **state) {
    (void)state;
    uint8_t value[4][SEL_CATALOG_VALUE];
    struct sel_record_entry record =
                                {.has_row = true,
                                 .row_replicated = true,
                                 .row_sequence = 6,
                                 .page_tokens = 16,
                                 .tokens = 50,
                                 .parent_tokens = 20,
                                 .page_key_count = 2,
                                 .location = {.sequence = 5, .pages = 1, .row = 2, .pages_blocks = 3, .row_blocks = 4},
                                 .time_s = 8},
                            record_got;
    struct sel_segment_entry segment = {.id = 5, .segment_bytes = 1 << 20, .indexed_bytes = 8192, .sealed = true},
                             segment_got;
    struct sel_meta_entry meta = {.next_sequence = 9, .next_segment = 3, .clean = true}, meta_got;
    struct sel_key keys[7], keys_got[7];
    memset(keys, 0x77, sizeof keys);
    sel_record_entry_pack(value[0], &record);
    sel_keys_entry_pack(value[1], 5, 2, keys, 4);
    sel_segment_entry_pack(value[2], &segment);
    sel_meta_entry_pack(value[3], &meta);
    assert_ok(sel_record_entry_unpack(&record_got, 5, value[0]));
    assert_int_equal(record_got.location.row_blocks, 4);
    assert_true(record_got.row_replicated && !record_got.pages_replicated);
    assert_true(sel_record_entry_unpack(&record_got, 6, value[0]) != 0); /* under another key */
    assert_ok(sel_keys_entry_unpack(keys_got, 4, 5, 2, value[1]));
    assert_true(sel_keys_entry_unpack(keys_got, 4, 5, 3, value[1]) != 0);
    assert_ok(sel_segment_entry_unpack(&segment_got, 5, value[2]));
    assert_true(sel_segment_entry_unpack(&segment_got, 4, value[2]) != 0);
    assert_ok(sel_meta_entry_unpack(&meta_got, value[3]));
    assert_true(meta_got.clean && meta_got.next_sequence == 9);
    for (size_t i = 0; i < SEL_CATALOG_VALUE; i++) {
        for (int j = 0; j < 4; j++)
            value[j][i] ^= 0x10;
        assert_true(sel_record_entry_unpack(&record_got, 5, value[0]) != 0);
        assert_true(sel_keys_entry_unpack(keys_got, 4, 5, 2, value[1]) != 0);
        assert_true(sel_segment_entry_unpack(&segment_got, 5, value[2]) != 0);
        assert_true(sel_meta_entry_unpack(&meta_got, value[3]) != 0);
        for (int j = 0; j < 4; j++)
            value[j][i] ^= 0x10;
    }
}

static void test_sizes(void **state) {
    (void)state;
    struct sel_extent_size size;
    assert_ok(sel_extent_size(&size, 0, 3, 2, SHARE, 2, 2));
    assert_int_equal(size.shares, 6);
    assert_int_equal(size.header_bytes, 4096);
    assert_int_equal(size.data_bytes, 6 * SHARE);
    assert_int_equal(sel_extent_size(&size, 0, UINT64_MAX, 2, SHARE, 2, 2), SELENE_E_OVERFLOW);
    assert_int_equal(sel_extent_size(&size, 0, UINT64_MAX / 64, 64, SHARE, 2, 2), SELENE_E_OVERFLOW);
    assert_int_equal(sel_extent_size(&size, 0, 1 << 22, 64, 4096, 2, 2), SELENE_E_OVERFLOW); /* header too large */
    assert_int_equal(sel_extent_size(&size, 0, 3, 2, SHARE, 2, UINT64_MAX), SELENE_E_OVERFLOW);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),   cmocka_unit_test(test_round_trip), cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_resealed), cmocka_unit_test(test_versions),   cmocka_unit_test(test_places),
        cmocka_unit_test(test_entries),  cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests_name("lsm format", tests, NULL, NULL);
}
