/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine with several checkpoints a turn. Its model has a row, so a request can resume only where one was captured: at
 * the end of a message, of the prompt and of the reply. selene_offers.h says which captures are worth publishing. One
 * request is preempted in its reply; in the end the device forgets everything, and the conversation goes on from the
 * store.
 *     cc offers.c $(pkg-config --cflags --libs selene)
 */
#include <selene.h>
#include <selene_offers.h>

#include <stdio.h>
#include <string.h>

#define PAGE_TOKENS 16
#define TOKEN_BYTES 64
#define BLOCKS      64
#define TOKENS      (BLOCKS * PAGE_TOKENS)
#define ROW_WORDS   512
#define SNAPSHOTS   32
#define TRIES       100 /* of a publish that the store has no room for now */

/* A capture: its pages are those of the conversation, which are only ever appended to; the row is a copy. */
struct snapshot {
    uint64_t checkpoint; /* 0: free */
    uint64_t row[ROW_WORDS];
};
struct engine {
    selene_store *store;
    selene_offers *offers;
    unsigned char pages[BLOCKS][PAGE_TOKENS * TOKEN_BYTES];
    uint32_t blocks[BLOCKS];
    uint32_t tokens[TOKENS];
    uint64_t row[ROW_WORDS]; /* the state after `at` tokens: what the model goes on from */
    uint64_t at;
    struct snapshot snapshots[SNAPSHOTS];
};

static struct snapshot *find(struct engine *engine, uint64_t checkpoint) {
    for (int i = 0; i < SNAPSHOTS; i++)
        if (engine->snapshots[i].checkpoint == checkpoint)
            return &engine->snapshots[i];
    return NULL;
}

/* "Computes": an entry depends on its token and the row before it, so a wrong row makes wrong entries. */
static void compute(struct engine *engine, uint64_t to) {
    for (; engine->at < to; engine->at++) {
        uint32_t token = engine->tokens[engine->at];
        memset(engine->pages[engine->blocks[engine->at / PAGE_TOKENS]] + engine->at % PAGE_TOKENS * TOKEN_BYTES,
               (int)((engine->row[0] + token) % 251), TOKEN_BYTES);
        for (uint64_t i = 0; i < ROW_WORDS; i++)
            engine->row[i] = engine->row[i] * 31 + token + i;
    }
}

static int wait_for(selene_store *store, uint64_t ticket, struct selene_event *event) {
    for (;;) {
        int count = selene_poll(store, event, 1);
        if (count < 0)
            return count;
        if (count == 1 && event->ticket == ticket)
            return event->result;
        if (count == 0)
            selene_wait(store, 10000000);
    }
}

/* A real engine goes on while this runs: it copies the offer, pins the checkpoint until the event (selene_offers_pinned),
 * and keeps a publish that got SELENE_RETRY for later. */
static int publish(struct engine *engine, const struct selene_offer *offer) {
    void *row = find(engine, offer->checkpoint)->row;
    struct selene_device_state state = {.blocks = engine->blocks, .block_count = BLOCKS, .rows = &row};
    struct selene_publish_result result = {0};
    struct selene_event event;
    selene_prefix *prefix = NULL;
    int tries = 0, got, error = selene_prefix_create(&prefix, engine->store, NULL, 0);
    if (!error)
        error = selene_prefix_append(prefix, engine->tokens, offer->tokens);
    while (!error) {
        error = selene_publish(engine->store, prefix, offer->tokens, &state, &result);
        if (error || result.answer != SELENE_RETRY)
            break;
        if (++tries == TRIES) {
            selene_publish_abandoned(engine->store, result.reason);
            break;
        }
        selene_wait(engine->store, 10000000);
        if ((got = selene_poll(engine->store, &event, 1)) < 0)
            error = got;
    }
    selene_prefix_destroy(&prefix);
    if (error || result.answer != SELENE_ACCEPTED)
        return error; /* Present is as good; the others cost a recompute some day */
    error = wait_for(engine->store, result.ticket, &event);
    printf("  published %d tokens, %d of them beyond its parent: %s\n", (int)offer->tokens,
           (int)(offer->tokens - result.from_tokens), selene_error_text(error));
    return error;
}

