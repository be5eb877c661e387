/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes: beginning, finishing, failing and abandoning them. See lsm_priv.h for the states; issue.c does their I/O and
 * group.c what comes once they joined a group.
 *
 *   OPEN -> FINISHED -> JOINED -> COMMITTING -> COMMITTED
 *      \________\__________\___________\______-> FAILED      (its children fail with it)
 *
 * A write joins when finish was called, none of its I/O is in flight, and its parent has joined or is committed. The
 * blocks of a failed write are dead at once; its finish op is posted when its last I/O has ended.
 */
#include "lsm/lsm_priv.h"

#include <stdlib.h>
#include <string.h>

uint32_t sel_plane_run_count(const struct sel_layout *layout) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < layout->desc.plane_count; i++)
        count += i == 0 || layout->desc.planes[i].bytes != layout->desc.planes[i - 1].bytes;
    return count;
}

int sel_plane_runs(const struct sel_layout *layout, struct sel_plane_run **out, uint32_t *count) {
    struct sel_plane_run *runs = calloc(sel_plane_run_count(layout), sizeof *runs);
    *out = runs;
    *count = 0;
    if (runs == NULL)
        return SELENE_E_NOMEM;
    for (uint32_t i = 0; i < layout->desc.plane_count; i++) {
        uint64_t bytes = layout->desc.planes[i].bytes;
        if (*count == 0 || runs[*count - 1].bytes != bytes)
            runs[(*count)++].bytes = bytes;
        runs[*count - 1].count++;
    }
    return 0;
}

static int part_sizes(const struct sel_layout *layout, uint32_t pages, uint32_t page_keys, uint8_t kind,
                      bool replicated, struct sel_extent_size *size) {
    return sel_extent_size(size, kind, kind == SEL_LSM_ROW ? layout->row_slots : pages,
                           replicated ? 1 : layout->desc.rank_count, layout->share_bytes, sel_plane_run_count(layout),
                           page_keys);
}

uint64_t sel_lsm_record_bytes(const struct sel_layout *layout, uint32_t pages, uint32_t page_keys,
                              bool pages_replicated, bool has_row, bool row_replicated) {
    struct sel_extent_size size, row = {0};
    if (part_sizes(layout, pages, page_keys, SEL_LSM_PAGES, pages_replicated, &size) ||
        (has_row && part_sizes(layout, pages, page_keys, SEL_LSM_ROW, row_replicated, &row)))
        return UINT64_MAX;
    return size.header_bytes + size.data_bytes + row.header_bytes + row.data_bytes;
}

bool sel_lsm_oversize(const struct sel_lsm *lsm, const struct sel_layout *layout, uint32_t pages, uint32_t page_keys,
                      bool pages_replicated, bool has_row, bool row_replicated) {
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    struct sel_extent_size size, row = {0};
    if (part_sizes(layout, pages, page_keys, SEL_LSM_PAGES, pages_replicated, &size) ||
        (has_row && part_sizes(layout, pages, page_keys, SEL_LSM_ROW, row_replicated, &row)))
        return true;
    return sel_space_oversize(lsm, size.header_bytes + size.data_bytes, row.header_bytes + row.data_bytes);
}

static int check_record(const struct sel_layout *layout, const struct sel_lsm_record *record) {
    if (memcmp(layout->ns, record->ns, sizeof record->ns) != 0 || layout->desc.page_tokens != record->page_tokens ||
        !sel_record_counts_valid(record->page_tokens, record->tokens, record->parent_tokens, record->page_key_count) ||
        (record->has_row && layout->row_slots == 0))
        return SELENE_E_INVALID;
    return 0;
}

static int copy_record(struct sel_lsm_write *write, const struct sel_layout *layout,
                       const struct sel_lsm_record *record) {
    write->record = *record;
    write->record.page_keys = NULL;
    if (record->parent_tokens == 0)
        memset(&write->record.parent_key, 0, sizeof write->record.parent_key);
    if (record->page_key_count) {
        write->page_keys = malloc((size_t)record->page_key_count * sizeof *write->page_keys);
        if (write->page_keys == NULL)
            return SELENE_E_NOMEM;
        memcpy(write->page_keys, record->page_keys, (size_t)record->page_key_count * sizeof *write->page_keys);
        write->record.page_keys = write->page_keys;
    }
    write->rank_count = layout->desc.rank_count;
    write->share_bytes = layout->share_bytes;
    write->row_bytes = layout->desc.row_bytes;
    return sel_plane_runs(layout, &write->runs, &write->run_count);
}

