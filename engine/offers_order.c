/* SPDX-License-Identifier: Apache-2.0
 *
 * The sequence of brackets (offers_priv.h) as a splay tree: whatever is asked for is brought to the root, which makes all
 * operations O(log n) amortised and keeps what is used together near the root.
 */
#include "engine/offers_priv.h"

static uint32_t opening(uint32_t node) { return 2 * node; }
static uint32_t closing(uint32_t node) { return 2 * node + 1; }

static bool counts(const struct sel_offers_node *node, int set) {
    return set == SEL_OFFERS_LIVE ? node->live : sel_offers_is_offered(node);
}

/* Offered, or a deferred branch point [O3]. */
static bool can_inherit(const struct sel_offers_node *node) {
    return node->live && (node->reason != SELENE_OFFER_DEFERRED || node->children >= 2);
}

/* Appends what a part of the sequence leaves over to what lies left of it. */
static void append(uint32_t *closes, uint32_t *opens, uint32_t part_closes, uint32_t part_opens) {
    uint32_t matched = *opens < part_closes ? *opens : part_closes;
    *closes += part_closes - matched;
    *opens += part_opens - matched;
}

static void sum(selene_offers *offers, uint32_t index) {
    struct sel_offers_bracket *all = offers->brackets, *bracket = &all[index];
    const struct sel_offers_node *node = &offers->nodes[index / 2];
    bool opens = index % 2 == 0;

    bracket->heir = (opens && can_inherit(node)) || (bracket->left != SEL_OFFERS_NONE && all[bracket->left].heir) ||
                    (bracket->right != SEL_OFFERS_NONE && all[bracket->right].heir);
    for (int set = 0; set < SEL_OFFERS_SETS; set++) {
        uint32_t left_closes = 0, left_opens = 0, own = counts(node, set);
        if (bracket->left != SEL_OFFERS_NONE)
            append(&left_closes, &left_opens, all[bracket->left].closes[set], all[bracket->left].opens[set]);
        append(&left_closes, &left_opens, opens ? 0 : own, opens ? own : 0);
        if (bracket->right != SEL_OFFERS_NONE)
            append(&left_closes, &left_opens, all[bracket->right].closes[set], all[bracket->right].opens[set]);
        bracket->closes[set] = left_closes;
        bracket->opens[set] = left_opens;
    }
}

static uint32_t *link_to(selene_offers *offers, uint32_t index) {
    uint32_t up = offers->brackets[index].up;
    if (up == SEL_OFFERS_NONE)
        return &offers->root;
    return offers->brackets[up].left == index ? &offers->brackets[up].left : &offers->brackets[up].right;
}

/* Puts a bracket above the one above it. */
static void rotate(selene_offers *offers, uint32_t index) {
    struct sel_offers_bracket *all = offers->brackets, *bracket = &all[index];
    uint32_t up = bracket->up;
    bool left = all[up].left == index;
    uint32_t middle = left ? bracket->right : bracket->left;

    *link_to(offers, up) = index;
    bracket->up = all[up].up;
    *(left ? &bracket->right : &bracket->left) = up;
    *(left ? &all[up].left : &all[up].right) = middle;
    all[up].up = index;
    if (middle != SEL_OFFERS_NONE)
        all[middle].up = up;
    sum(offers, up);
}

/* Brings a bracket to below `above`, NONE: to the root. */
static void splay(selene_offers *offers, uint32_t index, uint32_t above) {
    struct sel_offers_bracket *all = offers->brackets;
    while (all[index].up != above) {
        uint32_t up = all[index].up, higher = all[up].up;
        if (higher != above)
            rotate(offers, (all[higher].left == up) == (all[up].left == index) ? up : index);
        rotate(offers, index);
    }
    sum(offers, index);
}

static void set_left(selene_offers *offers, uint32_t index, uint32_t left) {
    offers->brackets[index].left = left;
    if (left != SEL_OFFERS_NONE)
        offers->brackets[left].up = index;
    sum(offers, index);
}

