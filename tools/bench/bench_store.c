/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening, driving and closing a record store (bench_store.h).
 */
#include "tools/bench/bench_store.h"

#include "base/check.h"
#include "base/random.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SLEEP_NS_MAX (UINT64_C(10) * SEL_NS_PER_MS)
#define INDEX_BYTES  (UINT64_C(16) << 30)

static void wake(void *context) {
    const int *event_fd = context;
    eventfd_write(*event_fd, 1);
}

int bench_disk_rig_open(struct bench_disk_rig *rig, const char *directory, struct selene_message *message) {
    *rig = (struct bench_disk_rig){.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (rig->event_fd < 0)
        return sel_fail(message, SELENE_E_NOMEM, "making an eventfd: %s", strerror(errno));
    sel_ready_init(&rig->ready, wake, &rig->event_fd);
    const struct sel_disk_config config = {
        .directory = directory, .ready = &rig->ready, .clock = sel_clock_system(), .event_fd = rig->event_fd};
    return sel_disk_open(&rig->disk, &config, message);
}

void bench_disk_rig_close(struct bench_disk_rig *rig) {
    if (rig->event_fd <= 0)
        return;
    if (rig->disk)
        rig->disk->ops->destroy(rig->disk);
    sel_ready_destroy(&rig->ready);
    close(rig->event_fd);
    rig->event_fd = -1;
}

void bench_disk_rig_turn(struct bench_disk_rig *rig, uint64_t timeout_ns) {
    eventfd_t count;
    if (sel_ready_run(&rig->ready, 4096) > 0)
        return;
    sel_disk_poll(rig->disk);
    if (sel_ready_run(&rig->ready, 4096) > 0)
        return;
    struct pollfd event = {.fd = rig->event_fd, .events = POLLIN};
    uint64_t ns = SEL_MIN(timeout_ns, SLEEP_NS_MAX);
    struct timespec timeout = {.tv_nsec = (long)ns};
    if (ppoll(&event, 1, &timeout, NULL) > 0)
        (void)eventfd_read(rig->event_fd, &count);
}

static int take_all(void *context, const struct sel_lsm_record *record, const struct sel_location *location) {
    (void)context, (void)record, (void)location;
    return 0;
}

static void ignore_move(void *context, const struct sel_key *key, const struct sel_location *from,
                        const struct sel_location *to) {
    (void)context, (void)key, (void)from, (void)to;
}

static int open_parts(struct bench_store *store, const char *directory, bool *rebuild, struct selene_message *message) {
    int rc = bench_disk_rig_open(&store->rig, directory, message);
    if (rc == 0 && store->wrap) {
        struct sel_disk *wrapped = store->wrap(store->wrap_context, store->rig.disk);
        rc = wrapped ? 0 : SELENE_E_NOMEM;
        store->rig.disk = wrapped ? wrapped : store->rig.disk;
    }
    if (rc == 0)
        rc = sel_workers_create_threads(&store->workers, "bench", 2);
    if (rc == 0)
        rc = sel_workers_create_threads(&store->blocking, "commit", 1);
    if (rc == 0)
        rc = sel_catalog_lmdb_open(&store->catalog, directory, INDEX_BYTES, NULL, rebuild, message);
    return rc;
}

int bench_store_open(struct bench_store *store, const char *directory, enum sel_lsm_durability durability,
                     sel_lsm_visit *visit, void *context, struct selene_message *message) {
    bool rebuild = false;
    uint64_t from = bench_now_ns();
    int rc = open_parts(store, directory, &rebuild, message);
    if (rc == 0) {
        const struct sel_lsm_config config = {.disk = store->rig.disk,
                                              .catalog = store->catalog,
                                              .rebuild = rebuild,
                                              .ready = &store->rig.ready,
                                              .clock = sel_clock_system(),
                                              .random = sel_random_system(),
                                              .workers = store->workers,
                                              .blocking = store->blocking,
                                              .durability = durability,
                                              .segment_bytes = store->segment_bytes};
        rc = sel_lsm_open(&store->lsm, &config, visit ? visit : take_all, ignore_move, context, message);
    }
    store->open_ns = bench_now_ns() - from;
    if (rc) {
        (void)sel_fail(message, rc, "%s: opening a store: %s", directory, sel_error_text(rc));
        bench_store_close(store);
    }
    return rc;
}

static void close_parts(struct bench_store *store) {
    sel_workers_destroy(&store->workers);
    sel_workers_destroy(&store->blocking);
    if (store->catalog)
        store->catalog->ops->close(store->catalog);
    store->catalog = NULL;
    bench_disk_rig_close(&store->rig);
}

void bench_store_close(struct bench_store *store) {
    (void)sel_lsm_close(&store->lsm);
    close_parts(store);
}

void bench_store_abort(struct bench_store *store) {
    sel_lsm_abort(&store->lsm);
    close_parts(store);
}

void bench_store_turn(struct bench_store *store) {
    sel_lsm_poll(store->lsm);
    uint64_t now = bench_now_ns(), deadline = sel_lsm_deadline_ns(store->lsm);
    bench_disk_rig_turn(&store->rig, deadline > now ? deadline - now : 0);
}

struct sel_lsm_stats bench_store_stats(const struct bench_store *store) {
    struct sel_lsm_stats stats;
    sel_lsm_get_stats(store->lsm, &stats);
    return stats;
}

void bench_store_settle(struct bench_store *store) {
    uint64_t end = bench_now_ns() + 10 * SEL_NS_PER_SECOND, quiet = 0, before = 0;
    sel_lsm_flush(store->lsm);
    while (bench_now_ns() < end && quiet < 6) {
        bench_store_turn(store);
        struct sel_lsm_stats stats = bench_store_stats(store);
        uint64_t state = stats.transactions ^ stats.dead_bytes ^ stats.allocated_bytes ^ stats.punched_bytes;
        quiet = state == before ? quiet + 1 : 0;
        before = state;
    }
}
