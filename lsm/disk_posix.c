/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two real sides share: the directory, the file table, and every kind of io as a blocking call.
 *
 * Names come from the store, or from a directory that anyone may have written to: one path component, regular files
 * only, no symbolic links. A file is asked for with O_DIRECT; where that is refused (EINVAL at open, or at the first
 * transfer) it is buffered, one message says so, and direct() is false from then on [D2].
 */
#include "lsm/disk_posix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX (1 << 20)

/* ---- the file table ---- */

/* The lowest free handle, so that a side can index small tables by it. Mutex held. */
static int handle_new(struct sel_disk_posix *posix) {
    for (int handle = 0; handle < posix->file_capacity; handle++)
        if (posix->files[handle].fd < 0)
            return handle;
    int capacity = posix->file_capacity ? posix->file_capacity * 2 : 64;
    if (capacity > FILES_MAX)
        return SELENE_E_OVERFLOW;
    struct sel_posix_file *files = realloc(posix->files, (size_t)capacity * sizeof *files);
    if (files == NULL)
        return SELENE_E_NOMEM;
    for (int handle = posix->file_capacity; handle < capacity; handle++)
        files[handle] = (struct sel_posix_file){.fd = -1};
    posix->files = files;
    int handle = posix->file_capacity;
    posix->file_capacity = capacity;
    return handle;
}

struct sel_posix_file sel_disk_posix_file(struct sel_disk_posix *posix, int handle) {
    struct sel_posix_file file = {.fd = -1};
    pthread_mutex_lock(&posix->mutex);
    if (handle >= 0 && handle < posix->file_capacity)
        file = posix->files[handle];
    pthread_mutex_unlock(&posix->mutex);
    return file;
}

/* True for the first caller: the message is written without the mutex. Mutex held. */
static bool fall_back(struct sel_disk_posix *posix) {
    bool first = !posix->fell_back;
    posix->fell_back = true;
    return first;
}

static void say_buffered(const struct sel_disk_posix *posix) {
    sel_log_warning(posix->log, "%s: the file system refuses direct I/O (O_DIRECT: EINVAL): files are buffered",
                    posix->directory);
}

void sel_disk_posix_drop_direct(struct sel_disk_posix *posix, int handle) {
    bool say = false;
    pthread_mutex_lock(&posix->mutex);
    struct sel_posix_file *file = &posix->files[handle];
    if (file->fd >= 0 && file->direct) {
        int flags = fcntl(file->fd, F_GETFL);
        if (flags >= 0)
            fcntl(file->fd, F_SETFL, flags & ~O_DIRECT);
        file->direct = false;
        say = fall_back(posix);
    }
    pthread_mutex_unlock(&posix->mutex);
    if (say)
        say_buffered(posix);
}

bool sel_disk_posix_direct(const struct sel_disk *disk) {
    struct sel_disk_posix *posix = (struct sel_disk_posix *)disk;
    pthread_mutex_lock(&posix->mutex);
    bool direct = posix->opened_direct && !posix->fell_back;
    pthread_mutex_unlock(&posix->mutex);
    return direct;
}

/* ---- the kinds of io ---- */

