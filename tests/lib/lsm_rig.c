/* SPDX-License-Identifier: Apache-2.0
 *
 * The rig of lsm_rig.h: edges, keys and bytes made of small numbers, and waiting.
 */
#include "tests/lib/lsm_rig.h"

#include "base/bytes.h"
#include "base/checksum.h"
#include "tests/lib/test.h"

#include <dirent.h>
#include <sys/stat.h>

#define TURNS_MAX 2000000

static void keep_log(void *context, int level, const char *text) {
    struct rig *rig = context;
    char *more = NULL;
    rig->warnings += level <= SEL_LOG_WARNING;
    if (asprintf(&more, "%s%s\n", rig->log_text ? rig->log_text : "", text) < 0)
        abort();
    free(rig->log_text);
    rig->log_text = more;
    if (getenv("SELENE_TEST_LOG"))
        fprintf(stderr, "  log %d: %s\n", level, text);
}

static void make_layout(struct rig *rig, const uint64_t *planes, uint32_t ranks, uint64_t row_bytes) {
    struct selene_plane plane[64] = {{0}};
    uint32_t count = 0;
    for (; planes[count]; count++)
        plane[count].bytes = planes[count];
    struct selene_layout desc = {.page_tokens = RIG_PAGE_TOKENS,
                                 .rank_count = ranks,
                                 .plane_count = count,
                                 .planes = plane,
                                 .row_bytes = row_bytes,
                                 .description = "rig",
                                 .description_bytes = 3};
    struct selene_message message = {{0}};
    assert_ok(sel_layout_create(&rig->layout, &desc, &message));
}

void rig_create(struct rig *rig, enum rig_disk kind, const char *name, const uint64_t *planes, uint32_t ranks,
                uint64_t row_bytes) {
    memset(rig, 0, sizeof *rig);
    rig->kind = kind;
    sel_clock_manual_init(&rig->clock);
    sel_random_seed(&rig->random, 1);
    rig->log = (struct sel_log){.write = keep_log, .context = rig, .level = SEL_LOG_DEBUG};
    make_layout(rig, planes, ranks, row_bytes);
    assert_ok(sel_catalog_sim_create(&rig->catalog_sim));
    if (kind != RIG_SIM) /* time goes by turns: a busy machine would look like a disk that does not answer */
        rig->config.stall_ns = UINT64_MAX / 2;
    if (kind == RIG_SIM)
        assert_ok(sel_disk_sim_create(&rig->sim, &(struct sel_disk_sim_config){.seed = 1}, &rig->clock));
    else
        rig->directory = test_directory_make(name);
}

static void open_edges(struct rig *rig, bool *rebuild) {
    struct selene_message message = {{0}};
    sel_ready_init(&rig->ready, NULL, NULL);
    if (rig->kind == RIG_SIM) {
        assert_ok(sel_disk_sim_open(&rig->disk, rig->sim, &rig->ready));
    } else {
        struct sel_disk_config config = {.directory = rig->directory,
                                         .ready = &rig->ready,
                                         .clock = sel_clock_system(),
                                         .log = &rig->log,
                                         .event_fd = -1,
                                         .force_threads = rig->kind == RIG_THREADS};
        assert_ok(sel_disk_open(&rig->disk, &config, &message));
    }
    if (rig->wrap)
        rig->disk = rig->wrap(rig, rig->disk);
    assert_ok(sel_catalog_sim_open(&rig->catalog, rig->catalog_sim, rebuild));
    assert_ok(sel_workers_create_inline(&rig->workers));
    assert_ok(sel_workers_create_inline(&rig->blocking));
}

static void close_edges(struct rig *rig) {
    sel_workers_destroy(&rig->workers);
    sel_workers_destroy(&rig->blocking);
    rig->catalog->ops->close(rig->catalog);
    rig->disk->ops->destroy(rig->disk);
    sel_ready_destroy(&rig->ready);
}

static void forget_seen(struct rig *rig) {
    for (size_t i = 0; i < rig->seen_count; i++)
        free(rig->seen[i].keys);
    free(rig->seen);
    rig->seen = NULL;
    rig->seen_count = 0;
}

struct rig_seen *rig_find_seen(struct rig *rig, uint64_t id) {
    for (size_t i = 0; i < rig->seen_count; i++)
        if (rig->seen[i].id == id)
            return &rig->seen[i];
    return NULL;
}

