/* SPDX-License-Identifier: Apache-2.0
 *
 * One build of the hashing and copying code for each instruction set; checksum.c picks one. Every build gives the same
 * values. `name` as in sel_checksum_backend(). The functions are those of checksum.h; copy_plane() leaves the fence to
 * its caller.
 */
#ifndef SEL_BASE_XXH3_H
#define SEL_BASE_XXH3_H

#include <stddef.h>
#include <stdint.h>

struct sel_xxh3 {
    const char *name;
    uint64_t (*hash64)(const void *bytes, size_t count, uint64_t seed);
    void (*plane)(uint64_t *hashes, const void *plane, size_t count);
    void (*copy_plane)(uint64_t *hashes, void *to, const void *from, size_t count, const void *next);
    void (*copy)(void *to, const void *from, size_t count);
};

extern const struct sel_xxh3 sel_xxh3_portable;
extern const struct sel_xxh3 sel_xxh3_sse2;
extern const struct sel_xxh3 sel_xxh3_avx2;
extern const struct sel_xxh3 sel_xxh3_avx512;

#endif
