/* SPDX-License-Identifier: Apache-2.0
 *
 * Recovery [D7, D8]: the tail after a crash, a catalogue that was rolled back or is gone, torn extents, lost rows.
 */
#include "base/bytes.h"
#include "lsm/segment_format.h"
#include "tests/lib/lsm_rig.h"
#include "tests/lib/test.h"

#include <fcntl.h>
#include <unistd.h>

static const uint64_t planes[] = {5000, 300, 300, 0};

/* Records 1..count, a chain: each is the child of the one before. */
static struct rig_record link_number(uint64_t id) {
    struct rig_record record = {.id = id,
                                .parent = id - 1,
                                .parent_tokens = (uint32_t)(id - 1) * 40,
                                .tokens = (uint32_t)id * 40,
                                .has_row = id % 2 == 1};
    return record;
}

static void write_chain(struct rig *rig, uint64_t from, uint64_t to) {
    for (uint64_t id = from; id <= to; id++) {
        struct rig_record record = link_number(id);
        assert_ok(rig_write(rig, &record, NULL));
    }
}

static void create(struct rig *rig, enum rig_disk kind) {
    rig_create(rig, kind, "recover", planes, 2, 20000);
    rig->config.segment_bytes = 256 << 10;
    rig->flush = true;
}

/* Data and headers are there, the group never committed: the tail's replay finds them [D7]. */
static void tail(enum rig_disk kind, bool big) {
    struct rig rig;
    create(&rig, kind);
    if (big)
        rig.config.segment_bytes = 16 << 20;
    rig_open(&rig);
    write_chain(&rig, 1, 5);
    struct rig_record more[4];
    struct sel_lsm_write *parent = NULL;
    for (int i = 0; i < 4; i++) {
        more[i] = link_number((uint64_t)i + 6);
        int rc;
        while ((rc = rig_start(&rig, &more[i], parent)) == SELENE_E_RETRY)
            rig_turn(&rig, 0);
        assert_ok(rc);
        parent = more[i].write;
    }
    for (int i = 0; i < 4; i++)
        while (more[i].page_op.in_flight || more[i].row_op.in_flight)
            rig_turn(&rig, 0);
    rig_abort(&rig);
    for (int i = 0; i < 4; i++) {
        assert_true(more[i].result == SELENE_E_CLOSED || more[i].result == SELENE_E_PARENT);
        rig_record_free(&more[i]);
    }
    rig_open(&rig);
    assert_int_equal(rig.seen_count, 9);
    assert_int_equal(rig_stats(&rig).recovered_records, 4);
    /* What was written of the tails is read, with a window behind it in each segment, not what was allocated ahead. */
    assert_true(rig_stats(&rig).tail_bytes_read > 0);
    if (big)
        assert_true(rig_stats(&rig).tail_bytes_read < (1 << 20));
    rig_verify_seen(&rig);
    /* They are in the catalogue now, and the segments are indexed to their ends. */
    rig_abort(&rig);
    rig_open(&rig);
    assert_int_equal(rig.seen_count, 9);
    assert_int_equal(rig_stats(&rig).recovered_records, 0);
    write_chain(&rig, 10, 12);
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(rig.seen_count, 12);
    assert_int_equal(rig_stats(&rig).tail_bytes_read, 0);
    rig_verify_seen(&rig);
    rig_close(&rig);
    rig_destroy(&rig);
}

static void test_tail(void **state) {
    (void)state;
    tail(RIG_SIM, false);
    tail(RIG_REAL, false);
    tail(RIG_SIM, true);
    tail(RIG_REAL, true);
}

/* Every cut of the catalogue, and none at all: all that was ever committed is there. */
static void test_rolled_back(void **state) {
    (void)state;
    for (size_t keep = 0;; keep++) {
        struct rig rig;
        create(&rig, RIG_SIM);
        rig_open(&rig);
        write_chain(&rig, 1, 6);
        rig_close(&rig);
        rig_open(&rig);
        write_chain(&rig, 7, 12);
        rig_abort(&rig);
        size_t commits = sel_catalog_sim_commits(rig.catalog_sim);
        assert_ok(sel_catalog_sim_crash(rig.catalog_sim, keep <= commits ? keep : SEL_CATALOG_SIM_ABSENT));
        rig_open(&rig);
        assert_int_equal(rig.seen_count, 12);
        rig_verify_seen(&rig);
        rig_check(&rig);
        rig_close(&rig);
        rig_open(&rig);
        assert_int_equal(rig.seen_count, 12);
        rig_close(&rig);
        rig_destroy(&rig);
        if (keep > commits)
            break;
    }
}

static int file_of(const struct rig *rig, uint32_t segment) {
    char path[512];
    snprintf(path, sizeof path, "%s/seg-%08x.sel", rig->directory, segment);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    return fd;
}

