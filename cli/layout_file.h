/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts from JSON files:
 *
 *     {
 *       "page_tokens": 64,
 *       "rank_count": 2,
 *       "planes": [ {"bytes": 131072, "entry_tokens": 1, "entry_bytes": 2048, "count": 72} ],
 *       "row_bytes": 0,
 *       "description": "my-model bf16 rev 7",
 *       "pages_replicated": false,
 *       "row_replicated": false
 *     }
 *
 * page_tokens, planes and description are required; rank_count and count default to 1, the rest to 0, false. A plane
 * stands for `count` equal ones. description_base16 may take the place of description, for bytes that are no text. The
 * last two say whether all ranks hold identical data; they are hints for tools and no part of the identity. Unknown
 * fields are errors: a misspelt one would silently describe another model.
 */
#ifndef SEL_CLI_LAYOUT_FILE_H
#define SEL_CLI_LAYOUT_FILE_H

#include "base/error.h"
#include "index/selene_layout.h"

#include <stdbool.h>

struct sel_layout_file {
    struct selene_layout layout; /* planes and description are owned by this struct */
    bool pages_replicated;
    bool row_replicated;
};

/* Reads and checks. SELENE_E_PARSE, or why the file cannot be read; the message names file, field, found and
 * expected. `*out` is empty on failure. Free with sel_layout_file_free. */
int sel_layout_file_load(struct sel_layout_file *out, const char *path, struct selene_message *message);
/* The same from text; `name` is for messages. */
int sel_layout_file_parse(struct sel_layout_file *out, const char *text, size_t count, const char *name,
                          struct selene_message *message);
void sel_layout_file_free(struct sel_layout_file *file); /* empty ones too */

#endif
