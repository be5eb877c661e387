/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeded damage to a catalogue file held in memory: what a bad disk, a torn write or a hostile hand could leave.
 */
#ifndef SEL_TESTS_CATALOG_DAMAGE_H
#define SEL_TESTS_CATALOG_DAMAGE_H

#include "base/random.h"

#include <stddef.h>
#include <stdint.h>

struct image {
    uint8_t *bytes;
    size_t count, capacity;
};

/* Reads a whole file; aborts when it cannot. */
void image_read(struct image *image, const char *path);
void image_copy(struct image *to, const struct image *from);
void image_write(const struct image *image, const char *path);
void image_free(struct image *image);

/* Damages `image` in one to three places; `other` is the file that pages may be spliced from. Half of the damage is
 * aimed: fields of meta pages, page heads, node offsets, node heads, free lists. */
void damage(struct image *image, const struct image *other, struct sel_random *random);

#endif
