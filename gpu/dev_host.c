/* SPDX-License-Identifier: Apache-2.0
 *
 * The device table's host back end: one process's memory plays the device.
 *
 *   submit: check, allocate the run --> waiting (list `copies`, event not seen) --poll--> running --> done
 *                                          `--cancel--> done with SELENE_E_CANCELLED
 *
 * A unit of work is one share: item i, rank r is unit i * R + r; when a replicated copy goes out there is one share an
 * item, rank 0's. A run is cut into jobs of consecutive units, each with
 * enough bytes to be worth handing to another thread. The run and all its jobs and hash buffers are one allocation,
 * made at submit, so that starting cannot fail. Everything but run_job() happens on the store's thread.
 */
#include "base/check.h"
#include "base/checksum.h"
#include "gpu/copy_check.h"
#include "gpu/dev_host_priv.h"

#include <stdlib.h>

#define HOST_MAGIC UINT32_C(0x53644876)
/* Handing a job over costs a few microseconds, copying this much tens of them. */
#define JOB_BYTES_MIN UINT64_C(262144)
/* More jobs than threads, so that one slow thread does not hold the whole copy up. */
#define JOBS_A_WORKER 4

struct host_run;
struct host_job {
    struct sel_job job;
    struct host_run *run;
    size_t first, end; /* units */
    uint64_t *hashes;
};

struct host_run {
    struct sel_host_device *device;
    struct sel_copy *copy;
    uint32_t ranks; /* units an item */
    size_t job_count;
    size_t jobs_left;
    struct host_job jobs[];
};

struct sel_host_device *sel_host_device_of(struct sel_device *device) {
    struct sel_host_device *self = SEL_CONTAINER(device, struct sel_host_device, base);
    SEL_CHECK_MAGIC(self, HOST_MAGIC);
    return self;
}

/* Ranks of one item may be in different jobs; they can only agree on "corrupt". */
static void note_corrupt(struct sel_copy_item *item) {
    __atomic_store_n(&item->result, SELENE_E_CORRUPT, __ATOMIC_RELAXED);
}

static int run_unit(const struct host_job *self, struct sel_copy_item *item, uint32_t rank) {
    const struct sel_copy *copy = self->run->copy;
    const struct sel_host_layout *host = &self->run->device->host;
    if (copy->row)
        return sel_host_copy_row(host, copy, item, rank);
    if (copy->direction == SEL_COPY_OUT)
        return sel_host_gather(host, copy, item, rank, self->hashes);
    return sel_host_scatter(host, copy, item, rank, self->hashes);
}

static int run_job(struct sel_job *job) {
    const struct host_job *self = SEL_CONTAINER(job, struct host_job, job);
    uint32_t ranks = self->run->ranks;
    int first_error = 0;
    for (size_t unit = self->first; unit < self->end; unit++) {
        struct sel_copy_item *item = &self->run->copy->items[unit / ranks];
        int rc = run_unit(self, item, (uint32_t)(unit % ranks));
        if (rc) {
            note_corrupt(item);
            first_error = rc;
        }
    }
    return first_error;
}

/* Ends a copy that no job touches (any more). A copy that did not run tells so in its items too. */
static void finish(struct sel_host_device *self, struct sel_copy *copy, int result, bool ran) {
    free(copy->priv.state);
    copy->priv.state = NULL;
    if (!ran && copy->items && copy->item_count <= SEL_COPY_ITEMS_MAX)
        for (size_t i = 0; i < copy->item_count; i++)
            copy->items[i].result = result;
    sel_ready_post(self->ready, &copy->op, result);
}

static void job_done(struct sel_op *op) {
    struct host_run *run = SEL_CONTAINER(op, struct host_job, job.op)->run;
    struct sel_host_device *self = run->device;
    if (op->result)
        run->copy->op.result = op->result;
    if (--run->jobs_left > 0)
        return;
    self->running--;
    finish(self, run->copy, run->copy->op.result, true);
}

static uint64_t unit_bytes(const struct sel_layout *layout, const struct sel_copy *copy) {
    return copy->row ? SEL_MIN(layout->share_bytes, layout->desc.row_bytes) : layout->page_bytes;
}

size_t sel_host_units_a_job(const struct sel_host_device *device, size_t units, uint64_t unit_bytes) {
    size_t job_limit = (size_t)sel_workers_count(device->workers) * JOBS_A_WORKER;
    uint64_t unit = SEL_MAX(unit_bytes, UINT64_C(1)); /* no items of a row that the layout lacks: 0 */
    size_t least = (size_t)((JOB_BYTES_MIN + unit - 1) / unit);
    return SEL_MAX((units + job_limit - 1) / job_limit, least);
}

