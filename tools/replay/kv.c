/* SPDX-License-Identifier: Apache-2.0
 *
 * The KV function. Both directions walk a share's pieces in one place (page_walk), so that what is written and what is
 * expected cannot drift apart; the walk is inlined into each.
 */
#include "tools/replay/kv.h"

#include "base/selene_error.h"
#include "tools/replay/mix.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define BEHIND_ENTRIES UINT64_C(0x9e6c63d0876a9a47) /* xor'ed into the hash for the bytes behind the last entry */

struct stream {
    uint64_t at, step;
};

/* One multiplication: `hash` is mixed already, `salt` is a random constant of plane and rank. The shift brings the high
 * bits, which depend on everything, down to where one-byte entries are taken from. */
static inline struct stream stream_of(uint64_t hash, uint64_t salt) {
    uint64_t x = (hash ^ salt) * UINT64_C(0x9fb21c651e98df25);
    x ^= x >> 32;
    return (struct stream){x, (x ^ salt) | 1};
}

static inline void stream_write(struct stream stream, uint8_t *to, uint64_t count) {
    uint64_t words = count / 8;
    for (uint64_t k = 0; k < words; k++) {
        uint64_t word = htole64(stream.at + k * stream.step);
        memcpy(to + 8 * k, &word, 8);
    }
    uint64_t last = stream.at + words * stream.step;
    for (uint64_t i = words * 8; i < count; i++, last >>= 8)
        to[i] = (uint8_t)last;
}

static __attribute__((noinline)) uint64_t stream_differences(struct stream stream, const uint8_t *from,
                                                             uint64_t count) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++)
        wrong += from[i] != (uint8_t)((stream.at + i / 8 * stream.step) >> (i % 8 * 8));
    return wrong;
}

static inline uint64_t stream_compare(struct stream stream, const uint8_t *from, uint64_t count) {
    uint64_t words = count / 8, difference = 0;
    for (uint64_t k = 0; k < words; k++) {
        uint64_t word;
        memcpy(&word, from + 8 * k, 8);
        difference |= word ^ htole64(stream.at + k * stream.step);
    }
    uint64_t last = stream.at + words * stream.step;
    for (uint64_t i = words * 8; i < count; i++, last >>= 8)
        difference |= from[i] ^ (uint8_t)last;
    return difference == 0 ? 0 : stream_differences(stream, from, count);
}

/* ---- set-up ---- */

static uint64_t start_of(const struct selene_layout *layout, uint64_t seed) {
    uint64_t hash = mix_in(mix_in(seed, layout->page_tokens), layout->rank_count);
    for (uint32_t p = 0; p < layout->plane_count; p++) {
        const struct selene_plane *plane = &layout->planes[p];
        hash = mix_in(mix_in(mix_in(hash, plane->bytes), plane->entry_tokens), plane->entry_bytes);
    }
    hash = mix_in(hash, layout->row_bytes);
    for (size_t i = 0; i < layout->description_bytes; i++)
        hash = mix_in(hash, ((const uint8_t *)layout->description)[i]);
    return hash;
}

static void salts_make(struct kv *kv, bool pages_replicated, bool row_replicated) {
    for (uint32_t rank = 0; rank < kv->rank_count; rank++) {
        for (uint32_t p = 0; p < kv->plane_count; p++)
            kv->salts[(size_t)rank * kv->plane_count + p] = mix_in(mix_in(5, pages_replicated ? 0 : rank), p);
        kv->row_salts[rank] = mix_in(6, row_replicated ? 0 : rank);
    }
}

int kv_init(struct kv *kv, const struct selene_layout *layout, bool pages_replicated, bool row_replicated,
            uint64_t seed) {
    *kv = (struct kv){.page_tokens = layout->page_tokens,
                      .rank_count = layout->rank_count,
                      .plane_count = layout->plane_count,
                      .row_bytes = layout->row_bytes,
                      .start = start_of(layout, seed)};
    kv->planes = calloc(kv->plane_count, sizeof *kv->planes);
    kv->salts = calloc((size_t)kv->rank_count * kv->plane_count, sizeof *kv->salts);
    kv->row_salts = calloc(kv->rank_count, sizeof *kv->row_salts);
    if (kv->planes == NULL || kv->salts == NULL || kv->row_salts == NULL) {
        kv_free(kv);
        return SELENE_E_NOMEM;
    }
    for (uint32_t p = 0; p < kv->plane_count; p++) {
        const struct selene_plane *plane = &layout->planes[p];
        kv->planes[p] = (struct kv_plane){kv->block_bytes, plane->bytes, plane->entry_tokens, plane->entry_bytes};
        kv->block_bytes += plane->bytes;
    }
    salts_make(kv, pages_replicated, row_replicated);
    return 0;
}

