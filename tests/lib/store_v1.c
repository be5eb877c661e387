/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer of version 1 stores: one segment of pages, one of rows, written with plain system calls.
 */
#include "tests/lib/store_v1.h"

#include "lsm/format.h"
#include "tests/lib/test.h"

#include <fcntl.h>
#include <unistd.h>

#define SEGMENT_BYTES (UINT64_C(256) << 10)

struct output {
    int fd;
    uint64_t end;
    struct sel_segment_head head;
};

static void open_segment(struct output *output, const char *directory, uint8_t kind) {
    char path[512];
    uint8_t block[SEL_DISK_BLOCK];
    output->head = (struct sel_segment_head){.segment_bytes = SEGMENT_BYTES, .segment_id = kind + 1u, .kind = kind};
    memset(output->head.store_id, 0x51, sizeof output->head.store_id);
    memset(output->head.generation, 0x60 + kind, sizeof output->head.generation);
    snprintf(path, sizeof path, "%s/seg-%08x.sel", directory, kind + 1u);
    output->fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    assert_true(output->fd >= 0);
    sel_segment_head_pack(block, &output->head);
    assert_int_equal(pwrite(output->fd, block, sizeof block, 0), (ssize_t)sizeof block);
    output->end = SEL_DISK_BLOCK;
}

static uint32_t runs_of(const struct sel_layout *layout, struct sel_plane_run *runs) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < layout->desc.plane_count; i++) {
        if (count == 0 || runs[count - 1].bytes != layout->desc.planes[i].bytes)
            runs[count++] = (struct sel_plane_run){.bytes = layout->desc.planes[i].bytes};
        runs[count - 1].count++;
    }
    return count;
}

static void fill_extent(struct sel_extent *e, const struct rig *rig, const struct sel_lsm_record *r,
                        const struct output *output, bool row, uint64_t sequence) {
    const struct sel_layout *layout = rig->layout;
    *e = (struct sel_extent){.segment_id = output->head.segment_id,
                             .kind = row,
                             .has_row = r->has_row,
                             .offset = output->end,
                             .sequence = sequence + row,
                             .pages_sequence = sequence,
                             .key = r->key,
                             .parent_key = r->parent_key,
                             .base_key = r->base_key,
                             .page_tokens = r->page_tokens,
                             .tokens = r->tokens,
                             .parent_tokens = r->parent_tokens,
                             .rank_count = layout->desc.rank_count,
                             .first_page = r->parent_tokens / r->page_tokens,
                             .share_bytes = layout->share_bytes,
                             .row_bytes = layout->desc.row_bytes,
                             .time_s = r->time_s,
                             .page_key_count = r->page_key_count};
    memcpy(e->generation, output->head.generation, sizeof e->generation);
    memcpy(e->ns, r->ns, sizeof e->ns);
}

static void write_part(const struct rig *rig, struct output *output, const struct rig_record *record, bool row,
                       uint64_t sequence) {
    struct sel_lsm_record full;
    struct sel_key *keys;
    struct sel_plane_run runs[64];
    struct sel_extent e;
    struct sel_extent_size size;
    uint64_t *sums;
    rig_fill(rig, record, &full, &keys);
    fill_extent(&e, rig, &full, output, row, sequence);
    e.page_count = rig_page_count(record);
    e.run_count = runs_of(rig->layout, runs);
    assert_ok(sel_extent_size(&size, row, row ? rig->layout->row_slots : e.page_count, e.rank_count, e.share_bytes,
                              e.run_count, e.page_key_count));
    e.sum_count = (uint32_t)size.shares;
    e.header_bytes = size.header_bytes;
    e.extent_bytes = size.header_bytes + size.data_bytes;
    void *data = rig_make_part(rig, record, row, &sums);
    uint8_t *header = malloc(size.header_bytes);
    sel_extent_pack(header, &e, runs, keys, sums);
    sel_put_u32(header + offsetof(struct sel_extent_header_disk, version), SEL_EXTENT_VERSION_1);
    sel_extent_seal(header, (uint32_t)size.header_bytes);
    assert_int_equal(pwrite(output->fd, header, size.header_bytes, (off_t)output->end), (ssize_t)size.header_bytes);
    assert_int_equal(pwrite(output->fd, data, size.data_bytes, (off_t)(output->end + size.header_bytes)),
                     (ssize_t)size.data_bytes);
    output->end += e.extent_bytes;
    assert_true(output->end <= SEGMENT_BYTES);
    free(header);
    free(data);
    free(sums);
    free(keys);
}

void store_v1_write(const struct rig *rig, const char *directory, const struct rig_record *records, size_t count) {
    struct output output[2];
    for (uint8_t kind = 0; kind < 2; kind++)
        open_segment(&output[kind], directory, kind);
    for (size_t i = 0; i < count; i++) {
        write_part(rig, &output[0], &records[i], false, 2 * i + 1);
        if (records[i].has_row)
            write_part(rig, &output[1], &records[i], true, 2 * i + 1);
    }
    close(output[0].fd);
    close(output[1].fd);
}
