/* SPDX-License-Identifier: Apache-2.0
 *
 * The record store: a log of segments on a disk, and the catalogue that can be rebuilt from them [D1-D9].
 *
 * A record has a *pages* part and, with has_row, a *row* part; each part is one extent: a header that describes it
 * fully, then the data: whole slots (or, replicated, single shares) one after another, exactly as they lie in memory.
 * The lsm knows nothing of memory tiers, use orders or pressure: it writes, commits, reads, removes and says how much
 * room is short.
 *
 * Order of a write:
 *   begin (room reserved in the open segments, sequence numbers taken)
 *   data  (any number of pieces, in flight together, with the caller's memory)
 *   finish (checksums are known: headers written; the write joins the open group once all its I/O is done and its
 *           parent is committed or in a group already)
 *   group closes -> segments synced -> one catalogue transaction, synced -> every finish op completes: *committed* [D4]
 *
 * One thread; completions through sel_ready. Opening and closing block.
 */
#ifndef SEL_LSM_LSM_H
#define SEL_LSM_LSM_H

#include "base/random.h"
#include "base/workers.h"
#include "index/catalog.h"
#include "index/keys.h"
#include "index/tree.h" /* struct sel_location only */
#include "lsm/disk.h"

enum sel_lsm_durability { SEL_LSM_RELAXED = 0, SEL_LSM_STRICT = 1 };
enum sel_lsm_part { SEL_LSM_PAGES = 0, SEL_LSM_ROW = 1 };
/* [D9]; begin answers SELENE_E_DEGRADED in every state but OK. The lsm leaves a state by itself when a probe succeeds.
 */
enum sel_lsm_state { SEL_LSM_OK = 0, SEL_LSM_FULL, SEL_LSM_READONLY, SEL_LSM_FAILING, SEL_LSM_STALLED };

struct sel_lsm;

struct sel_lsm_config {
    struct sel_disk *disk;       /* locked by the caller; not owned */
    struct sel_catalog *catalog; /* open; not owned */
    bool rebuild;                /* the catalogue is new or empty: read the segments */
    struct sel_ready *ready;
    struct sel_clock *clock;
    struct sel_random *random;
    struct sel_workers *workers;  /* hashing during recovery */
    struct sel_workers *blocking; /* the catalogue's helper: one thread */
    const struct sel_log *log;
    enum sel_lsm_durability durability;
    uint64_t limit_bytes;   /* never exceeded by allocated bytes + catalogue file [D6]; 0: no limit */
    uint64_t segment_bytes; /* 0: 256 MiB, or a sixteenth of a small limit, a multiple of 4 KiB */
    uint64_t group_bytes;   /* 0: 64 MiB */
    uint64_t group_ns;      /* 0: 1 s */
    uint64_t stall_ns;      /* an I/O that takes longer means a stalled disk; 0: 30 s */
};

/* A record as the lsm hears and tells of it. Pointers are the owner's. */
struct sel_lsm_record {
    uint8_t ns[SEL_NAMESPACE_BYTES];
    uint32_t page_tokens;
    uint32_t tokens;
    uint32_t parent_tokens; /* 0: root */
    struct sel_key key;
    struct sel_key parent_key;       /* zero: root */
    struct sel_key base_key;         /* K(tokens / P) */
    const struct sel_key *page_keys; /* as in sel_node_spec */
    uint32_t page_key_count;
    bool has_row;
    bool pages_replicated; /* one share a page stored for all ranks [K1] */
    bool row_replicated;
    uint64_t time_s; /* wall time of the last use, seconds since 1970: age counts from it [A1] */
};

/* Called at open for each record in sequence order, so parents come first. Non-zero: refuse it; its space is then given
 * back. SELENE_E_PARENT, for an unknown parent: it is shown again when all others were, since a parent that was given up
 * as damaged and written again comes late. `record` and its pointers live for the call only. */
typedef int sel_lsm_visit(void *context, const struct sel_lsm_record *record, const struct sel_location *location);
/* A record was copied forward: its location changed. When its copy turned out damaged instead, `to` is all zero and the
 * store is removing the record; when only its row was, to->row is 0. */
