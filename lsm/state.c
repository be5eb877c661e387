/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the disk [D9].
 *
 *   OK --no space--> FULL   --read-only--> READONLY   --failures in a row--> FAILING   --an old io--> STALLED
 *   any --a probe succeeds--> OK
 *
 * Entering a state warns once. In it nothing new is begun; a probe now and then makes a small file (on a full disk one
 * with as much space as a segment takes), writes, syncs and removes it; where it was the index that failed, a
 * transaction follows. While an io is stuck no probe is sent after it.
 */
#include "lsm/lsm_priv.h"

#include <stdlib.h>
#include <string.h>

#define PROBE_NAME "probe.tmp"

enum probe_step { PROBE_OPEN, PROBE_ALLOCATE, PROBE_WRITE, PROBE_SYNC, PROBE_CLOSE, PROBE_UNLINK };

struct sel_probe {
    struct sel_lsm *lsm;
    struct sel_lsm_io io;
    uint8_t step;
    int file;
    int result;
    uint64_t bytes;
    struct iovec iov;
    uint8_t *block;
};

static const char *const state_text[] = {"ok", "the disk is full", "the file system is read-only",
                                         "writes keep failing", "the disk does not answer"};

void sel_state_enter(struct sel_lsm *lsm, enum sel_lsm_state state, const char *why) {
    if (lsm->state != SEL_LSM_OK)
        return;
    lsm->state = (uint8_t)state;
    lsm->probe_ns = sel_mono_ns(lsm->config.clock) + SEL_PROBE_NS;
    sel_log_warning(lsm->config.log, "disk tier degraded: %s (%s); nothing is written until it recovers",
                    state_text[state], why);
}

static void leave(struct sel_lsm *lsm) {
    sel_log_info(lsm->config.log, "disk tier: %s no longer; writing goes on", state_text[lsm->state]);
    lsm->state = SEL_LSM_OK;
    memset(lsm->failures, 0, sizeof lsm->failures);
    lsm->reclaim = true;
}

void sel_state_index_tried(struct sel_lsm *lsm) {
    lsm->try_index = false;
    lsm->probe_ns = sel_mono_ns(lsm->config.clock) + SEL_PROBE_NS;
}

/* Where the index has reached its own size only removals help, and they come from whoever is let go on. */
static void note_index(struct sel_lsm *lsm, int result) {
    lsm->index_failed = result != 0 && result != SELENE_E_NOSPACE;
    if (!lsm->try_index)
        return;
    sel_state_index_tried(lsm);
    if (!lsm->index_failed && lsm->state != SEL_LSM_OK)
        leave(lsm);
}

void sel_state_note(struct sel_lsm *lsm, uint8_t kind, int result) {
    bool writing = kind == SEL_DISK_WRITE || kind == SEL_DISK_SYNC || kind == SEL_DISK_ALLOCATE ||
                   kind == SEL_DISK_SYNC_DIR || kind == SEL_NOTE_INDEX;
    if (kind == SEL_NOTE_INDEX)
        note_index(lsm, result);
    if (result == SELENE_E_CLOSED || result == SELENE_E_NOMEM || result == SELENE_E_UNSUPPORTED)
        return;
    if (!writing && !(kind == SEL_DISK_OPEN && (result == SELENE_E_NOSPACE || result == SELENE_E_READONLY)))
        return;
    if (result == 0)
        lsm->failures[kind] = 0;
    else if (result == SELENE_E_NOSPACE)
        sel_state_enter(lsm, SEL_LSM_FULL, sel_error_text(result));
    else if (result == SELENE_E_READONLY)
        sel_state_enter(lsm, SEL_LSM_READONLY, sel_error_text(result));
    else if (++lsm->failures[kind] >= SEL_FAILURES_MAX)
        sel_state_enter(lsm, SEL_LSM_FAILING, sel_error_text(result));
}

static bool stuck(const struct sel_lsm *lsm) {
    if (sel_list_empty((struct sel_list *)&lsm->inflight))
        return false;
    const struct sel_lsm_io *oldest = SEL_LIST_ENTRY(lsm->inflight.next, struct sel_lsm_io, link);
    uint64_t now = sel_mono_ns(lsm->config.clock);
    return now >= oldest->started_ns && now - oldest->started_ns >= lsm->stall_ns;
}

static void probe_step(struct sel_probe *probe, uint8_t step);