static int prepare_parts(struct sel_lsm_write *write, const struct sel_layout *layout) {
    const struct sel_lsm_record *r = &write->record;
    uint32_t pages = sel_layout_end_page(layout, r->tokens) - sel_layout_first_page(layout, r->parent_tokens);
    for (uint8_t kind = write->row_only ? SEL_LSM_ROW : SEL_LSM_PAGES; kind < (r->has_row ? 2 : 1); kind++) {
        struct sel_part *part = &write->part[kind];
        struct sel_extent_size size;
        part->replicated = kind == SEL_LSM_ROW ? r->row_replicated : r->pages_replicated;
        if (part_sizes(layout, pages, r->page_key_count, kind, part->replicated, &size))
            return SELENE_E_OVERSIZE;
        part->header_bytes = size.header_bytes;
        part->data_bytes = size.data_bytes;
        part->sum_count = (uint32_t)size.shares;
        part->header = sel_buffer_get(write->lsm, size.header_bytes);
        if (part->header == NULL)
            return SELENE_E_NOMEM;
    }
    return 0;
}

void sel_write_buffers_put(struct sel_lsm_write *write) {
    for (int i = 0; i < 2; i++)
        sel_buffer_put(write->lsm, &write->part[i].header);
}

static void free_write(struct sel_lsm_write **pointer) {
    struct sel_lsm_write *write = *pointer;
    if (write == NULL)
        return;
    SEL_CHECK(write->ios == 0);
    sel_write_buffers_put(write);
    sel_list_remove(&write->link);
    sel_list_remove(&write->group_link);
    sel_list_remove(&write->deferred_link);
    sel_list_remove(&write->sibling);
    sel_list_remove(&write->row_link);
    free(write->page_keys);
    free(write->runs);
    write->magic = 0;
    free(write);
    *pointer = NULL;
}

static struct sel_lsm_write *new_write(struct sel_lsm *lsm) {
    struct sel_lsm_write *write = calloc(1, sizeof *write);
    if (write == NULL)
        return NULL;
    write->magic = SEL_WRITE_MAGIC;
    write->lsm = lsm;
    sel_list_init(&write->link);
    sel_list_init(&write->group_link);
    sel_list_init(&write->deferred_link);
    sel_list_init(&write->children);
    sel_list_init(&write->sibling);
    sel_list_init(&write->row_link);
    for (uint8_t i = 0; i < 2; i++) {
        write->part[i].write = write;
        write->part[i].kind = i;
        sel_list_init(&write->part[i].link);
        sel_list_init(&write->part[i].pieces);
    }
    return write;
}

static int reserve(struct sel_lsm_write *write) {
    struct sel_lsm *lsm = write->lsm;
    struct sel_segment *segment[2] = {NULL, NULL};
    uint64_t bytes[2];
    for (int i = 0; i < 2; i++)
        bytes[i] = write->part[i].header_bytes + write->part[i].data_bytes;
    /* Numbers end only where a hostile file has used them up: what is written then would be refused by every reader. */
    if (sel_space_oversize(lsm, bytes[0], bytes[1]) || lsm->next_sequence > SEL_SEQUENCE_MAX - 1)
        return SELENE_E_OVERSIZE;
    uint64_t values = sel_space_values(write->record.page_key_count);
    int rc = sel_space_room(lsm, values) ? 0 : SELENE_E_NOSPACE;
    lsm->blocked_values = rc ? values : 0;
    for (uint8_t i = 0; i < 2 && !rc; i++)
        if (bytes[i])
            rc = sel_space_find(lsm, i, bytes[i], false, &segment[i]);
    if (rc == SELENE_E_NOSPACE)
        sel_space_seal_dead(lsm);
    if (rc)
        return rc;
    for (int i = 0; i < 2; i++)
        if (bytes[i])
            sel_space_reserve(&write->part[i], segment[i]);
    if (!write->row_only)
        write->sequence = lsm->next_sequence++;
    write->row_sequence = bytes[1] ? lsm->next_sequence++ : 0;
    lsm->open_values += 1 + sel_keys_parts(write->record.page_key_count);
    return 0;
}

int sel_write_start(struct sel_lsm *lsm, struct sel_lsm_write *write) {
    int rc = reserve(write);
    if (rc == SELENE_E_NOSPACE && !lsm->pressed) {
        lsm->pressed = lsm->reclaim = lsm->look_forward = true;
        sel_lsm_flush(lsm);
    } else if (rc == 0) {
        lsm->pressed = false;
        lsm->blocked[0] = lsm->blocked[1] = 0;
    }
    return rc;
}

