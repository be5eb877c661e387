/* SPDX-License-Identifier: Apache-2.0
 *
 * Second part of the index group: opening a store with --records records.
 */
#ifndef SEL_TOOLS_BENCH_OPEN_H
#define SEL_TOOLS_BENCH_OPEN_H

#include "tools/bench/bench.h"

bench_run bench_open;

#endif
