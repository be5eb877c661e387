/* SPDX-License-Identifier: Apache-2.0
 *
 * Publishing without a warm tier [M5]: a record streams through the intake in windows straight to disk, the one case of
 * write-through.
 *
 *   (decide) -> begin (room on disk) -> windows -> finish -> committed -> visible
 *      ^                                   |
 *      `--- again, per rank <--- a later window differs: this store is abandoned and counted
 *
 * Where ranks may be alike the form is decided before anything is written: by the first window of pages, and by all of
 * the row [K2]. When a later window differs, nothing of the record was committed; the record begins again, with its pages
 * per rank as those of the rest of the publish, so that the caller loses nothing but time. That happens at most once.
 * A write that fails is done again in the same way, once a record: the segment that failed takes nothing new, so it goes
 * elsewhere [P4].
 * Several windows of a record are in flight, and several records of a chain, each with its parent's write before it.
 * The record appears in the tree when it is committed, never before. A row that is brought back to a record on disk [T5]
 * is a record without pages on this way.
 */
#include "engine/stream_priv.h"

#include <string.h>

/* Windows of one record in flight: one is copied while the disk has two and a third comes back. */
#define SEL_STREAM_WINDOWS 4

static uint32_t total_pieces(const struct sel_stream *stream) { return stream->pages.pieces + stream->row.pieces; }

void sel_stream_free(struct sel_stream **out) {
    struct sel_stream *stream = *out;
    *out = NULL;
    if (!stream)
        return;
    SEL_CHECK(stream->window_count == 0);
    if (stream->committed && !stream->kept) { /* nobody may find it after a restart either */
        struct sel_location location = sel_lsm_write_location(stream->write);
        sel_disk_remove(stream->draft->publish->store, &location);
    }
    if (stream->write)
        sel_lsm_write_free(&stream->write);
    sel_list_remove(&stream->link);
    free(stream->event);
    free(stream->pages.sums);
    free(stream->row.sums);
    free(stream);
}

/* This record and those after it, which were begun as its descendants, begin again when they have ended. */
static void restart_from(struct sel_draft *draft) {
    struct sel_publish *publish = draft->publish;
    publish->restarting = true;
    publish->cursor = draft->parent_tokens;
    for (struct sel_list *link = &draft->link; link != &publish->drafts; link = link->next) {
        struct sel_draft *later = SEL_LIST_ENTRY(link, struct sel_draft, link);
        later->restart = true;
        if (later->done)
            continue;
        sel_stream_cancel(later);
        sel_draft_stop(later);
    }
}

/* The caller's memory still holds what is to be written [P4]. */
static void try_again(struct sel_stream *stream) {
    struct sel_draft *draft = stream->draft;
    struct sel_publish *publish = draft->publish;
    selene_store *store = publish->store;
    if (draft->restart || publish->cancelled || publish->result || draft->result == SELENE_E_PARENT)
        return;
    store->stats.io_errors[SEL_TIER_DISK]++;
    if (publish->retried_tokens == draft->tokens || sel_write_innocent(store, draft->result))
        return;
    publish->retried_tokens = draft->tokens;
    store->stats.spill_retries++;
    restart_from(draft);
}

static void stream_done(struct sel_stream *stream) {
    struct sel_draft *draft = stream->draft;
    draft->done = true;
    if (stream->write_failed)
        try_again(stream);
    sel_list_remove(&stream->link);
    sel_publish_collect(draft->publish);
}

static void finish_done(struct sel_op *op) {
    struct sel_stream *stream = SEL_CONTAINER(op, struct sel_stream, finish);
    stream->committed = op->result == 0;
    stream->write_failed |= op->result != 0;
    if (!stream->draft->result)
        stream->draft->result = op->result;
    stream_done(stream);
}

