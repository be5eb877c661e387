/* SPDX-License-Identifier: Apache-2.0
 *
 * Generated conversations of coding agents: all share one system prompt; each call's prompt is the conversation so far
 * (user message or tool output last), its reply is appended. Now and then a user takes the last messages back and goes
 * on differently, or the agent hands work to a sub-agent, whose conversation starts from a system prompt of its own and
 * whose last reply comes back as a tool's output. Several sessions are open at a time and take turns.
 *
 * A message is a number and a length; its tokens are made from seed and number. A request keeps the list of its
 * messages, the reply last.
 */
#include "tools/replay/workload.h"

#include <stdlib.h>
#include <string.h>

#define OPEN_SESSIONS  8
#define MESSAGES_MAX   512 /* of one conversation; a longer one ends */
#define SYSTEM_TOKENS  6144
#define HELPER_TOKENS  2304
#define SYSTEM_MESSAGE 0 /* numbers of the two shared messages */
#define HELPER_MESSAGE 1

struct conversation {
    uint32_t messages[MESSAGES_MAX];
    uint32_t count;
};

struct session {
    struct conversation main, helper;
    uint32_t number;
    uint32_t calls_left; /* of the main agent; 0: the place is free */
    uint32_t helper_calls_left;
};

struct workload_agent {
    struct workload base;
    uint64_t seed, random;
    uint32_t *lengths; /* of each message */
    size_t message_count, message_capacity;
    uint32_t *lists; /* message numbers of all requests */
    size_t list_count, list_capacity;
    size_t *list_first; /* of each request, and the end: count + 1 */
    struct session open[OPEN_SESSIONS];
    uint32_t sessions_started, sessions_wanted;
};

static int grow(uint32_t **items, size_t *capacity, size_t needed) {
    if (needed <= *capacity)
        return 0;
    size_t bigger = needed * 2 + 1024;
    uint32_t *moved = reallocarray(*items, bigger, sizeof *moved);
    if (moved == NULL)
        return SELENE_E_NOMEM;
    *items = moved, *capacity = bigger;
    return 0;
}

static int message_make(struct workload_agent *agent, uint32_t tokens, uint32_t *number) {
    if (grow(&agent->lengths, &agent->message_capacity, agent->message_count + 1))
        return SELENE_E_NOMEM;
    *number = (uint32_t)agent->message_count;
    agent->lengths[agent->message_count++] = tokens;
    return 0;
}

static int message_say(struct workload_agent *agent, struct conversation *talk, uint32_t tokens) {
    uint32_t number;
    if (message_make(agent, tokens, &number))
        return SELENE_E_NOMEM;
    talk->messages[talk->count++] = number;
    return 0;
}

/* Short outputs are common, long ones rare: the exponent is uniform. */
static uint32_t tool_output_tokens(struct workload_agent *agent) {
    uint32_t scale = 64u << mix_between(&agent->random, 0, 6);
    return mix_between(&agent->random, scale / 2, scale);
}

/* The request: the conversation as it stands, then a new reply, which stays in it. */
static int call_make(struct workload_agent *agent, struct conversation *talk, uint32_t session) {
    struct workload_request *request = &agent->base.requests[agent->base.count];
    *request = (struct workload_request){.session = session};
    for (uint32_t i = 0; i < talk->count; i++)
        request->prompt_tokens += agent->lengths[talk->messages[i]];
    request->reply_tokens = mix_between(&agent->random, 40, 600);
    uint32_t tokens = request->prompt_tokens + request->reply_tokens;
    if (workload_checkpoint_add(&agent->base, request, CHECKPOINT_PROMPT, request->prompt_tokens) ||
        workload_checkpoint_add(&agent->base, request, CHECKPOINT_TERMINAL, tokens) ||
        message_say(agent, talk, request->reply_tokens) ||
        grow(&agent->lists, &agent->list_capacity, agent->list_count + talk->count))
        return SELENE_E_NOMEM;
    memcpy(agent->lists + agent->list_count, talk->messages, talk->count * sizeof *talk->messages);
    agent->list_count += talk->count;
    agent->list_first[++agent->base.count] = agent->list_count;
    agent->base.tokens_max = tokens > agent->base.tokens_max ? tokens : agent->base.tokens_max;
    return 0;
}

