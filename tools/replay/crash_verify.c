/* SPDX-License-Identifier: Apache-2.0
 *
 * After the crash: is every record that was reported committed found again? A record is known by its key alone; which
 * token sequence it belongs to is found by walking all sequences that were begun and comparing the keys at every place
 * where a record can end. Only what a sequence does not share with the one before it needs a look.
 *
 * A record that has given up its row is no longer found itself: it is there when a longer one of its sequence is, which
 * needs its pages [T4]. A missing record proves nothing if the disk tier evicted some for want of room, or expired some:
 * then nothing is called lost.
 */
#include "tools/replay/crash_priv.h"

#include <stdlib.h>

struct walk {
    struct crash *crash;
    const struct replay_stage *stage;
    selene_store *store;
    selene_prefix *prefix;
    uint32_t *tokens, *before;
    uint32_t count;    /* of `before` */
    uint64_t *lengths; /* bit t: some committed record has t tokens */
    struct selene_message *message;
};

static int fail(const struct walk *walk, int code, const char *call) {
    return sel_fail(walk->message, code, "%s: %s", call, selene_error_text(code));
}

static int place_check(struct walk *walk, uint32_t tokens) {
    struct selene_match match;
    uint8_t key[32];
    int result = selene_prefix_key(walk->prefix, tokens, key);
    if (result)
        return fail(walk, result, "selene_prefix_key");
    struct crash_record *record = crash_slot(walk->crash, key);
    if (record->tokens != tokens || record->found)
        return 0;
    result = selene_lookup(walk->store, walk->prefix, tokens, &match);
    if (result)
        return fail(walk, result, "selene_lookup");
    record->found = match.tokens == tokens;
    return 0;
}

/* What a longer record carries. */
static int carriers_check(struct walk *walk, uint32_t count) {
    struct selene_match match;
    int result = selene_lookup(walk->store, walk->prefix, count, &match);
    if (result)
        return fail(walk, result, "selene_lookup");
    for (uint64_t word = 0; word <= match.tokens / 64; word++)
        for (uint64_t bits = walk->lengths[word]; bits; bits &= bits - 1) {
            uint64_t tokens = word * 64 + (uint64_t)__builtin_ctzll(bits);
            uint8_t key[32];
            if (tokens >= match.tokens)
                break;
            result = selene_prefix_key(walk->prefix, tokens, key);
            if (result)
                return fail(walk, result, "selene_prefix_key");
            struct crash_record *record = crash_slot(walk->crash, key);
            record->found |= record->tokens == tokens;
        }
    return 0;
}

static int sequence_append(struct walk *walk, uint32_t same, uint32_t count) {
    uint64_t held = selene_prefix_tokens(walk->prefix);
    int result = held > same ? selene_prefix_truncate(walk->prefix, same) : 0;
    if (result == 0)
        result = selene_prefix_append(walk->prefix, walk->tokens + same, count - same);
    return result ? fail(walk, result, "selene_prefix_append") : 0;
}

static int request_check(struct walk *walk, size_t index) {
    const struct workload *workload = walk->stage->workload;
    const struct workload_request *request = &workload->requests[index];
    uint32_t count = request->prompt_tokens + request->reply_tokens, same = 0, page = walk->stage->kv.page_tokens;
    uint32_t *swap = walk->before;
    walk->before = walk->tokens, walk->tokens = swap;
    workload->ops->expand(workload, index, walk->tokens);
    while (same < count && same < walk->count && walk->tokens[same] == walk->before[same])
        same++;
    walk->count = count;
    int result = sequence_append(walk, same, count);
    if (walk->stage->kv.row_bytes) {
        for (uint32_t i = 0; result == 0 && i < request->checkpoint_count; i++)
            result = place_check(walk, workload_checkpoints(workload, request)[i].tokens);
        return result || walk->stage->options->no_thin ? result : carriers_check(walk, count);
    }
    for (uint64_t at = (uint64_t)same / page * page + page; result == 0 && at <= count; at += page)
        result = place_check(walk, (uint32_t)at);
    return result;
}

static void missing_count(const struct crash *crash, selene_store *store, struct totals *totals) {
    struct selene_stats now = {0};
    uint64_t missing = 0;
    selene_get_stats(store, &now, sizeof now);
    for (size_t i = 0; i < crash->slot_count; i++)
        missing += crash->records[i].tokens && !crash->records[i].found;
    totals->lost_unknown = totals->store.evictions[SELENE_TIER_DISK] + now.evictions[SELENE_TIER_DISK] +
                               totals->store.expiries[SELENE_TIER_DISK] + now.expiries[SELENE_TIER_DISK] >
                           0;
    totals->lost_committed = totals->lost_unknown ? 0 : missing;
}

int crash_verify(struct crash *crash, const struct replay_stage *stage, selene_store *store, struct totals *totals,
                 struct selene_message *message) {
    size_t room = (size_t)stage->workload->tokens_max + 1;
    struct walk walk = {.crash = crash, .stage = stage, .store = store, .message = message};
    walk.tokens = calloc(room, sizeof *walk.tokens);
    walk.before = calloc(room, sizeof *walk.before);
    walk.lengths = calloc(room / 64 + 1, sizeof *walk.lengths);
    for (size_t i = 0; walk.lengths && i < crash->slot_count; i++)
        if (crash->records[i].tokens && crash->records[i].tokens < room)
            walk.lengths[crash->records[i].tokens / 64] |= UINT64_C(1) << crash->records[i].tokens % 64;
    int result = walk.tokens && walk.before && walk.lengths ? selene_prefix_create(&walk.prefix, store, NULL, 0)
                                                            : SELENE_E_NOMEM;
    if (result)
        fail(&walk, result, "selene_prefix_create");
    for (size_t i = 0; result == 0 && i < stage->workload->count; i++)
        if (crash->started[i])
            result = request_check(&walk, i);
    if (result == 0)
        missing_count(crash, store, totals);
    selene_prefix_destroy(&walk.prefix);
    free(walk.lengths);
    free(walk.tokens);
    free(walk.before);
    return result;
}
