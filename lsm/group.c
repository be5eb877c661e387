/* SPDX-License-Identifier: Apache-2.0
 *
 * Group commit [D4]. One group fills while the one before commits:
 *
 *   filling -> closed -> segments synced, side by side -> transaction on the helper thread -> committed
 *
 * It closes when it is large or old enough, at once in strict mode, or when a flush asks for it. A group that holds
 * nothing but removals is one, too. After a failed sync nothing that was written to that segment and not committed is
 * trusted: the group fails, and so does what has joined the next one, and whatever else is in flight on the segment,
 * when it would join. After a failed
 * transaction nothing is committed; the writes fail, the removals did not happen.
 */
#include "lsm/lsm_priv.h"

/* Rows for records that are committed already take their turn as what is written now. */
static uint64_t order_of(const struct sel_list *link) {
    const struct sel_lsm_write *write = SEL_LIST_ENTRY(link, struct sel_lsm_write, group_link);
    return write->row_only ? write->row_sequence : write->sequence;
}

void sel_group_join(struct sel_lsm_write *write) {
    struct sel_lsm *lsm = write->lsm;
    struct sel_list *at = lsm->group.prev;
    if (sel_list_empty(&lsm->group))
        lsm->group_since_ns = sel_mono_ns(lsm->config.clock);
    while (at != &lsm->group && order_of(at) > order_of(&write->group_link))
        at = at->prev;
    sel_list_add_head(at, &write->group_link);
    write->state = SEL_WRITE_JOINED;
    lsm->group_filled += write->part[0].data_bytes + write->part[1].data_bytes;
    sel_write_buffers_put(write);
}

bool sel_group_idle(const struct sel_lsm *lsm) {
    return !lsm->commit.active && sel_list_empty((struct sel_list *)&lsm->group) &&
           sel_list_empty((struct sel_list *)&lsm->removals);
}

void sel_lsm_flush(struct sel_lsm *lsm) {
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    lsm->flush_sequence = lsm->next_sequence;
    lsm->flush_removals = true;
}

static bool group_asked(const struct sel_lsm *lsm) {
    if (sel_list_empty((struct sel_list *)&lsm->group))
        return false;
    return lsm->closing || lsm->config.durability == SEL_LSM_STRICT || lsm->group_filled >= lsm->group_bytes ||
           order_of(lsm->group.next) < lsm->flush_sequence;
}

static bool removals_asked(const struct sel_lsm *lsm) {
    return !sel_list_empty((struct sel_list *)&lsm->removals) &&
           (lsm->closing || lsm->config.durability == SEL_LSM_STRICT || lsm->flush_removals);
}

uint64_t sel_group_deadline_ns(const struct sel_lsm *lsm) {
    uint64_t deadline = UINT64_MAX;
    if (lsm->commit.active)
        return deadline;
    if (group_asked(lsm) || removals_asked(lsm) || lsm->try_index)
        return 0;
    if (!sel_list_empty((struct sel_list *)&lsm->group))
        deadline = lsm->group_since_ns + lsm->group_ns;
    if (!sel_list_empty((struct sel_list *)&lsm->removals))
        deadline = SEL_MIN(deadline, lsm->removals_since_ns + lsm->group_ns);
    return deadline;
}

static void commit_done(struct sel_lsm *lsm) {
    struct sel_commit *commit = &lsm->commit;
    sel_commit_clear(lsm);
    commit->active = false;
    if (!sel_list_empty(&lsm->group))
        lsm->group_since_ns = SEL_MAX(lsm->group_since_ns, 1);
}

/* Removals that were to be in a transaction which was not even tried wait for the next one. */
static void keep_removals(struct sel_lsm *lsm) {
    while (!sel_list_empty(&lsm->commit.removals)) {
        struct sel_list *last = lsm->commit.removals.prev;
        sel_list_remove(last);
        sel_list_add_head(&lsm->removals, last);
    }
}

static void fail_writes(struct sel_lsm *lsm, int error) {
    while (!sel_list_empty(&lsm->commit.writes))
        sel_write_fail(SEL_LIST_ENTRY(lsm->commit.writes.next, struct sel_lsm_write, group_link), error);
}

static void transact(struct sel_lsm *lsm) {
    struct sel_commit *commit = &lsm->commit;
    if (!commit->error)
        commit->error = lsm->aborting ? SELENE_E_CLOSED : sel_commit_build(lsm);
    if (commit->error) {
        fail_writes(lsm, commit->error);
        keep_removals(lsm);
        if (lsm->try_index)
            sel_state_index_tried(lsm);
        commit_done(lsm);
        return;
    }
    sel_commit_submit(lsm);
}

/* What has joined the group that fills meanwhile may have been written before the sync that failed. */
static void fail_joined(struct sel_lsm *lsm, const struct sel_segment *segment) {
    struct sel_list *at = lsm->group.next;
    while (at != &lsm->group) {
        struct sel_lsm_write *write = SEL_LIST_ENTRY(at, struct sel_lsm_write, group_link);
        at = at->next;
        if (write->part[0].segment != segment && write->part[1].segment != segment)
            continue;
        sel_write_fail(write, SELENE_E_IO);
        at = lsm->group.next; /* its children went with it */
    }
}

