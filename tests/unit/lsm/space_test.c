/* SPDX-License-Identifier: Apache-2.0
 *
 * Space [D5, D6]: the limit under churn, looked at after every step; recycling, punching, copying forward; what a
 * reader is on is not given back.
 */
#include "lsm/lsm_priv.h"
#include "tests/lib/lsm_rig.h"
#include "tests/lib/test.h"

static const uint64_t planes[] = {5000, 300, 300, 0};

#define LIVE_MAX 4096

struct churn {
    struct rig rig;
    uint64_t limit, most;
    struct rig_record live[LIVE_MAX]; /* oldest first, from `first` */
    size_t first, count;
    uint64_t next_id, seed;
};

static void check_limit(struct churn *churn) {
    struct rig *rig = &churn->rig;
    uint64_t used = rig_directory_bytes(rig) + rig->catalog->ops->file_bytes(rig->catalog);
    churn->most = SEL_MAX(churn->most, used);
    if (churn->limit && used > churn->limit)
        fail_msg("%llu bytes used, %llu allowed", (unsigned long long)used, (unsigned long long)churn->limit);
}

static void turn(struct churn *churn) {
    rig_turn(&churn->rig, 10 * SEL_NS_PER_MS);
    check_limit(churn);
}

static uint64_t record_bytes(const struct rig *rig, const struct rig_record *record) {
    uint32_t pages = (record->tokens + RIG_PAGE_TOKENS - 1) / RIG_PAGE_TOKENS;
    return sel_lsm_record_bytes(rig->layout, pages, record->tokens / RIG_PAGE_TOKENS, record->pages_replicated,
                                record->has_row, record->row_replicated);
}

/* The oldest first, as an engine would; sometimes another, so that segments do not die as a whole. */
static uint64_t evict_one(struct churn *churn) {
    if (churn->count == 0)
        return 0;
    size_t at = churn->first + (churn->seed++ % 7 == 0 ? churn->count / 2 : 0);
    struct rig_record victim = churn->live[at % LIVE_MAX];
    for (size_t i = at; i > churn->first; i--)
        churn->live[i % LIVE_MAX] = churn->live[(i - 1) % LIVE_MAX];
    churn->first++;
    churn->count--;
    sel_lsm_remove(churn->rig.lsm, &victim.location, NULL);
    return record_bytes(&churn->rig, &victim);
}

static void make_room(struct churn *churn, uint64_t bytes) {
    uint64_t shortage = sel_lsm_shortage(churn->rig.lsm, bytes), removed = 0;
    while (removed < shortage && churn->count > 0)
        removed += evict_one(churn);
}

static void show_and_fail(struct churn *churn, int rc) {
    struct sel_lsm_stats stats = rig_stats(&churn->rig);
    fail_msg(
        "begin says %s for ever: %zu records, live %.2f MiB, dead %.2f, allocated %.2f, catalogue %.2f, %u segments, "
        "shortage %.2f, state %d",
        sel_error_name(rc), churn->count, (double)stats.live_bytes / 1048576, (double)stats.dead_bytes / 1048576,
        (double)stats.allocated_bytes / 1048576, (double)stats.catalog_bytes / 1048576, (unsigned)stats.segments,
        (double)sel_lsm_shortage(churn->rig.lsm, 0) / 1048576, (int)sel_lsm_state(churn->rig.lsm));
}

