/* SPDX-License-Identifier: Apache-2.0
 *
 * One cut: crash a clone, open it, compare with the model, read everything, go on, close, open again; see cut.h.
 *
 *   promised        a record whose commit was reported is told, complete, unless its removal was begun
 *   possible        a record that was finished; one that is being removed; with an index that is not intact also one
 *                   that was removed, which may then have lost its bytes. The same for rows: one that was reported is
 *                   there, and is the one that is there
 *   impossible      anything else; above all, any record with wrong bytes
 */
#include "tests/crash/cut.h"

#include "tests/lib/test.h"

/* ---- the log of commits ---- */

static void log_commit(struct cut_log *log, const struct sel_catalog_change *changes, size_t count) {
    if (log->count == log->capacity) {
        log->capacity = log->capacity * 2 + 16;
        log->commits = realloc(log->commits, log->capacity * sizeof *log->commits);
        assert_non_null(log->commits);
    }
    struct cut_commit *commit = &log->commits[log->count++];
    commit->count = count;
    commit->changes = malloc((count + 1) * sizeof *changes);
    commit->values = malloc((count + 1) * SEL_CATALOG_VALUE);
    assert_true(commit->changes && commit->values);
    for (size_t i = 0; i < count; i++) {
        commit->changes[i] = changes[i];
        commit->changes[i].value = NULL;
        if (changes[i].kind == SEL_CATALOG_PUT) {
            memcpy(commit->values + i * SEL_CATALOG_VALUE, changes[i].value, SEL_CATALOG_VALUE);
            commit->changes[i].value = commit->values + i * SEL_CATALOG_VALUE;
        }
    }
}

void cut_log_free(struct cut_log *log) {
    for (size_t i = 0; i < log->count; i++) {
        free(log->commits[i].changes);
        free(log->commits[i].values);
    }
    free(log->commits);
    *log = (struct cut_log){0};
}

/* A catalogue as it was after the first `keep` commits. */
static struct sel_catalog_sim *replay(const struct cut_log *log, size_t keep, bool absent) {
    struct sel_catalog_sim *sim;
    struct sel_catalog *catalog;
    bool rebuild;
    assert_ok(sel_catalog_sim_create(&sim));
    if (absent)
        return sim;
    assert_ok(sel_catalog_sim_open(&catalog, sim, &rebuild));
    for (size_t i = 0; i < keep; i++)
        assert_ok(catalog->ops->commit(catalog, log->commits[i].changes, log->commits[i].count, NULL));
    catalog->ops->close(catalog);
    return sim;
}

/* ---- comparing ---- */

static const char *const state_names[] = {"begun",   "finished", "committed", "removing",
                                          "removed", "failed",   "abandoned"};

static void compare_seen(const struct world_seen *seen, enum cut_index index) {
    struct model_record *record = seen->record;
    bool possible = record->state == MODEL_FINISHED || record->state == MODEL_COMMITTED ||
                    record->state == MODEL_REMOVING || record->state == MODEL_FAILED ||
                    (record->state == MODEL_REMOVED && index != CUT_INTACT);
    WORLD_CHECK(possible, "record %u was %s and is back", record->number, state_names[record->state]);
    if (!seen->has_row && model_current(record))
        WORLD_CHECK(record->state != MODEL_COMMITTED, "the row of record %u is lost", record->number);
}

/* With an index that is not intact an earlier record of the key, removed since, may stand in for it. */
static void compare_promised(struct world *world, const struct model_record *record, enum cut_index index) {
    const struct world_seen *seen = world_find(world, &record->fields.key);
    WORLD_CHECK(seen, "record %u was committed and is lost (%u refused, %u told)", record->number, world->refused,
                world->seen_count);
    WORLD_CHECK(seen->record == record || index != CUT_INTACT, "record %u is there instead of %u", seen->record->number,
                record->number);
}

