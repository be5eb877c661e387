/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults of the disk under the record store: failed, held and short ios, full, read-only, failing and stalled disks
 * [D9], the order of syncing and committing [D4], the limit [D6].
 */
#include "lsm/format.h"
#include "tests/crash/scene.h"
#include "tests/lib/test.h"

#define KIND(kind) (1u << (kind))

/* begin, again while it is to be retried, but not for ever. */
static int begin_patiently(struct world_write *write, struct model_record *record, struct sel_lsm_write *parent) {
    int rc = SELENE_E_RETRY;
    for (int i = 0; i < 200 && rc == SELENE_E_RETRY; i++) {
        rc = write_begin(write, &scene.world, record, parent);
        if (rc == SELENE_E_RETRY)
            world_turn(&scene.world);
    }
    return rc;
}

static void send_and_finish(struct world_write *write) {
    while (write->sent < write->pieces)
        write_send(write);
    write_finish(write);
}

/* Two chains of three, all in flight together. */
static void write_chains(void) {
    for (int i = 0; i < SCENE_WRITES; i++) {
        struct world_write *parent = i % 3 ? &scene.writes[i - 1] : NULL;
        struct model_record *record = scene_add(parent ? parent->record : NULL, i % 2);
        if (parent && parent->write == NULL)
            scene.writes[i] = (struct world_write){.record = record, .result = SELENE_E_PARENT};
        else if (begin_patiently(&scene.writes[i], record, parent ? parent->write : NULL))
            scene.writes[i].result = SELENE_E_IO;
        else
            send_and_finish(&scene.writes[i]);
    }
    for (int i = 0; i < SCENE_WRITES; i++) {
        while (write_busy(&scene.writes[i]))
            world_turn(&scene.world);
        sel_lsm_write_free(&scene.writes[i].write);
    }
}

/* What was reported as committed is told and right; what was not is a miss. */
static void compare_after_reopening(void) {
    struct selene_message message = {{0}};
    world_close(&scene.world); /* its error is the fault's */
    WORLD_CHECK(world_open(&scene.world, &message) == 0, "opening again: %s", message.text);
    for (int i = 0; i < SCENE_WRITES; i++) {
        const struct world_write *write = &scene.writes[i];
        struct world_seen *seen = world_find(&scene.world, &write->record->fields.key);
        WORLD_CHECK((seen != NULL) == (write->result == 0), "record %d: result %s, %s", i,
                    sel_error_name(write->result), seen ? "told" : "not told");
        WORLD_CHECK(write->result == 0 || i % 3 == 2 || scene.writes[i + 1].result, "a child without its parent");
        for (int part = 0; seen && part < 1 + i % 2; part++)
            WORLD_CHECK(world_read(&scene.world, seen->record, &seen->location, part) == 0, "record %d is not right",
                        i);
    }
    world_check(&scene.world);
}

static bool degraded(void) { return sel_lsm_state(scene.world.lsm) != SEL_LSM_OK; }

/* Fault 2 and 18: every io in turn fails, or is done by half; no op stays in flight, and what failed is a miss. */
static void every_io_fails_in_turn(enum sel_disk_fault_action action, uint32_t kinds, int error) {
    for (uint64_t n = 1;; n++) {
        struct sel_disk_fault fault = {.action = action, .kinds = kinds, .error = error, .countdown = n};
        snprintf(world_where, sizeof world_where, "io %llu failing, action %d", (unsigned long long)n, action);
        scene_open(true);
        sel_disk_fault_arm(scene.world.disk, &fault);
        write_chains();
        sel_disk_fault_clear(scene.world.disk);
        world_check(&scene.world);
        compare_after_reopening();
        uint64_t hits = fault.hits;
        struct model_record *later = scene_add(NULL, true);
        WORLD_CHECK(write_whole(&scene.world, later) == 0, "writing goes not on");
        scene_close();
        if (hits == 0)
            break;
        assert_true(n < 1000);
    }
}

static void each_io_fails(void **state) {
    (void)state;
    every_io_fails_in_turn(SEL_DISK_FAULT_FAIL, 0, SELENE_E_IO);
    every_io_fails_in_turn(SEL_DISK_FAULT_FAIL, KIND(SEL_DISK_WRITE) | KIND(SEL_DISK_ALLOCATE), SELENE_E_NOSPACE);
    every_io_fails_in_turn(SEL_DISK_FAULT_SHORT, KIND(SEL_DISK_WRITE), SELENE_E_NOSPACE);
}

