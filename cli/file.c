/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that a reader sees in its old or its new state, and that a failure leaves as it was.
 */
#include "cli/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(struct selene_message *message, const char *path, const char *what) {
    int number = errno ? errno : EIO, code = sel_error_from_errno(number); /* a stream does not always say why */
    return sel_fail(message, code, "%s: %s: %s", path, what, strerror(number));
}

struct printer {
    int (*print)(const void *context, FILE *file);
    const void *context;
};

static int print_to(const struct printer *printer, FILE *file, const char *path, struct selene_message *message) {
    errno = 0;
    int result = printer->print(printer->context, file);
    if (result == SELENE_E_NOMEM)
        return sel_fail(message, result, "%s: out of memory", path);
    return result || fflush(file) || ferror(file) ? fail(message, path, "cannot write") : 0;
}

static int write_in_place(const struct printer *printer, const char *path, struct selene_message *message) {
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return fail(message, path, "cannot open");
    int result = print_to(printer, file, path, message);
    if (fclose(file) && result == 0)
        result = fail(message, path, "cannot write");
    return result;
}

/* Whatever lies at `beside`, left over or put there by somebody else, is neither followed nor written to. `mode`: the
 * permissions of the file that is replaced, 0: of a new one. */
static int write_beside(const struct printer *printer, const char *path, const char *beside, mode_t mode,
                        struct selene_message *message) {
    unlink(beside);
    FILE *file = fopen(beside, "wxe");
    if (file == NULL)
        return fail(message, beside, "cannot create");
    int result = print_to(printer, file, beside, message);
    if (result == 0 && mode && fchmod(fileno(file), mode))
        result = fail(message, beside, "cannot set permissions");
    if (result == 0 && fsync(fileno(file)))
        result = fail(message, beside, "cannot write");
    if (fclose(file) && result == 0)
        result = fail(message, beside, "cannot write");
    if (result == 0 && rename(beside, path))
        result = fail(message, path, "cannot replace");
    if (result)
        unlink(beside);
    return result;
}

int sel_file_write(const char *path, int (*print)(const void *context, FILE *file), const void *context,
                   struct selene_message *message) {
    const struct printer printer = {print, context};
    struct stat status;
    char *beside = NULL;
    if (strcmp(path, "-") == 0)
        return print_to(&printer, stdout, "standard output", message);
    bool exists = lstat(path, &status) == 0;
    if (exists && !S_ISREG(status.st_mode))
        return write_in_place(&printer, path, message);
    if (asprintf(&beside, "%s.tmp-%ld", path, (long)getpid()) < 0)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", path);
    int result = write_beside(&printer, path, beside, exists ? status.st_mode & 0777 : 0, message);
    free(beside);
    return result;
}

int sel_file_writable(const char *path, struct selene_message *message) {
    struct stat status;
    if (strcmp(path, "-") == 0)
        return 0;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return sel_fail(message, SELENE_E_INVALID, "%s: found a directory, expected a file to write", path);
    bool exists = lstat(path, &status) == 0;
    if (exists && access(path, W_OK))
        return fail(message, path, "cannot write");
    if (exists && !S_ISREG(status.st_mode))
        return 0;
    char *copy = strdup(path);
    if (copy == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", path);
    const char *folder = dirname(copy);
    int result = access(folder, W_OK | X_OK) ? fail(message, path, "cannot create a file beside it") : 0;
    free(copy);
    return result;
}
