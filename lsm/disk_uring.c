/* SPDX-License-Identifier: Apache-2.0
 *
 * The I/O seam on io_uring [D2].
 *
 * READ, WRITE and SYNC go through the ring. All other kinds are rare (a segment is opened, allocated, punched or
 * removed once in hundreds of megabytes) and always run on a few helper threads; so does any kind that the kernel
 * lacks, and everything once the ring has failed.
 *
 *   submit -> `waiting` -> poll cuts the io into *pieces* (at most `depth` in all) -> SQEs, one system call
 *   completion -> the rest of a short piece, or a refused one, goes to `again` -> next poll
 *   all pieces of an io are done -> sel_ready
 *
 * Invariants: a piece is in exactly one place: the free list, `again`, an SQE not yet taken by the kernel, or the
 * kernel. There are at least as many SQEs as pieces and twice as many CQEs, so neither ring can overflow. An io that
 * the kernel refuses to take completes with an error [fault 18].
 *
 * A poll that finds nothing to do reads the ring's memory and makes no system call. The ring is set up without
 * SINGLE_ISSUER, COOP_TASKRUN or DEFER_TASKRUN: a store may move between threads, and with those flags a completion
 * can sit with a thread that is not polling any more. For the same reason ECANCELED is retried: it is what the requests
 * of a thread that ended can come back with.
 */
#include "lsm/disk_pieces.h"
#include "lsm/disk_posix.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#define BUFFERS_MAX 16384 /* nor more of them */
#define FILES_FIXED 1024
#define POLL_ROUNDS 8
#define STUCK_NS    SEL_NS_PER_SECOND /* submission refused for so long with nothing in flight: the ring has failed */

struct disk_uring {
    struct sel_disk_posix posix; /* first */
    struct sel_disk_pool *pool;
    struct io_uring ring;
    bool ring_ready;
    bool broken;         /* the ring takes nothing more: all goes to the pool */
    bool lacks_transfer; /* an opcode that the kernel does not have */
    bool lacks_sync;
    unsigned depth;      /* pieces */
    unsigned in_kernel;  /* of them */
    uint64_t refused_ns; /* since when submission has been refused with nothing in flight; 0: it is not */
    struct sel_list waiting, cutting, again;
    struct sel_list free_pieces, free_transfers;
    struct sel_disk_piece *pieces;
    struct sel_disk_transfer *transfers;
    uint8_t *fixed; /* of each handle below fixed_count: the file is registered under it */
    int fixed_count;
    struct sel_disk_memory memory;
    bool said_unregistered;
};

/* ---- completing ---- */

static void transfer_settle(struct disk_uring *uring, struct sel_disk_transfer *transfer) {
    if (transfer->pieces || transfer->left)
        return;
    sel_list_add_tail(&uring->free_transfers, &transfer->link);
    sel_ready_post(uring->posix.ready, &transfer->io->op, transfer->error);
}

/* The first error ends the cutting: what is out is waited for, nothing more is sent. */
static void transfer_fail(struct sel_disk_transfer *transfer, int result) {
    if (transfer->error == 0)
        transfer->error = result;
    transfer->left = 0;
    sel_list_remove(&transfer->link);
}

static void piece_end(struct disk_uring *uring, struct sel_disk_piece *piece, int result) {
    struct sel_disk_transfer *transfer = piece->transfer;
    if (result)
        transfer_fail(transfer, result);
    sel_list_remove(&piece->link);
    sel_list_add_head(&uring->free_pieces, &piece->link);
    transfer->pieces--;
    transfer_settle(uring, transfer);
}

static void piece_again(struct disk_uring *uring, struct sel_disk_piece *piece) {
    sel_list_remove(&piece->link);
    sel_list_add_tail(&uring->again, &piece->link);
}

static void piece_refused(struct disk_uring *uring, struct sel_disk_piece *piece, int error) {
    bool transient = error == EINTR || error == EAGAIN || error == ECANCELED;
    if (error == EINVAL && piece->direct) {
        sel_disk_posix_drop_direct(&uring->posix, piece->transfer->io->file);
        piece_again(uring, piece);
    } else if (!transient) {
        piece_end(uring, piece, sel_error_from_errno(error));
    } else if (++piece->refusals > SEL_DISK_REFUSALS_MAX) {
        piece_end(uring, piece, SELENE_E_IO);
    } else {
        piece_again(uring, piece);
    }
}

