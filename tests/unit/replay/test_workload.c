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
    assert_int_equal(workload->requests[0].checkpoint_tokens, 1024);
    assert_int_equal(workload->requests[2].checkpoint_tokens, 1024);
    assert_int_equal(workload->requests[3].checkpoint_tokens, 0);
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
    assert_int_equal(workload->requests[0].checkpoint_tokens, 192);
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
        assert_true(request->checkpoint_tokens == request->prompt_tokens && request->reply_tokens > 0);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mooncake_blocks_share_what_their_ids_say),
        cmocka_unit_test(runs_are_of_their_session_and_tails_of_nobody),
        cmocka_unit_test(agents_are_the_same_for_the_same_seed),
        cmocka_unit_test(agents_share_rewind_and_delegate),
        cmocka_unit_test(limits_on_sessions_end_the_workload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
