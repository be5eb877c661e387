/* SPDX-License-Identifier: Apache-2.0
 *
 * The state behind struct bench: options, the report being made, the scratch directory.
 */
#ifndef SEL_TOOLS_BENCH_PRIV_H
#define SEL_TOOLS_BENCH_PRIV_H

#include "tools/bench/bench.h"

#include <stdio.h>

#define BENCH_VERSION   "0.1.0"
#define BENCH_NOTES_MAX 32

struct sel_json;
struct sel_table;

struct bench {
    struct bench_options options;
    const char *group, *about;
    struct sel_table *table;
    FILE *out; /* tables: standard error when the JSON goes to standard output */
    char *notes[BENCH_NOTES_MAX];
    size_t note_count;
    struct sel_json *json_values, *json_notes;
    int json_rc; /* of all building calls, or'ed */
    unsigned goals, missed;
};

void bench_report_start(struct bench *bench);
int bench_report_end(struct bench *bench, struct selene_message *message);
/* Adds what the machine is: processor, processors, memory, kernel. */
int bench_machine_json(struct sel_json *json);

/* Before any other thread: from here on SIGINT and SIGTERM remove the scratch directory and end the process. */
int bench_scratch_start(void);
void bench_scratch_end(void); /* removes it */

#endif
