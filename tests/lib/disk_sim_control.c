/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a simulated medium, power cuts, and direct access for tests.
 */
#include "tests/lib/disk_sim_priv.h"

#include <stdlib.h>

#define LATENCY_NS UINT64_C(100000)

/* ---- the medium's life ---- */

static struct sel_disk_sim *sim_new(const struct sel_disk_sim_config *config, struct sel_clock_manual *clock) {
    struct sel_disk_sim *sim = medium_memory(1, sizeof *sim);
    sim->config = *config;
    sim->config.latency_ns = config->latency_ns ? config->latency_ns : LATENCY_NS;
    sim->clock = clock;
    sel_random_seed(&sim->random, config->seed);
    sel_list_init(&sim->flights);
    return sim;
}

int sel_disk_sim_create(struct sel_disk_sim **out, const struct sel_disk_sim_config *config,
                        struct sel_clock_manual *clock) {
    *out = sim_new(config, clock);
    medium_init(&(*out)->medium);
    return 0;
}

int sel_disk_sim_clone(struct sel_disk_sim **out, const struct sel_disk_sim *sim, uint64_t seed,
                       struct sel_clock_manual *clock) {
    struct sel_disk_sim_config config = sim->config;
    config.seed = seed;
    *out = sim_new(&config, clock);
    medium_clone(&(*out)->medium, &sim->medium);
    return 0;
}

void sel_disk_sim_destroy(struct sel_disk_sim **sim) {
    if (*sim == NULL)
        return;
    SEL_CHECK((*sim)->open == NULL);
    medium_destroy(&(*sim)->medium);
    free(*sim);
    *sim = NULL;
}

void sel_disk_sim_get_stats(const struct sel_disk_sim *sim, struct sel_disk_sim_stats *stats) {
    *stats = sim->stats;
    stats->allocated_bytes = sel_disk_sim_allocated(sim);
}

void sel_disk_sim_set_hook(struct sel_disk_sim *sim, void (*hook)(void *context, uint64_t step), void *context) {
    sim->hook = hook;
    sim->hook_context = context;
}

void sel_disk_sim_cut_at(struct sel_disk_sim *sim, uint64_t step) { sim->cut_step = step; }
void sel_disk_sim_cut(struct sel_disk_sim *sim) { sim->cut = true; }
bool sel_disk_sim_is_cut(const struct sel_disk_sim *sim) { return sim->cut; }
void sel_disk_sim_fail_sync(struct sel_disk_sim *sim, uint64_t countdown) { sim->fail_sync = countdown; }

struct fate {
    enum sel_disk_sim_crash mode;
    struct sel_random random;
};

static enum medium_fate fate(void *context) {
    struct fate *chooser = context;
    if (chooser->mode == SEL_DISK_SIM_RANDOM)
        return (enum medium_fate)sel_random_below(&chooser->random, 3);
    return chooser->mode == SEL_DISK_SIM_KEEP ? MEDIUM_KEEP : MEDIUM_DROP;
}

void sel_disk_sim_crash(struct sel_disk_sim *sim, enum sel_disk_sim_crash mode, uint64_t seed) {
    struct fate chooser = {.mode = mode};
    SEL_CHECK(sim->open == NULL);
    sel_random_seed(&chooser.random, seed);
    medium_crash(&sim->medium, fate, &chooser, &chooser.random);
    sim->cut = false;
    sim->cut_step = 0;
}

/* ---- direct access ---- */

static struct medium_file *named(const struct sel_disk_sim *sim, const char *name, uint64_t offset, size_t count) {
    struct medium_file *file = medium_lookup(&sim->medium, name);
    if (file)
        SEL_CHECK(offset <= file->now.size && count <= file->now.size - offset);
    return file;
}

int sel_disk_sim_size(const struct sel_disk_sim *sim, const char *name, uint64_t *bytes) {
    const struct medium_file *file = named(sim, name, 0, 0);
    *bytes = file ? file->now.size : 0;
    return file ? 0 : SELENE_E_NOTFOUND;
}

int sel_disk_sim_peek(const struct sel_disk_sim *sim, const char *name, uint64_t offset, void *bytes, size_t count) {
    const struct medium_file *file = named(sim, name, offset, count);
    if (file == NULL)
        return SELENE_E_NOTFOUND;
    medium_read(&file->now, offset, bytes, count);
    return 0;
}

int sel_disk_sim_poke(struct sel_disk_sim *sim, const char *name, uint64_t offset, const void *bytes, size_t count) {
    struct medium_file *file = named(sim, name, offset, count);
    if (file == NULL)
        return SELENE_E_NOTFOUND;
    medium_poke(&file->now, offset, bytes, count);
    if (offset + count <= file->durable.size)
        medium_poke(&file->durable, offset, bytes, count);
    return 0;
}

void sel_disk_sim_visit(const struct sel_disk_sim *sim, void (*visit)(void *context, const char *name), void *context) {
    SEL_LIST_FOR_EACH(cursor, &sim->medium.names)
    visit(context, SEL_LIST_ENTRY(cursor, struct medium_name, link)->name);
}
