/* SPDX-License-Identifier: Apache-2.0
 *
 * A failed check says where and aborts; messages reach the caller's function, filtered by level.
 */
#include "base/check.h"
#include "base/log.h"
#include "tests/lib/test.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

struct heard {
    int count;
    int level;
    char text[2048];
};

static void hear(void *context, int level, const char *text) {
    struct heard *heard = context;
    heard->count++;
    heard->level = level;
    snprintf(heard->text, sizeof heard->text, "%s", text);
    errno = EBADF;
}

static void test_levels(void **state) {
    (void)state;
    struct heard heard = {0};
    struct sel_log log = {hear, &heard, SEL_LOG_INFO};
    errno = ENOTTY;
    sel_log_info(&log, "%s %d", "seven", 7);
    assert_int_equal(errno, ENOTTY);
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.level, SEL_LOG_INFO);
    assert_string_equal(heard.text, "seven 7");
    sel_log_debug(&log, "too deep");
    sel_log(&log, 99, "no such level");
    sel_log(&log, -1, "no such level");
    sel_log_error(NULL, "nobody");
    assert_int_equal(heard.count, 1);
    sel_log_error(&log, "%0*d", 5000, 1);
    assert_int_equal(heard.count, 2);
    assert_int_equal(strlen(heard.text), 1023);
}

/* Runs `action` in a child whose stderr comes back in `text`; returns the wait status. */
static int run_child(void (*action)(void), char *text, size_t text_bytes) {
    int ends[2], status = 0;
    assert_ok(pipe(ends));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        action();
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; used < text_bytes - 1 && (got = read(ends[0], text + used, text_bytes - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void failing_check(void) { SEL_CHECK(1 + 1 == 3); }

static void stale_magic(void) {
    struct {
        uint32_t magic;
    } thing = {1};
    SEL_CHECK_MAGIC(&thing, 2u);
}

static void log_to_stderr(void) {
    struct sel_log log = {NULL, NULL, SEL_LOG_DEBUG};
    sel_log_warning(&log, "mind the gap");
    sel_log_info(&log, "not for stderr");
}

static void test_a_failed_check_aborts(void **state) {
    (void)state;
    char text[512];
    int status = run_child(failing_check, text, sizeof text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "test_check_log.c"));
    assert_non_null(strstr(text, "1 + 1 == 3"));
    status = run_child(stale_magic, text, sizeof text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void test_stderr(void **state) {
    (void)state;
    char text[512];
    assert_int_equal(run_child(log_to_stderr, text, sizeof text), 0);
    assert_string_equal(text, "selene: warning: mind the gap\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_a_failed_check_aborts),
        cmocka_unit_test(test_stderr),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
