/* SPDX-License-Identifier: Apache-2.0
 *
 * A store on simulated edges, and what a crash test does to it; see world.h.
 */
#include "tests/crash/world.h"

#include "tests/lib/test.h"

#define TURNS_MAX 100000

char world_where[256];

/* Not cmocka's fail: it runs inside callbacks of a store, whose stack must not be jumped over. */
void world_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "FAILED at %s: ", world_where);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

static void keep_log(void *context, int level, const char *text) {
    struct world *world = context;
    world->warnings += level <= SEL_LOG_WARNING;
    if (getenv("SELENE_TEST_LOG"))
        fprintf(stderr, "  %d: %s\n", level, text);
}

void world_create(struct world *world, struct model *model, uint64_t seed) {
    memset(world, 0, sizeof *world);
    world->model = model;
    sel_clock_manual_init(&world->clock);
    sel_random_seed(&world->random, seed);
    world->log = (struct sel_log){.write = keep_log, .context = world, .level = SEL_LOG_WARNING};
    if (getenv("SELENE_TEST_LOG"))
        world->log.level = SEL_LOG_DEBUG;
}

static void open_edges(struct world *world) {
    sel_ready_init(&world->ready, NULL, NULL);
    assert_ok(sel_disk_sim_open(&world->disk, world->sim, &world->ready));
    if (world->faulty)
        assert_ok(sel_disk_fault_create(&world->disk, world->disk, &world->ready));
    assert_ok(sel_catalog_sim_open(&world->catalog, world->catalog_sim, &world->config.rebuild));
    assert_ok(sel_workers_create_inline(&world->workers));
    assert_ok(sel_workers_create_inline(&world->blocking));
    world->config.disk = world->disk;
    world->config.catalog = world->catalog;
    world->config.ready = &world->ready;
    world->config.clock = &world->clock.clock;
    world->config.random = &world->random;
    world->config.workers = world->workers;
    world->config.blocking = world->blocking;
    world->config.log = &world->log;
}

static void close_edges(struct world *world) {
    sel_workers_destroy(&world->workers);
    sel_workers_destroy(&world->blocking);
    world->catalog->ops->close(world->catalog);
    world->disk->ops->destroy(world->disk);
    sel_ready_destroy(&world->ready);
}

struct world_seen *world_find(struct world *world, const struct sel_key *key) {
    for (uint32_t i = 0; i < world->seen_count; i++)
        if (sel_key_equal(&world->seen[i].record->fields.key, key))
            return &world->seen[i];
    return NULL;
}

/* Refuses children of unknown parents. Of several records with one key the store tells of the last one only. */
static int visit(void *context, const struct sel_lsm_record *fields, const struct sel_location *location) {
    struct world *world = context;
    struct model_record *record = model_identify(world->model, fields);
    WORLD_CHECK(record, "visited: a record that was never written, or not so (time %llu)",
                (unsigned long long)fields->time_s);
    if (fields->parent_tokens) {
        const struct world_seen *parent = world_find(world, &fields->parent_key);
        if (parent == NULL || parent->record->fields.tokens != fields->parent_tokens)
            return SELENE_E_PARENT;
    }
    struct world_seen *seen = world_find(world, &fields->key);
    WORLD_CHECK(seen == NULL, "records %u and %u are told, which have one key", seen->record->number, record->number);
    seen = &world->seen[world->seen_count++];
    *seen = (struct world_seen){
        .record = record, .location = *location, .has_row = fields->has_row, .row_replicated = fields->row_replicated};
    return 0;
}

static void moved(void *context, const struct sel_key *key, const struct sel_location *from,
                  const struct sel_location *to) {
    struct world *world = context;
    for (uint32_t i = 0; world->leads && i < world->model->count; i++) {
        struct model_record *record = &world->model->records[i];
        if (sel_key_equal(&record->fields.key, key) && record->location.sequence == from->sequence)
            record->location = *to;
    }
    struct world_seen *seen = world_find(world, key);
    if (seen && seen->location.sequence == from->sequence)
        seen->location = *to;
}

int world_open(struct world *world, struct selene_message *message) {
    world->seen_count = world->refused = 0;
    open_edges(world);
    int rc = sel_lsm_open(&world->lsm, &world->config, visit, moved, world, message);
    if (rc) {
        close_edges(world);
        return rc;
    }
    struct sel_lsm_stats stats;
    sel_lsm_get_stats(world->lsm, &stats);
    world->refused = (unsigned)stats.refused_records; /* in the end: not those whose parent came later */
    return 0;
}

