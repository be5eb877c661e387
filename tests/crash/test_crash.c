/* SPDX-License-Identifier: Apache-2.0
 *
 * The crash test: a seeded random workload on the simulated disk and catalogue, cut at every step [D4, D5, D7, D8]. It
 * writes families of records in pieces, abandons some, removes leaves and rows, gives records new rows [T2, T5], packs
 * pages and rows each for itself [K3], writes removed keys again, holds readers, runs into the limit, stops and starts again; segments are so small that they are rolled, recycled and
 * punched all the time. Shows faults 7, 11, 12 and 20 besides.
 *
 *   SELENE_TEST_SEEDS     how many seeds (default 200; 6 with sanitizers), SELENE_TEST_SEED the first one
 *   SELENE_TEST_VARIANTS  1: at each step with the index intact, rolled back or absent in turn; default all three
 *   SELENE_TEST_STEP      cut at this step only; SELENE_TEST_LOG=1 shows the stores' messages
 */
#include "tests/crash/workload.h"

#include "tests/lib/test.h"

#include <malloc.h>

#ifdef SELENE_SANITIZED
#define SEEDS 6
#else
#define SEEDS 200
#endif
#define ACTIONS 450

static void settle(struct workload *load) {
    bool busy = true;
    while (busy) {
        busy = false;
        for (int i = 0; i < WRITES; i++) {
            load_advance_write(load, i);
            busy |= load->used[i];
        }
        for (int i = 0; i < READERS; i++)
            if (load->readers[i].record) {
                load_turn_reader(load, &load->readers[i]);
                busy |= load->readers[i].record != NULL;
            }
        for (size_t i = 0; i < load->removal_count; i++)
            busy |= load->removals[i].busy;
        if (busy)
            world_turn(&load->run->world);
    }
}

static void add_stats(struct workload *load) {
    struct sel_lsm_stats stats;
    sel_lsm_get_stats(load->run->world.lsm, &stats);
    load->stats.recycled_segments += stats.recycled_segments;
    load->stats.punched_bytes += stats.punched_bytes;
    load->stats.copied_forward_bytes += stats.copied_forward_bytes;
    load->stats.groups += stats.groups;
}

static void no_faults(struct world *world) {
    sel_disk_sim_fail_sync(world->sim, 0);
    sel_catalog_sim_fail(world->catalog_sim, 0, 0, 0);
}

/* A clean stop and start in the middle: all of it, and nothing more, is told. */
static void stop_and_start(struct workload *load) {
    struct world *world = &load->run->world;
    struct selene_message message = {{0}};
    settle(load);
    add_stats(load);
    no_faults(world);
    WORLD_CHECK(world_close(world) == 0, "closing fails");
    WORLD_CHECK(world_open(world, &message) == 0, "opening: %s", message.text);
    cut_compare(load->run, world, CUT_INTACT);
    WORLD_CHECK(world->refused == 0, "%u refused after a clean stop", world->refused);
    load->reopened++;
}

static void check_limit(const struct world *world) {
    struct sel_disk_sim_stats stats;
    sel_disk_sim_get_stats(world->sim, &stats);
    uint64_t bytes = stats.allocated_bytes + world->catalog->ops->file_bytes(world->catalog);
    WORLD_CHECK(world->config.limit_bytes == 0 || bytes <= world->config.limit_bytes,
                "%llu bytes on the disk, the limit is %llu", (unsigned long long)bytes,
                (unsigned long long)world->config.limit_bytes);
    WORLD_CHECK(stats.overlaps == 0, "%llu ios overlap", (unsigned long long)stats.overlaps);
}

static void act(struct workload *load) {
    struct model_record *record;
    uint64_t action = load_below(load, 14);
    /* By turns more is written than removed and the other way round, so that whole segments die. */
    if (load->shrinking && action >= 4 && action < 8)
        action = 0;
    load->shrinking ^= load_below(load, load->shrinking ? 25 : 80) == 0;
    if (load->sync_faults && load_below(load, 60) == 0)
        sel_disk_sim_fail_sync(load->run->world.sim, 1 + load_below(load, 3));
    if (load->index_faults && load_below(load, 25) == 0)
        sel_catalog_sim_fail(load->run->world.catalog_sim, 1 + load_below(load, 2), load_below(load, 2), SELENE_E_IO);
    switch (action) {
    case 0:
        if ((record = load_pick(load, load_can_be_removed)) != NULL)
            load_start_removal(load, record, false);
        break;
    case 1:
        if ((record = load_pick(load, load_row_can_be_removed)) != NULL)
            load_start_removal(load, record, true);
        break;
    case 2:
    case 3:
        load_turn_reader(load, &load->readers[load_below(load, READERS)]);
        break;
    case 4:
        sel_lsm_flush(load->run->world.lsm);
        break;
    case 5:
    case 6:
    case 7:
        load_start_write(load);
        break;
    case 8:
        load_start_row(load);
        break;
    default:
        load_advance_write(load, (int)load_below(load, WRITES));
    }
    if (load_below(load, 3))
        world_turn(&load->run->world);
    check_limit(&load->run->world);
}

