/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts from JSON [L1]: a good one, and every way to be wrong with the words that explain it.
 */
#include "tests/lib/test.h"

#include "cli/layout_file.h"

static int parse(struct sel_layout_file *out, const char *text, struct selene_message *message) {
    return sel_layout_file_parse(out, text, strlen(text), "m.json", message);
}

static void a_good_file_gives_its_layout(void **state) {
    (void)state;
    struct sel_layout_file file;
    struct selene_message message = {""};
    assert_ok(
        parse(&file,
              "{\"page_tokens\": 64, \"rank_count\": 2, \"row_bytes\": 1000, \"row_replicated\": true, \"planes\": ["
              "{\"bytes\": 4096, \"entry_tokens\": 4, \"entry_bytes\": 256, \"count\": 3}, {\"bytes\": 10}],"
              "\"description_base16\": \"00fFa1\"}",
              &message));
    assert_int_equal(file.layout.page_tokens, 64);
    assert_int_equal(file.layout.rank_count, 2);
    assert_int_equal(file.layout.plane_count, 4);
    assert_int_equal(file.layout.planes[2].bytes, 4096);
    assert_int_equal(file.layout.planes[2].entry_tokens, 4);
    assert_int_equal(file.layout.planes[2].entry_bytes, 256);
    assert_int_equal(file.layout.planes[3].bytes, 10);
    assert_int_equal(file.layout.planes[3].entry_tokens, 0);
    assert_int_equal(file.layout.row_bytes, 1000);
    assert_int_equal(file.layout.description_bytes, 3);
    assert_memory_equal(file.layout.description, "\x00\xff\xa1", 3);
    assert_true(file.row_replicated);
    assert_false(file.pages_replicated);
    sel_layout_file_free(&file);
    assert_null(file.layout.planes);
    sel_layout_file_free(&file);
}

static void a_description_may_hold_any_text(void **state) {
    (void)state;
    struct sel_layout_file file;
    assert_ok(parse(&file, "{\"page_tokens\": 1, \"planes\": [{\"bytes\": 1}], \"description\": \"\"}", NULL));
    assert_int_equal(file.layout.description_bytes, 0);
    assert_int_equal(file.layout.rank_count, 1);
    sel_layout_file_free(&file);
}

#define PLANES "\"planes\": [{\"bytes\": 64}]"
#define NAME   "\"description\": \"m\""

