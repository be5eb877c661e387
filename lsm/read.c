/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading one part of a record: header and data in one I/O, the header verified against what the caller and the
 * catalogue know. The data's checksums are handed out, not compared: the caller verifies where the bytes end up [I1].
 * An open reader keeps the extent's space from being reused [D5].
 */
#include "lsm/lsm_priv.h"

#include <stdlib.h>
#include <string.h>

static void free_reader(struct sel_lsm_reader **pointer) {
    struct sel_lsm_reader *reader = *pointer;
    sel_list_remove(&reader->link);
    sel_list_remove(&reader->all_link);
    if (reader->acquired)
        sel_segment_release(reader->segment);
    if (reader->segment) {
        reader->segment->dirty |= reader->segment->blocked;
        reader->segment->blocked = false;
        sel_segment_account(reader->segment);
    }
    sel_buffer_put(reader->lsm, &reader->header);
    free(reader->runs);
    free(reader->sums);
    free(reader->iov);
    reader->magic = 0;
    free(reader);
    *pointer = NULL;
}

static bool same_runs(const struct sel_lsm_reader *reader, const struct sel_extent *e) {
    if (e->run_count != reader->run_count)
        return false;
    for (uint32_t i = 0; i < e->run_count; i++) {
        struct sel_plane_run run = sel_extent_run(e, i);
        if (run.count != reader->runs[i].count || run.bytes != reader->runs[i].bytes)
            return false;
    }
    return true;
}

static bool agrees(const struct sel_lsm_reader *reader, const struct sel_extent *e) {
    const struct sel_lsm_record *r = &reader->record;
    return e->kind == reader->kind && e->pages_sequence == reader->sequence &&
           e->extent_bytes == reader->extent_bytes && e->header_bytes == reader->header_bytes &&
           e->replicated == reader->replicated && memcmp(e->ns, r->ns, sizeof r->ns) == 0 &&
           sel_key_equal(&e->key, &r->key) && e->tokens == r->tokens && e->parent_tokens == r->parent_tokens &&
           e->page_tokens == r->page_tokens && e->rank_count == reader->rank_count &&
           e->share_bytes == reader->share_bytes && e->row_bytes == reader->row_bytes && same_runs(reader, e);
}

static int verify_header(struct sel_lsm_reader *reader) {
    struct sel_lsm *lsm = reader->lsm;
    struct selene_message message = {{0}};
    struct sel_extent_place place = {.generation = reader->segment->generation,
                                     .segment_id = reader->segment->id,
                                     .offset = reader->offset,
                                     .limit_bytes = reader->segment->bytes};
    struct sel_extent e;
    int rc = sel_extent_unpack(&e, reader->header, reader->header_bytes, &place, &message);
    if (!rc && !agrees(reader, &e))
        rc = sel_fail(&message, SELENE_E_CORRUPT, "%s offset %llu: the extent is another record's",
                      reader->segment->name, (unsigned long long)reader->offset);
    if (rc) {
        sel_log_warning(lsm->config.log, "%s", message.text);
        return rc == SELENE_E_NOMEM ? rc : SELENE_E_CORRUPT;
    }
    reader->sums = malloc((size_t)e.sum_count * sizeof *reader->sums);
    if (reader->sums == NULL)
        return SELENE_E_NOMEM;
    reader->sum_count = e.sum_count;
    for (uint32_t i = 0; i < e.sum_count; i++)
        reader->sums[i] = sel_extent_sum(&e, i);
    return 0;
}

static void open_done(struct sel_lsm_reader *reader, int result) {
    struct sel_op *op = reader->op;
    reader->op = NULL;
    reader->state = SEL_READER_READY;
    sel_ready_post(reader->lsm->config.ready, op, result);
}

static void first_read(struct sel_lsm_io *io, int result) {
    struct sel_lsm_reader *reader = io->owner;
    reader->ios--;
    if (result == 0) {
        for (int i = 0; i < io->io.iov_count; i++)
            reader->lsm->stats.read_bytes += reader->iov[i].iov_len;
        result = verify_header(reader);
    } else
        reader->lsm->stats.read_errors++;
    sel_buffer_put(reader->lsm, &reader->header);
    open_done(reader, result);
}

