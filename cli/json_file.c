/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON into files.
 */
#include "cli/file.h"
#include "cli/json.h"

static int print(const void *context, FILE *file) { return sel_json_print(context, file); }

int sel_json_write(const struct sel_json *json, const char *path, struct selene_message *message) {
    return sel_file_write(path, print, json, message);
}

int sel_json_writable(const char *path, struct selene_message *message) { return sel_file_writable(path, message); }
