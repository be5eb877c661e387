/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing without a warm tier [K2, M5]: the first window of pages decides, and all of the row; a later window that
 * differs costs that one store, which begins again per rank.
 */
#include "tests/unit/engine/world.h"

enum { PAGE = 8, BLOCKS = 64, WINDOW = 2 };

static struct world world;
static struct device_request request;
static struct sequence sequence;

static void begin(struct world_layout shape) {
    world_init(&world, &shape, BLOCKS, 0, true);
    world_disk(&world, 1);
    world.options.page_group = 16;
    world.options.no_thinning = 1;
    world_open(&world);
    world.store->window_slots = WINDOW;
    request_make(&world, &request, 0, BLOCKS);
    sequence_make(&world, &sequence, 1, BLOCKS * PAGE);
}

static void end(void) {
    world_check(&world);
    assert_int_equal(world.store->slots.free_count, world.store->slots.total);
    sequence_free(&sequence);
    request_free(&world, &request);
    world_destroy(&world);
}

static struct world_layout shape_of(uint32_t ranks, bool rows, bool pages_alike, bool row_alike) {
    struct world_layout shape = world_with_rows;
    shape.rank_count = ranks;
    shape.pages_alike = pages_alike;
    shape.row_alike = row_alike;
    if (!rows)
        shape.row_bytes = 0;
    return shape;
}

static void reopen(void) {
    world_close(&world);
    world_open(&world);
    world.store->window_slots = WINDOW;
    sequence_prefix(&world, &sequence);
}

static uint64_t bytes_of(uint32_t pages, bool pages_packed, bool row, bool row_packed) {
    uint64_t page = world.plane_desc[0].bytes + world.plane_desc[1].bytes, ranks = world.shape.rank_count;
    return pages * page * (pages_packed ? 1 : ranks) + (row ? world.shape.row_bytes * (row_packed ? 1 : ranks) : 0);
}

/* [K1, K2]: both forms of pages and row, in mid-page, over several windows; read again after a restart. */
static void layouts(uint32_t ranks, bool pages_alike, bool row_alike) {
    begin(shape_of(ranks, true, pages_alike, row_alike));
    uint64_t bytes = 0;
    static const uint32_t at[] = {5, 8, 100, 101, 444};
    for (size_t i = 0; i < SEL_COUNT(at); i++) {
        uint32_t first = i ? at[i - 1] / PAGE : 0, last = (at[i] + PAGE - 1) / PAGE;
        assert_int_equal(world_publish(&world, &request, &sequence, at[i]), SELENE_ACCEPTED);
        bytes += bytes_of(last - first, pages_alike, true, row_alike);
    }
    for (int again = 0; again < 2; again++) {
        struct selene_stats stats = world_stats(&world);
        assert_int_equal(stats.held_bytes[SELENE_TIER_DISK], bytes);
        assert_int_equal(stats.packed_records[SELENE_TIER_DISK], pages_alike ? 5 : 0);
        assert_int_equal(stats.packed_rows[SELENE_TIER_DISK], row_alike ? 5 : 0);
        assert_int_equal(stats.abandoned_stores, 0);
        for (size_t i = SEL_COUNT(at); i-- > 0;)
            assert_int_equal(world_restore(&world, &request, &sequence, at[i], NULL), at[i]);
        if (!again)
            reopen();
    }
    end();
}
static void test_layouts(void **state) {
    static const uint32_t ranks[] = {2, 3, 4, 8};
    (void)state;
    for (size_t i = 0; i < SEL_COUNT(ranks); i++)
        for (int kind = 0; kind < 4; kind++)
            layouts(ranks[i], kind & 1, kind & 2);
}

/* Makes one byte of the last rank differ in a page. */
static void spoil(uint32_t page) {
    world.planes[world.shape.rank_count - 1][0][request.blocks[page] * world.plane_desc[0].bytes] ^= 1;
}

static struct selene_publish_result publish_spoilt(uint32_t tokens, uint32_t page) {
    struct selene_publish_result result;
    request_fill(&world, &request, &sequence, tokens);
    if (page < BLOCKS)
        spoil(page);
    assert_ok(selene_publish(world.store, sequence.prefix, tokens, &request.state, &result));
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    return result;
}

