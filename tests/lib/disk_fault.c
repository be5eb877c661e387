/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults around a disk. Each io travels in a wrapper io of its own, so that what the inner disk does with it is out of
 * the owner's sight until it is handed back.
 */
#include "tests/lib/disk_fault.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#define FAULTS  8
#define HANDLES 4096

struct disk_fault {
    struct sel_disk disk;
    struct sel_disk *inner;
    struct sel_ready *ready;
    struct sel_disk_fault *faults[FAULTS];
    int fault_count;
    char *names[HANDLES];
    struct sel_list held;
    size_t held_count;
};

struct wrapped {
    struct sel_disk_io io; /* first */
    struct sel_list link;
    struct disk_fault *disk;
    struct sel_disk_io *outer;
    struct sel_disk_fault *fault; /* of which so much is needed later: */
    enum sel_disk_fault_action action;
    int error;
    uint64_t corrupt_at;
    struct iovec *iov;
};

static char *copy(const char *text) {
    char *twin = strdup(text);
    SEL_CHECK(twin != NULL);
    return twin;
}

static const char *name_of(const struct disk_fault *disk, const struct sel_disk_io *io) {
    bool by_name = io->kind == SEL_DISK_OPEN || io->kind == SEL_DISK_UNLINK || io->kind == SEL_DISK_RENAME;
    if (by_name || io->kind == SEL_DISK_SYNC_DIR)
        return by_name && io->name ? io->name : ".";
    return io->file >= 0 && io->file < HANDLES && disk->names[io->file] ? disk->names[io->file] : "";
}

static bool fires(const struct disk_fault *disk, const struct sel_disk_io *io, struct sel_disk_fault *fault) {
    if (fault->countdown == 0 || (fault->kinds && !(fault->kinds >> io->kind & 1)))
        return false;
    if (fault->names && fnmatch(fault->names, name_of(disk, io), 0) != 0)
        return false;
    if (fault->countdown > 1) {
        fault->countdown--;
        return false;
    }
    fault->hits++;
    if (fault->repeat == 0)
        fault->countdown = 0;
    else if (fault->repeat != UINT64_MAX)
        fault->repeat--;
    return true;
}

static void hand_back(struct wrapped *wrapped, int result) {
    struct disk_fault *disk = wrapped->disk;
    struct sel_disk_io *outer = wrapped->outer;
    if (outer->kind == SEL_DISK_OPEN && result == 0) {
        outer->file = wrapped->io.file;
        SEL_CHECK(outer->file < HANDLES);
        free(disk->names[outer->file]);
        disk->names[outer->file] = copy(outer->name);
    }
    outer->size_bytes = wrapped->io.size_bytes;
    outer->allocated_bytes = wrapped->io.allocated_bytes;
    outer->data_offset = wrapped->io.data_offset;
    free(wrapped->iov);
    free(wrapped);
    sel_ready_post(disk->ready, &outer->op, result);
}

static void corrupt(const struct sel_disk_io *io, uint64_t at) {
    uint64_t bytes = 0;
    for (int i = 0; i < io->iov_count; i++)
        bytes += io->iov[i].iov_len;
    at = bytes ? at % bytes : 0;
    for (int i = 0; i < io->iov_count; at -= io->iov[i++].iov_len)
        if (at < io->iov[i].iov_len) {
            ((uint8_t *)io->iov[i].iov_base)[at] ^= 0x10;
            return;
        }
}

static void wrapped_done(struct sel_op *op) {
    struct wrapped *wrapped = (struct wrapped *)op;
    int result = op->result;
    if (wrapped->fault && wrapped->action == SEL_DISK_FAULT_HOLD) {
        sel_list_add_tail(&wrapped->disk->held, &wrapped->link);
        wrapped->disk->held_count++;
        return;
    }
    if (wrapped->fault && wrapped->action == SEL_DISK_FAULT_CORRUPT && result == 0 && wrapped->io.kind == SEL_DISK_READ)
        corrupt(wrapped->outer, wrapped->corrupt_at);
    if (wrapped->fault && wrapped->action == SEL_DISK_FAULT_SHORT)
        result = wrapped->error;
    hand_back(wrapped, result);
}

/* Half of a write, in whole blocks. */
static void shorten(struct wrapped *wrapped) {
    uint64_t bytes = 0;
    wrapped->iov = calloc((size_t)wrapped->io.iov_count + 1, sizeof *wrapped->iov);
    SEL_CHECK(wrapped->iov != NULL);
    for (int i = 0; i < wrapped->io.iov_count; i++)
        bytes += wrapped->io.iov[i].iov_len;
    uint64_t left = bytes / 2 / 4096 * 4096;
    int count = 0;
    for (; left; count++) {
        wrapped->iov[count] = wrapped->io.iov[count];
        wrapped->iov[count].iov_len = SEL_MIN(wrapped->iov[count].iov_len, left);
        left -= wrapped->iov[count].iov_len;
    }
    wrapped->io.iov = wrapped->iov;
    wrapped->io.iov_count = count;
}

