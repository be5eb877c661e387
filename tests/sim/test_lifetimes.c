/* SPDX-License-Identifier: Apache-2.0
 *
 * Record lifetimes against the model, exactly [T1, T2, T4, T5, T7, T8, K1, P8]: conversations grow, fork and rewind, one
 * operation after another, in a memory and on a disk that are large enough. After every step the store must hold
 * exactly the checkpoints that the model holds, with exactly those rows, in exactly so many slots, and check itself
 * [fault 7]; every restored byte is compared.
 *
 * A run is a seed; SELENE_TEST_SEEDS and SELENE_TEST_STEPS make it long.
 */
#include "tests/sim/life_model.h"
#include "tests/sim/life_world.h"

#ifdef SELENE_SANITIZED
#define SEEDS 4
#else
#define SEEDS 50
#endif

struct run {
    struct life_world life;
    struct life_model model;
    struct device_request request;
    uint64_t steps, published, came_back, thinned, restored, drained, reopened;
};

/* ---- comparing ---- */

static bool has_memory_row(const struct sel_node *node) {
    const struct sel_memory *memory = node->memory;
    return memory && memory->row.count > 0;
}
static bool has_disk_row(const struct sel_node *node) {
    return node->disk.row != 0 && !(node->flags & SEL_THINNING_DISK);
}

static void compare_node(struct run *run, int index, uint64_t *slots) {
    const struct life_node *expected = &run->model.nodes[index];
    struct sel_node *node = life_node(&run->life, &expected->key, expected->tokens);
    uint32_t parent_tokens = expected->parent < 0 ? 0 : run->model.nodes[expected->parent].tokens;
    assert_non_null(node);
    assert_int_equal(node->parent ? node->parent->tokens : 0, parent_tokens);
    assert_int_equal(node->tier[SEL_TIER_MEMORY].present, expected->present[LIFE_MEMORY]);
    assert_int_equal(node->tier[SEL_TIER_DISK].present, expected->present[LIFE_DISK]);
    if (has_memory_row(node) != expected->row[LIFE_MEMORY] || has_disk_row(node) != expected->row[LIFE_DISK])
        print_error("tokens %u: rows found %d %d, expected %d %d; flags %x, children %u %u, spare %u\n", node->tokens,
                    has_memory_row(node), has_disk_row(node), expected->row[0], expected->row[1], node->flags,
                    node->tier[0].children, node->tier[1].children, run->model.spare_rows);
    assert_int_equal(has_memory_row(node), expected->row[LIFE_MEMORY]);
    assert_int_equal(has_disk_row(node), expected->row[LIFE_DISK]);
    if (expected->present[LIFE_MEMORY])
        *slots += life_slots(&run->life, expected->tokens, parent_tokens, expected->row[LIFE_MEMORY]);
}

static void compare(struct run *run) {
    uint64_t slots = 0;
    for (int i = 0; i < run->model.count; i++)
        compare_node(run, i, &slots);
    struct selene_stats stats = world_stats(&run->life.world);
    assert_int_equal(sel_tree_count(run->life.world.store->tree), run->model.count);
    assert_int_equal(stats.slots_used, slots);
    assert_int_equal(stats.dropped_records + stats.evictions[SELENE_TIER_MEMORY] + stats.evictions[SELENE_TIER_DISK],
                     0);
}

/* ---- publishing ---- */

static void commit(struct run *run, const struct life_talk *talk, uint32_t tokens) {
    enum life_tier tier = run->life.warm ? LIFE_MEMORY : LIFE_DISK;
    uint64_t name = talk->sequence.history[tokens - 1];
    int node = life_find(&run->model, name, tokens);
    if (node >= 0) {
        life_bring_back(&run->model, node, tier);
        run->came_back++;
        return;
    }
    struct sel_key key;
    assert_ok(selene_prefix_key(talk->sequence.prefix, tokens, key.bytes));
    node = life_add(&run->model, name, tokens, life_ancestor(&run->model, talk->sequence.history, tokens), &key);
    life_commit(&run->model, node, tier);
    run->published++;
}

