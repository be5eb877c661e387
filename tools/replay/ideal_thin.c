/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree of checkpoints, found by the hash of their tokens; a bit for each token count that some checkpoint has tells
 * which ones to try, from the longest on. Nothing ever leaves.
 *
 *   publish   new: a leaf below the longest checkpoint that is a prefix of it, thinned or not; that one's hold ends;
 *             the spare_rows + 1 nearest above may thin
 *             known, thinned: it has its row again, and a hold [T5]
 *   thins     not a root, one child, no hold, and no leaf within spare_rows steps down along only children
 *   look-up   the longest one with a row
 *
 * Deferred: message checkpoints with the prompt's less than a page further on, and terminal ones. They wait until the
 * session's next request has looked up: resumed at, they are published then.
 */
#include "tools/replay/ideal_thin.h"

#include "tools/replay/ideal_sequence.h"

#include <stdlib.h>

#define NONE UINT32_MAX

struct node {
    uint64_t name;
    uint32_t parent;
    uint32_t children;
    uint32_t child; /* the last one that came */
    bool row, hold;
};

struct waiting { /* deferred captures of a session */
    struct capture {
        uint64_t name;
        uint32_t tokens;
    } * items;
    uint32_t count, capacity;
};

struct model {
    const struct ideal_thin_rules *rules;
    struct node *nodes;
    uint32_t node_count, node_capacity;
    uint32_t *slots; /* NONE: empty; a power of two of them */
    size_t slot_count;
    uint64_t *lengths;
    struct waiting *waiting; /* [session] */
    uint32_t session_count;
};

/* ---- the set ---- */

static uint32_t *slot_of(const struct model *model, uint64_t name) {
    size_t at = (size_t)mix64(name) & (model->slot_count - 1);
    while (model->slots[at] != NONE && model->nodes[model->slots[at]].name != name)
        at = (at + 1) & (model->slot_count - 1);
    return &model->slots[at];
}

static int room_make(struct model *model) {
    if (model->node_count < model->node_capacity)
        return 0;
    uint32_t capacity = model->node_capacity * 2 + 512;
    struct node *nodes = reallocarray(model->nodes, capacity, sizeof *nodes);
    if (nodes == NULL)
        return SELENE_E_NOMEM;
    model->nodes = nodes, model->node_capacity = capacity;
    size_t slot_count = model->slot_count ? model->slot_count : 1024;
    while (slot_count < (size_t)capacity * 2)
        slot_count *= 2;
    uint32_t *slots = calloc(slot_count, sizeof *slots);
    if (slots == NULL)
        return SELENE_E_NOMEM;
    free(model->slots);
    model->slots = slots, model->slot_count = slot_count;
    for (size_t i = 0; i < slot_count; i++)
        slots[i] = NONE;
    for (uint32_t i = 0; i < model->node_count; i++)
        *slot_of(model, nodes[i].name) = i;
    return 0;
}

/* The longest of at most `limit` tokens, and how many it has; `row`: with its row only. */
static uint32_t longest(const struct model *model, const uint64_t *hash, uint32_t limit, bool row, uint32_t *tokens) {
    for (uint32_t word = limit / 64 + 1; word-- > 0;) {
        uint64_t bits = model->lengths[word];
        if (word == limit / 64 && limit % 64 < 63)
            bits &= (UINT64_C(2) << limit % 64) - 1;
        for (uint32_t bit; bits; bits &= ~(UINT64_C(1) << bit)) {
            bit = 63 - (uint32_t)__builtin_clzll(bits);
            uint32_t node = *slot_of(model, ideal_name(hash, word * 64 + bit));
            if (node == NONE || (row && !model->nodes[node].row))
                continue;
            *tokens = word * 64 + bit;
            return node;
        }
    }
    *tokens = 0;
    return NONE;
}

/* ---- the rules ---- */

static bool thins(const struct model *model, uint32_t at) {
    const struct node *node = &model->nodes[at];
    if (!model->rules->thin || node->parent == NONE || node->children != 1 || node->hold)
        return false;
    for (uint32_t step = 0; step < model->rules->spare_rows; step++) {
        node = &model->nodes[node->child];
        if (node->children == 0)
            return false;
        if (node->children > 1)
            return true;
    }
    return true;
}

static int publish(struct model *model, const uint64_t *hash, uint32_t tokens) {
    uint32_t unused;
    int result = room_make(model);
    if (result)
        return result;
    uint32_t *slot = slot_of(model, ideal_name(hash, tokens));
    if (*slot != NONE) {
        struct node *known = &model->nodes[*slot];
        known->hold |= !known->row;
        known->row = true;
        return 0;
    }
    uint32_t parent = longest(model, hash, tokens - 1, false, &unused), fresh = model->node_count++;
    *slot = fresh;
    model->nodes[fresh] = (struct node){.name = ideal_name(hash, tokens), .parent = parent, .child = NONE, .row = true};
    model->lengths[tokens / 64] |= UINT64_C(1) << tokens % 64;
    if (parent == NONE)
        return 0;
    model->nodes[parent].children++;
    model->nodes[parent].child = fresh;
    model->nodes[parent].hold = false;
    for (uint64_t up = 0; up <= model->rules->spare_rows && parent != NONE; up++, parent = model->nodes[parent].parent)
        if (thins(model, parent))
            model->nodes[parent].row = false;
    return 0;
}

