/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON over jansson. A struct sel_json is a json_t; nothing else of the library shows through.
 */
#include "cli/json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *in(const struct sel_json *json) { return (json_t *)(uintptr_t)json; }
static struct sel_json *out_of(json_t *json) { return (struct sel_json *)json; }

/* ---- parsing ---- */

int sel_json_parse(struct sel_json **out, const char *text, size_t count, const char *name, uint64_t first_line,
                   struct selene_message *message) {
    json_error_t error;
    json_t *json = json_loadb(text, count, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    *out = out_of(json);
    if (json)
        return 0;
    if (json_error_code(&error) == json_error_out_of_memory)
        return sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", name);
    uint64_t line = first_line + (error.line > 1 ? (uint64_t)error.line - 1 : 0);
    return sel_fail(message, SELENE_E_PARSE, "%s:%" PRIu64 ":%d: not JSON: %s", name, line,
                    error.column > 0 ? error.column : 1, error.text);
}

static int file_read(const char *path, size_t bytes_max, char **text, size_t *count, struct selene_message *message) {
    char *buffer = NULL;
    int result = 0;
    *count = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return sel_fail(message, sel_error_from_errno(errno), "%s: %s", path, strerror(errno));
    for (size_t room = 0;;) {
        if (*count == room) {
            room = room ? room * 2 : 16384;
            char *bigger = realloc(buffer, room);
            if (bigger == NULL) {
                result = sel_fail(message, SELENE_E_NOMEM, "%s: out of memory", path);
                break;
            }
            buffer = bigger;
        }
        size_t got = fread(buffer + *count, 1, room - *count, file);
        *count += got;
        if (*count > bytes_max) {
            result = sel_fail(message, SELENE_E_OVERFLOW, "%s: larger than %zu bytes", path, bytes_max);
            break;
        }
        if (got == 0) {
            if (ferror(file))
                result = sel_fail(message, sel_error_from_errno(errno), "%s: %s", path, strerror(errno));
            break;
        }
    }
    fclose(file);
    if (result)
        free(buffer), buffer = NULL;
    *text = buffer;
    return result;
}

int sel_json_load(struct sel_json **out, const char *path, size_t bytes_max, struct selene_message *message) {
    char *text = NULL;
    size_t count;
    *out = NULL;
    int result = file_read(path, bytes_max, &text, &count, message);
    if (result == 0)
        result = sel_json_parse(out, text, count, path, 1, message);
    free(text);
    return result;
}

void sel_json_free(struct sel_json **json) {
    json_decref(in(*json));
    *json = NULL;
}

/* ---- looking ---- */

bool sel_json_is_object(const struct sel_json *json) { return json_is_object(in(json)); }
bool sel_json_is_array(const struct sel_json *json) { return json_is_array(in(json)); }
size_t sel_json_count(const struct sel_json *array) { return json_array_size(in(array)); }

const struct sel_json *sel_json_get(const struct sel_json *object, const char *key) {
    return out_of(json_object_get(in(object), key));
}

const struct sel_json *sel_json_at(const struct sel_json *array, size_t index) {
    return out_of(json_array_get(in(array), index));
}

bool sel_json_u64(const struct sel_json *json, uint64_t *value) {
    if (!json_is_integer(in(json)) || json_integer_value(in(json)) < 0)
        return false;
    *value = (uint64_t)json_integer_value(in(json));
    return true;
}

bool sel_json_double(const struct sel_json *json, double *value) {
    *value = json_number_value(in(json));
    return json_is_number(in(json));
}

bool sel_json_bool(const struct sel_json *json, bool *value) {
    *value = json_is_true(in(json));
    return json_is_boolean(in(json));
}

const char *sel_json_string(const struct sel_json *json, size_t *bytes) {
    if (bytes)
        *bytes = json_string_length(in(json));
    return json_string_value(in(json));
}

const char *sel_json_unknown(const struct sel_json *object, const char *const *known) {
    for (void *at = json_object_iter(in(object)); at; at = json_object_iter_next(in(object), at)) {
        const char *key = json_object_iter_key(at);
        const char *const *word = known;
        while (*word && strcmp(*word, key) != 0)
            word++;
        if (*word == NULL)
            return key;
    }
    return NULL;
}

/* Cuts before the 40th byte, at the start of a character. */
static void quote(char text[SEL_JSON_FOUND], const char *string) {
    size_t count = strlen(string), keep = count;
    if (count > 40)
        for (keep = 37; keep > 0 && ((unsigned char)string[keep] & 0xc0) == 0x80;)
            keep--;
    snprintf(text, SEL_JSON_FOUND, "\"%.*s%s\"", (int)keep, string, keep < count ? "..." : "");
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
}

const char *sel_json_found(char text[SEL_JSON_FOUND], const struct sel_json *json) {
    const json_t *value = in(json);
    if (value == NULL)
        snprintf(text, SEL_JSON_FOUND, "nothing");
    else if (json_is_string(value))
        quote(text, json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, SEL_JSON_FOUND, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, SEL_JSON_FOUND, "%g", json_real_value(value));
    else if (json_is_array(value))
        snprintf(text, SEL_JSON_FOUND, "an array of %zu", json_array_size(value));
    else if (json_is_object(value))
        snprintf(text, SEL_JSON_FOUND, "an object");
    else
        snprintf(text, SEL_JSON_FOUND, json_is_null(value) ? "null" : json_is_true(value) ? "true" : "false");
    return text;
}

/* ---- fields with messages ---- */

static int want_fail(const struct sel_json_place *place, const char *key, const struct sel_json *found,
                     struct selene_message *message, const char *format, ...) __attribute__((format(printf, 5, 6)));
static int want_fail(const struct sel_json_place *place, const char *key, const struct sel_json *found,
                     struct selene_message *message, const char *format, ...) {
    char expected[160], text[SEL_JSON_FOUND];
    va_list list;
    va_start(list, format);
    vsnprintf(expected, sizeof expected, format, list);
    va_end(list);
    return sel_fail(message, SELENE_E_PARSE, "%s: field `%s%s`: found %s, expected %s", place->name, place->at, key,
                    sel_json_found(text, found), expected);
}

int sel_json_want_u64(const struct sel_json *object, const char *key, const struct sel_json_place *place,
                      uint64_t least, uint64_t most, const uint64_t *missing, uint64_t *value,
                      struct selene_message *message) {
    const struct sel_json *field = sel_json_get(object, key);
    if (field == NULL && missing) {
        *value = *missing;
        return 0;
    }
    if (sel_json_u64(field, value) && *value >= least && *value <= most)
        return 0;
    return want_fail(place, key, field, message, "an integer from %" PRIu64 " to %" PRIu64, least, most);
}

int sel_json_want_bool(const struct sel_json *object, const char *key, const struct sel_json_place *place, bool missing,
                       bool *value, struct selene_message *message) {
    const struct sel_json *field = sel_json_get(object, key);
    *value = missing;
    if (field == NULL || sel_json_bool(field, value))
        return 0;
    return want_fail(place, key, field, message, "true or false");
}

int sel_json_want_array(const struct sel_json *object, const char *key, const struct sel_json_place *place,
                        size_t least, size_t most, const struct sel_json **value, struct selene_message *message) {
    *value = sel_json_get(object, key);
    size_t count = sel_json_count(*value);
    if (sel_json_is_array(*value) && count >= least && count <= most)
        return 0;
    return want_fail(place, key, *value, message, "an array of %zu to %zu values", least, most);
}

int sel_json_want_object(const struct sel_json *json, const struct sel_json_place *place, const char *const *known,
                         struct selene_message *message) {
    char text[SEL_JSON_FOUND], words[256] = "";
    if (!sel_json_is_object(json))
        return sel_fail(message, SELENE_E_PARSE, "%s: %s%sfound %s, expected an object", place->name, place->at,
                        *place->at ? " " : "", sel_json_found(text, json));
    const char *key = sel_json_unknown(json, known);
    if (key == NULL)
        return 0;
    for (size_t used = 0; *known && used < sizeof words - 1; known++)
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", used ? ", " : "", *known);
    quote(text, key);
    return sel_fail(message, SELENE_E_PARSE, "%s: unknown field %s%s%s, expected only: %s", place->name, text,
                    *place->at ? " in " : "", place->at, words);
}

/* ---- building ---- */

struct sel_json *sel_json_object(void) {
    return out_of(json_object());
}
struct sel_json *sel_json_array(void) {
    return out_of(json_array());
}

int sel_json_set(struct sel_json *object, const char *key, struct sel_json *value) {
    return json_object_set_new(in(object), key, in(value)) ? SELENE_E_NOMEM : 0;
}

int sel_json_append(struct sel_json *array, struct sel_json *value) {
    return json_array_append_new(in(array), in(value)) ? SELENE_E_NOMEM : 0;
}

int sel_json_set_u64(struct sel_json *object, const char *key, uint64_t value) {
    json_t *number = value <= INT64_MAX ? json_integer((json_int_t)value) : json_real((double)value);
    return sel_json_set(object, key, out_of(number));
}

int sel_json_set_double(struct sel_json *object, const char *key, double value) {
    return sel_json_set(object, key, out_of(isfinite(value) ? json_real(value) : json_null()));
}

int sel_json_set_bool(struct sel_json *object, const char *key, bool value) {
    return sel_json_set(object, key, out_of(json_boolean(value)));
}

int sel_json_set_string(struct sel_json *object, const char *key, const char *value) {
    json_t *string = json_string(value);
    if (string == NULL) { /* not UTF-8, as a file name may be */
        char *plain = value ? strdup(value) : NULL;
        for (char *at = plain; at && *at; at++)
            if ((unsigned char)*at >= 0x80)
                *at = '?';
        string = plain ? json_string(plain) : NULL;
        free(plain);
    }
    return sel_json_set(object, key, out_of(string));
}

int sel_json_print(const struct sel_json *json, FILE *file) {
    if (json == NULL)
        return SELENE_E_NOMEM;
    if (json_dumpf(in(json), file, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) || fputc('\n', file) == EOF)
        return SELENE_E_IO;
    return fflush(file) ? SELENE_E_IO : 0;
}