static void synced(struct sel_lsm_io *io, int result) {
    struct sel_segment *segment = io->owner;
    struct sel_lsm *lsm = segment->lsm;
    segment->syncing = false;
    sel_segment_release(segment);
    lsm->stats.syncs++;
    if (result) {
        lsm->stats.sync_errors++;
        segment->sync_failed = true;
        if (!lsm->aborting) {
            sel_log_warning(lsm->config.log, "%s: sync failed: %s; nothing written to it since is trusted",
                            segment->name, sel_error_text(result));
            sel_segment_suspect(segment);
            fail_joined(lsm, segment);
        }
        if (!lsm->commit.error)
            lsm->commit.error = result;
    }
    if (--lsm->commit.syncs == 0)
        transact(lsm);
}

static void sync_segment(struct sel_segment *segment) {
    if (segment == NULL || segment->syncing)
        return;
    segment->syncing = true;
    segment->users++;
    segment->lsm->commit.syncs++;
    segment->sync_io.io = (struct sel_disk_io){.kind = SEL_DISK_SYNC, .file = segment->file};
    sel_lsm_io_start(segment->lsm, &segment->sync_io, synced, segment);
}

/* As many as the room for the catalogue's growth allows; the rest goes with the next one, at once. */
static void take_removals(struct sel_lsm *lsm) {
    size_t left = sel_space_removals(lsm);
    sel_remove_release(lsm);
    while (left-- > 0 && !sel_list_empty(&lsm->removals)) {
        struct sel_list *first = sel_list_pop(&lsm->removals);
        sel_list_add_tail(&lsm->commit.removals, first);
    }
    lsm->flush_removals = !sel_list_empty(&lsm->removals);
}

static void close_group(struct sel_lsm *lsm) {
    struct sel_commit *commit = &lsm->commit;
    commit->active = true;
    commit->error = 0;
    sel_list_splice_tail(&commit->writes, &lsm->group);
    take_removals(lsm);
    lsm->group_filled = 0;
    sel_row_write_hold(lsm);
    lsm->stats.groups++;
    commit->syncs = 1; /* held until all are started */
    SEL_LIST_FOR_EACH(at, &commit->writes) {
        struct sel_lsm_write *write = SEL_LIST_ENTRY(at, struct sel_lsm_write, group_link);
        write->state = SEL_WRITE_COMMITTING;
        for (int i = 0; i < 2; i++)
            sync_segment(write->part[i].segment);
    }
    sel_remove_hold(lsm, &commit->removals);
    if (--commit->syncs == 0)
        transact(lsm);
}

void sel_group_poll(struct sel_lsm *lsm) {
    uint64_t deadline_ns = sel_group_deadline_ns(lsm);
    if (deadline_ns != UINT64_MAX && sel_mono_ns(lsm->config.clock) >= deadline_ns)
        close_group(lsm);
}

/* The transaction's answer. */
static void commit_write(struct sel_lsm_write *write) {
    struct sel_lsm *lsm = write->lsm;
    sel_list_remove(&write->group_link);
    write->state = SEL_WRITE_COMMITTED;
    lsm->open_values -= 1 + sel_keys_parts(write->record.page_key_count);
    for (int i = 0; i < 2; i++) {
        struct sel_part *part = &write->part[i];
        struct sel_segment *segment = part->segment;
        if (segment == NULL)
            continue;
        uint32_t blocks = (uint32_t)((part->header_bytes + part->data_bytes) / SEL_DISK_BLOCK);
        sel_list_remove(&part->link);
        segment->pending_blocks -= blocks;
        sel_segment_set_live(segment, (uint32_t)(part->offset / SEL_DISK_BLOCK), blocks);
        sel_segment_account(segment);
    }
    for (struct sel_list *at = sel_list_pop(&write->children); at; at = sel_list_pop(&write->children))
        SEL_LIST_ENTRY(at, struct sel_lsm_write, sibling)->parent = NULL;
    if (write->move)
        sel_forward_committed(lsm, write);
    else if (write->row_only)
        sel_row_write_committed(write);
    else
        lsm->stats.records++;
    if (write->op) {
        struct sel_op *op = write->op;
        write->op = NULL;
        sel_ready_post(lsm->config.ready, op, 0);
    }
}

void sel_commit_finished(struct sel_lsm *lsm, int result) {
    struct sel_commit *commit = &lsm->commit;
    if (result) {
        bool bare = sel_list_empty(&commit->writes) && sel_list_empty(&commit->removals); /* a try, see state.c */
        sel_log(lsm->config.log, bare ? SEL_LOG_DEBUG : SEL_LOG_WARNING, "index transaction failed: %s",
                commit->message.text[0] ? commit->message.text : sel_error_text(result));
        fail_writes(lsm, result);
    }
    /* Removals first: their owners hear in the order in which things happened to a record that gets a new row. */
    for (struct sel_list *at = sel_list_pop(&commit->removals); at; at = sel_list_pop(&commit->removals))
        sel_remove_commit(lsm, SEL_LIST_ENTRY(at, struct sel_removal, link), result);
    while (!sel_list_empty(&commit->writes))
        commit_write(SEL_LIST_ENTRY(commit->writes.next, struct sel_lsm_write, group_link));
    commit_done(lsm);
}
