/* SPDX-License-Identifier: Apache-2.0
 *
 * The I/O seam on a pool of threads, for where io_uring is not to be had [D2]. Same behaviour, same fallbacks; what is
 * in flight is bounded by the number of threads. Memory is not registered: there is nothing to register it with.
 */
#include "lsm/disk_posix.h"

#include <stdlib.h>

struct disk_threads {
    struct sel_disk_posix posix; /* first */
    struct sel_disk_pool *pool;
};

static void threads_submit(struct sel_disk *disk, struct sel_disk_io *io) {
    struct disk_threads *threads = (struct disk_threads *)disk;
    if (sel_disk_posix_admit(&threads->posix, io))
        sel_disk_pool_submit(threads->pool, io);
}

/* Completions come through the remote side of sel_ready by themselves. */
static void threads_poll(struct sel_disk *disk) { (void)disk; }

static void threads_wait(struct sel_disk *disk, uint64_t timeout_ns) {
    sel_disk_posix_wait(&((struct disk_threads *)disk)->posix, -1, timeout_ns);
}

static void threads_register_memory(struct sel_disk *disk, void *base, uint64_t bytes) {
    (void)disk, (void)base, (void)bytes;
}

static const char *threads_backend(const struct sel_disk *disk) {
    (void)disk;
    return "threads";
}

static void threads_destroy(struct sel_disk *disk) {
    struct disk_threads *threads = (struct disk_threads *)disk;
    sel_disk_pool_destroy(&threads->pool);
    sel_disk_posix_close(&threads->posix);
    free(threads);
}

static const struct sel_disk_ops threads_ops = {
    .submit = threads_submit,
    .poll = threads_poll,
    .wait = threads_wait,
    .list = sel_disk_posix_list,
    .lock = sel_disk_posix_lock,
    .register_memory = threads_register_memory,
    .backend = threads_backend,
    .direct = sel_disk_posix_direct,
    .destroy = threads_destroy,
};

int sel_disk_threads_create(struct sel_disk **out, const struct sel_disk_config *config,
                            struct selene_message *message) {
    *out = NULL;
    struct disk_threads *threads = calloc(1, sizeof *threads);
    if (threads == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", config->directory);
    threads->posix.disk.ops = &threads_ops;
    int result = sel_disk_posix_init(&threads->posix, config, message);
    if (result == 0) {
        unsigned count = config->depth ? SEL_MIN(config->depth, SEL_DISK_THREADS) : SEL_DISK_THREADS;
        result = sel_disk_pool_create(&threads->pool, &threads->posix, count, message);
    }
    if (result) {
        threads_destroy(&threads->posix.disk);
        return result;
    }
    *out = &threads->posix.disk;
    return 0;
}
