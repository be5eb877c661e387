/* SPDX-License-Identifier: Apache-2.0
 *
 * The crash test: a seeded random workload on the simulated disk and catalogue, cut at every step [D4, D5, D7, D8]. It
 * writes families of records in pieces, abandons some, removes leaves and rows, gives records new rows [T2, T5], packs
 * pages and rows each for itself [K3], writes removed keys again, holds readers, runs into the limit, stops and starts again; segments are so small that they are rolled, recycled and
 * punched all the time. Shows faults 7, 11, 12 and 20 besides.
 *
 *   SELENE_TEST_SEEDS     how many seeds (default 200; 6 with sanitizers), SELENE_TEST_SEED the first one
 *   SELENE_TEST_VARIANTS  1: at each step with the index intact, rolled back or absent in turn; default all three
 *   SELENE_TEST_STEP      cut at this step only; SELENE_TEST_LOG=1 shows the stores' messages
 */
#include "tests/crash/cut.h"

#include "tests/lib/test.h"

#include <malloc.h>

#ifdef SELENE_SANITIZED
#define SEEDS 6
#else
#define SEEDS 200
#endif
#define WRITES  5
#define READERS 2
#define ACTIONS 450

struct held_reader {
    struct model_record *record;
    struct sel_lsm_reader *reader;
    struct sel_op op;
    struct iovec iov;
    int part;
    struct model_part want; /* the record's row may be another one when the reader is closed */
};

struct removal {
    struct sel_op op;
    struct model_record *record;
    struct model_row *row;
    bool row_only, busy, may_fail;
};

struct workload {
    struct cut_run *run;
    struct sel_random random;
    struct world_write writes[WRITES];
    bool used[WRITES];
    struct held_reader readers[READERS];
    struct removal removals[MODEL_RECORDS * 2];
    size_t removal_count;
    bool shrinking;
    bool sync_faults;  /* now and then a sync fails, and what it should have made durable may be lost */
    bool index_faults; /* ... or a transaction */
    bool inner;        /* inner records are removed, too, as damaged ones are, and may be written again [R4] */
    uint64_t full, rewritten, abandoned, rows_removed, rows_written, removed, reopened;
    struct sel_lsm_stats stats; /* summed over openings */
};

static uint64_t below(struct workload *load, uint64_t bound) { return sel_random_below(&load->random, bound); }

/* ---- writing ---- */

static struct world_write *write_of(struct workload *load, const struct model_record *record) {
    for (int i = 0; i < WRITES; i++)
        if (load->used[i] && load->writes[i].record == record && load->writes[i].row == NULL)
            return &load->writes[i];
    return NULL;
}

static bool can_be_parent(struct workload *load, struct model_record *record) {
    if (record->fields.tokens > 100)
        return false;
    return record->state == MODEL_COMMITTED ||
           ((record->state == MODEL_BEGUN || record->state == MODEL_FINISHED) && write_of(load, record));
}

static struct model_record *pick(struct workload *load, bool (*fits)(struct workload *, struct model_record *)) {
    struct model *model = &load->run->model;
    if (model->count == 0)
        return NULL;
    uint32_t first = (uint32_t)below(load, model->count);
    for (uint32_t i = 0; i < model->count; i++) {
        struct model_record *record = &model->records[(first + i) % model->count];
        if (fits(load, record))
            return record;
    }
    return NULL;
}

/* The key's newest record, its parent still there. */
static bool can_be_rewritten(struct workload *load, struct model_record *record) {
    if (record->state != MODEL_REMOVED || (record->parent && record->parent->state != MODEL_COMMITTED))
        return false;
    for (uint32_t i = record->number + 1; i < load->run->model.count; i++)
        if (load->run->model.records[i].key_id == record->key_id)
            return false;
    return true;
}

static void choose_record(struct workload *load, struct model_spec *spec) {
    const struct model_record *old = below(load, 5) ? NULL : pick(load, can_be_rewritten);
    *spec = (struct model_spec){
        .has_row = below(load, 2), .pages_replicated = below(load, 4) == 0, .row_replicated = below(load, 3) == 0};
    if (old) {
        spec->key_id = old->key_id;
        spec->parent = old->parent;
        spec->tokens = old->fields.tokens;
        load->rewritten++;
        return;
    }
    spec->parent = below(load, 4) ? pick(load, can_be_parent) : NULL;
    spec->tokens = (spec->parent ? spec->parent->fields.tokens : 0) + 1 + (uint32_t)below(load, 9);
}

