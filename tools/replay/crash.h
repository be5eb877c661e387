/* SPDX-License-Identifier: Apache-2.0
 *
 * The option --crash-at: the process that holds the store is a child, killed with SIGKILL in the middle of its work.
 *
 *     parent                                child
 *     fork  ------------------------------> open the store, play all requests
 *     reads a pipe  <---------------------- started, finished and committed, as it happens
 *     enough finished: SIGKILL -----------> (dies)
 *     reads the pipe to its end
 *
 * The parent never opens the store before that. What it then knows: which requests were finished, and which records
 * the child had been told are committed. Each of those must be found when the store is opened again.
 */
#ifndef SELENE_REPLAY_CRASH_H
#define SELENE_REPLAY_CRASH_H

#include "tools/replay/totals.h"

#include "cli/progress.h"

struct crash; /* what was committed before the kill */

/* Runs the child until `kill_after` requests are finished. `done` and `totals` are those of the finished requests. */
int crash_run(struct crash **out, const struct replay_stage *stage, size_t kill_after, uint8_t *done,
              struct totals *totals, struct sel_progress *progress, struct selene_message *message);
/* Looks every committed record up in the reopened store and counts those that are gone. */
int crash_verify(struct crash *crash, const struct replay_stage *stage, selene_store *store, struct totals *totals,
                 struct selene_message *message);
void crash_free(struct crash **crash);

#endif
