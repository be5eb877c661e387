/* SPDX-License-Identifier: Apache-2.0
 *
 * Bit rot under the record store: one flipped byte anywhere in its segments [fault 22].
 */
#include "tests/crash/scene.h"
#include "tests/lib/test.h"

struct flip {
    const char *name;
    uint64_t offset;
    uint32_t segment;
};

static bool hits(const struct flip *flip, uint64_t place, uint32_t blocks) {
    uint64_t from = (uint64_t)(uint32_t)place * 4096;
    return place >> 32 == flip->segment && flip->offset >= from && flip->offset < from + (uint64_t)blocks * 4096;
}

/* The twin has the same index or none; each record reads right or is a miss; those not hit read right. */
static void open_flipped(const struct flip *flip, bool absent, const struct sel_catalog_sim *index) {
    static struct world twin;
    struct sel_lsm_stats stats;
    (void)index;
    world_create(&twin, &scene.model, 5);
    twin.config = scene.world.config;
    assert_ok(sel_disk_sim_clone(&twin.sim, scene.world.sim, 5, &twin.clock));
    sel_disk_sim_crash(twin.sim, SEL_DISK_SIM_KEEP, 5);
    uint8_t byte;
    assert_ok(sel_disk_sim_peek(twin.sim, flip->name, flip->offset, &byte, 1));
    byte ^= (uint8_t)(1 + flip->offset % 255);
    assert_ok(sel_disk_sim_poke(twin.sim, flip->name, flip->offset, &byte, 1));
    twin.catalog_sim = absent ? NULL : scene.world.catalog_sim;
    if (absent)
        assert_ok(sel_catalog_sim_create(&twin.catalog_sim));
    snprintf(world_where, sizeof world_where, "%s byte %llu flipped, index %s", flip->name,
             (unsigned long long)flip->offset, absent ? "absent" : "intact");
    WORLD_CHECK(world_open(&twin, NULL) == 0, "the store does not open");
    sel_lsm_get_stats(twin.lsm, &stats);
    for (uint32_t i = 0; i < scene.model.count; i++) {
        const struct model_record *record = &scene.model.records[i];
        const struct sel_location *at = &record->location;
        const struct world_seen *seen = world_find(&twin, &record->fields.key);
        bool hit = hits(flip, at->pages, at->pages_blocks), row_hit = hits(flip, at->row, at->row_blocks);
        bool head = absent && flip->offset < 4096 && (at->pages >> 32 == flip->segment);
        bool row_head = absent && flip->offset < 4096 && (at->row >> 32 == flip->segment);
        WORLD_CHECK(seen || hit || head, "record %u is lost", i);
        WORLD_CHECK(seen || stats.torn_extents + stats.bad_segments + stats.future_segments > 0,
                    "a loss is not counted");
        if (seen)
            WORLD_CHECK(world_read(&twin, record, &seen->location, 0) == 0 || (hit && !absent),
                        "record %u: the pages are not right", i);
        if (seen && seen->has_row)
            WORLD_CHECK(world_read(&twin, record, &seen->location, 1) == 0 || (row_hit && !absent),
                        "record %u: the row is not right", i);
        WORLD_CHECK(!seen || seen->has_row || model_row(record) == MODEL_ROW_NONE || row_hit || row_head,
                    "record %u: the row is lost", i);
    }
    world_check(&twin);
    world_abort(&twin);
    sel_disk_sim_destroy(&twin.sim);
    if (absent)
        sel_catalog_sim_destroy(&twin.catalog_sim);
}

static const char *segment_names[16];
static int segment_count;

static void collect_name(void *context, const char *name) {
    (void)context;
    if (strncmp(name, "seg-", 4) == 0 && segment_count < 16)
        segment_names[segment_count++] = strdup(name);
}

static void one_byte_flipped(void **state) {
    (void)state;
    uint64_t stride = test_count("SELENE_TEST_STRIDE", 509), flips = 0;
    scene_open(false);
    for (int i = 0; i < 4; i++)
        assert_ok(write_whole(&scene.world, scene_add(NULL, i % 2)));
    assert_ok(world_close(&scene.world));
    sel_disk_sim_visit(scene.world.sim, collect_name, NULL);
    assert_true(segment_count >= 2);
    for (int i = 0; i < segment_count; i++) {
        struct flip flip = {.name = segment_names[i]};
        uint64_t size;
        assert_int_equal(sscanf(flip.name, "seg-%8x.sel", &flip.segment), 1);
        assert_ok(sel_disk_sim_size(scene.world.sim, flip.name, &size));
        /* Heads and headers densely, the rest by strides. */
        for (; flip.offset < size; flip.offset += flip.offset % 4096 < 256 ? 7 : stride) {
            open_flipped(&flip, false, NULL);
            open_flipped(&flip, true, NULL);
            flips++;
        }
        free((void *)(uintptr_t)segment_names[i]);
    }
    printf("%llu flips\n", (unsigned long long)flips);
    scene_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_byte_flipped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
