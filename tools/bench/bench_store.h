/* SPDX-License-Identifier: Apache-2.0
 *
 * A record store in a directory, with all it needs around it, driven by one thread that sleeps on an eventfd: what the
 * engine does, without the engine.
 */
#ifndef SEL_TOOLS_BENCH_STORE_H
#define SEL_TOOLS_BENCH_STORE_H

#include "lsm/lsm.h"
#include "tools/bench/bench.h"

/* A disk, a queue of completions and an eventfd that says there are some. */
struct bench_disk_rig {
    int event_fd;
    struct sel_ready ready;
    struct sel_disk *disk;
};
int bench_disk_rig_open(struct bench_disk_rig *rig, const char *directory, struct selene_message *message);
void bench_disk_rig_close(struct bench_disk_rig *rig);
/* Runs completions; when there were none, sleeps until there may be some or `timeout_ns` passed. */
void bench_disk_rig_turn(struct bench_disk_rig *rig, uint64_t timeout_ns);

struct bench_store {
    struct bench_disk_rig rig;
    struct sel_catalog *catalog;
    struct sel_workers *workers, *blocking;
    struct sel_lsm *lsm;
    /* Put around the real disk when not NULL; owns it. Set before opening. */
    struct sel_disk *(*wrap)(void *context, struct sel_disk *disk);
    void *wrap_context;
    uint64_t segment_bytes; /* 0: the default. Set before opening. */
    uint64_t open_ns;       /* what opening took: catalogue and record store */
};
/* Makes or opens the store in `directory`, which must exist. `visit` may be NULL: every record is taken. */
int bench_store_open(struct bench_store *store, const char *directory, enum sel_lsm_durability durability,
                     sel_lsm_visit *visit, void *context, struct selene_message *message);
void bench_store_close(struct bench_store *store); /* a clean stop; half-opened ones too */
void bench_store_abort(struct bench_store *store); /* as a crash of the process */
/* One step: polls the store, runs completions, sleeps when there is nothing to do. */
void bench_store_turn(struct bench_store *store);
struct sel_lsm_stats bench_store_stats(const struct bench_store *store);
/* Turns until every removed record's space is given back, or 10 s passed. */
void bench_store_settle(struct bench_store *store);

#endif
