/* SPDX-License-Identifier: Apache-2.0
 *
 * The catalogue's contract (index/catalog.h), on LMDB's side and where it applies on the simulated side: order, deletes,
 * all or nothing, reopening, damage set aside [D8], other versions left alone [D3], a full index, a killed process
 * [D4, D7].
 */
#include "tests/lib/catalog_sim.h"
#include "tests/lib/test.h"
#include "tests/unit/catalog/workload.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAP_BYTES (UINT64_C(64) << 20)

struct fixture {
    char *directory, *path;
    struct workload load;
    char log[4096];
};

static void keep_log(void *context, int level, const char *text) {
    struct fixture *fixture = context;
    size_t used = strlen(fixture->log);
    snprintf(fixture->log + used, sizeof fixture->log - used, "%d %s\n", level, text);
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->directory = test_directory_make("catalog");
    assert_true(asprintf(&fixture->path, "%s/index.v1.lmdb", fixture->directory) > 0);
    workload_init(&fixture->load, 1);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    workload_destroy(&fixture->load);
    test_directory_remove(&fixture->directory);
    free(fixture->path);
    free(fixture);
    return 0;
}

static struct sel_catalog *open_real(struct fixture *fixture, uint64_t map_bytes, bool *rebuild) {
    struct sel_log log = {.write = keep_log, .context = fixture, .level = SEL_LOG_DEBUG};
    static struct sel_log kept; /* outlives the catalogue */
    struct selene_message message = {""};
    struct sel_catalog *catalog = NULL;
    kept = log;
    if (sel_catalog_lmdb_open(&catalog, fixture->directory, map_bytes, &kept, rebuild, &message))
        fail_msg("%s", message.text);
    return catalog;
}

static char *path_of(const struct fixture *fixture, const char *name) {
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", fixture->directory, name) > 0);
    return path;
}

