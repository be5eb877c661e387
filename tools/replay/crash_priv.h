/* SPDX-License-Identifier: Apache-2.0
 *
 * Between crash.c (both processes) and crash_verify.c (the reopened store).
 */
#ifndef SELENE_REPLAY_CRASH_PRIV_H
#define SELENE_REPLAY_CRASH_PRIV_H

#include "tools/replay/crash.h"

struct crash_record {
    uint8_t key[32];
    uint64_t tokens; /* 0: an empty slot */
    bool found;
};

struct crash {
    struct crash_record *records; /* hash table; a power of two of slots */
    size_t slot_count, count;
    uint8_t *started; /* [request]: its records may be among them */
};

/* The slot with this key, or the empty one where it belongs. Keys are SHA-256: their first bytes are a hash. */
struct crash_record *crash_slot(const struct crash *crash, const uint8_t key[32]);

#endif
