/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of a crash test and their bytes; see model.h.
 */
#include "tests/crash/model.h"

#include "base/checksum.h"
#include "tests/lib/test.h"

static void make_layout(struct model *model) {
    const struct selene_plane planes[2] = {{.bytes = 5000}, {.bytes = 300}};
    const struct selene_layout desc = {.page_tokens = MODEL_PAGE_TOKENS,
                                       .rank_count = MODEL_RANKS,
                                       .plane_count = 2,
                                       .planes = planes,
                                       .row_bytes = 6000,
                                       .description = "crash",
                                       .description_bytes = 5};
    assert_ok(sel_layout_create(&model->layout, &desc, NULL));
}

void model_create(struct model *model) {
    memset(model, 0, sizeof *model);
    make_layout(model);
}

void model_destroy(struct model *model) {
    model_cut(model, 0);
    sel_layout_destroy(&model->layout);
}

void model_cut(struct model *model, uint32_t count) {
    while (model->count > count) {
        struct model_record *record = &model->records[--model->count];
        for (int i = 0; i < 2; i++) {
            free(record->part[i].bytes);
            free(record->part[i].sums);
        }
    }
}

struct sel_key model_key(uint64_t key_id, uint32_t salt) {
    struct sel_key key;
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t word = sel_mix64(sel_mix64(key_id * 64 + salt) + i);
        memcpy(key.bytes + i * 8, &word, 8);
    }
    return key;
}

/* A page share's checksum [I2]. */
static uint64_t page_sum(const struct sel_layout *layout, const uint8_t *share) {
    uint64_t hashes[8], *at = hashes;
    for (uint32_t i = 0; i < layout->desc.plane_count; i++) {
        sel_checksum_plane(at, share + layout->plane_offset[i], layout->desc.planes[i].bytes);
        at += sel_checksum_blocks(layout->desc.planes[i].bytes);
    }
    return sel_checksum_finish(hashes, (size_t)(at - hashes));
}

/* Rows of this layout take one slot, so a rank's row lies in one piece. */
static uint64_t row_sum(const struct sel_layout *layout, const uint8_t *share) {
    uint64_t hashes[8];
    SEL_CHECK(layout->row_slots == 1);
    sel_checksum_plane(hashes, share, layout->desc.row_bytes);
    return sel_checksum_finish(hashes, sel_checksum_blocks(layout->desc.row_bytes));
}

/* Padding is filled, too: it is stored as it lies in memory. */
static void make_part(const struct sel_layout *layout, struct model_record *record, int kind, uint32_t slots,
                      bool replicated) {
    struct model_part *part = &record->part[kind];
    part->sum_count = (size_t)slots * (replicated ? 1 : MODEL_RANKS);
    part->count = part->sum_count * layout->share_bytes;
    part->bytes = aligned_alloc(4096, part->count);
    part->sums = calloc(part->sum_count, sizeof *part->sums);
    assert_true(part->bytes && part->sums);
    for (size_t i = 0; i < part->count; i += 8) {
        uint64_t word = sel_mix64(record->key_id << 32 ^ (uint64_t)kind << 31 ^ (uint64_t)replicated << 30 ^ i);
        memcpy(part->bytes + i, &word, 8);
    }
    for (size_t i = 0; i < part->sum_count; i++) {
        const uint8_t *share = part->bytes + i * layout->share_bytes;
        part->sums[i] = kind == SEL_LSM_ROW ? row_sum(layout, share) : page_sum(layout, share);
    }
}

struct model_record *model_add(struct model *model, const struct model_spec *spec) {
    if (model->count == MODEL_RECORDS)
        return NULL;
    struct model_record *record = &model->records[model->count];
    const struct sel_layout *layout = model->layout;
    uint32_t parent_tokens = spec->parent ? spec->parent->fields.tokens : 0;
    memset(record, 0, sizeof *record);
    record->number = model->count++;
    record->key_id = spec->key_id ? spec->key_id : record->number + 1;
    record->parent = spec->parent;
    record->row = spec->has_row ? MODEL_ROW_THERE : MODEL_ROW_NONE;
    record->fields = (struct sel_lsm_record){.page_tokens = MODEL_PAGE_TOKENS,
                                             .tokens = spec->tokens,
                                             .parent_tokens = parent_tokens,
                                             .key = model_key(record->key_id, 0),
                                             .base_key = model_key(record->key_id, 1),
                                             .page_keys = record->keys,
                                             .has_row = spec->has_row,
                                             .pages_replicated = spec->pages_replicated,
                                             .row_replicated = spec->has_row && spec->row_replicated,
                                             .time_s = MODEL_TIME_S + record->number};
    memcpy(record->fields.ns, layout->ns, sizeof record->fields.ns);
    if (spec->parent)
        record->fields.parent_key = spec->parent->fields.key;
    uint32_t count = spec->tokens / MODEL_PAGE_TOKENS - parent_tokens / MODEL_PAGE_TOKENS;
    SEL_CHECK(count <= SEL_COUNT(record->keys));
    record->fields.page_key_count = count;
    for (uint32_t i = 0; i < count; i++)
        record->keys[i] = model_key(record->key_id, 2 + i);
    if (count && spec->tokens % MODEL_PAGE_TOKENS == 0)
        record->keys[count - 1] = record->fields.key;
    uint32_t pages = sel_layout_end_page(layout, spec->tokens) - sel_layout_first_page(layout, parent_tokens);
    make_part(layout, record, SEL_LSM_PAGES, pages, spec->pages_replicated);
    if (spec->has_row)
        make_part(layout, record, SEL_LSM_ROW, layout->row_slots, record->fields.row_replicated);
    return record;
}

struct model_record *model_identify(struct model *model, const struct sel_lsm_record *fields) {
    if (fields->time_s < MODEL_TIME_S || fields->time_s - MODEL_TIME_S >= model->count)
        return NULL;
    struct model_record *record = &model->records[fields->time_s - MODEL_TIME_S];
    const struct sel_lsm_record *own = &record->fields;
    bool same = memcmp(own->ns, fields->ns, sizeof own->ns) == 0 && own->page_tokens == fields->page_tokens &&
                own->tokens == fields->tokens && own->parent_tokens == fields->parent_tokens &&
                sel_key_equal(&own->key, &fields->key) && sel_key_equal(&own->parent_key, &fields->parent_key) &&
                sel_key_equal(&own->base_key, &fields->base_key) && own->page_key_count == fields->page_key_count &&
                own->pages_replicated == fields->pages_replicated && (own->has_row || !fields->has_row) &&
                (!fields->has_row || own->row_replicated == fields->row_replicated);
    for (uint32_t i = 0; same && i < own->page_key_count; i++)
        same = sel_key_equal(&own->page_keys[i], &fields->page_keys[i]);
    return same ? record : NULL;
}

bool model_same_bytes(const struct model *model, const struct model_record *record, int kind, const uint8_t *bytes) {
    const struct sel_layout *layout = model->layout;
    const struct model_part *part = &record->part[kind];
    bool same = true;
    for (size_t at = 0; at < part->count; at += layout->share_bytes) {
        const uint8_t *share = bytes + at, *own = part->bytes + at;
        if (kind == SEL_LSM_ROW)
            same &= memcmp(share, own, layout->desc.row_bytes) == 0;
        for (uint32_t i = 0; kind != SEL_LSM_ROW && i < layout->desc.plane_count; i++)
            same &= memcmp(share + layout->plane_offset[i], own + layout->plane_offset[i],
                           layout->desc.planes[i].bytes) == 0;
    }
    return same;
}
