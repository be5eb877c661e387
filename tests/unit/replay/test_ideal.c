/* SPDX-License-Identifier: Apache-2.0
 *
 * The ideal against brute force: every published sequence compared token by token.
 */
#include "tests/lib/test.h"

#include "tools/replay/ideal.h"

#define REQUESTS 60
#define TOKENS   200

struct random_workload {
    struct workload base;
    uint32_t tokens[REQUESTS][TOKENS];
};

static void random_expand(const struct workload *workload, size_t index, uint32_t *tokens) {
    const struct random_workload *mine = (const struct random_workload *)workload;
    const struct workload_request *request = &workload->requests[index];
    memcpy(tokens, mine->tokens[index], (request->prompt_tokens + request->reply_tokens) * sizeof *tokens);
}

static const struct workload_ops random_ops = {random_expand, NULL};

/* Most requests continue an earlier one up to a random place, so that matches end anywhere. */
static void random_make(struct random_workload *mine, uint64_t seed) {
    uint64_t random = seed;
    mine->base = (struct workload){.ops = &random_ops, .count = REQUESTS, .tokens_max = TOKENS};
    mine->base.requests = calloc(REQUESTS, sizeof *mine->base.requests);
    assert_non_null(mine->base.requests);
    for (size_t i = 0; i < REQUESTS; i++) {
        uint32_t all = mix_between(&random, 1, TOKENS), reply = mix_between(&random, 0, all - 1), same = 0;
        if (reply > 20)
            reply = 0;
        if (i > 0) {
            same = mix_between(&random, 0, TOKENS);
            memcpy(mine->tokens[i], mine->tokens[mix_between(&random, 0, (uint32_t)i - 1)], same * sizeof(uint32_t));
        }
        for (uint32_t t = same; t < TOKENS; t++)
            mine->tokens[i][t] = mix_between(&random, 0, 3);
        struct workload_request *request = &mine->base.requests[i];
        uint32_t prompt = all - reply;
        *request = (struct workload_request){.prompt_tokens = prompt, .reply_tokens = reply};
        assert_ok(workload_checkpoint_add(&mine->base, request, CHECKPOINT_PROMPT,
                                          mix_between(&random, 0, 3) ? prompt : prompt / 8 * 8));
        assert_ok(workload_checkpoint_add(&mine->base, request, CHECKPOINT_TERMINAL, reply ? all : 0));
    }
}

static uint32_t common(const uint32_t *a, const uint32_t *b, uint32_t most) {
    uint32_t same = 0;
    while (same < most && a[same] == b[same])
        same++;
    return same;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* The best that request `index` can resume at, from what request `from` published up to `end` tokens. */
static uint32_t usable(const struct random_workload *mine, size_t index, size_t from, uint32_t end, uint32_t page,
                       bool has_rows) {
    uint32_t limit = mine->base.requests[index].prompt_tokens - 1;
    uint32_t same = common(mine->tokens[index], mine->tokens[from], least(end, limit));
    return has_rows ? (same == end ? end : 0) : least(same, end / page * page) / page * page;
}

static uint32_t brute_force(const struct random_workload *mine, size_t index, uint32_t page, bool has_rows) {
    uint32_t best = 0;
    for (size_t from = 0; from < index; from++) {
        const struct workload_request *request = &mine->base.requests[from];
        const struct checkpoint *checkpoints = workload_checkpoints(&mine->base, request);
        for (uint32_t i = 0; i < request->checkpoint_count; i++) {
            uint32_t hit = usable(mine, index, from, checkpoints[i].tokens, page, has_rows);
            best = hit > best ? hit : best;
        }
    }
    return best;
}

static void ideal_is_what_brute_force_finds(void **state) {
    (void)state;
    static struct random_workload mine;
    uint32_t hits[REQUESTS], some = 0;
    for (uint64_t seed = 0; seed < test_count("SELENE_TEST_SEEDS", 100); seed++) {
        random_make(&mine, seed);
        for (uint32_t page = 1; page <= 16; page *= 4)
            for (int has_rows = 0; has_rows < 2; has_rows++) {
                assert_ok(ideal_play(&mine.base, page, has_rows, hits, NULL, NULL));
                for (size_t i = 0; i < REQUESTS; i++) {
                    assert_int_equal(hits[i], brute_force(&mine, i, page, has_rows));
                    some += hits[i] > 0;
                }
            }
        workload_base_free(&mine.base);
    }
    assert_true(some > 1000);
}

static void many_checkpoints_are_kept(void **state) {
    (void)state;
    struct ideal *ideal;
    uint64_t hash[2];
    assert_ok(ideal_create(&ideal, 1, true, 1));
    for (uint64_t i = 0; i < 100000; i++) {
        hash[0] = 0, hash[1] = mix64(i);
        assert_ok(ideal_publish(ideal, hash, 1));
    }
    for (uint64_t i = 0; i < 200000; i++) {
        hash[0] = 0, hash[1] = mix64(i);
        assert_int_equal(ideal_lookup(ideal, hash, 1), i < 100000);
    }
    assert_ok(ideal_publish(ideal, hash, 0));
    assert_int_equal(ideal_lookup(ideal, hash, 0), 0);
    ideal_destroy(&ideal);
    ideal_destroy(&ideal);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ideal_is_what_brute_force_finds),
        cmocka_unit_test(many_checkpoints_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
