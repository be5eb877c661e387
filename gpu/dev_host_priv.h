/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the host back end share: the device, how work is cut into jobs, the copies of one share on a worker,
 * and comparisons. The copies are given only what has passed sel_copy_check().
 */
#ifndef SEL_GPU_DEV_HOST_PRIV_H
#define SEL_GPU_DEV_HOST_PRIV_H

#include "gpu/device.h"

/* A constant of the process: the hash of a whole block of zeros. */
struct sel_host_layout {
    const struct sel_layout *layout;
    uint64_t zero_block_hash;
};

struct sel_host_device {
    struct sel_device base;
    uint32_t magic;
    struct sel_host_layout host;
    struct sel_workers *workers;
    struct sel_ready *ready;
    struct sel_list copies;   /* that wait for their event, by priv.link */
    struct sel_list compares; /* likewise */
    size_t running;           /* of both */
};

struct sel_host_device *sel_host_device_of(struct sel_device *device);

/* The event of a copy or compare, or NULL. */
static inline bool sel_host_event_happened(const void *wait) {
    return wait == NULL || __atomic_load_n((const uint32_t *)wait, __ATOMIC_ACQUIRE) != 0;
}

/* How many of `units` one job takes, each of `unit_bytes` to be read: enough to be worth handing to another thread. */
size_t sel_host_units_a_job(const struct sel_host_device *device, size_t units, uint64_t unit_bytes);

/* The copies return 0 or SELENE_E_CORRUPT. `hashes` has room for layout->page_blocks.
 *
 * Device -> slot: valid bytes, zeros everywhere else in the share; writes the checksum. */
int sel_host_gather(const struct sel_host_layout *host, const struct sel_copy *copy, const struct sel_copy_item *item,
                    uint32_t rank, uint64_t *hashes);
/* Slot -> device: only the valid bytes; compares the checksum of what it copied. */
int sel_host_scatter(const struct sel_host_layout *host, const struct sel_copy *copy, const struct sel_copy_item *item,
                     uint32_t rank, uint64_t *hashes);
/* One piece of a row, either way; writes its first-level hashes. */
int sel_host_copy_row(const struct sel_host_layout *host, const struct sel_copy *copy, const struct sel_copy_item *item,
                      uint32_t rank);

/* The table's two functions for comparisons, and their part of poll. */
void sel_host_compare(struct sel_device *device, struct sel_compare *compare);
void sel_host_compare_cancel(struct sel_device *device, struct sel_compare *compare);
void sel_host_compare_poll(struct sel_host_device *self);

#endif
