/* SPDX-License-Identifier: Apache-2.0
 *
 * One suite over the three sides of the I/O seam: io_uring, threads, simulated [D2].
 */
#include "base/random.h"
#include "tests/unit/disk/fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static enum fixture_side side;

static int setup(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture_open(fixture, side, NULL, 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    fixture_close(*state);
    free(*state);
    return 0;
}

static int create(struct fixture *f, const char *name) {
    int file;
    assert_ok(run_open(f, name, SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, &file));
    return file;
}

static void names_the_backend(void **state) {
    struct fixture *f = *state;
    static const char *const names[] = {"io_uring", "threads", "simulated"};
    const char *backend = f->disk->ops->backend(f->disk);
    if (side == SIDE_URING && strcmp(backend, "threads") == 0)
        skip(); /* said by the message; the rest of the suite then runs on threads twice */
    assert_string_equal(backend, names[side]);
}

static void writes_and_reads_back(void **state) {
    struct fixture *f = *state;
    int file = create(f, "a");
    uint8_t *out = memory_new(MIB, 1), *in = memory_new(MIB, 2);
    assert_ok(run_bytes(f, SEL_DISK_WRITE, file, 8192, out, MIB));
    assert_ok(run_kind(f, SEL_DISK_SYNC, file, 0, 0));
    assert_ok(run_bytes(f, SEL_DISK_READ, file, 8192, in, MIB));
    assert_memory_equal(in, out, MIB);
    assert_ok(run_bytes(f, SEL_DISK_READ, file, 0, in, 8192));
    for (int i = 0; i < 8192; i++)
        assert_int_equal(in[i], 0);
    uint64_t size, allocated;
    assert_ok(run_stat(f, file, &size, &allocated));
    assert_int_equal(size, MIB + 8192);
    assert_true(allocated >= MIB && allocated <= MIB + 65536);
    assert_ok(run_kind(f, SEL_DISK_CLOSE, file, 0, 0));
    free(out);
    free(in);
}

static void reading_past_the_end_fails(void **state) {
    struct fixture *f = *state;
    int file = create(f, "a");
    uint8_t *bytes = memory_new(MIB, 1);
    assert_ok(run_bytes(f, SEL_DISK_WRITE, file, 0, bytes, 8192));
    assert_int_equal(run_bytes(f, SEL_DISK_READ, file, 4096, bytes, 8192), SELENE_E_IO);
    assert_int_equal(run_bytes(f, SEL_DISK_READ, file, 8192, bytes, 4096), SELENE_E_IO);
    assert_int_equal(run_bytes(f, SEL_DISK_READ, file, MIB, bytes, MIB), SELENE_E_IO);
    /* A size that is no multiple of a sector: the end inside a block is an end too. */
    assert_ok(run_kind(f, SEL_DISK_TRUNCATE, file, 0, 5000));
    assert_int_equal(run_bytes(f, SEL_DISK_READ, file, 0, bytes, 8192), SELENE_E_IO);
    assert_ok(run_bytes(f, SEL_DISK_READ, file, 0, bytes, 4096));
    if (f->disk->ops->direct(f->disk))
        assert_int_equal(f->lines, 0); /* the end of a file is not taken for refused direct I/O */
    free(bytes);
}

/* More entries than one system call takes, in one io larger than one request. */
static void many_pieces_in_one_io(void **state) {
    struct fixture *f = *state;
    enum { COUNT = 3000 };
    int file = create(f, "a");
    uint8_t *out = memory_new((size_t)COUNT * 8192, 1), *in = memory_new((size_t)COUNT * 4096, 2);
    struct iovec *iov = calloc(COUNT, sizeof *iov);
    for (int i = 0; i < COUNT; i++) /* every other block, so that entries cannot be joined */
        iov[i] = (struct iovec){.iov_base = out + (size_t)i * 8192, .iov_len = i % 7 ? 4096 : 0};
    assert_ok(run_transfer(f, SEL_DISK_WRITE, file, 0, iov, COUNT));
    size_t bytes = (COUNT - (COUNT + 6) / 7) * 4096;
    assert_ok(run_bytes(f, SEL_DISK_READ, file, 0, in, bytes));
    size_t at = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_memory_equal(in + at, iov[i].iov_base, iov[i].iov_len);
        at += iov[i].iov_len;
    }
    memset(in, 0, bytes);
    for (int i = 0; i < COUNT; i++)
        memset(iov[i].iov_base, 0, iov[i].iov_len);
    assert_ok(run_transfer(f, SEL_DISK_READ, file, 0, iov, COUNT));
    assert_ok(run_bytes(f, SEL_DISK_READ, file, 0, in, bytes));
    at = 0;
    for (int i = 0; i < COUNT; at += iov[i++].iov_len)
        assert_memory_equal(in + at, iov[i].iov_base, iov[i].iov_len);
    assert_ok(run_transfer(f, SEL_DISK_WRITE, file, 0, iov, 0)); /* nothing at all is no error */
    free(iov);
    free(out);
    free(in);
}

