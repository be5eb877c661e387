/* SPDX-License-Identifier: Apache-2.0
 *
 * What the memory group's files share: plain copies, the yardstick.
 */
#ifndef SEL_TOOLS_BENCH_MEMORY_H
#define SEL_TOOLS_BENCH_MEMORY_H

#include "tools/bench/bench.h"

/* Copies by `threads` threads, each one contiguous piece; GB/s. */
double bench_plain_copy(void *to, const void *from, uint64_t bytes, bool streaming, unsigned threads);
/* The series with the greater median. */
struct bench_series bench_faster(const struct bench_series *a, const struct bench_series *b);

/* Copies of ranks that are alike or not: a part of the group in a file of its own. */
bench_run bench_ranks;

#endif