/* O_NONBLOCK only for the open, which must not hang on a FIFO that lies in the directory. */
static int open_file(const struct sel_disk_posix *posix, const struct sel_disk_io *io, int direct) {
    int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | direct | (io->flags & SEL_DISK_OPEN_WRITE ? O_RDWR : O_RDONLY);
    if (io->flags & SEL_DISK_OPEN_CREATE)
        flags |= O_CREAT | O_EXCL;
    int fd;
    do
        fd = openat(posix->directory_fd, io->name, flags, 0600);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static int run_open(struct sel_disk_posix *posix, struct sel_disk_io *io) {
    bool direct = true, say = false;
    int result = 0;
    int fd = open_file(posix, io, O_DIRECT);
    if (fd < 0 && errno == EINVAL) {
        direct = false;
        /* Some file systems have created the file by the time they refuse the flag. */
        if (io->flags & SEL_DISK_OPEN_CREATE)
            unlinkat(posix->directory_fd, io->name, 0);
        fd = open_file(posix, io, 0);
    }
    if (fd < 0)
        return sel_error_from_errno(errno);
    struct stat status;
    if (fstat(fd, &status) != 0 || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0)
        result = sel_error_from_errno(errno);
    else if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        result = SELENE_E_INVALID;
    if (result) {
        close(fd);
        return result;
    }
    pthread_mutex_lock(&posix->mutex);
    int handle = handle_new(posix);
    if (handle >= 0) {
        posix->files[handle] = (struct sel_posix_file){.fd = fd, .direct = direct};
        posix->opened_direct |= direct;
        say = !direct && fall_back(posix);
    }
    pthread_mutex_unlock(&posix->mutex);
    if (say)
        say_buffered(posix);
    if (handle < 0)
        close(fd);
    else
        io->file = handle;
    return handle < 0 ? handle : 0;
}

static int run_close(struct sel_disk_posix *posix, struct sel_disk_io *io) {
    pthread_mutex_lock(&posix->mutex);
    int fd = posix->files[io->file].fd;
    posix->files[io->file].fd = -1;
    pthread_mutex_unlock(&posix->mutex);
    /* On Linux the descriptor is gone whatever close says, and data was synced by SYNC or is not promised. */
    close(fd);
    return 0;
}

/* fallocate(2) itself, not posix_fallocate, which would write zeros where it is not supported. */
static int run_fallocate(int fd, int mode, uint64_t offset, uint64_t bytes) {
    int result;
    do
        result = fallocate(fd, mode, (off_t)offset, (off_t)bytes);
    while (result != 0 && errno == EINTR);
    if (result == 0)
        return 0;
    return errno == EOPNOTSUPP || errno == ENOSYS ? SELENE_E_UNSUPPORTED : sel_error_from_errno(errno);
}

static int run_sync(int fd) {
    int result;
    do
        result = fdatasync(fd);
    while (result != 0 && errno == EINTR);
    return result ? sel_error_from_errno(errno) : 0;
}

/* EINVAL: this file system has no such thing as syncing a directory. */
static int run_sync_dir(const struct sel_disk_posix *posix) {
    int result;
    do
        result = fsync(posix->directory_fd);
    while (result != 0 && errno == EINTR);
    return result && errno != EINVAL ? sel_error_from_errno(errno) : 0;
}

static int run_truncate(int fd, uint64_t bytes) {
    int result;
    do
        result = ftruncate(fd, (off_t)bytes);
    while (result != 0 && errno == EINTR);
    return result ? sel_error_from_errno(errno) : 0;
}

static int run_stat(int fd, struct sel_disk_io *io) {
    struct stat status;
    if (fstat(fd, &status) != 0)
        return sel_error_from_errno(errno);
    io->size_bytes = (uint64_t)status.st_size;
    io->allocated_bytes = (uint64_t)status.st_blocks * 512;
    return 0;
}

/* A file system without holes says that all of it is data. Blocks smaller than 4 KiB are possible. */
static int run_next_data(int fd, struct sel_disk_io *io) {
    off_t found = lseek(fd, (off_t)io->offset, SEEK_DATA);
    if (found < 0 && errno != ENXIO)
        return errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS ? SELENE_E_UNSUPPORTED
                                                                         : sel_error_from_errno(errno);
    io->data_offset =
        found < 0 ? SEL_DISK_NO_DATA : SEL_MAX((uint64_t)found / SEL_DISK_ALIGNMENT * SEL_DISK_ALIGNMENT, io->offset);
    return 0;
}

int sel_disk_posix_execute(struct sel_disk_posix *posix, struct sel_disk_io *io) {
    int fd = sel_disk_posix_file(posix, io->file).fd;
    switch (io->kind) {
    case SEL_DISK_OPEN:
        return run_open(posix, io);
    case SEL_DISK_CLOSE:
        return run_close(posix, io);
    case SEL_DISK_READ:
    case SEL_DISK_WRITE:
        return sel_disk_posix_transfer(posix, io);
    case SEL_DISK_SYNC:
        return run_sync(fd);
    case SEL_DISK_ALLOCATE:
        return run_fallocate(fd, 0, io->offset, io->bytes);
    case SEL_DISK_PUNCH:
        return run_fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, io->offset, io->bytes);
    case SEL_DISK_TRUNCATE:
        return run_truncate(fd, io->bytes);
    case SEL_DISK_UNLINK:
        return unlinkat(posix->directory_fd, io->name, 0) ? sel_error_from_errno(errno) : 0;
    case SEL_DISK_RENAME:
        return renameat(posix->directory_fd, io->name, posix->directory_fd, io->name_to) ? sel_error_from_errno(errno)
                                                                                         : 0;
    case SEL_DISK_STAT:
        return run_stat(fd, io);
    case SEL_DISK_NEXT_DATA:
        return run_next_data(fd, io);
    case SEL_DISK_SYNC_DIR:
        return run_sync_dir(posix);
    default:
        return SELENE_E_INVALID;
    }
}

