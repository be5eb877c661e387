/* SPDX-License-Identifier: Apache-2.0
 *
 * Edges of the record store that need a longer run-up: persistent faults of one kind only [D9], room that is promised and
 * does not come back [D5, D6], hostile bytes in segments and catalogue [D8].
 */
#include "lsm/lsm_priv.h"
#include "tests/lib/lsm_rig.h"
#include "tests/lib/test.h"

static const uint64_t planes[] = {5000, 0};

static struct sel_disk *wrap(struct rig *rig, struct sel_disk *disk) {
    struct sel_disk *out;
    assert_ok(sel_disk_fault_create(&out, disk, &rig->ready));
    return out;
}

static void turns(struct rig *rig, int count, uint64_t ns) {
    for (int i = 0; i < count; i++)
        rig_turn(rig, ns);
}

static void create(struct rig *rig) {
    rig_create(rig, RIG_SIM, "edge", planes, 2, 10000);
    rig->config.durability = SEL_LSM_STRICT;
    rig->config.segment_bytes = 1 << 20;
    rig->wrap = wrap;
}

static void create_open(struct rig *rig) {
    create(rig);
    rig_open(rig);
    struct rig_record first = {.id = 1, .tokens = 16, .has_row = true};
    assert_ok(rig_write(rig, &first, NULL));
    turns(rig, 50, SEL_NS_PER_MS);
}

static uint64_t ios(const struct rig *rig, enum sel_disk_kind kind) {
    struct sel_disk_sim_stats stats;
    sel_disk_sim_get_stats(rig->sim, &stats);
    return stats.ios[kind];
}

/* One kind of io fails for ever, and all others succeed in between: that is a failing disk, too [D9]. Segments are not
 * made and removed without end. */
static void test_one_kind_fails(void **state) {
    (void)state;
    static const uint8_t kinds[] = {SEL_DISK_SYNC, SEL_DISK_WRITE, SEL_DISK_ALLOCATE, SEL_DISK_SYNC_DIR};
    for (size_t i = 0; i < SEL_COUNT(kinds); i++) {
        struct rig rig;
        create(&rig);
        rig_open(&rig);
        struct sel_disk_fault fault = {.kinds = 1u << kinds[i], .names = "seg-*", .countdown = 1, .repeat = UINT64_MAX};
        if (kinds[i] == SEL_DISK_SYNC_DIR)
            fault.names = NULL;
        sel_disk_fault_arm(rig.disk, &fault);
        uint64_t opened = ios(&rig, SEL_DISK_OPEN);
        for (int n = 0; n < 300 && sel_lsm_state(rig.lsm) == SEL_LSM_OK; n++) {
            struct rig_record record = {.id = 2, .tokens = 20, .has_row = true};
            if (rig_start(&rig, &record, NULL) == 0)
                assert_true(rig_wait(&rig, &record) != 0);
            turns(&rig, 1, SEL_NS_PER_MS / 10);
        }
        assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_FAILING);
        assert_true(ios(&rig, SEL_DISK_OPEN) - opened < 12);
        sel_disk_fault_clear(rig.disk);
        turns(&rig, 40, 100 * SEL_NS_PER_MS);
        assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_OK);
        struct rig_record record = {.id = 3, .tokens = 20, .has_row = true};
        assert_ok(rig_write(&rig, &record, NULL));
        rig_check(&rig);
        rig_close(&rig);
        rig_destroy(&rig);
    }
}

/* So is one whose index alone cannot be written. */
static void test_index_fails(void **state) {
    (void)state;
    struct rig rig;
    create_open(&rig);
    sel_catalog_sim_fail(rig.catalog_sim, 1, 1000, SELENE_E_IO);
    for (uint64_t n = 0; n < 20 && sel_lsm_state(rig.lsm) == SEL_LSM_OK; n++) {
        struct rig_record record = {.id = 2 + n, .tokens = 20};
        int rc = rig_write(&rig, &record, NULL);
        assert_true(rc == SELENE_E_IO || rc == SELENE_E_DEGRADED);
    }
    assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_FAILING);
    unsigned warnings = rig.warnings;
    for (int i = 0; i < 200; i++) { /* the disk itself is well: it is not taken up for that */
        rig_turn(&rig, 100 * SEL_NS_PER_MS);
        assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_FAILING);
    }
    assert_int_equal(rig.warnings, warnings);
    sel_catalog_sim_fail(rig.catalog_sim, 0, 0, 0);
    turns(&rig, 40, 100 * SEL_NS_PER_MS);
    struct rig_record record = {.id = 50, .tokens = 20};
    assert_ok(rig_write(&rig, &record, NULL));
    rig_close(&rig);
    rig_destroy(&rig);
}

