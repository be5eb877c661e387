/* SPDX-License-Identifier: Apache-2.0
 *
 * What a whole replay came to: sums over requests, and the store's counters over all its openings.
 */
#ifndef SELENE_REPLAY_TOTALS_H
#define SELENE_REPLAY_TOTALS_H

#include "tools/replay/replay.h"

struct latencies {
    uint64_t *ns;
    size_t count, capacity;
};

/* The state after so many requests, for a plot over the run. */
struct sample {
    uint64_t request;
    uint64_t slots_used, records[SELENE_TIER_COUNT], held_bytes[SELENE_TIER_COUNT];
    uint64_t disk_allocated_bytes, disk_written_bytes; /* the latter over all openings */
    uint64_t tokens_in, tokens_hit;                    /* so far */
};
#define SAMPLES_MAX 500

/* What the drains came to, in records. */
struct drained {
    uint64_t written, skipped_deadline, skipped_failed, skipped_parent, skipped_room;
};

struct totals {
    struct replay_result sum; /* index and restore_tier unused */
    uint64_t requests;
    uint64_t ideal_tokens, thinned_ideal_tokens;
    uint64_t beyond_ideal; /* requests that hit more than the ideal: records of an earlier run were there */
    const uint32_t *ideal, *thinned_ideal; /* [request] */
    struct latencies restore[SELENE_TIER_COUNT];
    bool no_memory; /* latencies are incomplete */

    struct selene_stats store; /* counters are sums over openings, states are the last ones */
    char backend[16];
    int direct;

    uint64_t restarts, crashes;
    struct drained drained;
    uint64_t committed_before_crash, lost_committed;
    bool lost_unknown; /* the disk tier evicted records: a missing one proves nothing */
    uint64_t invariant_failures;
    double seconds;

    struct sample *samples;
    size_t sample_count, sample_capacity;
    uint64_t sample_every; /* requests; 0: no samples are taken */
};

void totals_add(struct totals *totals, const struct replay_result *result);
/* The counters of one opening, before it is closed or after it was killed. */
void totals_add_store(struct totals *totals, const struct selene_stats *stats);
void totals_add_drain(struct totals *totals, const struct selene_event *event);
/* Samples are spread so that a run of `requests` gets at most SAMPLES_MAX. */
void totals_sample_every(struct totals *totals, uint64_t requests);
bool totals_sample_due(const struct totals *totals);
/* `stats`: of the opening that runs now. */
void totals_sample(struct totals *totals, const struct selene_stats *stats);
void totals_free(struct totals *totals);
/* The p-th percentile in milliseconds, 0 without samples. Sorts. */
double latencies_ms(struct latencies *latencies, unsigned percent);

/* Whether the exit code must be 1. */
bool totals_bad(const struct totals *totals);

/* report_json.c, report.c. The former writes what --json and --plot ask for. */
int report_json(const struct replay_stage *stage, struct totals *totals, struct selene_message *message);
void report_table(const struct replay_stage *stage, struct totals *totals, FILE *file);

#endif
