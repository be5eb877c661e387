/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces: the three forms, and files that are truncated, damaged or hostile.
 */
#include "tests/lib/test.h"

#include "cli/trace.h"

static char *directory;

static char *file_make(const char *name, const void *bytes, size_t count) {
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", directory, name) > 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
    return path;
}

static void load_text(struct sel_trace **trace, const char *name, const char *text) {
    struct selene_message message = {""};
    char *path = file_make(name, text, strlen(text));
    if (sel_trace_load(trace, path, SEL_TRACE_UNKNOWN, 0, 0, &message))
        fail_msg("%s", message.text);
    free(path);
}

static void assert_refused(const char *name, const void *bytes, size_t count, const char *words) {
    struct selene_message message = {""};
    struct sel_trace *trace;
    char *path = file_make(name, bytes, count);
    assert_int_equal(sel_trace_load(&trace, path, SEL_TRACE_UNKNOWN, 0, 0, &message), SELENE_E_PARSE);
    assert_null(trace);
    if (strstr(message.text, words) == NULL || strncmp(message.text, directory, strlen(directory)) != 0)
        fail_msg("`%s` lacks `%s`", message.text, words);
    free(path);
}

static void mooncake_lines_become_runs(void **state) {
    (void)state;
    struct sel_trace *trace;
    load_text(&trace, "m.jsonl",
              "{\"timestamp\": 0, \"input_length\": 2049, \"output_length\": 5, \"hash_ids\": [0, 1, 7, 8, 9]}\n"
              "\n{\"timestamp\": 1, \"input_length\": 512, \"hash_ids\": [0], \"note\": 1}");
    assert_int_equal(trace->form, SEL_TRACE_MOONCAKE);
    assert_int_equal(trace->block_tokens, 512);
    assert_int_equal(trace->request_count, 2);
    assert_int_equal(trace->requests[0].run_count, 2);
    assert_int_equal(trace->runs[1].first, 7);
    assert_int_equal(trace->runs[1].count, 3);
    assert_int_equal(trace->requests[1].line, 3);
    assert_int_equal(trace->requests[1].session, 1);
    assert_int_equal(trace->requests[1].run_first, 2);
    sel_trace_free(&trace);
}

static const char runs_text[] = "{\"s\": 9, \"a\": 0, \"inp\": 200, \"out\": 3, \"runs\": [[1, 2], [5, 1]]}\n"
                                "{\"s\": 4, \"a\": 1, \"inp\": 63, \"out\": 3, \"runs\": []}\n"
                                "{\"s\": 9, \"a\": 1, \"inp\": 64, \"runs\": [[1, 1]]}\n";

static void runs_keep_their_sessions(void **state) {
    (void)state;
    struct sel_trace *trace;
    load_text(&trace, "r.jsonl", runs_text);
    assert_int_equal(trace->form, SEL_TRACE_RUNS);
    assert_int_equal(trace->session_count, 2);
    assert_int_equal(trace->session_names[0], 9);
    assert_int_equal(trace->requests[1].session, 1);
    assert_int_equal(trace->requests[2].session, 0);
    sel_trace_free(&trace);
}

static void limits_leave_requests_out(void **state) {
    (void)state;
    struct sel_trace *trace;
    char *path = file_make("l.jsonl", runs_text, strlen(runs_text));
    assert_ok(sel_trace_load(&trace, path, SEL_TRACE_RUNS, 2, 0, NULL));
    assert_int_equal(trace->request_count, 2);
    sel_trace_free(&trace);
    assert_ok(sel_trace_load(&trace, path, SEL_TRACE_RUNS, 0, 1, NULL));
    assert_int_equal(trace->request_count, 2);
    assert_int_equal(trace->session_count, 1);
    assert_int_equal(trace->requests[1].line, 3);
    sel_trace_free(&trace);
    free(path);
}

