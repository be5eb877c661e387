/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing [M1, K1]: what all ranks hold alike is stored once, pages and row each for themselves; slots are counted
 * exactly. Plane sizes are no multiple of 4 KiB, freed slots are poisoned, and every restored byte of every rank is
 * compared.
 */
#include "tests/unit/engine/world.h"

enum { PAGE = 8, BLOCKS = 64 };

static struct world world;
static struct device_request request;
static struct sequence sequence;

static void begin(struct world_layout shape, uint64_t warm_slots, bool disk) {
    world_init(&world, &shape, 4 * BLOCKS, warm_slots, true);
    world.options.no_thinning = 1; /* so that slots can be counted */
    if (disk)
        world_disk(&world, 1);
    world_open(&world);
    request_make(&world, &request, 0, BLOCKS);
    sequence_make(&world, &sequence, 1, BLOCKS * PAGE);
}

static void end(void) {
    sequence_free(&sequence);
    request_free(&world, &request);
    world_destroy(&world);
}

static struct world_layout shape_of(uint32_t ranks, bool pages_alike, bool row_alike) {
    struct world_layout shape = world_with_rows;
    shape.rank_count = ranks;
    shape.pages_alike = pages_alike;
    shape.row_alike = row_alike;
    return shape;
}

static uint32_t slots_of(uint32_t pieces, uint32_t ranks, bool packed) {
    return packed ? (pieces + ranks - 1) / ranks : pieces;
}

static const struct sel_copy_part *pages_at(uint32_t tokens) {
    return &((struct sel_memory *)world_node(&world, &sequence, tokens)->memory)->pages;
}

/* Held bytes and gauges of one tier, for records of these pages that all look the same. */
static void check_gauges(int tier, uint32_t records, uint32_t pages) {
    const struct world_layout *shape = &world.shape;
    uint64_t page_bytes = world.plane_desc[0].bytes + world.plane_desc[1].bytes;
    uint64_t bytes = pages * page_bytes * (shape->pages_alike ? 1 : shape->rank_count) +
                     records * shape->row_bytes * (shape->row_alike ? 1 : shape->rank_count);
    struct selene_stats stats = world_stats(&world);
    assert_int_equal(stats.held_bytes[tier], bytes);
    assert_int_equal(stats.packed_records[tier], shape->pages_alike ? records : 0);
    assert_int_equal(stats.per_rank_records[tier], shape->pages_alike ? 0 : records);
    assert_int_equal(stats.packed_rows[tier], shape->row_alike ? records : 0);
    assert_int_equal(stats.rows[tier], records);
}

/* Valid bytes of one share of the pages [first, end) of a record that ends at `tokens`. */
static uint64_t share_bytes(uint32_t first, uint32_t tokens) {
    uint64_t bytes = 0;
    for (uint32_t at = first * PAGE; at < tokens; at += PAGE)
        for (uint32_t plane = 0; plane < WORLD_PLANES; plane++)
            bytes += (uint64_t)(SEL_MIN(tokens - at, (uint32_t)PAGE) / world.shape.entry_tokens[plane]) *
                     world.shape.entry_bytes[plane];
    return bytes;
}

/* Publishes a chain whose records have 1, 2, ... 9 pages, the last of each cut off in mid-page, and counts slots. */
static void publish_chain(uint32_t *records, uint32_t *pages, uint32_t *end_tokens) {
    const struct world_layout *shape = &world.shape;
    uint32_t row_slots = world.store->layout->row_slots, slots = 0, first = 0;
    uint64_t bytes = 0;
    *records = *pages = 0;
    for (uint32_t count = 1; count <= 9; count++) {
        uint32_t tokens = (first + count) * PAGE - count % 3;
        assert_int_equal(world_publish(&world, &request, &sequence, tokens), SELENE_ACCEPTED);
        slots += slots_of(count, shape->rank_count, shape->pages_alike) +
                 slots_of(row_slots, shape->rank_count, shape->row_alike);
        assert_int_equal(world_stats(&world).slots_used, slots);
        /* Of what is packed one share comes out. */
        bytes += share_bytes(first, tokens) * (shape->pages_alike ? 1 : shape->rank_count) +
                 shape->row_bytes * (shape->row_alike ? 1 : shape->rank_count);
        assert_int_equal(world_stats(&world).published_bytes, bytes);
        ++*records;
        *pages += count;
        *end_tokens = tokens;
        first = tokens / PAGE;
    }
}

