/* SPDX-License-Identifier: Apache-2.0
 *
 * The public API at its edges: options that are wrong, calls that are wrong, forks, sleeping and waking.
 */
#include "tests/unit/engine/world.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct world world;

static void refused(const char *what, int expected) {
    struct selene_message message;
    selene_store *store = (void *)1;
    assert_int_equal(sel_store_open_env(&store, &world.options, &world.env, &message), expected);
    assert_null(store);
    if (strstr(message.text, what) == NULL)
        fail_msg("\"%s\" does not name %s", message.text, what);
}

/* Each bad option: a message that names it; nothing is made. */
static void test_bad_options(void **state) {
    (void)state;
#define BAD(change, what)                                                                                              \
    do {                                                                                                               \
        world_init(&world, &world_with_rows, 4, 10, false);                                                            \
        change;                                                                                                        \
        refused(what, SELENE_E_INVALID);                                                                               \
        world_destroy(&world);                                                                                         \
    } while (0)
    BAD(world.options.struct_bytes = 8, "struct_bytes");
    BAD(world.options.layout = NULL, "layout");
    BAD(world.layout.page_tokens = 0, "page_tokens");
    BAD(world.options.planes = NULL, "planes");
    BAD(world.memory[1].base = NULL, "plane 1");
    BAD(world.memory[1].stride_bytes = 1, "stride_bytes");
    BAD(world.memory[3].stride_bytes = UINT64_MAX / 2, "rank 1 plane 1: stride_bytes");
    BAD(world.options.block_count = 0, "block_count");
    BAD(world.options.memory_bytes = 100, "memory_bytes");
    BAD(world.options.memory_bytes = UINT64_MAX, "memory_bytes");
    BAD(world.options.host_budget_bytes = 4096, "host_budget_bytes");
    BAD(world.options.max_active_requests = 1 << 20, "max_active_requests");
    BAD(world.options.page_group = 1 << 20, "page_group");
    BAD(world.options.spare_rows = SELENE_SPARE_ROWS_MAX + 1, "spare_rows");
    BAD(world.options.prefill_tokens_per_s = -1, "prefill_tokens_per_s");
    BAD(world.options.prefill_tokens_per_s = (double)NAN, "prefill_tokens_per_s");
    BAD(world.options.worker_threads = 1000, "worker_threads");
    BAD(world.options.durability = 7, "durability");
    BAD(world.options.disk_directory = "", "disk_directory");
    BAD(world.options.disk_limit_bytes = 1000, "disk_limit_bytes");
#undef BAD
    world_init(&world, &world_with_rows, 4, 10, false);
    world.options.disk_directory = "no/such/parent";
    refused("no/such/parent", SELENE_E_IO);
    assert_int_equal(access("no", F_OK), -1);
    world_destroy(&world);
}

/* [D1, fault 16]: one directory, one store. */
static void test_directory_in_use(void **state) {
    struct world other;
    struct selene_message message;
    (void)state;
    world_init(&world, &world_with_rows, 4, 10, false);
    world_disk(&world, 1);
    world_open(&world);
    world_init(&other, &world_with_rows, 4, 10, false);
    other.options.disk_directory = world.directory;
    assert_int_equal(selene_open(&other.store, &other.options, &message), SELENE_E_IN_USE);
    assert_non_null(strstr(message.text, world.directory));
    world_close(&world);
    assert_ok(selene_open(&other.store, &other.options, &message));
    world_destroy(&other);
    world_destroy(&world);
}

static void count_warnings(void *context, int level, const char *text) {
    int *count = context;
    *count += level == SEL_LOG_WARNING && strstr(text, "host_budget_bytes") != NULL;
}

/* [M2]: the intake shrinks to fit the budget, with one warning that names what it needs, and the store works. */
static void test_budget(void **state) {
    struct sequence sequence;
    struct device_request request;
    int warnings = 0;
    (void)state;
    world_init(&world, &world_with_rows, 64, 20, false);
    world_disk(&world, 1);
    world.options.host_budget_bytes = 24 * world.slot_bytes;
    world.options.log = count_warnings;
    world.options.log_context = &warnings;
    world.options.log_level = SEL_LOG_WARNING;
    world_open(&world);
    assert_int_equal(warnings, 1);
    assert_int_equal(world_stats(&world).slots_total, 24);
    assert_int_equal(world_stats(&world).slots_intake, 12);
    request_make(&world, &request, 0, 20);
    for (uint64_t i = 0; i < 10; i++) {
        sequence_make(&world, &sequence, i, 100);
        assert_int_equal(world_publish(&world, &request, &sequence, 64), SELENE_ACCEPTED);
        assert_int_equal(world_restore(&world, &request, &sequence, 99, NULL), 64);
        sequence_free(&sequence);
    }
    request_free(&world, &request);
    world_destroy(&world);
}

