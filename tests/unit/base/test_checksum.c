/* SPDX-License-Identifier: Apache-2.0
 *
 * The checksum [I2]: golden vectors computed with another implementation (python-xxhash), and all builds of the code
 * against the plain one, for every alignment and around every size at which the code changes its way.
 */
#include "base/check.h"
#include "base/checksum.h"
#include "base/random.h"
#include "base/xxh3.h"
#include "tests/lib/test.h"

#include <pthread.h>
#include <stdbool.h>

static uint8_t pattern(size_t i) { return (uint8_t)(i * 131 + (i >> 8) * 17 + 7); }

static uint8_t *pattern_bytes(size_t count) {
    uint8_t *bytes = malloc(count + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < count; i++)
        bytes[i] = pattern(i);
    return bytes;
}

static const struct golden {
    size_t plane_count;
    size_t planes[3];
    uint64_t checksum;
} goldens[] = {
    {0, {0}, UINT64_C(0x2d06800538d394c2)},
    {1, {1}, UINT64_C(0xcf6f6c9964662384)},
    {1, {8}, UINT64_C(0xdcaf8e50ce889feb)},
    {1, {63}, UINT64_C(0x0e8f4bc9484b8e8c)},
    {1, {64}, UINT64_C(0x5c60896c0692127e)},
    {1, {240}, UINT64_C(0x47c3ba395eb3c88f)},
    {1, {241}, UINT64_C(0x38888086526ba24f)},
    {1, {1024}, UINT64_C(0xec4237ce5c41b100)},
    {1, {4095}, UINT64_C(0xe5432a5a82d5bb9b)},
    {1, {4096}, UINT64_C(0x4249606ccd4dc5a6)},
    {1, {4097}, UINT64_C(0x59e9d7431ba4d771)},
    {1, {8192}, UINT64_C(0x3e63166ee1b55833)},
    {1, {12321}, UINT64_C(0xe378b06a7720df4b)},
    {1, {131072}, UINT64_C(0x72d53ccbf1554b60)},
    {1, {1048576}, UINT64_C(0xd3234d68407e3bbd)},
    {2, {4096, 4096}, UINT64_C(0x3e63166ee1b55833)},
    {2, {100, 200}, UINT64_C(0x93c25edafe542d2d)},
    {3, {4097, 1, 8191}, UINT64_C(0x7ac84e3cf606d67f)},
    {3, {73728, 8448, 5000}, UINT64_C(0xcf484103da8a012d)},
};

/* The planes lie one after another in the pattern. */
static void test_golden_checksums(void **state) {
    (void)state;
    static uint64_t hashed[512], copied[512];
    uint8_t *bytes = pattern_bytes(1 << 20), *to = malloc((1 << 20) + 1);
    for (size_t g = 0; g < sizeof goldens / sizeof goldens[0]; g++) {
        size_t offset = 0, blocks = 0;
        for (size_t p = 0; p < goldens[g].plane_count; p++) {
            size_t count = goldens[g].planes[p];
            sel_checksum_plane(hashed + blocks, bytes + offset, count);
            sel_checksum_copy(copied + blocks, to + offset, bytes + offset, count);
            assert_memory_equal(copied + blocks, hashed + blocks, sel_checksum_blocks(count) * 8);
            sel_checksum_copy_ahead(copied + blocks, to + offset, bytes + offset, count, bytes);
            blocks += sel_checksum_blocks(count);
            offset += count;
        }
        assert_int_equal(sel_checksum_finish(hashed, blocks), goldens[g].checksum);
        assert_int_equal(sel_checksum_finish(copied, blocks), goldens[g].checksum);
        assert_memory_equal(to, bytes, offset);
    }
    free(bytes);
    free(to);
}

static void test_golden_hashes(void **state) {
    (void)state;
    uint8_t *bytes = pattern_bytes(300);
    assert_int_equal(sel_hash64("", 0), UINT64_C(0x2d06800538d394c2));
    assert_int_equal(sel_hash64("abc", 3), UINT64_C(0x78af5f94892f3950));
    assert_int_equal(sel_hash64_seeded(bytes, 32, UINT64_C(0x0123456789abcdef)), UINT64_C(0xddd67146dd8432e2));
    assert_int_equal(sel_hash64_seeded(bytes, 300, UINT64_C(0x0123456789abcdef)), UINT64_C(0xa7d6455740a80c6f));
    assert_int_equal(sel_hash64_seeded(bytes, 300, 0), sel_hash64(bytes, 300));
    free(bytes);
}