static void layouts(struct world_layout shape) {
    uint32_t records, pages, tokens, small = 0;
    begin(shape, 300, true);
    publish_chain(&records, &pages, &tokens);
    check_gauges(SELENE_TIER_MEMORY, records, pages);
    assert_int_equal(world_restore(&world, &request, &sequence, tokens, NULL), tokens);
    /* [K2]: to disk as it is in memory; after a restart read from there, kept in memory, and read again. */
    world_reopen(&world, &sequence, 1);
    check_gauges(SELENE_TIER_DISK, records, pages);
    assert_int_equal(world_stats(&world).records[SELENE_TIER_MEMORY], 0);
    for (uint32_t limit = tokens; limit > 0; limit -= SEL_MIN(limit, 5u)) {
        uint32_t held = (uint32_t)world_restore(&world, &request, &sequence, limit, NULL);
        small = held ? held : small;
    }
    assert_int_equal(small, PAGE - 1);
    check_gauges(SELENE_TIER_MEMORY, records, pages);
    assert_int_equal(world_restore(&world, &request, &sequence, tokens, NULL), tokens);
    /* And after a crash. */
    world_crash(&world, 3);
    world_open(&world);
    sequence_prefix(&world, &sequence);
    check_gauges(SELENE_TIER_DISK, records, pages);
    assert_int_equal(world_restore(&world, &request, &sequence, tokens, NULL), tokens);
    end();
}

/* [M1, K1, K2, fault 1]: ceil(n / R) slots, whatever is alike. */
static void test_layouts(void **state) {
    static const uint32_t ranks[] = {2, 3, 4, 8};
    (void)state;
    for (size_t i = 0; i < SEL_COUNT(ranks); i++)
        for (int kind = 0; kind < 4; kind++)
            layouts(shape_of(ranks[i], kind & 1, kind & 2));
}

/* [M1, K1]: most ranks; shares of one page; rows of a byte, of a page and a byte, and of no round number. */
static void test_small_and_many(void **state) {
    static const uint32_t ranks[] = {2, 7, 64};
    static const uint64_t rows[] = {1, 4096, 4097, 12289};
    (void)state;
    for (size_t i = 0; i < SEL_COUNT(ranks); i++)
        for (size_t row = 0; row < SEL_COUNT(rows); row++) {
            struct world_layout shape = shape_of(ranks[i], row & 1, !(row & 2));
            shape.entry_bytes[0] = 1;
            shape.entry_bytes[1] = 3 + (uint32_t)row * 700;
            shape.row_bytes = rows[row];
            layouts(shape);
        }
}

/* Records of a group without rows; one rank alone; packing turned off. */
static void test_groups(void **state) {
    struct world_layout shape = shape_of(4, true, false);
    (void)state;
    shape.row_bytes = 0;
    begin(shape, 100, true);
    assert_int_equal(world_publish(&world, &request, &sequence, 11 * PAGE), SELENE_ACCEPTED);
    assert_int_equal(world_stats(&world).slots_used, 3); /* groups of 4, 4 and 3 pages */
    assert_int_equal(world_restore(&world, &request, &sequence, 11 * PAGE, NULL), 11 * PAGE);
    world_reopen(&world, &sequence, 1);
    assert_int_equal(world_restore(&world, &request, &sequence, 11 * PAGE, NULL), 11 * PAGE);
    assert_int_equal(world_stats(&world).packed_records[SELENE_TIER_DISK], 3);
    end();
    begin(shape_of(1, true, true), 100, false);
    assert_int_equal(world_publish(&world, &request, &sequence, 11 * PAGE), SELENE_ACCEPTED);
    assert_int_equal(world_stats(&world).slots_used, 14);
    assert_int_equal(world_stats(&world).per_rank_records[SELENE_TIER_MEMORY], 1);
    end();
    begin(shape_of(4, true, true), 100, false);
    world.store->options.no_packing = 1;
    assert_int_equal(world_publish(&world, &request, &sequence, 11 * PAGE), SELENE_ACCEPTED);
    assert_int_equal(world_stats(&world).slots_used, 14);
    end();
}

