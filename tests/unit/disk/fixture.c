/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk of any side with what it needs around it; see fixture.h.
 */
#include "tests/unit/disk/fixture.h"
#include "base/random.h"

#include <sys/eventfd.h>
#include <unistd.h>

static void keep_message(void *context, int level, const char *text) {
    struct fixture *fixture = context;
    (void)level;
    size_t used = strlen(fixture->said);
    snprintf(fixture->said + used, sizeof fixture->said - used, "%s\n", text);
    fixture->lines++;
}

void fixture_open(struct fixture *fixture, enum fixture_side side, const char *directory, unsigned depth) {
    memset(fixture, 0, sizeof *fixture);
    fixture->side = side;
    fixture->log = (struct sel_log){.write = keep_message, .context = fixture, .level = SEL_LOG_WARNING};
    sel_ready_init(&fixture->ready, NULL, NULL);
    sel_clock_manual_init(&fixture->clock);
    fixture->event_fd = -1;
    if (side == SIDE_SIM) {
        struct sel_disk_sim_config config = {.seed = 1};
        assert_ok(sel_disk_sim_create(&fixture->sim, &config, &fixture->clock));
        assert_ok(sel_disk_sim_open(&fixture->disk, fixture->sim, &fixture->ready));
        return;
    }
    fixture->owns_directory = directory == NULL;
    fixture->directory = directory ? strdup(directory) : test_directory_make("disk");
    fixture->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct selene_message message = {{0}};
    struct sel_disk_config config = {.directory = fixture->directory,
                                     .ready = &fixture->ready,
                                     .clock = sel_clock_system(),
                                     .log = &fixture->log,
                                     .depth = depth,
                                     .event_fd = fixture->event_fd,
                                     .force_threads = side == SIDE_THREADS};
    if (sel_disk_open(&fixture->disk, &config, &message))
        fail_msg("%s", message.text);
}

void fixture_close(struct fixture *fixture) {
    if (fixture->disk)
        fixture->disk->ops->destroy(fixture->disk);
    sel_disk_sim_destroy(&fixture->sim);
    sel_ready_destroy(&fixture->ready);
    if (fixture->event_fd >= 0)
        close(fixture->event_fd);
    if (fixture->owns_directory)
        test_directory_remove(&fixture->directory);
    free(fixture->directory);
}

static int run(struct fixture *fixture, struct sel_disk_io *io) {
    sel_op_init(&io->op, NULL);
    return sel_disk_run(fixture->disk, &fixture->ready, io);
}

int run_open(struct fixture *fixture, const char *name, int flags, int *file) {
    struct sel_disk_io io = {.kind = SEL_DISK_OPEN, .flags = (uint8_t)flags, .name = name, .file = -1};
    int result = run(fixture, &io);
    *file = io.file;
    return result;
}

int run_kind(struct fixture *fixture, int kind, int file, uint64_t offset, uint64_t bytes) {
    struct sel_disk_io io = {.kind = (uint8_t)kind, .file = file, .offset = offset, .bytes = bytes};
    return run(fixture, &io);
}

int run_transfer(struct fixture *fixture, int kind, int file, uint64_t offset, const struct iovec *iov, int iov_count) {
    struct sel_disk_io io = {.kind = (uint8_t)kind, .file = file, .offset = offset, .iov = iov, .iov_count = iov_count};
    return run(fixture, &io);
}

int run_bytes(struct fixture *fixture, int kind, int file, uint64_t offset, void *bytes, size_t count) {
    struct iovec iov = {.iov_base = bytes, .iov_len = count};
    return run_transfer(fixture, kind, file, offset, &iov, 1);
}

int run_stat(struct fixture *fixture, int file, uint64_t *size, uint64_t *allocated) {
    struct sel_disk_io io = {.kind = SEL_DISK_STAT, .file = file};
    int result = run(fixture, &io);
    *size = io.size_bytes;
    *allocated = io.allocated_bytes;
    return result;
}

int run_next_data(struct fixture *fixture, int file, uint64_t offset, uint64_t *data_offset) {
    struct sel_disk_io io = {.kind = SEL_DISK_NEXT_DATA, .file = file, .offset = offset};
    int result = run(fixture, &io);
    *data_offset = io.data_offset;
    return result;
}

int run_names(struct fixture *fixture, int kind, const char *name, const char *name_to) {
    struct sel_disk_io io = {.kind = (uint8_t)kind, .name = name, .name_to = name_to};
    return run(fixture, &io);
}

void fixture_poll(struct fixture *fixture) {
    if (fixture->sim)
        sel_clock_manual_advance(&fixture->clock, 20000);
    sel_disk_poll(fixture->disk);
    sel_ready_run(&fixture->ready, 1000);
}

void memory_fill(uint8_t *bytes, size_t count, uint64_t seed) {
    for (size_t i = 0; i + 8 <= count; i += 8) {
        uint64_t word = sel_mix64(seed * 0x9e3779b97f4a7c15u + i);
        memcpy(bytes + i, &word, 8);
    }
}

uint8_t *memory_new(size_t bytes, uint64_t seed) {
    uint8_t *memory = aligned_alloc(4096, bytes);
    assert_non_null(memory);
    memory_fill(memory, bytes, seed);
    return memory;
}