static void publish(struct run *run, bool cancel) {
    uint32_t tokens;
    struct life_talk *talk = life_say(&run->life, &tokens);
    struct world *world = &run->life.world;
    struct selene_publish_result result;
    int held = life_find(&run->model, talk->sequence.history[tokens - 1], tokens);
    int above = held >= 0 ? run->model.nodes[held].parent : life_ancestor(&run->model, talk->sequence.history, tokens);
    request_fill(world, &run->request, &talk->sequence, tokens);
    /* Without memory it may have to wait for a segment to be made. */
    for (int round = 0; round < 1000; round++) {
        assert_ok(selene_publish(world->store, talk->sequence.prefix, tokens, &run->request.state, &result));
        if (run->life.warm || result.answer != SELENE_RETRY)
            break;
        struct selene_event event;
        assert_int_equal(world_poll(world, &event, 1), 0);
    }
    if (held >= 0 && life_has_row(&run->model.nodes[held])) {
        assert_int_equal(result.answer, SELENE_PRESENT);
        return;
    }
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    uint32_t from = above < 0 ? 0 : run->model.nodes[above].tokens;
    if (held >= 0 && (run->model.nodes[held].present[LIFE_MEMORY] || !run->life.warm))
        from = tokens; /* nothing but the row */
    assert_int_equal(result.from_tokens, from);
    if (cancel)
        assert_ok(selene_cancel(world->store, result.ticket));
    struct selene_event event = world_wait(world, result.ticket);
    assert_true(event.result == 0 || (cancel && event.result == SELENE_E_CANCELLED));
    if (event.result == 0)
        commit(run, talk, tokens);
}

/* ---- restoring ---- */

/* A restore from disk leaves copies in memory [R5]: taken over as they are, since what was loaded depends on sizes; but
 * no row comes from nowhere. */
static void adopt_memory(struct run *run) {
    for (int i = 0; i < run->model.count; i++) {
        struct life_node *node = &run->model.nodes[i];
        const struct sel_node *real = life_node(&run->life, &node->key, node->tokens);
        assert_non_null(real);
        assert_true(real->tier[SEL_TIER_MEMORY].present >= node->present[LIFE_MEMORY]);
        assert_true(has_memory_row(real) >= node->row[LIFE_MEMORY]);
        assert_true(!has_memory_row(real) || life_has_row(node));
        node->present[LIFE_MEMORY] = real->tier[SEL_TIER_MEMORY].present;
        node->row[LIFE_MEMORY] = has_memory_row(real);
    }
}

static void restore(struct run *run) {
    struct life_talk *talk = &run->life.talks[life_below(&run->life, LIFE_TALKS)];
    uint32_t limit = (uint32_t)life_below(&run->life, LIFE_TOKENS + 1);
    uint32_t expected = life_lookup(&run->model, talk->sequence.history, LIFE_TOKENS, limit);
    assert_int_equal(world_restore(&run->life.world, &run->request, &talk->sequence, limit, NULL), expected);
    run->restored += expected > 0;
    if (run->life.disk && run->life.warm)
        adopt_memory(run);
}

/* ---- draining and reopening ---- */

/* Marks the records whose rows are looked at because this one was committed. */
static void mark_evaluated(const struct life_model *model, int node, bool *evaluated) {
    int above = model->nodes[node].parent;
    for (uint32_t i = 0; i <= model->spare_rows && above >= 0; i++, above = model->nodes[above].parent)
        evaluated[above] = true;
}

/* Everything is on disk now. A row went there with its record or after it; where a commit below made it one that nobody
 * resumes at, it is gone. Memory may have kept one that was written by itself for the disk only. */
static void drain_row(struct run *run, int index, bool evaluated, bool was_there) {
    struct life_node *node = &run->model.nodes[index];
    if (life_thins(&run->model, index, LIFE_DISK)) {
        node->row[LIFE_DISK] &= !evaluated;
    } else if (node->row[LIFE_MEMORY] && !node->row[LIFE_DISK]) {
        node->row[LIFE_DISK] = true;
        node->row[LIFE_MEMORY] = !(was_there && life_thins(&run->model, index, LIFE_MEMORY));
    }
}