static uint64_t id_of(const struct sel_key *key) {
    uint64_t id = sel_get_u64(key->bytes);
    struct sel_key again = rig_key(id);
    return sel_key_equal(&again, key) ? id : 0;
}

static int visit(void *context, const struct sel_lsm_record *record, const struct sel_location *location) {
    struct rig *rig = context;
    uint64_t id = id_of(&record->key);
    if (rig->refuse_all)
        return rig->refuse_all;
    assert_true(id > 0);
    if (rig_find_seen(rig, id) || (record->parent_tokens && !rig_find_seen(rig, id_of(&record->parent_key))))
        return SELENE_E_PARENT;
    rig->seen = realloc(rig->seen, (rig->seen_count + 1) * sizeof *rig->seen);
    struct rig_seen *seen = &rig->seen[rig->seen_count++];
    *seen = (struct rig_seen){.id = id, .record = *record, .location = *location};
    seen->keys = malloc((record->page_key_count + 1) * sizeof *seen->keys);
    if (record->page_key_count)
        memcpy(seen->keys, record->page_keys, record->page_key_count * sizeof *seen->keys);
    seen->record.page_keys = seen->keys;
    return 0;
}

static void moved(void *context, const struct sel_key *key, const struct sel_location *from,
                  const struct sel_location *to) {
    struct rig *rig = context;
    struct rig_seen *seen = rig_find_seen(rig, id_of(key));
    rig->moved++;
    if (rig->on_moved)
        rig->on_moved(rig, id_of(key), to);
    if (seen) {
        assert_int_equal(seen->location.sequence, from->sequence);
        seen->location = *to;
    }
}

int rig_try_open(struct rig *rig, struct selene_message *message) {
    bool rebuild = false;
    forget_seen(rig);
    open_edges(rig, &rebuild);
    rig->config.disk = rig->disk;
    rig->config.catalog = rig->catalog;
    rig->config.rebuild = rebuild;
    rig->config.ready = &rig->ready;
    rig->config.clock = &rig->clock.clock;
    rig->config.random = &rig->random;
    rig->config.workers = rig->workers;
    rig->config.blocking = rig->blocking;
    rig->config.log = &rig->log;
    int rc = sel_lsm_open(&rig->lsm, &rig->config, visit, moved, rig, message);
    if (rc) {
        assert_null(rig->lsm);
        close_edges(rig);
    }
    return rc;
}

void rig_open(struct rig *rig) {
    struct selene_message message = {{0}};
    int rc = rig_try_open(rig, &message);
    if (rc)
        print_error("%s\n", message.text);
    assert_ok(rc);
    rig_check(rig);
}

void rig_close(struct rig *rig) {
    assert_ok(sel_lsm_close(&rig->lsm));
    close_edges(rig);
}

void rig_abort(struct rig *rig) {
    sel_lsm_abort(&rig->lsm);
    close_edges(rig);
}

void rig_lose_catalog(struct rig *rig) { assert_ok(sel_catalog_sim_crash(rig->catalog_sim, SEL_CATALOG_SIM_ABSENT)); }

void rig_destroy(struct rig *rig) {
    if (rig->lsm)
        rig_abort(rig);
    forget_seen(rig);
    sel_catalog_sim_destroy(&rig->catalog_sim);
    sel_disk_sim_destroy(&rig->sim);
    sel_layout_destroy(&rig->layout);
    test_directory_remove(&rig->directory);
    free(rig->log_text);
}

void rig_turn(struct rig *rig, uint64_t ns) {
    sel_lsm_poll(rig->lsm);
    if (sel_ready_run(&rig->ready, 1000) == 0)
        rig->disk->ops->wait(rig->disk, rig->kind == RIG_SIM ? SEL_NS_PER_MS / 5 : SEL_NS_PER_MS / 4);
    sel_ready_run(&rig->ready, 1000);
    sel_clock_manual_advance(&rig->clock, ns);
}

void rig_until(struct rig *rig, const volatile int *value, int not_this) {
    for (int i = 0; *value == not_this; i++) {
        assert_true(i < TURNS_MAX);
        rig_turn(rig, SEL_NS_PER_MS);
    }
}

struct sel_key rig_key(uint64_t id) {
    struct sel_key key;
    sel_put_u64(key.bytes, id);
    for (int i = 1; i < 4; i++)
        sel_put_u64(key.bytes + 8 * i, sel_mix64(id * 4 + (uint64_t)i));
    return key;
}

