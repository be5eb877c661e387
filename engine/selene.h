/* SPDX-License-Identifier: Apache-2.0
 *
 * Selene: the prefix KV cache of large language model inference, kept alive beyond the GPU.
 *
 * How an engine uses it:
 *
 *     selene_open                      one store per process and rank group; it blocks, as selene_close does, and
 *                                      selene_wait for as long as it is told; nothing else does
 *     selene_prefix_*                  the request's token sequence and its keys, grown as tokens arrive
 *     selene_lookup                    how much of the prompt is held, and where
 *     selene_restore                   copy that much into device pages; a RESTORE event says how many tokens are good
 *     ... prefill the rest ...
 *     selene_publish                   offer the state at a checkpoint; a PUBLISH event gives device memory back
 *     selene_poll                      drives everything and returns events; wait on selene_event_fd in between
 *     selene_drain, selene_close
 *
 * docs/examples/minimal.c is a whole engine of that kind; offers.c is one with several checkpoints a turn, which also uses
 * selene_offers.h. Numbers such as [P1] are those of docs/RULES.md.
 *
 * THREADS. A store belongs to one thread at a time: all calls on it and its prefixes must be serialised by the
 * caller. The store's own helper threads (copies and hashes, disk, catalogue commits) are created at open and call
 * nothing of the caller's but the log function.
 * FORK. A forked child must not use a store or prefix of its parent: calls answer SELENE_E_FORKED.
 * UNITS. Bytes, tokens, nanoseconds; times are CLOCK_MONOTONIC.
 * ERRORS. `int`, 0 or a negative SELENE_E_ code (selene_error.h). A function that takes a `selene_message` explains
 * itself there. Damage, races and I/O errors never give a wrong byte: they cost tokens, which the events report.
 * Every function may answer SELENE_E_INVALID (NULL, a number out of range, a prefix made for another layout) or
 * SELENE_E_NOMEM.
 * OWNERSHIP. Handles are created by functions that take `T **out` and destroyed by functions that take `T **` and
 * null it. Descriptions passed by pointer are copied unless the comment says "until the event". A prefix may be
 * changed or destroyed once the call that it was passed to has returned, also while a restore or publish runs.
 */
#ifndef SELENE_H
#define SELENE_H

#include "selene_error.h"
#include "selene_layout.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SELENE_VERSION_MAJOR 0
#define SELENE_VERSION_MINOR 1
#define SELENE_VERSION_PATCH 0
#define SELENE_API           __attribute__((visibility("default")))

typedef struct selene_store selene_store;
typedef struct selene_prefix selene_prefix;

SELENE_API const char *selene_version(void);
/* Static text of a code. */
SELENE_API const char *selene_error_text(int code);

/* ---- named layouts ---- */

/* A layout of a real model, by name ("qwen3-8b", "deepseek-v4-flash-tp4"). Static; NULL when there is none. */
struct selene_model {
    const char *name;
    const char *about; /* one line for people: model, tensor parallelism, dtype */
    struct selene_layout layout;
    int pages_replicated; /* all ranks hold identical pages (MLA) */
    int row_replicated;   /* all ranks hold an identical row */
};
SELENE_API const struct selene_model *selene_model_find(const char *name);
SELENE_API const struct selene_model *selene_model_at(size_t index); /* 0 ..; NULL past the end */

/* ---- open and close ---- */

enum selene_tier {
    SELENE_TIER_MEMORY = 0,
    SELENE_TIER_DISK = 1,
    SELENE_TIER_POOL = 2,
    SELENE_TIER_COUNT = 3,
    SELENE_TIER_NONE = -1
};
enum selene_durability { SELENE_RELAXED = 0, SELENE_STRICT = 1 };

/* Where one plane of one rank lies in device memory: plane p of block b is at base + stride * b. */
struct selene_plane_memory {
    void *base;
    uint64_t stride_bytes;
};

#define SELENE_SPARE_ROWS_MAX     64 /* each commit looks at so many ancestors */
#define SELENE_WORKER_THREADS_MAX 256