static void write_file(const struct fixture *fixture, const char *name, const void *bytes, size_t count) {
    char *path = path_of(fixture, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_ok(fclose(file));
    free(path);
}

static bool exists(const struct fixture *fixture, const char *name) {
    char *path = path_of(fixture, name);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

/* ---- order and deletes, both sides ---- */

struct seen {
    uint64_t keys[64];
    uint32_t parts[64];
    size_t count;
    int stop_with;
};

static int see(void *context, uint64_t key, uint32_t part, const uint8_t value[SEL_CATALOG_VALUE]) {
    struct seen *seen = context;
    uint8_t expected[SEL_CATALOG_VALUE];
    workload_value(expected, key * 1000 + part);
    assert_memory_equal(value, expected, SEL_CATALOG_VALUE);
    assert_true(seen->count < 64);
    seen->keys[seen->count] = key;
    seen->parts[seen->count++] = part;
    return seen->stop_with;
}

static void put(struct workload *load, uint8_t table, uint64_t key, uint32_t part) {
    workload_put(load, table, key, part, key * 1000 + part);
}

static void check_order(struct sel_catalog *catalog, struct workload *load) {
    static const uint64_t keys[] = {300, 2, UINT64_MAX, 1, 256, 255};
    workload_clear(load);
    for (size_t i = 0; i < 6; i++)
        for (uint32_t part = 3; part-- > 0;)
            put(load, SEL_CATALOG_RECORDS, keys[i], part == 2 ? UINT32_MAX : part);
    put(load, SEL_CATALOG_SEGMENTS, 7, 0);
    assert_ok(workload_commit(load, catalog, NULL));

    static const uint64_t sorted[] = {1, 2, 255, 256, 300, UINT64_MAX};
    struct seen seen = {0};
    assert_ok(catalog->ops->iterate(catalog, SEL_CATALOG_RECORDS, see, &seen));
    assert_int_equal(seen.count, 18);
    for (size_t i = 0; i < 18; i++) {
        assert_int_equal(seen.keys[i], sorted[i / 3]);
        assert_int_equal(seen.parts[i], i % 3 == 2 ? UINT32_MAX : i % 3);
    }
    struct seen one = {.stop_with = 42};
    assert_int_equal(catalog->ops->iterate(catalog, SEL_CATALOG_RECORDS, see, &one), 42);
    assert_int_equal(one.count, 1);
    struct seen none = {0};
    assert_ok(catalog->ops->iterate(catalog, SEL_CATALOG_META, see, &none));
    assert_int_equal(none.count, 0);
}

static void check_deletes(struct sel_catalog *catalog, struct workload *load) {
    workload_clear(load);
    workload_delete(load, SEL_CATALOG_RECORDS, 256);
    workload_delete(load, SEL_CATALOG_RECORDS, 999); /* not there: no error */
    workload_delete(load, SEL_CATALOG_RECORDS, UINT64_MAX);
    workload_delete(load, SEL_CATALOG_RECORDS, 1);
    put(load, SEL_CATALOG_RECORDS, 1, 5); /* in the order given: this part stays */
    assert_ok(workload_commit(load, catalog, NULL));
    struct seen seen = {0};
    assert_ok(catalog->ops->iterate(catalog, SEL_CATALOG_RECORDS, see, &seen));
    assert_int_equal(seen.count, 10);
    assert_int_equal(seen.keys[0], 1);
    assert_int_equal(seen.parts[0], 5);
    assert_int_equal(seen.keys[1], 2);
    assert_int_equal(seen.keys[9], 300);
    struct seen segments = {0};
    assert_ok(catalog->ops->iterate(catalog, SEL_CATALOG_SEGMENTS, see, &segments));
    assert_int_equal(segments.count, 1);
}

static void check_bad_changes(struct sel_catalog *catalog, struct workload *load) {
    uint64_t before = catalog_digest(catalog, NULL);
    for (unsigned i = 0; i < 3; i++) {
        struct selene_message message = {""};
        workload_clear(load);
        put(load, SEL_CATALOG_RECORDS, 12345, 0);
        put(load, SEL_CATALOG_RECORDS, 12346, 0);
        for (size_t c = 0; c < 2; c++)
            load->changes[c].value = load->values[c];
        if (i == 0)
            load->changes[1].table = SEL_CATALOG_TABLES;
        else if (i == 1)
            load->changes[1].kind = 2;
        else
            load->changes[1].value = NULL;
        assert_int_equal(catalog->ops->commit(catalog, load->changes, 2, &message), SELENE_E_INVALID);
        assert_true(message.text[0] != '\0');
    }
    assert_int_equal(catalog_digest(catalog, NULL), before);
}

static void order_and_deletes(void **state) {
    struct fixture *fixture = *state;
    bool rebuild;
    struct sel_catalog *catalog = open_real(fixture, MAP_BYTES, &rebuild);
    assert_true(rebuild);
    check_order(catalog, &fixture->load);
    check_deletes(catalog, &fixture->load);
    check_bad_changes(catalog, &fixture->load);
    catalog->ops->close(catalog);

    struct sel_catalog_sim *sim = NULL;
    assert_ok(sel_catalog_sim_create(&sim));
    assert_ok(sel_catalog_sim_open(&catalog, sim, &rebuild));
    assert_true(rebuild);
    check_order(catalog, &fixture->load);
    check_deletes(catalog, &fixture->load);
    check_bad_changes(catalog, &fixture->load);
    catalog->ops->close(catalog);
    sel_catalog_sim_destroy(&sim);
}

/* ---- reopening, size ---- */

static void reopening_finds_all(void **state) {
    struct fixture *fixture = *state;
    bool rebuild;
    struct stat status;
    struct sel_catalog *catalog = open_real(fixture, MAP_BYTES, &rebuild);
    uint64_t small = catalog->ops->file_bytes(catalog);
    for (unsigned i = 0; i < 20; i++) {
        workload_step(&fixture->load, 50);
        assert_ok(workload_commit(&fixture->load, catalog, NULL));
    }
    uint64_t digest = catalog_digest(catalog, NULL), bytes = catalog->ops->file_bytes(catalog);
    assert_ok(stat(fixture->path, &status));
    assert_true(bytes > small && bytes >= (uint64_t)status.st_size && bytes < MAP_BYTES);
    catalog->ops->close(catalog);
    catalog = open_real(fixture, MAP_BYTES, &rebuild);
    assert_false(rebuild);
    assert_int_equal(catalog_digest(catalog, NULL), digest);
    assert_int_equal(catalog->ops->file_bytes(catalog), bytes);
    catalog->ops->close(catalog);
    assert_string_equal(fixture->log, "");
    assert_false(exists(fixture, "index.v1.lmdb-lock"));
    assert_false(exists(fixture, "index.v1.lmdb.new"));
}

/* ---- damage, other versions ---- */

/* [D8] A damaged file is set aside under a name of its own, never over an earlier one, and a new index is begun. */
static void damage_is_set_aside(void **state) {
    struct fixture *fixture = *state;
    static const char earlier[] = "do not touch";
    bool rebuild;
    write_file(fixture, "index.v1.lmdb.damaged-1", earlier, sizeof earlier);
    for (unsigned round = 2; round <= 4; round++) {
        char name[64], text[64] = "";
        snprintf(text, sizeof text, "garbage of round %u", round);
        snprintf(name, sizeof name, "index.v1.lmdb.damaged-%u", round);
        write_file(fixture, "index.v1.lmdb", text, sizeof text);
        struct sel_catalog *catalog = open_real(fixture, MAP_BYTES, &rebuild);
        assert_true(rebuild);
        assert_true(exists(fixture, name));
        assert_non_null(strstr(fixture->log, name));
        size_t entries;
        catalog_digest(catalog, &entries);
        assert_int_equal(entries, 0);
        workload_step(&fixture->load, 5);
        assert_ok(workload_commit(&fixture->load, catalog, NULL));
        catalog->ops->close(catalog);
    }
    char found[sizeof earlier] = "", *path = path_of(fixture, "index.v1.lmdb.damaged-1");
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof found, file), sizeof earlier);
    fclose(file);
    free(path);
    assert_string_equal(found, earlier);
}

