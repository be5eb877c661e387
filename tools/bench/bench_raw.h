/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw I/O to one file through the same disk seam: the yardstick of the disk group. Blocks of one size, a number of them
 * in flight, one sync at the end; no format, no index, no commit.
 */
#ifndef SEL_TOOLS_BENCH_RAW_H
#define SEL_TOOLS_BENCH_RAW_H

#include "tools/bench/bench_store.h"

struct bench_raw {
    struct bench_disk_rig rig;
    int file;
    uint64_t block_bytes, total_bytes;
    unsigned depth;
    uint8_t *memory; /* depth * block_bytes; the caller's */
};

/* Makes the file `name` in `directory`, preallocated (its blocks never written). */
int bench_raw_create(struct bench_raw *raw, const char *directory, const char *name, struct selene_message *message);
void bench_raw_destroy(struct bench_raw *raw);
/* Writes it front to back, then one sync. */
int bench_raw_write(struct bench_raw *raw, uint64_t *ns, struct selene_message *message);
/* Reads all of its blocks, in an order that is not the one of the disk. */
int bench_raw_read(struct bench_raw *raw, uint64_t *ns, struct selene_message *message);

#endif