static void write_one(struct churn *churn) {
    struct rig *rig = &churn->rig;
    uint64_t id = ++churn->next_id;
    struct rig_record record = {
        .id = id, .tokens = 1 + (uint32_t)(sel_mix64(id + churn->seed) % 200), .has_row = id % 3 == 0};
    uint64_t bytes = record_bytes(rig, &record);
    int rc, turns = 0, turns_max = rig->kind == RIG_SIM ? 5000 : 500000; /* a real disk may be busy elsewhere */
    while ((rc = rig_start(rig, &record, NULL)) != 0) {
        if ((rc != SELENE_E_RETRY && rc != SELENE_E_NOSPACE) || ++turns >= turns_max) /* [fault 24]: never for ever */
            show_and_fail(churn, rc);
        if (rc == SELENE_E_NOSPACE)
            make_room(churn, bytes);
        turn(churn);
    }
    check_limit(churn);
    while (record.result == 1)
        turn(churn);
    assert_ok(record.result);
    while (record.page_op.in_flight || record.row_op.in_flight)
        turn(churn);
    rig_record_free(&record);
    churn->live[(churn->first + churn->count++) % LIVE_MAX] = record;
    make_room(churn, bytes);
}

static void read_some(struct churn *churn) {
    for (size_t i = 0; i < churn->count; i += 5) {
        const struct rig_record *record = &churn->live[(churn->first + i) % LIVE_MAX];
        assert_ok(rig_read(&churn->rig, record, &record->location, SEL_LSM_PAGES));
        if (record->has_row)
            assert_ok(rig_read(&churn->rig, record, &record->location, SEL_LSM_ROW));
    }
}

static void settle(struct churn *churn) {
    for (int i = 0; i < 300; i++)
        turn(churn);
}

static void on_moved(struct rig *rig, uint64_t id, const struct sel_location *to) {
    struct churn *churn = SEL_CONTAINER(rig, struct churn, rig);
    for (size_t i = 0; i < churn->count; i++) {
        struct rig_record *record = &churn->live[(churn->first + i) % LIVE_MAX];
        if (record->id == id)
            record->location = *to;
    }
}

static struct churn *create(enum rig_disk kind, uint64_t limit, bool fallocate) {
    struct churn *churn = calloc(1, sizeof *churn);
    rig_create(&churn->rig, kind, "space", planes, 2, 20000);
    if (!fallocate) {
        sel_disk_sim_destroy(&churn->rig.sim);
        assert_ok(sel_disk_sim_create(&churn->rig.sim, &(struct sel_disk_sim_config){.seed = 1, .no_fallocate = true},
                                      &churn->rig.clock));
    }
    churn->limit = limit;
    churn->rig.on_moved = on_moved;
    churn->rig.config.limit_bytes = limit;
    churn->rig.config.durability = SEL_LSM_STRICT;
    rig_open(&churn->rig);
    return churn;
}

static void destroy(struct churn *churn) {
    rig_destroy(&churn->rig);
    free(churn);
}

static void churn_store(enum rig_disk kind, bool fallocate, uint64_t writes) {
    struct churn *churn = create(kind, 12 << 20, fallocate);
    for (uint64_t i = 0; i < writes; i++) {
        write_one(churn);
        if (i % 200 == 0) {
            rig_check(&churn->rig);
            read_some(churn);
        }
    }
    settle(churn);
    struct sel_lsm_stats stats = rig_stats(&churn->rig);
    print_message("limit %u MiB, most used %.2f, live %.2f MiB, %u segments, %u recycled, %.1f punched, %.1f forward\n",
                  12, (double)churn->most / 1048576, (double)stats.live_bytes / 1048576, (unsigned)stats.segments,
                  (unsigned)stats.recycled_segments, (double)stats.punched_bytes / 1048576,
                  (double)stats.copied_forward_bytes / 1048576);
    assert_true(stats.live_bytes > churn->limit / 4);
    rig_close(&churn->rig);
    /* Also right after a restart [D6, fault 11]. */
    rig_open(&churn->rig);
    assert_int_equal(churn->rig.seen_count, churn->count);
    check_limit(churn);
    rig_verify_seen(&churn->rig);
    for (uint64_t i = 0; i < 100; i++)
        write_one(churn);
    read_some(churn);
    rig_check(&churn->rig);
    rig_abort(&churn->rig);
    rig_open(&churn->rig);
    assert_int_equal(churn->rig.seen_count, churn->count);
    check_limit(churn);
    for (uint64_t i = 0; i < 100; i++)
        write_one(churn);
    rig_close(&churn->rig);
    destroy(churn);
}