static void configure(struct cut_run *run) {
    struct sel_lsm_config *config = &run->world.config;
    uint64_t luck = sel_mix64(run->seed);
    config->segment_bytes = 128 << 10;
    config->group_bytes = luck % 3 ? 256 << 10 : 0;
    config->group_ns = SEL_NS_PER_MS;
    config->durability = luck / 8 % 4 == 0 ? SEL_LSM_STRICT : SEL_LSM_RELAXED;
    config->limit_bytes = luck / 32 % 2 ? 1024 << 10 : 0;
}

static void run_seed(uint64_t seed, uint64_t only_step, struct workload *load, struct cut_run *run) {
    struct selene_message message = {{0}};
    memset(load, 0, sizeof *load);
    memset(run, 0, sizeof *run);
    run->seed = seed;
    run->only_step = only_step;
    load->run = run;
    load->sync_faults = sel_mix64(seed) / 512 % 4 == 0;
    load->index_faults = sel_mix64(seed) / 4096 % 3 == 0;
    load->inner = sel_mix64(seed) / 32768 % 3 == 0;
    sel_random_seed(&load->random, seed);
    model_create(&run->model);
    world_create(&run->world, &run->model, seed);
    run->world.leads = true;
    configure(run);
    struct sel_disk_sim_config config = {.seed = seed, .no_fallocate = sel_mix64(seed) / 64 % 5 == 0};
    assert_ok(sel_disk_sim_create(&run->world.sim, &config, &run->world.clock));
    assert_ok(sel_catalog_sim_create(&run->world.catalog_sim));
    cut_watch(run);
    WORLD_CHECK(world_open(&run->world, &message) == 0, "first opening: %s", message.text);
    for (int i = 0; i < ACTIONS; i++) {
        act(load);
        if (load_below(load, ACTIONS) == 0 && !load->inner) /* it would drop what has lost its parent */
            stop_and_start(load);
    }
    settle(load);
    world_check(&run->world);
    check_limit(&run->world);
    add_stats(load);
    no_faults(&run->world);
    WORLD_CHECK(world_close(&run->world) == 0, "the last closing fails");
    world_destroy(&run->world);
    cut_log_free(&run->log);
    model_destroy(&run->model);
}

static void cut_at_every_step(void **state) {
    (void)state;
    static struct workload load;
    static struct cut_run run;
    uint64_t seeds = test_count("SELENE_TEST_SEEDS", SEEDS), first = test_count("SELENE_TEST_SEED", 1);
    uint64_t cuts = 0, visited = 0, recovered = 0, torn = 0, removed = 0, full = 0, rewritten = 0, double_cuts = 0;
    uint64_t recycled = 0, punched = 0, copied = 0, groups = 0, reopened = 0, rows_removed = 0, rows_written = 0;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        run_seed(seed, test_count("SELENE_TEST_STEP", 0), &load, &run);
        cuts += run.cuts;
        visited += run.visited;
        recovered += run.recovered;
        torn += run.torn;
        double_cuts += run.double_cuts;
        removed += load.removed;
        full += load.full;
        rewritten += load.rewritten;
        recycled += load.stats.recycled_segments;
        punched += load.stats.punched_bytes;
        copied += load.stats.copied_forward_bytes;
        groups += load.stats.groups;
        reopened += load.reopened;
        rows_removed += load.rows_removed;
        rows_written += load.rows_written;
    }
    printf("%llu rows removed, %llu written again\n", (unsigned long long)rows_removed,
           (unsigned long long)rows_written);
    printf("%llu groups, %llu clean stops, %llu segments recycled, %llu bytes punched, %llu copied forward\n",
           (unsigned long long)groups, (unsigned long long)reopened, (unsigned long long)recycled,
           (unsigned long long)punched, (unsigned long long)copied);
    printf(
        "%llu seeds, %llu cuts (%llu of them twice), %llu records told, %llu recovered from tails, %llu extents torn; "
        "%llu removed, %llu keys written again, %llu times full\n",
        (unsigned long long)seeds, (unsigned long long)cuts, (unsigned long long)double_cuts,
        (unsigned long long)visited, (unsigned long long)recovered, (unsigned long long)torn,
        (unsigned long long)removed, (unsigned long long)rewritten, (unsigned long long)full);
}

int main(void) {
    /* Each opening takes and frees large buffers: not by system calls, for there are hundreds of thousands. */
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    const struct CMUnitTest tests[] = {cmocka_unit_test(cut_at_every_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