struct selene_options {
    size_t struct_bytes; /* set by selene_options_init: tells a header from another library's */
    const struct selene_layout *layout;

    /* The engine's paged KV memory: rank_count * plane_count entries, rank-major, and how many blocks there are.
     * Copied. */
    const struct selene_plane_memory *planes;
    uint32_t block_count;

    uint64_t memory_bytes;        /* warm tier, larger than any record; 0: none, records stream to disk [M5] */
    uint64_t host_budget_bytes;   /* most host memory in all: the intake shrinks to fit [M2]; 0: no budget */
    uint32_t max_active_requests; /* sizes the intake; 0: 8 */

    const char *disk_directory; /* NULL: no disk tier; created when missing, its parent must exist */
    uint64_t disk_limit_bytes;  /* 0: no limit; at least 4 MiB. Never exceeded, index included [D6] */
    int durability;             /* enum selene_durability */
    int disk_threads_only;      /* do not try io_uring */

    uint32_t page_group;     /* pages a record of a layout without rows [L6]; 0: 16 */
    uint32_t worker_threads; /* at most SELENE_WORKER_THREADS_MAX; 0: as many as processors, at most 8 */

    /* A record that has exactly one child and is not a root gives its row up and goes on carrying pages [T1]; publishing
     * at it again brings the row back [T5]. So many of them nearest to each leaf keep theirs [T8], since clients often
     * take the last message back; 0: none; at most SELENE_SPARE_ROWS_MAX; selene_options_init sets 1. */
    uint32_t spare_rows;
    int no_thinning; /* for comparison: every row is kept */
    int no_packing;  /* for comparison: identical ranks are stored one by one [K1] */

    uint64_t max_age_ns; /* records unused for so long expire, at most 64 a minute [A1]; 0: never */
    /* How fast the caller computes a prefix, tokens a second [R3]: look-ups whose restore is estimated slower than that
     * are declined. 0: never. */
    double prefill_tokens_per_s;

    /* Committed records are reported as SELENE_EVENT_COMMITTED when set. */
    int report_commits;

    /* Messages: level 0 error, 1 warning, 2 info, 3 debug. NULL: warnings and errors go to stderr. Thread-safe. */
    void (*log)(void *context, int level, const char *text);
    void *log_context;
    int log_level;
};
/* Zeroes everything but struct_bytes, and log_level and spare_rows, which become 1. Call it first. */
SELENE_API void selene_options_init(struct selene_options *options);

/* Opens a store. SELENE_E_INVALID for a bad option (the message names it, its value and the limit); SELENE_E_IN_USE
 * when the directory belongs to another store; SELENE_E_IO, _PERMISSION, _NOSPACE, _READONLY when the directory cannot
 * be used. With nothing configured (no memory, no disk) the store opens and holds nothing [P7]. Blocks while it reads
 * the index. */
SELENE_API int selene_open(selene_store **out, const struct selene_options *options, struct selene_message *message);
/* Waits for what touches the caller's memory, commits what was already written, and frees everything. Records that are
 * only in memory are lost; see selene_drain. Events not taken are lost. Returns the first error; the store is freed all
 * the same, but for SELENE_E_FORKED, which leaves it. NULL-safe. */
SELENE_API int selene_close(selene_store **store);

/* ---- prefixes ---- */

/* A token sequence with its keys [L2, L3]; the optional salt isolates tenants. */
SELENE_API int selene_prefix_create(selene_prefix **out, const selene_store *store, const void *salt,
                                    size_t salt_bytes);
SELENE_API void selene_prefix_destroy(selene_prefix **prefix);
SELENE_API int selene_prefix_append(selene_prefix *prefix, const uint32_t *tokens, size_t count);
/* Extra identity (adapter id, image hash) of a page that is not full yet, once a page; at most 64 KiB. */
SELENE_API int selene_prefix_set_extra(selene_prefix *prefix, uint32_t page, const void *bytes, size_t count);
/* Instead of append, never both on one prefix: 32-byte hashes of whole pages, each standing for the whole prefix up to
 * and with that page. Such a prefix has keys at page boundaries only. */
