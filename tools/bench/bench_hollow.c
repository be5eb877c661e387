/* SPDX-License-Identifier: Apache-2.0
 *
 * The hollow disk (bench_hollow.h).
 */
#include "tools/bench/bench_hollow.h"

#include <stdlib.h>

struct hollow {
    struct sel_disk disk;
    struct sel_disk *inner;
    struct bench_hollow *state;
};

static struct hollow *of(const struct sel_disk *disk) {
    return SEL_CONTAINER((struct sel_disk *)(uintptr_t)disk, struct hollow, disk);
}

static void submit(struct sel_disk *disk, struct sel_disk_io *io) {
    struct hollow *hollow = of(disk);
    if (!hollow->state->solid && io->kind == SEL_DISK_WRITE && io->offset > 0) {
        sel_op_start(&io->op);
        sel_ready_post(hollow->state->ready, &io->op, 0);
        return;
    }
    if (!hollow->state->solid && io->kind == SEL_DISK_ALLOCATE) {
        io->kind = SEL_DISK_TRUNCATE;
        io->bytes += io->offset;
    }
    hollow->inner->ops->submit(hollow->inner, io);
}

static void poll(struct sel_disk *disk) { of(disk)->inner->ops->poll(of(disk)->inner); }
static void wait(struct sel_disk *disk, uint64_t timeout_ns) {
    of(disk)->inner->ops->wait(of(disk)->inner, timeout_ns);
}
static int list(struct sel_disk *disk, int (*visit)(void *context, const char *name), void *context) {
    return of(disk)->inner->ops->list(of(disk)->inner, visit, context);
}
static int lock(struct sel_disk *disk, const char *name, struct selene_message *message) {
    return of(disk)->inner->ops->lock(of(disk)->inner, name, message);
}
static void register_memory(struct sel_disk *disk, void *base, uint64_t bytes) {
    of(disk)->inner->ops->register_memory(of(disk)->inner, base, bytes);
}
static const char *backend(const struct sel_disk *disk) { return of(disk)->inner->ops->backend(of(disk)->inner); }
static bool direct(const struct sel_disk *disk) { return of(disk)->inner->ops->direct(of(disk)->inner); }
static void destroy(struct sel_disk *disk) {
    of(disk)->inner->ops->destroy(of(disk)->inner);
    free(of(disk));
}

static const struct sel_disk_ops hollow_ops = {.submit = submit,
                                               .poll = poll,
                                               .wait = wait,
                                               .list = list,
                                               .lock = lock,
                                               .register_memory = register_memory,
                                               .backend = backend,
                                               .direct = direct,
                                               .destroy = destroy};

struct sel_disk *bench_hollow_wrap(void *context, struct sel_disk *inner) {
    struct hollow *hollow = calloc(1, sizeof *hollow);
    if (hollow == NULL)
        return NULL;
    *hollow = (struct hollow){.disk.ops = &hollow_ops, .inner = inner, .state = context};
    return &hollow->disk;
}
