/* SPDX-License-Identifier: Apache-2.0
 *
 * The accounts, added up again by brute force [fault 7].
 */
#include "lsm/lsm_priv.h"

#include <inttypes.h>

static int check_segment(const struct sel_segment *segment, struct selene_message *message) {
    uint32_t live = segment->live ? sel_bits_count(segment->live, segment->blocks) : 0;
    if (live != segment->live_blocks)
        return sel_fail(message, SELENE_E_INTERNAL, "%s: %u live blocks counted, %u in the map", segment->name,
                        segment->live_blocks, live);
    uint64_t pending = 0, before = 0;
    SEL_LIST_FOR_EACH(at, (struct sel_list *)&segment->pending) {
        const struct sel_part *part = SEL_LIST_ENTRY(at, struct sel_part, link);
        uint64_t bytes = part->header_bytes + part->data_bytes;
        uint32_t block = (uint32_t)(part->offset / SEL_DISK_BLOCK), count = (uint32_t)(bytes / SEL_DISK_BLOCK);
        if (part->offset < before || part->offset + bytes > segment->end)
            return sel_fail(message, SELENE_E_INTERNAL, "%s: pending extent at %" PRIu64 " out of order or bounds",
                            segment->name, part->offset);
        if (!sel_segment_is_free(segment, block, count))
            return sel_fail(message, SELENE_E_INTERNAL, "%s: pending extent at %" PRIu64 " over live blocks",
                            segment->name, part->offset);
        before = part->offset + bytes;
        pending += count;
    }
    if (pending != segment->pending_blocks)
        return sel_fail(message, SELENE_E_INTERNAL, "%s: %u pending blocks counted, %" PRIu64 " listed", segment->name,
                        segment->pending_blocks, pending);
    for (uint32_t i = 0; segment->live && segment->state == SEL_SEALED && i < segment->blocks / 64 + 1; i++)
        if (segment->live[i] & ~segment->held[i])
            return sel_fail(message, SELENE_E_INTERNAL, "%s: live blocks near %u in a hole", segment->name, i * 64);
    return 0;
}

int sel_lsm_check(struct sel_lsm *lsm, struct selene_message *message) {
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    uint64_t allocated = 0, live = 0, values = 0, removal_bytes = 0, files = 0;
    for (size_t i = 0; i < lsm->segment_count; i++) {
        const struct sel_segment *segment = lsm->segments[i];
        int rc = check_segment(segment, message);
        if (rc)
            return rc;
        allocated += segment->allocated;
        files += segment->file >= 0;
        if (segment->state == SEL_OPEN || segment->state == SEL_SEALED)
            live += (uint64_t)segment->live_blocks * SEL_DISK_BLOCK;
        if (i > 0 && lsm->segments[i - 1]->id >= segment->id)
            return sel_fail(message, SELENE_E_INTERNAL, "segment table out of order at %zu", i);
    }
    SEL_LIST_FOR_EACH(at, &lsm->writes) {
        const struct sel_lsm_write *write = SEL_LIST_ENTRY(at, struct sel_lsm_write, link);
        if (write->state < SEL_WRITE_COMMITTED)
            values += 1 + sel_keys_parts(write->record.page_key_count);
    }
    SEL_LIST_FOR_EACH(at, &lsm->removals)
    removal_bytes += SEL_LIST_ENTRY(at, struct sel_removal, link)->bytes;
    SEL_LIST_FOR_EACH(at, &lsm->held)
    removal_bytes += SEL_LIST_ENTRY(at, struct sel_removal, link)->bytes;
    SEL_LIST_FOR_EACH(at, &lsm->commit.removals)
    removal_bytes += SEL_LIST_ENTRY(at, struct sel_removal, link)->bytes;
    const struct {
        const char *what;
        uint64_t kept, counted;
    } sums[] = {{"allocated bytes", lsm->allocated_bytes, allocated},
                {"live bytes", lsm->live_bytes, live},
                {"catalogue values", lsm->open_values, values},
                {"bytes being removed", lsm->removal_bytes, removal_bytes},
                {"open files", lsm->file_count, files}};
    for (size_t i = 0; i < SEL_COUNT(sums); i++)
        if (sums[i].kept != sums[i].counted)
            return sel_fail(message, SELENE_E_INTERNAL, "%s: %" PRIu64 " kept, %" PRIu64 " counted", sums[i].what,
                            sums[i].kept, sums[i].counted);
    return 0;
}