/* While the disk does not answer there is nothing to poll for: no busy loop [D9, fault 21]. */
static void test_stalled_sleeps(void **state) {
    (void)state;
    struct rig rig;
    create_open(&rig);
    struct sel_disk_fault fault = {.action = SEL_DISK_FAULT_HOLD, .kinds = 1u << SEL_DISK_WRITE, .countdown = 1};
    sel_disk_fault_arm(rig.disk, &fault);
    struct rig_record one = {.id = 2, .tokens = 20};
    assert_ok(rig_start(&rig, &one, NULL));
    turns(&rig, 40, SEL_NS_PER_SECOND);
    assert_int_equal(sel_lsm_state(rig.lsm), SEL_LSM_STALLED);
    assert_true(sel_lsm_deadline_ns(rig.lsm) > rig.clock.mono);
    sel_disk_fault_clear(rig.disk);
    sel_disk_fault_release(rig.disk);
    assert_ok(rig_wait(&rig, &one));
    rig_close(&rig);
    rig_destroy(&rig);
}

/* Writes and evicts, oldest first, as much as the store says is short: never stuck, never over the limit. */
static void churn(struct rig *rig, uint64_t writes, uint32_t tokens) {
    static struct sel_location live[1000];
    size_t first = 0, count = 0;
    for (uint64_t i = 0; i < writes; i++) {
        struct rig_record record = {.id = 100 + i, .tokens = tokens, .has_row = i % 3 == 0};
        int rc, tries = 0;
        while ((rc = rig_start(rig, &record, NULL)) != 0) {
            assert_true(rc == SELENE_E_RETRY || rc == SELENE_E_NOSPACE);
            assert_true(++tries < 3000);
            uint64_t shortage = rc == SELENE_E_NOSPACE ? sel_lsm_shortage(rig->lsm, 0) : 0;
            for (uint64_t removed = 0; removed < shortage && first < count; first++) {
                sel_lsm_remove(rig->lsm, &live[first], NULL);
                removed += (uint64_t)live[first].pages_blocks * 4096;
            }
            rig_turn(rig, 10 * SEL_NS_PER_MS);
        }
        assert_ok(rig_wait(rig, &record));
        live[count++] = record.location;
        uint64_t used = rig_directory_bytes(rig) + rig->catalog->ops->file_bytes(rig->catalog);
        assert_in_range(used, 1, rig->config.limit_bytes);
    }
    rig_check(rig);
}

/* A segment that cannot be given back stays charged, and others make room instead of it [D5, D6, D9]. */
static void test_kept_space(void **state) {
    (void)state;
    struct rig rig;
    create(&rig);
    rig.config.limit_bytes = 12 << 20;
    rig_open(&rig);
    struct sel_disk_fault fault = {.kinds = 1u << SEL_DISK_UNLINK | 1u << SEL_DISK_PUNCH | 1u << SEL_DISK_TRUNCATE |
                                            1u << SEL_DISK_SYNC_DIR,
                                   .names = "seg-0000000[123]*",
                                   .countdown = 1,
                                   .repeat = UINT64_MAX};
    sel_disk_fault_arm(rig.disk, &fault);
    churn(&rig, 400, 100);
    assert_true(fault.hits > 2);
    sel_disk_fault_clear(rig.disk);
    rig_close(&rig);
    rig_destroy(&rig);
}

static int count_deletes(void *context, enum sel_catalog_sim_step step, const struct sel_catalog_change *changes,
                         size_t count) {
    size_t *most = context, deletes = 0;
    for (size_t i = 0; i < count; i++)
        deletes += changes[i].kind == SEL_CATALOG_DELETE;
    if (step == SEL_CATALOG_SIM_BEFORE)
        *most = SEL_MAX(*most, deletes);
    return 0;
}

/* Each removal makes the catalogue copy pages; with little room left many go in several transactions [D6]. */
static void test_removals_in_steps(void **state) {
    (void)state;
    struct rig rig;
    create_open(&rig);
    struct rig_record records[100];
    size_t most = 0;
    for (uint64_t i = 0; i < 100; i++) {
        records[i] = (struct rig_record){.id = 2 + i, .tokens = 20};
        assert_ok(rig_write(&rig, &records[i], NULL));
    }
    sel_catalog_sim_set_hook(rig.catalog_sim, count_deletes, &most);
    rig.lsm->config.limit_bytes = rig_stats(&rig).allocated_bytes + rig_stats(&rig).catalog_bytes + (200 << 10);
    for (int i = 0; i < 100; i++)
        sel_lsm_remove(rig.lsm, &records[i].location, NULL);
    turns(&rig, 20, 0); /* one after the other, at once */
    assert_in_range(most, 10, 32);
    assert_int_equal(rig_stats(&rig).records, 1);
    sel_catalog_sim_set_hook(rig.catalog_sim, NULL, NULL);
    rig_close(&rig);
    rig_destroy(&rig);
}

