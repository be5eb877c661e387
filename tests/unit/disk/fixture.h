/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk of any side with what it needs around it, and ios that are run to their end.
 */
#ifndef SEL_TESTS_DISK_FIXTURE_H
#define SEL_TESTS_DISK_FIXTURE_H

#include "tests/lib/disk_fault.h"
#include "tests/lib/disk_sim.h"
#include "tests/lib/test.h"

enum fixture_side { SIDE_URING, SIDE_THREADS, SIDE_SIM };

struct fixture {
    enum fixture_side side;
    char *directory; /* real sides */
    bool owns_directory;
    struct sel_disk_sim *sim;
    struct sel_clock_manual clock;
    struct sel_ready ready;
    struct sel_log log;
    char said[4096]; /* messages up to level warning, one a line */
    unsigned lines;
    int event_fd;
    struct sel_disk *disk;
};

/* directory NULL: a new one. Fails the test when the disk cannot be opened. */
void fixture_open(struct fixture *fixture, enum fixture_side side, const char *directory, unsigned depth);
void fixture_close(struct fixture *fixture);

/* One io of each kind, run to its end. */
int run_open(struct fixture *fixture, const char *name, int flags, int *file);
int run_kind(struct fixture *fixture, int kind, int file, uint64_t offset, uint64_t bytes);
int run_transfer(struct fixture *fixture, int kind, int file, uint64_t offset, const struct iovec *iov, int iov_count);
int run_bytes(struct fixture *fixture, int kind, int file, uint64_t offset, void *bytes, size_t count);
int run_stat(struct fixture *fixture, int file, uint64_t *size, uint64_t *allocated);
int run_next_data(struct fixture *fixture, int file, uint64_t offset, uint64_t *data_offset);
int run_names(struct fixture *fixture, int kind, const char *name, const char *name_to);

/* Polls once, moving virtual time; runs what completed. */
void fixture_poll(struct fixture *fixture);

/* 4 KiB aligned, filled with a function of the seed. free() it. */
uint8_t *memory_new(size_t bytes, uint64_t seed);
void memory_fill(uint8_t *bytes, size_t count, uint64_t seed);

#endif
