/* SPDX-License-Identifier: Apache-2.0
 *
 * The I/O seam: everything the record store does to files goes through this table, so that the same store runs on
 * io_uring (disk_uring.c), on a thread pool (disk_threads.c) and on a simulated disk that loses power
 * (tests/lib/disk_sim.c) [D2]. LMDB is the one exception; the catalogue has a table of its own.
 *
 * All names are relative to the directory that the disk was created for; "." is the directory itself. Every io is
 * asynchronous: submit never blocks and never completes inside the call; the op comes back through sel_ready.
 * Short reads and writes, EINTR and EAGAIN are dealt with inside; an io either did everything or failed. A read past
 * the end of the file fails with SELENE_E_IO. An io that could not be submitted completes with an error, never stays in
 * flight [fault 18].
 *
 * Alignment: offsets, lengths and memory addresses of READ and WRITE are multiples of 4 KiB.
 */
#ifndef SEL_LSM_DISK_H
#define SEL_LSM_DISK_H

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/op.h"

#include <sys/uio.h>

enum sel_disk_kind {
    SEL_DISK_OPEN,     /* name, flags -> file */
    SEL_DISK_CLOSE,    /* file */
    SEL_DISK_READ,     /* file, offset, iov */
    SEL_DISK_WRITE,    /* file, offset, iov */
    SEL_DISK_SYNC,     /* file: data and what is needed to read it back are durable when it completes */
    SEL_DISK_ALLOCATE, /* file, offset, bytes: reserve space, size grows; E_UNSUPPORTED where there is no fallocate */
    SEL_DISK_PUNCH,    /* file, offset, bytes: give space back, size kept; E_UNSUPPORTED likewise */
    SEL_DISK_TRUNCATE, /* file, bytes */
    SEL_DISK_UNLINK,   /* name */
    SEL_DISK_RENAME,   /* name, name_to */
    SEL_DISK_STAT,     /* file -> size_bytes, allocated_bytes */
    /* file, offset -> data_offset: between the two nothing was ever written, or it was punched; it reads as zeros. What
     * was allocated and not written counts as such. E_UNSUPPORTED where the file system does not tell. */
    SEL_DISK_NEXT_DATA,
    SEL_DISK_SYNC_DIR, /* names created, renamed or removed before are durable when it completes */
};

enum sel_disk_open_flag {
    SEL_DISK_OPEN_READ = 0,
    SEL_DISK_OPEN_WRITE = 1,
    SEL_DISK_OPEN_CREATE = 2 /* fails if it is there */
};

#define SEL_DISK_NO_DATA UINT64_MAX

struct sel_disk_io {
    struct sel_op op;
    uint8_t kind;
    uint8_t flags;
    int file; /* handle of the disk; from OPEN's `file`, >= 0 */
    uint64_t offset;
    uint64_t bytes;
    const struct iovec *iov; /* kept by the caller until done */
    int iov_count;           /* any number; split inside at IOV_MAX */
    const char *name;        /* kept by the caller until done */
    const char *name_to;
    uint64_t size_bytes;      /* STAT's answer */
    uint64_t allocated_bytes; /* STAT's answer: st_blocks * 512 */
    uint64_t data_offset;     /* NEXT_DATA's answer, a multiple of 4 KiB; SEL_DISK_NO_DATA: none up to the end */
    struct {                  /* the disk's own */
        struct sel_list link;
        uint64_t progress;
        uint64_t started_ns;
        void *extra;
    } priv;
};

struct sel_disk;
struct sel_disk_ops {
    void (*submit)(struct sel_disk *disk, struct sel_disk_io *io);
    /* Hands queued submissions to the kernel and posts what has completed to sel_ready. Never blocks. */
    void (*poll)(struct sel_disk *disk);
    /* Blocks until something may have completed or `timeout_ns` passed: open and close paths only. */
    void (*wait)(struct sel_disk *disk, uint64_t timeout_ns);
    /* Names in the directory, in no order, blocking; visit returns non-zero to stop (returned). Open only. */
    int (*list)(struct sel_disk *disk, int (*visit)(void *context, const char *name), void *context);
    /* Takes the directory for this process [D1]: SELENE_E_IN_USE when another process or store has it. A forked child
     * does not inherit it. Blocking; released by destroy. */
    int (*lock)(struct sel_disk *disk, const char *name, struct selene_message *message);
    /* Registers memory that reads and writes will use (the slot pool, header buffers), in pieces of at most 1 GiB. A
     * refusal (memlock) is not an error: I/O goes on unregistered, one message says so. */
    void (*register_memory)(struct sel_disk *disk, void *base, uint64_t bytes);
    /* "io_uring", "threads" or "simulated", and whether files are open with O_DIRECT: never claimed while it is not in
     * use. */
    const char *(*backend)(const struct sel_disk *disk);
    bool (*direct)(const struct sel_disk *disk);
    void (*destroy)(struct sel_disk *disk); /* nothing in flight; closes files, frees it */
};
struct sel_disk {
    const struct sel_disk_ops *ops;
};

struct sel_disk_config {
    const char *directory; /* must exist */
    struct sel_ready *ready;
    struct sel_clock *clock;
    const struct sel_log *log;
    unsigned depth;     /* I/Os in flight at most; 0: 64 */
    int event_fd;       /* an eventfd to signal when something completed, or -1 */
    bool force_threads; /* tests, and SELENE_DISK=threads */
};

/* The real disk: io_uring where it works, else threads with one message that names the cause [D2]. */
int sel_disk_open(struct sel_disk **out, const struct sel_disk_config *config, struct selene_message *message);

static inline void sel_disk_submit(struct sel_disk *disk, struct sel_disk_io *io) { disk->ops->submit(disk, io); }
static inline void sel_disk_poll(struct sel_disk *disk) { disk->ops->poll(disk); }

/* Runs one io to its end: submits, waits, and drains `ready` until it is done. Open and close paths only; the io's done
 * callback is set inside. Returns the io's result. */
int sel_disk_run(struct sel_disk *disk, struct sel_ready *ready, struct sel_disk_io *io);

#endif