static int publish_all(struct engine *engine, const struct selene_offers_answer *answer) {
    int error = 0;
    for (size_t i = 0; i < answer->count && !error; i++)
        error = publish(engine, &answer->offers[i]);
    return error;
}

/* Computes up to `to` and captures a checkpoint there. */
static int capture(struct engine *engine, uint64_t request, int kind, uint64_t to, uint64_t *checkpoint) {
    struct snapshot *place = find(engine, 0);
    struct selene_offers_answer answer;
    compute(engine, to);
    int error = selene_offers_captured(engine->offers, request, kind, to, place != NULL, checkpoint, &answer);
    if (error)
        return error;
    if (place) {
        place->checkpoint = *checkpoint;
        memcpy(place->row, engine->row, sizeof place->row);
    }
    return publish_all(engine, &answer);
}

/* A turn that resumes at `*last`, the end of the reply before (0: none), and leaves its own there. */
static int turn(struct engine *engine, uint64_t *last, int preempt) {
    uint64_t message = engine->at + 90, prompt = message + 6, end = prompt + 50, request, ignored;
    struct selene_offers_answer answer;
    printf("a turn: message %d, prompt %d, reply %d\n", (int)message, (int)prompt, (int)end);
    int error = selene_offers_begin(engine->offers, prompt, *last, &request, &answer);
    if (!error)
        error = publish_all(engine, &answer); /* the one that it resumes at was deferred */
    if (!error)
        error = capture(engine, request, SELENE_CHECKPOINT_MESSAGE, message, &ignored);
    if (!error)
        error = capture(engine, request, SELENE_CHECKPOINT_PROMPT, prompt, &ignored);
    if (!error && preempt) {
        uint64_t half;
        error = capture(engine, request, SELENE_CHECKPOINT_TERMINAL, prompt + 20, &half);
        if (!error && (error = selene_offers_preempted(engine->offers, request, &answer)) == 0)
            error = publish_all(engine, &answer);
        /* ... others run; then this one again, where it was: */
        if (!error && (error = selene_offers_resumed(engine->offers, request, half, &answer)) == 0)
            error = publish_all(engine, &answer);
    }
    if (!error)
        error = capture(engine, request, SELENE_CHECKPOINT_TERMINAL, end, last);
    if (!error && (error = selene_offers_end(engine->offers, request, SELENE_ENDED_FINISHED, &answer)) == 0)
        error = publish_all(engine, &answer);
    return error;
}

/* The device needs its room: every snapshot goes. What was deferred and not resumed at goes without a copy. */
static int forget(struct engine *engine) {
    struct selene_offers_answer answer;
    for (int i = 0; i < SNAPSHOTS; i++) {
        if (!engine->snapshots[i].checkpoint)
            continue;
        int error = selene_offers_compacted(engine->offers, engine->snapshots[i].checkpoint, &answer);
        if (!error)
            error = publish_all(engine, &answer); /* an heir, if any */
        if (error)
            return error;
        engine->snapshots[i].checkpoint = 0;
    }
    memset(engine->pages, 0, sizeof engine->pages);
    memset(engine->row, 0, sizeof engine->row);
    engine->at = 0;
    return 0;
}