static void many_sessions_are_told_apart(void **state) {
    (void)state;
    size_t count = 5000, used = 0;
    char *text = malloc(count * 64);
    struct sel_trace *trace;
    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        used += (size_t)sprintf(text + used, "{\"s\": %zu, \"inp\": 1, \"runs\": []}\n", (i % 2500) << 20);
    load_text(&trace, "s.jsonl", text);
    assert_int_equal(trace->session_count, 2500);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(trace->requests[i].session, i % 2500);
    sel_trace_free(&trace);
    free(text);
}

static const uint8_t token_bytes[] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 1, 0, 0, 4, 0, 0, 0};

static void tokens_come_from_either_file(void **state) {
    (void)state;
    static const char text[] = "{\"in\": [[0, 2], [3, 1]], \"input_tokens\": 3, \"out\": [2, 2]}\n"
                               "{\"in\": [[0, 4]], \"input_tokens\": 4}\n";
    char *tokens = file_make("t.tokens.u32le", token_bytes, sizeof token_bytes);
    char *requests = file_make("t.requests.jsonl", text, strlen(text));
    const char *const either[] = {tokens, requests};
    for (int i = 0; i < 2; i++) {
        struct sel_trace *trace;
        assert_ok(sel_trace_load(&trace, either[i], SEL_TRACE_UNKNOWN, 0, 0, NULL));
        assert_int_equal(trace->form, SEL_TRACE_TOKENS);
        assert_int_equal(trace->token_count, 4);
        assert_int_equal(trace->tokens[2], 0x103);
        assert_int_equal(trace->requests[0].run_count, 3);
        assert_int_equal(trace->requests[0].output_tokens, 2);
        assert_int_equal(trace->requests[1].run_count, 2);
        assert_int_equal(trace->requests[1].output_tokens, 0);
        sel_trace_free(&trace);
    }
    free(tokens), free(requests);
}

static const struct {
    const char *text, *words;
} bad[] = {
    {"", "found no request"},
    {"\n\n", "found no request"},
    {"hello\n", "bad.jsonl:1:5: not JSON: invalid token near"},
    {"{\"s\": 1, \"inp\": 64, \"runs\": [[1, 1]]}\n{\"s\": 1, \"in", "bad.jsonl:2:"},
    {"[1, 2]\n", "found an array of 2, expected an object"},
    {"{\"x\": 1}\n", "without `hash_ids`, `runs` or `in`"},
    {"{\"input_length\": 0, \"hash_ids\": []}", "field `input_length`: found 0"},
    {"{\"input_length\": 99999999999999999, \"hash_ids\": [1]}", "field `input_length`: found 99999999999999999"},
    {"{\"input_length\": 99999999999999999999, \"hash_ids\": [1]}", "too big integer"},
    {"{\"input_length\": 513, \"hash_ids\": [1]}", "field `hash_ids`: found 1 ids, expected 2 for 513 tokens"},
    {"{\"input_length\": 513, \"hash_ids\": [1, -2]}", "field `hash_ids[1]`: found -2"},
    {"{\"input_length\": 513, \"hash_ids\": 5}", "field `hash_ids`: found 5, expected an array"},
    {"{\"s\": 1, \"inp\": 64, \"runs\": [[1]]}", "field `runs[0]`: found an array of 1, expected [first, count]"},
    {"{\"s\": 1, \"inp\": 64, \"runs\": [[1, 0]]}", "field `runs[0][1]`: found 0"},
    {"{\"s\": 1, \"inp\": 64, \"runs\": [[1, 4294967297]]}", "field `runs[0][1]`: found 4294967297"},
    {"{\"s\": 1, \"inp\": 64, \"runs\": [[9223372036854775807, 1]]}", "expected a sum of at most"},
    {"{\"s\": 1, \"inp\": 64, \"runs\": [[1, 2]]}", "field `runs`: found 2 blocks, expected 1 full ones"},
    {"{\"inp\": 64, \"runs\": [[1, 1]]}", "field `s`: found nothing"},
    {"{\"s\": 1, \"inp\": 64, \"runs\": [[1, 1]]}\n\n{\"hash_ids\": [1]}", "bad.jsonl:3: field `s`: found nothing"},
    {"{\"in\": [[0, 1]], \"input_tokens\": 1}", "found a name without `.requests.jsonl`"},
};

