/* SPDX-License-Identifier: Apache-2.0
 *
 * Results go to a file whole or not at all: PATH.tmp-PID is written, flushed to the device and renamed over PATH. A path
 * that is no regular file itself (a pipe, a device, a link, as /dev/stdout is) is written in place, where it leads;
 * "-" is standard output.
 */
#ifndef SEL_CLI_FILE_H
#define SEL_CLI_FILE_H

#include "base/error.h"

#include <stdio.h>

/* `print` returns 0 or a code, and leaves the stream open; errors of the stream are looked for here. */
int sel_file_write(const char *path, int (*print)(const void *context, FILE *file), const void *context,
                   struct selene_message *message);
/* Whether sel_file_write could write there, as far as can be told without writing: for a check before a long run. */
int sel_file_writable(const char *path, struct selene_message *message);

#endif
