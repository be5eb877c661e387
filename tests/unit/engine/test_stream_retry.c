/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes that fail while a record streams to disk without a warm tier [P4, M5]: once, and it is done again elsewhere and
 * nothing is lost; twice, and the publish fails, is counted, and its key cannot be found [fault 2].
 */
#include "tests/unit/engine/world.h"

static struct world world;
static struct device_request request;
static struct sequence chain;

static void begin(const struct world_layout *shape, uint64_t seed) {
    world_init(&world, shape, 256, 0, true);
    world_disk(&world, seed);
    world_open(&world);
    request_make(&world, &request, 0, 32);
    sequence_make(&world, &chain, 1, 240);
}

static void end(void) {
    sequence_free(&chain);
    request_free(&world, &request);
    world_destroy(&world);
}

/* One publish of the whole chain: eight records without rows, in flight together; and record by record. */
static void publish_all(bool rows) {
    static const uint32_t at[] = {20, 45, 130, 240};
    for (size_t i = rows ? 0 : 3; i < SEL_COUNT(at); i++)
        assert_int_equal(world_publish(&world, &request, &chain, at[i]), SELENE_ACCEPTED);
}

/* The n-th write fails, for every n. */
static uint64_t nth_write_fails(const struct world_layout *shape, uint64_t n) {
    struct sel_disk_fault fault = {
        .action = n % 2 ? SEL_DISK_FAULT_FAIL : SEL_DISK_FAULT_SHORT, .kinds = 1u << SEL_DISK_WRITE, .countdown = n};
    begin(shape, n);
    sel_disk_fault_arm(world.disk, &fault);
    publish_all(shape->row_bytes > 0);
    sel_disk_fault_clear(world.disk);
    uint64_t retries = world_stats(&world).spill_retries;
    assert_int_equal(world_stats(&world).publishes_failed, 0);
    assert_int_equal(world_restore(&world, &request, &chain, 240, NULL), 240);
    world_close_failed(&world);
    world_open(&world);
    sequence_prefix(&world, &chain);
    assert_int_equal(world_restore(&world, &request, &chain, 240, NULL), 240);
    assert_int_equal(world.store->slots.free_count, world.store->slots.total);
    end();
    return retries;
}

static void test_once(void **state) {
    uint64_t retries = 0;
    (void)state;
    for (uint64_t n = 1; n < 24; n++) {
        retries += nth_write_fails(&world_with_rows, n);
        retries += nth_write_fails(&world_without_rows, n);
    }
    assert_true(retries > 10);
}

/* Both attempts at one record fail. What came before it in the same publish is held; what comes after is not. */
static void test_twice(void **state) {
    (void)state;
    for (int rows = 0; rows < 2; rows++) {
        struct selene_publish_result result;
        struct selene_event event;
        begin(rows ? &world_with_rows : &world_without_rows, 1);
        assert_int_equal(world_publish(&world, &request, &chain, 64), SELENE_ACCEPTED);
        /* The first attempt takes one write a segment; the second the next ones. */
        struct sel_disk_fault fault = {
            .action = SEL_DISK_FAULT_FAIL, .kinds = 1u << SEL_DISK_WRITE, .names = "seg-*", .countdown = 1};
        request_fill(&world, &request, &chain, 96);
        assert_ok(selene_publish(world.store, chain.prefix, 96, &request.state, &result));
        assert_int_equal(result.answer, SELENE_ACCEPTED);
        uint64_t failed = 0;
        for (int round = 0; round < 10000; round++) {
            /* Each attempt's first write fails. */
            if (world_stats(&world).spill_retries == failed && failed < 2) {
                failed++;
                fault.countdown = 1;
                sel_disk_fault_clear(world.disk);
                sel_disk_fault_arm(world.disk, &fault);
            }
            if (world_poll(&world, &event, 1) && event.ticket == result.ticket)
                break;
        }
        sel_disk_fault_clear(world.disk);
        assert_int_equal(event.ticket, result.ticket);
        assert_int_equal(event.result, SELENE_E_IO);
        assert_int_equal(world_stats(&world).spill_retries, 1);
        assert_int_equal(world_stats(&world).publishes_failed, 1);
        assert_int_equal(world_lookup(&world, &chain, 240, NULL), 64);
        assert_int_equal(world_publish(&world, &request, &chain, 240), SELENE_ACCEPTED);
        assert_int_equal(world_restore(&world, &request, &chain, 240, NULL), 240);
        assert_int_equal(world.store->slots.free_count, world.store->slots.total);
        world_close_failed(&world);
        end();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_once), cmocka_unit_test(test_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
