/* SPDX-License-Identifier: Apache-2.0
 *
 * A failing and a full disk under LMDB (fault 21, [D9]): this program defines the system calls that LMDB writes with,
 * and lets the n-th of them fail, for every n. After each failure: an error with a message; nothing of the commit is
 * visible; the next commit works; and so does one after a reopen, with a file that the validator accepts.
 */
#include "index/catalog_validate.h"
#include "tests/lib/catalog_sim.h"
#include "tests/lib/test.h"
#include "tests/unit/catalog/workload.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAP_BYTES (UINT64_C(64) << 20)

/* ---- the wrapped calls ---- */

static struct {
    unsigned countdown, repeat; /* the countdown-th call fails, and `repeat` after it; 0: none */
    int error;                  /* 0: a short write */
    unsigned calls, failed;
} fault;

static int hit(void) {
    fault.calls++;
    if (fault.countdown == 0 || --fault.countdown > 0)
        return 0;
    if (fault.repeat > 0) {
        fault.repeat--;
        fault.countdown = 1;
    }
    fault.failed++;
    return 1;
}

static ssize_t write_result(void) {
    if (fault.error == 0)
        return 1;
    errno = fault.error;
    return -1;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) {
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real)
        real = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
    return hit() ? write_result() : real(fd, bytes, count, offset);
}

ssize_t writev(int fd, const struct iovec *iov, int count) {
    static ssize_t (*real)(int, const struct iovec *, int);
    if (!real)
        real = (ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
    return hit() ? write_result() : real(fd, iov, count);
}

int fdatasync(int fd) {
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    if (hit()) {
        errno = fault.error ? fault.error : EIO;
        return -1;
    }
    return real(fd);
}

static void fail_from(unsigned countdown, unsigned repeat, int error) {
    fault.countdown = countdown;
    fault.repeat = repeat;
    fault.error = error;
    fault.failed = fault.calls = 0;
}

/* ---- the tests ---- */

struct fixture {
    char *directory, *path;
    struct workload load;
    struct sel_catalog *real, *sim; /* sim has what must be there */
    struct sel_catalog_sim *sim_state;
};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    bool rebuild;
    assert_non_null(fixture);
    fixture->directory = test_directory_make("faults");
    assert_true(asprintf(&fixture->path, "%s/index.v1.lmdb", fixture->directory) > 0);
    workload_init(&fixture->load, 1);
    assert_ok(sel_catalog_sim_create(&fixture->sim_state));
    assert_ok(sel_catalog_sim_open(&fixture->sim, fixture->sim_state, &rebuild));
    assert_ok(sel_catalog_lmdb_open(&fixture->real, fixture->directory, MAP_BYTES, NULL, &rebuild, NULL));
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    fixture->real->ops->close(fixture->real);
    fixture->sim->ops->close(fixture->sim);
    sel_catalog_sim_destroy(&fixture->sim_state);
    workload_destroy(&fixture->load);
    test_directory_remove(&fixture->directory);
    free(fixture->path);
    free(fixture);
    return 0;
}

static void check_same(struct fixture *fixture) {
    assert_int_equal(catalog_digest(fixture->real, NULL), catalog_digest(fixture->sim, NULL));
}

static void good_commit(struct fixture *fixture) {
    struct selene_message message = {""};
    workload_step(&fixture->load, 30);
    assert_ok(workload_commit(&fixture->load, fixture->sim, NULL));
    if (workload_commit(&fixture->load, fixture->real, &message))
        fail_msg("a commit after the fault: %s", message.text);
    check_same(fixture);
}

static void reopen(struct fixture *fixture) {
    struct selene_message message = {""};
    bool rebuild;
    fixture->real->ops->close(fixture->real);
    if (sel_catalog_validate(fixture->path, &message))
        fail_msg("%s", message.text);
    assert_ok(sel_catalog_lmdb_open(&fixture->real, fixture->directory, MAP_BYTES, NULL, &rebuild, NULL));
    assert_false(rebuild);
    check_same(fixture);
}