/* ---- admission ---- */

static bool name_ok(const char *name) {
    return name && name[0] && strlen(name) <= NAME_MAX && strchr(name, '/') == NULL && strcmp(name, "..") != 0;
}

static bool transfer_ok(const struct sel_disk_io *io) {
    uint64_t end = io->offset;
    if (io->iov_count < 0 || io->offset % SEL_DISK_ALIGNMENT || io->offset > INT64_MAX)
        return false;
    for (int i = 0; i < io->iov_count; i++) {
        if (((uintptr_t)io->iov[i].iov_base | io->iov[i].iov_len) % SEL_DISK_ALIGNMENT ||
            io->iov[i].iov_len > INT64_MAX - end)
            return false;
        end += io->iov[i].iov_len;
    }
    return true;
}

static bool range_ok(const struct sel_disk_io *io) {
    return io->offset <= INT64_MAX && io->bytes <= INT64_MAX - io->offset;
}

static int admit(struct sel_disk_posix *posix, const struct sel_disk_io *io) {
    if (posix->fork_generation != sel_disk_fork_generation())
        return SELENE_E_FORKED;
    switch (io->kind) {
    case SEL_DISK_OPEN:
    case SEL_DISK_UNLINK:
        return name_ok(io->name) ? 0 : SELENE_E_INVALID;
    case SEL_DISK_RENAME:
        return name_ok(io->name) && name_ok(io->name_to) ? 0 : SELENE_E_INVALID;
    case SEL_DISK_SYNC_DIR:
        return 0;
    case SEL_DISK_READ:
    case SEL_DISK_WRITE:
        if (!transfer_ok(io))
            return SELENE_E_INVALID;
        break;
    case SEL_DISK_ALLOCATE:
    case SEL_DISK_PUNCH:
    case SEL_DISK_TRUNCATE:
    case SEL_DISK_NEXT_DATA:
        if (!range_ok(io))
            return SELENE_E_INVALID;
        break;
    default:
        break;
    }
    return sel_disk_posix_file(posix, io->file).fd >= 0 ? 0 : SELENE_E_INVALID;
}

bool sel_disk_posix_admit(struct sel_disk_posix *posix, struct sel_disk_io *io) {
    sel_op_start(&io->op);
    int result = admit(posix, io);
    if (result)
        sel_ready_post(posix->ready, &io->op, result);
    return result == 0;
}

/* ---- completing and waiting ---- */

static void signal_fd(int fd) {
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof one); /* EAGAIN: the counter is full, so the reader is woken anyway */
    (void)written;
}