static void test_misuse(void **state) {
    struct sequence sequence;
    struct device_request request;
    struct selene_publish_result result;
    struct selene_match match;
    struct selene_event event;
    uint64_t ticket;
    uint8_t key[32];
    (void)state;
    world_init(&world, &world_with_rows, 64, 20, false);
    world_open(&world);
    request_make(&world, &request, 0, 20);
    sequence_make(&world, &sequence, 1, 100);
    selene_store *store = world.store;
    const struct selene_device_state good = request.state;
    assert_int_equal(selene_lookup(NULL, sequence.prefix, 1, &match), SELENE_E_INVALID);
    assert_int_equal(selene_lookup(store, NULL, 1, &match), SELENE_E_INVALID);
    assert_int_equal(selene_lookup(store, sequence.prefix, 1, NULL), SELENE_E_INVALID);
    assert_ok(selene_lookup(store, sequence.prefix, UINT64_MAX, &match));
    assert_int_equal(match.tokens, 0);
    assert_int_equal(match.tier, SELENE_TIER_NONE);
    assert_int_equal(selene_publish(store, sequence.prefix, 101, &good, &result), SELENE_E_INVALID);
    assert_int_equal(selene_publish(store, sequence.prefix, 0, &good, &result), SELENE_E_INVALID);
    assert_int_equal(selene_publish(store, sequence.prefix, 50, NULL, &result), SELENE_E_INVALID);
    assert_int_equal(selene_publish(store, sequence.prefix, 50, &good, NULL), SELENE_E_INVALID);
    struct selene_device_state bad = good;
    bad.block_count = 6; /* 50 tokens need 7 */
    assert_int_equal(selene_publish(store, sequence.prefix, 50, &bad, &result), SELENE_E_INVALID);
    bad = good;
    bad.rows = NULL;
    assert_int_equal(selene_publish(store, sequence.prefix, 50, &bad, &result), SELENE_E_INVALID);
    request.blocks[3] = 64;
    assert_int_equal(selene_publish(store, sequence.prefix, 50, &good, &result), SELENE_E_INVALID);
    request.blocks[3] = 1;
    assert_int_equal(selene_restore(store, sequence.prefix, 50, &good, &ticket), SELENE_E_NOTFOUND);
    assert_int_equal(selene_restore(store, sequence.prefix, 101, &good, &ticket), SELENE_E_INVALID);
    assert_int_equal(selene_restore(store, sequence.prefix, 50, &bad, &ticket), SELENE_E_INVALID);
    assert_int_equal(selene_restore(store, sequence.prefix, 50, &good, NULL), SELENE_E_INVALID);
    assert_int_equal(selene_cancel(store, 77), SELENE_E_NOTFOUND);
    assert_int_equal(selene_drain(store, 0, NULL), SELENE_E_INVALID);
    assert_int_equal(selene_poll(store, NULL, 1), SELENE_E_INVALID);
    assert_int_equal(selene_poll(store, NULL, 0), 0);
    assert_int_equal(selene_poll(store, &event, 1), 0);
    assert_int_equal(selene_prefix_append(sequence.prefix, NULL, 3), SELENE_E_INVALID);
    assert_int_equal(selene_prefix_append(NULL, sequence.tokens, 3), SELENE_E_INVALID);
    assert_int_equal(selene_prefix_key(sequence.prefix, 101, key), SELENE_E_INVALID);
    selene_publish_abandoned(store, -1);
    selene_publish_abandoned(store, 99);
    selene_prefix_destroy(NULL);
    assert_ok(selene_close(NULL));
    /* A prefix of another layout. */
    struct world other;
    struct sequence foreign;
    world_init(&other, &world_without_rows, 4, 10, false);
    world_open(&other);
    sequence_make(&other, &foreign, 1, 50);
    assert_int_equal(selene_lookup(store, foreign.prefix, 50, &match), SELENE_E_INVALID);
    sequence_free(&foreign);
    world_destroy(&other);
    /* A drain where there is no disk. */
    assert_int_equal(world_publish(&world, &request, &sequence, 50), SELENE_ACCEPTED);
    event = world_drain(&world);
    assert_int_equal(event.result, SELENE_E_UNSUPPORTED);
    assert_int_equal(event.drained_skipped_failed, 1);
    sequence_free(&sequence);
    request_free(&world, &request);
    world_destroy(&world);
}

