/* SPDX-License-Identifier: Apache-2.0
 *
 * selene_prefix_*: a token sequence and its keys [L2, L3], as a handle of the public API.
 */
#include "engine/prefix_priv.h"

#include <string.h>

static int own(const selene_prefix *prefix) {
    if (!prefix)
        return SELENE_E_INVALID;
    return prefix->generation == sel_fork_generation() ? 0 : SELENE_E_FORKED;
}

int sel_prefix_usable(const selene_store *store, const selene_prefix *prefix) {
    int result = own(prefix);
    if (!result && memcmp(sel_prefix_namespace(prefix->keys), store->layout->ns, SEL_NAMESPACE_BYTES) != 0)
        result = SELENE_E_INVALID;
    return result;
}

int sel_state_check(const selene_store *store, const struct selene_device_state *state, uint64_t tokens) {
    const struct sel_layout *layout = store->layout;
    uint32_t pages = sel_layout_end_page(layout, tokens);
    if (tokens == 0 || !state->blocks || state->block_count < pages)
        return SELENE_E_INVALID;
    for (uint32_t i = 0; i < pages; i++)
        if (state->blocks[i] >= store->options.block_count)
            return SELENE_E_INVALID;
    if (layout->desc.row_bytes == 0)
        return 0;
    if (!state->rows)
        return SELENE_E_INVALID;
    for (uint32_t i = 0; i < layout->desc.rank_count; i++)
        if (!state->rows[i])
            return SELENE_E_INVALID;
    return 0;
}

int selene_prefix_create(selene_prefix **out, const selene_store *store, const void *salt, size_t salt_bytes) {
    if (!out)
        return SELENE_E_INVALID;
    *out = NULL;
    int result = sel_store_usable(store);
    if (result)
        return result;
    if (!salt && salt_bytes)
        return SELENE_E_INVALID;
    selene_prefix *prefix = calloc(1, sizeof *prefix);
    if (!prefix)
        return SELENE_E_NOMEM;
    prefix->generation = store->generation;
    result = sel_prefix_create(&prefix->keys, store->layout, salt, salt_bytes);
    if (result) {
        free(prefix);
        return result;
    }
    *out = prefix;
    return 0;
}

void selene_prefix_destroy(selene_prefix **prefix) {
    if (!prefix || !*prefix)
        return;
    sel_prefix_destroy(&(*prefix)->keys);
    free(*prefix);
    *prefix = NULL;
}

int selene_prefix_append(selene_prefix *prefix, const uint32_t *tokens, size_t count) {
    int result = own(prefix);
    if (result)
        return result;
    return tokens || count == 0 ? sel_prefix_append(prefix->keys, tokens, count) : SELENE_E_INVALID;
}

int selene_prefix_set_extra(selene_prefix *prefix, uint32_t page, const void *bytes, size_t count) {
    int result = own(prefix);
    if (result)
        return result;
    return bytes || count == 0 ? sel_prefix_set_extra(prefix->keys, page, bytes, count) : SELENE_E_INVALID;
}

int selene_prefix_append_hashes(selene_prefix *prefix, const uint8_t (*hashes)[32], size_t page_count) {
    int result = own(prefix);
    if (result)
        return result;
    return hashes || page_count == 0 ? sel_prefix_append_hashes(prefix->keys, hashes, page_count) : SELENE_E_INVALID;
}

int selene_prefix_truncate(selene_prefix *prefix, uint64_t tokens) {
    int result = own(prefix);
    return result ? result : sel_prefix_truncate(prefix->keys, tokens);
}

uint64_t selene_prefix_tokens(const selene_prefix *prefix) { return prefix ? sel_prefix_tokens(prefix->keys) : 0; }

int selene_prefix_key(const selene_prefix *prefix, uint64_t tokens, uint8_t key[32]) {
    struct sel_key found;
    int result = own(prefix);
    if (result)
        return result;
    if (!key)
        return SELENE_E_INVALID;
    result = sel_prefix_key_at(prefix->keys, tokens, &found);
    if (result == 0)
        memcpy(key, found.bytes, sizeof found.bytes);
    return result;
}
