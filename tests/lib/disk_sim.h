/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated side of the I/O seam (lsm/disk.h): a disk in memory that loses power. The medium (sel_disk_sim) lives
 * on when the disk that was opened on it is destroyed, so a crash is: destroy the disk, sel_disk_sim_crash, open anew;
 * or, in the middle of a run and without disturbing it: clone the medium and crash the clone.
 *
 * Three states of a change to a file (write, allocate, punch, truncate) or to the directory (create, rename, unlink):
 *   submitted  the io is in flight; the medium may have any part of it
 *   done       the io completed: reads see it; a crash may still drop or tear it
 *   durable    a SYNC (SYNC_DIR) of the file (directory) that was submitted after it was done has completed
 * A crash keeps, drops or tears each change that is not durable, independently of all others; writes tear at 512 bytes,
 * allocations and punches at 4 KiB.
 *
 * Time is a sel_clock_manual: an io takes latency_ns times 0.5 to 1.5, so completions come in an order chosen by the
 * seed; wait() moves the clock to the next completion. Every submission and every completion is a *step*, announced to
 * the hook before it takes effect; a cut of power can be set to a step. After a cut nothing changes any more and
 * everything in flight completes with SELENE_E_IO.
 *
 * What a caller must not do ends the test at once with a message: misaligned I/O, memory of a write changed while it is
 * in flight, closing a file with I/O in flight. Memory of a read is poisoned until it completes. Deterministic; one
 * thread.
 */
#ifndef SEL_TESTS_DISK_SIM_H
#define SEL_TESTS_DISK_SIM_H

#include "lsm/disk.h"

struct sel_disk_sim;

struct sel_disk_sim_config {
    uint64_t seed;
    uint64_t latency_ns;     /* 0: 100 us */
    uint64_t capacity_bytes; /* of allocated blocks; 0: no limit */
    bool no_fallocate;       /* ALLOCATE and PUNCH answer SELENE_E_UNSUPPORTED */
};

enum sel_disk_sim_crash {
    SEL_DISK_SIM_RANDOM = 0, /* each change kept, dropped or torn, by the seed */
    SEL_DISK_SIM_KEEP,       /* all of them kept, those in flight too: what the end of a process leaves at most */
    SEL_DISK_SIM_DROP        /* all of them dropped */
};

struct sel_disk_sim_stats {
    uint64_t steps;
    uint64_t ios[SEL_DISK_SYNC_DIR + 1]; /* completed, by kind */
    uint64_t in_flight;
    uint64_t in_flight_max;
    uint64_t reads_in_flight_max;
    uint64_t overlaps; /* ios submitted onto a range where a write is in flight, or writes onto a read */
    uint64_t allocated_bytes;
};

int sel_disk_sim_create(struct sel_disk_sim **out, const struct sel_disk_sim_config *config,
                        struct sel_clock_manual *clock);
void sel_disk_sim_destroy(struct sel_disk_sim **sim); /* no disk open on it; NULL-safe */
/* The medium as it is now, with what is in flight as submitted changes; its own seed and clock; no disk, hook or fault.
 * Blocks are shared until written, so this is cheap. */
int sel_disk_sim_clone(struct sel_disk_sim **out, const struct sel_disk_sim *sim, uint64_t seed,
                       struct sel_clock_manual *clock);

/* Opens the medium; one disk at a time (SELENE_E_IN_USE). */
int sel_disk_sim_open(struct sel_disk **out, struct sel_disk_sim *sim, struct sel_ready *ready);

/* When the next io completes; UINT64_MAX: none in flight. */
uint64_t sel_disk_sim_next_ns(const struct sel_disk_sim *sim);
void sel_disk_sim_get_stats(const struct sel_disk_sim *sim, struct sel_disk_sim_stats *stats);

/* Counts a step, for other edges (the catalogue) that share the count. */
void sel_disk_sim_step(struct sel_disk_sim *sim);
/* Runs before each step takes effect. May clone; must not touch the disk. */
void sel_disk_sim_set_hook(struct sel_disk_sim *sim, void (*hook)(void *context, uint64_t step), void *context);

/* Power off at this step (1: the first), or now. */
void sel_disk_sim_cut_at(struct sel_disk_sim *sim, uint64_t step);
void sel_disk_sim_cut(struct sel_disk_sim *sim);
bool sel_disk_sim_is_cut(const struct sel_disk_sim *sim);
/* Power back on, with the disk destroyed: what was not durable is kept, dropped or torn. */
void sel_disk_sim_crash(struct sel_disk_sim *sim, enum sel_disk_sim_crash mode, uint64_t seed);

/* The `countdown`-th SYNC from now (1: the next; 0: none) fails with SELENE_E_IO, and what it should have made durable
 * is not to be trusted: each change may be gone for good, though reads still see it and later syncs succeed. */
void sel_disk_sim_fail_sync(struct sel_disk_sim *sim, uint64_t countdown);

/* Direct access, for tests that damage files: reads see it, and it is durable at once. SELENE_E_NOTFOUND. */
int sel_disk_sim_size(const struct sel_disk_sim *sim, const char *name, uint64_t *bytes);
int sel_disk_sim_peek(const struct sel_disk_sim *sim, const char *name, uint64_t offset, void *bytes, size_t count);
int sel_disk_sim_poke(struct sel_disk_sim *sim, const char *name, uint64_t offset, const void *bytes, size_t count);
/* Visits the names that reads see now. */
void sel_disk_sim_visit(const struct sel_disk_sim *sim, void (*visit)(void *context, const char *name), void *context);

#endif
