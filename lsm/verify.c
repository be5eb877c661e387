/* SPDX-License-Identifier: Apache-2.0
 *
 * Verifying the data of an extent against the checksums in its header [I2], without knowing the layout: the header's
 * plane runs say where each plane lies in a share. The data is read in windows, one ahead of the one being hashed, each
 * with several reads in flight; hashing is spread over the workers. Memory is bounded by the windows and one hash a
 * block of one share (of all shares of a row). Blocking: opening only; copy forward has its own use of the parts below.
 *
 * The stored order of blocks is the order of offsets: share after share of a page; of a row piece after piece, each
 * with a part of every rank's share.
 */
#include "lsm/verify.h"

#include "lsm/open.h"

#include "base/checksum.h"

#include <stdlib.h>
#include <string.h>

void sel_blocks_start(struct sel_blocks *at, const struct sel_extent *extent) {
    *at = (struct sel_blocks){.extent = extent};
    at->ranks = extent->replicated ? 1 : extent->rank_count;
    at->row_blocks = sel_checksum_blocks(extent->row_bytes);
}

/* The next block of a row's shares; share: rank, index: block of that rank's row. */
static bool next_row_block(struct sel_blocks *at, struct sel_block *block) {
    const struct sel_extent *e = at->extent;
    uint64_t piece = at->share / at->ranks, rank = at->share % at->ranks;
    uint64_t from = piece * e->share_bytes + at->inside; /* within the rank's row */
    if (from >= e->row_bytes)
        return false;
    uint64_t left = SEL_MIN(e->row_bytes - from, e->share_bytes - at->inside);
    block->offset = at->share * e->share_bytes + at->inside;
    block->bytes = (uint32_t)SEL_MIN(left, SEL_CHECKSUM_BLOCK);
    block->slot = rank * at->row_blocks + from / SEL_CHECKSUM_BLOCK;
    block->last = false;
    at->inside += SEL_CHECKSUM_BLOCK;
    if (at->inside >= e->share_bytes || piece * e->share_bytes + at->inside >= e->row_bytes) {
        at->inside = 0;
        at->share++;
    }
    return true;
}

static bool next_page_block(struct sel_blocks *at, struct sel_block *block) {
    const struct sel_extent *e = at->extent;
    if (at->share >= e->sum_count)
        return false;
    struct sel_plane_run run = sel_extent_run(e, at->run);
    block->offset = at->share * e->share_bytes + at->plane_offset + at->inside;
    block->bytes = (uint32_t)SEL_MIN(run.bytes - at->inside, SEL_CHECKSUM_BLOCK);
    block->slot = at->index++;
    block->last = false;
    at->inside += block->bytes;
    if (at->inside < run.bytes)
        return true;
    at->inside = 0;
    at->plane_offset = sel_align_up(at->plane_offset + run.bytes, SEL_PLANE_ALIGNMENT);
    if (++at->plane < run.count)
        return true;
    at->plane = 0;
    if (++at->run < e->run_count)
        return true;
    block->last = true;
    at->run = 0;
    at->plane_offset = at->index = 0;
    at->share++;
    return true;
}

bool sel_blocks_next(struct sel_blocks *at, struct sel_block *block) {
    return at->extent->kind == SEL_EXTENT_KIND_ROW ? next_row_block(at, block) : next_page_block(at, block);
}

/* ---- folding block hashes into checksums ---- */

int sel_fold_start(struct sel_fold *fold, const struct sel_extent *extent) {
    *fold = (struct sel_fold){.extent = extent};
    struct sel_blocks at;
    sel_blocks_start(&at, extent);
    fold->slots = extent->kind == SEL_EXTENT_KIND_ROW ? at.ranks * at.row_blocks : extent->share_bytes / 64 + 1;
    if (extent->kind != SEL_EXTENT_KIND_ROW) {
        fold->slots = 0;
        for (uint32_t i = 0; i < extent->run_count; i++) {
            struct sel_plane_run run = sel_extent_run(extent, i);
            fold->slots += run.count * sel_checksum_blocks(run.bytes);
        }
    }
    fold->hashes = malloc(fold->slots * sizeof *fold->hashes);
    return fold->hashes ? 0 : SELENE_E_NOMEM;
}

