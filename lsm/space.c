/* SPDX-License-Identifier: Apache-2.0
 *
 * The limit [D6]. Charged are: what every file of a segment takes on the device, segments from the future included (a
 * segment being made or written counts with its full size), the catalogue's file, and what that file may grow by for
 * the writes and removals that are on their way. A segment is made, and a write begins, only if all of it stays within
 * the limit; so no other step has to look at it. A write takes a ready segment only if another one of each kind lies
 * ready or has room: that is what copy forward needs to make room where holes cannot be punched.
 */
#include "lsm/lsm_priv.h"

#include <string.h>

#define CATALOG_SLACK  (UINT64_C(128) << 10) /* or a thousandth of the limit, up to: */
#define SLACK_MAX      (UINT64_C(16) << 20)
#define REMOVALS_MIN   32                   /* in one transaction: they fit the slack */
#define VALUE_GROWTH   640                  /* bytes of the file for one value more: values fill pages half at worst */
#define REMOVAL_GROWTH (UINT64_C(16) << 10) /* pages copied on the way to one entry */

static uint64_t slack(const struct sel_lsm *lsm) {
    return SEL_MIN(SEL_MAX(lsm->config.limit_bytes / 1024, CATALOG_SLACK), SLACK_MAX);
}

uint64_t sel_space_catalog(const struct sel_lsm *lsm) {
    uint64_t removals = (lsm->removal_count + lsm->drop_records.count) * REMOVAL_GROWTH;
    return lsm->catalog_bytes + slack(lsm) + lsm->open_values * VALUE_GROWTH + SEL_MIN(removals, lsm->catalog_bytes);
}

uint64_t sel_space_values(uint32_t page_keys) { return (1 + (uint64_t)sel_keys_parts(page_keys)) * VALUE_GROWTH; }

size_t sel_space_removals(const struct sel_lsm *lsm) {
    uint64_t limit = lsm->config.limit_bytes;
    uint64_t used = lsm->allocated_bytes + lsm->catalog_bytes + lsm->open_values * VALUE_GROWTH;
    if (limit == 0)
        return SIZE_MAX;
    return used < limit ? SEL_MAX((size_t)((limit - used) / REMOVAL_GROWTH), REMOVALS_MIN) : REMOVALS_MIN;
}

bool sel_space_room(const struct sel_lsm *lsm, uint64_t bytes) {
    uint64_t limit = lsm->config.limit_bytes, used = lsm->allocated_bytes + sel_space_catalog(lsm);
    return limit == 0 || (used <= limit && bytes <= limit - used);
}

static uint64_t segment_for(const struct sel_lsm *lsm, uint64_t extent_bytes) {
    return SEL_MAX(lsm->segment_bytes, extent_bytes + SEL_DISK_BLOCK);
}

/* The smallest footprint in which the record could ever lie: its own segments, and beside a large one those that are open
 * or kept ahead, which no eviction takes away. A write takes a segment only beside one more of each kind, or room for
 * it: with less than three nothing can ever be written. Files that were left alone take their share of the limit. */
bool sel_space_oversize(const struct sel_lsm *lsm, uint64_t pages_bytes, uint64_t row_bytes) {
    uint64_t limit = lsm->config.limit_bytes, standard = lsm->segment_bytes + SEL_SEGMENT_OVERHEAD;
    if (pages_bytes > (uint64_t)UINT32_MAX * SEL_DISK_BLOCK / 2 ||
        row_bytes > (uint64_t)UINT32_MAX * SEL_DISK_BLOCK / 2)
        return true;
    if (limit == 0)
        return false;
    uint64_t pages = segment_for(lsm, pages_bytes) + SEL_SEGMENT_OVERHEAD, row = 0;
    if (row_bytes)
        row = segment_for(lsm, row_bytes) + SEL_SEGMENT_OVERHEAD;
    uint64_t need = pages + row;
    if (pages > standard || row > standard)
        need += standard + (row_bytes || lsm->lane[SEL_LSM_ROW].used ? 2 * standard : 0);
    return SEL_MAX(need, 3 * standard) + slack(lsm) + lsm->catalog_bytes + lsm->left_bytes > limit;
}

static bool fits(const struct sel_segment *segment, uint64_t bytes) {
    return segment && bytes <= segment->bytes - segment->end;
}

static struct sel_segment *find_ready(struct sel_lane *lane, uint64_t bytes) {
    SEL_LIST_FOR_EACH(at, &lane->ready) {
        struct sel_segment *segment = SEL_LIST_ENTRY(at, struct sel_segment, link);
        if (fits(segment, bytes))
            return segment;
    }
    return NULL;
}

/* A segment of each kind is to lie ready, or at least to have room: what that still takes, when the ready one of lane
 * `taken` (or -1) is not counted. */
