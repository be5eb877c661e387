/* SPDX-License-Identifier: Apache-2.0
 *
 * Group `drain`: 7,000 records of 0.25 MiB in chains of 170 are published into memory and drained, beside a raw write of
 * the same bytes into a preallocated file, with one sync. Both write blocks that were never written. One round: the raw
 * write, then the drain of a new store. Timed is the drain from the call to its event; publishing is not. With less than
 * the default of --bytes there are as many records as make so many bytes.
 */
#include "tools/bench/bench.h"
#include "tools/bench/bench_raw.h"

#include "base/check.h"
#include "base/random.h"
#include "engine/selene.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RECORDS      7000
#define CHAIN        170
#define RECORD_BYTES (UINT64_C(256) << 10)
#define PAGE_TOKENS  64
#define ALL_BYTES    (UINT64_C(256) << 20) /* the default of --bytes: all records */
#define RAW_DEPTH    32

struct drain {
    const char *scratch;
    char path[4200];
    uint64_t records;
    uint8_t *device; /* the pages of one chain, and what raw writes */
    uint32_t blocks[CHAIN], *tokens;
    selene_store *store;
};

static int open_store(struct drain *drain, struct selene_message *message) {
    const struct selene_plane plane = {.bytes = RECORD_BYTES};
    const struct selene_layout layout = {.page_tokens = PAGE_TOKENS,
                                         .rank_count = 1,
                                         .plane_count = 1,
                                         .planes = &plane,
                                         .description = "selene-bench",
                                         .description_bytes = 12};
    const struct selene_plane_memory memory = {drain->device, RECORD_BYTES};
    struct selene_options options;
    selene_options_init(&options);
    options.layout = &layout;
    options.planes = &memory;
    options.block_count = CHAIN;
    options.memory_bytes = (drain->records + CHAIN) * RECORD_BYTES;
    options.page_group = 1; /* each page is a record */
    options.disk_directory = drain->path;
    return selene_open(&drain->store, &options, message);
}

static int wait_for(struct drain *drain, uint64_t ticket, struct selene_event *event) {
    for (;;) {
        int count = selene_poll(drain->store, event, 1);
        if (count < 0)
            return count;
        if (count == 1 && event->ticket == ticket)
            return event->result;
        if (count == 0)
            (void)selene_wait(drain->store, 100000000);
    }
}

/* One conversation: as many records as pages. */
static int publish_chain(struct drain *drain, uint64_t number, uint32_t pages) {
    struct selene_device_state state = {.blocks = drain->blocks, .block_count = pages};
    struct selene_publish_result offer = {0};
    struct selene_event event;
    selene_prefix *prefix = NULL;
    uint64_t tokens = (uint64_t)pages * PAGE_TOKENS;
    for (uint64_t i = 0; i < tokens; i++)
        drain->tokens[i] = (uint32_t)(sel_mix64(i + (number << 32)) % 150000);
    int rc = selene_prefix_create(&prefix, drain->store, NULL, 0);
    if (rc == 0)
        rc = selene_prefix_append(prefix, drain->tokens, tokens);
    if (rc == 0)
        rc = selene_publish(drain->store, prefix, tokens, &state, &offer);
    if (rc == 0)
        rc = offer.answer == SELENE_ACCEPTED ? wait_for(drain, offer.ticket, &event) : SELENE_E_RETRY;
    selene_prefix_destroy(&prefix);
    return rc;
}

static int run_drain(struct drain *drain, uint64_t *ns, struct selene_message *message) {
    struct selene_event event = {0};
    uint64_t ticket = 0, left = drain->records;
    int rc = open_store(drain, message);
    if (rc)
        return rc;
    for (uint64_t chain = 0; rc == 0 && left > 0; chain++) {
        uint32_t pages = (uint32_t)SEL_MIN(left, (uint64_t)CHAIN);
        rc = publish_chain(drain, chain, pages);
        left -= pages;
    }
    uint64_t from = bench_now_ns();
    if (rc == 0)
        rc = selene_drain(drain->store, 0, &ticket);
    if (rc == 0)
        rc = wait_for(drain, ticket, &event);
    *ns = bench_now_ns() - from;
    if (rc == 0 && event.drained_written != drain->records)
        rc = SELENE_E_INTERNAL;
    int closed = selene_close(&drain->store);
    bench_scratch_remove(drain->path);
    rc = rc ? rc : closed;
    return rc ? sel_fail(message, rc, "drain: %s", sel_error_text(rc)) : 0;
}

