/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH3-64, inlined, and its fusion with a copy; built once for each instruction set (SEL_XXH3_SUFFIX). The only file
 * with xxHash's header.
 *
 * Fusion: a whole block of 4 KiB is 64 stripes of 64 bytes, each used exactly once by XXH3. copy_block() loads a stripe
 * into registers, stores it, and accumulates those same registers. So memory is read once, and the hash is that of the
 * bytes stored even if someone writes to the source meanwhile. Stores that bypass the cache do not read the line that
 * they overwrite; they need whole aligned lines, so a destination that is not aligned to 64 gets its blocks through a
 * small buffer that carries the last, incomplete line from block to block.
 *
 * Short pieces and last blocks: copied first, then hashed where they were copied to.
 */
#include "base/xxh3.h"

#include "base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdbool.h>
#include <string.h>

#define BLOCK SEL_CHECKSUM_BLOCK
#define LINE  64

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

static void copy_plane_cached(uint64_t *hashes, uint8_t *to, const uint8_t *from, size_t count) {
    for (; count > 0; hashes++) {
        size_t piece = count < BLOCK ? count : BLOCK;
        memcpy(to, from, piece);
        *hashes = XXH3_64bits(to, piece);
        to += piece, from += piece, count -= piece;
    }
}

#if XXH_VECTOR == XXH_SCALAR

static void copy_plane(uint64_t *hashes, void *to, const void *from, size_t count, const void *next) {
    (void)next;
    copy_plane_cached(hashes, to, from, count);
}

static void copy(void *to, const void *from, size_t count) { memcpy(to, from, count); }

#else

#include <immintrin.h>

#if XXH_VECTOR == XXH_AVX512
typedef __m512i vec;
#define V(name)        _mm512_##name
#define V_WHOLE(name)  _mm512_##name##_si512
#define V_XOR          _mm512_xor_si512
#define V_SWAP(vector) _mm512_shuffle_epi32(vector, (_MM_PERM_ENUM)0x4e)
#define V_REGISTER     "+v"
#elif XXH_VECTOR == XXH_AVX2
typedef __m256i vec;
#define V(name)        _mm256_##name
#define V_WHOLE(name)  _mm256_##name##_si256
#define V_XOR          _mm256_xor_si256
#define V_SWAP(vector) _mm256_shuffle_epi32(vector, 0x4e)
#define V_REGISTER     "+x"
#else
typedef __m128i vec;
#define V(name)        _mm_##name
#define V_WHOLE(name)  _mm_##name##_si128
#define V_XOR          _mm_xor_si128
#define V_SWAP(vector) _mm_shuffle_epi32(vector, 0x4e)
#define V_REGISTER     "+x"
#endif
#define VECS (LINE / sizeof(vec)) /* vectors a stripe */

#define STRIPES_A_SCRAMBLE ((XXH_SECRET_DEFAULT_SIZE - XXH_STRIPE_LEN) / XXH_SECRET_CONSUME_RATE)
#define LAST_STRIPE        (BLOCK / LINE - 1)
_Static_assert(XXH_STRIPE_LEN == LINE && STRIPES_A_SCRAMBLE == 16, "copy_block is written for XXH3's default secret");

/* Below this a plane is copied through the cache: the fence would cost more than the stores save. */
#define STREAM_MIN         512

static inline __attribute__((always_inline)) void accumulate(vec acc[VECS], uint8_t *to, const uint8_t *from,
                                                             const uint8_t *secret, bool stream) {
    for (size_t i = 0; i < VECS; i++) {
        vec data = V_WHOLE(loadu)((const void *)(from + i * sizeof(vec)));
        /* Without this the compiler may load again what it hashes, and so hash other bytes than it stored. */
        __asm__("" : V_REGISTER(data));
        if (stream)
            V_WHOLE(stream)((void *)(to + i * sizeof(vec)), data);
        else
            V_WHOLE(storeu)((void *)(to + i * sizeof(vec)), data);
        vec keyed = V_XOR(data, V_WHOLE(loadu)((const void *)(secret + i * sizeof(vec))));
        vec product = V(mul_epu32)(keyed, V(srli_epi64)(keyed, 32));
        acc[i] = V(add_epi64)(acc[i], V(add_epi64)(product, V_SWAP(data)));
    }
}