int sel_write_create(struct sel_lsm *lsm, const struct sel_layout *layout, const struct sel_lsm_record *record,
                     const struct sel_location *row_of, struct sel_lsm_write **out) {
    int rc = check_record(layout, record);
    if (rc)
        return rc;
    struct sel_lsm_write *write = new_write(lsm);
    if (write == NULL)
        return SELENE_E_NOMEM;
    if (row_of) {
        write->row_only = true;
        write->location = *row_of;
        write->sequence = row_of->sequence;
    }
    rc = copy_record(write, layout, record);
    if (!rc)
        rc = prepare_parts(write, layout);
    if (!rc)
        rc = sel_write_start(lsm, write);
    if (rc) {
        free_write(&write);
        return rc;
    }
    sel_list_add_tail(&lsm->writes, &write->link);
    *out = write;
    return 0;
}

int sel_lsm_write_begin(struct sel_lsm *lsm, const struct sel_layout *layout, const struct sel_lsm_record *record,
                        struct sel_lsm_write *parent, struct sel_lsm_write **out) {
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    *out = NULL;
    if (lsm->state != SEL_LSM_OK)
        return SELENE_E_DEGRADED;
    if (parent && parent->state == SEL_WRITE_FAILED)
        return SELENE_E_PARENT;
    int rc = sel_write_create(lsm, layout, record, NULL, out);
    if (rc)
        return rc;
    if (parent && parent->state != SEL_WRITE_COMMITTED) {
        (*out)->parent = parent;
        sel_list_add_tail(&parent->children, &(*out)->sibling);
    }
    return 0;
}

void sel_part_drop(struct sel_part *part) {
    struct sel_segment *segment = part->segment;
    if (segment == NULL || !sel_list_linked(&part->link))
        return;
    sel_list_remove(&part->link);
    segment->pending_blocks -= (uint32_t)((part->header_bytes + part->data_bytes) / SEL_DISK_BLOCK);
    segment->dirty = true;
    segment->catalog_dirty |= segment->known;
    segment->given_up_end = SEL_MAX(segment->given_up_end, part->offset + part->header_bytes + part->data_bytes);
    if (!sel_list_linked(&segment->given_up_link))
        sel_list_add_tail(&segment->lsm->given_up, &segment->given_up_link);
    sel_segment_account(segment);
    sel_remove_release(segment->lsm);
}

void sel_write_settle(struct sel_lsm_write *write) {
    if (write->state != SEL_WRITE_FAILED || write->ios > 0)
        return;
    for (int i = 0; i < 2; i++) {
        sel_issue_none(&write->part[i], write->error); /* before its finish, also in the middle of that */
        sel_part_drop(&write->part[i]);
    }
    if (write->op && write->finished) {
        struct sel_op *op = write->op;
        write->op = NULL;
        sel_ready_post(write->lsm->config.ready, op, write->error);
    }
}

static void fail_one(struct sel_lsm_write *write, int error, struct sel_list *todo) {
    struct sel_lsm *lsm = write->lsm;
    SEL_CHECK(write->state != SEL_WRITE_COMMITTED);
    if (write->state == SEL_WRITE_JOINED)
        lsm->group_filled -= write->part[0].data_bytes + write->part[1].data_bytes;
    sel_list_remove(&write->group_link);
    lsm->open_values -= 1 + sel_keys_parts(write->record.page_key_count);
    write->state = SEL_WRITE_FAILED;
    write->error = error;
    write->parent = NULL;
    sel_list_remove(&write->sibling);
    sel_list_remove(&write->row_link);
    for (struct sel_list *at = sel_list_pop(&write->children); at; at = sel_list_pop(&write->children)) {
        struct sel_lsm_write *child = SEL_LIST_ENTRY(at, struct sel_lsm_write, sibling);
        sel_list_add_tail(todo, &child->sibling);
    }
    sel_write_settle(write);
}

/* The write, and with SELENE_E_PARENT everything below it [P3]. */
void sel_write_fail(struct sel_lsm_write *write, int error) {
    if (write->state == SEL_WRITE_FAILED)
        return;
    struct sel_list todo;
    sel_list_init(&todo);
    fail_one(write, error, &todo);
    for (struct sel_list *at = sel_list_pop(&todo); at; at = sel_list_pop(&todo))
        fail_one(SEL_LIST_ENTRY(at, struct sel_lsm_write, sibling), SELENE_E_PARENT, &todo);
}

static int untrusted(const struct sel_lsm_write *write) {
    for (int i = 0; i < 2; i++)
        if (write->part[i].segment && write->part[i].segment->sync_failed)
            return SELENE_E_IO;
    return 0;
}

static bool can_join(struct sel_lsm_write *write) {
    if (write->state != SEL_WRITE_FINISHED || write->ios > 0)
        return false;
    if (untrusted(write)) {
        sel_write_fail(write, SELENE_E_IO);
        return false;
    }
    return write->parent == NULL || write->parent->state == SEL_WRITE_JOINED ||
           write->parent->state == SEL_WRITE_COMMITTING;
}