void rig_fill(const struct rig *rig, const struct rig_record *record, struct sel_lsm_record *out,
              struct sel_key **keys) {
    uint32_t count = record->tokens / RIG_PAGE_TOKENS - record->parent_tokens / RIG_PAGE_TOKENS;
    *keys = calloc(count + 1, sizeof **keys);
    for (uint32_t i = 0; i < count; i++)
        (*keys)[i] = rig_key(record->id * 1000 + i + 1);
    if (count && record->tokens % RIG_PAGE_TOKENS == 0)
        (*keys)[count - 1] = rig_key(record->id);
    *out = (struct sel_lsm_record){.page_tokens = RIG_PAGE_TOKENS,
                                   .tokens = record->tokens,
                                   .parent_tokens = record->parent_tokens,
                                   .key = rig_key(record->id),
                                   .base_key = rig_key(record->id + 7),
                                   .page_keys = *keys,
                                   .page_key_count = count,
                                   .has_row = record->has_row,
                                   .pages_replicated = record->pages_replicated,
                                   .row_replicated = record->row_replicated,
                                   .time_s = 1000 + record->id};
    memcpy(out->ns, rig->layout->ns, sizeof out->ns);
    if (record->parent)
        out->parent_key = rig_key(record->parent);
}

/* Bytes of one stored share: a stream that depends on record, part, page and rank; padding gets other bytes. */
static void fill_bytes(uint8_t *to, uint64_t bytes, uint64_t seed) {
    for (uint64_t i = 0; i < bytes; i += 8) {
        uint64_t word = sel_mix64(seed + i);
        memcpy(to + i, &word, SEL_MIN(bytes - i, 8));
    }
}

static uint64_t share_seed(const struct rig_record *record, bool row, uint32_t piece, uint32_t rank) {
    return sel_mix64(record->id) ^ ((uint64_t)row << 60) ^ ((uint64_t)piece << 40) ^ ((uint64_t)rank << 32);
}

uint64_t rig_page_sum(const struct sel_layout *layout, const uint8_t *share) {
    uint64_t *hashes = malloc((layout->page_blocks + 1) * 8), *at = hashes;
    for (uint32_t p = 0; p < layout->desc.plane_count; p++) {
        sel_checksum_plane(at, share + layout->plane_offset[p], layout->desc.planes[p].bytes);
        at += sel_checksum_blocks(layout->desc.planes[p].bytes);
    }
    uint64_t sum = sel_checksum_finish(hashes, (size_t)(at - hashes));
    free(hashes);
    return sum;
}

static uint64_t row_sum(const struct sel_layout *layout, const uint8_t *row, uint32_t ranks, uint32_t rank) {
    uint64_t *hashes = malloc((layout->row_blocks + 1) * 8), *at = hashes;
    uint64_t left = layout->desc.row_bytes;
    for (uint32_t i = 0; i < layout->row_slots; i++) {
        uint64_t bytes = SEL_MIN(left, layout->share_bytes);
        sel_checksum_plane(at, row + (uint64_t)(i * ranks + rank) * layout->share_bytes, bytes);
        at += sel_checksum_blocks(bytes);
        left -= bytes;
    }
    uint64_t sum = sel_checksum_finish(hashes, (size_t)(at - hashes));
    free(hashes);
    return sum;
}

uint32_t rig_page_count(const struct rig_record *record) {
    return (record->tokens + RIG_PAGE_TOKENS - 1) / RIG_PAGE_TOKENS - record->parent_tokens / RIG_PAGE_TOKENS;
}

struct shape {
    uint32_t pieces, ranks, sums;
    uint64_t bytes;
};

static struct shape shape_of(const struct rig *rig, const struct rig_record *record, bool row) {
    struct shape shape;
    shape.ranks = (row ? record->row_replicated : record->pages_replicated) ? 1 : rig->layout->desc.rank_count;
    shape.pieces = row ? rig->layout->row_slots : rig_page_count(record);
    shape.sums = row ? shape.ranks : shape.ranks * shape.pieces;
    shape.bytes = (uint64_t)shape.pieces * shape.ranks * rig->layout->share_bytes;
    return shape;
}

