/* SPDX-License-Identifier: Apache-2.0
 *
 * The host memory of a store: one mapping of equal slots [M1], given out by number.
 *
 * Invariants: free_count numbers lie in `free`, each once; used[n] says that n is given out. A slot given back twice or
 * a slot that was never taken is a bug that could give wrong bytes, so it is always checked. With `poison` (tests) a
 * slot is filled with SEL_SLOT_POISON when it is given back, so that a late reader shows [fault 5].
 *
 * A forked child does not have the mapping. One thread; the memory itself is written by copies and I/O in flight, whose owners hold the slots.
 */
#ifndef SEL_ENGINE_SLOTS_H
#define SEL_ENGINE_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#define SEL_SLOT_POISON 0xdb

struct sel_slots {
    uint8_t *base;
    uint64_t slot_bytes;
    uint32_t total;
    uint32_t free_count;
    uint32_t *free; /* a stack: the slot given back last is still in the caches */
    uint8_t *used;
    bool poison;
};

/* SELENE_E_NOMEM when the mapping is refused, SELENE_E_OVERFLOW when its size does not fit. */
int sel_slots_create(struct sel_slots *slots, uint64_t slot_bytes, uint32_t total, bool poison);
void sel_slots_destroy(struct sel_slots *slots);

/* All `count` slots or none. */
bool sel_slots_take(struct sel_slots *slots, uint32_t *ids, uint32_t count);
void sel_slots_give(struct sel_slots *slots, const uint32_t *ids, uint32_t count);

static inline uint8_t *sel_slot_at(const struct sel_slots *slots, uint32_t id) {
    return slots->base + slots->slot_bytes * id;
}

#endif