static void flip(const struct rig *rig, uint64_t place, uint64_t byte) {
    int fd = file_of(rig, (uint32_t)(place >> 32));
    uint8_t value;
    off_t at = (off_t)((uint64_t)(uint32_t)place * SEL_DISK_BLOCK + byte);
    assert_int_equal(pread(fd, &value, 1, at), 1);
    value ^= 1;
    assert_int_equal(pwrite(fd, &value, 1, at), 1);
    fsync(fd);
    close(fd);
}

/* A flipped byte in data or header ends that record and its descendants, and not the search [D7, fault 22]. */
static void test_torn(void **state) {
    (void)state;
    for (int what = 0; what < 3; what++) {
        struct rig rig;
        create(&rig, RIG_REAL);
        rig_open(&rig);
        struct rig_record roots[8];
        for (uint64_t i = 0; i < 8; i++) {
            roots[i] = (struct rig_record){.id = i + 1, .tokens = 50, .has_row = true};
            assert_ok(rig_write(&rig, &roots[i], NULL));
        }
        struct rig_record child = {.id = 20, .parent = 4, .parent_tokens = 50, .tokens = 99, .has_row = true};
        assert_ok(rig_write(&rig, &child, NULL));
        rig_abort(&rig);
        rig_lose_catalog(&rig);
        if (what == 0)
            flip(&rig, roots[3].location.pages, 4096 + 4999); /* the first plane's data */
        else if (what == 1)
            flip(&rig, roots[3].location.pages, 300); /* header */
        else
            flip(&rig, roots[3].location.row, 4096 + 17);
        rig_open(&rig);
        assert_int_equal(rig_stats(&rig).torn_extents, 1);
        struct rig_seen *torn = rig_find_seen(&rig, 4);
        if (what == 2) { /* without its row, as if thinned; its child needs its pages */
            assert_non_null(torn);
            assert_false(torn->record.has_row);
            assert_int_equal(rig.seen_count, 9);
        } else {
            assert_null(torn);
            assert_int_equal(rig.seen_count, 7);
            assert_int_equal(rig_stats(&rig).refused_records, 1);
        }
        rig_verify_seen(&rig);
        rig_close(&rig);
        rig_destroy(&rig);
    }
}

/* Padding is never hashed [I2]: a flipped byte there changes nothing. */
static void test_padding(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, RIG_REAL);
    rig_open(&rig);
    struct rig_record root = {.id = 1, .tokens = 50};
    assert_ok(rig_write(&rig, &root, NULL));
    rig_abort(&rig);
    rig_lose_catalog(&rig);
    flip(&rig, root.location.pages, 4096 + 5010); /* between two planes */
    rig_open(&rig);
    assert_int_equal(rig.seen_count, 1);
    rig_close(&rig);
    rig_destroy(&rig);
}

/* What the visitor refuses is given back, and is not there at the next opening. */
static void test_refused(void **state) {
    (void)state;
    struct rig rig;
    create(&rig, RIG_SIM);
    rig_open(&rig);
    write_chain(&rig, 1, 6);
    rig_close(&rig);
    rig.refuse_all = SELENE_E_PARENT;
    rig_open(&rig);
    assert_int_equal(rig_stats(&rig).refused_records, 6);
    assert_int_equal(rig_stats(&rig).live_bytes, 0);
    for (int i = 0; i < 200; i++)
        rig_turn(&rig, SEL_NS_PER_MS);
    rig_close(&rig);
    rig.refuse_all = 0;
    rig_open(&rig);
    assert_int_equal(rig.seen_count, 0);
    rig_close(&rig);
    rig_destroy(&rig);
}

/* ---- power cuts at many steps; tests/crash does all of them ---- */

static int catalog_step(void *context, enum sel_catalog_sim_step step, const struct sel_catalog_change *changes,
                        size_t count) {
    struct rig *rig = context;
    (void)step, (void)changes, (void)count;
    sel_disk_sim_step(rig->sim);
    return sel_disk_sim_is_cut(rig->sim) ? SELENE_E_IO : 0;
}

#define CUT_RECORDS 60

struct cut_state {
    struct rig_record records[CUT_RECORDS];
    bool written[CUT_RECORDS], removed[CUT_RECORDS];
    uint64_t count;
};

static bool has_child(const struct cut_state *cut, uint64_t id) {
    for (uint64_t i = 0; i < cut->count; i++)
        if (cut->written[i] && !cut->removed[i] && cut->records[i].parent == id)
            return true;
    return false;
}

static void cut_write(struct rig *rig, struct cut_state *cut, struct sel_random *random) {
    uint64_t i = cut->count++;
    struct rig_record *record = &cut->records[i];
    *record = (struct rig_record){.id = i + 1, .tokens = 20 + (uint32_t)sel_random_below(random, 60)};
    record->has_row = sel_random_below(random, 2);
    if (i > 0 && sel_random_below(random, 2)) {
        uint64_t parent = sel_random_below(random, i);
        if (cut->written[parent] && !cut->removed[parent]) {
            record->parent = parent + 1;
            record->parent_tokens = cut->records[parent].tokens;
            record->tokens += record->parent_tokens;
        }
    }
    cut->written[i] = rig_write(rig, record, NULL) == 0;
}

