/* SPDX-License-Identifier: Apache-2.0
 *
 * Random calls, right and wrong ones, on two sets of offers, one that defers and one that does not, beside a naive model:
 * the tree as it was captured, compacted checkpoints included, and every question answered by walking it [O1-O3]. What the
 * two answer is the same but for the offers [O4].
 */
#include "base/random.h"
#include "engine/selene_offers.h"
#include "tests/lib/test.h"

#include <stdbool.h>

#define PAGE         16
#define NODES_MAX    400
#define REQUESTS_MAX 8
#define ANSWERS_MAX  64
enum { MESSAGE = SELENE_CHECKPOINT_MESSAGE, PROMPT, TERMINAL, RESTORED };
enum { FREE, WAITING, RUNNING, DONE, PREEMPTED };

struct node {
    uint64_t id, tokens;
    int parent; /* as captured; -1: none */
    bool alive;
    int kind, reason, pins, owner;
};
struct request {
    uint64_t id, prompt_tokens;
    int state, at; /* at: -1 is the top */
    bool prompt_done;
    int terminal; /* its terminal checkpoint; -1: none, or it got no snapshot */
};

static struct {
    selene_offers *deferring, *plain;
    struct sel_random random;
    struct node nodes[NODES_MAX];
    int node_count;
    struct request requests[REQUESTS_MAX];
    struct selene_offers_stats stats;
    struct selene_offer expected[ANSWERS_MAX]; /* of the call that runs */
    size_t expected_count;
    uint64_t expected_heir;
} m;

static uint64_t reasons_seen[SELENE_OFFER_HELD + 1];

static uint64_t below(uint64_t bound) { return sel_random_below(&m.random, bound); }

/* ---- the rules, by walking ---- */

static bool is_offered(int node) { return m.nodes[node].alive && m.nodes[node].reason != SELENE_OFFER_DEFERRED; }
static bool is_deferred(int node) { return m.nodes[node].alive && m.nodes[node].reason == SELENE_OFFER_DEFERRED; }

static int live_parent(int node) {
    for (node = m.nodes[node].parent; node >= 0 && !m.nodes[node].alive;)
        node = m.nodes[node].parent;
    return node;
}

static int offered_parent(int node) {
    for (node = m.nodes[node].parent; node >= 0 && !is_offered(node);)
        node = m.nodes[node].parent;
    return node;
}

static int live_children(int node) {
    int count = 0;
    for (int i = 0; i < m.node_count; i++)
        count += m.nodes[i].alive && live_parent(i) == node;
    return count;
}

/* The first in preorder below `node` that is offered, or deferred and a branch point. */
static int heir_of(int node) {
    for (int i = node + 1; i < m.node_count; i++) {
        if (m.nodes[i].parent != node)
            continue;
        if (is_offered(i) || (is_deferred(i) && live_children(i) >= 2))
            return i;
        int below_it = heir_of(i);
        if (below_it >= 0)
            return below_it;
    }
    return -1;
}

static struct selene_offer describe(int node) {
    int parent = offered_parent(node);
    const struct node *it = &m.nodes[node];
    struct selene_offer offer = {.checkpoint = it->id, .tokens = it->tokens, .reason = it->reason};
    if (parent >= 0) {
        offer.parent = m.nodes[parent].id;
        offer.parent_tokens = m.nodes[parent].tokens;
    }
    offer.first_page = offer.parent_tokens / PAGE;
    offer.page_count = (it->tokens + PAGE - 1) / PAGE - offer.first_page;
    return offer;
}

static void offer(int node, int reason) {
    m.nodes[node].reason = reason;
    reasons_seen[reason]++;
    m.stats.made++;
    m.expected[m.expected_count++] = describe(node);
}

static void offer_deferred(int node, int reason) {
    if (node < 0 || !is_deferred(node))
        return;
    m.stats.waiting--;
    if (reason == SELENE_OFFER_RESUMED || reason == SELENE_OFFER_PREEMPTED)
        m.stats.resumed++;
    else
        m.stats.offered_late++;
    offer(node, reason);
}

