/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest engine: host memory plays the device. It publishes the KV state of a prompt, forgets it, finds it again
 * under the same tokens and restores it into other blocks. Builds against an installed Selene:
 *     cc minimal.c $(pkg-config --cflags --libs selene)
 */
#include <selene.h>

#include <stdio.h>
#include <string.h>

#define TOKENS 100 /* of the prompt */
#define BLOCKS 16  /* of the device, one page each */

/* Two planes, as a model of one layer would have: keys and values, 64 bytes a token, 16 tokens a page. */
static const struct selene_plane planes[2] = {{16 * 64, 1, 64}, {16 * 64, 1, 64}};
static unsigned char device[2][BLOCKS][16 * 64];

/* Runs the store until the call that `ticket` names is through. */
static int finish(selene_store *store, uint64_t ticket, struct selene_event *event) {
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

/* What a prefill would compute: bytes that depend on where they stand. */
static void prefill(const uint32_t *blocks, uint32_t count) {
    for (uint32_t page = 0; page < count; page++)
        for (int plane = 0; plane < 2; plane++)
            memset(device[plane][blocks[page]], (int)(1 + page * 2) + plane, sizeof device[0][0]);
}

static int is_prefilled(const uint32_t *blocks, uint32_t count) {
    for (uint32_t page = 0; page < count; page++)
        for (int plane = 0; plane < 2; plane++)
            if (device[plane][blocks[page]][777] != (unsigned char)(1 + page * 2 + (uint32_t)plane))
                return 0;
    return 1;
}

static int open_store(selene_store **store, struct selene_message *message) {
    struct selene_layout layout = {.page_tokens = 16, .rank_count = 1, .plane_count = 2, .planes = planes};
    struct selene_plane_memory memory[2] = {{device[0], sizeof device[0][0]}, {device[1], sizeof device[1][0]}};
    struct selene_options options;

    selene_options_init(&options);
    options.layout = &layout;
    options.planes = memory;
    options.block_count = BLOCKS;
    options.memory_bytes = 1 << 20; /* and options.disk_directory, to outlive the process */
    return selene_open(store, &options, message);
}

static int serve(selene_store *store, selene_prefix *prefix) {
    const uint32_t first[] = {0, 1, 2, 3, 4, 5, 6}, second[] = {15, 14, 13, 12, 11, 10};
    struct selene_device_state state = {.blocks = first, .block_count = 7};
    struct selene_publish_result published;
    struct selene_match match;
    struct selene_event event;
    uint64_t ticket;
    int error;

    prefill(first, 7);
    if ((error = selene_publish(store, prefix, TOKENS, &state, &published)) ||
        (error = finish(store, published.ticket, &event)))
        return error;
    printf("published %d tokens\n", (int)event.tokens);

    /* The same prompt comes again: an engine computes at least its last token itself. */
    if ((error = selene_lookup(store, prefix, TOKENS - 1, &match)))
        return error;
    printf("held: %d tokens\n", (int)match.tokens);

    memset(device, 0, sizeof device);
    state = (struct selene_device_state){.blocks = second, .block_count = 6};
    if ((error = selene_restore(store, prefix, match.tokens, &state, &ticket)) ||
        (error = finish(store, ticket, &event)))
        return error;
    printf("restored %d tokens, %s\n", (int)event.tokens, is_prefilled(second, 6) ? "as they were" : "WRONG BYTES");
    return event.tokens == 96 && is_prefilled(second, 6) ? 0 : SELENE_E_INTERNAL;
}

int main(void) {
    uint32_t tokens[TOKENS];
    struct selene_message message;
    selene_store *store = NULL;
    selene_prefix *prefix = NULL;
    int error;

    for (uint32_t i = 0; i < TOKENS; i++)
        tokens[i] = i * 7;
    error = open_store(&store, &message);
    if (error)
        fprintf(stderr, "%s\n", message.text);
    if (!error)
        error = selene_prefix_create(&prefix, store, NULL, 0);
    if (!error)
        error = selene_prefix_append(prefix, tokens, TOKENS);
    if (!error)
        error = serve(store, prefix);
    if (error)
        fprintf(stderr, "minimal: %s\n", selene_error_text(error));
    selene_prefix_destroy(&prefix);
    selene_close(&store);
    return error ? 1 : 0;
}
