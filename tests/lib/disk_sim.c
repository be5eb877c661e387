/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated disk: the queue of ios in flight, virtual time, steps, and the table of the seam. What the medium holds
 * is disk_medium.c's.
 *
 *   submit: step -> checked -> in flight, with its change on the medium as submitted
 *   poll:   those whose time has come, in order of time: step -> effect -> sel_ready
 */
#include "tests/lib/disk_sim_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HANDLES      4096
#define POISON       0xdb
#define ALIGNMENT    4096
#define NAME_MAXIMUM 255

struct sim_disk {
    struct sel_disk disk;
    struct sel_disk_sim *sim;
    struct sel_ready *ready;
    struct medium_file *files[HANDLES];
};

struct flight {
    struct sel_list link;
    struct sel_disk_io *io;
    uint64_t due_ns;
    uint64_t sync_order;
    struct medium_file *file;
    struct medium_change *change;
    int verdict; /* decided at submission */
};

static const char *const kind_names[] = {"OPEN",     "CLOSE",  "READ",   "WRITE", "SYNC",      "ALLOCATE", "PUNCH",
                                         "TRUNCATE", "UNLINK", "RENAME", "STAT",  "NEXT_DATA", "SYNC_DIR"};

/* The store above did what it must never do. */
_Noreturn static void die(const struct sel_disk_io *io, const char *what) {
    fprintf(stderr, "disk_sim: %s: %s (file %d, offset %llu)\n", kind_names[io->kind], what, io->file,
            (unsigned long long)io->offset);
    abort();
}

static uint64_t io_bytes(const struct sel_disk_io *io) {
    uint64_t bytes = io->bytes;
    if (io->kind == SEL_DISK_READ || io->kind == SEL_DISK_WRITE) {
        bytes = 0;
        for (int i = 0; i < io->iov_count; i++)
            bytes += io->iov[i].iov_len;
    }
    return bytes;
}

void sel_disk_sim_step(struct sel_disk_sim *sim) {
    if (sim->cut)
        return;
    sim->stats.steps++;
    if (sim->hook)
        sim->hook(sim->hook_context, sim->stats.steps);
    if (sim->stats.steps == sim->cut_step)
        sim->cut = true;
}

/* ---- submitting ---- */

static void check_alignment(const struct sel_disk_io *io) {
    bool transfer = io->kind == SEL_DISK_READ || io->kind == SEL_DISK_WRITE;
    if (io->offset % ALIGNMENT)
        die(io, "misaligned offset");
    for (int i = 0; transfer && i < io->iov_count; i++)
        if (((uintptr_t)io->iov[i].iov_base | io->iov[i].iov_len) % ALIGNMENT)
            die(io, "misaligned memory or length");
    if (!transfer && io->kind != SEL_DISK_TRUNCATE && io->bytes % ALIGNMENT)
        die(io, "misaligned length");
}

static bool changes_range(const struct sel_disk_io *io) {
    return io->kind == SEL_DISK_WRITE || io->kind == SEL_DISK_PUNCH;
}

static void count_overlaps(struct sel_disk_sim *sim, const struct sel_disk_io *io, const struct medium_file *file) {
    SEL_LIST_FOR_EACH(cursor, &sim->flights) {
        const struct flight *other = SEL_LIST_ENTRY(cursor, struct flight, link);
        bool ranges = (changes_range(io) || io->kind == SEL_DISK_READ) &&
                      (changes_range(other->io) || other->io->kind == SEL_DISK_READ);
        if (other->file != file || !ranges || !(changes_range(io) || changes_range(other->io)))
            continue;
        if (io->offset < other->io->offset + io_bytes(other->io) && other->io->offset < io->offset + io_bytes(io))
            sim->stats.overlaps++;
    }
}

static void change_range(struct sel_disk_sim *sim, struct flight *flight, enum medium_change_kind kind) {
    flight->change = medium_submit(&sim->medium, flight->file, kind);
    flight->change->offset = kind == MEDIUM_TRUNCATE ? 0 : flight->io->offset;
    flight->change->bytes = io_bytes(flight->io);
}

static void begin_write(struct sel_disk_sim *sim, struct flight *flight) {
    change_range(sim, flight, MEDIUM_WRITE);
    struct medium_change *change = flight->change;
    change->blocks = medium_memory((size_t)(change->bytes / MEDIUM_BLOCK), sizeof *change->blocks);
    size_t next = 0;
    for (int i = 0; i < flight->io->iov_count; i++)
        for (size_t at = 0; at < flight->io->iov[i].iov_len; at += MEDIUM_BLOCK)
            change->blocks[next++] = medium_block_new((const char *)flight->io->iov[i].iov_base + at);
}