SELENE_API int selene_prefix_append_hashes(selene_prefix *prefix, const uint8_t (*hashes)[32], size_t page_count);
/* Keeps the first `tokens` tokens. */
SELENE_API int selene_prefix_truncate(selene_prefix *prefix, uint64_t tokens);
SELENE_API uint64_t selene_prefix_tokens(const selene_prefix *prefix);
/* The 32-byte key at an exact token count. */
SELENE_API int selene_prefix_key(const selene_prefix *prefix, uint64_t tokens, uint8_t key[32]);

/* ---- look-up ---- */

struct selene_match {
    uint64_t tokens; /* a request may go on after so many; 0: nothing held */
    int tier; /* enum selene_tier: the slowest tier that it must be read from; SELENE_TIER_NONE when tokens is 0 */
    uint64_t bytes;       /* that a restore copies into device memory */
    uint64_t estimate_ns; /* how long it may take; 0 while nothing was measured yet */
    int declined; /* estimated slower than computing it (options.prefill_tokens_per_s): better not restored [R3] */
};
/* The longest usable match of at most `limit_tokens` tokens: an engine passes n - 1 of n, since it computes at least
 * the last token itself. Pins nothing, never blocks on I/O [R1]. */
SELENE_API int selene_lookup(selene_store *store, const selene_prefix *prefix, uint64_t limit_tokens,
                             struct selene_match *match);

/* ---- restore and publish ---- */

/* Device memory of a request: block i holds page i of the sequence. For a restore only the pages and, with rows, the
 * row are written; bytes of the last page beyond its valid tokens are left alone. */
struct selene_device_state {
    const uint32_t *blocks; /* block ids, page 0 on; copied */
    uint32_t block_count;
    void *const *rows; /* rank_count addresses of row_bytes each, NULL for layouts without rows; copied */
    /* Memory is touched only after this event: for host memory a `const uint32_t *` that becomes non-zero (store with
     * release order), for CUDA a CUevent. NULL: at once. Valid until the event. */
    const void *wait;
};

/* Starts to restore the first `tokens` tokens of the prefix (from selene_lookup; what is held now decides). Device
 * memory belongs to the store until the RESTORE event, whose `tokens` says how many are good: bytes beyond that are
 * undefined. The row is that of exactly `tokens` tokens, also when that is less than was asked for (result not 0); with
 * 0 tokens, or cancelled, nothing is good. `*ticket` names it in the event. SELENE_E_NOTFOUND: nothing
 * usable is held any more; SELENE_E_RETRY: no slots or too much in flight now. */
SELENE_API int selene_restore(selene_store *store, const selene_prefix *prefix, uint64_t tokens,
                              const struct selene_device_state *state, uint64_t *ticket);

enum selene_publish_answer {
    SELENE_ACCEPTED = 0, /* a PUBLISH event follows; device memory is read until then, see below */
    SELENE_PRESENT = 1,  /* already held; its use was refreshed; no event */
    SELENE_RETRY = 2,    /* not now: see `reason`; offer it again after a poll; no event */
    SELENE_OVERSIZE = 3, /* can never be held; no event */
};
enum selene_retry_reason {
    SELENE_RETRY_NONE = 0,
    SELENE_RETRY_SLOTS = 1,
    SELENE_RETRY_IN_FLIGHT = 2,
    SELENE_RETRY_POOL = 3
};
struct selene_publish_result {
    int answer;           /* enum selene_publish_answer */
    int reason;           /* enum selene_retry_reason, with SELENE_RETRY */
    uint64_t ticket;      /* with SELENE_ACCEPTED */
    uint64_t from_tokens; /* the parent's: pages since then are copied; `tokens` itself when the row alone is [T5] */
};
/* Offers the state at `tokens` tokens of the prefix. The store picks the deepest ancestor it holds and copies what lies
 * beyond it [P1]. Layouts without rows keep whole pages only: `tokens` is rounded down to a page boundary, 0 pages:
 * Present. Of the pages only the bytes valid at `tokens` tokens are read (struct selene_plane): entries of later tokens
 * may be written meanwhile, also into the last page. A plane that is not divisible by token, and the row, must stay as
 * they are until the event. Returns 0 with an answer, or an error (bad arguments).
 *
 * What is read and changes all the same is kept as it was at some moment: ranks are compared first, and those found
 * alike are kept as rank 0 is when it is copied [K1]. The checksums are those of what was copied: nothing can tell. */