static bool deferred(const struct model *model, const struct checkpoint *checkpoint, uint32_t prompt_tokens) {
    if (!model->rules->defer)
        return false;
    return checkpoint->kind == CHECKPOINT_TERMINAL ||
           (checkpoint->kind == CHECKPOINT_MESSAGE && prompt_tokens - checkpoint->tokens < model->rules->page_tokens);
}

static int wait(struct waiting *waiting, const uint64_t *hash, uint32_t tokens) {
    if (waiting->count == waiting->capacity) {
        uint32_t capacity = waiting->capacity * 2 + 4;
        struct capture *items = reallocarray(waiting->items, capacity, sizeof *items);
        if (items == NULL)
            return SELENE_E_NOMEM;
        waiting->items = items, waiting->capacity = capacity;
    }
    waiting->items[waiting->count++] = (struct capture){ideal_name(hash, tokens), tokens};
    return 0;
}

/* ---- a request ---- */

static int look(struct model *model, const struct workload_request *request, const uint64_t *hash, uint32_t *hit) {
    struct waiting *waiting = &model->waiting[request->session];
    uint32_t resumed = 0;
    longest(model, hash, request->prompt_tokens - 1, true, hit);
    for (uint32_t i = 0; i < waiting->count; i++) {
        const struct capture *item = &waiting->items[i];
        if (item->tokens > *hit && item->tokens > resumed && item->tokens < request->prompt_tokens &&
            item->name == ideal_name(hash, item->tokens))
            resumed = item->tokens;
    }
    waiting->count = 0;
    if (resumed == 0)
        return 0;
    *hit = resumed;
    return publish(model, hash, resumed);
}

/* What the request did not pass it cannot capture. */
static int capture(struct model *model, const struct workload_request *request, const struct checkpoint *checkpoints,
                   const uint64_t *hash, uint32_t hit) {
    uint32_t prompt_tokens = request->prompt_tokens;
    int result = 0;
    for (uint32_t i = 0; i < request->checkpoint_count; i++)
        if (checkpoints[i].kind == CHECKPOINT_PROMPT)
            prompt_tokens = checkpoints[i].tokens;
    for (uint32_t i = 0; result == 0 && i < request->checkpoint_count; i++) {
        if (checkpoints[i].tokens <= hit)
            continue;
        if (deferred(model, &checkpoints[i], prompt_tokens))
            result = wait(&model->waiting[request->session], hash, checkpoints[i].tokens);
        else
            result = publish(model, hash, checkpoints[i].tokens);
    }
    return result;
}

static void device_lost(struct model *model) {
    for (uint32_t i = 0; i < model->session_count; i++)
        model->waiting[i].count = 0;
}

static int play(struct model *model, struct ideal_sequence *sequence, const struct workload *workload, uint32_t *hits,
                void (*tick)(void *context, size_t done), void *context) {
    int result = 0;
    for (size_t i = 0; result == 0 && i < workload->count; i++) {
        const struct workload_request *request = &workload->requests[i];
        if (i == model->rules->restart_at)
            device_lost(model);
        ideal_sequence_take(sequence, workload, i);
        result = look(model, request, sequence->hash, &hits[i]);
        if (result == 0)
            result = capture(model, request, workload_checkpoints(workload, request), sequence->hash, hits[i]);
        if (tick)
            tick(context, i);
    }
    return result;
}

int ideal_thin_play(const struct workload *workload, const struct ideal_thin_rules *rules, uint32_t *hits,
                    void (*tick)(void *context, size_t done), void *context) {
    struct ideal_sequence sequence;
    struct model model = {.rules = rules, .session_count = workload->session_count};
    int result = ideal_sequence_open(&sequence, workload);
    model.lengths = calloc(workload->tokens_max / 64 + 1, sizeof *model.lengths);
    model.waiting = calloc(workload->session_count, sizeof *model.waiting);
    if (model.lengths == NULL || model.waiting == NULL)
        result = SELENE_E_NOMEM;
    if (result == 0)
        result = room_make(&model);
    if (result == 0)
        result = play(&model, &sequence, workload, hits, tick, context);
    for (uint32_t i = 0; model.waiting && i < model.session_count; i++)
        free(model.waiting[i].items);
    free(model.waiting);
    free(model.lengths);
    free(model.slots);
    free(model.nodes);
    ideal_sequence_close(&sequence);
    return result;
}
