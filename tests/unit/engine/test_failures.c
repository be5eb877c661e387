/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies that fail, one form after another [R4, P4, I1]: what comes back is right, what is broken is found once, counted
 * and never tried again [fault 26]. Simulated disk.
 */
#include "engine/restore_priv.h"
#include "tests/unit/engine/world.h"

static struct world world;
static struct device_request request;
static struct sequence chain;
static const uint32_t at[] = {20, 45, 70, 100};

/* A chain of four checkpoints; on disk only, when `cold`, else on disk and in memory. */
static void begin(const struct world_layout *shape, bool cold) {
    world_init(&world, shape, 256, 100, true);
    world.options.no_thinning = 1; /* every checkpoint can be fallen back to */
    world_disk(&world, 1);
    world_open(&world);
    request_make(&world, &request, 0, 32);
    sequence_make(&world, &chain, 1, 120);
    for (size_t i = 0; i < SEL_COUNT(at); i++)
        assert_int_equal(world_publish(&world, &request, &chain, at[i]), SELENE_ACCEPTED);
    if (cold)
        world_reopen(&world, &chain, 1);
    else
        assert_int_equal(world_drain(&world).result, 0);
}

static void end(void) {
    world_check(&world);
    sequence_free(&chain);
    request_free(&world, &request);
    world_destroy(&world);
}

static void restore_gives(uint64_t tokens, int expected) {
    int result;
    assert_int_equal(world_restore(&world, &request, &chain, 120, &result), tokens);
    assert_int_equal(result, expected);
}

/* A bad memory copy: the disk's is used, nothing is lost. */
static void test_memory_then_disk(void **state) {
    (void)state;
    for (int part = SEL_LSM_PAGES; part <= SEL_LSM_ROW; part++) {
        begin(&world_with_rows, false);
        world_damage(&world, world_node(&world, &chain, 100), SEL_TIER_MEMORY, part, 1);
        restore_gives(100, 0);
        struct selene_stats stats = world_stats(&world);
        assert_int_equal(stats.checksum_failures[SELENE_TIER_MEMORY], 1);
        assert_int_equal(stats.checksum_failures[SELENE_TIER_DISK], 0);
        restore_gives(100, 0);
        assert_int_equal(world_stats(&world).checksum_failures[SELENE_TIER_MEMORY], 1);
        end();
    }
}

/* A bad disk copy beside a good one in memory is not noticed; once the memory copy is bad too, the record is gone. */
static void test_both_tiers(void **state) {
    (void)state;
    begin(&world_with_rows, false);
    struct sel_node *node = world_node(&world, &chain, 70);
    world_damage(&world, node, SEL_TIER_DISK, SEL_LSM_PAGES, 2);
    restore_gives(100, 0);
    world_damage(&world, node, SEL_TIER_MEMORY, SEL_LSM_PAGES, 1);
    restore_gives(45, SELENE_E_CORRUPT);
    assert_int_equal(world_stats(&world).dropped_records, 2);
    restore_gives(45, 0); /* the look-up says no more than that now */
    end();
}

/* Each page of each record on disk: the restore ends with the deepest checkpoint whose pages are all good [fault 22]. */
static void test_disk_with_rows(void **state) {
    (void)state;
    for (size_t bad = 0; bad < SEL_COUNT(at); bad++)
        for (uint32_t page = 0; page < 3; page++) {
            begin(&world_with_rows, true);
            world_damage(&world, world_node(&world, &chain, at[bad]), SEL_TIER_DISK, SEL_LSM_PAGES, page);
            /* The last page of a record that ends in mid-page is its child's in a restore of the whole. */
            bool unused = bad + 1 < SEL_COUNT(at) &&
                          page + 1 == sel_node_page_count(world.store, world_node(&world, &chain, at[bad]));
            if (unused) {
                restore_gives(100, 0);
            } else {
                restore_gives(bad ? at[bad - 1] : 0, SELENE_E_CORRUPT);
                assert_int_equal(world_stats(&world).checksum_failures[SELENE_TIER_DISK], 1);
                restore_gives(bad ? at[bad - 1] : 0, 0);
            }
            end();
        }
}

/* Without rows every good page before the bad one counts. */
static void test_disk_without_rows(void **state) {
    (void)state;
    /* Records of 0-2, 2-4, 4-5, 5-8, 8-12 pages. */
    static const struct {
        uint32_t record, index, good;
    } cases[] = {{16, 1, 8}, {32, 0, 16}, {40, 0, 32}, {64, 2, 56}, {96, 3, 88}};
    for (size_t i = 0; i < SEL_COUNT(cases); i++) {
        begin(&world_without_rows, true);
        struct sel_node *node = world_node(&world, &chain, cases[i].record);
        world_damage(&world, node, SEL_TIER_DISK, SEL_LSM_PAGES, cases[i].index);
        uint32_t parent = node->parent ? node->parent->tokens : 0;
        restore_gives(cases[i].good, SELENE_E_CORRUPT);
        restore_gives(parent, 0); /* the record went, and all under it */
        end();
    }
}

