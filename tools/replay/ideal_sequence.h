/* SPDX-License-Identifier: Apache-2.0
 *
 * The requests of a workload one after another, with running hashes of their tokens: what the ideals see of them.
 */
#ifndef SELENE_REPLAY_IDEAL_SEQUENCE_H
#define SELENE_REPLAY_IDEAL_SEQUENCE_H

#include "tools/replay/workload.h"

struct ideal_sequence {
    uint32_t *tokens, *before;
    uint64_t *hash; /* hash[t] over the first t tokens */
    uint32_t count; /* hashed */
};

int ideal_sequence_open(struct ideal_sequence *sequence, const struct workload *workload); /* SELENE_E_NOMEM */
void ideal_sequence_close(struct ideal_sequence *sequence);                                /* half-open ones too */
/* Prompt and reply of a request. Hashes are kept from request to request as far as the tokens are the same. */
void ideal_sequence_take(struct ideal_sequence *sequence, const struct workload *workload, size_t index);

/* Two sequences of different length never share a name, whatever their hashes. Never 0. */
static inline uint64_t ideal_name(const uint64_t *hash, uint32_t tokens) {
    uint64_t name = mix_in(hash[tokens], tokens);
    return name ? name : 1;
}

#endif
