/* SPDX-License-Identifier: Apache-2.0
 *
 * Files, names and pending changes of the simulated disk; see disk_medium.h.
 */
#include "tests/lib/disk_medium.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *medium_memory(size_t count, size_t bytes) {
    void *memory = calloc(count ? count : 1, bytes);
    SEL_CHECK(memory != NULL);
    return memory;
}

char *medium_text(const char *text) {
    char *copy = text ? strdup(text) : NULL;
    SEL_CHECK(copy != NULL || text == NULL);
    return copy;
}

/* ---- blocks and images ---- */

struct medium_block *medium_block_new(const void *bytes) {
    struct medium_block *block = malloc(sizeof *block);
    SEL_CHECK(block != NULL);
    block->references = 1;
    if (bytes)
        memcpy(block->bytes, bytes, MEDIUM_BLOCK);
    else
        memset(block->bytes, 0, MEDIUM_BLOCK);
    return block;
}

static struct medium_block *block_share(struct medium_block *block) {
    if (block)
        block->references++;
    return block;
}

static void block_drop(struct medium_block *block) {
    if (block && --block->references == 0)
        free(block);
}

static void image_set(struct medium_image *image, size_t index, struct medium_block *block, bool allocated) {
    block_drop(image->blocks[index]);
    image->blocks[index] = block;
    image->allocated[index] = allocated;
}

static void image_resize(struct medium_image *image, uint64_t size) {
    size_t count = (size_t)(sel_align_up(size, MEDIUM_BLOCK) / MEDIUM_BLOCK);
    for (size_t i = count; i < image->block_count; i++)
        image_set(image, i, NULL, false);
    if (count > image->block_count) {
        image->blocks = realloc(image->blocks, count * sizeof *image->blocks);
        image->allocated = realloc(image->allocated, count * sizeof *image->allocated);
        SEL_CHECK(image->blocks != NULL && image->allocated != NULL);
        memset(image->blocks + image->block_count, 0, (count - image->block_count) * sizeof *image->blocks);
        memset(image->allocated + image->block_count, 0, (count - image->block_count) * sizeof *image->allocated);
    }
    image->block_count = count;
    image->size = size;
}

static void image_extend(struct medium_image *image, uint64_t size) {
    if (size > image->size)
        image_resize(image, size);
}

static void image_clear(struct medium_image *image) {
    image_resize(image, 0);
    free(image->blocks);
    free(image->allocated);
    *image = (struct medium_image){0};
}

static void image_copy(struct medium_image *to, const struct medium_image *from) {
    image_resize(to, 0);
    image_resize(to, from->size);
    for (size_t i = 0; i < from->block_count; i++)
        image_set(to, i, block_share(from->blocks[i]), from->allocated[i]);
}

void medium_read(const struct medium_image *image, uint64_t offset, void *bytes, size_t count) {
    for (size_t at = 0; at < count;) {
        size_t within = (size_t)((offset + at) % MEDIUM_BLOCK), step = SEL_MIN(count - at, MEDIUM_BLOCK - within);
        const struct medium_block *block = image->blocks[(offset + at) / MEDIUM_BLOCK];
        if (block)
            memcpy((char *)bytes + at, block->bytes + within, step);
        else
            memset((char *)bytes + at, 0, step);
        at += step;
    }
}

void medium_poke(struct medium_image *image, uint64_t offset, const void *bytes, size_t count) {
    for (size_t at = 0; at < count;) {
        size_t within = (size_t)((offset + at) % MEDIUM_BLOCK), step = SEL_MIN(count - at, MEDIUM_BLOCK - within);
        size_t index = (size_t)((offset + at) / MEDIUM_BLOCK);
        struct medium_block *block = medium_block_new(image->blocks[index] ? image->blocks[index]->bytes : NULL);
        memcpy(block->bytes + within, (const char *)bytes + at, step);
        image_set(image, index, block, true);
        at += step;
    }
}

uint64_t medium_next_data(const struct medium_image *image, uint64_t offset) {
    for (uint64_t i = offset / MEDIUM_BLOCK; i < image->block_count && i * MEDIUM_BLOCK < image->size; i++)
        if (image->blocks[i])
            return SEL_MAX(i * MEDIUM_BLOCK, offset);
    return UINT64_MAX;
}