/* What is no file at all is set aside as well; a fifo must not hang the open. */
static void other_kinds_of_file_are_set_aside(void **state) {
    struct fixture *fixture = *state;
    bool rebuild;
    assert_ok(mkfifo(fixture->path, 0600));
    struct sel_catalog *catalog = open_real(fixture, MAP_BYTES, &rebuild);
    assert_true(rebuild);
    catalog->ops->close(catalog);
    assert_ok(unlink(fixture->path));
    assert_ok(mkdir(fixture->path, 0700));
    catalog = open_real(fixture, MAP_BYTES, &rebuild);
    assert_true(rebuild && exists(fixture, "index.v1.lmdb.damaged-1") && exists(fixture, "index.v1.lmdb.damaged-2"));
    catalog->ops->close(catalog);
}

static void empty_and_unfinished_files_are_no_damage(void **state) {
    struct fixture *fixture = *state;
    bool rebuild;
    write_file(fixture, "index.v1.lmdb", "", 0);
    write_file(fixture, "index.v1.lmdb.new", "half", 4);
    struct sel_catalog *catalog = open_real(fixture, MAP_BYTES, &rebuild);
    assert_true(rebuild);
    catalog->ops->close(catalog);
    assert_string_equal(fixture->log, "");
    assert_false(exists(fixture, "index.v1.lmdb.damaged-1"));
}

/* [D3] Indexes of the future are left alone, counted and reported with one message. */
static void later_versions_are_left_alone(void **state) {
    struct fixture *fixture = *state;
    bool rebuild;
    struct sel_catalog *catalog = open_real(fixture, MAP_BYTES, &rebuild);
    uint64_t alone = catalog->ops->file_bytes(catalog);
    catalog->ops->close(catalog);
    char bytes[8192] = "from the future";
    write_file(fixture, "index.v2.lmdb", bytes, sizeof bytes);
    write_file(fixture, "index.v10.lmdb", bytes, sizeof bytes);
    write_file(fixture, "index.v2.lmdb.old", bytes, sizeof bytes);
    write_file(fixture, "index.vx.lmdb", bytes, sizeof bytes);
    catalog = open_real(fixture, MAP_BYTES, &rebuild);
    assert_false(rebuild);
    assert_true(catalog->ops->file_bytes(catalog) >= alone + 16384);
    catalog->ops->close(catalog);
    char *line = strchr(fixture->log, '\n');
    assert_non_null(line);
    assert_string_equal(line, "\n"); /* one message */
    assert_true(strstr(fixture->log, "index.v2.lmdb") || strstr(fixture->log, "index.v10.lmdb"));
    assert_true(exists(fixture, "index.v2.lmdb") && exists(fixture, "index.v10.lmdb"));
}