static void blank(selene_offers *offers, uint32_t index) {
    offers->brackets[index] =
        (struct sel_offers_bracket){.up = SEL_OFFERS_NONE, .left = SEL_OFFERS_NONE, .right = SEL_OFFERS_NONE};
}

void sel_offers_order_begin(selene_offers *offers) {
    blank(offers, opening(SEL_OFFERS_TOP));
    blank(offers, closing(SEL_OFFERS_TOP));
    sum(offers, opening(SEL_OFFERS_TOP));
    set_left(offers, closing(SEL_OFFERS_TOP), opening(SEL_OFFERS_TOP));
    offers->root = closing(SEL_OFFERS_TOP);
}

void sel_offers_order_insert(selene_offers *offers, uint32_t node, uint32_t parent) {
    uint32_t before = closing(parent);
    splay(offers, before, SEL_OFFERS_NONE);
    blank(offers, opening(node));
    blank(offers, closing(node));
    set_left(offers, opening(node), offers->brackets[before].left);
    set_left(offers, closing(node), opening(node));
    set_left(offers, before, closing(node));
}

/* Neither the first nor the last of the sequence: those are the top's. */
static void take_out(selene_offers *offers, uint32_t index) {
    struct sel_offers_bracket *all = offers->brackets;
    splay(offers, index, SEL_OFFERS_NONE);
    uint32_t previous = all[index].left, right = all[index].right;
    while (all[previous].right != SEL_OFFERS_NONE)
        previous = all[previous].right;
    splay(offers, previous, index);
    all[previous].right = right;
    all[right].up = previous;
    all[previous].up = SEL_OFFERS_NONE;
    offers->root = previous;
    sum(offers, previous);
}

void sel_offers_order_remove(selene_offers *offers, uint32_t node) {
    take_out(offers, opening(node));
    take_out(offers, closing(node));
}

void sel_offers_order_changed(selene_offers *offers, uint32_t node) {
    splay(offers, opening(node), SEL_OFFERS_NONE);
    splay(offers, closing(node), SEL_OFFERS_NONE);
}

/* From the right end of a part of the sequence to the left: the first that opens and was not closed on the way. The top
 * opens first and counts in every set, so there is one. */
uint32_t sel_offers_order_ancestor(selene_offers *offers, uint32_t node, enum sel_offers_set set) {
    const struct sel_offers_bracket *all = offers->brackets;
    splay(offers, opening(node), SEL_OFFERS_NONE);
    uint32_t index = all[opening(node)].left, closed = 0;
    for (;;) {
        uint32_t right = all[index].right, own = counts(&offers->nodes[index / 2], set);
        if (right != SEL_OFFERS_NONE) {
            if (all[right].opens[set] > closed) {
                index = right;
                continue;
            }
            closed += all[right].closes[set] - all[right].opens[set];
        }
        if (index % 2 == 1)
            closed += own;
        else if (own && closed == 0)
            break;
        else
            closed -= own;
        index = all[index].left;
    }
    splay(offers, index, SEL_OFFERS_NONE);
    return index / 2;
}

uint32_t sel_offers_order_heir(selene_offers *offers, uint32_t node) {
    const struct sel_offers_bracket *all = offers->brackets;
    splay(offers, opening(node), SEL_OFFERS_NONE);
    splay(offers, closing(node), opening(node));
    uint32_t index = all[closing(node)].left;
    if (index == SEL_OFFERS_NONE || !all[index].heir)
        return SEL_OFFERS_NONE;
    for (;;) {
        uint32_t left = all[index].left;
        if (left != SEL_OFFERS_NONE && all[left].heir)
            index = left;
        else if (index % 2 == 0 && can_inherit(&offers->nodes[index / 2]))
            break;
        else
            index = all[index].right;
    }
    splay(offers, index, SEL_OFFERS_NONE);
    return index / 2;
}
