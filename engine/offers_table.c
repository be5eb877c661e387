/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots and ids of requests and checkpoints (offers_priv.h). A slot's generation is odd while it is in use and goes on by
 * one when it is taken and when it is given back, so an old id finds nothing. Freed slots are used again, unless their
 * generations are used up; memory is given back when the whole is destroyed.
 */
#include "engine/offers_priv.h"

#include <stdlib.h>

#define SLOTS_MAX (UINT32_C(1) << 30) /* two brackets a node fit below SEL_OFFERS_NONE */

static uint64_t id_of(uint32_t generation, uint32_t slot) { return (uint64_t)generation << 32 | slot; }

int sel_offers_find_node(const selene_offers *offers, uint64_t id, uint32_t *node) {
    *node = (uint32_t)id;
    if (*node == SEL_OFFERS_TOP || *node >= offers->node_count || !offers->nodes[*node].live ||
        offers->nodes[*node].generation != id >> 32)
        return SELENE_E_NOTFOUND;
    return 0;
}

int sel_offers_find_request(const selene_offers *offers, uint64_t id, uint32_t *request) {
    *request = (uint32_t)id;
    if (*request >= offers->request_count || offers->requests[*request].state == SEL_OFFERS_FREE ||
        offers->requests[*request].generation != id >> 32)
        return SELENE_E_NOTFOUND;
    return 0;
}

uint64_t sel_offers_node_id(const selene_offers *offers, uint32_t node) {
    return node == SEL_OFFERS_TOP || node == SEL_OFFERS_NONE ? 0 : id_of(offers->nodes[node].generation, node);
}

uint64_t sel_offers_request_id(const selene_offers *offers, uint32_t request) {
    return id_of(offers->requests[request].generation, request);
}

/* Doubles an array of `capacity` items until it holds `count`. */
static int grow(void **items, size_t item_bytes, size_t capacity, size_t count) {
    while (capacity < count)
        capacity *= 2;
    void *larger = reallocarray(*items, capacity, item_bytes);
    if (!larger)
        return SELENE_E_NOMEM;
    *items = larger;
    return 0;
}

static int reserve_node(selene_offers *offers) {
    uint32_t capacity = offers->node_capacity ? offers->node_capacity : 32;
    if (offers->node_free != SEL_OFFERS_NONE || offers->node_count < offers->node_capacity)
        return 0;
    if (capacity == SLOTS_MAX)
        return SELENE_E_NOMEM;
    void *nodes = offers->nodes, *brackets = offers->brackets;
    int result = grow(&nodes, sizeof *offers->nodes, capacity, offers->node_count + 1);
    offers->nodes = nodes;
    if (result)
        return result;
    while (capacity < offers->node_count + 1)
        capacity *= 2;
    result = grow(&brackets, 2 * sizeof *offers->brackets, capacity, capacity);
    offers->brackets = brackets;
    if (!result)
        offers->node_capacity = capacity;
    return result;
}

int sel_offers_reserve(selene_offers *offers, size_t answers) {
    if (answers > offers->answer_capacity) {
        size_t capacity = offers->answer_capacity ? offers->answer_capacity : 8;
        void *answer = offers->answer;
        int result = grow(&answer, sizeof *offers->answer, capacity, answers);
        if (result)
            return result;
        while (capacity < answers)
            capacity *= 2;
        offers->answer = answer;
        offers->answer_capacity = capacity;
    }
    return reserve_node(offers);
}

int sel_offers_request_add(selene_offers *offers, uint64_t prompt_tokens, uint32_t *request) {
    uint32_t slot = offers->request_free;
    if (slot != SEL_OFFERS_NONE) {
        offers->request_free = offers->requests[slot].next_free;
    } else {
        if (offers->request_count == offers->request_capacity) {
            uint32_t capacity = offers->request_capacity ? 2 * offers->request_capacity : 32;
            void *requests = offers->requests;
            if (offers->request_capacity == SLOTS_MAX || grow(&requests, sizeof *offers->requests, capacity, capacity))
                return SELENE_E_NOMEM;
            offers->requests = requests;
            offers->request_capacity = capacity;
        }
        slot = offers->request_count++;
        offers->requests[slot].generation = 0;
    }
    struct sel_offers_request *taken = &offers->requests[slot];
    *taken = (struct sel_offers_request){.generation = taken->generation + 1,
                                         .prompt_tokens = prompt_tokens,
                                         .at = SEL_OFFERS_TOP,
                                         .first = SEL_OFFERS_NONE,
                                         .last = SEL_OFFERS_NONE,
                                         .state = SEL_OFFERS_WAITING};
    offers->nodes[SEL_OFFERS_TOP].requests++;
    offers->stats.requests++;
    *request = slot;
    return 0;
}

