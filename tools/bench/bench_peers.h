/* SPDX-License-Identifier: Apache-2.0
 *
 * What the peers group compares with: other ways to keep records on a disk. Each writes `count` values of `bytes` each
 * (the data of a lane repeats, as it does for the record store), makes them durable, and reads them all back.
 */
#ifndef SEL_TOOLS_BENCH_PEERS_H
#define SEL_TOOLS_BENCH_PEERS_H

#include "tools/bench/bench.h"

struct bench_peer_job {
    const char *directory; /* exists, empty */
    const uint8_t *memory; /* `lanes` values one after another, aligned to 4 KiB */
    unsigned lanes;
    uint64_t value_bytes;
    size_t count;
    unsigned threads; /* that read, and write files */
    uint64_t write_ns, read_ns;
};

/* A file a record: fallocate, O_DIRECT write, fdatasync, rename; read with O_DIRECT. */
int bench_peer_files(struct bench_peer_job *job, struct selene_message *message);
/* RocksDB: values in blob files, direct I/O, no write-ahead log, one writer and a flush at the end.
 * SELENE_E_UNSUPPORTED when it was not found at build time. */
int bench_peer_rocksdb(struct bench_peer_job *job, struct selene_message *message);

#endif
