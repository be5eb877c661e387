/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON: reading what people and traces give, writing results. json.c is the only file that knows the library behind it.
 *
 * READING. Any bytes are accepted as input and give a value or a message "NAME:LINE:COLUMN: what"; nesting and numbers
 * are bounded, a repeated key is an error. The sel_json_want_* functions read one field of an object and explain
 * themselves: "NAME: field `planes[3].bytes`: found "x", expected an integer from 1 to 1073741824".
 *
 * BUILDING. Every function accepts NULL as the object or value (an allocation that failed) and reports it, so a builder
 * may check once at the end: the results of all calls are 0 or SELENE_E_NOMEM and can be or'ed together.
 */
#ifndef SEL_CLI_JSON_H
#define SEL_CLI_JSON_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct sel_json; /* a value; reference counted behind the scenes: free what you created or parsed, nothing else */

/* ---- parsing ---- */

/* A whole text. `first_line` is added to line numbers, for files with a value a line (1 for a whole file). `name` is
 * for messages. SELENE_E_PARSE, SELENE_E_NOMEM. */
int sel_json_parse(struct sel_json **out, const char *text, size_t count, const char *name, uint64_t first_line,
                   struct selene_message *message);
/* A file of at most `bytes_max` bytes. Also SELENE_E_NOTFOUND, _PERMISSION, _IO, _OVERFLOW. */
int sel_json_load(struct sel_json **out, const char *path, size_t bytes_max, struct selene_message *message);
void sel_json_free(struct sel_json **json);

/* ---- looking at values; borrowed results live as long as the root ---- */

bool sel_json_is_object(const struct sel_json *json);
bool sel_json_is_array(const struct sel_json *json);
const struct sel_json *sel_json_get(const struct sel_json *object, const char *key); /* NULL: none */
size_t sel_json_count(const struct sel_json *array);                                 /* 0 when it is none */
const struct sel_json *sel_json_at(const struct sel_json *array, size_t index);
/* True and the value for an integer in [0, 2^63). */
bool sel_json_u64(const struct sel_json *json, uint64_t *value);
bool sel_json_double(const struct sel_json *json, double *value); /* any number */
bool sel_json_bool(const struct sel_json *json, bool *value);
const char *sel_json_string(const struct sel_json *json, size_t *bytes); /* NULL: no string; may hold NUL bytes */
/* The first key of an object that is not in the NULL-terminated list; NULL: all are. */
const char *sel_json_unknown(const struct sel_json *object, const char *const *known);
/* What a value is, for messages: `"text"`, `17`, `an array of 3`, `nothing`; shortened. */
#define SEL_JSON_FOUND 48
const char *sel_json_found(char text[SEL_JSON_FOUND], const struct sel_json *json);

/* ---- fields with messages: SELENE_E_PARSE ---- */

/* Where a value came from. `at` is put before the field's name ("planes[3]."), "" at the top. */
struct sel_json_place {
    const char *name; /* "FILE" or "FILE:LINE" */
    const char *at;
};
/* An integer in [least, most]. With `missing` (may be NULL) the field may be absent and then has that value. */
int sel_json_want_u64(const struct sel_json *object, const char *key, const struct sel_json_place *place,
                      uint64_t least, uint64_t most, const uint64_t *missing, uint64_t *value,
                      struct selene_message *message);
int sel_json_want_bool(const struct sel_json *object, const char *key, const struct sel_json_place *place, bool missing,
                       bool *value, struct selene_message *message);
int sel_json_want_array(const struct sel_json *object, const char *key, const struct sel_json_place *place,
                        size_t least, size_t most, const struct sel_json **value, struct selene_message *message);
/* An object without keys other than the known ones. */
int sel_json_want_object(const struct sel_json *json, const struct sel_json_place *place, const char *const *known,
                         struct selene_message *message);

/* ---- building ---- */

struct sel_json *sel_json_object(void); /* NULL: no memory */
struct sel_json *sel_json_array(void);
/* These take `value` over, also on failure. */
int sel_json_set(struct sel_json *object, const char *key, struct sel_json *value);
int sel_json_append(struct sel_json *array, struct sel_json *value);
int sel_json_set_u64(struct sel_json *object, const char *key, uint64_t value);  /* above 2^63 - 1: as a real */
int sel_json_set_double(struct sel_json *object, const char *key, double value); /* not finite: null */
int sel_json_set_bool(struct sel_json *object, const char *key, bool value);
int sel_json_set_string(struct sel_json *object, const char *key, const char *value); /* bad UTF-8: '?' for its bytes */

/* Writes it, indented. SELENE_E_IO, SELENE_E_NOMEM for NULL. */
int sel_json_print(const struct sel_json *json, FILE *file);
/* Writes it to "-" (standard output) or a file: a temporary one beside it, then renamed, so that a reader
 * sees the old or the new content and a failure leaves nothing. */
int sel_json_write(const struct sel_json *json, const char *path, struct selene_message *message);
/* Whether sel_json_write could write there, as far as can be told without writing: for a check before a long run. */
int sel_json_writable(const char *path, struct selene_message *message);

#endif
