/* SPDX-License-Identifier: Apache-2.0
 *
 * xoshiro256** (Blackman and Vigna) seeded through splitmix64, and getrandom(2). The seeded sequence, sel_random_below
 * and sel_random_fill included, is fixed for ever: test_random holds golden values.
 */
#include "base/random.h"

#include "base/bytes.h"
#include "base/check.h"

#include <errno.h>
#include <sys/random.h>

#define GOLDEN_GAMMA UINT64_C(0x9e3779b97f4a7c15)

uint64_t sel_mix64(uint64_t value) {
    value += GOLDEN_GAMMA;
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static uint64_t rotate_left(uint64_t value, int bits) { return (value << bits) | (value >> (64 - bits)); }

static uint64_t seeded_next(struct sel_random *random) {
    uint64_t *s = random->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

void sel_random_seed(struct sel_random *random, uint64_t seed) {
    random->next = seeded_next;
    for (unsigned i = 0; i < 4; i++)
        random->state[i] = sel_mix64(seed + i * GOLDEN_GAMMA);
}

/* Eight bytes come whole or not at all; only a signal before the kernel's pool is seeded can interrupt. Without random
 * numbers there are no unique generations, and so no safe store. */
static uint64_t system_next(struct sel_random *random) {
    (void)random;
    uint64_t value = 0;
    ssize_t got;
    do {
        got = getrandom(&value, sizeof value, 0);
    } while (got < 0 && errno == EINTR);
    SEL_CHECK(got == (ssize_t)sizeof value);
    return value;
}

struct sel_random *sel_random_system(void) {
    static struct sel_random system_random = {.next = system_next};
    return &system_random;
}

/* Lemire's method: the high half of a 64 x 64 product, rejecting the low halves that would favour some results. */
uint64_t sel_random_below(struct sel_random *random, uint64_t bound) {
    SEL_CHECK(bound > 0);
    uint64_t threshold = -bound % bound; /* 2^64 mod bound */
    unsigned __int128 product;
    do {
        product = (unsigned __int128)sel_random_u64(random) * bound;
    } while ((uint64_t)product < threshold);
    return (uint64_t)(product >> 64);
}

void sel_random_fill(struct sel_random *random, void *bytes, size_t count) {
    uint8_t *to = bytes;
    uint8_t last[8];
    for (; count >= 8; to += 8, count -= 8)
        sel_put_u64(to, sel_random_u64(random));
    if (count > 0) {
        sel_put_u64(last, sel_random_u64(random));
        memcpy(to, last, count);
    }
}