/* ---- random ios in flight together, compared with a model ---- */

enum { LANES = 24, LANE = 3 * 512 * 1024, ENTRIES = 40 };

struct lane {
    struct sel_disk_io io;
    struct iovec iov[ENTRIES];
    size_t offset, bytes;
    bool busy;
};

struct model {
    struct fixture *f;
    struct sel_random random;
    struct lane lanes[LANES];
    int file;
    uint8_t *arena; /* registered; each lane has 2 * LANE of it */
    uint8_t *bytes; /* what the file should hold */
};

static void lane_done(struct sel_op *op) {
    struct lane *lane = (struct lane *)op;
    assert_ok(op->result);
    lane->busy = false;
}

static void lane_finish(struct model *model, struct lane *lane) {
    if (lane->io.kind != SEL_DISK_READ)
        return;
    size_t at = lane->offset;
    for (int i = 0; i < lane->io.iov_count; i++) {
        assert_memory_equal(lane->iov[i].iov_base, model->bytes + at, lane->iov[i].iov_len);
        at += lane->iov[i].iov_len;
    }
}

static void lane_start(struct model *model, struct lane *lane, bool write) {
    size_t number = (size_t)(lane - model->lanes), room = LANE / 4096;
    uint8_t *memory = model->arena + number * 2 * LANE;
    size_t first = sel_random_below(&model->random, room), count = 0, at = 0;
    int entries = 1 + (int)sel_random_below(&model->random, ENTRIES);
    lane->offset = number * LANE + first * 4096;
    lane->io.iov_count = 0;
    for (int i = 0; i < entries && first + count < room; i++) {
        size_t blocks = 1 + sel_random_below(&model->random, sel_random_below(&model->random, 3) ? 4 : 200);
        blocks = SEL_MIN(blocks, room - first - count);
        lane->iov[lane->io.iov_count++] = (struct iovec){.iov_base = memory + at * 4096, .iov_len = blocks * 4096};
        count += blocks;
        at += blocks + sel_random_below(&model->random, 2); /* joined or apart */
    }
    size_t offset = lane->offset;
    for (int i = 0; write && i < lane->io.iov_count; i++) {
        memory_fill(lane->iov[i].iov_base, lane->iov[i].iov_len, sel_random_u64(&model->random));
        memcpy(model->bytes + offset, lane->iov[i].iov_base, lane->iov[i].iov_len);
        offset += lane->iov[i].iov_len;
    }
    sel_op_init(&lane->io.op, lane_done);
    lane->io.kind = write ? SEL_DISK_WRITE : SEL_DISK_READ;
    lane->io.file = model->file;
    lane->io.offset = lane->offset;
    lane->io.iov = lane->iov;
    lane->busy = true;
    sel_disk_submit(model->f->disk, &lane->io);
    assert_true(lane->busy); /* never completes inside submit */
}