void sel_disk_posix_complete_remote(struct sel_disk_posix *posix, struct sel_disk_io *io, int result) {
    sel_ready_post_remote(posix->ready, &io->op, result);
    if (posix->event_fd >= 0)
        signal_fd(posix->event_fd);
    if (atomic_load(&posix->waiting))
        signal_fd(posix->signal_fd);
}

void sel_disk_posix_wait(struct sel_disk_posix *posix, int other_fd, uint64_t timeout_ns) {
    struct pollfd fds[2] = {{.fd = posix->signal_fd, .events = POLLIN}, {.fd = other_fd, .events = POLLIN}};
    struct timespec timeout = {.tv_sec = (time_t)SEL_MIN(timeout_ns / SEL_NS_PER_SECOND, UINT64_C(1000000)),
                               .tv_nsec = (long)(timeout_ns % SEL_NS_PER_SECOND)};
    atomic_store(&posix->waiting, true);
    /* Whoever posts after this look sees `waiting`. */
    if (!sel_ready_pending(posix->ready)) {
        uint64_t count;
        if (ppoll(fds, other_fd >= 0 ? 2 : 1, &timeout, NULL) > 0 && (fds[0].revents & POLLIN) &&
            read(posix->signal_fd, &count, sizeof count) < 0)
            sel_log_debug(posix->log, "%s: the wake-up counter was read by someone else", posix->directory);
    }
    atomic_store(&posix->waiting, false);
}

/* ---- the directory ---- */

int sel_disk_posix_list(struct sel_disk *disk, int (*visit)(void *context, const char *name), void *context) {
    struct sel_disk_posix *posix = (struct sel_disk_posix *)disk;
    int fd = openat(posix->directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (directory == NULL) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return sel_error_from_errno(error);
    }
    int result = 0;
    while (result == 0) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (entry == NULL) {
            result = errno ? sel_error_from_errno(errno) : 0;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            result = visit(context, entry->d_name);
    }
    closedir(directory);
    return result;
}

int sel_disk_posix_lock(struct sel_disk *disk, const char *name, struct selene_message *message) {
    struct sel_disk_posix *posix = (struct sel_disk_posix *)disk;
    if (!name_ok(name) || posix->lock)
        return sel_fail(message, SELENE_E_INVALID, "%s: bad lock name, or locked already", posix->directory);
    return sel_disk_lock_take(&posix->lock, posix->directory_fd, posix->directory, name, message);
}

/* ---- life ---- */

int sel_disk_posix_init(struct sel_disk_posix *posix, const struct sel_disk_config *config,
                        struct selene_message *message) {
    posix->directory_fd = posix->signal_fd = -1;
    posix->ready = config->ready;
    posix->clock = config->clock;
    posix->log = config->log;
    posix->event_fd = config->event_fd;
    posix->fork_generation = sel_disk_fork_generation();
    pthread_mutex_init(&posix->mutex, NULL);
    posix->directory = strdup(config->directory);
    if (posix->directory == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", config->directory);
    posix->directory_fd = open(config->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (posix->directory_fd < 0) {
        int error = errno;
        return sel_fail(message, sel_error_from_errno(error), "%s: cannot open the directory: %s", config->directory,
                        strerror(error));
    }
    posix->signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (posix->signal_fd < 0) {
        int error = errno;
        return sel_fail(message, sel_error_from_errno(error), "%s: cannot make an eventfd: %s", config->directory,
                        strerror(error));
    }
    return 0;
}

void sel_disk_posix_close(struct sel_disk_posix *posix) {
    for (int handle = 0; handle < posix->file_capacity; handle++)
        if (posix->files[handle].fd >= 0)
            close(posix->files[handle].fd);
    free(posix->files);
    sel_disk_lock_release(&posix->lock);
    if (posix->directory_fd >= 0)
        close(posix->directory_fd);
    if (posix->signal_fd >= 0)
        close(posix->signal_fd);
    free(posix->directory);
    pthread_mutex_destroy(&posix->mutex);
}
