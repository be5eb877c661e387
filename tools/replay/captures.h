/* SPDX-License-Identifier: Apache-2.0
 *
 * What the device holds of each session: the captures of its last request, until its next request has looked up. Which
 * of them are offered to the store, and when, is decided by engine/selene_offers.h [O1, O2]. The content of a capture is
 * a function of its tokens, so only its place is kept.
 *
 * There is no device tier in a replay: a request that resumes at a deferred capture has it offered, and restores it from
 * the store like any other record.
 */
#ifndef SELENE_REPLAY_CAPTURES_H
#define SELENE_REPLAY_CAPTURES_H

#include "engine/selene_offers.h"
#include "tools/replay/workload.h"

struct captures;

/* defer false: everything is offered when it is captured. SELENE_E_NOMEM. */
int captures_create(struct captures **out, uint32_t page_tokens, bool defer, uint32_t session_count);
void captures_destroy(struct captures **captures); /* NULL-safe */

/* A request has looked up and the store has `above` of its tokens. If a deferred capture of its session is longer, has at
 * most `limit` tokens and is a prefix of the sequence with these running hashes (hash[t] over its first t tokens), it is
 * to be offered now: `*tokens` are its tokens, else 0. The session's captures are gone then. */
int captures_resume(struct captures *captures, uint32_t session, const uint64_t *hash, uint64_t above, uint32_t limit,
                    uint32_t *tokens);

/* A request that goes on from `restored` tokens (0: from none), and whose prompt checkpoint will be at
 * `prompt_tokens`. `*request` is never 0. */
int captures_begin(struct captures *captures, uint32_t session, uint32_t prompt_tokens, uint32_t restored,
                   const uint64_t *hash, uint64_t *request);
/* It came to a checkpoint beyond where it was. */
int captures_add(struct captures *captures, uint32_t session, uint64_t request, const struct checkpoint *checkpoint,
                 const uint64_t *hash, bool *offered);
int captures_end(struct captures *captures, uint64_t request);

#endif
