/* SPDX-License-Identifier: Apache-2.0
 *
 * One directory, one store [D1] (fault 16): two processes, one process twice, a killed owner, and children that outlive
 * it.
 */
#include "lsm/disk_lock.h"
#include "tests/unit/disk/fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fixture fixture; /* its directory is used by all; its disk by none */

static struct sel_disk *open_disk(void) {
    struct sel_disk *disk;
    struct sel_disk_config config = {.directory = fixture.directory,
                                     .ready = &fixture.ready,
                                     .clock = sel_clock_system(),
                                     .event_fd = -1,
                                     .force_threads = true};
    assert_ok(sel_disk_open(&disk, &config, NULL));
    return disk;
}

static int lock(struct sel_disk *disk, struct selene_message *message) {
    memset(message, 0, sizeof *message);
    return disk->ops->lock(disk, "lock", message);
}

/* In children, where threads are best not started: the lock alone, as a disk takes it. */
static int take(struct sel_disk_lock **out, struct selene_message *message) {
    int directory_fd = open(fixture.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    memset(message, 0, sizeof *message);
    int result = sel_disk_lock_take(out, directory_fd, fixture.directory, "lock", message);
    close(directory_fd);
    return result;
}

/* A child that takes the lock, says so, and does `after` when told to by the parent's closing of the pipe. */
struct child {
    pid_t pid;
    int result_fd; /* its answer, as an int */
    int hold_fd;   /* closed by the parent: go on */
};

static void child_body(int result_fd, int hold_fd) {
    struct selene_message message;
    struct sel_disk_lock *held;
    int result = take(&held, &message);
    char byte;
    if (write(result_fd, &result, sizeof result) != sizeof result || read(hold_fd, &byte, 1) < 0)
        _exit(3);
    sel_disk_lock_release(&held);
    _exit(0);
}

static struct child child_start(int *result) {
    int answer[2], hold[2];
    assert_ok(pipe(answer));
    assert_ok(pipe(hold));
    struct child child = {.pid = fork(), .result_fd = answer[0], .hold_fd = hold[1]};
    assert_true(child.pid >= 0);
    if (child.pid == 0) {
        close(answer[0]);
        close(hold[1]);
        child_body(answer[1], hold[0]);
    }
    close(answer[1]);
    close(hold[0]);
    assert_int_equal(read(child.result_fd, result, sizeof *result), sizeof *result);
    return child;
}

static int child_end(struct child *child, int signal_number) {
    int status;
    if (signal_number)
        kill(child->pid, signal_number);
    close(child->hold_fd);
    close(child->result_fd);
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    return status;
}

static void one_process_twice(void **state) {
    (void)state;
    struct selene_message message;
    struct sel_disk *first = open_disk(), *second = open_disk(), *third = open_disk();
    assert_ok(lock(first, &message));
    assert_int_equal(lock(first, &message), SELENE_E_INVALID);
    assert_int_equal(lock(second, &message), SELENE_E_IN_USE);
    assert_non_null(strstr(message.text, "in use by another store in this process"));
    assert_non_null(strstr(message.text, fixture.directory));
    /* The refusal must not have dropped the first one's lock, which closing the file would do. */
    second->ops->destroy(second);
    int result;
    struct child child = child_start(&result);
    assert_int_equal(result, SELENE_E_IN_USE);
    assert_int_equal(child_end(&child, 0), 0);
    first->ops->destroy(first);
    assert_ok(lock(third, &message));
    third->ops->destroy(third);
}

/* The same file under two names is one lock, and asking under the second name does not drop it. */
static void two_names_of_one_file(void **state) {
    (void)state;
    struct selene_message message;
    char from[600], to[600];
    struct sel_disk *first = open_disk(), *second = open_disk();
    assert_ok(lock(first, &message));
    snprintf(from, sizeof from, "%s/lock", fixture.directory);
    snprintf(to, sizeof to, "%s/twin", fixture.directory);
    assert_ok(link(from, to));
    assert_int_equal(second->ops->lock(second, "twin", &message), SELENE_E_IN_USE);
    int result;
    struct child child = child_start(&result);
    assert_int_equal(result, SELENE_E_IN_USE);
    child_end(&child, 0);
    assert_ok(unlink(to));
    second->ops->destroy(second);
    first->ops->destroy(first);
}

static void two_processes(void **state) {
    (void)state;
    struct selene_message message;
    int result;
    struct child child = child_start(&result);
    assert_ok(result);
    struct sel_disk *disk = open_disk();
    assert_int_equal(lock(disk, &message), SELENE_E_IN_USE);
    char expected[64];
    snprintf(expected, sizeof expected, "in use by process %ld", (long)child.pid);
    assert_non_null(strstr(message.text, expected));
    assert_non_null(strstr(message.text, "/lock"));
    assert_int_equal(child_end(&child, 0), 0);
    assert_ok(lock(disk, &message));
    disk->ops->destroy(disk);
}

static void a_killed_owner(void **state) {
    (void)state;
    struct selene_message message;
    int result;
    struct child child = child_start(&result);
    assert_ok(result);
    struct sel_disk *disk = open_disk();
    assert_int_equal(lock(disk, &message), SELENE_E_IN_USE);
    assert_true(WIFSIGNALED(child_end(&child, SIGKILL)));
    assert_ok(lock(disk, &message));
    disk->ops->destroy(disk);
}

/* The owner forks and is killed; the grandchild lives on with every descriptor it inherited. */
static void a_child_that_outlives_the_owner(void **state) {
    (void)state;
    int answer[2], hold[2], ok;
    assert_ok(pipe(answer));
    assert_ok(pipe(hold));
    pid_t owner = fork();
    if (owner == 0) {
        struct selene_message message;
        struct sel_disk_lock *held;
        int result = take(&held, &message);
        pid_t grandchild = fork();
        char byte;
        if (grandchild == 0) {
            close(hold[1]);
            _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
        }
        ok = result == 0 && grandchild > 0 ? grandchild : 0;
        if (write(answer[1], &ok, sizeof ok) != sizeof ok)
            _exit(3);
        for (;;)
            pause();
    }
    assert_int_equal(read(answer[0], &ok, sizeof ok), sizeof ok);
    assert_true(ok > 0);
    struct selene_message message;
    struct sel_disk *disk = open_disk();
    assert_int_equal(lock(disk, &message), SELENE_E_IN_USE);
    kill(owner, SIGKILL);
    assert_int_equal(waitpid(owner, NULL, 0), owner);
    assert_ok(kill(ok, 0)); /* it is still there */
    assert_ok(lock(disk, &message));
    disk->ops->destroy(disk);
    close(hold[0]);
    close(hold[1]);
    close(answer[0]);
    close(answer[1]);
}

/* A forked child destroys its copy: the owner keeps its lock and goes on. The child may not use the copy. */
static int in_forked_child(struct sel_disk *disk) {
    struct selene_message message;
    struct sel_disk_io io = {.kind = SEL_DISK_SYNC_DIR};
    sel_op_init(&io.op, NULL);
    if (sel_disk_run(disk, &fixture.ready, &io) != SELENE_E_FORKED)
        return 4;
    struct sel_disk_lock *other;
    if (take(&other, &message) != SELENE_E_IN_USE || strstr(message.text, "in use by process") == NULL)
        return 5; /* by the parent, not "this process": the inherited registry locks nothing */
    disk->ops->destroy(disk);
    return 0;
}

static void destroying_in_a_forked_child(void **state) {
    (void)state;
    struct selene_message message;
    struct sel_disk *disk = open_disk();
    assert_ok(lock(disk, &message));
    pid_t pid = fork();
    if (pid == 0)
        _exit(in_forked_child(disk));
    int status, result;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    struct child child = child_start(&result);
    assert_int_equal(result, SELENE_E_IN_USE);
    child_end(&child, 0);
    struct sel_disk_io io = {.kind = SEL_DISK_SYNC_DIR};
    sel_op_init(&io.op, NULL);
    assert_ok(sel_disk_run(disk, &fixture.ready, &io));
    disk->ops->destroy(disk);
}

static void a_lock_that_is_no_file(void **state) {
    (void)state;
    struct selene_message message = {{0}};
    struct sel_disk *disk = open_disk();
    char path[600];
    snprintf(path, sizeof path, "%s/fifo", fixture.directory);
    assert_ok(mkfifo(path, 0600));
    assert_int_equal(disk->ops->lock(disk, "fifo", &message), SELENE_E_INVALID);
    assert_non_null(strstr(message.text, "not a regular file"));
    snprintf(path, sizeof path, "%s/link", fixture.directory);
    assert_ok(symlink("/dev/null", path));
    memset(&message, 0, sizeof message);
    assert_int_equal(disk->ops->lock(disk, "link", &message), SELENE_E_INVALID);
    assert_int_equal(disk->ops->lock(disk, "../lock", &message), SELENE_E_INVALID);
    assert_ok(disk->ops->lock(disk, "lock", NULL));
    disk->ops->destroy(disk);
}

static int setup(void **state) {
    (void)state;
    fixture_open(&fixture, SIDE_THREADS, NULL, 0);
    fixture.disk->ops->destroy(fixture.disk);
    fixture.disk = NULL;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fixture_close(&fixture);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_process_twice),
        cmocka_unit_test(two_names_of_one_file),
        cmocka_unit_test(two_processes),
        cmocka_unit_test(a_killed_owner),
        cmocka_unit_test(a_child_that_outlives_the_owner),
        cmocka_unit_test(destroying_in_a_forked_child),
        cmocka_unit_test(a_lock_that_is_no_file),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
