/* SPDX-License-Identifier: Apache-2.0
 *
 * What containers, limits and file systems refuse (fault 17): each refusal has a fallback that works and one message
 * that names the cause [D2]. And a ring that stops taking requests: nothing stays in flight (fault 18).
 *
 * Each case runs in a forked child, since filters and limits cannot be taken back.
 */
#include "tests/unit/disk/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB         (UINT64_C(1) << 20)
#define CHILD_SKIP  77
#define CHILD_CHECK 1

static char *directory;
static char *shared_directory;

/* In a child cmocka's assertions have nowhere to go. */
#define EXPECT(expression)                                                                                             \
    do {                                                                                                               \
        if (!(expression)) {                                                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #expression);                                           \
            return CHILD_CHECK;                                                                                        \
        }                                                                                                              \
    } while (0)

static void in_child(int (*body)(void)) {
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(body());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CHILD_SKIP)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* From now on one system call, perhaps only with this first 32 bits of its third argument, fails with `error`. */
static int deny(int system_call, int error, int argument, uint32_t value, uint32_t mask) {
    uint32_t at = (uint32_t)offsetof(struct seccomp_data, args) + (uint32_t)argument * 8;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)system_call, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return CHILD_SKIP;
    return 0;
}

static bool io_uring_works(void) {
    struct fixture f;
    fixture_open(&f, SIDE_URING, directory, 0);
    bool works = strcmp(f.disk->ops->backend(f.disk), "io_uring") == 0;
    fixture_close(&f);
    return works;
}

/* Writes and reads back a file; leaves nothing. */
static int round_trip(struct fixture *f, const char *name) {
    int file;
    uint8_t *out = memory_new(3 * MIB, 1), *in = memory_new(3 * MIB, 2);
    EXPECT(run_open(f, name, SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, &file) == 0);
    EXPECT(run_bytes(f, SEL_DISK_WRITE, file, 4096, out, 3 * MIB) == 0);
    EXPECT(run_kind(f, SEL_DISK_SYNC, file, 0, 0) == 0);
    EXPECT(run_bytes(f, SEL_DISK_READ, file, 4096, in, 3 * MIB) == 0);
    EXPECT(memcmp(in, out, 3 * MIB) == 0);
    EXPECT(run_kind(f, SEL_DISK_CLOSE, file, 0, 0) == 0);
    EXPECT(run_names(f, SEL_DISK_UNLINK, name, NULL) == 0);
    free(in);
    free(out);
    return 0;
}

static int falls_back_to_threads(const char *cause) {
    struct fixture f;
    fixture_open(&f, SIDE_URING, directory, 0);
    EXPECT(strcmp(f.disk->ops->backend(f.disk), "threads") == 0);
    EXPECT(f.lines == 1);
    EXPECT(strstr(f.said, "io_uring") && strstr(f.said, "threads") && strstr(f.said, cause));
    int result = round_trip(&f, "a");
    EXPECT(f.lines == 1);
    fixture_close(&f);
    return result;
}

static int setup_eperm(void) {
    int denied = deny(SYS_io_uring_setup, EPERM, 0, 0, 0);
    return denied ? denied : falls_back_to_threads("Operation not permitted");
}
static int setup_enosys(void) {
    int denied = deny(SYS_io_uring_setup, ENOSYS, 0, 0, 0);
    return denied ? denied : falls_back_to_threads("Function not implemented");
}
static int setup_enomem(void) {
    int denied = deny(SYS_io_uring_setup, ENOMEM, 0, 0, 0);
    return denied ? denied : falls_back_to_threads("Cannot allocate memory");
}
static int enter_eperm(void) {
    if (!io_uring_works())
        return CHILD_SKIP;
    int denied = deny(SYS_io_uring_enter, EPERM, 0, 0, 0);
    return denied ? denied : falls_back_to_threads("io_uring_enter: Operation not permitted");
}

