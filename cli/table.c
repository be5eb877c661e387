/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells are kept as clean UTF-8 strings, row after row; widths are found when printing.
 */
#include "cli/table.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 16

struct sel_table_row {
    char *cells[COLUMNS_MAX];
    unsigned count;
    bool rule;
};

struct sel_table {
    char align[COLUMNS_MAX + 1];
    unsigned columns;
    struct sel_table_row *rows; /* the last one is open */
    size_t count, capacity;
    bool failed;
};

/* Length of the valid character at `text`, 0 when there is none; its code point. */
static unsigned character(const unsigned char *text, uint32_t *point) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned count = *text < 0x80 ? 1 : *text >= 0xf0 ? 4 : *text >= 0xe0 ? 3 : *text >= 0xc2 ? 2 : 0;
    if (count == 0 || *text > 0xf4)
        return 0;
    uint32_t value = count == 1 ? *text : *text & (0xffu >> (count + 1));
    for (unsigned i = 1; i < count; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (text[i] & 0x3f);
    }
    if (value < least[count] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return 0;
    *point = value;
    return count;
}

static bool is_control(uint32_t point) { return point < 0x20 || (point >= 0x7f && point < 0xa0); }

/* Combining marks and joiners take no column, East Asian wide characters and emoji two. */
static unsigned point_columns(uint32_t point) {
    static const struct {
        uint32_t first, last;
        unsigned columns;
    } ranges[] = {
        {0x0300, 0x036f, 0}, {0x200b, 0x200f, 0}, {0x20d0, 0x20ff, 0},   {0xfe00, 0xfe0f, 0},   {0xfe20, 0xfe2f, 0},
        {0x1100, 0x115f, 2}, {0x2e80, 0xa4cf, 2}, {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},   {0xfe30, 0xfe6f, 2},
        {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x1f300, 0x1f64f, 2}, {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (point >= ranges[i].first && point <= ranges[i].last)
            return ranges[i].columns;
    return 1;
}

static void clean(char *text) {
    char *to = text;
    for (const char *from = text; *from;) {
        uint32_t point;
        unsigned count = character((const unsigned char *)from, &point);
        if (count == 0 || is_control(point)) {
            *to++ = '?';
            from += count ? count : 1;
            continue;
        }
        memmove(to, from, count);
        to += count, from += count;
    }
    *to = '\0';
}

size_t sel_text_columns(const char *text) {
    size_t columns = 0;
    while (*text) {
        uint32_t point = 0;
        unsigned count = character((const unsigned char *)text, &point);
        columns += count ? point_columns(point) : 1;
        text += count ? count : 1;
    }
    return columns;
}

struct sel_table *sel_table_create(const char *columns) {
    struct sel_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return NULL;
    snprintf(table->align, sizeof table->align, "%s", columns);
    table->columns = (unsigned)strlen(table->align);
    return table;
}

void sel_table_destroy(struct sel_table **table) {
    if (*table == NULL)
        return;
    for (size_t row = 0; row < (*table)->count; row++)
        for (unsigned i = 0; i < (*table)->rows[row].count; i++)
            free((*table)->rows[row].cells[i]);
    free((*table)->rows);
    free(*table);
    *table = NULL;
}

static struct sel_table_row *row_add(struct sel_table *table) {
    if (table->count == table->capacity) {
        size_t capacity = table->capacity ? table->capacity * 2 : 32;
        struct sel_table_row *rows = realloc(table->rows, capacity * sizeof *rows);
        if (rows == NULL) {
            table->failed = true;
            return NULL;
        }
        table->rows = rows, table->capacity = capacity;
    }
    struct sel_table_row *row = &table->rows[table->count++];
    *row = (struct sel_table_row){0};
    return row;
}

static struct sel_table_row *row_open(struct sel_table *table) {
    if (table->count) {
        struct sel_table_row *last = &table->rows[table->count - 1];
        if (!last->rule && last->count < table->columns)
            return last;
    }
    return row_add(table);
}

void sel_table_cell(struct sel_table *table, const char *format, ...) {
    char *text = NULL;
    struct sel_table_row *row = table ? row_open(table) : NULL;
    if (row == NULL)
        return;
    va_list list;
    va_start(list, format);
    int count = vasprintf(&text, format, list);
    va_end(list);
    if (count < 0) {
        table->failed = true;
        return;
    }
    clean(text);
    row->cells[row->count++] = text;
}

void sel_table_end_row(struct sel_table *table) {
    struct sel_table_row *row = table ? row_open(table) : NULL;
    while (row && row->count < table->columns) {
        char *text = strdup("");
        if (text == NULL) {
            table->failed = true;
            return;
        }
        row->cells[row->count++] = text;
    }
}

void sel_table_rule(struct sel_table *table) {
    struct sel_table_row *row = table ? row_add(table) : NULL;
    if (row)
        row->rule = true;
}

static void repeat(FILE *file, char what, size_t count) {
    while (count--)
        fputc(what, file);
}

static void row_print(const struct sel_table *table, const struct sel_table_row *row, const size_t *widths,
                      FILE *file) {
    size_t owed = 0; /* blanks not printed yet: none end up at the end of a line */
    for (unsigned i = 0; i < row->count; i++) {
        size_t columns = sel_text_columns(row->cells[i]), pad = widths[i] - columns;
        size_t before = table->align[i] == 'r' ? pad : 0;
        if (columns) {
            repeat(file, ' ', owed + before);
            fputs(row->cells[i], file);
            owed = pad - before;
        } else
            owed += pad;
        owed += 2;
    }
    fputc('\n', file);
}

void sel_table_print(const struct sel_table *table, FILE *file) {
    size_t widths[COLUMNS_MAX] = {0}, all = 0;
    if (table == NULL || table->failed) {
        fputs("(no memory for this table)\n", file);
        return;
    }
    for (size_t row = 0; row < table->count; row++)
        for (unsigned i = 0; i < table->rows[row].count; i++) {
            size_t columns = sel_text_columns(table->rows[row].cells[i]);
            widths[i] = columns > widths[i] ? columns : widths[i];
        }
    for (unsigned i = 0; i < table->columns; i++)
        all += widths[i] + (i ? 2 : 0);
    for (size_t row = 0; row < table->count; row++) {
        if (table->rows[row].rule)
            repeat(file, '-', all), fputc('\n', file);
        else
            row_print(table, &table->rows[row], widths, file);
    }
}
