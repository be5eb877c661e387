/* SPDX-License-Identifier: Apache-2.0
 *
 * Little-endian numbers in byte buffers, whatever the host's order and the buffer's alignment.
 */
#ifndef SEL_BASE_BYTES_H
#define SEL_BASE_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void sel_put_u16(void *to, uint16_t value) {
    value = htole16(value);
    memcpy(to, &value, sizeof value);
}
static inline void sel_put_u32(void *to, uint32_t value) {
    value = htole32(value);
    memcpy(to, &value, sizeof value);
}
static inline void sel_put_u64(void *to, uint64_t value) {
    value = htole64(value);
    memcpy(to, &value, sizeof value);
}
static inline uint16_t sel_get_u16(const void *from) {
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return le16toh(value);
}
static inline uint32_t sel_get_u32(const void *from) {
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return le32toh(value);
}
static inline uint64_t sel_get_u64(const void *from) {
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return le64toh(value);
}

#endif