void sel_offers_request_remove(selene_offers *offers, uint32_t request) {
    struct sel_offers_request *gone = &offers->requests[request];
    sel_offers_move(offers, gone, SEL_OFFERS_TOP);
    offers->nodes[SEL_OFFERS_TOP].requests--;
    while (gone->first != SEL_OFFERS_NONE)
        sel_offers_list_remove(offers, gone->first);
    gone->state = SEL_OFFERS_FREE;
    offers->stats.requests--;
    if (++gone->generation == 0) /* or the first id would come again */
        return;
    gone->next_free = offers->request_free;
    offers->request_free = request;
}

/* Takes a node out for which nothing is left: no snapshot, no request. */
static void node_free(selene_offers *offers, uint32_t node) {
    sel_offers_order_remove(offers, node);
    if (++offers->nodes[node].generation == 0)
        return;
    offers->nodes[node].next = offers->node_free;
    offers->node_free = node;
}

void sel_offers_move(selene_offers *offers, struct sel_offers_request *request, uint32_t node) {
    uint32_t from = request->at;
    offers->nodes[node].requests++;
    request->at = node;
    if (--offers->nodes[from].requests == 0 && !offers->nodes[from].live)
        node_free(offers, from);
}

static void add_children(selene_offers *offers, uint32_t node, uint32_t more, uint32_t fewer) {
    offers->nodes[node].children += more;
    offers->nodes[node].children -= fewer;
    sel_offers_order_changed(offers, node);
}

uint32_t sel_offers_node_add(selene_offers *offers, uint32_t place, int kind, uint64_t tokens) {
    uint32_t slot = offers->node_free;
    if (slot != SEL_OFFERS_NONE)
        offers->node_free = offers->nodes[slot].next;
    else
        offers->nodes[slot = offers->node_count++].generation = 0;
    struct sel_offers_node *node = &offers->nodes[slot];
    *node = (struct sel_offers_node){.generation = node->generation + 1,
                                     .tokens = tokens,
                                     .owner = SEL_OFFERS_NONE,
                                     .kind = (uint8_t)kind,
                                     .live = true};
    sel_offers_order_insert(offers, slot, place);
    add_children(offers, sel_offers_order_ancestor(offers, slot, SEL_OFFERS_LIVE), 1, 0);
    offers->stats.captures++;
    return slot;
}

void sel_offers_node_remove(selene_offers *offers, uint32_t node) {
    uint32_t parent = sel_offers_order_ancestor(offers, node, SEL_OFFERS_LIVE);
    offers->nodes[node].live = false;
    sel_offers_order_changed(offers, node);
    add_children(offers, parent, offers->nodes[node].children, 1);
    if (offers->nodes[node].requests == 0)
        node_free(offers, node);
    offers->stats.captures--;
}

void sel_offers_list_add(selene_offers *offers, uint32_t request, uint32_t node) {
    struct sel_offers_request *owner = &offers->requests[request];
    offers->nodes[node].owner = request;
    offers->nodes[node].previous = owner->last;
    offers->nodes[node].next = SEL_OFFERS_NONE;
    *(owner->last == SEL_OFFERS_NONE ? &owner->first : &offers->nodes[owner->last].next) = node;
    owner->last = node;
    owner->deferred++;
}

void sel_offers_list_remove(selene_offers *offers, uint32_t node) {
    struct sel_offers_node *gone = &offers->nodes[node];
    struct sel_offers_request *owner = &offers->requests[gone->owner];
    *(gone->previous == SEL_OFFERS_NONE ? &owner->first : &offers->nodes[gone->previous].next) = gone->next;
    *(gone->next == SEL_OFFERS_NONE ? &owner->last : &offers->nodes[gone->next].previous) = gone->previous;
    gone->owner = SEL_OFFERS_NONE;
    owner->deferred--;
}
