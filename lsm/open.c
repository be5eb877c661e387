/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a store, in this order:
 *
 *   the store's entry -> segment files and heads -> catalogue segments (load.c)
 *   -> the tails of segments that are not indexed to their end, unknown segments whole, searched (scan.c)
 *   -> catalogue records and what was found, merged, shown to the visitor (merge.c)
 *   -> one transaction: what was recovered, what was dropped, and no clean mark any more, synced
 *
 * Every segment that was there is sealed from now on; writing goes on in new ones. So a segment that the catalogue
 * calls indexed to its end never grows, whatever becomes of later commits, and a catalogue that was rolled back meets
 * the generations that it does not know, which are scanned. After a clean stop all segments are indexed to their ends
 * and nothing is scanned.
 */
#include "lsm/open.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void set_defaults(struct sel_lsm *lsm) {
    const struct sel_lsm_config *config = &lsm->config;
    uint64_t bytes = config->segment_bytes;
    if (bytes == 0 && config->limit_bytes)
        bytes = SEL_MAX(SEL_MIN(config->limit_bytes / 16, SEL_SEGMENT_BYTES_DEFAULT), SEL_SEGMENT_BYTES_MIN);
    if (bytes == 0)
        bytes = SEL_SEGMENT_BYTES_DEFAULT;
    bytes = SEL_MAX(bytes, 4 * SEL_DISK_BLOCK);
    lsm->segment_bytes = SEL_MIN(bytes, UINT64_C(1) << 40) / SEL_DISK_BLOCK * SEL_DISK_BLOCK;
    lsm->group_bytes = config->group_bytes ? config->group_bytes : SEL_GROUP_BYTES_DEFAULT;
    lsm->group_ns = config->group_ns ? config->group_ns : SEL_NS_PER_SECOND;
    lsm->stall_ns = config->stall_ns ? config->stall_ns : 30 * SEL_NS_PER_SECOND;
    lsm->look_again_ns = UINT64_MAX;
    lsm->next_sequence = 1;
    lsm->next_segment = 1;
}

static int create(struct sel_lsm **out, const struct sel_lsm_config *config) {
    struct sel_lsm *lsm = calloc(1, sizeof *lsm);
    *out = lsm;
    if (lsm == NULL)
        return SELENE_E_NOMEM;
    lsm->magic = SEL_LSM_MAGIC;
    lsm->config = *config;
    struct sel_list *lists[] = {&lsm->inflight,      &lsm->sealed,          &lsm->spare,   &lsm->doomed,
                                &lsm->left,          &lsm->files,           &lsm->writes,  &lsm->deferred,
                                &lsm->group,         &lsm->removals,        &lsm->held,    &lsm->given_up,
                                &lsm->commit.writes, &lsm->commit.removals, &lsm->readers, &lsm->lane[0].ready,
                                &lsm->lane[1].ready, &lsm->row_writes};
    for (size_t i = 0; i < SEL_COUNT(lists); i++)
        sel_list_init(lists[i]);
    set_defaults(lsm);
    lsm->lane[SEL_LSM_PAGES].used = true;
    return sel_buffers_create(lsm);
}

/* Nothing of it is written again; what lies behind the last live block is given back. */
static void seal_all(struct sel_lsm *lsm) {
    for (size_t i = 0; i < lsm->segment_count; i++) {
        struct sel_segment *segment = lsm->segments[i];
        if (segment->state != SEL_SEALED)
            continue;
        uint32_t last = segment->blocks ? segment->blocks - 1 : 0;
        while (last > 0 && !(segment->live[last / 64] >> (last % 64) & 1))
            last = segment->live[last / 64] == 0 && last % 64 == 63 ? last - SEL_MIN(last, 64) : last - 1;
        bool excess = segment->allocated > ((uint64_t)segment->live_blocks + 1) * SEL_DISK_BLOCK;
        segment->whole = segment->bytes == lsm->segment_bytes && segment->allocated >= segment->bytes;
        segment->end = ((uint64_t)last + 1) * SEL_DISK_BLOCK;
        segment->end = SEL_MIN(segment->end, segment->bytes);
        segment->truncate = segment->bytes - segment->end > segment->bytes / 16;
        segment->catalog_dirty = !segment->known || segment->indexed_bytes != segment->bytes;
        segment->dirty = segment->punch_all = excess;
        if (excess)
            sel_bits_set(segment->held, 0, segment->blocks, true);
        else
            memcpy(segment->held, segment->live, ((size_t)segment->blocks / 64 + 1) * 8);
        segment->indexed_bytes = segment->end;
        if (segment->kind == SEL_LSM_ROW && segment->live_blocks)
            lsm->lane[SEL_LSM_ROW].used = true;
        sel_segment_account(segment);
    }
}

