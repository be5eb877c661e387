/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a store on given edges instead of the machine's: a simulated disk and catalogue, a clock that is moved by
 * hand, seeded random numbers, workers without threads, wrappers that fail or delay. Tests and simulations; the same
 * store code runs on either.
 */
#ifndef SEL_ENGINE_STORE_ENV_H
#define SEL_ENGINE_STORE_ENV_H

#include "base/clock.h"
#include "base/random.h"
#include "base/workers.h"
#include "engine/selene.h"
#include "gpu/device.h"
#include "index/catalog.h"
#include "lsm/disk.h"

/* Every pointer may be NULL: the store then makes its own. What is given stays the caller's and must outlive the store.
 * Disk, workers and device complete through one sel_ready, so whoever gives one of them gives `ready` too. */
struct sel_store_env {
    struct sel_ready *ready;
    struct sel_clock *clock;
    struct sel_random *random;
    struct sel_workers *workers;  /* copies and hashes */
    struct sel_workers *blocking; /* the catalogue's commits */
    struct sel_device *device;
    struct sel_disk *disk; /* with `catalog`: a disk tier without a directory; locked by the caller */
    struct sel_catalog *catalog;
    bool rebuild;                                            /* the catalogue given is new or empty */
    uint64_t segment_bytes, group_bytes, group_ns, stall_ns; /* 0: the lsm's own */
    bool poison_slots;                                       /* fill slots that are given back */
};

int sel_store_open_env(selene_store **out, const struct selene_options *options, const struct sel_store_env *env,
                       struct selene_message *message);

/* Leaves the store as a crash would (sel_lsm_abort): nothing is committed or marked. NULL-safe. */
void sel_store_crash(selene_store **store);

#endif