/* Fault 3. */
static void a_held_write_is_not_visible(void **state) {
    (void)state;
    scene_open(true);
    struct model_record *first = scene_add(NULL, true), *second = scene_add(first, false);
    WORLD_CHECK(write_whole(&scene.world, scene_add(NULL, true)) == 0, "the store does not write");
    struct sel_disk_fault fault = {
        .action = SEL_DISK_FAULT_HOLD, .kinds = KIND(SEL_DISK_WRITE), .countdown = 2, .names = "seg-*"};
    sel_disk_fault_arm(scene.world.disk, &fault);
    assert_ok(begin_patiently(&scene.writes[0], first, NULL));
    assert_ok(begin_patiently(&scene.writes[1], second, scene.writes[0].write));
    send_and_finish(&scene.writes[0]);
    send_and_finish(&scene.writes[1]);
    sel_lsm_flush(scene.world.lsm);
    for (int i = 0; i < 500; i++)
        world_turn(&scene.world);
    assert_int_equal(fault.hits, 1);
    assert_int_equal(sel_disk_fault_held(scene.world.disk), 1);
    struct sel_lsm_stats stats;
    sel_lsm_get_stats(scene.world.lsm, &stats);
    assert_int_equal(stats.records, 1);
    assert_true(write_busy(&scene.writes[0]) && write_busy(&scene.writes[1])); /* the child waits for it, too */
    sel_disk_fault_release(scene.world.disk);
    for (int i = 0; i < 2; i++) {
        while (write_busy(&scene.writes[i]))
            world_turn(&scene.world);
        assert_ok(scene.writes[i].result);
        assert_ok(world_read(&scene.world, scene.writes[i].record, &scene.writes[i].record->location, 0));
        sel_lsm_write_free(&scene.writes[i].write);
    }
    scene_close();
}

/* ---- fault 12: at the moment of the transaction all that it names is durable ---- */

static uint64_t compared;

static void compare_extent(struct sel_disk_sim *durable, uint64_t place, uint32_t blocks) {
    char name[32];
    uint64_t offset = (uint64_t)(uint32_t)place * 4096, size;
    size_t bytes = (size_t)blocks * 4096;
    uint8_t *now = malloc(bytes), *sure = malloc(bytes);
    assert_true(now && sure);
    snprintf(name, sizeof name, "seg-%08x.sel", (unsigned)(place >> 32));
    WORLD_CHECK(sel_disk_sim_size(durable, name, &size) == 0, "%s: the name is not durable", name);
    WORLD_CHECK(size >= offset + bytes, "%s: the size is not durable", name);
    assert_ok(sel_disk_sim_peek(scene.world.sim, name, 0, now, 4096));
    assert_ok(sel_disk_sim_peek(durable, name, 0, sure, 4096));
    WORLD_CHECK(memcmp(now, sure, 4096) == 0, "%s: the head is not durable", name);
    assert_ok(sel_disk_sim_peek(scene.world.sim, name, offset, now, bytes));
    assert_ok(sel_disk_sim_peek(durable, name, offset, sure, bytes));
    WORLD_CHECK(memcmp(now, sure, bytes) == 0, "%s: an extent is not durable", name);
    free(now);
    free(sure);
    compared++;
}

static int durable_before(void *context, enum sel_catalog_sim_step step, const struct sel_catalog_change *changes,
                          size_t count) {
    (void)context;
    struct sel_clock_manual clock;
    struct sel_disk_sim *durable;
    if (step != SEL_CATALOG_SIM_BEFORE)
        return 0;
    sel_clock_manual_init(&clock);
    assert_ok(sel_disk_sim_clone(&durable, scene.world.sim, 1, &clock));
    sel_disk_sim_crash(durable, SEL_DISK_SIM_DROP, 1);
    for (size_t i = 0; i < count; i++) {
        struct sel_record_entry entry;
        if (changes[i].kind != SEL_CATALOG_PUT || changes[i].table != SEL_CATALOG_RECORDS || changes[i].part ||
            sel_record_entry_unpack(&entry, changes[i].key, changes[i].value))
            continue;
        compare_extent(durable, entry.location.pages, entry.location.pages_blocks);
        if (entry.location.row)
            compare_extent(durable, entry.location.row, entry.location.row_blocks);
    }
    sel_disk_sim_destroy(&durable);
    return 0;
}