static void stream_finish(struct sel_stream *stream) {
    struct sel_draft *draft = stream->draft;
    const struct sel_layout *layout = draft->publish->store->layout;
    uint32_t shares = stream->row.packed ? 1 : layout->desc.rank_count;
    for (uint32_t rank = 0; draft->row_hashes && rank < shares; rank++)
        stream->row.sums[rank] =
            sel_checksum_finish(draft->row_hashes + (size_t)rank * layout->row_blocks, layout->row_blocks);
    stream->finished = true;
    sel_lsm_write_finish(stream->write, draft->page_count ? stream->pages.sums : NULL, stream->row.sums,
                         &stream->finish);
    /* The caller waits for the commit with its device memory in hand. */
    if (draft->tokens == draft->publish->tokens)
        sel_lsm_flush(draft->publish->store->lsm);
}

void sel_stream_check(struct sel_stream *stream) {
    if (stream->finished)
        return;
    if (stream->draft->result) {
        if (stream->window_count)
            return;
        stream->finished = true;
        sel_lsm_write_abandon(&stream->write);
        stream_done(stream);
    } else if (stream->next == total_pieces(stream) && stream->copying == 0) {
        stream_finish(stream);
    }
}

/* As many as there is room for. What fails is the draft's result. */
static void start_windows(struct sel_stream *stream) {
    struct sel_draft *draft = stream->draft;
    int result = 0;
    while (!result && !draft->result && stream->next < total_pieces(stream) &&
           stream->window_count < SEL_STREAM_WINDOWS)
        result = sel_window_start(stream);
    if (result && result != SELENE_E_RETRY)
        draft->result = result;
}

void sel_streams_step(selene_store *store) {
    SEL_LIST_FOR_EACH(link, &store->streaming) {
        struct sel_stream *stream = SEL_LIST_ENTRY(link, struct sel_stream, link);
        bool failed = stream->draft->result != 0; /* then its windows end it */
        start_windows(stream);
        if (!failed && stream->draft->result)
            sel_stream_check(stream);
    }
}

void sel_stream_cancel(struct sel_draft *draft) {
    struct sel_stream *stream = draft->stream;
    if (!stream->finished && !draft->result)
        draft->result = SELENE_E_CANCELLED;
    sel_windows_stop(stream);
    if (stream->write && !stream->finished && stream->window_count == 0) {
        stream->finished = true;
        sel_lsm_write_abandon(&stream->write);
        draft->done = true;
        sel_list_remove(&stream->link);
    }
}

void sel_stream_differs(struct sel_stream *stream) {
    struct sel_draft *draft = stream->draft;
    struct sel_publish *publish = draft->publish;
    if (draft->result) /* it ends already */
        return;
    publish->store->stats.abandoned_stores++;
    publish->store->pages_pack = false;
    publish->pages_differ = true;
    restart_from(draft);
}

/* ---- the beginning ---- */

static void describe(const struct sel_draft *draft, const struct sel_draft *before, struct sel_lsm_record *record) {
    const struct sel_publish *publish = draft->publish;
    const struct sel_layout *layout = publish->store->layout;
    struct sel_node_spec spec;
    sel_draft_spec(draft, &spec);
    *record = (struct sel_lsm_record){.page_tokens = layout->desc.page_tokens,
                                      .tokens = spec.tokens,
                                      .parent_tokens = (uint32_t)draft->parent_tokens,
                                      .key = spec.key,
                                      .base_key = spec.base_key,
                                      .page_keys = spec.page_keys,
                                      .page_key_count = spec.page_key_count,
                                      .has_row = layout->row_slots > 0,
                                      .pages_replicated = draft->pages_packed,
                                      .row_replicated = draft->row_packed,
                                      .time_s = sel_wall_ns(publish->store->clock) / SEL_NS_PER_SECOND};
    memcpy(record->ns, layout->ns, sizeof record->ns);
    if (publish->thinned)
        record->pages_replicated = publish->thinned->flags & SEL_DISK_PAGES_PACKED;
    if (before)
        record->parent_key = before->key;
    else if (publish->parent)
        record->parent_key = publish->parent->key;
}

