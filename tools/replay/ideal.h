/* SPDX-License-Identifier: Apache-2.0
 *
 * The ideal: how many tokens an endless cache would hit, if each publish were ready before the next request. It knows
 * nothing of the store: it hashes token sequences by itself and remembers what was published.
 *
 * Without rows every page boundary of a published sequence can be resumed at; with rows the exact checkpoints. A
 * request uses at most n - 1 of its n tokens, since an engine computes at least the last one itself.
 */
#ifndef SELENE_REPLAY_IDEAL_H
#define SELENE_REPLAY_IDEAL_H

#include "tools/replay/workload.h"

#include <stdbool.h>

struct ideal;

int ideal_create(struct ideal **out, uint32_t page_tokens, bool has_rows, uint32_t tokens_max);
void ideal_destroy(struct ideal **ideal);

/* `hash`: running hashes of the sequence, hash[t] over its first t tokens. */
uint32_t ideal_lookup(const struct ideal *ideal, const uint64_t *hash, uint32_t limit_tokens);
int ideal_publish(struct ideal *ideal, const uint64_t *hash, uint32_t tokens);

/* Plays a whole workload in order. hits: one count a request. `tick` (may be NULL) is called now and then. */
int ideal_play(const struct workload *workload, uint32_t page_tokens, bool has_rows, uint32_t *hits,
               void (*tick)(void *context, size_t done), void *context);

#endif
