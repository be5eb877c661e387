/* SPDX-License-Identifier: Apache-2.0
 *
 * Records through the store (bench_records.h). A lane is one I/O in flight with a buffer of its own, `depth` of them. A
 * flight is one record on its way: when its data is written its lane is free for the next, long before its group
 * commits. Checksums are made beforehand, as the engine has them from the copy out.
 */
#include "tools/bench/bench_records.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/checksum.h"
#include "tools/bench/bench_wait.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX      256
#define SEGMENT_BYTES (UINT64_C(256) << 20)    /* the store's default */
#define PATIENCE_NS   (60 * SEL_NS_PER_SECOND) /* without any progress */

struct run;

struct lane {
    struct iovec iov;
    uint64_t *sums;
    bool busy;
};

struct flight {
    struct run *run;
    struct lane *lane; /* NULL: its I/O is done */
    struct bench_record *record;
    struct sel_op io_op, end_op; /* reading: end_op only */
    struct sel_lsm_write *write;
    struct sel_lsm_reader *reader;
};

struct run {
    struct bench_records *records;
    struct bench_store *store;
    struct lane *lanes;
    struct flight *flights; /* one a record */
    size_t next, ended;     /* records begun, records through */
    unsigned lanes_busy;
    int error; /* the first */
};

unsigned bench_depth(uint64_t record_bytes) {
    uint64_t depth = (UINT64_C(16) << 20) / record_bytes;
    return (unsigned)SEL_MIN(SEL_MAX(depth, 4), 32);
}

static int make_layout(struct sel_layout **out) {
    const struct selene_plane plane = {.bytes = BENCH_PAGE_BYTES};
    const struct selene_layout desc = {.page_tokens = 64,
                                       .rank_count = 1,
                                       .plane_count = 1,
                                       .planes = &plane,
                                       .description = "selene-bench",
                                       .description_bytes = 12};
    return sel_layout_create(out, &desc, NULL);
}

static int make_sums(struct bench_records *records) {
    size_t pages = (size_t)records->depth * records->pages, blocks = sel_checksum_blocks(BENCH_PAGE_BYTES);
    uint64_t *hashes = calloc(blocks, sizeof *hashes);
    records->sums = calloc(pages, sizeof *records->sums);
    if (!hashes || !records->sums) {
        free(hashes);
        return SELENE_E_NOMEM;
    }
    for (size_t page = 0; page < pages; page++) {
        sel_checksum_plane(hashes, records->memory + page * BENCH_PAGE_BYTES, BENCH_PAGE_BYTES);
        records->sums[page] = sel_checksum_finish(hashes, blocks);
    }
    free(hashes);
    return 0;
}

int bench_records_create(struct bench_records *records, uint64_t record_bytes, uint64_t total_bytes,
                         struct selene_message *message) {
    *records = (struct bench_records){.pages = (uint32_t)(record_bytes / BENCH_PAGE_BYTES),
                                      .record_bytes = record_bytes,
                                      .depth = bench_depth(record_bytes),
                                      .segment_bytes = SEL_MIN(total_bytes, SEGMENT_BYTES),
                                      .next_key = 1};
    int rc = make_layout(&records->layout);
    if (rc == 0) {
        uint64_t extent = sel_lsm_record_bytes(records->layout, records->pages, records->pages, false, false, false);
        records->count =
            (size_t)((records->segment_bytes - SEL_BLOCK_BYTES) / extent * (total_bytes / records->segment_bytes));
    }
    records->memory = bench_memory(records->depth * record_bytes, record_bytes);
    records->records = calloc(records->count, sizeof *records->records);
    if (rc == 0 && (records->memory == NULL || records->records == NULL))
        rc = SELENE_E_NOMEM;
    if (rc == 0)
        rc = make_sums(records);
    return rc ? sel_fail(message, rc, "records of %" PRIu64 " bytes: %s", record_bytes, sel_error_text(rc)) : 0;
}

