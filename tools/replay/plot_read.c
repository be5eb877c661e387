/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs to be drawn, from results in JSON that may come from anywhere.
 */
#include "tools/replay/plot.h"

#include "cli/sizes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RESULT_BYTES_MAX ((size_t)64 << 20)

struct reader {
    struct sel_json_place place;
    struct selene_message *message;
};

static int count_read(const struct reader *reader, const struct sel_json *object, const char *key, uint64_t least,
                      uint64_t most, uint64_t *count) {
    return sel_json_want_u64(object, key, &reader->place, least, most, NULL, count, reader->message);
}

static int object_read(const struct reader *reader, const struct sel_json *json, const char *key,
                       const struct sel_json **object) {
    char found[SEL_JSON_FOUND];
    *object = sel_json_get(json, key);
    return sel_json_is_object(*object)
               ? 0
               : sel_fail(reader->message, SELENE_E_PARSE, "%s: field `%s%s`: found %s, expected an object",
                          reader->place.name, reader->place.at, key, sel_json_found(found, *object));
}

static int held_read(const struct reader *reader, const struct sel_json *item, struct plot_sample *sample) {
    char at[64];
    const struct sel_json *tiers;
    int result = object_read(reader, item, "held_bytes_by_tier", &tiers);
    if (result)
        return result;
    snprintf(at, sizeof at, "%sheld_bytes_by_tier.", reader->place.at);
    struct reader below = {{reader->place.name, at}, reader->message};
    result = count_read(&below, tiers, "memory", 0, INT64_MAX, &sample->memory_held_bytes);
    return result ? result : count_read(&below, tiers, "disk", 0, INT64_MAX, &sample->disk_held_bytes);
}

static int sample_read(const struct reader *reader, const struct sel_json *item, const struct plot_sample *before,
                       struct plot_sample *sample) {
    char found[SEL_JSON_FOUND];
    if (!sel_json_is_object(item))
        return sel_fail(reader->message, SELENE_E_PARSE, "%s: `%s`: found %s, expected an object", reader->place.name,
                        reader->place.at, sel_json_found(found, item));
    int result = count_read(reader, item, "request", before->request, INT64_MAX, &sample->request);
    if (result == 0)
        result = count_read(reader, item, "slots_used", 0, INT64_MAX, &sample->slots_used);
    if (result == 0)
        result = held_read(reader, item, sample);
    if (result == 0)
        result = count_read(reader, item, "disk_allocated_bytes", 0, INT64_MAX, &sample->disk_allocated_bytes);
    if (result == 0)
        result = count_read(reader, item, "tokens_in", before->tokens_in, INT64_MAX, &sample->tokens_in);
    if (result == 0)
        result = count_read(reader, item, "tokens_hit", before->tokens_hit, sample->tokens_in, &sample->tokens_hit);
    return result;
}

static int series_read(const struct reader *reader, const struct sel_json *json, struct plot_run *run) {
    const struct sel_json *series;
    int result = sel_json_want_array(json, "series", &reader->place, 1, PLOT_SAMPLES_MAX, &series, reader->message);
    if (result)
        return result;
    run->count = sel_json_count(series);
    run->samples = calloc(run->count, sizeof *run->samples);
    if (run->samples == NULL)
        return sel_fail(reader->message, SELENE_E_NOMEM, "%s: out of memory", reader->place.name);
    struct plot_sample before = {0};
    for (size_t i = 0; i < run->count && result == 0; i++) {
        char at[32];
        snprintf(at, sizeof at, "series[%zu].", i);
        struct reader below = {{reader->place.name, at}, reader->message};
        result = sample_read(&below, sel_json_at(series, i), &before, &run->samples[i]);
        before = run->samples[i];
    }
    return result;
}

