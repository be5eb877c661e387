/* SPDX-License-Identifier: Apache-2.0
 *
 * LMDB trusts its file blindly: a damaged page takes the process down. So the file is checked with plain reads before
 * LMDB maps it [D8]: both meta pages, the page tree of the newer valid one (types, bounds, no page used twice, node
 * offsets and sizes inside their page, keys in order and of the expected size, values of the expected size), the free
 * list, and the geometry. Any bytes in the file: an answer, never a crash, and memory bounded by one bit a page.
 */
#ifndef SEL_INDEX_CATALOG_VALIDATE_H
#define SEL_INDEX_CATALOG_VALIDATE_H

#include "base/error.h"

#include <stdint.h>

/* 0; SELENE_E_NOTFOUND when there is no such file or it is empty; SELENE_E_CORRUPT with a message that names page and
 * reason; SELENE_E_IO and others when it cannot be read. */
int sel_catalog_validate(const char *path, struct selene_message *message);

#endif
