/* SPDX-License-Identifier: Apache-2.0
 *
 * Which checkpoints are offered to the host [O1-O4], a clause a test; wrong calls. Pages of 64 tokens.
 */
#include "engine/selene_offers.h"
#include "tests/lib/test.h"

#define PAGE 64
enum { MESSAGE = SELENE_CHECKPOINT_MESSAGE, PROMPT, TERMINAL, RESTORED };

static selene_offers *offers;
static struct selene_offers_answer answer;

static int open_offers(void **state) {
    (void)state;
    return selene_offers_create(&offers, PAGE, 1);
}

static int close_offers(void **state) {
    (void)state;
    selene_offers_destroy(&offers);
    return 0;
}

static uint64_t begin(uint64_t prompt_tokens, uint64_t checkpoint) {
    uint64_t request;
    assert_ok(selene_offers_begin(offers, prompt_tokens, checkpoint, &request, &answer));
    assert_int_not_equal(request, 0);
    return request;
}

static uint64_t capture(uint64_t request, int kind, uint64_t tokens) {
    uint64_t checkpoint;
    assert_ok(selene_offers_captured(offers, request, kind, tokens, 1, &checkpoint, &answer));
    assert_int_not_equal(checkpoint, 0);
    return checkpoint;
}

static void end(uint64_t request, int how) { assert_ok(selene_offers_end(offers, request, how, &answer)); }

static void is_quiet(void) { assert_int_equal(answer.count, 0); }

static void offers_only(uint64_t checkpoint, int reason, uint64_t parent) {
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.offers[0].checkpoint, checkpoint);
    assert_int_equal(answer.offers[0].reason, reason);
    assert_int_equal(answer.offers[0].parent, parent);
}

static struct selene_offers_stats stats(void) {
    struct selene_offers_stats now;
    assert_ok(selene_offers_get_stats(offers, &now, sizeof now));
    assert_int_equal(now.deferred, now.resumed + now.offered_late + now.dropped + now.waiting);
    return now;
}

/* A turn: the prompt checkpoint is offered, a message 10 tokens before it and the terminal one are not. */
struct turn {
    uint64_t request, message, prompt, terminal;
};
static struct turn run_turn(uint64_t prompt_tokens, uint64_t from) {
    struct turn turn = {.request = begin(prompt_tokens, from)};
    turn.message = capture(turn.request, MESSAGE, prompt_tokens - 10);
    is_quiet();
    turn.prompt = capture(turn.request, PROMPT, prompt_tokens);
    assert_int_equal(answer.count, 1);
    turn.terminal = capture(turn.request, TERMINAL, prompt_tokens + 300);
    is_quiet();
    return turn;
}

/* [O1] (a) less than one page before the prompt checkpoint: deferred; a page or more: offered. */
static void o1a_a_message_less_than_a_page_before_its_prompt_is_deferred(void **state) {
    (void)state;
    uint64_t request = begin(1000, 0);
    uint64_t far = capture(request, MESSAGE, 1000 - PAGE);
    offers_only(far, SELENE_OFFER_CAPTURED, 0);
    capture(request, MESSAGE, 1000 - PAGE + 1);
    is_quiet();
    capture(request, MESSAGE, 999);
    is_quiet();
    uint64_t prompt = capture(request, PROMPT, 1000);
    offers_only(prompt, SELENE_OFFER_CAPTURED, far);
    assert_int_equal(stats().deferred, 2);
    assert_int_equal(stats().made, 2);
}

/* [O1] (b) */
static void o1b_terminal_checkpoints_are_deferred(void **state) {
    (void)state;
    struct turn turn = run_turn(1000, 0);
    end(turn.request, SELENE_ENDED_FINISHED);
    is_quiet();
    assert_int_equal(stats().deferred, 2);
    assert_int_equal(stats().waiting, 2);
    assert_int_equal(stats().captures, 3);
}

