/* SPDX-License-Identifier: Apache-2.0
 *
 * One request: look-up, restore, verification; the states.
 */
#include "tools/replay/seat_priv.h"

#include <inttypes.h>
#include <stdlib.h>

#define ATTEMPTS_MAX 8 /* look-ups of one request: held records may go between look-up and restore */

int seat_fail(const struct seat_world *world, const struct seat *seat, int code, const char *call) {
    return sel_fail(world->message, code, "request %" PRIu64 ": %s: %s", seat->result.index + 1, call,
                    selene_error_text(code));
}

int seat_open(struct seat *seat, const struct seat_world *world) {
    const struct kv *kv = &world->stage->kv;
    size_t tokens = (size_t)world->stage->workload->tokens_max + 1;
    *seat = (struct seat){.state = SEAT_IDLE};
    seat->tokens = calloc(tokens, sizeof *seat->tokens);
    seat->before = calloc(tokens, sizeof *seat->before);
    seat->hash = calloc(tokens, sizeof *seat->hash);
    seat->blocks = calloc(tokens / kv->page_tokens + 1, sizeof *seat->blocks);
    if (seat->tokens == NULL || seat->before == NULL || seat->hash == NULL || seat->blocks == NULL)
        return sel_fail(world->message, SELENE_E_NOMEM, "no memory for a request");
    seat->hash[0] = kv->start;
    if (!seat_has_rows(world))
        return 0;
    seat->rows = calloc(kv->rank_count, sizeof *seat->rows);
    for (uint32_t rank = 0; seat->rows && rank < kv->rank_count; rank++)
        if ((seat->rows[rank] = malloc(kv->row_bytes)) == NULL)
            return sel_fail(world->message, SELENE_E_NOMEM, "no memory for a request's rows");
    return seat->rows ? 0 : sel_fail(world->message, SELENE_E_NOMEM, "no memory for a request's rows");
}

void seat_close(struct seat *seat, const struct seat_world *world) {
    for (uint32_t rank = 0; seat->rows && rank < world->stage->kv.rank_count; rank++)
        free(seat->rows[rank]);
    selene_prefix_destroy(&seat->prefix);
    free(seat->rows);
    free(seat->tokens);
    free(seat->before);
    free(seat->hash);
    free(seat->blocks);
    *seat = (struct seat){0};
}

/* ---- start ---- */

static uint32_t tokens_same(const struct seat *seat, uint32_t count) {
    uint32_t same = 0, shorter = count < seat->token_count ? count : seat->token_count;
    while (same < shorter && seat->tokens[same] == seat->before[same])
        same++;
    return same;
}

/* Tokens, running hashes and keys, continued from the request before. The reply is not in the prefix yet. */
static int sequence_take(struct seat *seat, const struct seat_world *world, size_t index) {
    const struct workload *workload = world->stage->workload;
    uint32_t prompt = seat->request->prompt_tokens, count = prompt + seat->request->reply_tokens, *swap = seat->before;
    seat->before = seat->tokens, seat->tokens = swap;
    workload->ops->expand(workload, index, seat->tokens);
    uint32_t same = tokens_same(seat, count);
    kv_hash(seat->hash, seat->tokens, same, count);
    seat->token_count = count;
    int result = 0;
    if (seat->prefix == NULL)
        result = selene_prefix_create(&seat->prefix, world->store, NULL, 0);
    if (result)
        return seat_fail(world, seat, result, "selene_prefix_create");
    uint64_t held = selene_prefix_tokens(seat->prefix), keep = same < prompt ? same : prompt;
    if (held > keep)
        result = selene_prefix_truncate(seat->prefix, keep), held = keep;
    if (result == 0)
        result = selene_prefix_append(seat->prefix, seat->tokens + held, prompt - held);
    return result ? seat_fail(world, seat, result, "selene_prefix_append") : 0;
}