static int session_start(struct workload_agent *agent, struct session *session) {
    session->number = agent->sessions_started++;
    session->calls_left = mix_between(&agent->random, 12, 44);
    session->helper_calls_left = 0;
    session->main.messages[0] = SYSTEM_MESSAGE;
    session->main.count = 1;
    return message_say(agent, &session->main, mix_between(&agent->random, 30, 400));
}

static int helper_start(struct workload_agent *agent, struct session *session) {
    session->helper_calls_left = mix_between(&agent->random, 2, 6);
    session->helper.messages[0] = HELPER_MESSAGE;
    session->helper.count = 1;
    return message_say(agent, &session->helper, mix_between(&agent->random, 60, 300));
}

/* Takes back one to three exchanges, but never the first question. */
static void rewind_some(struct workload_agent *agent, struct conversation *talk) {
    uint32_t back = 2 * mix_between(&agent->random, 1, 3);
    if (talk->count > back + 2)
        talk->count -= back;
}

static int helper_turn(struct workload_agent *agent, struct session *session) {
    int result = call_make(agent, &session->helper, session->number);
    if (result)
        return result;
    if (--session->helper_calls_left)
        return message_say(agent, &session->helper, tool_output_tokens(agent));
    uint32_t answer = agent->lengths[session->helper.messages[session->helper.count - 1]];
    return message_say(agent, &session->main, answer); /* quoted in a tool's output: other tokens */
}

static int main_turn(struct workload_agent *agent, struct session *session) {
    int result = call_make(agent, &session->main, session->number);
    if (result)
        return result;
    uint32_t dice = mix_between(&agent->random, 0, 99);
    if (--session->calls_left == 0 || session->main.count > MESSAGES_MAX - 8) {
        session->calls_left = 0;
        return 0;
    }
    if (dice < 6)
        return helper_start(agent, session);
    if (dice < 12)
        rewind_some(agent, &session->main);
    return message_say(agent, &session->main,
                       dice < 25 ? mix_between(&agent->random, 20, 400) : tool_output_tokens(agent));
}

/* One request of some open session. 1: no session is left. */
static int turn(struct workload_agent *agent) {
    uint32_t first = mix_between(&agent->random, 0, OPEN_SESSIONS - 1);
    for (uint32_t i = 0; i < OPEN_SESSIONS; i++) {
        struct session *session = &agent->open[(first + i) % OPEN_SESSIONS];
        if (session->calls_left == 0) {
            if (agent->sessions_started == agent->sessions_wanted)
                continue;
            int result = session_start(agent, session);
            if (result)
                return result;
        }
        return session->helper_calls_left ? helper_turn(agent, session) : main_turn(agent, session);
    }
    return 1;
}

static void agent_expand(const struct workload *workload, size_t index, uint32_t *tokens) {
    const struct workload_agent *agent = (const struct workload_agent *)workload;
    for (size_t i = agent->list_first[index]; i < agent->list_first[index + 1]; i++) {
        uint32_t message = agent->lists[i], count = agent->lengths[message];
        workload_tokens_make(tokens, count, mix_in(agent->seed, message));
        tokens += count;
    }
}

static void agent_destroy(struct workload *workload) {
    struct workload_agent *agent = (struct workload_agent *)workload;
    free(agent->lengths);
    free(agent->lists);
    free(agent->list_first);
    workload_base_free(&agent->base);
    free(agent);
}

static const struct workload_ops agent_ops = {agent_expand, agent_destroy};

int workload_agent_create(struct workload **out, uint64_t seed, size_t request_count, uint32_t session_count) {
    uint32_t shared;
    int result = SELENE_E_NOMEM;
    *out = NULL;
    struct workload_agent *agent = calloc(1, sizeof *agent);
    if (agent == NULL)
        return SELENE_E_NOMEM;
    agent->base = (struct workload){.ops = &agent_ops, .name = "agent"};
    agent->seed = mix_in(2, seed), agent->random = mix_in(3, seed);
    agent->sessions_wanted = session_count;
    agent->base.requests = calloc(request_count, sizeof *agent->base.requests);
    agent->list_first = calloc(request_count + 1, sizeof *agent->list_first);
    if (agent->base.requests && agent->list_first && message_make(agent, SYSTEM_TOKENS, &shared) == 0 &&
        message_make(agent, HELPER_TOKENS, &shared) == 0)
        result = 0;
    while (result == 0 && agent->base.count < request_count)
        result = turn(agent);
    agent->base.session_count = agent->sessions_started;
    if (result < 0)
        agent_destroy(&agent->base);
    else
        *out = &agent->base;
    return result < 0 ? result : 0;
}
