/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of selene-replay share: options, the stage that a replay plays on, and what one request came to.
 */
#ifndef SELENE_REPLAY_REPLAY_H
#define SELENE_REPLAY_REPLAY_H

#include "cli/cli.h"
#include "engine/selene.h"

#include "tools/replay/kv.h"
#include "tools/replay/layout_scale.h"
#include "tools/replay/workload.h"

#include <stdio.h>

struct replay_options {
    const char *trace;    /* NULL with generate */
    const char *generate; /* "agent" or "conversation", or NULL */
    struct conversation_options conversation;
    enum sel_trace_form form;
    const char *layout; /* a name or a file */
    uint64_t scale;
    uint64_t memory_bytes;
    const char *disk; /* NULL: no disk tier */
    uint64_t disk_limit_bytes;
    int durability;
    bool disk_threads;
    uint32_t page_group, threads;
    bool no_thin, no_pack, no_defer;
    uint32_t spare_rows;
    uint64_t max_age_seconds;    /* 0: records do not age */
    uint64_t requests, sessions; /* 0: all; agent: 0 means the defaults */
    bool sequential;
    uint32_t concurrency;
    uint64_t prefill_rate;       /* tokens a second; 0: restores are never declined */
    double restart_at, crash_at; /* 0: no */
    bool drain_at_end;
    bool check;
    uint64_t seed;
    const char *metrics; /* where to serve counters over HTTP; NULL: nowhere */
    const char *json;
    const char *plot;       /* NULL: none is drawn */
    const char *results[2]; /* files of results to draw; results[0] not NULL: nothing is played */
    bool quiet;
};

/* Parses, or ends the process with exit code 2. */
void replay_options_parse(struct replay_options *options, int argc, char **argv);

/* Fixed while a replay runs, whatever happens to the store in between. */
struct replay_stage {
    const struct replay_options *options;
    struct workload *workload;
    struct sel_layout_file layout; /* scaled */
    char *layout_name;
    struct kv kv;
};
/* Reads trace and layout, checks the options against them; nothing is written anywhere. */
int replay_stage_open(struct replay_stage *stage, const struct replay_options *options, struct selene_message *message);
void replay_stage_close(struct replay_stage *stage);
/* The known layouts, for --list-layouts. */
void replay_layouts_print(FILE *file);

/* What one request came to. Copied between processes as it is. */
struct replay_result {
    uint64_t index;
    uint64_t tokens_in, tokens_hit, tokens_hit_by_tier[SELENE_TIER_COUNT];
    struct kv_count bytes;
    uint64_t restore_ns;
    int32_t restore_tier; /* the slowest that was read; SELENE_TIER_NONE: no restore */
    uint32_t restores, restores_short, declined;
    uint32_t publishes, present, oversize, retries, abandoned, failed;
    uint32_t offers_made, offers_deferred, offers_resumed; /* the latter are of both: deferred, then made */
    uint64_t published_bytes;
};

/* Told what happens while requests are played. */
struct replay_sink {
    void *context;
    void (*started)(void *context, size_t index);
    void (*finished)(void *context, const struct replay_result *result, selene_store *store);
    void (*committed)(void *context, const uint8_t key[32], uint64_t tokens); /* only if the store reports commits */
    void (*tick)(void *context, selene_store *store);                         /* after each poll */
};

#endif
