/* SPDX-License-Identifier: Apache-2.0
 *
 * The checksum of [I2]: a two-level XXH3-64 (seed 0).
 *
 * A share (one rank's part of a page or row) is made of planes. Each plane's unpadded bytes are cut into blocks of 4
 * KiB, the last may be short, and blocks never span planes. Each block is hashed with XXH3-64. The block hashes of all
 * planes, in order, as little-endian u64, are hashed again with XXH3-64: that is the share's checksum.
 *
 * Two levels, so that GPUs and several CPU threads compute the same value in parallel. The fastest code the processor
 * offers (SSE2, AVX2 or AVX-512) is chosen once at run time; all give the same value. Any thread.
 */
#ifndef SEL_BASE_CHECKSUM_H
#define SEL_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#define SEL_CHECKSUM_BLOCK 4096

/* XXH3-64 of a byte string, seed 0. Used for headers and index entries too. */
uint64_t sel_hash64(const void *bytes, size_t count);
/* The same with a seed, for in-memory hash tables. */
uint64_t sel_hash64_seeded(const void *bytes, size_t count, uint64_t seed);

/* How many blocks, and so block hashes, a plane of so many bytes has. */
static inline size_t sel_checksum_blocks(uint64_t plane_bytes) {
    return (size_t)((plane_bytes + SEL_CHECKSUM_BLOCK - 1) / SEL_CHECKSUM_BLOCK);
}

/* First level: writes sel_checksum_blocks(count) block hashes. */
void sel_checksum_plane(uint64_t *hashes, const void *plane, size_t count);
/* First level fused with a copy: `to` gets the bytes of `from`, each block is hashed while it is in the cache, and what
 * is hashed is what was copied. Large copies use non-temporal stores. The ranges must not overlap. */
void sel_checksum_copy(uint64_t *hashes, void *to, const void *from, size_t count);
/* The same for one of many copies, `next` being the place elsewhere that the one after it reads: its first bytes are
 * fetched meanwhile. It is never more than a hint; NULL: none, or the bytes that follow on `from`. What was stored is
 * another thread's to read only after sel_copy_fence(), once for all of the copies: on small planes it costs as much as
 * a tenth of the copy. */
void sel_checksum_copy_ahead(uint64_t *hashes, void *to, const void *from, size_t count, const void *next);
void sel_copy_fence(void);
/* The copy alone, with the same choice of stores. */
void sel_copy(void *to, const void *from, size_t count);
/* Second level. */
uint64_t sel_checksum_finish(const uint64_t *hashes, size_t block_count);

/* Name of the code in use: "sse2", "avx2", "avx512" or "portable". */
const char *sel_checksum_backend(void);

#endif
