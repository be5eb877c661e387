/* SPDX-License-Identifier: Apache-2.0
 *
 * Setting the stage: everything that can be wrong with the input is found here, before anything is written.
 */
#include "tools/replay/replay.h"

#include "cli/file.h"
#include "cli/json.h"
#include "cli/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define AGENT_REQUESTS 600

/* ---- layout ---- */

void replay_layouts_print(FILE *file) {
    const struct selene_model *model;
    struct sel_table *table = sel_table_create("lrrl");
    const char *const titles[] = {"layout", "KV bytes a token", "row bytes", "model"};
    for (size_t i = 0; i < 4; i++)
        sel_table_cell(table, "%s", titles[i]);
    for (size_t i = 0; (model = selene_model_at(i)); i++) {
        uint64_t page = 0;
        for (uint32_t p = 0; p < model->layout.plane_count; p++)
            page += model->layout.planes[p].bytes;
        sel_table_cell(table, "%s", model->name);
        sel_table_cell(table, "%" PRIu32 " x %" PRIu64, model->layout.rank_count, page / model->layout.page_tokens);
        sel_table_cell(table, "%" PRIu32 " x %" PRIu64, model->layout.rank_count, model->layout.row_bytes);
        sel_table_cell(table, "%s", model->about);
    }
    sel_table_print(table, file);
    sel_table_destroy(&table);
}

static int layout_take(struct replay_stage *stage, struct selene_message *message) {
    const char *name = stage->options->layout;
    const struct selene_model *model = selene_model_find(name);
    struct sel_layout_file file = {0};
    struct stat status;
    int result;
    if (model) {
        result = layout_scale(&stage->layout, &model->layout, model->pages_replicated, model->row_replicated,
                              stage->options->scale);
        return result ? sel_fail(message, result, "no memory for the layout") : 0;
    }
    if (strchr(name, '/') == NULL && strchr(name, '.') == NULL && stat(name, &status))
        return sel_fail(message, SELENE_E_NOTFOUND,
                        "--layout: found `%s`, expected a JSON file or a known model (--list-layouts shows them)",
                        name);
    result = sel_layout_file_load(&file, name, message);
    if (result)
        return result;
    result =
        layout_scale(&stage->layout, &file.layout, file.pages_replicated, file.row_replicated, stage->options->scale);
    sel_layout_file_free(&file);
    return result ? sel_fail(message, result, "no memory for the layout") : 0;
}

/* ---- workload ---- */

static int workload_take(struct replay_stage *stage, struct selene_message *message) {
    const struct replay_options *options = stage->options;
    struct sel_trace *trace;
    int result;
    if (options->generate && strcmp(options->generate, "conversation") == 0) {
        result = workload_conversation_create(&stage->workload, options->seed,
                                              options->requests ? options->requests : SIZE_MAX, &options->conversation);
        return result ? sel_fail(message, result, "no memory for the workload") : 0;
    }
    if (options->generate) {
        uint64_t requests = options->requests ? options->requests : options->sessions ? UINT32_MAX : AGENT_REQUESTS;
        if (options->sessions && requests > options->sessions * 400)
            requests = options->sessions * 400; /* more than that many sessions can have */
        result = workload_agent_create(&stage->workload, options->seed, requests,
                                       options->sessions ? (uint32_t)options->sessions : UINT32_MAX);
        return result ? sel_fail(message, result, "no memory for the workload") : 0;
    }
    result = sel_trace_load(&trace, options->trace, options->form, options->requests, options->sessions, message);
    if (result)
        return result;
    result = workload_from_trace(&stage->workload, &trace);
    return result ? sel_fail(message, result, "%s: no memory", options->trace) : 0;
}

int replay_stage_open(struct replay_stage *stage, const struct replay_options *options,
                      struct selene_message *message) {
    *stage = (struct replay_stage){.options = options};
    int result = options->json ? sel_json_writable(options->json, message) : 0;
    if (result == 0 && options->plot)
        result = sel_file_writable(options->plot, message);
    if (result == 0)
        result = layout_take(stage, message);
    if (result == 0)
        result = workload_take(stage, message);
    if (result == 0) {
        result = kv_init(&stage->kv, &stage->layout.layout, stage->layout.pages_replicated,
                         stage->layout.row_replicated, options->seed);
        if (result)
            sel_fail(message, result, "no memory for the layout");
    }
    if (result == 0 && (stage->layout_name = strdup(options->layout)) == NULL)
        result = sel_fail(message, SELENE_E_NOMEM, "no memory");
    if (result)
        replay_stage_close(stage);
    return result;
}

void replay_stage_close(struct replay_stage *stage) {
    workload_destroy(&stage->workload);
    sel_layout_file_free(&stage->layout);
    kv_free(&stage->kv);
    free(stage->layout_name);
    stage->layout_name = NULL;
}