static void begin_names(struct sel_disk_sim *sim, struct flight *flight) {
    struct sel_disk_io *io = flight->io;
    struct medium_file *file = medium_lookup(&sim->medium, io->name);
    bool create = io->kind == SEL_DISK_OPEN && (io->flags & SEL_DISK_OPEN_CREATE);
    if (create == (file != NULL)) {
        flight->verdict = create ? SELENE_E_IO : SELENE_E_NOTFOUND;
        return;
    }
    flight->file = create ? medium_file_new(&sim->medium) : file;
    flight->file->opens += io->kind == SEL_DISK_OPEN;
    if (io->kind == SEL_DISK_OPEN && !create)
        return;
    flight->change = medium_submit(&sim->medium, NULL,
                                   create                        ? MEDIUM_CREATE
                                   : io->kind == SEL_DISK_RENAME ? MEDIUM_RENAME
                                                                 : MEDIUM_UNLINK);
    flight->change->file = io->kind == SEL_DISK_UNLINK ? NULL : flight->file;
    flight->change->name = medium_text(io->name);
    flight->change->name_to = io->kind == SEL_DISK_RENAME ? medium_text(io->name_to) : NULL;
}

static bool name_ok(const char *name) {
    return name && name[0] && strlen(name) <= NAME_MAXIMUM && strchr(name, '/') == NULL && strcmp(name, "..") != 0;
}

static void begin_file(struct sel_disk_sim *sim, struct flight *flight) {
    struct sel_disk_io *io = flight->io;
    switch (io->kind) {
    case SEL_DISK_READ:
        for (int i = 0; i < io->iov_count; i++)
            memset(io->iov[i].iov_base, POISON, io->iov[i].iov_len);
        break;
    case SEL_DISK_WRITE:
        begin_write(sim, flight);
        break;
    case SEL_DISK_ALLOCATE:
    case SEL_DISK_PUNCH:
        if (sim->config.no_fallocate)
            flight->verdict = SELENE_E_UNSUPPORTED;
        else
            change_range(sim, flight, io->kind == SEL_DISK_PUNCH ? MEDIUM_PUNCH : MEDIUM_ALLOCATE);
        break;
    case SEL_DISK_TRUNCATE:
        change_range(sim, flight, MEDIUM_TRUNCATE);
        break;
    case SEL_DISK_CLOSE:
        SEL_LIST_FOR_EACH(cursor, &sim->flights)
        if (SEL_LIST_ENTRY(cursor, struct flight, link)->file == flight->file)
            die(io, "closed with I/O in flight");
        break;
    default:
        break;
    }
}

static void begin(struct sim_disk *disk, struct flight *flight) {
    struct sel_disk_sim *sim = disk->sim;
    struct sel_disk_io *io = flight->io;
    flight->sync_order = sim->medium.order;
    if (io->kind == SEL_DISK_OPEN || io->kind == SEL_DISK_UNLINK || io->kind == SEL_DISK_RENAME) {
        if (!name_ok(io->name) || (io->kind == SEL_DISK_RENAME && !name_ok(io->name_to)))
            flight->verdict = SELENE_E_INVALID;
        else
            begin_names(sim, flight);
        return;
    }
    if (io->kind == SEL_DISK_SYNC_DIR)
        return;
    if (io->file < 0 || io->file >= HANDLES || disk->files[io->file] == NULL) {
        flight->verdict = SELENE_E_INVALID;
        return;
    }
    check_alignment(io);
    flight->file = disk->files[io->file];
    count_overlaps(sim, io, flight->file);
    begin_file(sim, flight);
}

static void count_flights(struct sel_disk_sim *sim) {
    uint64_t all = 0, reads = 0;
    SEL_LIST_FOR_EACH(cursor, &sim->flights) {
        all++;
        reads += SEL_LIST_ENTRY(cursor, struct flight, link)->io->kind == SEL_DISK_READ;
    }
    sim->stats.in_flight = all;
    sim->stats.in_flight_max = SEL_MAX(sim->stats.in_flight_max, all);
    sim->stats.reads_in_flight_max = SEL_MAX(sim->stats.reads_in_flight_max, reads);
}

