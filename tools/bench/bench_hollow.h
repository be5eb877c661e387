/* SPDX-License-Identifier: Apache-2.0
 *
 * A hollow disk: the real one, but what is written into segments past their head is dropped and preallocating only sets
 * the size, so that a store of a million records takes the space of its index. Opening such a store after a clean stop
 * is the real thing: it reads the index and no extent.
 */
#ifndef SEL_TOOLS_BENCH_HOLLOW_H
#define SEL_TOOLS_BENCH_HOLLOW_H

#include "lsm/disk.h"

struct bench_hollow {
    bool solid; /* set: everything is written from now on */
    struct sel_ready *ready;
};

/* Takes over `inner`; `context` is a struct bench_hollow that outlives it. NULL: no memory. */
struct sel_disk *bench_hollow_wrap(void *context, struct sel_disk *inner);

#endif
