/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes as people write them: "4096", "256M", "1.5G", "2T". Suffixes are powers of 1024 (K, M, G, T, P, an "iB" may
 * follow); without one the number is bytes.
 */
#ifndef SEL_CLI_SIZES_H
#define SEL_CLI_SIZES_H

#include <stddef.h>
#include <stdint.h>

/* 0; SELENE_E_PARSE: not a size; SELENE_E_OVERFLOW: more than 64 bits hold. A fraction is rounded down to a byte. */
int sel_size_parse(const char *text, uint64_t *bytes);
/* A plain decimal number, digits only. Same errors. */
int sel_number_parse(const char *text, uint64_t *number);

#define SEL_SIZE_TEXT 32
/* "0 B", "4096 B", "1.5 GiB", "640 MiB"; returns `text`. */
const char *sel_size_print(char text[SEL_SIZE_TEXT], uint64_t bytes);
/* "12,031" */
const char *sel_count_print(char text[SEL_SIZE_TEXT], uint64_t number);

#endif
