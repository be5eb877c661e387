/* SPDX-License-Identifier: Apache-2.0
 *
 * When copies start, end and are refused: events [G2, fault 4], cancelling [R6, fault 23], numbers out of range.
 */
#include "base/error.h"
#include "tests/unit/gpu/gpu_world.h"

static const struct selene_plane two_planes[] = {{5000, 0, 0}, {64, 1, 4}};
static const struct selene_layout small = {
    .page_tokens = 16, .rank_count = 2, .plane_count = 2, .planes = two_planes, .row_bytes = 20000};

static uint64_t sums[SELENE_RANKS_MAX];
static uint64_t row_hashes[64];

static struct sel_copy_item whole_page(struct world *world, uint32_t block) {
    return (struct sel_copy_item){.slot = world_slot(world, 0), .block = block, .tokens = 16, .sums = sums};
}

static void submit(struct world *world) { world->device->ops->submit(world->device, &world->copy); }

static void poll_a_few_times(struct world *world) {
    for (int i = 0; i < 5; i++) {
        world->device->ops->poll(world->device);
        sel_ready_run(&world->ready, 16);
    }
}

/* Out-bound, the producer may still write until the event; in-bound, a reader may still read until it. */
static void test_waits_for_its_event(void **state) {
    (void)state;
    for (unsigned threads = 0; threads < 3; threads += 2) {
        struct world world;
        uint32_t event = 0;
        world_create_with(&world, 1, threads, &small);
        struct sel_copy_item item = whole_page(&world, 3);
        world_prepare(&world, SEL_COPY_OUT, &item, 1);
        world.copy.wait = &event;
        submit(&world);
        poll_a_few_times(&world);
        assert_false(world.done);
        assert_false(world.device->ops->happened(world.device, &event));
        assert_true(world.device->ops->happened(world.device, NULL));
        memset(world_plane(&world, 0, 0, 3), 'x', 5000);
        __atomic_store_n(&event, 1, __ATOMIC_RELEASE);
        assert_true(world.device->ops->happened(world.device, &event));
        assert_ok(world_finish(&world));
        assert_int_equal(item.slot[0], 'x');
        event = 0;
        memset(world_plane(&world, 0, 0, 3), 'y', 5000);
        world_prepare(&world, SEL_COPY_IN, &item, 1);
        world.copy.wait = &event;
        submit(&world);
        poll_a_few_times(&world);
        assert_false(world.done);
        assert_int_equal(*world_plane(&world, 0, 0, 3), 'y');
        event = 7;
        assert_ok(world_finish(&world));
        assert_int_equal(*world_plane(&world, 0, 0, 3), 'x');
        event = 1; /* happened before: starts at once, but still ends in a poll */
        world_prepare(&world, SEL_COPY_IN, &item, 1);
        world.copy.wait = &event;
        assert_ok(world_copy(&world));
        world_destroy(&world);
    }
}

static void test_cancel(void **state) {
    (void)state;
    struct world world;
    uint32_t event = 0;
    world_create_with(&world, 2, 0, &small);
    struct sel_copy_item item = whole_page(&world, 0);
    uint8_t untouched[64];
    memset(untouched, GUARD, sizeof untouched);
    world_prepare(&world, SEL_COPY_OUT, &item, 1);
    world.copy.wait = &event;
    world.device->ops->cancel(world.device, &world.copy); /* not submitted: no effect */
    submit(&world);
    world.device->ops->cancel(world.device, &world.copy);
    assert_false(world.done); /* completes in the next run, not in here */
    world.device->ops->cancel(world.device, &world.copy);
    event = 1;
    assert_int_equal(world_finish(&world), SELENE_E_CANCELLED);
    assert_int_equal(item.result, SELENE_E_CANCELLED);
    assert_memory_equal(item.slot, untouched, sizeof untouched);
    world_prepare(&world, SEL_COPY_OUT, &item, 1);
    submit(&world);
    world.device->ops->cancel(world.device, &world.copy); /* too late: it runs to its end */
    assert_ok(world_finish(&world));
    world_destroy(&world);
}

static void test_many_at_once(void **state) {
    (void)state;
    enum { COPIES = 50 };
    static struct world worlds[COPIES]; /* each its own copy; all on the first one's device */
    static struct sel_copy_item items[COPIES];
    static uint64_t all_sums[COPIES][2];
    static uint32_t events[COPIES];
    world_create_with(&worlds[0], 3, 2, &small);
    struct world *first = &worlds[0];
    for (int i = 0; i < COPIES; i++) {
        worlds[i].planes = first->planes;
        worlds[i].rows = first->rows;
        worlds[i].blocks = first->blocks;
        items[i] = whole_page(first, (uint32_t)i % first->blocks);
        items[i].slot = aligned_alloc(SEL_BLOCK_BYTES, first->layout->slot_bytes);
        items[i].sums = all_sums[i];
        world_prepare(&worlds[i], SEL_COPY_OUT, &items[i], 1);
        worlds[i].copy.wait = i % 2 ? &events[i] : NULL;
        first->device->ops->submit(first->device, &worlds[i].copy);
    }
    for (int i = COPIES - 1, left = COPIES; left > 0; i--) {
        if (i >= 0)
            events[i] = 1;
        first->device->ops->poll(first->device);
        sel_ready_run(&first->ready, 16);
        left = 0;
        for (int j = 0; j < COPIES; j++)
            left += !worlds[j].done;
    }
    for (int i = 0; i < COPIES; i++) {
        assert_ok(worlds[i].copy.op.result);
        assert_memory_equal(items[i].slot, world_plane(first, 0, 0, items[i].block), 5000);
        free(items[i].slot);
    }
    world_destroy(first);
}

