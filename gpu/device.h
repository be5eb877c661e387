/* SPDX-License-Identifier: Apache-2.0
 *
 * The device table [G1]: copies between an engine's paged KV memory and host slots, checksums included [G2, G3]. Back
 * ends: host memory (dev_host.c) and CUDA. Copies are gather/scatter: plane p of block b of rank r lies at base[r][p] +
 * stride[r][p] * b, a row of rank r at a plain address.
 *
 * A copy is asynchronous and comes back through sel_ready. It starts only after `wait` (an event of the caller's) has
 * happened: for the host back end a `const uint32_t *` that is read with acquire order and becomes non-zero; NULL: at
 * once [fault 4].
 */
#ifndef SEL_GPU_DEVICE_H
#define SEL_GPU_DEVICE_H

#include "base/op.h"
#include "base/workers.h"
#include "index/layout.h"

/* Where the planes of one rank lie. */
struct sel_device_plane {
    void *base;
    uint64_t stride; /* bytes from block to block */
};

struct sel_device;

enum sel_copy_direction { SEL_COPY_OUT = 0 /* device -> slots */, SEL_COPY_IN = 1 /* slots -> device */ };

/* One page, or one slot's worth of a row. */
struct sel_copy_item {
    /* slot_bytes of host memory, share r at slot + r * share_bytes; 4 KiB aligned. In a replicated copy: the one share
     * of this page or row part itself, wherever in its slot it lies. */
    uint8_t *slot;
    uint32_t block;    /* page: device block id */
    uint32_t tokens;   /* page: valid tokens, 1 .. P; the rest is zeroed out-bound and left alone in-bound [L4] */
    uint32_t row_part; /* row: piece number, slot i of the row */
    uint64_t *sums; /* page: R checksums, written out-bound, verified in-bound (replicated: one); row: see row_hashes */
    int result;     /* in-bound: 0, or SELENE_E_CORRUPT: nothing of this page may be used; the copy's own result when
                       the copy as a whole did not run */
};

struct sel_copy {
    struct sel_op op;
    enum sel_copy_direction direction;
    bool row; /* items are slots of the row, any subset of its parts; else pages */
    /* The items name one share each [M1, K1]. Out-bound it is rank 0's, which a compare found to be everybody's, with one
     * checksum a page; in-bound it goes to all ranks. */
    bool replicated;
    struct sel_copy_item *items;
    size_t item_count;
    /* [R * plane_count], rank-major. Pages only. */
    const struct sel_device_plane *planes;
    /* [R] addresses of row_bytes each. Row only. */
    void *const *rows;
    /* [R * layout->row_blocks] first-level hashes, rank-major: those of the parts copied are written, in both
     * directions. When all parts are through, sel_checksum_finish over each rank's row_blocks gives the row's
     * checksums; the caller stores or compares them. Replicated in-bound: each rank's are those of its own copy of the
     * share, so all of them are compared with the one checksum; out-bound: rank 0's only. (A part covers whole 4 KiB
     * blocks, since shares are padded to 4 KiB.) */
    uint64_t *row_hashes;
    const void *wait;     /* event to wait for, or NULL */
    uint32_t block_limit; /* blocks must be below it */
    struct {              /* the device's own */
        struct sel_list link;
        void *state;
    } priv;
};

/* Are all ranks' shares of these pages, or of the row, identical in their valid bytes [K1]? Runs on the device, before
 * anything is copied [K4], and stops at the first difference. Nothing is written. op.result: 0 when it ran, and
 * `identical` says; SELENE_E_INVALID, _CANCELLED as for a copy. With one rank: identical. */
struct sel_compare {
    struct sel_op op;
    bool row;                          /* compare `rows`, row_bytes of each; else the pages of `items` */
    const struct sel_copy_item *items; /* `block` and `tokens` are read; pages only */
    size_t item_count;
    const struct sel_device_plane *planes;
    void *const *rows;
    const void *wait;
    uint32_t block_limit;
    bool identical; /* the answer */
    struct {
        struct sel_list link;
        void *state;
    } priv;
};

struct sel_device_ops {
    void (*submit)(struct sel_device *device, struct sel_copy *copy);
    void (*compare)(struct sel_device *device, struct sel_compare *compare);
    /* Starts copies whose event has happened; never blocks. */
    void (*poll)(struct sel_device *device);
    /* Whether a caller's event has happened; never blocks. */
    bool (*happened)(const struct sel_device *device, const void *event);
    /* Drops a copy that still waits for its event: completes with SELENE_E_CANCELLED. No effect once it started. */
    void (*cancel)(struct sel_device *device, struct sel_copy *copy);
    void (*cancel_compare)(struct sel_device *device, struct sel_compare *compare); /* likewise */
    const char *(*name)(const struct sel_device *device);
    void (*destroy)(struct sel_device *device); /* nothing in flight */
};
struct sel_device {
    const struct sel_device_ops *ops;
};

/* Device memory that is host memory; planes and rows may have any alignment. A copy with a count, number or address out
 * of range completes with SELENE_E_INVALID and touches nothing. `layout` must outlive the device. Copies run on
 * `workers`, split so that all of them have work. op.result of an in-bound copy is 0 when all items are good, else
 * SELENE_E_CORRUPT with the items' results telling which. */
int sel_device_host_create(struct sel_device **out, const struct sel_layout *layout, struct sel_workers *workers,
                           struct sel_ready *ready);

#endif
