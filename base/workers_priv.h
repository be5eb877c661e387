/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two sides of the worker pool share: the table behind `struct sel_workers`.
 */
#ifndef SEL_BASE_WORKERS_PRIV_H
#define SEL_BASE_WORKERS_PRIV_H

#include "base/workers.h"

struct sel_workers {
    uint32_t magic;
    unsigned count;
    void (*submit)(struct sel_workers *workers, struct sel_job *job);
    void (*destroy)(struct sel_workers *workers); /* frees it */
};

#define SEL_WORKERS_MAGIC UINT32_C(0x53774b72)

#endif