void kv_free(struct kv *kv) {
    free(kv->planes);
    free(kv->salts);
    free(kv->row_salts);
    kv->planes = NULL, kv->salts = NULL, kv->row_salts = NULL;
}

void kv_hash(uint64_t *hash, const uint32_t *tokens, size_t from, size_t to) {
    uint64_t value = hash[from];
    for (size_t t = from; t < to; t++)
        hash[t + 1] = value = mix_in(value, tokens[t]);
}

/* ---- pages ---- */

/* Calls visit(piece stream, bytes of the share, count) for what tokens [from, to) of a page add. A plane taken whole is
 * visited whenever the page's length changes, the bytes behind the last entry when the page is full. */
#define PAGE_WALK(kv, rank, hash, first, from, to, share, visit)                                                       \
    do {                                                                                                               \
        const uint64_t *salt = (kv)->salts + (size_t)(rank) * (kv)->plane_count, *page = (hash) + (first);             \
        for (uint32_t p = 0; p < (kv)->plane_count; p++) {                                                             \
            const struct kv_plane *plane = &(kv)->planes[p];                                                           \
            uint64_t at = plane->offset, end = at + plane->bytes;                                                      \
            if (plane->entry_tokens == 0) {                                                                            \
                visit(stream_of(page[to], salt[p]), (share) + at, plane->bytes);                                       \
                continue;                                                                                              \
            }                                                                                                          \
            uint32_t e = (from) / plane->entry_tokens, entries = (to) / plane->entry_tokens;                           \
            const uint64_t *token = page + (size_t)(e + 1) * plane->entry_tokens;                                      \
            at += (uint64_t)e * plane->entry_bytes;                                                                    \
            for (; e < entries; e++, at += plane->entry_bytes, token += plane->entry_tokens)                           \
                visit(stream_of(*token, salt[p]), (share) + at, plane->entry_bytes);                                   \
            if ((to) == (kv)->page_tokens && at < end)                                                                 \
                visit(stream_of(page[to] ^ BEHIND_ENTRIES, salt[p]), (share) + at, end - at);                          \
        }                                                                                                              \
    } while (0)

void kv_page_fill(const struct kv *kv, uint32_t rank, const uint64_t *hash, uint64_t first, uint32_t from, uint32_t to,
                  uint8_t *share) {
#define WRITE(stream, bytes, count) stream_write(stream, bytes, count)
    PAGE_WALK(kv, rank, hash, first, from, to, share, WRITE);
#undef WRITE
}

static uint64_t not_poison(const uint8_t *bytes, uint64_t count) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++)
        wrong += bytes[i] != KV_POISON;
    return wrong;
}

static uint64_t touched(const struct kv *kv, uint32_t tokens, const uint8_t *share) {
    uint64_t wrong = 0;
    for (uint32_t p = 0; p < kv->plane_count && tokens < kv->page_tokens; p++) {
        const struct kv_plane *plane = &kv->planes[p];
        uint64_t valid =
            plane->entry_tokens ? (uint64_t)(tokens / plane->entry_tokens) * plane->entry_bytes : plane->bytes;
        wrong += not_poison(share + plane->offset + valid, plane->bytes - valid);
    }
    return wrong;
}

void kv_page_verify(const struct kv *kv, uint32_t rank, const uint64_t *hash, uint64_t first, uint32_t tokens,
                    const uint8_t *share, bool untouched, struct kv_count *count) {
    uint64_t wrong = 0, verified = 0;
#define COMPARE(stream, bytes, length) (wrong += stream_compare(stream, bytes, length), verified += (length))
    PAGE_WALK(kv, rank, hash, first, 0, tokens, share, COMPARE);
#undef COMPARE
    if (untouched)
        wrong += touched(kv, tokens, share);
    count->wrong += wrong;
    count->verified += verified;
}

/* ---- rows ---- */

void kv_row_fill(const struct kv *kv, uint32_t rank, uint64_t hash, uint8_t *row) {
    stream_write(stream_of(hash, kv->row_salts[rank]), row, kv->row_bytes);
}

void kv_row_verify(const struct kv *kv, uint32_t rank, uint64_t hash, const uint8_t *row, struct kv_count *count) {
    count->wrong += stream_compare(stream_of(hash, kv->row_salts[rank]), row, kv->row_bytes);
    count->verified += kv->row_bytes;
}
