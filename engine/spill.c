/* SPDX-License-Identifier: Apache-2.0
 *
 * Write-back [P2, P3, P4]: parked records go to disk when memory needs the room, coldest leaf first, each with its
 * uncommitted ancestors before it.
 *
 *   parked --sel_spill_chain--> being written (pinned in memory; its parent pinned on disk) --committed--> clean
 *                                    `--failed--> parked again; a second time: dropped with what is under it
 *
 * A committed parent must not leave the disk while a child is being written, else the child would commit without it:
 * so the parent is pinned there, from the start or from its own commit on.
 *
 * A row that came back to a record that is on disk already [T5], or that memory alone has since the disk's went bad, is
 * written by itself, as one new row extent; the record is pinned in both tiers meanwhile.
 */
#include "engine/store_priv.h"

#include <string.h>

/* In flight at most. A quarter of a GiB keeps several groups of 64 MiB in the pipe, so that the disk writes while one
 * commits; more would only make memory wait longer for the first of them. The count lets records of 64 KiB and more fill
 * it, and bounds what small ones take beside their slots. */
#define SEL_SPILL_BYTES_MAX (UINT64_C(256) << 20)
#define SEL_SPILL_COUNT_MAX 4096

struct sel_spill_piece {
    struct sel_op op;
    struct sel_spill *spill;
    struct iovec *iov;
    int iov_count;
    enum sel_lsm_part part;
    uint64_t offset;
};

struct sel_spill {
    struct sel_list link; /* in store->spills */
    selene_store *store;
    struct sel_node *node;
    struct sel_node *parent; /* NULL: root */
    bool parent_pinned;
    bool has_row;
    bool row_only;
    bool pages_packed, row_packed; /* as they are written [K2] */
    bool writing;                  /* its data is not all written */
    struct sel_list children;      /* spills that began while this one was not committed: by `sibling` */
    struct sel_list sibling;
    struct sel_lsm_write *write;
    struct sel_op finish;
    unsigned in_flight;  /* pieces and the finish */
    uint64_t started_ns; /* and how much had been written by then: a sample of the disk's speed */
    uint64_t written_before;
    uint64_t bytes;
    uint32_t slots;
    struct sel_request *event; /* of the commit, when the caller wants it */
    struct iovec *iov;
    uint32_t piece_count;
    struct sel_spill_piece pieces[];
};

static void spill_free(struct sel_spill *spill) {
    free(spill->event);
    free(spill->iov);
    free(spill);
}

/* ---- the end ---- */

static void pin_parent_of_children(struct sel_spill *spill) {
    for (struct sel_list *link = sel_list_pop(&spill->children); link; link = sel_list_pop(&spill->children)) {
        struct sel_spill *child = SEL_LIST_ENTRY(link, struct sel_spill, sibling);
        sel_pin(spill->store, spill->node, SEL_TIER_DISK);
        child->parent_pinned = true;
    }
}

static int committed(struct sel_spill *spill) {
    selene_store *store = spill->store;
    struct sel_node *node = spill->node;
    struct sel_location location = sel_lsm_write_location(spill->write);
    node->disk = location;
    node->flags |=
        (uint16_t)((spill->pages_packed ? SEL_DISK_PAGES_PACKED : 0) | (spill->row_packed ? SEL_DISK_ROW_PACKED : 0));
    int result = SELENE_E_PARENT;
    if (!spill->parent || spill->parent->tier[SEL_TIER_DISK].present)
        result = sel_tree_add_to(store->tree, node, SEL_TIER_DISK, false);
    if (result) { /* no memory to know of it, or of its parent: then it must not be there */
        node->disk = (struct sel_location){0};
        node->flags &= (uint16_t) ~(SEL_DISK_PAGES_PACKED | SEL_DISK_ROW_PACKED);
        sel_disk_remove(store, &location);
        return result;
    }
    sel_node_count(store, node, SEL_TIER_DISK, 1);
    store->stats.spills++;
    ((struct sel_memory *)node->memory)->write_failures = 0; /* those of the next write are its own [P4] */
    sel_memory_refresh(store, node);
    sel_thin_committed(store, node, SEL_TIER_DISK);
    pin_parent_of_children(spill);
    sel_event_committed(store, &spill->event, node);
    return 0;
}

