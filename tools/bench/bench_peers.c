/* SPDX-License-Identifier: Apache-2.0
 *
 * Group `peers`: the same records through the record store, into RocksDB with blob files, and into a file each [P1]. All
 * begin with an empty directory each round, so that all of them write blocks that were never written.
 */
#include "tools/bench/bench_peers.h"

#include "tools/bench/bench_records.h"

#include "base/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define THREADS 8 /* that read, and write files: more was not faster */

enum { STORE, ROCKSDB, FILES, KINDS };
static const char *const names[KINDS] = {"records, relaxed", "RocksDB, blob files", "a synced file a record"};

struct contest {
    struct bench *bench;
    const char *scratch;
    struct bench_records records;
    bool has_rocksdb;
    struct bench_series write[KINDS], read[KINDS];
};

static int run_store(struct contest *contest, const char *directory, uint64_t ns[2], struct selene_message *message) {
    struct bench_store store = {.lsm = NULL};
    int rc = bench_store_open(&store, directory, SEL_LSM_RELAXED, NULL, NULL, message);
    if (rc)
        return rc;
    store.rig.disk->ops->register_memory(store.rig.disk, contest->records.memory,
                                         contest->records.depth * contest->records.record_bytes);
    rc = bench_records_write(&contest->records, &store, &ns[0], message);
    if (rc == 0)
        rc = bench_records_read(&contest->records, &store, &ns[1], message);
    bench_store_close(&store);
    return rc;
}

static int run_peer(struct contest *contest, unsigned kind, const char *directory, uint64_t ns[2],
                    struct selene_message *message) {
    struct bench_peer_job job = {.directory = directory,
                                 .memory = contest->records.memory,
                                 .lanes = contest->records.depth,
                                 .value_bytes = contest->records.record_bytes,
                                 .count = contest->records.count,
                                 .threads = THREADS};
    int rc = kind == ROCKSDB ? bench_peer_rocksdb(&job, message) : bench_peer_files(&job, message);
    ns[0] = job.write_ns;
    ns[1] = job.read_ns;
    return rc;
}

static int one_round(struct contest *contest, bool keep, struct selene_message *message) {
    uint64_t bytes = contest->records.count * contest->records.record_bytes;
    int rc = 0;
    for (unsigned kind = 0; rc == 0 && kind < KINDS; kind++) {
        char path[4200];
        uint64_t ns[2] = {0};
        if (kind == ROCKSDB && !contest->has_rocksdb)
            continue;
        snprintf(path, sizeof path, "%s/peer", contest->scratch);
        if (mkdir(path, 0700) != 0)
            return sel_fail(message, sel_error_from_errno(errno), "%s: %s", path, strerror(errno));
        rc = kind == STORE ? run_store(contest, path, ns, message) : run_peer(contest, kind, path, ns, message);
        bench_scratch_remove(path);
        if (rc == SELENE_E_UNSUPPORTED && kind == ROCKSDB) {
            contest->has_rocksdb = false;
            *message = (struct selene_message){""};
            rc = 0;
        } else if (keep) {
            bench_add(&contest->write[kind], bench_gb_per_s(bytes, ns[0]));
            bench_add(&contest->read[kind], bench_gb_per_s(bytes, ns[1]));
        }
    }
    return rc;
}

static void report(struct contest *contest) {
    static const double least[KINDS] = {[ROCKSDB] = 3, [FILES] = 2};
    double mib = (double)contest->records.record_bytes / 1048576;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        if (kind == ROCKSDB && !contest->has_rocksdb)
            continue;
        bench_value(contest->bench, &contest->write[kind], "GB/s", "%.4g MiB, write: %s", mib, names[kind]);
        bench_value(contest->bench, &contest->read[kind], "GB/s", "%.4g MiB, read: %s", mib, names[kind]);
    }
    for (unsigned kind = ROCKSDB; kind < KINDS; kind++) {
        if (kind == ROCKSDB && !contest->has_rocksdb)
            continue;
        struct bench_series ratio = bench_divide(&contest->write[STORE], &contest->write[kind]);
        bench_goal(contest->bench, &ratio, "ratio", "P1", BENCH_AT_LEAST, least[kind], "%.4g MiB, write: records : %s",
                   mib, names[kind]);
        ratio = bench_divide(&contest->read[STORE], &contest->read[kind]);
        bench_value(contest->bench, &ratio, "ratio", "%.4g MiB, read: records : %s", mib, names[kind]);
    }
}

static int run_size(struct bench *bench, const char *scratch, uint64_t record_bytes, bool *has_rocksdb,
                    struct selene_message *message) {
    struct contest *contest = calloc(1, sizeof *contest);
    if (contest == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "peers: out of memory");
    contest->bench = bench;
    contest->scratch = scratch;
    contest->has_rocksdb = *has_rocksdb;
    int rc = bench_records_create(&contest->records, record_bytes, bench_options(bench)->bytes, message);
    for (unsigned round = 0; rc == 0 && round <= bench_options(bench)->rounds; round++)
        rc = one_round(contest, round > 0, message);
    if (rc == 0)
        report(contest);
    *has_rocksdb = contest->has_rocksdb;
    bench_records_destroy(&contest->records);
    free(contest);
    return rc;
}

int bench_peers(struct bench *bench, struct selene_message *message) {
    static const uint64_t sizes[] = {UINT64_C(1) << 18, UINT64_C(1) << 20, UINT64_C(4) << 20};
    const char *scratch = bench_scratch(bench, message);
    bool has_rocksdb = true;
    uint64_t need = bench_options(bench)->bytes * 3 + (UINT64_C(1) << 30);
    if (scratch == NULL)
        return SELENE_E_IO;
    if (bench_scratch_free(bench) < need)
        return sel_fail(message, SELENE_E_NOSPACE, "%s: not enough free space (--bytes, --dir)",
                        bench_options(bench)->directory);
    bench_group(bench, "peers", "the same records kept in other ways");
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < SEL_COUNT(sizes); i++)
        rc = run_size(bench, scratch, sizes[i], &has_rocksdb, message);
    bench_note(bench, "all on blocks never written before; %d threads read, and write files; RocksDB has one writer",
               THREADS);
    bench_note(bench, has_rocksdb ? "RocksDB: direct I/O, no write-ahead log, no compression, flushed at the end"
                                  : "RocksDB was not found when this was built: left out");
    return rc;
}
