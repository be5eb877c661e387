/* SPDX-License-Identifier: Apache-2.0
 *
 * The KV function: partial pages stay what they were, one wrong byte is one wrong byte, and nothing passes for
 * anything else (fault 1).
 */
#include "tests/lib/test.h"

#include "tools/replay/kv.h"
#include "tools/replay/layout_scale.h"
#include "tools/replay/mix.h"

#define PAGE  16u
#define RANKS 2u

/* Plain entries, four tokens an entry, joined short ones with bytes behind the last, and one taken whole. */
static const struct selene_plane planes[] = {{160, 1, 10}, {64, 4, 16}, {19, 2, 1}, {33, 0, 0}, {256, 1, 16}};
static const struct selene_layout layout = {PAGE, RANKS, 5, planes, 101, "m", 1};

static struct kv kv;
static uint32_t tokens[PAGE * 4];
static uint64_t hash[PAGE * 4 + 1];
static uint8_t share[1024], other[1024];

static int set_up(void **state) {
    uint64_t random = 1;
    (void)state;
    assert_ok(kv_init(&kv, &layout, false, false, 7));
    assert_int_equal(kv.block_bytes, 160 + 64 + 19 + 33 + 256);
    for (size_t i = 0; i < PAGE * 4; i++)
        tokens[i] = (uint32_t)mix_next(&random);
    hash[0] = kv.start;
    kv_hash(hash, tokens, 0, PAGE * 4);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    kv_free(&kv);
    return 0;
}

static struct kv_count verified(uint32_t rank, uint64_t first, uint32_t count, const uint8_t *bytes, bool untouched) {
    struct kv_count result = {0, 0};
    kv_page_verify(&kv, rank, hash, first, count, bytes, untouched, &result);
    return result;
}

static uint64_t valid_bytes(uint32_t count) {
    uint64_t sum = 0;
    for (size_t p = 0; p < 5; p++)
        sum += planes[p].entry_tokens == 0 || count == PAGE
                   ? planes[p].bytes
                   : (uint64_t)(count / planes[p].entry_tokens) * planes[p].entry_bytes;
    return sum;
}

static void filled_pages_verify_at_every_length(void **state) {
    (void)state;
    for (uint32_t count = 1; count <= PAGE; count++) {
        memset(share, KV_POISON, sizeof share);
        kv_page_fill(&kv, 1, hash, PAGE, 0, count, share);
        struct kv_count result = verified(1, PAGE, count, share, true);
        assert_int_equal(result.wrong, 0);
        assert_int_equal(result.verified, valid_bytes(count));
        assert_int_equal(share[kv.block_bytes], KV_POISON);
    }
}

/* What was valid before is still so, byte for byte, except for planes taken whole [L4]. */
static void a_page_grown_in_any_two_steps_equals_one_filled_at_once(void **state) {
    (void)state;
    for (uint32_t from = 1; from < PAGE; from++)
        for (uint32_t to = from + 1; to <= PAGE; to++) {
            memset(share, KV_POISON, sizeof share);
            memset(other, KV_POISON, sizeof other);
            kv_page_fill(&kv, 0, hash, 0, 0, from, share);
            kv_page_fill(&kv, 0, hash, 0, from, to, share);
            kv_page_fill(&kv, 0, hash, 0, 0, to, other);
            assert_memory_equal(share, other, sizeof share);
        }
}

static void one_wrong_byte_is_one_wrong_byte(void **state) {
    (void)state;
    for (uint32_t count = 5; count <= PAGE; count += 11) {
        memset(share, KV_POISON, sizeof share);
        kv_page_fill(&kv, 0, hash, 0, 0, count, share);
        for (size_t i = 0; i < kv.block_bytes; i++)
            for (int bit = 0; bit < 8; bit += 7) {
                share[i] ^= (uint8_t)(1 << bit);
                assert_int_equal(verified(0, 0, count, share, true).wrong, 1);
                share[i] ^= (uint8_t)(1 << bit);
            }
    }
}

static void bytes_beyond_the_valid_ones_count_only_when_asked(void **state) {
    (void)state;
    memset(share, 0, sizeof share);
    kv_page_fill(&kv, 0, hash, 0, 0, 5, share);
    assert_int_equal(verified(0, 0, 5, share, false).wrong, 0);
    assert_int_equal(verified(0, 0, 5, share, true).wrong, kv.block_bytes - valid_bytes(5));
}

/* Of 532 random bytes two in all are equal by chance. */
static void assert_foreign(uint32_t rank, uint64_t first, uint32_t count) {
    struct kv_count result = verified(rank, first, count, share, false);
    assert_true(result.wrong > result.verified * 9 / 10);
}

static void another_page_rank_or_key_is_all_wrong(void **state) {
    (void)state;
    kv_page_fill(&kv, 0, hash, PAGE, 0, PAGE, share);
    assert_int_equal(verified(0, PAGE, PAGE, share, false).wrong, 0);
    assert_foreign(1, PAGE, PAGE);
    assert_foreign(0, 0, PAGE);
    assert_foreign(0, 2 * PAGE, PAGE);
    tokens[0]++; /* far before the page: every byte behind it is another one */
    kv_hash(hash, tokens, 0, PAGE * 4);
    assert_foreign(0, PAGE, PAGE);
    tokens[0]--;
    kv_hash(hash, tokens, 0, PAGE * 4);
}

