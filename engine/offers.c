/* SPDX-License-Identifier: Apache-2.0
 *
 * Which checkpoints are offered to the host [O1-O4]: the rules. The tree that they ask is offers_priv.h.
 *
 * Order in every call: find what the ids name, check that it can happen, reserve memory; only then change anything.
 * Nothing but `reason`, the answer and the counters depends on whether deferring is on [O4].
 */
#include "engine/offers_priv.h"

#include <stdlib.h>
#include <string.h>

int selene_offers_create(selene_offers **out, uint32_t page_tokens, int defer) {
    if (!out)
        return SELENE_E_INVALID;
    *out = NULL;
    if (page_tokens == 0 || page_tokens > SELENE_PAGE_TOKENS_MAX)
        return SELENE_E_INVALID;
    selene_offers *offers = calloc(1, sizeof *offers);
    if (!offers)
        return SELENE_E_NOMEM;
    offers->page_tokens = page_tokens;
    offers->defer = defer != 0;
    offers->node_free = offers->request_free = SEL_OFFERS_NONE;
    int result = sel_offers_reserve(offers, 1);
    if (result) {
        selene_offers_destroy(&offers);
        return result;
    }
    offers->nodes[SEL_OFFERS_TOP] =
        (struct sel_offers_node){.requests = 1, .owner = SEL_OFFERS_NONE, .reason = SELENE_OFFER_HELD, .live = true};
    offers->node_count = 1;
    sel_offers_order_begin(offers);
    *out = offers;
    return 0;
}

void selene_offers_destroy(selene_offers **offers) {
    if (!offers || !*offers)
        return;
    free((*offers)->nodes);
    free((*offers)->brackets);
    free((*offers)->requests);
    free((*offers)->answer);
    free(*offers);
    *offers = NULL;
}

/* What every call does first. */
static int enter(selene_offers *offers, struct selene_offers_answer *answer) {
    if (!answer)
        return SELENE_E_INVALID;
    *answer = (struct selene_offers_answer){0};
    if (!offers)
        return SELENE_E_INVALID;
    offers->answer_count = 0;
    return 0;
}

/* What every call that changed something does last. */
static int leave(const selene_offers *offers, struct selene_offers_answer *answer) {
    answer->offers = offers->answer;
    answer->count = offers->answer_count;
    return 0;
}

/* The parent to report and the pages since it [O3, L4]. */
static void describe(selene_offers *offers, uint32_t node, struct selene_offer *offer) {
    uint32_t parent = sel_offers_order_ancestor(offers, node, SEL_OFFERS_OFFERED);
    const struct sel_offers_node *it = &offers->nodes[node];
    uint64_t from = offers->nodes[parent].tokens, pages = offers->page_tokens;
    *offer = (struct selene_offer){
        .checkpoint = sel_offers_node_id(offers, node),
        .tokens = it->tokens,
        .parent = sel_offers_node_id(offers, parent),
        .parent_tokens = from,
        .first_page = from / pages,
        .page_count = it->tokens / pages + (it->tokens % pages != 0) - from / pages,
        .reason = it->reason,
    };
}

static void offer(selene_offers *offers, uint32_t node, int reason) {
    offers->nodes[node].reason = (uint8_t)reason;
    sel_offers_order_changed(offers, node);
    if (offers->nodes[node].owner != SEL_OFFERS_NONE)
        sel_offers_list_remove(offers, node);
    if (reason == SELENE_OFFER_HELD)
        return;
    describe(offers, node, &offers->answer[offers->answer_count++]);
    offers->stats.made++;
}

static bool is_deferred(const selene_offers *offers, uint32_t node) {
    return offers->nodes[node].live && offers->nodes[node].reason == SELENE_OFFER_DEFERRED;
}

static void offer_deferred(selene_offers *offers, uint32_t node, int reason) {
    if (!is_deferred(offers, node))
        return;
    offers->stats.waiting--;
    if (reason == SELENE_OFFER_RESUMED || reason == SELENE_OFFER_PREEMPTED)
        offers->stats.resumed++;
    else
        offers->stats.offered_late++;
    offer(offers, node, reason);
}

/* The deferred message checkpoints of a request, in the order of capture: ancestors first [O2]. */
static void offer_messages(selene_offers *offers, const struct sel_offers_request *request, bool pinned, int reason) {
    for (uint32_t node = request->first, next; node != SEL_OFFERS_NONE; node = next) {
        next = offers->nodes[node].next;
        if (!pinned || offers->nodes[node].pins > 0)
            offer_deferred(offers, node, reason);
    }
}

static void resume(selene_offers *offers, struct sel_offers_request *request, uint32_t node) {
    sel_offers_move(offers, request, node);
    request->state = SEL_OFFERS_RUNNING;
    request->prompt_done = offers->nodes[node].tokens >= request->prompt_tokens;
    offer_deferred(offers, node, SELENE_OFFER_RESUMED);
}

