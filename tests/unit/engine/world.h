/* SPDX-License-Identifier: Apache-2.0
 *
 * A small engine to test a store with: device memory, sequences, and payloads that say whose they are.
 *
 * Each token has a history: a hash of the sequence up to and with it. Every entry of a plane is filled from the history
 * of its last token, the plane and the rank; a row from the history of the last token and the rank. So a restored byte
 * that belongs to another sequence, page, plane or rank is wrong [fault 1].
 */
#ifndef SEL_TESTS_ENGINE_WORLD_H
#define SEL_TESTS_ENGINE_WORLD_H

#include "base/random.h"
#include "engine/store_env.h"
#include "engine/store_priv.h"
#include "tests/lib/catalog_sim.h"
#include "tests/lib/disk_fault.h"
#include "tests/lib/disk_sim.h"
#include "tests/lib/test.h"

#define WORLD_PLANES 2

struct world_layout {
    uint32_t page_tokens, rank_count;
    uint32_t entry_bytes[WORLD_PLANES], entry_tokens[WORLD_PLANES];
    uint64_t row_bytes;
    bool pages_alike, row_alike; /* all ranks hold the same [K1] */
    uint32_t differ_every;       /* ... but for every n-th page and what ends in it; 0: no such page */
};
/* Two ranks, planes of one entry a token and one entry for four, a row of three slots. */
extern const struct world_layout world_with_rows;
/* The same without rows. */
extern const struct world_layout world_without_rows;

struct sequence;

struct world {
    struct world_layout shape;
    struct selene_plane plane_desc[WORLD_PLANES];
    struct selene_layout layout;
    uint32_t block_count;
    uint8_t *planes[64][WORLD_PLANES];
    struct selene_plane_memory memory[64 * WORLD_PLANES];
    struct selene_options options;
    struct sel_store_env env;
    /* The deterministic edges, when used. */
    struct sel_ready ready;
    struct sel_workers *workers, *blocking;
    struct sel_clock_manual clock;
    struct sel_random random;
    bool inline_edges;
    /* The simulated disk and catalogue, with inline edges; or a directory. */
    struct sel_disk_sim *disk_sim;
    struct sel_catalog_sim *catalog_sim;
    struct sel_disk *disk; /* disk_fault around it */
    char *directory;
    selene_store *store;
    uint64_t slot_bytes;
};

/* Device memory for `block_count` blocks and options with so many slots of memory; the caller may change options and
 * env before world_open. `inline_edges`: no threads, a clock moved by hand, seeded random numbers. */
void world_init(struct world *world, const struct world_layout *shape, uint32_t block_count, uint64_t warm_slots,
                bool inline_edges);
/* Gives the world a disk: simulated with inline edges, else a new directory. Before world_open. */
void world_disk(struct world *world, uint64_t seed);
void world_open(struct world *world);
/* Leaves as a crash does; with a simulated disk power goes, and what was not durable is kept, dropped or torn. */
void world_crash(struct world *world, uint64_t seed);
/* The record at exactly `tokens` of a sequence; fails the test when there is none. */
struct sel_node *world_node(struct world *world, const struct sequence *sequence, uint32_t tokens);
/* Flips a valid bit of piece `index` of a part of a record, in memory or on the simulated disk. */
void world_damage(struct world *world, struct sel_node *node, enum sel_tier tier, enum sel_lsm_part part,
                  uint32_t index);
/* Drains, closes and opens: everything is on disk and nothing in memory. */
void world_reopen(struct world *world, struct sequence *sequences, size_t count);
/* Persists everything; returns the event. */
struct selene_event world_drain(struct world *world);
struct selene_stats world_stats(struct world *world);
void world_close(struct world *world);
/* After failed writes: closing may say so. */
void world_close_failed(struct world *world);
void world_destroy(struct world *world);

/* A sequence: tokens, and their keys in the store. */
struct sequence {
    uint32_t *tokens;
    uint64_t *history;
    uint32_t count;
    selene_prefix *prefix;
};
/* `seed` names the sequence; sequences that share `shared` tokens with `from` are made by sequence_fork. */
void sequence_make(struct world *world, struct sequence *sequence, uint64_t seed, uint32_t count);
void sequence_fork(struct world *world, struct sequence *sequence, const struct sequence *from, uint32_t shared,
                   uint64_t seed, uint32_t count);
void sequence_prefix(struct world *world, struct sequence *sequence); /* again, after the store was reopened */
void sequence_free(struct sequence *sequence);

/* The device memory of one request: blocks first_block on, and rows of its own. */
struct device_request {
    uint32_t *blocks;
    uint8_t *rows[64];
    struct selene_device_state state;
    uint32_t wait;
};
void request_make(struct world *world, struct device_request *request, uint32_t first_block, uint32_t blocks);
void request_free(struct world *world, struct device_request *request);
/* Computes pages and row of the first `tokens` tokens. */
void request_fill(struct world *world, struct device_request *request, const struct sequence *sequence,
                  uint32_t tokens);
/* Overwrites everything with `byte`. */
void request_clear(struct world *world, struct device_request *request, uint8_t byte);
/* Number of wrong valid bytes among the first `tokens` tokens, and in the row. */
uint64_t request_wrong(struct world *world, const struct device_request *request, const struct sequence *sequence,
                       uint32_t tokens, bool row);
/* Number of bytes other than `byte` beyond the valid ones: a restore must leave them alone [L4]. */
uint64_t request_touched(struct world *world, const struct device_request *request, uint32_t tokens, uint8_t byte);

/* Polls until the event of `ticket` comes; other events are dropped. */
struct selene_event world_wait(struct world *world, uint64_t ticket);
/* A round: poll, and a step of time when it is ours. */
int world_poll(struct world *world, struct selene_event *events, size_t capacity);
void world_check(struct world *world);

/* Fills, publishes and waits; answers Retry are tried again for a while. Returns the answer. */
int world_publish(struct world *world, struct device_request *request, const struct sequence *sequence,
                  uint32_t tokens);
/* Restores up to `limit` tokens and verifies every byte; returns how many tokens came. `result`: the event's, or NULL
 * when it must be 0. */
uint64_t world_restore(struct world *world, struct device_request *request, const struct sequence *sequence,
                       uint32_t limit, int *result);
uint64_t world_lookup(struct world *world, const struct sequence *sequence, uint32_t limit, int *tier);

#endif
