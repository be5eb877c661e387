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
        while (record->row_count)
            model_drop_row(record);
        free(record->part[0].bytes);
        free(record->part[0].sums);
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
static void make_part(const struct sel_layout *layout, struct model_part *part, int kind, uint32_t slots,
                      bool replicated, uint64_t salt) {
    part->sum_count = (size_t)slots * (replicated ? 1 : MODEL_RANKS);
    part->count = part->sum_count * layout->share_bytes;
    part->bytes = aligned_alloc(4096, part->count);
    part->sums = calloc(part->sum_count, sizeof *part->sums);
    assert_true(part->bytes && part->sums);
    for (size_t i = 0; i < part->count; i += 8) {
        uint64_t word = sel_mix64(salt << 32 ^ (uint64_t)kind << 31 ^ (uint64_t)replicated << 30 ^ i);
        memcpy(part->bytes + i, &word, 8);
    }
    for (size_t i = 0; i < part->sum_count; i++) {
        const uint8_t *share = part->bytes + i * layout->share_bytes;
        part->sums[i] = kind == SEL_LSM_ROW ? row_sum(layout, share) : page_sum(layout, share);
    }
}

enum model_row_state model_row(const struct model_record *record) {
    return record->row_count ? record->rows[record->row_count - 1].state : MODEL_ROW_NONE;
}

struct model_row *model_current(struct model_record *record) {
    for (uint32_t i = record->row_count; i-- > 0;)
        if (record->rows[i].state == MODEL_ROW_THERE)
            return &record->rows[i];
    return NULL;
}

/* What the fields and part[1] say is the latest. */
static void show_latest(struct model_record *record) {
    const struct model_row *row = record->row_count ? &record->rows[record->row_count - 1] : NULL;
    record->fields.has_row = row != NULL;
    record->fields.row_replicated = row && row->replicated;
    record->part[SEL_LSM_ROW] = row ? row->part : (struct model_part){0};
}

struct model_row *model_add_row(struct model *model, struct model_record *record, bool replicated) {
    if (record->row_count == MODEL_ROWS)
        return NULL;
    struct model_row *row = &record->rows[record->row_count];
    *row = (struct model_row){.state = MODEL_ROW_BEGUN, .replicated = replicated};
    make_part(model->layout, &row->part, SEL_LSM_ROW, model->layout->row_slots, replicated,
              record->key_id << 8 | record->row_count++);
    show_latest(record);
    return row;
}

void model_drop_row(struct model_record *record) {
    struct model_row *row = &record->rows[--record->row_count];
    free(row->part.bytes);
    free(row->part.sums);
    show_latest(record);
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
    record->fields = (struct sel_lsm_record){.page_tokens = MODEL_PAGE_TOKENS,
                                             .tokens = spec->tokens,
                                             .parent_tokens = parent_tokens,
                                             .key = model_key(record->key_id, 0),
                                             .base_key = model_key(record->key_id, 1),
                                             .page_keys = record->keys,
                                             .pages_replicated = spec->pages_replicated,
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
    make_part(layout, &record->part[0], SEL_LSM_PAGES, pages, spec->pages_replicated, record->key_id);
    struct model_row *row = spec->has_row ? model_add_row(model, record, spec->row_replicated) : NULL;
    if (row) {
        row->state = MODEL_ROW_THERE;
        row->written = true;
    }
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
                own->pages_replicated == fields->pages_replicated && (own->has_row || !fields->has_row);
    for (uint32_t i = 0; same && i < own->page_key_count; i++)
        same = sel_key_equal(&own->page_keys[i], &fields->page_keys[i]);
    return same ? record : NULL;
}

bool model_same_bytes(const struct model *model, const struct model_part *part, int kind, const uint8_t *bytes) {
    const struct sel_layout *layout = model->layout;
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
