/* SPDX-License-Identifier: Apache-2.0
 *
 * The I/O of writes. Data that the caller gives is not issued at once but at finish or at the next poll, whichever
 * comes first: a record whose data is complete when finish is called then goes out as one write, header first.
 * Neighbouring pieces always share a write.
 */
#include "lsm/lsm_priv.h"

#include <stdlib.h>
#include <string.h>

struct batch {
    struct sel_lsm_io io;
    struct sel_part *part;
    struct sel_list pieces;
    struct iovec iov[];
};

static void end_pieces(struct sel_lsm *lsm, struct sel_list *pieces, int result) {
    for (struct sel_list *at = sel_list_pop(pieces); at; at = sel_list_pop(pieces)) {
        struct sel_piece *piece = SEL_LIST_ENTRY(at, struct sel_piece, link);
        sel_ready_post(lsm->config.ready, piece->op, result);
        free(piece);
    }
}

void sel_issue_none(struct sel_part *part, int error) { end_pieces(part->write->lsm, &part->pieces, error); }

/* `batch` is freed here, before anything that may start more. */
static void batch_done(struct sel_lsm_io *io, int result) {
    struct batch *batch = SEL_CONTAINER(io, struct batch, io);
    struct sel_lsm_write *write = batch->part->write;
    struct sel_segment *segment = batch->part->segment;
    struct sel_lsm *lsm = write->lsm;
    uint64_t bytes = 0;
    for (int i = 0; i < io->io.iov_count; i++)
        bytes += batch->iov[i].iov_len;
    end_pieces(lsm, &batch->pieces, result);
    free(batch);
    write->ios--;
    sel_segment_release(segment);
    if (result == 0)
        lsm->stats.written_bytes += bytes;
    else {
        lsm->stats.write_errors++;
        if (!lsm->aborting)
            sel_segment_suspect(segment);
        sel_write_fail(write, result);
    }
    sel_write_settle(write);
    sel_write_try_join(write);
}

static void fail_pieces(struct sel_part *part, struct sel_list *pieces, int error) {
    end_pieces(part->write->lsm, pieces, error);
    sel_write_fail(part->write, error);
}

/* Takes neighbouring pieces from the front of part->pieces. */
static uint64_t take_run(struct sel_part *part, struct sel_list *pieces, size_t *vectors) {
    uint64_t start = 0, end = 0;
    while (!sel_list_empty(&part->pieces)) {
        struct sel_piece *piece = SEL_LIST_ENTRY(part->pieces.next, struct sel_piece, link);
        if (!sel_list_empty(pieces) && piece->offset != end)
            break;
        if (sel_list_empty(pieces))
            start = piece->offset;
        end = piece->offset + piece->bytes;
        *vectors += (size_t)piece->iov_count;
        sel_list_remove(&piece->link);
        sel_list_add_tail(pieces, &piece->link);
    }
    return start;
}

static void issue_batch(struct sel_part *part, struct sel_list *pieces, uint64_t data_offset, size_t vectors,
                        bool header) {
    struct sel_lsm *lsm = part->write->lsm;
    struct batch *batch = malloc(sizeof *batch + (vectors + 1) * sizeof batch->iov[0]);
    if (batch == NULL) {
        fail_pieces(part, pieces, SELENE_E_NOMEM);
        return;
    }
    int count = 0;
    batch->part = part;
    sel_list_init(&batch->pieces);
    sel_list_splice_tail(&batch->pieces, pieces);
    if (header)
        batch->iov[count++] = (struct iovec){.iov_base = part->header, .iov_len = part->header_bytes};
    SEL_LIST_FOR_EACH(at, &batch->pieces) {
        struct sel_piece *piece = SEL_LIST_ENTRY(at, struct sel_piece, link);
        memcpy(batch->iov + count, piece->iov, (size_t)piece->iov_count * sizeof(struct iovec));
        count += piece->iov_count;
    }
    uint64_t offset = part->offset + (header ? 0 : part->header_bytes + data_offset);
    batch->io.io = (struct sel_disk_io){
        .kind = SEL_DISK_WRITE, .file = part->segment->file, .offset = offset, .iov = batch->iov, .iov_count = count};
    part->write->ios++;
    part->segment->users++;
    sel_lsm_io_start(lsm, &batch->io, batch_done, NULL);
}

/* With a packed header ready, that goes out too, together with the data behind it where that is here. */
void sel_issue_part(struct sel_part *part) {
    bool header = part->write->finished && !part->header_written;
    if (part->segment == NULL)
        return;
    if (part->write->state == SEL_WRITE_FAILED) {
        sel_issue_none(part, part->write->error);
        return;
    }
    while (header || !sel_list_empty(&part->pieces)) {
        struct sel_list pieces;
        size_t vectors = 0;
        sel_list_init(&pieces);
        uint64_t start = 0;
        struct sel_piece *first =
            sel_list_empty(&part->pieces) ? NULL : SEL_LIST_ENTRY(part->pieces.next, struct sel_piece, link);
        if (first && (!header || first->offset == 0))
            start = take_run(part, &pieces, &vectors);
        issue_batch(part, &pieces, start, vectors, header);
        part->header_written |= header;
        header = false;
    }
}

