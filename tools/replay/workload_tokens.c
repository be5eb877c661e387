/* SPDX-License-Identifier: Apache-2.0
 *
 * The form "tokens": real token ids, replies included, so there are checkpoints at the exact ends of both.
 */
#include "tools/replay/workload.h"

#include <string.h>

uint32_t workload_tokens_describe(const struct sel_trace *trace, size_t index, struct workload_request *request) {
    const struct sel_trace_request *source = &trace->requests[index];
    *request = (struct workload_request){
        .session = source->session, .prompt_tokens = source->input_tokens, .reply_tokens = source->output_tokens};
    return source->input_tokens;
}

void workload_tokens_expand(const struct workload *workload, size_t index, uint32_t *tokens) {
    const struct sel_trace *trace = ((const struct workload_trace *)workload)->trace;
    const struct sel_trace_request *source = &trace->requests[index];
    for (uint32_t r = 0; r < source->run_count; r++) {
        const struct sel_trace_run *run = &trace->runs[source->run_first + r];
        memcpy(tokens, trace->tokens + run->first, (size_t)run->count * sizeof *tokens);
        tokens += run->count;
    }
}
