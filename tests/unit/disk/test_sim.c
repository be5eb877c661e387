/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated disk keeps its word: what a sync covered survives every crash, what it did not may go in any part, and
 * the same seed gives the same run. If this is wrong, every crash test above it proves nothing.
 */
#include "base/random.h"
#include "tests/unit/disk/fixture.h"

#define BLOCKS 16
#define BYTES  (BLOCKS * 4096)

static struct fixture f;

static int setup(void **state) {
    (void)state;
    fixture_open(&f, SIDE_SIM, NULL, 0);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    fixture_close(&f);
    return 0;
}

static void reopen(enum sel_disk_sim_crash mode, uint64_t seed) {
    f.disk->ops->destroy(f.disk);
    sel_disk_sim_crash(f.sim, mode, seed);
    assert_ok(sel_disk_sim_open(&f.disk, f.sim, &f.ready));
}

static int durable_file(const uint8_t *bytes) {
    int file;
    assert_ok(run_open(&f, "a", SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, &file));
    assert_ok(run_bytes(&f, SEL_DISK_WRITE, file, 0, (void *)bytes, BYTES));
    assert_ok(run_kind(&f, SEL_DISK_SYNC, file, 0, 0));
    assert_ok(run_names(&f, SEL_DISK_SYNC_DIR, NULL, NULL));
    return file;
}

/* How many sectors of the file are like `after`; all others must be like `before`. */
static int sectors_after(const uint8_t *before, const uint8_t *after) {
    static uint8_t in[BYTES];
    int count = 0;
    assert_ok(sel_disk_sim_peek(f.sim, "a", 0, in, BYTES));
    for (size_t at = 0; at < BYTES; at += 512) {
        bool new = memcmp(in + at, after + at, 512) == 0;
        assert_true(new || memcmp(in + at, before + at, 512) == 0);
        count += new;
    }
    return count;
}

static void unsynced_writes_go_in_any_part(void **state) {
    (void)state;
    uint8_t *before = memory_new(BYTES, 1), *after = memory_new(BYTES, 2);
    int all = 0, none = 0, torn = 0, blocks = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        int file = durable_file(before);
        assert_ok(run_bytes(&f, SEL_DISK_WRITE, file, 0, after, BYTES));
        reopen(SEL_DISK_SIM_RANDOM, seed);
        int count = sectors_after(before, after);
        all += count == BYTES / 512;
        none += count == 0;
        torn += count % 8 != 0;
        blocks += count > 0 && count < BYTES / 512;
        assert_ok(run_names(&f, SEL_DISK_UNLINK, "a", NULL));
    }
    assert_true(all > 10 && none > 10 && torn > 10 && blocks > 10);
    free(before);
    free(after);
}

static void synced_writes_survive(void **state) {
    (void)state;
    uint8_t *before = memory_new(BYTES, 1), *after = memory_new(BYTES, 2);
    for (uint64_t seed = 0; seed < 50; seed++) {
        int file = durable_file(before);
        assert_ok(run_bytes(&f, SEL_DISK_WRITE, file, 0, after, BYTES));
        assert_ok(run_kind(&f, SEL_DISK_SYNC, file, 0, 0));
        assert_ok(run_kind(&f, SEL_DISK_PUNCH, file, 0, 4096));
        assert_ok(run_bytes(&f, SEL_DISK_WRITE, file, 0, after, 4096));
        reopen(SEL_DISK_SIM_RANDOM, seed);
        static uint8_t in[BYTES];
        assert_ok(sel_disk_sim_peek(f.sim, "a", 4096, in, BYTES - 4096));
        assert_memory_equal(in, after + 4096, BYTES - 4096);
        assert_ok(run_names(&f, SEL_DISK_UNLINK, "a", NULL));
    }
    free(before);
    free(after);
}

struct ticket {
    struct sel_disk_io io;
    struct iovec iov;
    int result;
    bool busy;
};

static void ticket_done(struct sel_op *op) {
    ((struct ticket *)op)->result = op->result;
    ((struct ticket *)op)->busy = false;
}

static void start(struct ticket *ticket, int kind, int file, uint64_t offset, uint8_t *bytes, size_t count) {
    ticket->iov = (struct iovec){.iov_base = bytes, .iov_len = count};
    ticket->io = (struct sel_disk_io){
        .kind = (uint8_t)kind, .file = file, .offset = offset, .iov = &ticket->iov, .iov_count = 1};
    sel_op_init(&ticket->io.op, ticket_done);
    ticket->busy = true;
    sel_disk_submit(f.disk, &ticket->io);
}