/* Returns false when the commit made fewer calls than `n`. */
static bool fail_nth(struct fixture *fixture, unsigned n, unsigned repeat, int error, int expected) {
    struct selene_message message = {""};
    workload_step(&fixture->load, 30);
    fail_from(n, repeat, error);
    int rc = workload_commit(&fixture->load, fixture->real, &message);
    fault.countdown = 0;
    if (fault.failed == 0) {
        assert_ok(rc);
        assert_ok(workload_commit(&fixture->load, fixture->sim, NULL));
        return false;
    }
    assert_int_equal(rc, expected);
    assert_non_null(strstr(message.text, fixture->path));
    check_same(fixture);
    return true;
}

static void each_call_fails_once(void **state) {
    struct fixture *fixture = *state;
    static const struct {
        int error, expected;
    } kinds[] = {{EIO, SELENE_E_IO}, {ENOSPC, SELENE_E_NOSPACE}, {EROFS, SELENE_E_READONLY}, {0, SELENE_E_IO}};
    unsigned failed = 0;
    for (unsigned round = 0; round < 6; round++)
        for (size_t kind = 0; kind < 4; kind++)
            for (unsigned n = 1;; n++) {
                good_commit(fixture);
                if (!fail_nth(fixture, n, 0, kinds[kind].error, kinds[kind].expected))
                    break;
                failed++;
                good_commit(fixture);
                if (n % 3 == 0)
                    reopen(fixture);
            }
    assert_true(failed > 60);
    reopen(fixture);
}

/* The disk stays broken for a while, also while the environment is opened again: errors, then all is well. */
static void the_disk_fails_for_a_while(void **state) {
    struct fixture *fixture = *state;
    unsigned most = 0;
    for (unsigned n = 1; n < 16; n++) {
        good_commit(fixture);
        if (!fail_nth(fixture, n, 1000, EIO, SELENE_E_IO))
            break;
        most = n;
        for (unsigned again = 0; again < 3; again++) {
            workload_step(&fixture->load, 30);
            fail_from(1, 1000, EIO);
            assert_int_equal(workload_commit(&fixture->load, fixture->real, NULL), SELENE_E_IO);
        }
        fault.countdown = 0;
        good_commit(fixture);
        reopen(fixture);
    }
    assert_true(most >= 3);
}

/* A real limit: the file may not grow. LMDB sees a short write, then EFBIG. */
static void the_file_cannot_grow(void **state) {
    struct fixture *fixture = *state;
    struct rlimit was, low;
    signal(SIGXFSZ, SIG_IGN);
    assert_ok(getrlimit(RLIMIT_FSIZE, &was));
    for (unsigned i = 0; i < 10; i++)
        good_commit(fixture);
    low = was;
    low.rlim_cur = fixture->real->ops->file_bytes(fixture->real) + 10000;
    assert_ok(setrlimit(RLIMIT_FSIZE, &low));
    int rc = 0;
    for (unsigned i = 0; i < 200 && rc == 0; i++) {
        workload_clear(&fixture->load);
        for (unsigned j = 0; j < 100; j++)
            workload_put(&fixture->load, SEL_CATALOG_RECORDS, fixture->load.next_key++, 0, j);
        rc = workload_commit(&fixture->load, fixture->real, NULL);
        if (rc == 0)
            assert_ok(workload_commit(&fixture->load, fixture->sim, NULL));
    }
    assert_ok(setrlimit(RLIMIT_FSIZE, &was));
    assert_int_not_equal(rc, 0);
    check_same(fixture);
    good_commit(fixture);
    reopen(fixture);
}

int main(void) {
#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {WITH_FIXTURE(each_call_fails_once), WITH_FIXTURE(the_disk_fails_for_a_while),
                                       WITH_FIXTURE(the_file_cannot_grow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
