/* SPDX-License-Identifier: Apache-2.0
 *
 * What copies move, byte for byte, on random layouts: pages whole and partial [L4], rows in parts [M1], replicated
 * shares [K1], and that damage is found wherever it is [I1, fault 22].
 */
#include "base/checksum.h"
#include "base/error.h"
#include "tests/unit/gpu/gpu_world.h"

#define PAGES 4

struct pages {
    struct sel_copy_item items[PAGES];
    uint64_t sums[PAGES][SELENE_RANKS_MAX];
};

/* Different blocks and slots, random token counts, the first page whole. */
static void pages_init(struct world *world, struct pages *pages) {
    uint32_t first = (uint32_t)sel_random_below(&world->random, world->blocks);
    uint32_t page_tokens = world->layout->desc.page_tokens;
    memset(pages, 0, sizeof *pages);
    for (uint32_t i = 0; i < PAGES; i++)
        pages->items[i] = (struct sel_copy_item){
            .slot = world_slot(world, (first + i) % (PAGES + 1)),
            .block = (first + i) % world->blocks,
            .tokens = i == 0 ? page_tokens : 1 + (uint32_t)sel_random_below(&world->random, page_tokens),
            .sums = pages->sums[i],
            .result = 77,
        };
}

static void copy_out(struct world *world, struct pages *pages) {
    pages_init(world, pages);
    world_fill_random(world, world->arena, world->arena_bytes);
    world_prepare(world, SEL_COPY_OUT, pages->items, PAGES);
    assert_ok(world_copy(world));
    for (uint32_t i = 0; i < PAGES; i++)
        assert_int_equal(pages->items[i].result, 0);
}

/* Slots hold the valid bytes and zeros elsewhere, padding included; checksums are those of whole planes [I2]. */
static void check_out(struct world *world, const struct pages *pages) {
    const struct sel_layout *layout = world->layout;
    uint8_t *share = malloc(layout->share_bytes);
    for (uint32_t i = 0; i < PAGES; i++)
        for (uint32_t r = 0; r < layout->desc.rank_count; r++) {
            const struct sel_copy_item *item = &pages->items[i];
            world_expect_share(world, r, item->block, item->tokens, share);
            assert_memory_equal(item->slot + r * layout->share_bytes, share, layout->share_bytes);
            assert_int_equal(item->sums[r], world_expect_sum(world, share));
        }
    free(share);
}

/* The whole arena is what it was, but for the valid bytes of the pages that were copied in. */
static void check_in(struct world *world, const struct pages *pages, const uint8_t *original) {
    const struct selene_layout *desc = &world->layout->desc;
    uint8_t *expected = malloc(world->arena_bytes);
    memset(expected, GUARD, world->arena_bytes);
    for (uint32_t i = 0; i < PAGES; i++)
        for (uint32_t r = 0; r < desc->rank_count; r++)
            for (uint32_t p = 0; p < desc->plane_count; p++) {
                size_t at = (size_t)(world_plane(world, r, p, pages->items[i].block) - world->arena);
                size_t valid = sel_layout_valid_bytes(world->layout, p, pages->items[i].tokens);
                memcpy(expected + at, original + at, valid);
            }
    assert_memory_equal(world->arena, expected, world->arena_bytes);
    free(expected);
}

static void page_round(uint64_t seed, unsigned threads) {
    struct world world;
    struct pages pages;
    world_create(&world, seed, threads);
    copy_out(&world, &pages);
    check_out(&world, &pages);
    uint8_t *original = malloc(world.arena_bytes);
    memcpy(original, world.arena, world.arena_bytes);
    memset(world.arena, GUARD, world.arena_bytes);
    world_prepare(&world, SEL_COPY_IN, pages.items, PAGES);
    assert_ok(world_copy(&world));
    check_in(&world, &pages, original);
    free(original);
    world_destroy(&world);
}

static void test_pages(void **state) {
    (void)state;
    uint64_t seeds = test_count("SELENE_TEST_SEEDS", 60);
    for (uint64_t seed = 0; seed < seeds; seed++)
        page_round(seed, (unsigned)(seed % 4));
}

