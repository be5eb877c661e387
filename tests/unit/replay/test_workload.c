/* SPDX-License-Identifier: Apache-2.0
 *
 * Workloads: what block ids become, and that the generated one is what it says.
 */
#include "tests/lib/test.h"

#include "tools/replay/ideal.h"

static struct workload *from_text(const char *name, const char *text) {
    struct selene_message message = {""};
    struct sel_trace *trace;
    struct workload *workload;
    char *directory = test_directory_make("workload"), *path = NULL;
    assert_true(asprintf(&path, "%s/%s", directory, name) > 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    if (sel_trace_load(&trace, path, SEL_TRACE_UNKNOWN, 0, 0, &message))
        fail_msg("%s", message.text);
    assert_ok(workload_from_trace(&workload, &trace));
    assert_null(trace);
    free(path);
    test_directory_remove(&directory);
    return workload;
}

static uint32_t prompt_checkpoint(const struct workload *workload, size_t index) {
    const struct workload_request *request = &workload->requests[index];
    if (request->checkpoint_count == 0)
        return 0;
    assert_int_equal(workload_checkpoints(workload, request)[0].kind, CHECKPOINT_PROMPT);
    return workload_checkpoints(workload, request)[0].tokens;
}

static uint32_t *expanded(const struct workload *workload, size_t index) {
    const struct workload_request *request = &workload->requests[index];
    size_t count = request->prompt_tokens + request->reply_tokens;
    uint32_t *tokens = calloc(count + 1, sizeof *tokens);
    assert_non_null(tokens);
    tokens[count] = 0xfeedbeef;
    workload->ops->expand(workload, index, tokens);
    assert_int_equal(tokens[count], 0xfeedbeef);
    return tokens;
}

static uint32_t common(const uint32_t *a, const uint32_t *b, uint32_t most) {
    uint32_t same = 0;
    while (same < most && a[same] == b[same])
        same++;
    return same;
}

static void mooncake_blocks_share_what_their_ids_say(void **state) {
    (void)state;
    struct workload *workload = from_text("m.jsonl", "{\"input_length\": 1100, \"hash_ids\": [5, 6, 7]}\n"
                                                     "{\"input_length\": 1200, \"hash_ids\": [5, 6, 8]}\n"
                                                     "{\"input_length\": 1024, \"hash_ids\": [5, 6]}\n"
                                                     "{\"input_length\": 500, \"hash_ids\": [5]}\n");
    assert_int_equal(workload->count, 4);
    assert_int_equal(workload->tokens_max, 1200);
    assert_int_equal(prompt_checkpoint(workload, 0), 1024);
    assert_int_equal(prompt_checkpoint(workload, 2), 1024);
    assert_int_equal(prompt_checkpoint(workload, 3), 0);
    assert_int_equal(workload->requests[0].reply_tokens, 0);
    uint32_t *a = expanded(workload, 0), *b = expanded(workload, 1), *c = expanded(workload, 2);
    assert_int_equal(common(a, b, 1100), 1024);
    assert_int_equal(common(a, c, 1024), 1024);
    free(a), free(b), free(c);
    workload_destroy(&workload);
    assert_null(workload);
}

static void runs_are_of_their_session_and_tails_of_nobody(void **state) {
    (void)state;
    struct workload *workload = from_text("r.jsonl", "{\"s\": 1, \"inp\": 200, \"runs\": [[1, 3]]}\n"
                                                     "{\"s\": 1, \"inp\": 200, \"runs\": [[1, 3]]}\n"
                                                     "{\"s\": 1, \"inp\": 200, \"runs\": [[1, 2], [9, 1]]}\n"
                                                     "{\"s\": 2, \"inp\": 200, \"runs\": [[1, 3]]}\n");
    assert_int_equal(workload->session_count, 2);
    assert_int_equal(prompt_checkpoint(workload, 0), 192);
    uint32_t *a = expanded(workload, 0), *b = expanded(workload, 1), *c = expanded(workload, 2),
             *d = expanded(workload, 3);
    assert_int_equal(common(a, b, 200), 192);
    assert_int_equal(common(a, c, 200), 128);
    assert_int_equal(common(a, d, 200), 0);
    free(a), free(b), free(c), free(d);
    workload_destroy(&workload);
}

static void agents_are_the_same_for_the_same_seed(void **state) {
    (void)state;
    struct workload *a, *b, *c;
    assert_ok(workload_agent_create(&a, 1, 200, UINT32_MAX));
    assert_ok(workload_agent_create(&b, 1, 200, UINT32_MAX));
    assert_ok(workload_agent_create(&c, 2, 200, UINT32_MAX));
    uint32_t same = 0;
    for (size_t i = 0; i < 200; i++) {
        uint32_t *x = expanded(a, i), *y = expanded(b, i), *z = expanded(c, i);
        assert_memory_equal(&a->requests[i], &b->requests[i], sizeof a->requests[i]);
        uint32_t count = a->requests[i].prompt_tokens + a->requests[i].reply_tokens;
        assert_int_equal(common(x, y, count), count);
        same += common(x, z, 1);
        free(x), free(y), free(z);
    }
    assert_int_equal(same, 0);
    workload_destroy(&a), workload_destroy(&b), workload_destroy(&c);
}

static void agents_share_rewind_and_delegate(void **state) {
    (void)state;
    struct workload *workload;
    size_t count = 600, starts[2] = {0, 0}, rewinds = 0;
    uint64_t hit = 0, all = 0;
    assert_ok(workload_agent_create(&workload, 1, count, UINT32_MAX));
    assert_int_equal(workload->count, count);
    uint32_t *hits = calloc(count, sizeof *hits), *last = calloc(workload->session_count, sizeof *last);
    assert_true(hits && last);
    assert_ok(ideal_play(workload, 64, true, hits, NULL, NULL));
    for (size_t i = 0; i < count; i++) {
        const struct workload_request *request = &workload->requests[i];
        assert_true(prompt_checkpoint(workload, i) == request->prompt_tokens && request->reply_tokens > 0);
        all += request->prompt_tokens, hit += hits[i];
        starts[0] += hits[i] == 0;
        rewinds += last[request->session] > request->prompt_tokens;
        last[request->session] = request->prompt_tokens;
    }
    assert_true(workload->session_count >= 8);
    assert_true(starts[0] >= workload->session_count); /* with rows the shared system prompt alone is no checkpoint */
    assert_true(rewinds > 5);
    assert_true((double)hit / (double)all > 0.8 && hit < all);
    assert_ok(ideal_play(workload, 64, false, hits, NULL, NULL));
    for (size_t i = 0; i < count; i++)
        starts[1] += hits[i] == 0;
    assert_true(starts[1] <=
                2); /* without rows it is shared page by page: the first session's and the first helper's */
    free(hits), free(last);
    workload_destroy(&workload);
}

static void limits_on_sessions_end_the_workload(void **state) {
    (void)state;
    struct workload *workload;
    assert_ok(workload_agent_create(&workload, 3, 100000, 5));
    assert_int_equal(workload->session_count, 5);
    assert_true(workload->count >= 5 * 12 && workload->count < 5 * 400);
    workload_destroy(&workload);
}

/* ---- conversations ---- */

static const struct conversation_options few = {
    .conversations = 3, .turns = 20, .context_tokens = 5000, .checkpoints_per_turn = 5};

static size_t place(const struct conversation_options *options, size_t conversation, size_t turn) {
    return turn * options->conversations + conversation;
}

/* Requests alternate; messages, a header of 4 to 12 tokens, a reply; the last reply ends at the context. */
static void conversations_have_the_turns_and_checkpoints_asked_for(void **state) {
    (void)state;
    struct workload *workload;
    assert_ok(workload_conversation_create(&workload, 1, SIZE_MAX, &few));
    assert_int_equal(workload->count, 60);
    assert_int_equal(workload->session_count, 3);
    for (size_t c = 0; c < 3; c++) {
        uint32_t before = 0;
        for (size_t t = 0; t < 20; t++) {
            const struct workload_request *request = &workload->requests[place(&few, c, t)];
            const struct checkpoint *checkpoints = workload_checkpoints(workload, request);
            assert_int_equal(request->session, c);
            assert_int_equal(request->checkpoint_count, 5);
            for (uint32_t i = 0; i < 5; i++) {
                assert_true(checkpoints[i].tokens > before);
                before = checkpoints[i].tokens;
                assert_int_equal(checkpoints[i].kind, i < 3    ? CHECKPOINT_MESSAGE
                                                      : i == 3 ? CHECKPOINT_PROMPT
                                                               : CHECKPOINT_TERMINAL);
            }
            uint32_t header = checkpoints[3].tokens - checkpoints[2].tokens;
            assert_true(header >= 4 && header <= 12);
            assert_int_equal(checkpoints[3].tokens, request->prompt_tokens);
            assert_int_equal(before, request->prompt_tokens + request->reply_tokens);
            assert_true(before <= workload->tokens_max);
        }
        assert_int_equal(before, few.context_tokens);
    }
    workload_destroy(&workload);
}

/* Each prompt begins with all of the turn before; rerendered, with that turn's prompt and only part of its reply. */
static void conversations_go_on_from_the_turn_before(void **state) {
    (void)state;
    struct conversation_options options = few;
    for (int rerender = 0; rerender < 2; rerender++) {
        struct workload *workload;
        options.rerender = rerender;
        assert_ok(workload_conversation_create(&workload, 1, SIZE_MAX, &options));
        for (size_t c = 0; c < 3; c++)
            for (size_t t = 1; t < 20; t++) {
                const struct workload_request *last = &workload->requests[place(&few, c, t - 1)];
                uint32_t *a = expanded(workload, place(&few, c, t - 1)), *b = expanded(workload, place(&few, c, t));
                uint32_t all = last->prompt_tokens + last->reply_tokens, same = common(a, b, all);
                assert_true(rerender ? same >= last->prompt_tokens && same < all : same == all);
                assert_true(workload->requests[place(&few, c, t)].prompt_tokens > all);
                free(a), free(b);
            }
        uint32_t *a = expanded(workload, 0), *b = expanded(workload, 1);
        assert_int_equal(common(a, b, 10), 0);
        free(a), free(b);
        workload_destroy(&workload);
    }
}

static void conversations_may_be_as_small_as_their_turns_allow(void **state) {
    (void)state;
    for (uint32_t checkpoints = 2; checkpoints < 9; checkpoints++) {
        struct conversation_options options = {.conversations = 1, .turns = 50, .checkpoints_per_turn = checkpoints};
        struct workload *workload;
        options.context_tokens = options.turns * conversation_turn_tokens_min(&options);
        assert_ok(workload_conversation_create(&workload, checkpoints, 40, &options));
        assert_int_equal(workload->count, 40);
        for (size_t i = 0; i < 40; i++) {
            free(expanded(workload, i));
            assert_int_equal(workload->requests[i].checkpoint_count, checkpoints);
            assert_true(workload->requests[i].reply_tokens > 0);
        }
        workload_destroy(&workload);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mooncake_blocks_share_what_their_ids_say),
        cmocka_unit_test(runs_are_of_their_session_and_tails_of_nobody),
        cmocka_unit_test(agents_are_the_same_for_the_same_seed),
        cmocka_unit_test(agents_share_rewind_and_delegate),
        cmocka_unit_test(limits_on_sessions_end_the_workload),
        cmocka_unit_test(conversations_have_the_turns_and_checkpoints_asked_for),
        cmocka_unit_test(conversations_go_on_from_the_turn_before),
        cmocka_unit_test(conversations_may_be_as_small_as_their_turns_allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
