/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of record lifetimes in small [T1, T4, T5, T8]: which checkpoints a store holds, in which tier, and which of
 * them still have their row there. Written from the rules and not from the store's code; everything is searched, since
 * a model has some hundred checkpoints.
 */
#ifndef SEL_TESTS_LIFE_MODEL_H
#define SEL_TESTS_LIFE_MODEL_H

#include "index/keys.h"

#include <stdbool.h>
#include <stdint.h>

#define LIFE_NODES_MAX 1024

enum life_tier { LIFE_MEMORY = 0, LIFE_DISK = 1, LIFE_TIERS = 2 };

struct life_node {
    uint64_t name; /* of the sequence up to here */
    uint32_t tokens;
    int parent; /* -1: a root */
    struct sel_key key;
    bool present[LIFE_TIERS], row[LIFE_TIERS];
    bool hold[LIFE_TIERS]; /* the row came back: kept until the next child [T5] */
};

struct life_model {
    struct life_node nodes[LIFE_NODES_MAX];
    int count;
    uint32_t spare_rows;
    bool thins;
};

/* -1: none. */
int life_find(const struct life_model *model, uint64_t name, uint32_t tokens);
/* The deepest checkpoint of the sequence with fewer than `tokens` tokens; -1: none. names[t - 1]: of its first t. */
int life_ancestor(const struct life_model *model, const uint64_t *names, uint32_t tokens);
/* The deepest with at most `limit` tokens that still has its row somewhere; its tokens, 0: none. */
uint32_t life_lookup(const struct life_model *model, const uint64_t *names, uint32_t count, uint32_t limit);
bool life_has_row(const struct life_node *node);

/* A new checkpoint, in no tier yet. */
int life_add(struct life_model *model, uint64_t name, uint32_t tokens, int parent, const struct sel_key *key);
/* It became visible in a tier, with its row: its coming may thin what is above it there. */
void life_commit(struct life_model *model, int node, enum life_tier tier);
/* It was published again without its row: that comes back. */
void life_bring_back(struct life_model *model, int node, enum life_tier tier);
/* Whether nobody will resume at it: the predicate. */
bool life_thins(const struct life_model *model, int node, enum life_tier tier);

#endif