static void io_uring_denied(void **state) {
    (void)state;
    in_child(setup_eperm);
    in_child(setup_enosys);
    in_child(setup_enomem);
    in_child(enter_eperm);
}

/* Everything but making a ring is denied: no registered files or memory, and the ring does its work all the same. */
static int register_denied(void) {
    if (!io_uring_works() || deny(SYS_io_uring_register, EPERM, 0, 0, 0))
        return CHILD_SKIP;
    struct fixture f;
    struct sel_disk *disk;
    fixture_open(&f, SIDE_THREADS, directory, 0);
    struct sel_disk_config config = {
        .directory = directory, .ready = &f.ready, .clock = sel_clock_system(), .log = &f.log, .event_fd = -1};
    EXPECT(sel_disk_open(&disk, &config, NULL) == 0);
    f.disk->ops->destroy(f.disk);
    f.disk = disk;
    EXPECT(strcmp(disk->ops->backend(disk), "io_uring") == 0);
    uint8_t *memory = memory_new(MIB, 1);
    disk->ops->register_memory(disk, memory, MIB);
    disk->ops->register_memory(disk, memory, MIB);
    EXPECT(f.lines == 1 && strstr(f.said, "Operation not permitted") && strstr(f.said, "unregistered"));
    int result = round_trip(&f, "a");
    fixture_close(&f);
    free(memory);
    return result;
}

/* An ordinary user whose limit on locked memory is zero. */
static int memlock_zero(void) {
    struct rlimit none = {0, 0};
    if (!io_uring_works() || chmod(directory, 0777) || setrlimit(RLIMIT_MEMLOCK, &none) || setuid(65533))
        return CHILD_SKIP;
    struct fixture f;
    if (access(directory, W_OK))
        return CHILD_SKIP;
    fixture_open(&f, SIDE_URING, directory, 0);
    unsigned before = f.lines; /* an old kernel counts the ring itself, and refuses that */
    uint8_t *memory = memory_new(MIB, 1);
    f.disk->ops->register_memory(f.disk, memory, MIB);
    f.disk->ops->register_memory(f.disk, memory, MIB);
    if (before == 0)
        EXPECT(f.lines == 1 && strstr(f.said, "RLIMIT_MEMLOCK is 0") && strstr(f.said, "unregistered"));
    int result = round_trip(&f, "a");
    fixture_close(&f);
    free(memory);
    return result;
}

static void registering_denied(void **state) {
    (void)state;
    in_child(register_denied);
    in_child(memlock_zero);
}

/* ---- a ring that dies in use ---- */

struct ticket {
    struct sel_disk_io io;
    struct iovec iov;
    int result;
    bool busy;
};

static void ticket_done(struct sel_op *op) {
    struct ticket *ticket = (struct ticket *)op;
    ticket->result = op->result;
    ticket->busy = false;
}

