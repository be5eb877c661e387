/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and renames of the catalogue's files (catalog_files.h). The store holds the directory's lock, so nobody else
 * renames here; what must not happen all the same is that one file replaces another.
 */
#include "index/catalog_files.h"

#include "index/catalog.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASIDE_MAX 1000000

char *sel_catalog_path(const char *directory, const char *name) {
    char *path = NULL;
    return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

static int fail_errno(struct selene_message *message, const char *directory, const char *what) {
    return sel_fail(message, sel_error_from_errno(errno), "%s/%s: %s: %s", directory, SEL_CATALOG_NAME, what,
                    strerror(errno));
}

/* Renames inside a directory; EEXIST when the new name is taken. */
static int rename_no_replace(int directory_fd, const char *from, const char *to) {
    if (renameat2(directory_fd, from, directory_fd, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    /* A file system without it. A link fails when the name is there, but directories cannot be linked. */
    struct stat status;
    if (fstatat(directory_fd, to, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    return errno == ENOENT ? renameat(directory_fd, from, directory_fd, to) : -1;
}

static int sync_and_close(int directory_fd) {
    int rc = fsync(directory_fd);
    /* Some file systems know no sync of a directory. */
    if (rc != 0 && (errno == EINVAL || errno == EOPNOTSUPP))
        rc = 0;
    int saved = errno;
    close(directory_fd);
    errno = saved;
    return rc;
}

int sel_catalog_set_aside(const char *directory, char *aside, struct selene_message *message) {
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(message, directory, "opening the directory");
    int rc = -1;
    errno = EEXIST;
    for (unsigned n = 1; rc != 0 && errno == EEXIST && n <= ASIDE_MAX; n++) {
        snprintf(aside, 64, "%s.damaged-%u", SEL_CATALOG_NAME, n);
        rc = rename_no_replace(fd, SEL_CATALOG_NAME, aside);
    }
    if (rc != 0) {
        rc = fail_errno(message, directory, "setting the damaged file aside");
        close(fd);
        return rc;
    }
    if (sync_and_close(fd) != 0)
        return fail_errno(message, directory, "syncing the directory");
    return 0;
}

int sel_catalog_publish_new(const char *directory, struct selene_message *message) {
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(message, directory, "opening the directory");
    if (renameat(fd, SEL_CATALOG_NAME_NEW, fd, SEL_CATALOG_NAME) != 0) {
        int rc = fail_errno(message, directory, "putting the new file in place");
        close(fd);
        return rc;
    }
    if (sync_and_close(fd) != 0)
        return fail_errno(message, directory, "syncing the directory");
    return 0;
}

/* "index.v<N>.lmdb" with N above ours. */
static bool is_future(const char *name) {
    static const char head[] = "index.v", tail[] = ".lmdb";
    if (strncmp(name, head, sizeof head - 1) != 0 || !isdigit((unsigned char)name[sizeof head - 1]))
        return false;
    char *end = NULL;
    errno = 0;
    unsigned long long version = strtoull(name + sizeof head - 1, &end, 10);
    return strcmp(end, tail) == 0 && (version > SEL_CATALOG_VERSION || errno == ERANGE);
}

void sel_catalog_find_others(const char *directory, struct sel_catalog_others *others) {
    static const char aside[] = SEL_CATALOG_NAME ".damaged-";
    *others = (struct sel_catalog_others){0};
    DIR *dir = opendir(directory);
    if (dir == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        bool future = is_future(entry->d_name);
        if (!future && strncmp(entry->d_name, aside, sizeof aside - 1) != 0)
            continue;
        if (future && others->future++ == 0)
            snprintf(others->future_name, sizeof others->future_name, "%.*s", (int)sizeof others->future_name - 1,
                     entry->d_name);
        struct stat status;
        if (fstatat(dirfd(dir), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_blocks > 0)
            others->bytes += (uint64_t)status.st_blocks * 512;
    }
    closedir(dir);
}
