/* SPDX-License-Identifier: Apache-2.0
 *
 * The copies of one share on a worker. Everything they are given has passed sel_copy_check().
 *
 * All return 0 or SELENE_E_CORRUPT. `hashes` has room for layout->page_blocks.
 */
#ifndef SEL_GPU_DEV_HOST_PRIV_H
#define SEL_GPU_DEV_HOST_PRIV_H

#include "gpu/device.h"

/* A constant of the process: the hash of a whole block of zeros. */
struct sel_host_layout {
    const struct sel_layout *layout;
    uint64_t zero_block_hash;
};

/* Device -> slot: valid bytes, zeros everywhere else in the share; writes the checksum. */
int sel_host_gather(const struct sel_host_layout *host, const struct sel_copy *copy, const struct sel_copy_item *item,
                    uint32_t rank, uint64_t *hashes);
/* Slot -> device: only the valid bytes; compares the checksum of what it copied. */
int sel_host_scatter(const struct sel_host_layout *host, const struct sel_copy *copy, const struct sel_copy_item *item,
                     uint32_t rank, uint64_t *hashes);
/* One piece of a row, either way; writes its first-level hashes. */
int sel_host_copy_row(const struct sel_host_layout *host, const struct sel_copy *copy, const struct sel_copy_item *item,
                      uint32_t rank);

#endif