/* A request of `count` tokens that finds nothing on the device: what the store holds is restored, the rest computed. */
static int serve_from_store(struct engine *engine, uint64_t count) {
    void *row = engine->row;
    struct selene_device_state state = {.blocks = engine->blocks, .block_count = BLOCKS, .rows = &row};
    struct selene_offers_answer answer;
    struct selene_match match = {0};
    struct selene_event event = {0};
    selene_prefix *prefix = NULL;
    uint64_t request, ticket, ignored;
    int error = selene_offers_begin(engine->offers, count, 0, &request, &answer);
    if (!error)
        error = selene_prefix_create(&prefix, engine->store, NULL, 0);
    if (!error)
        error = selene_prefix_append(prefix, engine->tokens, count);
    if (!error)
        error = selene_lookup(engine->store, prefix, count - 1, &match);
    if (!error && match.tokens > 0 && !match.declined &&
        selene_restore(engine->store, prefix, match.tokens, &state, &ticket) == 0)
        wait_for(engine->store, ticket, &event);
    selene_prefix_destroy(&prefix);
    printf("restored %d of %d tokens\n", (int)event.tokens, (int)count);
    if ((engine->at = event.tokens) == 0)
        memset(engine->row, 0, sizeof engine->row); /* nothing is good: begin with the model's first state */
    else if (!error)
        error = capture(engine, request, SELENE_CHECKPOINT_RESTORED, event.tokens, &ignored);
    if (!error)
        error = capture(engine, request, SELENE_CHECKPOINT_PROMPT, count, &ignored);
    if (!error)
        error = selene_offers_end(engine->offers, request, SELENE_ENDED_FINISHED, &answer);
    return error;
}

static int open_store(struct engine *engine) {
    const struct selene_plane plane = {PAGE_TOKENS * TOKEN_BYTES, 1, TOKEN_BYTES};
    const struct selene_layout layout = {
        .page_tokens = PAGE_TOKENS, .rank_count = 1, .plane_count = 1, .planes = &plane, .row_bytes = ROW_WORDS * 8};
    const struct selene_plane_memory memory = {engine->pages, sizeof engine->pages[0]};
    struct selene_options options;
    struct selene_message message;

    selene_options_init(&options);
    options.layout = &layout;
    options.planes = &memory;
    options.block_count = BLOCKS;
    options.memory_bytes = 4 << 20;
    options.max_age_ns = UINT64_C(86400) * 1000000000; /* a day */
    options.prefill_tokens_per_s = 1000;               /* slower than any restore here: none is declined */
    int error = selene_open(&engine->store, &options, &message);
    if (error)
        fprintf(stderr, "offers: %s\n", message.text);
    return error;
}

/* Everything again without the store: is it the same? */
static int is_right(struct engine *engine, uint64_t count) {
    static struct engine other;
    memcpy(other.blocks, engine->blocks, sizeof other.blocks);
    memcpy(other.tokens, engine->tokens, sizeof other.tokens);
    compute(&other, count);
    return memcmp(other.row, engine->row, sizeof other.row) == 0 &&
           memcmp(other.pages, engine->pages, sizeof other.pages) == 0;
}

int main(void) {
    static struct engine engine;
    static char text[65536]; /* of the counters */
    struct selene_offers_stats stats = {0};
    uint64_t last = 0, end;
    int right = 0, error;

    for (uint32_t i = 0; i < BLOCKS; i++)
        engine.blocks[i] = BLOCKS - 1 - i;
    for (uint32_t i = 0; i < TOKENS; i++)
        engine.tokens[i] = i * 7;
    error = open_store(&engine);
    if (!error)
        error = selene_offers_create(&engine.offers, PAGE_TOKENS, 1);
    for (int i = 0; i < 4 && !error; i++)
        error = turn(&engine, &last, i == 1);
    end = engine.at;
    if (!error)
        error = forget(&engine);
    if (!error)
        error = serve_from_store(&engine, end + 30);
    if (!error)
        error = selene_offers_get_stats(engine.offers, &stats, sizeof stats);
    if (!error) {
        right = is_right(&engine, end + 30);
        printf("%d offers; %d captures were deferred, %d of them dropped without a copy; all bytes are %s\n",
               (int)stats.made, (int)stats.deferred, (int)stats.dropped, right ? "right" : "WRONG");
        if (selene_metrics_text(engine.store, text, sizeof text) > 0) /* for an HTTP server */
            printf("%.40s...\n", text);
    }
    selene_offers_destroy(&engine.offers);
    selene_close(&engine.store);
    return error || !right ? 1 : 0;
}
