/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading a trace: which form it is, which files belong to it, and the loop over its lines.
 */
#include "cli/trace_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS_END ".requests.jsonl"
#define TOKENS_END   ".tokens.u32le"

const char *const sel_trace_form_names[] = {"mooncake", "runs", "tokens", NULL};

const char *sel_trace_form_name(enum sel_trace_form form) {
    return form >= 0 && form <= SEL_TRACE_TOKENS ? sel_trace_form_names[form] : "unknown";
}

/* ---- growing ---- */

static int grow(void **items, size_t *capacity, size_t count, size_t item_bytes) {
    if (count < *capacity)
        return 0;
    size_t bigger = *capacity ? *capacity * 2 : 256;
    void *moved = reallocarray(*items, bigger, item_bytes);
    if (moved == NULL)
        return SELENE_E_NOMEM;
    *items = moved, *capacity = bigger;
    return 0;
}

struct sel_trace_request *sel_trace_add_request(struct sel_trace *trace, uint64_t line) {
    if (trace->request_count >= SEL_TRACE_REQUESTS_MAX ||
        grow((void **)&trace->requests, &trace->request_capacity, trace->request_count, sizeof *trace->requests))
        return NULL;
    struct sel_trace_request *request = &trace->requests[trace->request_count++];
    *request = (struct sel_trace_request){.line = line, .run_first = trace->run_count};
    return request;
}

int sel_trace_add_run(struct sel_trace *trace, uint64_t first, uint32_t count) {
    if (grow((void **)&trace->runs, &trace->run_capacity, trace->run_count, sizeof *trace->runs))
        return SELENE_E_NOMEM;
    trace->runs[trace->run_count++] = (struct sel_trace_run){first, count};
    trace->requests[trace->request_count - 1].run_count++;
    return 0;
}

/* ---- sessions ---- */

