/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces of real requests, read whole and checked whole before anything is done with them. Three forms, one request a
 * line of JSON:
 *
 *   mooncake  {"timestamp", "input_length", "output_length", "hash_ids"}: ids of 512-token blocks, each standing for
 *             the whole prefix up to and with its block; the last block is partial unless the length is a multiple
 *   runs      {"s", "a", "inp", "out", "runs": [[first id, count], ...], ...}: 64-token blocks, full ones only; a
 *             block's identity is (s, id)
 *   tokens    {"in": [[offset, count], ...], "input_tokens", "out": [offset, count], ...}: places in a file of token
 *             ids beside it, little-endian u32. NAME.requests.jsonl and NAME.tokens.u32le belong together
 *
 * Files may be truncated, damaged or hostile: every error names file and line, what was found and what was expected.
 * Fields that a form does not name are ignored, since traces carry notes of their makers.
 */
#ifndef SEL_CLI_TRACE_H
#define SEL_CLI_TRACE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum sel_trace_form { SEL_TRACE_MOONCAKE = 0, SEL_TRACE_RUNS = 1, SEL_TRACE_TOKENS = 2, SEL_TRACE_UNKNOWN = -1 };

#define SEL_TRACE_REQUEST_TOKENS_MAX (UINT32_C(1) << 24) /* of one request, prompt and reply */
#define SEL_TRACE_REQUESTS_MAX       (UINT32_C(1) << 26)

/* A run of consecutive blocks, or of consecutive tokens in the token file. */
struct sel_trace_run {
    uint64_t first;
    uint32_t count;
};

struct sel_trace_request {
    uint64_t line;         /* in the file, from 1 */
    uint32_t session;      /* numbered from 0 in order of appearance; mooncake: every request its own */
    uint32_t input_tokens; /* at least 1 */
    uint32_t output_tokens;
    uint32_t run_count;
    size_t run_first; /* index in `runs` */
};

struct sel_trace {
    enum sel_trace_form form;
    uint32_t block_tokens; /* 512, 64; tokens: 1 */
    struct sel_trace_request *requests;
    size_t request_count, request_capacity;
    struct sel_trace_run *runs; /* tokens: the last run of a request is its reply */
    size_t run_count, run_capacity;
    uint32_t session_count;
    uint64_t *session_names; /* the file's numbers */
    uint32_t *session_slots; /* hash table over them: number + 1, 0 empty; a power of two of them */
    size_t session_slot_count;
    uint32_t *tokens; /* tokens form: the token file */
    size_t token_count;
};

/* Reads a trace. `form` SEL_TRACE_UNKNOWN: told from the content. `requests_max` and `sessions_max` stop the reading
 * early or leave later sessions out (0: no limit). SELENE_E_PARSE, or why a file cannot be read. */
int sel_trace_load(struct sel_trace **out, const char *path, enum sel_trace_form form, uint64_t requests_max,
                   uint64_t sessions_max, struct selene_message *message);
void sel_trace_free(struct sel_trace **trace);

const char *sel_trace_form_name(enum sel_trace_form form);
extern const char *const sel_trace_form_names[]; /* in the order of the enum, NULL-terminated */

#endif
