/* SPDX-License-Identifier: Apache-2.0
 *
 * The scene of the single-fault tests, see scene.h. There is one at a time.
 */
#include "tests/crash/scene.h"

#include "tests/lib/test.h"

struct scene scene;

void scene_open(bool faulty) {
    struct selene_message message = {{0}};
    struct sel_disk_sim_config config = {.seed = 1};
    memset(&scene, 0, sizeof scene);
    model_create(&scene.model);
    world_create(&scene.world, &scene.model, 1);
    scene.world.leads = true;
    scene.world.faulty = faulty;
    scene.world.config.segment_bytes = 256 << 10;
    scene.world.config.group_ns = SEL_NS_PER_MS;
    assert_ok(sel_disk_sim_create(&scene.world.sim, &config, &scene.world.clock));
    assert_ok(sel_catalog_sim_create(&scene.world.catalog_sim));
    WORLD_CHECK(world_open(&scene.world, &message) == 0, "opening: %s", message.text);
}

void scene_close(void) {
    world_destroy(&scene.world);
    model_destroy(&scene.model);
}

struct model_record *scene_add(struct model_record *parent, bool has_row) {
    struct model_spec spec = {.parent = parent, .tokens = (parent ? parent->fields.tokens : 0) + 7, .has_row = has_row};
    struct model_record *record = model_add(&scene.model, &spec);
    assert_non_null(record);
    return record;
}
