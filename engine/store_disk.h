/* SPDX-License-Identifier: Apache-2.0
 *
 * The disk tier of a store, from its directory to the tree: opened last, closed first.
 */
#ifndef SEL_ENGINE_STORE_DISK_H
#define SEL_ENGINE_STORE_DISK_H

#include "engine/store_priv.h"

/* Opens what options and env name, and builds the tree from it. What was opened is undone by sel_store_close_disk. */
int sel_store_open_disk(selene_store *store, const struct sel_store_env *env, struct selene_message *message);
/* Frees it; the lsm is closed already, or was never open. */
void sel_store_close_disk(selene_store *store);

#endif
