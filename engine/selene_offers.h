/* SPDX-License-Identifier: Apache-2.0
 *
 * Which checkpoints an engine offers to the host at all; installed beside selene.h. For an inference scheduler.
 *
 * For layouts with rows: without, every page boundary can be resumed at, and the engine simply publishes. docs/examples/
 * offers.c is a whole engine that uses it.
 *
 * An engine captures several checkpoints a turn as snapshots in device memory (at message boundaries, at the end of the
 * prompt, at the end of the reply), and later requests resume at one of them. Copying each to the host would be waste.
 * This object is told what happens and answers which checkpoints to publish now. It decides and does nothing else: no
 * I/O, no clock, no threads, no store, no device memory.
 *
 *     selene_offers *offers;                      one for each place where snapshots live
 *     struct selene_offers_answer answer;         what to publish now, after each call that takes one
 *
 *     selene_offers_begin(offers, 1000, found, &request, &answer);        a request of 1,000 tokens; `found` is the
 *                                                                         checkpoint it resumes at, 0 for none
 *     selene_offers_captured(offers, request, SELENE_CHECKPOINT_MESSAGE, 990, 1, &message, &answer);   deferred
 *     selene_offers_captured(offers, request, SELENE_CHECKPOINT_PROMPT, 1000, 1, &prompt, &answer);    offered
 *     for (size_t i = 0; i < answer.count; i++)
 *         publish(answer.offers[i]);                                      selene_publish with answer.offers[i].tokens
 *     ... decode ...
 *     selene_offers_captured(offers, request, SELENE_CHECKPOINT_TERMINAL, 1300, 1, &terminal, &answer); deferred
 *     selene_offers_end(offers, request, SELENE_ENDED_FINISHED, &answer);
 *     ... the next turn resumes at `terminal`, which is offered now: begin(offers, 1400, terminal, &request, &answer)
 *     ... the device needs room:  selene_offers_compacted(offers, message, &answer);
 *
 * WHAT IS DEFERRED [O1]: (a) a message checkpoint whose prompt checkpoint follows less than one page later; (b) terminal
 * checkpoints. Everything else is offered when it is captured.
 * WHEN A DEFERRED ONE IS OFFERED [O2]: when a request resumes exactly at it; a terminal one when its request is
 * preempted; a message one also when its request is cancelled or fails, and, if pinned, when its prompt capture got no
 * snapshot; as an heir [O3]; when another request comes by for which it is none of (a), (b) (selene_offers_shared).
 * WHAT IT NEVER CHANGES [O4]: captures, prefill cuts, and what the device keeps or evicts are the engine's. Return values
 * and ids do not depend on `defer`; only answers, reasons and counters do.
 *
 * IDS. Requests and checkpoints get ids here: never 0, and old ones are never used again. 0 stands for "none".
 * TOKENS grow along a request: what it captures lies beyond where it is. No call order can do harm: SELENE_E_NOTFOUND for
 * an id that is not known or no longer, SELENE_E_INVALID for what cannot happen in this order; then nothing was changed.
 * COST. O(log n) amortised in the number n of captures that are held; a single call can take O(n), 0.8 ms for a chain
 * of 100,000. 104 bytes each, and up to as much again after growing. Memory follows the most that were held at once.
 * THREADS. One at a time.
 */
#ifndef SELENE_OFFERS_H
#define SELENE_OFFERS_H

#include "selene.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct selene_offers selene_offers;

/* page_tokens: of the layout, 1 .. SELENE_PAGE_TOKENS_MAX. defer: 1; 0 offers every capture at once, for comparison.
 * SELENE_E_INVALID, SELENE_E_NOMEM. */
SELENE_API int selene_offers_create(selene_offers **out, uint32_t page_tokens, int defer);
SELENE_API void selene_offers_destroy(selene_offers **offers); /* NULL-safe */

/* ---- answers ---- */

enum selene_offer_reason {
    SELENE_OFFER_DEFERRED = 0,    /* not offered so far */
    SELENE_OFFER_CAPTURED = 1,    /* at once */
    SELENE_OFFER_RESUMED = 2,     /* a request goes on from it */
    SELENE_OFFER_PREEMPTED = 3,   /* its request will: counts as resumed */
    SELENE_OFFER_ENDED = 4,       /* its request was cancelled or failed */
    SELENE_OFFER_NO_SNAPSHOT = 5, /* its prompt capture got none */
    SELENE_OFFER_SHARED = 6,      /* another request came by that would not defer it */
    SELENE_OFFER_HEIR = 7,        /* a branch point below an offered checkpoint that was compacted */
    SELENE_OFFER_HELD = 8,        /* came from the host: nothing to publish, never in an answer */
};
/* One checkpoint to publish now. Its snapshot must stay (pin it) until the PUBLISH event, or while the engine keeps a
 * publish that the store answered with Retry. Nothing needs to be said here of what became of it. */
struct selene_offer {
    uint64_t checkpoint;
    uint64_t tokens;
    /* The nearest ancestor that was offered and is still captured, and the pages since it [L4, O3]:
     * floor(parent_tokens / P) .. ceil(tokens / P). 0: none, all pages. The store copies no more than what lies beyond
     * the deepest ancestor that it holds. */
    uint64_t parent;
    uint64_t parent_tokens;
    uint64_t first_page;
    uint64_t page_count;
    int reason; /* enum selene_offer_reason */
};
struct selene_offers_answer {
    const struct selene_offer *offers; /* ancestors first; valid until the next call that takes an answer */
    size_t count;
    uint64_t heir; /* selene_offers_compacted only; 0: none */
};

