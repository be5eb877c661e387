/* SPDX-License-Identifier: Apache-2.0
 *
 * The error table is part of the ABI: complete, without doubles, its numbers never change.
 */
#include "base/error.h"
#include "tests/lib/test.h"

#include <errno.h>

static const struct {
    int code;
    int number;
    const char *name;
} table[] = {
#define ROW(name, number, text) {SELENE_##name, number, #name},
    SELENE_ERRORS(ROW)
#undef ROW
};
#define ROWS (int)(sizeof table / sizeof table[0])

/* Written out once more on purpose: a renumbered code must fail here. New codes are added at the end. */
static const char *const frozen[] = {
    "OK",         "E_NOMEM",    "E_INVALID",     "E_IO",         "E_NOSPACE",  "E_READONLY",
    "E_CORRUPT",  "E_NOTFOUND", "E_IN_USE",      "E_RETRY",      "E_OVERSIZE", "E_CANCELLED",
    "E_DEADLINE", "E_VERSION",  "E_UNSUPPORTED", "E_PERMISSION", "E_OVERFLOW", "E_PARENT",
    "E_DEGRADED", "E_GONE",     "E_DECLINED",    "E_FORKED",     "E_CLOSED",   "E_PARSE",
    "E_STALLED",  "E_INTERNAL",
};

static void test_numbers_are_frozen(void **state) {
    (void)state;
    assert_true(ROWS >= (int)(sizeof frozen / sizeof frozen[0]));
    for (int i = 0; i < (int)(sizeof frozen / sizeof frozen[0]); i++)
        assert_string_equal(sel_error_name(-i), frozen[i]);
}

static void test_table_is_complete(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(table[i].code, -i);
        assert_string_equal(sel_error_name(-i), table[i].name);
        assert_true(strlen(sel_error_text(-i)) > 3);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(sel_error_text(-i), sel_error_text(-j));
    }
    assert_string_equal(sel_error_text(-ROWS), "unknown error");
    assert_string_equal(sel_error_text(1), "unknown error");
    assert_string_equal(sel_error_name(INT32_MIN), "E_UNKNOWN");
}

static void test_errno(void **state) {
    (void)state;
    assert_int_equal(sel_error_from_errno(ENOSPC), SELENE_E_NOSPACE);
    assert_int_equal(sel_error_from_errno(EDQUOT), SELENE_E_NOSPACE);
    assert_int_equal(sel_error_from_errno(EROFS), SELENE_E_READONLY);
    assert_int_equal(sel_error_from_errno(ENOMEM), SELENE_E_NOMEM);
    assert_int_equal(sel_error_from_errno(ENOENT), SELENE_E_NOTFOUND);
    assert_int_equal(sel_error_from_errno(EACCES), SELENE_E_PERMISSION);
    assert_int_equal(sel_error_from_errno(ENOSYS), SELENE_E_UNSUPPORTED);
    assert_int_equal(sel_error_from_errno(EIO), SELENE_E_IO);
    assert_int_equal(sel_error_from_errno(0), SELENE_E_IO);
    assert_int_equal(sel_error_from_errno(123456), SELENE_E_IO);
}

static void test_fail_keeps_the_first_message(void **state) {
    (void)state;
    struct selene_message message = {{0}};
    errno = ENOTTY;
    assert_int_equal(sel_fail(&message, SELENE_E_CORRUPT, "%s: offset %d", "a", 7), SELENE_E_CORRUPT);
    assert_int_equal(sel_fail(&message, SELENE_E_IO, "later"), SELENE_E_IO);
    assert_string_equal(message.text, "a: offset 7");
    assert_int_equal(errno, ENOTTY);
    assert_int_equal(sel_fail(NULL, SELENE_E_IO, "nobody listens"), SELENE_E_IO);
}

static void test_fail_cuts_long_messages(void **state) {
    (void)state;
    struct selene_message message;
    memset(&message, 'x', sizeof message);
    message.text[0] = '\0';
    sel_fail(&message, SELENE_E_IO, "%0*d", 2 * SELENE_MESSAGE_BYTES, 1);
    assert_int_equal(strlen(message.text), SELENE_MESSAGE_BYTES - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_frozen),
        cmocka_unit_test(test_table_is_complete),
        cmocka_unit_test(test_errno),
        cmocka_unit_test(test_fail_keeps_the_first_message),
        cmocka_unit_test(test_fail_cuts_long_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