static void random_ios_match_a_model(void **state) {
    struct model *model = calloc(1, sizeof *model);
    size_t total = (size_t)LANES * LANE;
    model->f = *state;
    sel_random_seed(&model->random, 7);
    model->file = create(model->f, "a");
    model->arena = memory_new(2 * total, 1);
    model->bytes = calloc(1, total);
    /* Two regions, and a part of the arena that is in neither. */
    model->f->disk->ops->register_memory(model->f->disk, model->arena, total);
    model->f->disk->ops->register_memory(model->f->disk, model->arena + total, total / 2);
    assert_ok(run_bytes(model->f, SEL_DISK_WRITE, model->file, 0, memset(model->arena, 0, total), total));
    uint64_t rounds = test_count("SELENE_TEST_ROUNDS", 600);
    for (uint64_t started = 0, idle = 0; started < rounds || idle < LANES;) {
        idle = 0;
        for (int i = 0; i < LANES; i++) {
            struct lane *lane = &model->lanes[i];
            if (lane->busy)
                continue;
            lane_finish(model, lane);
            lane->io.kind = SEL_DISK_STAT;
            if (started < rounds && ++started)
                lane_start(model, lane, sel_random_below(&model->random, 2));
            else
                idle++;
        }
        uint64_t data, at = sel_random_below(&model->random, total / 4096) * 4096;
        if (run_next_data(model->f, model->file, at, &data) != SELENE_E_UNSUPPORTED)
            assert_int_equal(data, at); /* all of it was written */
        if (started < rounds && sel_random_below(&model->random, 8) == 0)
            assert_ok(run_kind(model->f, SEL_DISK_SYNC, model->file, 0, 0));
        fixture_poll(model->f);
    }
    assert_ok(run_bytes(model->f, SEL_DISK_READ, model->file, 0, model->arena, total));
    assert_memory_equal(model->arena, model->bytes, total);
    free(model->bytes);
    free(model->arena);
    free(model);
}

/* ---- the other kinds ---- */

static void allocates_and_punches(void **state) {
    struct fixture *f = *state;
    int file = create(f, "a");
    uint64_t size, allocated;
    uint8_t *bytes = memory_new(MIB, 1);
    int result = run_kind(f, SEL_DISK_ALLOCATE, file, 0, 4 * MIB);
    if (result == SELENE_E_UNSUPPORTED)
        skip();
    assert_ok(result);
    assert_ok(run_stat(f, file, &size, &allocated));
    assert_int_equal(size, 4 * MIB);
    assert_true(allocated >= 4 * MIB);
    assert_ok(run_bytes(f, SEL_DISK_WRITE, file, MIB, bytes, MIB));
    assert_ok(run_kind(f, SEL_DISK_PUNCH, file, MIB + 4096, 2 * MIB));
    assert_ok(run_stat(f, file, &size, &allocated));
    assert_int_equal(size, 4 * MIB);
    assert_true(allocated < 3 * MIB);
    uint8_t *in = memory_new(8192, 2);
    assert_ok(run_bytes(f, SEL_DISK_READ, file, MIB, in, 8192));
    assert_memory_equal(in, bytes, 4096);
    for (int i = 4096; i < 8192; i++)
        assert_int_equal(in[i], 0);
    assert_ok(run_kind(f, SEL_DISK_TRUNCATE, file, 0, MIB));
    assert_ok(run_stat(f, file, &size, &allocated));
    assert_int_equal(size, MIB);
    free(bytes);
    free(in);
}

static uint64_t next_data(struct fixture *f, int file, uint64_t offset) {
    uint64_t found;
    assert_ok(run_next_data(f, file, offset, &found));
    return found;
}

/* What was written is never in a hole, also before it is synced; what was only allocated, or punched, is one where the
 * file system has holes [D8]. */