/* Restores everything and counts bytes that are not as they were published: one, the byte that was spoilt. */
static void restore_spoilt(uint32_t tokens, uint32_t page) {
    uint64_t ticket;
    request_clear(&world, &request, 0xee);
    assert_ok(selene_restore(world.store, sequence.prefix, tokens, &request.state, &ticket));
    struct selene_event event = world_wait(&world, ticket);
    assert_int_equal(event.result, 0);
    assert_int_equal(event.tokens, tokens);
    assert_int_equal(request_wrong(&world, &request, &sequence, tokens, true), page < BLOCKS ? 1 : 0);
    if (page < BLOCKS)
        spoil(page);
    assert_int_equal(request_wrong(&world, &request, &sequence, tokens, true), 0);
}

/* [K2]: wherever the difference is, the record is there whole, per rank, and only a difference after the first window
 * costs a store. */
static void test_later_window(void **state) {
    (void)state;
    for (uint32_t page = 0; page <= 20; page++) {
        begin(shape_of(3, true, true, true));
        world.shape.differ_every = 0;
        struct selene_publish_result result = publish_spoilt(20 * PAGE - 3, page);
        struct selene_event event = world_wait(&world, result.ticket);
        assert_int_equal(event.result, 0);
        struct selene_stats stats = world_stats(&world);
        bool later = page >= 3 * WINDOW && page < 20;
        assert_int_equal(stats.abandoned_stores, later);
        assert_int_equal(stats.packed_records[SELENE_TIER_DISK], page >= 20);
        assert_int_equal(stats.per_rank_records[SELENE_TIER_DISK], page < 20);
        assert_int_equal(stats.packed_rows[SELENE_TIER_DISK], 1);
        assert_int_equal(event.bytes, stats.published_bytes);
        restore_spoilt(20 * PAGE - 3, page < 20 ? page : BLOCKS);
        world_check(&world);
        reopen();
        assert_int_equal(world_stats(&world).records[SELENE_TIER_DISK], 1);
        restore_spoilt(20 * PAGE - 3, page < 20 ? page : BLOCKS);
        end();
    }
}

/* [K2, L6]: in a chain, what came before stays packed, and the records after it that were on their way begin again. */
static void test_later_record(void **state) {
    (void)state;
    for (uint32_t page = 0; page < BLOCKS; page += 5) {
        begin(shape_of(4, false, true, true));
        struct selene_publish_result result = publish_spoilt(BLOCKS * PAGE, page);
        struct selene_event event = world_wait(&world, result.ticket);
        assert_int_equal(event.result, 0);
        /* It does not wait for what came before to be committed: that group would stay open for a second. */
        assert_true(event.elapsed_ns < SEL_NS_PER_SECOND);
        struct selene_stats stats = world_stats(&world);
        assert_int_equal(stats.abandoned_stores, page % 16 >= 4 * WINDOW);
        assert_int_equal(stats.packed_records[SELENE_TIER_DISK] + stats.per_rank_records[SELENE_TIER_DISK], 4);
        if (page % 16 >= 4 * WINDOW)
            assert_int_equal(stats.packed_records[SELENE_TIER_DISK], page / 16);
        else
            assert_int_equal(stats.per_rank_records[SELENE_TIER_DISK], 1);
        restore_spoilt(BLOCKS * PAGE, page);
        reopen();
        assert_int_equal(world_stats(&world).records[SELENE_TIER_DISK], 4);
        restore_spoilt(BLOCKS * PAGE, page);
        end();
    }
}

/* [R6, faults 2, 23]: cancelled at any time, also while a store is being given up or begins again: nothing of a record
 * is left, on disk neither, and everything works afterwards. */
static void test_cancel(void **state) {
    (void)state;
    bool through = false;
    for (uint32_t rounds = 0; !through; rounds++) {
        begin(shape_of(2, true, true, true));
        struct selene_event event = {0};
        struct selene_publish_result result = publish_spoilt(40 * PAGE, 30);
        for (uint32_t i = 0; i < rounds && !through; i++)
            through = world_poll(&world, &event, 1) > 0;
        if (!through) {
            assert_ok(selene_cancel(world.store, result.ticket));
            event = world_wait(&world, result.ticket);
        }
        bool held = event.result == 0;
        assert_true(held || event.result == SELENE_E_CANCELLED);
        assert_int_equal(world_lookup(&world, &sequence, 40 * PAGE, NULL), held ? 40 * PAGE : 0);
        world_check(&world);
        reopen();
        assert_int_equal(world_stats(&world).records[SELENE_TIER_DISK], held);
        assert_int_equal(world_publish(&world, &request, &sequence, 40 * PAGE),
                         held ? SELENE_PRESENT : SELENE_ACCEPTED);
        end();
        assert_true(rounds < 10000);
    }
}

