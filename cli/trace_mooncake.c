/* SPDX-License-Identifier: Apache-2.0
 *
 * The form "mooncake": block ids that stand for whole prefixes, the last block partial.
 */
#include "cli/trace_priv.h"

#include <inttypes.h>

#define BLOCK_TOKENS 512

/* Consecutive ids become one run: fresh blocks are numbered upward, so most requests need two or three. */
static int ids_read(struct sel_trace *trace, const struct sel_json *ids, const struct sel_lines *lines,
                    struct selene_message *message) {
    char found[SEL_JSON_FOUND];
    uint64_t first = 0, id;
    uint32_t count = 0;
    for (size_t i = 0; i < sel_json_count(ids); i++) {
        if (!sel_json_u64(sel_json_at(ids, i), &id))
            return sel_fail(message, SELENE_E_PARSE, "%s: field `hash_ids[%zu]`: found %s, expected an integer from 0",
                            lines->place, i, sel_json_found(found, sel_json_at(ids, i)));
        if (count && id == first + count) {
            count++;
            continue;
        }
        if (count && sel_trace_add_run(trace, first, count))
            return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", lines->place);
        first = id, count = 1;
    }
    return sel_trace_add_run(trace, first, count) ? sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", lines->place)
                                                  : 0;
}

int sel_trace_read_mooncake(struct sel_trace *trace, const struct sel_json *json, const struct sel_lines *lines,
                            struct selene_message *message) {
    static const uint64_t none = 0;
    struct sel_json_place place = {lines->place, ""};
    const struct sel_json *ids;
    uint64_t input, output;
    int result =
        sel_json_want_u64(json, "input_length", &place, 1, SEL_TRACE_REQUEST_TOKENS_MAX, NULL, &input, message);
    if (result == 0)
        result =
            sel_json_want_u64(json, "output_length", &place, 0, SEL_TRACE_REQUEST_TOKENS_MAX, &none, &output, message);
    if (result == 0)
        result = sel_json_want_array(json, "hash_ids", &place, 1, SEL_TRACE_REQUEST_TOKENS_MAX, &ids, message);
    if (result)
        return result;
    uint64_t blocks = (input + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    if (sel_json_count(ids) != blocks)
        return sel_fail(message, SELENE_E_PARSE,
                        "%s: field `hash_ids`: found %zu ids, expected %" PRIu64 " for %" PRIu64
                        " tokens in blocks of %d",
                        lines->place, sel_json_count(ids), blocks, input, BLOCK_TOKENS);
    struct sel_trace_request *request = sel_trace_add_request(trace, lines->number);
    if (request == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", lines->place);
    request->input_tokens = (uint32_t)input;
    request->output_tokens = (uint32_t)output;
    request->session = trace->session_count++;
    trace->block_tokens = BLOCK_TOKENS;
    return ids_read(trace, ids, lines, message);
}
