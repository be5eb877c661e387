/* SPDX-License-Identifier: Apache-2.0
 *
 * See thin_rig.h.
 */
#include "tests/unit/engine/thin_rig.h"

struct world world;
struct device_request request;

void begin(uint32_t spare_rows, uint64_t warm_slots) { begin_alike(spare_rows, warm_slots, false); }

void begin_alike(uint32_t spare_rows, uint64_t warm_slots, bool alike) {
    struct world_layout shape = world_with_rows;
    shape.row_alike = alike;
    world_init(&world, &shape, 256, warm_slots, true);
    world_disk(&world, 1);
    world.options.spare_rows = spare_rows;
    world_open(&world);
    request_make(&world, &request, 0, 64);
}

void end(void) {
    world_check(&world);
    request_free(&world, &request);
    world_destroy(&world);
}

void publish(const struct sequence *sequence, uint32_t tokens) {
    assert_int_equal(world_publish(&world, &request, sequence, tokens), SELENE_ACCEPTED);
}

void grow(const struct sequence *sequence, uint32_t from, uint32_t to) {
    for (uint32_t at = from; at <= to; at += 8)
        publish(sequence, at);
}

bool disk_row(const struct sequence *sequence, uint32_t tokens) {
    const struct sel_node *node = world_node(&world, sequence, tokens);
    return node->disk.row != 0 && !(node->flags & SEL_THINNING_DISK);
}

bool memory_row(const struct sequence *sequence, uint32_t tokens) {
    const struct sel_memory *memory = world_node(&world, sequence, tokens)->memory;
    return memory && memory->row.count > 0;
}

void poll_some(int rounds) {
    struct selene_event event;
    for (int i = 0; i < rounds; i++)
        world_poll(&world, &event, 1);
}

void settle(void) {
    for (int i = 0; i < 1000 && (!sel_list_empty(&world.store->removals) || world.store->spill_count); i++)
        poll_some(1);
    assert_true(sel_list_empty(&world.store->removals));
    world_check(&world);
}

void reopen(struct sequence *sequence) {
    settle();
    world_close(&world);
    world_open(&world);
    sequence_prefix(&world, sequence);
}