static void sim_submit(struct sel_disk *base, struct sel_disk_io *io) {
    struct sim_disk *disk = (struct sim_disk *)base;
    struct sel_disk_sim *sim = disk->sim;
    sel_op_start(&io->op);
    if (io->kind > SEL_DISK_SYNC_DIR) {
        sel_ready_post(disk->ready, &io->op, SELENE_E_INVALID);
        return;
    }
    sel_disk_sim_step(sim);
    if (sim->cut) {
        sel_ready_post(disk->ready, &io->op, SELENE_E_IO);
        return;
    }
    struct flight *flight = medium_memory(1, sizeof *flight);
    flight->io = io;
    flight->due_ns =
        sim->clock->mono + sim->config.latency_ns / 2 + sel_random_below(&sim->random, sim->config.latency_ns + 1);
    begin(disk, flight);
    sel_list_init(&flight->link);
    sel_list_add_tail(&sim->flights, &flight->link);
    count_flights(sim);
}

/* ---- completing ---- */

uint64_t sel_disk_sim_allocated(const struct sel_disk_sim *sim) {
    uint64_t bytes = 0;
    SEL_LIST_FOR_EACH(cursor, &sim->medium.files) {
        const struct medium_file *file = SEL_LIST_ENTRY(cursor, struct medium_file, link);
        bool named = false;
        SEL_LIST_FOR_EACH(name, &sim->medium.names)
        named |= SEL_LIST_ENTRY(name, struct medium_name, link)->file == file;
        if (named || file->opens)
            bytes += medium_image_allocated(&file->now);
    }
    return bytes;
}

static bool has_room(const struct sel_disk_sim *sim, const struct flight *flight) {
    if (sim->config.capacity_bytes == 0)
        return true;
    uint64_t missing =
        medium_image_missing(&flight->file->now, flight->change->offset, flight->change->bytes) * MEDIUM_BLOCK;
    return missing == 0 || sel_disk_sim_allocated(sim) + missing <= sim->config.capacity_bytes;
}

static int end_change(struct sel_disk_sim *sim, struct flight *flight) {
    const struct sel_disk_io *io = flight->io;
    bool grows = io->kind == SEL_DISK_WRITE || io->kind == SEL_DISK_ALLOCATE;
    size_t next = 0;
    for (int i = 0; io->kind == SEL_DISK_WRITE && i < io->iov_count; i++)
        for (size_t at = 0; at < io->iov[i].iov_len; at += MEDIUM_BLOCK)
            if (memcmp(flight->change->blocks[next++]->bytes, (const char *)io->iov[i].iov_base + at, MEDIUM_BLOCK))
                die(io, "the memory changed while the write was in flight");
    if (grows && !has_room(sim, flight)) {
        medium_forget(flight->change);
        return SELENE_E_NOSPACE;
    }
    medium_done(&sim->medium, flight->file, flight->change);
    return 0;
}

static int end_read(const struct flight *flight) {
    const struct sel_disk_io *io = flight->io;
    const struct medium_image *image = &flight->file->now;
    uint64_t at = io->offset, bytes = io_bytes(io);
    if (at > image->size || bytes > image->size - at)
        return SELENE_E_IO;
    for (int i = 0; i < io->iov_count; at += io->iov[i++].iov_len)
        medium_read(image, at, io->iov[i].iov_base, io->iov[i].iov_len);
    return 0;
}

static int end_sync(struct sel_disk_sim *sim, const struct flight *flight) {
    if (flight->file && sim->fail_sync && --sim->fail_sync == 0) {
        medium_distrust(flight->file, flight->sync_order, &sim->random);
        return SELENE_E_IO;
    }
    medium_sync(&sim->medium, flight->file, flight->sync_order);
    if (flight->file == NULL)
        medium_collect(&sim->medium);
    return 0;
}

static int end_names(struct sim_disk *disk, struct flight *flight) {
    struct sel_disk_io *io = flight->io;
    if (flight->change)
        medium_done(&disk->sim->medium, NULL, flight->change);
    if (io->kind != SEL_DISK_OPEN)
        return 0;
    io->file = 0;
    while (io->file < HANDLES && disk->files[io->file])
        io->file++;
    if (io->file == HANDLES)
        die(io, "too many open files");
    disk->files[io->file] = flight->file;
    return 0;
}

static int end(struct sim_disk *disk, struct flight *flight) {
    struct sel_disk_io *io = flight->io;
    if (flight->verdict)
        return flight->verdict;
    switch (io->kind) {
    case SEL_DISK_OPEN:
    case SEL_DISK_UNLINK:
    case SEL_DISK_RENAME:
        return end_names(disk, flight);
    case SEL_DISK_READ:
        return end_read(flight);
    case SEL_DISK_SYNC:
    case SEL_DISK_SYNC_DIR:
        return end_sync(disk->sim, flight);
    case SEL_DISK_STAT:
        io->size_bytes = flight->file->now.size;
        io->allocated_bytes = medium_image_allocated(&flight->file->now);
        return 0;
    case SEL_DISK_NEXT_DATA:
        if (disk->sim->config.no_fallocate)
            return SELENE_E_UNSUPPORTED;
        io->data_offset = medium_next_data(&flight->file->now, io->offset);
        return 0;
    case SEL_DISK_CLOSE:
        disk->files[io->file] = NULL;
        flight->file->opens--;
        return 0;
    default:
        return end_change(disk->sim, flight);
    }
}

