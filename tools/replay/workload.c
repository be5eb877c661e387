/* SPDX-License-Identifier: Apache-2.0
 *
 * What workloads have in common, and the three forms of traces.
 */
#include "tools/replay/workload.h"

#include <stdlib.h>

int workload_checkpoint_add(struct workload *workload, struct workload_request *request, enum checkpoint_kind kind,
                            uint32_t tokens) {
    if (tokens == 0)
        return 0;
    if (workload->checkpoint_count == workload->checkpoint_capacity) {
        size_t capacity = workload->checkpoint_capacity * 2 + 1024;
        struct checkpoint *moved = reallocarray(workload->checkpoints, capacity, sizeof *moved);
        if (moved == NULL)
            return SELENE_E_NOMEM;
        workload->checkpoints = moved, workload->checkpoint_capacity = capacity;
    }
    if (request->checkpoint_count++ == 0)
        request->checkpoint_first = workload->checkpoint_count;
    workload->checkpoints[workload->checkpoint_count++] = (struct checkpoint){kind, tokens};
    return 0;
}

void workload_base_free(struct workload *workload) {
    free(workload->requests);
    free(workload->checkpoints);
}

/* ---- traces ---- */

static void trace_destroy(struct workload *workload) {
    struct workload_trace *mine = (struct workload_trace *)workload;
    sel_trace_free(&mine->trace);
    workload_base_free(&mine->base);
    free(mine);
}

static const struct workload_ops mooncake_ops = {workload_mooncake_expand, trace_destroy};
static const struct workload_ops runs_ops = {workload_runs_expand, trace_destroy};
static const struct workload_ops tokens_ops = {workload_tokens_expand, trace_destroy};

static const struct {
    const struct workload_ops *ops;
    uint32_t (*describe)(const struct sel_trace *trace, size_t index, struct workload_request *request);
} forms[] = {
    [SEL_TRACE_MOONCAKE] = {&mooncake_ops, workload_mooncake_describe},
    [SEL_TRACE_RUNS] = {&runs_ops, workload_runs_describe},
    [SEL_TRACE_TOKENS] = {&tokens_ops, workload_tokens_describe},
};

static int requests_describe(struct workload_trace *mine) {
    int result = 0;
    for (size_t i = 0; result == 0 && i < mine->base.count; i++) {
        struct workload_request *request = &mine->base.requests[i];
        uint32_t checkpoint = forms[mine->trace->form].describe(mine->trace, i, request);
        uint32_t tokens = request->prompt_tokens + request->reply_tokens;
        mine->base.tokens_max = tokens > mine->base.tokens_max ? tokens : mine->base.tokens_max;
        result = workload_checkpoint_add(&mine->base, request, CHECKPOINT_PROMPT, checkpoint);
        if (result == 0 && request->reply_tokens)
            result = workload_checkpoint_add(&mine->base, request, CHECKPOINT_TERMINAL, tokens);
    }
    return result;
}

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
    int result = requests_describe(mine);
    if (result)
        trace_destroy(&mine->base);
    else
        *out = &mine->base;
    return result;
}

void workload_destroy(struct workload **workload) {
    if (*workload)
        (*workload)->ops->destroy(*workload);
    *workload = NULL;
}