/* Whether the disk has room for it as it is predicted, or decided. */
static int stream_room(const struct sel_draft *draft, const struct sel_lsm_record *record) {
    selene_store *store = draft->publish->store;
    const struct sel_layout *layout = store->layout;
    const struct sel_room room = {.use = UINT64_MAX};
    /* Nothing is removed for what never fits, in whatever form it may yet turn out to be [M5]. */
    bool packed = draft->decided ? record->pages_replicated : sel_pack_allowed(store);
    bool row_packed = draft->decided ? record->row_replicated : sel_pack_allowed(store);
    if (sel_lsm_oversize(store->lsm, layout, draft->page_count, record->page_key_count, packed, record->has_row,
                         row_packed))
        return SELENE_E_OVERSIZE;
    uint64_t bytes = sel_lsm_record_bytes(layout, draft->page_count, record->page_key_count, record->pages_replicated,
                                          record->has_row, record->row_replicated);
    if (draft->publish->thinned)
        bytes -= sel_lsm_record_bytes(layout, 0, record->page_key_count, record->pages_replicated, false, false);
    return sel_disk_make_room(store, bytes, &room) ? 0 : SELENE_E_RETRY;
}

static int write_begin(struct sel_draft *draft, struct sel_draft *before, const struct sel_lsm_record *record) {
    const struct sel_node *thinned = draft->publish->thinned;
    selene_store *store = draft->publish->store;
    struct sel_lsm_write **out = &draft->stream->write;
    if (!thinned)
        return sel_lsm_write_begin(store->lsm, store->layout, record, before ? before->stream->write : NULL, out);
    int result = sel_lsm_write_row_begin(store->lsm, store->layout, record, &thinned->disk, out);
    return result == SELENE_E_GONE ? SELENE_E_RETRY : result; /* something is still on its way */
}

int sel_stream_begin(struct sel_draft *draft) {
    struct sel_stream *stream = draft->stream;
    selene_store *store = draft->publish->store;
    struct sel_draft *before = NULL;
    struct sel_lsm_record record;
    if (draft->link.prev != &draft->publish->drafts)
        before = SEL_LIST_ENTRY(draft->link.prev, struct sel_draft, link);
    if (before && !before->stream->write) /* it failed */
        return SELENE_E_PARENT;
    draft->decided = true;
    describe(draft, before, &record);
    int result = stream_room(draft, &record);
    if (!result)
        result = write_begin(draft, before, &record);
    if (result)
        return result == SELENE_E_NOSPACE || result == SELENE_E_DEGRADED ? SELENE_E_RETRY : result;
    stream->pages.packed = draft->pages_packed;
    stream->row.packed = draft->row_packed;
    start_windows(stream);
    if (draft->result && stream->window_count == 0) { /* nothing was started whose end would end it */
        sel_lsm_write_abandon(&stream->write);
        return draft->result;
    }
    sel_list_add_tail(&store->streaming, &stream->link);
    return 0;
}

static int stream_create(struct sel_draft *draft) {
    selene_store *store = draft->publish->store;
    const struct sel_layout *layout = store->layout;
    size_t ranks = layout->desc.rank_count;
    struct sel_stream *stream = draft->stream = calloc(1, sizeof *stream);
    if (!stream)
        return SELENE_E_NOMEM;
    sel_list_init(&stream->link);
    sel_list_init(&stream->windows);
    sel_op_init(&stream->finish, finish_done);
    stream->draft = draft;
    stream->pages.pieces = draft->page_count;
    stream->row.pieces = layout->row_slots;
    stream->pages.sums = calloc(draft->page_count * ranks + 1, sizeof(uint64_t));
    stream->row.sums = calloc(ranks, sizeof(uint64_t));
    draft->row_hashes = calloc(ranks * layout->row_blocks + 1, sizeof(uint64_t));
    if (!stream->pages.sums || !stream->row.sums || !draft->row_hashes)
        return SELENE_E_NOMEM;
    return sel_event_prepare(store, &stream->event);
}

