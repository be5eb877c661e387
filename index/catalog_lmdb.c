/* SPDX-License-Identifier: Apache-2.0
 *
 * The catalogue in LMDB: one file, one unnamed database, fixed-size keys (catalog_page.h) and values. Records have the
 * highest table number, so that new ones, whose sequence numbers ascend, are appended at the end of the tree.
 *
 * LMDB runs without its lock file: the store's own lock keeps other processes out, and `lock` below keeps a reader and
 * a writer of this process apart, since without a lock file LMDB does not know which pages a reader still uses.
 *
 * Order of an open:   validate without mapping -> set a damaged file aside -> make a new one under another name, sync,
 *                     rename -> map
 * Order of a commit:  changes in their order -> LMDB writes pages, syncs, writes the meta page through a synchronous
 *                     descriptor -> the size is noted
 *
 * Failures. A transaction that fails is aborted: nothing of it is visible, and the next one works. When the meta page
 * itself could not be written LMDB gives the environment up (MDB_PANIC) after it has put the old meta page back: then
 * the file is synced, validated and mapped anew, at once or at the next commit.
 *
 * Room for deletes. LMDB copies pages on every write, so that a full map could not even shrink. A part of the map is
 * therefore held back; only a commit that deletes something may use it.
 */
#include "index/catalog.h"
#include "index/catalog_files.h"
#include "index/catalog_page.h"
#include "index/catalog_validate.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define CATALOG_MAGIC UINT32_C(0x43415431)
#define MAP_BYTES_MIN (UINT64_C(1) << 20)

struct lmdb_catalog {
    uint32_t magic;
    struct sel_catalog catalog;
    pthread_mutex_t lock; /* one transaction at a time, of either kind */
    char *path;
    const struct sel_log *log;
    MDB_env *env; /* NULL: given up, to be opened again */
    MDB_dbi dbi;
    uint64_t map_bytes_max;
    uint64_t map_bytes; /* what commits without a delete may use */
    uint64_t other_bytes;
    _Atomic uint64_t file_bytes;
    uint8_t last_key[SEL_CATALOG_KEY_BYTES]; /* no key in the file is above it */
    bool has_last_key;
};

static struct lmdb_catalog *from_base(struct sel_catalog *base) {
    struct lmdb_catalog *catalog = SEL_CONTAINER(base, struct lmdb_catalog, catalog);
    SEL_CHECK_MAGIC(catalog, CATALOG_MAGIC);
    return catalog;
}

/* ---- errors ---- */

/* LMDB reports a short write as EIO; with no free block left it was a full disk. */
static bool disk_is_full(const char *path) {
    struct statvfs status;
    return statvfs(path, &status) == 0 && status.f_bavail == 0;
}

static int code_of(const char *path, int rc) {
    static const struct {
        int lmdb, code;
    } table[] = {
        {MDB_MAP_FULL, SELENE_E_NOSPACE},
        {MDB_TXN_FULL, SELENE_E_OVERFLOW},
        {MDB_CORRUPTED, SELENE_E_CORRUPT},
        {MDB_PAGE_NOTFOUND, SELENE_E_CORRUPT},
        {MDB_PAGE_FULL, SELENE_E_CORRUPT},
        {MDB_CURSOR_FULL, SELENE_E_CORRUPT},
        {MDB_INVALID, SELENE_E_CORRUPT},
        {MDB_VERSION_MISMATCH, SELENE_E_CORRUPT},
        {MDB_INCOMPATIBLE, SELENE_E_CORRUPT},
        {MDB_BAD_VALSIZE, SELENE_E_CORRUPT},
        {MDB_MAP_RESIZED, SELENE_E_CORRUPT},
        {MDB_PANIC, SELENE_E_IO},
        {EIO, SELENE_E_IO},
        {ENODEV, SELENE_E_UNSUPPORTED}, /* no mmap on this file system */
    };
    if (rc == EIO && disk_is_full(path))
        return SELENE_E_NOSPACE;
    for (size_t i = 0; i < SEL_COUNT(table); i++)
        if (table[i].lmdb == rc)
            return table[i].code;
    return rc > 0 ? sel_error_from_errno(rc) : SELENE_E_INTERNAL;
}

static int fail_lmdb(struct selene_message *message, const char *path, const char *what, int rc) {
    return sel_fail(message, code_of(path, rc), "%s: %s: %s", path, what, mdb_strerror(rc));
}

