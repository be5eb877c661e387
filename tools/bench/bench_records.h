/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing, reading and removing many records of one size through the record store, with a number of I/Os in flight.
 */
#ifndef SEL_TOOLS_BENCH_RECORDS_H
#define SEL_TOOLS_BENCH_RECORDS_H

#include "tools/bench/bench_store.h"

#define BENCH_PAGE_BYTES 262144 /* of the layout in use: one page, one plane */

struct bench_record {
    struct sel_lsm_record record; /* page_keys NULL: known again when it is written */
    struct sel_location location;
};

struct bench_records {
    struct sel_layout *layout;
    uint32_t pages; /* a record */
    uint64_t record_bytes;
    unsigned depth;  /* in flight */
    uint8_t *memory; /* depth * record_bytes */
    uint64_t *sums;  /* of the pages of each buffer */
    struct bench_record *records;
    size_t count; /* so many that they fill whole segments exactly: a round recycles what the one before left */
    uint64_t segment_bytes;
    uint64_t next_key;
};

int bench_records_create(struct bench_records *records, uint64_t record_bytes, uint64_t total_bytes,
                         struct selene_message *message);
void bench_records_destroy(struct bench_records *records);
/* How many I/Os of a size are in flight: 16 MiB, at least 4 and at most 32. */
unsigned bench_depth(uint64_t record_bytes);

/* Each answers with the time it took, from the first submit to the last record committed or read. */
int bench_records_write(struct bench_records *records, struct bench_store *store, uint64_t *ns,
                        struct selene_message *message);
int bench_records_read(struct bench_records *records, struct bench_store *store, uint64_t *ns,
                       struct selene_message *message);
/* Removes all and waits until their space is given back. */
int bench_records_remove(struct bench_records *records, struct bench_store *store, struct selene_message *message);
/* Writes and empties the store until a pass takes recycled segments: from then on it lives on blocks that were written
 * before. */
int bench_records_recycle(struct bench_records *records, struct bench_store *store, struct selene_message *message);

#endif
