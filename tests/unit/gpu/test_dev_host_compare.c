/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether all ranks' shares are identical [K1]: the answer on random layouts, only valid bytes [L4], how far it reads,
 * events [G2, fault 4], cancelling [R6], numbers out of range.
 */
#include "base/error.h"
#include "tests/unit/gpu/gpu_world.h"

#include <sched.h>
#include <sys/mman.h>

#define PAGES 4

struct question {
    struct sel_compare compare;
    struct sel_copy_item items[PAGES];
    bool done;
};

static void note_done(struct sel_op *op) { SEL_CONTAINER(op, struct question, compare.op)->done = true; }

static void prepare(struct world *world, struct question *question, bool row) {
    question->done = false;
    question->compare = (struct sel_compare){
        .row = row,
        .items = question->items,
        .item_count = PAGES,
        .planes = world->planes,
        .rows = world->rows,
        .block_limit = world->blocks,
        .identical = true,
    };
    sel_op_init(&question->compare.op, note_done);
}

static void submit(struct world *world, struct question *question) {
    world->device->ops->compare(world->device, &question->compare);
    assert_false(question->done);
}

static void poll_once(struct world *world) {
    world->device->ops->poll(world->device);
    if (sel_ready_run(&world->ready, 16) == 0)
        sched_yield();
}

static int finish(struct world *world, struct question *question) {
    while (!question->done)
        poll_once(world);
    return question->compare.op.result;
}

static bool ask(struct world *world, struct question *question, bool row) {
    prepare(world, question, row);
    submit(world, question);
    assert_ok(finish(world, question));
    return question->compare.identical;
}

/* Random device memory in which the valid bytes of the question's pages, and the rows, are alike in all ranks. */
static void make_alike(struct world *world, struct question *question) {
    const struct selene_layout *desc = &world->layout->desc;
    world_fill_random(world, world->arena, world->arena_bytes);
    for (uint32_t i = 0; i < PAGES; i++) {
        struct sel_copy_item *item = &question->items[i];
        *item = (struct sel_copy_item){.block = i + 1, .tokens = desc->page_tokens};
        if (i % 2)
            item->tokens = 1 + (uint32_t)sel_random_below(&world->random, desc->page_tokens);
        for (uint32_t p = 0; p < desc->plane_count; p++)
            for (uint32_t r = 1; r < desc->rank_count; r++)
                memcpy(world_plane(world, r, p, item->block), world_plane(world, 0, p, item->block),
                       sel_layout_valid_bytes(world->layout, p, item->tokens));
    }
    for (uint32_t r = 1; r < desc->rank_count; r++)
        memcpy(world->rows[r], world->rows[0], desc->row_bytes);
}

/* Flips a bit of one rank's byte, asks, and flips it back. */
static bool ask_damaged(struct world *world, struct question *question, bool row, uint8_t *byte) {
    uint8_t flip = (uint8_t)(1 << sel_random_below(&world->random, 8));
    *byte ^= flip;
    bool identical = ask(world, question, row);
    *byte ^= flip;
    return identical;
}

/* Any valid byte of any rank counts, the last one of the last rank too; no invalid one does. */
static void pages_round(uint64_t seed, unsigned threads) {
    struct world world;
    struct question question;
    world_create(&world, seed, threads);
    make_alike(&world, &question);
    assert_true(ask(&world, &question, false));
    const struct selene_layout *desc = &world.layout->desc;
    for (uint32_t i = 0; i < PAGES; i++) {
        const struct sel_copy_item *item = &question.items[i];
        for (uint32_t p = 0; p < desc->plane_count; p++) {
            uint64_t valid = sel_layout_valid_bytes(world.layout, p, item->tokens);
            uint8_t *last = world_plane(&world, desc->rank_count - 1, p, item->block);
            bool one = desc->rank_count == 1;
            if (valid > 0) {
                uint32_t rank = (uint32_t)sel_random_below(&world.random, desc->rank_count);
                uint64_t at = sel_random_below(&world.random, valid);
                assert_int_equal(ask_damaged(&world, &question, false, last), one);
                assert_int_equal(ask_damaged(&world, &question, false, last + valid - 1), one);
                assert_int_equal(ask_damaged(&world, &question, false, world_plane(&world, rank, p, item->block) + at),
                                 one);
            }
            if (valid < desc->planes[p].bytes)
                assert_true(ask_damaged(&world, &question, false, last + valid));
        }
    }
    assert_true(ask(&world, &question, false));
    world_destroy(&world);
}

