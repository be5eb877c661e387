/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawing results: good ones, and results that hold anything, which get a message and leave nothing behind.
 */
#include "tests/lib/test.h"
#include "tools/replay/plot.h"
#include "tools/replay/svg.h"

#define SAMPLE                                                                                                         \
    "{\"request\": 5, \"slots_used\": 7, \"held_bytes_by_tier\": {\"memory\": 3000, \"disk\": 10}, "                   \
    "\"disk_allocated_bytes\": 4096, \"tokens_in\": 100, \"tokens_hit\": 40}"
#define LAST                                                                                                           \
    "{\"request\": 9, \"slots_used\": 2, \"held_bytes_by_tier\": {\"memory\": 5000, \"disk\": 20}, "                   \
    "\"disk_allocated_bytes\": 8192, \"tokens_in\": 200, \"tokens_hit\": 150}"
#define ABOUT "\"form\": \"agent\", \"layout\": \"qwen3-8b\", \"scale\": 256, \"requests\": 9, \"thinning\": false"
#define GOOD  "{" ABOUT ", \"slots\": {\"total\": 70}, \"series\": [" SAMPLE ", " LAST "]}"

static int read_text(struct plot_run *run, const char *text, struct selene_message *message) {
    struct sel_json *json = NULL;
    *message = (struct selene_message){""};
    *run = (struct plot_run){.count = 0};
    int result = sel_json_parse(&json, text, strlen(text), "runs/a.json", 1, message);
    if (result == 0)
        result = plot_run_read(run, json, "runs/a.json", message);
    sel_json_free(&json);
    return result;
}

static void refused(const char *text, const char *words) {
    struct plot_run run;
    struct selene_message message;
    assert_int_equal(read_text(&run, text, &message), SELENE_E_PARSE);
    if (strstr(message.text, words) == NULL)
        fail_msg("found `%s`, expected `%s`", message.text, words);
    assert_null(run.samples);
}

static char *drawn(const struct plot_run *runs, size_t count) {
    char *directory = test_directory_make("plot"), path[512], *text = calloc(1, 1 << 20);
    struct selene_message message;
    snprintf(path, sizeof path, "%s/a.svg", directory);
    assert_ok(plot_write(path, runs, count, &message));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(text);
    assert_in_range(fread(text, 1, (1 << 20) - 1, file), 1, (1 << 20) - 2);
    fclose(file);
    test_directory_remove(&directory);
    return text;
}

static void holds(const char *text, const char *part) {
    if (strstr(text, part) == NULL)
        fail_msg("no `%s` in the drawing", part);
}

static size_t times(const char *text, const char *part) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

static void two_runs_have_one_scale(void **state) {
    (void)state;
    struct plot_run runs[2];
    struct selene_message message;
    assert_ok(read_text(&runs[0], GOOD, &message));
    assert_ok(read_text(&runs[1], GOOD, &message));
    assert_int_equal(runs[0].count, 2);
    assert_string_equal(runs[0].switches, "no thinning, packing, deferring");
    runs[1].samples[1].slots_used = 2000;
    char *text = drawn(runs, 2);
    assert_int_equal(times(text, "<polyline"), 10);
    assert_int_equal(times(text, ">2,000</text>"), 3); /* an end value and the top of both axes */
    holds(text, ">of 70 in all</text>");
    holds(text, ">Disk: bytes, KiB</text>");
    holds(text, ">75.00 %</text>");
    holds(text, ">9 requests, agent, qwen3-8b, bytes / 256</text>");
    holds(text, "prefers-color-scheme: dark");
    free(text);
    text = drawn(runs, 1);
    assert_int_equal(times(text, "<polyline"), 5);
    assert_int_equal(times(text, ">2,000</text>"), 0);
    free(text);
    plot_run_free(&runs[0]);
    plot_run_free(&runs[1]);
}

/* ---- reading a drawing back ---- */

struct tick {
    double place, number;
};

/* The next number on an axis: a text with this anchor. `place` is x for numbers below the drawing, y for those beside it. */
static const char *next_tick(const char *at, const char *anchor, const char *place, struct tick *tick) {
    char start[64];
    snprintf(start, sizeof start, "<text class=\"soft\" text-anchor=\"%s\"", anchor);
    if ((at = strstr(at, start)) == NULL)
        return NULL;
    tick->place = strtod(strstr(at, place) + strlen(place), NULL);
    at = strchr(at, '>') + 1;
    tick->number = strtod(at, NULL);
    return at;
}