static void piece_completed(struct disk_uring *uring, struct sel_disk_piece *piece, int result) {
    if (result < 0) {
        piece_refused(uring, piece, -result);
    } else if (piece->transfer->io->kind == SEL_DISK_SYNC || (uint64_t)result == piece->bytes) {
        piece_end(uring, piece, 0);
    } else if (result == 0 || (uint64_t)result > piece->bytes || (piece->direct && result % 512)) {
        piece_end(uring, piece, SELENE_E_IO); /* the end of the file; a direct transfer cannot go on inside a sector */
    } else {
        sel_disk_piece_advance(piece, (uint64_t)result);
        piece->refusals = 0;
        piece_again(uring, piece);
    }
}

static void reap(struct disk_uring *uring) {
    struct io_uring_cqe *cqe;
    while (uring->in_kernel && io_uring_peek_cqe(&uring->ring, &cqe) == 0) {
        struct sel_disk_piece *piece = io_uring_cqe_get_data(cqe);
        int result = cqe->res;
        io_uring_cqe_seen(&uring->ring, cqe);
        uring->in_kernel--;
        piece_completed(uring, piece, result);
    }
}

/* ---- submitting ---- */

/* The next transfer with something to cut, or NULL. */
static struct sel_disk_transfer *transfer_next(struct disk_uring *uring) {
    if (!sel_list_empty(&uring->cutting))
        return SEL_LIST_ENTRY(uring->cutting.next, struct sel_disk_transfer, link);
    struct sel_list *first = sel_list_pop(&uring->waiting);
    if (first == NULL)
        return NULL;
    struct sel_disk_transfer *transfer =
        SEL_LIST_ENTRY(sel_list_pop(&uring->free_transfers), struct sel_disk_transfer, link);
    struct sel_disk_io *io = SEL_LIST_ENTRY(first, struct sel_disk_io, priv.link);
    sel_disk_transfer_start(transfer, io, io->kind == SEL_DISK_SYNC ? 0 : sel_disk_posix_bytes(io));
    sel_list_add_tail(&uring->cutting, &transfer->link);
    return transfer;
}

/* Registers the file on its first use; a refusal is no harm. */
static bool file_fixed(struct disk_uring *uring, int handle, int fd) {
    if (handle >= uring->fixed_count)
        return false;
    if (!uring->fixed[handle])
        uring->fixed[handle] = io_uring_register_files_update(&uring->ring, (unsigned)handle, &fd, 1) == 1;
    return uring->fixed[handle];
}

static void piece_prepare(struct disk_uring *uring, struct sel_disk_piece *piece) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);
    SEL_CHECK(sqe != NULL);
    const struct sel_disk_io *io = piece->transfer->io;
    struct sel_posix_file file = sel_disk_posix_file(&uring->posix, io->file);
    bool fixed = file_fixed(uring, io->file, file.fd);
    int fd = fixed ? io->file : file.fd;
    struct iovec *iov = &piece->iov[piece->iov_index];
    piece->direct = file.direct;
    if (io->kind == SEL_DISK_SYNC)
        io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
    else if (piece->buffer >= 0 && io->kind == SEL_DISK_READ)
        io_uring_prep_read_fixed(sqe, fd, iov->iov_base, (unsigned)iov->iov_len, piece->offset, piece->buffer);
    else if (piece->buffer >= 0)
        io_uring_prep_write_fixed(sqe, fd, iov->iov_base, (unsigned)iov->iov_len, piece->offset, piece->buffer);
    else if (io->kind == SEL_DISK_READ)
        io_uring_prep_readv(sqe, fd, iov, (unsigned)piece->iov_count, piece->offset);
    else
        io_uring_prep_writev(sqe, fd, iov, (unsigned)piece->iov_count, piece->offset);
    if (fixed)
        sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data(sqe, piece);
}

/* Fills SQEs: what must be tried again first, then new pieces while there are any. */
static void pump(struct disk_uring *uring) {
    struct sel_list *link;
    while ((link = sel_list_pop(&uring->again)) != NULL)
        piece_prepare(uring, SEL_LIST_ENTRY(link, struct sel_disk_piece, link));
    while (!sel_list_empty(&uring->free_pieces)) {
        struct sel_disk_transfer *transfer = transfer_next(uring);
        if (transfer == NULL)
            return;
        struct sel_disk_piece *piece = SEL_LIST_ENTRY(sel_list_pop(&uring->free_pieces), struct sel_disk_piece, link);
        sel_disk_piece_fill(piece, transfer, &uring->memory);
        if (transfer->left == 0)
            sel_list_remove(&transfer->link);
        piece_prepare(uring, piece);
    }
}