/* The multiplier is that of Fibonacci hashing; a file that collides on purpose only slows its own reading. */
static uint32_t *session_slot(struct sel_trace *trace, uint64_t name) {
    size_t mask = trace->session_slot_count - 1, at = (size_t)((name * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;
    while (trace->session_slots[at] && trace->session_names[trace->session_slots[at] - 1] != name)
        at = (at + 1) & mask;
    return &trace->session_slots[at];
}

static int sessions_grow(struct sel_trace *trace) {
    size_t count = trace->session_slot_count ? trace->session_slot_count * 2 : 64;
    uint32_t *slots = calloc(count, sizeof *slots);
    uint64_t *names = reallocarray(trace->session_names, count, sizeof *names);
    if (names)
        trace->session_names = names;
    if (slots == NULL || names == NULL) {
        free(slots);
        return SELENE_E_NOMEM;
    }
    free(trace->session_slots);
    trace->session_slots = slots, trace->session_slot_count = count;
    for (uint32_t i = 0; i < trace->session_count; i++)
        *session_slot(trace, names[i]) = i + 1;
    return 0;
}

int sel_trace_session(struct sel_trace *trace, uint64_t name, uint32_t *session) {
    if (trace->session_count * (size_t)2 >= trace->session_slot_count && sessions_grow(trace))
        return SELENE_E_NOMEM;
    uint32_t *slot = session_slot(trace, name);
    if (*slot == 0) {
        trace->session_names[trace->session_count++] = name;
        *slot = trace->session_count;
    }
    *session = *slot - 1;
    return 0;
}

/* ---- forms and files ---- */

static bool ends_with(const char *text, const char *end) {
    size_t count = strlen(text), tail = strlen(end);
    return count > tail && strcmp(text + count - tail, end) == 0;
}

static char *swap_end(const char *path, const char *from, const char *to) {
    char *other = NULL;
    int keep = (int)(strlen(path) - strlen(from));
    return asprintf(&other, "%.*s%s", keep, path, to) < 0 ? NULL : other;
}

static enum sel_trace_form form_of(const struct sel_json *json) {
    if (sel_json_get(json, "hash_ids"))
        return SEL_TRACE_MOONCAKE;
    if (sel_json_get(json, "runs"))
        return SEL_TRACE_RUNS;
    return sel_json_get(json, "in") ? SEL_TRACE_TOKENS : SEL_TRACE_UNKNOWN;
}

static int form_start(struct sel_trace *trace, const struct sel_json *json, const struct sel_lines *lines,
                      struct selene_message *message) {
    char found[SEL_JSON_FOUND];
    if (trace->form == SEL_TRACE_UNKNOWN)
        trace->form = form_of(json);
    if (trace->form == SEL_TRACE_UNKNOWN)
        return sel_fail(
            message, SELENE_E_PARSE,
            "%s: found %s without `hash_ids`, `runs` or `in`, expected a request of a trace: mooncake, runs "
            "or tokens",
            lines->place, sel_json_found(found, json));
    if (trace->form != SEL_TRACE_TOKENS)
        return 0;
    if (!ends_with(lines->path, REQUESTS_END))
        return sel_fail(message, SELENE_E_PARSE,
                        "%s: found a name without `%s`, expected NAME%s beside NAME%s for a trace of tokens",
                        lines->path, REQUESTS_END, REQUESTS_END, TOKENS_END);
    char *path = swap_end(lines->path, REQUESTS_END, TOKENS_END);
    if (path == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", lines->path);
    int result = sel_trace_load_tokens(trace, path, message);
    free(path);
    return result;
}

static int line_take(struct sel_trace *trace, const struct sel_lines *lines, struct selene_message *message) {
    static sel_trace_read *const readers[] = {sel_trace_read_mooncake, sel_trace_read_runs, sel_trace_read_tokens};
    char found[SEL_JSON_FOUND];
    struct sel_json *json;
    int result = sel_json_parse(&json, lines->text, lines->count, lines->path, lines->number, message);
    if (result)
        return result;
    if (!sel_json_is_object(json))
        result = sel_fail(message, SELENE_E_PARSE, "%s: found %s, expected an object: a request of a trace",
                          lines->place, sel_json_found(found, json));
    if (result == 0 && trace->request_count == 0 && trace->tokens == NULL)
        result = form_start(trace, json, lines, message);
    if (result == 0)
        result = readers[trace->form](trace, json, lines, message);
    sel_json_free(&json);
    return result;
}

static void request_drop(struct sel_trace *trace) {
    trace->run_count = trace->requests[--trace->request_count].run_first;
}

static int lines_take(struct sel_trace *trace, struct sel_lines *lines, uint64_t requests_max, uint64_t sessions_max,
                      struct selene_message *message) {
    int result = 0;
    while ((requests_max == 0 || trace->request_count < requests_max) &&
           (result = sel_lines_next(lines, message)) == 1) {
        result = line_take(trace, lines, message);
        if (result)
            return result;
        if (sessions_max && trace->requests[trace->request_count - 1].session >= sessions_max)
            request_drop(trace);
    }
    if (result < 0)
        return result;
    if (trace->request_count == 0)
        return sel_fail(message, SELENE_E_PARSE, "%s: found no request, expected one a line", lines->path);
    if (sessions_max && trace->session_count > sessions_max)
        trace->session_count = (uint32_t)sessions_max;
    return 0;
}

int sel_trace_load(struct sel_trace **out, const char *path, enum sel_trace_form form, uint64_t requests_max,
                   uint64_t sessions_max, struct selene_message *message) {
    struct sel_lines lines = {0};
    char *other = NULL;
    *out = NULL;
    struct sel_trace *trace = calloc(1, sizeof *trace);
    if (trace == NULL)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", path);
    trace->form = form;
    if (ends_with(path, TOKENS_END) && (form == SEL_TRACE_UNKNOWN || form == SEL_TRACE_TOKENS)) {
        other = swap_end(path, TOKENS_END, REQUESTS_END);
        trace->form = SEL_TRACE_TOKENS;
    }
    int result = sel_lines_open(&lines, other ? other : path, message);
    if (result == 0)
        result = lines_take(trace, &lines, requests_max, sessions_max, message);
    sel_lines_close(&lines);
    free(other);
    if (result)
        sel_trace_free(&trace);
    *out = trace;
    return result;
}

void sel_trace_free(struct sel_trace **trace) {
    if (*trace == NULL)
        return;
    free((*trace)->requests);
    free((*trace)->runs);
    free((*trace)->session_names);
    free((*trace)->session_slots);
    free((*trace)->tokens);
    free(*trace);
    *trace = NULL;
}
