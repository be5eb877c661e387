/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads: one part of one record on its way from disk, for all restores that want it [R2]; see restore_priv.h.
 *
 * Order: header and first chunk in one I/O; then every chunk that somebody wants, several in flight; each is copied to
 * those who want it as it comes. A piece that joins late gets the chunks that are still there at once and the others
 * when the scan, which runs in a circle, comes by.
 */
#include "engine/restore_priv.h"

#include <string.h>

/* Windows that one load borrows at a time: enough for the drive to have work while two are copied, and no more, since
 * other loads want their share of the intake [fault 19]. */
#define SEL_LOAD_WINDOWS 4

static void chunk_read(struct sel_chunk *chunk);

/* The pieces that a chunk brings. */
static uint32_t chunk_first_piece(const struct sel_chunk *chunk) {
    return chunk->first * sel_part_per_slot(chunk->load->store, chunk->load->part.packed);
}
static uint32_t chunk_end_piece(const struct sel_chunk *chunk) {
    const struct sel_copy_part *part = &chunk->load->part;
    uint64_t end = (uint64_t)(chunk->first + chunk->count) * sel_part_per_slot(chunk->load->store, part->packed);
    return (uint32_t)SEL_MIN(end, part->pieces);
}

static bool chunk_wanted(const struct sel_chunk *chunk) {
    const struct sel_load *load = chunk->load;
    size_t index = (size_t)(chunk - load->chunks);
    if (load->keep)
        return true;
    for (const struct sel_list *link = load->pieces.next; link != &load->pieces; link = link->next)
        if (SEL_LIST_ENTRY(link, struct sel_piece, link)->feeds[index].state == SEL_FEED_WANTED)
            return true;
    return false;
}

static void chunk_give_back(struct sel_chunk *chunk) {
    struct sel_load *load = chunk->load;
    chunk->state = SEL_CHUNK_IDLE;
    if (load->keep)
        return;
    sel_slots_give(&load->store->slots, chunk->slots, chunk->count);
    load->borrowed--;
}

/* ---- the end ---- */

static bool load_complete(const struct sel_load *load) {
    for (uint32_t i = 0; i < load->chunk_count; i++)
        if (load->chunks[i].state != SEL_CHUNK_READY)
            return false;
    return load->keep && !load->bad && !load->result;
}

/* What was read stays as a clean copy. */
static void keep_part(struct sel_load *load) {
    selene_store *store = load->store;
    struct sel_node *node = load->node;
    struct sel_memory *memory = node->memory;
    if (!sel_node_pages_readable(node, SEL_TIER_DISK))
        return;
    if (load->part_kind == SEL_LSM_ROW) {
        if (memory && memory->row.count == 0)
            sel_memory_attach_row(store, node, &load->part);
        return;
    }
    if (memory || (memory = sel_memory_create()) == NULL)
        return;
    memory->pages = load->part;
    memset(&load->part, 0, sizeof load->part);
    (void)sel_memory_attach(store, node, &memory); /* without memory for it the record is on disk only, as before */
}

static void load_free(struct sel_load *load) {
    selene_store *store = load->store;
    for (uint32_t i = 0; i < load->chunk_count; i++) {
        if (!load->keep && load->chunks[i].slots)
            free(load->chunks[i].slots);
        free(load->chunks[i].iov);
    }
    free(load->chunks);
    sel_copy_part_destroy(store, &load->part);
    free(load);
}

static void load_maybe_end(struct sel_load *load) {
    selene_store *store = load->store;
    struct sel_node *node = load->node;
    if (load->hold || load->reads || !sel_list_empty(&load->pieces))
        return;
    for (uint32_t i = 0; i < load->chunk_count; i++)
        if (load->chunks[i].users)
            return;
    for (uint32_t i = 0; i < load->chunk_count && !load->keep; i++)
        if (load->chunks[i].state == SEL_CHUNK_READY)
            chunk_give_back(&load->chunks[i]);
    if (load->reader)
        sel_lsm_reader_close(&load->reader);
    if (load_complete(load))
        keep_part(load);
    sel_list_remove(&load->link);
    store->load_count--;
    load_free(load);
    sel_unpin(store, node, SEL_TIER_DISK);
}

