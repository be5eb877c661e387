/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in the golden stores: shared by the generator and the test.
 */
#ifndef SEL_TESTS_GOLDEN_H
#define SEL_TESTS_GOLDEN_H

#include "tests/lib/lsm_rig.h"

static const uint64_t golden_planes[] = {3000, 200, 200, 0};
#define GOLDEN_RANKS     2
#define GOLDEN_ROW_BYTES 5000
#define GOLDEN_RECORDS   4

/* A chain of three, mid-page ends included, and a root beside it; version 2 has replicated ones. */
static inline struct rig_record golden_record(int version, int i) {
    static const struct rig_record records[GOLDEN_RECORDS] = {
        {.id = 1, .tokens = 20, .has_row = true},
        {.id = 2, .parent = 1, .parent_tokens = 20, .tokens = 48},
        {.id = 3, .parent = 2, .parent_tokens = 48, .tokens = 50, .has_row = true},
        {.id = 4, .tokens = 16, .has_row = true}};
    struct rig_record record = records[i];
    if (version == 2) {
        record.pages_replicated = i == 1 || i == 3;
        record.row_replicated = i == 2;
    }
    return record;
}

#endif