uint64_t medium_image_allocated(const struct medium_image *image) {
    uint64_t blocks = 0;
    for (size_t i = 0; i < image->block_count; i++)
        blocks += image->allocated[i];
    return blocks * MEDIUM_BLOCK;
}

uint64_t medium_image_missing(const struct medium_image *image, uint64_t offset, uint64_t bytes) {
    uint64_t missing = 0;
    for (uint64_t i = offset / MEDIUM_BLOCK; i * MEDIUM_BLOCK < offset + bytes; i++)
        missing += i >= image->block_count || !image->allocated[i];
    return missing;
}

/* A block of which only some sectors reached the medium. */
static struct medium_block *block_tear(const struct medium_block *before, const struct medium_block *after,
                                       struct sel_random *random) {
    struct medium_block *torn = medium_block_new(before ? before->bytes : NULL);
    uint64_t sectors = sel_random_u64(random);
    for (size_t i = 0; i < MEDIUM_BLOCK / MEDIUM_SECTOR; i++)
        if (sectors >> i & 1)
            memcpy(torn->bytes + i * MEDIUM_SECTOR, after->bytes + i * MEDIUM_SECTOR, MEDIUM_SECTOR);
    return torn;
}

/* Applies a change of a file; with `random`, block by block at its whim. */
static void image_apply(struct medium_image *image, const struct medium_change *change, struct sel_random *random) {
    if (change->kind == MEDIUM_TRUNCATE) {
        image_resize(image, change->bytes);
        return;
    }
    uint64_t end = change->offset + change->bytes;
    if (change->kind != MEDIUM_PUNCH)
        image_extend(image, end);
    for (uint64_t at = change->offset; at < end && at < image->block_count * (uint64_t)MEDIUM_BLOCK;
         at += MEDIUM_BLOCK) {
        size_t index = (size_t)(at / MEDIUM_BLOCK);
        uint64_t luck = random ? sel_random_below(random, 4) : 0; /* 0, 1: all of it, 2: a part, 3: nothing */
        if (change->kind == MEDIUM_PUNCH && luck < 2)
            image_set(image, index, NULL, false);
        else if (change->kind == MEDIUM_ALLOCATE && luck < 2)
            image->allocated[index] = true;
        else if (change->kind == MEDIUM_WRITE && luck < 3) {
            struct medium_block *block = change->blocks[(at - change->offset) / MEDIUM_BLOCK];
            block = luck == 2 ? block_tear(image->blocks[index], block, random) : block_share(block);
            image_set(image, index, block, true);
        }
    }
}

/* ---- changes ---- */

struct medium_change *medium_submit(struct medium *medium, struct medium_file *file, enum medium_change_kind kind) {
    struct medium_change *change = medium_memory(1, sizeof *change);
    change->kind = kind;
    sel_list_init(&change->link);
    sel_list_add_tail(file ? &file->pending : &medium->pending, &change->link);
    return change;
}

void medium_forget(struct medium_change *change) {
    if (change->blocks)
        for (uint64_t i = 0; i < change->bytes / MEDIUM_BLOCK; i++)
            block_drop(change->blocks[i]);
    free(change->blocks);
    sel_list_remove(&change->link);
    free(change->name);
    free(change->name_to);
    free(change);
}

static struct medium_name *name_find(const struct sel_list *names, const char *name) {
    SEL_LIST_FOR_EACH(cursor, names) {
        struct medium_name *entry = SEL_LIST_ENTRY(cursor, struct medium_name, link);
        if (strcmp(entry->name, name) == 0)
            return entry;
    }
    return NULL;
}

static void name_remove(struct sel_list *names, const char *name) {
    struct medium_name *entry = name_find(names, name);
    if (entry == NULL)
        return;
    sel_list_remove(&entry->link);
    free(entry->name);
    free(entry);
}

static void name_set(struct sel_list *names, const char *name, struct medium_file *file) {
    name_remove(names, name);
    struct medium_name *entry = medium_memory(1, sizeof *entry);
    entry->name = medium_text(name);
    entry->file = file;
    sel_list_init(&entry->link);
    sel_list_add_tail(names, &entry->link);
}

