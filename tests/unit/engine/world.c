/* SPDX-License-Identifier: Apache-2.0
 *
 * See world.h.
 */
#include "tests/unit/engine/world.h"

#include <unistd.h>

const struct world_layout world_with_rows = {
    .page_tokens = 8, .rank_count = 2, .entry_bytes = {96, 5000}, .entry_tokens = {1, 4}, .row_bytes = 30000};
const struct world_layout world_without_rows = {
    .page_tokens = 8, .rank_count = 2, .entry_bytes = {96, 5000}, .entry_tokens = {1, 4}, .row_bytes = 0};

void world_init(struct world *world, const struct world_layout *shape, uint32_t block_count, uint64_t warm_slots,
                bool inline_edges) {
    struct sel_layout *layout;
    memset(world, 0, sizeof *world);
    world->shape = *shape;
    world->block_count = block_count;
    for (int plane = 0; plane < WORLD_PLANES; plane++) {
        world->plane_desc[plane].entry_bytes = shape->entry_bytes[plane];
        world->plane_desc[plane].entry_tokens = shape->entry_tokens[plane];
        world->plane_desc[plane].bytes =
            (uint64_t)shape->entry_bytes[plane] * (shape->page_tokens / shape->entry_tokens[plane]);
    }
    world->layout = (struct selene_layout){.page_tokens = shape->page_tokens,
                                           .rank_count = shape->rank_count,
                                           .plane_count = WORLD_PLANES,
                                           .planes = world->plane_desc,
                                           .row_bytes = shape->row_bytes,
                                           .description = "test",
                                           .description_bytes = 4};
    assert_ok(sel_layout_create(&layout, &world->layout, NULL));
    world->slot_bytes = layout->slot_bytes;
    sel_layout_destroy(&layout);
    for (uint32_t rank = 0; rank < shape->rank_count; rank++)
        for (int plane = 0; plane < WORLD_PLANES; plane++) {
            uint64_t bytes = world->plane_desc[plane].bytes;
            world->planes[rank][plane] = calloc(block_count, bytes);
            assert_non_null(world->planes[rank][plane]);
            world->memory[rank * WORLD_PLANES + (uint32_t)plane] =
                (struct selene_plane_memory){world->planes[rank][plane], bytes};
        }
    selene_options_init(&world->options);
    world->options.layout = &world->layout;
    world->options.planes = world->memory;
    world->options.block_count = block_count;
    world->options.memory_bytes = warm_slots * world->slot_bytes;
    world->options.max_active_requests = 1;
    world->options.page_group = 4;
    world->options.worker_threads = 2;
    world->options.log_level = SEL_LOG_ERROR;
    world->env.poison_slots = true;
    world->inline_edges = inline_edges;
    if (inline_edges) {
        sel_ready_init(&world->ready, NULL, NULL);
        sel_clock_manual_init(&world->clock);
        sel_random_seed(&world->random, 1);
        assert_ok(sel_workers_create_inline(&world->workers));
        assert_ok(sel_workers_create_inline(&world->blocking));
        world->env.ready = &world->ready;
        world->env.clock = &world->clock.clock;
        world->env.random = &world->random;
        world->env.workers = world->workers;
        world->env.blocking = world->blocking;
    }
}

void world_disk(struct world *world, uint64_t seed) {
    world->env.segment_bytes = 2 << 20;
    if (!world->inline_edges) {
        world->directory = test_directory_make("engine");
        world->options.disk_directory = world->directory;
        return;
    }
    /* Some disks have no fallocate: the record store then copies live extents forward. */
    struct sel_disk_sim_config config = {.seed = seed, .no_fallocate = seed % 4 == 3};
    assert_ok(sel_disk_sim_create(&world->disk_sim, &config, &world->clock));
    assert_ok(sel_catalog_sim_create(&world->catalog_sim));
}

