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
}

/* Data and headers are there, the group never committed: the tail's replay finds them [D7]. */
static void tail(enum rig_disk kind) {
    struct rig rig;
    create(&rig, kind);
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
    assert_true(rig_stats(&rig).tail_bytes_read > 0);
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
    tail(RIG_SIM);
    tail(RIG_REAL);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tail),    cmocka_unit_test(test_rolled_back), cmocka_unit_test(test_torn),
        cmocka_unit_test(test_padding), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("lsm recovery", tests, NULL, NULL);
}
