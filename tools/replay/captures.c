/* SPDX-License-Identifier: Apache-2.0
 *
 * A list a session; a turn has few captures. Deferred ones leave before offered ones, so that none of them is an heir
 * [O3].
 */
#include "tools/replay/captures.h"

#include <stdlib.h>

struct capture {
    uint64_t id, hash;
    uint32_t tokens;
    bool deferred;
};

struct session {
    struct capture *items;
    uint32_t count, capacity;
};

struct captures {
    selene_offers *offers;
    uint32_t session_count;
    struct session sessions[];
};

int captures_create(struct captures **out, uint32_t page_tokens, bool defer, uint32_t session_count) {
    struct captures *captures = *out = calloc(1, sizeof *captures + session_count * sizeof captures->sessions[0]);
    if (captures == NULL)
        return SELENE_E_NOMEM;
    captures->session_count = session_count;
    int result = selene_offers_create(&captures->offers, page_tokens, defer);
    if (result)
        captures_destroy(out);
    return result;
}

void captures_destroy(struct captures **pointer) {
    struct captures *captures = *pointer;
    if (captures == NULL)
        return;
    selene_offers_destroy(&captures->offers);
    for (uint32_t i = 0; i < captures->session_count; i++)
        free(captures->sessions[i].items);
    free(captures);
    *pointer = NULL;
}

/* ---- a session's list ---- */

static int list_add(struct session *session, const struct capture *capture) {
    if (session->count == session->capacity) {
        uint32_t capacity = session->capacity * 2 + 4;
        struct capture *moved = reallocarray(session->items, capacity, sizeof *moved);
        if (moved == NULL)
            return SELENE_E_NOMEM;
        session->items = moved, session->capacity = capacity;
    }
    session->items[session->count++] = *capture;
    return 0;
}

static int drop(struct captures *captures, struct session *session, bool deferred) {
    struct selene_offers_answer answer;
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < session->count; i++)
        if (session->items[i].deferred == deferred)
            result = selene_offers_compacted(captures->offers, session->items[i].id, &answer);
    return result;
}

static struct capture *longest(const struct session *session, const uint64_t *hash, uint64_t above, uint32_t limit) {
    struct capture *best = NULL;
    for (uint32_t i = 0; i < session->count; i++) {
        struct capture *item = &session->items[i];
        if (item->deferred && item->tokens > above && item->tokens <= limit && hash[item->tokens] == item->hash &&
            (best == NULL || item->tokens > best->tokens))
            best = item;
    }
    return best;
}

/* ---- a request ---- */

/* For the rules it is a request that resumes there and does nothing more. */
static int offer(struct captures *captures, struct capture *capture) {
    struct selene_offers_answer answer;
    uint64_t request;
    int result = selene_offers_begin(captures->offers, capture->tokens, capture->id, &request, &answer);
    if (result)
        return result;
    if (answer.count != 1 || answer.offers[0].checkpoint != capture->id)
        return SELENE_E_INTERNAL;
    capture->deferred = false;
    return selene_offers_end(captures->offers, request, SELENE_ENDED_FINISHED, &answer);
}

int captures_resume(struct captures *captures, uint32_t session_index, const uint64_t *hash, uint64_t above,
                    uint32_t limit, uint32_t *tokens) {
    struct session *session = &captures->sessions[session_index];
    struct capture *best = longest(session, hash, above, limit);
    *tokens = best ? best->tokens : 0;
    int result = best ? offer(captures, best) : 0;
    if (result == 0)
        result = drop(captures, session, true);
    if (result == 0)
        result = drop(captures, session, false);
    session->count = 0;
    return result;
}

int captures_begin(struct captures *captures, uint32_t session, uint32_t prompt_tokens, uint32_t restored,
                   const uint64_t *hash, uint64_t *request) {
    struct selene_offers_answer answer;
    struct capture capture = {.tokens = restored, .hash = hash[restored]};
    int result = selene_offers_begin(captures->offers, prompt_tokens, 0, request, &answer);
    if (result == 0 && restored)
        result = selene_offers_captured(captures->offers, *request, SELENE_CHECKPOINT_RESTORED, restored, 1,
                                        &capture.id, &answer);
    return result == 0 && restored ? list_add(&captures->sessions[session], &capture) : result;
}

int captures_add(struct captures *captures, uint32_t session, uint64_t request, const struct checkpoint *checkpoint,
                 const uint64_t *hash, bool *offered) {
    static const int kinds[] = {[CHECKPOINT_MESSAGE] = SELENE_CHECKPOINT_MESSAGE,
                                [CHECKPOINT_PROMPT] = SELENE_CHECKPOINT_PROMPT,
                                [CHECKPOINT_TERMINAL] = SELENE_CHECKPOINT_TERMINAL};
    struct selene_offers_answer answer;
    struct capture capture = {.tokens = checkpoint->tokens, .hash = hash[checkpoint->tokens]};
    int result = selene_offers_captured(captures->offers, request, kinds[checkpoint->kind], checkpoint->tokens, 1,
                                        &capture.id, &answer);
    if (result)
        return result;
    *offered = answer.count == 1 && answer.offers[0].checkpoint == capture.id;
    if (answer.count > *offered)
        return SELENE_E_INTERNAL;
    capture.deferred = !*offered;
    return list_add(&captures->sessions[session], &capture);
}

int captures_end(struct captures *captures, uint64_t request) {
    struct selene_offers_answer answer;
    return selene_offers_end(captures->offers, request, SELENE_ENDED_FINISHED, &answer);
}