static void offer_messages(int request, bool pinned, int reason) {
    for (int i = 0; i < m.node_count; i++)
        if (m.nodes[i].owner == request && m.nodes[i].kind == MESSAGE && (!pinned || m.nodes[i].pins > 0))
            offer_deferred(i, reason);
}

static bool can_come(const struct request *request, int kind, uint64_t tokens) {
    uint64_t at = request->at < 0 ? 0 : m.nodes[request->at].tokens;
    if (request->state == DONE || tokens <= at || (request->state == PREEMPTED && kind != TERMINAL))
        return false;
    if (kind == MESSAGE || kind == PROMPT)
        return !request->prompt_done &&
               (kind == PROMPT ? tokens == request->prompt_tokens : tokens < request->prompt_tokens);
    return kind == TERMINAL || kind == RESTORED;
}

static bool defers(const struct request *request, int kind, uint64_t tokens) {
    return (kind == TERMINAL && request->state != PREEMPTED) ||
           (kind == MESSAGE && request->prompt_tokens - tokens < PAGE);
}

static void come_to(struct request *request, int kind, uint64_t tokens, int node) {
    request->terminal = kind == TERMINAL ? node : -1;
    if (request->state != PREEMPTED)
        request->state = kind == TERMINAL ? DONE : RUNNING;
    request->prompt_done |= tokens >= request->prompt_tokens;
}

static void resume(struct request *request, int node) {
    request->at = node;
    request->state = RUNNING;
    request->prompt_done = node >= 0 && m.nodes[node].tokens >= request->prompt_tokens;
    offer_deferred(node, SELENE_OFFER_RESUMED);
}

/* ---- picking arguments; -1: an id that is not known ---- */

static int pick_node(uint64_t *id) {
    int node = m.node_count > 0 && below(20) ? (int)below((uint64_t)m.node_count) : -1;
    /* Mostly recent ones that are alive. */
    for (int tries = 0; tries < 6 && node >= 0 && (!m.nodes[node].alive || below(3) == 0); tries++)
        node = m.node_count - 1 - (int)below((uint64_t)(m.node_count < 30 ? m.node_count : 30));
    *id = node < 0 ? sel_random_u64(&m.random) >> below(64) : m.nodes[node].id;
    if (node < 0 || !m.nodes[node].alive) {
        for (node = 0; node < m.node_count; node++) /* a wild guess can be right */
            if (m.nodes[node].alive && m.nodes[node].id == *id)
                return node;
        return -1;
    }
    return node;
}

static int pick_request(uint64_t *id) {
    int request = (int)below(REQUESTS_MAX);
    *id = m.requests[request].id;
    if (below(40) == 0)
        *id ^= UINT64_C(1) << below(64);
    for (request = 0; request < REQUESTS_MAX; request++)
        if (m.requests[request].state != FREE && m.requests[request].id == *id)
            return request;
    return -1;
}

/* ---- comparing ---- */

static void compare_offer(const struct selene_offer *offer, const struct selene_offer *expected) {
    assert_int_equal(offer->checkpoint, expected->checkpoint);
    assert_int_equal(offer->tokens, expected->tokens);
    assert_int_equal(offer->parent, expected->parent);
    assert_int_equal(offer->parent_tokens, expected->parent_tokens);
    assert_int_equal(offer->first_page, expected->first_page);
    assert_int_equal(offer->page_count, expected->page_count);
    assert_int_equal(offer->reason, expected->reason);
}

static void compare(int expected, int deferring, int plain, const struct selene_offers_answer *answer) {
    assert_int_equal(deferring, expected);
    assert_int_equal(plain, expected);
    assert_int_equal(answer->count, expected ? 0 : m.expected_count);
    for (size_t i = 0; i < answer->count; i++)
        compare_offer(&answer->offers[i], &m.expected[i]);
    assert_int_equal(answer->heir, expected ? 0 : m.expected_heir);
}

#define ON_BOTH(expected, function, ...)                                                                               \
    do {                                                                                                               \
        struct selene_offers_answer answer_, plain_;                                                                   \
        int first_ = function(m.deferring, __VA_ARGS__, &answer_), second_ = function(m.plain, __VA_ARGS__, &plain_);  \
        compare(expected, first_, second_, &answer_);                                                                  \
    } while (0)