static bool can_be_removed(struct workload *load, struct model_record *record);
static void start_removal(struct workload *load, struct model_record *record, bool row_only);

static int free_slot(const struct workload *load) {
    int slot = 0;
    while (slot < WRITES && load->used[slot])
        slot++;
    return slot;
}

static void begin_failed(struct workload *load, int rc) {
    WORLD_CHECK(rc == SELENE_E_RETRY || rc == SELENE_E_NOSPACE || rc == SELENE_E_PARENT ||
                    (rc == SELENE_E_DEGRADED && (load->sync_faults || load->index_faults)),
                "begin: %s", sel_error_name(rc));
    struct model_record *victim = rc == SELENE_E_NOSPACE ? pick(load, can_be_removed) : NULL;
    load->full += rc == SELENE_E_NOSPACE;
    if (victim)
        start_removal(load, victim, false);
}

static void start_write(struct workload *load) {
    struct cut_run *run = load->run;
    struct model_spec spec;
    int slot = free_slot(load);
    if (slot == WRITES)
        return;
    choose_record(load, &spec);
    uint32_t before = run->model.count;
    struct model_record *record = before + 8 < MODEL_RECORDS ? model_add(&run->model, &spec) : NULL;
    if (record == NULL)
        return;
    const struct world_write *parent = spec.parent ? write_of(load, spec.parent) : NULL;
    int rc = write_begin(&load->writes[slot], &run->world, record, parent ? parent->write : NULL);
    if (rc == 0) {
        load->used[slot] = true;
        return;
    }
    model_cut(&run->model, before);
    begin_failed(load, rc);
}

/* A row for a record that has none, or whose row is on its way out [T5]. */
static bool can_get_row(struct workload *load, struct model_record *record) {
    for (int i = 0; i < WRITES; i++)
        if (load->used[i] && load->writes[i].record == record)
            return false;
    return record->state == MODEL_COMMITTED && !model_current(record) && record->row_count < MODEL_ROWS;
}

static void start_row(struct workload *load) {
    struct cut_run *run = load->run;
    int slot = free_slot(load);
    struct model_record *record = slot < WRITES ? pick(load, can_get_row) : NULL;
    if (record == NULL)
        return;
    model_add_row(&run->model, record, below(load, 2));
    int rc = write_begin_row(&load->writes[slot], &run->world, record, &record->location);
    load->used[slot] = rc == 0;
    load->rows_written += rc == 0;
    if (rc == 0)
        return;
    model_drop_row(record);
    begin_failed(load, rc);
}

static void end_write(struct workload *load, int slot) {
    struct world_write *write = &load->writes[slot];
    load->used[slot] = false;
    WORLD_CHECK(write->result == 0 || write->result == (write->row ? SELENE_E_GONE : SELENE_E_PARENT) ||
                    (write->result == SELENE_E_IO && (load->sync_faults || load->index_faults)),
                "finish: %s", sel_error_name(write->result));
    if (write->row && write->result == SELENE_E_GONE)
        WORLD_CHECK(write->record->state != MODEL_COMMITTED || model_row(write->record) == MODEL_ROW_REMOVING ||
                        model_row(write->record) == MODEL_ROW_REMOVED || load->index_faults,
                    "record %u: gone, they say", write->record->number);
    sel_lsm_write_free(&write->write);
}

static void abandon(struct workload *load, int slot) {
    struct world_write *write = &load->writes[slot];
    if (write->row == NULL) {
        write->record->state = MODEL_ABANDONED;
        if (write->record->parent)
            write->record->parent->children--;
    }
    load->used[slot] = false;
    load->abandoned++;
    sel_lsm_write_abandon(&write->write);
}

static void advance_write(struct workload *load, int slot) {
    struct world_write *write = &load->writes[slot];
    if (!load->used[slot])
        return;
    if (write->finished) {
        if (!write_busy(write))
            end_write(load, slot);
    } else if (!write_busy(write) && below(load, 20) == 0) {
        abandon(load, slot);
    } else if (write->sent < write->pieces) {
        write_send(write);
    } else {
        write_finish(write);
    }
}

