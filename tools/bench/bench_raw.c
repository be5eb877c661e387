/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw I/O (bench_raw.h).
 */
#include "tools/bench/bench_raw.h"

#include "base/check.h"
#include "tools/bench/bench_wait.h"

#include <inttypes.h>
#include <stdlib.h>

struct block {
    struct sel_disk_io io;
    struct iovec iov;
    bool busy;
    int *error;
};

static int run_io(struct bench_raw *raw, struct sel_disk_io io, int *file, struct selene_message *message) {
    sel_op_init(&io.op, bench_op_done);
    int rc = sel_disk_run(raw->rig.disk, &raw->rig.ready, &io);
    if (file)
        *file = io.file;
    return rc ? sel_fail(message, rc, "raw I/O: %s", sel_error_text(rc)) : 0;
}

int bench_raw_create(struct bench_raw *raw, const char *directory, const char *name, struct selene_message *message) {
    raw->file = -1;
    int rc = bench_disk_rig_open(&raw->rig, directory, message);
    if (rc == 0) {
        raw->rig.disk->ops->register_memory(raw->rig.disk, raw->memory, raw->depth * raw->block_bytes);
        rc = run_io(raw,
                    (struct sel_disk_io){
                        .kind = SEL_DISK_OPEN, .flags = SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, .name = name},
                    &raw->file, message);
    }
    if (rc == 0)
        rc = run_io(raw, (struct sel_disk_io){.kind = SEL_DISK_ALLOCATE, .file = raw->file, .bytes = raw->total_bytes},
                    NULL, message);
    if (rc == 0)
        rc = run_io(raw, (struct sel_disk_io){.kind = SEL_DISK_SYNC, .file = raw->file}, NULL, message);
    return rc;
}

void bench_raw_destroy(struct bench_raw *raw) {
    if (raw->rig.disk && raw->file >= 0)
        (void)run_io(raw, (struct sel_disk_io){.kind = SEL_DISK_CLOSE, .file = raw->file}, NULL, NULL);
    bench_disk_rig_close(&raw->rig);
    raw->file = -1;
}

static void block_done(struct sel_op *op) {
    struct block *block = SEL_CONTAINER(op, struct block, io.op);
    block->busy = false;
    if (op->result && *block->error == 0)
        *block->error = op->result;
}

static void submit(struct bench_raw *raw, struct block *block, uint8_t kind, uint64_t number) {
    block->busy = true;
    block->io = (struct sel_disk_io){
        .kind = kind, .file = raw->file, .offset = number * raw->block_bytes, .iov = &block->iov, .iov_count = 1};
    sel_op_init(&block->io.op, block_done);
    sel_disk_submit(raw->rig.disk, &block->io);
}

static int run_blocks(struct bench_raw *raw, uint8_t kind, bool shuffled, struct selene_message *message) {
    uint64_t count = raw->total_bytes / raw->block_bytes, next = 0, busy = 1;
    int error = 0;
    struct block *blocks = calloc(raw->depth, sizeof *blocks);
    if (blocks == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "raw I/O: out of memory");
    for (unsigned i = 0; i < raw->depth; i++) {
        blocks[i].error = &error;
        blocks[i].iov = (struct iovec){raw->memory + i * raw->block_bytes, raw->block_bytes};
    }
    while (busy > 0) {
        busy = 0;
        for (unsigned i = 0; i < raw->depth; i++) {
            if (!blocks[i].busy && next < count && error == 0) {
                submit(raw, &blocks[i], kind, shuffled && count % 7919 ? next * 7919 % count : next);
                next++;
            }
            busy += blocks[i].busy;
        }
        if (busy > 0) {
            sel_disk_poll(raw->rig.disk);
            bench_disk_rig_turn(&raw->rig, SEL_NS_PER_MS);
        }
    }
    free(blocks);
    return error ? sel_fail(message, error, "raw I/O: %s", sel_error_text(error)) : 0;
}

int bench_raw_write(struct bench_raw *raw, uint64_t *ns, struct selene_message *message) {
    uint64_t from = bench_now_ns();
    int rc = run_blocks(raw, SEL_DISK_WRITE, false, message);
    if (rc == 0)
        rc = run_io(raw, (struct sel_disk_io){.kind = SEL_DISK_SYNC, .file = raw->file}, NULL, message);
    *ns = bench_now_ns() - from;
    return rc;
}

int bench_raw_read(struct bench_raw *raw, uint64_t *ns, struct selene_message *message) {
    uint64_t from = bench_now_ns();
    int rc = run_blocks(raw, SEL_DISK_READ, true, message);
    *ns = bench_now_ns() - from;
    return rc;
}