/* Takes back what the kernel has not taken, and fails it. */
static void withdraw(struct disk_uring *uring) {
    struct io_uring_sq *sq = &uring->ring.sq;
    unsigned head = __atomic_load_n(sq->khead, __ATOMIC_ACQUIRE), tail = sq->sqe_tail;
    __atomic_store_n(sq->ktail, head, __ATOMIC_RELEASE);
    sq->sqe_head = sq->sqe_tail = head;
    for (; head != tail; head++)
        piece_end(uring, (struct sel_disk_piece *)(uintptr_t)sq->sqes[head & *sq->kring_mask].user_data, SELENE_E_IO);
}

/* The kernel takes nothing more. Ios that have begun fail, what waits goes to the pool, as all later ones do. */
static void ring_failed(struct disk_uring *uring, int error) {
    sel_log_warning(uring->posix.log, "%s: io_uring takes no more requests (%s): disk I/O goes on with threads",
                    uring->posix.directory, strerror(error));
    uring->broken = true;
    withdraw(uring);
    struct sel_list *link;
    while ((link = sel_list_pop(&uring->again)) != NULL)
        piece_end(uring, SEL_LIST_ENTRY(link, struct sel_disk_piece, link), SELENE_E_IO);
    while ((link = sel_list_pop(&uring->cutting)) != NULL) {
        struct sel_disk_transfer *transfer = SEL_LIST_ENTRY(link, struct sel_disk_transfer, link);
        transfer_fail(transfer, SELENE_E_IO);
        transfer_settle(uring, transfer);
    }
    while ((link = sel_list_pop(&uring->waiting)) != NULL)
        sel_disk_pool_submit(uring->pool, SEL_LIST_ENTRY(link, struct sel_disk_io, priv.link));
}

/* False: the kernel would take nothing just now. */
static bool ring_submit(struct disk_uring *uring) {
    int taken = io_uring_submit(&uring->ring);
    if (taken > 0) {
        uring->in_kernel += (unsigned)taken;
        uring->refused_ns = 0;
        return true;
    }
    bool transient = taken == 0 || taken == -EINTR || taken == -EAGAIN || taken == -EBUSY || taken == -ENOMEM;
    uint64_t now_ns = sel_mono_ns(uring->posix.clock);
    if (uring->in_kernel || uring->refused_ns == 0)
        uring->refused_ns = now_ns;
    if (!transient || now_ns - uring->refused_ns > STUCK_NS)
        ring_failed(uring, taken ? -taken : EAGAIN);
    return false;
}

/* Something to do that no completion will announce. */
static bool runnable(const struct disk_uring *uring) {
    if (uring->broken)
        return false;
    return !sel_list_empty(&uring->again) || io_uring_sq_ready(&uring->ring) ||
           (!sel_list_empty(&uring->free_pieces) &&
            (!sel_list_empty(&uring->cutting) || !sel_list_empty(&uring->waiting)));
}

static void uring_poll(struct sel_disk *disk) {
    struct disk_uring *uring = (struct disk_uring *)disk;
    reap(uring);
    for (int round = 0; round < POLL_ROUNDS && runnable(uring); round++) {
        pump(uring);
        if (!ring_submit(uring))
            break;
        reap(uring);
    }
    if (runnable(uring) && uring->posix.event_fd >= 0)
        eventfd_write(uring->posix.event_fd, 1);
}

static void uring_submit(struct sel_disk *disk, struct sel_disk_io *io) {
    struct disk_uring *uring = (struct disk_uring *)disk;
    if (!sel_disk_posix_admit(&uring->posix, io))
        return;
    bool transfer = io->kind == SEL_DISK_READ || io->kind == SEL_DISK_WRITE, sync = io->kind == SEL_DISK_SYNC;
    if (io->kind == SEL_DISK_CLOSE && io->file < uring->fixed_count && uring->fixed[io->file]) {
        /* A registered file stays open for as long as it is registered. */
        int none = -1;
        io_uring_register_files_update(&uring->ring, (unsigned)io->file, &none, 1);
        uring->fixed[io->file] = 0;
    }
    if (transfer && sel_disk_posix_bytes(io) == 0) {
        sel_ready_post(uring->posix.ready, &io->op, 0);
    } else if (!uring->broken && ((transfer && !uring->lacks_transfer) || (sync && !uring->lacks_sync))) {
        sel_list_init(&io->priv.link);
        sel_list_add_tail(&uring->waiting, &io->priv.link);
    } else {
        sel_disk_pool_submit(uring->pool, io);
    }
}

