/* SPDX-License-Identifier: Apache-2.0
 *
 * What is common to all sides of the I/O seam: choosing the real one, and running one io to its end.
 */
#include "lsm/disk_posix.h"

#include <stdlib.h>
#include <string.h>

/* Long enough to sleep, short enough that a completion which came through `ready` alone is seen soon. */
#define RUN_WAIT_NS (10 * SEL_NS_PER_MS)
#define RUN_BUDGET  1024

/* io_uring, or the reason why not in `cause`. */
static int open_uring(struct sel_disk **out, const struct sel_disk_config *config, struct selene_message *cause) {
#ifdef SEL_HAVE_LIBURING
    return sel_disk_uring_create(out, config, cause);
#else
    (void)out, (void)config;
    return sel_fail(cause, SELENE_E_UNSUPPORTED, "this build is without io_uring");
#endif
}

int sel_disk_open(struct sel_disk **out, const struct sel_disk_config *config, struct selene_message *message) {
    *out = NULL;
    const char *wanted = getenv("SELENE_DISK");
    if (!config->force_threads && !(wanted && strcmp(wanted, "threads") == 0)) {
        struct selene_message cause = {{0}};
        int result = open_uring(out, config, &cause);
        if (result != SELENE_E_UNSUPPORTED)
            return result ? sel_fail(message, result, "%s", cause.text) : 0;
        sel_log_warning(config->log, "%s: %s: disk I/O runs on threads", config->directory, cause.text);
    }
    return sel_disk_threads_create(out, config, message);
}

static void run_done(struct sel_op *op) { (void)op; }

int sel_disk_run(struct sel_disk *disk, struct sel_ready *ready, struct sel_disk_io *io) {
    io->op.done = run_done;
    sel_disk_submit(disk, io);
    for (;;) {
        sel_disk_poll(disk);
        sel_ready_run(ready, RUN_BUDGET);
        if (!io->op.in_flight)
            return io->op.result;
        if (!sel_ready_pending(ready))
            disk->ops->wait(disk, RUN_WAIT_NS);
    }
}