static size_t backends(const struct sel_xxh3 *list[4]) {
    size_t count = 0;
    list[count++] = &sel_xxh3_portable;
#ifdef __x86_64__
    list[count++] = &sel_xxh3_sse2;
    if (__builtin_cpu_supports("avx2"))
        list[count++] = &sel_xxh3_avx2;
    if (__builtin_cpu_supports("avx512f"))
        list[count++] = &sel_xxh3_avx512;
#endif
    return count;
}

#define ROOM  (5 * 4096)
#define GUARD 128

/* One size and alignment: the same bytes and hashes as the portable build, nothing written outside. */
static void check_one(const struct sel_xxh3 *code, const uint8_t *from, size_t to_offset, size_t count) {
    static _Alignas(64) uint8_t to[GUARD + 64 + ROOM + GUARD];
    uint64_t expected[8], got[8];
    sel_xxh3_portable.plane(expected, from, count);
    code->plane(got, from, count);
    assert_memory_equal(got, expected, sel_checksum_blocks(count) * 8);
    for (int hashing = 0; hashing < 2; hashing++) {
        uint8_t *target = to + GUARD + to_offset;
        memset(to, 0xa5, sizeof to);
        memset(got, 0, sizeof got);
        if (hashing)
            code->copy_plane(got, target, from, count, count % 2 ? NULL : from + count);
        else
            code->copy(target, from, count);
        if (hashing)
            assert_memory_equal(got, expected, sel_checksum_blocks(count) * 8);
        assert_memory_equal(target, from, count);
        for (uint8_t *byte = to; byte < target; byte++)
            assert_int_equal(*byte, 0xa5);
        for (uint8_t *byte = target + count; byte < to + sizeof to; byte++)
            assert_int_equal(*byte, 0xa5);
    }
}

static void test_backends_agree(void **state) {
    (void)state;
    const struct sel_xxh3 *list[4];
    size_t count = backends(list);
    struct sel_random random;
    sel_random_seed(&random, 1);
    uint8_t *from = malloc(64 + ROOM);
    sel_random_fill(&random, from, 64 + ROOM);
    static const size_t sizes[] = {0,    1,    16,   17,   128,  129,  240,  241,  511,  512,   513,  1024,
                                   4032, 4095, 4096, 4097, 4159, 4160, 4608, 8191, 8192, 12289, 16384};
    for (size_t b = 0; b < count; b++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (size_t offset = 0; offset < 64; offset += 1 + offset % 3)
                check_one(list[b], from + (offset * 7) % 64, offset, sizes[s]);
        for (unsigned i = 0; i < 300; i++)
            check_one(list[b], from + sel_random_below(&random, 64), sel_random_below(&random, 64),
                      sel_random_below(&random, ROOM));
    }
    free(from);
}

/* Beyond 64 KiB only the last block is fetched for as a scattered one is: both parts, with a place that follows and without,
 * on whole lines and off them. */
static void test_long_planes_agree(void **state) {
    (void)state;
    enum { BLOCKS = 40, BYTES = BLOCKS * SEL_CHECKSUM_BLOCK };
    static _Alignas(64) uint8_t to[64 + BYTES + GUARD];
    static const size_t sizes[] = {15 * 4096, 16 * 4096, 16 * 4096 + 1000, 17 * 4096, 17 * 4096 + 63, BYTES};
    static const uint8_t guard[GUARD];
    const struct sel_xxh3 *list[4];
    uint64_t expected[BLOCKS], got[BLOCKS];
    uint8_t *from = pattern_bytes(BYTES + 1);
    size_t count = backends(list);
    for (size_t i = 0; i < count * SEL_COUNT(sizes) * 2 * 2 * 2; i++) {
        const struct sel_xxh3 *code = list[i / 8 / SEL_COUNT(sizes)];
        size_t bytes = sizes[i / 8 % SEL_COUNT(sizes)];
        const uint8_t *source = from + i / 4 % 2;
        uint8_t *target = to + (i / 2 % 2 ? 24 : 0);
        memset(to, 0, sizeof to);
        memset(got, 0, sizeof got);
        sel_xxh3_portable.plane(expected, source, bytes);
        code->copy_plane(got, target, source, bytes, i % 2 ? from : NULL);
        sel_copy_fence();
        assert_memory_equal(got, expected, sel_checksum_blocks(bytes) * sizeof got[0]);
        assert_memory_equal(target, source, bytes);
        assert_memory_equal(target + bytes, guard, GUARD);
        assert_memory_equal(to, guard, (size_t)(target - to));
    }
    free(from);
}

