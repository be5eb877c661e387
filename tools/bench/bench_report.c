/* SPDX-License-Identifier: Apache-2.0
 *
 * The report: one table a group on standard output, and the same values as JSON.
 */
#include "tools/bench/bench_priv.h"

#include "cli/json.h"
#include "cli/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 2.41, 24.1, 241, 24,100: three digits say all that a noisy machine can. */
static const char *print_value(char text[32], double value) {
    if (value < 10)
        snprintf(text, 32, "%.2f", value);
    else if (value < 100)
        snprintf(text, 32, "%.1f", value);
    else
        snprintf(text, 32, "%.0f", value);
    return text;
}

static void print_group(struct bench *bench) {
    if (bench->table == NULL)
        return;
    fprintf(bench->out, "\n%s: %s\n\n", bench->group, bench->about);
    sel_table_print(bench->table, bench->out);
    for (size_t i = 0; i < bench->note_count; i++)
        fprintf(bench->out, "%s  %s\n", i ? "" : "\n", bench->notes[i]);
    fflush(bench->out);
    sel_table_destroy(&bench->table);
    for (size_t i = 0; i < bench->note_count; i++)
        free(bench->notes[i]);
    bench->note_count = 0;
}

void bench_group(struct bench *bench, const char *name, const char *about) {
    print_group(bench);
    bench->group = name;
    bench->about = about;
    bench->table = sel_table_create("lrrrllr");
    static const char *const heads[] = {"", "median", "least", "most", "", "goal", ""};
    for (size_t i = 0; i < 7; i++)
        sel_table_cell(bench->table, "%s", heads[i]);
    sel_table_rule(bench->table);
}

static struct sel_json *json_value(struct bench *bench, const struct bench_series *series, const char *unit,
                                   const char *name) {
    struct sel_json *json = sel_json_object();
    bench->json_rc |=
        sel_json_set_string(json, "group", bench->group) | sel_json_set_string(json, "name", name) |
        sel_json_set_string(json, "unit", unit) | sel_json_set_double(json, "median", bench_median(series)) |
        sel_json_set_double(json, "least", bench_least(series)) |
        sel_json_set_double(json, "most", bench_most(series)) | sel_json_set_u64(json, "rounds", series->count);
    return json;
}

static void row(struct bench *bench, const struct bench_series *series, const char *unit, const char *name) {
    char text[32];
    sel_table_cell(bench->table, "%s", name);
    sel_table_cell(bench->table, "%s", print_value(text, bench_median(series)));
    sel_table_cell(bench->table, "%s", print_value(text, bench_least(series)));
    sel_table_cell(bench->table, "%s", print_value(text, bench_most(series)));
    sel_table_cell(bench->table, "%s", unit);
}

void bench_value(struct bench *bench, const struct bench_series *series, const char *unit, const char *format, ...) {
    char name[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    row(bench, series, unit, name);
    sel_table_end_row(bench->table);
    bench->json_rc |= sel_json_append(bench->json_values, json_value(bench, series, unit, name));
}

void bench_goal(struct bench *bench, const struct bench_series *series, const char *unit, const char *goal,
                enum bench_bound bound, double limit, const char *format, ...) {
    char name[160], text[32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    double median = bench_median(series);
    bool met = bound == BENCH_AT_LEAST ? median >= limit : median <= limit;
    row(bench, series, unit, name);
    sel_table_cell(bench->table, "%s %s %s", goal, bound == BENCH_AT_LEAST ? ">=" : "<=", print_value(text, limit));
    sel_table_cell(bench->table, "%s", met ? "met" : "MISSED");
    struct sel_json *json = json_value(bench, series, unit, name);
    bench->json_rc |= sel_json_set_string(json, "goal", goal) |
                      sel_json_set_double(json, bound == BENCH_AT_LEAST ? "at_least" : "at_most", limit) |
                      sel_json_set_bool(json, "met", met);
    bench->json_rc |= sel_json_append(bench->json_values, json);
    bench->goals++;
    bench->missed += !met;
}

void bench_note(struct bench *bench, const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int rc = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (rc < 0)
        return;
    if (bench->note_count == BENCH_NOTES_MAX) {
        free(text);
        return;
    }
    bench->notes[bench->note_count++] = text;
    struct sel_json *json = sel_json_object();
    bench->json_rc |= sel_json_set_string(json, "group", bench->group) | sel_json_set_string(json, "note", text);
    bench->json_rc |= sel_json_append(bench->json_notes, json);
}

void bench_report_start(struct bench *bench) {
    bool to_stdout = bench->options.json && strcmp(bench->options.json, "-") == 0;
    bench->out = to_stdout ? stderr : stdout;
    bench->json_values = sel_json_array();
    bench->json_notes = sel_json_array();
}

/* Prints the last group and writes the JSON. */
int bench_report_end(struct bench *bench, struct selene_message *message) {
    print_group(bench);
    if (bench->goals)
        fprintf(bench->out, "\n%u of %u goals met\n", bench->goals - bench->missed, bench->goals);
    double load[1] = {0};
    if (getloadavg(load, 1) == 1 && load[0] > (double)sysconf(_SC_NPROCESSORS_ONLN) + 0.5)
        fprintf(bench->out, "The machine is busy with other work (load average %.1f): these are no figures of it.\n",
                load[0]);
    struct sel_json *json = sel_json_object();
    int rc = bench->json_rc | sel_json_set_string(json, "tool", "selene-bench") |
             sel_json_set_string(json, "version", BENCH_VERSION) | bench_machine_json(json) |
             sel_json_set_u64(json, "rounds", bench->options.rounds) |
             sel_json_set_u64(json, "bytes", bench->options.bytes) |
             sel_json_set_u64(json, "threads", bench->options.threads) | sel_json_set_u64(json, "goals", bench->goals) |
             sel_json_set_u64(json, "goals_missed", bench->missed);
    rc |= sel_json_set(json, "values", bench->json_values);
    rc |= sel_json_set(json, "notes", bench->json_notes);
    bench->json_values = bench->json_notes = NULL;
    if (rc)
        rc = sel_fail(message, SELENE_E_NOMEM, "out of memory for the report");
    else if (bench->options.json)
        rc = sel_json_write(json, bench->options.json, message);
    sel_json_free(&json);
    return rc;
}