static void fault_submit(struct sel_disk *base, struct sel_disk_io *io) {
    struct disk_fault *disk = (struct disk_fault *)base;
    struct sel_disk_fault *fault = NULL;
    sel_op_start(&io->op);
    for (int i = 0; i < disk->fault_count && fault == NULL; i++)
        fault = fires(disk, io, disk->faults[i]) ? disk->faults[i] : NULL;
    bool shortened = fault && fault->action == SEL_DISK_FAULT_SHORT && io->kind == SEL_DISK_WRITE;
    if (fault && (fault->action == SEL_DISK_FAULT_FAIL || (fault->action == SEL_DISK_FAULT_SHORT && !shortened))) {
        sel_ready_post(disk->ready, &io->op, fault->error ? fault->error : SELENE_E_IO);
        return;
    }
    struct wrapped *wrapped = calloc(1, sizeof *wrapped);
    SEL_CHECK(wrapped != NULL);
    wrapped->io = *io;
    sel_op_init(&wrapped->io.op, wrapped_done);
    sel_list_init(&wrapped->link);
    wrapped->disk = disk;
    wrapped->outer = io;
    wrapped->fault = fault;
    if (fault) {
        wrapped->action = fault->action;
        wrapped->error = fault->error ? fault->error : SELENE_E_IO;
        wrapped->corrupt_at = fault->corrupt_at;
    }
    if (shortened)
        shorten(wrapped);
    sel_disk_submit(disk->inner, &wrapped->io);
}

void sel_disk_fault_arm(struct sel_disk *base, struct sel_disk_fault *fault) {
    struct disk_fault *disk = (struct disk_fault *)base;
    SEL_CHECK(disk->fault_count < FAULTS);
    disk->faults[disk->fault_count++] = fault;
}

void sel_disk_fault_clear(struct sel_disk *base) { ((struct disk_fault *)base)->fault_count = 0; }

size_t sel_disk_fault_held(const struct sel_disk *base) { return ((const struct disk_fault *)base)->held_count; }

void sel_disk_fault_release(struct sel_disk *base) {
    struct disk_fault *disk = (struct disk_fault *)base;
    struct sel_list *link;
    while ((link = sel_list_pop(&disk->held)) != NULL) {
        struct wrapped *wrapped = SEL_LIST_ENTRY(link, struct wrapped, link);
        disk->held_count--;
        hand_back(wrapped, wrapped->io.op.result);
    }
}

static void fault_poll(struct sel_disk *disk) { sel_disk_poll(((struct disk_fault *)disk)->inner); }
static void fault_wait(struct sel_disk *disk, uint64_t timeout_ns) {
    struct sel_disk *inner = ((struct disk_fault *)disk)->inner;
    inner->ops->wait(inner, timeout_ns);
}
static int fault_list(struct sel_disk *disk, int (*visit)(void *context, const char *name), void *context) {
    struct sel_disk *inner = ((struct disk_fault *)disk)->inner;
    return inner->ops->list(inner, visit, context);
}
static int fault_lock(struct sel_disk *disk, const char *name, struct selene_message *message) {
    struct sel_disk *inner = ((struct disk_fault *)disk)->inner;
    return inner->ops->lock(inner, name, message);
}
static void fault_register_memory(struct sel_disk *disk, void *base, uint64_t bytes) {
    struct sel_disk *inner = ((struct disk_fault *)disk)->inner;
    inner->ops->register_memory(inner, base, bytes);
}
static const char *fault_backend(const struct sel_disk *disk) {
    const struct sel_disk *inner = ((const struct disk_fault *)disk)->inner;
    return inner->ops->backend(inner);
}
static bool fault_direct(const struct sel_disk *disk) {
    const struct sel_disk *inner = ((const struct disk_fault *)disk)->inner;
    return inner->ops->direct(inner);
}
static void fault_destroy(struct sel_disk *base) {
    struct disk_fault *disk = (struct disk_fault *)base;
    SEL_CHECK(sel_list_empty(&disk->held));
    disk->inner->ops->destroy(disk->inner);
    for (int i = 0; i < HANDLES; i++)
        free(disk->names[i]);
    free(disk);
}

static const struct sel_disk_ops fault_ops = {
    .submit = fault_submit,
    .poll = fault_poll,
    .wait = fault_wait,
    .list = fault_list,
    .lock = fault_lock,
    .register_memory = fault_register_memory,
    .backend = fault_backend,
    .direct = fault_direct,
    .destroy = fault_destroy,
};

int sel_disk_fault_create(struct sel_disk **out, struct sel_disk *inner, struct sel_ready *ready) {
    struct disk_fault *disk = calloc(1, sizeof *disk);
    *out = NULL;
    if (disk == NULL)
        return SELENE_E_NOMEM;
    disk->disk.ops = &fault_ops;
    disk->inner = inner;
    disk->ready = ready;
    sel_list_init(&disk->held);
    *out = &disk->disk;
    return 0;
}
