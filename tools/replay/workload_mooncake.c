/* SPDX-License-Identifier: Apache-2.0
 *
 * The form "mooncake": every id, also that of the partial last block, stands for the whole prefix up to its block, so
 * its tokens depend on the id alone. Checkpoints lie at the last full block; replies are not known.
 */
#include "tools/replay/workload.h"

uint32_t workload_mooncake_describe(const struct sel_trace *trace, size_t index, struct workload_request *request) {
    const struct sel_trace_request *source = &trace->requests[index];
    *request = (struct workload_request){.session = source->session, .prompt_tokens = source->input_tokens};
    return source->input_tokens / trace->block_tokens * trace->block_tokens;
}

void workload_mooncake_expand(const struct workload *workload, size_t index, uint32_t *tokens) {
    const struct sel_trace *trace = ((const struct workload_trace *)workload)->trace;
    const struct sel_trace_request *source = &trace->requests[index];
    uint32_t left = source->input_tokens;
    for (uint32_t r = 0; r < source->run_count; r++) {
        const struct sel_trace_run *run = &trace->runs[source->run_first + r];
        for (uint32_t i = 0; i < run->count; i++) {
            uint32_t count = left < trace->block_tokens ? left : trace->block_tokens;
            workload_tokens_make(tokens, count, run->first + i);
            tokens += count, left -= count;
        }
    }
}