/* ---- steps ---- */

/* The slot that it took, or -1. */
static int do_begin(uint64_t prompt, uint64_t id, int node) {
    uint64_t first, second;
    int slot = 0;
    struct selene_offers_answer answer, plain;
    for (; slot < REQUESTS_MAX && m.requests[slot].state != FREE; slot++)
        ;
    if (slot == REQUESTS_MAX)
        return -1;
    int expected = prompt == 0 ? SELENE_E_INVALID : id && node < 0 ? SELENE_E_NOTFOUND : 0;
    if (!expected) {
        m.requests[slot] = (struct request){.prompt_tokens = prompt, .state = WAITING, .at = -1};
        m.stats.requests++;
        if (node >= 0)
            resume(&m.requests[slot], node);
    }
    compare(expected, selene_offers_begin(m.deferring, prompt, id, &first, &answer),
            selene_offers_begin(m.plain, prompt, id, &second, &plain), &answer);
    assert_int_equal(first, second);
    m.requests[slot].id = first;
    return expected ? -1 : slot;
}

static void step_begin(void) {
    uint64_t id = 0;
    int node = below(3) ? pick_node(&id) : -1;
    do_begin((node >= 0 ? m.nodes[node].tokens : 0) + below(below(2) ? PAGE : 4 * PAGE), id, node);
}

static void step_resumed(void) {
    uint64_t id, checkpoint = 0;
    int request = pick_request(&id), node = below(4) ? pick_node(&checkpoint) : -1;
    int expected = request < 0 || (checkpoint && node < 0) ? SELENE_E_NOTFOUND : 0;
    if (!expected && m.requests[request].state != WAITING && m.requests[request].state != PREEMPTED)
        expected = SELENE_E_INVALID;
    if (!expected)
        resume(&m.requests[request], node);
    ON_BOTH(expected, selene_offers_resumed, id, checkpoint);
}

/* Mostly what an engine would do: forward by less than a page or by some. */
static uint64_t pick_tokens(int request, int *kind) {
    const struct request *it = &m.requests[request < 0 ? 0 : request];
    uint64_t at = it->at < 0 ? 0 : m.nodes[it->at].tokens;
    *kind = below(12) ? MESSAGE + (int)(below(5) / 2) : (int)below(6);
    if (*kind == PROMPT && below(8))
        return it->prompt_tokens;
    if (*kind == MESSAGE && it->prompt_tokens > at + 1 && below(8))
        return at + 1 + below(it->prompt_tokens - at - 1);
    return at + below(2 * PAGE);
}

static void model_capture(int request, int kind, uint64_t tokens) {
    struct request *it = &m.requests[request];
    int node = m.node_count++;
    m.nodes[node] = (struct node){.tokens = tokens, .parent = it->at, .alive = true, .kind = kind, .owner = -1};
    it->at = node;
    m.stats.captures++;
}

/* After the real call has given the id. */
static void model_decide(int request, int kind, uint64_t tokens) {
    struct request *it = &m.requests[request];
    int node = it->at;
    if (kind == RESTORED) {
        m.nodes[node].reason = SELENE_OFFER_HELD;
    } else if (defers(it, kind, tokens)) {
        m.stats.deferred++;
        m.stats.waiting++;
        m.nodes[node].owner = request;
    } else {
        offer(node, it->state == PREEMPTED ? SELENE_OFFER_PREEMPTED : SELENE_OFFER_CAPTURED);
    }
}

