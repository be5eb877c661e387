/* SPDX-License-Identifier: Apache-2.0
 *
 * Between seat.c (look-up, restore, verification) and seat_publish.c (prefill, captures, publish).
 */
#ifndef SELENE_REPLAY_SEAT_PRIV_H
#define SELENE_REPLAY_SEAT_PRIV_H

#include "tools/replay/seat.h"

/* So long "not now" is taken for an answer. Then a publish is abandoned; one request at a time that is an error. Who had
 * to abandon one does not wait so long again before the store takes something: a disk that takes nothing would make a
 * replay wait for each of its publishes. */
#define SEAT_WAIT_NS       (30 * SEL_NS_PER_SECOND)
#define SEAT_WAIT_AGAIN_NS (SEL_NS_PER_SECOND / 10)

int seat_fail(const struct seat_world *world, const struct seat *seat, int code, const char *call);
/* True while "not now" may be answered by trying again. */
bool seat_may_wait(struct seat *seat);
struct selene_device_state seat_state(const struct seat *seat, uint32_t block_count);
uint32_t seat_pages(const struct seat_world *world, uint64_t tokens);
static inline bool seat_has_rows(const struct seat_world *world) { return world->stage->kv.row_bytes > 0; }

/* To the checkpoints: those that were passed by the restore are not captured again. */
void seat_publish_begin(struct seat *seat);
/* Offers a deferred capture that this request resumes at; then the look-up is repeated. */
void seat_capture_begin(struct seat *seat, uint32_t tokens);
/* SEAT_PUBLISH: 1 something was done, 0 nothing, or an error. */
int seat_publish(struct seat *seat, const struct seat_world *world);
void seat_publish_event(struct seat *seat, const struct seat_world *world, const struct selene_event *event);

#endif