static const struct {
    const char *text, *words;
} bad[] = {
    {"", "m.json:1:1: not JSON"},
    {"[]", "found an array of 0, expected an object"},
    {"{" PLANES ", " NAME "}", "field `page_tokens`: found nothing, expected an integer from 1 to 65536"},
    {"{\"page_tokens\": 0, " PLANES ", " NAME "}", "found 0, expected an integer from 1 to 65536"},
    {"{\"page_tokens\": 65537, " PLANES ", " NAME "}", "found 65537"},
    {"{\"page_tokens\": \"64\", " PLANES ", " NAME "}", "found \"64\""},
    {"{\"page_tokens\": 64.0, " PLANES ", " NAME "}", "found 64, expected an integer"},
    {"{\"page_tokens\": 64, \"rank_count\": 65, " PLANES ", " NAME "}", "field `rank_count`: found 65"},
    {"{\"page_tokens\": 64, \"row_bytes\": 8589934593, " PLANES ", " NAME "}", "field `row_bytes`: found 8589934593"},
    {"{\"page_tokens\": 64, \"rows\": 1, " PLANES ", " NAME "}",
     "unknown field \"rows\", expected only: page_tokens, "},
    {"{\"page_tokens\": 64, " NAME "}", "field `planes`: found nothing, expected an array of 1 to 4096 values"},
    {"{\"page_tokens\": 64, \"planes\": [], " NAME "}", "field `planes`: found an array of 0"},
    {"{\"page_tokens\": 64, \"planes\": [7], " NAME "}", "planes[0] found 7, expected an object"},
    {"{\"page_tokens\": 64, \"planes\": [{\"bytes\": 0}], " NAME "}", "field `planes[0].bytes`: found 0"},
    {"{\"page_tokens\": 64, \"planes\": [{\"bytes\": 64, \"byte\": 1}], " NAME "}",
     "unknown field \"byte\" in planes[0]"},
    {"{\"page_tokens\": 64, \"planes\": [{\"bytes\": 64, \"entry_bytes\": 1}], " NAME "}", "since entry_tokens is 0"},
    {"{\"page_tokens\": 64, \"planes\": [{\"bytes\": 64, \"entry_tokens\": 3, \"entry_bytes\": 1}], " NAME "}",
     "field `planes[0].entry_tokens`: found 3, expected 0 or a divisor of page_tokens"},
    {"{\"page_tokens\": 64, \"planes\": [{\"bytes\": 64, \"entry_tokens\": 1}], " NAME "}",
     "found 0, expected at least 1"},
    {"{\"page_tokens\": 64, \"planes\": [{\"bytes\": 64, \"entry_tokens\": 1, \"entry_bytes\": 2}], " NAME "}",
     "field `planes[0].entry_bytes`: found 2"},
    {"{\"page_tokens\": 64, \"planes\": [{\"bytes\": 64, \"count\": 4097}], " NAME "}",
     "`planes[0].count`: found 4097"},
    {"{\"page_tokens\": 64, \"planes\": [{\"bytes\": 64, \"count\": 4096}, {\"bytes\": 1}], " NAME "}",
     "`planes[1].count`: found 1, expected at most 4096 planes"},
    {"{\"page_tokens\": 64, \"planes\": [{\"bytes\": 1073741824}, {\"bytes\": 1}], " NAME "}",
     "`planes[1].bytes`: found 1, expected the sum"},
    {"{\"page_tokens\": 64, " PLANES "}", "field `description`: found nothing"},
    {"{\"page_tokens\": 64, " PLANES ", " NAME ", \"description_base16\": \"00\"}", "found both forms"},
    {"{\"page_tokens\": 64, " PLANES ", \"description\": 5}", "field `description`: found 5"},
    {"{\"page_tokens\": 64, " PLANES ", \"description_base16\": \"0\"}", "expected an even number of base16 digits"},
    {"{\"page_tokens\": 64, " PLANES ", \"description_base16\": \"0g\"}", "expected an even number of base16 digits"},
    {"{\"page_tokens\": 64, \"pages_replicated\": 1, " PLANES ", " NAME "}", "found 1, expected true or false"},
};

static void every_mistake_is_named(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct sel_layout_file file;
        struct selene_message message = {""};
        assert_int_equal(parse(&file, bad[i].text, &message), SELENE_E_PARSE);
        assert_null(file.layout.planes);
        if (strstr(message.text, bad[i].words) == NULL || strncmp(message.text, "m.json", 6) != 0)
            fail_msg("%s\n  gave `%s`\n  without `%s`", bad[i].text, message.text, bad[i].words);
    }
}

static void a_long_description_is_refused(void **state) {
    (void)state;
    struct sel_layout_file file;
    struct selene_message message = {""};
    size_t count = 70000;
    char *text = malloc(count + 200);
    assert_non_null(text);
    int used = sprintf(text, "{\"page_tokens\": 64, " PLANES ", \"description\": \"");
    memset(text + used, 'x', count);
    strcpy(text + used + count, "\"}");
    assert_int_equal(parse(&file, text, &message), SELENE_E_PARSE);
    assert_non_null(strstr(message.text, "found 70000, expected at most 65536 bytes"));
    free(text);
}

static void a_missing_file_is_named(void **state) {
    (void)state;
    struct sel_layout_file file;
    struct selene_message message = {""};
    assert_int_equal(sel_layout_file_load(&file, "no/such.json", &message), SELENE_E_NOTFOUND);
    assert_non_null(strstr(message.text, "no/such.json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_gives_its_layout), cmocka_unit_test(a_description_may_hold_any_text),
        cmocka_unit_test(every_mistake_is_named),       cmocka_unit_test(a_long_description_is_refused),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
