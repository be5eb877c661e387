/* SPDX-License-Identifier: Apache-2.0
 *
 * Error codes of Selene: one table of code and text, installed beside selene.h.
 *
 * Every function that can fail returns `int`: 0 for success or one of these negative codes. The numbers are part of the
 * ABI: a code is never renumbered, new ones are added at the end.
 */
#ifndef SELENE_ERROR_H
#define SELENE_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, text) */
#define SELENE_ERRORS(X)                                                                                               \
    X(OK, 0, "success")                                                                                                \
    X(E_NOMEM, -1, "out of memory")                                                                                    \
    X(E_INVALID, -2, "invalid argument")                                                                               \
    X(E_IO, -3, "input/output error")                                                                                  \
    X(E_NOSPACE, -4, "no space: the limit or the device is full")                                                      \
    X(E_READONLY, -5, "read-only file system")                                                                         \
    X(E_CORRUPT, -6, "damaged data: a checksum or a structure check failed")                                           \
    X(E_NOTFOUND, -7, "not found")                                                                                     \
    X(E_IN_USE, -8, "in use by another process or store")                                                              \
    X(E_RETRY, -9, "not now: try again later")                                                                         \
    X(E_OVERSIZE, -10, "larger than the tier can ever hold")                                                           \
    X(E_CANCELLED, -11, "cancelled")                                                                                   \
    X(E_DEADLINE, -12, "deadline passed")                                                                              \
    X(E_VERSION, -13, "format version from the future")                                                                \
    X(E_UNSUPPORTED, -14, "not supported here")                                                                        \
    X(E_PERMISSION, -15, "permission denied")                                                                          \
    X(E_OVERFLOW, -16, "a size does not fit")                                                                          \
    X(E_PARENT, -17, "the parent record failed to commit")                                                             \
    X(E_DEGRADED, -18, "the tier is degraded and takes no work for now")                                               \
    X(E_GONE, -19, "the record is no longer held")                                                                     \
    X(E_DECLINED, -20, "declined: slower than recomputing")                                                            \
    X(E_FORKED, -21, "used in a forked child of the process that opened it")                                           \
    X(E_CLOSED, -22, "closed")                                                                                         \
    X(E_PARSE, -23, "malformed input")                                                                                 \
    X(E_STALLED, -24, "the device did not answer in time")                                                             \
    X(E_INTERNAL, -25, "internal error: an invariant did not hold")

enum selene_error {
#define SELENE_ERROR_ENUM(name, number, text) SELENE_##name = (number),
    SELENE_ERRORS(SELENE_ERROR_ENUM)
#undef SELENE_ERROR_ENUM
};

/* A human-readable message that goes with an error: what, where, found, expected. Always NUL-terminated; empty when the
 * call succeeded. The caller owns it; every function that takes a `struct selene_message *` accepts NULL. */
#define SELENE_MESSAGE_BYTES 512
struct selene_message {
    char text[SELENE_MESSAGE_BYTES];
};

#ifdef __cplusplus
}
#endif
#endif