/* ---- reading ---- */

static void load_fail(struct sel_load *load, int code) {
    load->result = code;
    load->bad = true;
    load->hold++;
    SEL_LIST_FOR_EACH(link, &load->pieces)
    sel_piece_fail(SEL_LIST_ENTRY(link, struct sel_piece, link), code);
    load->hold--;
}

/* Gives a ready chunk to a piece that wants it. */
static void chunk_feed(struct sel_chunk *chunk, struct sel_piece *piece) {
    struct sel_load *load = chunk->load;
    struct sel_feed *feed = &piece->feeds[chunk - load->chunks];
    if (feed->state != SEL_FEED_WANTED || piece->hold)
        return;
    uint32_t first = chunk_first_piece(chunk);
    uint32_t begin = SEL_MAX(first, piece->first);
    uint32_t end = SEL_MIN(chunk_end_piece(chunk), piece->first + piece->count);
    /* The chunk as a part of its own. */
    struct sel_copy_part part = {.packed = load->part.packed, .slots = chunk->slots};
    part.sums = sel_part_sums(load->store, &load->part, load->part_kind == SEL_LSM_ROW ? 0 : first);
    feed->chunk = chunk;
    chunk->users++;
    sel_feed_start(piece, feed, begin - piece->first, end - begin, &part, begin - first);
}

static void chunk_deliver(struct sel_chunk *chunk) {
    struct sel_load *load = chunk->load;
    SEL_LIST_FOR_EACH(link, &load->pieces)
    chunk_feed(chunk, SEL_LIST_ENTRY(link, struct sel_piece, link));
    if (chunk->users == 0 && !load->keep)
        chunk_give_back(chunk);
}

void sel_chunk_release(struct sel_chunk *chunk) {
    struct sel_load *load = chunk->load;
    if (--chunk->users == 0 && !load->keep)
        chunk_give_back(chunk);
    load_maybe_end(load);
}

/* Without padding, of a packed part one share of each piece: as the estimate counts them [R3]. */
static uint64_t chunk_bytes(const struct sel_chunk *chunk) {
    const struct sel_load *load = chunk->load;
    const struct sel_layout *layout = load->store->layout;
    uint64_t pieces = chunk_end_piece(chunk) - chunk_first_piece(chunk);
    uint64_t shares = pieces * (load->part.packed ? 1 : layout->desc.rank_count);
    if (load->part_kind == SEL_LSM_ROW)
        return layout->desc.row_bytes * shares / layout->row_slots;
    return layout->page_bytes * shares;
}

static void chunk_read_done(struct sel_op *op) {
    struct sel_chunk *chunk = SEL_CONTAINER(op, struct sel_chunk, op);
    struct sel_load *load = chunk->load;
    sel_transfer_end(load->store, SEL_TIER_DISK, op->result ? 0 : chunk_bytes(chunk));
    load->reads--;
    load->hold++;
    chunk->state = SEL_CHUNK_READY;
    if (op->result && !load->result)
        load_fail(load, op->result);
    chunk_deliver(chunk);
    load->hold--;
    load_maybe_end(load);
}

/* Slots for a chunk of a load that is not kept; false: none now. */
static bool chunk_borrow(struct sel_chunk *chunk) {
    struct sel_load *load = chunk->load;
    if (load->keep)
        return true;
    if (load->borrowed >= SEL_LOAD_WINDOWS || !sel_slots_obtain_window(load->store, chunk->slots, chunk->count))
        return false;
    load->borrowed++;
    return true;
}

static int chunk_iov(struct sel_chunk *chunk) {
    const struct sel_load *load = chunk->load;
    return sel_part_iov(load->store, &load->part, chunk->slots, chunk->first, chunk->count, chunk->iov);
}

static void chunk_read(struct sel_chunk *chunk) {
    struct sel_load *load = chunk->load;
    chunk->state = SEL_CHUNK_READING;
    load->reads++;
    sel_transfer_begin(load->store, SEL_TIER_DISK);
    sel_lsm_reader_read(load->reader, chunk->first * load->store->slots.slot_bytes, chunk->iov, chunk_iov(chunk),
                        &chunk->op);
}

