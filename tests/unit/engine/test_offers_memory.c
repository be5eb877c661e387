/* SPDX-License-Identifier: Apache-2.0
 *
 * Offers without memory: a call that finds none changes nothing and can be made again. Ids are never given twice.
 */
#include "base/random.h"
#include "engine/offers_priv.h"
#include "tests/lib/test.h"

#define PAGE 64

/* The linker sends the allocations of this program here (--wrap). */
static uint64_t allocations_left = UINT64_MAX; /* until one fails, once */
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_reallocarray(void *memory, size_t count, size_t bytes);
void *__wrap_reallocarray(void *memory, size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes) { return allocations_left-- > 0 ? __real_calloc(count, bytes) : NULL; }
void *__wrap_reallocarray(void *memory, size_t count, size_t bytes) {
    return allocations_left-- > 0 ? __real_reallocarray(memory, count, bytes) : NULL;
}

/* A set of offers that allocations fail, and one that they do not. */
static selene_offers *poor, *rich;
static uint64_t refused;

static void alike(const struct selene_offers_answer *one, const struct selene_offers_answer *other) {
    assert_int_equal(one->count, other->count);
    assert_int_equal(one->heir, other->heir);
    for (size_t i = 0; i < one->count; i++) /* without what pads them at the end */
        assert_memory_equal(&one->offers[i], &other->offers[i], offsetof(struct selene_offer, reason) + sizeof(int));
}

static bool was_refused(int result, const struct selene_offers_stats *before, uint64_t id,
                        const struct selene_offers_answer *answer) {
    struct selene_offers_stats after;
    allocations_left = UINT64_MAX;
    assert_ok(selene_offers_get_stats(poor, &after, sizeof after));
    if (result == 0)
        return false;
    assert_int_equal(result, SELENE_E_NOMEM);
    assert_int_equal(id, 0);
    assert_int_equal(answer->count, 0);
    assert_memory_equal(before, &after, sizeof after);
    refused++;
    return true;
}

static uint64_t begin(uint64_t prompt_tokens) {
    struct selene_offers_answer answer, other;
    struct selene_offers_stats before;
    uint64_t request, same;
    bool again = true;
    assert_ok(selene_offers_get_stats(poor, &before, sizeof before));
    for (uint64_t n = 0; again; n++) {
        allocations_left = n;
        int result = selene_offers_begin(poor, prompt_tokens, 0, &request, &answer);
        again = was_refused(result, &before, request, &answer);
    }
    assert_ok(selene_offers_begin(rich, prompt_tokens, 0, &same, &other));
    assert_int_equal(request, same);
    alike(&answer, &other);
    return request;
}

static uint64_t capture(uint64_t request, uint64_t tokens) {
    struct selene_offers_answer answer, other;
    struct selene_offers_stats before;
    uint64_t checkpoint, same;
    bool again = true;
    assert_ok(selene_offers_get_stats(poor, &before, sizeof before));
    for (uint64_t n = 0; again; n++) {
        allocations_left = n;
        int result = selene_offers_captured(poor, request, SELENE_CHECKPOINT_MESSAGE, tokens, 1, &checkpoint, &answer);
        again = was_refused(result, &before, checkpoint, &answer);
    }
    assert_ok(selene_offers_captured(rich, request, SELENE_CHECKPOINT_MESSAGE, tokens, 1, &same, &other));
    assert_int_equal(checkpoint, same);
    alike(&answer, &other);
    return checkpoint;
}

/* Every allocation of every call fails once; requests, checkpoints and answers grow several times. Ending needs none. */
static void calls_without_memory_change_nothing(void **state) {
    (void)state;
    enum { REQUESTS = 70, CAPTURES = 40 };
    struct selene_offers_answer answer, other;
    uint64_t requests[REQUESTS];
    int result = SELENE_E_NOMEM;
    for (uint64_t n = 0; result != 0; n++) {
        allocations_left = n;
        result = selene_offers_create(&poor, PAGE, 1);
        assert_int_equal(poor != NULL, result == 0);
        assert_true(n < 20 && (result == 0 || result == SELENE_E_NOMEM));
    }
    allocations_left = UINT64_MAX;
    assert_ok(selene_offers_create(&rich, PAGE, 1));
    for (int i = 0; i < REQUESTS; i++)
        requests[i] = begin(100);
    for (uint64_t i = 0; i < CAPTURES; i++)
        for (int r = 0; r < REQUESTS; r += 23)
            capture(requests[r], 50 + i);
    assert_true(refused >= 7); /* requests twice; nodes, brackets; answers */
    allocations_left = 0;
    for (int i = 0; i < REQUESTS; i++) {
        assert_ok(selene_offers_end(poor, requests[i], SELENE_ENDED_FAILED, &answer));
        assert_int_equal(answer.count, i % 23 ? 0 : CAPTURES);
        assert_ok(selene_offers_end(rich, requests[i], SELENE_ENDED_FAILED, &other));
        alike(&answer, &other);
    }
    allocations_left = UINT64_MAX;
    selene_offers_destroy(&poor);
    selene_offers_destroy(&rich);
}

/* A place whose numbers are used up is not used again. 2^31 captures in the same place are a month of a busy engine. */
static void old_ids_are_never_used_again(void **state) {
    (void)state;
    struct selene_offers_answer answer;
    selene_offers *offers;
    uint64_t requests[3], checkpoints[3];
    assert_ok(selene_offers_create(&offers, PAGE, 1));
    for (int i = 0; i < 3; i++) {
        assert_ok(selene_offers_begin(offers, 100, 0, &requests[i], &answer));
        assert_ok(
            selene_offers_captured(offers, requests[i], SELENE_CHECKPOINT_MESSAGE, 50, 1, &checkpoints[i], &answer));
        uint32_t slot = (uint32_t)requests[i], node = (uint32_t)checkpoints[i];
        assert_ok(selene_offers_end(offers, requests[i], SELENE_ENDED_FINISHED, &answer));
        assert_ok(selene_offers_compacted(offers, checkpoints[i], &answer));
        if (i == 0) { /* as after very many more */
            offers->requests[slot].generation = UINT32_MAX - 1;
            offers->nodes[node].generation = UINT32_MAX - 1;
        }
    }
    assert_int_equal(requests[1] >> 32, UINT32_MAX);
    assert_int_equal(checkpoints[1] >> 32, UINT32_MAX);
    assert_int_not_equal(requests[0], requests[2]);
    assert_int_not_equal(checkpoints[0], checkpoints[2]);
    assert_int_equal(selene_offers_pinned(offers, checkpoints[0]), SELENE_E_NOTFOUND);
    selene_offers_destroy(&offers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_without_memory_change_nothing),
        cmocka_unit_test(old_ids_are_never_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