/* An inner record may have been removed and written again: then what is below it is there only if that is [D7]. */
static bool has_ancestors(const struct model *model, const struct model_record *record) {
    while (record->parent) {
        const struct model_record *there = NULL;
        for (uint32_t i = 0; i < model->count; i++)
            if (model->records[i].key_id == record->parent->key_id && model->records[i].state == MODEL_COMMITTED)
                there = &model->records[i];
        if (there == NULL)
            return false;
        record = there;
    }
    return true;
}

void cut_compare(const struct cut_run *run, struct world *world, enum cut_index index) {
    for (uint32_t i = 0; i < world->seen_count; i++)
        compare_seen(&world->seen[i], index);
    for (uint32_t i = 0; i < run->model.count; i++)
        if (run->model.records[i].state == MODEL_COMMITTED && has_ancestors(&run->model, &run->model.records[i]))
            compare_promised(world, &run->model.records[i], index);
}

/* ---- reading all of it, as an engine would ---- */

/* Only a catalogue that was rolled back can name what is gone: removed then, and its space given back. */
static bool may_be_unreadable(const struct world_seen *seen, int part, enum cut_index index) {
    struct model_record *record = seen->record;
    bool row_removed = false;
    for (uint32_t i = 0; i < record->row_count; i++)
        row_removed |= record->rows[i].state == MODEL_ROW_REMOVED;
    if (index != CUT_ROLLED_BACK)
        return false;
    return record->state == MODEL_REMOVED || (part == SEL_LSM_ROW && row_removed && model_current(record) == NULL);
}

/* The row that was reported, if one was and is not being removed, or a later one that failed or is about to; else one that may
 * be on the disk, and with an intact index none that was removed, nor a failed one when a later one was committed. */
static void compare_row(struct model_record *record, const struct model_row *row, enum cut_index index) {
    const struct model_row *current = model_current(record);
    uint32_t number = (uint32_t)(row - record->rows);
    bool later = false;
    WORLD_CHECK(row->state != MODEL_ROW_BEGUN, "record %u: row %u was not finished", record->number, number);
    if (record->state == MODEL_COMMITTED && current && row != current)
        WORLD_CHECK(row > current && (row->state == MODEL_ROW_FAILED || row->state == MODEL_ROW_FINISHED),
                    "record %u: row %u (state %d) instead of %u", record->number, number, row->state,
                    (unsigned)(current - record->rows));
    for (uint32_t i = number + 1; i < record->row_count; i++)
        later |= record->rows[i].state == MODEL_ROW_THERE || record->rows[i].state == MODEL_ROW_REMOVED;
    if (index == CUT_INTACT && record->state == MODEL_COMMITTED)
        WORLD_CHECK(row->state != MODEL_ROW_REMOVED && !(row->state == MODEL_ROW_FAILED && later),
                    "record %u: row %u of %u (state %d) is back", record->number, number, record->row_count,
                    row->state);
}

static void read_one(struct world *world, const struct world_seen *seen, int part, enum cut_index index) {
    const struct model_row *row = NULL;
    int rc;
    if (part == SEL_LSM_ROW)
        rc = world_read_row(world, seen->record, &seen->location, seen->row_replicated, &row);
    else
        rc = world_read(world, seen->record, &seen->location, part);
    WORLD_CHECK(rc == 0 || (rc == SELENE_E_CORRUPT && may_be_unreadable(seen, part, index)),
                "record %u (%s), part %d: reading gives %s", seen->record->number, state_names[seen->record->state],
                part, sel_error_name(rc));
    if (row)
        compare_row(seen->record, row, index);
}

static void read_all(struct world *world, enum cut_index index) {
    for (uint32_t i = 0; i < world->seen_count; i++)
        for (int part = 0; part < (world->seen[i].has_row ? 2 : 1); part++)
            read_one(world, &world->seen[i], part, index);
}

/* ---- going on ---- */