/* The items of the first window, to be compared. */
static int decide(struct sel_draft *draft) {
    const struct sel_publish *publish = draft->publish;
    uint32_t pages = SEL_MIN(draft->page_count, sel_window_first_pages(publish->store));
    if (publish->pages_differ)
        pages = 0;
    draft->items = calloc(pages + 1, sizeof *draft->items);
    if (!draft->items)
        return SELENE_E_NOMEM;
    for (uint32_t i = 0; i < pages; i++)
        sel_draft_page_item(draft, i, &draft->items[i]);
    sel_draft_compare(draft, pages);
    return 0;
}

int sel_stream_start(struct sel_publish *publish) {
    selene_store *store = publish->store;
    const struct sel_layout *layout = store->layout;
    struct sel_lsm_record record;
    if (sel_lsm_state(store->lsm) != SEL_LSM_OK) /* not accepted to wait for a disk that may be long [D9] */
        return SELENE_E_RETRY;
    struct sel_draft *draft = sel_draft_create(publish);
    if (!draft)
        return SELENE_E_NOMEM;
    bool allowed = sel_pack_allowed(store);
    draft->pages_packed = allowed && store->pages_pack && !publish->pages_differ;
    draft->row_packed = allowed && store->row_pack;
    sel_list_add_tail(&publish->drafts, &draft->link);
    int result = stream_create(draft);
    if (!result && allowed && (layout->row_slots || !publish->pages_differ)) {
        describe(draft, NULL, &record);
        result = stream_room(draft, &record);
        if (!result)
            result = decide(draft);
    } else if (!result) {
        result = sel_stream_begin(draft);
    }
    if (result)
        sel_draft_free(&draft);
    else
        publish->cursor = draft->tokens;
    return result;
}

/* The record is where the stream has written it. */
static void place(struct sel_draft *draft, struct sel_node *node, struct sel_location location) {
    node->disk = location;
    node->flags &= (uint16_t) ~(SEL_DISK_PAGES_PACKED | SEL_DISK_ROW_PACKED);
    node->flags |= (uint16_t)((draft->pages_packed ? SEL_DISK_PAGES_PACKED : 0) |
                              (location.row && draft->row_packed ? SEL_DISK_ROW_PACKED : 0));
    draft->stream->kept = true;
    sel_node_count(draft->publish->store, node, SEL_TIER_DISK, 1);
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
    sel_node_count(store, node, SEL_TIER_DISK, -1);
    place(draft, node, location);
    sel_disk_remove(store, &other);
    return 0;
}

/* The record has its row again, and is held until its next child. */
static int insert_row(struct sel_draft *draft, struct sel_node *node, struct sel_location location) {
    selene_store *store = draft->publish->store;
    draft->stream->kept = true;
    if (node->disk.pages == 0) /* given up by the record store, and about to leave */
        return SELENE_E_GONE;
    sel_thin_hold(node);
    sel_disk_set_row(store, node, location, draft->row_packed);
    if (!sel_node_pages_readable(node, SEL_TIER_DISK)) /* it leaves, and the row with it */
        return SELENE_E_GONE;
    store->stats.rows_brought_back++;
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
        result = publish->thinned ? insert_row(draft, publish->thinned, location) : insert_twin(draft, node, location);
        if (result)
            return result;
    } else {
        sel_draft_spec(draft, &spec);
        result = sel_tree_insert(store->tree, &spec, &node);
        if (!result && (result = sel_tree_add_to(store->tree, node, SEL_TIER_DISK, false)) != 0)
            sel_tree_release(store->tree, &node);
        if (result)
            return result;
        place(draft, node, location);
        sel_thin_committed(store, node, SEL_TIER_DISK);
    }
    if (draft->stream->kept && !publish->thinned)
        sel_event_committed(store, &draft->stream->event, node);
    sel_tree_touch(store->tree, node, sel_store_use(store));
    sel_publish_advance(publish, node);
    return 0;
}