static void step_captured(void) {
    uint64_t id, first, second;
    int kind, request = pick_request(&id);
    uint64_t tokens = pick_tokens(request, &kind);
    bool snapshot = below(6) != 0;
    struct selene_offers_answer answer, plain;
    if (m.node_count == NODES_MAX)
        return;
    int expected = request < 0 ? SELENE_E_NOTFOUND : 0;
    if (!expected && (!can_come(&m.requests[request], kind, tokens) || (kind == RESTORED && !snapshot)))
        expected = SELENE_E_INVALID;
    if (!expected && snapshot)
        model_capture(request, kind, tokens);
    int result = selene_offers_captured(m.deferring, id, kind, tokens, snapshot, &first, &answer);
    if (!expected && snapshot) {
        m.nodes[m.requests[request].at].id = first;
        model_decide(request, kind, tokens);
    } else if (!expected && kind == PROMPT) {
        offer_messages(request, true, SELENE_OFFER_NO_SNAPSHOT);
    }
    if (!expected)
        come_to(&m.requests[request], kind, tokens, snapshot ? m.requests[request].at : -1);
    compare(expected, result, selene_offers_captured(m.plain, id, kind, tokens, snapshot, &second, &plain), &answer);
    assert_int_equal(first, second);
    assert_int_equal(first != 0, !expected && snapshot);
}

static void do_shared(uint64_t id, int request, int kind, uint64_t checkpoint, int node) {
    struct request *it = &m.requests[request < 0 ? 0 : request];
    int expected = request < 0 || node < 0 ? SELENE_E_NOTFOUND : 0;
    if (!expected && (!can_come(it, kind, m.nodes[node].tokens) || kind == RESTORED))
        expected = SELENE_E_INVALID;
    if (!expected) {
        it->at = node;
        if (!defers(it, kind, m.nodes[node].tokens))
            offer_deferred(node, it->state == PREEMPTED ? SELENE_OFFER_PREEMPTED : SELENE_OFFER_SHARED);
        come_to(it, kind, m.nodes[node].tokens, node);
    }
    ON_BOTH(expected, selene_offers_shared, id, kind, checkpoint);
}

static void step_shared(void) {
    uint64_t id, checkpoint;
    int request = pick_request(&id), node = pick_node(&checkpoint), kind = below(4) ? MESSAGE : (int)below(6);
    struct request *it = &m.requests[request < 0 ? 0 : request];
    for (int tries = 0; tries < 8 && node >= 0 && !can_come(it, kind, m.nodes[node].tokens); tries++)
        node = pick_node(&checkpoint);
    do_shared(id, request, kind, checkpoint, node);
}

/* Another request computes what ends at a deferred message again, which becomes a branch point when either goes on. */
static void step_branch(void) {
    uint64_t id;
    int node = pick_node(&id);
    for (int tries = 0; tries < 20 && node >= 0 && (!is_deferred(node) || m.nodes[node].kind != MESSAGE); tries++)
        node = pick_node(&id);
    if (node < 0)
        return;
    int from = offered_parent(node);
    int request = do_begin(m.nodes[node].tokens + 1 + below(PAGE), from < 0 ? 0 : m.nodes[from].id, from);
    if (request < 0)
        return;
    m.expected_count = 0;
    do_shared(m.requests[request].id, request, MESSAGE, id, node);
}

static void step_preempted(void) {
    uint64_t id;
    int request = pick_request(&id);
    if (request >= 0 && m.requests[request].state == RUNNING && below(4))
        return;
    int expected = request < 0 ? SELENE_E_NOTFOUND : m.requests[request].state == PREEMPTED ? SELENE_E_INVALID : 0;
    if (!expected) {
        if (m.requests[request].state == DONE)
            offer_deferred(m.requests[request].terminal, SELENE_OFFER_PREEMPTED);
        m.requests[request].state = PREEMPTED;
    }
    ON_BOTH(expected, selene_offers_preempted, id);
}

static void step_end(void) {
    uint64_t id;
    int request = pick_request(&id), how = (int)below(4);
    int expected = request < 0 ? SELENE_E_NOTFOUND : how > 2 ? SELENE_E_INVALID : 0;
    if (!expected) {
        if (how != SELENE_ENDED_FINISHED)
            offer_messages(request, false, SELENE_OFFER_ENDED);
        for (int i = 0; i < m.node_count; i++)
            if (m.nodes[i].owner == request)
                m.nodes[i].owner = -1;
        m.requests[request].state = FREE;
        m.stats.requests--;
    }
    ON_BOTH(expected, selene_offers_end, id, how);
}