static void holes_are_hopped_over(void **state) {
    struct fixture *f = *state;
    int file = create(f, "a");
    uint8_t *bytes = memory_new(8 * MIB, 1);
    uint64_t found = 0;
    if (run_kind(f, SEL_DISK_ALLOCATE, file, 0, 8 * MIB) == SELENE_E_UNSUPPORTED ||
        run_next_data(f, file, 0, &found) == SELENE_E_UNSUPPORTED)
        skip();
    bool holes = found == SEL_DISK_NO_DATA;
    assert_ok(run_bytes(f, SEL_DISK_WRITE, file, MIB, bytes, 8192));
    assert_ok(
        run_bytes(f, SEL_DISK_WRITE, file, 6 * MIB + 4096, memset(bytes, 0, 4096), 4096)); /* zeros, but written */
    assert_int_equal(next_data(f, file, 0), holes ? MIB : 0);
    assert_int_equal(next_data(f, file, MIB + 4096), MIB + 4096);
    assert_int_equal(next_data(f, file, 6 * MIB + 4096), 6 * MIB + 4096);
    if (holes)
        assert_int_equal(next_data(f, file, MIB + 8192), 6 * MIB + 4096);
    assert_ok(run_kind(f, SEL_DISK_SYNC, file, 0, 0));
    assert_int_equal(next_data(f, file, 0), holes ? MIB : 0);
    assert_ok(run_kind(f, SEL_DISK_PUNCH, file, MIB, 4096));
    assert_int_equal(next_data(f, file, 0), holes ? MIB + 4096 : 0);
    if (holes)
        assert_int_equal(next_data(f, file, 6 * MIB + 8192), SEL_DISK_NO_DATA);
    assert_int_equal(next_data(f, file, 8 * MIB), SEL_DISK_NO_DATA);
    assert_int_equal(next_data(f, file, 64 * MIB), SEL_DISK_NO_DATA);
    free(bytes);
}

static int count_name(void *context, const char *name) {
    *(int *)context += strcmp(name, "b") == 0 ? 100 : 1;
    return 0;
}
static int stop_at_once(void *context, const char *name) {
    (void)context, (void)name;
    return -77;
}

static void names_come_and_go(void **state) {
    struct fixture *f = *state;
    int file = create(f, "a"), other;
    uint8_t *bytes = memory_new(4096, 1), *in = memory_new(4096, 2);
    assert_ok(run_bytes(f, SEL_DISK_WRITE, file, 0, bytes, 4096));
    assert_int_not_equal(run_open(f, "a", SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, &other), 0);
    assert_int_equal(run_open(f, "b", SEL_DISK_OPEN_READ, &other), SELENE_E_NOTFOUND);
    assert_ok(run_names(f, SEL_DISK_RENAME, "a", "b"));
    assert_int_equal(run_names(f, SEL_DISK_RENAME, "a", "b"), SELENE_E_NOTFOUND);
    assert_ok(run_names(f, SEL_DISK_SYNC_DIR, NULL, NULL));
    assert_ok(run_open(f, "b", SEL_DISK_OPEN_READ, &other));
    assert_int_not_equal(other, file);
    assert_ok(run_bytes(f, SEL_DISK_READ, other, 0, in, 4096));
    assert_memory_equal(in, bytes, 4096);
    create(f, "c");
    int seen = 0;
    assert_ok(f->disk->ops->list(f->disk, count_name, &seen));
    assert_int_equal(seen, 101);
    assert_int_equal(f->disk->ops->list(f->disk, stop_at_once, NULL), -77);
    assert_ok(run_names(f, SEL_DISK_UNLINK, "b", NULL));
    assert_int_equal(run_names(f, SEL_DISK_UNLINK, "b", NULL), SELENE_E_NOTFOUND);
    assert_ok(run_bytes(f, SEL_DISK_READ, other, 0, in, 4096)); /* still open */
    assert_ok(run_kind(f, SEL_DISK_CLOSE, other, 0, 0));
    assert_int_equal(run_bytes(f, SEL_DISK_READ, other, 0, in, 4096), SELENE_E_INVALID);
    free(bytes);
    free(in);
}

