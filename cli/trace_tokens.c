/* SPDX-License-Identifier: Apache-2.0
 *
 * The form "tokens": places in a file of token ids. The token file is read first, so that every place can be checked.
 */
#include "cli/trace_priv.h"

#include "base/bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TOKENS_MAX ((uint64_t)1 << 30)
#define PIECES_MAX 65536

static int tokens_size(FILE *file, const char *path, uint64_t *count, struct selene_message *message) {
    struct stat status;
    if (fstat(fileno(file), &status))
        return sel_fail(message, sel_error_from_errno(errno), "%s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode) || status.st_size % 4 || (uint64_t)status.st_size / 4 > TOKENS_MAX)
        return sel_fail(message, SELENE_E_PARSE,
                        "%s: found %" PRIu64
                        " bytes, expected a file of 32-bit token ids: a multiple of 4, at most 4 GiB",
                        path, (uint64_t)status.st_size);
    *count = (uint64_t)status.st_size / 4;
    return 0;
}

int sel_trace_load_tokens(struct sel_trace *trace, const char *path, struct selene_message *message) {
    uint64_t count = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return sel_fail(message, sel_error_from_errno(errno), "%s: %s", path, strerror(errno));
    int result = tokens_size(file, path, &count, message);
    if (result)
        goto out;
    trace->tokens = malloc(count ? count * 4 : 4);
    if (trace->tokens == NULL) {
        result = sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", path);
        goto out;
    }
    trace->token_count = fread(trace->tokens, 4, count, file);
    if (trace->token_count != count) {
        result =
            sel_fail(message, SELENE_E_IO, "%s: found %zu tokens, expected %" PRIu64, path, trace->token_count, count);
        goto out;
    }
    for (uint64_t i = 0; i < count; i++)
        trace->tokens[i] = sel_get_u32((const uint8_t *)&trace->tokens[i]);
out:
    fclose(file);
    return result;
}

static int pieces_read(struct sel_trace *trace, const struct sel_json *pieces, uint64_t input,
                       const struct sel_lines *lines, struct selene_message *message) {
    uint64_t sum = 0;
    for (size_t i = 0; i < sel_json_count(pieces); i++) {
        struct sel_trace_run run;
        int result = sel_trace_want_pair(sel_json_at(pieces, i), lines, "in", i, trace->token_count, 1, &run, message);
        if (result)
            return result;
        sum += run.count;
        if (sel_trace_add_run(trace, run.first, run.count))
            return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", lines->place);
    }
    if (sum != input)
        return sel_fail(message, SELENE_E_PARSE,
                        "%s: field `in`: found %" PRIu64 " tokens, expected %" PRIu64 " as `input_tokens` says",
                        lines->place, sum, input);
    return 0;
}

int sel_trace_read_tokens(struct sel_trace *trace, const struct sel_json *json, const struct sel_lines *lines,
                          struct selene_message *message) {
    struct sel_json_place place = {lines->place, ""};
    struct sel_trace_run reply = {0, 0};
    const struct sel_json *pieces, *out = sel_json_get(json, "out");
    char found[SEL_JSON_FOUND];
    uint64_t input;
    int result =
        sel_json_want_u64(json, "input_tokens", &place, 1, SEL_TRACE_REQUEST_TOKENS_MAX, NULL, &input, message);
    if (result == 0)
        result = sel_json_want_array(json, "in", &place, 1, PIECES_MAX, &pieces, message);
    if (result)
        return result;
    struct sel_trace_request *request = sel_trace_add_request(trace, lines->number);
    if (request == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", lines->place);
    request->input_tokens = (uint32_t)input;
    trace->block_tokens = 1;
    trace->session_count = 1;
    result = pieces_read(trace, pieces, input, lines, message);
    if (result)
        return result;
    if (out && !sel_json_is_array(out))
        return sel_fail(message, SELENE_E_PARSE, "%s: field `out`: found %s, expected [offset, count]", lines->place,
                        sel_json_found(found, out));
    if (out)
        result = sel_trace_want_pair(out, lines, "out", 0, trace->token_count, 0, &reply, message);
    if (result)
        return result;
    request = &trace->requests[trace->request_count - 1];
    request->output_tokens = reply.count;
    return sel_trace_add_run(trace, reply.first, reply.count)
               ? sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", lines->place)
               : 0;
}
