/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of thinning on disk share: a store on a simulated disk, and chains of records of one page each.
 */
#ifndef SEL_TESTS_ENGINE_THIN_RIG_H
#define SEL_TESTS_ENGINE_THIN_RIG_H

#include "tests/unit/engine/world.h"

extern struct world world;
extern struct device_request request;

/* 0 warm slots: no warm tier. */
void begin(uint32_t spare_rows, uint64_t warm_slots);
/* `alike`: the row is the same on all ranks, the pages are not [K1]. */
void begin_alike(uint32_t spare_rows, uint64_t warm_slots, bool alike);
void end(void);
/* Accepted, and done. */
void publish(const struct sequence *sequence, uint32_t tokens);
/* Whole pages from `from` up to `to`, one a record. */
void grow(const struct sequence *sequence, uint32_t from, uint32_t to);
/* A row that is there and is not on its way out. */
bool disk_row(const struct sequence *sequence, uint32_t tokens);
bool memory_row(const struct sequence *sequence, uint32_t tokens);
void poll_some(int rounds);
/* Until the last transaction is through. */
void settle(void);
/* Settled, closed and opened. */
void reopen(struct sequence *sequence);

#endif
