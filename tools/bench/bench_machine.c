/* SPDX-License-Identifier: Apache-2.0
 *
 * Time, memory and threads for measurements, and the streaming copy that others are compared with.
 */
#include "tools/bench/bench.h"

#include "base/random.h"
#include "cli/cli.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

uint64_t bench_now_ns(void) { return sel_cli_now_ns(); }

double bench_gb_per_s(uint64_t bytes, uint64_t ns) { return ns ? (double)bytes / (double)ns : 0; }

void *bench_memory(uint64_t bytes, uint64_t seed) {
    void *memory = aligned_alloc(UINT64_C(2) << 20, (bytes + (UINT64_C(2) << 20) - 1) & ~((UINT64_C(2) << 20) - 1));
    if (memory == NULL)
        return NULL;
    uint64_t *words = memory;
    for (uint64_t i = 0; i < bytes / 8; i++)
        words[i] = seed = sel_mix64(seed + i);
    return memory;
}

void bench_memory_free(void *memory, uint64_t bytes) {
    (void)bytes;
    free(memory);
}

/* ---- threads ---- */

struct crew {
    void (*part)(void *context, unsigned i, unsigned count);
    void *context;
    unsigned count;
    pthread_barrier_t start, end;
};

struct member {
    struct crew *crew;
    unsigned i;
    pthread_t thread;
};

static void *serve(void *context) {
    struct member *member = context;
    struct crew *crew = member->crew;
    pthread_barrier_wait(&crew->start);
    crew->part(crew->context, member->i, crew->count);
    pthread_barrier_wait(&crew->end);
    return NULL;
}

uint64_t bench_parallel(unsigned count, void (*part)(void *context, unsigned i, unsigned count), void *context) {
    if (count <= 1) {
        uint64_t from = bench_now_ns();
        part(context, 0, 1);
        return bench_now_ns() - from;
    }
    struct crew crew = {.part = part, .context = context, .count = count};
    struct member *members = calloc(count, sizeof *members);
    if (members == NULL)
        return 0;
    pthread_barrier_init(&crew.start, NULL, count + 1);
    pthread_barrier_init(&crew.end, NULL, count + 1);
    for (unsigned i = 0; i < count; i++) {
        members[i] = (struct member){.crew = &crew, .i = i};
        if (pthread_create(&members[i].thread, NULL, serve, &members[i]) != 0)
            abort(); /* the ones that started wait for ever otherwise */
    }
    pthread_barrier_wait(&crew.start);
    uint64_t from = bench_now_ns();
    pthread_barrier_wait(&crew.end);
    uint64_t ns = bench_now_ns() - from;
    for (unsigned i = 0; i < count; i++)
        pthread_join(members[i].thread, NULL);
    pthread_barrier_destroy(&crew.start);
    pthread_barrier_destroy(&crew.end);
    free(members);
    return ns;
}

/* ---- the streaming copy ---- */

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void stream_64(uint8_t *to, const uint8_t *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 256) {
        __m512i a = _mm512_loadu_si512(from + i), b = _mm512_loadu_si512(from + i + 64);
        __m512i c = _mm512_loadu_si512(from + i + 128), d = _mm512_loadu_si512(from + i + 192);
        _mm512_stream_si512((void *)(to + i), a);
        _mm512_stream_si512((void *)(to + i + 64), b);
        _mm512_stream_si512((void *)(to + i + 128), c);
        _mm512_stream_si512((void *)(to + i + 192), d);
    }
}

__attribute__((target("avx2"))) static void stream_32(uint8_t *to, const uint8_t *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 128) {
        __m256i a = _mm256_loadu_si256((const void *)(from + i)), b = _mm256_loadu_si256((const void *)(from + i + 32));
        __m256i c = _mm256_loadu_si256((const void *)(from + i + 64));
        __m256i d = _mm256_loadu_si256((const void *)(from + i + 96));
        _mm256_stream_si256((void *)(to + i), a);
        _mm256_stream_si256((void *)(to + i + 32), b);
        _mm256_stream_si256((void *)(to + i + 64), c);
        _mm256_stream_si256((void *)(to + i + 96), d);
    }
}

static void stream_16(uint8_t *to, const uint8_t *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) {
        __m128i a = _mm_loadu_si128((const void *)(from + i)), b = _mm_loadu_si128((const void *)(from + i + 16));
        __m128i c = _mm_loadu_si128((const void *)(from + i + 32)), d = _mm_loadu_si128((const void *)(from + i + 48));
        _mm_stream_si128((void *)(to + i), a);
        _mm_stream_si128((void *)(to + i + 16), b);
        _mm_stream_si128((void *)(to + i + 32), c);
        _mm_stream_si128((void *)(to + i + 48), d);
    }
}

void bench_copy_streaming(void *to, const void *from, size_t bytes) {
    size_t whole = ((uintptr_t)to & 63) ? 0 : bytes & ~(size_t)255;
    if (__builtin_cpu_supports("avx512f"))
        stream_64(to, from, whole);
    else if (__builtin_cpu_supports("avx2"))
        stream_32(to, from, whole);
    else
        stream_16(to, from, whole);
    _mm_sfence();
    memcpy((uint8_t *)to + whole, (const uint8_t *)from + whole, bytes - whole);
}
#else
void bench_copy_streaming(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
#endif