static int first_transaction(struct sel_lsm *lsm, struct selene_message *message) {
    struct sel_commit *commit = &lsm->commit;
    struct sel_catalog *catalog = lsm->config.catalog;
    int rc = sel_commit_build(lsm);
    if (!rc)
        rc = catalog->ops->commit(catalog, commit->changes, commit->change_count, message);
    if (!rc) {
        lsm->drop_records.count = 0;
        lsm->drop_segments.count = 0;
        lsm->stats.transactions++;
    }
    for (size_t i = 0; i < lsm->segment_count; i++)
        lsm->segments[i]->committing = false;
    sel_commit_clear(lsm);
    lsm->catalog_bytes = catalog->ops->file_bytes(catalog);
    return rc;
}

/* After anything but a clean stop: what the catalogue has is marked live for the time of the scan, which passes it by. */
static int scan_unknown(struct sel_opening *opening) {
    struct sel_lsm *lsm = opening->lsm;
    bool unknown = false;
    for (size_t i = 0; i < lsm->segment_count; i++)
        unknown |= lsm->segments[i]->state == SEL_SEALED && lsm->segments[i]->indexed_bytes < lsm->segments[i]->bytes;
    opening->pass = SEL_OPEN_MARK;
    int rc = unknown ? sel_open_records(opening) : 0;
    if (!rc)
        rc = sel_open_scan(opening);
    for (size_t i = 0; unknown && i < lsm->segment_count; i++) {
        struct sel_segment *segment = lsm->segments[i];
        if (segment->live)
            sel_bits_set(segment->live, 0, segment->blocks, false);
        segment->live_blocks = 0;
    }
    opening->pass = SEL_OPEN_SUPERSEDE;
    if (!rc && opening->found_count)
        rc = sel_open_records(opening);
    opening->pass = SEL_OPEN_SHOW;
    return rc;
}

/* Files that are not ours to remove, whatever the limit needs. */
static void count_left(struct sel_lsm *lsm) {
    SEL_LIST_FOR_EACH(at, &lsm->left)
    lsm->left_bytes += SEL_LIST_ENTRY(at, struct sel_segment, link)->allocated;
    if (lsm->left_bytes && sel_space_oversize(lsm, SEL_DISK_BLOCK, 0))
        sel_log_warning(lsm->config.log,
                        "files that were left alone take %" PRIu64 " bytes of the limit of %" PRIu64
                        ": no record can be written",
                        lsm->left_bytes, lsm->config.limit_bytes);
}

static int open_all(struct sel_opening *opening) {
    struct sel_lsm *lsm = opening->lsm;
    int rc = sel_open_meta(opening);
    if (!rc)
        rc = sel_open_segments(opening);
    if (!opening->has_store_id)
        sel_random_fill(lsm->config.random, lsm->store_id, sizeof lsm->store_id);
    if (!rc && opening->probe_left) {
        struct sel_disk_io io = {.kind = SEL_DISK_UNLINK, .name = "probe.tmp"};
        sel_lsm_run(lsm, &io);
    }
    if (!rc)
        rc = sel_open_marks(opening);
    if (!rc)
        rc = scan_unknown(opening);
    if (!rc)
        rc = sel_open_records(opening);
    if (!rc)
        rc = sel_open_recover(opening);
    seal_all(lsm);
    count_left(lsm);
    if (!rc)
        rc = first_transaction(lsm, opening->message);
    return rc;
}

int sel_lsm_open(struct sel_lsm **out, const struct sel_lsm_config *config, sel_lsm_visit *visit, sel_lsm_moved *moved,
                 void *context, struct selene_message *message) {
    *out = NULL;
    struct sel_opening opening = {.message = message};
    struct sel_lsm *lsm;
    int rc = create(&lsm, config);
    opening.lsm = lsm;
    if (!rc) {
        lsm->visit = visit;
        lsm->moved = moved;
        lsm->context = context;
        rc = open_all(&opening);
    }
    for (size_t i = 0; i < opening.found_count; i++)
        free(opening.found[i].page_keys);
    free(opening.found);
    free(opening.newest);
    free(opening.changed);
    sel_late_free(&opening);
    free(opening.keys);
    sel_window_free(&opening.window[0]);
    sel_window_free(&opening.window[1]);
    free(opening.ids.items);
    if (rc) {
        sel_fail(message, rc, "the record store cannot be opened: %s", sel_error_text(rc));
        sel_lsm_abort(&lsm);
        return rc;
    }
    sel_make_ahead(lsm);
    *out = lsm;
    return 0;
}