/* ---- environment ---- */

static void note_size(struct lmdb_catalog *catalog) {
    int fd = -1;
    struct stat status;
    if (mdb_env_get_fd(catalog->env, &fd) != 0 || fstat(fd, &status) != 0)
        return;
    uint64_t allocated = (uint64_t)status.st_blocks * 512, size = (uint64_t)status.st_size;
    atomic_store_explicit(&catalog->file_bytes, SEL_MAX(allocated, size) + catalog->other_bytes, memory_order_relaxed);
}

static int open_environment(MDB_env **out, const char *path, uint64_t map_bytes, struct selene_message *message) {
    MDB_env *env = NULL;
    int fd = -1;
    *out = NULL;
    int rc = mdb_env_create(&env);
    if (rc)
        return fail_lmdb(message, path, "making an LMDB environment", rc);
    rc = mdb_env_set_mapsize(env, (size_t)map_bytes);
    if (rc == 0)
        rc = mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOTLS, 0600);
    if (rc) {
        mdb_env_close(env);
        return fail_lmdb(message, path, "opening it with LMDB", rc);
    }
    if (mdb_env_get_fd(env, &fd) == 0)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    *out = env;
    return 0;
}

/* Opens the database and finds the last key, so that commits know what can be appended. */
static int open_database(struct lmdb_catalog *catalog, struct selene_message *message) {
    MDB_txn *txn = NULL;
    MDB_cursor *cursor = NULL;
    MDB_val key, value;
    int rc = mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn);
    if (rc == 0)
        rc = mdb_dbi_open(txn, NULL, 0, &catalog->dbi);
    if (rc == 0)
        rc = mdb_cursor_open(txn, catalog->dbi, &cursor);
    if (rc == 0)
        rc = mdb_cursor_get(cursor, &key, &value, MDB_LAST);
    catalog->has_last_key = rc == 0 && key.mv_size == SEL_CATALOG_KEY_BYTES;
    if (catalog->has_last_key)
        memcpy(catalog->last_key, key.mv_data, SEL_CATALOG_KEY_BYTES);
    if (cursor)
        mdb_cursor_close(cursor);
    if (txn)
        mdb_txn_abort(txn);
    return rc == 0 || rc == MDB_NOTFOUND ? 0 : fail_lmdb(message, catalog->path, "reading the last entry", rc);
}

static void drop_environment(struct lmdb_catalog *catalog) {
    if (catalog->env)
        mdb_env_close(catalog->env);
    catalog->env = NULL;
}

/* Maps the file, which has just been validated. */
static int map_file(struct lmdb_catalog *catalog, struct selene_message *message) {
    int rc = open_environment(&catalog->env, catalog->path, catalog->map_bytes, message);
    if (rc == 0)
        rc = open_database(catalog, message);
    if (rc == 0)
        note_size(catalog);
    else
        drop_environment(catalog);
    return rc;
}

/* After LMDB gave up. The old meta page that it put back may not be durable yet: it is synced first, so that a crash
 * cannot bring back the transaction that was reported as failed. */
static int reopen(struct lmdb_catalog *catalog, struct selene_message *message) {
    drop_environment(catalog);
    int fd = open(catalog->path, O_RDWR | O_CLOEXEC);
    int rc = fd < 0 || fdatasync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    if (rc)
        return fail_lmdb(message, catalog->path, "syncing it after a failed commit", rc);
    rc = sel_catalog_validate(catalog->path, message);
    return rc ? rc : map_file(catalog, message);
}

/* Changes how much of the map commits may use; no transaction is open. LMDB maps anew, which can fail. */
static int set_map_bytes(struct lmdb_catalog *catalog, uint64_t bytes) {
    int rc = mdb_env_set_mapsize(catalog->env, (size_t)bytes);
    if (rc)
        drop_environment(catalog);
    return rc;
}

/* ---- commit ---- */