/* Cuts the units into jobs and reserves each its hash buffer. NULL without memory. */
static struct host_run *run_create(struct sel_host_device *self, struct sel_copy *copy) {
    const struct sel_layout *layout = self->host.layout;
    uint32_t ranks = copy->replicated && copy->direction == SEL_COPY_OUT ? 1 : layout->desc.rank_count;
    size_t units = copy->item_count * ranks;
    size_t each = sel_host_units_a_job(self, units, unit_bytes(layout, copy));
    size_t jobs = (units + each - 1) / each;
    size_t hashes = copy->row ? 0 : layout->page_blocks;
    struct host_run *run = malloc(sizeof *run + jobs * (sizeof run->jobs[0] + hashes * sizeof(uint64_t)));
    if (run == NULL)
        return NULL;
    *run = (struct host_run){.device = self, .copy = copy, .ranks = ranks, .job_count = jobs, .jobs_left = jobs};
    for (size_t j = 0; j < jobs; j++) {
        struct host_job *job = &run->jobs[j];
        sel_op_init(&job->job.op, job_done);
        job->job.run = run_job;
        job->run = run;
        job->first = j * each;
        job->end = SEL_MIN(units, job->first + each);
        job->hashes = (uint64_t *)&run->jobs[jobs] + j * hashes;
    }
    return run;
}

static void start(struct sel_host_device *self, struct sel_copy *copy) {
    struct host_run *run = copy->priv.state;
    if (run->job_count == 0) {
        finish(self, copy, 0, true);
        return;
    }
    self->running++;
    for (size_t i = 0; i < copy->item_count; i++)
        copy->items[i].result = 0;
    /* With inline workers nothing runs before submit returns, and the run lives until its last job is done. */
    for (size_t j = 0; j < run->job_count; j++)
        sel_workers_submit(self->workers, self->ready, &run->jobs[j].job);
}

static void host_submit(struct sel_device *device, struct sel_copy *copy) {
    struct sel_host_device *self = sel_host_device_of(device);
    sel_op_start(&copy->op);
    sel_list_init(&copy->priv.link);
    copy->priv.state = NULL;
    int rc = sel_copy_check(self->host.layout, copy);
    if (rc == 0 && (copy->priv.state = run_create(self, copy)) == NULL)
        rc = SELENE_E_NOMEM;
    if (rc)
        finish(self, copy, rc, false);
    else if (sel_host_event_happened(copy->wait))
        start(self, copy);
    else
        sel_list_add_tail(&self->copies, &copy->priv.link);
}

static void host_poll(struct sel_device *device) {
    struct sel_host_device *self = sel_host_device_of(device);
    SEL_LIST_FOR_EACH(at, &self->copies) {
        struct sel_copy *copy = SEL_LIST_ENTRY(at, struct sel_copy, priv.link);
        if (!sel_host_event_happened(copy->wait))
            continue;
        sel_list_remove(at);
        start(self, copy);
    }
    sel_host_compare_poll(self);
}

static bool host_happened(const struct sel_device *device, const void *event) {
    (void)device;
    return sel_host_event_happened(event);
}

static void host_cancel(struct sel_device *device, struct sel_copy *copy) {
    struct sel_host_device *self = sel_host_device_of(device);
    if (!copy->op.in_flight || !sel_list_linked(&copy->priv.link))
        return;
    sel_list_remove(&copy->priv.link);
    finish(self, copy, SELENE_E_CANCELLED, false);
}

static const char *host_name(const struct sel_device *device) {
    (void)device;
    return "host";
}

static void host_destroy(struct sel_device *device) {
    struct sel_host_device *self = sel_host_device_of(device);
    SEL_CHECK(sel_list_empty(&self->copies) && sel_list_empty(&self->compares) && self->running == 0);
    self->magic = 0;
    free(self);
}

int sel_device_host_create(struct sel_device **out, const struct sel_layout *layout, struct sel_workers *workers,
                           struct sel_ready *ready) {
    static const struct sel_device_ops ops = {.submit = host_submit,
                                              .compare = sel_host_compare,
                                              .poll = host_poll,
                                              .happened = host_happened,
                                              .cancel = host_cancel,
                                              .cancel_compare = sel_host_compare_cancel,
                                              .name = host_name,
                                              .destroy = host_destroy};
    static const uint8_t zeros[SEL_CHECKSUM_BLOCK];
    *out = NULL;
    struct sel_host_device *self = calloc(1, sizeof *self);
    if (self == NULL)
        return SELENE_E_NOMEM;
    self->base.ops = &ops;
    self->magic = HOST_MAGIC;
    self->host = (struct sel_host_layout){layout, sel_hash64(zeros, sizeof zeros)};
    self->workers = workers;
    self->ready = ready;
    sel_list_init(&self->copies);
    sel_list_init(&self->compares);
    *out = &self->base;
    return 0;
}
