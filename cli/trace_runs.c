/* SPDX-License-Identifier: Apache-2.0
 *
 * The form "runs": agent sessions as runs of 64-token block ids, full blocks only.
 */
#include "cli/trace_priv.h"

#include <inttypes.h>

#define BLOCK_TOKENS 64
#define RUNS_MAX     65536

int sel_trace_want_pair(const struct sel_json *json, const struct sel_lines *lines, const char *field, size_t index,
                        uint64_t first_max, uint64_t count_least, struct sel_trace_run *run,
                        struct selene_message *message) {
    char found[SEL_JSON_FOUND];
    uint64_t first, count;
    if (sel_json_count(json) != 2 || !sel_json_u64(sel_json_at(json, 0), &first) ||
        !sel_json_u64(sel_json_at(json, 1), &count))
        return sel_fail(message, SELENE_E_PARSE, "%s: field `%s[%zu]`: found %s, expected [first, count]", lines->place,
                        field, index, sel_json_found(found, json));
    if (count < count_least || count > SEL_TRACE_REQUEST_TOKENS_MAX)
        return sel_fail(message, SELENE_E_PARSE,
                        "%s: field `%s[%zu][1]`: found %" PRIu64 ", expected %" PRIu64 " to %" PRIu32, lines->place,
                        field, index, count, count_least, SEL_TRACE_REQUEST_TOKENS_MAX);
    if (first > first_max || count > first_max - first)
        return sel_fail(message, SELENE_E_PARSE,
                        "%s: field `%s[%zu]`: found %" PRIu64 " + %" PRIu64 ", expected a sum of at most %" PRIu64,
                        lines->place, field, index, first, count, first_max);
    *run = (struct sel_trace_run){first, (uint32_t)count};
    return 0;
}

static int runs_read(struct sel_trace *trace, const struct sel_json *runs, uint64_t input,
                     const struct sel_lines *lines, struct selene_message *message) {
    uint64_t blocks = 0;
    for (size_t i = 0; i < sel_json_count(runs); i++) {
        struct sel_trace_run run;
        int result = sel_trace_want_pair(sel_json_at(runs, i), lines, "runs", i, UINT64_C(1) << 48, 1, &run, message);
        if (result)
            return result;
        blocks += run.count;
        if (sel_trace_add_run(trace, run.first, run.count))
            return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", lines->place);
    }
    if (blocks != input / BLOCK_TOKENS)
        return sel_fail(message, SELENE_E_PARSE,
                        "%s: field `runs`: found %" PRIu64 " blocks, expected %" PRIu64 " full ones for %" PRIu64
                        " tokens in blocks of %d",
                        lines->place, blocks, input / BLOCK_TOKENS, input, BLOCK_TOKENS);
    return 0;
}

int sel_trace_read_runs(struct sel_trace *trace, const struct sel_json *json, const struct sel_lines *lines,
                        struct selene_message *message) {
    static const uint64_t none = 0;
    struct sel_json_place place = {lines->place, ""};
    const struct sel_json *runs;
    uint64_t session, input, output;
    int result = sel_json_want_u64(json, "s", &place, 0, UINT64_C(1) << 48, NULL, &session, message);
    if (result == 0)
        result = sel_json_want_u64(json, "inp", &place, 1, SEL_TRACE_REQUEST_TOKENS_MAX, NULL, &input, message);
    if (result == 0)
        result = sel_json_want_u64(json, "out", &place, 0, SEL_TRACE_REQUEST_TOKENS_MAX, &none, &output, message);
    if (result == 0)
        result = sel_json_want_array(json, "runs", &place, 0, RUNS_MAX, &runs, message);
    if (result)
        return result;
    struct sel_trace_request *request = sel_trace_add_request(trace, lines->number);
    if (request == NULL || sel_trace_session(trace, session, &request->session))
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", lines->place);
    request->input_tokens = (uint32_t)input;
    request->output_tokens = (uint32_t)output;
    trace->block_tokens = BLOCK_TOKENS;
    return runs_read(trace, runs, input, lines, message);
}
