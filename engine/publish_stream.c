/* SPDX-License-Identifier: Apache-2.0
 *
 * Publishing without a warm tier [M5]: a record streams through the intake in windows straight to disk, the one case of
 * write-through.
 *
 *   begin (room on disk) -> windows: slots -> copy out -> write -> slots back -> finish -> committed -> visible
 *
 * Several windows of a record are in flight, and several records of a chain, each with its parent's write before it.
 * The record appears in the tree when it is committed, never before.
 */
#include "engine/publish_priv.h"

#include <string.h>

/* Windows of one record in flight: one is copied while the disk has two and a third comes back. */
#define SEL_STREAM_WINDOWS 4

struct sel_window {
    struct sel_list link; /* in stream->windows */
    struct sel_stream *stream;
    enum sel_lsm_part part;
    uint32_t first, count;
    struct sel_copy copy;
    struct sel_op write_op;
    struct sel_copy_item *items;
    struct iovec *iov;
    uint32_t slots[SEL_WINDOW_SLOTS];
};

struct sel_stream {
    struct sel_list link; /* in store->streaming, while windows are left to start */
    struct sel_draft *draft;
    struct sel_lsm_write *write;
    struct sel_op finish;
    struct sel_request *event; /* of the commit, when the caller wants it */
    struct sel_list windows;
    uint32_t window_count;
    uint32_t copying; /* windows whose checksums are not known yet */
    uint32_t next;    /* page, then slot of the row, that the next window begins at */
    uint64_t *page_sums, *row_sums;
    bool finished;
    bool committed;
    bool kept; /* the committed record is in the tree */
};

static uint32_t total_slots(const struct sel_stream *stream) {
    return stream->draft->page_count + stream->draft->publish->store->layout->row_slots;
}

void sel_stream_free(struct sel_stream **out) {
    struct sel_stream *stream = *out;
    *out = NULL;
    if (!stream)
        return;
    SEL_CHECK(stream->window_count == 0);
    if (stream->committed && !stream->kept) { /* nobody may find it after a restart either */
        struct sel_location location = sel_lsm_write_location(stream->write);
        sel_lsm_remove(stream->draft->publish->store->lsm, &location, NULL);
    }
    if (stream->write)
        sel_lsm_write_free(&stream->write);
    sel_list_remove(&stream->link);
    free(stream->event);
    free(stream->page_sums);
    free(stream->row_sums);
    free(stream);
}

uint32_t sel_stream_slots(const struct sel_stream *stream) {
    uint32_t count = 0;
    for (const struct sel_list *link = stream->windows.next; link != &stream->windows; link = link->next)
        count += SEL_LIST_ENTRY(link, struct sel_window, link)->count;
    return count;
}

static void stream_done(struct sel_stream *stream) {
    struct sel_draft *draft = stream->draft;
    draft->done = true;
    sel_list_remove(&stream->link);
    sel_publish_collect(draft->publish);
}

static void finish_done(struct sel_op *op) {
    struct sel_stream *stream = SEL_CONTAINER(op, struct sel_stream, finish);
    stream->committed = op->result == 0;
    if (!stream->draft->result)
        stream->draft->result = op->result;
    stream_done(stream);
}

static void stream_finish(struct sel_stream *stream) {
    struct sel_draft *draft = stream->draft;
    const struct sel_layout *layout = draft->publish->store->layout;
    for (uint32_t rank = 0; draft->row_hashes && rank < layout->desc.rank_count; rank++)
        stream->row_sums[rank] =
            sel_checksum_finish(draft->row_hashes + (size_t)rank * layout->row_blocks, layout->row_blocks);
    stream->finished = true;
    sel_lsm_write_finish(stream->write, stream->page_sums, stream->row_sums, &stream->finish);
    /* The caller waits for the commit with its device memory in hand. */
    if (draft->tokens == draft->publish->tokens)
        sel_lsm_flush(draft->publish->store->lsm);
}

/* After each window: the end of the data, or of a stream that failed. */
static void stream_check(struct sel_stream *stream) {
    if (stream->finished)
        return;
    if (stream->draft->result) {
        if (stream->window_count)
            return;
        stream->finished = true;
        sel_lsm_write_abandon(&stream->write);
        stream_done(stream);
    } else if (stream->next == total_slots(stream) && stream->copying == 0) {
        stream_finish(stream);
    }
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
    if (op->result && !stream->draft->result && !stream->finished)
        stream->draft->result = op->result; /* once finished, the finish says so */
    window_free(window);
    stream_check(stream);
}

static void window_copied(struct sel_op *op) {
    struct sel_window *window = SEL_CONTAINER(op, struct sel_window, copy.op);
    struct sel_stream *stream = window->stream;
    const struct sel_slots *slots = &stream->draft->publish->store->slots;
    stream->copying--;
    if (op->result && !stream->draft->result)
        stream->draft->result = op->result;
    if (stream->draft->result) {
        window_free(window);
        stream_check(stream);
        return;
    }
    for (uint32_t i = 0; i < window->count; i++)
        window->iov[i] = (struct iovec){.iov_base = sel_slot_at(slots, window->slots[i]), .iov_len = slots->slot_bytes};
    sel_lsm_write_data(stream->write, window->part, window->first * slots->slot_bytes, window->iov, (int)window->count,
                       &window->write_op);
    stream_check(stream);
}