/* A bad row only thins: the record goes on carrying pages, and publishing at it again brings the row back [R4, T5]. */
static void test_bad_row(void **state) {
    (void)state;
    begin(&world_with_rows, true);
    world_damage(&world, world_node(&world, &chain, 70), SEL_TIER_DISK, SEL_LSM_ROW, 1);
    restore_gives(100, 0);
    int result;
    assert_int_equal(world_restore(&world, &request, &chain, 99, &result), 45);
    assert_int_equal(result, SELENE_E_CORRUPT);
    assert_int_equal(world_stats(&world).dropped_records, 0);
    assert_int_equal(world_restore(&world, &request, &chain, 99, &result), 45);
    assert_int_equal(result, 0);
    restore_gives(100, 0); /* over the pages of the thinned record [T4] */
    assert_int_equal(world_publish(&world, &request, &chain, 70), SELENE_ACCEPTED);
    assert_int_equal(world_restore(&world, &request, &chain, 99, NULL), 70);
    /* Without any row left there is nothing to resume at. */
    world_reopen(&world, &chain, 1);
    for (size_t i = 0; i < SEL_COUNT(at); i++) {
        struct sel_node *node = world_node(&world, &chain, at[i]);
        if (node->disk.row)
            world_damage(&world, node, SEL_TIER_DISK, SEL_LSM_ROW, 0);
    }
    restore_gives(0, SELENE_E_CORRUPT);
    restore_gives(0, 0);
    end();
}

/* Read errors count like damage; a disk that reads nothing leaves nothing findable, and no restore hangs. */
static void test_read_errors(void **state) {
    (void)state;
    struct sel_disk_fault fault = {
        .action = SEL_DISK_FAULT_FAIL, .kinds = 1u << SEL_DISK_READ, .countdown = 1, .repeat = UINT64_MAX};
    begin(&world_with_rows, true);
    sel_disk_fault_arm(world.disk, &fault);
    restore_gives(0, SELENE_E_IO);
    restore_gives(0, 0);
    assert_true(world_stats(&world).io_errors[SELENE_TIER_DISK] > 0);
    sel_disk_fault_clear(world.disk);
    assert_int_equal(world_publish(&world, &request, &chain, 100), SELENE_ACCEPTED);
    restore_gives(100, 0);
    end();
}

/* [P4, fault 2]: the n-th write fails, for every n: it is done again elsewhere, and nothing is lost. */
static void test_nth_write_fails(void **state) {
    (void)state;
    for (uint64_t n = 1; n < 40; n++) {
        struct sel_disk_fault fault = {.action = n % 2 ? SEL_DISK_FAULT_FAIL : SEL_DISK_FAULT_SHORT,
                                       .kinds = 1u << SEL_DISK_WRITE,
                                       .countdown = n};
        world_init(&world, &world_with_rows, 256, 100, true);
        world_disk(&world, n);
        world_open(&world);
        request_make(&world, &request, 0, 32);
        sequence_make(&world, &chain, 1, 120);
        sel_disk_fault_arm(world.disk, &fault);
        for (size_t i = 0; i < SEL_COUNT(at); i++)
            assert_int_equal(world_publish(&world, &request, &chain, at[i]), SELENE_ACCEPTED);
        struct selene_event event = world_drain(&world);
        assert_int_equal(event.result, 0);
        restore_gives(100, 0);
        sel_disk_fault_clear(world.disk);
        world_close_failed(&world);
        world_open(&world);
        sequence_prefix(&world, &chain);
        restore_gives(100, 0);
        end();
    }
}

/* [P4]: failures of one write do not count against a later one of the same record. */
static void test_write_failures_forgotten(void **state) {
    (void)state;
    begin(&world_with_rows, false);
    struct sel_node *node = world_node(&world, &chain, 100);
    struct sel_memory *memory = node->memory;
    for (int round = 0; round < 3; round++) {
        struct sel_disk_fault fault = {.action = SEL_DISK_FAULT_FAIL, .kinds = 1u << SEL_DISK_WRITE, .countdown = 1};
        sel_disk_detach(world.store, node);
        sel_disk_fault_arm(world.disk, &fault);
        struct selene_event event = world_drain(&world);
        sel_disk_fault_clear(world.disk);
        assert_int_equal(event.result, 0);
        assert_ptr_equal(node->memory, memory);
        assert_int_equal(world_stats(&world).spill_retries, round + 1);
    }
    assert_int_equal(world_stats(&world).dropped_records, 0);
    world_close_failed(&world);
    sequence_free(&chain);
    request_free(&world, &request);
    world_destroy(&world);
}

