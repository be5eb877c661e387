/* SPDX-License-Identifier: Apache-2.0
 *
 * A store inside: the state that the verbs of engine/ share. One thread; see selene.h.
 *
 * A record in the tree is *held* by tiers. Its memory copy (struct sel_memory) is whole and has its checksums before
 * the record becomes visible [faults 2, 3]. A copy in a tier that failed is marked in node->flags and is not read from
 * then on; it leaves the tier when its last pin goes (sel_settle).
 *
 *   publish --> draft (in flight, invisible) --> memory, parked --spill--> memory, clean + disk --evict--> disk
 *                                                                                 <--restore (keep) --
 *
 * Slots are free, or held by a memory copy, a draft, a load or a stream window: sel_store_check counts them [fault 7].
 * Pins: whoever reads a copy in a tier pins it there; a publish pins its parent; a spill pins what it writes in memory
 * and its parent on disk.
 */
#ifndef SEL_ENGINE_STORE_PRIV_H
#define SEL_ENGINE_STORE_PRIV_H

#include "base/check.h"
#include "base/checksum.h"
#include "base/error.h"
#include "engine/cost.h"
#include "engine/slots.h"
#include "engine/store_env.h"
#include "index/tree.h"
#include "lsm/lsm.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/uio.h>

/* The window [spec 1]: the bounded piece in which data is copied. 16 slots: the default page group, so that a record of
 * a layout without rows is one read; for real layouts (0.25 MiB slots and more) 4 MiB and more, where NVMe drives and
 * kernels of the bus reach full speed; and small enough that several windows fit the intake. */
#define SEL_WINDOW_SLOTS 16
/* Requests in flight at most; more are told to come again. Bounds the searches through them. */
#define SEL_REQUESTS_MAX 1024

/* node->flags: copies that failed and wait for their last pin to go. */
enum sel_node_flag {
    SEL_BAD_MEMORY = 1,
    SEL_BAD_DISK = 2,
    SEL_BAD_MEMORY_ROW = 4,
    SEL_BAD_DISK_ROW = 8,
    SEL_DOOMED = 16, /* leaves all tiers: a page it needs is nowhere */
    /* The row is to go when nothing reads it there any more [T3]; evaluated again then. */
    SEL_THIN_MEMORY = 32,
    SEL_THIN_DISK = 64,
    /* Without row and child, and pinned: leaves all tiers with its last pin if that is still so [P6]. */
    SEL_BARREN = 8192,
    /* What unpinning has to look at. */
    SEL_NODE_UNSETTLED = 127 | SEL_BARREN,
    /* A row removal is in the next transaction: not usable meanwhile, usable again if that fails [T6]. */
    SEL_THINNING_DISK = 128,
    /* Fork holds: a row that was brought back stays until the next child commits there [T5]. */
    SEL_HOLD_MEMORY = 256,
    SEL_HOLD_DISK = 512,
    /* How the disk copy is stored [K1]; a memory copy's parts say it themselves. */
    SEL_DISK_PAGES_PACKED = 1024,
    SEL_DISK_ROW_PACKED = 2048,
    /* A drain that ends has counted it. */
    SEL_DRAIN_COUNTED = 4096,
};

/* One part of a memory copy, cut into pieces: pages, or the row's slots as if it were not packed. Whole slots; checksums
 * piece-major for pages (pieces * R, packed: pieces) and one for each share of the row (R, packed: 1). Where a piece lies:
 * sel_part_share. */
struct sel_copy_part {
    uint32_t count;  /* slots; 0: not here */
    uint32_t pieces; /* = count, or packed: count = ceil(pieces / R) */
    bool packed;     /* one share for all ranks, one after another in all the shares of the slots [M1, K1] */
    uint32_t *slots;
    uint64_t *sums;
};

/* A record's copy in memory. */
struct sel_memory {
    struct sel_copy_part pages;
    struct sel_copy_part row;
    struct sel_spill *spill; /* being written */
    uint8_t write_failures;  /* [P4] */
};

/* A publish, restore or drain from its call to its event. First member of what it is part of; when it ends everything
 * else of that is freed, and the caller's poll takes the event. */
struct sel_request {
    struct sel_list link; /* in store->requests, then in store->events */
    struct selene_event event;
    uint64_t started_ns;
    void (*cancel)(struct sel_request *request);
};

/* A measured speed: an average that forgets. */
struct sel_rate {
    double bytes_per_ns; /* 0: nothing measured yet */
};