void *rig_make_part(const struct rig *rig, const struct rig_record *record, bool row, uint64_t **sums) {
    struct shape shape = shape_of(rig, record, row);
    void *memory = NULL;
    assert_ok(posix_memalign(&memory, 4096, shape.bytes));
    uint8_t *at = memory;
    for (uint32_t i = 0; i < shape.pieces * shape.ranks; i++, at += rig->layout->share_bytes)
        fill_bytes(at, rig->layout->share_bytes, share_seed(record, row, i / shape.ranks, i % shape.ranks));
    *sums = malloc((shape.sums + 1) * 8);
    for (uint32_t i = 0; i < shape.sums; i++)
        (*sums)[i] = row ? row_sum(rig->layout, memory, shape.ranks, i)
                         : rig_page_sum(rig->layout, (uint8_t *)memory + i * rig->layout->share_bytes);
    return memory;
}

static void data_done(struct sel_op *op) { (void)op; }

static void write_done(struct sel_op *op) {
    struct rig_record *record = SEL_CONTAINER(op, struct rig_record, done_op);
    if (op->result == 0)
        record->location = sel_lsm_write_location(record->write);
    sel_lsm_write_free(&record->write);
    record->result = op->result;
}

int rig_begin(struct rig *rig, struct rig_record *record, struct sel_lsm_write *parent) {
    struct sel_lsm_record full;
    struct sel_key *keys;
    record->rig = rig;
    record->result = 1;
    rig_fill(rig, record, &full, &keys);
    int rc = sel_lsm_write_begin(rig->lsm, rig->layout, &full, parent, &record->write);
    assert_true((rc == 0) == (record->write != NULL));
    free(keys);
    return rc;
}

void rig_data(struct rig *rig, struct rig_record *record) {
    record->pages = rig_make_part(rig, record, false, &record->page_sums);
    record->page_iov = (struct iovec){record->pages, shape_of(rig, record, false).bytes};
    sel_op_init(&record->page_op, data_done);
    sel_lsm_write_data(record->write, SEL_LSM_PAGES, 0, &record->page_iov, 1, &record->page_op);
    if (!record->has_row)
        return;
    record->row = rig_make_part(rig, record, true, &record->row_sums);
    record->row_iov = (struct iovec){record->row, shape_of(rig, record, true).bytes};
    sel_op_init(&record->row_op, data_done);
    sel_lsm_write_data(record->write, SEL_LSM_ROW, 0, &record->row_iov, 1, &record->row_op);
}

void rig_finish(struct rig *rig, struct rig_record *record) {
    (void)rig;
    sel_op_init(&record->done_op, write_done);
    sel_lsm_write_finish(record->write, record->page_sums, record->row_sums, &record->done_op);
}

int rig_start(struct rig *rig, struct rig_record *record, struct sel_lsm_write *parent) {
    int rc = rig_begin(rig, record, parent);
    if (rc)
        return rc;
    rig_data(rig, record);
    rig_finish(rig, record);
    return 0;
}

void rig_record_free(struct rig_record *record) {
    free(record->pages);
    free(record->row);
    free(record->page_sums);
    free(record->row_sums);
    record->pages = record->row = NULL;
    record->page_sums = record->row_sums = NULL;
}

int rig_wait(struct rig *rig, struct rig_record *record) {
    rig_until(rig, &record->result, 1);
    while (record->page_op.in_flight || record->row_op.in_flight)
        rig_turn(rig, 0);
    rig_record_free(record);
    return record->result;
}

int rig_write(struct rig *rig, struct rig_record *record, struct sel_lsm_write *parent) {
    int rc = SELENE_E_RETRY;
    for (int i = 0; i < 10000 && rc == SELENE_E_RETRY; i++) {
        rc = rig_start(rig, record, parent);
        if (rc == SELENE_E_RETRY)
            rig_turn(rig, SEL_NS_PER_MS);
    }
    if (rig->flush)
        sel_lsm_flush(rig->lsm);
    return rc ? rc : rig_wait(rig, record);
}

struct waiting {
    struct sel_op op;
    int result;
};

static void waited(struct sel_op *op) { SEL_CONTAINER(op, struct waiting, op)->result = op->result; }