static void file_ready(struct sel_file_waiter *waiter, int result) {
    struct sel_lsm_reader *reader = SEL_CONTAINER(waiter, struct sel_lsm_reader, waiter);
    reader->ios--;
    if (result) {
        reader->lsm->stats.read_errors++;
        open_done(reader, result);
        return;
    }
    reader->acquired = true;
    reader->state = SEL_READER_READING;
    reader->ios++;
    reader->io.io = (struct sel_disk_io){.kind = SEL_DISK_READ,
                                         .file = reader->segment->file,
                                         .offset = reader->offset,
                                         .iov = reader->iov,
                                         .iov_count = reader->iov_count};
    sel_lsm_io_start(reader->lsm, &reader->io, first_read, reader);
}

static int check_iov(uint64_t room, uint64_t offset, const struct iovec *iov, int iov_count) {
    uint64_t bytes = 0;
    if (iov_count < 0 || offset % SEL_DISK_BLOCK != 0 || offset > room)
        return SELENE_E_INVALID;
    for (int i = 0; i < iov_count; i++)
        if (iov[i].iov_len % SEL_DISK_BLOCK != 0 || (uintptr_t)iov[i].iov_base % SEL_DISK_BLOCK != 0 ||
            __builtin_add_overflow(bytes, (uint64_t)iov[i].iov_len, &bytes))
            return SELENE_E_INVALID;
    return bytes <= room - offset ? 0 : SELENE_E_INVALID;
}

/* Where the extent lies and how its header must measure for this record. */
static int locate(struct sel_lsm_reader *reader, const struct sel_layout *layout, const struct sel_location *at) {
    bool row = reader->kind == SEL_LSM_ROW;
    uint64_t place = row ? at->row : at->pages;
    uint32_t blocks = row ? at->row_blocks : at->pages_blocks;
    const struct sel_lsm_record *r = &reader->record;
    struct sel_segment *segment = sel_segment_find(reader->lsm, (uint32_t)(place >> 32));
    if (place == 0 || segment == NULL || !sel_segment_is_live(segment, (uint32_t)place, blocks) ||
        (segment->state != SEL_OPEN && segment->state != SEL_SEALED))
        return SELENE_E_GONE;
    if (memcmp(r->ns, layout->ns, sizeof r->ns) != 0 || r->page_tokens != layout->desc.page_tokens ||
        !sel_record_counts_valid(r->page_tokens, r->tokens, r->parent_tokens, r->page_key_count))
        return SELENE_E_INVALID;
    uint32_t pages = sel_layout_end_page(layout, r->tokens) - sel_layout_first_page(layout, r->parent_tokens);
    struct sel_extent_size size;
    if (sel_extent_size(&size, reader->kind, row ? layout->row_slots : pages,
                        reader->replicated ? 1 : layout->desc.rank_count, layout->share_bytes, reader->run_count,
                        r->page_key_count))
        return SELENE_E_INVALID;
    reader->offset = (uint64_t)(uint32_t)place * SEL_DISK_BLOCK;
    reader->extent_bytes = (uint64_t)blocks * SEL_DISK_BLOCK;
    reader->header_bytes = size.header_bytes;
    reader->data_bytes = size.data_bytes;
    if (size.header_bytes + size.data_bytes != reader->extent_bytes)
        return SELENE_E_CORRUPT;
    reader->segment = segment;
    sel_list_add_tail(&segment->readers, &reader->link);
    return 0;
}

static int prepare(struct sel_lsm_reader *reader, const struct sel_layout *layout, const struct sel_location *at,
                   const struct iovec *iov, int iov_count) {
    int rc = sel_plane_runs(layout, &reader->runs, &reader->run_count);
    if (!rc)
        rc = locate(reader, layout, at);
    if (!rc)
        rc = check_iov(reader->data_bytes, 0, iov, iov_count);
    if (rc)
        return rc;
    reader->header = sel_buffer_get(reader->lsm, reader->header_bytes);
    reader->iov = malloc(((size_t)iov_count + 1) * sizeof *iov);
    if (reader->header == NULL || reader->iov == NULL)
        return SELENE_E_NOMEM;
    reader->iov[0] = (struct iovec){.iov_base = reader->header, .iov_len = reader->header_bytes};
    if (iov_count)
        memcpy(reader->iov + 1, iov, (size_t)iov_count * sizeof *iov);
    reader->iov_count = iov_count + 1;
    return 0;
}

