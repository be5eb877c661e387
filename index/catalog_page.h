/* SPDX-License-Identifier: Apache-2.0
 *
 * What the catalogue's file holds: our keys, and the parts of LMDB's page format (data version 1) that the validator
 * reads. Numbers are in the host's byte order, as LMDB writes them; nothing is aligned to more than two bytes.
 *
 *   page   u64 number, u16 pad, u16 flags, then u16 lower, u16 upper (tree pages) or u32 pages (overflow)
 *   tree page  u16 node offsets from byte 16 up to `lower`; nodes, each of even size, from `upper` to the page's end
 *   node   leaf: u32 data bytes, u16 flags, u16 key bytes, key, data; branch: 48 bits of child page number instead
 *          of data bytes and flags, no data
 *   meta   pages 0 and 1: magic, version, address, map bytes, two trees (free list, ours), last page, transaction
 *   free list  a tree of u64 transaction -> u64 count, then so many page numbers, descending
 */
#ifndef SEL_INDEX_CATALOG_PAGE_H
#define SEL_INDEX_CATALOG_PAGE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/* u8 table, u64 key, u32 part, big-endian: LMDB's order is the order of table, key, part. */
#define SEL_CATALOG_KEY_BYTES    13
#define SEL_CATALOG_PREFIX_BYTES 9 /* table and key */

#define SEL_LMDB_MAGIC      UINT32_C(0xBEEFC0DE)
#define SEL_LMDB_VERSION    UINT32_C(1)
#define SEL_LMDB_PAGE_NONE  UINT64_MAX
#define SEL_LMDB_META_PAGES 2
#define SEL_LMDB_META_BYTES 152 /* page head and meta */
#define SEL_LMDB_PAGE_HEAD  16
#define SEL_LMDB_NODE_HEAD  8
#define SEL_LMDB_FREE_KEY   8      /* bytes: a transaction number */
#define SEL_LMDB_FREE_FLAGS 0x4008 /* of the free list's tree: MDB_INTEGERKEY, and MDB_NOSUBDIR kept with it */
#define SEL_LMDB_BRANCH     0x01
#define SEL_LMDB_LEAF       0x02
#define SEL_LMDB_OVERFLOW   0x04
#define SEL_LMDB_META       0x08
#define SEL_LMDB_NODE_BIG   0x01 /* the data is the number of an overflow page */
#define SEL_LMDB_PAGE_MIN   4096
#define SEL_LMDB_PAGE_MAX   32768
#define SEL_LMDB_PAGES_MAX  UINT32_MAX /* at the least 16 TiB: more than an index can be, 512 MiB for one bit a page */
#define SEL_LMDB_DEPTH_MAX  24         /* LMDB's cursors hold 32; a tree this deep would need terabytes */

static inline uint16_t sel_native_u16(const uint8_t *from) {
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return value;
}
static inline uint32_t sel_native_u32(const uint8_t *from) {
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}
static inline uint64_t sel_native_u64(const uint8_t *from) {
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline void sel_catalog_key_pack(uint8_t bytes[SEL_CATALOG_KEY_BYTES], unsigned table, uint64_t key,
                                        uint32_t part) {
    key = htobe64(key);
    part = htobe32(part);
    bytes[0] = (uint8_t)table;
    memcpy(bytes + 1, &key, sizeof key);
    memcpy(bytes + SEL_CATALOG_PREFIX_BYTES, &part, sizeof part);
}
static inline void sel_catalog_key_unpack(const uint8_t *bytes, uint64_t *key, uint32_t *part) {
    memcpy(key, bytes + 1, sizeof *key);
    memcpy(part, bytes + SEL_CATALOG_PREFIX_BYTES, sizeof *part);
    *key = be64toh(*key);
    *part = be32toh(*part);
}

#endif
