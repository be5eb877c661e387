/* SPDX-License-Identifier: Apache-2.0
 *
 * Are all ranks' shares identical [K1]? On the workers, reading only valid bytes [L4], and never more than STEP bytes a
 * worker beyond the first difference that any of them finds.
 *
 *   sel_host_compare: check, allocate the run --> waiting (list `compares`) --poll--> running --> done
 *                                                    `--cancel--> done with SELENE_E_CANCELLED
 *
 * A unit of work is one plane of one page, or PIECE bytes of the row, in all ranks. It is read in steps: STEP bytes of
 * rank 0, then as many of every other rank, so that rank 0's come from memory once and the ranks' reads overlap.
 *
 * Order. Two cases matter. Ranks that are alike are read to the end, in the order in which they lie, at the speed of
 * memory. Ranks that are not differ almost anywhere one looks, so the first step settles it, except where a layout
 * mixes planes that are replicated with planes that are sharded: those are told apart by the first look, a line of
 * every plane of the first page. To look at other pages first as well would only cost: what is sharded is sharded in all.
 */
#include "base/check.h"
#include "gpu/copy_check.h"
#include "gpu/dev_host_priv.h"

#include <stdlib.h>
#include <string.h>

#define LINE  64
#define STEP  512 /* measured: shorter and longer ones are slower */
#define PIECE 65536
/* Planes up to this are read a page ahead of the processor's own prefetcher, which sees each as a new place: on planes of
 * 4 KiB that is a quarter of the speed. Longer ones it follows better alone. */
#define AHEAD           SEL_BLOCK_BYTES
#define PLANE_AHEAD_MAX 65536

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

/* Where a unit lies in each rank. */
struct place {
    const uint8_t *at[SELENE_RANKS_MAX];
    uint32_t ranks;
    uint64_t bytes;
    bool ahead; /* fetch ahead of reading */
};

static void locate_piece(const struct compare_run *run, size_t unit, struct place *place) {
    uint64_t offset = (uint64_t)unit * PIECE;
    for (uint32_t r = 0; r < place->ranks; r++)
        place->at[r] = (const uint8_t *)run->compare->rows[r] + offset;
    place->bytes = SEL_MIN(run->device->host.layout->desc.row_bytes - offset, (uint64_t)PIECE);
    place->ahead = false;
}

static void locate(const struct compare_run *run, size_t unit, struct place *place) {
    const struct sel_layout *layout = run->device->host.layout;
    uint32_t planes = layout->desc.plane_count, plane = (uint32_t)(unit % planes);
    place->ranks = layout->desc.rank_count;
    if (run->compare->row) {
        locate_piece(run, unit, place);
        return;
    }
    const struct sel_copy_item *item = &run->compare->items[unit / planes];
    for (uint32_t r = 0; r < place->ranks; r++) {
        const struct sel_device_plane *where = &run->compare->planes[(size_t)r * planes + plane];
        place->at[r] = (const uint8_t *)where->base + where->stride * item->block;
    }
    place->bytes = sel_layout_valid_bytes(layout, plane, item->tokens);
    place->ahead = place->bytes <= PLANE_AHEAD_MAX;
}

static bool differs(const struct compare_run *run) { return __atomic_load_n(&run->differs, __ATOMIC_RELAXED); }

/* Fetches into the second level what is read AHEAD bytes after `done`, there or in the unit after it. */
static void fetch_ahead(const struct place *place, const struct place *next, uint64_t done) {
    uint64_t offset = done + AHEAD;
    if (offset >= place->bytes) {
        place = next;
        offset = done % AHEAD;
    }
    for (uint32_t r = 0; place != NULL && r < place->ranks; r++)
        for (uint64_t i = 0; i < STEP; i += LINE)
            __builtin_prefetch(place->at[r] + offset + i, 0, 2);
}

/* Compares all ranks' bytes with rank 0's; true when someone has found a difference. `next` is read after it, or NULL. */
static bool compare_place(struct compare_run *run, const struct place *place, const struct place *next) {
    for (uint64_t done = 0; done < place->bytes && !differs(run); done += STEP) {
        uint64_t count = SEL_MIN(place->bytes - done, (uint64_t)STEP);
        if (place->ahead)
            fetch_ahead(place, next, done);
        for (uint32_t r = 1; r < place->ranks; r++)
            if (memcmp(place->at[0] + done, place->at[r] + done, count) != 0) {
                __atomic_store_n(&run->differs, true, __ATOMIC_RELAXED);
                return true;
            }
    }
    return differs(run);
}

/* A line of every plane of the first page. */
static bool look(struct compare_run *run) {
    for (uint32_t plane = 0; plane < run->device->host.layout->desc.plane_count; plane++) {
        struct place place;
        locate(run, plane, &place);
        place.bytes = SEL_MIN(place.bytes, (uint64_t)LINE);
        place.ahead = false;
        if (compare_place(run, &place, NULL))
            return true;
    }
    return false;
}

static int run_job(struct sel_job *job) {
    const struct compare_job *self = SEL_CONTAINER(job, struct compare_job, job);
    struct compare_run *run = self->run;
    struct place places[2], *place = &places[0], *next = &places[1];
    if (self->first == 0 && !run->compare->row && look(run))
        return 0;
    locate(run, self->first, place);
    for (size_t unit = self->first; unit < self->end; unit++) {
        bool last = unit + 1 == self->end;
        if (!last)
            locate(run, unit + 1, next);
        if (compare_place(run, place, last ? NULL : next))
            break;
        struct place *spare = place;
        place = next;
        next = spare;
    }
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
