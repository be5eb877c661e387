/* SPDX-License-Identifier: Apache-2.0
 *
 * What is measured through the public API.
 */
#ifndef SEL_TOOLS_BENCH_ENGINE_H
#define SEL_TOOLS_BENCH_ENGINE_H

#include "tools/bench/bench.h"

/* Publish and restore in memory beside plain copies [P2]: rows of the memory group. */
bench_run bench_engine_memory;
/* selene_poll with nothing to do (goal P10): a row of the index group. */
bench_run bench_engine_idle;

#endif
