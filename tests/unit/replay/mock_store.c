/* SPDX-License-Identifier: Apache-2.0
 *
 * The tests' own store. Records are whole: all pages of their prefix, so there are no chains.
 */
#include "tests/unit/replay/mock_store.h"

#include "index/keys.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RECORDS 512
#define EVENTS  64

struct mock_faults mock_faults;

struct record {
    struct sel_key key;
    uint32_t tokens;
    uint8_t *bytes; /* [rank][page] of one share each, then [rank] rows */
};

struct pending {
    struct selene_event event;
    const uint32_t *wait;
    struct record *record; /* of a publish: still to be copied */
    uint32_t *blocks;
    void *rows[8];
};

#define DISK_BYTES ((size_t)256 << 20)
struct disk { /* followed by the records' bytes */
    struct record records[RECORDS];
    size_t record_count, used;
};
static struct disk *disk;
uint32_t mock_disk_lost, mock_disk_evictions;

struct selene_store {
    struct sel_layout *layout;
    struct selene_plane_memory planes[64];
    uint64_t share;
    struct record records[RECORDS];
    size_t record_count;
    struct pending pending[EVENTS];
    size_t pending_count;
    uint64_t tickets;
    uint32_t retried, handed_back, restores, publishes;
};
struct selene_prefix {
    struct sel_prefix *keys;
};