/* Joins the group; so may then its children, which are put on one list so that a long chain needs no deep stack. */
void sel_write_try_join(struct sel_lsm_write *write) {
    struct sel_list todo;
    sel_list_init(&todo);
    struct sel_lsm_write *at = write;
    while (at) {
        if (can_join(at)) {
            sel_group_join(at);
            SEL_LIST_FOR_EACH(link, &at->children) {
                struct sel_lsm_write *child = SEL_LIST_ENTRY(link, struct sel_lsm_write, sibling);
                if (!sel_list_linked(&child->group_link))
                    sel_list_add_tail(&todo, &child->group_link);
            }
        }
        struct sel_list *next = sel_list_pop(&todo);
        at = next ? SEL_LIST_ENTRY(next, struct sel_lsm_write, group_link) : NULL;
    }
}

void sel_lsm_write_finish(struct sel_lsm_write *write, const uint64_t *page_sums, const uint64_t *row_sums,
                          struct sel_op *op) {
    SEL_CHECK_MAGIC(write, SEL_WRITE_MAGIC);
    SEL_CHECK(!write->finished);
    sel_op_start(op);
    write->op = op;
    write->finished = true;
    if (write->state == SEL_WRITE_FAILED) {
        sel_write_settle(write);
        return;
    }
    write->state = SEL_WRITE_FINISHED;
    sel_write_headers(write, page_sums, row_sums);
    for (int i = 0; i < 2; i++)
        sel_issue_part(&write->part[i]);
    sel_write_try_join(write);
}

void sel_lsm_write_abandon(struct sel_lsm_write **pointer) {
    struct sel_lsm_write *write = *pointer;
    if (write == NULL)
        return;
    SEL_CHECK_MAGIC(write, SEL_WRITE_MAGIC);
    SEL_CHECK(!write->finished && write->ios == 0);
    sel_write_fail(write, SELENE_E_CANCELLED);
    free_write(pointer);
}

struct sel_location sel_lsm_write_location(const struct sel_lsm_write *write) {
    return write->location;
}

void sel_lsm_write_free(struct sel_lsm_write **pointer) {
    if (*pointer == NULL)
        return;
    SEL_CHECK_MAGIC(*pointer, SEL_WRITE_MAGIC);
    SEL_CHECK((*pointer)->op == NULL &&
              ((*pointer)->state == SEL_WRITE_COMMITTED || (*pointer)->state == SEL_WRITE_FAILED));
    free_write(pointer);
}

/* A write that carries one extent of a committed record to another segment. */
int sel_write_for_copy(struct sel_lsm *lsm, const struct sel_extent *e, struct sel_move *move,
                       struct sel_segment *segment, struct sel_lsm_write **out) {
    struct sel_lsm_write *write = new_write(lsm);
    if (write == NULL)
        return SELENE_E_NOMEM;
    struct sel_part *part = &write->part[e->kind];
    write->move = move;
    write->record.page_key_count = e->page_key_count;
    part->header_bytes = e->header_bytes;
    part->data_bytes = e->extent_bytes - e->header_bytes;
    part->sum_count = e->sum_count;
    part->replicated = e->replicated;
    part->header = sel_buffer_get(lsm, e->header_bytes);
    if (part->header == NULL) {
        free_write(&write);
        return SELENE_E_NOMEM;
    }
    sel_space_reserve(part, segment);
    write->sequence = e->pages_sequence;
    lsm->open_values += 1 + sel_keys_parts(e->page_key_count);
    sel_list_add_tail(&lsm->writes, &write->link);
    *out = write;
    return 0;
}

void sel_write_finish_copy(struct sel_lsm_write *write, const struct sel_extent *old) {
    struct sel_part *part = &write->part[old->kind];
    write->finished = true;
    write->state = SEL_WRITE_FINISHED;
    memcpy(part->header, old->runs - sizeof(struct sel_extent_header_disk), old->header_bytes);
    sel_extent_move(part->header, part->segment->generation, part->segment->id, part->offset);
    sel_issue_part(part);
    sel_write_try_join(write);
}

void sel_write_fail_all(struct sel_lsm *lsm, int error) {
    SEL_LIST_FOR_EACH(at, &lsm->writes) {
        struct sel_lsm_write *write = SEL_LIST_ENTRY(at, struct sel_lsm_write, link);
        if (write->state != SEL_WRITE_COMMITTED)
            sel_write_fail(write, error);
    }
}

void sel_write_free_all(struct sel_lsm *lsm) {
    sel_write_fail_all(lsm, SELENE_E_CLOSED);
    while (!sel_list_empty(&lsm->writes)) {
        struct sel_lsm_write *write = SEL_LIST_ENTRY(lsm->writes.next, struct sel_lsm_write, link);
        free_write(&write);
    }
}