static struct flight *earliest(const struct sel_disk_sim *sim) {
    struct flight *first = NULL;
    SEL_LIST_FOR_EACH(cursor, &sim->flights) {
        struct flight *flight = SEL_LIST_ENTRY(cursor, struct flight, link);
        if (first == NULL || flight->due_ns < first->due_ns)
            first = flight;
    }
    return first;
}

uint64_t sel_disk_sim_next_ns(const struct sel_disk_sim *sim) {
    const struct flight *first = earliest(sim);
    return first ? first->due_ns : UINT64_MAX;
}

static void sim_poll(struct sel_disk *base) {
    struct sim_disk *disk = (struct sim_disk *)base;
    struct sel_disk_sim *sim = disk->sim;
    struct flight *flight;
    while ((flight = earliest(sim)) != NULL && (sim->cut || flight->due_ns <= sim->clock->mono)) {
        sel_disk_sim_step(sim);
        sel_list_remove(&flight->link);
        int result = sim->cut ? SELENE_E_IO : end(disk, flight);
        if (!sim->cut)
            sim->stats.ios[flight->io->kind]++;
        sel_ready_post(disk->ready, &flight->io->op, result);
        free(flight);
    }
}

static void sim_wait(struct sel_disk *base, uint64_t timeout_ns) {
    struct sim_disk *disk = (struct sim_disk *)base;
    uint64_t next_ns = sel_disk_sim_next_ns(disk->sim), now_ns = disk->sim->clock->mono;
    if (sel_ready_pending(disk->ready) || disk->sim->cut || next_ns <= now_ns)
        return;
    sel_clock_manual_advance(disk->sim->clock, SEL_MIN(next_ns - now_ns, timeout_ns));
}

/* ---- the rest of the table ---- */

static int sim_list(struct sel_disk *base, int (*visit)(void *context, const char *name), void *context) {
    int result = 0;
    SEL_LIST_FOR_EACH(cursor, &((struct sim_disk *)base)->sim->medium.names) {
        if (result == 0)
            result = visit(context, SEL_LIST_ENTRY(cursor, struct medium_name, link)->name);
    }
    return result;
}

static int sim_lock(struct sel_disk *base, const char *name, struct selene_message *message) {
    struct sim_disk *disk = (struct sim_disk *)base;
    if (!name_ok(name) || disk->sim->locked)
        return sel_fail(message, SELENE_E_IN_USE, "simulated disk: locked already");
    disk->sim->locked = true;
    return 0;
}

static void sim_register_memory(struct sel_disk *disk, void *base, uint64_t bytes) {
    (void)disk, (void)base, (void)bytes;
}

static const char *sim_backend(const struct sel_disk *disk) {
    (void)disk;
    return "simulated";
}

static bool sim_direct(const struct sel_disk *disk) {
    (void)disk;
    return true;
}

static void sim_destroy(struct sel_disk *base) {
    struct sim_disk *disk = (struct sim_disk *)base;
    struct sel_disk_sim *sim = disk->sim;
    SEL_CHECK(sel_list_empty(&sim->flights));
    for (int i = 0; i < HANDLES; i++)
        if (disk->files[i])
            disk->files[i]->opens--;
    medium_collect(&sim->medium);
    sim->open = NULL;
    sim->locked = false;
    free(disk);
}

static const struct sel_disk_ops sim_ops = {
    .submit = sim_submit,
    .poll = sim_poll,
    .wait = sim_wait,
    .list = sim_list,
    .lock = sim_lock,
    .register_memory = sim_register_memory,
    .backend = sim_backend,
    .direct = sim_direct,
    .destroy = sim_destroy,
};

int sel_disk_sim_open(struct sel_disk **out, struct sel_disk_sim *sim, struct sel_ready *ready) {
    *out = NULL;
    if (sim->open)
        return SELENE_E_IN_USE;
    struct sim_disk *disk = medium_memory(1, sizeof *disk);
    disk->disk.ops = &sim_ops;
    disk->sim = sim;
    disk->ready = ready;
    sim->open = disk;
    *out = &disk->disk;
    return 0;
}