/* The record has its row on disk again. */
static int row_committed(struct sel_spill *spill) {
    selene_store *store = spill->store;
    struct sel_node *node = spill->node;
    if (node->disk.pages == 0) /* given up by the record store, and about to leave */
        return SELENE_E_GONE;
    sel_disk_set_row(store, node, sel_lsm_write_location(spill->write), spill->row_packed);
    sel_thin_written(store, node);
    ((struct sel_memory *)node->memory)->write_failures = 0;
    return 0;
}

bool sel_write_innocent(const selene_store *store, int code) {
    return code == SELENE_E_NOSPACE || code == SELENE_E_DEGRADED || code == SELENE_E_CLOSED ||
           sel_copy_innocent(code) || sel_lsm_state(store->lsm) != SEL_LSM_OK;
}

/* True when the record has failed for good. A failing disk or parent is not the record's fault [P4, D9]. */
static bool failed(struct sel_spill *spill, int code) {
    selene_store *store = spill->store;
    struct sel_memory *memory = spill->node->memory;
    if (code == SELENE_E_PARENT || (spill->row_only && code == SELENE_E_GONE)) /* the disk has its row, or has it not */
        return false;
    store->stats.io_errors[SEL_TIER_DISK]++;
    if (sel_write_innocent(store, code))
        return false;
    if (++memory->write_failures > 1)
        return true;
    store->stats.spill_retries++;
    return false;
}

/* What the disk wrote while this record's data was on its way, whoever's it was. The wait for the group is not part of
 * it: that says how long a commit takes and nothing of how much the disk can write. */
static void data_written(struct sel_spill *spill) {
    selene_store *store = spill->store;
    store->spills_writing--;
    spill->writing = false;
    store->spill_written_bytes += spill->bytes;
    sel_rate_add(&store->write_rate, store->spill_written_bytes - spill->written_before,
                 sel_mono_ns(store->clock) - spill->started_ns);
}

/* It can never be written: memory was the end of its chain [P4, P6]. */
static void drop_record(selene_store *store, struct sel_node *node) {
    if (store->drain)
        sel_drain_dropped(store, node);
    sel_doom(store, node);
}

/* Nor can this row be; nobody resumes at it any more, but the pages are on disk, and what is under it stays. */
static void drop_row(selene_store *store, struct sel_node *node) {
    if (store->drain)
        sel_drain_row_dropped(store);
    node->flags |= SEL_BAD_MEMORY_ROW;
}

static void spill_done(struct sel_spill *spill) {
    selene_store *store = spill->store;
    struct sel_node *node = spill->node;
    struct sel_memory *memory = node->memory;
    bool drop = false;
    sel_list_remove(&spill->link);
    store->spill_count--;
    store->spill_bytes -= spill->bytes;
    store->spill_slots -= spill->slots;
    store->spills_writing -= spill->writing;
    memory->spill = NULL;
    int result = spill->finish.result;
    if (!result)
        result = spill->row_only ? row_committed(spill) : committed(spill);
    if (result)
        drop = failed(spill, result);
    if (store->drain && !result)
        sel_drain_committed(store, spill->bytes);
    else if (store->drain && !drop)
        sel_drain_again(store);
    while (sel_list_pop(&spill->children)) /* they fail, too */
        ;
    sel_list_remove(&spill->sibling);
    sel_lsm_write_free(&spill->write);
    if (spill->parent_pinned)
        sel_unpin(store, spill->parent, SEL_TIER_DISK);
    if (drop && spill->row_only)
        drop_row(store, node);
    else if (drop)
        drop_record(store, node);
    if (spill->row_only)
        sel_unpin(store, node, SEL_TIER_DISK);
    spill_free(spill);
    sel_unpin(store, node, SEL_TIER_MEMORY);
}