/* ---- removing ---- */

static bool can_be_removed(struct workload *load, struct model_record *record) {
    return record->state == MODEL_COMMITTED && !write_of(load, record) &&
           (record->children == 0 || (load->inner && below(load, 3) == 0));
}

/* One removal at a time: of the row that is there, or of one that is being written. */
static bool row_can_be_removed(struct workload *load, struct model_record *record) {
    enum model_row_state row = model_row(record);
    for (uint32_t i = 0; i < record->row_count; i++)
        if (record->rows[i].state == MODEL_ROW_REMOVING)
            return false;
    return record->state == MODEL_COMMITTED && !write_of(load, record) &&
           (model_current(record) || ((row == MODEL_ROW_BEGUN || row == MODEL_ROW_FINISHED) && below(load, 4) == 0));
}

static void removal_done(struct sel_op *op) {
    struct removal *removal = SEL_CONTAINER(op, struct removal, op);
    struct model_record *record = removal->record;
    WORLD_CHECK(op->result == 0 || (op->result == SELENE_E_IO && removal->may_fail), "remove: %s",
                sel_error_name(op->result));
    removal->busy = false;
    if (removal->row_only) {
        removal->row->state = op->result == 0         ? MODEL_ROW_REMOVED
                              : removal->row->written ? MODEL_ROW_THERE
                                                      : MODEL_ROW_FAILED; /* [T6] */
        if (op->result == 0 && !model_current(record))
            record->location.row = record->location.row_blocks = 0;
        return;
    }
    if (op->result) {
        record->state = MODEL_COMMITTED;
        return;
    }
    record->state = MODEL_REMOVED;
    if (record->parent)
        record->parent->children--;
}

static void start_removal(struct workload *load, struct model_record *record, bool row_only) {
    struct removal *removal = &load->removals[load->removal_count++];
    SEL_CHECK(load->removal_count < SEL_COUNT(load->removals));
    *removal = (struct removal){.record = record, .row_only = row_only, .busy = true, .may_fail = load->index_faults};
    sel_op_init(&removal->op, removal_done);
    if (!row_only) {
        record->state = MODEL_REMOVING;
        load->removed++;
        sel_lsm_remove(load->run->world.lsm, &record->location, &removal->op);
        return;
    }
    removal->row = model_current(record) ? model_current(record) : &record->rows[record->row_count - 1];
    removal->row->state = MODEL_ROW_REMOVING;
    load->rows_removed++;
    struct sel_lsm_record rest = record->fields;
    rest.has_row = rest.row_replicated = false;
    sel_lsm_remove_row(load->run->world.lsm, &rest, &record->location, &removal->op);
}

/* ---- readers that are held while other things happen ---- */

static bool can_be_read(struct workload *load, struct model_record *record) {
    (void)load;
    return record->state == MODEL_COMMITTED;
}

static void read_done(struct sel_op *op) {
    WORLD_CHECK(op->result == 0, "reading a committed record: %s", sel_error_name(op->result));
}

static void release_reader(const struct model *model, struct held_reader *held) {
    WORLD_CHECK(model_same_bytes(model, &held->want, held->part, held->iov.iov_base), "record %u, part %d: wrong bytes",
                held->record->number, held->part);
    sel_lsm_reader_close(&held->reader);
    free(held->iov.iov_base);
    held->record = NULL;
}

static void turn_reader(struct workload *load, struct held_reader *held) {
    if (held->record) {
        if (!held->op.in_flight)
            release_reader(&load->run->model, held);
        return;
    }
    held->record = pick(load, can_be_read);
    if (held->record == NULL)
        return;
    const struct model_row *row = model_current(held->record);
    struct sel_lsm_record fields = held->record->fields;
    held->part = row && below(load, 2) ? SEL_LSM_ROW : SEL_LSM_PAGES;
    held->want = held->part == SEL_LSM_ROW ? row->part : held->record->part[0];
    fields.row_replicated = row && row->replicated;
    held->iov.iov_len = held->want.count;
    held->iov.iov_base = aligned_alloc(4096, held->iov.iov_len);
    assert_non_null(held->iov.iov_base);
    sel_op_init(&held->op, read_done);
    sel_lsm_reader_open(load->run->world.lsm, load->run->model.layout, &fields, &held->record->location,
                        (enum sel_lsm_part)held->part, &held->iov, 1, &held->reader, &held->op);
}