static void open_edges(struct world *world) {
    struct sel_disk *inner;
    if (!world->disk_sim)
        return;
    assert_ok(sel_disk_sim_open(&inner, world->disk_sim, &world->ready));
    assert_ok(sel_disk_fault_create(&world->disk, inner, &world->ready));
    assert_ok(sel_catalog_sim_open(&world->env.catalog, world->catalog_sim, &world->env.rebuild));
    world->env.disk = world->disk;
}

static void close_edges(struct world *world) {
    if (!world->env.disk)
        return;
    world->disk->ops->destroy(world->disk);
    world->env.catalog->ops->close(world->env.catalog);
    world->env.disk = world->disk = NULL;
    world->env.catalog = NULL;
}

void world_crash(struct world *world, uint64_t seed) {
    if (world->disk_sim)
        sel_disk_sim_cut(world->disk_sim);
    sel_store_crash(&world->store);
    if (!world->disk_sim)
        return;
    size_t commits = sel_catalog_sim_commits(world->catalog_sim);
    world->disk->ops->destroy(world->disk);
    sel_disk_sim_crash(world->disk_sim, SEL_DISK_SIM_RANDOM, seed);
    world->env.catalog->ops->close(world->env.catalog);
    assert_ok(sel_catalog_sim_crash(world->catalog_sim, commits));
    world->env.disk = world->disk = NULL;
    world->env.catalog = NULL;
}

struct sel_node *world_node(struct world *world, const struct sequence *sequence, uint32_t tokens) {
    struct sel_key key;
    assert_ok(selene_prefix_key(sequence->prefix, tokens, key.bytes));
    struct sel_node *node = sel_tree_find(world->store->tree, world->store->layout->ns, &key, tokens);
    assert_non_null(node);
    return node;
}

void world_damage(struct world *world, struct sel_node *node, enum sel_tier tier, enum sel_lsm_part part,
                  uint32_t index) {
    const uint64_t at = 10; /* in the first plane, or the row: valid in every page */
    const struct sel_memory *memory = node->memory;
    if (tier == SEL_TIER_MEMORY) {
        const struct sel_copy_part *copy = part == SEL_LSM_ROW ? &memory->row : &memory->pages;
        sel_part_share(world->store, copy, index)[at] ^= 1;
        return;
    }
    bool row = part == SEL_LSM_ROW;
    uint64_t place = row ? node->disk.row : node->disk.pages;
    uint64_t blocks = row ? node->disk.row_blocks : node->disk.pages_blocks;
    uint32_t pieces = row ? world->store->layout->row_slots : sel_node_page_count(world->store, node);
    bool packed = node->flags & (row ? SEL_DISK_ROW_PACKED : SEL_DISK_PAGES_PACKED);
    uint64_t piece_bytes = packed ? world->slot_bytes / world->shape.rank_count : world->slot_bytes;
    uint64_t offset = ((uint32_t)place + blocks) * SEL_BLOCK_BYTES - (pieces - index) * piece_bytes + at;
    char name[32];
    uint8_t byte;
    snprintf(name, sizeof name, "seg-%08x.sel", (uint32_t)(place >> 32));
    assert_ok(sel_disk_sim_peek(world->disk_sim, name, offset, &byte, 1));
    byte ^= 1;
    assert_ok(sel_disk_sim_poke(world->disk_sim, name, offset, &byte, 1));
}

void world_reopen(struct world *world, struct sequence *sequences, size_t count) {
    assert_int_equal(world_drain(world).result, 0);
    world_close(world);
    world_open(world);
    for (size_t i = 0; i < count; i++)
        sequence_prefix(world, &sequences[i]);
}

struct selene_event world_drain(struct world *world) {
    uint64_t ticket;
    assert_ok(selene_drain(world->store, 0, &ticket));
    struct selene_event event = world_wait(world, ticket);
    assert_int_equal(event.kind, SELENE_EVENT_DRAIN);
    return event;
}

struct selene_stats world_stats(struct world *world) {
    struct selene_stats stats;
    assert_ok(selene_get_stats(world->store, &stats, sizeof stats));
    return stats;
}

