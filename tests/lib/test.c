/* SPDX-License-Identifier: Apache-2.0
 *
 * Scratch directories and counts for tests, see test.h. Nothing here asserts: a helper that fails aborts.
 */
#include "tests/lib/test.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

char *test_directory_make(const char *name) {
    const char *base = getenv("SELENE_TEST_DIR");
    char *path = NULL;
    if (asprintf(&path, "%s/selene-%s-XXXXXX", base ? base : ".", name) < 0 || mkdtemp(path) == NULL) {
        fprintf(stderr, "cannot make a scratch directory for %s\n", name);
        abort();
    }
    return path;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw) {
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

void test_directory_remove(char **path) {
    if (*path)
        nftw(*path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(*path);
    *path = NULL;
}

uint64_t test_count(const char *variable, uint64_t normal) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : normal;
}
