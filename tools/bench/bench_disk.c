/* SPDX-License-Identifier: Apache-2.0
 *
 * Group `disk`: records of 0.25, 1, 4 and 16 MiB through the record store, relaxed and strict, beside raw I/O to a file
 * in the same state at the same block size and depth [P1].
 *
 * States of the blocks that are written. Fresh: preallocated, never written; the store is made anew each round and its
 * first segment stands ready before the clock starts. Recycled: written before; a store is written full and emptied
 * until it takes no new segment any more, and stays open over all rounds; whether a round's blocks really were recycled
 * ones is read from its counters.
 *
 * One round: raw, relaxed, strict on fresh blocks; raw, relaxed, strict on recycled ones; raw and relaxed reads.
 * Writing ends when the last record is committed; raw writing with one sync. Reading is of the store's data, headers
 * verified, the data's checksums not: the engine verifies them while it copies (group memory).
 */
#include "tools/bench/bench_raw.h"
#include "tools/bench/bench_records.h"

#include "base/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RELAXED, STRICT, MODES };
enum { FRESH, RECYCLED, STATES };

struct cell {
    struct bench *bench;
    const char *scratch;
    uint64_t record_bytes;
    struct bench_records records;
    struct bench_raw raw;
    struct bench_store recycled[MODES];
    char paths[MODES][64];
    struct bench_series raw_write[STATES], write[STATES][MODES], raw_read, read;
    uint64_t recycled_segments, recycled_written; /* what the counters say, over all rounds */
};

static int make_directory(const char *scratch, const char *name, char path[4200], struct selene_message *message) {
    snprintf(path, 4200, "%s/%s", scratch, name);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return sel_fail(message, sel_error_from_errno(errno), "%s: %s", path, strerror(errno));
    return 0;
}

static int open_store(struct cell *cell, struct bench_store *store, const char *name, unsigned mode,
                      struct selene_message *message) {
    char path[4200];
    int rc = make_directory(cell->scratch, name, path, message);
    *store = (struct bench_store){.segment_bytes = cell->records.segment_bytes};
    if (rc == 0)
        rc = bench_store_open(store, path, mode == STRICT ? SEL_LSM_STRICT : SEL_LSM_RELAXED, NULL, NULL, message);
    if (rc == 0)
        store->rig.disk->ops->register_memory(store->rig.disk, cell->records.memory,
                                              cell->records.depth * cell->record_bytes);
    return rc;
}

/* One record, committed: the first segment is there. */
static int warm_up(struct cell *cell, struct bench_store *store, struct selene_message *message) {
    size_t count = cell->records.count;
    uint64_t ns;
    cell->records.count = 1;
    int rc = bench_records_write(&cell->records, store, &ns, message);
    cell->records.count = count;
    if (rc == 0)
        bench_store_settle(store);
    return rc;
}

static int fresh(struct cell *cell, unsigned mode, double *rate, struct selene_message *message) {
    struct bench_store store;
    uint64_t ns = 0;
    int rc = open_store(cell, &store, "fresh", mode, message);
    if (rc == 0)
        rc = warm_up(cell, &store, message);
    if (rc == 0)
        rc = bench_records_write(&cell->records, &store, &ns, message);
    if (store.lsm)
        bench_store_close(&store);
    char path[4200];
    snprintf(path, sizeof path, "%s/fresh", cell->scratch);
    bench_scratch_remove(path);
    *rate = bench_gb_per_s(cell->records.count * cell->record_bytes, ns);
    return rc;
}

static int fresh_raw(struct cell *cell, double *rate, struct selene_message *message) {
    struct bench_raw raw = cell->raw;
    uint64_t ns = 0;
    int rc = bench_raw_create(&raw, cell->scratch, "fresh-raw", message);
    if (rc == 0)
        rc = bench_raw_write(&raw, &ns, message);
    bench_raw_destroy(&raw);
    char path[4200];
    snprintf(path, sizeof path, "%s/fresh-raw", cell->scratch);
    unlink(path);
    *rate = bench_gb_per_s(raw.total_bytes, ns);
    return rc;
}

static int make_recycled(struct cell *cell, unsigned mode, struct selene_message *message) {
    int rc = open_store(cell, &cell->recycled[mode], cell->paths[mode], mode, message);
    return rc ? rc : bench_records_recycle(&cell->records, &cell->recycled[mode], message);
}

