/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated engine: an open store, device memory, and seats for the requests in flight. With --sequential there is
 * one seat, so a request begins when all publishes of the one before it are ready.
 */
#ifndef SELENE_REPLAY_ENGINE_SIM_H
#define SELENE_REPLAY_ENGINE_SIM_H

#include "tools/replay/replay.h"

struct sim;

int sim_open(struct sim **out, const struct replay_stage *stage, bool report_commits, struct selene_message *message);
selene_store *sim_store(struct sim *sim);
/* Plays the requests below `end` that are not done yet; done[i] becomes non-zero with request i. */
int sim_play(struct sim *sim, uint8_t *done, size_t end, const struct replay_sink *sink,
             struct selene_message *message);
/* Persists what is only in memory; `event` tells what was written, and what was skipped and why. */
int sim_drain(struct sim *sim, const struct replay_sink *sink, struct selene_event *event,
              struct selene_message *message);
/* Closes the store and frees all; NULL-safe. */
int sim_close(struct sim **sim, struct selene_message *message);

#endif
