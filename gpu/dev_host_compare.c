/* SPDX-License-Identifier: Apache-2.0
 *
 * Are all ranks' shares identical [K1]? On the workers, reading only valid bytes [L4], and never more than one block of
 * 4 KiB a worker beyond the first difference that any of them finds.
 *
 *   sel_host_compare: check, allocate the run --> waiting (list `compares`) --poll--> running --> done
 *                                                    `--cancel--> done with SELENE_E_CANCELLED
 *
 * A unit of work is one plane of one page, or PIECE bytes of the row, in all ranks. Within it rank 0's block of 4 KiB is
 * compared with every other rank's before the next one is read, so it comes from memory once.
 *
 * Order. Two cases matter. Ranks that are alike are read to the end, in the order in which they lie, at the speed of
 * memory. Ranks that are not differ almost anywhere one looks, so the first block read settles it, except where a layout
 * mixes planes that are replicated with planes that are sharded: those are told apart by the first look, a line of
 * every plane of the first page. To look at other pages first as well would only cost: what is sharded is sharded in all.
 */
#include "base/check.h"
#include "gpu/copy_check.h"
#include "gpu/dev_host_priv.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK SEL_BLOCK_BYTES
#define LINE  64
#define PIECE 65536

struct compare_run;
struct compare_job {
    struct sel_job job;
    struct compare_run *run;
    size_t first, end; /* units */
};

struct compare_run {
    struct sel_host_device *device;
    struct sel_compare *compare;
    size_t job_count, jobs_left;
    bool differs; /* atomic: set by any job, seen by all */
    struct compare_job jobs[];
};

/* Where something lies in each rank. */
struct ranks {
    const uint8_t *at[SELENE_RANKS_MAX];
    uint32_t count;
};

static struct ranks ranks_of_plane(const struct compare_run *run, size_t item, uint32_t plane) {
    const struct selene_layout *desc = &run->device->host.layout->desc;
    struct ranks ranks = {.count = desc->rank_count};
    for (uint32_t r = 0; r < ranks.count; r++) {
        const struct sel_device_plane *place = &run->compare->planes[(size_t)r * desc->plane_count + plane];
        ranks.at[r] = (const uint8_t *)place->base + place->stride * run->compare->items[item].block;
    }
    return ranks;
}

static struct ranks ranks_of_row(const struct compare_run *run, uint64_t offset) {
    struct ranks ranks = {.count = run->device->host.layout->desc.rank_count};
    for (uint32_t r = 0; r < ranks.count; r++)
        ranks.at[r] = (const uint8_t *)run->compare->rows[r] + offset;
    return ranks;
}

static bool differs(const struct compare_run *run) { return __atomic_load_n(&run->differs, __ATOMIC_RELAXED); }

/* Compares all ranks' bytes with rank 0's; true when someone has found a difference. */
static bool compare_ranks(struct compare_run *run, const struct ranks *ranks, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes && !differs(run); done += BLOCK) {
        uint64_t count = SEL_MIN(bytes - done, (uint64_t)BLOCK);
        for (uint32_t r = 1; r < ranks->count; r++)
            if (memcmp(ranks->at[0] + done, ranks->at[r] + done, count) != 0) {
                __atomic_store_n(&run->differs, true, __ATOMIC_RELAXED);
                return true;
            }
    }
    return differs(run);
}

static bool compare_unit(struct compare_run *run, size_t unit) {
    const struct sel_layout *layout = run->device->host.layout;
    if (run->compare->row) {
        uint64_t offset = (uint64_t)unit * PIECE;
        struct ranks ranks = ranks_of_row(run, offset);
        return compare_ranks(run, &ranks, SEL_MIN(layout->desc.row_bytes - offset, (uint64_t)PIECE));
    }
    size_t item = unit / layout->desc.plane_count;
    uint32_t plane = (uint32_t)(unit % layout->desc.plane_count);
    struct ranks ranks = ranks_of_plane(run, item, plane);
    return compare_ranks(run, &ranks, sel_layout_valid_bytes(layout, plane, run->compare->items[item].tokens));
}