/* ---- a request ---- */

/* A request begins whose prompt checkpoint will be at `prompt_tokens` (its token count, or where the engine cuts it);
 * at least 1. It resumes exactly at `checkpoint`; 0: at none, or that is not known yet. */
SELENE_API int selene_offers_begin(selene_offers *offers, uint64_t prompt_tokens, uint64_t checkpoint,
                                   uint64_t *request, struct selene_offers_answer *answer);
/* What begin did not know yet: the request resumes exactly at `checkpoint` (0: it computes from token 0). Also when a
 * preempted request runs again. SELENE_E_INVALID when it runs already. */
SELENE_API int selene_offers_resumed(selene_offers *offers, uint64_t request, uint64_t checkpoint,
                                     struct selene_offers_answer *answer);

enum selene_checkpoint_kind {
    SELENE_CHECKPOINT_MESSAGE = 1,  /* a message ends, before prompt_tokens */
    SELENE_CHECKPOINT_PROMPT = 2,   /* exactly prompt_tokens */
    SELENE_CHECKPOINT_TERMINAL = 3, /* the reply ends, or the request is about to be preempted, anywhere. Nothing can be
                                       captured after it until the request was preempted and resumed */
    SELENE_CHECKPOINT_RESTORED = 4, /* a record of the host was restored here: counts as offered. After begin, or after
                                       resumed with 0 when the request was preempted */
};
/* The request came to `tokens` tokens and a checkpoint was captured there. has_snapshot 0: device memory had no room for
 * it; `*checkpoint` becomes 0, and the request goes on. A prompt capture without snapshot offers the pinned deferred
 * message checkpoints of the request: call this before they are unpinned. */
SELENE_API int selene_offers_captured(selene_offers *offers, uint64_t request, int kind, uint64_t tokens,
                                      int has_snapshot, uint64_t *checkpoint, struct selene_offers_answer *answer);
/* The same, where a checkpoint of another request already is (same tokens, computed again): nothing was captured, what
 * the request captures next branches off there. `kind` is what it is to this request; not RESTORED. "Its request" stays
 * the one that captured it: how this one ends, or that its prompt gets no snapshot, offers no checkpoint of another. */
SELENE_API int selene_offers_shared(selene_offers *offers, uint64_t request, int kind, uint64_t checkpoint,
                                    struct selene_offers_answer *answer);
/* It had to give up its place and will run again (selene_offers_resumed). Its terminal checkpoint, captured before or
 * after this call, is offered. */
SELENE_API int selene_offers_preempted(selene_offers *offers, uint64_t request, struct selene_offers_answer *answer);

enum selene_offers_ended { SELENE_ENDED_FINISHED = 0, SELENE_ENDED_CANCELLED = 1, SELENE_ENDED_FAILED = 2 };
/* The request's id ends; its checkpoints stay until they are compacted. */
SELENE_API int selene_offers_end(selene_offers *offers, uint64_t request, int how, struct selene_offers_answer *answer);

/* ---- a checkpoint ---- */

/* Something needs its snapshot (a request, a copy); counted. */
SELENE_API int selene_offers_pinned(selene_offers *offers, uint64_t checkpoint);
SELENE_API int selene_offers_unpinned(selene_offers *offers, uint64_t checkpoint);
/* The device drops the snapshot, or merges it into those after it: its id ends. Ask before doing it: SELENE_E_RETRY
 * while it is pinned. What follows it now hangs below its parent.
 *
 * If it was offered, its heir is the first checkpoint below it, along the tree and in the order of capture, that was
 * offered, or that is deferred and a branch point: that one is offered now [O3]. A publish of the compacted checkpoint
 * that was not accepted yet can be abandoned: the heir's carries its pages (selene_offers_describe says which). */
SELENE_API int selene_offers_compacted(selene_offers *offers, uint64_t checkpoint, struct selene_offers_answer *answer);
/* What an offer of it says, or would say now. `reason` tells whether it was offered. */
SELENE_API int selene_offers_describe(selene_offers *offers, uint64_t checkpoint, struct selene_offer *offer);

/* ---- counters ---- */

/* deferred = resumed + offered_late + dropped + waiting. */
struct selene_offers_stats {
    uint64_t made;         /* offers */
    uint64_t deferred;     /* captures that were not offered at once */
    uint64_t resumed;      /* of them offered since a request resumed there, or was preempted there */
    uint64_t offered_late; /* of them offered for another reason */
    uint64_t dropped;      /* of them compacted without an offer: what deferring saved */
    uint64_t waiting;      /* of them held and not offered */
    uint64_t captures;     /* held */
    uint64_t requests;     /* that did not end */
};
/* `stats_bytes`: sizeof *stats; what this library does not know is zeroed. */
SELENE_API int selene_offers_get_stats(const selene_offers *offers, struct selene_offers_stats *stats,
                                       size_t stats_bytes);

#ifdef __cplusplus
}
#endif
#endif