void sel_issue_deferred(struct sel_lsm *lsm) {
    for (struct sel_list *at = sel_list_pop(&lsm->deferred); at; at = sel_list_pop(&lsm->deferred)) {
        struct sel_lsm_write *write = SEL_LIST_ENTRY(at, struct sel_lsm_write, deferred_link);
        for (int i = 0; i < 2; i++)
            sel_issue_part(&write->part[i]);
    }
}

static void insert_piece(struct sel_part *part, struct sel_piece *piece) {
    struct sel_list *at = part->pieces.prev;
    while (at != &part->pieces && SEL_LIST_ENTRY(at, struct sel_piece, link)->offset > piece->offset)
        at = at->prev;
    sel_list_add_head(at, &piece->link);
}

static int check_data(const struct sel_part *part, uint64_t offset, const struct iovec *iov, int iov_count,
                      uint64_t *bytes) {
    *bytes = 0;
    if (part->segment == NULL || offset % SEL_DISK_BLOCK != 0 || iov_count < 0)
        return SELENE_E_INVALID;
    for (int i = 0; i < iov_count; i++)
        if (iov[i].iov_len % SEL_DISK_BLOCK != 0 || (uintptr_t)iov[i].iov_base % SEL_DISK_BLOCK != 0 ||
            __builtin_add_overflow(*bytes, (uint64_t)iov[i].iov_len, bytes))
            return SELENE_E_INVALID;
    return offset <= part->data_bytes && *bytes <= part->data_bytes - offset ? 0 : SELENE_E_INVALID;
}

void sel_lsm_write_data(struct sel_lsm_write *write, enum sel_lsm_part which, uint64_t offset, const struct iovec *iov,
                        int iov_count, struct sel_op *op) {
    SEL_CHECK_MAGIC(write, SEL_WRITE_MAGIC);
    struct sel_lsm *lsm = write->lsm;
    struct sel_part *part = &write->part[which == SEL_LSM_ROW];
    uint64_t bytes;
    sel_op_start(op);
    int rc = check_data(part, offset, iov, iov_count, &bytes);
    if (!rc && write->finished)
        rc = SELENE_E_INVALID;
    if (!rc && write->state == SEL_WRITE_FAILED)
        rc = write->error;
    struct sel_piece *piece = rc || bytes == 0 ? NULL : malloc(sizeof *piece);
    if (piece == NULL) {
        if (!rc && bytes > 0) {
            rc = SELENE_E_NOMEM;
            sel_write_fail(write, rc);
        }
        sel_ready_post(lsm->config.ready, op, rc);
        return;
    }
    *piece = (struct sel_piece){.op = op, .offset = offset, .bytes = bytes, .iov = iov, .iov_count = iov_count};
    sel_list_init(&piece->link);
    insert_piece(part, piece);
    if (!sel_list_linked(&write->deferred_link))
        sel_list_add_tail(&lsm->deferred, &write->deferred_link);
}

static void pack_part(struct sel_part *part, const uint64_t *sums) {
    const struct sel_lsm_write *write = part->write;
    const struct sel_lsm_record *r = &write->record;
    bool row = part->kind == SEL_LSM_ROW;
    uint32_t first = r->parent_tokens / r->page_tokens;
    uint32_t end = r->tokens / r->page_tokens + (r->tokens % r->page_tokens != 0);
    struct sel_extent e = {.segment_id = part->segment->id,
                           .kind = part->kind,
                           .has_row = row || r->has_row,
                           .replicated = part->replicated,
                           .offset = part->offset,
                           .header_bytes = part->header_bytes,
                           .extent_bytes = part->header_bytes + part->data_bytes,
                           .sequence = row ? write->row_sequence : write->sequence,
                           .pages_sequence = write->sequence,
                           .key = r->key,
                           .parent_key = r->parent_key,
                           .base_key = r->base_key,
                           .page_tokens = r->page_tokens,
                           .tokens = r->tokens,
                           .parent_tokens = r->parent_tokens,
                           .rank_count = write->rank_count,
                           .first_page = first,
                           .page_count = end - first,
                           .share_bytes = write->share_bytes,
                           .row_bytes = write->row_bytes,
                           .time_s = r->time_s,
                           .run_count = write->run_count,
                           .page_key_count = r->page_key_count,
                           .sum_count = part->sum_count};
    memcpy(e.generation, part->segment->generation, sizeof e.generation);
    memcpy(e.ns, r->ns, sizeof e.ns);
    sel_extent_pack(part->header, &e, write->runs, write->page_keys, sums);
}

void sel_write_headers(struct sel_lsm_write *write, const uint64_t *page_sums, const uint64_t *row_sums) {
    if (write->part[SEL_LSM_PAGES].segment)
        pack_part(&write->part[SEL_LSM_PAGES], page_sums);
    if (write->part[SEL_LSM_ROW].segment)
        pack_part(&write->part[SEL_LSM_ROW], row_sums);
}
