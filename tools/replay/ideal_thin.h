/* SPDX-License-Identifier: Apache-2.0
 *
 * The thinned ideal: what an endless cache would hit that keeps rows as the store does [T1-T8] and is offered what an
 * engine offers [O1, O2]; for layouts with rows. A model of the rules and nothing else: it shares no code with the store.
 */
#ifndef SELENE_REPLAY_IDEAL_THIN_H
#define SELENE_REPLAY_IDEAL_THIN_H

#include "tools/replay/workload.h"

struct ideal_thin_rules {
    uint32_t page_tokens;
    bool thin, defer;
    uint32_t spare_rows;
    size_t restart_at; /* what the device holds is lost before this request; SIZE_MAX: never */
};

/* hits: one count a request. `tick` (may be NULL) is called now and then. SELENE_E_NOMEM. */
int ideal_thin_play(const struct workload *workload, const struct ideal_thin_rules *rules, uint32_t *hits,
                    void (*tick)(void *context, size_t done), void *context);

#endif