static void bad_arguments_get_a_message(void **state) {
    struct fixture *fixture = *state;
    struct sel_catalog *catalog = (struct sel_catalog *)fixture;
    struct selene_message message = {""};
    bool rebuild;
    assert_int_equal(sel_catalog_lmdb_open(&catalog, fixture->directory, 4096, NULL, &rebuild, &message),
                     SELENE_E_INVALID);
    assert_null(catalog);
    assert_non_null(strstr(message.text, "4096"));
    message.text[0] = '\0';
    assert_int_not_equal(sel_catalog_lmdb_open(&catalog, "/nowhere/at/all", MAP_BYTES, NULL, &rebuild, &message), 0);
    assert_null(catalog);
    assert_non_null(strstr(message.text, "/nowhere/at/all"));
}

/* ---- a full index ---- */

/* A commit that does not fit changes nothing; a delete still works in a full index; afterwards there is room again. */
static void a_full_index_says_so_and_can_be_emptied(void **state) {
    struct fixture *fixture = *state;
    struct workload *load = &fixture->load;
    const uint64_t map_bytes = UINT64_C(1) << 20;
    bool rebuild;
    struct sel_catalog *catalog = open_real(fixture, map_bytes, &rebuild);
    for (unsigned round = 0; round < 6; round++) {
        uint64_t first = load->next_key;
        struct selene_message message = {""};
        int rc = 0;
        while (rc == 0) {
            uint64_t before = catalog_digest(catalog, NULL);
            workload_clear(load);
            for (unsigned i = 0; i < 40; i++)
                put(load, SEL_CATALOG_RECORDS, load->next_key + i, 0);
            rc = workload_commit(load, catalog, &message);
            load->next_key += rc ? 0 : 40;
            if (rc)
                assert_int_equal(catalog_digest(catalog, NULL), before);
        }
        assert_int_equal(rc, SELENE_E_NOSPACE);
        assert_non_null(strstr(message.text, "limit"));
        assert_true(load->next_key - first > 1000);
        assert_true(catalog->ops->file_bytes(catalog) <= map_bytes);
        for (uint64_t key = first; key < load->next_key; key += 300) { /* in pieces: each copies pages */
            workload_clear(load);
            for (uint64_t i = key; i < key + 300; i++)
                workload_delete(load, SEL_CATALOG_RECORDS, i);
            assert_ok(workload_commit(load, catalog, NULL));
        }
        size_t entries;
        catalog_digest(catalog, &entries);
        assert_int_equal(entries, 0);
        assert_true(catalog->ops->file_bytes(catalog) <= map_bytes);
        if (round == 3) {
            catalog->ops->close(catalog);
            catalog = open_real(fixture, map_bytes, &rebuild);
            assert_false(rebuild);
        }
    }
    catalog->ops->close(catalog);
}

/* ---- a killed process ---- */

/* The child tells each finished commit through a pipe, then is killed in the middle of the next ones. Every commit that
 * was told is there, and the state is that after some commit, never part of one. */
static void commits_until_killed(struct fixture *fixture, int told, uint64_t from) {
    bool rebuild;
    struct sel_catalog *catalog = open_real(fixture, MAP_BYTES, &rebuild);
    for (uint64_t n = from;; n++) {
        workload_clear(&fixture->load);
        for (uint32_t part = 0; part < 9; part++)
            put(&fixture->load, SEL_CATALOG_RECORDS, n, part);
        if (n > 6)
            workload_delete(&fixture->load, SEL_CATALOG_RECORDS, n - 6);
        if (workload_commit(&fixture->load, catalog, NULL))
            _exit(1);
        if (write(told, &n, sizeof n) != sizeof n)
            _exit(1);
    }
}

