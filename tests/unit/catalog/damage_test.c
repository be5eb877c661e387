/* SPDX-License-Identifier: Apache-2.0
 *
 * Damaged catalogue files [D8]. Each is given to the validator; one that passes is opened in a forked child, which reads
 * everything, deletes and adds in several commits, empties it and reads again. The child may get errors, but it must
 * end by itself: no signal, no hang; and what LMDB leaves behind must pass the validator again.
 *
 * SELENE_TEST_MUTATIONS: how many (SELENE_TEST_SEED: the first; both are printed with a failure).
 */
#include "index/catalog_validate.h"
#include "tests/lib/test.h"
#include "tests/unit/catalog/damage.h"
#include "tests/unit/catalog/workload.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAP_BYTES (UINT64_C(64) << 20)
#define TEMPLATES 24
#define HANG_S    60

struct fixture {
    char *directory, *path;
    struct image templates[TEMPLATES];
};

/* Files in all states: from empty to a few hundred pages, deleted from, grown again, long free lists, deep trees. */
static void make_template(struct fixture *fixture, unsigned i) {
    static const size_t sizes[] = {2, 8, 40, 120, 300, 1200};
    struct sel_catalog *catalog = NULL;
    struct workload load;
    bool rebuild;
    unlink(fixture->path);
    workload_init(&load, i + 1);
    load.parts_max = 1 + i % 3;
    assert_ok(sel_catalog_lmdb_open(&catalog, fixture->directory, MAP_BYTES, NULL, &rebuild, NULL));
    size_t size = sizes[i % 6];
    for (unsigned step = 0; step < i * 2 && (step < 12 || size < 100); step++) {
        workload_step(&load, size);
        assert_ok(workload_commit(&load, catalog, NULL));
    }
    if (i % 4 == 3 && load.next_key > 1) { /* free everything at once: free lists in overflow pages */
        workload_clear(&load);
        for (uint64_t key = load.first_key; key < load.next_key; key++)
            workload_delete(&load, SEL_CATALOG_RECORDS, key);
        assert_ok(workload_commit(&load, catalog, NULL));
    }
    catalog->ops->close(catalog);
    workload_destroy(&load);
    image_read(&fixture->templates[i], fixture->path);
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->directory = test_directory_make("damage");
    assert_true(asprintf(&fixture->path, "%s/index.v1.lmdb", fixture->directory) > 0);
    for (unsigned i = 0; i < TEMPLATES; i++)
        make_template(fixture, i);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < TEMPLATES; i++)
        image_free(&fixture->templates[i]);
    test_directory_remove(&fixture->directory);
    free(fixture->path);
    free(fixture);
    return 0;
}

/* ---- the child ---- */

struct keys {
    uint64_t first, last;
    unsigned sum;
};

static int read_entry(void *context, uint64_t key, uint32_t part, const uint8_t value[SEL_CATALOG_VALUE]) {
    struct keys *keys = context;
    if (keys->first == 0)
        keys->first = key;
    keys->last = key;
    keys->sum += part;
    for (unsigned i = 0; i < SEL_CATALOG_VALUE; i++)
        keys->sum += value[i];
    return 0;
}

static struct keys read_all(struct sel_catalog *catalog) {
    struct keys keys = {0};
    for (unsigned table = 0; table < SEL_CATALOG_TABLES; table++) {
        keys.first = keys.last = 0;
        (void)catalog->ops->iterate(catalog, (enum sel_catalog_table)table, read_entry, &keys);
    }
    return keys; /* of records, the last table */
}

/* Deletes each `step`-th record by its key, however far apart damage may have put them. */
struct doomed {
    struct workload *load;
    unsigned step, count;
};

static int doom(void *context, uint64_t key, uint32_t part, const uint8_t value[SEL_CATALOG_VALUE]) {
    struct doomed *doomed = context;
    (void)part, (void)value;
    if (doomed->count++ % doomed->step == 0)
        workload_delete(doomed->load, SEL_CATALOG_RECORDS, key);
    return 0;
}

static void use_fully(struct sel_catalog *catalog) {
    struct workload load;
    struct keys keys = read_all(catalog);
    workload_init(&load, 99);
    load.first_key = keys.first;
    load.next_key = keys.last < UINT64_MAX - 100000 ? keys.last + 1 : 1;
    if (load.next_key - load.first_key > 5000)
        load.first_key = load.next_key;
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned step = 0; step < 3; step++) {
            workload_step(&load, 5u << (2 * round));
            (void)workload_commit(&load, catalog, NULL);
        }
        struct doomed doomed = {.load = &load, .step = 4 - round};
        workload_clear(&load);
        (void)catalog->ops->iterate(catalog, SEL_CATALOG_RECORDS, doom, &doomed);
        (void)workload_commit(&load, catalog, NULL);
        read_all(catalog);
    }
    workload_destroy(&load);
}

static void no_log(void *context, int level, const char *text) { (void)context, (void)level, (void)text; }

static int child(const struct fixture *fixture) {
    struct sel_catalog *catalog = NULL;
    const struct sel_log log = {.write = no_log};
    bool rebuild;
    alarm(HANG_S);
    int rc = sel_catalog_lmdb_open(&catalog, fixture->directory, MAP_BYTES, &log, &rebuild, NULL);
    if (rc)
        return 0; /* an error is a good answer */
    if (rebuild)
        return 10; /* passed the validator, then LMDB refused it: the validator should have */
    use_fully(catalog);
    catalog->ops->close(catalog);
    struct selene_message message = {""};
    rc = sel_catalog_validate(fixture->path, &message);
    if (rc)
        fprintf(stderr, "after use: %s\n", message.text);
    return rc ? 11 : 0;
}

static void check_child(const struct fixture *fixture, uint64_t seed) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        _exit(child(fixture));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("mutation %ju passed the validator, then the child ended with %s %d", (uintmax_t)seed,
                 WIFEXITED(status) ? "code" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static void undamaged_files_are_used_fully(void **state) {
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < TEMPLATES; i++) {
        image_write(&fixture->templates[i], fixture->path);
        assert_ok(sel_catalog_validate(fixture->path, NULL));
        check_child(fixture, i);
    }
}

static void damaged_files_never_crash(void **state) {
    struct fixture *fixture = *state;
    uint64_t first = test_count("SELENE_TEST_SEED", 1), count = test_count("SELENE_TEST_MUTATIONS", 4000);
    uint64_t passed = 0;
    struct image image = {0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct sel_random random;
        sel_random_seed(&random, seed);
        const struct image *from = &fixture->templates[sel_random_below(&random, TEMPLATES)];
        image_copy(&image, from);
        damage(&image, &fixture->templates[sel_random_below(&random, TEMPLATES)], &random);
        image_write(&image, fixture->path);
        struct selene_message message = {""};
        int rc = sel_catalog_validate(fixture->path, &message);
        if (rc == 0) {
            passed++;
            check_child(fixture, seed);
        } else if ((rc != SELENE_E_CORRUPT && rc != SELENE_E_NOTFOUND) || message.text[0] == '\0') {
            fail_msg("mutation %ju: validator says %d, \"%s\"", (uintmax_t)seed, rc, message.text);
        }
    }
    printf("%ju mutations, %ju passed the validator and were used fully\n", (uintmax_t)count, (uintmax_t)passed);
    assert_true(passed > 0 && passed < count);
    image_free(&image);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(undamaged_files_are_used_fully),
                                       cmocka_unit_test(damaged_files_never_crash)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
