/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of the trace readers: a line reader, growing of the trace's arrays, one reader a form.
 */
#ifndef SEL_CLI_TRACE_PRIV_H
#define SEL_CLI_TRACE_PRIV_H

#include "cli/json.h"
#include "cli/trace.h"

#include <stdbool.h>
#include <stdio.h>

struct sel_lines {
    const char *path;
    FILE *file;
    char *text; /* the current line, without its end */
    size_t room;
    size_t count;
    uint64_t number;  /* of the current line */
    char place[4200]; /* "PATH:LINE" for messages */
};

int sel_lines_open(struct sel_lines *lines, const char *path, struct selene_message *message);
/* The next line that is not blank: 1, at the end 0, or an error. */
int sel_lines_next(struct sel_lines *lines, struct selene_message *message);
void sel_lines_close(struct sel_lines *lines);

/* Room for one more; NULL: no memory. The request's runs follow by sel_trace_add_run. */
struct sel_trace_request *sel_trace_add_request(struct sel_trace *trace, uint64_t line);
int sel_trace_add_run(struct sel_trace *trace, uint64_t first, uint32_t count);
/* Number of a session by the file's name for it. Sessions usually follow one another; looks at the last one first. */
int sel_trace_session(struct sel_trace *trace, uint64_t name, uint32_t *session);

/* One line into one request. */
typedef int sel_trace_read(struct sel_trace *trace, const struct sel_json *json, const struct sel_lines *lines,
                           struct selene_message *message);
sel_trace_read sel_trace_read_mooncake, sel_trace_read_runs, sel_trace_read_tokens;
int sel_trace_load_tokens(struct sel_trace *trace, const char *path, struct selene_message *message);

/* [a, b] of two integers in range, as a run. */
int sel_trace_want_pair(const struct sel_json *json, const struct sel_lines *lines, const char *field, size_t index,
                        uint64_t first_max, uint64_t count_least, struct sel_trace_run *run,
                        struct selene_message *message);

#endif
