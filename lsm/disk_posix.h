/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two real sides of the I/O seam share (disk_uring.c, disk_threads.c): the directory, the table of open files
 * with the state of O_DIRECT, every kind of io as a blocking call, and the pool of threads that makes such calls.
 *
 * Each side embeds a struct sel_disk_posix as its first member. The file table is under a mutex, since pool threads
 * open and close files; all else belongs to the store's thread.
 */
#ifndef SEL_LSM_DISK_POSIX_H
#define SEL_LSM_DISK_POSIX_H

#include "lsm/disk.h"
#include "lsm/disk_lock.h"

#include <pthread.h>
#include <stdatomic.h>

#define SEL_DISK_ALIGNMENT     4096
#define SEL_DISK_DEPTH         64
#define SEL_DISK_DEPTH_MAX     4096
#define SEL_DISK_REFUSALS_MAX  1000 /* EAGAIN in a row, without progress, before an io fails */
#define SEL_DISK_THREADS       16   /* of the thread side */
#define SEL_DISK_URING_THREADS 2    /* for the rare kinds beside a ring */

struct sel_posix_file {
    int fd; /* -1: the handle is free */
    bool direct;
};

struct sel_disk_posix {
    struct sel_disk disk;
    char *directory;
    int directory_fd;
    struct sel_ready *ready;
    struct sel_clock *clock;
    const struct sel_log *log;
    int event_fd;             /* the owner's, or -1 */
    int signal_fd;            /* an eventfd of our own, written only while `waiting` */
    atomic_bool waiting;      /* the store's thread is in wait() */
    uint64_t fork_generation; /* of the process that opened it */
    struct sel_disk_lock *lock;
    pthread_mutex_t mutex; /* the members below */
    struct sel_posix_file *files;
    int file_capacity;
    bool opened_direct; /* some file is or was open with O_DIRECT */
    bool fell_back;     /* some file is not, though it was asked for: said once, direct() is false from then on */
};

/* A pool of threads that carries out ios with sel_disk_posix_execute, in order of submission. Not base/workers: an io
 * would need a job beside it, and an owner who waits on `event_fd` must be woken after its op was posted, not before.
 */
struct sel_disk_pool;
int sel_disk_pool_create(struct sel_disk_pool **out, struct sel_disk_posix *posix, unsigned thread_count,
                         struct selene_message *message);
/* Ends and joins the threads (not in a forked child, which has none); nothing may be queued. NULL-safe. */
void sel_disk_pool_destroy(struct sel_disk_pool **pool);
void sel_disk_pool_submit(struct sel_disk_pool *pool, struct sel_disk_io *io);

/* Takes zeroed memory; close accepts half-initialised objects. */
int sel_disk_posix_init(struct sel_disk_posix *posix, const struct sel_disk_config *config,
                        struct selene_message *message);
void sel_disk_posix_close(struct sel_disk_posix *posix);

/* First thing in submit: starts the op and checks what can be checked without I/O. False: the io was completed with an
 * error (bad name, handle or alignment, or a forked child) and is not to be carried out. */
bool sel_disk_posix_admit(struct sel_disk_posix *posix, struct sel_disk_io *io);
/* Carries an io out. Any thread; blocks. Returns its result and does not complete it. */
int sel_disk_posix_execute(struct sel_disk_posix *posix, struct sel_disk_io *io);
/* Completes an io from a thread that is not the store's. The io may be gone when it returns. */
void sel_disk_posix_complete_remote(struct sel_disk_posix *posix, struct sel_disk_io *io, int result);

/* The file behind a handle; fd -1 when there is none. Any thread. */
struct sel_posix_file sel_disk_posix_file(struct sel_disk_posix *posix, int handle);
/* The kernel or file system refused direct I/O on this file: it is buffered from now on. Any thread; messages once. */
void sel_disk_posix_drop_direct(struct sel_disk_posix *posix, int handle);

/* Total bytes of an io's iov; admit has checked that it does not overflow. */
uint64_t sel_disk_posix_bytes(const struct sel_disk_io *io);

/* Reads or writes all of the io with preadv/pwritev (disk_transfer.c). */
int sel_disk_posix_transfer(struct sel_disk_posix *posix, struct sel_disk_io *io);

/* Table entries that both sides use as they are. wait sleeps on signal_fd and, when not -1, `other_fd`. */
int sel_disk_posix_list(struct sel_disk *disk, int (*visit)(void *context, const char *name), void *context);
int sel_disk_posix_lock(struct sel_disk *disk, const char *name, struct selene_message *message);
bool sel_disk_posix_direct(const struct sel_disk *disk);
void sel_disk_posix_wait(struct sel_disk_posix *posix, int other_fd, uint64_t timeout_ns);

/* The two sides. The first answers SELENE_E_UNSUPPORTED, with the cause, where io_uring is not to be had. */
int sel_disk_uring_create(struct sel_disk **out, const struct sel_disk_config *config, struct selene_message *message);
int sel_disk_threads_create(struct sel_disk **out, const struct sel_disk_config *config,
                            struct selene_message *message);

#endif
