/* SPDX-License-Identifier: Apache-2.0
 *
 * Child and parent of --crash-at. Messages are a header and a body in one write of less than PIPE_BUF bytes, so that
 * none is torn by the kill. The pipe is made as small as the system allows: the child must not run far ahead.
 */
#include "tools/replay/crash_priv.h"

#include "tools/replay/engine_sim.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { STARTED = 1, FINISHED, COMMITTED, FAILED };

struct header {
    uint32_t kind;
    uint32_t bytes; /* of the body */
};

struct finished {
    struct replay_result result;
    struct selene_stats stats;
};

struct committed {
    uint8_t key[32];
    uint64_t tokens;
};

union body {
    uint64_t started;
    struct finished finished;
    struct committed committed;
    struct selene_message failed;
};
_Static_assert(sizeof(struct header) + sizeof(union body) <= PIPE_BUF, "a message is written at once");

/* ---- child ---- */

static void send_message(int fd, enum kind kind, const void *body, size_t bytes) {
    uint8_t buffer[sizeof(struct header) + sizeof(union body)];
    struct header header = {kind, (uint32_t)bytes};
    memcpy(buffer, &header, sizeof header);
    memcpy(buffer + sizeof header, body, bytes);
    while (write(fd, buffer, sizeof header + bytes) < 0)
        if (errno != EINTR)
            _exit(SEL_EXIT_USAGE); /* the parent is gone */
}

static void tell_started(void *context, size_t index) {
    uint64_t number = index;
    send_message(*(int *)context, STARTED, &number, sizeof number);
}

static void tell_finished(void *context, const struct replay_result *result, selene_store *store) {
    struct finished body = {.result = *result};
    selene_get_stats(store, &body.stats, sizeof body.stats);
    send_message(*(int *)context, FINISHED, &body, sizeof body);
}

static void tell_committed(void *context, const uint8_t key[32], uint64_t tokens) {
    struct committed body = {.tokens = tokens};
    memcpy(body.key, key, sizeof body.key);
    send_message(*(int *)context, COMMITTED, &body, sizeof body);
}

/* Plays on until it is killed: it does not know when. */
static void __attribute__((noreturn)) child_run(const struct replay_stage *stage, int fd) {
    struct replay_sink sink = {
        .context = &fd, .started = tell_started, .finished = tell_finished, .committed = tell_committed};
    struct selene_message message = {""};
    struct sim *sim = NULL;
    uint8_t *done = calloc(stage->workload->count, 1);
    int result = done ? sim_open(&sim, stage, true, &message) : sel_fail(&message, SELENE_E_NOMEM, "no memory");
    if (result == 0)
        result = sim_play(sim, done, stage->workload->count, &sink, &message);
    if (result)
        send_message(fd, FAILED, &message, sizeof message);
    for (;;)
        pause();
}

/* ---- parent ---- */

struct crash_record *crash_slot(const struct crash *crash, const uint8_t key[32]) {
    size_t at;
    memcpy(&at, key, sizeof at);
    for (at &= crash->slot_count - 1;; at = (at + 1) & (crash->slot_count - 1)) {
        struct crash_record *record = &crash->records[at];
        if (record->tokens == 0 || memcmp(record->key, key, sizeof record->key) == 0)
            return record;
    }
}

static int records_grow(struct crash *crash) {
    struct crash old = *crash;
    crash->slot_count = old.slot_count ? old.slot_count * 2 : 1024;
    crash->records = calloc(crash->slot_count, sizeof *crash->records);
    if (crash->records == NULL) {
        *crash = old;
        return SELENE_E_NOMEM;
    }
    for (size_t i = 0; i < old.slot_count; i++)
        if (old.records[i].tokens)
            *crash_slot(crash, old.records[i].key) = old.records[i];
    free(old.records);
    return 0;
}

static int record_add(struct crash *crash, const struct committed *committed) {
    if (crash->count * 2 >= crash->slot_count && records_grow(crash))
        return SELENE_E_NOMEM;
    struct crash_record *record = crash_slot(crash, committed->key);
    crash->count += record->tokens == 0;
    memcpy(record->key, committed->key, sizeof record->key);
    record->tokens = committed->tokens;
    return 0;
}