static void step_pin(void) {
    uint64_t id;
    int node = pick_node(&id);
    bool unpin = below(3) == 0;
    int expected = node < 0 ? SELENE_E_NOTFOUND : unpin && m.nodes[node].pins == 0 ? SELENE_E_INVALID : 0;
    int (*call)(selene_offers *, uint64_t) = unpin ? selene_offers_unpinned : selene_offers_pinned;
    assert_int_equal(call(m.deferring, id), expected);
    assert_int_equal(call(m.plain, id), expected);
    if (!expected)
        m.nodes[node].pins += unpin ? -1 : 1;
}

/* The other set has offered all, so its heirs are others: only what it returns is compared. */
static void step_compacted(void) {
    uint64_t id;
    int node = pick_node(&id), heir = -1;
    for (int i = below(3) ? -1 : m.node_count - 1; i >= 0; i--) /* now and then what has a deferred heir */
        if (is_offered(i) && m.nodes[i].pins == 0 && (heir = heir_of(i)) >= 0 && is_deferred(heir)) {
            node = i;
            id = m.nodes[i].id;
            break;
        }
    heir = -1;
    int expected = node < 0 ? SELENE_E_NOTFOUND : m.nodes[node].pins > 0 ? SELENE_E_RETRY : 0;
    if (!expected) {
        if (is_deferred(node)) {
            m.stats.waiting--;
            m.stats.dropped++;
        } else {
            heir = heir_of(node);
        }
        m.nodes[node].alive = false;
        m.stats.captures--;
        offer_deferred(heir, SELENE_OFFER_HEIR);
        m.expected_heir = heir < 0 ? 0 : m.nodes[heir].id;
    }
    ON_BOTH(expected, selene_offers_compacted, id);
}

static void step_describe(void) {
    struct selene_offer offer, expected = {0};
    uint64_t id;
    int node = pick_node(&id);
    if (node >= 0)
        expected = describe(node);
    assert_int_equal(selene_offers_describe(m.deferring, id, &offer), node < 0 ? SELENE_E_NOTFOUND : 0);
    compare_offer(&offer, &expected);
}

static void compare_stats(void) {
    struct selene_offers_stats now, plain;
    assert_ok(selene_offers_get_stats(m.deferring, &now, sizeof now));
    assert_ok(selene_offers_get_stats(m.plain, &plain, sizeof plain));
    assert_memory_equal(&now, &m.stats, sizeof now);
    assert_int_equal(plain.captures, now.captures);
    assert_int_equal(plain.requests, now.requests);
    assert_int_equal(plain.deferred + plain.waiting + plain.dropped, 0);
    assert_int_equal(plain.made, now.made + now.waiting + now.dropped);
}

static void run_seed(uint64_t seed) {
    void (*const steps[])(void) = {step_begin,    step_resumed,  step_resumed,   step_resumed, step_captured,
                                   step_captured, step_captured, step_captured,  step_branch,  step_branch,
                                   step_shared,   step_shared,   step_preempted, step_end,     step_pin,
                                   step_pin,      step_pin,      step_compacted, step_describe};
    memset(&m, 0, sizeof m);
    sel_random_seed(&m.random, seed);
    for (int i = 0; i < REQUESTS_MAX; i++)
        m.requests[i].id = (uint64_t)i;
    assert_ok(selene_offers_create(&m.deferring, PAGE, 1));
    assert_ok(selene_offers_create(&m.plain, PAGE, 0));
    for (int i = 0; i < 3000 && m.node_count < NODES_MAX; i++) {
        m.expected_count = 0;
        m.expected_heir = 0;
        steps[below(sizeof steps / sizeof steps[0])]();
        compare_stats();
    }
    selene_offers_destroy(&m.deferring);
    selene_offers_destroy(&m.plain);
}

/* [O1-O4] */
static void random_calls_agree_with_the_model(void **state) {
    (void)state;
    uint64_t seeds = test_count("SELENE_TEST_SEEDS", 300);
    for (uint64_t seed = 1; seed <= seeds; seed++)
        run_seed(seed);
    for (int reason = SELENE_OFFER_CAPTURED; reason < SELENE_OFFER_HELD; reason++)
        assert_true(seeds < 100 || reasons_seen[reason] >= seeds / 4); /* or this test shows nothing of it */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