static void another_layout_seed_or_description_is_all_wrong(void **state) {
    (void)state;
    struct selene_layout changed = layout;
    struct kv kvs[3];
    changed.description = "n";
    assert_ok(kv_init(&kvs[0], &changed, false, false, 7));
    assert_ok(kv_init(&kvs[1], &layout, false, false, 8));
    changed = layout, changed.row_bytes++;
    assert_ok(kv_init(&kvs[2], &changed, false, false, 7));
    for (int i = 0; i < 3; i++) {
        uint64_t theirs[PAGE + 1] = {kvs[i].start};
        kv_hash(theirs, tokens, 0, PAGE);
        kv_page_fill(&kvs[i], 0, theirs, 0, 0, PAGE, share);
        assert_foreign(0, 0, PAGE);
        kv_free(&kvs[i]);
    }
}

/* Two equal planes never hold the same bytes, and no two entries of a plane do. */
static void planes_and_entries_are_told_apart(void **state) {
    (void)state;
    static const struct selene_plane twins[] = {{256, 1, 16}, {256, 1, 16}};
    const struct selene_layout twin_layout = {PAGE, 1, 2, twins, 0, "", 0};
    struct kv twin;
    assert_ok(kv_init(&twin, &twin_layout, false, false, 1));
    kv_page_fill(&twin, 0, hash, 0, 0, PAGE, share);
    for (size_t a = 0; a < 64; a++)
        for (size_t b = a + 1; b < 64; b++)
            assert_memory_not_equal(share + a * 8, share + b * 8, 8);
    kv_free(&twin);
}

static void replicated_ranks_are_equal(void **state) {
    (void)state;
    struct kv same;
    uint8_t row[101], row_other[101];
    assert_ok(kv_init(&same, &layout, true, false, 7));
    kv_page_fill(&same, 0, hash, 0, 0, PAGE, share);
    kv_page_fill(&same, 1, hash, 0, 0, PAGE, other);
    assert_memory_equal(share, other, same.block_bytes);
    kv_row_fill(&same, 0, hash[5], row);
    kv_row_fill(&same, 1, hash[5], row_other);
    assert_memory_not_equal(row, row_other, sizeof row);
    kv_free(&same);
}

static void rows_belong_to_their_checkpoint_and_rank(void **state) {
    (void)state;
    uint8_t row[101];
    kv_row_fill(&kv, 1, hash[21], row);
    struct kv_count good = {0, 0}, position = {0, 0}, rank = {0, 0};
    kv_row_verify(&kv, 1, hash[21], row, &good);
    assert_int_equal(good.wrong, 0);
    assert_int_equal(good.verified, 101);
    kv_row_verify(&kv, 1, hash[22], row, &position);
    assert_true(position.wrong > 90);
    kv_row_verify(&kv, 0, hash[21], row, &rank);
    assert_true(rank.wrong > 90);
    for (size_t i = 0; i < sizeof row; i++) {
        struct kv_count count = {0, 0};
        row[i] ^= 0x10;
        kv_row_verify(&kv, 1, hash[21], row, &count);
        assert_int_equal(count.wrong, 1);
        row[i] ^= 0x10;
    }
}

/* ---- scaling ---- */

static void scaled_layouts_stay_consistent(void **state) {
    (void)state;
    static const struct selene_plane real[] = {
        {131072, 1, 2048}, {9216, 4, 576}, {4352, 64, 4352}, {1000, 0, 0}, {70, 1, 1}};
    const struct selene_layout big = {64, 2, 5, real, 1 << 20, "x", 1};
    for (uint64_t divisor = 1; divisor < (UINT64_C(1) << 24); divisor = divisor * 3 / 2 + 1) {
        struct sel_layout_file scaled;
        assert_ok(layout_scale(&scaled, &big, true, false, divisor));
        assert_true(scaled.pages_replicated && !scaled.row_replicated);
        assert_int_equal(scaled.layout.row_bytes, (1 << 20) / divisor ? (1 << 20) / divisor : 1);
        for (uint32_t p = 0; p < 5; p++) {
            const struct selene_plane *plane = &scaled.layout.planes[p];
            assert_int_equal(plane->bytes, real[p].bytes / divisor ? real[p].bytes / divisor : 1);
            assert_int_equal(plane->entry_tokens == 0, real[p].entry_tokens == 0);
            if (plane->entry_tokens) {
                assert_int_equal(64 % plane->entry_tokens, 0);
                assert_true(plane->entry_bytes >= 1);
                assert_true((uint64_t)(64 / plane->entry_tokens) * plane->entry_bytes <= plane->bytes);
            }
        }
        sel_layout_file_free(&scaled);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filled_pages_verify_at_every_length),
        cmocka_unit_test(a_page_grown_in_any_two_steps_equals_one_filled_at_once),
        cmocka_unit_test(one_wrong_byte_is_one_wrong_byte),
        cmocka_unit_test(bytes_beyond_the_valid_ones_count_only_when_asked),
        cmocka_unit_test(another_page_rank_or_key_is_all_wrong),
        cmocka_unit_test(another_layout_seed_or_description_is_all_wrong),
        cmocka_unit_test(planes_and_entries_are_told_apart),
        cmocka_unit_test(replicated_ranks_are_equal),
        cmocka_unit_test(rows_belong_to_their_checkpoint_and_rank),
        cmocka_unit_test(scaled_layouts_stay_consistent),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