static int submission_denied(void) {
    enum { COUNT = 40 };
    static struct ticket tickets[COUNT];
    if (!io_uring_works())
        return CHILD_SKIP;
    struct fixture f;
    int file, failed = 0;
    fixture_open(&f, SIDE_URING, directory, 16);
    uint8_t *bytes = memory_new(3 * MIB, 1);
    EXPECT(run_open(&f, "a", SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, &file) == 0);
    EXPECT(run_bytes(&f, SEL_DISK_WRITE, file, 0, bytes, 3 * MIB) == 0);
    if (deny(SYS_io_uring_enter, EPERM, 0, 0, 0))
        return CHILD_SKIP;
    for (int i = 0; i < COUNT; i++) {
        struct ticket *ticket = &tickets[i];
        ticket->iov = (struct iovec){.iov_base = bytes, .iov_len = 3 * MIB};
        ticket->io = (struct sel_disk_io){.kind = i % 5 ? SEL_DISK_WRITE : SEL_DISK_SYNC, .file = file};
        ticket->io.iov = &ticket->iov;
        ticket->io.iov_count = 1;
        ticket->busy = true;
        sel_op_init(&ticket->io.op, ticket_done);
        sel_disk_submit(f.disk, &ticket->io);
    }
    for (int i = 0; i < COUNT; i++) {
        for (int rounds = 0; tickets[i].busy && rounds < 2000; rounds++) {
            fixture_poll(&f);
            f.disk->ops->wait(f.disk, 10 * SEL_NS_PER_MS);
        }
        EXPECT(!tickets[i].busy);
        EXPECT(tickets[i].result == 0 || tickets[i].result == SELENE_E_IO);
        failed += tickets[i].result != 0;
    }
    EXPECT(failed > 0 && failed <= 16); /* what had begun; the rest was done by threads */
    EXPECT(f.lines == 1 && strstr(f.said, "Operation not permitted"));
    EXPECT(strcmp(f.disk->ops->backend(f.disk), "threads") == 0);
    EXPECT(run_kind(&f, SEL_DISK_CLOSE, file, 0, 0) == 0);
    EXPECT(run_names(&f, SEL_DISK_UNLINK, "a", NULL) == 0);
    int result = round_trip(&f, "b");
    EXPECT(f.lines == 1);
    fixture_close(&f);
    free(bytes);
    return result;
}

static void a_ring_that_stops(void **state) {
    (void)state;
    in_child(submission_denied);
}

/* ---- direct I/O ---- */

static enum fixture_side side;

/* Opening with O_DIRECT fails with EINVAL, as on file systems without it. */
static int open_refuses_direct(void) {
    if (deny(SYS_openat, EINVAL, 2, O_DIRECT, O_DIRECT))
        return CHILD_SKIP;
    struct fixture f;
    int file;
    fixture_open(&f, side, directory, 0);
    EXPECT(run_open(&f, "missing", SEL_DISK_OPEN_READ, &file) == SELENE_E_NOTFOUND);
    EXPECT(round_trip(&f, "a") == 0);
    EXPECT(!f.disk->ops->direct(f.disk));
    EXPECT(round_trip(&f, "b") == 0);
    EXPECT(f.lines == 1 && strstr(f.said, "O_DIRECT") && strstr(f.said, directory));
    fixture_close(&f);
    return 0;
}

static int first_transfer_refuses_direct(void) {
    /* The thread side's calls can be filtered; those of a ring cannot, and are told apart by a real file system. */
    if (deny(SYS_pwritev, EINVAL, 0, 0, 0))
        return CHILD_SKIP;
    struct fixture f;
    int file;
    fixture_open(&f, SIDE_THREADS, directory, 0);
    uint8_t *bytes = memory_new(4096, 1);
    EXPECT(run_open(&f, "a", SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, &file) == 0);
    EXPECT(f.disk->ops->direct(f.disk));
    /* Refused with O_DIRECT, then refused without: an error at last, not an endless loop. */
    EXPECT(run_bytes(&f, SEL_DISK_WRITE, file, 0, bytes, 4096) == SELENE_E_INVALID);
    EXPECT(!f.disk->ops->direct(f.disk));
    EXPECT(f.lines == 1 && strstr(f.said, "O_DIRECT"));
    EXPECT(run_names(&f, SEL_DISK_UNLINK, "a", NULL) == 0);
    fixture_close(&f);
    free(bytes);
    return 0;
}

static void direct_io_refused(void **state) {
    (void)state;
    for (side = SIDE_URING; side <= SIDE_THREADS; side++)
        in_child(open_refuses_direct);
    in_child(first_transfer_refuses_direct);
}