void mock_disk_start(void) {
    disk = mmap(NULL, DISK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (disk == MAP_FAILED)
        abort();
    disk->used = (sizeof *disk + 63) / 64 * 64;
    mock_disk_lost = mock_disk_evictions = 0;
}

void mock_disk_stop(void) {
    munmap(disk, DISK_BYTES);
    disk = NULL;
}

static uint8_t *bytes_make(size_t count) {
    if (disk == NULL)
        return calloc(1, count);
    uint8_t *bytes = (uint8_t *)disk + disk->used;
    disk->used += (count + 63) / 64 * 64;
    if (disk->used > DISK_BYTES)
        abort();
    return bytes;
}

const char *selene_error_text(int code) { return sel_error_text(code); }
const struct selene_model *selene_model_find(const char *name) {
    (void)name;
    return NULL;
}
const struct selene_model *selene_model_at(size_t index) {
    (void)index;
    return NULL;
}
void selene_options_init(struct selene_options *options) {
    *options = (struct selene_options){.struct_bytes = sizeof *options};
}

int selene_open(selene_store **out, const struct selene_options *options, struct selene_message *message) {
    selene_store *store = *out = calloc(1, sizeof *store);
    if (store == NULL || sel_layout_create(&store->layout, options->layout, message))
        abort();
    uint32_t count = options->layout->rank_count * options->layout->plane_count;
    if (count > 64 || options->layout->rank_count > 8)
        abort();
    for (uint32_t i = 0; i < count; i++)
        store->planes[i] = options->planes[i];
    store->share = store->layout->page_bytes;
    for (size_t i = mock_disk_lost; disk && i < disk->record_count; i++)
        store->records[store->record_count++] = disk->records[i];
    return 0;
}

int selene_close(selene_store **store) {
    if (*store) {
        for (size_t i = 0; disk == NULL && i < (*store)->record_count; i++)
            free((*store)->records[i].bytes);
        for (size_t i = 0; i < (*store)->pending_count; i++)
            free((*store)->pending[i].blocks);
        sel_layout_destroy(&(*store)->layout);
        free(*store);
    }
    *store = NULL;
    return 0;
}

int selene_prefix_create(selene_prefix **out, const selene_store *store, const void *salt, size_t salt_bytes) {
    selene_prefix *prefix = *out = calloc(1, sizeof *prefix);
    return prefix ? sel_prefix_create(&prefix->keys, store->layout, salt, salt_bytes) : SELENE_E_NOMEM;
}
void selene_prefix_destroy(selene_prefix **prefix) {
    if (*prefix)
        sel_prefix_destroy(&(*prefix)->keys);
    free(*prefix);
    *prefix = NULL;
}
int selene_prefix_append(selene_prefix *prefix, const uint32_t *tokens, size_t count) {
    return sel_prefix_append(prefix->keys, tokens, count);
}
int selene_prefix_truncate(selene_prefix *prefix, uint64_t tokens) { return sel_prefix_truncate(prefix->keys, tokens); }
uint64_t selene_prefix_tokens(const selene_prefix *prefix) { return sel_prefix_tokens(prefix->keys); }

/* ---- copies ---- */

static uint32_t pages_of(const selene_store *store, uint32_t tokens) {
    uint32_t page = store->layout->desc.page_tokens;
    return (tokens + page - 1) / page;
}

static uint64_t record_bytes(const selene_store *store, uint32_t tokens) {
    const struct selene_layout *layout = &store->layout->desc;
    return layout->rank_count * (pages_of(store, tokens) * store->share + layout->row_bytes);
}

/* Valid bytes only; `out` from device to record. */
static void pages_copy(const selene_store *store, struct record *record, const uint32_t *blocks, bool out,
                       bool backwards) {
    const struct selene_layout *layout = &store->layout->desc;
    uint32_t pages = pages_of(store, record->tokens);
    uint8_t *at = record->bytes;
    for (uint32_t rank = 0; rank < layout->rank_count; rank++)
        for (uint32_t page = 0; page < pages; page++) {
            uint32_t held = record->tokens - page * layout->page_tokens;
            held = held < layout->page_tokens ? held : layout->page_tokens;
            uint32_t block = blocks[backwards ? pages - 1 - page : page];
            for (uint32_t p = 0; p < layout->plane_count; p++, at += layout->planes[p - 1].bytes) {
                const struct selene_plane_memory *plane = &store->planes[rank * layout->plane_count + p];
                uint8_t *device = (uint8_t *)plane->base + plane->stride_bytes * block;
                uint64_t count = sel_layout_valid_bytes(store->layout, p, held);
                memcpy(out ? at : device, out ? device : at, count);
            }
        }
}

static void rows_copy(const selene_store *store, struct record *record, void *const *rows, bool out) {
    const struct selene_layout *layout = &store->layout->desc;
    uint8_t *at = record->bytes + layout->rank_count * pages_of(store, record->tokens) * store->share;
    for (uint32_t rank = 0; rank < layout->rank_count && layout->row_bytes; rank++, at += layout->row_bytes)
        memcpy(out ? at : rows[rank], out ? rows[rank] : at, layout->row_bytes);
}

/* ---- look-up, restore, publish ---- */

static struct record *find(selene_store *store, const selene_prefix *prefix, uint64_t limit) {
    struct record *best = NULL;
    for (size_t i = 0; i < store->record_count; i++) {
        struct record *record = &store->records[i];
        struct sel_key key;
        if (record->bytes == NULL || record->tokens > limit || (best && best->tokens >= record->tokens))
            continue;
        if (sel_prefix_key_at(prefix->keys, record->tokens, &key) == 0 && sel_key_equal(&key, &record->key))
            best = record;
    }
    return best;
}

int selene_lookup(selene_store *store, const selene_prefix *prefix, uint64_t limit_tokens, struct selene_match *match) {
    struct record *record = find(store, prefix, limit_tokens);
    *match = (struct selene_match){.tokens = record ? record->tokens : 0, .tier = record ? 0 : SELENE_TIER_NONE};
    return 0;
}

static struct pending *pending_add(selene_store *store, int kind, uint64_t tokens) {
    struct pending *pending = &store->pending[store->pending_count++];
    *pending = (struct pending){.event = {.kind = kind, .ticket = ++store->tickets, .tokens = tokens}};
    return pending;
}

static bool refuse(selene_store *store) {
    if (store->retried++ < mock_faults.retries)
        return true;
    store->retried = 0;
    return false;
}

static void restore_spoil(selene_store *store, const struct selene_device_state *state) {
    const struct selene_plane_memory *plane = &store->planes[0];
    uint8_t *last = (uint8_t *)plane->base + plane->stride_bytes * state->blocks[state->block_count - 1];
    uint32_t n = store->restores;
    if (n == mock_faults.flip_restore)
        last[0] ^= 1;
    if (n == mock_faults.stray_restore)
        last[store->layout->desc.planes[0].bytes - 1] ^= 1;
    if (n == mock_faults.flip_row)
        ((uint8_t *)state->rows[store->layout->desc.rank_count - 1])[store->layout->desc.row_bytes - 1] ^= 0x80;
}

int selene_restore(selene_store *store, const selene_prefix *prefix, uint64_t tokens,
                   const struct selene_device_state *state, uint64_t *ticket) {
    struct record *record = find(store, prefix, tokens);
    if (record == NULL)
        return SELENE_E_NOTFOUND;
    if (refuse(store))
        return SELENE_E_RETRY;
    store->restores++;
    struct pending *pending = pending_add(store, SELENE_EVENT_RESTORE, record->tokens);
    *ticket = pending->event.ticket;
    if (store->restores == mock_faults.short_restore) {
        record = find(store, prefix, tokens / 2);
        pending->event.result = SELENE_E_CORRUPT;
        pending->event.tokens = record ? record->tokens : 0;
    }
    pending->event.tokens_by_tier[SELENE_TIER_MEMORY] = pending->event.tokens;
    if (record)
        pages_copy(store, record, state->blocks, false, store->restores == mock_faults.foreign_restore);
    if (record && pending->event.result == 0)
        rows_copy(store, record, state->rows, false);
    restore_spoil(store, state);
    return 0;
}

static void publish_copy(selene_store *store, struct pending *pending) {
    pages_copy(store, pending->record, pending->blocks, true, false);
    rows_copy(store, pending->record, pending->rows, true);
    free(pending->blocks);
    pending->blocks = NULL;
    if (disk)
        disk->records[disk->record_count++] = *pending->record;
}

int selene_publish(selene_store *store, const selene_prefix *prefix, uint64_t tokens,
                   const struct selene_device_state *state, struct selene_publish_result *result) {
    const struct selene_layout *layout = &store->layout->desc;
    if (++store->publishes == mock_faults.die_at_publish)
        _exit(0);
    if (mock_faults.fail_publish)
        return SELENE_E_INVALID;
    if (layout->row_bytes == 0)
        tokens = tokens / layout->page_tokens * layout->page_tokens;
    struct record *held = tokens ? find(store, prefix, tokens) : NULL;
    *result = (struct selene_publish_result){.answer = SELENE_PRESENT};
    if (tokens == 0 || (held && held->tokens == tokens))
        return 0;
    result->answer = SELENE_RETRY, result->reason = SELENE_RETRY_SLOTS;
    if (refuse(store))
        return 0;
    if (store->handed_back++ < mock_faults.hand_back) {
        struct pending *pending = pending_add(store, SELENE_EVENT_PUBLISH, tokens);
        pending->event.result = SELENE_E_RETRY;
        pending->wait = state->wait;
        *result = (struct selene_publish_result){.answer = SELENE_ACCEPTED, .ticket = pending->event.ticket};
        return 0;
    }
    store->handed_back = 0;
    struct record *record = &store->records[store->record_count++];
    if (store->record_count > RECORDS || sel_prefix_key_at(prefix->keys, tokens, &record->key))
        abort();
    record->tokens = (uint32_t)tokens;
    record->bytes = bytes_make(record_bytes(store, record->tokens));
    struct pending *pending = pending_add(store, SELENE_EVENT_PUBLISH, tokens);
    *result = (struct selene_publish_result){.answer = SELENE_ACCEPTED, .ticket = pending->event.ticket};
    pending->record = record, pending->wait = state->wait;
    pending->blocks = calloc(state->block_count, sizeof(uint32_t));
    memcpy(pending->blocks, state->blocks, state->block_count * sizeof(uint32_t));
    for (uint32_t rank = 0; rank < layout->rank_count && layout->row_bytes; rank++)
        pending->rows[rank] = state->rows[rank];
    if (mock_faults.early)
        pending->wait = NULL;
    if (pending->wait == NULL)
        publish_copy(store, pending);
    return 0;
}

int selene_prefix_key(const selene_prefix *prefix, uint64_t tokens, uint8_t key[32]) {
    struct sel_key found;
    int result = sel_prefix_key_at(prefix->keys, tokens, &found);
    memcpy(key, &found, sizeof found);
    return result;
}

int selene_get_stats(selene_store *store, struct selene_stats *stats, size_t stats_bytes) {
    memset(stats, 0, stats_bytes);
    stats->records[0] = store->record_count;
    stats->evictions[SELENE_TIER_DISK] = mock_disk_evictions;
    return 0;
}

void selene_publish_abandoned(selene_store *store, int reason) { (void)store, (void)reason; }

int selene_poll(selene_store *store, struct selene_event *events, size_t capacity) {
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < store->pending_count; i++) {
        struct pending *pending = &store->pending[i];
        bool ready = pending->wait == NULL || __atomic_load_n(pending->wait, __ATOMIC_ACQUIRE);
        if (count == capacity || !ready) {
            store->pending[kept++] = *pending;
            continue;
        }
        if (pending->blocks)
            publish_copy(store, pending);
        if (disk && pending->event.kind == SELENE_EVENT_PUBLISH && pending->event.result == 0) {
            if (count + 2 > capacity) {
                store->pending[kept++] = *pending;
                continue;
            }
            events[count] = (struct selene_event){.kind = SELENE_EVENT_COMMITTED, .tokens = pending->event.tokens};
            memcpy(events[count++].key, &pending->record->key, 32);
        }
        events[count++] = pending->event;
    }
    store->pending_count = kept;
    return (int)count;
}

int selene_wait(selene_store *store, uint64_t timeout_ns) {
    (void)store, (void)timeout_ns;
    return 0;
}

int selene_drain(selene_store *store, uint64_t deadline_ns, uint64_t *ticket) {
    (void)deadline_ns;
    *ticket = pending_add(store, SELENE_EVENT_DRAIN, 0)->event.ticket;
    return 0;
}
