/* SPDX-License-Identifier: Apache-2.0
 *
 * Group `hash`: the checksum alone and fused with a copy, beside memcpy and a streaming copy; prefix keys from tokens
 * beside plain SHA-256. One thread; buffers larger than the caches.
 */
#include "tools/bench/bench.h"

#include "base/check.h"
#include "base/checksum.h"
#include "index/keys.h"

#include <stdlib.h>
#include <string.h>

struct buffers {
    uint8_t *from, *to;
    uint64_t *hashes;
    uint64_t bytes;
    uint64_t sink; /* what is computed is used */
};

static void do_memcpy(struct buffers *b) { memcpy(b->to, b->from, b->bytes); }
static void do_streaming(struct buffers *b) { bench_copy_streaming(b->to, b->from, b->bytes); }
static void do_copy(struct buffers *b) { sel_copy(b->to, b->from, b->bytes); }
static void do_hash(struct buffers *b) { b->sink += sel_hash64(b->from, b->bytes); }
static void do_plane(struct buffers *b) {
    sel_checksum_plane(b->hashes, b->from, b->bytes);
    b->sink += sel_checksum_finish(b->hashes, sel_checksum_blocks(b->bytes));
}
static void do_fused(struct buffers *b) {
    sel_checksum_copy(b->hashes, b->to, b->from, b->bytes);
    b->sink += sel_checksum_finish(b->hashes, sel_checksum_blocks(b->bytes));
}
static void do_sha(struct buffers *b) {
    uint8_t digest[32];
    (void)sel_sha256(digest, b->from, b->bytes);
    b->sink += digest[0];
}

enum { MEMCPY, STREAMING, COPY, HASH, PLANE, FUSED, SHA, KINDS };
static const struct {
    const char *name;
    void (*run)(struct buffers *b);
    unsigned divide; /* slow ones do less */
} kinds[KINDS] = {
    [MEMCPY] = {"memcpy", do_memcpy, 1},
    [STREAMING] = {"streaming copy (this program's)", do_streaming, 1},
    [COPY] = {"sel_copy", do_copy, 1},
    [HASH] = {"XXH3-64 in one piece", do_hash, 1},
    [PLANE] = {"checksum, two levels", do_plane, 1},
    [FUSED] = {"checksum fused with a copy", do_fused, 1},
    [SHA] = {"SHA-256 in one piece", do_sha, 8},
};

static void measure_bytes(const struct bench_options *options, struct buffers *buffers,
                          struct bench_series series[KINDS]) {
    uint64_t all = buffers->bytes;
    for (unsigned round = 0; round <= options->rounds; round++)
        for (unsigned kind = 0; kind < KINDS; kind++) {
            buffers->bytes = all / kinds[kind].divide;
            uint64_t from = bench_now_ns();
            kinds[kind].run(buffers);
            double rate = bench_gb_per_s(buffers->bytes, bench_now_ns() - from);
            if (round > 0)
                bench_add(&series[kind], rate);
            buffers->bytes = all;
        }
}

/* ---- keys ---- */

#define PAGE_TOKENS 64
#define KEY_TOKENS  (UINT32_C(1) << 17) /* of one prompt */
#define PROMPTS     8

/* What a page's key hashes: the key before, the tokens, the length of no extra material. */
#define KEY_MESSAGE (32 + PAGE_TOKENS * 4 + 8)

static int measure_keys_once(const struct sel_layout *layout, const struct buffers *buffers, double *keys,
                             double *messages) {
    const uint32_t *tokens = (const uint32_t *)(const void *)buffers->from;
    uint8_t digest[32];
    int rc = 0;
    uint64_t from = bench_now_ns();
    for (uint32_t prompt = 0; rc == 0 && prompt < PROMPTS; prompt++) {
        struct sel_prefix *prefix = NULL;
        rc = sel_prefix_create(&prefix, layout, NULL, 0);
        if (rc == 0)
            rc = sel_prefix_append(prefix, tokens + prompt * KEY_TOKENS, KEY_TOKENS);
        sel_prefix_destroy(&prefix);
    }
    *keys = bench_gb_per_s((uint64_t)PROMPTS * KEY_TOKENS * 4, bench_now_ns() - from);
    from = bench_now_ns();
    for (uint32_t page = 0; rc == 0 && page < PROMPTS * KEY_TOKENS / PAGE_TOKENS; page++)
        rc = sel_sha256(digest, buffers->from + (size_t)page * KEY_MESSAGE, KEY_MESSAGE);
    *messages = bench_gb_per_s((uint64_t)PROMPTS * KEY_TOKENS * 4, bench_now_ns() - from);
    return rc;
}

