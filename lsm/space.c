/* SPDX-License-Identifier: Apache-2.0
 *
 * The limit [D6]. Charged are: what every file of a segment takes on the device, segments from the future included (a
 * segment being made or written counts with its full size), the catalogue's file, and what that file may grow by for
 * the writes and removals that are on their way. A segment is made, and a write begins, only if all of it stays within
 * the limit; so no other step has to look at it.
 */
#include "lsm/lsm_priv.h"

#include <string.h>

#define CATALOG_SLACK  (UINT64_C(128) << 10)
#define VALUE_GROWTH   640                  /* bytes of the file for one value more: values fill pages half at worst */
#define REMOVAL_GROWTH (UINT64_C(16) << 10) /* pages copied on the way to one entry */

uint64_t sel_space_catalog(const struct sel_lsm *lsm) {
    uint64_t removals = (lsm->removal_count + lsm->drop_records.count) * REMOVAL_GROWTH;
    return lsm->catalog_bytes + CATALOG_SLACK + lsm->open_values * VALUE_GROWTH + SEL_MIN(removals, lsm->catalog_bytes);
}

bool sel_space_room(const struct sel_lsm *lsm, uint64_t bytes) {
    uint64_t limit = lsm->config.limit_bytes, used = lsm->allocated_bytes + sel_space_catalog(lsm);
    return limit == 0 || (used <= limit && bytes <= limit - used);
}

static uint64_t segment_for(const struct sel_lsm *lsm, uint64_t extent_bytes) {
    return SEL_MAX(lsm->segment_bytes, extent_bytes + SEL_DISK_BLOCK);
}

/* The smallest footprint in which the record could ever lie: its own segments, one of each kind kept ahead. */
bool sel_space_oversize(const struct sel_lsm *lsm, uint64_t pages_bytes, uint64_t row_bytes) {
    uint64_t limit = lsm->config.limit_bytes;
    if (pages_bytes > (uint64_t)UINT32_MAX * SEL_DISK_BLOCK / 2 ||
        row_bytes > (uint64_t)UINT32_MAX * SEL_DISK_BLOCK / 2)
        return true;
    if (limit == 0)
        return false;
    uint64_t need = segment_for(lsm, pages_bytes) + SEL_SEGMENT_OVERHEAD + CATALOG_SLACK;
    if (row_bytes)
        need += segment_for(lsm, row_bytes) + SEL_SEGMENT_OVERHEAD;
    return need > limit;
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

int sel_space_find(struct sel_lsm *lsm, uint8_t kind, uint64_t bytes, struct sel_segment **out) {
    struct sel_lane *lane = &lsm->lane[kind];
    lane->used = true;
    *out = fits(lane->open, bytes) ? lane->open : find_ready(lane, bytes);
    if (*out)
        return 0;
    uint64_t want = segment_for(lsm, bytes);
    int rc = sel_make_segment(lsm, kind, want);
    if (rc == 0) {
        /* What is being made may have been asked for by a smaller one. */
        if (lane->making && lane->making->bytes < want)
            lane->demand = want;
        return SELENE_E_RETRY;
    }
    if (rc == SELENE_E_NOSPACE && lane->open)
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

/* A segment of each kind is to lie ready, or at least to have room. */
static uint64_t ahead_missing(const struct sel_lsm *lsm) {
    uint64_t missing = 0;
    unsigned spares = lsm->spare_count;
    for (int kind = 0; kind < 2; kind++) {
        if (lsm->lane[kind].making || !sel_list_empty((struct sel_list *)&lsm->lane[kind].ready))
            continue;
        if (spares > 0)
            spares--;
        else
            missing += lsm->segment_bytes + SEL_SEGMENT_OVERHEAD;
    }
    return missing;
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
    uint64_t spares = 0;
    SEL_LIST_FOR_EACH(at, (struct sel_list *)&lsm->spare)
    spares += SEL_LIST_ENTRY(at, struct sel_segment, link)->allocated;
    uint64_t need = lsm->allocated_bytes + sel_space_catalog(lsm) + VALUE_GROWTH + ahead_missing(lsm) + extra;
    uint64_t coming = lsm->reclaimable_bytes - spares + lsm->removal_bytes;
    need = need > coming ? need - coming : 0;
    return need > limit ? sel_align_up(need - limit, SEL_DISK_BLOCK) : 0;
}
