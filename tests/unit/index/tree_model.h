/* SPDX-License-Identifier: Apache-2.0
 *
 * A naive model of the prefix tree: records in an array, every question answered by looking at all of them. It drives
 * a real tree with random calls, does the same to itself, and compares.
 */
#ifndef SEL_TESTS_UNIT_INDEX_TREE_MODEL_H
#define SEL_TESTS_UNIT_INDEX_TREE_MODEL_H

#include "base/random.h"
#include "index/tree.h"

#define MODEL_PAGE     4
#define MODEL_TOKENS   40
#define MODEL_RECORDS  160
#define MODEL_VARIANTS 3 /* layout A, layout A with a salt, layout B */

struct model_sequence {
    uint32_t tokens[MODEL_TOKENS];
    uint32_t count;
    int variant;
};

struct model_record {
    bool alive;
    bool usable; /* its row */
    struct model_sequence sequence;
    int parent; /* -1: root */
    bool present[SEL_TIER_COUNT];
    bool parked;
    int pins[SEL_TIER_COUNT];
    uint64_t last_use;
    struct sel_node *node;
};

struct model {
    struct sel_tree *tree;
    struct sel_layout *layouts[2];
    struct sel_random random;
    struct model_record records[MODEL_RECORDS];
    bool aligned_only; /* records end at page boundaries, as in layouts without rows */
    uint64_t clock;
    struct sel_key keys[MODEL_TOKENS / MODEL_PAGE + 1];
};

void model_begin(struct model *model, uint64_t seed, bool aligned_only);
void model_end(struct model *model);
/* One random change, then everything that is cheap to compare. */
void model_step(struct model *model);
/* One random look-up of each kind, and one record's keys, compared with brute force. */
void model_look_up(struct model *model);

#endif