static void cut_remove(struct rig *rig, struct cut_state *cut, struct sel_random *random) {
    uint64_t i = sel_random_below(random, cut->count + 1);
    if (i >= cut->count || !cut->written[i] || cut->removed[i] || has_child(cut, i + 1))
        return;
    cut->removed[i] = true; /* whatever the answer is: it may be gone */
    rig_remove(rig, &cut->records[i].location);
}

static void cut_workload(struct rig *rig, struct cut_state *cut, uint64_t seed) {
    struct sel_random random;
    sel_random_seed(&random, seed);
    while (cut->count < CUT_RECORDS && !sel_disk_sim_is_cut(rig->sim) && sel_lsm_state(rig->lsm) == SEL_LSM_OK) {
        if (sel_random_below(&random, 4))
            cut_write(rig, cut, &random);
        else
            cut_remove(rig, cut, &random);
        for (uint64_t i = sel_random_below(&random, 4); i > 0; i--)
            rig_turn(rig, SEL_NS_PER_SECOND);
    }
}

static void one_cut(uint64_t seed, uint64_t step, int catalog) {
    struct rig rig;
    struct cut_state cut = {.count = 0};
    rig_create(&rig, RIG_SIM, "cut", planes, 2, 9000);
    rig.config.segment_bytes = 256 << 10;
    rig.config.durability = seed % 3 ? SEL_LSM_STRICT : SEL_LSM_RELAXED;
    rig_open(&rig);
    sel_catalog_sim_set_hook(rig.catalog_sim, catalog_step, &rig);
    size_t before = sel_catalog_sim_commits(rig.catalog_sim);
    if (step)
        sel_disk_sim_cut_at(rig.sim, step);
    cut_workload(&rig, &cut, seed);
    if (!sel_disk_sim_is_cut(rig.sim))
        sel_disk_sim_cut(rig.sim);
    rig_abort(&rig);
    sel_catalog_sim_set_hook(rig.catalog_sim, NULL, NULL);
    sel_disk_sim_crash(rig.sim, SEL_DISK_SIM_RANDOM, seed);
    size_t commits = sel_catalog_sim_commits(rig.catalog_sim), keep = commits;
    if (catalog == 1)
        keep = before + (size_t)(sel_mix64(seed + step) % (commits - before + 1));
    assert_ok(sel_catalog_sim_crash(rig.catalog_sim, catalog == 2 ? SEL_CATALOG_SIM_ABSENT : keep));
    rig_open(&rig);
    for (uint64_t i = 0; i < cut.count; i++)
        if (cut.written[i] && !cut.removed[i] && !rig_find_seen(&rig, i + 1))
            fail_msg("seed %u step %u catalogue %d: committed record %u is lost", (unsigned)seed, (unsigned)step,
                     catalog, (unsigned)i + 1);
    /* With an old catalogue, records that were removed since may be named whose bytes are gone: a miss, never wrong. */
    if (catalog != 1)
        rig_verify_seen(&rig);
    for (uint64_t i = 0; i < cut.count; i++) {
        struct rig_seen *seen = rig_find_seen(&rig, i + 1);
        if (cut.written[i] && !cut.removed[i]) {
            struct sel_location at = seen->location;
            assert_ok(rig_read(&rig, &cut.records[i], &at, SEL_LSM_PAGES));
            assert_true(!cut.records[i].has_row || seen->record.has_row);
            if (cut.records[i].has_row)
                assert_ok(rig_read(&rig, &cut.records[i], &at, SEL_LSM_ROW));
        }
    }
    struct rig_record more = {.id = 500, .tokens = 30, .has_row = true};
    assert_ok(rig_write(&rig, &more, NULL));
    size_t seen = rig.seen_count;
    rig_close(&rig);
    rig_open(&rig);
    assert_int_equal(rig.seen_count, seen + 1);
    rig_close(&rig);
    rig_destroy(&rig);
}

static void test_cuts(void **state) {
    (void)state;
    uint64_t seeds = test_count("SELENE_TEST_SEEDS", 6);
    for (uint64_t seed = 1; seed <= seeds; seed++)
        for (uint64_t step = 30; step < 1200; step += 61)
            one_cut(seed, step + seed % 61, (int)(step % 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tail),    cmocka_unit_test(test_rolled_back), cmocka_unit_test(test_torn),
        cmocka_unit_test(test_padding), cmocka_unit_test(test_refused),     cmocka_unit_test(test_cuts),
    };
    return cmocka_run_group_tests_name("lsm recovery", tests, NULL, NULL);
}