static void bad_arguments_are_errors(void **state) {
    struct fixture *f = *state;
    int file;
    char longest[300];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    const char *const bad[] = {"", "..", "a/b", "/etc/passwd", "../x", longest};
    for (size_t i = 0; i < SEL_COUNT(bad); i++) {
        assert_int_equal(run_open(f, bad[i], SEL_DISK_OPEN_READ, &file), SELENE_E_INVALID);
        assert_int_equal(run_names(f, SEL_DISK_UNLINK, bad[i], NULL), SELENE_E_INVALID);
        assert_int_equal(run_names(f, SEL_DISK_RENAME, "a", bad[i]), SELENE_E_INVALID);
    }
    uint8_t *bytes = memory_new(4096, 1);
    const int handles[] = {-1, 63, 5000, INT32_MAX};
    for (size_t i = 0; i < SEL_COUNT(handles); i++)
        for (int kind = SEL_DISK_CLOSE; kind <= SEL_DISK_NEXT_DATA; kind++)
            if (kind != SEL_DISK_UNLINK && kind != SEL_DISK_RENAME)
                assert_int_equal(run_bytes(f, kind, handles[i], 0, bytes, 4096), SELENE_E_INVALID);
    assert_int_equal(run_kind(f, SEL_DISK_SYNC_DIR + 1, 0, 0, 0), SELENE_E_INVALID);
    free(bytes);
}

/* Real disks: misaligned I/O is the store's mistake, not a refusal of O_DIRECT. The simulated one aborts. */
static void misaligned_io_is_refused(void **state) {
    struct fixture *f = *state;
    if (side == SIDE_SIM)
        skip();
    int file = create(f, "a");
    uint8_t *bytes = memory_new(16384, 1);
    assert_ok(run_bytes(f, SEL_DISK_WRITE, file, 0, bytes, 16384));
    assert_int_equal(run_bytes(f, SEL_DISK_READ, file, 512, bytes, 4096), SELENE_E_INVALID);
    assert_int_equal(run_bytes(f, SEL_DISK_READ, file, 0, bytes, 100), SELENE_E_INVALID);
    assert_int_equal(run_bytes(f, SEL_DISK_READ, file, 0, bytes + 64, 4096), SELENE_E_INVALID);
    assert_int_equal(run_bytes(f, SEL_DISK_READ, file, UINT64_MAX - 4095, bytes, 4096), SELENE_E_INVALID);
    assert_int_equal(run_kind(f, SEL_DISK_ALLOCATE, file, UINT64_MAX - 4095, 8192), SELENE_E_INVALID);
    assert_int_equal(f->lines, 0);
    free(bytes);
}

/* A directory is open to others: nothing in it may hang the store or lead it elsewhere. */
static void foreign_things_in_the_directory(void **state) {
    struct fixture *f = *state;
    if (side == SIDE_SIM)
        skip();
    int directory = open(f->directory, O_RDONLY | O_DIRECTORY), file;
    assert_ok(mkfifoat(directory, "fifo", 0600));
    assert_ok(symlinkat("/etc/passwd", directory, "link"));
    assert_ok(mkdirat(directory, "sub", 0700));
    assert_int_equal(run_open(f, "fifo", SEL_DISK_OPEN_READ, &file), SELENE_E_INVALID);
    assert_int_equal(run_open(f, "fifo", SEL_DISK_OPEN_WRITE, &file), SELENE_E_INVALID);
    assert_int_equal(run_open(f, "link", SEL_DISK_OPEN_READ, &file), SELENE_E_INVALID);
    assert_int_equal(run_open(f, "sub", SEL_DISK_OPEN_WRITE, &file), SELENE_E_INVALID);
    assert_int_not_equal(run_names(f, SEL_DISK_UNLINK, "sub", NULL), 0);
    close(directory);
}