static void test_hash64_backends_agree(void **state) {
    (void)state;
    const struct sel_xxh3 *list[4];
    size_t count = backends(list);
    uint8_t *bytes = pattern_bytes(3000);
    for (size_t b = 1; b < count; b++)
        for (size_t n = 0; n < 3000; n += 1 + n / 7)
            for (uint64_t seed = 0; seed < 3; seed++)
                assert_int_equal(list[b]->hash64(bytes, n, seed), sel_xxh3_portable.hash64(bytes, n, seed));
    free(bytes);
}

/* Fault 22: one flipped bit anywhere changes the checksum. */
static void test_a_flipped_bit_shows(void **state) {
    (void)state;
    uint8_t *bytes = pattern_bytes(9000);
    uint64_t hashes[3];
    sel_checksum_plane(hashes, bytes, 9000);
    uint64_t good = sel_checksum_finish(hashes, 3);
    for (size_t i = 0; i < 9000; i += 13) {
        bytes[i] ^= (uint8_t)(1 << i % 8);
        sel_checksum_plane(hashes, bytes, 9000);
        assert_int_not_equal(sel_checksum_finish(hashes, 3), good);
        bytes[i] ^= (uint8_t)(1 << i % 8);
    }
    free(bytes);
}

/* Keeps writing to a block, a word of each line in turn, so that the block is hardly ever the same for long. */
struct scribbler {
    pthread_t thread;
    _Alignas(64) uint64_t block[SEL_CHECKSUM_BLOCK / 8 + 8];
    bool stop;
};

static void *scribble(void *argument) {
    struct scribbler *self = argument;
    for (uint64_t value = 1; !__atomic_load_n(&self->stop, __ATOMIC_RELAXED); value++)
        for (size_t line = 0; line < SEL_COUNT(self->block); line += 8)
            __atomic_store_n(&self->block[line + value % 8], value, __ATOMIC_RELAXED);
    return NULL;
}

/* [I1] What is hashed is what was stored, also when the source changes meanwhile: each byte is read once. */
static void test_the_hash_is_that_of_what_was_stored(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* the race is the point */
#endif
    static struct scribbler scribbler;
    static _Alignas(64) uint8_t to[SEL_CHECKSUM_BLOCK + 64];
    static const size_t sizes[] = {SEL_CHECKSUM_BLOCK, 4000, 600, 100};
    const struct sel_xxh3 *list[4];
    size_t count = backends(list);
    assert_int_equal(pthread_create(&scribbler.thread, NULL, scribble, &scribbler), 0);
    for (size_t b = 0; b < count; b++)
        for (unsigned i = 0; i < 40000; i++) {
            size_t bytes = sizes[i % SEL_COUNT(sizes)], offset = i % 7 ? i % 64 : 0;
            uint64_t got, stored;
            list[b]->copy_plane(&got, to + offset, scribbler.block, bytes, NULL);
            sel_xxh3_portable.plane(&stored, to + offset, bytes);
            if (got != stored) {
                __atomic_store_n(&scribbler.stop, true, __ATOMIC_RELAXED);
                pthread_join(scribbler.thread, NULL);
                fail_msg("%s: %zu bytes to an address %zu off a line, copy %u: hash %#lx, stored %#lx", list[b]->name,
                         bytes, offset, i, (unsigned long)got, (unsigned long)stored);
            }
        }
    __atomic_store_n(&scribbler.stop, true, __ATOMIC_RELAXED);
    pthread_join(scribbler.thread, NULL);
}

static void test_the_best_backend_is_chosen(void **state) {
    (void)state;
    const struct sel_xxh3 *list[4];
    size_t count = backends(list);
    assert_string_equal(sel_checksum_backend(), list[count - 1]->name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_checksums),
        cmocka_unit_test(test_golden_hashes),
        cmocka_unit_test(test_backends_agree),
        cmocka_unit_test(test_long_planes_agree),
        cmocka_unit_test(test_hash64_backends_agree),
        cmocka_unit_test(test_a_flipped_bit_shows),
        cmocka_unit_test(test_the_best_backend_is_chosen),
        cmocka_unit_test(test_the_hash_is_that_of_what_was_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