static uint64_t ahead_missing(const struct sel_lsm *lsm, int taken) {
    uint64_t missing = 0;
    unsigned spares = lsm->spare_count;
    for (int kind = 0; kind < 2; kind++) {
        const struct sel_lane *lane = &lsm->lane[kind];
        bool ready = !sel_list_empty((struct sel_list *)&lane->ready);
        bool more = ready && lane->ready.next != lane->ready.prev;
        if (lane->making || (kind == taken ? more : ready))
            continue;
        if (spares > 0)
            spares--;
        else
            missing += lsm->segment_bytes + SEL_SEGMENT_OVERHEAD;
    }
    return missing;
}

/* Where holes cannot be punched, even the open segment is left to copies while there is no room ahead. */
static bool may_take(const struct sel_lsm *lsm, const struct sel_segment *segment) {
    if (segment != lsm->lane[segment->kind].open)
        return sel_space_room(lsm, ahead_missing(lsm, segment->kind));
    return !lsm->no_punch || sel_space_room(lsm, ahead_missing(lsm, -1));
}

void sel_space_seal_dead(struct sel_lsm *lsm) {
    for (int kind = 0; kind < 2; kind++) {
        struct sel_segment *open = lsm->lane[kind].open;
        if (open && open->end > SEL_DISK_BLOCK && open->live_blocks + open->pending_blocks == 0)
            sel_segment_seal(open);
    }
}

int sel_space_find(struct sel_lsm *lsm, uint8_t kind, uint64_t bytes, bool copy, struct sel_segment **out) {
    struct sel_lane *lane = &lsm->lane[kind];
    lane->used = true;
    *out = fits(lane->open, bytes) ? lane->open : find_ready(lane, bytes);
    uint64_t want = segment_for(lsm, bytes);
    if (*out && !copy && !may_take(lsm, *out)) {
        lsm->blocked[kind] = want + SEL_SEGMENT_OVERHEAD;
        if (lane->open && *out != lane->open && (!lsm->no_punch || lane->open->live_blocks == 0))
            sel_segment_seal(lane->open); /* what is dead in it is room, too, and may be all there is */
        *out = NULL;
        return SELENE_E_NOSPACE;
    }
    if (*out)
        return 0;
    int rc = sel_make_segment(lsm, kind, want);
    if (rc == 0) {
        /* What is being made may have been asked for by a smaller one. */
        if (lane->making && lane->making->bytes < want)
            lane->demand = want;
        return SELENE_E_RETRY;
    }
    if (rc == SELENE_E_NOSPACE && !copy)
        lsm->blocked[kind] = want + SEL_SEGMENT_OVERHEAD;
    if (rc == SELENE_E_NOSPACE && !copy && lane->open && !lsm->no_punch)
        sel_segment_seal(lane->open); /* its tail is room, too */
    return rc;
}

/* A segment made for one large extent is sealed at once; another one takes the place of the open one. */
static void take(struct sel_lsm *lsm, struct sel_segment *segment) {
    struct sel_lane *lane = &lsm->lane[segment->kind];
    sel_list_remove(&segment->link);
    segment->state = SEL_OPEN;
    if (segment->bytes > lsm->segment_bytes)
        return;
    if (lane->open)
        sel_segment_seal(lane->open);
    lane->open = segment;
}

void sel_space_reserve(struct sel_part *part, struct sel_segment *segment) {
    struct sel_lsm *lsm = segment->lsm;
    uint64_t bytes = part->header_bytes + part->data_bytes;
    if (segment->state == SEL_READY)
        take(lsm, segment);
    SEL_CHECK(segment->state == SEL_OPEN && fits(segment, bytes));
    part->segment = segment;
    part->offset = segment->end;
    segment->end += bytes;
    segment->pending_blocks += (uint32_t)(bytes / SEL_DISK_BLOCK);
    sel_list_add_tail(&segment->pending, &part->link);
    if (lsm->lane[segment->kind].open != segment)
        sel_segment_seal(segment);
    else
        sel_segment_account(segment);
}

uint64_t sel_lsm_shortage(const struct sel_lsm *lsm, uint64_t bytes) {
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    uint64_t limit = lsm->config.limit_bytes;
    if (limit == 0)
        return 0;
    const struct sel_segment *open = lsm->lane[SEL_LSM_PAGES].open;
    uint64_t left = open ? open->bytes - open->end : 0, extra = 0;
    if (bytes > left) {
        extra = (bytes - left + lsm->segment_bytes - 1) / lsm->segment_bytes;
        extra *= lsm->segment_bytes + SEL_SEGMENT_OVERHEAD;
    }
    extra = SEL_MAX(extra, lsm->blocked[0] + lsm->blocked[1]);
    uint64_t spares = 0;
    SEL_LIST_FOR_EACH(at, (struct sel_list *)&lsm->spare)
    spares += SEL_LIST_ENTRY(at, struct sel_segment, link)->allocated;
    uint64_t need = lsm->allocated_bytes + sel_space_catalog(lsm) + ahead_missing(lsm, -1) + extra;
    need += SEL_MAX(VALUE_GROWTH, lsm->blocked_values);
    uint64_t coming = lsm->reclaimable_bytes - spares + lsm->removal_bytes;
    need = need > coming ? need - coming : 0;
    return need > limit ? sel_align_up(need - limit, SEL_DISK_BLOCK) : 0;
}
