/* SPDX-License-Identifier: Apache-2.0
 *
 * What is common to all sides of the I/O seam: running one io to its end.
 */
#include "lsm/disk.h"

/* Long enough to sleep, short enough that a completion which came through `ready` alone is seen soon. */
#define RUN_WAIT_NS (10 * SEL_NS_PER_MS)
#define RUN_BUDGET  1024

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