/* Exactly `bytes`: 1; end of the pipe: 0. */
static int pipe_read(int fd, void *to, size_t bytes) {
    uint8_t *at = to;
    while (bytes) {
        ssize_t got = read(fd, at, bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        at += got, bytes -= (size_t)got;
    }
    return 1;
}

struct parent {
    struct crash *crash;
    const struct replay_stage *stage;
    uint8_t *done;
    struct totals *totals;
    struct sel_progress *progress;
    size_t finished;
    struct selene_stats stats; /* the child's last ones */
    struct selene_message *message;
};

static int message_take(struct parent *parent, const struct header *header, const union body *body) {
    size_t count = parent->stage->workload->count;
    switch (header->kind) {
    case STARTED:
        if (body->started < count)
            parent->crash->started[body->started] = 1;
        return 0;
    case FINISHED:
        if (body->finished.result.index >= count)
            return 0;
        parent->done[body->finished.result.index] = 1;
        parent->stats = body->finished.stats;
        totals_add(parent->totals, &body->finished.result);
        if (totals_sample_due(parent->totals))
            totals_sample(parent->totals, &parent->stats);
        sel_progress_update(parent->progress, ++parent->finished, "before the crash");
        return 0;
    case COMMITTED:
        return record_add(parent->crash, &body->committed) ? sel_fail(parent->message, SELENE_E_NOMEM, "no memory") : 0;
    default:
        return sel_fail(parent->message, SELENE_E_IO, "%.*s", SELENE_MESSAGE_BYTES - 1, body->failed.text);
    }
}

/* Until the end of the pipe; the child is killed when enough is finished, or when it or we failed. */
static int parent_read(struct parent *parent, int fd, pid_t child, size_t kill_after) {
    struct header header;
    union body body;
    bool killed = false;
    int result = 0;
    while (pipe_read(fd, &header, sizeof header) && header.bytes <= sizeof body && pipe_read(fd, &body, header.bytes)) {
        if (result == 0)
            result = message_take(parent, &header, &body);
        if (!killed && (result || parent->finished >= kill_after)) {
            kill(child, SIGKILL);
            killed = true;
        }
    }
    if (result == 0 && !killed)
        result = sel_fail(parent->message, SELENE_E_INTERNAL,
                          "the process that held the store ended by itself after %zu requests, expected %zu",
                          parent->finished, kill_after);
    return result;
}

static int child_start(const struct replay_stage *stage, int *fd, pid_t *child, struct selene_message *message) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return sel_fail(message, sel_error_from_errno(errno), "pipe: %s", strerror(errno));
    (void)fcntl(ends[1], F_SETPIPE_SZ, 4096);
    fflush(NULL);
    *child = fork();
    if (*child == 0) {
        close(ends[0]);
        child_run(stage, ends[1]);
    }
    close(ends[1]);
    *fd = ends[0];
    if (*child > 0)
        return 0;
    close(ends[0]);
    return sel_fail(message, sel_error_from_errno(errno), "fork: %s", strerror(errno));
}

static struct crash *crash_create(size_t request_count) {
    struct crash *crash = calloc(1, sizeof *crash);
    if (crash && (crash->started = calloc(request_count, 1)) && records_grow(crash) == 0)
        return crash;
    crash_free(&crash);
    return NULL;
}

int crash_run(struct crash **out, const struct replay_stage *stage, size_t kill_after, uint8_t *done,
              struct totals *totals, struct sel_progress *progress, struct selene_message *message) {
    int fd = -1, status;
    pid_t child = -1;
    *out = crash_create(stage->workload->count);
    if (*out == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "no memory");
    struct parent parent = {
        .crash = *out, .stage = stage, .done = done, .totals = totals, .progress = progress, .message = message};
    int result = child_start(stage, &fd, &child, message);
    if (result == 0) {
        result = parent_read(&parent, fd, child, kill_after);
        close(fd);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        totals_add_store(totals, &parent.stats);
        totals->crashes++;
        totals->committed_before_crash = (*out)->count;
    }
    if (result)
        crash_free(out);
    return result;
}

void crash_free(struct crash **crash) {
    if (*crash) {
        free((*crash)->records);
        free((*crash)->started);
        free(*crash);
    }
    *crash = NULL;
}
