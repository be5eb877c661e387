/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock on a record directory [D1].
 *
 * It is a POSIX record lock (fcntl F_SETLK), not flock or an open-file-description lock: those belong to the open file,
 * so a forked child that merely inherited the descriptor would keep the directory locked after its owner died. A record
 * lock belongs to the process, is not inherited, and ends with the process. Its two weaknesses are covered by a
 * registry inside the process: the same process would be granted the lock twice, and closing *any* descriptor of the
 * file drops it. So the registry knows every locked file by device and inode, refuses a second taker before the file is
 * opened, and owns the descriptors.
 *
 * After fork the child's registry is a copy that locks nothing: its entries are dropped (and their descriptors closed)
 * when they are met. Any thread.
 */
#ifndef SEL_LSM_DISK_LOCK_H
#define SEL_LSM_DISK_LOCK_H

#include "base/error.h"

#include <stdint.h>

struct sel_disk_lock;

/* Creates `name` in the directory if needed and locks it. SELENE_E_IN_USE with the path and the owner's process id.
 * `directory` is for messages. */
int sel_disk_lock_take(struct sel_disk_lock **out, int directory_fd, const char *directory, const char *name,
                       struct selene_message *message);
/* NULL-safe. In a forked child it only forgets the lock. */
void sel_disk_lock_release(struct sel_disk_lock **lock);

/* Increases in every forked child of a process that used this room: tells an object made before the fork. */
uint64_t sel_disk_fork_generation(void);

#endif
