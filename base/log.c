/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats a message and hands it to the caller's function, or to stderr. errno is left as it was. Longer texts are cut.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define TEXT_BYTES 1024

static const char *const level_names[] = {"error", "warning", "info", "debug"};

void sel_log(const struct sel_log *log, int level, const char *format, ...) {
    if (log == NULL || level < SEL_LOG_ERROR || level > SEL_LOG_DEBUG || level > log->level)
        return;
    if (log->write == NULL && level > SEL_LOG_WARNING)
        return;
    int saved = errno;
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (log->write)
        log->write(log->context, level, text);
    else
        fprintf(stderr, "selene: %s: %s\n", level_names[level], text);
    errno = saved;
}