static int recycled(struct cell *cell, unsigned mode, double *rate, double *read_rate, struct selene_message *message) {
    struct bench_store *store = &cell->recycled[mode];
    uint64_t ns = 0, read_ns = 0, bytes = cell->records.count * cell->record_bytes;
    struct sel_lsm_stats before = bench_store_stats(store);
    int rc = bench_records_write(&cell->records, store, &ns, message);
    if (rc == 0 && read_rate)
        rc = bench_records_read(&cell->records, store, &read_ns, message);
    if (rc == 0)
        rc = bench_records_remove(&cell->records, store, message);
    struct sel_lsm_stats after = bench_store_stats(store);
    cell->recycled_segments += after.recycled_segments - before.recycled_segments;
    cell->recycled_written += after.written_bytes - before.written_bytes;
    *rate = bench_gb_per_s(bytes, ns);
    if (read_rate)
        *read_rate = bench_gb_per_s(bytes, read_ns);
    return rc;
}

static int raw_again(struct cell *cell, double *write_rate, double *read_rate, struct selene_message *message) {
    uint64_t ns = 0, read_ns = 0;
    int rc = bench_raw_write(&cell->raw, &ns, message);
    if (rc == 0 && read_rate)
        rc = bench_raw_read(&cell->raw, &read_ns, message);
    *write_rate = bench_gb_per_s(cell->raw.total_bytes, ns);
    if (read_rate)
        *read_rate = bench_gb_per_s(cell->raw.total_bytes, read_ns);
    return rc;
}

static int one_round(struct cell *cell, bool keep, struct selene_message *message) {
    double raw[STATES] = {0}, write[STATES][MODES] = {{0}}, raw_read = 0, read = 0;
    int rc = fresh_raw(cell, &raw[FRESH], message);
    for (unsigned mode = 0; rc == 0 && mode < MODES; mode++)
        rc = fresh(cell, mode, &write[FRESH][mode], message);
    if (rc == 0)
        rc = raw_again(cell, &raw[RECYCLED], &raw_read, message);
    for (unsigned mode = 0; rc == 0 && mode < MODES; mode++)
        rc = recycled(cell, mode, &write[RECYCLED][mode], mode == RELAXED ? &read : NULL, message);
    for (unsigned state = 0; keep && state < STATES; state++) {
        bench_add(&cell->raw_write[state], raw[state]);
        for (unsigned mode = 0; mode < MODES; mode++)
            bench_add(&cell->write[state][mode], write[state][mode]);
    }
    if (keep) {
        bench_add(&cell->raw_read, raw_read);
        bench_add(&cell->read, read);
    }
    return rc;
}

static void report(struct cell *cell) {
    static const char *const states[] = {"fresh", "recycled"}, *const modes[] = {"relaxed", "strict"};
    struct bench *bench = cell->bench;
    double mib = (double)cell->record_bytes / 1048576, relaxed_limit = mib < 1 ? 0.8 : 0.9;
    for (unsigned state = 0; state < STATES; state++) {
        bench_value(bench, &cell->raw_write[state], "GB/s", "%.4g MiB, write, %s: raw", mib, states[state]);
        for (unsigned mode = 0; mode < MODES; mode++) {
            struct bench_series ratio = bench_divide(&cell->write[state][mode], &cell->raw_write[state]);
            bench_value(bench, &cell->write[state][mode], "GB/s", "%.4g MiB, write, %s: records, %s", mib,
                        states[state], modes[mode]);
            bench_goal(bench, &ratio, "ratio", "P1", BENCH_AT_LEAST, mode == STRICT ? 0.75 : relaxed_limit,
                       "%.4g MiB, write, %s: %s : raw", mib, states[state], modes[mode]);
        }
    }
    struct bench_series ratio = bench_divide(&cell->read, &cell->raw_read);
    bench_value(bench, &cell->raw_read, "GB/s", "%.4g MiB, read: raw", mib);
    bench_value(bench, &cell->read, "GB/s", "%.4g MiB, read: records", mib);
    bench_goal(bench, &ratio, "ratio", "P1", BENCH_AT_LEAST, relaxed_limit, "%.4g MiB, read: records : raw", mib);
    bench_note(
        bench,
        "%.4g MiB: %u in flight; as recycled %" PRIu64 " segments were filled, and %" PRIu64 " recycled ones taken",
        mib, cell->records.depth, cell->recycled_written / cell->records.segment_bytes + 1, cell->recycled_segments);
}

