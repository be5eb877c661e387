/* SPDX-License-Identifier: Apache-2.0
 *
 * Picks the build of xxh3.c that suits the processor, once, and forwards to it. Any thread may be first: all of them
 * find the same answer, so the store of the pointer needs no lock.
 */
#include "base/checksum.h"

#include "base/bytes.h"
#include "base/xxh3.h"

static const struct sel_xxh3 *choose(void) {
#ifdef SEL_XXH3_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return &sel_xxh3_avx512;
    if (__builtin_cpu_supports("avx2"))
        return &sel_xxh3_avx2;
    return &sel_xxh3_sse2;
#else
    return &sel_xxh3_portable;
#endif
}

static const struct sel_xxh3 *backend(void) {
    static const struct sel_xxh3 *chosen;
    const struct sel_xxh3 *answer = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
    if (__builtin_expect(answer == NULL, 0)) {
        answer = choose();
        __atomic_store_n(&chosen, answer, __ATOMIC_RELAXED);
    }
    return answer;
}

uint64_t sel_hash64(const void *bytes, size_t count) { return backend()->hash64(bytes, count, 0); }

uint64_t sel_hash64_seeded(const void *bytes, size_t count, uint64_t seed) {
    return backend()->hash64(bytes, count, seed);
}

void sel_checksum_plane(uint64_t *hashes, const void *plane, size_t count) { backend()->plane(hashes, plane, count); }

void sel_checksum_copy(uint64_t *hashes, void *to, const void *from, size_t count) {
    backend()->copy_plane(hashes, to, from, count, NULL);
    sel_copy_fence();
}

void sel_checksum_copy_ahead(uint64_t *hashes, void *to, const void *from, size_t count, const void *next) {
    backend()->copy_plane(hashes, to, from, count, next);
}

void sel_copy_fence(void) {
#ifdef SEL_XXH3_X86
    __builtin_ia32_sfence();
#endif
}

void sel_copy(void *to, const void *from, size_t count) { backend()->copy(to, from, count); }

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the block hashes are hashed as they lie in memory, which must be little-endian"
#endif
uint64_t sel_checksum_finish(const uint64_t *hashes, size_t block_count) {
    return backend()->hash64(hashes, block_count * sizeof *hashes, 0);
}

const char *sel_checksum_backend(void) { return backend()->name; }