static void test_pages(void **state) {
    (void)state;
    uint64_t seeds = test_count("SELENE_TEST_SEEDS", 40);
    for (uint64_t seed = 0; seed < seeds; seed++)
        pages_round(seed, (unsigned)(seed % 4));
}

static void test_rows(void **state) {
    (void)state;
    for (uint64_t seed = 100; seed < 160; seed++) {
        struct world world;
        struct question question;
        world_create(&world, seed, (unsigned)(seed % 4));
        make_alike(&world, &question);
        assert_true(ask(&world, &question, true));
        uint32_t ranks = world.layout->desc.rank_count;
        uint64_t bytes = world.layout->desc.row_bytes;
        uint8_t *last = world.rows[ranks - 1];
        uint8_t *some = world.rows[sel_random_below(&world.random, ranks)];
        assert_int_equal(ask_damaged(&world, &question, true, last), ranks == 1);
        assert_int_equal(ask_damaged(&world, &question, true, last + bytes - 1), ranks == 1);
        assert_int_equal(ask_damaged(&world, &question, true, some + sel_random_below(&world.random, bytes)),
                         ranks == 1);
        assert_true(ask_damaged(&world, &question, true, last + bytes)); /* the byte behind it */
        world_destroy(&world);
    }
}

/* Large enough for many jobs: only the last byte of all differs, for each number of threads. */
static void test_many_jobs(void **state) {
    (void)state;
    static const struct selene_plane planes[] = {{300001, 1, 18750}, {70003, 0, 0}};
    static const struct selene_layout big = {
        .page_tokens = 16, .rank_count = 4, .plane_count = 2, .planes = planes, .row_bytes = 5000001};
    for (unsigned threads = 0; threads < 4; threads++) {
        struct world world;
        struct question question;
        world_create_with(&world, 8, threads, &big);
        make_alike(&world, &question);
        question.items[PAGES - 1].tokens = 16;
        assert_true(ask(&world, &question, true));
        assert_false(ask_damaged(&world, &question, true, (uint8_t *)world.rows[3] + 5000000));
        for (uint32_t r = 1; r < 4; r++)
            memcpy(world_plane(&world, r, 0, PAGES), world_plane(&world, 0, 0, PAGES), 300001);
        assert_true(ask(&world, &question, false));
        assert_false(ask_damaged(&world, &question, false, world_plane(&world, 3, 1, PAGES) + 70002));
        world_destroy(&world);
    }
}

/* Memory whose first `readable` bytes, whole pages, are all that may be touched. */
static uint8_t *map_guarded(size_t readable, size_t bytes) {
    uint8_t *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    if (readable > 0)
        assert_int_equal(mprotect(memory, readable, PROT_READ | PROT_WRITE), 0);
    return memory;
}

static const struct selene_plane two_planes[] = {{5000, 0, 0}, {64, 1, 4}};
static const struct selene_layout small = {
    .page_tokens = 16, .rank_count = 2, .plane_count = 2, .planes = two_planes, .row_bytes = 20000};

/* Behind the first difference nothing is read: what lies there cannot be. */
static void test_stops_at_a_difference(void **state) {
    (void)state;
    static const struct selene_plane planes[] = {{131072, 0, 0}, {4096, 0, 0}};
    static const struct selene_layout big = {
        .page_tokens = 16, .rank_count = 2, .plane_count = 2, .planes = planes, .row_bytes = 1 << 24};
    struct world world;
    struct question question;
    world_create_with(&world, 9, 0, &big);
    make_alike(&world, &question);
    uint8_t *row = map_guarded(4096, 1 << 24), *plane = map_guarded(4096, 1 << 24);
    void *rows[2] = {world.rows[0], row};
    memcpy(row, world.rows[0], 4096);
    row[4095] ^= 1;
    prepare(&world, &question, true);
    question.compare.rows = rows;
    submit(&world, &question);
    assert_ok(finish(&world, &question));
    assert_false(question.compare.identical);
    /* Of a replicated plane beside a sharded one, no more than a line. */
    struct sel_device_plane mixed[4];
    memcpy(mixed, world.planes, sizeof mixed);
    mixed[2] = (struct sel_device_plane){.base = plane + 4096 - 64 - 131072, .stride = 131072};
    memcpy(plane + 4096 - 64, world_plane(&world, 0, 0, 1), 64);
    world_plane(&world, 1, 1, 1)[0] ^= 1;
    prepare(&world, &question, false);
    question.compare.planes = mixed;
    submit(&world, &question);
    assert_ok(finish(&world, &question));
    assert_false(question.compare.identical);
    assert_int_equal(munmap(row, 1 << 24) | munmap(plane, 1 << 24), 0);
    world_destroy(&world);
}