/* The next line's points are at these numbers of both axes. */
static const char *line_is_at(const char *at, const struct tick x[2], const struct tick y[2], const double (*points)[2],
                              size_t count) {
    at = strstr(at, "points=\"");
    assert_non_null(at);
    at += strlen("points=\"");
    for (size_t i = 0; i < count; i++, at = strchr(at, ' ') + 1)
        for (int axis = 0; axis < 2; axis++) {
            const struct tick *tick = axis ? y : x;
            double each = (tick[1].place - tick[0].place) / (tick[1].number - tick[0].number);
            double expected = tick[0].place + (points[i][axis] - tick[0].number) * each;
            double found = strtod(axis ? strchr(at, ',') + 1 : at, NULL);
            if (found < expected - 0.2 || found > expected + 0.2)
                fail_msg("point %zu, axis %d: found %.1f, expected %.1f", i, axis, found, expected);
        }
    assert_int_equal(*at, '"'); /* and no more */
    return at;
}

/* Every axis begins at 0, ends above the largest value, and each value lies where the numbers beside the axis say; KiB are
 * 1,024 bytes. */
static void values_lie_where_the_axes_say(void **state) {
    (void)state;
    struct plot_run run;
    struct selene_message message;
    assert_ok(read_text(&run, GOOD, &message));
    char *text = drawn(&run, 1);
    static const struct {
        size_t lines;
        double points[2][2][2]; /* [line][sample]: request, value */
        double most;
        const char *last[2];
    } expected[4] = {
        {1, {{{5, 7}, {9, 2}}}, 8, {">2</text>"}},
        {1, {{{5, 3000 / 1024.0}, {9, 5000 / 1024.0}}}, 5, {">5000 B</text>"}},
        {2, {{{5, 10 / 1024.0}, {9, 20 / 1024.0}}, {{5, 4}, {9, 8}}}, 8, {">20 B</text>", ">8192 B</text>"}},
        {1, {{{5, 40}, {9, 75}}}, 100, {">75.00 %</text>"}}};
    struct tick x[2], y[2], next;
    const char *across = next_tick(text, "middle", " x=\"", &x[0]), *at = text;
    assert_non_null(across);
    assert_non_null(next_tick(across, "middle", " x=\"", &x[1]));
    assert_int_equal((int)x[0].number, 0);
    for (size_t panel = 0; panel < 4; panel++) {
        const char *line = strstr(at, "<polyline"), *tick = next_tick(at, "end", " y=\"", &y[0]);
        tick = next_tick(tick, "end", " y=\"", &y[1]);
        next = y[1];
        for (; tick != NULL && tick < line; tick = next_tick(tick, "end", " y=\"", &next))
            y[1] = next;
        assert_int_equal((int)y[0].number, 0);
        assert_int_equal((int)y[1].number, (int)expected[panel].most);
        assert_int_equal((int)(y[0].place - y[1].place + 0.5), 130); /* the axis fills its panel */
        y[0].place -= 4, y[1].place -= 4; /* from the line that letters stand on to their middle */
        for (size_t i = 0; i < expected[panel].lines; i++) {
            at = line_is_at(at, x, y, expected[panel].points[i], 2);
            const char *last = strstr(at, expected[panel].last[i]);
            assert_true(last != NULL && last < strstr(at, "</text>"));
        }
    }
    free(text);
    plot_run_free(&run);
}

/* A name that is too long for its column would be drawn over the next one's. It is cut between characters. */
static void long_names_are_cut(void **state) {
    (void)state;
    struct plot_sample nothing = {0};
    struct plot_run run = {.samples = &nothing, .count = 1};
    memset(run.name, 'n', sizeof run.name - 1);
    memcpy(run.name + 58, "\xc3\xa9", 2);
    memset(run.about, 'a', sizeof run.about - 1);
    memset(run.switches, 's', sizeof run.switches - 1);
    char *text = drawn(&run, 1);
    assert_int_equal(times(text, "\xc3"), 0);
    assert_int_equal(times(text, "n...</text>"), 1);
    assert_int_equal(times(text, "a...</text>"), 1);
    assert_int_equal(times(text, "s...</text>"), 1);
    strcpy(run.name, "short");
    free(text);
    text = drawn(&run, 1);
    holds(text, ">short</text>");
    free(text);
}

/* No number makes another kind of number out of itself. */
static void zeros_and_huge_numbers_are_drawn(void **state) {
    (void)state;
    struct plot_sample nothing = {0};
    struct plot_sample huge = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    struct plot_run runs[2] = {{.name = "nothing", .samples = &nothing, .count = 1},
                               {.name = "huge", .samples = &huge, .count = 1, .slots_total = UINT64_MAX}};
    for (int i = 0; i < 3; i++) {
        char *text = drawn(i == 1 ? runs + 1 : runs, i == 2 ? 2 : 1);
        assert_int_equal(times(text, "nan"), 0);
        assert_int_equal(times(text, "inf"), 0);
        assert_in_range(times(text, "<line"), 20, 200);
        free(text);
    }
}