void world_open(struct world *world) {
    struct selene_message message;
    open_edges(world);
    int result = sel_store_open_env(&world->store, &world->options, &world->env, &message);
    if (result)
        print_error("open: %s\n", message.text);
    assert_int_equal(result, 0);
}

void world_close(struct world *world) {
    assert_ok(selene_close(&world->store));
    assert_null(world->store);
    close_edges(world);
}

void world_close_failed(struct world *world) {
    int result = selene_close(&world->store);
    assert_true(result == 0 || result == SELENE_E_IO);
    assert_null(world->store);
    close_edges(world);
}

void world_destroy(struct world *world) {
    if (world->store)
        world_close(world);
    for (uint32_t rank = 0; rank < world->shape.rank_count; rank++)
        for (int plane = 0; plane < WORLD_PLANES; plane++)
            free(world->planes[rank][plane]);
    if (world->inline_edges) {
        sel_workers_destroy(&world->workers);
        sel_workers_destroy(&world->blocking);
        sel_ready_destroy(&world->ready);
    }
    sel_disk_sim_destroy(&world->disk_sim);
    sel_catalog_sim_destroy(&world->catalog_sim);
    test_directory_remove(&world->directory);
}

/* ---- sequences ---- */

void sequence_prefix(struct world *world, struct sequence *sequence) {
    selene_prefix_destroy(&sequence->prefix);
    assert_ok(selene_prefix_create(&sequence->prefix, world->store, NULL, 0));
    assert_ok(selene_prefix_append(sequence->prefix, sequence->tokens, sequence->count));
}

void sequence_fork(struct world *world, struct sequence *sequence, const struct sequence *from, uint32_t shared,
                   uint64_t seed, uint32_t count) {
    uint64_t history = 0x5e1e;
    struct sequence made = {.count = count};
    made.tokens = malloc(count * sizeof *made.tokens);
    made.history = malloc(count * sizeof *made.history);
    assert_true(made.tokens && made.history);
    for (uint32_t i = 0; i < count; i++) {
        made.tokens[i] = i < shared ? from->tokens[i] : (uint32_t)sel_mix64(seed * 1000003 + i);
        history = sel_mix64(history ^ made.tokens[i]);
        made.history[i] = history;
    }
    *sequence = made;
    sequence_prefix(world, sequence);
}

void sequence_make(struct world *world, struct sequence *sequence, uint64_t seed, uint32_t count) {
    sequence_fork(world, sequence, NULL, 0, seed, count);
}

void sequence_free(struct sequence *sequence) {
    selene_prefix_destroy(&sequence->prefix);
    free(sequence->tokens);
    free(sequence->history);
    memset(sequence, 0, sizeof *sequence);
}

/* ---- device memory ---- */

void request_make(struct world *world, struct device_request *request, uint32_t first_block, uint32_t blocks) {
    memset(request, 0, sizeof *request);
    assert_true(first_block + blocks <= world->block_count);
    request->blocks = malloc((blocks + 1) * sizeof *request->blocks);
    assert_non_null(request->blocks);
    /* Backwards, so that a block is never its page's number. */
    for (uint32_t i = 0; i < blocks; i++)
        request->blocks[i] = first_block + blocks - 1 - i;
    for (uint32_t rank = 0; rank < world->shape.rank_count && world->shape.row_bytes; rank++) {
        request->rows[rank] = calloc(1, world->shape.row_bytes);
        assert_non_null(request->rows[rank]);
    }
    request->state = (struct selene_device_state){.blocks = request->blocks,
                                                  .block_count = blocks,
                                                  .rows = world->shape.row_bytes ? (void *const *)request->rows : NULL};
}

void request_free(struct world *world, struct device_request *request) {
    for (uint32_t rank = 0; rank < world->shape.rank_count; rank++)
        free(request->rows[rank]);
    free(request->blocks);
    memset(request, 0, sizeof *request);
}