static void test_limit_sim(void **state) {
    (void)state;
    churn_store(RIG_SIM, true, test_count("SELENE_TEST_CHURN", 1500));
}

static void test_limit_no_punch(void **state) {
    (void)state;
    churn_store(RIG_SIM, false, test_count("SELENE_TEST_CHURN", 1500));
}

static void test_limit_real(void **state) {
    (void)state;
    churn_store(RIG_REAL, true, test_count("SELENE_TEST_CHURN", 600));
}

/* A segment that dies as a whole is written again under a new generation; nothing of the old one is found [D5]. */
static void test_recycle(void **state) {
    (void)state;
    struct churn *churn = create(RIG_SIM, 0, true);
    churn->rig.config.segment_bytes = 1 << 20;
    rig_close(&churn->rig);
    rig_open(&churn->rig);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 60; i++)
            write_one(churn);
        while (churn->count > 10)
            evict_one(churn);
        settle(churn);
    }
    assert_true(rig_stats(&churn->rig).recycled_segments > 2);
    read_some(churn);
    rig_abort(&churn->rig);
    rig_lose_catalog(&churn->rig);
    rig_open(&churn->rig);
    assert_true(churn->rig.seen_count >= churn->count);
    rig_verify_seen(&churn->rig);
    rig_close(&churn->rig);
    destroy(churn);
}

static void done(struct sel_op *op) { (void)op; }

/* While a reader is open its bytes stay; then they are given back [D5]. */
static void test_reader_holds(void **state) {
    (void)state;
    struct churn *churn = create(RIG_SIM, 12 << 20, true);
    struct rig *rig = &churn->rig;
    struct rig_record first = {.id = 1, .tokens = 200};
    assert_ok(rig_write(rig, &first, NULL));
    churn->next_id = 1;
    struct sel_lsm_record full;
    struct sel_key *keys;
    rig_fill(rig, &first, &full, &keys);
    struct sel_lsm_reader *reader;
    struct sel_op wait;
    sel_op_init(&wait, done);
    sel_lsm_reader_open(rig->lsm, rig->layout, &full, &first.location, SEL_LSM_PAGES, NULL, 0, &reader, &wait);
    while (wait.in_flight)
        turn(churn);
    assert_ok(wait.result);
    assert_ok(rig_remove(rig, &first.location));
    for (int i = 0; i < 300; i++)
        write_one(churn);
    settle(churn);
    /* Still the same bytes. */
    void *memory = NULL;
    uint64_t bytes = 13 * 2 * rig->layout->share_bytes;
    assert_ok(posix_memalign(&memory, 4096, bytes));
    memset(memory, 0, bytes);
    struct iovec iov = {memory, bytes};
    sel_op_init(&wait, done);
    sel_lsm_reader_read(reader, 0, &iov, 1, &wait);
    while (wait.in_flight)
        turn(churn);
    assert_ok(wait.result);
    size_t count;
    const uint64_t *sums = sel_lsm_reader_sums(reader, &count);
    assert_int_equal(count, 26);
    uint64_t want = rig_page_sum(rig->layout, memory);
    assert_int_equal(sums[0], want);
    sel_lsm_reader_close(&reader);
    free(memory);
    free(keys);
    rig_close(rig);
    destroy(churn);
}

/* What can never lie within the limit beside the segments that are kept ahead is oversize at once; what can fits, with
 * everything else evicted: nothing in between that is to be tried again for ever [D6]. */
