/* SPDX-License-Identifier: Apache-2.0
 *
 * One window of a record that streams to disk [M5].
 *
 *   slots -> (compare) -> copy out -> write -> slots back
 *
 * The first window of pages was compared before the record was begun, and so was all of the row; a later window of packed
 * pages is compared before it is copied [K2].
 */
#include "engine/stream_priv.h"

struct sel_window {
    struct sel_list link; /* in stream->windows */
    struct sel_stream *stream;
    enum sel_lsm_part part;
    uint32_t first, pieces; /* of the part */
    uint32_t count;         /* slots */
    struct sel_compare compare;
    struct sel_copy copy;
    struct sel_op write_op;
    struct sel_copy_item *items;
    struct iovec *iov;
    uint32_t slots[SEL_WINDOW_SLOTS];
};

uint32_t sel_window_first_pages(const selene_store *store) {
    return store->window_slots * sel_part_per_slot(store, sel_pack_allowed(store));
}

uint32_t sel_stream_slots(const struct sel_stream *stream) {
    uint32_t count = 0;
    for (const struct sel_list *link = stream->windows.next; link != &stream->windows; link = link->next)
        count += SEL_LIST_ENTRY(link, struct sel_window, link)->count;
    return count;
}

static const struct sel_copy_part *part_of(const struct sel_window *window) {
    return window->part == SEL_LSM_ROW ? &window->stream->row : &window->stream->pages;
}

static void window_free(struct sel_window *window) {
    struct sel_stream *stream = window->stream;
    sel_slots_give(&stream->draft->publish->store->slots, window->slots, window->count);
    sel_list_remove(&window->link);
    stream->window_count--;
    free(window->items);
    free(window->iov);
    free(window);
}

static void window_written(struct sel_op *op) {
    struct sel_window *window = SEL_CONTAINER(op, struct sel_window, write_op);
    struct sel_stream *stream = window->stream;
    if (op->result && !stream->draft->result && !stream->finished) {
        stream->draft->result = op->result; /* once finished, the finish says so */
        stream->write_failed = true;
    }
    window_free(window);
    sel_stream_check(stream);
}

/* Ends a window that is not to be copied or written. */
static void window_end(struct sel_window *window) {
    struct sel_stream *stream = window->stream;
    stream->copying--;
    window_free(window);
    sel_stream_check(stream);
}

static void window_copied(struct sel_op *op) {
    struct sel_window *window = SEL_CONTAINER(op, struct sel_window, copy.op);
    struct sel_stream *stream = window->stream;
    selene_store *store = stream->draft->publish->store;
    const struct sel_copy_part *part = part_of(window);
    if (op->result && !stream->draft->result)
        stream->draft->result = op->result;
    if (stream->draft->result) {
        window_end(window);
        return;
    }
    stream->copying--;
    uint32_t slot = window->first / sel_part_per_slot(store, part->packed);
    int vectors = sel_part_iov(store, part, window->slots, slot, window->count, window->iov);
    sel_lsm_write_data(stream->write, window->part, slot * store->slots.slot_bytes, window->iov, vectors,
                       &window->write_op);
    sel_stream_check(stream);
}

static void window_copy(struct sel_window *window) {
    struct sel_draft *draft = window->stream->draft;
    selene_store *store = draft->publish->store;
    bool row = window->part == SEL_LSM_ROW;
    window->copy = (struct sel_copy){.direction = SEL_COPY_OUT,
                                     .row = row,
                                     .replicated = part_of(window)->packed,
                                     .items = window->items,
                                     .item_count = window->pieces,
                                     .planes = store->planes,
                                     .rows = draft->publish->rows,
                                     .row_hashes = draft->row_hashes,
                                     .wait = draft->publish->wait,
                                     .block_limit = store->options.block_count};
    sel_op_init(&window->copy.op, window_copied);
    sel_op_init(&window->write_op, window_written);
    store->device->ops->submit(store->device, &window->copy);
}

