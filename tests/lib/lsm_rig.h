/* SPDX-License-Identifier: Apache-2.0
 *
 * A record store with everything around it, for tests: a real or simulated disk, the simulated catalogue, a layout, and
 * records whose bytes are a function of their key, so that any wrong byte shows [fault 1]. Records get keys from small
 * numbers. The visitor keeps what the store tells of and refuses children of unknown parents and keys that are there.
 */
#ifndef SEL_TESTS_LSM_RIG_H
#define SEL_TESTS_LSM_RIG_H

#include "base/clock.h"
#include "index/keys.h"
#include "lsm/lsm.h"
#include "tests/lib/catalog_sim.h"
#include "tests/lib/disk_fault.h"
#include "tests/lib/disk_sim.h"

#define RIG_PAGE_TOKENS 16

enum rig_disk { RIG_SIM, RIG_THREADS, RIG_REAL };

/* One record: what was written, and what the visitor heard. */
struct rig_record {
    uint64_t id; /* > 0; the key is made of it */
    uint64_t parent;
    uint32_t tokens, parent_tokens;
    bool has_row, pages_replicated, row_replicated;
    /* while it is written */
    struct sel_lsm_write *write;
    struct sel_op page_op, row_op, done_op;
    struct iovec page_iov, row_iov;
    void *pages, *row;
    uint64_t *page_sums, *row_sums;
    int result; /* 1: not known yet */
    struct sel_location location;
    struct rig *rig;
};

struct rig_seen { /* told by the visitor */
    uint64_t id;
    struct sel_lsm_record record;
    struct sel_key *keys;
    struct sel_location location;
};

struct rig {
    enum rig_disk kind;
    char *directory;
    struct sel_disk_sim *sim;
    struct sel_disk *disk;
    struct sel_disk_fault *fault; /* set by the test before opening; not owned */
    struct sel_catalog_sim *catalog_sim;
    struct sel_catalog *catalog;
    struct sel_ready ready;
    struct sel_clock_manual clock;
    struct sel_random random;
    struct sel_workers *workers, *blocking;
    struct sel_layout *layout;
    struct sel_log log;
    char *log_text; /* all messages, newline after each */
    unsigned warnings;
    struct sel_lsm_config config; /* limits and sizes: set by the test before opening */
    struct sel_lsm *lsm;
    struct sel_disk *(*wrap)(struct rig *rig, struct sel_disk *disk); /* a fault around the disk; owned by it */
    struct rig_seen *seen;
    size_t seen_count;
    unsigned moved;
    void (*on_moved)(struct rig *rig, uint64_t id, const struct sel_location *to);
    bool flush;     /* rig_write does not wait for the group's time */
    int refuse_all; /* the visitor's answer, when not 0 */
};

/* planes: bytes each, ended by 0. */
void rig_create(struct rig *rig, enum rig_disk kind, const char *name, const uint64_t *planes, uint32_t ranks,
                uint64_t row_bytes);
void rig_destroy(struct rig *rig);
/* Aborts the test when it does not open, but for rig_try_open. */
void rig_open(struct rig *rig);
int rig_try_open(struct rig *rig, struct selene_message *message);
void rig_close(struct rig *rig);
void rig_abort(struct rig *rig); /* as a crash of the process */
/* Forgets the catalogue: the next open rebuilds. */
void rig_lose_catalog(struct rig *rig);

/* Polls, runs completions and waits a little. Moves the manual clock by `ns`. */
void rig_turn(struct rig *rig, uint64_t ns);
/* Turns until *flag is not `value` any more; fails the test after a long time. */
void rig_until(struct rig *rig, const volatile int *value, int not_this);

struct sel_key rig_key(uint64_t id);
void rig_fill(const struct rig *rig, const struct rig_record *record, struct sel_lsm_record *out,
              struct sel_key **keys);
/* Starts a write of a record, data and finish included. What begin answers. `parent` as in sel_lsm_write_begin. */
int rig_start(struct rig *rig, struct rig_record *record, struct sel_lsm_write *parent);
/* begin without data and finish, for tests that do that themselves */
int rig_begin(struct rig *rig, struct rig_record *record, struct sel_lsm_write *parent);
void rig_data(struct rig *rig, struct rig_record *record);
void rig_finish(struct rig *rig, struct rig_record *record);
/* Starts it (again and again while it is to be retried), and waits for its commit. */
int rig_write(struct rig *rig, struct rig_record *record, struct sel_lsm_write *parent);
int rig_wait(struct rig *rig, struct rig_record *record);
void rig_record_free(struct rig_record *record);

/* Reads a whole part and compares every byte and checksum: 0, or what the store says. A wrong byte fails the test. */
int rig_read(struct rig *rig, const struct rig_record *record, const struct sel_location *location,
             enum sel_lsm_part part);
int rig_remove(struct rig *rig, const struct sel_location *location);
struct rig_seen *rig_find_seen(struct rig *rig, uint64_t id);
/* Reads back all that the visitor heard of. */
void rig_verify_seen(struct rig *rig);
/* The bytes of a part as they lie on disk, and their checksums; both malloc'ed. */
void *rig_make_part(const struct rig *rig, const struct rig_record *record, bool row, uint64_t **sums);
uint32_t rig_page_count(const struct rig_record *record);
/* The checksum of one share of a page. */
uint64_t rig_page_sum(const struct sel_layout *layout, const uint8_t *share);
/* What the directory takes on the device. */
uint64_t rig_directory_bytes(const struct rig *rig);
/* The accounts are right. */
void rig_check(struct rig *rig);
struct sel_lsm_stats rig_stats(const struct rig *rig);

#endif
