/* SPDX-License-Identifier: Apache-2.0
 *
 * selene_check: every invariant by brute force [fault 7]. The tree and the record store check themselves; here the
 * slots are counted by holder (free + records + drafts + loads + windows = capacity, none twice) and the counters
 * against the records.
 */
#include "engine/publish_priv.h"
#include "engine/restore_priv.h"

#include <inttypes.h>

/* What a tier holds, as the stats count it. */
struct gauges {
    uint64_t bytes, rows, packed, per_rank, packed_rows;
};

struct check {
    selene_store *store;
    uint8_t *seen; /* a byte a slot */
    uint64_t held, clean, parked;
    struct gauges tiers[SEL_TIER_COUNT];
    int result;
    struct selene_message *message;
};

static void fail(struct check *check, const char *what, uint64_t found, uint64_t expected) {
    check->result =
        sel_fail(check->message, SELENE_E_INTERNAL, "%s: found %" PRIu64 ", expected %" PRIu64, what, found, expected);
}

static void hold(struct check *check, const uint32_t *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] >= check->store->slots.total || !check->store->slots.used[ids[i]])
            fail(check, "a slot that is held but not given out", ids[i], check->store->slots.total);
        else if (check->seen[ids[i]]++)
            fail(check, "a slot that is held twice", ids[i], 1);
    }
    check->held += count;
}

static void check_part(struct check *check, const struct sel_copy_part *part, uint32_t pieces) {
    hold(check, part->slots, part->count);
    if (part->pieces != pieces)
        fail(check, "pieces of a memory copy", part->pieces, pieces);
    if (part->count != sel_part_slots(check->store, part->pieces, part->packed))
        fail(check, "slots of a memory copy", part->count, sel_part_slots(check->store, part->pieces, part->packed));
}

static void count(struct check *check, const struct sel_node *node, enum sel_tier tier, bool packed, bool row,
                  bool packed_row) {
    struct gauges *gauges = &check->tiers[tier];
    gauges->bytes += sel_node_bytes(check->store, node, tier);
    gauges->packed += packed;
    gauges->per_rank += !packed;
    gauges->rows += row;
    gauges->packed_rows += row && packed_row;
    if (packed_row && !row)
        fail(check, "a packed row that is not there", tier, 0);
}

/* What a flag asks for is done when the last pin goes: without a pin it would be forgotten [T3, T6, P6]. */
static void check_flags(struct check *check, const struct sel_node *node) {
    const struct sel_tier_state *memory = &node->tier[SEL_TIER_MEMORY], *disk = &node->tier[SEL_TIER_DISK];
    bool pinned = memory->pins > 0 || disk->pins > 0;
    if ((node->flags & SEL_THIN_MEMORY) && memory->pins == 0)
        fail(check, "a row to be thinned in memory, pins", 0, 1);
    if ((node->flags & SEL_THIN_DISK) && disk->pins == 0)
        fail(check, "a row to be thinned on disk, pins", 0, 1);
    if ((node->flags & SEL_THINNING_DISK) && disk->pins == 0)
        fail(check, "a row that is being removed, pins", 0, 1);
    if ((node->flags & SEL_BARREN) && !pinned)
        fail(check, "a barren record, pins", 0, 1);
}

static void check_node(void *context, struct sel_node *node) {
    struct check *check = context;
    const struct sel_memory *memory = node->memory;
    check_flags(check, node);
    if (node->tier[SEL_TIER_MEMORY].present != (memory != NULL))
        fail(check, "a memory copy beside its tier", memory != NULL, node->tier[SEL_TIER_MEMORY].present);
    if (node->tier[SEL_TIER_DISK].present != (node->disk.sequence != 0))
        fail(check, "a place on disk beside its tier", node->disk.sequence, node->tier[SEL_TIER_DISK].present);
    if (node->tier[SEL_TIER_DISK].present)
        count(check, node, SEL_TIER_DISK, node->flags & SEL_DISK_PAGES_PACKED, node->disk.row != 0,
              node->flags & SEL_DISK_ROW_PACKED);
    if (!memory)
        return;
    check_part(check, &memory->pages, sel_node_page_count(check->store, node));
    if (memory->row.count)
        check_part(check, &memory->row, check->store->layout->row_slots);
    count(check, node, SEL_TIER_MEMORY, memory->pages.packed, memory->row.count > 0, memory->row.packed);
    if (node->tier[SEL_TIER_MEMORY].parked)
        check->parked++;
    else
        check->clean += sel_memory_slots(memory);
    bool parked = !sel_node_pages_readable(node, SEL_TIER_DISK) || sel_memory_row_parked(check->store, node);
    if (!(node->flags & (SEL_BAD_DISK | SEL_DOOMED)) && node->tier[SEL_TIER_MEMORY].parked != parked)
        fail(check, "parked beside what the disk has", node->tier[SEL_TIER_MEMORY].parked, parked);
}