SELENE_API int selene_publish(selene_store *store, const selene_prefix *prefix, uint64_t tokens,
                              const struct selene_device_state *state, struct selene_publish_result *result);
/* The caller gives a retried publish up: counted by reason. */
SELENE_API void selene_publish_abandoned(selene_store *store, int reason);

/* Asks a publish, restore or drain to stop. Its event still comes, with SELENE_E_CANCELLED unless it was already
 * through, and only when nothing touches the caller's memory any more [R6]. SELENE_E_NOTFOUND: no such ticket in
 * flight. */
SELENE_API int selene_cancel(selene_store *store, uint64_t ticket);

/* Persists what is only in memory, what was used last first, until `deadline_ns` (CLOCK_MONOTONIC; 0: no deadline) [P8].
 * It gives up when nothing was committed for a minute, and keeps what was used later when the disk is too small. One at
 * a time: SELENE_E_RETRY. A DRAIN event reports: its result is 0 when nothing of that is left in memory alone,
 * SELENE_E_DEADLINE, SELENE_E_DEGRADED when the disk did not take it, SELENE_E_UNSUPPORTED without a disk. */
SELENE_API int selene_drain(selene_store *store, uint64_t deadline_ns, uint64_t *ticket);

/* ---- events ---- */

enum selene_event_kind {
    SELENE_EVENT_PUBLISH =
        1, /* result 0: the record is in memory (or, without a warm tier, committed) and can be found. Not 0: without
              rows what came before `tokens` may be held all the same. SELENE_E_RETRY: accepted, and then there was
              no room for it (in ten seconds) or something was in its way: like the answer SELENE_RETRY, to be offered
              again, or given up with selene_publish_abandoned [P1]. SELENE_E_OVERSIZE: like that answer, seen only when
              the ranks had been compared or memory had let go of all that may go [M5] */
    SELENE_EVENT_RESTORE = 2,
    SELENE_EVENT_DRAIN = 3,
    SELENE_EVENT_COMMITTED = 4, /* with report_commits: key and tokens of a record that is now on disk for good */
};
struct selene_event {
    int kind;
    int result; /* 0 or SELENE_E_; a restore that got fewer tokens than asked for says SELENE_E_CORRUPT, _GONE or _IO */
    uint64_t ticket;
    uint64_t tokens;                            /* PUBLISH, COMMITTED: the record's; RESTORE: how many are good */
    uint64_t tokens_by_tier[SELENE_TIER_COUNT]; /* RESTORE: where they came from */
    /* RESTORE, PUBLISH: copied to or from device memory; of what is packed one share comes out and all go in */
    uint64_t bytes;
    uint64_t elapsed_ns;               /* since the call */
    uint8_t key[32];                   /* PUBLISH, COMMITTED */
    uint64_t drained_written;          /* DRAIN: records */
    uint64_t drained_skipped_deadline; /* their chain would not have been through in time, or was not */
    uint64_t drained_skipped_failed;   /* a write failed for good, or the disk took nothing */
    uint64_t drained_skipped_parent;   /* an ancestor could not be written */
    uint64_t drained_skipped_room;     /* the disk is too small, and holds what was used later */
};

/* Drives the store without blocking and fills up to `capacity` events; returns how many, or a negative code. What did
 * not fit comes with the next call. */