#define SEL_STORE_MAGIC UINT32_C(0x53454c45)

struct selene_store {
    uint32_t magic;
    uint32_t generation; /* of the process: forks raise it */
    struct selene_options options;
    struct sel_layout *layout;
    struct sel_device_plane *planes;
    struct sel_log log;

    struct sel_clock *clock;
    struct sel_random *random;
    struct sel_ready own_ready, *ready;
    struct sel_workers *own_workers, *workers;
    struct sel_workers *own_blocking, *blocking;
    struct sel_device *own_device, *device;
    struct sel_disk *own_disk, *disk;
    struct sel_catalog *own_catalog, *catalog;
    struct sel_lsm *lsm; /* NULL: no disk tier */
    struct sel_tree *tree;

    int event_fd;
    atomic_bool signalled; /* the eventfd was written by us */
    bool quiet;            /* nothing is left to read from the eventfd */
    uint32_t idle_polls;

    struct sel_slots slots;
    uint32_t warm_slots, intake_slots, window_slots;
    uint64_t clean_slots;  /* of clean memory copies [M4] */
    uint64_t parked_count; /* parked memory copies */
    uint32_t wanted_slots; /* of the largest request that found no room; 0: nobody waits */
    uint64_t use_counter;  /* strictly increasing time of use */

    uint64_t ticket_next;
    struct sel_list requests; /* in flight */
    uint32_t request_count;
    struct sel_list events; /* done, for the caller */
    struct sel_list waiting_publishes, streaming, loads, spills, removals, lost;
    uint32_t load_count, spill_count, removals_failed;
    uint32_t spills_writing;   /* of them those whose data is not written yet: the others wait for the commit */
    uint32_t lacking_count;    /* drafts that wait for slots and hold none: new publishes do not overtake them */
    uint64_t lacking_since_ns; /* since when there is one; not for longer than SEL_PUBLISH_WAIT_NS [fault 25] */
    uint64_t spill_bytes, spill_slots;
    bool flush_wanted; /* somebody waits for slots that a commit would free */
    bool disk_stuck;   /* the disk is full and nothing on it may go before something in memory does */
    bool force_spill;  /* ... though enough are clean: those are in mid-chain */
    bool closing;
    uint32_t event_waits; /* requests whose caller named an event: nothing wakes us when it happens */
    struct sel_drain *drain;
    struct sel_node **chain; /* scratch for walks from a node to its root */
    size_t chain_capacity;

    struct sel_cost cost[SEL_TIER_COUNT]; /* of restores [R3] */
    struct sel_wave wave[SEL_TIER_COUNT];
    struct sel_list late_restores; /* their caller's event has not happened */
    struct sel_rate write_rate;
    uint64_t spill_written_bytes;   /* all time: of spills whose data was written */
    bool warned_drop, warned_stuck; /* said that memory drops records, since the disk takes none or has no room */
    bool degraded;                  /* the disk's state at the last poll [D9] */
    bool pages_pack, row_pack;      /* what the last comparison said: the next record's slots are taken accordingly */
    uint64_t age_base_ns;           /* age clock - monotonic clock [A1] */
    uint64_t sweep_mono_ns;         /* the last sweep of the old; 0: none yet */
    struct selene_stats stats;      /* counters; gauges are filled in by selene_get_stats */
};

/* ---- store.c, options.c, wake.c ---- */
int sel_options_check(const struct selene_options *options, struct selene_message *message);
/* After the layout was found good. */
int sel_options_check_planes(const struct selene_options *options, struct selene_message *message);
/* 0, or SELENE_E_INVALID for NULL, SELENE_E_FORKED in a forked child. No system call. */
int sel_store_usable(const selene_store *store);
uint32_t sel_fork_generation(void);
void sel_store_wake(void *store); /* any thread: makes the eventfd readable */
/* Empties the eventfd when it may have been written; what it announced is looked for afterwards. */
void sel_store_quiet_down(selene_store *store);
/* Sleeps until there may be something to do; events that the caller did not take do not count. */
void sel_store_sleep(selene_store *store, uint64_t timeout_ns);
/* After a call that submitted something: hands it on, and makes sure that a caller who only waits will poll. */
void sel_store_kick(selene_store *store);
/* One round of everything. */
void sel_store_step(selene_store *store);
uint64_t sel_store_use(selene_store *store); /* the next time of use */
int sel_recover_visit(void *store, const struct sel_lsm_record *record, const struct sel_location *location);
void sel_recover_moved(void *store, const struct sel_key *key, const struct sel_location *from,
                       const struct sel_location *to);