int sel_fold_add(struct sel_fold *fold, const struct sel_block *block, uint64_t hash) {
    SEL_CHECK(block->slot < fold->slots);
    fold->hashes[block->slot] = hash;
    if (!block->last)
        return 0;
    uint64_t sum = sel_checksum_finish(fold->hashes, (size_t)block->slot + 1);
    return sum == sel_extent_sum(fold->extent, fold->share++) ? 0 : SELENE_E_CORRUPT;
}

int sel_fold_end(struct sel_fold *fold) {
    const struct sel_extent *e = fold->extent;
    if (e->kind != SEL_EXTENT_KIND_ROW)
        return fold->share == e->sum_count ? 0 : SELENE_E_CORRUPT;
    size_t row_blocks = sel_checksum_blocks(e->row_bytes);
    for (size_t i = 0; i < e->sum_count; i++)
        if (sel_checksum_finish(fold->hashes + i * row_blocks, row_blocks) != sel_extent_sum(e, i))
            return SELENE_E_CORRUPT;
    return 0;
}

void sel_fold_free(struct sel_fold *fold) {
    free(fold->hashes);
    fold->hashes = NULL;
}

/* ---- windows ---- */

int sel_window_create(struct sel_window *window, struct sel_lsm *lsm) {
    memset(window, 0, sizeof *window);
    window->lsm = lsm;
    void *memory = NULL;
    if (posix_memalign(&memory, SEL_DISK_BLOCK, SEL_WINDOW_BYTES))
        return SELENE_E_NOMEM;
    window->memory = memory;
    return 0;
}

void sel_window_free(struct sel_window *window) {
    free(window->memory);
    free(window->blocks);
    free(window->hashes);
    memset(window, 0, sizeof *window);
}

/* Takes as many blocks as fit one window. */
int sel_window_plan(struct sel_window *window, struct sel_blocks *at) {
    window->count = 0;
    window->offset = window->bytes = 0;
    struct sel_blocks before = *at;
    struct sel_block block;
    while (sel_blocks_next(at, &block)) {
        if (window->count == 0)
            window->offset = block.offset / SEL_DISK_BLOCK * SEL_DISK_BLOCK;
        uint64_t end = sel_align_up(block.offset + block.bytes, SEL_DISK_BLOCK) - window->offset;
        if (end > SEL_WINDOW_BYTES) {
            *at = before;
            break;
        }
        if (window->count == window->capacity) {
            size_t capacity = window->capacity ? window->capacity * 2 : 1024;
            struct sel_block *blocks = realloc(window->blocks, capacity * sizeof *blocks);
            window->blocks = blocks ? blocks : window->blocks;
            uint64_t *hashes = realloc(window->hashes, capacity * sizeof *hashes);
            window->hashes = hashes ? hashes : window->hashes;
            if (blocks == NULL || hashes == NULL)
                return SELENE_E_NOMEM;
            window->capacity = capacity;
        }
        window->blocks[window->count++] = block;
        window->bytes = end;
        before = *at;
    }
    return 0;
}

static void window_read(struct sel_lsm_io *io, int result) {
    struct sel_window *window = io->owner;
    window->pending--;
    if (result && !window->result)
        window->result = result;
}

void sel_window_read(struct sel_window *window, struct sel_segment *segment, uint64_t data_start) {
    window->result = 0;
    int count = 0;
    for (uint64_t done = 0; done < window->bytes; done += SEL_WINDOW_READ, count++) {
        struct sel_lsm_io *io = &window->io[count];
        window->iov[count] = (struct iovec){.iov_base = window->memory + done,
                                            .iov_len = SEL_MIN(window->bytes - done, SEL_WINDOW_READ)};
        io->io = (struct sel_disk_io){.kind = SEL_DISK_READ,
                                      .file = segment->file,
                                      .offset = data_start + window->offset + done,
                                      .iov = &window->iov[count],
                                      .iov_count = 1};
        window->pending++;
        sel_lsm_io_start(window->lsm, io, window_read, window);
    }
}

