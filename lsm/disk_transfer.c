/* SPDX-License-Identifier: Apache-2.0
 *
 * READ and WRITE as blocking calls: preadv/pwritev until everything moved or an error says why not.
 */
#include "lsm/disk_posix.h"

#include <errno.h>

#define BATCH_IOV   64                   /* entries a call; far below IOV_MAX, so that they lie on the stack */
#define BATCH_BYTES (UINT64_C(64) << 20) /* a call; the kernel's own bound is just under 2 GiB */
#define SECTOR      512

struct transfer {
    const struct sel_disk_io *io;
    uint64_t done;
    int index;       /* the first entry that is not done */
    uint64_t within; /* of which so much is done */
};

uint64_t sel_disk_posix_bytes(const struct sel_disk_io *io) {
    uint64_t total = 0;
    for (int i = 0; i < io->iov_count; i++)
        total += io->iov[i].iov_len;
    return total;
}

static int batch(const struct transfer *transfer, struct iovec *iov) {
    int count = 0;
    uint64_t bytes = 0, within = transfer->within;
    for (int i = transfer->index; i < transfer->io->iov_count && count < BATCH_IOV && bytes < BATCH_BYTES; i++) {
        const struct iovec *entry = &transfer->io->iov[i];
        size_t take = SEL_MIN(entry->iov_len - within, BATCH_BYTES - bytes);
        if (take)
            iov[count++] = (struct iovec){.iov_base = (char *)entry->iov_base + within, .iov_len = take};
        bytes += take;
        within = 0;
    }
    return count;
}

static void advance(struct transfer *transfer, uint64_t bytes) {
    transfer->done += bytes;
    while (bytes) {
        uint64_t left = transfer->io->iov[transfer->index].iov_len - transfer->within;
        if (bytes < left) {
            transfer->within += bytes;
            return;
        }
        bytes -= left;
        transfer->within = 0;
        transfer->index++;
    }
}

int sel_disk_posix_transfer(struct sel_disk_posix *posix, struct sel_disk_io *io) {
    struct transfer transfer = {.io = io};
    uint64_t total = sel_disk_posix_bytes(io);
    unsigned refusals = 0;
    while (transfer.done < total) {
        struct iovec iov[BATCH_IOV];
        struct sel_posix_file file = sel_disk_posix_file(posix, io->file);
        int count = batch(&transfer, iov);
        off_t offset = (off_t)(io->offset + transfer.done);
        ssize_t moved =
            io->kind == SEL_DISK_READ ? preadv(file.fd, iov, count, offset) : pwritev(file.fd, iov, count, offset);
        if (moved > 0) {
            advance(&transfer, (uint64_t)moved);
            refusals = 0;
            /* A direct transfer that ends inside a sector met the end of the file: it cannot go on from there. */
            if (transfer.done < total && file.direct && moved % SECTOR)
                return SELENE_E_IO;
        } else if (moved == 0) {
            return SELENE_E_IO;
        } else if (errno == EINVAL && file.direct) {
            sel_disk_posix_drop_direct(posix, io->file);
        } else if (errno != EINTR && errno != EAGAIN) {
            return sel_error_from_errno(errno);
        } else if (++refusals > SEL_DISK_REFUSALS_MAX) {
            return SELENE_E_IO;
        }
    }
    return 0;
}
