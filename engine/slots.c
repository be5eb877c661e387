/* SPDX-License-Identifier: Apache-2.0
 *
 * One mapping of equal slots; see slots.h.
 */
#include "engine/slots.h"

#include "base/check.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A huge page of most processors. Smaller mappings are not worth one. */
#define SEL_HUGE_BYTES (UINT64_C(2) << 20)

/* Aligned so that the kernel can back all of it with huge pages; older kernels do not see to that themselves. Not
 * MAP_HUGETLB: where it is granted it takes from a pool that somebody reserved for something else. */
static uint8_t *map_slots(uint64_t bytes) {
    uint64_t extra = bytes < SEL_HUGE_BYTES ? 0 : SEL_HUGE_BYTES;
    uint8_t *all = mmap(NULL, bytes + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    uint64_t before = extra ? (SEL_HUGE_BYTES - (uintptr_t)all % SEL_HUGE_BYTES) % SEL_HUGE_BYTES : 0;
    uint8_t *base = all + before;
    if (before)
        (void)munmap(all, before);
    if (extra > before)
        (void)munmap(base + bytes, extra - before);
    /* Fewer page faults and TLB misses. A refusal costs nothing but speed. */
    (void)madvise(base, bytes, MADV_HUGEPAGE);
    /* Direct I/O into memory that a fork shares would end in a page of the child's. */
    (void)madvise(base, bytes, MADV_DONTFORK);
    return base;
}

int sel_slots_create(struct sel_slots *slots, uint64_t slot_bytes, uint32_t total, bool poison) {
    uint64_t bytes;
    memset(slots, 0, sizeof *slots);
    if (total == 0)
        return 0;
    if (__builtin_mul_overflow(slot_bytes, (uint64_t)total, &bytes) || bytes > SIZE_MAX / 2)
        return SELENE_E_OVERFLOW;
    slots->free = malloc(total * sizeof *slots->free);
    slots->used = calloc(total, 1);
    slots->base = map_slots(bytes);
    slots->slot_bytes = slot_bytes;
    slots->total = total;
    if (!slots->free || !slots->used || !slots->base) {
        sel_slots_destroy(slots);
        return SELENE_E_NOMEM;
    }
    slots->poison = poison;
    slots->free_count = total;
    for (uint32_t i = 0; i < total; i++)
        slots->free[i] = total - 1 - i;
    return 0;
}

void sel_slots_destroy(struct sel_slots *slots) {
    if (slots->base)
        munmap(slots->base, slots->slot_bytes * slots->total);
    free(slots->free);
    free(slots->used);
    memset(slots, 0, sizeof *slots);
}

bool sel_slots_take(struct sel_slots *slots, uint32_t *ids, uint32_t count) {
    if (count > slots->free_count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = slots->free[--slots->free_count];
        SEL_CHECK(!slots->used[id]);
        slots->used[id] = 1;
        ids[i] = id;
    }
    return true;
}

void sel_slots_give(struct sel_slots *slots, const uint32_t *ids, uint32_t count) {
    for (uint32_t i = count; i-- > 0;) {
        SEL_CHECK(ids[i] < slots->total && slots->used[ids[i]]);
        slots->used[ids[i]] = 0;
        if (slots->poison)
            memset(sel_slot_at(slots, ids[i]), SEL_SLOT_POISON, slots->slot_bytes);
        slots->free[slots->free_count++] = ids[i];
    }
}
