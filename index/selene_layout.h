/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of a model's KV cache, as an engine describes it; installed beside selene.h [L1].
 *
 * Units: bytes and tokens. All sizes are per rank and unpadded. The store copies the description at open; the caller
 * may free it afterwards.
 */
#ifndef SELENE_LAYOUT_H
#define SELENE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One plane of a page: the part of the page's KV data that lies contiguous in device memory (one layer's K, one layer's
 * latent, ...).
 *
 * Valid bytes of a page that holds only its first t tokens [L4]:
 *   entry_tokens == 0   the plane is not divisible by token and is taken whole;
 *   otherwise           entry e covers tokens [e * entry_tokens, (e + 1) * entry_tokens) and lies at byte
 *                       e * entry_bytes; floor(t / entry_tokens) * entry_bytes bytes are valid, and all `bytes` when
 *                       t == page_tokens.
 * The invalid rest is stored as zeros, never compared, and not written by a restore. */
struct selene_plane {
    uint64_t bytes; /* 1 .. 1 GiB, a page's bytes in this plane */
    uint32_t
        entry_tokens;     /* 0, or a divisor of page_tokens: 1 for plain caches, 4 for one entry per four tokens, ... */
    uint32_t entry_bytes; /* 0 when entry_tokens is 0; else page_tokens / entry_tokens * entry_bytes <= bytes */
};

#define SELENE_PAGE_TOKENS_MAX       65536
#define SELENE_PLANES_MAX            4096
#define SELENE_RANKS_MAX             64
#define SELENE_PLANE_BYTES_MAX       (UINT64_C(1) << 30)
#define SELENE_SHARE_BYTES_MAX       (UINT64_C(1) << 30)
#define SELENE_ROW_BYTES_MAX         (UINT64_C(8) << 30)
#define SELENE_DESCRIPTION_BYTES_MAX 65536

struct selene_layout {
    uint32_t page_tokens; /* P: 1 .. SELENE_PAGE_TOKENS_MAX */
    uint32_t rank_count;  /* R: 1 .. SELENE_RANKS_MAX */
    uint32_t plane_count; /* 1 .. SELENE_PLANES_MAX; the sum of their bytes at most SELENE_SHARE_BYTES_MAX */
    const struct selene_plane *planes;
    uint64_t row_bytes; /* resume state per rank; 0 for a pure attention model; at most SELENE_ROW_BYTES_MAX */
    /* Opaque identity of the model: weights revision, dtype, RoPE, ... Two layouts that differ in one byte of it never
     * match each other's records. */
    const void *description;
    size_t description_bytes;
};

#ifdef __cplusplus
}
#endif
#endif
