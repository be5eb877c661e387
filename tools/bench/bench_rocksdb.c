/* SPDX-License-Identifier: Apache-2.0
 *
 * The peer RocksDB, through its C interface. The only file with its header; built when it was found.
 */
#include "tools/bench/bench_peers.h"

#include <rocksdb/c.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct base {
    const struct bench_peer_job *job;
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_writeoptions_t *write;
    rocksdb_readoptions_t *read;
    _Atomic size_t next;
    _Atomic bool wrong;
};

static void make_options(struct base *base) {
    base->options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(base->options, 1);
    rocksdb_options_set_enable_blob_files(base->options, 1);
    rocksdb_options_set_min_blob_size(base->options, 4096);
    rocksdb_options_set_blob_file_size(base->options, UINT64_C(256) << 20);
    rocksdb_options_set_compression(base->options, rocksdb_no_compression);
    rocksdb_options_set_use_direct_reads(base->options, 1);
    rocksdb_options_set_use_direct_io_for_flush_and_compaction(base->options, 1);
    rocksdb_options_set_write_buffer_size(base->options, (size_t)64 << 20);
    rocksdb_options_set_max_write_buffer_number(base->options, 4);
    rocksdb_options_increase_parallelism(base->options, 4);
    base->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(base->write, 1);
    base->read = rocksdb_readoptions_create();
}

static int answer(char *error, const char *what, struct selene_message *message) {
    if (error == NULL)
        return 0;
    int rc = sel_fail(message, SELENE_E_IO, "peers: RocksDB: %s: %s", what, error);
    rocksdb_free(error);
    return rc;
}

static int write_all(struct base *base, struct selene_message *message) {
    const struct bench_peer_job *job = base->job;
    char *error = NULL;
    for (size_t i = 0; error == NULL && i < job->count; i++) {
        char key[32];
        int length = snprintf(key, sizeof key, "%016zx", i * 0x9e3779b97f4a7c15u);
        rocksdb_put(base->db, base->write, key, (size_t)length,
                    (const char *)job->memory + i % job->lanes * job->value_bytes, job->value_bytes, &error);
    }
    int rc = answer(error, "put", message);
    if (rc)
        return rc;
    rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
    rocksdb_flushoptions_set_wait(flush, 1);
    rocksdb_flush(base->db, flush, &error);
    rocksdb_flushoptions_destroy(flush);
    return answer(error, "flush", message);
}

static void read_part(void *context, unsigned i, unsigned count) {
    struct base *base = context;
    (void)i, (void)count;
    for (size_t at; (at = atomic_fetch_add(&base->next, 1)) < base->job->count;) {
        char key[32], *error = NULL;
        int length = snprintf(key, sizeof key, "%016zx", at * 0x9e3779b97f4a7c15u);
        rocksdb_pinnableslice_t *slice = rocksdb_get_pinned(base->db, base->read, key, (size_t)length, &error);
        size_t bytes = 0;
        if (slice)
            (void)rocksdb_pinnableslice_value(slice, &bytes);
        if (error || bytes != base->job->value_bytes)
            base->wrong = true;
        rocksdb_pinnableslice_destroy(slice);
        rocksdb_free(error);
    }
}

int bench_peer_rocksdb(struct bench_peer_job *job, struct selene_message *message) {
    struct base base = {.job = job};
    char *error = NULL;
    make_options(&base);
    base.db = rocksdb_open(base.options, job->directory, &error);
    int rc = answer(error, "open", message);
    if (rc == 0) {
        uint64_t from = bench_now_ns();
        rc = write_all(&base, message);
        job->write_ns = bench_now_ns() - from;
    }
    if (rc == 0)
        job->read_ns = bench_parallel(job->threads, read_part, &base);
    if (base.wrong)
        rc = sel_fail(message, SELENE_E_CORRUPT, "peers: RocksDB: a value could not be read back");
    if (base.db)
        rocksdb_close(base.db);
    rocksdb_readoptions_destroy(base.read);
    rocksdb_writeoptions_destroy(base.write);
    rocksdb_options_destroy(base.options);
    return rc;
}