int world_close(struct world *world) {
    int rc = sel_lsm_close(&world->lsm);
    close_edges(world);
    return rc;
}

void world_abort(struct world *world) {
    sel_lsm_abort(&world->lsm);
    close_edges(world);
}

void world_destroy(struct world *world) {
    if (world->lsm)
        world_abort(world);
    sel_catalog_sim_destroy(&world->catalog_sim);
    sel_disk_sim_destroy(&world->sim);
}

void world_turn(struct world *world) {
    WORLD_CHECK(++world->turns < TURNS_MAX, "stuck: nothing ends");
    sel_lsm_poll(world->lsm);
    if (sel_ready_run(&world->ready, 1000))
        return;
    uint64_t now_ns = world->clock.mono, disk_ns = sel_disk_sim_next_ns(world->sim);
    uint64_t next_ns = SEL_MIN(disk_ns, sel_lsm_deadline_ns(world->lsm));
    if (next_ns == UINT64_MAX)
        next_ns = now_ns + SEL_NS_PER_MS;
    sel_clock_manual_advance(&world->clock, next_ns > now_ns ? next_ns - now_ns : 1000);
}

void world_wait(struct world *world, const struct sel_op *op) {
    while (op->in_flight)
        world_turn(world);
}

void world_check(struct world *world) {
    struct selene_message message = {{0}};
    WORLD_CHECK(sel_lsm_check(world->lsm, &message) == 0, "check: %s", message.text);
}

/* ---- writing ---- */

static void piece_done(struct sel_op *op) { (void)op; }

static void write_done(struct sel_op *op) {
    struct world_write *write = SEL_CONTAINER(op, struct world_write, done);
    struct model_record *record = write->record;
    write->result = op->result;
    if (op->result == 0)
        record->location = sel_lsm_write_location(write->write);
    if (write->row) {
        write->row->written = op->result == 0;
        if (write->row->state < MODEL_ROW_REMOVING)
            write->row->state = op->result ? MODEL_ROW_FAILED : MODEL_ROW_THERE;
        return;
    }
    record->state = op->result ? MODEL_FAILED : MODEL_COMMITTED;
    if (op->result && record->parent)
        record->parent->children--;
}

int write_begin(struct world_write *write, struct world *world, struct model_record *record,
                struct sel_lsm_write *parent) {
    memset(write, 0, sizeof *write);
    write->world = world;
    write->record = record;
    write->result = 1;
    int rc = sel_lsm_write_begin(world->lsm, world->model->layout, &record->fields, parent, &write->write);
    if (rc)
        return rc;
    if (record->parent)
        record->parent->children++;
    /* The pages in two pieces where they have two shares, the row in one. */
    const struct model_part *pages = &record->part[0], *row = &record->part[1];
    size_t share = world->model->layout->share_bytes, first = pages->sum_count / 2 * share;
    write->iov[write->pieces++] = (struct iovec){pages->bytes + first, pages->count - first};
    if (first)
        write->iov[write->pieces++] = (struct iovec){pages->bytes, first};
    if (row->count)
        write->iov[write->pieces++] = (struct iovec){row->bytes, row->count};
    return 0;
}

int write_begin_row(struct world_write *write, struct world *world, struct model_record *record,
                    const struct sel_location *location) {
    struct model_row *row = &record->rows[record->row_count - 1];
    memset(write, 0, sizeof *write);
    write->world = world;
    write->record = record;
    write->row = row;
    write->result = 1;
    write->iov[write->pieces++] = (struct iovec){row->part.bytes, row->part.count};
    return sel_lsm_write_row_begin(world->lsm, world->model->layout, &record->fields, location, &write->write);
}

void write_send(struct world_write *write) {
    struct iovec *iov = &write->iov[write->sent];
    const struct model_part *pages = &write->record->part[0];
    uint8_t *base = iov->iov_base;
    bool row = base < pages->bytes || base >= pages->bytes + pages->count;
    sel_op_init(&write->ops[write->sent], piece_done);
    sel_lsm_write_data(write->write, row ? SEL_LSM_ROW : SEL_LSM_PAGES, row ? 0 : (uint64_t)(base - pages->bytes), iov,
                       1, &write->ops[write->sent++]);
}