/* Checksums of the part. */
static size_t load_sums(const struct sel_load *load) {
    size_t each = load->part.packed ? 1 : load->store->layout->desc.rank_count;
    return load->part_kind == SEL_LSM_ROW ? each : load->part.pieces * each;
}

static void open_done(struct sel_op *op) {
    struct sel_load *load = SEL_CONTAINER(op, struct sel_load, open_op);
    struct sel_chunk *first = &load->chunks[0];
    size_t count = 0;
    int result = op->result;
    sel_transfer_end(load->store, SEL_TIER_DISK,
                     result == 0 && first->state == SEL_CHUNK_READING ? chunk_bytes(first) : 0);
    load->reads--;
    load->opened = true;
    load->hold++;
    if (first->state == SEL_CHUNK_READING)
        first->state = SEL_CHUNK_READY;
    if (!result) {
        const uint64_t *sums = sel_lsm_reader_sums(load->reader, &count);
        if (sel_lsm_reader_replicated(load->reader) != load->part.packed || count != load_sums(load))
            result = SELENE_E_CORRUPT;
        else
            memcpy(load->part.sums, sums, count * sizeof *sums);
    }
    if (result)
        load_fail(load, result);
    if (first->state == SEL_CHUNK_READY)
        chunk_deliver(first);
    load->hold--;
    load_maybe_end(load);
}

static void load_open(struct sel_load *load) {
    struct sel_chunk *first = &load->chunks[0];
    int iov_count = 0;
    if (chunk_wanted(first)) {
        if (!chunk_borrow(first))
            return; /* tried again when slots are free */
        first->state = SEL_CHUNK_READING;
        iov_count = chunk_iov(first);
    }
    load->reads++;
    sel_transfer_begin(load->store, SEL_TIER_DISK);
    sel_lsm_reader_open(load->store->lsm, load->store->layout, &load->record, &load->node->disk, load->part_kind,
                        first->iov, iov_count, &load->reader, &load->open_op);
}

/* Starts what is wanted and not on its way. */
static void load_step(struct sel_load *load) {
    if (load->result)
        return;
    if (!load->opened) {
        if (load->reads == 0)
            load_open(load);
        return;
    }
    for (uint32_t i = 0; i < load->chunk_count; i++) {
        struct sel_chunk *chunk = &load->chunks[load->cursor];
        if (chunk->state == SEL_CHUNK_IDLE && chunk_wanted(chunk)) {
            if (!chunk_borrow(chunk))
                return;
            chunk_read(chunk);
        }
        load->cursor = (load->cursor + 1) % load->chunk_count;
    }
}

void sel_loads_step(selene_store *store) {
    SEL_LIST_FOR_EACH(link, &store->loads)
    load_step(SEL_LIST_ENTRY(link, struct sel_load, link));
}

/* ---- the beginning ---- */

static int load_chunks(struct sel_load *load) {
    uint32_t window = load->store->window_slots;
    load->chunk_count = (load->slot_count + window - 1) / window;
    load->chunks = calloc(load->chunk_count, sizeof *load->chunks);
    if (!load->chunks) {
        load->chunk_count = 0;
        return SELENE_E_NOMEM;
    }
    for (uint32_t i = 0; i < load->chunk_count; i++) {
        struct sel_chunk *chunk = &load->chunks[i];
        chunk->load = load;
        chunk->first = i * window;
        chunk->count = SEL_MIN(window, load->slot_count - chunk->first);
        chunk->iov = malloc(chunk->count * sizeof *chunk->iov);
        chunk->slots = load->keep ? load->part.slots + chunk->first : malloc(chunk->count * sizeof *chunk->slots);
        sel_op_init(&chunk->op, chunk_read_done);
        if (!chunk->iov || !chunk->slots)
            return SELENE_E_NOMEM;
    }
    return 0;
}

/* Whether the copy may stay in memory: a row only beside its pages. */
static bool may_keep(const struct sel_piece *piece, bool pages_coming) {
    const struct sel_memory *memory = piece->node->memory;
    if (piece->restore->store->warm_slots == 0)
        return false;
    if (piece->part == SEL_LSM_ROW)
        return memory ? memory->row.count == 0 : pages_coming;
    return memory == NULL;
}