/* Fills with, or counts differences from, a stream of bytes; returns the count. */
static uint64_t stream(uint8_t *bytes, uint64_t count, uint64_t seed, bool fill) {
    uint64_t wrong = 0, word = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (i % 8 == 0)
            word = sel_mix64(seed + i);
        uint8_t expected = (uint8_t)(word >> (i % 8 * 8));
        if (fill)
            bytes[i] = expected;
        else
            wrong += bytes[i] != expected;
    }
    return wrong;
}

static bool differs(const struct world_layout *shape, uint32_t page) {
    return shape->differ_every && page % shape->differ_every == shape->differ_every - 1;
}

static uint64_t walk(struct world *world, const struct device_request *request, const struct sequence *sequence,
                     uint32_t tokens, bool row, bool fill) {
    const struct world_layout *shape = &world->shape;
    uint64_t wrong = 0;
    for (uint32_t rank = 0; rank < shape->rank_count; rank++) {
        for (uint32_t plane = 0; plane < WORLD_PLANES; plane++) {
            uint32_t each = shape->entry_tokens[plane], bytes = shape->entry_bytes[plane];
            for (uint32_t last = each - 1; last < tokens; last += each) {
                uint32_t page = last / shape->page_tokens, entry = last % shape->page_tokens / each;
                uint8_t *at = world->planes[rank][plane] + request->blocks[page] * world->plane_desc[plane].bytes +
                              (uint64_t)entry * bytes;
                uint64_t share = shape->pages_alike && !differs(shape, page) ? 0 : rank;
                wrong += stream(at, bytes, sel_mix64(sequence->history[last] + plane * 64 + share), fill);
            }
        }
        if (row && shape->row_bytes && tokens) {
            bool alike = shape->row_alike && !differs(shape, (tokens - 1) / shape->page_tokens);
            wrong += stream(request->rows[rank], shape->row_bytes,
                            sel_mix64(sequence->history[tokens - 1] + 9999 + (alike ? 0 : rank)), fill);
        }
    }
    return wrong;
}

void request_fill(struct world *world, struct device_request *request, const struct sequence *sequence,
                  uint32_t tokens) {
    walk(world, request, sequence, tokens, true, true);
}

uint64_t request_wrong(struct world *world, const struct device_request *request, const struct sequence *sequence,
                       uint32_t tokens, bool row) {
    return walk(world, request, sequence, tokens, row, false);
}

void request_clear(struct world *world, struct device_request *request, uint8_t byte) {
    for (uint32_t rank = 0; rank < world->shape.rank_count; rank++) {
        for (uint32_t plane = 0; plane < WORLD_PLANES; plane++)
            for (uint32_t i = 0; i < request->state.block_count; i++)
                memset(world->planes[rank][plane] + request->blocks[i] * world->plane_desc[plane].bytes, byte,
                       world->plane_desc[plane].bytes);
        if (request->rows[rank])
            memset(request->rows[rank], byte, world->shape.row_bytes);
    }
}

uint64_t request_touched(struct world *world, const struct device_request *request, uint32_t tokens, uint8_t byte) {
    const struct world_layout *shape = &world->shape;
    uint64_t touched = 0;
    for (uint32_t rank = 0; rank < shape->rank_count; rank++)
        for (uint32_t plane = 0; plane < WORLD_PLANES; plane++)
            for (uint32_t page = 0; page < request->state.block_count; page++) {
                uint64_t bytes = world->plane_desc[plane].bytes, valid = 0;
                uint32_t start = page * shape->page_tokens;
                if (tokens > start)
                    valid = (uint64_t)(SEL_MIN(tokens - start, shape->page_tokens) / shape->entry_tokens[plane]) *
                            shape->entry_bytes[plane];
                const uint8_t *at = world->planes[rank][plane] + request->blocks[page] * bytes;
                for (uint64_t i = valid; i < bytes; i++)
                    touched += at[i] != byte;
            }
    return touched;
}

/* ---- driving ---- */

