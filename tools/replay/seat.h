/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of one request in the simulated engine:
 *
 *     LOOK --(something held)--> RESTORE --> PUBLISH <--> PUBLISHING --> (the next checkpoint: PUBLISH again) --> IDLE
 *       |______(nothing, declined)____________^
 *
 *   LOOK        looks up n - 1 tokens and starts a restore; repeats while the answer is "not now". A deferred capture
 *               that is longer than what the store holds is offered first (PUBLISH, PUBLISHING, LOOK again), so that
 *               every restored byte comes through the store
 *   RESTORE     waits for the event, then verifies every restored byte
 *   PUBLISH     fills the blocks up to the checkpoint ("prefill"), offers it; repeats while the answer is "not now"
 *   PUBLISHING  waits for the event: until then the blocks must not change
 *
 * A seat keeps its tokens and keys when it becomes idle: the next request continues from what they have in common.
 */
#ifndef SELENE_REPLAY_SEAT_H
#define SELENE_REPLAY_SEAT_H

#include "tools/replay/captures.h"
#include "tools/replay/device.h"

enum seat_state { SEAT_IDLE, SEAT_LOOK, SEAT_RESTORE, SEAT_PUBLISH, SEAT_PUBLISHING, SEAT_DONE };

struct seat {
    enum seat_state state;
    const struct workload_request *request;
    uint32_t *tokens, *before; /* of this request and the one before it */
    uint64_t *hash;
    uint32_t token_count; /* in `tokens`, hashed */
    selene_prefix *prefix;
    uint32_t *blocks;
    uint32_t block_count;
    uint8_t **rows;        /* [rank], NULL without rows */
    uint32_t ready;        /* the event that the store waits for before it reads the blocks */
    uint32_t filled;       /* tokens that the blocks hold */
    uint32_t poisoned;     /* pages that hold poison and nothing else, for the next restore */
    uint32_t limit_tokens; /* of the look-up: less after a restore that came short */
    uint32_t attempts;
    uint32_t checkpoint;     /* the next one */
    uint64_t offers_request; /* among the captures; 0: not begun */
    uint32_t capture_tokens; /* of a deferred capture that is being offered; 0: none is */
    bool looked;             /* once: the session's deferred captures are gone */
    bool waiting;            /* the last answer was "not now" */
    uint64_t waiting_since_ns;
    bool gave_up;         /* the last publish that was refused was abandoned */
    uint32_t handed_back; /* times that the store accepted this publish and then had no room for it */
    uint64_t ticket;
    struct replay_result result;
};

/* What seats need of the simulation. */
struct seat_world {
    const struct replay_stage *stage;
    struct device *device;
    struct captures *captures;
    selene_store *store;
    struct selene_message *message;
};

int seat_open(struct seat *seat, const struct seat_world *world);
void seat_close(struct seat *seat, const struct seat_world *world);
int seat_start(struct seat *seat, const struct seat_world *world, size_t index);
/* Goes on as far as it can without waiting: 1 something was done, 0 nothing, or an error. */
int seat_step(struct seat *seat, const struct seat_world *world);
int seat_event(struct seat *seat, const struct seat_world *world, const struct selene_event *event);
/* SEAT_DONE -> SEAT_IDLE: gives the blocks back. */
void seat_finish(struct seat *seat, const struct seat_world *world);

#endif
