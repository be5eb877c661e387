/* SPDX-License-Identifier: Apache-2.0
 *
 * In place of bench_rocksdb.c where RocksDB was not found.
 */
#include "tools/bench/bench_peers.h"

int bench_peer_rocksdb(struct bench_peer_job *job, struct selene_message *message) {
    (void)job;
    return sel_fail(message, SELENE_E_UNSUPPORTED, "built without RocksDB");
}
