/* SPDX-License-Identifier: Apache-2.0
 *
 * The fault wrapper: countdown, repeat, kinds and names; and what each action leaves behind.
 */
#include "tests/unit/disk/fixture.h"

#define KIND(kind) (1u << (kind))

static struct fixture f;
static int file;
static uint8_t *out, *in;

static int setup(void **state) {
    (void)state;
    fixture_open(&f, SIDE_SIM, NULL, 0);
    struct sel_disk *inner = f.disk;
    assert_ok(sel_disk_fault_create(&f.disk, inner, &f.ready));
    assert_ok(run_open(&f, "a.seg", SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, &file));
    out = memory_new(65536, 1);
    in = memory_new(65536, 2);
    assert_ok(run_bytes(&f, SEL_DISK_WRITE, file, 0, in, 65536));
    return 0;
}
static int teardown(void **state) {
    (void)state;
    sel_disk_fault_clear(f.disk);
    free(out);
    free(in);
    fixture_close(&f);
    return 0;
}

static int write_once(void) { return run_bytes(&f, SEL_DISK_WRITE, file, 0, out, 65536); }

static void countdown_and_repeat(void **state) {
    (void)state;
    struct sel_disk_fault fault = {
        .kinds = KIND(SEL_DISK_WRITE), .countdown = 3, .repeat = 1, .error = SELENE_E_NOSPACE};
    sel_disk_fault_arm(f.disk, &fault);
    assert_ok(write_once());
    assert_ok(run_bytes(&f, SEL_DISK_READ, file, 0, in, 4096)); /* another kind does not count */
    assert_ok(write_once());
    assert_int_equal(write_once(), SELENE_E_NOSPACE);
    assert_int_equal(write_once(), SELENE_E_NOSPACE);
    assert_ok(write_once());
    assert_int_equal(fault.hits, 2);
    fault = (struct sel_disk_fault){.countdown = 1, .repeat = UINT64_MAX};
    for (int i = 0; i < 5; i++)
        assert_int_equal(run_kind(&f, SEL_DISK_SYNC, file, 0, 0), SELENE_E_IO);
    sel_disk_fault_clear(f.disk);
    assert_ok(run_kind(&f, SEL_DISK_SYNC, file, 0, 0));
}

static void names_select(void **state) {
    (void)state;
    int other;
    struct sel_disk_fault fault = {.names = "*.seg", .countdown = 1, .repeat = UINT64_MAX};
    assert_ok(run_open(&f, "b.log", SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE, &other));
    sel_disk_fault_arm(f.disk, &fault);
    assert_ok(run_bytes(&f, SEL_DISK_WRITE, other, 0, out, 4096));
    assert_int_equal(write_once(), SELENE_E_IO);
    assert_int_equal(run_names(&f, SEL_DISK_UNLINK, "a.seg", NULL), SELENE_E_IO);
    assert_int_equal(run_names(&f, SEL_DISK_RENAME, "a.seg", "c"), SELENE_E_IO);
    assert_ok(run_names(&f, SEL_DISK_UNLINK, "b.log", NULL));
    assert_ok(run_names(&f, SEL_DISK_SYNC_DIR, NULL, NULL));
}

static void a_failed_write_leaves_the_file_alone(void **state) {
    (void)state;
    struct sel_disk_fault fault = {.kinds = KIND(SEL_DISK_WRITE), .countdown = 1};
    memory_fill(in, 65536, 2);
    sel_disk_fault_arm(f.disk, &fault);
    assert_int_equal(write_once(), SELENE_E_IO);
    assert_ok(run_bytes(&f, SEL_DISK_READ, file, 0, out, 65536));
    assert_memory_equal(out, in, 65536);
}

static void a_short_write_leaves_half(void **state) {
    (void)state;
    struct sel_disk_fault fault = {
        .action = SEL_DISK_FAULT_SHORT, .kinds = KIND(SEL_DISK_WRITE), .countdown = 1, .error = SELENE_E_NOSPACE};
    struct iovec iov[3] = {{out, 4096}, {out + 4096, 53248}, {out + 57344, 8192}};
    uint8_t *now = memory_new(65536, 3);
    memory_fill(in, 65536, 2);
    sel_disk_fault_arm(f.disk, &fault);
    assert_int_equal(run_transfer(&f, SEL_DISK_WRITE, file, 0, iov, 3), SELENE_E_NOSPACE);
    assert_ok(run_bytes(&f, SEL_DISK_READ, file, 0, now, 65536));
    assert_memory_equal(now, out, 32768);
    assert_memory_equal(now + 32768, in + 32768, 32768);
    free(now);
}

static void a_corrupted_read_differs_in_one_bit(void **state) {
    (void)state;
    struct sel_disk_fault fault = {
        .action = SEL_DISK_FAULT_CORRUPT, .kinds = KIND(SEL_DISK_READ), .countdown = 1, .corrupt_at = 65536 + 5000};
    struct iovec iov[2] = {{in, 4096}, {in + 4096, 61440}};
    assert_ok(write_once());
    sel_disk_fault_arm(f.disk, &fault);
    assert_ok(run_transfer(&f, SEL_DISK_READ, file, 0, iov, 2));
    for (int i = 0; i < 65536; i++)
        assert_int_equal(in[i] ^ out[i], i == 5000 ? 0x10 : 0);
    assert_ok(run_transfer(&f, SEL_DISK_READ, file, 0, iov, 2));
    assert_memory_equal(in, out, 65536);
}

static bool done;
static void set_done(struct sel_op *op) {
    (void)op;
    done = true;
}

static void a_held_completion_comes_when_released(void **state) {
    (void)state;
    struct sel_disk_fault fault = {
        .action = SEL_DISK_FAULT_HOLD, .kinds = KIND(SEL_DISK_WRITE), .countdown = 1, .repeat = 1};
    struct iovec iov = {out, 65536};
    struct sel_disk_io io = {.kind = SEL_DISK_WRITE, .file = file, .iov = &iov, .iov_count = 1};
    sel_disk_fault_arm(f.disk, &fault);
    sel_op_init(&io.op, set_done);
    done = false;
    sel_disk_submit(f.disk, &io);
    for (int i = 0; i < 100; i++)
        fixture_poll(&f);
    assert_false(done);
    assert_int_equal(sel_disk_fault_held(f.disk), 1);
    assert_ok(run_bytes(&f, SEL_DISK_READ, file, 0, in, 65536)); /* it was carried out; others pass */
    assert_memory_equal(in, out, 65536);
    sel_disk_fault_release(f.disk);
    fixture_poll(&f);
    assert_true(done);
    assert_ok(io.op.result);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(countdown_and_repeat, setup, teardown),
        cmocka_unit_test_setup_teardown(names_select, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_write_leaves_the_file_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_short_write_leaves_half, setup, teardown),
        cmocka_unit_test_setup_teardown(a_corrupted_read_differs_in_one_bit, setup, teardown),
        cmocka_unit_test_setup_teardown(a_held_completion_comes_when_released, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