static void check_publish(struct check *check, const struct sel_publish *publish) {
    for (const struct sel_list *link = publish->drafts.next; link != &publish->drafts; link = link->next) {
        const struct sel_draft *draft = SEL_LIST_ENTRY(link, struct sel_draft, link);
        if (draft->memory) {
            hold(check, draft->memory->pages.slots, draft->memory->pages.count);
            hold(check, draft->memory->row.slots, draft->memory->row.count);
        }
        hold(check, draft->slots, draft->slot_count);
        if (draft->stream)
            check->held += sel_stream_slots(draft->stream);
    }
}

static void check_load(struct check *check, const struct sel_load *load) {
    hold(check, load->part.slots, load->part.count);
    for (uint32_t i = 0; i < load->chunk_count && !load->keep; i++)
        if (load->chunks[i].state != SEL_CHUNK_IDLE)
            hold(check, load->chunks[i].slots, load->chunks[i].count);
}

static void check_holders(struct check *check) {
    selene_store *store = check->store;
    sel_tree_visit(store->tree, check_node, check);
    for (struct sel_list *link = store->requests.next; link != &store->requests; link = link->next) {
        const struct sel_request *request = SEL_LIST_ENTRY(link, struct sel_request, link);
        if (request->event.kind == SELENE_EVENT_PUBLISH)
            check_publish(check, SEL_LIST_ENTRY(request, struct sel_publish, request));
    }
    for (struct sel_list *link = store->loads.next; link != &store->loads; link = link->next)
        check_load(check, SEL_LIST_ENTRY(link, struct sel_load, link));
}

static void check_gauges(struct check *check, int tier) {
    const struct selene_stats *stats = &check->store->stats;
    const struct gauges *gauges = &check->tiers[tier];
    if (gauges->bytes != stats->held_bytes[tier])
        fail(check, "bytes held", stats->held_bytes[tier], gauges->bytes);
    if (gauges->rows != stats->rows[tier])
        fail(check, "rows held", stats->rows[tier], gauges->rows);
    if (gauges->packed != stats->packed_records[tier])
        fail(check, "packed records", stats->packed_records[tier], gauges->packed);
    if (gauges->per_rank != stats->per_rank_records[tier])
        fail(check, "records per rank", stats->per_rank_records[tier], gauges->per_rank);
    if (gauges->packed_rows != stats->packed_rows[tier])
        fail(check, "packed rows", stats->packed_rows[tier], gauges->packed_rows);
}

/* What began to use a wave left it, whatever became of it: one left open would be measured as a stall for ever [R3]. */
static void check_wave(struct check *check, int tier) {
    const selene_store *store = check->store;
    const struct sel_wave *wave = &store->wave[tier];
    bool idle = store->request_count == 0 && sel_list_empty(&store->loads);
    if (idle && wave->users + wave->running > 0)
        fail(check, "users and transfers of a wave", wave->users + wave->running, 0);
}

int sel_store_check(selene_store *store, struct selene_message *message) {
    struct check check = {.store = store, .message = message};
    if (message)
        message->text[0] = 0;
    int result = sel_tree_check(store->tree, message);
    if (!result && store->lsm)
        result = sel_lsm_check(store->lsm, message);
    if (result)
        return result;
    check.seen = calloc(store->slots.total + 1, 1);
    if (!check.seen)
        return SELENE_E_NOMEM;
    check_holders(&check);
    free(check.seen);
    if (check.held + store->slots.free_count != store->slots.total)
        fail(&check, "slots held and free", check.held + store->slots.free_count, store->slots.total);
    if (check.clean != store->clean_slots)
        fail(&check, "clean slots", store->clean_slots, check.clean);
    if (check.parked != store->parked_count)
        fail(&check, "parked records", store->parked_count, check.parked);
    for (int tier = 0; tier < SEL_TIER_COUNT; tier++) {
        check_gauges(&check, tier);
        check_wave(&check, tier);
    }
    return check.result;
}

int selene_check(selene_store *store, struct selene_message *message) {
    int result = sel_store_usable(store);
    return result ? result : sel_store_check(store, message);
}
