/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations of equal length that take turns, for long contexts with many checkpoints: turn t of every conversation,
 * then turn t + 1. A turn is
 *
 *     messages (user, tool outputs)     a checkpoint at the end of each, when the turn has more than two
 *     header, 4 to 12 tokens            the prompt ends here: prompt checkpoint
 *     reply                             terminal checkpoint
 *
 * and follows on the turns before it. Turns are drawn between half and one and a half times the mean, and the last one
 * ends at exactly the context asked for. With `rerender` the client sends replies back a little different: some of the
 * tokens, from a random one on, are others, so nobody resumes at a terminal checkpoint.
 *
 * All tokens are made from seed, conversation, turn and part; only lengths are kept.
 */
#include "tools/replay/workload.h"

#include <stdlib.h>

#define HEADER_LEAST   4
#define HEADER_MOST    12
#define RERENDERED_MAX 8 /* tokens of a reply that come back changed */

enum part { PART_HEADER, PART_REPLY, PART_CHANGE, PART_MESSAGES };

struct turn {
    uint32_t start; /* tokens of the conversation before it */
    uint32_t header, reply;
    size_t message_first; /* in `messages` */
};

struct workload_conversation {
    struct workload base;
    uint64_t seed;
    struct conversation_options options;
    uint32_t message_count; /* of each turn */
    struct turn *turns;     /* [conversation * turns + turn] */
    uint32_t *messages;     /* lengths */
};

static uint64_t name_of(const struct workload_conversation *mine, size_t turn, uint32_t part) {
    return mix_in(mix_in(mine->seed, turn), part);
}

/* ---- tokens ---- */

static uint32_t *messages_make(const struct workload_conversation *mine, size_t at, uint32_t *tokens) {
    const struct turn *turn = &mine->turns[at];
    for (uint32_t m = 0; m < mine->message_count; m++) {
        uint32_t count = mine->messages[turn->message_first + m];
        workload_tokens_make(tokens, count, name_of(mine, at, PART_MESSAGES + m));
        tokens += count;
    }
    workload_tokens_make(tokens, turn->header, name_of(mine, at, PART_HEADER));
    return tokens + turn->header;
}

/* `back`: as the client sends it back. */
static uint32_t *reply_make(const struct workload_conversation *mine, size_t at, bool back, uint32_t *tokens) {
    uint32_t count = mine->turns[at].reply;
    workload_tokens_make(tokens, count, name_of(mine, at, PART_REPLY));
    if (back && mine->options.rerender) {
        uint64_t random = name_of(mine, at, PART_CHANGE);
        uint32_t first = mix_between(&random, 0, count - 1);
        for (uint32_t i = first; i < count && i - first < RERENDERED_MAX; i++)
            tokens[i]++;
    }
    return tokens + count;
}

static void conversation_expand(const struct workload *workload, size_t index, uint32_t *tokens) {
    const struct workload_conversation *mine = (const struct workload_conversation *)workload;
    size_t turns = mine->options.turns, turn = index / mine->options.conversations,
           first = index % mine->options.conversations * turns;
    for (size_t before = 0; before < turn; before++)
        tokens = reply_make(mine, first + before, true, messages_make(mine, first + before, tokens));
    reply_make(mine, first + turn, false, messages_make(mine, first + turn, tokens));
}

/* ---- lengths ---- */

/* Splits `tokens` into `count` parts of at least 1, with random cuts. */
static void split(uint64_t *random, uint32_t tokens, uint32_t *parts, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t left = count - i, mean = tokens / left;
        parts[i] = left == 1 ? tokens : mean > 1 ? mix_between(random, mean - mean / 2, mean + mean / 2) : 1;
        tokens -= parts[i];
    }
}

/* The turn: a header, a reply of a quarter to a half of the rest, messages. */
static void turn_make(struct workload_conversation *mine, size_t at, uint64_t *random, uint32_t start,
                      uint32_t tokens) {
    struct turn *turn = &mine->turns[at];
    turn->start = start;
    turn->header = mix_between(random, HEADER_LEAST, HEADER_MOST);
    tokens -= turn->header;
    turn->reply = mix_between(random, tokens / 4, tokens / 2);
    if (turn->reply > tokens - mine->message_count)
        turn->reply = tokens - mine->message_count;
    turn->reply += turn->reply == 0;
    turn->message_first = at * mine->message_count;
    split(random, tokens - turn->reply, mine->messages + turn->message_first, mine->message_count);
}