/* The producer may still write until the event. */
static void test_waits_for_its_event(void **state) {
    (void)state;
    for (unsigned threads = 0; threads < 3; threads += 2)
        for (int row = 0; row < 2; row++) {
            struct world world;
            struct question question;
            uint32_t event = 0;
            world_create_with(&world, 1, threads, &small);
            make_alike(&world, &question);
            prepare(&world, &question, row);
            question.compare.wait = &event;
            submit(&world, &question);
            for (int i = 0; i < 5; i++)
                poll_once(&world);
            assert_false(question.done);
            *(row ? (uint8_t *)world.rows[1] : world_plane(&world, 1, 0, 1)) ^= 1;
            __atomic_store_n(&event, 1, __ATOMIC_RELEASE);
            assert_ok(finish(&world, &question));
            assert_false(question.compare.identical);
            prepare(&world, &question, row); /* happened before: starts at once, but still ends in a poll */
            question.compare.wait = &event;
            submit(&world, &question);
            assert_ok(finish(&world, &question));
            world_destroy(&world);
        }
}

static void test_cancel(void **state) {
    (void)state;
    for (unsigned threads = 0; threads < 3; threads += 2) {
        struct world world;
        struct question question;
        uint32_t event = 0;
        world_create_with(&world, 2, threads, &small);
        make_alike(&world, &question);
        prepare(&world, &question, false);
        question.compare.wait = &event;
        world.device->ops->cancel_compare(world.device, &question.compare); /* not submitted: no effect */
        submit(&world, &question);
        world.device->ops->cancel_compare(world.device, &question.compare);
        assert_false(question.done); /* completes in the next run, not in here */
        world.device->ops->cancel_compare(world.device, &question.compare);
        event = 1;
        assert_int_equal(finish(&world, &question), SELENE_E_CANCELLED);
        assert_false(question.compare.identical);
        prepare(&world, &question, false);
        question.compare.wait = &event;
        submit(&world, &question);
        world.device->ops->cancel_compare(world.device, &question.compare); /* too late: it runs to its end */
        assert_ok(finish(&world, &question));
        assert_true(question.compare.identical);
        world_destroy(&world);
    }
}

/* Several at once and copies between them: each has its own answer. */
static void test_beside_copies(void **state) {
    (void)state;
    enum { QUESTIONS = 20 };
    static struct question questions[QUESTIONS];
    static uint32_t events[QUESTIONS];
    struct world world;
    uint64_t sums[2];
    world_create_with(&world, 3, 2, &small);
    make_alike(&world, &questions[0]);
    world_plane(&world, 1, 1, 5)[0] = (uint8_t)~world_plane(&world, 0, 1, 5)[0];
    struct sel_copy_item alike = questions[0].items[3], different = {.block = 5, .tokens = 16};
    struct sel_copy_item item = {.slot = world_slot(&world, 0), .block = 3, .tokens = 16, .sums = sums};
    for (int i = 0; i < QUESTIONS; i++) {
        memcpy(questions[i].items, questions[0].items, sizeof questions[i].items);
        questions[i].items[3] = i % 3 ? alike : different;
        prepare(&world, &questions[i], false);
        questions[i].compare.wait = i % 2 ? &events[i] : NULL;
        submit(&world, &questions[i]);
    }
    world_prepare(&world, SEL_COPY_OUT, &item, 1);
    assert_ok(world_copy(&world));
    for (int i = QUESTIONS - 1; i >= 0; i--) {
        __atomic_store_n(&events[i], 1, __ATOMIC_RELEASE);
        assert_ok(finish(&world, &questions[i]));
        assert_int_equal(questions[i].compare.identical, i % 3 != 0);
    }
    world_destroy(&world);
}

