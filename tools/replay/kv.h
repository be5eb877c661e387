/* SPDX-License-Identifier: Apache-2.0
 *
 * The KV function: what every byte of a page or row must be, so that each restored byte can be verified.
 *
 * As in a model, the state at a token depends on the tokens up to it and on nothing behind it: a partial page's valid
 * bytes are the same when the page is full later. hash[t] is a running hash over the first t tokens, starting from the
 * namespace (layout and seed). Bytes are a stream (start + k * step for the k-th 8 bytes) whose start and step come
 * from
 *
 *   an entry of a plane         hash[its last token + 1], plane, rank, so that page, position and all before count
 *   a plane taken whole         hash[valid tokens of the page's end], plane, rank: it is another one at each length
 *   a full page's bytes behind  hash[page end], plane, rank, marked
 *   its last entry
 *   a row                       hash[exact checkpoint], rank
 *
 * Rank is left out where the model replicates. A stream costs an addition for every 8 bytes; one wrong byte, and bytes
 * of another key, plane, rank or position, differ from it.
 *
 * In memory a block's share is its planes packed one after another, kv.block_bytes in all.
 */
#ifndef SELENE_REPLAY_KV_H
#define SELENE_REPLAY_KV_H

#include "index/selene_layout.h"

#include <stdbool.h>
#include <stddef.h>

#define KV_POISON 0xa5 /* what blocks hold before anything is written to them */

struct kv_plane {
    uint64_t offset; /* in a block's share */
    uint64_t bytes;
    uint32_t entry_tokens, entry_bytes;
};

struct kv {
    uint32_t page_tokens, rank_count, plane_count;
    uint64_t row_bytes, block_bytes;
    uint64_t start; /* hash[0] */
    struct kv_plane *planes;
    uint64_t *salts; /* [rank * plane_count + plane] */
    uint64_t *row_salts;
};

struct kv_count {
    uint64_t verified, wrong;
};

int kv_init(struct kv *kv, const struct selene_layout *layout, bool pages_replicated, bool row_replicated,
            uint64_t seed);
void kv_free(struct kv *kv);

/* hash[from + 1 .. to] from hash[from] and the tokens; hash[0] is kv->start. */
void kv_hash(uint64_t *hash, const uint32_t *tokens, size_t from, size_t to);

/* What prefill leaves in one rank's share of the page that starts at token `first`: the page held its tokens up to
 * `from` (0: none) and then holds them up to `to`, both counted in the page. */
void kv_page_fill(const struct kv *kv, uint32_t rank, const uint64_t *hash, uint64_t first, uint32_t from, uint32_t to,
                  uint8_t *share);
/* Compares the valid bytes of a page with `tokens` tokens. With `untouched`, bytes that are not valid must still be
 * KV_POISON: those that are not count as wrong. */
void kv_page_verify(const struct kv *kv, uint32_t rank, const uint64_t *hash, uint64_t first, uint32_t tokens,
                    const uint8_t *share, bool untouched, struct kv_count *count);

void kv_row_fill(const struct kv *kv, uint32_t rank, uint64_t hash, uint8_t *row);
void kv_row_verify(const struct kv *kv, uint32_t rank, uint64_t hash, const uint8_t *row, struct kv_count *count);

#endif