static void bad_results_are_refused(void **state) {
    (void)state;
    refused("[]", "found an array of 0, expected the results");
    refused("{}", "field `series`: found nothing");
    refused("{\"series\": []}", "field `series`");
    refused("{\"series\": [1]}", "`series[0].`: found 1, expected an object");
    refused("{\"series\": [{}]}", "field `series[0].request`: found nothing");
    refused("{\"series\": {\"0\": 1}}", "field `series`");
    refused("{\"series\": [" SAMPLE "]}", "field `form`: found nothing, expected a text");
    refused("{\"series\": [" LAST ", " SAMPLE "]}", "field `series[1].request`: found 5");
    refused("{" ABOUT ", \"series\": [" SAMPLE "]}", "field `slots`: found nothing, expected an object");
    refused("{" ABOUT ", \"slots\": {\"total\": -1}, \"series\": [" SAMPLE "]}", "field `slots.total`: found -1");
    refused("{\"series\": [{\"request\": NaN}]}", "runs/a.json:1:");
    refused("{\"series\": [{\"request\": 1e999}]}", "runs/a.json:1:");
    refused("", "runs/a.json:1:");
    static const char *const fields[][2] = {
        {"\"slots_used\": 7", "slots_used"},         {"\"memory\": 3000", "held_bytes_by_tier.memory"},
        {"\"disk\": 10", "held_bytes_by_tier.disk"}, {"\"disk_allocated_bytes\": 4096", "disk_allocated_bytes"},
        {"\"tokens_in\": 100", "tokens_in"},         {"\"tokens_hit\": 40", "tokens_hit"}};
    static const char *const values[] = {"-1", "1.5", "1e300", "null", "\"7\"", "[]", "9223372036854775808"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        for (size_t value = 0; value < sizeof values / sizeof values[0]; value++) {
            char text[1024], words[128];
            const char *at = strstr(GOOD, fields[i][0]), *colon = strchr(at, ':');
            snprintf(text, sizeof text, "%.*s: %s%s", (int)(colon - GOOD), GOOD, values[value],
                     at + strlen(fields[i][0]));
            snprintf(words, sizeof words, "series[0].%s`", fields[i][1]);
            refused(text, values[value][0] == '9' ? "runs/a.json:1:" : words);
        }
    refused("{\"series\": [{\"request\": 1, \"slots_used\": 1, \"held_bytes_by_tier\": {\"memory\": 1, \"disk\": 1}, "
            "\"disk_allocated_bytes\": 1, \"tokens_in\": 5, \"tokens_hit\": 6}]}",
            "field `series[0].tokens_hit`: found 6");
    refused("{\"series\": [" SAMPLE ", {\"request\": 9, \"slots_used\": 1, \"held_bytes_by_tier\": {\"memory\": 1, "
            "\"disk\": 1}, \"disk_allocated_bytes\": 1, \"tokens_in\": 100, \"tokens_hit\": 39}]}",
            "field `series[1].tokens_hit`: found 39");
}

static void files_that_cannot_be_drawn(void **state) {
    (void)state;
    char *directory = test_directory_make("plot"), path[512], svg[512];
    struct selene_message message = {""};
    const char *results[2] = {path, path};
    snprintf(path, sizeof path, "%s/a.json", directory);
    snprintf(svg, sizeof svg, "%s/a.svg", directory);
    assert_int_equal(plot_files(svg, results, 1, &message), SELENE_E_NOTFOUND);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(GOOD, file);
    assert_ok(fclose(file));
    assert_ok(plot_files(svg, results, 2, &message));
    assert_ok(remove(svg));
    message = (struct selene_message){""};
    snprintf(svg, sizeof svg, "%s/none/a.svg", directory);
    assert_int_equal(plot_files(svg, results, 1, &message), SELENE_E_NOTFOUND);
    assert_non_null(strstr(message.text, "none/a.svg"));
    test_directory_remove(&directory);
}

/* Names come from file names: whatever they hold, the drawing stays XML. */
static void text_is_escaped(void **state) {
    (void)state;
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    assert_non_null(file);
    svg_text(file, "soft", SVG_END, 1, 2, "<a>&\"\x01\xff\xc3\xa9\xed\xa0\x80\xc0\xaf\xef\xbf\xbf\xe2\x82");
    assert_ok(fclose(file));
    assert_string_equal(text, "<text class=\"soft\" text-anchor=\"end\" x=\"1.0\" y=\"2.0\">&lt;a&gt;&amp;\"\?\?"
                              "\xc3\xa9\?\?\?\?\?\?\?\?\?\?</text>\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_runs_have_one_scale), cmocka_unit_test(zeros_and_huge_numbers_are_drawn),
        cmocka_unit_test(long_names_are_cut),      cmocka_unit_test(values_lie_where_the_axes_say),
        cmocka_unit_test(bad_results_are_refused), cmocka_unit_test(files_that_cannot_be_drawn),
        cmocka_unit_test(text_is_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
