/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens and running hashes, request by request.
 */
#include "tools/replay/ideal_sequence.h"

#include <stdlib.h>

int ideal_sequence_open(struct ideal_sequence *sequence, const struct workload *workload) {
    size_t room = (size_t)workload->tokens_max + 1;
    *sequence = (struct ideal_sequence){calloc(room, sizeof *sequence->tokens), calloc(room, sizeof *sequence->before),
                                        calloc(room, sizeof *sequence->hash), 0};
    if (sequence->tokens == NULL || sequence->before == NULL || sequence->hash == NULL)
        return SELENE_E_NOMEM;
    sequence->hash[0] = mix64(7);
    return 0;
}

void ideal_sequence_close(struct ideal_sequence *sequence) {
    free(sequence->tokens);
    free(sequence->before);
    free(sequence->hash);
    *sequence = (struct ideal_sequence){0};
}

void ideal_sequence_take(struct ideal_sequence *sequence, const struct workload *workload, size_t index) {
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
