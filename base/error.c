/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts and names from the one table of errors, and the mapping from errno.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

const char *sel_error_text(int code) {
    switch (code) {
#define ERROR_TEXT(name, number, text)                                                                                 \
    case number:                                                                                                       \
        return text;
        SELENE_ERRORS(ERROR_TEXT)
#undef ERROR_TEXT
    }
    return "unknown error";
}

const char *sel_error_name(int code) {
    switch (code) {
#define ERROR_NAME(name, number, text)                                                                                 \
    case number:                                                                                                       \
        return #name;
        SELENE_ERRORS(ERROR_NAME)
#undef ERROR_NAME
    }
    return "E_UNKNOWN";
}

static const struct {
    int errno_value;
    int code;
} errno_table[] = {
    {ENOMEM, SELENE_E_NOMEM},      {EINVAL, SELENE_E_INVALID},     {ENAMETOOLONG, SELENE_E_INVALID},
    {ENOTDIR, SELENE_E_INVALID},   {EISDIR, SELENE_E_INVALID},     {ELOOP, SELENE_E_INVALID},
    {ENOSPC, SELENE_E_NOSPACE},    {EDQUOT, SELENE_E_NOSPACE},     {EROFS, SELENE_E_READONLY},
    {ENOENT, SELENE_E_NOTFOUND},   {EBUSY, SELENE_E_IN_USE},       {ETXTBSY, SELENE_E_IN_USE},
    {EADDRINUSE, SELENE_E_IN_USE}, {EAGAIN, SELENE_E_RETRY},       {EINTR, SELENE_E_RETRY},
    {EMFILE, SELENE_E_RETRY},      {ENFILE, SELENE_E_RETRY},       {ECANCELED, SELENE_E_CANCELLED},
    {ETIMEDOUT, SELENE_E_STALLED}, {ENOSYS, SELENE_E_UNSUPPORTED}, {EOPNOTSUPP, SELENE_E_UNSUPPORTED},
    {EPERM, SELENE_E_PERMISSION},  {EACCES, SELENE_E_PERMISSION},  {EOVERFLOW, SELENE_E_OVERFLOW},
    {EFBIG, SELENE_E_OVERFLOW},
};

int sel_error_from_errno(int errno_value) {
    for (size_t i = 0; i < sizeof errno_table / sizeof errno_table[0]; i++)
        if (errno_table[i].errno_value == errno_value)
            return errno_table[i].code;
    return SELENE_E_IO;
}

int sel_fail(struct selene_message *message, int code, const char *format, ...) {
    if (message && message->text[0] == '\0') {
        int saved = errno;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(message->text, sizeof message->text, format, arguments);
        va_end(arguments);
        errno = saved;
    }
    return code;
}
