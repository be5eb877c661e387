/* SPDX-License-Identifier: Apache-2.0
 *
 * The disk tier of a store; see store_disk.h.
 *
 * Order: the directory (made when it is missing), the disk, its lock, before anything in it is read; the catalogue; the
 * record store, which tells of every record.
 */
#include "engine/store_disk.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define SEL_LOCK_NAME "lock"
/* What the catalogue's file may grow to. With a limit a share of it, since it counts toward it [D6]; the map is only
 * address space. */
#define SEL_CATALOG_BYTES_MIN (UINT64_C(16) << 20)
#define SEL_CATALOG_BYTES_MAX (UINT64_C(256) << 30)

static int make_directory(const char *path, struct selene_message *message) {
    struct stat status;
    if (mkdir(path, 0700) == 0 || (errno == EEXIST && stat(path, &status) == 0 && S_ISDIR(status.st_mode)))
        return 0;
    int error = errno == EEXIST ? ENOTDIR : errno;
    int result = error == ENOTDIR || error == ENOENT ? SELENE_E_IO : sel_error_from_errno(error);
    return sel_fail(message, result, "disk_directory: %s: %s", path, strerror(error));
}

static int open_directory(selene_store *store, bool *rebuild, struct selene_message *message) {
    const struct selene_options *options = &store->options;
    const char *path = options->disk_directory;
    uint64_t map = options->disk_limit_bytes ? options->disk_limit_bytes / 4 : SEL_CATALOG_BYTES_MAX;
    struct sel_disk_config config = {.directory = path,
                                     .ready = store->ready,
                                     .clock = store->clock,
                                     .log = &store->log,
                                     .event_fd = store->event_fd,
                                     .force_threads = options->disk_threads_only != 0};
    int result = make_directory(path, message);
    if (result)
        return result;
    result = sel_disk_open(&store->own_disk, &config, message);
    if (result)
        return sel_fail(message, result, "disk_directory: %s: %s", path, sel_error_text(result));
    store->disk = store->own_disk;
    result = store->disk->ops->lock(store->disk, SEL_LOCK_NAME, message);
    if (result)
        return sel_fail(message, result, "disk_directory: %s: %s", path, sel_error_text(result));
    map = SEL_MAX(SEL_MIN(map, SEL_CATALOG_BYTES_MAX), SEL_CATALOG_BYTES_MIN);
    result = sel_catalog_lmdb_open(&store->own_catalog, path, map, &store->log, rebuild, message);
    if (result)
        return sel_fail(message, result, "disk_directory: %s: index: %s", path, sel_error_text(result));
    store->catalog = store->own_catalog;
    return 0;
}

int sel_store_open_disk(selene_store *store, const struct sel_store_env *env, struct selene_message *message) {
    bool rebuild = env->rebuild;
    int result = 0;
    store->disk = env->disk;
    store->catalog = env->catalog;
    if (!store->disk)
        result = open_directory(store, &rebuild, message);
    if (result)
        return result;
    if (store->slots.base)
        store->disk->ops->register_memory(store->disk, store->slots.base, store->slots.slot_bytes * store->slots.total);
    struct sel_lsm_config config = {.disk = store->disk,
                                    .catalog = store->catalog,
                                    .rebuild = rebuild,
                                    .ready = store->ready,
                                    .clock = store->clock,
                                    .random = store->random,
                                    .workers = store->workers,
                                    .blocking = store->blocking,
                                    .log = &store->log,
                                    .durability =
                                        store->options.durability == SELENE_STRICT ? SEL_LSM_STRICT : SEL_LSM_RELAXED,
                                    .limit_bytes = store->options.disk_limit_bytes,
                                    .segment_bytes = env->segment_bytes,
                                    .group_bytes = env->group_bytes,
                                    .group_ns = env->group_ns,
                                    .stall_ns = env->stall_ns};
    result = sel_tree_load_begin(store->tree);
    if (!result)
        result = sel_lsm_open(&store->lsm, &config, sel_recover_visit, sel_recover_moved, store, message);
    sel_tree_load_end(store->tree);
    if (!result) {
        sel_thin_recovered(store);
        sel_age_recovered(store);
    }
    return result;
}

void sel_store_close_disk(selene_store *store) {
    sel_spills_free(store);
    sel_removals_free(store);
    sel_recover_free(store);
    if (store->own_catalog)
        store->own_catalog->ops->close(store->own_catalog);
    if (store->own_disk)
        store->own_disk->ops->destroy(store->own_disk);
}
