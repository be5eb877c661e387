/* SPDX-License-Identifier: Apache-2.0
 *
 * Copying one extent: header read and verified, room found, data read, verified and written window by window, then a new
 * header, which differs from the old one in its place and generation only; checksums are carried over, never made anew.
 */
#include "lsm/forward.h"

#include <stdlib.h>
#include <string.h>

static void read_done(struct sel_lsm_io *io, int result) {
    struct sel_forward *forward = io->owner;
    forward->ios--;
    if (result && !forward->result)
        forward->result = result;
}

static void read_header(struct sel_forward *forward, uint32_t bytes) {
    forward->header_bytes = bytes;
    forward->iov = (struct iovec){.iov_base = forward->header, .iov_len = bytes};
    forward->io.io = (struct sel_disk_io){.kind = SEL_DISK_READ,
                                          .file = forward->victim->file,
                                          .offset = forward->offset,
                                          .iov = &forward->iov,
                                          .iov_count = 1};
    forward->ios++;
    sel_lsm_io_start(forward->lsm, &forward->io, read_done, forward);
}

int sel_copy_begin(struct sel_forward *forward, const struct sel_record_entry *entry) {
    struct sel_lsm *lsm = forward->lsm;
    uint64_t place = forward->kind == SEL_LSM_ROW ? entry->location.row : entry->location.pages;
    forward->move = calloc(1, sizeof *forward->move);
    forward->header = sel_buffer_get(lsm, SEL_DISK_BLOCK);
    if (forward->move == NULL || forward->header == NULL) {
        sel_copy_cancel(forward);
        return SELENE_E_NOMEM;
    }
    sel_list_init(&forward->move->link);
    forward->move->entry = *entry;
    forward->move->kind = forward->kind;
    forward->result = 0;
    forward->written = 0;
    forward->offset = (uint64_t)(uint32_t)place * SEL_DISK_BLOCK;
    forward->step = SEL_COPY_HEADER;
    read_header(forward, SEL_DISK_BLOCK);
    return 0;
}

void sel_copy_cancel(struct sel_forward *forward) {
    SEL_CHECK(forward->ios == 0 && forward->window.pending == 0 && forward->window.hashing == 0);
    sel_buffer_put(forward->lsm, &forward->header);
    sel_fold_free(&forward->fold);
    if (forward->move) {
        struct sel_lsm_write *write = forward->move->write;
        if (write)
            sel_write_fail(write, SELENE_E_CANCELLED);
        sel_lsm_write_free(&forward->move->write);
        free(forward->move);
    }
    forward->move = NULL;
    forward->step = SEL_COPY_IDLE;
}

static bool agrees(const struct sel_forward *forward) {
    const struct sel_extent *e = &forward->extent;
    const struct sel_record_entry *entry = &forward->move->entry;
    uint32_t blocks = forward->kind == SEL_LSM_ROW ? entry->location.row_blocks : entry->location.pages_blocks;
    return e->kind == forward->kind && e->pages_sequence == entry->location.sequence &&
           e->extent_bytes == (uint64_t)blocks * SEL_DISK_BLOCK && sel_key_equal(&e->key, &entry->key) &&
           e->tokens == entry->tokens && memcmp(e->ns, entry->ns, sizeof e->ns) == 0;
}

static int header_here(struct sel_forward *forward) {
    struct sel_segment *victim = forward->victim;
    struct sel_extent_place place = {.generation = victim->generation,
                                     .segment_id = victim->id,
                                     .offset = forward->offset,
                                     .limit_bytes = victim->bytes};
    uint32_t bytes;
    if (sel_extent_peek(forward->header, &place, &bytes))
        return SELENE_E_CORRUPT;
    if (bytes > forward->header_bytes) {
        sel_buffer_put(forward->lsm, &forward->header);
        forward->header = sel_buffer_get(forward->lsm, bytes);
        if (forward->header == NULL)
            return SELENE_E_NOMEM;
        read_header(forward, bytes);
        return SELENE_E_RETRY;
    }
    int rc = sel_extent_unpack(&forward->extent, forward->header, bytes, &place, NULL);
    if (rc)
        return rc == SELENE_E_NOMEM ? rc : SELENE_E_CORRUPT;
    return agrees(forward) ? 0 : SELENE_E_CORRUPT;
}