static int run_cell(struct cell *cell, struct selene_message *message) {
    const struct bench_options *options = bench_options(cell->bench);
    uint64_t ns;
    int rc = bench_records_create(&cell->records, cell->record_bytes, options->bytes, message);
    if (rc)
        return rc;
    cell->raw = (struct bench_raw){.file = -1,
                                   .block_bytes = cell->record_bytes,
                                   .total_bytes = cell->records.count * cell->record_bytes,
                                   .depth = cell->records.depth,
                                   .memory = cell->records.memory};
    rc = bench_raw_create(&cell->raw, cell->scratch, "recycled-raw", message);
    if (rc == 0)
        rc = bench_raw_write(&cell->raw, &ns, message);
    for (unsigned mode = 0; rc == 0 && mode < MODES; mode++) {
        snprintf(cell->paths[mode], sizeof cell->paths[mode], "recycled-%u", mode);
        rc = make_recycled(cell, mode, message);
    }
    for (unsigned round = 0; rc == 0 && round <= options->rounds; round++)
        rc = one_round(cell, round > 0, message);
    if (rc == 0)
        report(cell);
    return rc;
}

static void end_cell(struct cell *cell) {
    for (unsigned mode = 0; mode < MODES; mode++)
        if (cell->recycled[mode].lsm)
            bench_store_close(&cell->recycled[mode]);
    bench_raw_destroy(&cell->raw);
    bench_records_destroy(&cell->records);
    bench_scratch_clear(cell->bench);
}

/* Whether I/O is direct is known once a file is open. */
static int note_backend(struct bench *bench, const char *scratch, struct selene_message *message) {
    struct bench_raw probe = {.file = -1, .block_bytes = 4096, .total_bytes = 4096, .depth = 1};
    uint64_t ns;
    probe.memory = bench_memory(4096, 1);
    int rc = probe.memory ? bench_raw_create(&probe, scratch, "probe", message) : SELENE_E_NOMEM;
    if (rc == 0)
        rc = bench_raw_write(&probe, &ns, message);
    if (rc == 0)
        bench_note(bench, "I/O by %s, direct I/O %s", probe.rig.disk->ops->backend(probe.rig.disk),
                   probe.rig.disk->ops->direct(probe.rig.disk) ? "in use" : "NOT in use");
    bench_raw_destroy(&probe);
    bench_memory_free(probe.memory, 4096);
    bench_scratch_clear(bench);
    return rc;
}

int bench_disk(struct bench *bench, struct selene_message *message) {
    static const uint64_t sizes[] = {UINT64_C(1) << 18, UINT64_C(1) << 20, UINT64_C(4) << 20, UINT64_C(16) << 20};
    const struct bench_options *options = bench_options(bench);
    const char *scratch = bench_scratch(bench, message);
    if (scratch == NULL)
        return SELENE_E_IO;
    /* Two recycled stores of up to five segments, a fresh one, two raw files. */
    uint64_t need = options->bytes * 8 + (UINT64_C(3) << 30);
    if (bench_scratch_free(bench) < need)
        return sel_fail(message, SELENE_E_NOSPACE, "%s: %" PRIu64 " MiB free, %" PRIu64 " MiB needed (--bytes, --dir)",
                        options->directory, bench_scratch_free(bench) >> 20, need >> 20);
    bench_group(bench, "disk", "records through the store, beside raw I/O to a file in the same state");
    int rc = note_backend(bench, scratch, message);
    for (size_t i = 0; rc == 0 && i < SEL_COUNT(sizes); i++) {
        struct cell *cell = calloc(1, sizeof *cell);
        if (cell == NULL)
            return sel_fail(message, SELENE_E_NOMEM, "disk: out of memory");
        cell->bench = bench;
        cell->scratch = scratch;
        cell->record_bytes = sizes[i];
        rc = run_cell(cell, message);
        end_cell(cell);
        free(cell);
    }
    return rc;
}