static void names_apply(struct sel_list *names, const struct medium_change *change) {
    if (change->kind == MEDIUM_CREATE) {
        name_set(names, change->name, change->file);
    } else {
        name_remove(names, change->name);
        if (change->kind == MEDIUM_RENAME)
            name_set(names, change->name_to, change->file);
    }
}

static void names_clear(struct sel_list *names) {
    while (!sel_list_empty(names))
        name_remove(names, SEL_LIST_ENTRY(names->next, struct medium_name, link)->name);
}

/* The order of changes is the order in which they were done. */
void medium_done(struct medium *medium, struct medium_file *file, struct medium_change *change) {
    struct sel_list *pending = file ? &file->pending : &medium->pending;
    change->done = true;
    change->done_order = ++medium->order;
    if (file)
        image_apply(&file->now, change, NULL);
    else
        names_apply(&medium->names, change);
    /* Behind the last one that is done, before those in flight. */
    sel_list_remove(&change->link);
    struct sel_list *at = pending->next;
    while (at != pending && SEL_LIST_ENTRY(at, struct medium_change, link)->done)
        at = at->next;
    sel_list_add_tail(at, &change->link);
}

void medium_sync(struct medium *medium, struct medium_file *file, uint64_t order) {
    SEL_LIST_FOR_EACH(cursor, file ? &file->pending : &medium->pending) {
        struct medium_change *change = SEL_LIST_ENTRY(cursor, struct medium_change, link);
        if (!change->done || change->done_order > order)
            continue;
        if (file)
            image_apply(&file->durable, change, NULL);
        else
            names_apply(&medium->names_durable, change);
        medium_forget(change);
    }
}

void medium_distrust(struct medium_file *file, uint64_t order, struct sel_random *random) {
    SEL_LIST_FOR_EACH(cursor, &file->pending) {
        struct medium_change *change = SEL_LIST_ENTRY(cursor, struct medium_change, link);
        if (change->done && change->done_order <= order && sel_random_below(random, 2))
            medium_forget(change);
    }
}

/* ---- crash ---- */

static void file_crash(struct medium_file *file, enum medium_fate (*fate)(void *context), void *context,
                       struct sel_random *random) {
    SEL_LIST_FOR_EACH(cursor, &file->pending) {
        struct medium_change *change = SEL_LIST_ENTRY(cursor, struct medium_change, link);
        enum medium_fate chosen = fate(context);
        if (chosen != MEDIUM_DROP)
            image_apply(&file->durable, change, chosen == MEDIUM_TEAR ? random : NULL);
        medium_forget(change);
    }
    image_copy(&file->now, &file->durable);
    file->opens = 0;
}

void medium_crash(struct medium *medium, enum medium_fate (*fate)(void *context), void *context,
                  struct sel_random *random) {
    SEL_LIST_FOR_EACH(cursor, &medium->files)
    file_crash(SEL_LIST_ENTRY(cursor, struct medium_file, link), fate, context, random);
    SEL_LIST_FOR_EACH(cursor, &medium->pending) {
        struct medium_change *change = SEL_LIST_ENTRY(cursor, struct medium_change, link);
        if (fate(context) != MEDIUM_DROP)
            names_apply(&medium->names_durable, change);
        medium_forget(change);
    }
    names_clear(&medium->names);
    SEL_LIST_FOR_EACH(cursor, &medium->names_durable) {
        struct medium_name *entry = SEL_LIST_ENTRY(cursor, struct medium_name, link);
        name_set(&medium->names, entry->name, entry->file);
    }
    medium_collect(medium);
}

/* ---- the whole ---- */

struct medium_file *medium_file_new(struct medium *medium) {
    struct medium_file *file = medium_memory(1, sizeof *file);
    file->number = ++medium->numbers;
    sel_list_init(&file->link);
    sel_list_init(&file->pending);
    sel_list_add_tail(&medium->files, &file->link);
    return file;
}

struct medium_file *medium_lookup(const struct medium *medium, const char *name) {
    struct medium_name *entry = name_find(&medium->names, name);
    return entry ? entry->file : NULL;
}

