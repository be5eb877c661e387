/* SPDX-License-Identifier: Apache-2.0
 *
 * Cheap mixing of 64-bit numbers: token ids of generated blocks, the running hash of a token sequence, seeds.
 */
#ifndef SELENE_REPLAY_MIX_H
#define SELENE_REPLAY_MIX_H

#include <stdint.h>

/* The finaliser of splitmix64. */
static inline uint64_t mix64(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* An order-dependent combination. */
static inline uint64_t mix_in(uint64_t hash, uint64_t value) {
    return mix64(hash + UINT64_C(0x9e3779b97f4a7c15) + value * UINT64_C(0xd6e8feb86659fd93));
}

/* A generator for workloads: one step of splitmix64. */
static inline uint64_t mix_next(uint64_t *state) { return mix64(*state += UINT64_C(0x9e3779b97f4a7c15)); }

/* Uniform enough in [least, most] for lengths and choices. */
static inline uint32_t mix_between(uint64_t *state, uint32_t least, uint32_t most) {
    return least + (uint32_t)(((mix_next(state) >> 32) * ((uint64_t)most - least + 1)) >> 32);
}

#endif
