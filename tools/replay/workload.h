/* SPDX-License-Identifier: Apache-2.0
 *
 * A workload: requests in order, each expanded on demand into its tokens. Three kinds come from traces, two are
 * generated.
 *
 * Tokens that a trace names only by block ids are made up from those ids: the same block gives the same tokens, another
 * block other ones. What no id covers (the rest behind the last full 64-token block) is the request's own.
 */
#ifndef SELENE_REPLAY_WORKLOAD_H
#define SELENE_REPLAY_WORKLOAD_H

#include "cli/trace.h"

#include "tools/replay/mix.h"

#include <stdbool.h>

/* Where an engine captures the state of a request. */
enum checkpoint_kind {
    CHECKPOINT_MESSAGE,  /* the end of a message or tool output within the prompt */
    CHECKPOINT_PROMPT,   /* the prompt's end: all of it, or up to its last full block */
    CHECKPOINT_TERMINAL, /* the end of the reply */
};
struct checkpoint {
    enum checkpoint_kind kind;
    uint32_t tokens; /* at least 1 */
};

struct workload_request {
    uint32_t session;       /* requests of a session follow one another */
    uint32_t prompt_tokens; /* at least 1 */
    uint32_t reply_tokens;  /* tokens of the reply that are known; 0: none */
    uint32_t checkpoint_count;
    size_t checkpoint_first; /* in workload->checkpoints, in ascending order of tokens */
};

struct workload;
struct workload_ops {
    /* Writes prompt and reply: prompt_tokens + reply_tokens ids. */
    void (*expand)(const struct workload *workload, size_t index, uint32_t *tokens);
    void (*destroy)(struct workload *workload); /* frees it */
};
struct workload {
    const struct workload_ops *ops;
    const char *name; /* "mooncake", "runs", "tokens", "agent", "conversation" */
    struct workload_request *requests;
    size_t count;
    struct checkpoint *checkpoints; /* of all requests */
    size_t checkpoint_count, checkpoint_capacity;
    uint32_t session_count;
    uint32_t tokens_max; /* the most that a request has, prompt and reply */
};

/* Takes the trace over, also on failure. SELENE_E_NOMEM. */
int workload_from_trace(struct workload **out, struct sel_trace **trace);
/* Conversations of agents. request_count requests of session_count sessions, or as many as the sessions give. */
int workload_agent_create(struct workload **out, uint64_t seed, size_t request_count, uint32_t session_count);
/* Conversations that take turns; options within what the tool's options allow. The first request_count requests. */
struct conversation_options {
    uint32_t conversations, turns; /* their product fits SEL_TRACE_REQUESTS_MAX */
    uint32_t context_tokens;       /* at least turns * conversation_turn_tokens_min */
    uint32_t checkpoints_per_turn; /* at least 2 */
    bool rerender;
};
uint32_t conversation_turn_tokens_min(const struct conversation_options *options);
int workload_conversation_create(struct workload **out, uint64_t seed, size_t request_count,
                                 const struct conversation_options *options);
void workload_destroy(struct workload **workload); /* NULL too */

static inline const struct checkpoint *workload_checkpoints(const struct workload *workload,
                                                            const struct workload_request *request) {
    return workload->checkpoints + request->checkpoint_first;
}

/* ---- for the workloads' own files ---- */

/* The next checkpoint of the request that is being described: requests are described one after another. With 0 tokens
 * there is none. SELENE_E_NOMEM. */
int workload_checkpoint_add(struct workload *workload, struct workload_request *request, enum checkpoint_kind kind,
                            uint32_t tokens);
void workload_base_free(struct workload *workload); /* requests and checkpoints */

/* Per form: describes a request and returns the tokens of its prompt checkpoint; expands. */
struct workload_trace {
    struct workload base;
    struct sel_trace *trace;
};
uint32_t workload_mooncake_describe(const struct sel_trace *trace, size_t index, struct workload_request *request);
void workload_mooncake_expand(const struct workload *workload, size_t index, uint32_t *tokens);
uint32_t workload_runs_describe(const struct sel_trace *trace, size_t index, struct workload_request *request);
void workload_runs_expand(const struct workload *workload, size_t index, uint32_t *tokens);
uint32_t workload_tokens_describe(const struct sel_trace *trace, size_t index, struct workload_request *request);
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
