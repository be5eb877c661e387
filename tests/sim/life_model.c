/* SPDX-License-Identifier: Apache-2.0
 *
 * See life_model.h.
 */
#include "tests/sim/life_model.h"

#include "tests/lib/test.h"

int life_find(const struct life_model *model, uint64_t name, uint32_t tokens) {
    for (int i = 0; i < model->count; i++)
        if (model->nodes[i].name == name && model->nodes[i].tokens == tokens)
            return i;
    return -1;
}

int life_ancestor(const struct life_model *model, const uint64_t *names, uint32_t tokens) {
    int best = -1;
    for (int i = 0; i < model->count; i++) {
        const struct life_node *node = &model->nodes[i];
        if (node->tokens < tokens && node->name == names[node->tokens - 1] &&
            (best < 0 || node->tokens > model->nodes[best].tokens))
            best = i;
    }
    return best;
}

bool life_has_row(const struct life_node *node) { return node->row[LIFE_MEMORY] || node->row[LIFE_DISK]; }

uint32_t life_lookup(const struct life_model *model, const uint64_t *names, uint32_t count, uint32_t limit) {
    uint32_t best = 0;
    for (int i = 0; i < model->count; i++) {
        const struct life_node *node = &model->nodes[i];
        if (node->tokens <= limit && node->tokens <= count && node->name == names[node->tokens - 1] &&
            life_has_row(node) && node->tokens > best)
            best = node->tokens;
    }
    return best;
}

int life_add(struct life_model *model, uint64_t name, uint32_t tokens, int parent, const struct sel_key *key) {
    assert_true(model->count < LIFE_NODES_MAX);
    model->nodes[model->count] = (struct life_node){.name = name, .tokens = tokens, .parent = parent, .key = *key};
    return model->count++;
}

/* How many children it has in a tier; one of them. */
static int children(const struct life_model *model, int node, enum life_tier tier, int *one) {
    int count = 0;
    for (int i = 0; i < model->count; i++)
        if (model->nodes[i].parent == node && model->nodes[i].present[tier]) {
            *one = i;
            count++;
        }
    return count;
}

/* One side of a fork may be in one tier only: the disk waits for the other, and memory keeps the row for the disk. */
static bool waits_for_fork(const struct life_model *model, int node, enum life_tier tier) {
    int sides = 0;
    for (int i = 0; i < model->count; i++)
        sides += model->nodes[i].parent == node;
    return sides > 1 && (tier == LIFE_DISK || !model->nodes[node].row[LIFE_DISK]);
}

bool life_thins(const struct life_model *model, int node, enum life_tier tier) {
    const struct life_node *record = &model->nodes[node];
    int below = -1;
    if (!model->thins || record->parent < 0 || record->hold[tier] || children(model, node, tier, &below) != 1)
        return false;
    if (waits_for_fork(model, node, tier))
        return false;
    /* Is it one of the spare rows of the leaf at the end of the unbranched chain under it? */
    for (uint32_t i = 0; i < model->spare_rows; i++) {
        int next = -1, count = children(model, below, tier, &next);
        if (count == 0)
            return false;
        if (count > 1)
            return true;
        below = next;
    }
    return true;
}

void life_commit(struct life_model *model, int node, enum life_tier tier) {
    struct life_node *record = &model->nodes[node];
    assert_false(record->present[tier]);
    record->present[tier] = record->row[tier] = true;
    int above = record->parent;
    if (above >= 0)
        model->nodes[above].hold[tier] = false;
    for (uint32_t i = 0; i <= model->spare_rows && above >= 0; i++, above = model->nodes[above].parent)
        if (life_thins(model, above, tier))
            model->nodes[above].row[tier] = false;
}

void life_bring_back(struct life_model *model, int node, enum life_tier tier) {
    struct life_node *record = &model->nodes[node];
    if (!record->present[tier])
        life_commit(model, node, tier); /* it comes whole */
    record->row[tier] = true;
    record->hold[LIFE_MEMORY] = record->hold[LIFE_DISK] = true;
}
