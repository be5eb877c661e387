/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest engine: host memory plays the device, and the "model" writes bytes that depend on the tokens. It serves
 * the same prompt twice; the second time, in other blocks, all but the last tokens are restored and not computed.
 *     cc minimal.c $(pkg-config --cflags --libs selene)
 */
#include <selene.h>

#include <stdio.h>
#include <string.h>

#define PAGE_TOKENS 16
#define TOKEN_BYTES 64 /* of one token in one plane */
#define BLOCKS      16 /* of the device, one page each */
#define TOKENS      100

static unsigned char device[2][BLOCKS][PAGE_TOKENS * TOKEN_BYTES];

static unsigned char *entry(const struct selene_device_state *state, int plane, size_t token) {
    return device[plane][state->blocks[token / PAGE_TOKENS]] + token % PAGE_TOKENS * TOKEN_BYTES;
}

static void prefill(const struct selene_device_state *state, const uint32_t *tokens, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        for (int plane = 0; plane < 2; plane++)
            memset(entry(state, plane, i), (int)(tokens[i] % 199) + 1 + plane, TOKEN_BYTES);
}

static int is_right(const struct selene_device_state *state, const uint32_t *tokens, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (int plane = 0; plane < 2; plane++)
            for (int byte = 0; byte < TOKEN_BYTES; byte++)
                if (entry(state, plane, i)[byte] != tokens[i] % 199 + 1 + (unsigned)plane)
                    return 0;
    return 1;
}

/* Drives the store until the call that `ticket` names is through. */
static int wait_for(selene_store *store, uint64_t ticket, struct selene_event *event) {
    for (;;) {
        int count = selene_poll(store, event, 1);
        if (count < 0)
            return count;
        if (count == 1 && event->ticket == ticket)
            return event->result;
        if (count == 0)
            selene_wait(store, 1000000000);
    }
}

/* Serves one prompt: restores what is held of it, computes the rest, and offers the result. */
static int serve(selene_store *store, const struct selene_device_state *state, const uint32_t *tokens, size_t count) {
    selene_prefix *prefix = NULL;
    struct selene_match match;
    struct selene_publish_result offer;
    struct selene_event event = {0};
    uint64_t ticket;
    int error;

    if ((error = selene_prefix_create(&prefix, store, NULL, 0)) != 0 ||
        (error = selene_prefix_append(prefix, tokens, count)) != 0 ||
        (error = selene_lookup(store, prefix, count - 1, &match)) != 0)
        goto done;

    /* A restore that fails has cost nothing but time: event.tokens says how many tokens are good. */
    if (match.tokens > 0 && selene_restore(store, prefix, match.tokens, state, &ticket) == 0)
        wait_for(store, ticket, &event);
    printf("restored %d of %d tokens\n", (int)event.tokens, (int)count);
    prefill(state, tokens, event.tokens, count);

    error = selene_publish(store, prefix, count, state, &offer);
    if (error == 0 && offer.answer == SELENE_ACCEPTED)
        error = wait_for(store, offer.ticket, &event);
done:
    selene_prefix_destroy(&prefix);
    return error;
}

static int open_store(selene_store **store) {
    /* Two planes, as a model of one layer would have: keys and values. */
    const struct selene_plane planes[2] = {{PAGE_TOKENS * TOKEN_BYTES, 1, TOKEN_BYTES},
                                           {PAGE_TOKENS * TOKEN_BYTES, 1, TOKEN_BYTES}};
    struct selene_layout layout = {.page_tokens = PAGE_TOKENS, .rank_count = 1, .plane_count = 2, .planes = planes};
    struct selene_plane_memory memory[2] = {{device[0], sizeof device[0][0]}, {device[1], sizeof device[1][0]}};
    struct selene_options options;
    struct selene_message message;

    selene_options_init(&options);
    options.layout = &layout;
    options.planes = memory;
    options.block_count = BLOCKS;
    options.memory_bytes = 1 << 20; /* and options.disk_directory, to outlive the process */
    int error = selene_open(store, &options, &message);
    if (error)
        fprintf(stderr, "minimal: %s\n", message.text);
    return error;
}

int main(void) {
    const uint32_t first[7] = {0, 1, 2, 3, 4, 5, 6}, second[7] = {15, 14, 13, 12, 11, 10, 9};
    struct selene_device_state state = {.blocks = first, .block_count = 7};
    uint32_t tokens[TOKENS];
    selene_store *store = NULL;
    int error, right = 0;

    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[i] = i * 7;
    error = open_store(&store);
    if (!error)
        error = serve(store, &state, tokens, TOKENS);
    memset(device, 0, sizeof device);
    state.blocks = second;
    if (!error)
        error = serve(store, &state, tokens, TOKENS);
    if (!error) {
        right = is_right(&state, tokens, TOKENS);
        printf("all bytes are %s\n", right ? "right" : "WRONG");
    }
    selene_close(&store);
    return error || !right ? 1 : 0;
}
