/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up workload of conversations for the index group: each is 170 turns of 765 tokens, 130,050 tokens in all, one
 * record a turn. Most conversations have random keys, which cost nothing to make; a few have the keys of real token
 * sequences, so that they can be looked up by a prefix.
 */
#ifndef SEL_TOOLS_BENCH_TREE_H
#define SEL_TOOLS_BENCH_TREE_H

#include "base/random.h"
#include "index/tree.h"

#define BENCH_PAGE_TOKENS 64
#define BENCH_TURNS       170
#define BENCH_TURN_TOKENS 765
#define BENCH_TALK_TOKENS (BENCH_TURNS * BENCH_TURN_TOKENS)
#define BENCH_TURN_KEYS   16 /* full pages a turn adds, at most */

/* One turn: what a record of it carries. */
struct bench_turn {
    struct sel_key page_keys[BENCH_TURN_KEYS];
    struct sel_node_spec spec; /* points at page_keys; parent is the caller's */
};

/* Turn `turn` (from 0) of a conversation: with `prefix` its keys, without one random keys. `base` carries the last page
 * key from turn to turn. */
void bench_turn_make(struct bench_turn *turn, unsigned number, const struct sel_prefix *prefix,
                     struct sel_random *random, const uint8_t ns[SEL_NAMESPACE_BYTES], struct sel_key *base);

/* The prefix of real conversation `number`, `tokens` long. */
int bench_talk_prefix(struct sel_prefix **out, const struct sel_layout *layout, uint64_t number, uint32_t tokens);

/* A layout with P = 64 and one plane of `plane_bytes`. */
int bench_small_layout(struct sel_layout **out, uint64_t plane_bytes);

#endif
