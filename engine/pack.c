/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing in a store with a warm tier [K1]: for each record, and separately for its pages and its row, whether all ranks'
 * shares are alike; if so one share is copied and kept for all of them.
 *
 *   slots by prediction --> comparing --> settled: slots as the answer needs them --> copying
 *                                |  ^          |
 *                                |  `--lacking-'  not enough slots: those it had are given back, all are waited for
 *                                `--> ended: failed, cancelled, or too large for memory
 *
 * Slots are taken when the publish is called, so that "no room" is its answer; what the last comparison said is taken to
 * hold for this one. Nothing is copied before the comparison is through, so a draft that lacks slots has no use for the
 * ones it holds: it gives them back and waits with none, as nobody who waits may stand in the way of others [faults 24,
 * 25]. For the same reason the next draft of a chain is not started before this one is settled.
 */
#include "engine/publish_priv.h"

#include <string.h>

bool sel_pack_allowed(const selene_store *store) {
    return store->layout->desc.rank_count > 1 && !store->options.no_packing;
}

uint32_t sel_draft_slots(const struct sel_draft *draft) {
    const selene_store *store = draft->publish->store;
    return sel_part_slots(store, draft->page_count, draft->pages_packed) +
           sel_part_slots(store, store->layout->row_slots, draft->row_packed);
}

void sel_draft_predict(struct sel_draft *draft) {
    const selene_store *store = draft->publish->store;
    bool allowed = sel_pack_allowed(store);
    draft->pages_packed = allowed && store->pages_pack;
    draft->row_packed = allowed && store->row_pack;
    if (allowed && sel_draft_slots(draft) > store->warm_slots) /* it is packed, or oversize [M5] */
        draft->pages_packed = draft->row_packed = true;
}

void sel_draft_give_back(struct sel_draft *draft, uint32_t keep) {
    if (draft->slot_count <= keep)
        return;
    sel_slots_give(&draft->publish->store->slots, draft->slots + keep, draft->slot_count - keep);
    draft->slot_count = keep;
}

int sel_draft_take(struct sel_draft *draft) {
    selene_store *store = draft->publish->store;
    uint32_t need = sel_draft_slots(draft);
    sel_draft_give_back(draft, need);
    if (draft->slot_count == need)
        return 0;
    sel_draft_give_back(draft, 0);
    if (need > store->warm_slots)
        return SELENE_E_OVERSIZE;
    /* A window stays free for restores, so that they never wait for publishes [faults 24, 25]. */
    if (!sel_slots_obtain(store, draft->slots, need, store->window_slots))
        return SELENE_E_RETRY;
    draft->slot_count = need;
    return 0;
}

/* Gives a part its slots, from the end of those that the draft holds. */
static int fill_part(struct sel_draft *draft, struct sel_copy_part *part, uint32_t pieces, bool packed, size_t sums) {
    uint32_t count = sel_part_slots(draft->publish->store, pieces, packed);
    int result = sel_copy_part_create(part, count, sums);
    if (result)
        return result;
    draft->slot_count -= count;
    memcpy(part->slots, draft->slots + draft->slot_count, count * sizeof *part->slots);
    part->count = count;
    part->pieces = pieces;
    part->packed = packed;
    return 0;
}

static int fill_memory(struct sel_draft *draft) {
    const struct sel_layout *layout = draft->publish->store->layout;
    size_t ranks = layout->desc.rank_count, each = draft->pages_packed ? 1 : ranks;
    struct sel_memory *memory = draft->memory = sel_memory_create();
    int result = memory ? 0 : SELENE_E_NOMEM;
    if (!result && layout->row_slots)
        result = fill_part(draft, &memory->row, layout->row_slots, draft->row_packed, draft->row_packed ? 1 : ranks);
    if (!result)
        result = fill_part(draft, &memory->pages, draft->page_count, draft->pages_packed, draft->page_count * each);
    return result;
}

static void set_lacking(struct sel_draft *draft, bool lacking) {
    selene_store *store = draft->publish->store;
    if (store->lacking_count == 0)
        store->lacking_since_ns = sel_mono_ns(store->clock);
    store->lacking_count += (uint32_t)lacking - (uint32_t)draft->lacking;
    draft->lacking = lacking;
}

void sel_draft_give_up(struct sel_draft *draft, int code) {
    set_lacking(draft, false);
    draft->result = code;
    draft->done = true;
}

int sel_draft_settle(struct sel_draft *draft) {
    const struct sel_publish *publish = draft->publish;
    int result = SELENE_E_CANCELLED;
    if (!publish->cancelled && !publish->result)
        result = draft->stream ? sel_stream_begin(draft) : sel_draft_take(draft);
    if (result == SELENE_E_RETRY) {
        set_lacking(draft, true);
        return result;
    }
    if (!result && !draft->stream)
        result = fill_memory(draft);
    if (result) {
        sel_draft_give_up(draft, result);
        return 0;
    }
    set_lacking(draft, false);
    if (!draft->stream)
        sel_draft_copy(draft);
    return 0;
}

/* ---- comparing ---- */

static void compared(struct sel_draft *draft, int result) {
    selene_store *store = draft->publish->store;
    if (!draft->result)
        draft->result = result;
    if (--draft->in_flight > 0)
        return;
    draft->comparing = false;
    if (draft->result) {
        sel_draft_give_up(draft, draft->result);
    } else {
        if (draft->page_compare.item_count)
            draft->pages_packed = store->pages_pack = draft->page_compare.identical;
        if (store->layout->row_slots)
            draft->row_packed = store->row_pack = draft->row_compare.identical;
        /* Without slots for it the publish waits. */
        (void)sel_draft_settle(draft);
    }
    sel_publish_go_on(draft->publish);
}
static void page_compare_done(struct sel_op *op) {
    compared(SEL_CONTAINER(op, struct sel_draft, page_compare.op), op->result);
}
static void row_compare_done(struct sel_op *op) {
    compared(SEL_CONTAINER(op, struct sel_draft, row_compare.op), op->result);
}

void sel_draft_compare(struct sel_draft *draft, uint32_t pages) {
    const struct sel_publish *publish = draft->publish;
    struct sel_device *device = publish->store->device;
    draft->comparing = true;
    draft->in_flight = pages > 0;
    draft->page_compare = (struct sel_compare){.items = draft->items,
                                               .item_count = pages,
                                               .planes = publish->store->planes,
                                               .wait = publish->wait,
                                               .block_limit = publish->store->options.block_count};
    sel_op_init(&draft->page_compare.op, page_compare_done);
    if (publish->store->layout->row_slots) {
        draft->in_flight++;
        draft->row_compare = (struct sel_compare){.row = true, .rows = publish->rows, .wait = publish->wait};
        sel_op_init(&draft->row_compare.op, row_compare_done);
        device->ops->compare(device, &draft->row_compare);
    }
    if (pages)
        device->ops->compare(device, &draft->page_compare);
}

void sel_draft_stop(struct sel_draft *draft) {
    struct sel_device *device = draft->publish->store->device;
    if (draft->page_compare.op.in_flight)
        device->ops->cancel_compare(device, &draft->page_compare);
    if (draft->row_compare.op.in_flight)
        device->ops->cancel_compare(device, &draft->row_compare);
    if (draft->page_copy.op.in_flight)
        device->ops->cancel(device, &draft->page_copy);
    if (draft->row_copy.op.in_flight)
        device->ops->cancel(device, &draft->row_copy);
    if (draft->lacking)
        sel_draft_give_up(draft, SELENE_E_CANCELLED);
}
