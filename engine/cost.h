/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a restore may take [R3]: for each tier its speed and its latency, measured from waves.
 *
 * A *wave* is all that a tier does for restores from the first transfer to the last one of those that overlap: however
 * many run side by side, they share one device, so their bytes together over the time in which it was busy is its speed,
 * and each one's own elapsed time is not. The time is that in which something was running: a restore that waits for its
 * caller's event, or for slots, is no slower device. A wave that does not end is cut after a second.
 *
 * A wave whose bytes take less time than the latency says what the latency is; any other says what the speed is, for the
 * more the larger it is. Neither is ruled by one outlier.
 *
 * A tier measured slow is used less, so it would stay slow for ever: between samples its speed doubles each minute, and
 * its latency halves, until they are what a good device of the kind has, or better, what this one once did. So the worst
 * that follows from a bad sample is that restores are declined for some minutes; and where the tier really is slow, one
 * restore in some minutes finds out.
 *
 * All functions here are pure: of samples and time.
 */
#ifndef SEL_ENGINE_COST_H
#define SEL_ENGINE_COST_H

#include <stdbool.h>
#include <stdint.h>

struct sel_cost {
    double ns_per_byte;      /* 0: nothing measured yet */
    double behind_bytes;     /* how much was measured for it, older samples counting less */
    double latency_ns;       /* of a transfer of nothing */
    double good_ns_per_byte; /* it recovers to these */
    double good_latency_ns;
    uint64_t speed_at_ns, latency_at_ns; /* of the last sample of each */
};

/* What is typical: where recovering ends and what counts until small restores were seen. */
void sel_cost_init(struct sel_cost *cost, double good_ns_per_byte, double good_latency_ns);
/* A wave moved so many bytes in so much time. */
void sel_cost_sample(struct sel_cost *cost, uint64_t bytes, uint64_t ns, uint64_t now_ns);
/* How long so many bytes may take; 0: nothing measured yet, or no bytes. */
uint64_t sel_cost_time(const struct sel_cost *cost, uint64_t bytes, uint64_t now_ns);

struct sel_wave {
    uint32_t users;    /* restores that are not through with the tier */
    uint32_t running;  /* transfers */
    uint64_t since_ns; /* when something began to run, while something does */
    uint64_t busy_ns;  /* before that */
    uint64_t bytes;
};

void sel_wave_join(struct sel_wave *wave);
void sel_wave_begin(struct sel_wave *wave, uint64_t now_ns);
/* A transfer ended and moved so many bytes. */
void sel_wave_end(struct sel_wave *wave, uint64_t bytes, uint64_t now_ns);
void sel_wave_leave(struct sel_wave *wave);
/* True when the wave is over, or has lasted long enough: what it did, and the next one begins. */
bool sel_wave_take(struct sel_wave *wave, uint64_t now_ns, uint64_t *bytes, uint64_t *ns);

#endif
