/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers as an interface: the system's (store ids, generations) or a seeded generator (simulation, tests,
 * workload generators). The seeded one is xoshiro256** seeded through splitmix64; its sequence is fixed for ever, since
 * seeds are quoted in test reports.
 */
#ifndef SEL_BASE_RANDOM_H
#define SEL_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct sel_random {
    uint64_t (*next)(struct sel_random *random);
    uint64_t state[4]; /* of the seeded side */
};

/* getrandom(2). Static, any thread. */
struct sel_random *sel_random_system(void);
/* One thread. The same seed gives the same sequence on every machine. */
void sel_random_seed(struct sel_random *random, uint64_t seed);

static inline uint64_t sel_random_u64(struct sel_random *random) { return random->next(random); }
/* Uniform in [0, bound), bound > 0, without modulo bias. */
uint64_t sel_random_below(struct sel_random *random, uint64_t bound);
void sel_random_fill(struct sel_random *random, void *bytes, size_t count);

/* One step of splitmix64: a cheap, well-mixed function of a 64-bit number. */
uint64_t sel_mix64(uint64_t value);

#endif
