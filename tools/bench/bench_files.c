/* SPDX-License-Identifier: Apache-2.0
 *
 * The peer that most KV-cache file tiers are: a file a record. Synced, since a record that is reported as kept must be.
 */
#include "tools/bench/bench_peers.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct files {
    const struct bench_peer_job *job;
    _Atomic size_t next;
    _Atomic int error; /* an errno */
    uint8_t **buffers; /* one a thread, for reading */
};

static int write_all(int fd, const uint8_t *bytes, uint64_t count) {
    for (uint64_t done = 0; done < count;) {
        ssize_t wrote = pwrite(fd, bytes + done, count - done, (off_t)done);
        if (wrote < 0 && errno != EINTR)
            return errno;
        done += wrote > 0 ? (uint64_t)wrote : 0;
    }
    return 0;
}

static int read_all(int fd, uint8_t *bytes, uint64_t count) {
    for (uint64_t done = 0; done < count;) {
        ssize_t got = pread(fd, bytes + done, count - done, (off_t)done);
        if (got == 0)
            return EIO;
        if (got < 0 && errno != EINTR)
            return errno;
        done += got > 0 ? (uint64_t)got : 0;
    }
    return 0;
}

/* O_DIRECT where the file system has it. */
static int open_direct(const char *path, int flags) {
    int fd = open(path, flags | O_DIRECT | O_CLOEXEC, 0600);
    return fd < 0 && errno == EINVAL ? open(path, flags | O_CLOEXEC, 0600) : fd;
}

static int write_one(const struct bench_peer_job *job, size_t number) {
    char path[4200], unfinished[4210];
    snprintf(path, sizeof path, "%s/%08zu.kv", job->directory, number);
    snprintf(unfinished, sizeof unfinished, "%s.new", path);
    int fd = open_direct(unfinished, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return errno;
    (void)fallocate(fd, 0, 0, (off_t)job->value_bytes);
    int error = write_all(fd, job->memory + number % job->lanes * job->value_bytes, job->value_bytes);
    if (error == 0 && fdatasync(fd) != 0)
        error = errno;
    close(fd);
    if (error == 0 && rename(unfinished, path) != 0)
        error = errno;
    return error;
}

static int read_one(const struct bench_peer_job *job, size_t number, uint8_t *buffer) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%08zu.kv", job->directory, number);
    int fd = open_direct(path, O_RDONLY);
    if (fd < 0)
        return errno;
    int error = read_all(fd, buffer, job->value_bytes);
    close(fd);
    return error;
}

static void write_part(void *context, unsigned i, unsigned count) {
    struct files *files = context;
    (void)i, (void)count;
    for (size_t at; files->error == 0 && (at = atomic_fetch_add(&files->next, 1)) < files->job->count;) {
        int error = write_one(files->job, at);
        if (error)
            files->error = error;
    }
}

static void read_part(void *context, unsigned i, unsigned count) {
    struct files *files = context;
    (void)count;
    for (size_t at; files->error == 0 && (at = atomic_fetch_add(&files->next, 1)) < files->job->count;) {
        size_t shuffled = files->job->count % 7919 ? at * 7919 % files->job->count : at;
        int error = read_one(files->job, shuffled, files->buffers[i]);
        if (error)
            files->error = error;
    }
}

int bench_peer_files(struct bench_peer_job *job, struct selene_message *message) {
    struct files files = {.job = job};
    bool whole = true;
    files.buffers = calloc(job->threads, sizeof *files.buffers);
    for (unsigned i = 0; files.buffers && i < job->threads; i++)
        whole &= (files.buffers[i] = bench_memory(job->value_bytes, i)) != NULL;
    if (!files.buffers || !whole)
        files.error = ENOMEM;
    if (files.error == 0)
        job->write_ns = bench_parallel(job->threads, write_part, &files);
    files.next = 0;
    if (files.error == 0)
        job->read_ns = bench_parallel(job->threads, read_part, &files);
    for (unsigned i = 0; files.buffers && i < job->threads; i++)
        bench_memory_free(files.buffers[i], job->value_bytes);
    free(files.buffers);
    int error = files.error;
    return error ? sel_fail(message, sel_error_from_errno(error), "peers: a file a record: %s", strerror(error)) : 0;
}
