/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of record lifetimes share: a store on simulated edges with conversations that grow, fork and rewind.
 */
#ifndef SEL_TESTS_LIFE_WORLD_H
#define SEL_TESTS_LIFE_WORLD_H

#include "tests/unit/engine/world.h"

#define LIFE_TALKS  10
#define LIFE_TOKENS 72
#define LIFE_PAGE   4
#define LIFE_BLOCKS (LIFE_TOKENS / LIFE_PAGE)

/* A conversation: a sequence of tokens, of which the first `at` were said. */
struct life_talk {
    struct sequence sequence;
    uint32_t at;
};

struct life_world {
    struct world world;
    struct sel_random random;
    struct life_talk talks[LIFE_TALKS];
    uint64_t said; /* names new sequences */
    uint32_t ranks, row_slots;
    bool warm, disk, packs;
};

uint64_t life_below(struct life_world *life, uint64_t bound);
/* A store with or without memory and disk; ranks, sameness of ranks, spare rows chosen by the seed. `warm_slots`: 0:
 * none. */
void life_open(struct life_world *life, uint64_t seed, uint64_t warm_slots, bool disk, uint32_t requests);
void life_close(struct life_world *life);
/* Talks begin anew or as forks of each other. */
void life_talks_make(struct life_world *life);
/* Some talk says a little more, goes back, or is given up for a fork of another. The talk, and in *tokens where to
 * publish. */
struct life_talk *life_say(struct life_world *life, uint32_t *tokens);
/* After the store was opened again. */
void life_prefixes(struct life_world *life);
/* Slots that a record takes in memory. */
uint32_t life_slots(const struct life_world *life, uint32_t tokens, uint32_t parent_tokens, bool row);
struct sel_node *life_node(struct life_world *life, const struct sel_key *key, uint32_t tokens);

#endif