/* A clock that was set back does not make what is used now colder than what was used before the restart. */
static void test_clock_set_back(void **state) {
    (void)state;
    begin(&world_with_rows, true);
    uint64_t recovered = world_node(&world, &chain, 100)->last_use;
    assert_true(recovered > 0);
    world.clock.wall = recovered / 2;
    restore_gives(100, 0);
    assert_true(world_node(&world, &chain, 100)->last_use > recovered);
    end();
}

/* [P4]: a record whose write fails again and again is dropped with what is under it, and cannot be found [fault 2]. */
static void test_write_fails_twice(void **state) {
    (void)state;
    world_init(&world, &world_with_rows, 256, 100, true);
    world_disk(&world, 1);
    world_open(&world);
    request_make(&world, &request, 0, 32);
    sequence_make(&world, &chain, 1, 120);
    assert_int_equal(world_publish(&world, &request, &chain, 20), SELENE_ACCEPTED);
    assert_int_equal(world_drain(&world).drained_written, 1);
    assert_int_equal(world_publish(&world, &request, &chain, 45), SELENE_ACCEPTED);
    assert_int_equal(world_publish(&world, &request, &chain, 70), SELENE_ACCEPTED);
    ((struct sel_memory *)world_node(&world, &chain, 45)->memory)->write_failures = 1; /* it had its first */
    struct sel_disk_fault fault = {.action = SEL_DISK_FAULT_FAIL, .kinds = 1u << SEL_DISK_WRITE, .countdown = 1};
    sel_disk_fault_arm(world.disk, &fault);
    struct selene_event event = world_drain(&world);
    assert_true(event.drained_skipped_failed >= 1);
    assert_int_equal(world_lookup(&world, &chain, 120, NULL), 20);
    assert_int_equal(world_stats(&world).dropped_records, 2);
    sel_disk_fault_clear(world.disk);
    restore_gives(20, 0);
    assert_int_equal(world_publish(&world, &request, &chain, 70), SELENE_ACCEPTED);
    restore_gives(70, 0);
    world_close_failed(&world);
    sequence_free(&chain);
    request_free(&world, &request);
    world_destroy(&world);
}

/* A memory copy that comes while the disk's is bad, but held, is the only one: it is parked, so that it is neither
 * evicted as a clean one nor left out by a drain. */
static void test_copy_beside_bad_one(void **state) {
    (void)state;
    begin(&world_with_rows, true);
    struct sel_node *node = world_node(&world, &chain, 70);
    uint32_t pages = sel_node_page_count(world.store, node);
    struct sel_memory *memory = sel_memory_create();
    assert_ok(sel_copy_part_create(&memory->pages, pages, pages * 2));
    memset(memory->pages.sums, 0, pages * 2 * sizeof *memory->pages.sums);
    assert_true(sel_slots_take(&world.store->slots, memory->pages.slots, pages));
    memory->pages.count = memory->pages.pieces = pages;
    sel_pin(world.store, node, SEL_TIER_DISK);
    sel_copy_failed(world.store, node, SEL_TIER_DISK, SEL_LSM_PAGES, SELENE_E_CORRUPT);
    assert_ok(sel_memory_attach(world.store, node, &memory));
    assert_true(node->tier[SEL_TIER_MEMORY].parked);
    world_check(&world);
    sel_unpin(world.store, node, SEL_TIER_DISK);
    assert_false(node->tier[SEL_TIER_DISK].present);
    world_check(&world);
    end();
}

/* [R6]: a cancelled restore whose copy had failed does not begin again in the next tier: the caller's event may never
 * happen, and the cancel must end all the same. */
static void test_cancel_after_failure(void **state) {
    uint64_t ticket;
    (void)state;
    begin(&world_with_rows, false);
    request.wait = 0;
    request.state.wait = &request.wait;
    assert_ok(selene_restore(world.store, chain.prefix, 100, &request.state, &ticket));
    struct sel_request *waiting = SEL_LIST_ENTRY(world.store->requests.next, struct sel_request, link);
    struct sel_restore *restore = SEL_CONTAINER(waiting, struct sel_restore, request);
    sel_piece_stop(&restore->pieces[0], SELENE_E_CORRUPT);
    assert_ok(selene_cancel(world.store, ticket));
    assert_int_equal(world_wait(&world, ticket).result, SELENE_E_CANCELLED);
    request.state.wait = NULL;
    assert_int_equal(world_stats(&world).checksum_failures[SELENE_TIER_MEMORY], 1);
    restore_gives(100, 0);
    end();
}