int selene_offers_begin(selene_offers *offers, uint64_t prompt_tokens, uint64_t checkpoint, uint64_t *request,
                        struct selene_offers_answer *answer) {
    uint32_t node = SEL_OFFERS_TOP, slot;
    if (request)
        *request = 0;
    int result = enter(offers, answer);
    if (!result && (!request || prompt_tokens == 0))
        result = SELENE_E_INVALID;
    if (!result && checkpoint)
        result = sel_offers_find_node(offers, checkpoint, &node);
    if (!result)
        result = sel_offers_request_add(offers, prompt_tokens, &slot);
    if (result)
        return result;
    if (checkpoint)
        resume(offers, &offers->requests[slot], node);
    *request = sel_offers_request_id(offers, slot);
    return leave(offers, answer);
}

int selene_offers_resumed(selene_offers *offers, uint64_t request, uint64_t checkpoint,
                          struct selene_offers_answer *answer) {
    uint32_t node = SEL_OFFERS_TOP, slot;
    int result = enter(offers, answer);
    if (!result)
        result = sel_offers_find_request(offers, request, &slot);
    if (!result && checkpoint)
        result = sel_offers_find_node(offers, checkpoint, &node);
    if (result)
        return result;
    struct sel_offers_request *it = &offers->requests[slot];
    if (it->state != SEL_OFFERS_WAITING && it->state != SEL_OFFERS_PREEMPTED)
        return SELENE_E_INVALID;
    resume(offers, it, node);
    return leave(offers, answer);
}

/* Whether a request can come to a checkpoint of this kind there, now. */
static bool can_come(const selene_offers *offers, const struct sel_offers_request *request, int kind, uint64_t tokens) {
    if (request->state == SEL_OFFERS_DONE || tokens <= offers->nodes[request->at].tokens)
        return false;
    if (request->state == SEL_OFFERS_PREEMPTED && kind != SELENE_CHECKPOINT_TERMINAL)
        return false;
    switch (kind) {
    case SELENE_CHECKPOINT_MESSAGE:
        return !request->prompt_done && tokens < request->prompt_tokens;
    case SELENE_CHECKPOINT_PROMPT:
        return !request->prompt_done && tokens == request->prompt_tokens;
    case SELENE_CHECKPOINT_TERMINAL:
    case SELENE_CHECKPOINT_RESTORED:
        return true;
    default:
        return false;
    }
}

/* [O1] */
static bool defers(const selene_offers *offers, const struct sel_offers_request *request, int kind, uint64_t tokens) {
    if (!offers->defer)
        return false;
    if (kind == SELENE_CHECKPOINT_TERMINAL)
        return request->state != SEL_OFFERS_PREEMPTED;
    return kind == SELENE_CHECKPOINT_MESSAGE && request->prompt_tokens - tokens < offers->page_tokens;
}

/* The request has come to a checkpoint; `there`: it goes on from it, which it does not without snapshot. */
static void come_to(struct sel_offers_request *request, int kind, uint64_t tokens, bool there) {
    request->at_terminal = there && kind == SELENE_CHECKPOINT_TERMINAL;
    if (request->state != SEL_OFFERS_PREEMPTED)
        request->state = kind == SELENE_CHECKPOINT_TERMINAL ? SEL_OFFERS_DONE : SEL_OFFERS_RUNNING;
    if (tokens >= request->prompt_tokens)
        request->prompt_done = true;
}

static void capture(selene_offers *offers, uint32_t slot, int kind, uint64_t tokens, uint64_t *checkpoint) {
    struct sel_offers_request *request = &offers->requests[slot];
    uint32_t node = sel_offers_node_add(offers, request->at, kind, tokens);
    sel_offers_move(offers, request, node);
    *checkpoint = sel_offers_node_id(offers, node);
    if (!defers(offers, request, kind, tokens)) {
        offer(offers, node,
              kind == SELENE_CHECKPOINT_RESTORED       ? SELENE_OFFER_HELD
              : request->state == SEL_OFFERS_PREEMPTED ? SELENE_OFFER_PREEMPTED
                                                       : SELENE_OFFER_CAPTURED);
    } else {
        offers->stats.deferred++;
        offers->stats.waiting++;
        if (kind == SELENE_CHECKPOINT_MESSAGE)
            sel_offers_list_add(offers, slot, node);
    }
}

int selene_offers_captured(selene_offers *offers, uint64_t request, int kind, uint64_t tokens, int has_snapshot,
                           uint64_t *checkpoint, struct selene_offers_answer *answer) {
    uint32_t slot;
    if (checkpoint)
        *checkpoint = 0;
    int result = enter(offers, answer);
    if (!result && !checkpoint)
        result = SELENE_E_INVALID;
    if (!result)
        result = sel_offers_find_request(offers, request, &slot);
    if (result)
        return result;
    struct sel_offers_request *it = &offers->requests[slot];
    if (!can_come(offers, it, kind, tokens) || (kind == SELENE_CHECKPOINT_RESTORED && !has_snapshot))
        return SELENE_E_INVALID;
    if (has_snapshot) {
        result = sel_offers_reserve(offers, (size_t)it->deferred + 2);
        if (result)
            return result;
        capture(offers, slot, kind, tokens, checkpoint);
    } else if (kind == SELENE_CHECKPOINT_PROMPT) {
        offer_messages(offers, it, true, SELENE_OFFER_NO_SNAPSHOT);
    }
    come_to(it, kind, tokens, has_snapshot != 0);
    return leave(offers, answer);
}

