/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a catalogue file with plain reads, before LMDB maps it (catalog_validate.h).
 *
 * What passes is what LMDB can use without touching memory outside its map, without failing one of its assertions and
 * without allocating a page twice; in particular:
 *   - the meta page that LMDB will choose is sound, and the other one is good enough for LMDB to open the file
 *   - each page in use is inside the file, of the expected kind, carries its own number and is used once
 *   - the nodes of a page tile it exactly from `upper` to its end
 *   - keys ascend through the whole tree and agree with the branch keys above them; all leaves lie equally deep
 *   - free pages are in range, sorted as LMDB merges them, listed once and not in use; the only pages past the end of
 *     the file are free ones
 *   - the counts kept with each tree are right
 *
 * Order: meta pages, then the free list's tree, then ours. Each page is read once, marked in a map of one bit a page,
 * so the work is linear in the file whatever its bytes say.
 */
#include "index/catalog_validate.h"

#include "base/check.h"
#include "index/catalog.h"
#include "index/catalog_page.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES 65536

struct tree {
    uint32_t pad;
    uint16_t flags, depth;
    uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
};

struct meta {
    struct tree free, main;
    uint64_t map_bytes, last_page, transaction;
    uint32_t page_bytes;
};

struct frame {
    uint8_t *page;
    uint64_t number;
    unsigned count, next; /* children of a branch page, and which comes next */
};

struct check {
    struct selene_message *message;
    const char *path;
    int fd;
    uint64_t file_bytes, file_pages;
    struct meta meta;
    uint8_t *seen;        /* one bit a page up to last_page */
    uint16_t *node_bytes; /* size of the node that starts at this half-word of a page; zero between uses */
    uint8_t *chunk;
    uint64_t free_past_end; /* free pages that lie past the end of the file */

    /* the tree being walked */
    struct frame frames[SEL_LMDB_DEPTH_MAX];
    struct tree counted;
    unsigned depth;
    bool is_free;
    unsigned key_bytes;
    uint8_t bound[SEL_CATALOG_KEY_BYTES]; /* the next key must be above it, or equal when bound_included */
    bool bounded, bound_included;
};

