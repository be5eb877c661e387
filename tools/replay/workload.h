/* SPDX-License-Identifier: Apache-2.0
 *
 * A workload: requests in order, each expanded on demand into its tokens. Three come from traces, one is generated.
 *
 * Tokens that a trace names only by block ids are made up from those ids: the same block gives the same tokens, another
 * block other ones. What no id covers (the rest behind the last full 64-token block) is the request's own.
 */
#ifndef SELENE_REPLAY_WORKLOAD_H
#define SELENE_REPLAY_WORKLOAD_H

#include "cli/trace.h"

#include "tools/replay/mix.h"

struct workload_request {
    uint32_t session;           /* requests of a session follow one another */
    uint32_t prompt_tokens;     /* at least 1 */
    uint32_t checkpoint_tokens; /* published at the prompt's end: all of it, or up to its last full block; 0: nothing */
    uint32_t reply_tokens;      /* tokens of the reply that are known; 0: none is published */
};

struct workload;
struct workload_ops {
    /* Writes prompt and reply: prompt_tokens + reply_tokens ids. */
    void (*expand)(const struct workload *workload, size_t index, uint32_t *tokens);
    void (*destroy)(struct workload *workload); /* frees it */
};
struct workload {
    const struct workload_ops *ops;
    const char *name; /* "mooncake", "runs", "tokens", "agent" */
    struct workload_request *requests;
    size_t count;
    uint32_t session_count;
    uint32_t tokens_max; /* the most that a request has, prompt and reply */
};

/* Takes the trace over, also on failure. SELENE_E_NOMEM. */
int workload_from_trace(struct workload **out, struct sel_trace **trace);
/* Conversations of agents. request_count requests of session_count sessions, or as many as the sessions give. */
int workload_agent_create(struct workload **out, uint64_t seed, size_t request_count, uint32_t session_count);
void workload_destroy(struct workload **workload); /* NULL too */

/* ---- for the workloads' own files ---- */

/* Per form: makes the requests' descriptions, and expands. */
struct workload_trace {
    struct workload base;
    struct sel_trace *trace;
};
void workload_mooncake_describe(const struct sel_trace *trace, size_t index, struct workload_request *request);
void workload_mooncake_expand(const struct workload *workload, size_t index, uint32_t *tokens);
void workload_runs_describe(const struct sel_trace *trace, size_t index, struct workload_request *request);
void workload_runs_expand(const struct workload *workload, size_t index, uint32_t *tokens);
void workload_tokens_describe(const struct sel_trace *trace, size_t index, struct workload_request *request);
void workload_tokens_expand(const struct workload *workload, size_t index, uint32_t *tokens);

/* `count` made-up tokens of the thing that `name` stands for. Start and step both come from the name, so that two
 * names give the same tokens with a chance of 2^-63; the loop is one addition a token. */
static inline void workload_tokens_make(uint32_t *tokens, uint32_t count, uint64_t name) {
    uint64_t mixed = mix64(name);
    uint32_t start = (uint32_t)mixed, step = (uint32_t)(mixed >> 32) | 1;
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = start + i * step;
}

#endif