static inline __attribute__((always_inline)) void scramble(vec acc[VECS], const uint8_t *secret) {
    const vec prime = V(set1_epi32)((int)XXH_PRIME32_1);
    for (size_t i = 0; i < VECS; i++) {
        vec value = V_XOR(acc[i], V(srli_epi64)(acc[i], 47));
        value = V_XOR(value, V_WHOLE(loadu)((const void *)(secret + i * sizeof(vec))));
        vec high = V(slli_epi64)(V(mul_epu32)(V(srli_epi64)(value, 32), prime), 32);
        acc[i] = V(add_epi64)(V(mul_epu32)(value, prime), high);
    }
}

/* Planes up to this that lie scattered are read faster when all of their blocks are fetched as `far` ones are. */
#define FAR_MAX            65536
/* Lines that are fetched in one go: a tenth faster than one by one between the stores. */
#define FAR_LINES          4

/* Copies a block and returns its XXH3-64. Meanwhile fetches the block at `ahead`, which is copied next: it lies on another
 * page, where the processor's own prefetcher does not follow. A `far` one goes to the second level only, where more
 * misses can be outstanding (measured: a tenth faster on scattered planes of 4 and 16 KiB, slower on long ones). */
static inline __attribute__((always_inline)) uint64_t copy_block(uint8_t *to, const uint8_t *from, const uint8_t *ahead,
                                                                 bool far, bool stream) {
    _Alignas(LINE) uint64_t lanes[8] = XXH3_INIT_ACC;
    vec acc[VECS];
    memcpy(acc, lanes, sizeof acc);
    for (size_t stripe = 0; stripe < LAST_STRIPE; stripe++) {
        if (!far)
            __builtin_prefetch(ahead + stripe * LINE);
        for (size_t i = stripe; far && stripe % FAR_LINES == 0 && i < stripe + FAR_LINES; i++)
            __builtin_prefetch(ahead + i * LINE, 0, 2);
        accumulate(acc, to + stripe * LINE, from + stripe * LINE, XXH3_kSecret + stripe % STRIPES_A_SCRAMBLE * 8,
                   stream);
        if (stripe % STRIPES_A_SCRAMBLE == STRIPES_A_SCRAMBLE - 1)
            scramble(acc, XXH3_kSecret + XXH_SECRET_DEFAULT_SIZE - LINE);
    }
    accumulate(acc, to + LAST_STRIPE * LINE, from + LAST_STRIPE * LINE,
               XXH3_kSecret + XXH_SECRET_DEFAULT_SIZE - LINE - XXH_SECRET_LASTACC_START, stream);
    memcpy(lanes, acc, sizeof acc);
    return XXH3_mergeAccs(lanes, XXH3_kSecret + XXH_SECRET_MERGEACCS_START, BLOCK * XXH_PRIME64_1);
}

static inline void stream_lines(uint8_t *to, const uint8_t *from, size_t lines) {
    for (size_t i = 0; i < lines * VECS; i++)
        V_WHOLE(stream)((void *)(to + i * sizeof(vec)), V_WHOLE(loadu)((const void *)(from + i * sizeof(vec))));
}

/* Streams what makes up whole lines of `to`; the ends are stored as they are. */
static void copy_lines(uint8_t *to, const uint8_t *from, size_t count) {
    size_t head = -(uintptr_t)to % LINE;
    if (head > count)
        head = count;
    size_t lines = (count - head) / LINE, done = head + lines * LINE;
    memcpy(to, from, head);
    stream_lines(to + head, from + head, lines);
    memcpy(to + done, from + done, count - done);
}

