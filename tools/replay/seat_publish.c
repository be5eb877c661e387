/* SPDX-License-Identifier: Apache-2.0
 *
 * The second half of a request: at each of its checkpoints the state is captured, and offered to the store at once or
 * later. Offers are made before the blocks are computed, as engines do; the store must wait for `ready` (fault 4).
 *
 * A deferred capture that a request resumes at is offered before the restore, from blocks that are filled again. How
 * far back the store reads follows from its answer: only pages since the parent are copied.
 */
#include "tools/replay/seat_priv.h"

#include <inttypes.h>

/* The store holds a publish for ten seconds before it hands it back for want of room: about as long as a caller would hold
 * it back itself. */
#define HANDED_BACK_MAX 3

static const struct checkpoint *checkpoints_of(const struct seat *seat, const struct seat_world *world) {
    return workload_checkpoints(world->stage->workload, seat->request);
}

void seat_publish_begin(struct seat *seat) {
    seat->state = SEAT_PUBLISH;
    seat->waiting = false;
}

void seat_capture_begin(struct seat *seat, uint32_t tokens) {
    seat->capture_tokens = tokens;
    seat->result.offers_resumed++;
    seat_publish_begin(seat);
}

/* ---- prefill ---- */

static void rows_fill(const struct seat *seat, const struct seat_world *world, uint32_t tokens) {
    const struct kv *kv = &world->stage->kv;
    for (uint32_t rank = 0; seat->rows && rank < kv->rank_count; rank++)
        kv_row_fill(kv, rank, seat->hash[tokens], seat->rows[rank]);
}

/* Pages that held tokens up to `from` hold them up to `to`. */
static void pages_fill(const struct seat *seat, const struct seat_world *world, uint32_t from, uint32_t to) {
    const struct kv *kv = &world->stage->kv;
    uint32_t page = kv->page_tokens;
    for (uint64_t first = from / page * page; first < to && from < to; first += page) {
        uint32_t begin = from > first ? (uint32_t)(from - first) : 0;
        uint32_t end = to - first < page ? (uint32_t)(to - first) : page;
        uint32_t block = seat->blocks[first / page];
        for (uint32_t rank = 0; rank < kv->rank_count; rank++)
            kv_page_fill(kv, rank, seat->hash, first, begin, end, device_share(world->device, rank, block));
    }
}

static void prefill(struct seat *seat, const struct seat_world *world, uint32_t to) {
    pages_fill(seat, world, seat->filled, to);
    rows_fill(seat, world, to);
    seat->filled = to > seat->filled ? to : seat->filled;
}

/* ---- what follows an offer ---- */

/* The store hashes what it is asked for: the reply comes into the prefix when it is there. */
static int reply_append(struct seat *seat, const struct seat_world *world) {
    uint32_t prompt = seat->request->prompt_tokens;
    if (selene_prefix_tokens(seat->prefix) > prompt)
        return 0;
    int result = selene_prefix_append(seat->prefix, seat->tokens + prompt, seat->request->reply_tokens);
    return result ? seat_fail(world, seat, result, "selene_prefix_append") : 0;
}

static int publish_past(struct seat *seat) {
    seat->waiting = false;
    seat->handed_back = 0;
    if (seat->capture_tokens) {
        seat->capture_tokens = 0;
        seat->state = SEAT_LOOK;
        return 1;
    }
    seat->checkpoint++;
    seat->state = SEAT_PUBLISH;
    return 1;
}

static int request_end(struct seat *seat, const struct seat_world *world) {
    int result = captures_end(world->captures, seat->offers_request);
    seat->state = SEAT_DONE;
    return result ? seat_fail(world, seat, result, "selene_offers_end") : 1;
}

static int refused(struct seat *seat, const struct seat_world *world, uint32_t tokens, int reason) {
    if (seat_may_wait(seat))
        return 0;
    if (world->stage->options->sequential)
        return sel_fail(world->message, SELENE_E_STALLED,
                        "request %" PRIu64 ": the store refused to publish %" PRIu32 " tokens for %" PRIu64
                        " s (reason %d), expected it to make room",
                        seat->result.index + 1, tokens, SEAT_WAIT_NS / SEL_NS_PER_SECOND, reason);
    selene_publish_abandoned(world->store, reason);
    seat->result.abandoned++;
    seat->gave_up = true;
    return publish_past(seat);
}

static int answered(struct seat *seat, const struct seat_world *world, uint32_t tokens,
                    const struct selene_publish_result *answer) {
    switch (answer->answer) {
    case SELENE_ACCEPTED:
        seat->ticket = answer->ticket;
        seat->state = SEAT_PUBLISHING;
        seat->waiting = seat->gave_up = false;
        seat->result.publishes++;
        return 1;
    case SELENE_RETRY:
        return refused(seat, world, tokens, answer->reason);
    case SELENE_OVERSIZE:
        seat->result.oversize++;
        return publish_past(seat);
    default:
        seat->result.present++;
        return publish_past(seat);
    }
}

