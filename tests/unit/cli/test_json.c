/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON: what is read, what is refused and with which words, and that results are written whole or not at all.
 */
#include "tests/lib/test.h"

#include "cli/json.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>

static void assert_refused(const char *text, size_t count, const char *words) {
    struct selene_message message = {""};
    struct sel_json *json;
    assert_int_equal(sel_json_parse(&json, text, count, "x.json", 1, &message), SELENE_E_PARSE);
    assert_null(json);
    if (strstr(message.text, words) == NULL)
        fail_msg("`%s` lacks `%s`", message.text, words);
}

static void bad_text_is_refused_with_its_place(void **state) {
    (void)state;
    assert_refused("", 0, "x.json:1:1: not JSON");
    assert_refused("{\n\"a\": 1,\n!}", 12, "x.json:3:");
    assert_refused("{\"a\": 1, \"a\": 2}", 16, "duplicate");
    assert_refused("[99999999999999999999]", 22, "too big integer");
    assert_refused("[1e999]", 7, "real number overflow");
    assert_refused("[\"\xff\"]", 5, "unable to decode byte 0xff");
    assert_refused("{\"a\0b\": 1}", 10, "x.json:1:");
    assert_refused("[1] 2", 5, "end of file expected");
}

static void deep_nesting_is_refused(void **state) {
    (void)state;
    size_t count = 1000000;
    char *text = malloc(count);
    assert_non_null(text);
    memset(text, '[', count);
    assert_refused(text, count, "maximum parsing depth");
    free(text);
}

static void fields_are_read_or_explained(void **state) {
    (void)state;
    static const char text[] = "{\"a\": 5, \"b\": -1, \"c\": \"x\", \"d\": [1, 2], \"e\": true, \"f\": 1.5}";
    struct sel_json_place place = {"t.json", "planes[3]."};
    struct selene_message message = {""};
    const struct sel_json *array;
    struct sel_json *json;
    uint64_t value, missing = 9;
    bool truth;
    assert_ok(sel_json_parse(&json, text, strlen(text), "t.json", 1, &message));
    assert_ok(sel_json_want_u64(json, "a", &place, 1, 5, NULL, &value, &message));
    assert_int_equal(value, 5);
    assert_ok(sel_json_want_u64(json, "none", &place, 1, 5, &missing, &value, &message));
    assert_int_equal(value, 9);
    assert_ok(sel_json_want_array(json, "d", &place, 2, 2, &array, &message));
    assert_ok(sel_json_want_bool(json, "e", &place, false, &truth, &message));
    assert_true(truth);
    assert_string_equal(message.text, "");
    assert_int_equal(sel_json_want_u64(json, "b", &place, 0, 5, NULL, &value, &message), SELENE_E_PARSE);
    assert_string_equal(message.text, "t.json: field `planes[3].b`: found -1, expected an integer from 0 to 5");
    message.text[0] = '\0';
    assert_int_equal(sel_json_want_u64(json, "none", &place, 0, 5, NULL, &value, &message), SELENE_E_PARSE);
    assert_non_null(strstr(message.text, "found nothing"));
    assert_int_equal(sel_json_want_u64(json, "f", &place, 0, 5, NULL, &value, NULL), SELENE_E_PARSE);
    assert_int_equal(sel_json_want_array(json, "d", &place, 3, 4, &array, NULL), SELENE_E_PARSE);
    assert_int_equal(sel_json_want_array(json, "c", &place, 0, 4, &array, NULL), SELENE_E_PARSE);
    assert_int_equal(sel_json_want_bool(json, "a", &place, false, &truth, NULL), SELENE_E_PARSE);
    sel_json_free(&json);
    assert_null(json);
}

static void what_is_found_is_shortened(void **state) {
    (void)state;
    static const char text[] =
        "[\"\\u0001bell\", \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\\u00e4aaaaaaaaaaaaaaaaaaaaaa\", null]";
    char found[SEL_JSON_FOUND];
    struct sel_json *json;
    assert_ok(sel_json_parse(&json, text, strlen(text), "t", 1, NULL));
    assert_string_equal(sel_json_found(found, sel_json_at(json, 0)), "\"?bell\"");
    assert_string_equal(sel_json_found(found, sel_json_at(json, 1)), "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\"");
    assert_string_equal(sel_json_found(found, sel_json_at(json, 2)), "null");
    assert_string_equal(sel_json_found(found, sel_json_at(json, 3)), "nothing");
    assert_string_equal(sel_json_found(found, json), "an array of 3");
    sel_json_free(&json);
}

static struct sel_json *sample(void) {
    struct sel_json *json = sel_json_object(), *list = sel_json_array();
    int result = sel_json_set_u64(json, "big", UINT64_MAX) | sel_json_set_u64(json, "n", 7) |
                 sel_json_set_double(json, "x", 0.1) | sel_json_set_double(json, "nan", NAN) |
                 sel_json_set_bool(json, "yes", true) |
                 sel_json_set_string(json, "name",
                                     "a\xff"
                                     "b");
    result |= sel_json_append(list, sel_json_object()) | sel_json_set(json, "list", list);
    assert_ok(result);
    return json;
}

static size_t files_in(const char *path) {
    size_t count = 0;
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static void results_are_written_whole_or_not_at_all(void **state) {
    (void)state;
    struct selene_message message = {""};
    char *directory = test_directory_make("json"), *path = NULL, *nowhere = NULL;
    struct sel_json *json = sample(), *back;
    double x;
    assert_true(asprintf(&path, "%s/out.json", directory) > 0 && asprintf(&nowhere, "%s/no/out.json", directory) > 0);
    assert_ok(sel_json_writable(path, &message));
    assert_ok(sel_json_write(json, path, &message));
    assert_ok(sel_json_write(json, path, &message));
    assert_int_equal(files_in(directory), 1);
    assert_ok(sel_json_load(&back, path, 4096, &message));
    assert_true(sel_json_double(sel_json_get(back, "x"), &x) && x == 0.1);
    assert_string_equal(sel_json_string(sel_json_get(back, "name"), NULL), "a?b");
    assert_int_equal(sel_json_write(NULL, path, &message), SELENE_E_NOMEM);
    assert_int_equal(files_in(directory), 1);
    sel_json_free(&back);
    assert_int_equal(sel_json_load(&back, path, 8, NULL), SELENE_E_OVERFLOW);
    assert_int_equal(sel_json_write(json, nowhere, NULL), SELENE_E_NOTFOUND);
    assert_int_equal(sel_json_writable(nowhere, NULL), SELENE_E_NOTFOUND);
    assert_int_equal(sel_json_writable(directory, NULL), SELENE_E_INVALID);
    assert_null(back);
    sel_json_free(&json);
    free(path), free(nowhere);
    test_directory_remove(&directory);
}

static void a_build_without_memory_fails_once_at_the_end(void **state) {
    (void)state;
    assert_int_equal(sel_json_set_u64(NULL, "n", 1), SELENE_E_NOMEM);
    assert_int_equal(sel_json_append(NULL, NULL), SELENE_E_NOMEM);
    struct sel_json *json = sel_json_object();
    assert_int_equal(sel_json_set(json, "child", NULL), SELENE_E_NOMEM);
    assert_int_equal(sel_json_set_string(json, "name", NULL), SELENE_E_NOMEM);
    sel_json_free(&json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_text_is_refused_with_its_place),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(fields_are_read_or_explained),
        cmocka_unit_test(what_is_found_is_shortened),
        cmocka_unit_test(results_are_written_whole_or_not_at_all),
        cmocka_unit_test(a_build_without_memory_fails_once_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
