/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 through OpenSSL. The only file with one of its headers.
 *
 * A page key hashes about 300 bytes. With the SHA extensions of the processor that takes 180 ns of pure hashing, 206 ns
 * through the low-level functions, 239 ns through an EVP context that is fetched once and reused, and 445 ns with a new
 * EVP context each time. The low-level functions also allocate nothing and cannot fail. They are marked deprecated but
 * are part of every OpenSSL up to 3.x, hence the define.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include "index/keys.h"
#include "index/sha256.h"

_Static_assert(sizeof(struct sel_sha256_state) >= sizeof(SHA256_CTX), "the state must hold OpenSSL's");
_Static_assert(_Alignof(struct sel_sha256_state) >= _Alignof(SHA256_CTX), "the state must be aligned like OpenSSL's");

static SHA256_CTX *context_of(struct sel_sha256_state *state) { return (SHA256_CTX *)(void *)state; }

void sel_sha256_begin(struct sel_sha256_state *state) { SHA256_Init(context_of(state)); }

void sel_sha256_add(struct sel_sha256_state *state, const void *bytes, size_t count) {
    if (count > 0)
        SHA256_Update(context_of(state), bytes, count);
}

void sel_sha256_end(struct sel_sha256_state *state, uint8_t out[32]) { SHA256_Final(out, context_of(state)); }

int sel_sha256(uint8_t out[32], const void *bytes, size_t count) {
    struct sel_sha256_state state;

    if (bytes == NULL && count > 0)
        return SELENE_E_INVALID;
    sel_sha256_begin(&state);
    sel_sha256_add(&state, bytes, count);
    sel_sha256_end(&state, out);
    return 0;
}