static void probe_over(struct sel_probe *probe) {
    struct sel_lsm *lsm = probe->lsm;
    int result = probe->result;
    sel_buffer_put(lsm, &probe->block);
    free(probe);
    lsm->probe = NULL;
    lsm->probe_ns = sel_mono_ns(lsm->config.clock) + SEL_PROBE_NS;
    if (result || stuck(lsm) || lsm->aborting)
        return;
    if (lsm->index_failed)
        lsm->try_index = true; /* group.c makes a transaction */
    else
        leave(lsm);
}

static void probed(struct sel_lsm_io *io, int result) {
    struct sel_probe *probe = io->owner;
    uint8_t step = probe->step;
    if (step == PROBE_ALLOCATE && result == SELENE_E_UNSUPPORTED)
        result = 0;
    if (step == PROBE_OPEN && result == 0)
        probe->file = io->io.file;
    if (result && !probe->result && step < PROBE_CLOSE)
        probe->result = result;
    if (step == PROBE_UNLINK)
        probe_over(probe);
    else if (probe->result && step < PROBE_CLOSE)
        probe_step(probe, probe->file >= 0 ? PROBE_CLOSE : PROBE_UNLINK);
    else
        probe_step(probe, (uint8_t)(step + 1));
}

static void probe_step(struct sel_probe *probe, uint8_t step) {
    static const uint8_t kinds[] = {SEL_DISK_OPEN, SEL_DISK_ALLOCATE, SEL_DISK_WRITE,
                                    SEL_DISK_SYNC, SEL_DISK_CLOSE,    SEL_DISK_UNLINK};
    probe->step = step;
    probe->io.io = (struct sel_disk_io){.kind = kinds[step],
                                        .flags = step == PROBE_OPEN ? SEL_DISK_OPEN_WRITE | SEL_DISK_OPEN_CREATE : 0,
                                        .file = probe->file,
                                        .bytes = step == PROBE_ALLOCATE ? probe->bytes : 0,
                                        .name = PROBE_NAME,
                                        .iov = &probe->iov,
                                        .iov_count = step == PROBE_WRITE ? 1 : 0};
    sel_lsm_io_start(probe->lsm, &probe->io, probed, probe);
}

static void start_probe(struct sel_lsm *lsm) {
    struct sel_probe *probe = calloc(1, sizeof *probe);
    if (probe)
        probe->block = sel_buffer_get(lsm, SEL_DISK_BLOCK);
    if (probe == NULL || probe->block == NULL) {
        free(probe);
        lsm->probe_ns = sel_mono_ns(lsm->config.clock) + SEL_PROBE_NS;
        return;
    }
    memset(probe->block, 0, SEL_DISK_BLOCK);
    probe->lsm = lsm;
    probe->file = -1;
    probe->iov = (struct iovec){.iov_base = probe->block, .iov_len = SEL_DISK_BLOCK};
    uint64_t segment = lsm->segment_bytes + SEL_SEGMENT_OVERHEAD;
    probe->bytes = lsm->state == SEL_LSM_FULL && sel_space_room(lsm, segment) ? segment : SEL_DISK_BLOCK;
    lsm->probe = probe;
    probe_step(probe, PROBE_OPEN);
}

void sel_state_poll(struct sel_lsm *lsm) {
    bool stalled = stuck(lsm);
    /* Seen twice: after a pause without polls the first one meets I/O that ended long ago and was not looked at. */
    if (lsm->state == SEL_LSM_OK && stalled && lsm->overdue)
        sel_state_enter(lsm, SEL_LSM_STALLED, "an I/O is overdue");
    lsm->overdue = stalled;
    if (lsm->state != SEL_LSM_OK && !stalled && !lsm->probe && !lsm->try_index && !lsm->closing &&
        sel_mono_ns(lsm->config.clock) >= lsm->probe_ns)
        start_probe(lsm);
}

uint64_t sel_state_deadline_ns(const struct sel_lsm *lsm) {
    if (lsm->state != SEL_LSM_OK)
        return lsm->probe || lsm->try_index || stuck(lsm) ? UINT64_MAX
                                                          : lsm->probe_ns; /* stuck: its completion wakes */
    if (sel_list_empty((struct sel_list *)&lsm->inflight))
        return UINT64_MAX;
    return SEL_LIST_ENTRY(lsm->inflight.next, struct sel_lsm_io, link)->started_ns + lsm->stall_ns;
}

enum sel_lsm_state sel_lsm_state(const struct sel_lsm *lsm) {
    SEL_CHECK_MAGIC(lsm, SEL_LSM_MAGIC);
    return (enum sel_lsm_state)lsm->state;
}