int seat_start(struct seat *seat, const struct seat_world *world, size_t index) {
    seat->request = &world->stage->workload->requests[index];
    uint32_t page = world->stage->kv.page_tokens;
    uint32_t tokens = seat->request->prompt_tokens + seat->request->reply_tokens;
    seat->result = (struct replay_result){
        .index = index, .tokens_in = seat->request->prompt_tokens, .restore_tier = SELENE_TIER_NONE};
    seat->limit_tokens = seat->request->prompt_tokens - 1;
    seat->filled = seat->attempts = seat->poisoned = 0;
    seat->checkpoint = seat->capture_tokens = 0;
    seat->offers_request = 0;
    seat->looked = seat->waiting = false;
    seat->block_count = tokens / page + (tokens % page != 0);
    if (!device_take(world->device, seat->blocks, seat->block_count))
        return sel_fail(world->message, SELENE_E_INTERNAL, "the engine ran out of blocks");
    seat->state = SEAT_LOOK;
    return sequence_take(seat, world, index);
}

void seat_finish(struct seat *seat, const struct seat_world *world) {
    device_give(world->device, seat->blocks, seat->block_count);
    seat->block_count = 0;
    seat->state = SEAT_IDLE;
}

/* ---- look-up and restore ---- */

/* True while "not now" may be answered by trying again. */
bool seat_may_wait(struct seat *seat) {
    uint64_t now = sel_cli_now_ns();
    seat->result.retries++;
    if (!seat->waiting)
        seat->waiting = true, seat->waiting_since_ns = now;
    return now - seat->waiting_since_ns < (seat->gave_up ? SEAT_WAIT_AGAIN_NS : SEAT_WAIT_NS);
}

struct selene_device_state seat_state(const struct seat *seat, uint32_t block_count) {
    return (struct selene_device_state){
        .blocks = seat->blocks, .block_count = block_count, .rows = (void *const *)seat->rows};
}

uint32_t seat_pages(const struct seat_world *world, uint64_t tokens) {
    uint32_t page = world->stage->kv.page_tokens;
    return (uint32_t)(tokens / page + (tokens % page != 0));
}

static int restore_start(struct seat *seat, const struct seat_world *world, const struct selene_match *match) {
    uint32_t pages = seat_pages(world, match->tokens);
    if (match->tokens > seat->limit_tokens)
        return sel_fail(world->message, SELENE_E_INTERNAL,
                        "request %" PRIu64 ": selene_lookup found %" PRIu64 " tokens, expected at most %" PRIu32,
                        seat->result.index + 1, match->tokens, seat->limit_tokens);
    if (pages > seat->poisoned) {
        device_poison(world->device, seat->blocks + seat->poisoned, pages - seat->poisoned);
        seat->poisoned = pages;
    }
    struct selene_device_state state = seat_state(seat, pages);
    int result = selene_restore(world->store, seat->prefix, match->tokens, &state, &seat->ticket);
    if (result == 0) {
        seat->state = SEAT_RESTORE;
        seat->waiting = false;
        seat->poisoned = 0;
        seat->result.restores++;
        return 1;
    }
    if (result == SELENE_E_RETRY && seat_may_wait(seat))
        return 0;
    if (result == SELENE_E_NOTFOUND && ++seat->attempts < ATTEMPTS_MAX)
        return 1;
    if (result != SELENE_E_RETRY && result != SELENE_E_NOTFOUND)
        return seat_fail(world, seat, result, "selene_restore");
    seat_publish_begin(seat);
    return 1;
}

static int look(struct seat *seat, const struct seat_world *world) {
    struct selene_match match;
    int result = selene_lookup(world->store, seat->prefix, seat->limit_tokens, &match);
    if (result)
        return seat_fail(world, seat, result, "selene_lookup");
    uint32_t capture = 0;
    if (!seat->looked)
        result = captures_resume(world->captures, seat->request->session, seat->hash, match.tokens, seat->limit_tokens,
                                 &capture);
    if (result)
        return seat_fail(world, seat, result, "selene_offers_begin");
    seat->looked = true;
    if (capture) {
        seat_capture_begin(seat, capture);
        return 1;
    }
    if (match.tokens == 0 || match.declined) { /* slower than computing the same tokens [R3] */
        seat->result.declined += match.tokens != 0;
        seat_publish_begin(seat);
        return 1;
    }
    return restore_start(seat, world, &match);
}