/* A directory that calls pages of another size by this layout's namespace: such records are refused and change nothing
 * for those that are right. Records of other layouts may have any size, and are never described as if they were ours. */
static void test_lying_page_size(void **state) {
    (void)state;
    begin(&world_with_rows, false);
    struct sel_key key = {{1}}, *keys;
    struct sel_location location = {.sequence = 1000, .pages = 1, .pages_blocks = 1};
    struct sel_lsm_record record = {.tokens = 4, .key = key, .page_keys = &key, .page_key_count = 1}, described;
    for (uint32_t page_tokens = 1; page_tokens <= 4; page_tokens *= 4) {
        memcpy(record.ns, world.store->layout->ns, sizeof record.ns);
        record.page_tokens = page_tokens;
        record.tokens = page_tokens;
        assert_int_equal(sel_recover_visit(world.store, &record, &location), SELENE_E_INVALID);
    }
    record.ns[0] ^= 1;
    assert_ok(sel_recover_visit(world.store, &record, &location));
    struct sel_node *node = sel_tree_find(world.store->tree, record.ns, &key, record.tokens);
    assert_non_null(node);
    assert_int_equal(sel_node_describe(world.store, node, &described, &keys), SELENE_E_INVALID);
    assert_null(keys);
    /* There is no such extent: the removal finds nothing, and that is the end of it. */
    sel_disk_detach(world.store, node);
    sel_tree_release(world.store->tree, &node);
    restore_gives(100, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(selene_poll(world.store, NULL, 0), 0);
    assert_true(sel_list_empty(&world.store->removals));
    end();
}

/* The first record of a store's own layout that recovery meets decides for the tree what a page is: it must be right. */
static void test_lying_page_size_first(void **state) {
    (void)state;
    world_init(&world, &world_with_rows, 256, 100, true);
    world_disk(&world, 1);
    world_open(&world);
    struct sel_key key = {{1}};
    struct sel_location location = {.sequence = 1000, .pages = 1, .pages_blocks = 1};
    struct sel_lsm_record record = {.page_tokens = 4, .tokens = 4, .key = key, .page_keys = &key, .page_key_count = 1};
    memcpy(record.ns, world.store->layout->ns, sizeof record.ns);
    (void)sel_recover_visit(world.store, &record, &location);
    request_make(&world, &request, 0, 32);
    sequence_make(&world, &chain, 1, 120);
    assert_int_equal(world_publish(&world, &request, &chain, 100), SELENE_ACCEPTED);
    restore_gives(100, 0);
    end();
}

/* A record whose disk copy turned out bad while somebody holds it there is parked already but not off the disk yet: it
 * cannot be written now, nor anything under it, and saying that it is on its way would keep write-back trying. */
static void test_bad_copy_held(void **state) {
    (void)state;
    begin(&world_with_rows, false);
    struct sel_node *node = world_node(&world, &chain, 100), *parent = world_node(&world, &chain, 70);
    sel_pin(world.store, node, SEL_TIER_DISK);
    sel_copy_failed(world.store, node, SEL_TIER_DISK, SEL_LSM_PAGES, SELENE_E_IO);
    assert_int_equal(sel_spill_chain(world.store, node, false), SELENE_E_PARENT);
    assert_int_equal(world_publish(&world, &request, &chain, 120), SELENE_ACCEPTED);
    assert_int_equal(sel_spill_chain(world.store, world_node(&world, &chain, 120), false), SELENE_E_PARENT);
    assert_int_equal(world.store->spill_count, 0);
    sel_unpin(world.store, node, SEL_TIER_DISK);
    assert_false(node->tier[SEL_TIER_DISK].present);
    assert_true(parent->tier[SEL_TIER_DISK].present);
    assert_int_equal(world_drain(&world).drained_written, 2);
    world_reopen(&world, &chain, 1);
    restore_gives(120, 0);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_then_disk),
        cmocka_unit_test(test_both_tiers),
        cmocka_unit_test(test_disk_with_rows),
        cmocka_unit_test(test_disk_without_rows),
        cmocka_unit_test(test_bad_row),
        cmocka_unit_test(test_read_errors),
        cmocka_unit_test(test_nth_write_fails),
        cmocka_unit_test(test_write_fails_twice),
        cmocka_unit_test(test_write_failures_forgotten),
        cmocka_unit_test(test_clock_set_back),
        cmocka_unit_test(test_cancel_after_failure),
        cmocka_unit_test(test_copy_beside_bad_one),
        cmocka_unit_test(test_lying_page_size),
        cmocka_unit_test(test_lying_page_size_first),
        cmocka_unit_test(test_bad_copy_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