void sel_lsm_reader_open(struct sel_lsm *lsm, const struct sel_layout *layout, const struct sel_lsm_record *record,
                         const struct sel_location *location, enum sel_lsm_part part, const struct iovec *iov,
                         int iov_count, struct sel_lsm_reader **out, struct sel_op *op) {
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    *out = NULL;
    sel_op_start(op);
    struct sel_lsm_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        sel_ready_post(lsm->config.ready, op, SELENE_E_NOMEM);
        return;
    }
    reader->magic = SEL_READER_MAGIC;
    reader->lsm = lsm;
    reader->kind = part == SEL_LSM_ROW ? SEL_LSM_ROW : SEL_LSM_PAGES;
    reader->record = *record;
    reader->record.page_keys = NULL;
    reader->replicated = part == SEL_LSM_ROW ? record->row_replicated : record->pages_replicated;
    reader->sequence = location->sequence;
    reader->share_bytes = layout->share_bytes;
    reader->row_bytes = layout->desc.row_bytes;
    reader->rank_count = layout->desc.rank_count;
    sel_list_init(&reader->link);
    sel_list_init(&reader->all_link);
    sel_list_add_tail(&lsm->readers, &reader->all_link);
    int rc = prepare(reader, layout, location, iov, iov_count);
    if (rc) {
        free_reader(&reader);
        sel_ready_post(lsm->config.ready, op, rc);
        return;
    }
    reader->op = op;
    reader->ios = 1;
    *out = reader;
    sel_segment_acquire(reader->segment, &reader->waiter, file_ready);
}

/* A later read: its own small struct, since several may be in flight. */
struct later_read {
    struct sel_lsm_io io;
    struct sel_op *op;
    uint64_t bytes;
};

static void later_done(struct sel_lsm_io *io, int result) {
    struct sel_lsm_reader *reader = io->owner;
    struct later_read *read = SEL_CONTAINER(io, struct later_read, io);
    reader->ios--;
    if (result)
        reader->lsm->stats.read_errors++;
    else
        reader->lsm->stats.read_bytes += read->bytes;
    sel_ready_post(reader->lsm->config.ready, read->op, result);
    free(read);
}

void sel_lsm_reader_read(struct sel_lsm_reader *reader, uint64_t offset, const struct iovec *iov, int iov_count,
                         struct sel_op *op) {
    SEL_CHECK_MAGIC(reader, SEL_READER_MAGIC);
    SEL_CHECK(reader->state == SEL_READER_READY);
    sel_op_start(op);
    int rc = reader->acquired ? check_iov(reader->data_bytes, offset, iov, iov_count) : SELENE_E_INVALID;
    struct later_read *read = rc ? NULL : malloc(sizeof *read);
    if (read == NULL) {
        sel_ready_post(reader->lsm->config.ready, op, rc ? rc : SELENE_E_NOMEM);
        return;
    }
    read->op = op;
    read->bytes = 0;
    for (int i = 0; i < iov_count; i++)
        read->bytes += iov[i].iov_len;
    read->io.io = (struct sel_disk_io){.kind = SEL_DISK_READ,
                                       .file = reader->segment->file,
                                       .offset = reader->offset + reader->header_bytes + offset,
                                       .iov = iov,
                                       .iov_count = iov_count};
    reader->ios++;
    sel_lsm_io_start(reader->lsm, &read->io, later_done, reader);
}

const uint64_t *sel_lsm_reader_sums(const struct sel_lsm_reader *reader, size_t *count) {
    SEL_CHECK_MAGIC(reader, SEL_READER_MAGIC);
    *count = reader->sum_count;
    return reader->sums;
}

bool sel_lsm_reader_replicated(const struct sel_lsm_reader *reader) {
    SEL_CHECK_MAGIC(reader, SEL_READER_MAGIC);
    return reader->replicated;
}

void sel_lsm_reader_close(struct sel_lsm_reader **reader) {
    if (*reader == NULL)
        return;
    SEL_CHECK_MAGIC(*reader, SEL_READER_MAGIC);
    SEL_CHECK((*reader)->ios == 0 && (*reader)->op == NULL);
    free_reader(reader);
}