static int hash_run(struct sel_job *job) {
    struct sel_window_job *part = SEL_CONTAINER(job, struct sel_window_job, job);
    struct sel_window *window = part->window;
    for (size_t i = part->from; i < part->to; i++)
        window->hashes[i] =
            sel_hash64(window->memory + (window->blocks[i].offset - window->offset), window->blocks[i].bytes);
    return 0;
}

static void hash_ran(struct sel_op *op) {
    struct sel_window_job *part = SEL_CONTAINER(op, struct sel_window_job, job.op);
    part->window->hashing--;
}

void sel_window_hash(struct sel_window *window) {
    struct sel_lsm *lsm = window->lsm;
    size_t jobs = SEL_MIN(sel_workers_count(lsm->config.workers), SEL_WINDOW_JOBS);
    jobs = SEL_MAX(SEL_MIN(jobs, window->count / 64), 1);
    for (size_t i = 0; i < jobs; i++) {
        struct sel_window_job *part = &window->jobs[i];
        part->window = window;
        part->from = window->count * i / jobs;
        part->to = window->count * (i + 1) / jobs;
        part->job.run = hash_run;
        sel_op_init(&part->job.op, hash_ran);
        window->hashing++;
        sel_workers_submit(lsm->config.workers, lsm->config.ready, &part->job);
    }
}

int sel_window_fold(struct sel_window *window, struct sel_fold *fold) {
    int rc = 0;
    for (size_t i = 0; i < window->count && !rc; i++)
        rc = sel_fold_add(fold, &window->blocks[i], window->hashes[i]);
    return rc;
}

/* ---- the whole of an extent, blocking ---- */

void sel_wait_turn(struct sel_lsm *lsm) {
    sel_disk_poll(lsm->config.disk);
    if (sel_ready_run(lsm->config.ready, 1024) == 0)
        lsm->config.disk->ops->wait(lsm->config.disk, SEL_NS_PER_MS / 5);
}

static int verify_windows(struct sel_window window[2], struct sel_segment *segment, const struct sel_extent *extent,
                          struct sel_fold *fold) {
    struct sel_lsm *lsm = segment->lsm;
    uint64_t start = extent->offset + extent->header_bytes;
    struct sel_blocks at;
    sel_blocks_start(&at, extent);
    int rc = sel_window_plan(&window[0], &at);
    if (!rc)
        sel_window_read(&window[0], segment, start);
    for (int now = 0; !rc && window[now].count > 0; now = !now) {
        while (window[now].pending > 0)
            sel_wait_turn(lsm);
        lsm->stats.tail_bytes_read += window[now].bytes;
        rc = window[now].result;
        if (!rc)
            rc = sel_window_plan(&window[!now], &at);
        if (rc)
            break;
        if (window[!now].count > 0)
            sel_window_read(&window[!now], segment, start);
        sel_window_hash(&window[now]);
        while (window[now].hashing > 0)
            sel_wait_turn(lsm);
        rc = sel_window_fold(&window[now], fold);
    }
    while (window[0].pending > 0 || window[1].pending > 0)
        sel_wait_turn(lsm);
    return rc ? rc : sel_fold_end(fold);
}

int sel_verify_extent(struct sel_opening *opening, struct sel_segment *segment, const struct sel_extent *extent) {
    struct sel_fold fold = {0};
    int rc = 0;
    for (int i = 0; i < 2 && !rc; i++)
        if (opening->window[i].memory == NULL)
            rc = sel_window_create(&opening->window[i], segment->lsm);
    if (!rc)
        rc = sel_fold_start(&fold, extent);
    if (!rc)
        rc = verify_windows(opening->window, segment, extent, &fold);
    sel_fold_free(&fold);
    return rc;
}