/* ---- the run ---- */

static void settle(struct workload *load) {
    bool busy = true;
    while (busy) {
        busy = false;
        for (int i = 0; i < WRITES; i++) {
            advance_write(load, i);
            busy |= load->used[i];
        }
        for (int i = 0; i < READERS; i++)
            if (load->readers[i].record) {
                turn_reader(load, &load->readers[i]);
                busy |= load->readers[i].record != NULL;
            }
        for (size_t i = 0; i < load->removal_count; i++)
            busy |= load->removals[i].busy;
        if (busy)
            world_turn(&load->run->world);
    }
}

static void add_stats(struct workload *load) {
    struct sel_lsm_stats stats;
    sel_lsm_get_stats(load->run->world.lsm, &stats);
    load->stats.recycled_segments += stats.recycled_segments;
    load->stats.punched_bytes += stats.punched_bytes;
    load->stats.copied_forward_bytes += stats.copied_forward_bytes;
    load->stats.groups += stats.groups;
}

static void no_faults(struct world *world) {
    sel_disk_sim_fail_sync(world->sim, 0);
    sel_catalog_sim_fail(world->catalog_sim, 0, 0, 0);
}

/* A clean stop and start in the middle: all of it, and nothing more, is told. */
static void stop_and_start(struct workload *load) {
    struct world *world = &load->run->world;
    struct selene_message message = {{0}};
    settle(load);
    add_stats(load);
    no_faults(world);
    WORLD_CHECK(world_close(world) == 0, "closing fails");
    WORLD_CHECK(world_open(world, &message) == 0, "opening: %s", message.text);
    cut_compare(load->run, world, CUT_INTACT);
    WORLD_CHECK(world->refused == 0, "%u refused after a clean stop", world->refused);
    load->reopened++;
}

static void check_limit(const struct world *world) {
    struct sel_disk_sim_stats stats;
    sel_disk_sim_get_stats(world->sim, &stats);
    uint64_t bytes = stats.allocated_bytes + world->catalog->ops->file_bytes(world->catalog);
    WORLD_CHECK(world->config.limit_bytes == 0 || bytes <= world->config.limit_bytes,
                "%llu bytes on the disk, the limit is %llu", (unsigned long long)bytes,
                (unsigned long long)world->config.limit_bytes);
    WORLD_CHECK(stats.overlaps == 0, "%llu ios overlap", (unsigned long long)stats.overlaps);
}

static void act(struct workload *load) {
    struct model_record *record;
    uint64_t action = below(load, 14);
    /* By turns more is written than removed and the other way round, so that whole segments die. */
    if (load->shrinking && action >= 4 && action < 8)
        action = 0;
    load->shrinking ^= below(load, load->shrinking ? 25 : 80) == 0;
    if (load->sync_faults && below(load, 60) == 0)
        sel_disk_sim_fail_sync(load->run->world.sim, 1 + below(load, 3));
    if (load->index_faults && below(load, 25) == 0)
        sel_catalog_sim_fail(load->run->world.catalog_sim, 1 + below(load, 2), below(load, 2), SELENE_E_IO);
    switch (action) {
    case 0:
        if ((record = pick(load, can_be_removed)) != NULL)
            start_removal(load, record, false);
        break;
    case 1:
        if ((record = pick(load, row_can_be_removed)) != NULL)
            start_removal(load, record, true);
        break;
    case 2:
    case 3:
        turn_reader(load, &load->readers[below(load, READERS)]);
        break;
    case 4:
        sel_lsm_flush(load->run->world.lsm);
        break;
    case 5:
    case 6:
    case 7:
        start_write(load);
        break;
    case 8:
        start_row(load);
        break;
    default:
        advance_write(load, (int)below(load, WRITES));
    }
    if (below(load, 3))
        world_turn(&load->run->world);
    check_limit(&load->run->world);
}