static int put(struct lmdb_catalog *catalog, MDB_cursor *cursor, const struct sel_catalog_change *change) {
    uint8_t bytes[SEL_CATALOG_KEY_BYTES];
    sel_catalog_key_pack(bytes, change->table, change->key, change->part);
    MDB_val key = {.mv_size = sizeof bytes, .mv_data = bytes};
    MDB_val value = {.mv_size = SEL_CATALOG_VALUE, .mv_data = (void *)(uintptr_t)change->value};
    bool append = !catalog->has_last_key || memcmp(bytes, catalog->last_key, sizeof bytes) > 0;
    int rc = mdb_cursor_put(cursor, &key, &value, append ? MDB_APPEND : 0);
    if (rc == 0 && append) { /* stays true when the transaction is aborted: it is an upper bound */
        memcpy(catalog->last_key, bytes, sizeof bytes);
        catalog->has_last_key = true;
    }
    return rc;
}

static int delete_parts(MDB_cursor *cursor, const struct sel_catalog_change *change) {
    uint8_t bytes[SEL_CATALOG_KEY_BYTES];
    sel_catalog_key_pack(bytes, change->table, change->key, 0);
    for (;;) {
        MDB_val key = {.mv_size = sizeof bytes, .mv_data = bytes}, value;
        int rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
        if (rc == MDB_NOTFOUND ||
            (rc == 0 && (key.mv_size != sizeof bytes || memcmp(key.mv_data, bytes, SEL_CATALOG_PREFIX_BYTES) != 0)))
            return 0;
        if (rc == 0)
            rc = mdb_cursor_del(cursor, 0);
        if (rc)
            return rc;
    }
}

/* One transaction; an LMDB code. */
static int write_changes(struct lmdb_catalog *catalog, const struct sel_catalog_change *changes, size_t count) {
    MDB_txn *txn = NULL;
    MDB_cursor *cursor = NULL;
    int rc = mdb_txn_begin(catalog->env, NULL, 0, &txn);
    if (rc)
        return rc;
    rc = mdb_cursor_open(txn, catalog->dbi, &cursor);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = changes[i].kind == SEL_CATALOG_PUT ? put(catalog, cursor, &changes[i]) : delete_parts(cursor, &changes[i]);
    if (cursor)
        mdb_cursor_close(cursor);
    if (rc == 0)
        return mdb_txn_commit(txn); /* frees it, whatever comes */
    mdb_txn_abort(txn);
    return rc;
}

static int check_changes(const struct lmdb_catalog *catalog, const struct sel_catalog_change *changes, size_t count,
                         bool *deletes, struct selene_message *message) {
    *deletes = false;
    for (size_t i = 0; i < count; i++) {
        const struct sel_catalog_change *change = &changes[i];
        if (change->kind > SEL_CATALOG_DELETE || change->table >= SEL_CATALOG_TABLES ||
            (change->kind == SEL_CATALOG_PUT && change->value == NULL))
            return sel_fail(message, SELENE_E_INVALID, "%s: change %zu of %zu: kind %u, table %u%s", catalog->path, i,
                            count, change->kind, change->table,
                            change->kind == SEL_CATALOG_PUT && change->value == NULL ? ", no value" : "");
        *deletes |= change->kind == SEL_CATALOG_DELETE;
    }
    return 0;
}

/* A full map: a commit that deletes gets the part held back. */
static int write_into_reserve(struct lmdb_catalog *catalog, const struct sel_catalog_change *changes, size_t count) {
    int rc = set_map_bytes(catalog, catalog->map_bytes_max);
    if (rc)
        return rc;
    rc = write_changes(catalog, changes, count);
    (void)set_map_bytes(catalog, catalog->map_bytes); /* failed: the next commit opens it again */
    return rc;
}

/* LMDB says so at the next transaction when it gave the environment up. */
static bool gave_up(struct lmdb_catalog *catalog) {
    MDB_txn *txn = NULL;
    if (catalog->env == NULL || mdb_txn_begin(catalog->env, NULL, 0, &txn) != 0)
        return true;
    mdb_txn_abort(txn);
    return false;
}

static int commit_locked(struct lmdb_catalog *catalog, const struct sel_catalog_change *changes, size_t count,
                         bool deletes, struct selene_message *message) {
    int rc = catalog->env ? 0 : reopen(catalog, message);
    if (rc)
        return rc;
    rc = write_changes(catalog, changes, count);
    if (rc == MDB_MAP_FULL && deletes)
        rc = write_into_reserve(catalog, changes, count);
    if (catalog->env)
        note_size(catalog);
    if (rc == 0)
        return 0;
    int code = rc == MDB_MAP_FULL
                   ? sel_fail(message, SELENE_E_NOSPACE, "%s: the index has reached its limit of %" PRIu64 " bytes",
                              catalog->path, catalog->map_bytes)
                   : fail_lmdb(message, catalog->path, "committing", rc);
    if (gave_up(catalog))
        (void)reopen(catalog, NULL); /* failed: the next commit tries again */
    return code;
}

