/* SPDX-License-Identifier: Apache-2.0
 *
 * Random calls on the prefix tree against the naive model, the tree's own checker after every one (fault 7), and
 * look-ups against brute force [L5, L6, P5, P6, R1].
 */
#include "tests/lib/test.h"
#include "tests/unit/index/tree_model.h"

static void run(bool aligned_only, uint64_t steps) {
    uint64_t seeds = test_count("SELENE_TEST_SEEDS", 12);
    static struct model model;

    for (uint64_t seed = 1; seed <= seeds; seed++) {
        model_begin(&model, seed, aligned_only);
        for (uint64_t step = 0; step < steps; step++) {
            model_step(&model);
            model_look_up(&model);
        }
        model_end(&model);
    }
}

static void random_checkpoints_anywhere(void **state) {
    (void)state;
    run(false, 2500);
}

static void random_checkpoints_at_page_boundaries(void **state) {
    (void)state;
    run(true, 1500);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_checkpoints_anywhere),
        cmocka_unit_test(random_checkpoints_at_page_boundaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
