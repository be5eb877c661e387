/* SPDX-License-Identifier: Apache-2.0
 *
 * The scratch directory: large files that must not stay behind. SIGINT and SIGTERM are blocked in every thread and taken
 * by one that does nothing else, so that the clean-up is ordinary code and not a signal handler.
 */
#include "tools/bench/bench_priv.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static char scratch[4096]; /* "": none yet */
static pthread_mutex_t scratch_lock = PTHREAD_MUTEX_INITIALIZER;

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw) {
    (void)status, (void)type;
    return ftw->level == 0 ? 0 : remove(path);
}

static void clear(void) {
    if (scratch[0])
        nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void bench_scratch_end(void) {
    pthread_mutex_lock(&scratch_lock);
    clear();
    if (scratch[0])
        rmdir(scratch);
    scratch[0] = '\0';
    pthread_mutex_unlock(&scratch_lock);
}

static void *take_signals(void *context) {
    sigset_t *set = context;
    int number = 0;
    sigwait(set, &number);
    pthread_mutex_lock(&scratch_lock);
    /* Other threads go on until the process ends: what they make meanwhile goes in the second try. */
    for (int i = 0; i < 3 && scratch[0]; i++) {
        clear();
        if (rmdir(scratch) == 0)
            break;
    }
    _exit(128 + number);
}

int bench_scratch_start(void) {
    static sigset_t set;
    pthread_t thread;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0 || pthread_create(&thread, NULL, take_signals, &set) != 0)
        return SELENE_E_NOMEM;
    pthread_detach(thread);
    return 0;
}

const char *bench_scratch(struct bench *bench, struct selene_message *message) {
    if (scratch[0])
        return scratch;
    pthread_mutex_lock(&scratch_lock);
    char path[sizeof scratch];
    int length = snprintf(path, sizeof path, "%s/selene-bench-XXXXXX", bench->options.directory);
    bool made = length > 0 && (size_t)length < sizeof path && mkdtemp(path) != NULL;
    if (made)
        memcpy(scratch, path, sizeof path);
    else
        sel_fail(message, sel_error_from_errno(errno), "%s: making a scratch directory in it: %s",
                 bench->options.directory, strerror(errno));
    pthread_mutex_unlock(&scratch_lock);
    return made ? scratch : NULL;
}

void bench_scratch_clear(struct bench *bench) {
    (void)bench;
    pthread_mutex_lock(&scratch_lock);
    clear();
    pthread_mutex_unlock(&scratch_lock);
}

static int remove_any(const char *path, const struct stat *status, int type, struct FTW *ftw) {
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

void bench_scratch_remove(const char *path) { nftw(path, remove_any, 16, FTW_DEPTH | FTW_PHYS); }

uint64_t bench_scratch_free(struct bench *bench) {
    struct statvfs status;
    if (statvfs(bench->options.directory, &status) != 0)
        return 0;
    return (uint64_t)status.f_bavail * status.f_frsize;
}