/* Waiting for the caller's event while it decides; and closing then. */
static void test_waits(void **state) {
    struct selene_event event;
    (void)state;
    begin(shape_of(4, true, true, true));
    request.state.wait = &request.wait;
    struct selene_publish_result result = publish_spoilt(20 * PAGE, BLOCKS);
    for (int i = 0; i < 20; i++)
        assert_int_equal(world_poll(&world, &event, 1), 0);
    assert_int_equal(world.store->slots.free_count, world.store->slots.total);
    __atomic_store_n(&request.wait, 1, __ATOMIC_RELEASE);
    assert_int_equal(world_wait(&world, result.ticket).result, 0);
    assert_int_equal(world_stats(&world).packed_records[SELENE_TIER_DISK], 1);
    request.wait = 0;
    result = publish_spoilt(30 * PAGE, BLOCKS);
    reopen();
    request.state.wait = NULL;
    assert_int_equal(world_restore(&world, &request, &sequence, 30 * PAGE, NULL), 20 * PAGE);
    end();
}

/* [M5]: what only fits the disk when packed is oversize when it is not. */
static void test_oversize(void **state) {
    (void)state;
    for (int alike = 0; alike < 2; alike++) {
        struct world_layout shape = shape_of(8, true, alike, alike);
        world_init(&world, &shape, 512, 0, true);
        world_disk(&world, 1);
        world.options.disk_limit_bytes = 12 << 20;
        world_open(&world);
        request_make(&world, &request, 0, 200);
        sequence_make(&world, &sequence, 1, 200 * PAGE);
        struct selene_publish_result result;
        request_fill(&world, &request, &sequence, 150 * PAGE);
        assert_ok(selene_publish(world.store, sequence.prefix, 150 * PAGE, &request.state, &result));
        assert_int_equal(result.answer, SELENE_ACCEPTED);
        assert_int_equal(world_wait(&world, result.ticket).result, alike ? 0 : SELENE_E_OVERSIZE);
        assert_int_equal(world_restore(&world, &request, &sequence, 200 * PAGE, NULL), alike ? 150 * PAGE : 0);
        end();
    }
}

/* [D6, fault 25]: room on disk was asked for as if it were packed; what is missing is waited for while others leave. */
static void test_room(void **state) {
    (void)state;
    uint32_t lacking = 0;
    struct world_layout shape = shape_of(4, true, false, false);
    world_init(&world, &shape, BLOCKS, 0, true);
    world_disk(&world, 1);
    world.options.disk_limit_bytes = 20 << 20;
    world_open(&world);
    request_make(&world, &request, 0, BLOCKS);
    sequence_make(&world, &sequence, 1, BLOCKS * PAGE);
    for (uint64_t i = 0; i < 20; i++) {
        struct selene_publish_result result;
        struct selene_event event;
        sequence_free(&sequence);
        sequence_make(&world, &sequence, 10 + i, BLOCKS * PAGE);
        request_fill(&world, &request, &sequence, BLOCKS * PAGE);
        do {
            world.store->pages_pack = world.store->row_pack = true;
            assert_ok(selene_publish(world.store, sequence.prefix, BLOCKS * PAGE, &request.state, &result));
        } while (result.answer == SELENE_RETRY && world_poll(&world, &event, 1) == 0);
        assert_int_equal(result.answer, SELENE_ACCEPTED);
        for (int count = 0; count == 0;) {
            count = world_poll(&world, &event, 1);
            lacking += world.store->lacking_count;
        }
        assert_int_equal(event.result, 0);
        assert_int_equal(world_restore(&world, &request, &sequence, BLOCKS * PAGE, NULL), BLOCKS * PAGE);
    }
    assert_true(lacking > 0);
    assert_true(world_stats(&world).evictions[SELENE_TIER_DISK] > 0);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts), cmocka_unit_test(test_later_window), cmocka_unit_test(test_later_record),
        cmocka_unit_test(test_cancel),  cmocka_unit_test(test_waits),        cmocka_unit_test(test_oversize),
        cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