static int measure_keys(const struct bench_options *options, const struct buffers *buffers, struct bench_series *keys,
                        struct bench_series *messages) {
    const struct selene_plane plane = {.bytes = 4096};
    const struct selene_layout desc = {.page_tokens = PAGE_TOKENS,
                                       .rank_count = 1,
                                       .plane_count = 1,
                                       .planes = &plane,
                                       .description = "selene-bench",
                                       .description_bytes = 12};
    struct sel_layout *layout = NULL;
    double key_rate = 0, message_rate = 0;
    int rc = sel_layout_create(&layout, &desc, NULL);
    for (unsigned round = 0; rc == 0 && round <= options->rounds; round++) {
        rc = measure_keys_once(layout, buffers, &key_rate, &message_rate);
        if (round > 0) {
            bench_add(keys, key_rate);
            bench_add(messages, message_rate);
        }
    }
    sel_layout_destroy(&layout);
    return rc;
}

static void report(struct bench *bench, const struct bench_series series[KINDS], const struct bench_series *keys,
                   const struct bench_series *messages) {
    for (unsigned kind = 0; kind < KINDS; kind++)
        bench_value(bench, &series[kind], "GB/s", "%s", kinds[kind].name);
    bench_value(bench, messages, "GB/s", "SHA-256 of one key's input at a time, token bytes");
    bench_value(bench, keys, "GB/s", "prefix keys of prompts of 131,072 tokens, P = %d, token bytes", PAGE_TOKENS);
    struct bench_series ratio = bench_divide(&series[FUSED], &series[STREAMING]);
    bench_value(bench, &ratio, "ratio", "fused checksum and copy : streaming copy");
    ratio = bench_divide(&series[FUSED], &series[MEMCPY]);
    bench_value(bench, &ratio, "ratio", "fused checksum and copy : memcpy");
    ratio = bench_divide(keys, messages);
    bench_goal(bench, &ratio, "ratio", "P6", BENCH_AT_LEAST, 0.8, "keys from tokens : SHA-256 of the same inputs");
    bench_note(bench, "checksum code in use: %s; a key hashes %d bytes for %d bytes of tokens", sel_checksum_backend(),
               KEY_MESSAGE, PAGE_TOKENS * 4);
}

int bench_hash(struct bench *bench, struct selene_message *message) {
    const struct bench_options *options = bench_options(bench);
    struct bench_series series[KINDS] = {0}, keys = {0}, messages = {0};
    struct buffers buffers = {.bytes = SEL_MIN(options->bytes, UINT64_C(1) << 30)};
    buffers.from = bench_memory(buffers.bytes, 1);
    buffers.to = bench_memory(buffers.bytes, 2);
    buffers.hashes = calloc(sel_checksum_blocks(buffers.bytes), sizeof *buffers.hashes);
    int rc = buffers.from && buffers.to && buffers.hashes
                 ? 0
                 : sel_fail(message, SELENE_E_NOMEM, "hash: out of memory for two buffers of --bytes");
    bench_group(bench, "hash", "checksums, copies and prefix keys; one thread");
    if (rc == 0) {
        measure_bytes(options, &buffers, series);
        rc = measure_keys(options, &buffers, &keys, &messages);
    }
    if (rc == 0)
        report(bench, series, &keys, &messages);
    free(buffers.hashes);
    bench_memory_free(buffers.to, buffers.bytes);
    bench_memory_free(buffers.from, buffers.bytes);
    return rc;
}
