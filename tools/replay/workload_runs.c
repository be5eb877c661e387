/* SPDX-License-Identifier: Apache-2.0
 *
 * The form "runs": a block is (session, id). Tokens behind the last full block are named by nothing: they are the
 * request's own, and its checkpoint lies before them. Replies are not known.
 */
#include "tools/replay/workload.h"

#define OWN_TOKENS UINT64_C(0x7461696c) /* sets the names of tails apart from those of blocks */

uint32_t workload_runs_describe(const struct sel_trace *trace, size_t index, struct workload_request *request) {
    const struct sel_trace_request *source = &trace->requests[index];
    *request = (struct workload_request){.session = source->session, .prompt_tokens = source->input_tokens};
    return source->input_tokens / trace->block_tokens * trace->block_tokens;
}

void workload_runs_expand(const struct workload *workload, size_t index, uint32_t *tokens) {
    const struct sel_trace *trace = ((const struct workload_trace *)workload)->trace;
    const struct sel_trace_request *source = &trace->requests[index];
    uint64_t session = mix_in(1, trace->session_names[source->session]);
    uint32_t *at = tokens;
    for (uint32_t r = 0; r < source->run_count; r++) {
        const struct sel_trace_run *run = &trace->runs[source->run_first + r];
        for (uint32_t i = 0; i < run->count; i++, at += trace->block_tokens)
            workload_tokens_make(at, trace->block_tokens, mix_in(session, run->first + i));
    }
    workload_tokens_make(at, source->input_tokens - (uint32_t)(at - tokens), mix_in(OWN_TOKENS, index));
}