static int run_raw(struct drain *drain, uint64_t *ns, struct selene_message *message) {
    struct bench_raw raw = {.file = -1,
                            .block_bytes = RECORD_BYTES,
                            .total_bytes = drain->records * RECORD_BYTES,
                            .depth = RAW_DEPTH,
                            .memory = drain->device};
    char path[4200];
    int rc = bench_raw_create(&raw, drain->scratch, "raw", message);
    if (rc == 0)
        rc = bench_raw_write(&raw, ns, message);
    bench_raw_destroy(&raw);
    snprintf(path, sizeof path, "%s/raw", drain->scratch);
    unlink(path);
    return rc;
}

static void report(struct bench *bench, const struct drain *drain, const struct bench_series *raw,
                   const struct bench_series *drained) {
    struct bench_series ratio = bench_divide(drained, raw);
    bench_value(bench, raw, "ms", "raw write of the same bytes, one sync");
    bench_value(bench, drained, "ms", "selene_drain, call to event");
    bench_goal(bench, &ratio, "ratio", "drain", BENCH_AT_MOST, 1.3, "drain : raw write, time");
    bench_note(bench, "%" PRIu64 " records of 0.25 MiB in chains of %d, %" PRIu64 " MiB; raw: 0.25 MiB, %d in flight",
               drain->records, CHAIN, drain->records * RECORD_BYTES >> 20, RAW_DEPTH);
}

int bench_drain(struct bench *bench, struct selene_message *message) {
    const struct bench_options *options = bench_options(bench);
    struct drain drain = {.scratch = bench_scratch(bench, message)};
    struct bench_series raw = {.count = 0}, drained = {.count = 0};
    if (drain.scratch == NULL)
        return SELENE_E_IO;
    snprintf(drain.path, sizeof drain.path, "%s/drain", drain.scratch);
    drain.records = options->bytes < ALL_BYTES ? options->bytes / RECORD_BYTES : RECORDS;
    uint64_t need = drain.records * RECORD_BYTES + (UINT64_C(1) << 30);
    if (bench_scratch_free(bench) < need)
        return sel_fail(message, SELENE_E_NOSPACE, "%s: %" PRIu64 " MiB free, %" PRIu64 " MiB needed (--bytes, --dir)",
                        options->directory, bench_scratch_free(bench) >> 20, need >> 20);
    bench_group(bench, "drain", "what is only in memory goes to disk, beside a raw write of its bytes");
    drain.device = bench_memory(CHAIN * RECORD_BYTES, 17);
    drain.tokens = calloc((size_t)CHAIN * PAGE_TOKENS, sizeof *drain.tokens);
    int rc = drain.device && drain.tokens ? 0 : sel_fail(message, SELENE_E_NOMEM, "drain: out of memory");
    for (uint32_t i = 0; i < CHAIN; i++)
        drain.blocks[i] = i;
    for (unsigned round = 0; rc == 0 && round <= options->rounds; round++) {
        uint64_t ns[2] = {0};
        rc = run_raw(&drain, &ns[0], message);
        if (rc == 0)
            rc = run_drain(&drain, &ns[1], message);
        if (round == 0)
            continue;
        bench_add(&raw, (double)ns[0] / 1e6);
        bench_add(&drained, (double)ns[1] / 1e6);
    }
    if (rc == 0)
        report(bench, &drain, &raw, &drained);
    bench_memory_free(drain.device, CHAIN * RECORD_BYTES);
    free(drain.tokens);
    return rc;
}