/* [O2] At begin and when it becomes known later; exactly at it, and not at what lies above or below; once. */
static void o2_a_deferred_checkpoint_is_offered_when_resumed(void **state) {
    (void)state;
    struct turn turn = run_turn(1000, 0);
    end(turn.request, SELENE_ENDED_FINISHED);
    uint64_t next = begin(1400, turn.terminal);
    offers_only(turn.terminal, SELENE_OFFER_RESUMED, turn.prompt);
    assert_int_equal(answer.offers[0].tokens, 1300);
    assert_int_equal(answer.offers[0].parent_tokens, 1000);
    end(next, SELENE_ENDED_FINISHED);

    next = begin(1400, turn.prompt);
    is_quiet();
    end(next, SELENE_ENDED_FINISHED);
    next = begin(1400, 0);
    is_quiet();
    assert_ok(selene_offers_resumed(offers, next, turn.message, &answer));
    offers_only(turn.message, SELENE_OFFER_RESUMED, 0);
    begin(1400, turn.message);
    is_quiet();
    assert_int_equal(stats().resumed, 2);
    assert_int_equal(stats().waiting, 0);
}

/* [O2] Captured before the preemption or as part of it. A finished request's is not. */
static void o2_a_preempted_requests_terminal_checkpoint_counts_as_resumed(void **state) {
    (void)state;
    struct turn turn = run_turn(1000, 0);
    assert_ok(selene_offers_preempted(offers, turn.request, &answer));
    offers_only(turn.terminal, SELENE_OFFER_PREEMPTED, turn.prompt);
    assert_int_equal(stats().resumed, 1);
    assert_ok(selene_offers_resumed(offers, turn.request, turn.terminal, &answer));
    is_quiet();

    assert_ok(selene_offers_preempted(offers, turn.request, &answer));
    is_quiet();
    uint64_t later = capture(turn.request, TERMINAL, 1500);
    offers_only(later, SELENE_OFFER_PREEMPTED, turn.terminal);
    assert_ok(selene_offers_resumed(offers, turn.request, later, &answer));
    capture(turn.request, TERMINAL, 1600);
    is_quiet();
    end(turn.request, SELENE_ENDED_FINISHED);
    is_quiet();
}

/* [O2] The terminal checkpoint and no other: when it got no snapshot, what the request went on from last stays deferred. */
static void o2_no_terminal_checkpoint_no_offer_at_preemption(void **state) {
    (void)state;
    uint64_t none, request = begin(1000, 0);
    uint64_t message = capture(request, MESSAGE, 990);
    assert_ok(selene_offers_captured(offers, request, TERMINAL, 995, 0, &none, &answer));
    assert_ok(selene_offers_preempted(offers, request, &answer));
    is_quiet();
    assert_ok(selene_offers_resumed(offers, request, message, &answer));
    offers_only(message, SELENE_OFFER_RESUMED, 0);
}

/* [O2] In mid-prefill: the rest of the prompt comes after it. */
static void o2_preempted_in_the_prompt(void **state) {
    (void)state;
    uint64_t request = begin(1000, 0);
    uint64_t half = capture(request, TERMINAL, 500);
    assert_ok(selene_offers_preempted(offers, request, &answer));
    offers_only(half, SELENE_OFFER_PREEMPTED, 0);
    assert_ok(selene_offers_resumed(offers, request, half, &answer));
    uint64_t prompt = capture(request, PROMPT, 1000);
    offers_only(prompt, SELENE_OFFER_CAPTURED, half);
}

static void ended_early(int how) {
    uint64_t request = begin(1000, 0);
    uint64_t first = capture(request, MESSAGE, 980), second = capture(request, MESSAGE, 990);
    end(request, how);
    assert_int_equal(answer.count, 2);
    assert_int_equal(answer.offers[0].checkpoint, first);
    assert_int_equal(answer.offers[0].parent, 0);
    assert_int_equal(answer.offers[1].checkpoint, second);
    assert_int_equal(answer.offers[1].parent, first);
    assert_int_equal(answer.offers[1].reason, SELENE_OFFER_ENDED);
}