static void uring_wait(struct sel_disk *disk, uint64_t timeout_ns) {
    struct disk_uring *uring = (struct disk_uring *)disk;
    if (!runnable(uring))
        sel_disk_posix_wait(&uring->posix, uring->ring.ring_fd, timeout_ns);
}

/* ---- registered memory ---- */

static void say_unregistered(struct disk_uring *uring, uint64_t bytes, int error) {
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (uring->said_unregistered)
        return;
    uring->said_unregistered = true;
    sel_log_warning(uring->posix.log,
                    "%s: registering %llu bytes of memory for I/O was refused (%s; RLIMIT_MEMLOCK is %lld): I/O goes "
                    "on unregistered",
                    uring->posix.directory, (unsigned long long)bytes, strerror(error), (long long)limit.rlim_cur);
}

/* The whole set is registered anew, since the kernel only adds to a set that was made with room. */
static int register_all(struct disk_uring *uring, int region_count) {
    int count = 0;
    for (int i = 0; i < region_count; i++) {
        uring->memory.regions[i].first_buffer = count;
        count += (int)((uring->memory.regions[i].bytes + SEL_DISK_BUFFER_BYTES - 1) / SEL_DISK_BUFFER_BYTES);
    }
    struct iovec *buffers = calloc((size_t)SEL_MAX(count, 1), sizeof *buffers);
    if (buffers == NULL)
        return -ENOMEM;
    int next = 0;
    for (int i = 0; i < region_count; i++)
        for (uint64_t at = 0; at < uring->memory.regions[i].bytes; at += SEL_DISK_BUFFER_BYTES)
            buffers[next++] =
                (struct iovec){.iov_base = (char *)uring->memory.regions[i].base + at,
                               .iov_len = SEL_MIN(SEL_DISK_BUFFER_BYTES, uring->memory.regions[i].bytes - at)};
    if (uring->memory.count)
        io_uring_unregister_buffers(&uring->ring);
    uring->memory.count = 0;
    int result = count ? io_uring_register_buffers(&uring->ring, buffers, (unsigned)count) : 0;
    if (result == 0)
        uring->memory.count = region_count;
    free(buffers);
    return result;
}

static void uring_register_memory(struct sel_disk *disk, void *base, uint64_t bytes) {
    struct disk_uring *uring = (struct disk_uring *)disk;
    int before = uring->memory.count;
    if (uring->broken || uring->lacks_transfer || bytes == 0)
        return;
    struct sel_disk_region *regions = realloc(uring->memory.regions, (size_t)(before + 1) * sizeof *regions);
    if (regions == NULL || bytes / SEL_DISK_BUFFER_BYTES >= BUFFERS_MAX) {
        uring->memory.regions = regions ? regions : uring->memory.regions;
        say_unregistered(uring, bytes, ENOMEM);
        return;
    }
    uring->memory.regions = regions;
    regions[before] = (struct sel_disk_region){.base = (uintptr_t)base, .bytes = bytes};
    int result = register_all(uring, before + 1);
    if (result < 0) {
        say_unregistered(uring, bytes, -result);
        register_all(uring, before);
    }
}

/* ---- life ---- */

static const char *uring_backend(const struct sel_disk *disk) {
    return ((const struct disk_uring *)disk)->broken ? "threads" : "io_uring";
}

static void uring_destroy(struct sel_disk *disk) {
    struct disk_uring *uring = (struct disk_uring *)disk;
    bool forked = uring->posix.fork_generation != sel_disk_fork_generation();
    if (uring->ring_ready && !forked) {
        SEL_CHECK(uring->in_kernel == 0 && sel_list_empty(&uring->waiting));
        /* Not left to the last close of the ring, which a forked child may hold open. */
        if (uring->memory.count)
            io_uring_unregister_buffers(&uring->ring);
        if (uring->fixed_count)
            io_uring_unregister_files(&uring->ring);
    }
    sel_disk_pool_destroy(&uring->pool);
    if (uring->ring_ready)
        io_uring_queue_exit(&uring->ring);
    sel_disk_posix_close(&uring->posix);
    free(uring->pieces);
    free(uring->transfers);
    free(uring->fixed);
    free(uring->memory.regions);
    free(uring);
}

static const struct sel_disk_ops uring_ops = {
    .submit = uring_submit,
    .poll = uring_poll,
    .wait = uring_wait,
    .list = sel_disk_posix_list,
    .lock = sel_disk_posix_lock,
    .register_memory = uring_register_memory,
    .backend = uring_backend,
    .direct = sel_disk_posix_direct,
    .destroy = uring_destroy,
};

