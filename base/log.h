/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages for people. A library must not write to a stream of its host process on its own, so a log is a function the
 * caller gives; without one, warnings and errors go to stderr as "selene: <level>: <text>". Never called with a lock
 * held. May be called on a worker thread; the function must be thread-safe.
 */
#ifndef SEL_BASE_LOG_H
#define SEL_BASE_LOG_H

enum sel_log_level { SEL_LOG_ERROR = 0, SEL_LOG_WARNING = 1, SEL_LOG_INFO = 2, SEL_LOG_DEBUG = 3 };

struct sel_log {
    void (*write)(void *context, int level, const char *text); /* NULL: stderr */
    void *context;
    int level; /* messages above it are not formatted */
};

/* `log` may be NULL: nothing is written. */
void sel_log(const struct sel_log *log, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define sel_log_error(log, ...)   sel_log(log, SEL_LOG_ERROR, __VA_ARGS__)
#define sel_log_warning(log, ...) sel_log(log, SEL_LOG_WARNING, __VA_ARGS__)
#define sel_log_info(log, ...)    sel_log(log, SEL_LOG_INFO, __VA_ARGS__)
#define sel_log_debug(log, ...)   sel_log(log, SEL_LOG_DEBUG, __VA_ARGS__)

#endif
