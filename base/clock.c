/* SPDX-License-Identifier: Apache-2.0
 *
 * The system's clocks, and one that is moved by hand.
 */
#include "base/clock.h"

#include "base/check.h"

#include <time.h>

#define MANUAL_START_WALL_S UINT64_C(1767225600) /* 2026-01-01T00:00:00Z */

static uint64_t read_ns(clockid_t id) {
    struct timespec now;
    SEL_CHECK(clock_gettime(id, &now) == 0);
    return (uint64_t)now.tv_sec * SEL_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static uint64_t system_mono_ns(struct sel_clock *clock) {
    (void)clock;
    return read_ns(CLOCK_MONOTONIC);
}

static uint64_t system_wall_ns(struct sel_clock *clock) {
    (void)clock;
    return read_ns(CLOCK_REALTIME);
}

struct sel_clock *sel_clock_system(void) {
    static struct sel_clock system_clock = {system_mono_ns, system_wall_ns};
    return &system_clock;
}

static uint64_t manual_mono_ns(struct sel_clock *clock) {
    return SEL_CONTAINER(clock, struct sel_clock_manual, clock)->mono;
}

static uint64_t manual_wall_ns(struct sel_clock *clock) {
    return SEL_CONTAINER(clock, struct sel_clock_manual, clock)->wall;
}

void sel_clock_manual_init(struct sel_clock_manual *manual) {
    manual->clock.mono_ns = manual_mono_ns;
    manual->clock.wall_ns = manual_wall_ns;
    manual->mono = SEL_NS_PER_SECOND;
    manual->wall = MANUAL_START_WALL_S * SEL_NS_PER_SECOND;
}

void sel_clock_manual_advance(struct sel_clock_manual *manual, uint64_t ns) {
    manual->mono += ns;
    manual->wall += ns;
}