/* A share whose padding holds anything restores all the same: padding is never trusted [I2]. */
static void test_padding_is_not_trusted(void **state) {
    (void)state;
    for (uint64_t seed = 100; seed < 110; seed++) {
        struct world world;
        struct pages pages;
        world_create(&world, seed, 0);
        copy_out(&world, &pages);
        const struct sel_layout *layout = world.layout;
        for (uint32_t i = 0; i < PAGES; i++)
            for (uint32_t r = 0; r < layout->desc.rank_count; r++) {
                uint8_t *share = pages.items[i].slot + r * layout->share_bytes;
                uint32_t last = layout->desc.plane_count - 1;
                for (uint64_t at = layout->plane_offset[last] + layout->desc.planes[last].bytes;
                     at < layout->share_bytes; at++)
                    share[at] = 0xee;
            }
        world_prepare(&world, SEL_COPY_IN, pages.items, PAGES);
        assert_ok(world_copy(&world));
        world_destroy(&world);
    }
}

/* One flipped bit in any part of any plane, valid or not, of any rank: that page is corrupt and no other. */
static void corruption_round(struct world *world, struct pages *pages) {
    const struct sel_layout *layout = world->layout;
    uint32_t victim = (uint32_t)sel_random_below(&world->random, PAGES);
    uint32_t rank = (uint32_t)sel_random_below(&world->random, layout->desc.rank_count);
    uint32_t plane = (uint32_t)sel_random_below(&world->random, layout->desc.plane_count);
    uint64_t at = sel_random_below(&world->random, layout->desc.planes[plane].bytes);
    uint8_t *byte = pages->items[victim].slot + rank * layout->share_bytes + layout->plane_offset[plane] + at;
    uint8_t flip = (uint8_t)(1 << sel_random_below(&world->random, 8));
    *byte ^= flip;
    world_prepare(world, SEL_COPY_IN, pages->items, PAGES);
    assert_int_equal(world_copy(world), SELENE_E_CORRUPT);
    for (uint32_t i = 0; i < PAGES; i++)
        assert_int_equal(pages->items[i].result, i == victim ? SELENE_E_CORRUPT : 0);
    *byte ^= flip;
    world_prepare(world, SEL_COPY_IN, pages->items, PAGES);
    assert_ok(world_copy(world));
    assert_int_equal(pages->items[victim].result, 0);
}

static void test_corruption_is_found(void **state) {
    (void)state;
    for (uint64_t seed = 200; seed < 220; seed++) {
        struct world world;
        struct pages pages;
        world_create(&world, seed, (unsigned)(seed % 3));
        copy_out(&world, &pages);
        for (int i = 0; i < 10; i++)
            corruption_round(&world, &pages);
        pages.sums[1][world.layout->desc.rank_count - 1]++;
        world_prepare(&world, SEL_COPY_IN, pages.items, PAGES);
        assert_int_equal(world_copy(&world), SELENE_E_CORRUPT);
        assert_int_equal(pages.items[1].result, SELENE_E_CORRUPT);
        world_destroy(&world);
    }
}

static uint64_t row_sum(const struct world *world, const uint8_t *row) {
    uint64_t *hashes = malloc(world->layout->row_blocks * sizeof *hashes);
    sel_checksum_plane(hashes, row, world->layout->desc.row_bytes);
    uint64_t sum = sel_checksum_finish(hashes, world->layout->row_blocks);
    free(hashes);
    return sum;
}

/* The parts of a row in two copies, the odd ones first; returns the hashes. */
static uint64_t *copy_row(struct world *world, enum sel_copy_direction direction, bool replicated) {
    const struct sel_layout *layout = world->layout;
    struct sel_copy_item *items = calloc(layout->row_slots, sizeof *items);
    uint64_t *hashes = calloc((size_t)layout->desc.rank_count * layout->row_blocks, sizeof *hashes);
    for (uint32_t odd = 1; odd < 2; odd--) {
        size_t count = 0;
        for (uint32_t part = odd; part < layout->row_slots; part += 2) {
            uint8_t *slot = replicated ? world->slots + part * layout->share_bytes : world_slot(world, part + 2);
            items[count++] = (struct sel_copy_item){.slot = slot, .row_part = part};
        }
        world_prepare(world, direction, items, count);
        world->copy.row = true;
        world->copy.replicated = replicated;
        world->copy.row_hashes = hashes;
        assert_ok(world_copy(world));
    }
    free(items);
    return hashes;
}

