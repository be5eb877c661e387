/* SPDX-License-Identifier: Apache-2.0
 *
 * A store of the tests' own behind the public API: it keeps whole states in plain memory, answers "not now" as often as
 * it is told, and can be made to hand out wrong bytes or to come short. It shows what the simulated engine does with
 * such a store; what a real one does is tested elsewhere.
 */
#ifndef SEL_TESTS_REPLAY_MOCK_STORE_H
#define SEL_TESTS_REPLAY_MOCK_STORE_H

#include "engine/selene.h"

#include <stdbool.h>

struct mock_faults {
    uint32_t retries;         /* so many "not now" before each restore and each publish */
    uint32_t flip_restore;    /* the n-th restore, from 1: one byte of its last page is wrong */
    uint32_t flip_row;        /* likewise a byte of the row */
    uint32_t stray_restore;   /* the n-th restore writes a byte beyond the valid ones of its last page */
    uint32_t short_restore;   /* the n-th restore gives no more than half of the tokens */
    uint32_t foreign_restore; /* the n-th restore hands out the pages in the wrong order */
    uint32_t die_at_publish;  /* the process ends inside the n-th publish */
    uint32_t hand_back; /* each publish is accepted and ends with SELENE_E_RETRY so many times before it is kept */
    bool early;         /* reads device memory before the caller's event */
    bool fail_publish;  /* the publish call itself fails */
};
extern struct mock_faults mock_faults;

/* What outlives a process: records published from now on lie in memory shared with forked children, are reported as
 * committed, and are found by the next store that is opened, all but the first `lost` of them. */
void mock_disk_start(void);
void mock_disk_stop(void);
extern uint32_t mock_disk_lost, mock_disk_evictions;

#endif
