/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256, incremental; private to index/. The state is plain memory: it may be copied, holds no pointer and needs no
 * clean-up, so hashing allocates nothing and cannot fail. Any thread, one at a time per state.
 */
#ifndef SEL_INDEX_SHA256_H
#define SEL_INDEX_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sel_sha256_state {
    uint32_t words[28];
};

void sel_sha256_begin(struct sel_sha256_state *state);
void sel_sha256_add(struct sel_sha256_state *state, const void *bytes, size_t count); /* NULL with 0 bytes is fine */
void sel_sha256_end(struct sel_sha256_state *state, uint8_t out[32]);

#endif