/* [O2] Its messages, ancestors first; not its terminal one, and not what was offered before. */
static void o2_messages_of_a_cancelled_or_failed_request_are_offered(void **state) {
    (void)state;
    ended_early(SELENE_ENDED_CANCELLED);
    ended_early(SELENE_ENDED_FAILED);
    struct turn turn = run_turn(1000, 0);
    end(turn.request, SELENE_ENDED_FAILED);
    offers_only(turn.message, SELENE_OFFER_ENDED, 0);
    turn = run_turn(1000, 0);
    end(turn.request, SELENE_ENDED_FINISHED);
    is_quiet();
    assert_int_equal(stats().offered_late, 5);
}

/* [O2] At the moment of the failed prompt capture, while pinned. */
static void o2_messages_are_offered_when_the_prompt_got_no_snapshot(void **state) {
    (void)state;
    uint64_t none, request = begin(1000, 0);
    uint64_t loose = capture(request, MESSAGE, 980), pinned = capture(request, MESSAGE, 990);
    assert_ok(selene_offers_pinned(offers, loose));
    assert_ok(selene_offers_pinned(offers, pinned));
    assert_ok(selene_offers_unpinned(offers, loose));
    assert_ok(selene_offers_captured(offers, request, PROMPT, 1000, 0, &none, &answer));
    assert_int_equal(none, 0);
    offers_only(pinned, SELENE_OFFER_NO_SNAPSHOT, 0);
    /* The request goes on after its prompt, from the message's place. */
    assert_int_equal(selene_offers_captured(offers, request, PROMPT, 1000, 1, &none, &answer), SELENE_E_INVALID);
    capture(request, TERMINAL, 1200);
    end(request, SELENE_ENDED_FINISHED);
    assert_int_equal(stats().waiting, 2);
    /* Others that get no snapshot offer nothing. */
    request = begin(1000, 0);
    capture(request, MESSAGE, 980);
    assert_ok(selene_offers_captured(offers, request, MESSAGE, 990, 0, &none, &answer));
    is_quiet();
    assert_ok(selene_offers_captured(offers, request, TERMINAL, 1990, 0, &none, &answer));
    is_quiet();
}

/* [O3, L4] The nearest offered ancestor, and the partial page at it again. */
static void o3_the_parent_is_the_nearest_offered_ancestor_with_the_pages_since(void **state) {
    (void)state;
    struct turn one = run_turn(1000, 0);
    struct turn two = run_turn(1500, one.terminal);
    struct selene_offer offer;
    assert_ok(selene_offers_describe(offers, two.prompt, &offer));
    assert_int_equal(offer.parent, one.terminal); /* not two.message */
    assert_int_equal(offer.first_page, 1300 / PAGE);
    assert_int_equal(offer.first_page + offer.page_count, 1500 / PAGE + 1);
    assert_ok(selene_offers_describe(offers, two.terminal, &offer));
    assert_int_equal(offer.reason, SELENE_OFFER_DEFERRED);
    assert_int_equal(offer.parent, two.prompt);
    /* A whole number of pages; nothing above. */
    uint64_t request = begin(10 * PAGE, 0);
    capture(request, PROMPT, 10 * PAGE);
    assert_int_equal(answer.offers[0].first_page, 0);
    assert_int_equal(answer.offers[0].page_count, 10);
    /* One above that is offered late is nearer from then on. */
    begin(1600, two.message);
    assert_ok(selene_offers_describe(offers, two.prompt, &offer));
    assert_int_equal(offer.parent, two.message);
}