static int fallocate_refused(void) {
    if (deny(SYS_fallocate, EOPNOTSUPP, 0, 0, 0))
        return CHILD_SKIP;
    struct fixture f;
    int file;
    fixture_open(&f, side, directory, 0);
    EXPECT(run_open(&f, "a", SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, &file) == 0);
    EXPECT(run_kind(&f, SEL_DISK_ALLOCATE, file, 0, MIB) == SELENE_E_UNSUPPORTED);
    EXPECT(run_kind(&f, SEL_DISK_PUNCH, file, 0, MIB) == SELENE_E_UNSUPPORTED);
    EXPECT(run_names(&f, SEL_DISK_UNLINK, "a", NULL) == 0);
    EXPECT(round_trip(&f, "b") == 0);
    fixture_close(&f);
    return 0;
}

static void fallocate_unsupported(void **state) {
    (void)state;
    for (side = SIDE_URING; side <= SIDE_THREADS; side++)
        in_child(fallocate_refused);
}

/* tmpfs: newer kernels take O_DIRECT there, older ones refuse it; either way bytes come back. */
static int on_tmpfs(void) {
    struct fixture f;
    fixture_open(&f, side, shared_directory, 0);
    EXPECT(round_trip(&f, "a") == 0);
    EXPECT(f.lines == (f.disk->ops->direct(f.disk) ? 0u : 1u));
    fixture_close(&f);
    return 0;
}

static void shared_memory_file_system(void **state) {
    (void)state;
    if (shared_directory == NULL)
        skip();
    for (side = SIDE_URING; side <= SIDE_THREADS; side++)
        in_child(on_tmpfs);
}

static void a_missing_directory(void **state) {
    (void)state;
    struct sel_ready ready;
    struct selene_message message;
    struct sel_disk *disk;
    sel_ready_init(&ready, NULL, NULL);
    for (int threads = 0; threads <= 1; threads++) {
        struct sel_disk_config config = {.directory = "/nonexistent/x",
                                         .ready = &ready,
                                         .clock = sel_clock_system(),
                                         .event_fd = -1,
                                         .force_threads = threads};
        memset(&message, 0, sizeof message);
        assert_int_equal(sel_disk_open(&disk, &config, &message), SELENE_E_NOTFOUND);
        assert_null(disk);
        assert_non_null(strstr(message.text, "/nonexistent/x"));
    }
    sel_ready_destroy(&ready);
}

/* ---- fork ---- */

static struct fixture forked;

static int use_after_fork(void) {
    int file;
    EXPECT(run_open(&forked, "b", SEL_DISK_OPEN_READ, &file) == SELENE_E_FORKED);
    forked.owns_directory = false;
    fixture_close(&forked);
    return 0;
}

static void destroy_in_a_forked_child(void **state) {
    (void)state;
    for (side = SIDE_URING; side <= SIDE_THREADS; side++) {
        int file;
        fixture_open(&forked, side, directory, 0);
        uint8_t *bytes = memory_new(MIB, 1), *in = memory_new(MIB, 2);
        assert_ok(run_open(&forked, "a", SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, &file));
        assert_ok(run_bytes(&forked, SEL_DISK_WRITE, file, 0, bytes, MIB));
        in_child(use_after_fork);
        assert_ok(run_bytes(&forked, SEL_DISK_READ, file, 0, in, MIB));
        assert_memory_equal(in, bytes, MIB);
        assert_ok(run_names(&forked, SEL_DISK_UNLINK, "a", NULL));
        fixture_close(&forked);
        free(bytes);
        free(in);
    }
}

static int setup(void **state) {
    (void)state;
    char name[] = "/dev/shm/selene-disk-XXXXXX";
    directory = test_directory_make("denied");
    if (mkdtemp(name))
        shared_directory = strdup(name);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    test_directory_remove(&directory);
    test_directory_remove(&shared_directory);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(io_uring_denied),       cmocka_unit_test(registering_denied),
        cmocka_unit_test(a_ring_that_stops),     cmocka_unit_test(direct_io_refused),
        cmocka_unit_test(fallocate_unsupported), cmocka_unit_test(shared_memory_file_system),
        cmocka_unit_test(a_missing_directory),   cmocka_unit_test(destroy_in_a_forked_child),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
