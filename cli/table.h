/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables for people: columns padded to their widest cell, measured in terminal columns (UTF-8), no trailing blanks.
 * Bytes that are no UTF-8 and control characters are printed as '?'. A table whose memory ran out prints a line that
 * says so.
 */
#ifndef SEL_CLI_TABLE_H
#define SEL_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct sel_table;

/* One character a column: 'l' left, 'r' right. NULL: no memory; every function takes NULL. */
struct sel_table *sel_table_create(const char *columns);
void sel_table_destroy(struct sel_table **table);
/* The next cell; after the last column a new row begins. */
void sel_table_cell(struct sel_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends a row early; with no cell in it: an empty line. */
void sel_table_end_row(struct sel_table *table);
/* A line of dashes as wide as the table. */
void sel_table_rule(struct sel_table *table);
void sel_table_print(const struct sel_table *table, FILE *file);

/* Terminal columns that a text takes. */
size_t sel_text_columns(const char *text);

#endif
