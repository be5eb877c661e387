/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk around another disk, with faults. A fault is a countdown plus a repeat for some kinds of io and, if wanted,
 * file names; one type for all. Ios that no fault meets go through unchanged.
 */
#ifndef SEL_TESTS_DISK_FAULT_H
#define SEL_TESTS_DISK_FAULT_H

#include "lsm/disk.h"

enum sel_disk_fault_action {
    SEL_DISK_FAULT_FAIL,    /* not carried out; completes with `error` */
    SEL_DISK_FAULT_SHORT,   /* WRITE: the first half is carried out; then, as all other kinds, like FAIL */
    SEL_DISK_FAULT_CORRUPT, /* READ: carried out, then one bit of byte corrupt_at (modulo the length) is flipped */
    SEL_DISK_FAULT_HOLD     /* carried out, but the completion is held back until sel_disk_fault_release */
};

struct sel_disk_fault {
    enum sel_disk_fault_action action;
    uint32_t kinds;     /* of io: 1u << SEL_DISK_WRITE | ...; 0: all */
    const char *names;  /* fnmatch pattern for the file's name (RENAME: the old one); NULL: all. Kept by the caller */
    int error;          /* 0: SELENE_E_IO */
    uint64_t countdown; /* 1: the next io that matches; 0: off */
    uint64_t repeat;    /* so many more after it; UINT64_MAX: for ever */
    uint64_t corrupt_at;
    uint64_t hits; /* counted here */
};

/* Takes over `inner` (destroys it with itself). */
int sel_disk_fault_create(struct sel_disk **out, struct sel_disk *inner, struct sel_ready *ready);
/* Adds a fault; it is the caller's and must live until cleared. The first that fires is the one that counts. */
void sel_disk_fault_arm(struct sel_disk *disk, struct sel_disk_fault *fault);
void sel_disk_fault_clear(struct sel_disk *disk);
size_t sel_disk_fault_held(const struct sel_disk *disk);
void sel_disk_fault_release(struct sel_disk *disk); /* all that is held now */

#endif