static void every_mistake_is_named(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused("bad.jsonl", bad[i].text, strlen(bad[i].text), bad[i].words);
}

static const struct {
    const char *text, *words;
} bad_tokens[] = {
    {"{\"in\": [[0, 5]], \"input_tokens\": 5}", "`in[0]`: found 0 + 5, expected a sum of at most 4"},
    {"{\"in\": [[18446744073709551615, 5]], \"input_tokens\": 5}", "too big integer"},
    {"{\"in\": [[9223372036854775807, 5]], \"input_tokens\": 5}", "expected a sum of at most 4"},
    {"{\"in\": [[0, 4]], \"input_tokens\": 3}", "found 4 tokens, expected 3"},
    {"{\"in\": [[0, 4]], \"input_tokens\": 4, \"out\": [4, 1]}", "`out[0]`: found 4 + 1"},
    {"{\"in\": [[0, 4]], \"input_tokens\": 4, \"out\": 7}", "field `out`: found 7"},
    {"{\"in\": [], \"input_tokens\": 4}", "field `in`: found an array of 0"},
};

static void places_outside_the_token_file_are_named(void **state) {
    (void)state;
    char *tokens = file_make("b.tokens.u32le", token_bytes, sizeof token_bytes);
    for (size_t i = 0; i < sizeof bad_tokens / sizeof bad_tokens[0]; i++)
        assert_refused("b.requests.jsonl", bad_tokens[i].text, strlen(bad_tokens[i].text), bad_tokens[i].words);
    free(tokens);
    tokens = file_make("b.tokens.u32le", token_bytes, 7);
    assert_refused("b.requests.jsonl", "{\"in\": [[0, 1]], \"input_tokens\": 1}", 35, "found 7 bytes");
    free(tokens);
}

static void any_bytes_give_an_answer(void **state) {
    (void)state;
    uint64_t seed = 1, count = test_count("SELENE_TEST_SEEDS", 300);
    char text[sizeof runs_text];
    for (uint64_t i = 0; i < count; i++) {
        struct selene_message message = {""};
        struct sel_trace *trace;
        memcpy(text, runs_text, sizeof text);
        for (int change = 0; change < 3; change++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            text[(seed >> 33) % (sizeof text - 1)] = (char)(seed >> 20);
        }
        char *path = file_make("fuzz.jsonl", text, (seed >> 40) % sizeof text);
        int result = sel_trace_load(&trace, path, SEL_TRACE_UNKNOWN, 0, 0, &message);
        assert_true(result == 0 ? trace && !*message.text : trace == NULL && *message.text);
        sel_trace_free(&trace);
        free(path);
    }
}

static void a_deep_line_and_an_endless_line_are_refused(void **state) {
    (void)state;
    size_t count = ((size_t)16 << 20) + 100;
    char *text = malloc(count);
    assert_non_null(text);
    memset(text, '[', count);
    assert_refused("deep.jsonl", text, 100000, "maximum parsing depth");
    memset(text, ' ', count);
    assert_refused("long.jsonl", text, count, "found a line of more than 16 MiB");
    free(text);
}

static int scratch_make(void **state) {
    (void)state;
    directory = test_directory_make("trace");
    return 0;
}

static int scratch_remove(void **state) {
    (void)state;
    test_directory_remove(&directory);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mooncake_lines_become_runs),
        cmocka_unit_test(runs_keep_their_sessions),
        cmocka_unit_test(limits_leave_requests_out),
        cmocka_unit_test(many_sessions_are_told_apart),
        cmocka_unit_test(tokens_come_from_either_file),
        cmocka_unit_test(every_mistake_is_named),
        cmocka_unit_test(places_outside_the_token_file_are_named),
        cmocka_unit_test(any_bytes_give_an_answer),
        cmocka_unit_test(a_deep_line_and_an_endless_line_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
