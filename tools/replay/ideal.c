/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of hashes of what can be resumed at. Without rows it is closed under shortening by pages, so the longest match
 * is found by halving; with rows a bit for each token count that some checkpoint has tells which ones to try, from the
 * longest on.
 */
#include "tools/replay/ideal.h"

#include "tools/replay/ideal_sequence.h"

#include <stdlib.h>

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

static bool holds(const struct ideal *ideal, const uint64_t *hash, uint32_t tokens) {
    return *slot_of(ideal->slots, ideal->slot_count, ideal_name(hash, tokens)) != 0;
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
        return insert(ideal, ideal_name(hash, tokens));
    }
    for (uint32_t page = tokens / ideal->page_tokens; result == 0 && page > 0; page--) {
        if (holds(ideal, hash, page * ideal->page_tokens))
            break;
        result = insert(ideal, ideal_name(hash, page * ideal->page_tokens));
    }
    return result;
}

/* ---- a whole workload ---- */

static int play(struct ideal *ideal, struct ideal_sequence *sequence, const struct workload *workload, uint32_t *hits,
                void (*tick)(void *context, size_t done), void *context) {
    int result = 0;
    for (size_t i = 0; result == 0 && i < workload->count; i++) {
        const struct workload_request *request = &workload->requests[i];
        const struct checkpoint *checkpoints = workload_checkpoints(workload, request);
        ideal_sequence_take(sequence, workload, i);
        hits[i] = ideal_lookup(ideal, sequence->hash, request->prompt_tokens - 1);
        for (uint32_t c = 0; result == 0 && c < request->checkpoint_count; c++)
            result = ideal_publish(ideal, sequence->hash, checkpoints[c].tokens);
        if (tick)
            tick(context, i);
    }
    return result;
}

int ideal_play(const struct workload *workload, uint32_t page_tokens, bool has_rows, uint32_t *hits,
               void (*tick)(void *context, size_t done), void *context) {
    struct ideal *ideal = NULL;
    struct ideal_sequence sequence;
    int result = ideal_sequence_open(&sequence, workload);
    if (result == 0)
        result = ideal_create(&ideal, page_tokens, has_rows, workload->tokens_max);
    if (result == 0)
        result = play(ideal, &sequence, workload, hits, tick, context);
    ideal_destroy(&ideal);
    ideal_sequence_close(&sequence);
    return result;
}
