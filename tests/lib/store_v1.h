/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a store of format version 1, which the library itself only reads [D3]: for golden stores and tests.
 */
#ifndef SEL_TESTS_STORE_V1_H
#define SEL_TESTS_STORE_V1_H

#include "tests/lib/lsm_rig.h"

/* Writes the records of the rig's layout into the directory: pages into segment 1, rows into segment 2. None of them
 * may be replicated. Ends the test on failure. */
void store_v1_write(const struct rig *rig, const char *directory, const struct rig_record *records, size_t count);

#endif