typedef void sel_lsm_moved(void *context, const struct sel_key *key, const struct sel_location *from,
                           const struct sel_location *to);

/* Opens: after a clean stop it reads the catalogue and no extent; after a crash the tail of each open segment past its
 * mark is replayed; with `rebuild` all segments are read, holes hopped over. Blocks. `*out` NULL on failure, message
 * set. */
int sel_lsm_open(struct sel_lsm **out, const struct sel_lsm_config *config, sel_lsm_visit *visit, sel_lsm_moved *moved,
                 void *context, struct selene_message *message);
/* Commits what is finished, marks a clean stop and frees everything. Writes and reads must have ended (finish ops may
 * be outstanding: they complete inside). Blocks. NULL-safe. Returns the first error; the store is freed all the same.
 */
int sel_lsm_close(struct sel_lsm **lsm);
/* Leaves as a crash would: nothing is committed or marked; waits only for I/O that touches the caller's memory. Finish
 * and remove ops still outstanding complete inside with an error; writes and readers that are left are freed, too. */
void sel_lsm_abort(struct sel_lsm **lsm);

/* Drives disk, groups, space reclaim and probes; never blocks. */
void sel_lsm_poll(struct sel_lsm *lsm);
/* When poll must run again though no I/O completes (group deadline, probe); UINT64_MAX: never. Monotonic ns. */
uint64_t sel_lsm_deadline_ns(const struct sel_lsm *lsm);

/* ---- writing ---- */

struct sel_lsm_write;

/* Starts a write. `layout` gives the plane sizes that checksums need. `parent`: the parent's own write while that is
 * not committed yet, NULL when the parent is committed or the record is a root. Copies what it needs of `record`;
 * page_keys too. SELENE_E_NOSPACE: the limit has no room (see sel_lsm_shortage, remove something, try again once that
 * is committed); SELENE_E_OVERSIZE: it can never fit; SELENE_E_RETRY: a new segment is still being made;
 * SELENE_E_DEGRADED. */
int sel_lsm_write_begin(struct sel_lsm *lsm, const struct sel_layout *layout, const struct sel_lsm_record *record,
                        struct sel_lsm_write *parent, struct sel_lsm_write **out);
/* Starts to write a new row extent for a committed record that has none [T5]: `record` describes it with has_row true,
 * `location` is where it is, and only data of the part SEL_LSM_ROW may follow. finish: page_sums NULL. Once committed,
 * sel_lsm_write_location is the record's with the row; the op of a removal that came before has completed then. SELENE_E_GONE, from begin or the finish op: the record was
 * removed, or has a row, meanwhile; SELENE_E_RETRY also while another row of it is being written. A removal of the record's row that is on its way is ordered before it. After a crash
 * the row is recovered or not, never the record without its pages. Other errors as for sel_lsm_write_begin. */
int sel_lsm_write_row_begin(struct sel_lsm *lsm, const struct sel_layout *layout, const struct sel_lsm_record *record,
                            const struct sel_location *location, struct sel_lsm_write **out);
/* Writes data at a byte offset of a part's data (multiple of 4 KiB). iov and memory stay the caller's until op is done.
 */
void sel_lsm_write_data(struct sel_lsm_write *write, enum sel_lsm_part part, uint64_t offset, const struct iovec *iov,
                        int iov_count, struct sel_op *op);
/* All data was submitted (may still be in flight). Checksums: pages * (replicated ? 1 : R) and (replicated ? 1 : R),
 * copied. `op` completes when the record is committed; SELENE_E_PARENT when the parent's write failed; SELENE_E_IO and
 * others when its own did: the segment is then not used for new writes, so a second try goes elsewhere [P4]. */
void sel_lsm_write_finish(struct sel_lsm_write *write, const uint64_t *page_sums, const uint64_t *row_sums,
                          struct sel_op *op);
/* Instead of finish: gives the room back. No data piece may be in flight. Children that wait for it fail. */
void sel_lsm_write_abandon(struct sel_lsm_write **write);
/* Where it was committed; after the finish op. */
struct sel_location sel_lsm_write_location(const struct sel_lsm_write *write);
void sel_lsm_write_free(struct sel_lsm_write **write); /* after the finish op */