static struct model_record *add_after(struct cut_run *run, struct world *world, uint64_t luck) {
    struct model_spec spec = {.tokens = 5, .has_row = luck & 1, .pages_replicated = luck & 2};
    if (world->seen_count) {
        spec.parent = world->seen[luck % world->seen_count].record;
        spec.tokens += spec.parent->fields.tokens;
    }
    struct model_record *record = model_add(&run->model, &spec);
    WORLD_CHECK(record, "the model is full");
    unsigned children = spec.parent ? spec.parent->children : 0;
    int rc = write_whole(world, record);
    WORLD_CHECK(rc == 0 || (rc == SELENE_E_NOSPACE && run->world.config.limit_bytes), "writing goes not on: %s",
                sel_error_name(rc));
    if (spec.parent)
        spec.parent->children = children; /* of the run: its model is left as it was */
    if (rc == 0)
        WORLD_CHECK(world_read(world, record, &record->location, 0) == 0, "what was written after is not there");
    return rc ? NULL : record;
}

/* A record that is told without a row gets one; undone in the end, for the run's model stays as it is. */
struct row_after {
    struct model_record *record, before;
};

static bool can_get_row(const struct world_seen *seen) {
    return !seen->has_row && seen->record->row_count < MODEL_ROWS;
}

static void add_row_after(struct cut_run *run, struct world *world, uint64_t luck, struct row_after *after) {
    uint32_t at = 0, first = world->seen_count ? (uint32_t)(luck % world->seen_count) : 0;
    after->record = NULL;
    while (at < world->seen_count && !can_get_row(&world->seen[(first + at) % world->seen_count]))
        at++;
    if (at == world->seen_count)
        return;
    struct world_seen *seen = &world->seen[(first + at) % world->seen_count];
    *after = (struct row_after){.record = seen->record, .before = *seen->record};
    model_add_row(&run->model, seen->record, luck & 1);
    int rc = write_whole_row(world, seen->record, &seen->location);
    WORLD_CHECK(rc == 0 || (rc == SELENE_E_NOSPACE && run->world.config.limit_bytes), "record %u: no row: %s",
                seen->record->number, sel_error_name(rc));
    if (rc == 0)
        WORLD_CHECK(world_read(world, seen->record, &seen->record->location, SEL_LSM_ROW) == 0,
                    "record %u: the row is not there", seen->record->number);
}

static void undo_row_after(struct row_after *after) {
    if (after->record == NULL)
        return;
    model_drop_row(after->record);
    *after->record = after->before;
}

static void reopen(struct cut_run *run, struct world *world, const struct model_record *added,
                   const struct model_record *with_row) {
    struct selene_message message = {{0}};
    struct sel_lsm_stats stats;
    uint32_t before = world->seen_count + (added != NULL);
    WORLD_CHECK(world_close(world) == 0, "closing fails");
    WORLD_CHECK(world_open(world, &message) == 0, "opening again: %s", message.text);
    sel_lsm_get_stats(world->lsm, &stats);
    WORLD_CHECK(world->seen_count == before && world->refused == 0,
                "told %u after a clean stop, expected %u; %u refused", world->seen_count, before, world->refused);
    WORLD_CHECK(stats.tail_bytes_read == 0, "a clean stop reads %llu bytes of tails",
                (unsigned long long)stats.tail_bytes_read);
    if (added)
        WORLD_CHECK(world_find(world, &added->fields.key), "what was committed before a clean stop is lost");
    if (with_row && model_row(with_row) == MODEL_ROW_THERE)
        WORLD_CHECK(world_find(world, &with_row->fields.key)->has_row,
                    "the row of record %u is lost after a clean stop", with_row->number);
    world_check(world);
    (void)run;
}

/* ---- one cut ---- */

static int fail_when_cut(void *context, enum sel_catalog_sim_step step, const struct sel_catalog_change *changes,
                         size_t count) {
    (void)changes, (void)count;
    struct sel_disk_sim *sim = context;
    if (step == SEL_CATALOG_SIM_BEFORE)
        sel_disk_sim_step(sim);
    return step == SEL_CATALOG_SIM_BEFORE && sel_disk_sim_is_cut(sim) ? SELENE_E_IO : 0;
}