static void test_nothing_to_copy(void **state) {
    (void)state;
    struct world world;
    world_create_with(&world, 4, 0, &small);
    world_prepare(&world, SEL_COPY_OUT, NULL, 0);
    assert_ok(world_copy(&world));
    assert_string_equal(world.device->ops->name(world.device), "host");
    world_destroy(&world);
    struct selene_layout without = small;
    without.row_bytes = 0;
    world_create_with(&world, 4, 0, &without);
    world_prepare(&world, SEL_COPY_IN, NULL, 0);
    world.copy.row = true;
    assert_ok(world_copy(&world));
    world_destroy(&world);
}

static struct world checked;
static struct sel_copy_item checked_item;

/* The copy prepared in `checked` is refused, and nothing was touched. */
static void refuse(int expected) {
    uint8_t before = checked.slots[0];
    assert_int_equal(world_copy(&checked), expected);
    assert_int_equal(checked_item.result, expected);
    assert_int_equal(checked.slots[0], before);
}

static void prepare_page(void) {
    checked_item = whole_page(&checked, 1);
    world_prepare(&checked, SEL_COPY_OUT, &checked_item, 1);
}

#define REFUSED(expected, change)                                                                                      \
    do {                                                                                                               \
        prepare_page();                                                                                                \
        change;                                                                                                        \
        refuse(expected);                                                                                              \
    } while (0)

static void test_bad_pages_are_refused(void **state) {
    (void)state;
    world_create_with(&checked, 5, 0, &small);
    struct sel_device_plane planes[4];
    memcpy(planes, checked.planes, sizeof planes);
    REFUSED(SELENE_E_INVALID, checked_item.block = checked.blocks);
    REFUSED(SELENE_E_INVALID, checked_item.block = UINT32_MAX);
    REFUSED(SELENE_E_INVALID, checked.copy.block_limit = 0);
    REFUSED(SELENE_E_INVALID, checked_item.tokens = 0);
    REFUSED(SELENE_E_INVALID, checked_item.tokens = 17);
    REFUSED(SELENE_E_INVALID, checked_item.slot = NULL);
    REFUSED(SELENE_E_INVALID, checked_item.slot += 64);
    REFUSED(SELENE_E_INVALID, checked_item.slot += 2048);
    REFUSED(SELENE_E_INVALID, checked_item.sums = NULL);
    REFUSED(SELENE_E_INVALID, checked.copy.planes = NULL);
    REFUSED(SELENE_E_INVALID, checked.copy.direction = (enum sel_copy_direction)7);
    REFUSED(SELENE_E_INVALID, (checked.copy.replicated = true, checked_item.slot += 64));
    REFUSED(SELENE_E_INVALID, (planes[3].base = NULL, checked.copy.planes = planes));
    memcpy(planes, checked.planes, sizeof planes);
    REFUSED(SELENE_E_INVALID, (planes[2].stride = UINT64_MAX / 2, checked.copy.planes = planes));
    /* The last block begins below the end of the address space and ends beyond it; so does the only one. */
    planes[2].stride = (UINT64_MAX - (uintptr_t)planes[2].base) / (checked.blocks - 1);
    REFUSED(SELENE_E_INVALID, checked.copy.planes = planes);
    planes[2] = (struct sel_device_plane){.base = (void *)(UINTPTR_MAX - 100)};
    REFUSED(SELENE_E_INVALID, (checked_item.block = 0, checked.copy.block_limit = 1, checked.copy.planes = planes));
    planes[2] = (struct sel_device_plane){.base = checked.planes[2].base, .stride = UINT64_MAX - 100};
    REFUSED(SELENE_E_INVALID, (checked.copy.block_limit = 2, checked.copy.planes = planes));
    prepare_page();
    checked.copy.item_count = SIZE_MAX / 2;
    checked.copy.items = NULL;
    assert_int_equal(world_copy(&checked), SELENE_E_INVALID);
    prepare_page();
    checked.copy.item_count = SIZE_MAX / 2; /* of which only one is there */
    assert_int_equal(world_copy(&checked), SELENE_E_INVALID);
    prepare_page();
    assert_ok(world_copy(&checked)); /* and unchanged it is fine */
    world_destroy(&checked);
}

#define ROW_REFUSED(change)                                                                                            \
    REFUSED(SELENE_E_INVALID, (checked.copy.row = true, checked.copy.row_hashes = row_hashes, change))

static void test_bad_rows_are_refused(void **state) {
    (void)state;
    world_create_with(&checked, 6, 0, &small);
    void *rows[2] = {checked.rows[0], NULL};
    ROW_REFUSED(checked_item.row_part = checked.layout->row_slots);
    ROW_REFUSED(checked_item.slot += 1);
    ROW_REFUSED(checked.copy.rows = NULL);
    ROW_REFUSED(checked.copy.rows = rows);
    rows[1] = (void *)(UINTPTR_MAX - 100);
    ROW_REFUSED(checked.copy.rows = rows);
    ROW_REFUSED(checked.copy.row_hashes = NULL);
    world_destroy(&checked);
    struct selene_layout without = small;
    without.row_bytes = 0;
    world_create_with(&checked, 7, 0, &without);
    ROW_REFUSED((void)0);
    world_destroy(&checked);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_for_its_event),   cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_many_at_once),          cmocka_unit_test(test_nothing_to_copy),
        cmocka_unit_test(test_bad_pages_are_refused), cmocka_unit_test(test_bad_rows_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