static void check_row_sums(struct world *world, const uint64_t *hashes) {
    for (uint32_t r = 0; r < world->layout->desc.rank_count; r++)
        assert_int_equal(sel_checksum_finish(hashes + (size_t)r * world->layout->row_blocks, world->layout->row_blocks),
                         row_sum(world, world->rows[r]));
}

static void check_row_slots(struct world *world) {
    const struct sel_layout *layout = world->layout;
    for (uint32_t r = 0; r < layout->desc.rank_count; r++)
        for (uint64_t at = 0; at < layout->row_slots * layout->share_bytes; at++) {
            const uint8_t *slot = world_slot(world, at / layout->share_bytes + 2);
            uint8_t expected = at < layout->desc.row_bytes ? ((uint8_t *)world->rows[r])[at] : 0;
            assert_int_equal(slot[r * layout->share_bytes + at % layout->share_bytes], expected);
        }
}

static void row_round(uint64_t seed, unsigned threads) {
    struct world world;
    world_create(&world, seed, threads);
    world_fill_random(&world, world.arena, world.arena_bytes);
    uint64_t *hashes = copy_row(&world, SEL_COPY_OUT, false);
    check_row_sums(&world, hashes);
    check_row_slots(&world);
    free(hashes);
    uint8_t *original = malloc(world.arena_bytes);
    memcpy(original, world.arena, world.arena_bytes);
    for (uint32_t r = 0; r < world.layout->desc.rank_count; r++)
        memset(world.rows[r], GUARD, world.layout->desc.row_bytes);
    hashes = copy_row(&world, SEL_COPY_IN, false);
    check_row_sums(&world, hashes);
    assert_memory_equal(world.arena, original, world.arena_bytes);
    free(hashes);
    free(original);
    world_destroy(&world);
}

static void test_rows(void **state) {
    (void)state;
    for (uint64_t seed = 300; seed < 330; seed++)
        row_round(seed, (unsigned)(seed % 3));
}

/* One share, wherever it lies in a slot, goes to every rank: pages and rows [K1]. */
static void test_replicated(void **state) {
    (void)state;
    for (uint64_t seed = 400; seed < 415; seed++) {
        struct world world;
        struct pages pages;
        world_create(&world, seed, (unsigned)(seed % 3));
        const struct sel_layout *layout = world.layout;
        copy_out(&world, &pages);
        uint32_t kept = (uint32_t)sel_random_below(&world.random, layout->desc.rank_count);
        struct sel_copy_item item = pages.items[1];
        item.slot += kept * layout->share_bytes;
        item.sums = &pages.sums[1][kept];
        world_prepare(&world, SEL_COPY_IN, &item, 1);
        world.copy.replicated = true;
        assert_ok(world_copy(&world));
        uint8_t *share = malloc(layout->share_bytes);
        for (uint32_t r = 0; r < layout->desc.rank_count; r++) {
            world_expect_share(&world, r, item.block, item.tokens, share);
            assert_memory_equal(share, item.slot, layout->share_bytes);
        }
        free(share);
        *item.sums ^= 1;
        world_prepare(&world, SEL_COPY_IN, &item, 1);
        world.copy.replicated = true;
        assert_int_equal(world_copy(&world), SELENE_E_CORRUPT);
        world_fill_random(&world, world.slots, layout->row_slots * layout->share_bytes);
        uint64_t *hashes = copy_row(&world, SEL_COPY_IN, true);
        check_row_sums(&world, hashes);
        for (uint32_t r = 0; r < layout->desc.rank_count; r++)
            assert_memory_equal(world.rows[r], world.slots, layout->desc.row_bytes);
        free(hashes);
        world_destroy(&world);
    }
}

/* The pages as a packed record has them: single shares one after another, from the second on, each with one checksum. */
static void pages_pack(struct world *world, struct pages *pages) {
    pages_init(world, pages);
    for (uint32_t i = 0; i < PAGES; i++)
        pages->items[i].slot = world->slots + (i + 1) * world->layout->share_bytes;
    memset(pages->sums, GUARD, sizeof pages->sums);
}