static void test_oversize(void **state) {
    (void)state;
    unsigned fitted = 0, oversize = 0;
    for (uint32_t tokens = 200; tokens <= 10000; tokens += 700) {
        struct churn *churn = create(RIG_SIM, 12 << 20, true);
        for (int i = 0; i < 30; i++)
            write_one(churn);
        struct rig_record large = {.id = 1000000, .tokens = tokens, .has_row = tokens % 2};
        uint64_t bytes = record_bytes(&churn->rig, &large);
        int rc = SELENE_E_RETRY;
        for (int turns = 0; turns < 3000 && (rc == SELENE_E_RETRY || rc == SELENE_E_NOSPACE); turns++) {
            rc = rig_begin(&churn->rig, &large, NULL);
            if (rc == SELENE_E_NOSPACE)
                make_room(churn, bytes);
            if (rc)
                turn(churn);
        }
        if (rc != 0 && rc != SELENE_E_OVERSIZE)
            show_and_fail(churn, rc);
        fitted += rc == 0;
        oversize += rc != 0;
        if (rc == 0)
            sel_lsm_write_abandon(&large.write);
        rig_close(&churn->rig);
        destroy(churn);
    }
    assert_true(fitted > 3 && oversize > 0);
}

/* Where three segments are all that the limit has room for: whatever died in which of them, a write finds room once
 * what was there is evicted: not in the segment that is open for the other kind either may dead bytes keep the last room
 * [D6, fault 24]. */
static void test_smallest_limit(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct churn *churn = create(RIG_SIM, 4 << 20, true);
        rig_close(&churn->rig);
        churn->rig.config.segment_bytes = 1 << 20;
        rig_open(&churn->rig);
        churn->seed = seed;
        churn->next_id = seed;
        for (uint64_t i = 0; i < 150; i++) {
            write_one(churn);
            if (i % (3 + seed) == 0)
                while (churn->count > 0)
                    evict_one(churn);
        }
        rig_check(&churn->rig);
        rig_close(&churn->rig);
        destroy(churn);
    }
}

/* What a record of many page keys adds to the catalogue is reserved before it begins, like its data [D6]. */
static void test_catalogue_growth(void **state) {
    (void)state;
    static const uint64_t tiny[] = {64, 0};
    struct rig rig;
    rig_create(&rig, RIG_SIM, "edge", tiny, 1, 0);
    rig.config.segment_bytes = 16 << 20;
    rig.config.limit_bytes = UINT64_C(1) << 30;
    rig_open(&rig);
    struct rig_record first = {.id = 1, .tokens = 16}, small = {.id = 2, .tokens = 16},
                      large = {.id = 3, .tokens = 25600};
    /* More segments than the fewest that a store can do with: a limit below those makes every record oversize. */
    for (uint32_t i = 0; i < 5; i++) {
        struct rig_record filler = {.id = 10 + i, .tokens = 25600};
        assert_ok(rig_write(&rig, &filler, NULL));
    }
    assert_ok(rig_write(&rig, &first, NULL));
    for (int i = 0; i < 50; i++)
        rig_turn(&rig, SEL_NS_PER_MS);
    struct sel_lsm_stats stats = rig_stats(&rig);
    assert_true(stats.segments > 3);
    rig.lsm->config.limit_bytes = stats.allocated_bytes + stats.catalog_bytes + (160 << 10);
    assert_ok(rig_write(&rig, &small, NULL));
    assert_int_equal(rig_begin(&rig, &large, NULL), SELENE_E_NOSPACE); /* 229 values */
    assert_true(sel_lsm_shortage(rig.lsm, 0) > 0);                     /* and the engine hears of it */
    rig.lsm->config.limit_bytes += 256 << 10;
    assert_ok(rig_write(&rig, &large, NULL));
    rig_close(&rig);
    rig_destroy(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit_sim),        cmocka_unit_test(test_limit_no_punch),
        cmocka_unit_test(test_limit_real),       cmocka_unit_test(test_recycle),
        cmocka_unit_test(test_reader_holds),     cmocka_unit_test(test_oversize),
        cmocka_unit_test(test_catalogue_growth), cmocka_unit_test(test_smallest_limit),
    };
    return cmocka_run_group_tests_name("lsm space", tests, NULL, NULL);
}