static void op_done(struct sel_spill *spill) {
    spill->in_flight--;
    if (spill->in_flight == 1 && spill->finish.in_flight)
        data_written(spill);
    if (spill->in_flight == 0)
        spill_done(spill);
}
static void piece_done(struct sel_op *op) { op_done(SEL_CONTAINER(op, struct sel_spill_piece, op)->spill); }
static void finish_done(struct sel_op *op) { op_done(SEL_CONTAINER(op, struct sel_spill, finish)); }

/* ---- the beginning ---- */

static uint32_t pieces_of(uint32_t slots) { return (slots + SEL_WINDOW_SLOTS - 1) / SEL_WINDOW_SLOTS; }

/* Cuts one part into pieces of a window, runs of neighbouring slots in one vector. */
static void cut_part(struct sel_spill *spill, enum sel_lsm_part kind, const struct sel_copy_part *part,
                     struct iovec **iov) {
    const selene_store *store = spill->store;
    for (uint32_t i = 0; i < part->count; i += SEL_WINDOW_SLOTS) {
        uint32_t count = SEL_MIN(part->count - i, (uint32_t)SEL_WINDOW_SLOTS);
        struct sel_spill_piece *piece = &spill->pieces[spill->piece_count++];
        *piece =
            (struct sel_spill_piece){.spill = spill, .iov = *iov, .part = kind, .offset = i * store->slots.slot_bytes};
        sel_op_init(&piece->op, piece_done);
        piece->iov_count = sel_part_iov(store, part, part->slots + i, i, count, piece->iov);
        *iov += piece->iov_count;
    }
}

static struct sel_spill *spill_create(selene_store *store, struct sel_node *node) {
    const struct sel_memory *memory = node->memory;
    bool row_only = node->tier[SEL_TIER_DISK].present;
    uint32_t pieces = pieces_of(memory->pages.count) + pieces_of(memory->row.count);
    struct sel_spill *spill = calloc(1, sizeof *spill + pieces * sizeof spill->pieces[0]);
    if (!spill)
        return NULL;
    spill->store = store;
    spill->node = node;
    spill->row_only = row_only;
    spill->parent = row_only ? NULL : node->parent;
    spill->pages_packed = memory->pages.packed;
    spill->has_row = sel_memory_row_kept(node); /* not one that a child has made superfluous [T2] */
    spill->row_packed = spill->has_row && memory->row.packed;
    spill->slots = sel_memory_slots(memory);
    sel_list_init(&spill->link);
    sel_list_init(&spill->children);
    sel_list_init(&spill->sibling);
    sel_op_init(&spill->finish, finish_done);
    spill->iov = malloc(spill->slots * sizeof *spill->iov);
    if (!spill->iov || sel_event_prepare(store, &spill->event)) {
        spill_free(spill);
        return NULL;
    }
    struct iovec *iov = spill->iov;
    if (!row_only)
        cut_part(spill, SEL_LSM_PAGES, &memory->pages, &iov);
    if (spill->has_row)
        cut_part(spill, SEL_LSM_ROW, &memory->row, &iov);
    return spill;
}

/* Bytes on disk of what is written; 0: it can never fit. */
static uint64_t bytes_of(const struct sel_spill *spill, const struct sel_lsm_record *record) {
    const selene_store *store = spill->store;
    const struct sel_layout *layout = store->layout;
    uint32_t pages = sel_node_page_count(store, spill->node), keys = record->page_key_count;
    bool packed = record->pages_replicated;
    uint64_t bytes = sel_lsm_record_bytes(layout, pages, keys, packed, record->has_row, record->row_replicated);
    if (sel_lsm_oversize(store->lsm, layout, pages, keys, packed, record->has_row, record->row_replicated))
        return 0; /* nothing is removed for what never fits */
    return spill->row_only ? bytes - sel_lsm_record_bytes(layout, pages, keys, packed, false, false) : bytes;
}

