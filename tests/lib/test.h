/* SPDX-License-Identifier: Apache-2.0
 *
 * What every test includes: cmocka (this is the only file that names its header) and the paths of scratch directories.
 * A test that needs something the machine lacks prints why and calls skip().
 */
#ifndef SEL_TESTS_TEST_H
#define SEL_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define assert_ok(expression) assert_int_equal((expression), 0)

/* A new empty directory, below $SELENE_TEST_DIR or the build tree; test_directory_remove deletes it with all in it.
 * Aborts on failure. The path is malloc'ed. */
char *test_directory_make(const char *name);
void test_directory_remove(char **path);

/* A count from the environment (SELENE_TEST_SEEDS, ...) or the default: CI runs few, the long run many. */
uint64_t test_count(const char *variable, uint64_t normal);

#endif
