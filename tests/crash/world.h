/* SPDX-License-Identifier: Apache-2.0
 *
 * One store of a crash test with simulated edges: the one whose life is cut, or one that is opened after a cut. Writes,
 * reads and removals run against the model; any wrong byte ends the test.
 */
#ifndef SEL_TESTS_CRASH_WORLD_H
#define SEL_TESTS_CRASH_WORLD_H

#include "tests/crash/model.h"
#include "tests/lib/catalog_sim.h"
#include "tests/lib/disk_fault.h"
#include "tests/lib/disk_sim.h"

struct world_seen { /* what the visitor was told and did not refuse */
    struct model_record *record;
    struct sel_location location;
    bool has_row, row_replicated;
};

struct world {
    struct model *model;
    struct sel_disk_sim *sim;
    struct sel_catalog_sim *catalog_sim;
    struct sel_clock_manual clock;
    struct sel_random random;
    struct sel_ready ready;
    struct sel_disk *disk;
    bool leads;  /* the one whose life the model follows; others leave its records alone */
    bool faulty; /* put a fault wrapper around the disk */
    struct sel_catalog *catalog;
    struct sel_workers *workers, *blocking;
    struct sel_log log;
    unsigned warnings;
    struct sel_lsm_config config; /* sizes and durability: set before opening */
    struct sel_lsm *lsm;
    struct world_seen seen[MODEL_RECORDS];
    uint32_t seen_count;
    unsigned refused, turns;
};

/* A write of one record, data in up to three pieces, or of a new row. */
struct world_write {
    struct world *world;
    struct model_record *record;
    struct model_row *row; /* only that */
    struct sel_lsm_write *write;
    struct sel_op ops[4], done;
    struct iovec iov[4];
    int pieces, sent;
    bool finished;
    int result; /* 1: not known yet */
};

/* Both edges are the caller's to make; the world destroys them. */
void world_create(struct world *world, struct model *model, uint64_t seed);
void world_destroy(struct world *world); /* aborts what is open */
int world_open(struct world *world, struct selene_message *message);
int world_close(struct world *world);
void world_abort(struct world *world);

/* Polls, runs completions, and moves time to the next event when there were none. */
void world_turn(struct world *world);
/* Turns until the op is not in flight. */
void world_wait(struct world *world, const struct sel_op *op);

struct world_seen *world_find(struct world *world, const struct sel_key *key);

/* What begin answers; then piece by piece, then finish. */
int write_begin(struct world_write *write, struct world *world, struct model_record *record,
                struct sel_lsm_write *parent);
/* The same for the record's latest row alone; the record lies at `location`. */
int write_begin_row(struct world_write *write, struct world *world, struct model_record *record,
                    const struct sel_location *location);
void write_send(struct world_write *write); /* the next piece */
void write_finish(struct world_write *write);
bool write_busy(const struct world_write *write); /* something is in flight */
/* Begins (turning while the answer is RETRY), sends all, waits for the commit. */
int write_whole(struct world *world, struct model_record *record);
int write_whole_row(struct world *world, struct model_record *record, const struct sel_location *location);

/* Reads one part and compares it: 0, or the store's error. */
int world_read(struct world *world, const struct model_record *record, const struct sel_location *location, int part);
/* Reads a row and finds out which of the record's rows it is. */
int world_read_row(struct world *world, const struct model_record *record, const struct sel_location *location,
                   bool replicated, const struct model_row **which);
int world_remove(struct world *world, const struct sel_location *location);
void world_check(struct world *world); /* sel_lsm_check */

/* Where the test is, for messages: printed when it fails. */
extern char world_where[256];
_Noreturn void world_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define WORLD_CHECK(condition, ...)                                                                                    \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            world_fail(__VA_ARGS__);                                                                                   \
    } while (0)

#endif