static int word_read(const struct reader *reader, const struct sel_json *json, const char *key, const char **word) {
    char found[SEL_JSON_FOUND];
    const struct sel_json *value = sel_json_get(json, key);
    *word = sel_json_string(value, NULL);
    return *word ? 0
                 : sel_fail(reader->message, SELENE_E_PARSE, "%s: field `%s`: found %s, expected a text",
                            reader->place.name, key, sel_json_found(found, value));
}

/* "conversation, qwen3-8b, bytes / 256" and "no thinning, packing, no deferring". */
static int about_read(const struct reader *reader, const struct sel_json *json, struct plot_run *run) {
    static const char *const keys[] = {"thinning", "packing", "deferring"};
    char text[SEL_SIZE_TEXT];
    const char *form, *layout;
    uint64_t scale, requests;
    size_t used = 0;
    int result = word_read(reader, json, "form", &form);
    if (result == 0)
        result = word_read(reader, json, "layout", &layout);
    if (result == 0)
        result = count_read(reader, json, "scale", 1, INT64_MAX, &scale);
    if (result == 0)
        result = count_read(reader, json, "requests", 0, INT64_MAX, &requests);
    if (result)
        return result;
    int length =
        snprintf(run->about, sizeof run->about, "%s requests, %s, %s", sel_count_print(text, requests), form, layout);
    if (scale > 1 && length > 0 && (size_t)length < sizeof run->about)
        snprintf(run->about + length, sizeof run->about - (size_t)length, ", bytes / %" PRIu64, scale);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && result == 0; i++) {
        bool on = false;
        result = sel_json_want_bool(json, keys[i], &reader->place, true, &on, reader->message);
        used += (size_t)snprintf(run->switches + used, sizeof run->switches - used, "%s%s%s", i ? ", " : "",
                                 on ? "" : "no ", keys[i]);
    }
    return result;
}

/* "runs/plain.json" is called "plain". */
static void run_name(char name[PLOT_NAME_BYTES], const char *path) {
    const char *last = strrchr(path, '/');
    snprintf(name, PLOT_NAME_BYTES, "%s", last && last[1] ? last + 1 : path);
    size_t length = strlen(name);
    if (length > 5 && strcmp(name + length - 5, ".json") == 0)
        name[length - 5] = '\0';
}

int plot_run_read(struct plot_run *run, const struct sel_json *json, const char *name, struct selene_message *message) {
    struct reader reader = {{name, ""}, message};
    const struct sel_json *slots;
    char found[SEL_JSON_FOUND];
    *run = (struct plot_run){.count = 0};
    run_name(run->name, name);
    if (!sel_json_is_object(json))
        return sel_fail(message, SELENE_E_PARSE, "%s: found %s, expected the results that --json writes", name,
                        sel_json_found(found, json));
    int result = series_read(&reader, json, run);
    if (result == 0)
        result = about_read(&reader, json, run);
    if (result == 0)
        result = object_read(&reader, json, "slots", &slots);
    if (result == 0)
        result =
            count_read(&(struct reader){{name, "slots."}, message}, slots, "total", 0, INT64_MAX, &run->slots_total);
    if (result)
        plot_run_free(run);
    return result;
}

void plot_run_free(struct plot_run *run) {
    free(run->samples);
    run->samples = NULL;
    run->count = 0;
}

int plot_files(const char *path, const char *const *results, size_t count, struct selene_message *message) {
    struct plot_run runs[PLOT_RUNS_MAX] = {{.count = 0}};
    int result = 0;
    for (size_t i = 0; i < count && i < PLOT_RUNS_MAX && result == 0; i++) {
        struct sel_json *json = NULL;
        result = sel_json_load(&json, results[i], RESULT_BYTES_MAX, message);
        if (result == 0)
            result = plot_run_read(&runs[i], json, results[i], message);
        sel_json_free(&json);
    }
    if (result == 0)
        result = plot_write(path, runs, count, message);
    for (size_t i = 0; i < PLOT_RUNS_MAX; i++)
        plot_run_free(&runs[i]);
    return result;
}