/* The lsm's word. */
static int write_begin(struct sel_spill *spill, const struct sel_lsm_record *record) {
    selene_store *store = spill->store;
    struct sel_node *node = spill->node, *parent = spill->parent;
    struct sel_lsm_write *parent_write = NULL;
    int result;
    if (spill->row_only) {
        result = sel_lsm_write_row_begin(store->lsm, store->layout, record, &node->disk, &spill->write);
        return result == SELENE_E_GONE ? SELENE_E_RETRY : result; /* something is still on its way */
    }
    if (parent && !parent->tier[SEL_TIER_DISK].present)
        parent_write = ((struct sel_memory *)parent->memory)->spill->write;
    return sel_lsm_write_begin(store->lsm, store->layout, record, parent_write, &spill->write);
}

/* Room, a description, and the lsm's word. */
static int spill_begin(struct sel_spill *spill, const struct sel_room *room) {
    selene_store *store = spill->store;
    struct sel_lsm_record record;
    struct sel_key *keys = NULL;
    int result = sel_node_describe(store, spill->node, &record, &keys);
    if (result)
        return result;
    record.has_row = spill->has_row;
    record.row_replicated = spill->row_packed;
    if (!spill->row_only)
        record.pages_replicated = spill->pages_packed;
    spill->bytes = bytes_of(spill, &record);
    if (store->spill_count >= SEL_SPILL_COUNT_MAX ||
        (store->spill_count && store->spill_bytes + spill->bytes > SEL_SPILL_BYTES_MAX))
        result = SELENE_E_RETRY;
    else if (spill->bytes == 0)
        result = SELENE_E_OVERSIZE;
    else if (!sel_disk_make_room(store, spill->bytes, room))
        result = SELENE_E_NOSPACE;
    else if ((result = write_begin(spill, &record)) != SELENE_E_NOSPACE)
        store->disk_stuck = false;
    free(keys);
    return result;
}

static void spill_submit(struct sel_spill *spill) {
    selene_store *store = spill->store;
    struct sel_memory *memory = spill->node->memory;
    sel_pin(store, spill->node, SEL_TIER_MEMORY);
    memory->spill = spill;
    spill->started_ns = sel_mono_ns(store->clock);
    spill->written_before = store->spill_written_bytes;
    store->spill_count++;
    store->spills_writing++;
    spill->writing = true;
    store->spill_bytes += spill->bytes;
    store->spill_slots += spill->slots;
    sel_list_add_tail(&store->spills, &spill->link);
    if (spill->parent && !spill->parent_pinned) /* sel_spill_chain saw to it that the parent is being written */
        sel_list_add_tail(&((struct sel_memory *)spill->parent->memory)->spill->children, &spill->sibling);
    spill->in_flight = spill->piece_count + 1;
    for (uint32_t i = 0; i < spill->piece_count; i++) {
        struct sel_spill_piece *piece = &spill->pieces[i];
        sel_lsm_write_data(spill->write, piece->part, piece->offset, piece->iov, piece->iov_count, &piece->op);
    }
    sel_lsm_write_finish(spill->write, spill->row_only ? NULL : memory->pages.sums, memory->row.sums, &spill->finish);
}

/* Starts one record whose parent is committed or on its way, or the row of one that is committed itself.
 * SELENE_E_OVERSIZE: it was dropped. */
static int spill_start(selene_store *store, struct sel_node *node, const struct sel_room *room) {
    struct sel_spill *spill = spill_create(store, node);
    if (!spill)
        return SELENE_E_NOMEM;
    if (spill->parent && spill->parent->tier[SEL_TIER_DISK].present) {
        sel_pin(store, spill->parent, SEL_TIER_DISK);
        spill->parent_pinned = true;
    }
    bool row_only = spill->row_only;
    if (row_only) /* before room is made */
        sel_pin(store, node, SEL_TIER_DISK);
    int result = spill_begin(spill, room);
    if (result == 0) {
        spill_submit(spill);
        return 0;
    }
    if (spill->parent_pinned)
        sel_unpin(store, spill->parent, SEL_TIER_DISK);
    spill_free(spill);
    if (result == SELENE_E_OVERSIZE && row_only)
        drop_row(store, node);
    else if (result == SELENE_E_OVERSIZE)
        drop_record(store, node);
    if (row_only)
        sel_unpin(store, node, SEL_TIER_DISK);
    return result;
}