int world_poll(struct world *world, struct selene_event *events, size_t capacity) {
    int count = selene_poll(world->store, events, capacity);
    assert_true(count >= 0);
    if (count == 0) {
        if (world->disk && sel_disk_sim_next_ns(world->disk_sim) != UINT64_MAX)
            world->disk->ops->wait(world->disk, 10 * SEL_NS_PER_MS);
        else if (world->inline_edges)
            sel_clock_manual_advance(&world->clock, 10 * SEL_NS_PER_MS);
        else
            assert_ok(selene_wait(world->store, 10 * SEL_NS_PER_MS));
    }
    return count;
}

struct selene_event world_wait(struct world *world, uint64_t ticket) {
    struct selene_event event;
    for (int round = 0; round < 100000; round++)
        if (world_poll(world, &event, 1) == 1 && event.ticket == ticket)
            return event;
    fail_msg("the event of ticket %lu never came", (unsigned long)ticket);
    memset(&event, 0, sizeof event);
    return event;
}

void world_check(struct world *world) {
    struct selene_message message;
    int result = selene_check(world->store, &message);
    if (result)
        print_error("check: %s\n", message.text);
    assert_int_equal(result, 0);
}

int world_publish(struct world *world, struct device_request *request, const struct sequence *sequence,
                  uint32_t tokens) {
    struct selene_publish_result result;
    request_fill(world, request, sequence, tokens);
    for (int round = 0; round < 1000; round++) {
        assert_ok(selene_publish(world->store, sequence->prefix, tokens, &request->state, &result));
        if (result.answer != SELENE_RETRY)
            break;
        struct selene_event event;
        world_poll(world, &event, 1);
    }
    if (result.answer == SELENE_ACCEPTED) {
        struct selene_event event = world_wait(world, result.ticket);
        assert_int_equal(event.kind, SELENE_EVENT_PUBLISH);
        assert_int_equal(event.result, 0);
        uint32_t expected = world->shape.row_bytes ? tokens : tokens - tokens % world->shape.page_tokens;
        assert_int_equal(event.tokens, expected);
    }
    world_check(world);
    return result.answer;
}

uint64_t world_lookup(struct world *world, const struct sequence *sequence, uint32_t limit, int *tier) {
    struct selene_match match;
    assert_ok(selene_lookup(world->store, sequence->prefix, limit, &match));
    if (tier)
        *tier = match.tier;
    assert_true((match.tokens == 0) == (match.tier == SELENE_TIER_NONE));
    return match.tokens;
}

uint64_t world_restore(struct world *world, struct device_request *request, const struct sequence *sequence,
                       uint32_t limit, int *result) {
    uint64_t ticket, tokens = world_lookup(world, sequence, limit, NULL);
    if (result)
        *result = 0;
    if (tokens == 0)
        return 0;
    request_clear(world, request, 0xee);
    int rc = selene_restore(world->store, sequence->prefix, tokens, &request->state, &ticket);
    for (int round = 0; rc == SELENE_E_RETRY && round < 1000; round++) {
        struct selene_event event;
        world_poll(world, &event, 1);
        rc = selene_restore(world->store, sequence->prefix, tokens, &request->state, &ticket);
    }
    assert_int_equal(rc, 0);
    struct selene_event event = world_wait(world, ticket);
    assert_int_equal(event.kind, SELENE_EVENT_RESTORE);
    if (result)
        *result = event.result;
    else
        assert_int_equal(event.result, 0);
    if (event.result == 0)
        assert_int_equal(event.tokens, tokens);
    assert_true(event.tokens <= tokens);
    uint64_t from_tiers = 0;
    for (int tier = 0; tier < SELENE_TIER_COUNT; tier++)
        from_tiers += event.tokens_by_tier[tier];
    if (event.result != SELENE_E_CANCELLED && world->shape.row_bytes)
        assert_int_equal(from_tiers, event.tokens);
    assert_int_equal(request_wrong(world, request, sequence, (uint32_t)event.tokens, true), 0);
    if (event.result == 0)
        assert_int_equal(request_touched(world, request, (uint32_t)event.tokens, 0xee), 0);
    world_check(world);
    return event.tokens;
}