static void file_free(struct medium_file *file) {
    while (!sel_list_empty(&file->pending))
        medium_forget(SEL_LIST_ENTRY(file->pending.next, struct medium_change, link));
    image_clear(&file->now);
    image_clear(&file->durable);
    sel_list_remove(&file->link);
    free(file);
}

static bool file_used(const struct medium *medium, const struct medium_file *file) {
    if (file->opens)
        return true;
    SEL_LIST_FOR_EACH(cursor, &medium->pending)
    if (SEL_LIST_ENTRY(cursor, struct medium_change, link)->file == file)
        return true;
    SEL_LIST_FOR_EACH(cursor, &medium->names)
    if (SEL_LIST_ENTRY(cursor, struct medium_name, link)->file == file)
        return true;
    SEL_LIST_FOR_EACH(cursor, &medium->names_durable)
    if (SEL_LIST_ENTRY(cursor, struct medium_name, link)->file == file)
        return true;
    return false;
}

void medium_collect(struct medium *medium) {
    SEL_LIST_FOR_EACH(cursor, &medium->files) {
        struct medium_file *file = SEL_LIST_ENTRY(cursor, struct medium_file, link);
        if (!file_used(medium, file))
            file_free(file);
    }
}

void medium_init(struct medium *medium) {
    sel_list_init(&medium->files);
    sel_list_init(&medium->names);
    sel_list_init(&medium->names_durable);
    sel_list_init(&medium->pending);
    medium->order = medium->numbers = 0;
}

void medium_destroy(struct medium *medium) {
    while (!sel_list_empty(&medium->pending))
        medium_forget(SEL_LIST_ENTRY(medium->pending.next, struct medium_change, link));
    names_clear(&medium->names);
    names_clear(&medium->names_durable);
    while (!sel_list_empty(&medium->files))
        file_free(SEL_LIST_ENTRY(medium->files.next, struct medium_file, link));
}

/* ---- clones ---- */

static struct medium_file *twin(const struct medium *medium, const struct medium_file *file) {
    SEL_LIST_FOR_EACH(cursor, &medium->files) {
        struct medium_file *other = SEL_LIST_ENTRY(cursor, struct medium_file, link);
        if (file && other->number == file->number)
            return other;
    }
    SEL_CHECK(file == NULL);
    return NULL;
}

static void changes_clone(struct medium *medium, struct medium_file *file, const struct sel_list *from) {
    SEL_LIST_FOR_EACH(cursor, from) {
        const struct medium_change *change = SEL_LIST_ENTRY(cursor, struct medium_change, link);
        struct medium_change *copy = medium_submit(medium, file, change->kind);
        copy->done = change->done;
        copy->done_order = change->done_order;
        copy->offset = change->offset;
        copy->bytes = change->bytes;
        copy->file = twin(medium, change->file);
        copy->name = medium_text(change->name);
        copy->name_to = medium_text(change->name_to);
        if (change->blocks == NULL)
            continue;
        copy->blocks = medium_memory((size_t)(change->bytes / MEDIUM_BLOCK), sizeof *copy->blocks);
        for (uint64_t i = 0; i < change->bytes / MEDIUM_BLOCK; i++)
            copy->blocks[i] = block_share(change->blocks[i]);
    }
}

static void names_clone(struct medium *medium, struct sel_list *to, const struct sel_list *from) {
    SEL_LIST_FOR_EACH(cursor, from) {
        const struct medium_name *entry = SEL_LIST_ENTRY(cursor, struct medium_name, link);
        name_set(to, entry->name, twin(medium, entry->file));
    }
}

void medium_clone(struct medium *to, const struct medium *from) {
    medium_init(to);
    to->order = from->order;
    SEL_LIST_FOR_EACH(cursor, &from->files) {
        const struct medium_file *file = SEL_LIST_ENTRY(cursor, struct medium_file, link);
        struct medium_file *copy = medium_file_new(to);
        copy->number = file->number;
        image_copy(&copy->now, &file->now);
        image_copy(&copy->durable, &file->durable);
        changes_clone(to, copy, &file->pending);
    }
    to->numbers = from->numbers;
    names_clone(to, &to->names, &from->names);
    names_clone(to, &to->names_durable, &from->names_durable);
    changes_clone(to, NULL, &from->pending);
}
