/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes and counts as text, both ways.
 */
#include "tests/lib/test.h"

#include "cli/sizes.h"

#include "base/selene_error.h"

static void assert_size(const char *text, int result, uint64_t bytes) {
    uint64_t value = 77;
    if (sel_size_parse(text, &value) != result || (result == 0 && value != bytes))
        fail_msg("%s: %llu", text, (unsigned long long)value);
}

static void sizes_are_read(void **state) {
    (void)state;
    assert_size("0", 0, 0);
    assert_size("4096", 0, 4096);
    assert_size("256M", 0, UINT64_C(256) << 20);
    assert_size("256MiB", 0, UINT64_C(256) << 20);
    assert_size("2T", 0, UINT64_C(2) << 40);
    assert_size("1.5G", 0, UINT64_C(3) << 29);
    assert_size("1.5g", 0, UINT64_C(3) << 29);
    assert_size("0.25K", 0, 256);
    assert_size("1.1K", 0, 1126); /* 1126.4 */
    assert_size("18446744073709551615", 0, UINT64_MAX);
    assert_size("16383P", 0, UINT64_C(16383) << 50);
}

static void what_is_no_size_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",   "M",   "-1",  "+1",  " 1",   "1 ",  "1.",  ".5G",   "1.5",  "1x",
                                      "1B", "1MB", "1ib", "1G1", "0x10", "1e3", "inf", "1..5G", "1,5G", "1GiBs"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_size(bad[i], SELENE_E_PARSE, 0);
    assert_size("18446744073709551616", SELENE_E_OVERFLOW, 0);
    assert_size("99999999999999999999999999999", SELENE_E_OVERFLOW, 0);
    assert_size("16384P", SELENE_E_OVERFLOW, 0);
}

static void numbers_are_digits_only(void **state) {
    (void)state;
    uint64_t value;
    assert_ok(sel_number_parse("12031", &value));
    assert_int_equal(value, 12031);
    assert_int_equal(sel_number_parse("12k", &value), SELENE_E_PARSE);
    assert_int_equal(sel_number_parse("-3", &value), SELENE_E_PARSE);
    assert_int_equal(sel_number_parse("", &value), SELENE_E_PARSE);
}

static void sizes_are_printed(void **state) {
    (void)state;
    char text[SEL_SIZE_TEXT];
    assert_string_equal(sel_size_print(text, 0), "0 B");
    assert_string_equal(sel_size_print(text, 4096), "4096 B");
    assert_string_equal(sel_size_print(text, UINT64_C(3) << 29), "1.50 GiB");
    assert_string_equal(sel_size_print(text, UINT64_C(640) << 20), "640 MiB");
    assert_string_equal(sel_size_print(text, UINT64_MAX), "16.0 EiB");
    assert_string_equal(sel_count_print(text, 7), "7");
    assert_string_equal(sel_count_print(text, 999), "999");
    assert_string_equal(sel_count_print(text, 12031), "12,031");
    assert_string_equal(sel_count_print(text, UINT64_MAX), "18,446,744,073,709,551,615");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(numbers_are_digits_only),
        cmocka_unit_test(sizes_are_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
