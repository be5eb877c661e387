/* SPDX-License-Identifier: Apache-2.0
 *
 * See life_world.h.
 */
#include "tests/sim/life_world.h"

uint64_t life_below(struct life_world *life, uint64_t bound) { return sel_random_below(&life->random, bound); }

/* Shares of one block a page and a short second one, rows of two pieces, the second short. */
static void choose_shape(struct life_world *life, struct world_layout *shape) {
    static const uint32_t ranks[] = {1, 2, 2, 3, 4};
    life->ranks = ranks[life_below(life, SEL_COUNT(ranks))];
    *shape = (struct world_layout){.page_tokens = LIFE_PAGE,
                                   .rank_count = life->ranks,
                                   .entry_bytes = {24, 101},
                                   .entry_tokens = {1, 2},
                                   .row_bytes = 4500,
                                   .pages_alike = life_below(life, 2) != 0,
                                   .row_alike = life_below(life, 2) != 0};
    life->row_slots = 2;
}

void life_open(struct life_world *life, uint64_t seed, uint64_t warm_slots, bool disk, uint32_t requests) {
    struct world_layout shape;
    memset(life, 0, sizeof *life);
    sel_random_seed(&life->random, seed);
    choose_shape(life, &shape);
    life->warm = warm_slots > 0;
    life->disk = disk;
    world_init(&life->world, &shape, requests * LIFE_BLOCKS, warm_slots, true);
    struct selene_options *options = &life->world.options;
    options->spare_rows = (uint32_t)life_below(life, 3);
    options->no_thinning = life_below(life, 8) == 0;
    options->no_packing = life_below(life, 8) == 0;
    life->packs = life->ranks > 1 && !options->no_packing;
    if (disk)
        world_disk(&life->world, seed);
    world_open(&life->world);
    life_talks_make(life);
}

void life_close(struct life_world *life) {
    for (uint32_t i = 0; i < LIFE_TALKS; i++)
        sequence_free(&life->talks[i].sequence);
    world_destroy(&life->world);
}

/* The talk becomes another's up to some token, and goes on differently. */
static void fork_talk(struct life_world *life, uint32_t index) {
    struct life_talk *talk = &life->talks[index];
    const struct life_talk *from = &life->talks[life_below(life, LIFE_TALKS)];
    struct sequence made;
    uint32_t most = SEL_MIN(from->at, LIFE_TOKENS - 8u); /* it can go on */
    uint32_t shared = from->sequence.count ? (uint32_t)life_below(life, most + 1) : 0;
    sequence_fork(&life->world, &made, &from->sequence, shared, ++life->said, LIFE_TOKENS);
    sequence_free(&talk->sequence);
    talk->sequence = made;
    talk->at = shared;
}

void life_talks_make(struct life_world *life) {
    for (uint32_t i = 0; i < LIFE_TALKS; i++)
        fork_talk(life, i);
}

void life_prefixes(struct life_world *life) {
    for (uint32_t i = 0; i < LIFE_TALKS; i++)
        sequence_prefix(&life->world, &life->talks[i].sequence);
}

struct life_talk *life_say(struct life_world *life, uint32_t *tokens) {
    uint32_t index = (uint32_t)life_below(life, LIFE_TALKS);
    struct life_talk *talk = &life->talks[index];
    uint32_t dice = (uint32_t)life_below(life, 16);
    if (talk->at >= LIFE_TOKENS - 7 || dice == 0)
        fork_talk(life, index);
    else if (dice == 1) /* anywhere before, where a record was thinned, say */
        talk->at = (uint32_t)life_below(life, talk->at + 1);
    if (dice > 2 || talk->at == 0)
        talk->at += 1 + (uint32_t)life_below(life, 7);
    *tokens = talk->at;
    return talk;
}

static uint32_t part_slots(const struct life_world *life, uint32_t pieces, bool alike) {
    return life->packs && alike ? (pieces + life->ranks - 1) / life->ranks : pieces;
}

uint32_t life_slots(const struct life_world *life, uint32_t tokens, uint32_t parent_tokens, bool row) {
    uint32_t pages = (tokens + LIFE_PAGE - 1) / LIFE_PAGE - parent_tokens / LIFE_PAGE;
    return part_slots(life, pages, life->world.shape.pages_alike) +
           (row ? part_slots(life, life->row_slots, life->world.shape.row_alike) : 0);
}

struct sel_node *life_node(struct life_world *life, const struct sel_key *key, uint32_t tokens) {
    selene_store *store = life->world.store;
    return sel_tree_find(store->tree, store->layout->ns, key, tokens);
}