/* Cuts again, while the store recovers from the first cut. */
static void open_and_cut(struct world *world, uint64_t steps, enum sel_disk_sim_crash mode, uint64_t luck) {
    sel_disk_sim_cut_at(world->sim, steps);
    sel_catalog_sim_set_hook(world->catalog_sim, fail_when_cut, world->sim);
    if (world_open(world, NULL) == 0)
        world_abort(world);
    sel_catalog_sim_set_hook(world->catalog_sim, NULL, NULL);
    sel_disk_sim_crash(world->sim, mode, luck);
}

static void one_cut(struct cut_run *run, enum cut_index index, uint64_t luck) {
    static struct world world; /* large; never two at once */
    uint32_t records = run->model.count;
    enum sel_disk_sim_crash mode = luck % 8 == 0   ? SEL_DISK_SIM_KEEP
                                   : luck % 8 == 1 ? SEL_DISK_SIM_DROP
                                                   : SEL_DISK_SIM_RANDOM;
    size_t keep = index == CUT_ROLLED_BACK ? luck / 8 % (run->log.count + 1) : run->log.count;
    struct selene_message message = {{0}};
    snprintf(world_where, sizeof world_where, "seed %llu step %llu index %d crash %d (keep %zu of %zu commits)",
             (unsigned long long)run->seed, (unsigned long long)run->step, index, mode, keep, run->log.count);
    world_create(&world, &run->model, luck);
    world.config = run->world.config;
    assert_ok(sel_disk_sim_clone(&world.sim, run->world.sim, luck, &world.clock));
    sel_disk_sim_crash(world.sim, mode, luck);
    world.catalog_sim = replay(&run->log, keep, index == CUT_ABSENT);
    if (luck / 64 % 4 == 0) {
        open_and_cut(&world, 1 + luck / 256 % 60, mode, luck + 1);
        run->double_cuts++;
    }
    int rc = world_open(&world, &message);
    WORLD_CHECK(rc == 0, "opening: %s: %s", sel_error_name(rc), message.text);
    world_check(&world);
    cut_compare(run, &world, index);
    read_all(&world, index);
    struct sel_lsm_stats stats;
    sel_lsm_get_stats(world.lsm, &stats);
    run->cuts++;
    run->visited += world.seen_count;
    run->recovered += stats.recovered_records;
    run->torn += stats.torn_extents;
    struct row_after row_after;
    add_row_after(run, &world, luck / 1024, &row_after);
    struct model_record *added = add_after(run, &world, luck / 1024);
    world_check(&world);
    if (luck / 512 % 4 == 0)
        reopen(run, &world, added, row_after.record);
    world_destroy(&world);
    undo_row_after(&row_after);
    model_cut(&run->model, records);
}

static void cut_here(void *context, uint64_t step) {
    struct cut_run *run = context;
    run->step = step;
    if (run->only_step && step != run->only_step)
        return;
    uint64_t luck = sel_mix64(run->seed << 20 ^ step);
    static uint64_t variants;
    if (variants == 0)
        variants = test_count("SELENE_TEST_VARIANTS", CUT_INDEXES);
    for (uint64_t i = 0; i < variants; i++)
        one_cut(run, (enum cut_index)((run->seed + step + i) % CUT_INDEXES), sel_mix64(luck + i));
    snprintf(world_where, sizeof world_where, "seed %llu after step %llu", (unsigned long long)run->seed,
             (unsigned long long)step);
}

/* The moments before and after a commit are steps, too: after, it is durable and not reported. */
static int catalog_step(void *context, enum sel_catalog_sim_step step, const struct sel_catalog_change *changes,
                        size_t count) {
    struct cut_run *run = context;
    if (step == SEL_CATALOG_SIM_AFTER)
        log_commit(&run->log, changes, count);
    sel_disk_sim_step(run->world.sim);
    return 0;
}

void cut_watch(struct cut_run *run) {
    sel_disk_sim_set_hook(run->world.sim, cut_here, run);
    sel_catalog_sim_set_hook(run->world.catalog_sim, catalog_step, run);
}
