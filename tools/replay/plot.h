/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawing memory, disk and hit ratio over a run, or over two side by side with the same scales, from results that
 * --json writes (field `series`).
 */
#ifndef SELENE_REPLAY_PLOT_H
#define SELENE_REPLAY_PLOT_H

#include "cli/json.h"

#define PLOT_RUNS_MAX    2
#define PLOT_SAMPLES_MAX 65536
#define PLOT_NAME_BYTES  96

struct plot_sample {
    uint64_t request;
    uint64_t slots_used;
    uint64_t memory_held_bytes, disk_held_bytes, disk_allocated_bytes;
    uint64_t tokens_in, tokens_hit; /* so far; the former grows, the latter is at most as much */
};

struct plot_run {
    char name[PLOT_NAME_BYTES];
    char about[PLOT_NAME_BYTES];    /* workload, layout, scale */
    char switches[PLOT_NAME_BYTES]; /* what was on and off */
    uint64_t slots_total;
    struct plot_sample *samples;
    size_t count; /* at least 1 */
};

/* From results, which may hold anything: SELENE_E_PARSE with a message that names the field. `name`: the file's, for the
 * message; without folder and ".json" it is what the run is called. */
int plot_run_read(struct plot_run *run, const struct sel_json *json, const char *name, struct selene_message *message);
void plot_run_free(struct plot_run *run);

/* Draws one or two runs into a file, whole or not at all. */
int plot_write(const char *path, const struct plot_run *runs, size_t count, struct selene_message *message);

/* The whole job: files of results in, a drawing out. Errors of sel_json_load, too. */
int plot_files(const char *path, const char *const *results, size_t count, struct selene_message *message);

#endif