/* Drops what the record store gave up while moving it. */
void sel_recover_step(selene_store *store);
void sel_recover_free(selene_store *store);

/* ---- request.c ---- */
/* Starts to count as in flight and takes a ticket. */
void sel_request_begin(selene_store *store, struct sel_request *request, int kind,
                       void (*cancel)(struct sel_request *request));
/* The event is ready; the containing struct is freed by the poll that hands it out. */
void sel_request_end(selene_store *store, struct sel_request *request, int result);
/* Memory for the event of a commit, taken before the write begins; NULL when the caller does not want it. */
int sel_event_prepare(const selene_store *store, struct sel_request **event);
/* COMMITTED: the node is on disk for good. Takes the event over; NULL: nobody wants it. */
void sel_event_committed(selene_store *store, struct sel_request **event, const struct sel_node *node);
void sel_rate_add(struct sel_rate *rate, uint64_t bytes, uint64_t ns);

/* ---- memory.c ---- */
/* The one address resolver [M1]: where piece `piece` begins; share r of one that is not packed at + r * share_bytes. */
uint8_t *sel_part_share(const selene_store *store, const struct sel_copy_part *part, uint32_t piece);
/* Slots that so many pieces take. */
uint32_t sel_part_slots(const selene_store *store, uint32_t pieces, bool packed);
/* Pieces that lie in one slot. */
uint32_t sel_part_per_slot(const selene_store *store, bool packed);
/* The first checksum of a page. */
uint64_t *sel_part_sums(const selene_store *store, const struct sel_copy_part *part, uint32_t piece);
/* The data of slots [first, first + count), which are `slots[0]` on, as it lies on disk: the last slot of a packed part
 * may be partly filled, and what is behind its last piece is no data. Room for `count` vectors; returns how many. */
int sel_part_iov(const selene_store *store, const struct sel_copy_part *part, const uint32_t *slots, uint32_t first,
                 uint32_t count, struct iovec *iov);
struct sel_memory *sel_memory_create(void);
/* Room for `count` slot numbers and `sums` checksums; no slots are taken. */
int sel_copy_part_create(struct sel_copy_part *part, uint32_t count, size_t sums);
void sel_copy_part_destroy(selene_store *store, struct sel_copy_part *part); /* gives its slots back */
void sel_memory_destroy(selene_store *store, struct sel_memory **memory);    /* gives its slots back */
static inline uint32_t sel_memory_slots(const struct sel_memory *memory) {
    return memory->pages.count + memory->row.count;
}
/* The record appears in memory; takes the copy over (also on failure). Parked when no lower tier has it. */
int sel_memory_attach(selene_store *store, struct sel_node *node, struct sel_memory **memory);
/* Adds or replaces the row of a memory copy; takes the part over. */
void sel_memory_attach_row(selene_store *store, struct sel_node *node, struct sel_copy_part *row);
/* The record leaves memory; the node stays even when no tier holds it. */
void sel_memory_detach(selene_store *store, struct sel_node *node);
/* Parked or clean by what the lower tiers hold now: pages and row each [spec 1]. After every change of either. */
void sel_memory_refresh(selene_store *store, struct sel_node *node);
/* The row of a memory copy goes, its pages stay; the caller refreshes. */
void sel_memory_drop_row(selene_store *store, struct sel_node *node);
/* Whether the row in memory is one that a spill has to write: good, and not about to be thinned. */
bool sel_memory_row_kept(const struct sel_node *node);
/* Whether it is one that the disk lacks and would keep. */
bool sel_memory_row_parked(const selene_store *store, const struct sel_node *node);

/* ---- node.c: what a record of this store's layout holds where ---- */
uint32_t sel_node_first_page(const selene_store *store, const struct sel_node *node);
uint32_t sel_node_page_count(const selene_store *store, const struct sel_node *node);
/* Unpadded bytes of one page that holds its first `tokens` tokens, all ranks. */
uint64_t sel_page_bytes(const selene_store *store, uint32_t tokens);
uint64_t sel_node_bytes(const selene_store *store, const struct sel_node *node, enum sel_tier tier);
/* Adds a record to, or takes it out of (sign 1, -1), the gauges of what a tier holds [M4]: bytes, rows, packed or per
 * rank. Before and after every change of its copy there. */
