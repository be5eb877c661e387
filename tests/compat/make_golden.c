/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the golden stores: make_golden VERSION DIRECTORY. They are in the tree and are never made again for a version
 * that was released: a store written once must be readable for ever [D3].
 */
#include "tests/compat/golden.h"
#include "tests/lib/store_v1.h"
#include "tests/lib/test.h"

static int version;
static const char *directory;

static void make(void **state) {
    (void)state;
    struct rig rig;
    struct rig_record records[GOLDEN_RECORDS];
    for (int i = 0; i < GOLDEN_RECORDS; i++)
        records[i] = golden_record(version, i);
    rig_create(&rig, RIG_THREADS, "golden", golden_planes, GOLDEN_RANKS, GOLDEN_ROW_BYTES);
    if (version == 1) {
        store_v1_write(&rig, directory, records, GOLDEN_RECORDS);
    } else {
        free(rig.directory);
        rig.directory = strdup(directory);
        rig.config.segment_bytes = 128 << 10;
        rig_open(&rig);
        for (int i = 0; i < GOLDEN_RECORDS; i++)
            assert_ok(rig_write(&rig, &records[i], NULL));
        rig_close(&rig);
        free(rig.directory);
        rig.directory = NULL;
    }
    rig_destroy(&rig);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return fprintf(stderr, "usage: make_golden VERSION DIRECTORY\n"), 2;
    version = atoi(argv[1]);
    directory = argv[2];
    const struct CMUnitTest tests[] = {cmocka_unit_test(make)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