static void data_is_durable_before_the_index(void **state) {
    (void)state;
    for (int durability = SEL_LSM_RELAXED; durability <= SEL_LSM_STRICT; durability++) {
        scene_open(false);
        scene.world.config.durability = durability;
        assert_ok(world_close(&scene.world));
        assert_ok(world_open(&scene.world, NULL));
        sel_catalog_sim_set_hook(scene.world.catalog_sim, durable_before, NULL);
        compared = 0;
        for (int i = 0; i < 8; i++)
            write_chains();
        sel_catalog_sim_set_hook(scene.world.catalog_sim, NULL, NULL);
        assert_int_equal(compared,
                         8 * (SCENE_WRITES + SCENE_WRITES / 2)); /* each record's pages, and the rows of half of them */
        scene_close();
    }
}

/* ---- fault 19: reads are in flight together, so the device's latency does not add up ---- */

enum { READS = 24 };

struct reading {
    struct model_record *record;
    struct sel_lsm_reader *reader;
    struct sel_op op;
    struct iovec iov;
};

static void nothing(struct sel_op *op) { (void)op; }

static void reading_is_deep(void **state) {
    (void)state;
    static struct reading readings[READS];
    struct sel_disk_sim_stats stats;
    scene_open(false);
    for (int i = 0; i < READS; i++) {
        readings[i].record = scene_add(NULL, false);
        assert_ok(write_whole(&scene.world, readings[i].record));
    }
    uint64_t started_ns = scene.world.clock.mono;
    for (int i = 0; i < READS; i++) {
        struct reading *r = &readings[i];
        r->iov.iov_len = r->record->part[0].count;
        r->iov.iov_base = aligned_alloc(4096, r->iov.iov_len);
        sel_op_init(&r->op, nothing);
        sel_lsm_reader_open(scene.world.lsm, scene.model.layout, &r->record->fields, &r->record->location,
                            SEL_LSM_PAGES, &r->iov, 1, &r->reader, &r->op);
    }
    for (int i = 0; i < READS; i++) {
        struct reading *r = &readings[i];
        world_wait(&scene.world, &r->op);
        assert_ok(r->op.result);
        assert_true(model_same_bytes(&scene.model, &r->record->part[0], 0, r->iov.iov_base));
    }
    sel_disk_sim_get_stats(scene.world.sim, &stats);
    assert_int_equal(stats.reads_in_flight_max, READS);
    assert_in_range(scene.world.clock.mono - started_ns, 1, 200000); /* one wave of 100 us, jitter included */
    for (int i = 0; i < READS; i++) {
        sel_lsm_reader_close(&readings[i].reader);
        free(readings[i].iov.iov_base);
    }
    scene_close();
}

/* ---- fault 20: what is charged is what the device gives, and it never exceeds the limit ---- */

static uint64_t bytes_used(void) {
    struct sel_disk_sim_stats stats;
    sel_disk_sim_get_stats(scene.world.sim, &stats);
    return stats.allocated_bytes + scene.world.catalog->ops->file_bytes(scene.world.catalog);
}

/* Writes roots until there is no room, at most 200. */
static int fill(void) {
    int written = 0;
    for (;; written++) {
        uint32_t before = scene.model.count;
        struct world_write write;
        int rc = begin_patiently(&write, scene_add(NULL, written % 2), NULL);
        if (rc) {
            assert_int_equal(rc, SELENE_E_NOSPACE);
            model_cut(&scene.model, before);
            return written;
        }
        send_and_finish(&write);
        while (write_busy(&write)) {
            world_turn(&scene.world);
            assert_in_range(bytes_used(), 0, scene.world.config.limit_bytes);
        }
        assert_ok(write.result);
        sel_lsm_write_free(&write.write);
        assert_true(written < 200);
    }
}

static void the_limit_holds(void **state) {
    (void)state;
    struct selene_message message = {{0}};
    scene_open(false);
    assert_ok(world_close(&scene.world));
    scene.world.config.limit_bytes = 3 << 20;
    assert_ok(world_open(&scene.world, &message));
    int first = fill();
    assert_in_range(first, 15, 150);
    assert_in_range(bytes_used(), (3 << 20) / 2, 3 << 20);
    assert_true(sel_lsm_shortage(scene.world.lsm, 1 << 20) > 0);
    assert_ok(world_close(&scene.world));
    assert_ok(world_open(&scene.world, &message));
    assert_int_equal(scene.world.seen_count, first);
    assert_in_range(bytes_used(), 1, 3 << 20); /* right after a restart, too */
    for (uint32_t i = 0; i < scene.world.seen_count; i += 2)
        assert_ok(world_remove(&scene.world, &scene.world.seen[i].location));
    int second = fill();
    assert_in_range(second, 3, first);
    scene_close();
}

