/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH3-64, inlined, built once for each instruction set (SEL_XXH3_SUFFIX). The only file with xxHash's header.
 */
#include "base/xxh3.h"

#include "base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

#define BLOCK SEL_CHECKSUM_BLOCK

static uint64_t hash64(const void *bytes, size_t count, uint64_t seed) {
    return seed ? XXH3_64bits_withSeed(bytes, count, seed) : XXH3_64bits(bytes, count);
}

static void hash_plane(uint64_t *hashes, const void *plane, size_t count) {
    const uint8_t *from = plane;
    for (; count >= BLOCK; from += BLOCK, count -= BLOCK)
        *hashes++ = XXH3_64bits(from, BLOCK);
    if (count > 0)
        *hashes = XXH3_64bits(from, count);
}

static void copy_plane(uint64_t *hashes, void *to, const void *from, size_t count) {
    memcpy(to, from, count);
    hash_plane(hashes, to, count);
}

static void copy(void *to, const void *from, size_t count) { memcpy(to, from, count); }

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

const struct sel_xxh3 JOIN(sel_xxh3_, SEL_XXH3_SUFFIX) = {SEL_XXH3_NAME, hash64, hash_plane, copy_plane, copy};