void sel_node_count(selene_store *store, const struct sel_node *node, enum sel_tier tier, int sign);
bool sel_node_foreign(const selene_store *store, const struct sel_node *node);
bool sel_node_pages_readable(const struct sel_node *node, enum sel_tier tier);
bool sel_node_row_readable(const struct sel_node *node, enum sel_tier tier);
/* The cheapest tier that has the part; -1: none. */
int sel_node_tier(const struct sel_node *node, enum sel_lsm_part part);
bool sel_node_row_usable(void *store, const struct sel_node *node); /* sel_tree_usable */
/* Identifies a record of this store's layout to the lsm: enough to read it. */
void sel_node_identify(const selene_store *store, const struct sel_node *node, struct sel_lsm_record *record);
/* All that the index keeps of it; `*keys` (malloc'ed) is what record->page_keys points to. SELENE_E_INVALID for a
 * record of another layout. */
int sel_node_describe(const selene_store *store, const struct sel_node *node, struct sel_lsm_record *record,
                      struct sel_key **keys);
/* The chain from a node to its root, node first, in store->chain; SELENE_E_NOMEM or 0. */
int sel_node_chain(selene_store *store, struct sel_node *node, size_t *count);

/* ---- match.c ---- */
/* The longest match that can be read now [R1]: looks the prefix up and goes up the chain past records that failed. */
struct sel_match sel_match_find(selene_store *store, const struct sel_prefix *prefix, uint64_t limit_tokens);

/* ---- drop.c: copies that failed, records that leave ---- */
void sel_pin(selene_store *store, struct sel_node *node, enum sel_tier tier);
void sel_unpin(selene_store *store, struct sel_node *node, enum sel_tier tier); /* may free the node */
/* Pins where the record will stay longest: a lower tier first. */
enum sel_tier sel_pin_lowest(selene_store *store, struct sel_node *node);
/* A copy failed its checksum or read [R4]: counted, not read any more, dropped when unpinned. The caller holds a pin.
 */
void sel_copy_failed(selene_store *store, struct sel_node *node, enum sel_tier tier, enum sel_lsm_part part, int code);
/* Failures that are no fault of the copy: it may be read again. */
bool sel_copy_innocent(int code);
/* The record and all under it leave all tiers, what is pinned when its pins go. May free the node. */
void sel_doom(selene_store *store, struct sel_node *node);
/* Does what the flags ask for and pins allow; frees the node when no tier holds it. */
void sel_settle(selene_store *store, struct sel_node *node);
void sel_disk_detach(selene_store *store, struct sel_node *node); /* the record leaves disk; the node stays */
/* What no node names leaves disk; tried again when its transaction fails. */
void sel_disk_remove(selene_store *store, const struct sel_location *location);
/* The record has another row there. The caller holds a pin there, or settles. */
void sel_disk_set_row(selene_store *store, struct sel_node *node, struct sel_location location, bool packed);
/* Its row leaves disk, since nobody resumes at it or since it is bad: not usable from now on, gone with the next
 * transaction. If that fails it is tried again later; a good row is usable until then [T6]. Nothing pins it there. */
void sel_disk_remove_row(selene_store *store, struct sel_node *node);

/* ---- thin.c ---- */
/* The one predicate [T1, T5, T8]: whether the row of this record in this tier is one that nobody will resume at. A
 * function of the tree alone; O(spare_rows). False for layouts without rows and records of other layouts. */
bool sel_thin_wanted(const selene_store *store, const struct sel_node *node, enum sel_tier tier);
/* The same, once the disk has all records that are only in memory now: what it will not keep need not be written. */
bool sel_thin_ahead(const selene_store *store, const struct sel_node *node);
/* `node` was just committed in `tier`: releases its parent's fork hold there and thins what its coming has made interior
 * above it, at once or when the last pin goes. */
void sel_thin_committed(selene_store *store, struct sel_node *node, enum sel_tier tier);
/* The row was written by itself, and memory, where the node is pinned, may have kept it for that only. */
void sel_thin_written(selene_store *store, struct sel_node *node);
/* Does what SEL_THIN_ flags ask for where no pin is in the way: part of sel_settle. */
void sel_thin_settle(selene_store *store, struct sel_node *node);
/* A row came back by a publish at a thinned key: holds it in all tiers. */
void sel_thin_hold(struct sel_node *node);
/* sel_tree_release, and the ancestors that are now childless and thinned leave all tiers, too [P6]; those that are pinned
 * when their last pin goes. To be used wherever a record may have left its last tier. */
