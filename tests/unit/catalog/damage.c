/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeded damage to an image of a catalogue file. One function a kind; numbers that replace fields are chosen near what
 * was there, near bounds, or at random.
 */
#include "tests/unit/catalog/damage.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096

static void fit(struct image *image, size_t count) {
    if (count > image->capacity) {
        image->bytes = realloc(image->bytes, count);
        image->capacity = count;
        if (image->bytes == NULL)
            abort();
    }
    image->count = count;
}

void image_read(struct image *image, const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        abort();
    fit(image, (size_t)ftell(file));
    rewind(file);
    if (fread(image->bytes, 1, image->count, file) != image->count)
        abort();
    fclose(file);
}

void image_copy(struct image *to, const struct image *from) {
    fit(to, from->count);
    memcpy(to->bytes, from->bytes, from->count);
}

void image_write(const struct image *image, const char *path) {
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(image->bytes, 1, image->count, file) != image->count || fclose(file) != 0)
        abort();
}

void image_free(struct image *image) {
    free(image->bytes);
    *image = (struct image){0};
}

static size_t below(struct sel_random *random, size_t bound) { return (size_t)sel_random_below(random, bound); }

/* A number that is likely to matter: small, near a bound, near what was there, a page number, or any. */
static uint64_t number(struct sel_random *random, uint64_t was, size_t pages) {
    switch (below(random, 9)) {
    case 0:
        return below(random, 8);
    case 1:
        return was + 1 + below(random, 3);
    case 2:
        return was - 1 - below(random, 3);
    case 3:
        return was ^ UINT64_C(1) << below(random, 64);
    case 4:
        return below(random, pages + 2);
    case 5:
        return UINT64_MAX - below(random, 3);
    case 6:
        return PAGE - 16 + below(random, 32);
    case 7:
        return below(random, PAGE);
    default:
        return sel_random_u64(random);
    }
}

/* Rewrites a little-endian field of 2, 4 or 8 bytes. */
static void rewrite(struct image *image, size_t at, size_t bytes, struct sel_random *random) {
    if (image->count < 8 || at > image->count - bytes)
        return;
    uint64_t value = 0;
    memcpy(&value, image->bytes + at, bytes);
    value = number(random, value, image->count / PAGE);
    memcpy(image->bytes + at, &value, bytes);
}

static void damage_meta(struct image *image, struct sel_random *random) {
    static const struct {
        uint8_t at, bytes;
    } fields[] = {{0, 8},  {10, 2},  {16, 4},  {20, 4},  {32, 8},  {40, 4},  {44, 2}, {46, 2},
                  {48, 8}, {56, 8},  {64, 8},  {72, 8},  {80, 8},  {88, 4},  {92, 2}, {94, 2},
                  {96, 8}, {104, 8}, {112, 8}, {120, 8}, {128, 8}, {136, 8}, {144, 8}};
    size_t i = below(random, SEL_COUNT(fields));
    rewrite(image, below(random, 2) * PAGE + fields[i].at, fields[i].bytes, random);
}

/* Fields of a page's head, an entry of its table of nodes, or a field of a node's head. */
static void damage_page(struct image *image, struct sel_random *random) {
    size_t pages = image->count / PAGE;
    if (pages == 0)
        return;
    size_t page = below(random, pages) * PAGE;
    const uint8_t *bytes = image->bytes + page;
    uint16_t lower, offset;
    memcpy(&lower, bytes + 12, 2);
    size_t nodes = lower > 17 && lower <= PAGE ? (lower - 16u) / 2 : 1, node = 16 + 2 * below(random, nodes);
    memcpy(&offset, bytes + (node < PAGE - 1 ? node : 16), 2);
    switch (below(random, 4)) {
    case 0:
        rewrite(image, page + 8 + 2 * below(random, 4), 2, random);
        break;
    case 1:
        rewrite(image, page, 8, random);
        break;
    case 2:
        rewrite(image, page + node, 2, random);
        break;
    default: /* head of a node, its key, or the first bytes after: a free list's count and pages */
        rewrite(image, page + offset + 2 * below(random, 20), below(random, 2) ? 2 : 8, random);
        break;
    }
}

static void copy_page(struct image *image, const struct image *from, struct sel_random *random) {
    size_t to_pages = image->count / PAGE, from_pages = from->count / PAGE;
    if (to_pages == 0 || from_pages == 0)
        return;
    size_t to = below(random, to_pages), source = below(random, from_pages);
    memmove(image->bytes + to * PAGE, from->bytes + source * PAGE, PAGE);
    if (below(random, 2)) { /* with the right number: a page of another time or another file in its place */
        uint64_t page = to;
        memcpy(image->bytes + to * PAGE, &page, sizeof page);
    }
}

static void swap_pages(struct image *image, struct sel_random *random) {
    size_t pages = image->count / PAGE;
    if (pages == 0)
        return;
    uint8_t page[PAGE], *a = image->bytes + below(random, pages) * PAGE,
                        *b = image->bytes + below(random, pages) * PAGE;
    memcpy(page, a, PAGE);
    memmove(a, b, PAGE);
    memcpy(b, page, PAGE);
}

static void overwrite(struct image *image, struct sel_random *random) {
    if (image->count == 0)
        return;
    size_t at = below(random, image->count), count = 1 + below(random, 600);
    count = SEL_MIN(count, image->count - at);
    if (below(random, 3) == 0)
        memset(image->bytes + at, below(random, 2) ? 0 : 0xff, count);
    else
        sel_random_fill(random, image->bytes + at, count);
}

static void resize(struct image *image, struct sel_random *random) {
    size_t was = image->count, pages = was / PAGE, step = below(random, 3);
    size_t count = step == 0 ? below(random, was + 1) : step == 1 ? below(random, pages + 1) * PAGE : was + PAGE;
    fit(image, count);
    if (count > was)
        memset(image->bytes + was, 0, count - was);
}

void damage(struct image *image, const struct image *other, struct sel_random *random) {
    for (size_t i = 1 + below(random, 3); i > 0; i--) {
        size_t at;
        switch (below(random, 12)) {
        case 0:
            if (image->count > 0) {
                at = below(random, image->count);
                image->bytes[at] ^= (uint8_t)(1u << below(random, 8));
            }
            break;
        case 1:
            overwrite(image, random);
            break;
        case 2:
            swap_pages(image, random);
            break;
        case 3:
            copy_page(image, other, random);
            break;
        case 4:
            copy_page(image, image, random);
            break;
        case 5:
            resize(image, random);
            break;
        case 6:
        case 7:
            damage_meta(image, random);
            break;
        default:
            damage_page(image, random);
            break;
        }
    }
}
