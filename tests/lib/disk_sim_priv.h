/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated disk's own struct: disk_sim.c carries ios out, disk_sim_control.c is what tests do to it.
 */
#ifndef SEL_TESTS_DISK_SIM_PRIV_H
#define SEL_TESTS_DISK_SIM_PRIV_H

#include "tests/lib/disk_medium.h"
#include "tests/lib/disk_sim.h"

struct sel_disk_sim {
    struct sel_disk_sim_config config;
    struct sel_clock_manual *clock;
    struct sel_random random;
    struct medium medium;
    struct sel_list flights;
    struct sim_disk *open;
    uint64_t cut_step;
    bool cut;
    bool locked;
    void (*hook)(void *context, uint64_t step);
    void *hook_context;
    uint64_t fail_sync;
    struct sel_disk_sim_stats stats;
};

/* Of files that have a name or are open. */
uint64_t sel_disk_sim_allocated(const struct sel_disk_sim *sim);

#endif