static void window_compared(struct sel_op *op) {
    struct sel_window *window = SEL_CONTAINER(op, struct sel_window, compare.op);
    struct sel_draft *draft = window->stream->draft;
    if (op->result && !draft->result)
        draft->result = op->result;
    else if (!window->compare.identical)
        sel_stream_differs(window->stream);
    if (draft->result)
        window_end(window);
    else
        window_copy(window);
}

static void window_compare(struct sel_window *window) {
    const struct sel_publish *publish = window->stream->draft->publish;
    struct sel_device *device = publish->store->device;
    window->compare = (struct sel_compare){.items = window->items,
                                           .item_count = window->pieces,
                                           .planes = publish->store->planes,
                                           .wait = publish->wait,
                                           .block_limit = publish->store->options.block_count};
    sel_op_init(&window->compare.op, window_compared);
    device->ops->compare(device, &window->compare);
}

static void fill_items(struct sel_window *window) {
    struct sel_draft *draft = window->stream->draft;
    selene_store *store = draft->publish->store;
    /* The window as a part of its own: its slots hold its pieces from their beginning. */
    const struct sel_copy_part part = {.packed = part_of(window)->packed, .slots = window->slots};
    for (uint32_t i = 0; i < window->pieces; i++) {
        struct sel_copy_item *item = &window->items[i];
        if (window->part == SEL_LSM_ROW) {
            item->row_part = window->first + i;
        } else {
            sel_draft_page_item(draft, window->first + i, item);
            item->sums = sel_part_sums(store, &window->stream->pages, window->first + i);
        }
        item->slot = sel_part_share(store, &part, i);
    }
}

static struct sel_window *window_create(struct sel_stream *stream, enum sel_lsm_part part, uint32_t first) {
    selene_store *store = stream->draft->publish->store;
    struct sel_window *window = calloc(1, sizeof *window);
    if (!window)
        return NULL;
    window->stream = stream;
    window->part = part;
    window->first = first;
    const struct sel_copy_part *whole = part_of(window);
    uint32_t most = store->window_slots * sel_part_per_slot(store, whole->packed);
    window->pieces = SEL_MIN(most, whole->pieces - first);
    window->count = sel_part_slots(store, window->pieces, whole->packed);
    window->items = calloc(window->pieces, sizeof *window->items);
    window->iov = calloc(window->count, sizeof *window->iov);
    sel_list_init(&window->link);
    return window;
}

static void window_discard(struct sel_window *window) {
    free(window->items);
    free(window->iov);
    free(window);
}

int sel_window_start(struct sel_stream *stream) {
    selene_store *store = stream->draft->publish->store;
    bool row = stream->next >= stream->pages.pieces;
    uint32_t first = row ? stream->next - stream->pages.pieces : stream->next;
    struct sel_window *window = window_create(stream, row ? SEL_LSM_ROW : SEL_LSM_PAGES, first);
    if (!window || !window->items || !window->iov) {
        if (window)
            window_discard(window);
        return SELENE_E_NOMEM;
    }
    /* Half of the intake is the restores' [faults 24, 25]. */
    if (store->slots.free_count < (uint64_t)window->count + store->slots.total / 2 ||
        !sel_slots_take(&store->slots, window->slots, window->count)) {
        window_discard(window);
        return SELENE_E_RETRY;
    }
    sel_list_add_tail(&stream->windows, &window->link);
    stream->window_count++;
    stream->copying++;
    stream->next += window->pieces;
    fill_items(window);
    if (!row && first > 0 && stream->pages.packed)
        window_compare(window);
    else
        window_copy(window);
    return 0;
}

void sel_windows_stop(struct sel_stream *stream) {
    struct sel_device *device = stream->draft->publish->store->device;
    SEL_LIST_FOR_EACH(link, &stream->windows) {
        struct sel_window *window = SEL_LIST_ENTRY(link, struct sel_window, link);
        if (window->compare.op.in_flight)
            device->ops->cancel_compare(device, &window->compare);
        if (window->copy.op.in_flight)
            device->ops->cancel(device, &window->copy);
    }
}
