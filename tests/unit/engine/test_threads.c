/* SPDX-License-Identifier: Apache-2.0
 *
 * Real threads, a real disk, little memory, many requests at once: every restored byte is compared with what its key
 * says it must be [fault 1]; and the memory that all of it takes [fault 29].
 */
#include "tests/unit/engine/world.h"

#include <unistd.h>

#define REQUESTS  12
#define SEQUENCES 40
#define TOKENS    200
#define BLOCKS    ((TOKENS + 7) / 8)

struct flight {
    struct device_request device;
    uint64_t ticket;
    uint32_t sequence, tokens;
    bool restore;
};

static struct world world;
static struct sequence sequences[SEQUENCES];
static struct flight flights[REQUESTS];
static uint64_t restored_tokens, restores, publishes;

static void start(struct flight *flight, struct sel_random *random) {
    struct selene_publish_result result;
    struct selene_match match;
    flight->sequence = (uint32_t)sel_random_below(random, SEQUENCES);
    flight->restore = sel_random_below(random, 2);
    struct sequence *sequence = &sequences[flight->sequence];
    if (flight->restore) {
        assert_ok(selene_lookup(world.store, sequence->prefix, 1 + sel_random_below(random, TOKENS), &match));
        flight->tokens = (uint32_t)match.tokens;
        if (match.tokens == 0)
            return;
        request_clear(&world, &flight->device, 0xee);
        if (selene_restore(world.store, sequence->prefix, match.tokens, &flight->device.state, &flight->ticket))
            flight->ticket = 0;
        return;
    }
    flight->tokens = 1 + (uint32_t)sel_random_below(random, TOKENS);
    request_fill(&world, &flight->device, sequence, flight->tokens);
    assert_ok(selene_publish(world.store, sequence->prefix, flight->tokens, &flight->device.state, &result));
    if (result.answer == SELENE_ACCEPTED)
        flight->ticket = result.ticket;
}

static void finish(const struct selene_event *event) {
    for (int i = 0; i < REQUESTS; i++) {
        struct flight *flight = &flights[i];
        if (flight->ticket != event->ticket)
            continue;
        flight->ticket = 0;
        if (!flight->restore) {
            publishes += event->result == 0;
            return;
        }
        restores++;
        restored_tokens += event->tokens;
        assert_int_equal(
            request_wrong(&world, &flight->device, &sequences[flight->sequence], (uint32_t)event->tokens, true), 0);
        assert_true(event->result == 0 || event->result == SELENE_E_GONE);
        return;
    }
}

static void run(const struct world_layout *shape, uint64_t warm_slots, bool threads_disk, uint64_t steps) {
    struct sel_random random;
    sel_random_seed(&random, 7 + warm_slots);
    world_init(&world, shape, REQUESTS * BLOCKS, warm_slots, false);
    world_disk(&world, 1);
    world.options.disk_threads_only = threads_disk;
    world_open(&world);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        sequence_fork(&world, &sequences[i], &sequences[i ? i - 1 : 0], i % 4 ? 60 + i : 0, i, TOKENS);
    for (int i = 0; i < REQUESTS; i++)
        request_make(&world, &flights[i].device, (uint32_t)i * BLOCKS, BLOCKS);
    restored_tokens = restores = publishes = 0;
    for (uint64_t step = 0; step < steps; step++) {
        struct selene_event events[4];
        for (int i = 0; i < REQUESTS; i++)
            if (!flights[i].ticket)
                start(&flights[i], &random);
        int count = world_poll(&world, events, 4);
        for (int i = 0; i < count; i++)
            finish(&events[i]);
        if (step % 64 == 0)
            world_check(&world);
    }
    assert_true(publishes > 10 && restores > 10);
    world_close(&world); /* with requests in flight */
    for (int i = 0; i < REQUESTS; i++) {
        flights[i].ticket = 0;
        request_free(&world, &flights[i].device);
    }
    for (uint32_t i = 0; i < SEQUENCES; i++)
        sequence_free(&sequences[i]);
    world_destroy(&world);
}

static void test_stress(void **state) {
    uint64_t steps = test_count("SELENE_TEST_STEPS", 1500);
    (void)state;
    /* Compared on the workers: some records are packed, some not [K1]. */
    struct world_layout mixed = world_with_rows;
    mixed.pages_alike = mixed.row_alike = true;
    mixed.differ_every = 3;
    run(&mixed, 30, false, steps);
    run(&world_without_rows, 30, true, steps);
    run(&mixed, 0, false, steps);
}

static uint64_t resident_bytes(void) {
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &pages, &resident), 2);
    fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* [M2, fault 29]: configured memory is memory used, within 5 %, the index and small things aside. */
static void test_resident(void **state) {
    const struct world_layout shape = {
        .page_tokens = 64, .rank_count = 1, .entry_bytes = {4096, 12288}, .entry_tokens = {1, 1}, .row_bytes = 0};
    struct sequence sequence;
    struct device_request request;
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    if (access("/proc/self/statm", R_OK)) {
        print_message("no /proc: resident memory cannot be read\n");
        skip();
    }
    world_init(&world, &shape, 64, 64, false);
    world.env.poison_slots = false;
    world_disk(&world, 1);
    world.env.segment_bytes = 0;
    request_make(&world, &request, 0, 64);
    request_clear(&world, &request, 1); /* resident before */
    uint64_t before = resident_bytes();
    world_open(&world);
    uint64_t configured = world_stats(&world).slots_total * world.slot_bytes;
    for (uint64_t i = 0; i < 12; i++) {
        sequence_make(&world, &sequence, i, 64 * 16);
        assert_int_equal(world_publish(&world, &request, &sequence, 64 * 16), SELENE_ACCEPTED);
        assert_int_equal(world_restore(&world, &request, &sequence, 64 * 16, NULL), 64 * 16);
        sequence_free(&sequence);
    }
    uint64_t used = resident_bytes() - before;
    print_message("configured %lu MiB, used %lu MiB\n", (unsigned long)(configured >> 20), (unsigned long)(used >> 20));
    assert_true(used <= configured + configured / 20 + (8 << 20));
    request_free(&world, &request);
    world_destroy(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stress), cmocka_unit_test(test_resident)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