static void compare_part(struct rig *rig, const struct rig_record *record, const uint8_t *data, bool row,
                         const uint64_t *sums, size_t sum_count) {
    struct shape shape = shape_of(rig, record, row);
    uint64_t *want_sums;
    uint8_t *want = rig_make_part(rig, record, row, &want_sums);
    assert_int_equal(sum_count, shape.sums);
    assert_memory_equal(sums, want_sums, shape.sums * 8);
    /* All but padding, which is nobody's [I2]. */
    for (uint32_t i = 0; i < shape.sums; i++)
        assert_true(want_sums[i] == (row ? row_sum(rig->layout, data, shape.ranks, i)
                                         : rig_page_sum(rig->layout, data + i * rig->layout->share_bytes)));
    free(want);
    free(want_sums);
}

int rig_read(struct rig *rig, const struct rig_record *record, const struct sel_location *location,
             enum sel_lsm_part part) {
    struct shape shape = shape_of(rig, record, part == SEL_LSM_ROW);
    struct sel_lsm_record full;
    struct sel_key *keys;
    rig_fill(rig, record, &full, &keys);
    void *memory = NULL;
    assert_ok(posix_memalign(&memory, 4096, shape.bytes));
    memset(memory, 0xee, shape.bytes);
    struct iovec iov = {memory, shape.bytes};
    struct waiting waiting = {.result = 1};
    sel_op_init(&waiting.op, waited);
    struct sel_lsm_reader *reader;
    sel_lsm_reader_open(rig->lsm, rig->layout, &full, location, part, &iov, 1, &reader, &waiting.op);
    rig_until(rig, &waiting.result, 1);
    if (waiting.result == 0) {
        size_t count;
        const uint64_t *sums = sel_lsm_reader_sums(reader, &count);
        compare_part(rig, record, memory, part == SEL_LSM_ROW, sums, count);
    }
    sel_lsm_reader_close(&reader);
    free(memory);
    free(keys);
    return waiting.result;
}

int rig_remove(struct rig *rig, const struct sel_location *location) {
    struct waiting waiting = {.result = 1};
    sel_op_init(&waiting.op, waited);
    sel_lsm_remove(rig->lsm, location, &waiting.op);
    sel_lsm_flush(rig->lsm);
    rig_until(rig, &waiting.result, 1);
    return waiting.result;
}

void rig_verify_seen(struct rig *rig) {
    for (size_t i = 0; i < rig->seen_count; i++) {
        const struct sel_lsm_record *r = &rig->seen[i].record;
        struct rig_record record = {.id = rig->seen[i].id,
                                    .parent = r->parent_tokens ? id_of(&r->parent_key) : 0,
                                    .tokens = r->tokens,
                                    .parent_tokens = r->parent_tokens,
                                    .has_row = r->has_row,
                                    .pages_replicated = r->pages_replicated,
                                    .row_replicated = r->row_replicated};
        struct sel_lsm_record want;
        struct sel_key *keys;
        rig_fill(rig, &record, &want, &keys);
        assert_int_equal(want.page_key_count, r->page_key_count);
        assert_memory_equal(want.page_keys, r->page_keys, r->page_key_count * 32);
        assert_memory_equal(&want.base_key, &r->base_key, 32);
        assert_int_equal(want.time_s, r->time_s);
        free(keys);
        struct sel_location at = rig->seen[i].location;
        assert_ok(rig_read(rig, &record, &at, SEL_LSM_PAGES));
        if (r->has_row)
            assert_ok(rig_read(rig, &record, &at, SEL_LSM_ROW));
    }
}

uint64_t rig_directory_bytes(const struct rig *rig) {
    struct sel_disk_sim_stats stats;
    uint64_t bytes = 0;
    if (rig->kind == RIG_SIM) {
        sel_disk_sim_get_stats(rig->sim, &stats);
        return stats.allocated_bytes;
    }
    DIR *dir = opendir(rig->directory);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        struct stat status;
        if (fstatat(dirfd(dir), entry->d_name, &status, 0) == 0 && S_ISREG(status.st_mode))
            bytes += (uint64_t)status.st_blocks * 512;
    }
    closedir(dir);
    return bytes;
}

void rig_check(struct rig *rig) {
    struct selene_message message = {{0}};
    if (sel_lsm_check(rig->lsm, &message))
        fail_msg("%s", message.text);
}

struct sel_lsm_stats rig_stats(const struct rig *rig) {
    struct sel_lsm_stats stats;
    sel_lsm_get_stats(rig->lsm, &stats);
    return stats;
}