/* [O3] Restored from the host: offered, without an offer. */
static void o3_a_restored_checkpoint_is_a_parent(void **state) {
    (void)state;
    uint64_t request = begin(1000, 0);
    uint64_t restored = capture(request, RESTORED, 500);
    is_quiet();
    uint64_t prompt = capture(request, PROMPT, 1000);
    offers_only(prompt, SELENE_OFFER_CAPTURED, restored);
    assert_int_equal(stats().made, 1);
}

static void compact(uint64_t checkpoint) { assert_ok(selene_offers_compacted(offers, checkpoint, &answer)); }

/* [O3] Chains stay connected: the heir reports what the compacted one did. */
static void o3_the_heir_is_the_first_offered_descendant(void **state) {
    (void)state;
    struct turn one = run_turn(1000, 0);
    struct turn two = run_turn(1500, one.terminal);
    compact(one.terminal);
    is_quiet();
    assert_int_equal(answer.heir, two.prompt); /* past two.message, which is deferred */
    struct selene_offer offer;
    assert_ok(selene_offers_describe(offers, two.prompt, &offer));
    assert_int_equal(offer.parent, one.prompt);
    assert_int_equal(offer.first_page, 1000 / PAGE);
    compact(two.prompt); /* only a deferred leaf below */
    is_quiet();
    assert_int_equal(answer.heir, 0);
    compact(two.message); /* a deferred one has no heir */
    assert_int_equal(answer.heir, 0);
    assert_int_equal(stats().dropped, 1);
    assert_int_equal(selene_offers_compacted(offers, two.message, &answer), SELENE_E_NOTFOUND);
    assert_ok(selene_offers_describe(offers, two.terminal, &offer));
    assert_int_equal(offer.parent, one.prompt);
}

/* [O3] Two requests computed the same message; what they go on with branches off there. */
static void o3_a_deferred_branch_point_is_offered_as_the_heir(void **state) {
    (void)state;
    uint64_t first = begin(1000, 0);
    uint64_t top = capture(first, MESSAGE, 500);
    uint64_t branch = capture(first, MESSAGE, 990), prompt = capture(first, PROMPT, 1000);
    uint64_t second = begin(1010, top);
    assert_ok(selene_offers_shared(offers, second, MESSAGE, branch, &answer));
    is_quiet(); /* for the second request it is 20 tokens before its prompt */
    uint64_t other = capture(second, PROMPT, 1010);
    offers_only(other, SELENE_OFFER_CAPTURED, top);
    compact(top);
    offers_only(branch, SELENE_OFFER_HEIR, 0);
    assert_int_equal(answer.heir, branch);
    struct selene_offer offer;
    assert_ok(selene_offers_describe(offers, prompt, &offer));
    assert_int_equal(offer.parent, branch);
    assert_ok(selene_offers_describe(offers, other, &offer));
    assert_int_equal(offer.parent, branch);
}

/* [O1] Deferring is for a reason that the other request does not have. */
static void o1_a_shared_checkpoint_is_offered_for_a_request_that_would_not_defer_it(void **state) {
    (void)state;
    struct turn turn = run_turn(1000, 0);
    uint64_t other = begin(2000, 0);
    assert_ok(selene_offers_shared(offers, other, MESSAGE, turn.message, &answer));
    offers_only(turn.message, SELENE_OFFER_SHARED, 0);
    other = begin(1300, turn.prompt);
    assert_ok(selene_offers_shared(offers, other, PROMPT, turn.terminal, &answer));
    offers_only(turn.terminal, SELENE_OFFER_SHARED, turn.prompt);
}

/* A request goes on from a checkpoint whose snapshot is gone: below what is left above it. */
static void a_checkpoint_is_compacted_below_its_request(void **state) {
    (void)state;
    uint64_t request = begin(1000, 0);
    uint64_t first = capture(request, MESSAGE, 300), second = capture(request, MESSAGE, 600);
    compact(second);
    uint64_t prompt = capture(request, PROMPT, 1000);
    offers_only(prompt, SELENE_OFFER_CAPTURED, first);
    compact(first);
    assert_int_equal(answer.heir, prompt);
    assert_int_equal(stats().captures, 1);
}