static void copy_blocks_near(uint64_t *hashes, uint8_t *to, const uint8_t *from, size_t blocks) {
    for (size_t i = 0; i < blocks; i++, to += BLOCK, from += BLOCK)
        hashes[i] = copy_block(to, from, from + BLOCK, false, true);
}

static void copy_blocks_far(uint64_t *hashes, uint8_t *to, const uint8_t *from, size_t blocks, const uint8_t *next) {
    for (size_t i = 0; i < blocks; i++, to += BLOCK, from += BLOCK)
        hashes[i] = copy_block(to, from, i + 1 < blocks ? from + BLOCK : next, true, true);
}

static void copy_blocks_aligned(uint64_t *hashes, uint8_t *to, const uint8_t *from, size_t blocks,
                                const uint8_t *next) {
    size_t far = 0; /* of the blocks at the end */
    if (next != NULL)
        far = blocks * BLOCK <= FAR_MAX ? blocks : 1;
    size_t near = blocks - far, near_bytes = near * BLOCK;
    copy_blocks_near(hashes, to, from, near);
    copy_blocks_far(hashes + near, to + near_bytes, from + near_bytes, far, next);
}

/* Each block passes through `buffer`, behind the last bytes of the block before it, so that whole lines of `to` can be
 * streamed from there. At least one block. The bytes before the first line border and after the last one are stored as
 * they are. */
static void copy_blocks_unaligned(uint64_t *hashes, uint8_t *to, const uint8_t *from, size_t blocks,
                                  const uint8_t *next) {
    _Alignas(LINE) uint8_t buffer[LINE + BLOCK];
    size_t phase = (uintptr_t)to % LINE;
    for (size_t i = 0; i < blocks; i++, to += BLOCK, from += BLOCK) {
        hashes[i] = copy_block(buffer + LINE, from, i + 1 < blocks || next == NULL ? from + BLOCK : next, false, false);
        if (i == 0) {
            memcpy(to, buffer + LINE, LINE - phase);
            stream_lines(to + LINE - phase, buffer + 2 * LINE - phase, BLOCK / LINE - 1);
        } else {
            stream_lines(to - phase, buffer + LINE - phase, BLOCK / LINE);
        }
        memcpy(buffer, buffer + BLOCK, LINE);
    }
    memcpy(to - phase, buffer + LINE - phase, phase);
}

/* Less than a block: through `buffer`, so that it is hashed as it was read and only its lines are streamed. */
static uint64_t copy_short(uint8_t *to, const uint8_t *from, size_t count) {
    _Alignas(LINE) uint8_t buffer[BLOCK];
    memcpy(buffer, from, count);
    copy_lines(to, buffer, count);
    return XXH3_64bits(buffer, count);
}

static void copy_plane(uint64_t *hashes, void *to_bytes, const void *from_bytes, size_t count, const void *next) {
    uint8_t *to = to_bytes;
    const uint8_t *from = from_bytes;
    size_t blocks = count / BLOCK, whole = blocks * BLOCK;
    if (count < STREAM_MIN) {
        copy_plane_cached(hashes, to, from, count);
        return;
    }
    if ((uintptr_t)to % LINE == 0)
        copy_blocks_aligned(hashes, to, from, blocks, next);
    else if (blocks > 0)
        copy_blocks_unaligned(hashes, to, from, blocks, next);
    if (blocks == 0 && next != NULL) /* nobody has fetched for the next one yet */
        for (size_t i = 0; i < count; i += LINE)
            __builtin_prefetch((const uint8_t *)next + i, 0, 2);
    if (whole < count)
        hashes[blocks] = copy_short(to + whole, from + whole, count - whole);
}

static void copy(void *to, const void *from, size_t count) {
    if (count < STREAM_MIN) {
        memcpy(to, from, count);
        return;
    }
    copy_lines(to, from, count);
    _mm_sfence();
}

#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

const struct sel_xxh3 JOIN(sel_xxh3_, SEL_XXH3_SUFFIX) = {SEL_XXH3_NAME, hash64, hash_plane, copy_plane, copy};