/* Bytes on disk that a record with so many pages takes, headers included, for the engine's planning. */
uint64_t sel_lsm_record_bytes(const struct sel_layout *layout, uint32_t pages, uint32_t page_keys,
                              bool pages_replicated, bool has_row, bool row_replicated);
/* Whether such a record can never fit the limit, whatever is removed: to be asked before anything is removed for it. */
bool sel_lsm_oversize(const struct sel_lsm *lsm, const struct sel_layout *layout, uint32_t pages, uint32_t page_keys,
                      bool pages_replicated, bool has_row, bool row_replicated);

/* Closes the open group now (a drain or an allocation waits for it). */
void sel_lsm_flush(struct sel_lsm *lsm);

/* ---- reading ---- */

struct sel_lsm_reader;

/* Opens one part of a committed record and reads `iov` (may be empty) from the start of its data in the same I/O as the
 * header. When op is done with 0 the header was verified and agrees with `record` (namespace, key, tokens) and
 * location; SELENE_E_CORRUPT otherwise. The data itself is *not* verified: the caller compares with reader sums. */
void sel_lsm_reader_open(struct sel_lsm *lsm, const struct sel_layout *layout, const struct sel_lsm_record *record,
                         const struct sel_location *location, enum sel_lsm_part part, const struct iovec *iov,
                         int iov_count, struct sel_lsm_reader **out, struct sel_op *op);
void sel_lsm_reader_read(struct sel_lsm_reader *reader, uint64_t offset, const struct iovec *iov, int iov_count,
                         struct sel_op *op);
/* Checksums from the header: one per stored share, page-major. Valid until close. */
const uint64_t *sel_lsm_reader_sums(const struct sel_lsm_reader *reader, size_t *count);
bool sel_lsm_reader_replicated(const struct sel_lsm_reader *reader);
/* Nothing in flight. Until then the space it reads is not reused. */
void sel_lsm_reader_close(struct sel_lsm_reader **reader);

/* ---- removing ---- */

/* Removes a record, or only its row, in the next transaction; its space is given back after that transaction is synced
 * and no reader is open on it [D5]. For the row, `record` is what remains (has_row false). `op` may be NULL; it
 * completes when committed. On failure of the transaction the record is still there (the op says so). */
void sel_lsm_remove(struct sel_lsm *lsm, const struct sel_location *location, struct sel_op *op);
void sel_lsm_remove_row(struct sel_lsm *lsm, const struct sel_lsm_record *record, const struct sel_location *location,
                        struct sel_op *op);

/* How many bytes must still be removed, beyond what is on its way, so that `bytes` more can be written, with room for
 * one page and one row segment kept ahead [D6]. 0: none. */
uint64_t sel_lsm_shortage(const struct sel_lsm *lsm, uint64_t bytes);

/* ---- state ---- */

struct sel_lsm_stats {
    uint64_t records, live_bytes, dead_bytes, allocated_bytes, catalog_bytes, segments, open_segments;
    uint64_t written_bytes, read_bytes; /* to and from segments, headers included */
    uint64_t groups, syncs, transactions;
    uint64_t recovered_records; /* found past the marks, or by a rebuild */
    uint64_t refused_records, torn_extents, future_segments, bad_segments;
    uint64_t recycled_segments, punched_bytes, copied_forward_bytes;
    uint64_t write_errors, read_errors, sync_errors;
    uint64_t tail_bytes_read; /* by recovery: 0 after a clean stop */
    uint64_t dropped_records; /* found damaged by copy forward; rows, too */
};
enum sel_lsm_state sel_lsm_state(const struct sel_lsm *lsm);
void sel_lsm_get_stats(const struct sel_lsm *lsm, struct sel_lsm_stats *stats);
/* Brute-force check of the space accounts against segments (fault 7). 0 or SELENE_E_INTERNAL with a message. */
int sel_lsm_check(struct sel_lsm *lsm, struct selene_message *message);

#endif
