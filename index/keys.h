/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefix identity [L2, L3]. Keys are SHA-256 values:
 *
 *   K0   = SHA-256(namespace || u64 salt_bytes || salt)
 *   Kn   = SHA-256(Kn-1 || tokens of page n-1 as little-endian u32 || u64 extra_bytes || extra)
 *   mid-page, t tail tokens after n full pages:
 *          SHA-256(Kn || 0x01 || tail tokens || u64 extra_bytes || extra)
 *   page hashes passed by the engine (32 bytes each):
 *          Kn = SHA-256(K0 || 0x02 || hash of page n-1)
 *          so that the engine's hashes stay bound to the namespace and the salt; they match at page boundaries only.
 *          The hash of a page must stand for the whole prefix up to and with it: no key enters the next one here.
 *
 * Length prefixes are little-endian u64. A match always compares the token count as well as the key, and must: chosen
 * tokens and extra material can give the bytes of a full page and of a mid-page key the same hash, but not at the same
 * count.
 *
 * A sel_prefix is one token sequence, grown and cut incrementally: k more tokens cost O(k). One thread at a time.
 */
#ifndef SEL_INDEX_KEYS_H
#define SEL_INDEX_KEYS_H

#include "index/layout.h"

#include <stdbool.h>
#include <string.h>

struct sel_key {
    uint8_t bytes[32];
};

static inline bool sel_key_equal(const struct sel_key *a, const struct sel_key *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

struct sel_prefix;

#define SEL_PREFIX_TOKENS_MAX (UINT32_C(1) << 30)
#define SEL_EXTRA_BYTES_MAX   65536

/* Keeps what it needs of the layout (namespace, page size); salt may be NULL with 0 bytes. */
int sel_prefix_create(struct sel_prefix **out, const struct sel_layout *layout, const void *salt, size_t salt_bytes);
void sel_prefix_destroy(struct sel_prefix **prefix);

/* Appends tokens and computes the keys of the pages that become full. SELENE_E_OVERFLOW past SEL_PREFIX_TOKENS_MAX. */
int sel_prefix_append(struct sel_prefix *prefix, const uint32_t *tokens, size_t count);
/* Extra material of page `page`; must be given before that page is full, once; SELENE_E_INVALID otherwise. Copied. */
int sel_prefix_set_extra(struct sel_prefix *prefix, uint32_t page, const void *bytes, size_t count);
/* For engines with their own page hashes: appends whole pages. Not together with append on one prefix (E_INVALID). */
int sel_prefix_append_hashes(struct sel_prefix *prefix, const uint8_t (*hashes)[32], size_t page_count);
/* Keeps the first `tokens` tokens (and, with page hashes, whole pages only). */
int sel_prefix_truncate(struct sel_prefix *prefix, uint64_t tokens);

uint64_t sel_prefix_tokens(const struct sel_prefix *prefix);
uint32_t sel_prefix_page_tokens(const struct sel_prefix *prefix);
const uint8_t *sel_prefix_namespace(const struct sel_prefix *prefix);
/* K_page: 0 .. tokens / P. Valid until the prefix is next changed. */
const struct sel_key *sel_prefix_page_key(const struct sel_prefix *prefix, uint32_t page);
/* The key at an exact token count, 0 .. tokens; E_INVALID beyond, or mid-page with page hashes. */
int sel_prefix_key_at(const struct sel_prefix *prefix, uint64_t tokens, struct sel_key *out);

/* SHA-256 of a buffer, for namespaces and tests. */
int sel_sha256(uint8_t out[32], const void *bytes, size_t count);

#endif
