/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares bytes with a hexadecimal literal.
 */
#ifndef SEL_TESTS_UNIT_INDEX_HEX_H
#define SEL_TESTS_UNIT_INDEX_HEX_H

#include "tests/lib/test.h"

static inline void assert_hex(const void *bytes, const char *expected) {
    char text[2 * 32 + 1];
    for (int i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", ((const uint8_t *)bytes)[i]);
    assert_string_equal(text, expected);
}

#endif