/* A line of every plane of the first page. */
static bool look(struct compare_run *run) {
    const struct sel_layout *layout = run->device->host.layout;
    for (uint32_t plane = 0; plane < layout->desc.plane_count; plane++) {
        struct ranks ranks = ranks_of_plane(run, 0, plane);
        uint64_t valid = sel_layout_valid_bytes(layout, plane, run->compare->items[0].tokens);
        if (compare_ranks(run, &ranks, SEL_MIN(valid, (uint64_t)LINE)))
            return true;
    }
    return false;
}

static int run_job(struct sel_job *job) {
    const struct compare_job *self = SEL_CONTAINER(job, struct compare_job, job);
    struct compare_run *run = self->run;
    if (self->first == 0 && !run->compare->row && look(run))
        return 0;
    for (size_t unit = self->first; unit < self->end; unit++)
        if (compare_unit(run, unit))
            break;
    return 0;
}

static void finish(struct sel_host_device *self, struct sel_compare *compare, int result) {
    free(compare->priv.state);
    compare->priv.state = NULL;
    sel_ready_post(self->ready, &compare->op, result);
}

static void job_done(struct sel_op *op) {
    struct compare_run *run = SEL_CONTAINER(op, struct compare_job, job.op)->run;
    if (--run->jobs_left > 0)
        return;
    run->device->running--;
    run->compare->identical = !differs(run);
    finish(run->device, run->compare, 0);
}

/* With one rank there is nothing to compare: no units. */
static size_t count_units(const struct sel_layout *layout, const struct sel_compare *compare) {
    if (layout->desc.rank_count == 1)
        return 0;
    return compare->row ? (size_t)((layout->desc.row_bytes + PIECE - 1) / PIECE)
                        : compare->item_count * layout->desc.plane_count;
}

static struct compare_run *run_create(struct sel_host_device *self, struct sel_compare *compare) {
    const struct sel_layout *layout = self->host.layout;
    size_t units = count_units(layout, compare);
    uint64_t unit_bytes = compare->row ? PIECE : layout->page_bytes / layout->desc.plane_count;
    size_t each = sel_host_units_a_job(self, units, unit_bytes * layout->desc.rank_count);
    size_t jobs = (units + each - 1) / each;
    struct compare_run *run = malloc(sizeof *run + jobs * sizeof run->jobs[0]);
    if (run == NULL)
        return NULL;
    *run = (struct compare_run){.device = self, .compare = compare, .job_count = jobs, .jobs_left = jobs};
    for (size_t j = 0; j < jobs; j++) {
        run->jobs[j] = (struct compare_job){.run = run, .first = j * each, .end = SEL_MIN(units, (j + 1) * each)};
        sel_op_init(&run->jobs[j].job.op, job_done);
        run->jobs[j].job.run = run_job;
    }
    return run;
}

static void start(struct sel_host_device *self, struct sel_compare *compare) {
    struct compare_run *run = compare->priv.state;
    if (run->job_count == 0) {
        compare->identical = true;
        finish(self, compare, 0);
        return;
    }
    self->running++;
    for (size_t j = 0; j < run->job_count; j++)
        sel_workers_submit(self->workers, self->ready, &run->jobs[j].job);
}

void sel_host_compare(struct sel_device *device, struct sel_compare *compare) {
    struct sel_host_device *self = sel_host_device_of(device);
    sel_op_start(&compare->op);
    sel_list_init(&compare->priv.link);
    compare->priv.state = NULL;
    compare->identical = false;
    int rc = sel_compare_check(self->host.layout, compare);
    if (rc == 0 && (compare->priv.state = run_create(self, compare)) == NULL)
        rc = SELENE_E_NOMEM;
    if (rc)
        finish(self, compare, rc);
    else if (sel_host_event_happened(compare->wait))
        start(self, compare);
    else
        sel_list_add_tail(&self->compares, &compare->priv.link);
}

void sel_host_compare_poll(struct sel_host_device *self) {
    SEL_LIST_FOR_EACH(at, &self->compares) {
        struct sel_compare *compare = SEL_LIST_ENTRY(at, struct sel_compare, priv.link);
        if (!sel_host_event_happened(compare->wait))
            continue;
        sel_list_remove(at);
        start(self, compare);
    }
}

void sel_host_compare_cancel(struct sel_device *device, struct sel_compare *compare) {
    struct sel_host_device *self = sel_host_device_of(device);
    if (!compare->op.in_flight || !sel_list_linked(&compare->priv.link))
        return;
    sel_list_remove(&compare->priv.link);
    finish(self, compare, SELENE_E_CANCELLED);
}