static void lengths_make(struct workload_conversation *mine, uint32_t *turn_tokens) {
    const struct conversation_options *options = &mine->options;
    uint64_t random = mix_in(4, mine->seed);
    for (size_t c = 0; c < options->conversations; c++) {
        uint32_t start = 0, least = conversation_turn_tokens_min(options);
        split(&random, options->context_tokens - options->turns * (least - 1), turn_tokens, options->turns);
        for (size_t t = 0; t < options->turns; t++) {
            uint32_t tokens = turn_tokens[t] + least - 1;
            turn_make(mine, c * options->turns + t, &random, start, tokens);
            start += tokens;
        }
    }
}

static int request_make(struct workload_conversation *mine, size_t index) {
    struct workload_request *request = &mine->base.requests[index];
    uint32_t conversation = (uint32_t)(index % mine->options.conversations);
    const struct turn *turn =
        &mine->turns[conversation * (size_t)mine->options.turns + index / mine->options.conversations];
    uint32_t at = turn->start;
    int result = 0;
    *request = (struct workload_request){.session = conversation, .reply_tokens = turn->reply};
    for (uint32_t m = 0; m < mine->message_count; m++) {
        at += mine->messages[turn->message_first + m];
        if (mine->options.checkpoints_per_turn > 2)
            result |= workload_checkpoint_add(&mine->base, request, CHECKPOINT_MESSAGE, at);
    }
    request->prompt_tokens = at + turn->header;
    return result | workload_checkpoint_add(&mine->base, request, CHECKPOINT_PROMPT, request->prompt_tokens) |
           workload_checkpoint_add(&mine->base, request, CHECKPOINT_TERMINAL, request->prompt_tokens + turn->reply);
}

/* ---- create ---- */

static void conversation_destroy(struct workload *workload) {
    struct workload_conversation *mine = (struct workload_conversation *)workload;
    workload_base_free(&mine->base);
    free(mine->turns);
    free(mine->messages);
    free(mine);
}

static const struct workload_ops conversation_ops = {conversation_expand, conversation_destroy};

uint32_t conversation_turn_tokens_min(const struct conversation_options *options) {
    uint32_t messages = options->checkpoints_per_turn > 2 ? options->checkpoints_per_turn - 2 : 1;
    return messages + HEADER_MOST + 1;
}

static int build(struct workload_conversation *mine, size_t request_count) {
    size_t turns = (size_t)mine->options.conversations * mine->options.turns;
    uint32_t *turn_tokens = calloc(mine->options.turns, sizeof *turn_tokens);
    mine->turns = calloc(turns, sizeof *mine->turns);
    mine->messages = calloc(turns * mine->message_count, sizeof *mine->messages);
    mine->base.requests = calloc(turns, sizeof *mine->base.requests);
    int result = turn_tokens && mine->turns && mine->messages && mine->base.requests ? 0 : SELENE_E_NOMEM;
    if (result == 0)
        lengths_make(mine, turn_tokens);
    free(turn_tokens);
    while (result == 0 && mine->base.count < turns && mine->base.count < request_count)
        result = request_make(mine, mine->base.count++);
    return result;
}

int workload_conversation_create(struct workload **out, uint64_t seed, size_t request_count,
                                 const struct conversation_options *options) {
    *out = NULL;
    struct workload_conversation *mine = calloc(1, sizeof *mine);
    if (mine == NULL)
        return SELENE_E_NOMEM;
    mine->base = (struct workload){.ops = &conversation_ops,
                                   .name = "conversation",
                                   .session_count = options->conversations,
                                   .tokens_max = options->context_tokens};
    mine->seed = mix_in(8, seed);
    mine->options = *options;
    mine->message_count = options->checkpoints_per_turn > 2 ? options->checkpoints_per_turn - 2 : 1;
    int result = build(mine, request_count);
    if (result)
        conversation_destroy(&mine->base);
    else
        *out = &mine->base;
    return result;
}
