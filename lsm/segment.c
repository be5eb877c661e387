/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of segments, and what each block of one holds. The totals of the store are sums over its segments, kept by
 * sel_segment_account, which is called after every change; check.c adds them up by brute force.
 */
#include "lsm/lsm_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t sel_generation_short(const uint8_t generation[SEL_GENERATION_BYTES]) { return sel_get_u64(generation); }

static size_t place_of(const struct sel_lsm *lsm, uint32_t id) {
    size_t low = 0, high = lsm->segment_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lsm->segments[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct sel_segment *sel_segment_find(const struct sel_lsm *lsm, uint32_t id) {
    size_t at = place_of(lsm, id);
    return at < lsm->segment_count && lsm->segments[at]->id == id ? lsm->segments[at] : NULL;
}

int sel_segment_create(struct sel_lsm *lsm, uint32_t id, struct sel_segment **out) {
    *out = NULL;
    if (lsm->segment_count == lsm->segment_capacity) {
        size_t capacity = lsm->segment_capacity ? lsm->segment_capacity * 2 : 64;
        struct sel_segment **table = realloc(lsm->segments, capacity * sizeof(struct sel_segment *));
        if (table == NULL)
            return SELENE_E_NOMEM;
        lsm->segments = table;
        lsm->segment_capacity = capacity;
    }
    struct sel_segment *segment = calloc(1, sizeof *segment);
    if (segment == NULL)
        return SELENE_E_NOMEM;
    segment->lsm = lsm;
    segment->id = id;
    segment->file = -1;
    snprintf(segment->name, sizeof segment->name, "seg-%08x.sel", id);
    sel_list_init(&segment->link);
    sel_list_init(&segment->file_link);
    sel_list_init(&segment->given_up_link);
    sel_list_init(&segment->waiters);
    sel_list_init(&segment->pending);
    sel_list_init(&segment->readers);
    size_t at = place_of(lsm, id);
    memmove(lsm->segments + at + 1, lsm->segments + at, (lsm->segment_count - at) * sizeof(struct sel_segment *));
    lsm->segments[at] = segment;
    lsm->segment_count++;
    *out = segment;
    return 0;
}

void sel_segment_forget(struct sel_segment **pointer) {
    struct sel_segment *segment = *pointer;
    struct sel_lsm *lsm = segment->lsm;
    size_t at = place_of(lsm, segment->id);
    SEL_CHECK(at < lsm->segment_count && lsm->segments[at] == segment);
    memmove(lsm->segments + at, lsm->segments + at + 1, (lsm->segment_count - at - 1) * sizeof(struct sel_segment *));
    lsm->segment_count--;
    segment->allocated = 0;
    segment->live_blocks = segment->pending_blocks = 0;
    segment->end = 0;
    sel_segment_account(segment);
    sel_list_remove(&segment->link);
    sel_list_remove(&segment->file_link);
    sel_list_remove(&segment->given_up_link);
    sel_buffer_put(lsm, &segment->head);
    free(segment->live);
    free(segment->held);
    free(segment);
    *pointer = NULL;
}

int sel_segment_resize(struct sel_segment *segment, uint64_t bytes) {
    uint32_t blocks = (uint32_t)(bytes / SEL_DISK_BLOCK);
    size_t words = (size_t)blocks / 64 + 1;
    uint64_t *live = calloc(words, 8), *held = calloc(words, 8);
    if (live == NULL || held == NULL) {
        free(live);
        free(held);
        return SELENE_E_NOMEM;
    }
    free(segment->live);
    free(segment->held);
    segment->live = live;
    segment->held = held;
    segment->blocks = blocks;
    segment->bytes = (uint64_t)blocks * SEL_DISK_BLOCK;
    segment->live_blocks = 0;
    return 0;
}

/* Dead bytes that readers are still on. */
static uint64_t read_dead(const struct sel_segment *segment) {
    uint64_t bytes = 0;
    SEL_LIST_FOR_EACH(at, (struct sel_list *)&segment->readers) {
        const struct sel_lsm_reader *reader = SEL_LIST_ENTRY(at, struct sel_lsm_reader, link);
        if (!sel_bits_any(segment->live, (uint32_t)(reader->offset / SEL_DISK_BLOCK), 1))
            bytes += reader->extent_bytes;
    }
    return bytes;
}

/* Space that comes back without anybody removing anything more. Not what a failure keeps, nor what a file system has kept
 * after punching (blocks of its own, or of a larger size): whoever waited for that would wait for ever. */
static uint64_t reclaimable(const struct sel_segment *segment, uint64_t live, uint64_t dead) {
    const struct sel_lsm *lsm = segment->lsm;
    if (segment->keeps)
        return 0;
    if (segment->state == SEL_DOOMED || segment->state == SEL_SPARE)
        return segment->allocated;
    if (segment->state != SEL_SEALED)
        return 0;
    if (live == 0)
        return sel_list_empty((struct sel_list *)&segment->readers) ? segment->allocated : 0;
    uint64_t held = read_dead(segment);
    dead = dead > held ? dead - held : 0;
    if (lsm->no_punch)
        return live < segment->bytes / 4 ? dead : 0;
    return segment->dirty || segment->truncate || segment->working ? dead : 0;
}

static void replace(uint64_t *total, uint64_t *counted, uint64_t now) {
    *total = *total - *counted + now;
    *counted = now;
}

void sel_segment_account(struct sel_segment *segment) {
    struct sel_lsm *lsm = segment->lsm;
    uint64_t used = ((uint64_t)segment->live_blocks + segment->pending_blocks) * SEL_DISK_BLOCK;
    uint64_t live = (uint64_t)segment->live_blocks * SEL_DISK_BLOCK;
    uint64_t dead = 0;
    bool counts = segment->state == SEL_OPEN || segment->state == SEL_SEALED;
    if (segment->state == SEL_SEALED && segment->allocated > used + SEL_DISK_BLOCK)
        dead = segment->allocated - used - SEL_DISK_BLOCK;
    else if (segment->state == SEL_OPEN && segment->end > used + SEL_DISK_BLOCK)
        dead = segment->end - used - SEL_DISK_BLOCK;
    replace(&lsm->allocated_bytes, &segment->counted_allocated, segment->allocated);
    replace(&lsm->live_bytes, &segment->counted_live, counts ? live : 0);
    replace(&lsm->dead_bytes, &segment->counted_dead, counts ? dead : 0);
    replace(&lsm->reclaimable_bytes, &segment->counted_reclaimable, reclaimable(segment, used, dead));
    sel_reclaim_look(segment);
    lsm->look_forward |= segment->state == SEL_SEALED;
}

static uint64_t word_mask(uint32_t from, uint32_t to) { /* bits from .. to-1 of one word, to <= 64 */
    uint64_t upper = to == 64 ? UINT64_MAX : (UINT64_C(1) << to) - 1;
    return upper & ~((UINT64_C(1) << from) - 1);
}

void sel_bits_set(uint64_t *bits, uint32_t at, uint32_t count, bool value) {
    while (count > 0) {
        uint32_t from = at % 64, take = SEL_MIN(count, 64 - from);
        uint64_t mask = word_mask(from, from + take);
        bits[at / 64] = value ? bits[at / 64] | mask : bits[at / 64] & ~mask;
        at += take;
        count -= take;
    }
}

bool sel_bits_any(const uint64_t *bits, uint32_t at, uint32_t count) {
    while (count > 0) {
        uint32_t from = at % 64, take = SEL_MIN(count, 64 - from);
        if (bits[at / 64] & word_mask(from, from + take))
            return true;
        at += take;
        count -= take;
    }
    return false;
}

bool sel_bits_all(const uint64_t *bits, uint32_t at, uint32_t count) {
    while (count > 0) {
        uint32_t from = at % 64, take = SEL_MIN(count, 64 - from);
        uint64_t mask = word_mask(from, from + take);
        if ((bits[at / 64] & mask) != mask)
            return false;
        at += take;
        count -= take;
    }
    return true;
}

uint32_t sel_bits_count(const uint64_t *bits, uint32_t blocks) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < blocks / 64 + 1; i++)
        count += (uint32_t)__builtin_popcountll(bits[i]);
    return count;
}

