/* SPDX-License-Identifier: Apache-2.0
 *
 * Power cuts. At a step of a running store its disk is cloned and its catalogue rebuilt from the log of commits; the
 * clone crashes, a second store opens it, and everything that was promised is looked for. The running store notices
 * nothing and goes on to the next step.
 */
#ifndef SEL_TESTS_CRASH_CUT_H
#define SEL_TESTS_CRASH_CUT_H

#include "tests/crash/world.h"

enum cut_index {
    CUT_INTACT = 0,
    CUT_ROLLED_BACK, /* to any earlier commit */
    CUT_ABSENT,
    CUT_INDEXES
};

struct cut_log { /* of commits */
    struct cut_commit {
        struct sel_catalog_change *changes;
        uint8_t *values;
        size_t count;
    } * commits;
    size_t count, capacity;
};

struct cut_run {
    uint64_t seed;
    struct model model;
    struct world world;
    struct cut_log log;
    uint64_t step, only_step; /* 0: all */
    uint64_t cuts, visited, recovered, torn, double_cuts;
};

/* Starts cutting the run's world at every step from now on. */
void cut_watch(struct cut_run *run);
void cut_log_free(struct cut_log *log);

/* What was told at opening is what must be, may be, or must not be there. */
void cut_compare(const struct cut_run *run, struct world *world, enum cut_index index);

#endif
