/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that a reader sees in its old or its new state, and that a failure leaves as it was.
 */
#include "cli/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(struct selene_message *message, const char *path, const char *what) {
    int code = sel_error_from_errno(errno);
    return sel_fail(message, code ? code : SELENE_E_IO, "%s: %s: %s", path, what, strerror(errno));
}

struct printer {
    int (*print)(const void *context, FILE *file);
    const void *context;
};

static int print_to(const struct printer *printer, FILE *file, const char *path, struct selene_message *message) {
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

static int write_beside(const struct printer *printer, const char *path, const char *beside,
                        struct selene_message *message) {
    FILE *file = fopen(beside, "we");
    if (file == NULL)
        return fail(message, beside, "cannot create");
    int result = print_to(printer, file, beside, message);
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
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return write_in_place(&printer, path, message);
    if (asprintf(&beside, "%s.tmp-%ld", path, (long)getpid()) < 0)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", path);
    int result = write_beside(&printer, path, beside, message);
    free(beside);
    return result;
}

int sel_file_writable(const char *path, struct selene_message *message) {
    struct stat status;
    if (strcmp(path, "-") == 0)
        return 0;
    if (stat(path, &status) == 0) {
        if (S_ISDIR(status.st_mode))
            return sel_fail(message, SELENE_E_INVALID, "%s: found a directory, expected a file to write", path);
        return access(path, W_OK) ? fail(message, path, "cannot write") : 0;
    }
    char *copy = strdup(path);
    if (copy == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", path);
    const char *folder = dirname(copy);
    int result = access(folder, W_OK | X_OK) ? fail(message, path, "cannot create") : 0;
    free(copy);
    return result;
}