/* A sync covers what was done when it was submitted, not what was in flight beside it. */
static void a_sync_does_not_cover_what_is_in_flight(void **state) {
    (void)state;
    uint8_t *before = memory_new(BYTES, 1), *after = memory_new(BYTES, 2);
    int file = durable_file(before);
    static struct ticket write, sync;
    start(&write, SEL_DISK_WRITE, file, 0, after, BYTES);
    start(&sync, SEL_DISK_SYNC, file, 0, NULL, 0);
    while (write.busy || sync.busy)
        fixture_poll(&f);
    assert_true(write.result == 0 && sync.result == 0);
    struct sel_clock_manual clock;
    sel_clock_manual_init(&clock);
    struct sel_disk_sim *twin, *original = f.sim;
    assert_ok(sel_disk_sim_clone(&twin, f.sim, 1, &clock));
    sel_disk_sim_crash(twin, SEL_DISK_SIM_DROP, 1);
    f.sim = twin;
    assert_int_equal(sectors_after(before, after), 0);
    f.sim = original;
    sel_disk_sim_destroy(&twin);
    assert_int_equal(sectors_after(before, after), BYTES / 512); /* the original goes on undisturbed */
    assert_ok(run_kind(&f, SEL_DISK_SYNC, file, 0, 0));
    reopen(SEL_DISK_SIM_DROP, 1);
    assert_int_equal(sectors_after(before, after), BYTES / 512);
    free(before);
    free(after);
}

static void names_need_a_sync_of_the_directory(void **state) {
    (void)state;
    uint8_t *bytes = memory_new(BYTES, 1);
    int file, kept = 0, dropped = 0;
    uint64_t size;
    for (uint64_t seed = 0; seed < 60; seed++) {
        assert_ok(run_open(&f, "b", SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, &file));
        assert_ok(run_bytes(&f, SEL_DISK_WRITE, file, 0, bytes, BYTES));
        assert_ok(run_kind(&f, SEL_DISK_SYNC, file, 0, 0));
        reopen(SEL_DISK_SIM_RANDOM, seed);
        bool there = sel_disk_sim_size(f.sim, "b", &size) == 0;
        assert_int_equal(size, there ? BYTES : 0);
        kept += there;
        dropped += !there;
        if (there)
            assert_ok(run_names(&f, SEL_DISK_UNLINK, "b", NULL));
        assert_ok(run_names(&f, SEL_DISK_SYNC_DIR, NULL, NULL));
    }
    assert_true(kept > 10 && dropped > 10);
    durable_file(bytes);
    assert_ok(run_names(&f, SEL_DISK_UNLINK, "a", NULL));
    reopen(SEL_DISK_SIM_DROP, 1);
    assert_ok(sel_disk_sim_size(f.sim, "a", &size)); /* the removal was lost, the bytes are back */
    assert_int_equal(size, BYTES);
    assert_ok(run_names(&f, SEL_DISK_RENAME, "a", "c"));
    assert_ok(run_names(&f, SEL_DISK_SYNC_DIR, NULL, NULL));
    reopen(SEL_DISK_SIM_DROP, 1);
    assert_ok(sel_disk_sim_size(f.sim, "c", &size));
    assert_int_equal(sel_disk_sim_size(f.sim, "a", &size), SELENE_E_NOTFOUND);
    free(bytes);
}

static void a_failed_sync_is_not_made_good_by_the_next(void **state) {
    (void)state;
    uint8_t *before = memory_new(BYTES, 1), *after = memory_new(BYTES, 2);
    int lost = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        int file = durable_file(before);
        assert_ok(run_bytes(&f, SEL_DISK_WRITE, file, 0, after, BYTES));
        sel_disk_sim_fail_sync(f.sim, 1);
        assert_int_equal(run_kind(&f, SEL_DISK_SYNC, file, 0, 0), SELENE_E_IO);
        assert_int_equal(sectors_after(before, after), BYTES / 512); /* reads see it */
        assert_ok(run_kind(&f, SEL_DISK_SYNC, file, 0, 0));
        reopen(SEL_DISK_SIM_DROP, seed);
        lost += sectors_after(before, after) == 0;
        assert_ok(run_names(&f, SEL_DISK_UNLINK, "a", NULL));
        assert_ok(run_names(&f, SEL_DISK_SYNC_DIR, NULL, NULL));
    }
    assert_true(lost > 2 && lost < 18);
    free(before);
    free(after);
}

/* From the cut on nothing changes, and everything in flight fails; what was submitted may have got there. */
static void power_is_cut_at_a_step(void **state) {
    (void)state;
    uint8_t *before = memory_new(BYTES, 1), *after = memory_new(BYTES, 2);
    int kept = 0, dropped = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        static struct ticket write;
        struct sel_disk_sim_stats stats;
        int file = durable_file(before);
        sel_disk_sim_get_stats(f.sim, &stats);
        sel_disk_sim_cut_at(f.sim, stats.steps + 2); /* 1: submitted, 2: would complete */
        start(&write, SEL_DISK_WRITE, file, 0, after, BYTES);
        assert_false(sel_disk_sim_is_cut(f.sim));
        while (write.busy)
            fixture_poll(&f);
        assert_true(sel_disk_sim_is_cut(f.sim));
        assert_int_equal(write.result, SELENE_E_IO);
        assert_int_equal(run_kind(&f, SEL_DISK_SYNC, file, 0, 0), SELENE_E_IO);
        reopen(SEL_DISK_SIM_RANDOM, seed);
        int count = sectors_after(before, after);
        kept += count > 0;
        dropped += count == 0;
        assert_ok(run_names(&f, SEL_DISK_UNLINK, "a", NULL));
    }
    assert_true(kept > 10 && dropped > 10);
    free(before);
    free(after);
}