static int lmdb_commit(struct sel_catalog *base, const struct sel_catalog_change *changes, size_t count,
                       struct selene_message *message) {
    struct lmdb_catalog *catalog = from_base(base);
    bool deletes = false;
    int rc = check_changes(catalog, changes, count, &deletes, message);
    if (rc || count == 0)
        return rc;
    pthread_mutex_lock(&catalog->lock);
    rc = commit_locked(catalog, changes, count, deletes, message);
    pthread_mutex_unlock(&catalog->lock);
    return rc;
}

/* ---- reading ---- */

/* `*lmdb` is LMDB's code, or 0 when `visit` stopped it or an entry is not ours. */
static int visit_table(MDB_cursor *cursor, enum sel_catalog_table table, sel_catalog_visit *visit, void *context,
                       int *lmdb) {
    uint8_t first[SEL_CATALOG_KEY_BYTES];
    sel_catalog_key_pack(first, table, 0, 0);
    MDB_val key = {.mv_size = sizeof first, .mv_data = first}, value;
    for (MDB_cursor_op op = MDB_SET_RANGE;; op = MDB_NEXT) {
        *lmdb = mdb_cursor_get(cursor, &key, &value, op);
        if (*lmdb)
            return 0;
        if (key.mv_size != SEL_CATALOG_KEY_BYTES || value.mv_size != SEL_CATALOG_VALUE)
            return SELENE_E_CORRUPT;
        const uint8_t *bytes = key.mv_data;
        if (bytes[0] != table)
            return 0;
        uint64_t number;
        uint32_t part;
        sel_catalog_key_unpack(bytes, &number, &part);
        int rc = visit(context, number, part, value.mv_data);
        if (rc)
            return rc;
    }
}

static int iterate_locked(struct lmdb_catalog *catalog, enum sel_catalog_table table, sel_catalog_visit *visit,
                          void *context, struct selene_message *message) {
    MDB_txn *txn = NULL;
    MDB_cursor *cursor = NULL;
    int code = catalog->env ? 0 : reopen(catalog, message);
    if (code)
        return code;
    int rc = mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn);
    if (rc == 0)
        rc = mdb_cursor_open(txn, catalog->dbi, &cursor);
    if (rc == 0)
        code = visit_table(cursor, table, visit, context, &rc);
    if (cursor)
        mdb_cursor_close(cursor);
    if (txn)
        mdb_txn_abort(txn);
    return rc == 0 || rc == MDB_NOTFOUND ? code : fail_lmdb(message, catalog->path, "reading", rc);
}

static int lmdb_iterate(struct sel_catalog *base, enum sel_catalog_table table, sel_catalog_visit *visit,
                        void *context) {
    struct lmdb_catalog *catalog = from_base(base);
    struct selene_message message = {""};
    pthread_mutex_lock(&catalog->lock);
    int rc = iterate_locked(catalog, table, visit, context, &message);
    pthread_mutex_unlock(&catalog->lock);
    if (message.text[0])
        sel_log_error(catalog->log, "%s", message.text);
    return rc;
}

static uint64_t lmdb_file_bytes(struct sel_catalog *base) {
    return atomic_load_explicit(&from_base(base)->file_bytes, memory_order_relaxed);
}

static void lmdb_close(struct sel_catalog *base) {
    struct lmdb_catalog *catalog = from_base(base);
    drop_environment(catalog);
    pthread_mutex_destroy(&catalog->lock);
    free(catalog->path);
    catalog->magic = 0;
    free(catalog);
}

static const struct sel_catalog_ops lmdb_ops = {
    .commit = lmdb_commit, .iterate = lmdb_iterate, .file_bytes = lmdb_file_bytes, .close = lmdb_close};

/* ---- open ---- */

