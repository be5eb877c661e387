/* SPDX-License-Identifier: Apache-2.0
 *
 * What the simulated disk remembers: files and the directory, each as it is now, as it is for certain after a crash,
 * and the changes between the two. Private to disk_sim.
 *
 *   now      durable + all pending changes that are done
 *   crash    durable + any part of the pending changes, done or not
 *
 * Contents are arrays of 4 KiB blocks that are never changed in place, so images and clones share them. Memory that
 * cannot be had ends the test.
 */
#ifndef SEL_TESTS_DISK_MEDIUM_H
#define SEL_TESTS_DISK_MEDIUM_H

#include "base/list.h"
#include "base/random.h"

#define MEDIUM_BLOCK  4096
#define MEDIUM_SECTOR 512

struct medium_block {
    unsigned references;
    uint8_t bytes[MEDIUM_BLOCK];
};

struct medium_image {
    uint64_t size;
    size_t block_count;
    struct medium_block **blocks; /* NULL: zeros */
    bool *allocated;
};

enum medium_change_kind {
    MEDIUM_WRITE,
    MEDIUM_ALLOCATE,
    MEDIUM_PUNCH,
    MEDIUM_TRUNCATE,
    MEDIUM_CREATE,
    MEDIUM_RENAME,
    MEDIUM_UNLINK
};

struct medium_file;

struct medium_change {
    struct sel_list link;
    enum medium_change_kind kind;
    bool done;
    uint64_t done_order; /* counts up over the medium */
    uint64_t offset;
    uint64_t bytes;
    struct medium_block **blocks; /* WRITE */
    struct medium_file *file;     /* CREATE, RENAME */
    char *name;                   /* directory changes */
    char *name_to;
};

struct medium_file {
    struct sel_list link;
    uint64_t number; /* stays the same in clones */
    unsigned opens;
    struct medium_image now;
    struct medium_image durable;
    struct sel_list pending;
};

struct medium_name {
    struct sel_list link;
    char *name;
    struct medium_file *file;
};

struct medium {
    struct sel_list files;
    struct sel_list names;         /* now */
    struct sel_list names_durable; /* for certain after a crash */
    struct sel_list pending;       /* changes of the directory */
    uint64_t order;
    uint64_t numbers;
};

enum medium_fate { MEDIUM_KEEP, MEDIUM_DROP, MEDIUM_TEAR };

void medium_init(struct medium *medium);
void medium_destroy(struct medium *medium);
void medium_clone(struct medium *to, const struct medium *from);

/* A change that was submitted: appended to the pending ones of `file`, or of the directory. */
struct medium_change *medium_submit(struct medium *medium, struct medium_file *file, enum medium_change_kind kind);
/* It is done: reads see it. */
void medium_done(struct medium *medium, struct medium_file *file, struct medium_change *change);
/* It did not happen at all. */
void medium_forget(struct medium_change *change);

/* Changes that were done up to `order` are durable now. file NULL: the directory. */
void medium_sync(struct medium *medium, struct medium_file *file, uint64_t order);
/* A sync of the file failed: some of those changes will never be. */
void medium_distrust(struct medium_file *file, uint64_t order, struct sel_random *random);

/* After a crash nothing is pending, and what is now is durable. `fate` chooses for each change. */
void medium_crash(struct medium *medium, enum medium_fate (*fate)(void *context), void *context,
                  struct sel_random *random);

struct medium_file *medium_file_new(struct medium *medium);
struct medium_file *medium_lookup(const struct medium *medium, const char *name);
/* Frees files that no name, handle or pending change leads to. */
void medium_collect(struct medium *medium);

void medium_read(const struct medium_image *image, uint64_t offset, void *bytes, size_t count);
void medium_poke(struct medium_image *image, uint64_t offset, const void *bytes, size_t count);
struct medium_block *medium_block_new(const void *bytes);
/* Where the next block lies that was written and not punched; UINT64_MAX: none. */
uint64_t medium_next_data(const struct medium_image *image, uint64_t offset);
uint64_t medium_image_allocated(const struct medium_image *image);
/* Blocks that a change would allocate anew. */
uint64_t medium_image_missing(const struct medium_image *image, uint64_t offset, uint64_t bytes);

void *medium_memory(size_t count, size_t bytes); /* zeroed; never NULL */
char *medium_text(const char *text);             /* NULL gives NULL */

#endif