static void window_submit(struct sel_window *window) {
    struct sel_draft *draft = window->stream->draft;
    selene_store *store = draft->publish->store;
    uint32_t ranks = store->layout->desc.rank_count;
    bool row = window->part == SEL_LSM_ROW;
    for (uint32_t i = 0; i < window->count; i++) {
        struct sel_copy_item *item = &window->items[i];
        if (row) {
            item->row_part = window->first + i;
        } else {
            sel_draft_page_item(draft, window->first + i, item);
            item->sums = &window->stream->page_sums[(size_t)(window->first + i) * ranks];
        }
        item->slot = sel_slot_at(&store->slots, window->slots[i]);
    }
    window->copy = (struct sel_copy){.direction = SEL_COPY_OUT,
                                     .row = row,
                                     .items = window->items,
                                     .item_count = window->count,
                                     .planes = store->planes,
                                     .rows = draft->publish->rows,
                                     .row_hashes = draft->row_hashes,
                                     .wait = draft->publish->wait,
                                     .block_limit = store->options.block_count};
    sel_op_init(&window->copy.op, window_copied);
    sel_op_init(&window->write_op, window_written);
    store->device->ops->submit(store->device, &window->copy);
}

/* Starts the next window. SELENE_E_RETRY: no slots now. */
static int window_start(struct sel_stream *stream) {
    struct sel_draft *draft = stream->draft;
    selene_store *store = draft->publish->store;
    bool row = stream->next >= draft->page_count;
    uint32_t end = row ? total_slots(stream) : draft->page_count;
    uint32_t count = SEL_MIN(store->window_slots, end - stream->next);
    /* Half of the intake is the restores' [faults 24, 25]. */
    if (store->slots.free_count < (uint64_t)count + store->slots.total / 2)
        return SELENE_E_RETRY;
    struct sel_window *window = calloc(1, sizeof *window);
    if (!window)
        return SELENE_E_NOMEM;
    window->items = calloc(count, sizeof *window->items);
    window->iov = calloc(count, sizeof *window->iov);
    if (!window->items || !window->iov || !sel_slots_take(&store->slots, window->slots, count)) {
        free(window->items);
        free(window->iov);
        free(window);
        return SELENE_E_NOMEM;
    }
    window->stream = stream;
    window->part = row ? SEL_LSM_ROW : SEL_LSM_PAGES;
    window->first = row ? stream->next - draft->page_count : stream->next;
    window->count = count;
    sel_list_init(&window->link);
    sel_list_add_tail(&stream->windows, &window->link);
    stream->window_count++;
    stream->copying++;
    stream->next += count;
    window_submit(window);
    return 0;
}

static void stream_step(struct sel_stream *stream) {
    struct sel_draft *draft = stream->draft;
    int result = 0;
    while (!result && !draft->result && stream->next < total_slots(stream) && stream->window_count < SEL_STREAM_WINDOWS)
        result = window_start(stream);
    if (result && result != SELENE_E_RETRY && !draft->result) {
        draft->result = result;
        stream_check(stream);
    }
}

void sel_streams_step(selene_store *store) {
    SEL_LIST_FOR_EACH(link, &store->streaming) { stream_step(SEL_LIST_ENTRY(link, struct sel_stream, link)); }
}

void sel_stream_cancel(struct sel_draft *draft) {
    struct sel_stream *stream = draft->stream;
    struct sel_device *device = draft->publish->store->device;
    if (!stream->finished && !draft->result)
        draft->result = SELENE_E_CANCELLED;
    SEL_LIST_FOR_EACH(link, &stream->windows) {
        struct sel_window *window = SEL_LIST_ENTRY(link, struct sel_window, link);
        if (window->copy.op.in_flight)
            device->ops->cancel(device, &window->copy);
    }
    if (!stream->finished && stream->window_count == 0) {
        stream->finished = true;
        sel_lsm_write_abandon(&stream->write);
        draft->done = true;
        sel_list_remove(&stream->link);
    }
}