static void commits_survive_a_kill(void **state) {
    struct fixture *fixture = *state;
    uint64_t last = 0;
    for (unsigned round = 0; round < 8; round++) {
        int ends[2];
        assert_ok(pipe(ends));
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            commits_until_killed(fixture, ends[1], last + 1);
        close(ends[1]);
        for (unsigned i = 0; i < 3 + round * 5; i++)
            assert_int_equal(read(ends[0], &last, sizeof last), sizeof last);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        for (uint64_t more; read(ends[0], &more, sizeof more) == sizeof more;)
            last = more; /* told before the kill */
        close(ends[0]);
        bool rebuild;
        struct seen seen = {0};
        struct sel_catalog *catalog = open_real(fixture, MAP_BYTES, &rebuild);
        assert_false(rebuild);
        assert_ok(catalog->ops->iterate(catalog, SEL_CATALOG_RECORDS, see, &seen));
        catalog->ops->close(catalog);
        uint64_t newest = seen.keys[seen.count - 1];
        assert_true(newest == last || newest == last + 1);
        assert_int_equal(seen.count, 9 * (newest < 6 ? newest : 6));
        assert_int_equal(seen.keys[0], newest < 6 ? 1 : newest - 5);
        last = newest;
    }
}

/* ---- threads ---- */

struct committer {
    struct sel_catalog *catalog;
    int rc;
};

static void *commit_many(void *context) {
    struct committer *committer = context;
    struct workload load;
    workload_init(&load, 5);
    for (unsigned i = 0; i < 60 && committer->rc == 0; i++) {
        workload_clear(&load);
        for (uint32_t part = 0; part < 16; part++)
            workload_put(&load, SEL_CATALOG_RECORDS, 1, part, i);
        committer->rc = workload_commit(&load, committer->catalog, NULL);
    }
    workload_destroy(&load);
    return NULL;
}

static int all_alike(void *context, uint64_t key, uint32_t part, const uint8_t value[SEL_CATALOG_VALUE]) {
    uint8_t(*first)[SEL_CATALOG_VALUE] = context;
    (void)key;
    if (part == 0)
        memcpy(*first, value, SEL_CATALOG_VALUE);
    return memcmp(*first, value, SEL_CATALOG_VALUE) ? 1 : 0;
}

/* Reading while the helper commits sees one snapshot: all parts of one commit. */
static void a_reader_sees_one_snapshot(void **state) {
    struct fixture *fixture = *state;
    bool rebuild;
    pthread_t thread;
    struct committer committer = {.catalog = open_real(fixture, MAP_BYTES, &rebuild)};
    assert_ok(pthread_create(&thread, NULL, commit_many, &committer));
    for (unsigned i = 0; i < 200; i++) {
        uint8_t first[SEL_CATALOG_VALUE];
        assert_ok(committer.catalog->ops->iterate(committer.catalog, SEL_CATALOG_RECORDS, all_alike, &first));
        assert_true(committer.catalog->ops->file_bytes(committer.catalog) > 0);
    }
    assert_ok(pthread_join(thread, NULL));
    assert_ok(committer.rc);
    committer.catalog->ops->close(committer.catalog);
}

int main(void) {
#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(order_and_deletes),
        WITH_FIXTURE(reopening_finds_all),
        WITH_FIXTURE(damage_is_set_aside),
        WITH_FIXTURE(other_kinds_of_file_are_set_aside),
        WITH_FIXTURE(empty_and_unfinished_files_are_no_damage),
        WITH_FIXTURE(later_versions_are_left_alone),
        WITH_FIXTURE(bad_arguments_get_a_message),
        WITH_FIXTURE(a_full_index_says_so_and_can_be_emptied),
        WITH_FIXTURE(commits_survive_a_kill),
        WITH_FIXTURE(a_reader_sees_one_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
