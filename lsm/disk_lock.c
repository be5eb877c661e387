/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory lock; see disk_lock.h for why it is made of a record lock and a registry.
 *
 * Order of taking: look the name up without opening it -> not in the registry -> open -> the registry again, by inode
 * -> fcntl -> the name still leads to this inode -> registered. All under one mutex, which fork handlers hold across
 * fork, so that a child never inherits it locked.
 */
#include "lsm/disk_lock.h"
#include "base/list.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAKE_ATTEMPTS 8 /* the file was replaced under us that often: someone plays games */

struct sel_disk_lock {
    struct sel_list link;
    dev_t device;
    ino_t inode;
    int fd;
    uint64_t generation; /* an entry of another one was inherited and locks nothing */
};

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sel_list registry = {&registry, &registry};
static uint64_t fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void fork_prepare(void) { pthread_mutex_lock(&registry_mutex); }
static void fork_parent(void) { pthread_mutex_unlock(&registry_mutex); }
static void fork_child(void) {
    fork_generation++;
    pthread_mutex_unlock(&registry_mutex);
}
static void fork_watch(void) { pthread_atfork(fork_prepare, fork_parent, fork_child); }

uint64_t sel_disk_fork_generation(void) {
    pthread_once(&fork_once, fork_watch);
    return fork_generation;
}

/* True when this process holds the file. An inherited entry is closed on the way: were it closed later, that would drop
 * the lock which is about to be taken. Its memory is its owner's to free. */
static bool registry_holds(const struct stat *status) {
    SEL_LIST_FOR_EACH(cursor, &registry) {
        struct sel_disk_lock *lock = SEL_LIST_ENTRY(cursor, struct sel_disk_lock, link);
        if (lock->device != status->st_dev || lock->inode != status->st_ino)
            continue;
        if (lock->generation == fork_generation)
            return true;
        sel_list_remove(&lock->link);
        close(lock->fd);
        lock->fd = -1;
    }
    return false;
}

static int fail_in_process(const char *directory, const char *name, struct selene_message *message) {
    return sel_fail(message, SELENE_E_IN_USE, "%s/%s: in use by another store in this process (pid %ld)", directory,
                    name, (long)getpid());
}

static int fail_errno(const char *directory, const char *name, const char *what, struct selene_message *message) {
    int error = errno;
    return sel_fail(message, sel_error_from_errno(error), "%s/%s: %s: %s", directory, name, what, strerror(error));
}

static int lock_file(int fd, const char *directory, const char *name, struct selene_message *message) {
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_SETLK, &range) == 0)
        return 0;
    if (errno != EACCES && errno != EAGAIN)
        return fail_errno(directory, name, "cannot lock", message);
    struct flock owner = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_GETLK, &owner) == 0 && owner.l_type != F_UNLCK && owner.l_pid > 0)
        return sel_fail(message, SELENE_E_IN_USE, "%s/%s: in use by process %ld", directory, name, (long)owner.l_pid);
    return sel_fail(message, SELENE_E_IN_USE, "%s/%s: in use by another process", directory, name);
}

/* One attempt, registry mutex held. SELENE_E_RETRY: the file was replaced meanwhile. */
static int take(struct sel_disk_lock *lock, int directory_fd, const char *directory, const char *name,
                struct selene_message *message) {
    struct stat opened, named;
    if (fstatat(directory_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && registry_holds(&named))
        return fail_in_process(directory, name, message);
    lock->fd = openat(directory_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (lock->fd < 0 || fstat(lock->fd, &opened) != 0)
        return fail_errno(directory, name, "cannot open the lock file", message);
    if (!S_ISREG(opened.st_mode))
        return sel_fail(message, SELENE_E_INVALID, "%s/%s: not a regular file", directory, name);
    if (registry_holds(&opened)) {
        lock->fd = -1; /* left open on purpose: closing it would drop the lock of the store that has it */
        return fail_in_process(directory, name, message);
    }
    int result = lock_file(lock->fd, directory, name, message);
    if (result)
        return result;
    if (fstatat(directory_fd, name, &named, AT_SYMLINK_NOFOLLOW) != 0 || named.st_dev != opened.st_dev ||
        named.st_ino != opened.st_ino)
        return SELENE_E_RETRY;
    lock->device = opened.st_dev;
    lock->inode = opened.st_ino;
    lock->generation = fork_generation;
    sel_list_add_tail(&registry, &lock->link);
    return 0;
}

int sel_disk_lock_take(struct sel_disk_lock **out, int directory_fd, const char *directory, const char *name,
                       struct selene_message *message) {
    *out = NULL;
    pthread_once(&fork_once, fork_watch);
    struct sel_disk_lock *lock = calloc(1, sizeof *lock);
    if (lock == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s/%s: out of memory", directory, name);
    sel_list_init(&lock->link);
    lock->fd = -1;
    int result = SELENE_E_RETRY;
    pthread_mutex_lock(&registry_mutex);
    for (int attempt = 0; attempt < TAKE_ATTEMPTS && result == SELENE_E_RETRY; attempt++) {
        result = take(lock, directory_fd, directory, name, message);
        if (result && lock->fd >= 0) {
            close(lock->fd);
            lock->fd = -1;
        }
    }
    pthread_mutex_unlock(&registry_mutex);
    if (result == SELENE_E_RETRY)
        result = sel_fail(message, SELENE_E_IN_USE, "%s/%s: the lock file keeps being replaced", directory, name);
    if (result) {
        free(lock);
        return result;
    }
    *out = lock;
    return 0;
}

void sel_disk_lock_release(struct sel_disk_lock **lock) {
    if (*lock == NULL)
        return;
    pthread_mutex_lock(&registry_mutex);
    sel_list_remove(&(*lock)->link);
    if ((*lock)->fd >= 0)
        close((*lock)->fd);
    pthread_mutex_unlock(&registry_mutex);
    free(*lock);
    *lock = NULL;
}