/* [K1, L4]: the last valid byte of one rank decides; bytes that nobody may use do not. */
static void test_last_byte(void **state) {
    (void)state;
    for (int valid = 0; valid < 2; valid++)
        for (uint32_t plane = 0; plane < WORLD_PLANES; plane++) {
            struct selene_publish_result result;
            begin(shape_of(3, true, true), 100, false);
            uint32_t tokens = 2 * PAGE + 4;
            request_fill(&world, &request, &sequence, tokens);
            uint64_t bytes = tokens % PAGE / world.shape.entry_tokens[plane] * world.shape.entry_bytes[plane];
            uint8_t *page = world.planes[2][plane] + request.blocks[2] * world.plane_desc[plane].bytes;
            if (valid)
                page[bytes - 1] ^= 0x80;
            else
                memset(page + bytes, 0x5a, world.plane_desc[plane].bytes - bytes);
            assert_ok(selene_publish(world.store, sequence.prefix, tokens, &request.state, &result));
            assert_int_equal(world_wait(&world, result.ticket).result, 0);
            assert_int_equal(pages_at(tokens)->packed, !valid);
            assert_int_equal(pages_at(tokens)->count, valid ? 3 : 1);
            assert_int_equal(world_stats(&world).packed_rows[SELENE_TIER_MEMORY], 1);
            world_check(&world);
            end();
        }
}

/* A chain in which packed and per-rank records alternate, from memory, from disk, and half from each. */
static void test_mixed(void **state) {
    (void)state;
    struct world_layout shape = shape_of(4, true, true);
    shape.differ_every = 4;
    begin(shape, 200, true);
    for (uint32_t tokens = 13; tokens <= 60 * PAGE; tokens += 13)
        assert_int_equal(world_publish(&world, &request, &sequence, tokens), SELENE_ACCEPTED);
    struct selene_stats stats = world_stats(&world);
    assert_true(stats.packed_records[SELENE_TIER_MEMORY] > 10 && stats.per_rank_records[SELENE_TIER_MEMORY] > 10);
    assert_int_equal(world_restore(&world, &request, &sequence, 36 * 13, NULL), 36 * 13);
    world_reopen(&world, &sequence, 1);
    stats = world_stats(&world);
    assert_true(stats.packed_records[SELENE_TIER_DISK] > 10 && stats.per_rank_records[SELENE_TIER_DISK] > 10);
    assert_int_equal(world_restore(&world, &request, &sequence, 20 * 13, NULL), 20 * 13);
    assert_int_equal(world_restore(&world, &request, &sequence, 36 * 13, NULL), 36 * 13);
    end();
}