void seat_publish_event(struct seat *seat, const struct seat_world *world, const struct selene_event *event) {
    seat->result.published_bytes += event->bytes;
    if (event->result == SELENE_E_RETRY && seat->handed_back++ < HANDED_BACK_MAX) {
        (void)seat_may_wait(seat);
        if (seat->capture_tokens) /* filled once more when it is accepted */
            __atomic_store_n(&seat->ready, 0, __ATOMIC_RELEASE);
        seat->state = SEAT_PUBLISH;
        return;
    }
    if (event->result == SELENE_E_RETRY) {
        selene_publish_abandoned(world->store, SELENE_RETRY_SLOTS);
        seat->result.abandoned++;
    } else {
        seat->result.failed += event->result != 0;
    }
    publish_past(seat);
}

/* ---- offers ---- */

static int offer(struct seat *seat, const struct seat_world *world, uint32_t tokens,
                 struct selene_publish_result *answer) {
    struct selene_device_state state = seat_state(seat, seat_pages(world, tokens));
    state.wait = &seat->ready;
    if (!seat->waiting) {
        __atomic_store_n(&seat->ready, 0, __ATOMIC_RELEASE);
        seat->result.offers_made++;
    }
    int result = selene_publish(world->store, seat->prefix, tokens, &state, answer);
    return result ? seat_fail(world, seat, result, "selene_publish") : 0;
}

static int capture_offer(struct seat *seat, const struct seat_world *world) {
    struct selene_publish_result answer = {0};
    uint32_t tokens = seat->capture_tokens;
    int result = offer(seat, world, tokens, &answer);
    if (result)
        return result;
    if (answer.answer == SELENE_ACCEPTED) {
        pages_fill(seat, world,
                   (uint32_t)(answer.from_tokens / world->stage->kv.page_tokens) * world->stage->kv.page_tokens,
                   tokens);
        rows_fill(seat, world, tokens);
        __atomic_store_n(&seat->ready, 1, __ATOMIC_RELEASE);
    }
    return answered(seat, world, tokens, &answer);
}

/* Captures the state; `*offered`: it is to be published now. */
static int capture(struct seat *seat, const struct seat_world *world, const struct checkpoint *checkpoint,
                   bool *offered) {
    int result =
        captures_add(world->captures, seat->request->session, seat->offers_request, checkpoint, seat->hash, offered);
    seat->result.offers_deferred += result == 0 && !*offered;
    return result ? seat_fail(world, seat, result, "selene_offers_captured") : 0;
}

static int checkpoint_offer(struct seat *seat, const struct seat_world *world, const struct checkpoint *checkpoint) {
    struct selene_publish_result answer = {0};
    bool first = !seat->waiting, offered = true;
    int result = first ? capture(seat, world, checkpoint, &offered) : 0;
    if (result == 0 && !offered)
        return publish_past(seat);
    if (result == 0 && checkpoint->tokens > seat->request->prompt_tokens)
        result = reply_append(seat, world);
    if (result == 0)
        result = offer(seat, world, checkpoint->tokens, &answer);
    if (result)
        return result;
    if (first) {
        prefill(seat, world, checkpoint->tokens);
        __atomic_store_n(&seat->ready, 1, __ATOMIC_RELEASE);
    }
    return answered(seat, world, checkpoint->tokens, &answer);
}

/* The rules want to know beforehand where the prompt checkpoint will be. */
static int begin(struct seat *seat, const struct seat_world *world) {
    const struct checkpoint *checkpoints = checkpoints_of(seat, world);
    uint32_t prompt = seat->request->prompt_tokens;
    for (uint32_t i = 0; i < seat->request->checkpoint_count; i++)
        if (checkpoints[i].kind == CHECKPOINT_PROMPT)
            prompt = checkpoints[i].tokens;
    int result = captures_begin(world->captures, seat->request->session, prompt, (uint32_t)seat->result.tokens_hit,
                                seat->hash, &seat->offers_request);
    return result ? seat_fail(world, seat, result, "selene_offers_begin") : 0;
}

int seat_publish(struct seat *seat, const struct seat_world *world) {
    if (seat->capture_tokens)
        return capture_offer(seat, world);
    int result = seat->offers_request ? 0 : begin(seat, world);
    if (result)
        return result;
    if (seat->checkpoint == seat->request->checkpoint_count)
        return request_end(seat, world);
    const struct checkpoint *checkpoint = &checkpoints_of(seat, world)[seat->checkpoint];
    if (checkpoint->tokens <= seat->result.tokens_hit) /* it is not passed again */
        return publish_past(seat);
    return checkpoint_offer(seat, world, checkpoint);
}