/* A new index is made under another name and renamed when it is whole, so that a crash never leaves half of one. */
static int make_new(const char *directory, uint64_t map_bytes, struct selene_message *message) {
    MDB_env *env = NULL;
    char *path = sel_catalog_path(directory, SEL_CATALOG_NAME_NEW);
    if (path == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", directory);
    int rc = 0;
    if (unlink(path) != 0 && errno != ENOENT)
        rc =
            sel_fail(message, sel_error_from_errno(errno), "%s: removing an unfinished one: %s", path, strerror(errno));
    if (rc == 0)
        rc = open_environment(&env, path, map_bytes, message);
    if (rc == 0) {
        int lmdb = mdb_env_sync(env, 1);
        rc = lmdb ? fail_lmdb(message, path, "syncing", lmdb) : 0;
        mdb_env_close(env);
    }
    if (rc == 0)
        rc = sel_catalog_publish_new(directory, message);
    free(path);
    return rc;
}

static int set_aside(const char *directory, const struct sel_log *log, const struct selene_message *reason,
                     struct selene_message *message) {
    char aside[64];
    int rc = sel_catalog_set_aside(directory, aside, message);
    if (rc == 0)
        sel_log_warning(log, "%s; kept as %s, the index is rebuilt from the segments", reason->text, aside);
    return rc;
}

/* Opens the file that is there, or sets it aside when it is damaged or cannot be read. `*rebuild`: none is there. */
static int open_existing(struct lmdb_catalog *catalog, const char *directory, bool *rebuild,
                         struct selene_message *message) {
    struct selene_message reason = {""};
    int rc = sel_catalog_validate(catalog->path, &reason);
    if (rc == 0)
        rc = map_file(catalog, &reason);
    *rebuild = rc == SELENE_E_NOTFOUND;
    if (rc == 0 || rc == SELENE_E_NOTFOUND)
        return 0;
    if (rc != SELENE_E_CORRUPT && rc != SELENE_E_IO)
        return sel_fail(message, rc, "%s", reason.text);
    rc = set_aside(directory, catalog->log, &reason, message);
    *rebuild = rc == 0;
    return rc;
}

static void report_others(struct lmdb_catalog *catalog, const char *directory) {
    struct sel_catalog_others others;
    sel_catalog_find_others(directory, &others);
    catalog->other_bytes = others.bytes;
    if (others.future)
        sel_log_warning(catalog->log, "%s: %s is of a later version (this one writes version %d)%s; left alone",
                        directory, others.future_name, SEL_CATALOG_VERSION,
                        others.future > 1 ? ", and there are more" : "");
}

static int prepare(struct lmdb_catalog **out, const char *directory, uint64_t map_bytes_max, const struct sel_log *log,
                   struct selene_message *message) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (map_bytes_max < MAP_BYTES_MIN || map_bytes_max > SIZE_MAX / 2)
        return sel_fail(message, SELENE_E_INVALID, "%s: an index of at most %" PRIu64 " bytes, at least %" PRIu64,
                        directory, map_bytes_max, MAP_BYTES_MIN);
    struct lmdb_catalog *catalog = calloc(1, sizeof *catalog);
    if (catalog == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", directory);
    pthread_mutex_init(&catalog->lock, NULL);
    catalog->magic = CATALOG_MAGIC;
    catalog->catalog.ops = &lmdb_ops;
    catalog->log = log;
    catalog->map_bytes_max = map_bytes_max & ~(page - 1);
    catalog->map_bytes = (map_bytes_max - map_bytes_max / 8) & ~(page - 1);
    catalog->path = sel_catalog_path(directory, SEL_CATALOG_NAME);
    *out = catalog;
    return catalog->path ? 0 : sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", directory);
}

int sel_catalog_lmdb_open(struct sel_catalog **out, const char *directory, uint64_t map_bytes_max,
                          const struct sel_log *log, bool *rebuild, struct selene_message *message) {
    struct lmdb_catalog *catalog = NULL;
    *out = NULL;
    *rebuild = false;
    int rc = prepare(&catalog, directory, map_bytes_max, log, message);
    if (rc == 0)
        rc = open_existing(catalog, directory, rebuild, message);
    if (rc == 0)
        report_others(catalog, directory);
    if (rc == 0 && *rebuild)
        rc = make_new(directory, catalog->map_bytes, message);
    if (rc == 0 && *rebuild)
        rc = map_file(catalog, message);
    if (rc == 0) {
        note_size(catalog);
        *out = &catalog->catalog;
    } else if (catalog) {
        lmdb_close(&catalog->catalog);
    }
    return rc;
}
