/* SPDX-License-Identifier: Apache-2.0
 *
 * The catalogue's files in the store's directory: names, setting a damaged one aside, and what else lies there.
 */
#ifndef SEL_INDEX_CATALOG_FILES_H
#define SEL_INDEX_CATALOG_FILES_H

#include "base/error.h"

#include <stdint.h>

#define SEL_CATALOG_NAME     "index.v1.lmdb"
#define SEL_CATALOG_NAME_NEW "index.v1.lmdb.new" /* one that is being made: renamed when it is whole */

/* "DIRECTORY/name", malloc'ed; NULL: out of memory. */
char *sel_catalog_path(const char *directory, const char *name);

/* Renames the index to index.v1.lmdb.damaged-N with the first N, from 1, that is free, and makes that durable. Never
 * overwrites a file. `aside` (of at least 64 bytes) gets the new name. */
int sel_catalog_set_aside(const char *directory, char *aside, struct selene_message *message);

/* Renames a finished new index to its name and makes that durable. */
int sel_catalog_publish_new(const char *directory, struct selene_message *message);

/* What other versions and set-aside files there are. They are left alone and count toward the disk limit. */
struct sel_catalog_others {
    uint64_t bytes;       /* allocated, of all of them */
    unsigned future;      /* index files of later versions */
    char future_name[64]; /* the first of them */
};
void sel_catalog_find_others(const char *directory, struct sel_catalog_others *others);

#endif