static const struct sel_disk_ops *plain;

static void submit_without_punch(struct sel_disk *disk, struct sel_disk_io *io) {
    if (io->kind == SEL_DISK_PUNCH)
        io->kind = SEL_DISK_STAT;
    plain->submit(disk, io);
}

static struct sel_disk *wrap_without_punch(struct rig *rig, struct sel_disk *disk) {
    static struct sel_disk_ops ops;
    (void)rig;
    plain = disk->ops;
    ops = *plain;
    ops.submit = submit_without_punch;
    disk->ops = &ops;
    return disk;
}

/* A file system that punches and keeps the blocks: its segments come back as a whole only. */
static void test_idle_punch(void **state) {
    (void)state;
    struct rig rig;
    create(&rig);
    rig.config.limit_bytes = 12 << 20;
    rig.wrap = wrap_without_punch;
    rig_open(&rig);
    churn(&rig, 400, 100);
    rig_close(&rig);
    rig_destroy(&rig);
}

/* ---- hostile bytes ---- */

static void name_of(uint64_t place, char name[24]) { snprintf(name, 24, "seg-%08x.sel", (unsigned)(place >> 32)); }

static uint64_t generation_of(const struct rig *rig, uint64_t place) {
    uint8_t block[SEL_DISK_BLOCK];
    char name[24];
    struct sel_segment_head head;
    name_of(place, name);
    assert_ok(sel_disk_sim_peek(rig->sim, name, 0, block, sizeof block));
    assert_ok(sel_segment_head_unpack(&head, block, NULL));
    return sel_generation_short(head.generation);
}

static void put_entries(struct rig *rig, const struct sel_record_entry *entries, size_t count) {
    uint8_t values[4][SEL_CATALOG_VALUE];
    struct sel_catalog_change changes[4];
    struct sel_catalog *catalog;
    bool rebuild;
    assert_true(count <= 4);
    assert_ok(sel_catalog_sim_open(&catalog, rig->catalog_sim, &rebuild));
    for (size_t i = 0; i < count; i++) {
        sel_record_entry_pack(values[i], &entries[i]);
        changes[i] = (struct sel_catalog_change){.kind = SEL_CATALOG_PUT,
                                                 .table = SEL_CATALOG_RECORDS,
                                                 .key = entries[i].location.sequence,
                                                 .value = values[i]};
    }
    assert_ok(catalog->ops->commit(catalog, changes, count, NULL));
    catalog->ops->close(catalog);
}

/* Two sound entries of a hostile catalogue, of which the first, refused by the visitor, hid from the scan that the second
 * lies over an extent that it found: no crash, and the others are there [D8]. */
static void test_overlap(void **state) {
    (void)state;
    struct rig rig;
    create_open(&rig);
    for (int i = 0; i < 4; i++) { /* numbers below those of the records that count */
        struct rig_record unused = {.id = 90, .tokens = 10};
        assert_ok(rig_begin(&rig, &unused, NULL));
        sel_lsm_write_abandon(&unused.write);
    }
    struct rig_record one = {.id = 2, .tokens = 20}, two = {.id = 3, .tokens = 20}, three = {.id = 4, .tokens = 20};
    assert_ok(rig_write(&rig, &one, NULL));
    assert_ok(rig_write(&rig, &two, NULL));
    assert_ok(rig_write(&rig, &three, NULL));
    assert_int_equal(one.location.pages + one.location.pages_blocks, two.location.pages);
    rig_abort(&rig);
    rig_lose_catalog(&rig);
    struct sel_record_entry entries[2];
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t sequence = one.location.sequence - 3 + i;
        entries[i] = (struct sel_record_entry){.key = rig_key(80 + i), .page_tokens = RIG_PAGE_TOKENS, .tokens = 9};
        entries[i].location = (struct sel_location){
            .sequence = sequence, .pages = two.location.pages - 1, .pages_blocks = (uint32_t)i + 1};
        entries[i].pages_generation = generation_of(&rig, two.location.pages);
        memcpy(entries[i].ns, rig.layout->ns, sizeof entries[i].ns);
    }
    entries[0].parent_tokens = 5;
    entries[0].parent_key = rig_key(79); /* unknown */
    put_entries(&rig, entries, 2);
    rig_open(&rig);
    rig_check(&rig);
    assert_non_null(rig_find_seen(&rig, 1));
    assert_non_null(rig_find_seen(&rig, 4));
    assert_null(rig_find_seen(&rig, 80));
    rig_close(&rig);
    rig_destroy(&rig);
}