static struct sel_load *load_find(const struct sel_piece *piece, enum sel_lsm_part part) {
    selene_store *store = piece->restore->store;
    /* A load pins its record; the piece's own pin is the other. */
    if (piece->node->tier[SEL_TIER_DISK].pins < 2)
        return NULL;
    for (struct sel_list *link = store->loads.next; link != &store->loads; link = link->next) {
        struct sel_load *load = SEL_LIST_ENTRY(link, struct sel_load, link);
        if (load->node == piece->node && load->part_kind == part && !load->bad)
            return load;
    }
    return NULL;
}

static int load_create(const struct sel_piece *piece, bool keep_only, struct sel_load **out) {
    selene_store *store = piece->restore->store;
    struct sel_node *node = piece->node;
    bool row = piece->part == SEL_LSM_ROW;
    const struct sel_load *pages = row ? load_find(piece, SEL_LSM_PAGES) : NULL;
    struct sel_load *load = calloc(1, sizeof *load);
    if (!load)
        return SELENE_E_NOMEM;
    load->store = store;
    load->node = node;
    load->part_kind = piece->part;
    load->part.pieces = row ? store->layout->row_slots : sel_node_page_count(store, node);
    load->part.packed = node->flags & (row ? SEL_DISK_ROW_PACKED : SEL_DISK_PAGES_PACKED);
    load->slot_count = sel_part_slots(store, load->part.pieces, load->part.packed);
    sel_list_init(&load->link);
    sel_list_init(&load->pieces);
    sel_op_init(&load->open_op, open_done);
    sel_node_identify(store, node, &load->record);
    load->record.has_row = node->disk.row != 0;
    int result = sel_copy_part_create(&load->part, load->slot_count, load_sums(load));
    if (!result && may_keep(piece, pages && pages->keep) &&
        sel_slots_obtain_colder(store, load->part.slots, load->slot_count, piece->previous_use)) {
        load->part.count = load->slot_count;
        load->keep = true;
    }
    if (!result && keep_only && !load->keep)
        result = SELENE_E_RETRY;
    if (!result)
        result = load_chunks(load);
    if (result) {
        load_free(load);
        return result;
    }
    sel_pin(store, node, SEL_TIER_DISK);
    sel_list_add_tail(&store->loads, &load->link);
    store->load_count++;
    *out = load;
    return 0;
}

static int attach(struct sel_piece *piece, bool keep_only) {
    struct sel_load *load = load_find(piece, piece->part);
    int result;
    if (load && keep_only && !load->keep)
        return SELENE_E_RETRY;
    if (!load && (result = load_create(piece, keep_only, &load)) != 0)
        return result;
    piece->load = load;
    sel_list_add_tail(&load->pieces, &piece->link);
    result = sel_piece_feeds(piece, load->chunk_count);
    if (result) {
        sel_load_detach(piece);
        return result;
    }
    for (uint32_t i = 0; i < load->chunk_count; i++) {
        const struct sel_chunk *chunk = &load->chunks[i];
        bool apart = chunk_first_piece(chunk) >= piece->first + piece->count || chunk_end_piece(chunk) <= piece->first;
        if (apart) {
            piece->feeds[i].state = SEL_FEED_DONE;
            piece->feeds_left--;
        }
    }
    if (load->opened)
        sel_load_feed(piece);
    load_step(load);
    return 0;
}

int sel_load_attach(struct sel_piece *piece) { return attach(piece, false); }
int sel_load_attach_kept(struct sel_piece *piece) { return attach(piece, true); }

void sel_load_feed(struct sel_piece *piece) {
    struct sel_load *load = piece->load;
    if (!load->opened || load->result)
        return;
    for (uint32_t i = 0; i < load->chunk_count; i++)
        if (load->chunks[i].state == SEL_CHUNK_READY)
            chunk_feed(&load->chunks[i], piece);
}

void sel_load_detach(struct sel_piece *piece) {
    struct sel_load *load = piece->load;
    piece->load = NULL;
    sel_list_remove(&piece->link);
    load_maybe_end(load);
}
