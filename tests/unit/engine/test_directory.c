/* SPDX-License-Identifier: Apache-2.0
 *
 * The record directory as an operator sees it: which files there are, how they are called, and what they take.
 */
#include "tests/unit/engine/world.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_BYTES (UINT64_C(32) << 20)

struct files {
    uint64_t count, allocated_bytes;
    size_t longest_name;
};

static struct files look_into(const char *path) {
    struct files files = {0};
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        struct stat status;
        /* A store that runs may have removed it since. */
        if (fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) || !S_ISREG(status.st_mode))
            continue;
        files.count++;
        files.allocated_bytes += (uint64_t)status.st_blocks * 512;
        files.longest_name = SEL_MAX(files.longest_name, strlen(entry->d_name));
    }
    closedir(directory);
    return files;
}

/* Publishes sequences of `tokens` tokens under a tiny memory, so that they are spilled; kills the process after so many
 * if `kill_after` is not 0. */
static void publish_many(struct world *world, uint64_t first, uint64_t count, uint32_t tokens, uint64_t kill_after) {
    struct device_request request;
    request_make(world, &request, 0, world->block_count);
    for (uint64_t i = 0; i < count; i++) {
        struct sequence sequence;
        sequence_make(world, &sequence, first + i, tokens);
        world_publish(world, &request, &sequence, tokens);
        sequence_free(&sequence);
        if (kill_after && i + 1 == kill_after)
            raise(SIGKILL);
    }
    request_free(world, &request);
}

static void open_limited(struct world *world, const char *path) {
    world_init(world, &world_with_rows, 16, 48, false);
    world->env.segment_bytes = 1 << 20;
    world->options.disk_directory = path;
    world->options.disk_limit_bytes = LIMIT_BYTES;
    world_open(world);
}

/* [D6, fault 13]: what a killed writer left is counted, or gone: the limit holds, at once and later. */
static void test_killed_writers(void **state) {
    (void)state;
    char *path = test_directory_make("killed");
    for (uint64_t round = 0; round < 4; round++) {
        struct world world;
        pid_t child = fork();
        int status = 0;
        if (child == 0) {
            open_limited(&world, path);
            publish_many(&world, round * 1000, 400, 100, 40 + round * 100);
            _exit(0);
        }
        assert_true(child > 0 && waitpid(child, &status, 0) == child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

        open_limited(&world, path);
        struct selene_stats stats = world_stats(&world);
        struct files files = look_into(path);
        print_message("%lu records, %lu KiB in %lu files\n", (unsigned long)stats.records[SELENE_TIER_DISK],
                      (unsigned long)(files.allocated_bytes >> 10), (unsigned long)files.count);
        assert_true(stats.records[SELENE_TIER_DISK] > 0);
        assert_true(files.allocated_bytes <= stats.disk_allocated_bytes + stats.index_bytes);
        assert_true(files.allocated_bytes <= LIMIT_BYTES);
        publish_many(&world, round * 1000 + 500, 200, 100, 0);
        assert_true(look_into(path).allocated_bytes <= LIMIT_BYTES);
        world_destroy(&world);
    }
    test_directory_remove(&path);
}

/* [D1, fault 15]: thousands of records, a handful of files. */
static void test_few_files(void **state) {
    (void)state;
    struct world world;
    world_init(&world, &world_without_rows, 1, 64, false);
    world_disk(&world, 1);
    world.env.segment_bytes = 16 << 20;
    world_open(&world);
    publish_many(&world, 1, 2000, world.shape.page_tokens, 0);
    (void)world_drain(&world);
    assert_int_equal(world_stats(&world).records[SELENE_TIER_DISK], 2000);
    struct files files = look_into(world.directory);
    print_message("2000 records in %lu files\n", (unsigned long)files.count);
    assert_true(files.count <= 8);
    world_destroy(&world);
}

static selene_prefix *long_prefix(struct world *world, const struct sequence *sequence, uint8_t last) {
    selene_prefix *prefix;
    uint8_t *bytes = malloc(SEL_EXTRA_BYTES_MAX);
    assert_non_null(bytes);
    memset(bytes, 'x', SEL_EXTRA_BYTES_MAX);
    bytes[SEL_EXTRA_BYTES_MAX - 1] = last;
    assert_ok(selene_prefix_create(&prefix, world->store, bytes, SEL_EXTRA_BYTES_MAX));
    assert_ok(selene_prefix_set_extra(prefix, 0, bytes, SEL_EXTRA_BYTES_MAX));
    assert_ok(selene_prefix_append(prefix, sequence->tokens, sequence->count));
    free(bytes);
    return prefix;
}

/* [fault 10]: a salt and extra material of 64 KiB are part of the identity and of no name. */
static void test_long_identity(void **state) {
    (void)state;
    struct world world;
    struct sequence sequence;
    struct device_request request;
    struct selene_match match;
    world_init(&world, &world_with_rows, 16, 64, false);
    world_disk(&world, 1);
    world_open(&world);
    request_make(&world, &request, 0, 16);
    sequence_make(&world, &sequence, 1, 100);
    selene_prefix *own = sequence.prefix;
    sequence.prefix = long_prefix(&world, &sequence, 'y');
    assert_int_equal(world_publish(&world, &request, &sequence, 100), SELENE_ACCEPTED);
    world_reopen(&world, &sequence, 0);
    assert_true(look_into(world.directory).longest_name <= 40);

    selene_prefix_destroy(&sequence.prefix);
    sequence.prefix = long_prefix(&world, &sequence, 'y');
    assert_int_equal(world_restore(&world, &request, &sequence, 100, NULL), 100);
    selene_prefix *other = long_prefix(&world, &sequence, 'z');
    assert_ok(selene_lookup(world.store, other, 100, &match));
    assert_int_equal(match.tokens, 0);
    selene_prefix_destroy(&other);
    selene_prefix_destroy(&own);
    sequence_free(&sequence);
    request_free(&world, &request);
    world_destroy(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed_writers), cmocka_unit_test(test_few_files),
                                       cmocka_unit_test(test_long_identity)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
