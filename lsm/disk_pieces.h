/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting a READ or WRITE into pieces, each of which is one request to the kernel, so that one large io keeps several
 * in flight; and which of them lie in registered memory. No I/O. One thread.
 *
 * A piece is a run of at most SEL_DISK_PIECE_BYTES of the file and SEL_DISK_PIECE_IOV runs of memory. Only a piece of
 * one run can use registered memory, so a long registered run gets a piece of its own.
 */
#ifndef SEL_LSM_DISK_PIECES_H
#define SEL_LSM_DISK_PIECES_H

#include "lsm/disk.h"

/* Measured beside a raw ring: of 0.25 to 64 MiB nothing was faster than 4, less was 5 to 10 % slower. */
#define SEL_DISK_PIECE_BYTES (UINT64_C(4) << 20)
#define SEL_DISK_PIECE_IOV   64
/* Shorter registered runs share a piece with others: more requests would cost more than pinning their pages. */
#define SEL_DISK_FIXED_MIN (UINT64_C(256) << 10)
/* The kernel registers no larger buffer. */
#define SEL_DISK_BUFFER_BYTES (UINT64_C(1) << 30)

struct sel_disk_transfer {
    struct sel_list link; /* the owner's */
    struct sel_disk_io *io;
    int index;       /* first iov entry that is not cut */
    uint64_t within; /* of which so much is cut */
    uint64_t offset; /* in the file, of what is not cut */
    uint64_t left;
    unsigned pieces; /* outstanding: the owner's to count down */
    int error;       /* the owner's: the first one */
};

struct sel_disk_piece {
    struct sel_list link; /* the owner's */
    struct sel_disk_transfer *transfer;
    uint64_t offset;
    uint64_t bytes;    /* left */
    int buffer;        /* registered buffer that holds its only run, or -1 */
    bool direct;       /* the owner's: the file was, when it was submitted */
    unsigned refusals; /* the owner's: in a row */
    int iov_index;     /* first entry in use */
    int iov_count;
    struct iovec iov[SEL_DISK_PIECE_IOV];
};

/* Registered memory: region i is buffers first_buffer .. of SEL_DISK_BUFFER_BYTES each, the last may be shorter. */
struct sel_disk_region {
    uintptr_t base;
    uint64_t bytes;
    int first_buffer;
};
struct sel_disk_memory {
    struct sel_disk_region *regions;
    int count;
};

/* Starts on an io: bytes is the sum of its iov. */
void sel_disk_transfer_start(struct sel_disk_transfer *transfer, struct sel_disk_io *io, uint64_t bytes);
/* Cuts the next piece off; one of no bytes when there is nothing left. */
void sel_disk_piece_fill(struct sel_disk_piece *piece, struct sel_disk_transfer *transfer,
                         const struct sel_disk_memory *memory);
/* `bytes` of the piece are done, fewer than it has. */
void sel_disk_piece_advance(struct sel_disk_piece *piece, uint64_t bytes);

#endif