/* A key that no record can have does not use the sequence numbers up. */
static void test_last_sequence(void **state) {
    (void)state;
    struct rig rig;
    create_open(&rig);
    rig_close(&rig);
    struct sel_record_entry entries[2] = {{.location = {.sequence = UINT64_MAX}},
                                          {.location = {.sequence = SEL_SEQUENCE_MAX}}};
    put_entries(&rig, entries, 2);
    rig_open(&rig);
    struct rig_record two = {.id = 2, .tokens = 20, .has_row = true};
    assert_ok(rig_write(&rig, &two, NULL));
    assert_in_range(two.location.sequence, 2, 1000);
    assert_ok(rig_read(&rig, &two, &two.location, SEL_LSM_PAGES));
    rig.lsm->next_sequence = SEL_SEQUENCE_MAX; /* nor is one used that no reader takes */
    assert_int_equal(rig_begin(&rig, &two, NULL), SELENE_E_OVERSIZE);
    rig_close(&rig);
    rig_destroy(&rig);
}

/* Headers of this generation at every block, each claiming all that follows: the search ends in linear time [D7, D8]. */
static void test_forged_headers(void **state) {
    (void)state;
    struct rig rig;
    create_open(&rig);
    struct rig_record two = {.id = 2, .tokens = 20};
    assert_ok(rig_write(&rig, &two, NULL));
    rig_abort(&rig);
    rig_lose_catalog(&rig);
    char name[24];
    uint64_t size;
    uint8_t block[SEL_DISK_BLOCK];
    name_of(two.location.pages, name);
    assert_ok(sel_disk_sim_size(rig.sim, name, &size));
    assert_ok(sel_disk_sim_peek(rig.sim, name, (uint64_t)(uint32_t)two.location.pages * 4096, block, sizeof block));
    uint64_t from = ((uint64_t)(uint32_t)two.location.pages + two.location.pages_blocks) * 4096;
    for (uint64_t offset = from; offset < size; offset += 4096) {
        sel_put_u32(block + offsetof(struct sel_extent_header_disk, header_bytes), (uint32_t)(size - offset));
        sel_put_u64(block + offsetof(struct sel_extent_header_disk, offset), offset);
        assert_ok(sel_disk_sim_poke(rig.sim, name, offset, block, sizeof block));
    }
    rig_open(&rig);
    assert_non_null(rig_find_seen(&rig, 1));
    assert_non_null(rig_find_seen(&rig, 2));
    assert_true(rig_stats(&rig).tail_bytes_read < rig_stats(&rig).segments * 5 * (1 << 20));
    rig_verify_seen(&rig);
    rig_close(&rig);
    rig_destroy(&rig);
}

/* A damaged head is put right by the catalogue, and what a cut-off making left is removed, also where there are more
 * segments than files are kept open [D8]. */
static void test_damage_among_many(void **state) {
    (void)state;
    enum { MANY = SEL_FILES_MAX / 2 + 20 };
    struct rig rig;
    create(&rig);
    rig.config.segment_bytes = 64 << 10;
    rig_open(&rig);
    struct rig_record last = {0};
    for (uint64_t i = 1; i <= MANY; i++) {
        last = (struct rig_record){.id = i, .tokens = 40};
        assert_ok(rig_write(&rig, &last, NULL));
    }
    assert_true(rig_stats(&rig).segments >= MANY);
    turns(&rig, 50, SEL_NS_PER_MS);
    rig_abort(&rig); /* leaves one that was made ahead, without extents */
    char names[2][24];
    name_of(last.location.pages, names[0]);
    name_of(last.location.pages + (UINT64_C(1) << 32), names[1]);
    for (int i = 0; i < 2; i++) {
        uint8_t byte = 0xff;
        assert_ok(sel_disk_sim_poke(rig.sim, names[i], 80, &byte, 1));
    }
    rig_open(&rig);
    assert_int_equal(rig.seen_count, MANY);
    rig_verify_seen(&rig);
    turns(&rig, 200, SEL_NS_PER_MS);
    uint64_t size;
    assert_int_equal(sel_disk_sim_size(rig.sim, names[1], &size), SELENE_E_NOTFOUND);
    rig_check(&rig);
    rig_close(&rig);
    rig_destroy(&rig);
}