void bench_records_destroy(struct bench_records *records) {
    sel_layout_destroy(&records->layout);
    bench_memory_free(records->memory, records->depth * records->record_bytes);
    free(records->records);
    free(records->sums);
    *records = (struct bench_records){0};
}

static void make_key(struct sel_key *key, uint64_t number) {
    for (unsigned i = 0; i < 4; i++)
        sel_put_u64(key->bytes + 8 * i, sel_mix64(number * 4 + i));
}

static void make_record(struct bench_records *records, struct bench_record *record, struct sel_key keys[KEYS_MAX]) {
    for (uint32_t page = 0; page < records->pages; page++)
        make_key(&keys[page], records->next_key++);
    record->record = (struct sel_lsm_record){.page_tokens = 64,
                                             .tokens = records->pages * 64,
                                             .key = keys[records->pages - 1],
                                             .base_key = keys[records->pages - 1],
                                             .page_keys = keys,
                                             .page_key_count = records->pages,
                                             .time_s = 1};
    memcpy(record->record.ns, records->layout->ns, sizeof record->record.ns);
}

static void free_lane(struct flight *flight, int result) {
    if (result && flight->run->error == 0)
        flight->run->error = result;
    if (flight->lane == NULL)
        return;
    flight->lane->busy = false;
    flight->lane = NULL;
    flight->run->lanes_busy--;
}

static void data_done(struct sel_op *op) { free_lane(SEL_CONTAINER(op, struct flight, io_op), op->result); }

static void write_done(struct sel_op *op) {
    struct flight *flight = SEL_CONTAINER(op, struct flight, end_op);
    if (op->result == 0)
        flight->record->location = sel_lsm_write_location(flight->write);
    sel_lsm_write_free(&flight->write);
    flight->run->ended++;
    free_lane(flight, op->result);
}

static int start_write(struct run *run, struct flight *flight) {
    struct bench_records *records = run->records;
    struct sel_key keys[KEYS_MAX];
    uint64_t first_key = records->next_key;
    make_record(records, flight->record, keys);
    int rc = sel_lsm_write_begin(run->store->lsm, records->layout, &flight->record->record, NULL, &flight->write);
    flight->record->record.page_keys = NULL;
    if (rc) {
        records->next_key = first_key;
        return rc;
    }
    sel_op_init(&flight->io_op, data_done);
    sel_op_init(&flight->end_op, write_done);
    sel_lsm_write_data(flight->write, SEL_LSM_PAGES, 0, &flight->lane->iov, 1, &flight->io_op);
    sel_lsm_write_finish(flight->write, flight->lane->sums, NULL, &flight->end_op);
    return 0;
}

static void read_done(struct sel_op *op) {
    struct flight *flight = SEL_CONTAINER(op, struct flight, end_op);
    sel_lsm_reader_close(&flight->reader);
    flight->run->ended++;
    free_lane(flight, op->result);
}

static int start_read(struct run *run, struct flight *flight) {
    sel_op_init(&flight->end_op, read_done);
    sel_lsm_reader_open(run->store->lsm, run->records->layout, &flight->record->record, &flight->record->location,
                        SEL_LSM_PAGES, &flight->lane->iov, 1, &flight->reader, &flight->end_op);
    return 0;
}

static int run_create(struct run *run, struct bench_records *records, struct bench_store *store) {
    *run = (struct run){.records = records, .store = store};
    run->lanes = calloc(records->depth, sizeof *run->lanes);
    run->flights = calloc(records->count, sizeof *run->flights);
    if (run->lanes == NULL || run->flights == NULL)
        return SELENE_E_NOMEM;
    for (unsigned i = 0; i < records->depth; i++) {
        run->lanes[i].iov.iov_base = records->memory + i * records->record_bytes;
        run->lanes[i].iov.iov_len = records->record_bytes;
        run->lanes[i].sums = records->sums + (size_t)i * records->pages;
    }
    return 0;
}