/* A forked child is told so and has no share in the slots, and the parent does not notice. */
static void test_fork(void **state) {
    struct sequence sequence;
    struct device_request request;
    struct selene_match match;
    (void)state;
    world_init(&world, &world_with_rows, 64, 20, false);
    world_disk(&world, 1);
    world_open(&world);
    request_make(&world, &request, 0, 20);
    sequence_make(&world, &sequence, 1, 100);
    assert_int_equal(world_publish(&world, &request, &sequence, 50), SELENE_ACCEPTED);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct selene_event event;
        bool good = selene_lookup(world.store, sequence.prefix, 50, &match) == SELENE_E_FORKED &&
                    selene_poll(world.store, &event, 1) == SELENE_E_FORKED &&
                    selene_prefix_append(sequence.prefix, sequence.tokens, 1) == SELENE_E_FORKED &&
                    selene_close(&world.store) == SELENE_E_FORKED;
        /* Nor does a store of its own take the parent's prefix. */
#ifndef __SANITIZE_THREAD__ /* which lets no forked child start threads */
        selene_store *store;
        uint64_t ticket;
        struct selene_options options = world.options;
        options.disk_directory = NULL;
        good = good && selene_open(&store, &options, NULL) == 0 &&
               selene_lookup(store, sequence.prefix, 50, &match) == SELENE_E_FORKED &&
               selene_restore(store, sequence.prefix, 50, &request.state, &ticket) == SELENE_E_FORKED &&
               selene_close(&store) == 0;
#endif
        unsigned char resident;
        good = good && mincore(world.store->slots.base, 1, &resident) == -1 && errno == ENOMEM;
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(world_restore(&world, &request, &sequence, 100, NULL), 50);
    sequence_free(&sequence);
    request_free(&world, &request);
    world_destroy(&world);
}

static bool readable(const selene_store *store) {
    struct pollfd fd = {.fd = selene_event_fd(store), .events = POLLIN};
    return poll(&fd, 1, 0) == 1;
}

/* A caller that sleeps on the eventfd and the deadline gets every event; an idle store stays quiet. */
static void test_sleeping(void **state) {
    struct sequence sequence;
    struct device_request request, other;
    struct selene_event event;
    (void)state;
    world_init(&world, &world_with_rows, 64, 8, false);
    world_disk(&world, 1);
    world_open(&world);
    request_make(&world, &request, 0, 20);
    request_make(&world, &other, 20, 20);
    for (uint64_t i = 0; i < 40; i++) {
        struct selene_publish_result result;
        uint64_t ticket = 0;
        sequence_make(&world, &sequence, i, 30);
        request_fill(&world, &request, &sequence, 30);
        do {
            assert_ok(selene_publish(world.store, sequence.prefix, 30, &request.state, &result));
            if (result.answer == SELENE_RETRY)
                assert_true(selene_poll(world.store, &event, 1) >= 0);
        } while (result.answer == SELENE_RETRY);
        ticket = result.ticket;
        for (int round = 0; round < 2; round++) {
            for (;;) {
                struct pollfd fd = {.fd = selene_event_fd(world.store), .events = POLLIN};
                uint64_t deadline = selene_deadline_ns(world.store), now = sel_mono_ns(sel_clock_system());
                uint64_t ns = deadline > now ? SEL_MIN(deadline - now, 20 * SEL_NS_PER_SECOND) : 0;
                assert_true(poll(&fd, 1, (int)(ns / SEL_NS_PER_MS) + 1) == 1 || ns < 19 * SEL_NS_PER_SECOND);
                if (selene_poll(world.store, &event, 1) == 1)
                    break;
            }
            assert_int_equal(event.ticket, ticket);
            assert_int_equal(event.result, 0);
            if (round == 0)
                assert_ok(selene_restore(world.store, sequence.prefix, 30, &request.state, &ticket));
        }
        sequence_free(&sequence);
    }
    /* What a poll left behind is still announced. */
    sequence_make(&world, &sequence, 100, 30);
    assert_int_equal(world_publish(&world, &request, &sequence, 30), SELENE_ACCEPTED);
    uint64_t tickets[2];
    for (int i = 0; i < 2; i++)
        assert_ok(selene_restore(world.store, sequence.prefix, 30, i ? &other.state : &request.state, &tickets[i]));
    while (sel_list_empty(&world.store->events))
        assert_true(selene_poll(world.store, NULL, 0) == 0);
    assert_true(readable(world.store));
    for (int left = 2; left > 0;) {
        assert_ok(selene_wait(world.store, SEL_NS_PER_SECOND));
        left -= selene_poll(world.store, &event, 1);
    }
    assert_int_equal(world_drain(&world).result, 0);
    bool quiet = false;
    for (int i = 0; i < 10000 && !quiet; i++) {
        assert_true(selene_poll(world.store, &event, 1) == 0);
        quiet = !readable(world.store) && world.store->quiet;
    }
    assert_true(quiet);
    sequence_free(&sequence);
    request_free(&world, &other);
    request_free(&world, &request);
    world_destroy(&world);
}