/* The shares are rank 0's; before and after them, and behind the one checksum of each, nothing was written. */
static void check_packed(const struct world *world, const struct pages *pages) {
    uint64_t bytes = world->layout->share_bytes, guard;
    uint8_t *share = malloc(bytes);
    memset(&guard, GUARD, sizeof guard);
    for (uint32_t i = 0; i < PAGES; i++) {
        const struct sel_copy_item *item = &pages->items[i];
        world_expect_share(world, 0, item->block, item->tokens, share);
        assert_memory_equal(item->slot, share, bytes);
        assert_int_equal(item->sums[0], world_expect_sum(world, share));
        assert_int_equal(item->sums[1], guard);
        assert_int_equal(item->result, 0);
    }
    memset(share, GUARD, bytes);
    assert_memory_equal(world->slots, share, bytes);
    assert_memory_equal(world->slots + (PAGES + 1) * bytes, share, bytes);
    free(share);
}

/* In the arena that the pages came from, every rank has rank 0's valid bytes. */
static void spread_rank_0(const struct world *world, const struct pages *pages, uint8_t *arena) {
    const struct selene_layout *desc = &world->layout->desc;
    for (uint32_t i = 0; i < PAGES; i++)
        for (uint32_t p = 0; p < desc->plane_count; p++)
            for (uint32_t r = 1; r < desc->rank_count; r++)
                memcpy(arena + (world_plane(world, r, p, pages->items[i].block) - world->arena),
                       arena + (world_plane(world, 0, p, pages->items[i].block) - world->arena),
                       sel_layout_valid_bytes(world->layout, p, pages->items[i].tokens));
}

static void packed_round(uint64_t seed, unsigned threads) {
    struct world world;
    struct pages pages;
    world_create(&world, seed, threads);
    pages_pack(&world, &pages);
    world_fill_random(&world, world.arena, world.arena_bytes);
    world_prepare(&world, SEL_COPY_OUT, pages.items, PAGES);
    world.copy.replicated = true;
    assert_ok(world_copy(&world));
    check_packed(&world, &pages);
    uint8_t *original = malloc(world.arena_bytes);
    memcpy(original, world.arena, world.arena_bytes);
    spread_rank_0(&world, &pages, original);
    memset(world.arena, GUARD, world.arena_bytes);
    world_prepare(&world, SEL_COPY_IN, pages.items, PAGES);
    world.copy.replicated = true;
    assert_ok(world_copy(&world));
    check_in(&world, &pages, original);
    free(original);
    world_destroy(&world);
}

/* Out goes rank 0's share alone, in comes the one share to every rank [K1, M1]; invalid bytes as ever [L4]. */
static void test_packed_pages(void **state) {
    (void)state;
    uint64_t seeds = test_count("SELENE_TEST_SEEDS", 60);
    for (uint64_t seed = 500; seed < 500 + seeds; seed++)
        packed_round(seed, (unsigned)(seed % 4));
}

/* Of a packed row only rank 0's hashes are written; in-bound each rank's, of what it got. */
static void test_packed_rows(void **state) {
    (void)state;
    for (uint64_t seed = 600; seed < 630; seed++) {
        struct world world;
        world_create(&world, seed, (unsigned)(seed % 3));
        const struct sel_layout *layout = world.layout;
        world_fill_random(&world, world.arena, world.arena_bytes);
        uint64_t *hashes = copy_row(&world, SEL_COPY_OUT, true);
        assert_int_equal(sel_checksum_finish(hashes, layout->row_blocks), row_sum(&world, world.rows[0]));
        for (size_t i = layout->row_blocks; i < (size_t)layout->desc.rank_count * layout->row_blocks; i++)
            assert_int_equal(hashes[i], 0);
        uint64_t end = layout->row_slots * layout->share_bytes;
        assert_memory_equal(world.slots, world.rows[0], layout->desc.row_bytes);
        for (uint64_t at = layout->desc.row_bytes; at < end + layout->share_bytes; at++)
            assert_int_equal(world.slots[at], at < end ? 0 : GUARD);
        free(hashes);
        for (uint32_t r = 0; r < layout->desc.rank_count; r++)
            memset(world.rows[r], GUARD, layout->desc.row_bytes);
        hashes = copy_row(&world, SEL_COPY_IN, true);
        check_row_sums(&world, hashes);
        for (uint32_t r = 0; r < layout->desc.rank_count; r++)
            assert_memory_equal(world.rows[r], world.slots, layout->desc.row_bytes);
        free(hashes);
        world_destroy(&world);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_padding_is_not_trusted),
        cmocka_unit_test(test_corruption_is_found),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_replicated),
        cmocka_unit_test(test_packed_pages),
        cmocka_unit_test(test_packed_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