/* Rows of committed records of the chain; the first failure, the others are tried all the same. */
static int start_rows(selene_store *store, size_t count, const struct sel_room *room) {
    int result = 0;
    for (size_t i = count; i-- > 0;) {
        struct sel_node *node = store->chain[i];
        const struct sel_memory *memory = node->memory;
        if (!node->tier[SEL_TIER_DISK].present || !sel_memory_row_parked(store, node) || memory->spill)
            continue;
        int one = spill_start(store, node, room);
        result = result ? result : one;
    }
    return result;
}

/* The records of the chain that are not on disk. */
static int start_records(selene_store *store, size_t count, const struct sel_room *room) {
    int result;
    /* Up to the first that is committed; whatever is above it is, too. */
    size_t first = 0;
    while (first < count && !store->chain[first]->tier[SEL_TIER_DISK].present)
        first++;
    /* One whose copy there is bad is about to leave; what is under it must wait until it was written again. */
    if (first < count && (store->chain[first]->flags & (SEL_BAD_DISK | SEL_DOOMED)))
        return SELENE_E_PARENT;
    while (first-- > 0) {
        struct sel_node *next = store->chain[first];
        struct sel_memory *memory = next->memory;
        if (!sel_node_pages_readable(next, SEL_TIER_MEMORY) || memory->spill) {
            if (memory && memory->spill)
                continue;
            return SELENE_E_PARENT; /* about to be dropped */
        }
        result = spill_start(store, next, room);
        if (result)
            return result;
    }
    return 0;
}

int sel_spill_chain(selene_store *store, struct sel_node *node, bool only_colder) {
    const struct sel_room room = {node->last_use, only_colder};
    size_t count = 0;
    if (!store->lsm || sel_lsm_state(store->lsm) != SEL_LSM_OK)
        return SELENE_E_DEGRADED;
    int result = sel_node_chain(store, node, &count);
    if (result)
        return result;
    /* Making room for one of them must not free another: those above are not freed while it is there. */
    sel_pin(store, node, SEL_TIER_MEMORY);
    result = start_records(store, count, &room);
    if (!result)
        result = start_rows(store, count, &room);
    sel_unpin(store, node, SEL_TIER_MEMORY);
    return result;
}

/* Free and clean slots that write-back keeps ahead: two intakes, in a small memory at most half of the warm tier beside
 * the intake; and what somebody waits for. */
static uint64_t pressure_target(const selene_store *store) {
    uint64_t intake = store->intake_slots;
    uint64_t target = SEL_MIN(2 * intake, intake + store->warm_slots / 2);
    return SEL_MAX(target, store->wanted_slots);
}

void sel_spill_pressure(selene_store *store) {
    uint64_t target = pressure_target(store);
    if (store->parked_count == 0 || sel_lsm_state(store->lsm) != SEL_LSM_OK)
        return;
    while (store->slots.free_count + store->clean_slots + store->spill_slots < target ||
           (store->force_spill && store->spill_count == 0)) {
        struct sel_node *node = sel_tree_coldest(store->tree, SEL_TIER_MEMORY, SEL_ORDER_PARKED);
        uint32_t before = store->spill_count;
        store->force_spill = false;
        if (!node || sel_spill_chain(store, node, false) || store->spill_count == before)
            return;
    }
}

bool sel_spill_data_in_flight(const selene_store *store) {
    for (const struct sel_list *link = store->spills.next; link != &store->spills; link = link->next) {
        const struct sel_spill *spill = SEL_LIST_ENTRY(link, struct sel_spill, link);
        if (spill->in_flight > (spill->finish.in_flight ? 1u : 0u))
            return true;
    }
    return false;
}

void sel_spills_free(selene_store *store) {
    struct sel_list *link;
    while ((link = sel_list_pop(&store->spills)) != NULL) {
        struct sel_spill *spill = SEL_LIST_ENTRY(link, struct sel_spill, link);
        ((struct sel_memory *)spill->node->memory)->spill = NULL;
        spill_free(spill);
    }
}
