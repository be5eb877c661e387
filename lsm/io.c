/* SPDX-License-Identifier: Apache-2.0
 *
 * The store's own ios: started, tracked while in flight, and their results noted for the state of the disk [D9]. Also
 * the aligned header buffers, in one registered slab so that small I/O needs no registration of its own.
 *
 * When the store is being aborted nothing new reaches the disk: an io that is started then completes with
 * SELENE_E_CLOSED, so that every chain of steps comes to its end by its own error path.
 */
#include "lsm/lsm_priv.h"

#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES (UINT64_C(16) << 10)
#define BUFFER_COUNT 128

static void io_done(struct sel_op *op) {
    struct sel_lsm_io *io = SEL_CONTAINER(op, struct sel_lsm_io, io.op);
    sel_list_remove(&io->link);
    if (!io->lsm->aborting)
        sel_state_note(io->lsm, io->io.kind, op->result);
    io->then(io, op->result);
}

void sel_lsm_io_start(struct sel_lsm *lsm, struct sel_lsm_io *io, sel_lsm_then *then, void *owner) {
    sel_op_init(&io->io.op, io_done);
    io->lsm = lsm;
    io->then = then;
    io->owner = owner;
    io->started_ns = sel_mono_ns(lsm->config.clock);
    sel_list_init(&io->link);
    sel_list_add_tail(&lsm->inflight, &io->link);
    if (lsm->aborting) {
        sel_op_start(&io->io.op);
        sel_ready_post(lsm->config.ready, &io->io.op, SELENE_E_CLOSED);
        return;
    }
    sel_disk_submit(lsm->config.disk, &io->io);
}

int sel_buffers_create(struct sel_lsm *lsm) {
    struct sel_buffers *buffers = &lsm->buffers;
    buffers->free = malloc(BUFFER_COUNT * sizeof *buffers->free);
    if (buffers->free == NULL || posix_memalign(&buffers->slab, SEL_DISK_BLOCK, BUFFER_BYTES * BUFFER_COUNT)) {
        buffers->slab = NULL;
        return SELENE_E_NOMEM;
    }
    memset(buffers->slab, 0, BUFFER_BYTES * BUFFER_COUNT);
    for (uint16_t i = 0; i < BUFFER_COUNT; i++)
        buffers->free[buffers->free_count++] = (uint16_t)(BUFFER_COUNT - 1 - i);
    lsm->config.disk->ops->register_memory(lsm->config.disk, buffers->slab, BUFFER_BYTES * BUFFER_COUNT);
    return 0;
}

void sel_buffers_destroy(struct sel_lsm *lsm) {
    free(lsm->buffers.slab);
    free(lsm->buffers.free);
    memset(&lsm->buffers, 0, sizeof lsm->buffers);
}

uint8_t *sel_buffer_get(struct sel_lsm *lsm, uint64_t bytes) {
    struct sel_buffers *buffers = &lsm->buffers;
    if (bytes <= BUFFER_BYTES && buffers->free_count > 0)
        return (uint8_t *)buffers->slab + BUFFER_BYTES * buffers->free[--buffers->free_count];
    void *plain = NULL;
    if (posix_memalign(&plain, SEL_DISK_BLOCK, bytes))
        return NULL;
    return plain;
}

void sel_buffer_put(struct sel_lsm *lsm, uint8_t **buffer) {
    struct sel_buffers *buffers = &lsm->buffers;
    uint8_t *slab = buffers->slab;
    if (*buffer && slab && *buffer >= slab && *buffer < slab + BUFFER_BYTES * BUFFER_COUNT)
        buffers->free[buffers->free_count++] = (uint16_t)((uint64_t)(*buffer - slab) / BUFFER_BYTES);
    else
        free(*buffer);
    *buffer = NULL;
}

int sel_u64s_push(struct sel_u64s *list, uint64_t item) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        uint64_t *items = realloc(list->items, capacity * sizeof *items);
        if (items == NULL)
            return SELENE_E_NOMEM;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
    return 0;
}

void sel_lsm_turn(struct sel_lsm *lsm) {
    sel_lsm_poll(lsm);
    if (sel_ready_run(lsm->config.ready, 1024) == 0)
        lsm->config.disk->ops->wait(lsm->config.disk, SEL_NS_PER_MS);
}

int sel_lsm_run(struct sel_lsm *lsm, struct sel_disk_io *io) {
    sel_op_init(&io->op, NULL);
    return sel_disk_run(lsm->config.disk, lsm->config.ready, io);
}