/* Stands for a disk whose ring completes something in the middle of a poll, after the poll looked for completions. */
struct late_device {
    struct sel_device device;
    int event_fd; /* -1: nothing completes */
};
static void late_poll(struct sel_device *device) {
    const struct late_device *late = SEL_CONTAINER(device, struct late_device, device);
    if (late->event_fd >= 0)
        assert_ok(eventfd_write(late->event_fd, 1));
}

/* What is announced during a poll is still announced after it: a caller that only waits is not left asleep. */
static void test_late_signal(void **state) {
    static const struct sel_device_ops ops = {.poll = late_poll};
    struct late_device late = {{&ops}, -1};
    struct selene_event event;
    (void)state;
    world_init(&world, &world_with_rows, 4, 10, true);
    world.env.device = &late.device;
    world_open(&world);
    assert_true(selene_poll(world.store, &event, 1) == 0);
    for (int quiet = 0; quiet < 2; quiet++) {
        while (readable(world.store) || !world.store->quiet)
            assert_true(selene_poll(world.store, &event, 1) == 0);
        world.store->quiet = quiet; /* 0: as after a poll that found something to do */
        late.event_fd = selene_event_fd(world.store);
        assert_true(selene_poll(world.store, &event, 1) == 0);
        late.event_fd = -1;
        assert_true(readable(world.store));
    }
    world_destroy(&world);
}

/* Records of another layout in the same directory: never matched, never lost, in nobody's way. */
static void test_two_layouts(void **state) {
    struct world other;
    struct sequence sequence, theirs;
    struct device_request request, their_request;
    (void)state;
    world_init(&world, &world_with_rows, 64, 20, false);
    world_disk(&world, 1);
    world_open(&world);
    request_make(&world, &request, 0, 20);
    sequence_make(&world, &sequence, 1, 100);
    assert_int_equal(world_publish(&world, &request, &sequence, 50), SELENE_ACCEPTED);
    assert_int_equal(world_drain(&world).result, 0);
    world_close(&world);
    world_init(&other, &world_without_rows, 64, 20, false);
    other.options.disk_directory = world.directory;
    world_open(&other);
    request_make(&other, &their_request, 0, 20);
    sequence_make(&other, &theirs, 1, 100);
    assert_int_equal(world_lookup(&other, &theirs, 100, NULL), 0);
    assert_int_equal(world_publish(&other, &their_request, &theirs, 96), SELENE_ACCEPTED);
    assert_int_equal(world_drain(&other).result, 0);
    world_check(&other);
    world_close(&other);
    world_open(&world);
    sequence_prefix(&world, &sequence);
    assert_int_equal(world_stats(&world).records[SELENE_TIER_DISK], 4);
    assert_int_equal(world_restore(&world, &request, &sequence, 100, NULL), 50);
    sequence_free(&theirs);
    request_free(&other, &their_request);
    world_destroy(&other);
    sequence_free(&sequence);
    request_free(&world, &request);
    world_destroy(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_options), cmocka_unit_test(test_directory_in_use),
        cmocka_unit_test(test_budget),      cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_fork),        cmocka_unit_test(test_sleeping),
        cmocka_unit_test(test_late_signal), cmocka_unit_test(test_two_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