static int damaged(struct check *check, uint64_t page, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int damaged(struct check *check, uint64_t page, const char *format, ...) {
    char reason[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    return sel_fail(check->message, SELENE_E_CORRUPT, "%s: page %" PRIu64 ": %s", check->path, page, reason);
}

static int read_at(struct check *check, void *bytes, size_t count, uint64_t offset) {
    for (size_t done = 0; done < count;) {
        ssize_t got = pread(check->fd, (uint8_t *)bytes + done, count - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sel_fail(check->message, sel_error_from_errno(errno), "%s: reading at offset %" PRIu64 ": %s",
                            check->path, offset + done, strerror(errno));
        if (got == 0)
            return sel_fail(check->message, SELENE_E_CORRUPT, "%s: ends at offset %" PRIu64 ", expected %zu bytes more",
                            check->path, offset + done, count - done);
        done += (size_t)got;
    }
    return 0;
}

/* ---- meta pages ---- */

static void unpack_tree(struct tree *tree, const uint8_t *from) {
    tree->pad = sel_native_u32(from);
    tree->flags = sel_native_u16(from + 4);
    tree->depth = sel_native_u16(from + 6);
    tree->branch_pages = sel_native_u64(from + 8);
    tree->leaf_pages = sel_native_u64(from + 16);
    tree->overflow_pages = sel_native_u64(from + 24);
    tree->entries = sel_native_u64(from + 32);
    tree->root = sel_native_u64(from + 40);
}

/* The part of a meta page that LMDB reads of both before it chooses. */
static int read_meta(struct check *check, uint64_t number, uint64_t offset, struct meta *meta) {
    uint8_t bytes[SEL_LMDB_META_BYTES];
    int rc = read_at(check, bytes, sizeof bytes, offset);
    if (rc)
        return rc;
    if (sel_native_u16(bytes + 10) != SEL_LMDB_META || sel_native_u64(bytes) != number)
        return damaged(check, number, "no meta page: flags %#x, number %" PRIu64, sel_native_u16(bytes + 10),
                       sel_native_u64(bytes));
    if (sel_native_u32(bytes + 16) != SEL_LMDB_MAGIC || sel_native_u32(bytes + 20) != SEL_LMDB_VERSION)
        return damaged(check, number, "magic %#x version %u, expected %#x version %u", sel_native_u32(bytes + 16),
                       sel_native_u32(bytes + 20), SEL_LMDB_MAGIC, SEL_LMDB_VERSION);
    meta->map_bytes = sel_native_u64(bytes + 32);
    unpack_tree(&meta->free, bytes + 40);
    unpack_tree(&meta->main, bytes + 88);
    meta->last_page = sel_native_u64(bytes + 136);
    meta->transaction = sel_native_u64(bytes + 144);
    meta->page_bytes = meta->free.pad;
    uint32_t size = meta->page_bytes;
    if (size < SEL_LMDB_PAGE_MIN || size > SEL_LMDB_PAGE_MAX || (size & (size - 1)))
        return damaged(check, number, "page size %u", size);
    return 0;
}

static int check_geometry(struct check *check, uint64_t number) {
    const struct meta *meta = &check->meta;
    check->file_pages = check->file_bytes / meta->page_bytes;
    if (check->file_pages < SEL_LMDB_META_PAGES)
        return damaged(check, number, "file of %" PRIu64 " bytes is shorter than its meta pages", check->file_bytes);
    /* LMDB writes transaction t to meta page t & 1; a commit on a file with the other parity would overwrite the
     * meta page in use. The upper bound keeps the number from wrapping. */
    if ((meta->transaction & 1) != number || meta->transaction > UINT64_MAX / 2)
        return damaged(check, number, "transaction %" PRIu64 " in this meta page", meta->transaction);
    /* Pages past the end of the file must be listed as free, eight bytes each: that bounds the number of pages. A file
     * of holes can be of any size, so there is a limit as well. */
    if (meta->last_page < SEL_LMDB_META_PAGES - 1 || meta->last_page > check->file_pages + check->file_bytes / 8 ||
        meta->last_page > SEL_LMDB_PAGES_MAX)
        return damaged(check, number, "last page %" PRIu64 " in a file of %" PRIu64 " pages", meta->last_page,
                       check->file_pages);
    if (meta->map_bytes / meta->page_bytes < meta->last_page + 1 || meta->map_bytes > UINT64_MAX / 2)
        return damaged(check, number, "map of %" PRIu64 " bytes for %" PRIu64 " pages", meta->map_bytes,
                       meta->last_page + 1);
    if (meta->free.flags != SEL_LMDB_FREE_FLAGS || meta->main.flags != 0 || meta->main.pad != 0)
        return damaged(check, number, "flags %#x and %#x, pad %u, expected %#x, 0 and 0", meta->free.flags,
                       meta->main.flags, meta->main.pad, SEL_LMDB_FREE_FLAGS);
    return 0;
}

/* Chooses the meta page that LMDB will choose: the later transaction, page 0 on a tie. */
static int choose_meta(struct check *check) {
    struct meta metas[SEL_LMDB_META_PAGES] = {0};
    int rc = read_meta(check, 0, 0, &metas[0]);
    if (rc == 0)
        rc = read_meta(check, 1, metas[0].page_bytes, &metas[1]);
    if (rc)
        return rc;
    if (metas[0].page_bytes != metas[1].page_bytes)
        return damaged(check, 1, "page size %u, page 0 says %u", metas[1].page_bytes, metas[0].page_bytes);
    unsigned newer = metas[0].transaction < metas[1].transaction;
    check->meta = metas[newer];
    return check_geometry(check, newer);
}

/* ---- pages and what they are used for ---- */

/* Marks a page as used (or free, with `may_lie_past_end`). */
static int mark(struct check *check, uint64_t from, uint64_t page, bool may_lie_past_end) {
    if (page < SEL_LMDB_META_PAGES || page > check->meta.last_page)
        return damaged(check, from, "refers to page %" PRIu64 ", the last is %" PRIu64, page, check->meta.last_page);
    if (page >= check->file_pages) {
        if (!may_lie_past_end)
            return damaged(check, from, "refers to page %" PRIu64 " past the end of the file", page);
        check->free_past_end++;
    }
    uint8_t bit = (uint8_t)(1u << (page & 7));
    if (check->seen[page / 8] & bit)
        return damaged(check, from, "page %" PRIu64 " is used twice", page);
    check->seen[page / 8] |= bit;
    return 0;
}

/* The next piece of a free list record; `*previous` starts at UINT64_MAX. */
static int check_free_pages(struct check *check, uint64_t from, const uint8_t *bytes, size_t count,
                            uint64_t *previous) {
    for (size_t i = 0; i < count; i++) {
        uint64_t page = sel_native_u64(bytes + 8 * i);
        if (page >= *previous)
            return damaged(check, from, "free list: page %" PRIu64 " after %" PRIu64, page, *previous);
        *previous = page;
        int rc = mark(check, from, page, true);
        if (rc)
            return rc;
    }
    return 0;
}

/* How many pages a record of so many bytes lists; its first number says it. */
static int check_free_count(struct check *check, uint64_t from, const uint8_t *bytes, uint64_t record_bytes,
                            uint64_t *count) {
    *count = sel_native_u64(bytes);
    if (*count > record_bytes / 8 - 1)
        return damaged(check, from, "free list: %" PRIu64 " pages in a record of %" PRIu64 " bytes", *count,
                       record_bytes);
    return 0;
}

/* A free list record in overflow pages: marks the run and reads the list piece by piece. */
static int check_overflow(struct check *check, uint64_t from, uint64_t page, uint64_t record_bytes) {
    uint64_t size = check->meta.page_bytes, count = 0, previous = UINT64_MAX;
    uint8_t head[SEL_LMDB_PAGE_HEAD + 8];
    int rc = mark(check, from, page, false);
    if (rc == 0)
        rc = read_at(check, head, sizeof head, page * size);
    if (rc)
        return rc;
    uint64_t pages = sel_native_u32(head + 12);
    if (sel_native_u64(head) != page || sel_native_u16(head + 10) != SEL_LMDB_OVERFLOW || pages == 0 ||
        pages > check->file_pages - page || pages * size - SEL_LMDB_PAGE_HEAD < record_bytes)
        return damaged(check, page,
                       "overflow page: number %" PRIu64 ", flags %#x, %" PRIu64 " pages for %" PRIu64 " bytes",
                       sel_native_u64(head), sel_native_u16(head + 10), pages, record_bytes);
    for (uint64_t i = 1; rc == 0 && i < pages; i++)
        rc = mark(check, page, page + i, false);
    if (rc == 0)
        rc = check_free_count(check, page, head + SEL_LMDB_PAGE_HEAD, record_bytes, &count);
    uint64_t offset = page * size + sizeof head;
    while (rc == 0 && count > 0) {
        size_t now = (size_t)SEL_MIN(count, CHUNK_BYTES / 8);
        rc = read_at(check, check->chunk, now * 8, offset);
        if (rc == 0)
            rc = check_free_pages(check, page, check->chunk, now, &previous);
        offset += now * 8;
        count -= now;
    }
    check->counted.overflow_pages += pages;
    return rc;
}

/* The record at a leaf node of the free list's tree. */
static int check_free_record(struct check *check, uint64_t page, const uint8_t *node) {
    uint64_t record_bytes = sel_native_u32(node), count = 0, previous = UINT64_MAX;
    const uint8_t *data = node + SEL_LMDB_NODE_HEAD + SEL_LMDB_FREE_KEY;
    if (sel_native_u16(node + 4) == SEL_LMDB_NODE_BIG)
        return check_overflow(check, page, sel_native_u64(data), record_bytes);
    int rc = check_free_count(check, page, data, record_bytes, &count);
    return rc ? rc : check_free_pages(check, page, data + 8, (size_t)count, &previous);
}

/* ---- one page of a tree ---- */

/* The size of a node at `offset`, rounded up to even; 0 when it does not fit or is not of the expected form. */
static unsigned node_size(const struct check *check, const uint8_t *page, unsigned offset, bool leaf, bool first) {
    const uint8_t *node = page + offset;
    unsigned page_bytes = check->meta.page_bytes, key_bytes = sel_native_u16(node + 6);
    if (!leaf) { /* LMDB never looks at the first key of a branch page */
        if (key_bytes != check->key_bytes && !(first && key_bytes == 0))
            return 0;
        return (SEL_LMDB_NODE_HEAD + key_bytes + 1) & ~1u;
    }
    uint32_t data_bytes = sel_native_u32(node);
    uint16_t flags = sel_native_u16(node + 4);
    if (key_bytes != check->key_bytes)
        return 0;
    if (!check->is_free)
        return flags == 0 && data_bytes == SEL_CATALOG_VALUE
                   ? (SEL_LMDB_NODE_HEAD + SEL_CATALOG_KEY_BYTES + SEL_CATALOG_VALUE + 1) & ~1u
                   : 0;
    if (data_bytes < 8 || data_bytes % 8 || flags & ~SEL_LMDB_NODE_BIG)
        return 0;
    if (flags)
        return SEL_LMDB_NODE_HEAD + SEL_LMDB_FREE_KEY + 8;
    /* Two nodes must fit a page: LMDB puts anything larger into overflow pages. */
    unsigned node_bytes_max = (((page_bytes - SEL_LMDB_PAGE_HEAD) / 2) & ~1u) - 2;
    uint64_t bytes = SEL_LMDB_NODE_HEAD + SEL_LMDB_FREE_KEY + (uint64_t)data_bytes;
    return bytes <= node_bytes_max ? (unsigned)bytes : 0;
}

/* Nodes tile the page from `upper` to its end: walks from one to the next by size and counts them. */
static bool nodes_tile(struct check *check, const uint8_t *page, unsigned count, unsigned upper) {
    unsigned at = upper, found = 0;
    while (at < check->meta.page_bytes && check->node_bytes[at / 2]) {
        at += check->node_bytes[at / 2];
        found++;
    }
    for (unsigned i = 0; i < count; i++)
        check->node_bytes[sel_native_u16(page + SEL_LMDB_PAGE_HEAD + 2 * i) / 2] = 0;
    return at == check->meta.page_bytes && found == count;
}

static int check_nodes(struct check *check, const uint8_t *page, uint64_t number, unsigned count, unsigned upper,
                       bool leaf) {
    unsigned size = check->meta.page_bytes, good = 0;
    for (; good < count; good++) {
        unsigned offset = sel_native_u16(page + SEL_LMDB_PAGE_HEAD + 2 * good);
        if (offset < upper || offset > size - SEL_LMDB_NODE_HEAD || offset % 2)
            break;
        unsigned bytes = node_size(check, page, offset, leaf, good == 0);
        if (bytes == 0 || bytes > size - offset || check->node_bytes[offset / 2])
            break;
        check->node_bytes[offset / 2] = (uint16_t)bytes;
    }
    bool tiled = nodes_tile(check, page, good, upper);
    if (good < count)
        return damaged(check, number, "node %u of %u at offset %u: bounds, size or flags", good, count,
                       sel_native_u16(page + SEL_LMDB_PAGE_HEAD + 2 * good));
    return tiled ? 0 : damaged(check, number, "its %u nodes leave gaps", count);
}

static int load_page(struct check *check, struct frame *frame, uint64_t from, uint64_t number, bool leaf) {
    uint64_t size = check->meta.page_bytes;
    int rc = mark(check, from, number, false);
    if (rc == 0)
        rc = read_at(check, frame->page, (size_t)size, number * size);
    if (rc)
        return rc;
    unsigned flags = sel_native_u16(frame->page + 10), lower = sel_native_u16(frame->page + 12);
    unsigned upper = sel_native_u16(frame->page + 14), expected = leaf ? SEL_LMDB_LEAF : SEL_LMDB_BRANCH;
    if (sel_native_u64(frame->page) != number || flags != expected)
        return damaged(check, number, "number %" PRIu64 ", flags %#x, expected flags %#x", sel_native_u64(frame->page),
                       flags, expected);
    frame->number = number;
    frame->next = 0;
    frame->count = lower < SEL_LMDB_PAGE_HEAD ? 0 : (lower - SEL_LMDB_PAGE_HEAD) / 2;
    if (lower % 2 || upper % 2 || lower > upper || upper > size || frame->count < (leaf ? 1 : 2))
        return damaged(check, number, "bounds %u and %u", lower, upper);
    return check_nodes(check, frame->page, number, frame->count, upper, leaf);
}

/* ---- a whole tree ---- */

static const uint8_t *node_at(const struct frame *frame, unsigned index) {
    return frame->page + sel_native_u16(frame->page + SEL_LMDB_PAGE_HEAD + 2 * index);
}

static int compare_keys(const struct check *check, const uint8_t *a, const uint8_t *b) {
    if (!check->is_free)
        return memcmp(a, b, SEL_CATALOG_KEY_BYTES);
    uint64_t x = sel_native_u64(a), y = sel_native_u64(b);
    return x < y ? -1 : x > y;
}

/* Keys ascend. `included`: this one is a branch key, which the first leaf key after it may equal. */
static int check_key(struct check *check, uint64_t page, const uint8_t *key, bool included) {
    if (check->bounded) {
        int order = compare_keys(check, key, check->bound);
        if (order < 0 || (order == 0 && !check->bound_included))
            return damaged(check, page, "keys out of order");
    }
    if (check->is_free ? sel_native_u64(key) == 0 || sel_native_u64(key) > check->meta.transaction
                       : key[0] >= SEL_CATALOG_TABLES)
        return damaged(check, page, "key of no table or transaction");
    memcpy(check->bound, key, check->key_bytes);
    check->bounded = true;
    check->bound_included = included;
    return 0;
}

static int check_leaf(struct check *check, const struct frame *frame) {
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < frame->count; i++) {
        const uint8_t *node = node_at(frame, i);
        rc = check_key(check, frame->number, node + SEL_LMDB_NODE_HEAD, false);
        if (rc == 0 && check->is_free)
            rc = check_free_record(check, frame->number, node);
    }
    check->counted.leaf_pages++;
    check->counted.entries += frame->count;
    return rc;
}

/* Reads the page below `level - 1` and, when it is a leaf, checks it whole. `*level` then is that of the deepest branch
 * page with children left to visit, or -1. */
static int descend(struct check *check, int *level, uint64_t from, uint64_t number) {
    unsigned at = (unsigned)(*level + 1);
    struct frame *frame = &check->frames[at];
    bool leaf = at + 1 == check->depth;
    int rc = load_page(check, frame, from, number, leaf);
    if (rc)
        return rc;
    if (leaf)
        return check_leaf(check, frame);
    check->counted.branch_pages++;
    *level = (int)at;
    return 0;
}

static int walk_pages(struct check *check, uint64_t root) {
    int level = -1;
    int rc = descend(check, &level, 0, root);
    while (rc == 0 && level >= 0) {
        struct frame *frame = &check->frames[level];
        if (frame->next == frame->count) {
            level--;
            continue;
        }
        const uint8_t *node = node_at(frame, frame->next);
        uint64_t child = sel_native_u32(node) | (uint64_t)sel_native_u16(node + 4) << 32;
        if (frame->next++ > 0)
            rc = check_key(check, frame->number, node + SEL_LMDB_NODE_HEAD, true);
        if (rc == 0)
            rc = descend(check, &level, frame->number, child);
    }
    return rc;
}

static int check_tree(struct check *check, const struct tree *tree, bool is_free) {
    const char *name = is_free ? "free list" : "main";
    check->is_free = is_free;
    check->key_bytes = is_free ? SEL_LMDB_FREE_KEY : SEL_CATALOG_KEY_BYTES;
    check->bounded = check->bound_included = false;
    check->depth = tree->depth;
    check->counted = (struct tree){0};
    bool empty = tree->root == SEL_LMDB_PAGE_NONE;
    if (empty != (tree->depth == 0) || tree->depth > SEL_LMDB_DEPTH_MAX)
        return damaged(check, tree->root, "%s tree of depth %u", name, tree->depth);
    for (unsigned i = 0; i < check->depth; i++) {
        if (check->frames[i].page == NULL)
            check->frames[i].page = malloc(check->meta.page_bytes);
        if (check->frames[i].page == NULL)
            return sel_fail(check->message, SELENE_E_NOMEM, "%s: checking it: out of memory", check->path);
    }
    int rc = empty ? 0 : walk_pages(check, tree->root);
    if (rc)
        return rc;
    const struct tree *found = &check->counted;
    if (found->branch_pages != tree->branch_pages || found->leaf_pages != tree->leaf_pages ||
        found->overflow_pages != tree->overflow_pages || found->entries != tree->entries)
        return damaged(check, tree->root,
                       "%s tree: %" PRIu64 " branch, %" PRIu64 " leaf, %" PRIu64 " overflow pages and %" PRIu64
                       " entries, expected %" PRIu64 ", %" PRIu64 ", %" PRIu64 " and %" PRIu64,
                       name, found->branch_pages, found->leaf_pages, found->overflow_pages, found->entries,
                       tree->branch_pages, tree->leaf_pages, tree->overflow_pages, tree->entries);
    return 0;
}

static int check_file(struct check *check) {
    struct stat status;
    if (fstat(check->fd, &status) != 0)
        return sel_fail(check->message, sel_error_from_errno(errno), "%s: %s", check->path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return sel_fail(check->message, SELENE_E_CORRUPT, "%s: not a regular file", check->path);
    if (status.st_size == 0)
        return sel_fail(check->message, SELENE_E_NOTFOUND, "%s: empty", check->path);
    check->file_bytes = (uint64_t)status.st_size;
    int rc = choose_meta(check);
    if (rc)
        return rc;
    (void)posix_fadvise(check->fd, 0, 0, POSIX_FADV_WILLNEED);
    check->seen = calloc((size_t)(check->meta.last_page / 8 + 1), 1);
    check->node_bytes = calloc(check->meta.page_bytes / 2, sizeof *check->node_bytes);
    check->chunk = malloc(CHUNK_BYTES);
    if (!check->seen || !check->node_bytes || !check->chunk)
        return sel_fail(check->message, SELENE_E_NOMEM, "%s: checking it: out of memory", check->path);
    rc = check_tree(check, &check->meta.free, true);
    if (rc == 0)
        rc = check_tree(check, &check->meta.main, false);
    if (rc)
        return rc;
    uint64_t pages = check->meta.last_page + 1;
    if (pages > check->file_pages && check->free_past_end != pages - check->file_pages)
        return damaged(check, check->meta.last_page,
                       "%" PRIu64 " pages in a file of %" PRIu64 ", only %" PRIu64 " of those past its end are free",
                       pages, check->file_pages, check->free_past_end);
    return 0;
}

int sel_catalog_validate(const char *path, struct selene_message *message) {
    struct check check = {.message = message, .path = path};
    check.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (check.fd < 0)
        return sel_fail(message, sel_error_from_errno(errno), "%s: %s", path, strerror(errno));
    int rc = check_file(&check);
    for (unsigned i = 0; i < SEL_LMDB_DEPTH_MAX; i++)
        free(check.frames[i].page);
    free(check.seen);
    free(check.node_bytes);
    free(check.chunk);
    close(check.fd);
    return rc;
}