static int stream_begin(struct sel_stream *stream, struct sel_draft *before) {
    struct sel_draft *draft = stream->draft;
    struct sel_publish *publish = draft->publish;
    selene_store *store = publish->store;
    const struct sel_layout *layout = store->layout;
    struct sel_node_spec spec;
    sel_draft_spec(draft, &spec);
    struct sel_lsm_record record = {.page_tokens = layout->desc.page_tokens,
                                    .tokens = spec.tokens,
                                    .parent_tokens = (uint32_t)draft->parent_tokens,
                                    .key = spec.key,
                                    .base_key = spec.base_key,
                                    .page_keys = spec.page_keys,
                                    .page_key_count = spec.page_key_count,
                                    .has_row = layout->row_slots > 0,
                                    .time_s = sel_wall_ns(store->clock) / SEL_NS_PER_SECOND};
    memcpy(record.ns, layout->ns, sizeof record.ns);
    if (before)
        record.parent_key = before->key;
    else if (publish->parent)
        record.parent_key = publish->parent->key;
    uint64_t bytes = sel_lsm_record_bytes(layout, draft->page_count, spec.page_key_count, false, record.has_row, false);
    const struct sel_room room = {.use = UINT64_MAX};
    if (sel_lsm_oversize(store->lsm, layout, draft->page_count, spec.page_key_count, false, record.has_row, false))
        return SELENE_E_OVERSIZE; /* nothing is removed for what never fits [M5] */
    if (!sel_disk_make_room(store, bytes, &room))
        return SELENE_E_RETRY;
    int result =
        sel_lsm_write_begin(store->lsm, layout, &record, before ? before->stream->write : NULL, &stream->write);
    return result == SELENE_E_NOSPACE || result == SELENE_E_DEGRADED ? SELENE_E_RETRY : result;
}

int sel_stream_start(struct sel_publish *publish) {
    selene_store *store = publish->store;
    const struct sel_layout *layout = store->layout;
    size_t ranks = layout->desc.rank_count;
    struct sel_draft *before = NULL;
    if (!sel_list_empty(&publish->drafts))
        before = SEL_LIST_ENTRY(publish->drafts.prev, struct sel_draft, link);
    struct sel_draft *draft = sel_draft_create(publish);
    struct sel_stream *stream = calloc(1, sizeof *stream);
    int result = SELENE_E_NOMEM;
    if (!draft || !stream)
        goto fail;
    sel_list_init(&stream->link);
    sel_list_init(&stream->windows);
    sel_op_init(&stream->finish, finish_done);
    stream->draft = draft;
    stream->page_sums = calloc(draft->page_count * ranks, sizeof(uint64_t));
    stream->row_sums = calloc(ranks, sizeof(uint64_t));
    if (layout->row_slots)
        draft->row_hashes = calloc(ranks * layout->row_blocks, sizeof(uint64_t));
    if (!stream->page_sums || !stream->row_sums || (layout->row_slots && !draft->row_hashes) ||
        sel_event_prepare(store, &stream->event))
        goto fail;
    result = stream_begin(stream, before);
    if (result)
        goto fail;
    draft->stream = stream;
    sel_list_add_tail(&publish->drafts, &draft->link);
    publish->cursor = draft->tokens;
    sel_list_add_tail(&store->streaming, &stream->link);
    stream_step(stream);
    return 0;
fail:
    if (stream) {
        free(stream->event);
        free(stream->page_sums);
        free(stream->row_sums);
        free(stream);
    }
    sel_draft_free(&draft);
    return result;
}

/* Another publish brought the record first. The index lists records in order of sequence, and the children of ours that
 * are on their way come right after ours: so the earlier of the two stays. */
static int insert_twin(struct sel_draft *draft, struct sel_node *node, struct sel_location location) {
    struct sel_publish *publish = draft->publish;
    selene_store *store = publish->store;
    struct sel_location other = node->disk;
    if (!sel_node_pages_readable(node, SEL_TIER_DISK))
        return SELENE_E_GONE;
    if (other.sequence < location.sequence)
        return 0; /* ours is removed with the draft */
    if (node->parent != publish->parent)
        return SELENE_E_RETRY; /* other pages: ours cannot take its place */
    node->disk = location;
    draft->stream->kept = true;
    sel_lsm_remove(store->lsm, &other, NULL);
    return 0;
}

int sel_stream_insert(struct sel_draft *draft) {
    struct sel_publish *publish = draft->publish;
    selene_store *store = publish->store;
    struct sel_location location = sel_lsm_write_location(draft->stream->write);
    struct sel_node_spec spec;
    struct sel_node *node = sel_tree_find(store->tree, store->layout->ns, &draft->key, draft->tokens);
    int result = 0;
    if (node) {
        result = insert_twin(draft, node, location);
        if (result)
            return result;
    } else {
        sel_draft_spec(draft, &spec);
        result = sel_tree_insert(store->tree, &spec, &node);
        if (!result && (result = sel_tree_add_to(store->tree, node, SEL_TIER_DISK, false)) != 0)
            sel_tree_release(store->tree, &node);
        if (result)
            return result;
        draft->stream->kept = true;
        node->disk = location;
        sel_node_count(store, node, SEL_TIER_DISK, 1);
        sel_thin_committed(store, node, SEL_TIER_DISK);
    }
    if (draft->stream->kept)
        sel_event_committed(store, &draft->stream->event, node);
    sel_tree_touch(store->tree, node, sel_store_use(store));
    sel_publish_advance(publish, node);
    return 0;
}