/* A record whose removal is held back, for its pages lie behind a write that goes on, is not copied forward meanwhile: the
 * removal would not find the row where it then is [D5]. */
static void test_held_removal_and_copy(void **state) {
    (void)state;
    struct rig rig;
    create(&rig);
    sel_disk_sim_destroy(&rig.sim);
    assert_ok(
        sel_disk_sim_create(&rig.sim, &(struct sel_disk_sim_config){.seed = 1, .no_fallocate = true}, &rig.clock));
    rig.config.segment_bytes = 256 << 10;
    rig_open(&rig);
    struct rig_record gone[6], filler = {.id = 19, .tokens = 20}, behind = {.id = 20, .tokens = 20},
                               held = {.id = 21, .tokens = 20, .has_row = true},
                               after = {.id = 22, .tokens = 20, .has_row = true};
    for (uint64_t i = 0; i < 6; i++) { /* seven rows fill a segment */
        gone[i] = (struct rig_record){.id = 2 + i, .tokens = 20, .has_row = true};
        assert_ok(rig_write(&rig, &gone[i], NULL));
    }
    assert_ok(rig_write(&rig, &filler, NULL)); /* to the end of its segment */
    int rc;
    while ((rc = rig_begin(&rig, &behind, NULL)) == SELENE_E_RETRY)
        rig_turn(&rig, SEL_NS_PER_MS);
    assert_ok(rc);
    assert_ok(rig_write(&rig, &held, NULL));
    assert_ok(rig_write(&rig, &after, NULL));
    assert_int_equal(held.location.row >> 32, gone[0].location.row >> 32);
    assert_true(after.location.row >> 32 != held.location.row >> 32);
    assert_int_equal(held.location.pages, after.location.pages - held.location.pages_blocks);
    sel_lsm_remove(rig.lsm, &held.location, NULL);
    sel_lsm_remove(rig.lsm, &filler.location, NULL);
    for (int i = 0; i < 6; i++)
        sel_lsm_remove(rig.lsm, &gone[i].location, NULL);
    turns(&rig, 2000, 5 * SEL_NS_PER_MS);
    assert_int_equal(rig_stats(&rig).records, 2); /* the one that is held, and `after` */
    rig_data(&rig, &behind);
    rig_finish(&rig, &behind);
    assert_ok(rig_wait(&rig, &behind));
    assert_ok(rig_remove(&rig, &behind.location));
    assert_ok(rig_remove(&rig, &after.location));
    turns(&rig, 200, 5 * SEL_NS_PER_MS);
    assert_int_equal(rig_stats(&rig).records, 0);
    assert_int_equal(rig_stats(&rig).live_bytes, 0);
    rig_close(&rig);
    rig_destroy(&rig);
}

/* Writing and reading do not make every poll look at all segments: there may be thousands. */
static void test_polls_are_cheap(void **state) {
    (void)state;
    struct rig rig;
    create_open(&rig);
    struct rig_record records[80];
    for (uint64_t i = 0; i < 80; i++) {
        records[i] = (struct rig_record){.id = 2 + i, .tokens = 20};
        assert_ok(rig_write(&rig, &records[i], NULL));
    }
    assert_ok(rig_remove(&rig, &records[3].location)); /* a hole in a sealed one, too small to be punched now */
    turns(&rig, 200, SEL_NS_PER_MS);
    assert_false(rig.lsm->reclaim);
    for (uint64_t i = 10; i < 20; i++) {
        assert_ok(rig_read(&rig, &records[i], &records[i].location, SEL_LSM_PAGES));
        assert_false(rig.lsm->reclaim);
    }
    struct rig_record more = {.id = 90, .tokens = 20};
    assert_ok(rig_start(&rig, &more, NULL));
    assert_false(rig.lsm->reclaim);
    assert_ok(rig_wait(&rig, &more));
    assert_false(rig.lsm->reclaim);
    rig_close(&rig);
    rig_destroy(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_kind_fails),    cmocka_unit_test(test_index_fails),
        cmocka_unit_test(test_stalled_sleeps),    cmocka_unit_test(test_kept_space),
        cmocka_unit_test(test_idle_punch),        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_last_sequence),     cmocka_unit_test(test_forged_headers),
        cmocka_unit_test(test_damage_among_many), cmocka_unit_test(test_held_removal_and_copy),
        cmocka_unit_test(test_polls_are_cheap),   cmocka_unit_test(test_removals_in_steps),
    };
    return cmocka_run_group_tests_name("lsm edges", tests, NULL, NULL);
}
