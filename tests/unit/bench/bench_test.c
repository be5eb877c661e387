/* SPDX-License-Identifier: Apache-2.0
 *
 * selene-bench: medians and ratios; and the tool on little data: exit codes, the JSON it writes, nothing left behind.
 * Which goals are met is not tested: that would be a timed test.
 */
#include "tools/bench/bench.h"

#include "cli/json.h"
#include "tests/lib/test.h"

#include <dirent.h>
#include <sys/wait.h>

static struct bench_series series_of(unsigned count, const double *values) {
    struct bench_series series = {.count = 0};
    for (unsigned i = 0; i < count; i++)
        bench_add(&series, values[i]);
    return series;
}

static void check_near(double found, double expected) {
    assert_true(found > expected - 1e-9 && found < expected + 1e-9);
}

static void medians_and_ratios(void **state) {
    (void)state;
    struct bench_series odd = series_of(5, (const double[]){9, 1, 7, 3, 5});
    struct bench_series even = series_of(4, (const double[]){4, 1, 3, 2}), none = {.count = 0};
    check_near(bench_median(&odd), 5);
    check_near(bench_median(&even), 2.5);
    check_near(bench_least(&odd), 1);
    check_near(bench_most(&odd), 9);
    check_near(bench_median(&none), 0);
    /* Round by round, not median by median. */
    struct bench_series a = series_of(3, (const double[]){10, 100, 1}), b = series_of(3, (const double[]){5, 200, 1});
    struct bench_series ratio = bench_divide(&a, &b);
    assert_int_equal(ratio.count, 3);
    check_near(bench_median(&ratio), 1);
    struct bench_series zero = series_of(1, (const double[]){0});
    ratio = bench_divide(&a, &zero);
    check_near(bench_median(&ratio), 0);
}

static int run(const char *arguments, char *output, size_t room) {
    const char *tool = getenv("SELENE_BENCH");
    char command[1024];
    assert_non_null(tool);
    snprintf(command, sizeof command, "%s %s 2>&1", tool, arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t count = fread(output, 1, room - 1, pipe);
    output[count] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void bad_usage_is_explained(void **state) {
    (void)state;
    static const struct {
        const char *arguments, *expected;
    } cases[] = {
        {"", "name a group"},
        {"warp", "`warp`"},
        {"hash --rounds 0", "--rounds"},
        {"hash --bytes 1", "--bytes"},
        {"hash --threads many", "--threads"},
        {"hash --json /nowhere/at/all.json", "/nowhere"},
        {"disk --dir /nowhere/at/all", "/nowhere"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char output[8192];
        assert_int_equal(run(cases[i].arguments, output, sizeof output), 2);
        if (!strstr(output, cases[i].expected))
            fail_msg("`%s`: %s", cases[i].arguments, output);
    }
}

/* Every value has a group, a name, a unit and ordered numbers; goals agree with their values. */
static void check_values(const struct sel_json *json, size_t least) {
    const struct sel_json *values = sel_json_get(json, "values");
    uint64_t missed = 0, said = 0;
    assert_true(sel_json_count(values) >= least);
    for (size_t i = 0; i < sel_json_count(values); i++) {
        const struct sel_json *value = sel_json_at(values, i);
        double low, middle, high, limit;
        bool met;
        assert_non_null(sel_json_string(sel_json_get(value, "group"), NULL));
        assert_non_null(sel_json_string(sel_json_get(value, "name"), NULL));
        assert_non_null(sel_json_string(sel_json_get(value, "unit"), NULL));
        assert_true(sel_json_double(sel_json_get(value, "least"), &low));
        assert_true(sel_json_double(sel_json_get(value, "median"), &middle));
        assert_true(sel_json_double(sel_json_get(value, "most"), &high));
        /* What is beyond something else is a difference of two times: with little data it may be below 0. */
        const char *name = sel_json_string(sel_json_get(value, "name"), NULL);
        if (!((0 < low || strstr(name, "beyond")) && low <= middle && middle <= high))
            fail_msg("%s: %g, %g, %g", name, low, middle, high);
        if (!sel_json_bool(sel_json_get(value, "met"), &met))
            continue;
        missed += !met;
        if (sel_json_double(sel_json_get(value, "at_least"), &limit))
            assert_true(met == (middle >= limit));
        else if (sel_json_double(sel_json_get(value, "at_most"), &limit))
            assert_true(met == (middle <= limit));
        else
            fail_msg("a goal without a bound");
    }
    assert_true(sel_json_u64(sel_json_get(json, "goals_missed"), &said));
    assert_int_equal(missed, said);
}

static unsigned entries(const char *path) {
    unsigned count = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

static void little_data(void **state) {
    (void)state;
    char *directory = test_directory_make("bench"), *path = NULL, arguments[512], *output = malloc(65536);
    struct sel_json *json = NULL;
    struct selene_message message = {""};
    assert_true(output && asprintf(&path, "%s/out.json", directory) > 0);
    snprintf(arguments, sizeof arguments,
             "hash memory index disk drain growth --bytes 64M --rounds 1 --records 12000 --dir %s --json %s", directory,
             path);
    int rc = run(arguments, output, 65536);
    if (rc != 0 && rc != 1)
        fail_msg("exit code %d: %s", rc, output);
    if (sel_json_load(&json, path, 1 << 20, &message))
        fail_msg("%s", message.text);
    check_values(json, 75);
    assert_int_equal(entries(directory), 1); /* only the JSON */
    sel_json_free(&json);
    free(output);
    free(path);
    test_directory_remove(&directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(medians_and_ratios), cmocka_unit_test(bad_usage_is_explained),
                                       cmocka_unit_test(little_data)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
