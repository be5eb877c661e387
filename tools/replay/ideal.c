/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of hashes of what can be resumed at. Without rows it is closed under shortening by pages, so the longest match
 * is found by halving; with rows a bit for each token count that some checkpoint has tells which ones to try, from the
 * longest on.
 */
#include "tools/replay/ideal.h"

#include <stdlib.h>
#include <string.h>

struct ideal {
    uint32_t page_tokens;
    bool has_rows;
    uint64_t *slots; /* 0: empty; a power of two of them */
    size_t slot_count, used;
    uint64_t *lengths; /* bit t: a checkpoint has t tokens */
    uint32_t tokens_max;
};

static uint64_t *slot_of(uint64_t *slots, size_t count, uint64_t hash) {
    size_t at = (size_t)mix64(hash) & (count - 1);
    while (slots[at] && slots[at] != hash)
        at = (at + 1) & (count - 1);
    return &slots[at];
}

/* Two sequences of different length never share an entry, whatever their hashes. */
static uint64_t name_of(const uint64_t *hash, uint32_t tokens) {
    uint64_t name = mix_in(hash[tokens], tokens);
    return name ? name : 1;
}

static bool holds(const struct ideal *ideal, const uint64_t *hash, uint32_t tokens) {
    return *slot_of(ideal->slots, ideal->slot_count, name_of(hash, tokens)) != 0;
}

static int insert(struct ideal *ideal, uint64_t name) {
    if (ideal->used * 2 >= ideal->slot_count) {
        size_t count = ideal->slot_count * 2;
        uint64_t *slots = calloc(count, sizeof *slots);
        if (slots == NULL)
            return SELENE_E_NOMEM;
        for (size_t i = 0; i < ideal->slot_count; i++)
            if (ideal->slots[i])
                *slot_of(slots, count, ideal->slots[i]) = ideal->slots[i];
        free(ideal->slots);
        ideal->slots = slots, ideal->slot_count = count;
    }
    uint64_t *slot = slot_of(ideal->slots, ideal->slot_count, name);
    ideal->used += *slot == 0;
    *slot = name;
    return 0;
}

int ideal_create(struct ideal **out, uint32_t page_tokens, bool has_rows, uint32_t tokens_max) {
    struct ideal *ideal = *out = calloc(1, sizeof *ideal);
    if (ideal == NULL)
        return SELENE_E_NOMEM;
    *ideal = (struct ideal){.page_tokens = page_tokens, .has_rows = has_rows, .tokens_max = tokens_max};
    ideal->slot_count = 1024;
    ideal->slots = calloc(ideal->slot_count, sizeof *ideal->slots);
    ideal->lengths = calloc(tokens_max / 64 + 1, sizeof *ideal->lengths);
    if (ideal->slots && ideal->lengths)
        return 0;
    ideal_destroy(out);
    return SELENE_E_NOMEM;
}

void ideal_destroy(struct ideal **ideal) {
    if (*ideal) {
        free((*ideal)->slots);
        free((*ideal)->lengths);
        free(*ideal);
    }
    *ideal = NULL;
}

static uint32_t lookup_checkpoints(const struct ideal *ideal, const uint64_t *hash, uint32_t limit) {
    for (uint32_t word = limit / 64 + 1; word-- > 0;) {
        uint64_t bits = ideal->lengths[word];
        if (word == limit / 64 && limit % 64 < 63)
            bits &= (UINT64_C(2) << limit % 64) - 1;
        while (bits) {
            uint32_t bit = 63 - (uint32_t)__builtin_clzll(bits), tokens = word * 64 + bit;
            if (holds(ideal, hash, tokens))
                return tokens;
            bits &= ~(UINT64_C(1) << bit);
        }
    }
    return 0;
}

uint32_t ideal_lookup(const struct ideal *ideal, const uint64_t *hash, uint32_t limit_tokens) {
    if (ideal->has_rows)
        return lookup_checkpoints(ideal, hash, limit_tokens);
    uint32_t good = 0, bad = limit_tokens / ideal->page_tokens + 1; /* pages: held, not held */
    while (bad - good > 1) {
        uint32_t middle = good + (bad - good) / 2;
        if (holds(ideal, hash, middle * ideal->page_tokens))
            good = middle;
        else
            bad = middle;
    }
    return good * ideal->page_tokens;
}

int ideal_publish(struct ideal *ideal, const uint64_t *hash, uint32_t tokens) {
    int result = 0;
    if (tokens == 0)
        return 0;
    if (ideal->has_rows) {
        ideal->lengths[tokens / 64] |= UINT64_C(1) << tokens % 64;
        return insert(ideal, name_of(hash, tokens));
    }
    for (uint32_t page = tokens / ideal->page_tokens; result == 0 && page > 0; page--) {
        if (holds(ideal, hash, page * ideal->page_tokens))
            break;
        result = insert(ideal, name_of(hash, page * ideal->page_tokens));
    }
    return result;
}

/* ---- a whole workload ---- */

/* Hashes are kept from request to request as far as the tokens are the same. */
struct sequence {
    uint32_t *tokens, *before;
    uint64_t *hash;
    uint32_t count; /* hashed */
};

static void sequence_take(struct sequence *sequence, const struct workload *workload, size_t index) {
    const struct workload_request *request = &workload->requests[index];
    uint32_t count = request->prompt_tokens + request->reply_tokens, same = 0;
    uint32_t shorter = count < sequence->count ? count : sequence->count;
    uint32_t *swap = sequence->before;
    sequence->before = sequence->tokens, sequence->tokens = swap;
    workload->ops->expand(workload, index, sequence->tokens);
    while (same < shorter && sequence->tokens[same] == sequence->before[same])
        same++;
    for (uint32_t t = same; t < count; t++)
        sequence->hash[t + 1] = mix_in(sequence->hash[t], sequence->tokens[t]);
    sequence->count = count;
}

static int play(struct ideal *ideal, struct sequence *sequence, const struct workload *workload, uint32_t *hits,
                void (*tick)(void *context, size_t done), void *context) {
    int result = 0;
    for (size_t i = 0; result == 0 && i < workload->count; i++) {
        const struct workload_request *request = &workload->requests[i];
        sequence_take(sequence, workload, i);
        hits[i] = ideal_lookup(ideal, sequence->hash, request->prompt_tokens - 1);
        result = ideal_publish(ideal, sequence->hash, request->checkpoint_tokens);
        if (result == 0 && request->reply_tokens)
            result = ideal_publish(ideal, sequence->hash, request->prompt_tokens + request->reply_tokens);
        if (tick)
            tick(context, i);
    }
    return result;
}

int ideal_play(const struct workload *workload, uint32_t page_tokens, bool has_rows, uint32_t *hits,
               void (*tick)(void *context, size_t done), void *context) {
    struct ideal *ideal = NULL;
    size_t room = (size_t)workload->tokens_max + 1;
    struct sequence sequence = {calloc(room, 4), calloc(room, 4), calloc(room, 8), 0};
    int result = SELENE_E_NOMEM;
    if (sequence.tokens && sequence.before && sequence.hash)
        result = ideal_create(&ideal, page_tokens, has_rows, workload->tokens_max);
    if (result == 0) {
        sequence.hash[0] = mix64(7);
        result = play(ideal, &sequence, workload, hits, tick, context);
    }
    ideal_destroy(&ideal);
    free(sequence.tokens);
    free(sequence.before);
    free(sequence.hash);
    return result;
}
