/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers around the one table of errors (selene_error.h): texts, errno mapping, and messages.
 */
#ifndef SEL_BASE_ERROR_H
#define SEL_BASE_ERROR_H

#include "base/selene_error.h"

/* Static text for a code, never NULL ("unknown error" for numbers outside the table). Any thread. */
const char *sel_error_text(int code);

/* Short symbolic name of a code, as "E_NOSPACE"; never NULL. For logs, JSON and test output. */
const char *sel_error_name(int code);

/* The code for a (positive) errno value: ENOSPC -> SELENE_E_NOSPACE, EROFS -> SELENE_E_READONLY, and so on;
 * SELENE_E_IO for whatever the table does not name. */
int sel_error_from_errno(int errno_value);

/* Formats a message into `message` (may be NULL) and returns `code`, so that a failure is one line:
 *     return sel_fail(message, SELENE_E_CORRUPT, "%s: offset %" PRIu64 ": magic %#x, expected %#x", ...);
 * Keeps the first error: a message that already has text is left alone. */
int sel_fail(struct selene_message *message, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