void sel_thin_release(selene_store *store, struct sel_node **node);
/* A record without row and child leaves all tiers, and is released like that. NULL-safe; may free the node. */
void sel_thin_barren(selene_store *store, struct sel_node *node);
/* After open: records without row and child are dropped, repeating upward [T7]. */
void sel_thin_recovered(selene_store *store);

/* ---- age.c, cost.c ---- */
void sel_age_init(selene_store *store);
void sel_age_recovered(selene_store *store); /* says so when all that was found is too old */
/* The clock of uses: the wall clock's time at open, going on with the monotonic clock. */
uint64_t sel_age_now(const selene_store *store);
/* A time of use as the wall clock has it now, in seconds: for the index. */
uint64_t sel_age_time_s(const selene_store *store, uint64_t use);
uint64_t sel_age_deadline_ns(const selene_store *store); /* the next sweep; UINT64_MAX: none */
void sel_age_step(selene_store *store);                  /* at most one sweep a minute [A1] */
void sel_costs_init(selene_store *store);
/* How long reading so many bytes of each tier may take [R3]; 0: nothing measured yet. */
uint64_t sel_cost_estimate(const selene_store *store, const uint64_t bytes[SEL_TIER_COUNT]);

/* ---- evict.c ---- */
/* Takes slots for records or windows, evicting what may go [M3]; `reserve` slots must stay free. False: no room. */
bool sel_slots_obtain(selene_store *store, uint32_t *ids, uint32_t count, uint32_t reserve);
/* For a window that is soon given back: the intake is there for it, so nothing is evicted while slots are free. */
bool sel_slots_obtain_window(selene_store *store, uint32_t *ids, uint32_t count);
/* For a record that comes back to memory: without displacing anything used at or after `use`, and with the intake left
 * whole [R5]. */
bool sel_slots_obtain_colder(selene_store *store, uint32_t *ids, uint32_t count, uint64_t use);
/* True when memory is the end of the chain: no disk, or one that takes nothing [D9]. */
bool sel_memory_is_last(const selene_store *store);
/* For whom the disk makes room. */
struct sel_room {
    uint64_t use;     /* of the leaf that it is for */
    bool only_colder; /* what was used at or after that stays (a drain); else the coldest goes, whatever it is */
};
/* Removes the coldest records from disk until so many bytes can be written [D6]; false when nothing more can go. */
bool sel_disk_make_room(selene_store *store, uint64_t bytes, const struct sel_room *room);
void sel_removals_step(selene_store *store);
void sel_removals_moved(selene_store *store, const struct sel_location *from, const struct sel_location *to);
void sel_removals_free(selene_store *store);

/* ---- publish.c, publish_stream.c ---- */
void sel_publishes_step(selene_store *store); /* those that wait for room */
void sel_streams_step(selene_store *store);

/* ---- restore.c, restore_load.c ---- */
void sel_restores_late_step(selene_store *store); /* those whose caller's event may have happened */
void sel_loads_step(selene_store *store);

/* ---- spill.c ---- */
void sel_spill_pressure(selene_store *store);
/* Starts to write a record and its uncommitted ancestors, root-most first. 0 when all are on their way or committed;
 * SELENE_E_RETRY: not now (caps, disk); SELENE_E_PARENT: one of the chain cannot be written, since its copy failed and is
 * about to leave; SELENE_E_OVERSIZE: one was dropped. `only_colder`: see struct sel_room. */
int sel_spill_chain(selene_store *store, struct sel_node *node, bool only_colder);
/* Whether a write that failed is an affair of the disk and not of the record's: it consumes no attempt [P4, D9]. */
bool sel_write_innocent(const selene_store *store, int code);
bool sel_spill_data_in_flight(const selene_store *store);
void sel_spills_free(selene_store *store); /* at close */

/* ---- drain.c ---- */
void sel_drain_step(selene_store *store);
void sel_drain_committed(selene_store *store, uint64_t bytes);
void sel_drain_again(selene_store *store); /* a spill failed and is to be tried again */
/* This record, and with it those under it, is about to be dropped since it cannot be written. */
void sel_drain_dropped(selene_store *store, struct sel_node *node);
void sel_drain_row_dropped(selene_store *store); /* the same of a row alone */

int sel_store_check(selene_store *store, struct selene_message *message);

#endif
