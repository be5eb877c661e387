/* SPDX-License-Identifier: Apache-2.0
 *
 * A caller's prefix: the keys of index/keys.h, and the process it belongs to.
 */
#ifndef SEL_ENGINE_PREFIX_PRIV_H
#define SEL_ENGINE_PREFIX_PRIV_H

#include "engine/store_priv.h"

struct selene_prefix {
    uint32_t generation;
    struct sel_prefix *keys;
};

/* 0; SELENE_E_INVALID for NULL or a prefix of another layout, SELENE_E_FORKED for one of the process's parent. */
int sel_prefix_usable(const selene_store *store, const selene_prefix *prefix);
/* Checks what a request says about device memory for its first `tokens` tokens. */
int sel_state_check(const selene_store *store, const struct selene_device_state *state, uint64_t tokens);

#endif