/* [R4, I1, fault 22]: damage of a packed share costs a recompute; of memory's, a read from disk. */
static void damage(enum sel_lsm_part part, uint32_t index) {
    int result;
    begin(shape_of(4, true, true), 200, true);
    assert_int_equal(world_publish(&world, &request, &sequence, 5 * PAGE + 4), SELENE_ACCEPTED);
    assert_int_equal(world_publish(&world, &request, &sequence, 16 * PAGE), SELENE_ACCEPTED);
    assert_int_equal(world_drain(&world).result, 0);
    struct sel_node *node = world_node(&world, &sequence, 16 * PAGE);
    world_damage(&world, node, SEL_TIER_MEMORY, part, index);
    assert_int_equal(world_restore(&world, &request, &sequence, 16 * PAGE, NULL), 16 * PAGE);
    assert_int_equal(world_stats(&world).checksum_failures[SELENE_TIER_MEMORY], 1);
    world_reopen(&world, &sequence, 1);
    node = world_node(&world, &sequence, 16 * PAGE);
    world_damage(&world, node, SEL_TIER_DISK, part, index);
    /* The partial page of the record above comes again, out of a packed slot. */
    assert_int_equal(world_restore(&world, &request, &sequence, 16 * PAGE, &result), 5 * PAGE + 4);
    assert_int_equal(result, SELENE_E_CORRUPT);
    assert_int_equal(world_stats(&world).checksum_failures[SELENE_TIER_DISK], 1);
    world_check(&world);
    end();
}
static void test_damage(void **state) {
    (void)state;
    for (uint32_t index = 0; index < 11; index++)
        damage(SEL_LSM_PAGES, index);
    for (uint32_t index = 0; index < 3; index++)
        damage(SEL_LSM_ROW, index);
}

/* Longest run of poison in an extent. */
static uint64_t poison_in(uint64_t place, uint64_t blocks) {
    uint64_t longest = 0, run = 0;
    char name[32];
    uint8_t *bytes = malloc(blocks * SEL_BLOCK_BYTES);
    assert_non_null(bytes);
    snprintf(name, sizeof name, "seg-%08x.sel", (uint32_t)(place >> 32));
    assert_ok(sel_disk_sim_peek(world.disk_sim, name, (uint64_t)(uint32_t)place * SEL_BLOCK_BYTES, bytes,
                                blocks * SEL_BLOCK_BYTES));
    for (uint64_t i = 0; i < blocks * SEL_BLOCK_BYTES; i++) {
        run = bytes[i] == SEL_SLOT_POISON ? run + 1 : 0;
        longest = SEL_MAX(longest, run);
    }
    free(bytes);
    return longest;
}

/* [fault 5]: what lay in reused slots before reaches neither the disk nor a restore: shares are padded with zeros, and
 * what is behind the last share of a slot is not written. */
static void test_padding(void **state) {
    static const uint32_t ranks[] = {2, 3, 8};
    (void)state;
    for (size_t i = 0; i < SEL_COUNT(ranks); i++)
        for (int warm = 0; warm < 2; warm++) {
            begin(shape_of(ranks[i], true, true), warm ? 60 : 0, true);
            struct sel_slots *slots = &world.store->slots;
            uint32_t all[300], count = slots->free_count;
            assert_true(count <= 300 && sel_slots_take(slots, all, count));
            sel_slots_give(slots, all, count);
            for (uint32_t pages = 3; pages <= 31; pages += 7) {
                uint32_t tokens = pages * PAGE - 3;
                assert_int_equal(world_publish(&world, &request, &sequence, tokens), SELENE_ACCEPTED);
                assert_int_equal(world_drain(&world).result, 0);
                const struct sel_node *node = world_node(&world, &sequence, tokens);
                assert_true((node->flags & SEL_DISK_PAGES_PACKED) && (node->flags & SEL_DISK_ROW_PACKED));
                assert_true(poison_in(node->disk.pages, node->disk.pages_blocks) < 8);
                assert_true(poison_in(node->disk.row, node->disk.row_blocks) < 8);
                assert_int_equal(world_restore(&world, &request, &sequence, tokens, NULL), tokens);
            }
            end();
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),   cmocka_unit_test(test_small_and_many), cmocka_unit_test(test_groups),
        cmocka_unit_test(test_last_byte), cmocka_unit_test(test_mixed),          cmocka_unit_test(test_damage),
        cmocka_unit_test(test_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
