/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the conversations of bench_tree.h into a record store.
 */
#ifndef SEL_TOOLS_BENCH_TALKS_H
#define SEL_TOOLS_BENCH_TALKS_H

#include "tools/bench/bench_store.h"
#include "tools/bench/bench_tree.h"

/* Writes `count` whole conversations and commits them; or, with `commit` false, waits only until their I/O is done. */
int bench_talks_write(struct bench_store *store, const struct sel_layout *layout, struct sel_random *random,
                      uint64_t count, bool commit, struct selene_message *message);

#endif
