/* SPDX-License-Identifier: Apache-2.0
 *
 * Time as an interface, so that a simulated store runs on virtual time. Nothing outside clock.c calls clock_gettime.
 */
#ifndef SEL_BASE_CLOCK_H
#define SEL_BASE_CLOCK_H

#include <stdint.h>

struct sel_clock {
    uint64_t (*mono_ns)(struct sel_clock *clock); /* never goes back */
    uint64_t (*wall_ns)(struct sel_clock *clock); /* nanoseconds since 1970, may jump */
};

/* The system's clocks. Static, any thread. */
struct sel_clock *sel_clock_system(void);

/* A clock that stands still until it is moved. Starts at mono 1 s, wall 2026-01-01T00:00:00Z. Single-threaded. */
struct sel_clock_manual {
    struct sel_clock clock;
    uint64_t mono;
    uint64_t wall;
};
void sel_clock_manual_init(struct sel_clock_manual *manual);
void sel_clock_manual_advance(struct sel_clock_manual *manual, uint64_t ns);

static inline uint64_t sel_mono_ns(struct sel_clock *clock) { return clock->mono_ns(clock); }
static inline uint64_t sel_wall_ns(struct sel_clock *clock) { return clock->wall_ns(clock); }

#define SEL_NS_PER_SECOND UINT64_C(1000000000)
#define SEL_NS_PER_MS     UINT64_C(1000000)

#endif
