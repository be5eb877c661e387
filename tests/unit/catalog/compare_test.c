/* SPDX-License-Identifier: Apache-2.0
 *
 * Random transactions on LMDB's side and on the simulated side: both give the same answers after each, and the file
 * passes the validator after each: fresh, grown, shrunk to nearly nothing, with long free lists, reopened. [D7, D8]
 */
#include "index/catalog_validate.h"
#include "tests/lib/catalog_sim.h"
#include "tests/lib/test.h"
#include "tests/unit/catalog/workload.h"

static void check_valid(const char *path, uint64_t seed, unsigned step) {
    struct selene_message message = {""};
    int rc = sel_catalog_validate(path, &message);
    if (rc)
        fail_msg("seed %ju step %u: %s", (uintmax_t)seed, step, message.text);
}

/* `commit_size` decides the shape: small trees, or ones deep enough for branch pages above branch pages. */
static void run_seed(uint64_t seed, unsigned steps, size_t commit_size) {
    char *directory = test_directory_make("compare"), *path = NULL;
    struct sel_catalog *real = NULL, *sim = NULL;
    struct sel_catalog_sim *state = NULL;
    struct workload load;
    bool rebuild;
    assert_true(asprintf(&path, "%s/index.v1.lmdb", directory) > 0);
    workload_init(&load, seed);
    assert_ok(sel_catalog_sim_create(&state));
    assert_ok(sel_catalog_sim_open(&sim, state, &rebuild));
    assert_ok(sel_catalog_lmdb_open(&real, directory, UINT64_C(1) << 30, NULL, &rebuild, NULL));
    assert_true(rebuild);
    for (unsigned step = 0; step < steps; step++) {
        struct selene_message message = {""};
        workload_step(&load, commit_size);
        assert_ok(workload_commit(&load, sim, NULL));
        if (workload_commit(&load, real, &message))
            fail_msg("seed %ju step %u: %s", (uintmax_t)seed, step, message.text);
        check_valid(path, seed, step);
        if (step % 8 == 0 || step + 1 == steps) {
            size_t real_count, sim_count;
            uint64_t real_digest = catalog_digest(real, &real_count);
            assert_int_equal(real_digest, catalog_digest(sim, &sim_count));
            assert_int_equal(real_count, sim_count);
        }
        if (sel_random_below(&load.random, 16) == 0) {
            real->ops->close(real);
            assert_ok(sel_catalog_lmdb_open(&real, directory, UINT64_C(1) << 30, NULL, &rebuild, NULL));
            assert_false(rebuild);
        }
    }
    real->ops->close(real);
    sim->ops->close(sim);
    sel_catalog_sim_destroy(&state);
    workload_destroy(&load);
    test_directory_remove(&directory);
    free(path);
}

static void same_answers_and_valid_files(void **state) {
    (void)state;
    uint64_t seeds = test_count("SELENE_TEST_SEEDS", 12);
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        static const size_t sizes[] = {3, 20, 150, 700};
        size_t size = sizes[seed % 4];
        run_seed(seed, size > 100 ? 60 : 200, size);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_answers_and_valid_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