/* No call order and no id does harm, and a refused call changes nothing. */
static void wrong_calls_get_errors(void **state) {
    (void)state;
    uint64_t id;
    struct turn turn = run_turn(1000, 0);
    uint64_t waiting = begin(1000, 0), running = begin(1000, 0);
    uint64_t far = capture(running, MESSAGE, 100);
    struct selene_offers_stats before = stats();

    const uint64_t strange[] = {0, 1, UINT64_MAX, far + 1, far ^ (UINT64_C(1) << 32), (uint64_t)INT64_MAX + 1};
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        assert_int_equal(selene_offers_compacted(offers, strange[i], &answer), SELENE_E_NOTFOUND);
        assert_int_equal(selene_offers_pinned(offers, strange[i]), SELENE_E_NOTFOUND);
        assert_int_equal(selene_offers_unpinned(offers, strange[i]), SELENE_E_NOTFOUND);
        assert_int_equal(selene_offers_shared(offers, running, MESSAGE, strange[i], &answer), SELENE_E_NOTFOUND);
        if (strange[i])
            assert_int_equal(selene_offers_begin(offers, 9, strange[i], &id, &answer), SELENE_E_NOTFOUND);
        assert_int_equal(selene_offers_end(offers, strange[i] ^ 77, 0, &answer), SELENE_E_NOTFOUND);
        assert_int_equal(selene_offers_preempted(offers, strange[i] ^ 77, &answer), SELENE_E_NOTFOUND);
    }
    /* Resumed twice; tokens that do not grow; kinds in the wrong place; after the end. */
    assert_int_equal(selene_offers_resumed(offers, running, turn.prompt, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_captured(offers, running, MESSAGE, 100, 1, &id, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_captured(offers, running, MESSAGE, 50, 1, &id, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_captured(offers, running, MESSAGE, 1000, 1, &id, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_captured(offers, running, PROMPT, 999, 1, &id, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_captured(offers, running, RESTORED, 999, 0, &id, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_captured(offers, running, 0, 999, 1, &id, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_captured(offers, running, 5, 999, 1, &id, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_captured(offers, waiting, MESSAGE, 0, 1, &id, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_captured(offers, turn.request, TERMINAL, 5000, 1, &id, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_shared(offers, running, RESTORED, turn.prompt, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_shared(offers, running, MESSAGE, far, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_end(offers, running, 3, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_unpinned(offers, far), SELENE_E_INVALID);
    assert_int_equal(selene_offers_begin(offers, 0, 0, &id, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_begin(offers, 9, 0, NULL, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_begin(offers, 9, 0, &id, NULL), SELENE_E_INVALID);
    assert_int_equal(selene_offers_begin(NULL, 9, 0, &id, &answer), SELENE_E_INVALID);
    struct selene_offers_stats after = stats();
    assert_memory_equal(&before, &after, sizeof before);

    assert_ok(selene_offers_pinned(offers, far));
    assert_int_equal(selene_offers_compacted(offers, far, &answer), SELENE_E_RETRY);
    assert_ok(selene_offers_preempted(offers, running, &answer));
    assert_int_equal(selene_offers_preempted(offers, running, &answer), SELENE_E_INVALID);
    assert_int_equal(selene_offers_captured(offers, running, MESSAGE, 500, 1, &id, &answer), SELENE_E_INVALID);
    end(running, SELENE_ENDED_FINISHED);
    assert_int_equal(selene_offers_end(offers, running, 0, &answer), SELENE_E_NOTFOUND);
    assert_int_equal(selene_offers_resumed(offers, running, 0, &answer), SELENE_E_NOTFOUND);
}

static void create_refuses_bad_pages(void **state) {
    (void)state;
    selene_offers *none = offers;
    assert_int_equal(selene_offers_create(&none, 0, 1), SELENE_E_INVALID);
    assert_null(none);
    assert_int_equal(selene_offers_create(&none, SELENE_PAGE_TOKENS_MAX + 1, 1), SELENE_E_INVALID);
    assert_int_equal(selene_offers_create(NULL, 1, 1), SELENE_E_INVALID);
    selene_offers_destroy(&none);
    selene_offers_destroy(NULL);
}

/* Tokens near 2^64 do not overflow. */
static void huge_token_counts(void **state) {
    (void)state;
    uint64_t request = begin(UINT64_MAX, 0);
    capture(request, MESSAGE, UINT64_MAX - 1);
    is_quiet();
    uint64_t prompt = capture(request, PROMPT, UINT64_MAX);
    offers_only(prompt, SELENE_OFFER_CAPTURED, 0);
    assert_int_equal(answer.offers[0].page_count, UINT64_MAX / PAGE + 1);
}

/* 100,000 captures in chains of deferred ones, the shape that walking from child to parent would be quadratic in; then
 * every other is compacted, from the bottom. Memory follows what is held: ids of what was compacted find nothing. */
static void long_chains_of_deferred_checkpoints(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    uint64_t *ids = malloc(COUNT * sizeof *ids), request;
    assert_non_null(ids);
    selene_offers_destroy(&offers);
    assert_ok(selene_offers_create(&offers, SELENE_PAGE_TOKENS_MAX, 1));
    for (uint64_t i = 0; i < COUNT; i++) {
        if (i % 50000 == 0)
            assert_ok(selene_offers_begin(offers, i + 50001, i ? ids[i - 1] : 0, &request, &answer));
        assert_ok(selene_offers_captured(offers, request, MESSAGE, i + 1, 1, &ids[i], &answer));
        assert_int_equal(answer.count, 0);
    }
    for (uint64_t i = COUNT; i > 0; i -= 1000) {
        assert_ok(selene_offers_begin(offers, COUNT + 1, ids[i - 1], &request, &answer));
        assert_int_equal(answer.count, i == 50000 ? 0 : 1); /* resumed before */
        assert_ok(selene_offers_end(offers, request, SELENE_ENDED_FINISHED, &answer));
    }
    for (uint64_t i = COUNT - 1; i > 1; i -= 2) {
        assert_ok(selene_offers_compacted(offers, ids[i], &answer));
        assert_int_equal(selene_offers_pinned(offers, ids[i]), SELENE_E_NOTFOUND);
    }
    assert_int_equal(stats().captures, COUNT / 2 + 1);
    free(ids);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_offers, close_offers)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(o1a_a_message_less_than_a_page_before_its_prompt_is_deferred),
        TEST(o1b_terminal_checkpoints_are_deferred),
        TEST(o1_a_shared_checkpoint_is_offered_for_a_request_that_would_not_defer_it),
        TEST(o2_a_deferred_checkpoint_is_offered_when_resumed),
        TEST(o2_a_preempted_requests_terminal_checkpoint_counts_as_resumed),
        TEST(o2_no_terminal_checkpoint_no_offer_at_preemption),
        TEST(o2_preempted_in_the_prompt),
        TEST(o2_messages_of_a_cancelled_or_failed_request_are_offered),
        TEST(o2_messages_are_offered_when_the_prompt_got_no_snapshot),
        TEST(o3_the_parent_is_the_nearest_offered_ancestor_with_the_pages_since),
        TEST(o3_a_restored_checkpoint_is_a_parent),
        TEST(o3_the_heir_is_the_first_offered_descendant),
        TEST(o3_a_deferred_branch_point_is_offered_as_the_heir),
        TEST(a_checkpoint_is_compacted_below_its_request),
        TEST(wrong_calls_get_errors),
        TEST(create_refuses_bad_pages),
        TEST(huge_token_counts),
        TEST(long_chains_of_deferred_checkpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