/* Whoever sleeps on the eventfd is woken by each completion, of whatever kind. */
static void completions_signal_the_eventfd(void **state) {
    struct fixture *f = *state;
    if (side == SIDE_SIM)
        skip();
    int file = create(f, "a");
    uint8_t *bytes = memory_new(4 * MIB, 1);
    struct iovec iov = {.iov_base = bytes, .iov_len = 4 * MIB};
    const uint8_t kinds[] = {SEL_DISK_WRITE, SEL_DISK_READ, SEL_DISK_SYNC, SEL_DISK_STAT, SEL_DISK_WRITE};
    for (size_t i = 0; i < SEL_COUNT(kinds); i++) {
        struct sel_disk_io io = {.kind = kinds[i], .file = file, .iov = &iov, .iov_count = 1};
        struct lane lane = {.io = io, .busy = true};
        sel_op_init(&lane.io.op, lane_done);
        sel_disk_submit(f->disk, &lane.io);
        for (;;) {
            uint64_t count;
            ssize_t got = read(f->event_fd, &count, sizeof count);
            (void)got;
            sel_disk_poll(f->disk);
            sel_ready_run(&f->ready, 100);
            if (!lane.busy)
                break;
            struct pollfd fd = {.fd = f->event_fd, .events = POLLIN};
            assert_int_equal(poll(&fd, 1, 20000), 1);
        }
    }
    free(bytes);
}

/* Depth 2: the rest waits inside, all of it gets done, and an io larger than the depth does too. */
static void more_ios_than_the_depth(void **state) {
    struct fixture *f = *state;
    if (side == SIDE_SIM)
        skip();
    struct fixture small;
    fixture_open(&small, side, f->directory, 2);
    int file;
    assert_ok(run_open(&small, "deep", SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, &file));
    enum { COUNT = 50 };
    static struct lane lanes[COUNT];
    uint8_t *bytes = memory_new(8 * MIB, 3), *in = memory_new(8 * MIB, 4);
    for (int i = 0; i < COUNT; i++) {
        struct lane *lane = &lanes[i];
        memset(lane, 0, sizeof *lane);
        lane->iov[0] = (struct iovec){.iov_base = bytes, .iov_len = i ? 8192 : 8 * MIB};
        lane->io = (struct sel_disk_io){.kind = SEL_DISK_WRITE, .file = file, .iov = lane->iov, .iov_count = 1};
        lane->io.offset = i ? 8 * MIB + (uint64_t)i * 8192 : 0;
        sel_op_init(&lane->io.op, lane_done);
        lane->busy = true;
        sel_disk_submit(small.disk, &lane->io);
    }
    for (int i = 0; i < COUNT; i++)
        while (lanes[i].busy) {
            fixture_poll(&small);
            if (lanes[i].busy)
                small.disk->ops->wait(small.disk, SEL_NS_PER_SECOND);
        }
    assert_ok(run_bytes(&small, SEL_DISK_READ, file, 0, in, 8 * MIB));
    assert_memory_equal(in, bytes, 8 * MIB);
    assert_ok(run_bytes(&small, SEL_DISK_READ, file, 8 * MIB + 49 * 8192, in, 8192));
    assert_memory_equal(in, bytes, 8192);
    fixture_close(&small);
    free(bytes);
    free(in);
}

int main(void) {
    static const char *const names[] = {"uring", "threads", "sim"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_the_backend, setup, teardown),
        cmocka_unit_test_setup_teardown(writes_and_reads_back, setup, teardown),
        cmocka_unit_test_setup_teardown(reading_past_the_end_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(many_pieces_in_one_io, setup, teardown),
        cmocka_unit_test_setup_teardown(random_ios_match_a_model, setup, teardown),
        cmocka_unit_test_setup_teardown(allocates_and_punches, setup, teardown),
        cmocka_unit_test_setup_teardown(holes_are_hopped_over, setup, teardown),
        cmocka_unit_test_setup_teardown(names_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_arguments_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(misaligned_io_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(foreign_things_in_the_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(completions_signal_the_eventfd, setup, teardown),
        cmocka_unit_test_setup_teardown(more_ios_than_the_depth, setup, teardown),
    };
    int failed = 0;
    for (side = SIDE_URING; side <= SIDE_SIM; side++)
        failed += _cmocka_run_group_tests(names[side], tests, SEL_COUNT(tests), NULL, NULL);
    return failed;
}