void write_finish(struct world_write *write) {
    sel_op_init(&write->done, write_done);
    write->finished = true;
    if (write->row == NULL)
        write->record->state = MODEL_FINISHED;
    else if (write->row->state == MODEL_ROW_BEGUN)
        write->row->state = MODEL_ROW_FINISHED;
    sel_lsm_write_finish(write->write, write->record->part[0].sums, write->record->part[1].sums, &write->done);
}

bool write_busy(const struct world_write *write) {
    bool busy = write->finished && write->done.in_flight;
    for (int i = 0; i < write->sent; i++)
        busy |= write->ops[i].in_flight;
    return busy;
}

static int send_whole(struct world_write *write) {
    while (write->sent < write->pieces)
        write_send(write);
    write_finish(write);
    while (write_busy(write))
        world_turn(write->world);
    sel_lsm_write_free(&write->write);
    return write->result;
}

int write_whole(struct world *world, struct model_record *record) {
    struct world_write write;
    int rc;
    while ((rc = write_begin(&write, world, record, NULL)) == SELENE_E_RETRY)
        world_turn(world);
    return rc ? rc : send_whole(&write);
}

int write_whole_row(struct world *world, struct model_record *record, const struct sel_location *location) {
    struct world_write write;
    int rc;
    while ((rc = write_begin_row(&write, world, record, location)) == SELENE_E_RETRY)
        world_turn(world);
    return rc ? rc : send_whole(&write);
}

/* ---- reading and removing ---- */

static bool is_part(const struct model_part *part, const uint64_t *sums, size_t count) {
    return count == part->sum_count && memcmp(sums, part->sums, count * sizeof *sums) == 0;
}

/* A part of `bytes` bytes; what it is, among `count` candidates, is told by its checksums. Bytes that do not agree with
 * them are a miss; bytes that do are the right ones. */
static int read_part(struct world *world, const struct sel_lsm_record *fields, const struct sel_location *location,
                     int kind, const struct model_part *const candidates[], size_t count, size_t *which) {
    struct sel_lsm_reader *reader;
    struct sel_op op;
    uint8_t *memory = aligned_alloc(4096, candidates[0]->count);
    assert_non_null(memory);
    struct iovec iov = {memory, candidates[0]->count};
    sel_op_init(&op, piece_done);
    sel_lsm_reader_open(world->lsm, world->model->layout, fields, location, (enum sel_lsm_part)kind, &iov, 1, &reader,
                        &op);
    world_wait(world, &op);
    if (op.result == 0) {
        size_t sum_count;
        const uint64_t *sums = sel_lsm_reader_sums(reader, &sum_count);
        for (*which = 0; *which < count && !is_part(candidates[*which], sums, sum_count);)
            ++*which;
        WORLD_CHECK(*which < count, "record %llu, part %d: wrong checksums",
                    (unsigned long long)fields->time_s - MODEL_TIME_S, kind);
        if (!model_same_bytes(world->model, candidates[*which], kind, memory))
            op.result = SELENE_E_CORRUPT;
    }
    sel_lsm_reader_close(&reader);
    free(memory);
    return op.result;
}

int world_read(struct world *world, const struct model_record *record, const struct sel_location *location, int kind) {
    const struct model_part *part = &record->part[kind];
    size_t which;
    return read_part(world, &record->fields, location, kind, &part, 1, &which);
}

int world_read_row(struct world *world, const struct model_record *record, const struct sel_location *location,
                   bool replicated, const struct model_row **which) {
    const struct model_row *rows[MODEL_ROWS];
    const struct model_part *parts[MODEL_ROWS];
    struct sel_lsm_record fields = record->fields;
    size_t count = 0, found;
    *which = NULL;
    fields.row_replicated = replicated;
    for (uint32_t i = 0; i < record->row_count; i++)
        if (record->rows[i].replicated == replicated) {
            parts[count] = &record->rows[i].part;
            rows[count++] = &record->rows[i];
        }
    WORLD_CHECK(count > 0, "record %u never had a row like the one that is told of", record->number);
    int rc = read_part(world, &fields, location, SEL_LSM_ROW, parts, count, &found);
    if (rc == 0)
        *which = rows[found];
    return rc;
}

int world_remove(struct world *world, const struct sel_location *location) {
    struct sel_op op;
    sel_op_init(&op, piece_done);
    sel_lsm_remove(world->lsm, location, &op);
    sel_lsm_flush(world->lsm);
    world_wait(world, &op);
    return op.result;
}
