/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory too small for what is published, a disk that holds it: write-back, restores from disk, restarts.
 */
#include "tests/unit/engine/world.h"

static struct world world;
static struct device_request request;

static void begin(const struct world_layout *shape, uint64_t warm_slots, bool simulated) {
    world_init(&world, shape, 512, warm_slots, simulated);
    world_disk(&world, 1);
    world_open(&world);
    request_make(&world, &request, 0, 64);
}

static void end(void) {
    request_free(&world, &request);
    world_destroy(&world);
}

#define CHAINS 12
static struct sequence chains[CHAINS];
static uint32_t chain_tokens[CHAINS];

/* Publishes chains of checkpoints, some forked from others. */
static void publish_chains(void) {
    for (uint32_t i = 0; i < CHAINS; i++) {
        if (i % 3 == 0)
            sequence_make(&world, &chains[i], i, 200);
        else
            sequence_fork(&world, &chains[i], &chains[i - 1], 37 + i, i, 200);
        for (uint32_t at = 20 + i; at < 130; at += 29 + i) {
            int answer = world_publish(&world, &request, &chains[i], at);
            assert_true(answer == SELENE_ACCEPTED || (answer == SELENE_PRESENT && !world.shape.row_bytes));
            chain_tokens[i] = world.shape.row_bytes ? at : at - at % 8;
        }
    }
}

static void restore_chains(void) {
    for (uint32_t i = 0; i < CHAINS; i++)
        assert_int_equal(world_restore(&world, &request, &chains[i], 199, NULL), chain_tokens[i]);
}

static void free_chains(void) {
    for (uint32_t i = 0; i < CHAINS; i++)
        sequence_free(&chains[i]);
}

/* [P2, P3, M3, R2, P8]: everything ever published comes back, from memory or disk, also after a restart. */
static void everything_comes_back(const struct world_layout *shape, uint64_t warm_slots, bool simulated) {
    begin(shape, warm_slots, simulated);
    publish_chains();
    restore_chains();
    restore_chains();
    struct selene_stats stats = world_stats(&world);
    assert_true(stats.records[SELENE_TIER_DISK] > 0);
    if (warm_slots)
        assert_true(stats.spills > 0 && stats.evictions[SELENE_TIER_MEMORY] > 0);
    assert_true(stats.disk_read_bytes > 0);
    assert_int_equal(stats.checksum_failures[0] + stats.checksum_failures[1], 0);
    struct selene_event event = world_drain(&world);
    assert_int_equal(event.result, 0);
    assert_int_equal(event.drained_skipped_deadline + event.drained_skipped_failed, 0);
    world_close(&world);

    world_open(&world);
    for (uint32_t i = 0; i < CHAINS; i++)
        sequence_prefix(&world, &chains[i]);
    assert_int_equal(world_stats(&world).recovered_records, 0);
    restore_chains();
    free_chains();
    end();
}

static void test_with_rows(void **state) {
    (void)state;
    everything_comes_back(&world_with_rows, 40, true);
    everything_comes_back(&world_with_rows, 40, false);
}
static void test_without_rows(void **state) {
    (void)state;
    everything_comes_back(&world_without_rows, 40, true);
    everything_comes_back(&world_without_rows, 40, false);
}
/* A chain longer than memory: its committed part leaves while the rest is published. */
static void test_tiny_memory(void **state) {
    (void)state;
    everything_comes_back(&world_without_rows, 5, true);
    everything_comes_back(&world_without_rows, 5, false);
}
/* [M5]: no warm tier, records stream through the intake. */
static void test_no_memory(void **state) {
    (void)state;
    everything_comes_back(&world_with_rows, 0, true);
    everything_comes_back(&world_with_rows, 0, false);
    everything_comes_back(&world_without_rows, 0, true);
    everything_comes_back(&world_without_rows, 0, false);
}

/* A close without a drain, or a crash, loses what was only in memory and nothing else [P8]; what is left are whole
 * chains [P3]. */
static void test_crash(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        begin(seed % 2 ? &world_with_rows : &world_without_rows, 40, true);
        publish_chains();
        struct selene_stats before = world_stats(&world);
        if (seed < 5)
            world_crash(&world, seed);
        else
            world_close(&world);
        world_open(&world);
        struct selene_stats after = world_stats(&world);
        assert_true(after.records[SELENE_TIER_DISK] >= before.records[SELENE_TIER_DISK]);
        for (uint32_t i = 0; i < CHAINS; i++) {
            sequence_prefix(&world, &chains[i]);
            assert_true(world_restore(&world, &request, &chains[i], 199, NULL) <= chain_tokens[i]);
        }
        free_chains();
        end();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_with_rows), cmocka_unit_test(test_without_rows), cmocka_unit_test(test_tiny_memory),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
