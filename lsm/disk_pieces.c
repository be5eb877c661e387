/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting transfers into pieces; see disk_pieces.h.
 */
#include "lsm/disk_pieces.h"

void sel_disk_transfer_start(struct sel_disk_transfer *transfer, struct sel_disk_io *io, uint64_t bytes) {
    transfer->io = io;
    transfer->index = 0;
    transfer->within = 0;
    transfer->offset = io->offset;
    transfer->left = bytes;
    transfer->pieces = 0;
    transfer->error = 0;
}

/* The registered buffer that holds the range, or -1. */
static int buffer_of(const struct sel_disk_memory *memory, const void *base, uint64_t bytes) {
    for (int i = 0; i < memory->count; i++) {
        const struct sel_disk_region *region = &memory->regions[i];
        if ((uintptr_t)base < region->base)
            continue;
        uint64_t from = (uintptr_t)base - region->base;
        if (from >= region->bytes || bytes > region->bytes - from)
            continue;
        bool whole = from / SEL_DISK_BUFFER_BYTES == (from + bytes - 1) / SEL_DISK_BUFFER_BYTES;
        return whole ? region->first_buffer + (int)(from / SEL_DISK_BUFFER_BYTES) : -1;
    }
    return -1;
}

/* The next contiguous run of the transfer, at most `limit` bytes; adjacent entries are joined. */
static struct iovec run_peek(const struct sel_disk_transfer *transfer, uint64_t limit) {
    struct iovec run = {0};
    uint64_t within = transfer->within;
    for (int i = transfer->index; i < transfer->io->iov_count && run.iov_len < limit; i++) {
        const struct iovec *entry = &transfer->io->iov[i];
        char *base = (char *)entry->iov_base + within;
        uint64_t take = SEL_MIN(entry->iov_len - within, limit - run.iov_len);
        within = 0;
        if (take == 0)
            continue;
        if (run.iov_len && base != (char *)run.iov_base + run.iov_len)
            break;
        if (run.iov_len == 0)
            run.iov_base = base;
        run.iov_len += take;
    }
    return run;
}

static void run_take(struct sel_disk_transfer *transfer, uint64_t bytes) {
    transfer->offset += bytes;
    transfer->left -= bytes;
    while (bytes) {
        uint64_t left = transfer->io->iov[transfer->index].iov_len - transfer->within;
        uint64_t step = SEL_MIN(left, bytes);
        transfer->within += step;
        bytes -= step;
        if (step == left) {
            transfer->index++;
            transfer->within = 0;
        }
    }
}

void sel_disk_piece_fill(struct sel_disk_piece *piece, struct sel_disk_transfer *transfer,
                         const struct sel_disk_memory *memory) {
    piece->transfer = transfer;
    piece->offset = transfer->offset;
    piece->bytes = 0;
    piece->buffer = -1;
    piece->refusals = 0;
    piece->iov_index = piece->iov_count = 0;
    transfer->pieces++;
    while (transfer->left && piece->bytes < SEL_DISK_PIECE_BYTES && piece->iov_count < SEL_DISK_PIECE_IOV) {
        struct iovec run = run_peek(transfer, SEL_DISK_PIECE_BYTES - piece->bytes);
        int buffer = memory->count ? buffer_of(memory, run.iov_base, run.iov_len) : -1;
        bool alone = buffer >= 0 && run.iov_len >= SEL_DISK_FIXED_MIN;
        if (alone && piece->iov_count)
            break;
        piece->iov[piece->iov_count++] = run;
        piece->bytes += run.iov_len;
        piece->buffer = piece->iov_count == 1 ? buffer : -1;
        run_take(transfer, run.iov_len);
        if (alone)
            break;
    }
}

void sel_disk_piece_advance(struct sel_disk_piece *piece, uint64_t bytes) {
    piece->offset += bytes;
    piece->bytes -= bytes;
    while (bytes) {
        struct iovec *entry = &piece->iov[piece->iov_index];
        uint64_t step = SEL_MIN(bytes, entry->iov_len);
        entry->iov_base = (char *)entry->iov_base + step;
        entry->iov_len -= step;
        bytes -= step;
        if (entry->iov_len == 0) {
            piece->iov_index++;
            piece->iov_count--;
        }
    }
}
