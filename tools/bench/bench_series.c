/* SPDX-License-Identifier: Apache-2.0
 *
 * Series of measured values: median and extremes. No I/O.
 */
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>

void bench_add(struct bench_series *series, double value) {
    if (series->count < BENCH_ROUNDS_MAX)
        series->value[series->count++] = value;
}

struct bench_series bench_once(double value) {
    struct bench_series series = {.count = 0};
    bench_add(&series, value);
    return series;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_median(const struct bench_series *series) {
    double sorted[BENCH_ROUNDS_MAX];
    unsigned n = series->count;
    if (n == 0)
        return 0;
    memcpy(sorted, series->value, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double bench_least(const struct bench_series *series) {
    double least = series->count ? series->value[0] : 0;
    for (unsigned i = 1; i < series->count; i++)
        least = series->value[i] < least ? series->value[i] : least;
    return least;
}

double bench_most(const struct bench_series *series) {
    double most = series->count ? series->value[0] : 0;
    for (unsigned i = 1; i < series->count; i++)
        most = series->value[i] > most ? series->value[i] : most;
    return most;
}

struct bench_series bench_divide(const struct bench_series *a, const struct bench_series *b) {
    struct bench_series result = {.count = 0};
    for (unsigned i = 0; i < a->count && i < b->count; i++)
        bench_add(&result, b->value[i] > 0 ? a->value[i] / b->value[i] : 0);
    return result;
}