/* One request that does nothing, to its end: a sandbox may allow the set-up and deny the rest. */
static int ring_try(struct io_uring *ring) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    struct io_uring_cqe *cqe;
    io_uring_prep_nop(sqe);
    int taken = io_uring_submit(ring);
    int result = taken < 0 ? taken : io_uring_wait_cqe(ring, &cqe);
    if (result < 0)
        return result;
    result = cqe->res;
    io_uring_cqe_seen(ring, cqe);
    return result;
}

/* A kernel too old to be asked has the opcodes used here. */
static void ring_probe(struct disk_uring *uring) {
    static const int transfers[] = {IORING_OP_READV, IORING_OP_WRITEV, IORING_OP_READ_FIXED, IORING_OP_WRITE_FIXED};
    struct io_uring_probe *probe = io_uring_get_probe_ring(&uring->ring);
    if (probe == NULL)
        return;
    for (size_t i = 0; i < SEL_COUNT(transfers); i++)
        uring->lacks_transfer |= !io_uring_opcode_supported(probe, transfers[i]);
    uring->lacks_sync = !io_uring_opcode_supported(probe, IORING_OP_FSYNC);
    io_uring_free_probe(probe);
}

/* A table of files with room for later ones; without it files are used unregistered. */
static void ring_reserve_files(struct disk_uring *uring) {
    struct rlimit limit = {.rlim_cur = FILES_FIXED};
    getrlimit(RLIMIT_NOFILE, &limit);
    int count = (int)SEL_MIN((rlim_t)FILES_FIXED, limit.rlim_cur);
    uring->fixed = calloc(FILES_FIXED, 1);
    if (uring->fixed && io_uring_register_files_sparse(&uring->ring, (unsigned)count) == 0)
        uring->fixed_count = count;
}

static int ring_create(struct disk_uring *uring, struct selene_message *message) {
    struct io_uring_params params = {.flags = IORING_SETUP_CLAMP};
    const char *step = "io_uring_setup";
    int result = io_uring_queue_init_params(uring->depth, &uring->ring, &params);
    uring->ring_ready = result == 0;
    if (result == 0 && uring->ring.sq.ring_entries < uring->depth)
        uring->depth = uring->ring.sq.ring_entries;
    if (result == 0) {
        step = "io_uring_enter";
        result = ring_try(&uring->ring);
    }
    if (result == 0 && uring->posix.event_fd >= 0) {
        step = "registering an eventfd";
        result = io_uring_register_eventfd(&uring->ring, uring->posix.event_fd);
    }
    if (result < 0)
        return sel_fail(message, SELENE_E_UNSUPPORTED, "io_uring is not to be had here (%s: %s)", step,
                        strerror(-result));
    ring_probe(uring);
    ring_reserve_files(uring);
    return 0;
}

static int pieces_create(struct disk_uring *uring, struct selene_message *message) {
    uring->pieces = calloc(uring->depth, sizeof *uring->pieces);
    uring->transfers = calloc(uring->depth, sizeof *uring->transfers);
    if (uring->pieces == NULL || uring->transfers == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory for %u requests", uring->posix.directory,
                        uring->depth);
    for (unsigned i = 0; i < uring->depth; i++) {
        sel_list_init(&uring->pieces[i].link);
        sel_list_init(&uring->transfers[i].link);
        sel_list_add_tail(&uring->free_pieces, &uring->pieces[i].link);
        sel_list_add_tail(&uring->free_transfers, &uring->transfers[i].link);
    }
    return 0;
}

int sel_disk_uring_create(struct sel_disk **out, const struct sel_disk_config *config, struct selene_message *message) {
    *out = NULL;
    struct disk_uring *uring = calloc(1, sizeof *uring);
    if (uring == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", config->directory);
    uring->posix.disk.ops = &uring_ops;
    uring->depth = config->depth ? SEL_MIN(config->depth, SEL_DISK_DEPTH_MAX) : SEL_DISK_DEPTH;
    sel_list_init(&uring->waiting);
    sel_list_init(&uring->cutting);
    sel_list_init(&uring->again);
    sel_list_init(&uring->free_pieces);
    sel_list_init(&uring->free_transfers);
    int result = sel_disk_posix_init(&uring->posix, config, message);
    if (result == 0)
        result = ring_create(uring, message);
    if (result == 0)
        result = pieces_create(uring, message);
    if (result == 0)
        result = sel_disk_pool_create(&uring->pool, &uring->posix, SEL_DISK_URING_THREADS, message);
    if (result) {
        uring_destroy(&uring->posix.disk);
        return result;
    }
    *out = &uring->posix.disk;
    return 0;
}