/* Record i of the run; reads come in an order that is not the one of the disk. */
static struct bench_record *nth(struct bench_records *records, size_t i, bool shuffled) {
    static const size_t prime = 7919;
    return &records->records[shuffled && records->count % prime ? i * prime % records->count : i];
}

typedef int start_one(struct run *run, struct flight *flight);

/* Gives every free lane a record. */
static int fill_lanes(struct run *run, start_one *start, bool shuffled) {
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < run->records->depth && run->next < run->records->count; i++) {
        struct flight *flight = &run->flights[run->next];
        if (run->lanes[i].busy)
            continue;
        *flight = (struct flight){.run = run, .lane = &run->lanes[i], .record = nth(run->records, run->next, shuffled)};
        rc = start(run, flight);
        if (rc == 0) {
            run->lanes[i].busy = true;
            run->lanes_busy++;
            run->next++;
        }
    }
    return rc == SELENE_E_RETRY || rc == SELENE_E_NOSPACE ? 0 : rc;
}

static int run_all(struct bench_records *records, struct bench_store *store, start_one *start, bool shuffled,
                   uint64_t *ns, struct selene_message *message) {
    struct run run;
    int rc = run_create(&run, records, store);
    uint64_t from = bench_now_ns(), patience = from + PATIENCE_NS;
    while (rc == 0 && run.error == 0 && run.ended < records->count) {
        size_t before = run.next + run.ended;
        rc = fill_lanes(&run, start, shuffled);
        /* All data is written: the last group need not wait for its time. Earlier it would be cut short. */
        if (run.next == records->count && run.lanes_busy == 0 && start == start_write)
            sel_lsm_flush(store->lsm);
        bench_store_turn(store);
        if (run.next + run.ended > before)
            patience = bench_now_ns() + PATIENCE_NS;
        else if (bench_now_ns() > patience)
            rc = SELENE_E_STALLED;
    }
    *ns = bench_now_ns() - from;
    rc = rc ? rc : run.error;
    while (run.ended < run.next) { /* an error: what is in flight still uses the lanes */
        sel_lsm_flush(store->lsm);
        bench_store_turn(store);
    }
    free(run.lanes);
    free(run.flights);
    return rc ? sel_fail(message, rc, "records of %" PRIu64 " bytes: %s", records->record_bytes, sel_error_text(rc))
              : 0;
}

int bench_records_write(struct bench_records *records, struct bench_store *store, uint64_t *ns,
                        struct selene_message *message) {
    return run_all(records, store, start_write, false, ns, message);
}

int bench_records_read(struct bench_records *records, struct bench_store *store, uint64_t *ns,
                       struct selene_message *message) {
    return run_all(records, store, start_read, true, ns, message);
}

int bench_records_remove(struct bench_records *records, struct bench_store *store, struct selene_message *message) {
    struct sel_op *ops = calloc(records->count, sizeof *ops);
    int rc = ops ? 0 : SELENE_E_NOMEM;
    for (size_t i = 0; rc == 0 && i < records->count; i++) {
        sel_op_init(&ops[i], bench_op_done);
        sel_lsm_remove(store->lsm, &records->records[i].location, &ops[i]);
    }
    sel_lsm_flush(store->lsm);
    for (size_t i = 0; rc == 0 && i < records->count; i++) {
        while (ops[i].in_flight)
            bench_store_turn(store);
        rc = ops[i].result;
    }
    free(ops);
    if (rc)
        return sel_fail(message, rc, "removing records: %s", sel_error_text(rc));
    bench_store_settle(store);
    return 0;
}

int bench_records_recycle(struct bench_records *records, struct bench_store *store, struct selene_message *message) {
    int rc = 0;
    for (unsigned pass = 0; rc == 0 && pass < 6; pass++) {
        uint64_t ns, before = bench_store_stats(store).recycled_segments;
        rc = bench_records_write(records, store, &ns, message);
        if (rc == 0)
            rc = bench_records_remove(records, store, message);
        if (pass >= 3 && bench_store_stats(store).recycled_segments > before)
            break;
    }
    return rc;
}