static void the_capacity_is_a_limit(void **state) {
    (void)state;
    teardown(NULL);
    memset(&f, 0, sizeof f);
    sel_ready_init(&f.ready, NULL, NULL);
    sel_clock_manual_init(&f.clock);
    f.event_fd = -1;
    struct sel_disk_sim_config config = {.seed = 1, .capacity_bytes = 2 * BYTES};
    assert_ok(sel_disk_sim_create(&f.sim, &config, &f.clock));
    assert_ok(sel_disk_sim_open(&f.disk, f.sim, &f.ready));
    uint8_t *bytes = memory_new(BYTES, 1);
    int file;
    assert_ok(run_open(&f, "a", SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, &file));
    assert_ok(run_kind(&f, SEL_DISK_ALLOCATE, file, 0, BYTES));
    assert_ok(run_bytes(&f, SEL_DISK_WRITE, file, 0, bytes, BYTES));
    assert_ok(run_bytes(&f, SEL_DISK_WRITE, file, BYTES, bytes, BYTES));
    assert_int_equal(run_bytes(&f, SEL_DISK_WRITE, file, 2 * BYTES, bytes, 4096), SELENE_E_NOSPACE);
    assert_int_equal(run_kind(&f, SEL_DISK_ALLOCATE, file, 0, 4 * BYTES), SELENE_E_NOSPACE);
    assert_ok(run_kind(&f, SEL_DISK_PUNCH, file, 0, 4096));
    assert_ok(run_bytes(&f, SEL_DISK_WRITE, file, 2 * BYTES, bytes, 4096));
    free(bytes);
}

static uint64_t fingerprint(uint64_t seed) {
    struct fixture other;
    memset(&other, 0, sizeof other);
    other.event_fd = -1;
    sel_ready_init(&other.ready, NULL, NULL);
    sel_clock_manual_init(&other.clock);
    struct sel_disk_sim_config config = {.seed = seed};
    assert_ok(sel_disk_sim_create(&other.sim, &config, &other.clock));
    assert_ok(sel_disk_sim_open(&other.disk, other.sim, &other.ready));
    uint8_t *bytes = memory_new(BYTES, 1), in[512];
    int file;
    uint64_t value = 0;
    assert_ok(run_open(&other, "a", SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, &file));
    for (uint64_t i = 0; i < 8; i++)
        assert_ok(run_bytes(&other, SEL_DISK_WRITE, file, i * 4096, bytes + i * 4096, 4096));
    value = other.clock.mono;
    other.disk->ops->destroy(other.disk);
    other.disk = NULL;
    sel_disk_sim_crash(other.sim, SEL_DISK_SIM_RANDOM, seed);
    uint64_t size;
    if (sel_disk_sim_size(other.sim, "a", &size) == 0)
        for (uint64_t at = 0; at < size; at += 512) {
            assert_ok(sel_disk_sim_peek(other.sim, "a", at, in, 512));
            value = sel_mix64(value ^ in[3]);
        }
    free(bytes);
    fixture_close(&other);
    return value;
}

static void the_same_seed_gives_the_same_run(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++)
        assert_int_equal(fingerprint(seed), fingerprint(seed));
    assert_int_not_equal(fingerprint(1), fingerprint(2));
}

static void overlaps_and_depth_are_counted(void **state) {
    (void)state;
    static struct ticket reads[5], write;
    struct sel_disk_sim_stats stats;
    uint8_t *bytes = memory_new(BYTES, 1), *in = memory_new(5 * BYTES, 2);
    int file = durable_file(bytes);
    for (int i = 0; i < 5; i++)
        start(&reads[i], SEL_DISK_READ, file, 0, in + i * BYTES, BYTES);
    assert_int_equal(in[0], 0xdb); /* poisoned until it is done */
    sel_disk_sim_get_stats(f.sim, &stats);
    assert_int_equal(stats.overlaps, 0);
    assert_int_equal(stats.reads_in_flight_max, 5);
    start(&write, SEL_DISK_WRITE, file, BYTES - 4096, bytes, 4096);
    sel_disk_sim_get_stats(f.sim, &stats);
    assert_int_equal(stats.overlaps, 5);
    assert_int_equal(stats.in_flight, 6);
    for (int i = 0; i < 5; i++)
        while (reads[i].busy || write.busy)
            fixture_poll(&f);
    free(bytes);
    free(in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(unsynced_writes_go_in_any_part, setup, teardown),
        cmocka_unit_test_setup_teardown(synced_writes_survive, setup, teardown),
        cmocka_unit_test_setup_teardown(a_sync_does_not_cover_what_is_in_flight, setup, teardown),
        cmocka_unit_test_setup_teardown(names_need_a_sync_of_the_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_sync_is_not_made_good_by_the_next, setup, teardown),
        cmocka_unit_test_setup_teardown(power_is_cut_at_a_step, setup, teardown),
        cmocka_unit_test_setup_teardown(the_capacity_is_a_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(the_same_seed_gives_the_same_run, setup, teardown),
        cmocka_unit_test_setup_teardown(overlaps_and_depth_are_counted, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
