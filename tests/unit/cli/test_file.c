/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of results: whole or as they were, whatever the path is and however the disk fails.
 */
#include "cli/file.h"
#include "tests/lib/test.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *directory;
static char path[512];
static struct selene_message message;

static int open_directory(void **state) {
    (void)state;
    directory = test_directory_make("file");
    snprintf(path, sizeof path, "%s/out", directory);
    message = (struct selene_message){""};
    return 0;
}

static int close_directory(void **state) {
    (void)state;
    test_directory_remove(&directory);
    return 0;
}

static int print_word(const void *context, FILE *file) {
    fputs(context, file);
    return 0;
}

static int print_much(const void *context, FILE *file) {
    (void)context;
    for (int i = 0; i < 100000; i++)
        fputs("0123456789", file);
    return 0;
}

static int print_without_memory(const void *context, FILE *file) {
    print_word(context, file);
    return SELENE_E_NOMEM;
}

static int write_word(const char *where, const char *word) { return sel_file_write(where, print_word, word, &message); }

static void holds(const char *where, const char *expected) {
    char found[64] = "";
    FILE *file = fopen(where, "r");
    assert_non_null(file);
    found[fread(found, 1, sizeof found - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(found, expected);
}

/* Nothing was left beside what should be there. */
static void directory_has(int files) {
    DIR *open = opendir(directory);
    assert_non_null(open);
    for (struct dirent *entry; (entry = readdir(open)) != NULL;)
        files -= entry->d_name[0] != '.';
    closedir(open);
    assert_int_equal(files, 0);
}

static void a_file_is_made_and_replaced(void **state) {
    (void)state;
    struct stat before, after;
    assert_ok(write_word(path, "one"));
    holds(path, "one");
    assert_ok(chmod(path, 0600));
    assert_ok(stat(path, &before));
    assert_ok(write_word(path, "two"));
    holds(path, "two");
    assert_ok(stat(path, &after));
    assert_int_not_equal(before.st_ino, after.st_ino); /* who had it open still reads the old one */
    assert_int_equal(after.st_mode & 0777, 0600);
    directory_has(1);
}

/* A limit stands for a disk that is full. */
static void a_full_disk_leaves_the_old_file(void **state) {
    (void)state;
    struct rlimit old, small;
    assert_ok(write_word(path, "old"));
    assert_ok(getrlimit(RLIMIT_FSIZE, &old));
    small = (struct rlimit){.rlim_cur = 8192, .rlim_max = old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_ok(setrlimit(RLIMIT_FSIZE, &small));
    int result = sel_file_write(path, print_much, NULL, &message);
    assert_ok(setrlimit(RLIMIT_FSIZE, &old));
    signal(SIGXFSZ, SIG_DFL);
    assert_int_not_equal(result, 0);
    assert_non_null(strstr(message.text, strerror(EFBIG)));
    holds(path, "old");
    directory_has(1);
    assert_int_equal(sel_file_write(path, print_without_memory, "new", &message), SELENE_E_NOMEM);
    holds(path, "old");
    directory_has(1);
    assert_int_equal(write_word("/dev/full", "new"), SELENE_E_NOSPACE);
}

/* What is no file itself stays what it is; results go where it leads. */
static void a_link_stays_a_link(void **state) {
    (void)state;
    char target[600];
    struct stat status;
    snprintf(target, sizeof target, "%s/target", directory);
    assert_ok(symlink("target", path));
    for (int i = 0; i < 2; i++) { /* it leads nowhere at first */
        assert_ok(write_word(path, i ? "two" : "one"));
        holds(target, i ? "two" : "one");
        assert_ok(lstat(path, &status));
        assert_true(S_ISLNK(status.st_mode));
        assert_ok(sel_file_writable(path, &message));
    }
    directory_has(2);
}

/* Of a name that can be guessed, in a folder that others can write to. */
static void what_lies_at_the_name_beside_is_not_followed(void **state) {
    (void)state;
    char beside[600], victim[600];
    snprintf(beside, sizeof beside, "%s.tmp-%ld", path, (long)getpid());
    snprintf(victim, sizeof victim, "%s/victim", directory);
    assert_ok(write_word(victim, "mine"));
    assert_ok(symlink("victim", beside));
    assert_ok(write_word(path, "one"));
    holds(victim, "mine");
    holds(path, "one");
    directory_has(2);
}

/* "-", and a link as /dev/stdout is one, here to a file. */
static void standard_output(void **state) {
    (void)state;
    char there[600];
    struct stat status;
    int kept = dup(STDOUT_FILENO);
    snprintf(there, sizeof there, "%s/stdout", directory);
    assert_ok(symlink("/proc/self/fd/1", there));
    fflush(stdout);
    assert_non_null(freopen(path, "w", stdout));
    int first = write_word("-", "one"), second = write_word(there, "two");
    fflush(stdout);
    assert_true(dup2(kept, STDOUT_FILENO) >= 0);
    close(kept);
    assert_ok(first);
    assert_ok(second);
    holds(path, "two");
    assert_ok(lstat(there, &status));
    assert_true(S_ISLNK(status.st_mode));
    assert_ok(sel_file_writable("-", &message));
}

/* As a user that is nobody: what the check before a long run says. */
static int writable_to_nobody(const char *where) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (getuid() == 0 && setuid(65534) != 0)
            _exit(2);
        _exit(sel_file_writable(where, &message) == 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* To replace a file its folder must be writable, whatever the file is. */
static void the_check_asks_what_writing_needs(void **state) {
    (void)state;
    char folder[] = "/tmp/selene-file-XXXXXX", inside[64];
    assert_non_null(mkdtemp(folder));
    snprintf(inside, sizeof inside, "%s/out", folder);
    assert_ok(chmod(folder, 0777));
    assert_int_equal(writable_to_nobody(inside), 1);
    assert_ok(write_word(inside, "one"));
    assert_ok(chmod(inside, 0666));
    assert_int_equal(writable_to_nobody(inside), 1);
    assert_ok(chmod(folder, 0555));
    assert_int_equal(writable_to_nobody(inside), 0);
    assert_ok(chmod(folder, 0777));
    assert_ok(chmod(inside, 0444));
    assert_int_equal(writable_to_nobody(inside), 0);
    assert_ok(unlink(inside));
    assert_ok(rmdir(folder));
    assert_int_equal(sel_file_writable(directory, &message), SELENE_E_INVALID);
    assert_ok(symlink(".", path));
    assert_int_equal(sel_file_writable(path, &message), SELENE_E_INVALID);
    message = (struct selene_message){""};
    snprintf(path, sizeof path, "%s/none/out", directory);
    assert_int_equal(sel_file_writable(path, &message), SELENE_E_NOTFOUND);
    assert_non_null(strstr(message.text, path));
    assert_ok(sel_file_writable("/dev/null", &message));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_directory, close_directory)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_file_is_made_and_replaced),
        TEST(a_full_disk_leaves_the_old_file),
        TEST(a_link_stays_a_link),
        TEST(what_lies_at_the_name_beside_is_not_followed),
        TEST(standard_output),
        TEST(the_check_asks_what_writing_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
