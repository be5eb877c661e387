/* SPDX-License-Identifier: Apache-2.0
 *
 * The checkpoints behind selene_offers.h as a tree, kept as one sequence of brackets: each checkpoint opens, holds what
 * follows it, and closes. So
 *   - capturing puts a pair before the parent's closing bracket,
 *   - compacting takes a pair out, and whatever it held belongs to the parent, however much that is,
 *   - the nearest ancestor of a kind is the nearest bracket to the left that opens and is not closed,
 *   - the first descendant of a kind is the first bracket of it inside.
 * The sequence is a splay tree with sums, so each is O(log n) amortised, also when deferred checkpoints form long
 * chains, where walking from child to parent would be O(n).
 *
 * Node 0 is the top: what no request captured, and the parent of what has none; live and offered for ever.
 * A compacted checkpoint that requests still go on from stays as a place without meaning (live false) until they left:
 * nodes <= captures held + requests + 1.
 */
#ifndef SEL_ENGINE_OFFERS_PRIV_H
#define SEL_ENGINE_OFFERS_PRIV_H

#include "engine/selene_offers.h"

#include <stdbool.h>

#define SEL_OFFERS_NONE UINT32_MAX /* no node, request or bracket */
#define SEL_OFFERS_TOP  0

/* Which ancestors are asked for; indexes of a bracket's sums. */
enum sel_offers_set { SEL_OFFERS_LIVE, SEL_OFFERS_OFFERED, SEL_OFFERS_SETS };

struct sel_offers_node {
    uint64_t tokens;
    uint32_t generation; /* of the slot: the upper half of the id */
    uint32_t pins;
    uint32_t children; /* live ones */
    uint32_t requests; /* that go on from here */
    /* A deferred message checkpoint is in the list of the request that captured it until that ends, in the order of
     * capture, which puts ancestors first. owner NONE: in none. `next` also links free slots. */
    uint32_t owner, previous, next;
    uint8_t kind;
    uint8_t reason; /* enum selene_offer_reason */
    bool live;
};

/* Bracket 2n opens node n, 2n + 1 closes it. The sums are over the bracket's splay subtree: what is left when pairs that
 * match are taken away. */
struct sel_offers_bracket {
    uint32_t up, left, right;
    uint32_t closes[SEL_OFFERS_SETS], opens[SEL_OFFERS_SETS];
    bool heir; /* an opening bracket of a node that can be an heir is in it */
};

enum sel_offers_request_state {
    SEL_OFFERS_FREE = 0,
    SEL_OFFERS_WAITING,   /* not known where it starts */
    SEL_OFFERS_RUNNING,   /* goes on from `at` */
    SEL_OFFERS_DONE,      /* its terminal checkpoint was captured */
    SEL_OFFERS_PREEMPTED, /* until it is resumed */
};

struct sel_offers_request {
    uint64_t prompt_tokens;
    uint32_t generation;
    uint32_t at;          /* the node that its next capture follows */
    uint32_t first, last; /* its deferred message checkpoints */
    uint32_t deferred;    /* how many */
    uint32_t next_free;
    uint8_t state; /* enum sel_offers_request_state */
    bool prompt_done;
    bool at_terminal; /* `at` is its terminal checkpoint: false when that got no snapshot */
};

struct selene_offers {
    uint32_t page_tokens;
    bool defer;

    struct sel_offers_node *nodes;
    struct sel_offers_bracket *brackets; /* two a node */
    uint32_t node_capacity, node_count, node_free;
    uint32_t root; /* of the splay tree */

    struct sel_offers_request *requests;
    uint32_t request_capacity, request_count, request_free;

    /* Room for the longest answer that can be: a call that ends a request cannot fail. */
    struct selene_offer *answer;
    size_t answer_capacity, answer_count;

    struct selene_offers_stats stats;
};

static inline bool sel_offers_is_offered(const struct sel_offers_node *node) {
    return node->live && node->reason != SELENE_OFFER_DEFERRED;
}

/* ---- offers_order.c: the sequence ---- */

/* The first pair, of the top. */
void sel_offers_order_begin(selene_offers *offers);
void sel_offers_order_insert(selene_offers *offers, uint32_t node, uint32_t parent);
void sel_offers_order_remove(selene_offers *offers, uint32_t node);
/* To be called after `live`, `reason` or `children` of a node in the sequence changed. */
void sel_offers_order_changed(selene_offers *offers, uint32_t node);
uint32_t sel_offers_order_ancestor(selene_offers *offers, uint32_t node, enum sel_offers_set set);
/* The first below `node` that can be its heir, or NONE. */
uint32_t sel_offers_order_heir(selene_offers *offers, uint32_t node);

/* ---- offers_table.c: slots, ids, the tree ---- */

int sel_offers_find_node(const selene_offers *offers, uint64_t id, uint32_t *node);
int sel_offers_find_request(const selene_offers *offers, uint64_t id, uint32_t *request);
uint64_t sel_offers_node_id(const selene_offers *offers, uint32_t node); /* 0 for the top and NONE */
uint64_t sel_offers_request_id(const selene_offers *offers, uint32_t request);
/* Room for one more node and for an answer of `answers`: afterwards neither can fail. */
int sel_offers_reserve(selene_offers *offers, size_t answers);
int sel_offers_request_add(selene_offers *offers, uint64_t prompt_tokens, uint32_t *request);
void sel_offers_request_remove(selene_offers *offers, uint32_t request);
/* The request goes on from `node`. */
void sel_offers_move(selene_offers *offers, struct sel_offers_request *request, uint32_t node);
/* Needs sel_offers_reserve. Below the request's place; not offered. */
uint32_t sel_offers_node_add(selene_offers *offers, uint32_t place, int kind, uint64_t tokens);
/* Not pinned, in no list. */
void sel_offers_node_remove(selene_offers *offers, uint32_t node);
void sel_offers_list_add(selene_offers *offers, uint32_t request, uint32_t node);
void sel_offers_list_remove(selene_offers *offers, uint32_t node);

#endif
