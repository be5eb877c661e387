/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks, and random numbers against values from an independent implementation: the sequences are fixed for ever.
 */
#include "base/clock.h"
#include "base/random.h"
#include "tests/lib/test.h"

static void test_manual_clock(void **state) {
    (void)state;
    struct sel_clock_manual manual;
    sel_clock_manual_init(&manual);
    assert_int_equal(sel_mono_ns(&manual.clock), SEL_NS_PER_SECOND);
    assert_int_equal(sel_wall_ns(&manual.clock), UINT64_C(1767225600) * SEL_NS_PER_SECOND);
    sel_clock_manual_advance(&manual, 5 * SEL_NS_PER_MS);
    assert_int_equal(sel_mono_ns(&manual.clock), SEL_NS_PER_SECOND + 5000000);
    assert_int_equal(sel_wall_ns(&manual.clock), UINT64_C(1767225600) * SEL_NS_PER_SECOND + 5000000);
}

static void test_system_clock(void **state) {
    (void)state;
    uint64_t before = sel_mono_ns(sel_clock_system());
    assert_true(sel_mono_ns(sel_clock_system()) >= before);
    assert_true(sel_wall_ns(sel_clock_system()) > UINT64_C(1577836800) * SEL_NS_PER_SECOND); /* 2020 */
}

static const struct {
    uint64_t seed;
    uint64_t values[4];
} goldens[] = {
    {0,
     {UINT64_C(0x99ec5f36cb75f2b4), UINT64_C(0xbf6e1f784956452a), UINT64_C(0x1a5f849d4933e6e0),
      UINT64_C(0x6aa594f1262d2d2c)}},
    {42,
     {UINT64_C(0x15780b2e0c2ec716), UINT64_C(0x6104d9866d113a7e), UINT64_C(0xae17533239e499a1),
      UINT64_C(0xecb8ad4703b360a1)}},
    {UINT64_MAX,
     {UINT64_C(0x8f5520d52a7ead08), UINT64_C(0xc476a018caa1802d), UINT64_C(0x81de31c0d260469e),
      UINT64_C(0xbf658d7e065f3c2f)}},
};

static void test_golden_sequences(void **state) {
    (void)state;
    struct sel_random random;
    for (size_t g = 0; g < sizeof goldens / sizeof goldens[0]; g++) {
        sel_random_seed(&random, goldens[g].seed);
        for (int i = 0; i < 4; i++)
            assert_int_equal(sel_random_u64(&random), goldens[g].values[i]);
    }
    assert_int_equal(sel_mix64(0), UINT64_C(0xe220a8397b1dcdaf));
}

static void test_golden_below_and_fill(void **state) {
    (void)state;
    static const uint64_t bounds[] = {1, 2, 10, 1000, (UINT64_C(1) << 63) + 1, UINT64_MAX};
    static const uint64_t expected[] = {0, 0, 6, 924, UINT64_C(9147776489032658738), UINT64_C(14199186830065750583)};
    static const uint8_t filled[13] = {0x5a, 0x76, 0xf9, 0x4e, 0xf7, 0xfa, 0x58, 0xb3, 0xd2, 0x2c, 0x48, 0x4f, 0x96};
    struct sel_random random;
    sel_random_seed(&random, 42);
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        assert_int_equal(sel_random_below(&random, bounds[i]), expected[i]);
    uint8_t bytes[14] = {0};
    sel_random_seed(&random, 7);
    sel_random_fill(&random, bytes, 13);
    assert_memory_equal(bytes, filled, 13);
    assert_int_equal(bytes[13], 0);
}

/* With this bound a plain product without rejection would give every third result twice as often as the others. */
static void test_below_has_no_bias(void **state) {
    (void)state;
    const uint64_t bound = UINT64_C(3) << 62;
    struct sel_random random;
    unsigned thirds[3] = {0};
    sel_random_seed(&random, 3);
    for (int i = 0; i < 30000; i++) {
        uint64_t value = sel_random_below(&random, bound);
        assert_true(value < bound);
        thirds[value % 3]++;
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(thirds[i], 9500, 10500);
}

static void test_system_random_differs(void **state) {
    (void)state;
    uint8_t first[32] = {0}, second[32] = {0};
    sel_random_fill(sel_random_system(), first, 32);
    sel_random_fill(sel_random_system(), second, 32);
    assert_memory_not_equal(first, second, 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_manual_clock),      cmocka_unit_test(test_system_clock),
        cmocka_unit_test(test_golden_sequences),  cmocka_unit_test(test_golden_below_and_fill),
        cmocka_unit_test(test_below_has_no_bias), cmocka_unit_test(test_system_random_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
