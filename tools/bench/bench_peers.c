/* SPDX-License-Identifier: Apache-2.0
 *
 * Group `peers`: the same records through the record store, into RocksDB with blob files, and into a file each [P1]. All
 * begin with an empty directory each round, so that all of them write blocks that were never written. Beside that, the
 * record store as it runs once its directory has filled up: into recycled segments. Files that are made anew cannot do
 * that; their blocks always count as never written.
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

enum { FRESH, RECYCLED, ROCKSDB, FILES, KINDS };
static const char *const names[KINDS] = {"records, fresh segments", "records, recycled segments", "RocksDB, blob files",
                                         "a synced file a record"};

struct contest {
    struct bench *bench;
    const char *scratch;
    struct bench_records records;
    bool has_rocksdb;
    struct bench_store recycled;
    struct bench_series write[KINDS], read[KINDS];
};

static int open_store(struct contest *contest, struct bench_store *store, const char *directory,
                      struct selene_message *message) {
    *store = (struct bench_store){.segment_bytes = contest->records.segment_bytes};
    int rc = bench_store_open(store, directory, SEL_LSM_RELAXED, NULL, NULL, message);
    if (rc == 0)
        store->rig.disk->ops->register_memory(store->rig.disk, contest->records.memory,
                                              contest->records.depth * contest->records.record_bytes);
    return rc;
}

static int write_and_read(struct contest *contest, struct bench_store *store, uint64_t ns[2],
                          struct selene_message *message) {
    int rc = bench_records_write(&contest->records, store, &ns[0], message);
    return rc ? rc : bench_records_read(&contest->records, store, &ns[1], message);
}

static int run_fresh(struct contest *contest, const char *directory, uint64_t ns[2], struct selene_message *message) {
    struct bench_store store;
    int rc = open_store(contest, &store, directory, message);
    if (rc)
        return rc;
    rc = write_and_read(contest, &store, ns, message);
    bench_store_close(&store);
    return rc;
}

static int run_recycled(struct contest *contest, uint64_t ns[2], struct selene_message *message) {
    int rc = write_and_read(contest, &contest->recycled, ns, message);
    return rc ? rc : bench_records_remove(&contest->records, &contest->recycled, message);
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

static int run_kind(struct contest *contest, unsigned kind, uint64_t ns[2], struct selene_message *message) {
    char path[4200];
    if (kind == RECYCLED)
        return run_recycled(contest, ns, message);
    snprintf(path, sizeof path, "%s/peer", contest->scratch);
    if (mkdir(path, 0700) != 0)
        return sel_fail(message, sel_error_from_errno(errno), "%s: %s", path, strerror(errno));
    int rc = kind == FRESH ? run_fresh(contest, path, ns, message) : run_peer(contest, kind, path, ns, message);
    bench_scratch_remove(path);
    return rc;
}

static bool takes_part(const struct contest *contest, unsigned kind) { return kind != ROCKSDB || contest->has_rocksdb; }

static int one_round(struct contest *contest, bool keep, struct selene_message *message) {
    uint64_t bytes = contest->records.count * contest->records.record_bytes;
    int rc = 0;
    for (unsigned kind = 0; rc == 0 && kind < KINDS; kind++) {
        uint64_t ns[2] = {0};
        if (!takes_part(contest, kind))
            continue;
        rc = run_kind(contest, kind, ns, message);
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
        if (!takes_part(contest, kind))
            continue;
        bench_value(contest->bench, &contest->write[kind], "GB/s", "%.4g MiB, write: %s", mib, names[kind]);
        bench_value(contest->bench, &contest->read[kind], "GB/s", "%.4g MiB, read: %s", mib, names[kind]);
    }
    for (unsigned peer = ROCKSDB; peer < KINDS; peer++) {
        if (!takes_part(contest, peer))
            continue;
        for (unsigned own = FRESH; own <= RECYCLED; own++) {
            struct bench_series ratio = bench_divide(&contest->write[own], &contest->write[peer]);
            bench_goal(contest->bench, &ratio, "ratio", "P1", BENCH_AT_LEAST, least[peer], "%.4g MiB, write: %s : %s",
                       mib, names[own], names[peer]);
        }
        struct bench_series ratio = bench_divide(&contest->read[FRESH], &contest->read[peer]);
        bench_value(contest->bench, &ratio, "ratio", "%.4g MiB, read: records : %s", mib, names[peer]);
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
    char path[4200];
    snprintf(path, sizeof path, "%s/recycled", scratch);
    if (rc == 0 && mkdir(path, 0700) != 0)
        rc = sel_fail(message, sel_error_from_errno(errno), "%s: %s", path, strerror(errno));
    if (rc == 0)
        rc = open_store(contest, &contest->recycled, path, message);
    if (rc == 0)
        rc = bench_records_recycle(&contest->records, &contest->recycled, message);
    for (unsigned round = 0; rc == 0 && round <= bench_options(bench)->rounds; round++)
        rc = one_round(contest, round > 0, message);
    if (rc == 0)
        report(contest);
    *has_rocksdb = contest->has_rocksdb;
    if (contest->recycled.lsm)
        bench_store_close(&contest->recycled);
    bench_scratch_remove(path);
    bench_records_destroy(&contest->records);
    free(contest);
    return rc;
}

int bench_peers(struct bench *bench, struct selene_message *message) {
    static const uint64_t sizes[] = {UINT64_C(1) << 18, UINT64_C(1) << 20, UINT64_C(4) << 20};
    const char *scratch = bench_scratch(bench, message);
    bool has_rocksdb = true;
    uint64_t need = bench_options(bench)->bytes * 6 + (UINT64_C(2) << 30);
    if (scratch == NULL)
        return SELENE_E_IO;
    if (bench_scratch_free(bench) < need)
        return sel_fail(message, SELENE_E_NOSPACE, "%s: not enough free space (--bytes, --dir)",
                        bench_options(bench)->directory);
    bench_group(bench, "peers", "the same records kept in other ways");
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < SEL_COUNT(sizes); i++)
        rc = run_size(bench, scratch, sizes[i], &has_rocksdb, message);
    bench_note(bench,
               "all but the recycled segments are blocks never written before; %d threads read, and write files; "
               "RocksDB has one "
               "writer",
               THREADS);
    bench_note(bench, has_rocksdb ? "RocksDB: direct I/O, no write-ahead log, no compression, flushed at the end"
                                  : "RocksDB was not found when this was built: left out");
    return rc;
}