/* No pages, or one rank: identical, whatever lies there; nothing is read. */
static void test_nothing_to_compare(void **state) {
    (void)state;
    struct world world;
    struct question question;
    world_create_with(&world, 4, 0, &small);
    prepare(&world, &question, false);
    question.compare.item_count = 0;
    question.compare.items = NULL;
    submit(&world, &question);
    assert_ok(finish(&world, &question));
    assert_true(question.compare.identical);
    world_destroy(&world);
    struct selene_layout alone = small;
    alone.rank_count = 1;
    world_create_with(&world, 4, 2, &alone);
    make_alike(&world, &question);
    uint8_t *nothing = map_guarded(0, 1 << 20);
    void *rows[1] = {nothing};
    struct sel_device_plane planes[2] = {{nothing, 5000}, {nothing, 64}};
    for (int row = 0; row < 2; row++) {
        prepare(&world, &question, row);
        question.compare.planes = planes;
        question.compare.rows = rows;
        submit(&world, &question);
        assert_ok(finish(&world, &question));
        assert_true(question.compare.identical);
    }
    assert_int_equal(munmap(nothing, 1 << 20), 0);
    world_destroy(&world);
}

static struct world checked;
static struct question asked;
static struct sel_device_plane unreadable_planes[4];
static void *unreadable_rows[2];

/* The comparison is refused, and nothing was read: nothing can be. */
#define REFUSED(is_row, change)                                                                                        \
    do {                                                                                                               \
        prepare(&checked, &asked, is_row);                                                                             \
        for (uint32_t i = 0; i < PAGES; i++)                                                                           \
            asked.items[i] = (struct sel_copy_item){.block = i + 1, .tokens = 16};                                     \
        asked.compare.planes = unreadable_planes;                                                                      \
        asked.compare.rows = unreadable_rows;                                                                          \
        change;                                                                                                        \
        submit(&checked, &asked);                                                                                      \
        assert_int_equal(finish(&checked, &asked), SELENE_E_INVALID);                                                  \
        assert_false(asked.compare.identical);                                                                         \
    } while (0)

static void test_bad_input_is_refused(void **state) {
    (void)state;
    world_create_with(&checked, 5, 0, &small);
    uint8_t *nothing = map_guarded(0, 1 << 20);
    struct sel_device_plane planes[4];
    for (int i = 0; i < 4; i++)
        unreadable_planes[i] = planes[i] = (struct sel_device_plane){.base = nothing, .stride = 5000};
    unreadable_rows[0] = unreadable_rows[1] = nothing;
    REFUSED(false, asked.items[3].block = checked.blocks);
    REFUSED(false, asked.items[0].block = UINT32_MAX);
    REFUSED(false, asked.items[3].tokens = 0);
    REFUSED(false, asked.items[3].tokens = 17);
    REFUSED(false, asked.compare.block_limit = 0);
    REFUSED(false, asked.compare.items = NULL);
    REFUSED(false, asked.compare.item_count = SIZE_MAX / 2);
    REFUSED(false, asked.compare.planes = NULL);
    REFUSED(false, (planes[3].base = NULL, asked.compare.planes = planes));
    planes[3] = (struct sel_device_plane){.base = nothing, .stride = UINT64_MAX / 2};
    REFUSED(false, asked.compare.planes = planes);
    planes[3] =
        (struct sel_device_plane){.base = nothing, .stride = (UINT64_MAX - (uintptr_t)nothing) / (checked.blocks - 1)};
    REFUSED(false, asked.compare.planes = planes);
    void *rows[2] = {nothing, NULL};
    REFUSED(true, asked.compare.rows = NULL);
    REFUSED(true, asked.compare.rows = rows);
    rows[1] = (void *)(UINTPTR_MAX - 100);
    REFUSED(true, asked.compare.rows = rows);
    world_destroy(&checked);
    struct selene_layout without = small;
    without.row_bytes = 0;
    world_create_with(&checked, 7, 0, &without);
    REFUSED(true, (void)0);
    world_destroy(&checked);
    assert_int_equal(munmap(nothing, 1 << 20), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_many_jobs),
        cmocka_unit_test(test_stops_at_a_difference),
        cmocka_unit_test(test_waits_for_its_event),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_beside_copies),
        cmocka_unit_test(test_nothing_to_compare),
        cmocka_unit_test(test_bad_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