static bool in_range(const struct sel_segment *segment, uint32_t block, uint32_t count) {
    return segment->live && block > 0 && count > 0 && block < segment->blocks && count <= segment->blocks - block;
}

bool sel_segment_is_live(const struct sel_segment *segment, uint32_t block, uint32_t count) {
    return in_range(segment, block, count) && sel_bits_all(segment->live, block, count);
}

bool sel_segment_is_free(const struct sel_segment *segment, uint32_t block, uint32_t count) {
    return in_range(segment, block, count) && !sel_bits_any(segment->live, block, count);
}

void sel_segment_set_live(struct sel_segment *segment, uint32_t block, uint32_t count) {
    SEL_CHECK(sel_segment_is_free(segment, block, count));
    sel_bits_set(segment->live, block, count, true);
    segment->live_blocks += count;
}

void sel_segment_set_dead(struct sel_segment *segment, uint32_t block, uint32_t count) {
    SEL_CHECK(sel_segment_is_live(segment, block, count));
    sel_bits_set(segment->live, block, count, false);
    segment->live_blocks -= count;
    segment->dirty = true;
    segment->died_ns = sel_mono_ns(segment->lsm->config.clock);
    sel_segment_account(segment);
}

/* No extent is added from here on. A long unused tail is given back; a short one is kept, for recycling needs whole
 * segments. */
void sel_segment_seal(struct sel_segment *segment) {
    struct sel_lsm *lsm = segment->lsm;
    SEL_CHECK(segment->state == SEL_OPEN || segment->state == SEL_READY);
    if (lsm->lane[segment->kind].open == segment)
        lsm->lane[segment->kind].open = NULL;
    segment->state = SEL_SEALED;
    segment->died_ns = sel_mono_ns(lsm->config.clock);
    segment->catalog_dirty = true;
    segment->dirty = true;
    segment->truncate = segment->bytes - segment->end > segment->bytes / 16 || segment->suspect;
    sel_list_remove(&segment->link);
    sel_list_add_tail(&lsm->sealed, &segment->link);
    sel_segment_account(segment);
}

void sel_segment_suspect(struct sel_segment *segment) {
    segment->suspect = true;
    if (segment->state == SEL_OPEN || segment->state == SEL_READY)
        sel_segment_seal(segment);
}

uint64_t sel_segment_mark(const struct sel_segment *segment, bool committing) {
    SEL_LIST_FOR_EACH(at, (struct sel_list *)&segment->pending) {
        struct sel_part *part = SEL_LIST_ENTRY(at, struct sel_part, link);
        if (!committing || part->write->state != SEL_WRITE_COMMITTING)
            return part->offset;
    }
    return segment->end;
}
