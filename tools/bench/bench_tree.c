/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations for the index group (bench_tree.h).
 */
#include "tools/bench/bench_tree.h"

#include <stdlib.h>

static void random_key(struct sel_random *random, struct sel_key *key) {
    sel_random_fill(random, key->bytes, sizeof key->bytes);
}

void bench_turn_make(struct bench_turn *turn, unsigned number, const struct sel_prefix *prefix,
                     struct sel_random *random, const uint8_t ns[SEL_NAMESPACE_BYTES], struct sel_key *base) {
    uint32_t from = number * BENCH_TURN_TOKENS, tokens = from + BENCH_TURN_TOKENS;
    uint32_t first = from / BENCH_PAGE_TOKENS, last = tokens / BENCH_PAGE_TOKENS;
    for (uint32_t page = first; page < last; page++) {
        struct sel_key *key = &turn->page_keys[page - first];
        if (prefix)
            *key = *sel_prefix_page_key(prefix, page + 1);
        else
            random_key(random, key);
        *base = *key;
    }
    turn->spec = (struct sel_node_spec){.ns = ns,
                                        .page_tokens = BENCH_PAGE_TOKENS,
                                        .tokens = tokens,
                                        .page_keys = turn->page_keys,
                                        .page_key_count = last - first,
                                        .base_key = *base};
    if (prefix)
        (void)sel_prefix_key_at(prefix, tokens, &turn->spec.key);
    else if (tokens % BENCH_PAGE_TOKENS == 0)
        turn->spec.key = *base;
    else
        random_key(random, &turn->spec.key);
}

int bench_talk_prefix(struct sel_prefix **out, const struct sel_layout *layout, uint64_t number, uint32_t tokens) {
    uint32_t *ids = calloc(tokens, sizeof *ids);
    int rc = ids ? sel_prefix_create(out, layout, NULL, 0) : SELENE_E_NOMEM;
    for (uint32_t i = 0; rc == 0 && i < tokens; i++)
        ids[i] = (uint32_t)sel_mix64(number << 32 | i) % 150000;
    if (rc == 0)
        rc = sel_prefix_append(*out, ids, tokens);
    free(ids);
    return rc;
}

int bench_small_layout(struct sel_layout **out, uint64_t plane_bytes) {
    const struct selene_plane plane = {.bytes = plane_bytes};
    const struct selene_layout desc = {.page_tokens = BENCH_PAGE_TOKENS,
                                       .rank_count = 1,
                                       .plane_count = 1,
                                       .planes = &plane,
                                       .row_bytes = 4096,
                                       .description = "selene-bench",
                                       .description_bytes = 12};
    return sel_layout_create(out, &desc, NULL);
}