int selene_offers_shared(selene_offers *offers, uint64_t request, int kind, uint64_t checkpoint,
                         struct selene_offers_answer *answer) {
    uint32_t node, slot;
    int result = enter(offers, answer);
    if (!result)
        result = sel_offers_find_request(offers, request, &slot);
    if (!result)
        result = sel_offers_find_node(offers, checkpoint, &node);
    if (result)
        return result;
    struct sel_offers_request *it = &offers->requests[slot];
    uint64_t tokens = offers->nodes[node].tokens;
    if (!can_come(offers, it, kind, tokens) || kind == SELENE_CHECKPOINT_RESTORED)
        return SELENE_E_INVALID;
    sel_offers_move(offers, it, node);
    if (!defers(offers, it, kind, tokens))
        offer_deferred(offers, node, it->state == SEL_OFFERS_PREEMPTED ? SELENE_OFFER_PREEMPTED : SELENE_OFFER_SHARED);
    come_to(it, kind, tokens, true);
    return leave(offers, answer);
}

int selene_offers_preempted(selene_offers *offers, uint64_t request, struct selene_offers_answer *answer) {
    uint32_t slot;
    int result = enter(offers, answer);
    if (!result)
        result = sel_offers_find_request(offers, request, &slot);
    if (result)
        return result;
    struct sel_offers_request *it = &offers->requests[slot];
    if (it->state == SEL_OFFERS_PREEMPTED)
        return SELENE_E_INVALID;
    if (it->state == SEL_OFFERS_DONE && it->at_terminal)
        offer_deferred(offers, it->at, SELENE_OFFER_PREEMPTED);
    it->state = SEL_OFFERS_PREEMPTED;
    return leave(offers, answer);
}

int selene_offers_end(selene_offers *offers, uint64_t request, int how, struct selene_offers_answer *answer) {
    uint32_t slot;
    int result = enter(offers, answer);
    if (!result)
        result = sel_offers_find_request(offers, request, &slot);
    if (!result && (how < SELENE_ENDED_FINISHED || how > SELENE_ENDED_FAILED))
        result = SELENE_E_INVALID;
    if (result)
        return result;
    if (how != SELENE_ENDED_FINISHED)
        offer_messages(offers, &offers->requests[slot], false, SELENE_OFFER_ENDED);
    sel_offers_request_remove(offers, slot);
    return leave(offers, answer);
}

int selene_offers_pinned(selene_offers *offers, uint64_t checkpoint) {
    uint32_t node;
    int result = offers ? sel_offers_find_node(offers, checkpoint, &node) : SELENE_E_INVALID;
    if (result)
        return result;
    if (offers->nodes[node].pins == UINT32_MAX)
        return SELENE_E_OVERFLOW;
    offers->nodes[node].pins++;
    return 0;
}

int selene_offers_unpinned(selene_offers *offers, uint64_t checkpoint) {
    uint32_t node;
    int result = offers ? sel_offers_find_node(offers, checkpoint, &node) : SELENE_E_INVALID;
    if (result)
        return result;
    if (offers->nodes[node].pins == 0)
        return SELENE_E_INVALID;
    offers->nodes[node].pins--;
    return 0;
}

int selene_offers_compacted(selene_offers *offers, uint64_t checkpoint, struct selene_offers_answer *answer) {
    uint32_t node, heir = SEL_OFFERS_NONE;
    int result = enter(offers, answer);
    if (!result)
        result = sel_offers_find_node(offers, checkpoint, &node);
    if (!result && offers->nodes[node].pins > 0)
        result = SELENE_E_RETRY;
    if (result)
        return result;
    if (is_deferred(offers, node)) {
        offers->stats.waiting--;
        offers->stats.dropped++;
        if (offers->nodes[node].owner != SEL_OFFERS_NONE)
            sel_offers_list_remove(offers, node);
    } else {
        heir = sel_offers_order_heir(offers, node);
    }
    sel_offers_node_remove(offers, node);
    if (heir != SEL_OFFERS_NONE)
        offer_deferred(offers, heir, SELENE_OFFER_HEIR);
    answer->heir = sel_offers_node_id(offers, heir);
    return leave(offers, answer);
}

int selene_offers_describe(selene_offers *offers, uint64_t checkpoint, struct selene_offer *offer) {
    uint32_t node;
    if (!offers || !offer)
        return SELENE_E_INVALID;
    *offer = (struct selene_offer){0};
    int result = sel_offers_find_node(offers, checkpoint, &node);
    if (!result)
        describe(offers, node, offer);
    return result;
}

int selene_offers_get_stats(const selene_offers *offers, struct selene_offers_stats *stats, size_t stats_bytes) {
    if (!offers || !stats || stats_bytes == 0)
        return SELENE_E_INVALID;
    memset(stats, 0, stats_bytes);
    memcpy(stats, &offers->stats, stats_bytes < sizeof *stats ? stats_bytes : sizeof *stats);
    return 0;
}