SELENE_API int selene_poll(selene_store *store, struct selene_event *events, size_t capacity);
/* An eventfd that becomes readable when selene_poll has something to do. Do not read it. Owned by the store. */
SELENE_API int selene_event_fd(const selene_store *store);
/* When selene_poll should run at the latest even if the fd stays quiet: CLOCK_MONOTONIC ns, UINT64_MAX: no need. */
SELENE_API uint64_t selene_deadline_ns(const selene_store *store);
/* Waits on both for at most timeout_ns: for callers with nothing else to do. 0 also when time ran out; then poll. */
SELENE_API int selene_wait(selene_store *store, uint64_t timeout_ns);

/* ---- counters ---- */

struct selene_stats {
    uint64_t records[SELENE_TIER_COUNT];
    uint64_t held_bytes[SELENE_TIER_COUNT]; /* unpadded */
    uint64_t slots_used, slots_total, slots_intake;
    uint64_t lookups, lookup_hits[SELENE_TIER_COUNT], lookup_misses;
    uint64_t publishes_accepted, publishes_present, publishes_retry[4], publishes_oversize, publishes_abandoned[4];
    uint64_t publishes_failed; /* accepted, and ended with an error other than SELENE_E_CANCELLED */
    uint64_t published_bytes;  /* copied out of device memory, unpadded valid bytes */
    uint64_t restores, restored_bytes[SELENE_TIER_COUNT];
    uint64_t restore_ns[SELENE_TIER_COUNT]; /* of restores whose slowest tier it was */
    uint64_t estimates, declines;           /* look-ups with an estimate; of them declined */
    uint64_t rows[SELENE_TIER_COUNT];       /* held: records with their row */
    uint64_t rows_thinned[SELENE_TIER_COUNT];
    uint64_t rows_brought_back;                   /* published again at a thinned key [T5] */
    uint64_t packed_records[SELENE_TIER_COUNT];   /* held: pages stored once for all ranks [K1] */
    uint64_t per_rank_records[SELENE_TIER_COUNT]; /* held: pages stored for each rank */
    uint64_t packed_rows[SELENE_TIER_COUNT];      /* held */
    uint64_t abandoned_stores;                    /* streams whose later window differed [K2] */
    uint64_t expiries[SELENE_TIER_COUNT];         /* [A1]; not counted as evictions */
    uint64_t drained_written, drained_skipped_deadline, drained_skipped_failed, drained_skipped_parent,
        drained_skipped_room;
    uint64_t evictions[SELENE_TIER_COUNT], spills, spill_retries, dropped_records;
    uint64_t checksum_failures[SELENE_TIER_COUNT], io_errors[SELENE_TIER_COUNT];
    uint64_t disk_written_bytes, disk_read_bytes, disk_allocated_bytes, disk_live_bytes, disk_dead_bytes, index_bytes;
    uint64_t disk_segments, recovered_records, torn_extents, recycled_segments, punched_bytes, copied_forward_bytes;
    int disk_state;              /* 0 ok, 1 full, 2 read-only, 3 failing, 4 stalled */
    uint64_t memory_index_bytes; /* of the prefix tree */
};
/* `stats_bytes`: sizeof *stats, so that a program and a library of different versions agree on what is filled in; what
 * this library does not know is zeroed. */
SELENE_API int selene_get_stats(selene_store *store, struct selene_stats *stats, size_t stats_bytes);
/* The same as text in the Prometheus exposition format, names selene_*, tier as a label. Writes at most `size` bytes with
 * the terminating 0 and returns the length that the whole text has, as snprintf does, or a negative code. */
SELENE_API int64_t selene_metrics_text(selene_store *store, char *text, size_t size);
/* "io_uring" or "threads", or "none"; whether O_DIRECT is really in use. */
SELENE_API const char *selene_disk_backend(const selene_store *store, int *direct);
/* Verifies every internal invariant by brute force: tests and debugging. 0 or SELENE_E_INTERNAL with a message. */
SELENE_API int selene_check(selene_store *store, struct selene_message *message);

#ifdef __cplusplus
}
#endif
#endif
