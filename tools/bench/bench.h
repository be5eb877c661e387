/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of selene-bench share.
 *
 * How it measures. What is to be compared runs in turns: one round measures every candidate once, then the next round
 * begins, so that a machine that slows down slows all of them down. A series holds one value a round; reported are its
 * median, least and most. A ratio is taken round by round, of two values measured next to each other, and its median is
 * what a goal of numbers.md is held against. The first round warms up and is dropped.
 *
 * Every value's name says what was timed, and what was not.
 */
#ifndef SEL_TOOLS_BENCH_H
#define SEL_TOOLS_BENCH_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_ROUNDS_MAX 64

struct bench_series {
    double value[BENCH_ROUNDS_MAX];
    unsigned count;
};

struct bench; /* options and the report */

struct bench_options {
    const char *directory; /* where scratch files go */
    const char *json;      /* NULL: none */
    uint64_t bytes;        /* data of one measurement */
    uint64_t records;      /* of the index group */
    unsigned rounds;       /* that count */
    unsigned threads;
};
const struct bench_options *bench_options(const struct bench *bench);

/* ---- series ---- */

void bench_add(struct bench_series *series, double value);
double bench_median(const struct bench_series *series);
double bench_least(const struct bench_series *series);
double bench_most(const struct bench_series *series);
/* Round by round a / b. */
struct bench_series bench_divide(const struct bench_series *a, const struct bench_series *b);

/* ---- report ---- */

/* Begins a group: its values are printed as a table when the next begins. `about` says what it shows. */
void bench_group(struct bench *bench, const char *name, const char *about);
/* Names are formatted with `arguments` like printf; units: "GB/s" (10^9), "ns", "us", "ms", "bytes", "count". */
void bench_value(struct bench *bench, const struct bench_series *series, const char *unit, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A value that a goal bounds: `bound` at least (goal of a ratio or a rate) or at most. `goal` as "P1". */
enum bench_bound { BENCH_AT_LEAST, BENCH_AT_MOST };
void bench_goal(struct bench *bench, const struct bench_series *series, const char *unit, const char *goal,
                enum bench_bound bound, double limit, const char *format, ...) __attribute__((format(printf, 7, 8)));
/* Something the reader must know to read the values: printed under the group's table. */
void bench_note(struct bench *bench, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A single value as a series. */
struct bench_series bench_once(double value);

/* ---- scratch files ---- */

/* A directory below --dir, removed with all in it at the end, at an error and at SIGINT or SIGTERM. Static. */
const char *bench_scratch(struct bench *bench, struct selene_message *message);
/* Removes what is in it now. */
void bench_scratch_clear(struct bench *bench);
/* Removes a directory in it, with all that is in there. */
void bench_scratch_remove(const char *path);
/* Free bytes there. */
uint64_t bench_scratch_free(struct bench *bench);

/* ---- time, memory, threads ---- */

uint64_t bench_now_ns(void);
double bench_gb_per_s(uint64_t bytes, uint64_t ns); /* 10^9 bytes a second */

/* Touched memory, aligned to 2 MiB, filled with seeded bytes that do not compress. NULL: none. */
void *bench_memory(uint64_t bytes, uint64_t seed);
void bench_memory_free(void *memory, uint64_t bytes);

/* Runs part(context, i, count) on `count` threads at once (on the caller alone for 1); returns the wall time. The
 * threads exist before the clock starts. 0 when a thread could not be made. */
uint64_t bench_parallel(unsigned count, void (*part)(void *context, unsigned i, unsigned count), void *context);

/* Copies with non-temporal stores, written for this program as a yardstick: the widest the processor has. */
void bench_copy_streaming(void *to, const void *from, size_t bytes);

/* ---- groups: each returns 0, or an error with a message ---- */

typedef int bench_run(struct bench *bench, struct selene_message *message);
bench_run bench_hash, bench_memory_group, bench_index, bench_disk, bench_drain, bench_growth, bench_peers;

#endif