/* Room in an open segment, and the write that carries the copy through the group. */
static int find_place(struct sel_forward *forward) {
    struct sel_segment *segment;
    int rc = sel_space_find(forward->lsm, forward->kind, forward->extent.extent_bytes, true, &segment);
    if (!rc)
        rc = sel_write_for_copy(forward->lsm, &forward->extent, forward->move, segment, &forward->move->write);
    if (!rc)
        rc = sel_fold_start(&forward->fold, &forward->extent);
    if (!rc)
        sel_blocks_start(&forward->blocks, &forward->extent);
    return rc;
}

static int read_window(struct sel_forward *forward) {
    int rc = sel_window_plan(&forward->window, &forward->blocks);
    if (!rc && forward->window.count > 0)
        sel_window_read(&forward->window, forward->victim, forward->offset + forward->extent.header_bytes);
    return rc;
}

static void written(struct sel_op *op) {
    struct sel_forward *forward = SEL_CONTAINER(op, struct sel_forward, write_op);
    forward->ios--;
    if (op->result && !forward->result)
        forward->result = op->result;
}

static void write_out(struct sel_forward *forward, uint64_t offset, uint64_t bytes) {
    forward->iov = (struct iovec){.iov_base = forward->window.memory, .iov_len = bytes};
    sel_op_init(&forward->write_op, written);
    forward->ios++;
    forward->written = offset + bytes;
    sel_lsm_write_data(forward->move->write, forward->kind, offset, &forward->iov, 1, &forward->write_op);
}

/* All data is written, but for padding behind it: its last block is, so that the file reaches that far. */
static int finish(struct sel_forward *forward) {
    uint64_t data_bytes = forward->extent.extent_bytes - forward->extent.header_bytes;
    int rc = sel_fold_end(&forward->fold);
    if (rc)
        return rc;
    if (forward->written < data_bytes) {
        memset(forward->window.memory, 0, SEL_DISK_BLOCK);
        write_out(forward, data_bytes - SEL_DISK_BLOCK, SEL_DISK_BLOCK);
        return SELENE_E_RETRY;
    }
    sel_write_finish_copy(forward->move->write, &forward->extent);
    return 0;
}

static int next_step(struct sel_forward *forward) {
    int rc = 0;
    switch (forward->step) {
    case SEL_COPY_HEADER:
        rc = header_here(forward);
        forward->step = rc ? forward->step : SEL_COPY_PLACE;
        return rc;
    case SEL_COPY_PLACE:
        rc = find_place(forward);
        if (!rc)
            rc = read_window(forward);
        forward->step = rc ? forward->step : SEL_COPY_READ;
        return rc;
    case SEL_COPY_READ:
        sel_window_hash(&forward->window);
        forward->step = SEL_COPY_HASH;
        return 0;
    case SEL_COPY_HASH:
        rc = sel_window_fold(&forward->window, &forward->fold);
        if (!rc)
            write_out(forward, forward->window.offset, forward->window.bytes);
        forward->step = SEL_COPY_WRITE;
        return rc;
    default:
        rc = forward->written < forward->extent.extent_bytes - forward->extent.header_bytes ? read_window(forward) : 0;
        if (rc)
            return rc;
        if (forward->window.count > 0 && forward->window.pending > 0) {
            forward->step = SEL_COPY_READ;
            return 0;
        }
        rc = finish(forward);
        return rc ? rc : SELENE_E_GONE; /* done */
    }
}

int sel_copy_poll(struct sel_forward *forward) {
    for (;;) {
        if (forward->ios > 0 || forward->window.pending > 0 || forward->window.hashing > 0)
            return SELENE_E_RETRY;
        int rc = forward->result ? forward->result : forward->window.result;
        if (!rc && forward->move->write && forward->move->write->state == SEL_WRITE_FAILED)
            rc = forward->move->write->error;
        if (!rc)
            rc = next_step(forward);
        if (rc == SELENE_E_GONE)
            return 0;
        if (rc)
            return rc;
    }
}