/* A wrong page is computed again: it must not be counted a second time through what is published from here. */
static void page_verify(struct seat *seat, const struct seat_world *world, uint32_t page, uint32_t held, bool whole) {
    const struct kv *kv = &world->stage->kv;
    uint64_t first = (uint64_t)page * kv->page_tokens, wrong = seat->result.bytes.wrong;
    for (uint32_t rank = 0; rank < kv->rank_count; rank++) {
        uint8_t *share = device_share(world->device, rank, seat->blocks[page]);
        kv_page_verify(kv, rank, seat->hash, first, held, share, whole && held < kv->page_tokens, &seat->result.bytes);
        if (seat->result.bytes.wrong != wrong)
            kv_page_fill(kv, rank, seat->hash, first, 0, held, share);
    }
}

static void verify(struct seat *seat, const struct seat_world *world, uint32_t tokens, bool whole) {
    const struct kv *kv = &world->stage->kv;
    uint32_t pages = seat_pages(world, tokens);
    for (uint32_t i = 0; i < pages; i++) {
        uint32_t held = tokens - i * kv->page_tokens;
        page_verify(seat, world, i, held < kv->page_tokens ? held : kv->page_tokens, whole);
    }
    for (uint32_t rank = 0; seat->rows && rank < kv->rank_count; rank++)
        kv_row_verify(kv, rank, seat->hash[tokens], seat->rows[rank], &seat->result.bytes);
}

static void restored(struct seat *seat, const struct seat_world *world, const struct selene_event *event) {
    struct replay_result *result = &seat->result;
    result->restore_ns += event->elapsed_ns;
    for (int tier = 0; tier < SELENE_TIER_COUNT; tier++) {
        result->tokens_hit_by_tier[tier] = event->tokens_by_tier[tier];
        if (event->tokens_by_tier[tier] && tier > result->restore_tier)
            result->restore_tier = tier;
    }
    result->tokens_hit = event->tokens;
    seat->filled = (uint32_t)event->tokens;
    verify(seat, world, seat->filled, event->result == 0);
    seat_publish_begin(seat);
}

static int restore_event(struct seat *seat, const struct seat_world *world, const struct selene_event *event) {
    if (event->tokens > seat->limit_tokens)
        return sel_fail(world->message, SELENE_E_INTERNAL,
                        "request %" PRIu64 ": a restore gave %" PRIu64 " tokens, expected at most %" PRIu32,
                        seat->result.index + 1, event->tokens, seat->limit_tokens);
    seat->result.restores_short += event->result != 0;
    if (event->result == 0 || (event->tokens && !seat_has_rows(world))) {
        restored(seat, world, event);
        return 0;
    }
    seat->result.restore_ns += event->elapsed_ns;
    if (event->tokens && ++seat->attempts < ATTEMPTS_MAX) { /* the pages are good, its row must be fetched */
        seat->limit_tokens = (uint32_t)event->tokens;
        seat->state = SEAT_LOOK;
        return 0;
    }
    seat_publish_begin(seat);
    return 0;
}

/* ---- drive ---- */

int seat_step(struct seat *seat, const struct seat_world *world) {
    int result = 1, done = 0;
    while (result == 1) {
        if (seat->state == SEAT_LOOK)
            result = look(seat, world);
        else if (seat->state == SEAT_PUBLISH)
            result = seat_publish(seat, world);
        else
            break;
        done |= result == 1;
    }
    return result < 0 ? result : done;
}

int seat_event(struct seat *seat, const struct seat_world *world, const struct selene_event *event) {
    if (event->kind == SELENE_EVENT_RESTORE && seat->state == SEAT_RESTORE)
        return restore_event(seat, world, event);
    if (event->kind == SELENE_EVENT_PUBLISH && seat->state == SEAT_PUBLISHING) {
        seat_publish_event(seat, world, event);
        return 0;
    }
    return sel_fail(world->message, SELENE_E_INTERNAL,
                    "request %" PRIu64 ": found event %d, expected none of that kind", seat->result.index + 1,
                    event->kind);
}
