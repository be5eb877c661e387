/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of a trace file, bounded in length so that a file without line ends cannot eat the memory.
 */
#include "cli/trace_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX ((size_t)16 << 20)

int sel_lines_open(struct sel_lines *lines, const char *path, struct selene_message *message) {
    memset(lines, 0, sizeof *lines);
    lines->path = path;
    lines->file = fopen(path, "re");
    if (lines->file == NULL)
        return sel_fail(message, sel_error_from_errno(errno), "%s: %s", path, strerror(errno));
    return 0;
}

static int text_grow(struct sel_lines *lines, struct selene_message *message) {
    if (lines->room >= LINE_BYTES_MAX)
        return sel_fail(message, SELENE_E_PARSE, "%s:%" PRIu64 ": found a line of more than %zu MiB, expected a trace",
                        lines->path, lines->number, LINE_BYTES_MAX >> 20);
    size_t room = lines->room ? lines->room * 2 : 4096;
    char *text = realloc(lines->text, room);
    if (text == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", lines->path);
    lines->text = text, lines->room = room;
    return 0;
}

/* 1: a line (the last one may lack its end), 0: end of file. NUL bytes are kept: the JSON parser refuses them. */
static int line_read(struct sel_lines *lines, struct selene_message *message) {
    bool any = false;
    lines->count = 0;
    lines->number++;
    for (int c; (c = getc_unlocked(lines->file)) != EOF;) {
        any = true;
        if (c == '\n')
            return 1;
        if (lines->count == lines->room) {
            int result = text_grow(lines, message);
            if (result)
                return result;
        }
        lines->text[lines->count++] = (char)c;
    }
    if (ferror(lines->file))
        return sel_fail(message, sel_error_from_errno(errno), "%s: %s", lines->path, strerror(errno));
    return any;
}

static bool is_blank(const struct sel_lines *lines) {
    for (size_t i = 0; i < lines->count; i++)
        if (lines->text[i] == '\0' || strchr(" \t\r", lines->text[i]) == NULL)
            return false;
    return true;
}

int sel_lines_next(struct sel_lines *lines, struct selene_message *message) {
    int result;
    do
        result = line_read(lines, message);
    while (result == 1 && is_blank(lines));
    if (result == 1)
        snprintf(lines->place, sizeof lines->place, "%s:%" PRIu64, lines->path, lines->number);
    return result;
}

void sel_lines_close(struct sel_lines *lines) {
    if (lines->file)
        fclose(lines->file);
    free(lines->text);
    lines->file = NULL, lines->text = NULL;
}