static void drain(struct run *run) {
    static bool evaluated[LIFE_NODES_MAX], was_there[LIFE_NODES_MAX];
    if (!run->life.disk || !run->life.warm)
        return;
    struct selene_event event = world_drain(&run->life.world);
    assert_int_equal(event.result, 0);
    run->drained++;
    memset(evaluated, 0, sizeof evaluated);
    for (int i = 0; i < run->model.count; i++) {
        struct life_node *node = &run->model.nodes[i];
        was_there[i] = node->present[LIFE_DISK];
        if (was_there[i])
            continue;
        node->present[LIFE_DISK] = true;
        mark_evaluated(&run->model, i, evaluated);
        if (node->parent >= 0)
            run->model.nodes[node->parent].hold[LIFE_DISK] = false;
    }
    for (int i = 0; i < run->model.count; i++)
        drain_row(run, i, evaluated[i], was_there[i]);
}

/* A removal of a row that was not committed when the power went did not happen. */
static void adopt_disk_row(struct run *run, struct life_node *node) {
    const struct sel_node *real = life_node(&run->life, &node->key, node->tokens);
    assert_non_null(real);
    assert_true(has_disk_row(real) >= node->row[LIFE_DISK]);
    node->row[LIFE_DISK] = has_disk_row(real);
}

static void reopen(struct run *run, bool crash) {
    struct world *world = &run->life.world;
    drain(run);
    compare(run);
    if (crash)
        world_crash(world, life_below(&run->life, 1 << 30));
    else
        world_close(world);
    world_open(world);
    life_prefixes(&run->life);
    run->reopened++;
    if (!run->life.disk)
        run->model.count = 0;
    for (int i = 0; i < run->model.count; i++) {
        struct life_node *node = &run->model.nodes[i];
        node->present[LIFE_MEMORY] = node->row[LIFE_MEMORY] = false;
        node->hold[LIFE_MEMORY] = node->hold[LIFE_DISK] = false;
        if (crash)
            adopt_disk_row(run, node);
    }
}

static void step(struct run *run) {
    switch (life_below(&run->life, 64)) {
    case 0 ... 45:
        publish(run, false);
        break;
    case 46 ... 48:
        publish(run, true);
        break;
    case 49 ... 61:
        restore(run);
        break;
    case 62:
        drain(run);
        break;
    default:
        if (life_below(&run->life, 8) == 0)
            reopen(run, life_below(&run->life, 4) == 0);
    }
    world_check(&run->life.world);
    compare(run);
}

/* A store and its model, until the model is full. */
static void era(struct run *run, uint64_t seed, uint64_t steps) {
    bool warm = seed % 3 != 0, disk = seed % 3 != 1;
    life_open(&run->life, seed, warm ? 8192 : 0, disk, 1);
    run->model.count = 0;
    run->model.spare_rows = run->life.world.options.spare_rows;
    run->model.thins = !run->life.world.options.no_thinning;
    request_make(&run->life.world, &run->request, 0, LIFE_BLOCKS);
    for (; run->steps < steps && run->model.count < 240; run->steps++)
        step(run);
    for (enum selene_tier tier = SELENE_TIER_MEMORY; tier <= SELENE_TIER_DISK; tier++)
        run->thinned += world_stats(&run->life.world).rows_thinned[tier];
    request_free(&run->life.world, &run->request);
    life_close(&run->life);
}

static void one_run(uint64_t seed, uint64_t steps) {
    static struct run run;
    memset(&run, 0, sizeof run);
    for (uint64_t part = 0; run.steps < steps; part++)
        era(&run, seed * 1000 + part, steps);
    if (getenv("SELENE_TEST_LOG"))
        print_message(
            "seed %lu: %lu published, %lu came back, %lu rows thinned, %lu restored, %lu drains, %lu reopened\n",
            (unsigned long)seed, (unsigned long)run.published, (unsigned long)run.came_back, (unsigned long)run.thinned,
            (unsigned long)run.restored, (unsigned long)run.drained, (unsigned long)run.reopened);
}

static void test_exact(void **state) {
    uint64_t seeds = test_count("SELENE_TEST_SEEDS", SEEDS), first = test_count("SELENE_TEST_FIRST_SEED", 1);
    uint64_t steps = test_count("SELENE_TEST_STEPS", 10000);
    (void)state;
    for (uint64_t seed = first; seed < first + seeds; seed++)
        one_run(seed, steps);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
