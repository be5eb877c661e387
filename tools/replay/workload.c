/* SPDX-License-Identifier: Apache-2.0
 *
 * Workloads from traces: what the three forms have in common.
 */
#include "tools/replay/workload.h"

#include <stdlib.h>

static void trace_destroy(struct workload *workload) {
    struct workload_trace *mine = (struct workload_trace *)workload;
    sel_trace_free(&mine->trace);
    free(mine->base.requests);
    free(mine);
}

static const struct workload_ops mooncake_ops = {workload_mooncake_expand, trace_destroy};
static const struct workload_ops runs_ops = {workload_runs_expand, trace_destroy};
static const struct workload_ops tokens_ops = {workload_tokens_expand, trace_destroy};

static const struct {
    const struct workload_ops *ops;
    void (*describe)(const struct sel_trace *trace, size_t index, struct workload_request *request);
} forms[] = {
    [SEL_TRACE_MOONCAKE] = {&mooncake_ops, workload_mooncake_describe},
    [SEL_TRACE_RUNS] = {&runs_ops, workload_runs_describe},
    [SEL_TRACE_TOKENS] = {&tokens_ops, workload_tokens_describe},
};

int workload_from_trace(struct workload **out, struct sel_trace **trace) {
    *out = NULL;
    struct workload_trace *mine = calloc(1, sizeof *mine);
    struct workload_request *requests = calloc((*trace)->request_count, sizeof *requests);
    if (mine == NULL || requests == NULL) {
        free(mine), free(requests);
        sel_trace_free(trace);
        return SELENE_E_NOMEM;
    }
    mine->trace = *trace, *trace = NULL;
    mine->base = (struct workload){.ops = forms[mine->trace->form].ops,
                                   .name = sel_trace_form_name(mine->trace->form),
                                   .requests = requests,
                                   .count = mine->trace->request_count,
                                   .session_count = mine->trace->session_count};
    for (size_t i = 0; i < mine->base.count; i++) {
        forms[mine->trace->form].describe(mine->trace, i, &requests[i]);
        uint32_t tokens = requests[i].prompt_tokens + requests[i].reply_tokens;
        mine->base.tokens_max = tokens > mine->base.tokens_max ? tokens : mine->base.tokens_max;
    }
    *out = &mine->base;
    return 0;
}

void workload_destroy(struct workload **workload) {
    if (*workload)
        (*workload)->ops->destroy(*workload);
    *workload = NULL;
}