static void configure(struct cut_run *run) {
    struct sel_lsm_config *config = &run->world.config;
    uint64_t luck = sel_mix64(run->seed);
    config->segment_bytes = 128 << 10;
    config->group_bytes = luck % 3 ? 256 << 10 : 0;
    config->group_ns = SEL_NS_PER_MS;
    config->durability = luck / 8 % 4 == 0 ? SEL_LSM_STRICT : SEL_LSM_RELAXED;
    config->limit_bytes = luck / 32 % 2 ? 1024 << 10 : 0;
}

static void run_seed(uint64_t seed, uint64_t only_step, struct workload *load, struct cut_run *run) {
    struct selene_message message = {{0}};
    memset(load, 0, sizeof *load);
    memset(run, 0, sizeof *run);
    run->seed = seed;
    run->only_step = only_step;
    load->run = run;
    load->sync_faults = sel_mix64(seed) / 512 % 4 == 0;
    load->index_faults = sel_mix64(seed) / 4096 % 3 == 0;
    load->inner = sel_mix64(seed) / 32768 % 3 == 0;
    sel_random_seed(&load->random, seed);
    model_create(&run->model);
    world_create(&run->world, &run->model, seed);
    run->world.leads = true;
    configure(run);
    struct sel_disk_sim_config config = {.seed = seed, .no_fallocate = sel_mix64(seed) / 64 % 5 == 0};
    assert_ok(sel_disk_sim_create(&run->world.sim, &config, &run->world.clock));
    assert_ok(sel_catalog_sim_create(&run->world.catalog_sim));
    cut_watch(run);
    WORLD_CHECK(world_open(&run->world, &message) == 0, "first opening: %s", message.text);
    for (int i = 0; i < ACTIONS; i++) {
        act(load);
        if (below(load, ACTIONS) == 0 && !load->inner) /* it would drop what has lost its parent */
            stop_and_start(load);
    }
    settle(load);
    world_check(&run->world);
    check_limit(&run->world);
    add_stats(load);
    no_faults(&run->world);
    WORLD_CHECK(world_close(&run->world) == 0, "the last closing fails");
    world_destroy(&run->world);
    cut_log_free(&run->log);
    model_destroy(&run->model);
}

static void cut_at_every_step(void **state) {
    (void)state;
    static struct workload load;
    static struct cut_run run;
    uint64_t seeds = test_count("SELENE_TEST_SEEDS", SEEDS), first = test_count("SELENE_TEST_SEED", 1);
    uint64_t cuts = 0, visited = 0, recovered = 0, torn = 0, removed = 0, full = 0, rewritten = 0, double_cuts = 0;
    uint64_t recycled = 0, punched = 0, copied = 0, groups = 0, reopened = 0, rows_removed = 0, rows_written = 0;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        run_seed(seed, test_count("SELENE_TEST_STEP", 0), &load, &run);
        cuts += run.cuts;
        visited += run.visited;
        recovered += run.recovered;
        torn += run.torn;
        double_cuts += run.double_cuts;
        removed += load.removed;
        full += load.full;
        rewritten += load.rewritten;
        recycled += load.stats.recycled_segments;
        punched += load.stats.punched_bytes;
        copied += load.stats.copied_forward_bytes;
        groups += load.stats.groups;
        reopened += load.reopened;
        rows_removed += load.rows_removed;
        rows_written += load.rows_written;
    }
    printf("%llu rows removed, %llu written again\n", (unsigned long long)rows_removed,
           (unsigned long long)rows_written);
    printf("%llu groups, %llu clean stops, %llu segments recycled, %llu bytes punched, %llu copied forward\n",
           (unsigned long long)groups, (unsigned long long)reopened, (unsigned long long)recycled,
           (unsigned long long)punched, (unsigned long long)copied);
    printf(
        "%llu seeds, %llu cuts (%llu of them twice), %llu records told, %llu recovered from tails, %llu extents torn; "
        "%llu removed, %llu keys written again, %llu times full\n",
        (unsigned long long)seeds, (unsigned long long)cuts, (unsigned long long)double_cuts,
        (unsigned long long)visited, (unsigned long long)recovered, (unsigned long long)torn,
        (unsigned long long)removed, (unsigned long long)rewritten, (unsigned long long)full);
}

int main(void) {
    /* Each opening takes and frees large buffers: not by system calls, for there are hundreds of thousands. */
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    const struct CMUnitTest tests[] = {cmocka_unit_test(cut_at_every_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