/* ---- fault 21: the disk is full, read-only, broken, or does not answer ---- */

static void wait_for(bool wanted) {
    for (int i = 0; i < 20000 && degraded() != wanted; i++) {
        world_turn(&scene.world);
        if (!wanted)
            sel_clock_manual_advance(&scene.world.clock, SEL_NS_PER_MS);
    }
    assert_int_equal(degraded(), wanted);
}

static void the_disk_degrades(int error, enum sel_lsm_state expected) {
    struct sel_disk_fault fault = {
        .kinds = KIND(SEL_DISK_WRITE) | KIND(SEL_DISK_ALLOCATE), .error = error, .countdown = 1, .repeat = UINT64_MAX};
    snprintf(world_where, sizeof world_where, "every write fails with %s", sel_error_name(error));
    scene_open(true);
    struct model_record *safe = scene_add(NULL, true);
    assert_ok(write_whole(&scene.world, safe));
    sel_disk_fault_arm(scene.world.disk, &fault);
    unsigned warnings = scene.world.warnings;
    struct world_write write;
    for (int i = 0; i < 20 && !degraded(); i++) {
        if (begin_patiently(&write, scene_add(NULL, false), NULL))
            continue;
        send_and_finish(&write);
        while (write_busy(&write))
            world_turn(&scene.world);
        assert_int_not_equal(write.result, 0);
        sel_lsm_write_free(&write.write);
    }
    wait_for(true);
    assert_int_equal(sel_lsm_state(scene.world.lsm), expected);
    for (int i = 0; i < 50; i++) { /* probes fail, quietly */
        sel_clock_manual_advance(&scene.world.clock, SEL_NS_PER_SECOND);
        world_turn(&scene.world);
    }
    assert_int_equal(scene.world.warnings, warnings + 1);
    assert_int_equal(write_begin(&write, &scene.world, scene_add(NULL, false), NULL), SELENE_E_DEGRADED);
    assert_ok(world_read(&scene.world, safe, &safe->location, 0)); /* reading goes on */
    assert_ok(world_read(&scene.world, safe, &safe->location, 1));
    sel_disk_fault_clear(scene.world.disk);
    wait_for(false);
    assert_ok(write_whole(&scene.world, scene_add(safe, true)));
    world_check(&scene.world);
    scene_close();
}

static void full_readonly_failing(void **state) {
    (void)state;
    the_disk_degrades(SELENE_E_NOSPACE, SEL_LSM_FULL);
    the_disk_degrades(SELENE_E_READONLY, SEL_LSM_READONLY);
    the_disk_degrades(SELENE_E_IO, SEL_LSM_FAILING);
}

static void a_disk_that_does_not_answer(void **state) {
    (void)state;
    scene_open(true);
    struct model_record *safe = scene_add(NULL, true);
    assert_ok(write_whole(&scene.world, safe));
    struct sel_disk_fault fault = {.action = SEL_DISK_FAULT_HOLD, .kinds = KIND(SEL_DISK_WRITE), .countdown = 1};
    sel_disk_fault_arm(scene.world.disk, &fault);
    struct world_write write;
    assert_ok(begin_patiently(&write, scene_add(NULL, false), NULL));
    send_and_finish(&write);
    for (int i = 0; i < 35; i++) {
        world_turn(&scene.world);
        sel_clock_manual_advance(&scene.world.clock, SEL_NS_PER_SECOND);
    }
    world_turn(&scene.world);
    assert_int_equal(sel_lsm_state(scene.world.lsm), SEL_LSM_STALLED);
    struct world_write other;
    assert_int_equal(write_begin(&other, &scene.world, scene_add(NULL, false), NULL), SELENE_E_DEGRADED);
    sel_disk_fault_release(scene.world.disk);
    wait_for(false);
    while (write_busy(&write))
        world_turn(&scene.world);
    assert_ok(write.result); /* late, and whole */
    assert_ok(world_read(&scene.world, write.record, &write.record->location, 0));
    sel_lsm_write_free(&write.write);
    scene_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_io_fails),
        cmocka_unit_test(a_held_write_is_not_visible),
        cmocka_unit_test(data_is_durable_before_the_index),
        cmocka_unit_test(reading_is_deep),
        cmocka_unit_test(the_limit_holds),
        cmocka_unit_test(full_readonly_failing),
        cmocka_unit_test(a_disk_that_does_not_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
