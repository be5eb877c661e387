/* SPDX-License-Identifier: Apache-2.0
 *
 * Three strengths of assertion. None of them is for bytes that come from a disk, a network, a file or a caller: those
 * are reported as errors.
 *
 *   SEL_CHECK   always on: an invariant whose loss could give a wrong byte. Prints and aborts.
 *   SEL_DEBUG   only in builds without NDEBUG.
 *   _Static_assert  for sizes and offsets.
 *
 * SEL_MAGIC: the first member of each long-lived struct is `uint32_t magic`; SEL_CHECK_MAGIC catches a stale or foreign
 * pointer early.
 */
#ifndef SEL_BASE_CHECK_H
#define SEL_BASE_CHECK_H

#include <stddef.h>
#include <stdint.h>

_Noreturn void sel_check_failed(const char *file, int line, const char *expression);

#define SEL_CHECK(expression)                                                                                          \
    (__builtin_expect(!!(expression), 1) ? (void)0 : sel_check_failed(__FILE__, __LINE__, #expression))
#ifdef NDEBUG
#define SEL_DEBUG(expression) ((void)sizeof(!!(expression)))
#else
#define SEL_DEBUG(expression) SEL_CHECK(expression)
#endif

#define SEL_CHECK_MAGIC(pointer, value) SEL_CHECK((pointer) != NULL && (pointer)->magic == (value))

#define SEL_CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))
#define SEL_COUNT(array)                     (sizeof(array) / sizeof((array)[0]))
#define SEL_MIN(a, b)                        ((a) < (b) ? (a) : (b))
#define SEL_MAX(a, b)                        ((a) > (b) ? (a) : (b))

/* Rounds up to a multiple of a power of two; the caller has checked that it cannot overflow. */
static inline uint64_t sel_align_up(uint64_t value, uint64_t alignment) {
    return (value + alignment - 1) & ~(alignment - 1);
}

#endif
