/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a layout: shape first (fields, types, ranges), then what fields must satisfy together. The bounds are those
 * of selene_layout.h; the store checks them again, but can only name the struct's members, not the file's fields.
 */
#include "cli/layout_file.h"

#include "cli/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (4u << 20)

static const char *const layout_fields[] = {"page_tokens",      "rank_count",     "planes",
                                            "row_bytes",        "description",    "description_base16",
                                            "pages_replicated", "row_replicated", NULL};
static const char *const plane_fields[] = {"bytes", "entry_tokens", "entry_bytes", "count", NULL};

struct reader {
    const char *name;
    struct sel_layout_file *out;
    uint64_t plane_bytes; /* of all planes so far */
    struct selene_message *message;
};

static int fail(const struct reader *reader, const char *at, const char *field, uint64_t found, const char *expected) {
    return sel_fail(reader->message, SELENE_E_PARSE, "%s: field `%s%s`: found %" PRIu64 ", expected %s", reader->name,
                    at, field, found, expected);
}

static int entries_check(const struct reader *reader, const char *at, const struct selene_plane *plane) {
    uint32_t page_tokens = reader->out->layout.page_tokens;
    if (plane->entry_tokens == 0)
        return plane->entry_bytes == 0
                   ? 0
                   : fail(reader, at, "entry_bytes", plane->entry_bytes, "0, since entry_tokens is 0");
    if (page_tokens % plane->entry_tokens)
        return fail(reader, at, "entry_tokens", plane->entry_tokens, "0 or a divisor of page_tokens");
    if (plane->entry_bytes == 0)
        return fail(reader, at, "entry_bytes", 0, "at least 1, since entry_tokens is not 0");
    if ((uint64_t)(page_tokens / plane->entry_tokens) * plane->entry_bytes > plane->bytes)
        return fail(reader, at, "entry_bytes", plane->entry_bytes,
                    "page_tokens / entry_tokens * entry_bytes to be at most bytes");
    return 0;
}

static int plane_add(struct reader *reader, const char *at, const struct selene_plane *plane, uint64_t count) {
    struct selene_layout *layout = &reader->out->layout;
    if (count > SELENE_PLANES_MAX - layout->plane_count)
        return fail(reader, at, "count", count, "at most 4096 planes in all");
    if (count * plane->bytes > SELENE_SHARE_BYTES_MAX - reader->plane_bytes)
        return fail(reader, at, "bytes", plane->bytes, "the sum over all planes to be at most 1 GiB");
    struct selene_plane *planes =
        realloc((void *)(uintptr_t)layout->planes, (layout->plane_count + (size_t)count) * sizeof *planes);
    if (planes == NULL)
        return sel_fail(reader->message, SELENE_E_NOMEM, "%s: out of memory", reader->name);
    layout->planes = planes;
    for (uint64_t i = 0; i < count; i++)
        planes[layout->plane_count++] = *plane;
    reader->plane_bytes += count * plane->bytes;
    return 0;
}

static int plane_read(struct reader *reader, const struct sel_json *json, size_t index) {
    static const uint64_t none = 0, one = 1;
    char at[48], here[40];
    uint64_t bytes, entry_tokens, entry_bytes, count;
    snprintf(here, sizeof here, "planes[%zu]", index);
    snprintf(at, sizeof at, "%s.", here);
    struct sel_json_place object = {reader->name, here}, place = {reader->name, at};
    struct selene_message *message = reader->message;
    int result = sel_json_want_object(json, &object, plane_fields, message);
    if (result == 0)
        result = sel_json_want_u64(json, "bytes", &place, 1, SELENE_PLANE_BYTES_MAX, NULL, &bytes, message);
    if (result == 0)
        result =
            sel_json_want_u64(json, "entry_tokens", &place, 0, SELENE_PAGE_TOKENS_MAX, &none, &entry_tokens, message);
    if (result == 0)
        result =
            sel_json_want_u64(json, "entry_bytes", &place, 0, SELENE_PLANE_BYTES_MAX, &none, &entry_bytes, message);
    if (result == 0)
        result = sel_json_want_u64(json, "count", &place, 1, SELENE_PLANES_MAX, &one, &count, message);
    if (result)
        return result;
    struct selene_plane plane = {bytes, (uint32_t)entry_tokens, (uint32_t)entry_bytes};
    result = entries_check(reader, at, &plane);
    return result ? result : plane_add(reader, at, &plane, count);
}

static int planes_read(struct reader *reader, const struct sel_json *json, const struct sel_json_place *place) {
    const struct sel_json *planes;
    int result = sel_json_want_array(json, "planes", place, 1, SELENE_PLANES_MAX, &planes, reader->message);
    for (size_t i = 0; result == 0 && i < sel_json_count(planes); i++)
        result = plane_read(reader, sel_json_at(planes, i), i);
    return result;
}

static int base16_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place, since the result is half as long. */
static int base16_decode(uint8_t *bytes, size_t *count) {
    if (*count % 2)
        return SELENE_E_PARSE;
    for (size_t i = 0; i < *count; i += 2) {
        int high = base16_digit((char)bytes[i]), low = base16_digit((char)bytes[i + 1]);
        if (high < 0 || low < 0)
            return SELENE_E_PARSE;
        bytes[i / 2] = (uint8_t)(high << 4 | low);
    }
    *count /= 2;
    return 0;
}

static int description_read(struct reader *reader, const struct sel_json *json) {
    const struct sel_json *text = sel_json_get(json, "description"), *base16 = sel_json_get(json, "description_base16");
    char found[SEL_JSON_FOUND];
    size_t count;
    if ((text == NULL) == (base16 == NULL))
        return sel_fail(reader->message, SELENE_E_PARSE,
                        "%s: field `description`: found %s, expected one of description and description_base16",
                        reader->name, text ? "both forms" : "nothing");
    const char *field = text ? "description" : "description_base16";
    const char *string = sel_json_string(text ? text : base16, &count);
    if (string == NULL || count > 2 * SELENE_DESCRIPTION_BYTES_MAX)
        return sel_fail(reader->message, SELENE_E_PARSE,
                        "%s: field `%s`: found %s, expected a string of at most %d bytes", reader->name, field,
                        sel_json_found(found, text ? text : base16), SELENE_DESCRIPTION_BYTES_MAX);
    uint8_t *bytes = malloc(count + 1);
    if (bytes == NULL)
        return sel_fail(reader->message, SELENE_E_NOMEM, "%s: out of memory", reader->name);
    memcpy(bytes, string, count);
    reader->out->layout.description = bytes;
    if (base16 && base16_decode(bytes, &count))
        return sel_fail(reader->message, SELENE_E_PARSE,
                        "%s: field `%s`: found %s, expected an even number of base16 digits", reader->name, field,
                        sel_json_found(found, base16));
    if (count > SELENE_DESCRIPTION_BYTES_MAX)
        return fail(reader, "", field, count, "at most 65536 bytes");
    reader->out->layout.description_bytes = count;
    return 0;
}

static int layout_read(struct reader *reader, const struct sel_json *json) {
    static const uint64_t none = 0, one = 1;
    struct selene_layout *layout = &reader->out->layout;
    struct sel_json_place place = {reader->name, ""};
    struct selene_message *message = reader->message;
    uint64_t page_tokens, rank_count;
    int result = sel_json_want_object(json, &place, layout_fields, message);
    if (result == 0)
        result = sel_json_want_u64(json, "page_tokens", &place, 1, SELENE_PAGE_TOKENS_MAX, NULL, &page_tokens, message);
    if (result == 0)
        result = sel_json_want_u64(json, "rank_count", &place, 1, SELENE_RANKS_MAX, &one, &rank_count, message);
    if (result == 0)
        result =
            sel_json_want_u64(json, "row_bytes", &place, 0, SELENE_ROW_BYTES_MAX, &none, &layout->row_bytes, message);
    if (result == 0)
        result = sel_json_want_bool(json, "pages_replicated", &place, false, &reader->out->pages_replicated, message);
    if (result == 0)
        result = sel_json_want_bool(json, "row_replicated", &place, false, &reader->out->row_replicated, message);
    if (result)
        return result;
    layout->page_tokens = (uint32_t)page_tokens;
    layout->rank_count = (uint32_t)rank_count;
    result = planes_read(reader, json, &place);
    return result ? result : description_read(reader, json);
}

static int finish(struct sel_layout_file *out, struct sel_json **json, const char *name,
                  struct selene_message *message) {
    struct reader reader = {.name = name, .out = out, .message = message};
    int result = layout_read(&reader, *json);
    sel_json_free(json);
    if (result)
        sel_layout_file_free(out);
    return result;
}

int sel_layout_file_parse(struct sel_layout_file *out, const char *text, size_t count, const char *name,
                          struct selene_message *message) {
    struct sel_json *json;
    *out = (struct sel_layout_file){0};
    int result = sel_json_parse(&json, text, count, name, 1, message);
    return result ? result : finish(out, &json, name, message);
}

int sel_layout_file_load(struct sel_layout_file *out, const char *path, struct selene_message *message) {
    struct sel_json *json;
    *out = (struct sel_layout_file){0};
    int result = sel_json_load(&json, path, FILE_BYTES_MAX, message);
    return result ? result : finish(out, &json, path, message);
}

void sel_layout_file_free(struct sel_layout_file *file) {
    free((void *)(uintptr_t)file->layout.planes);
    free((void *)(uintptr_t)file->layout.description);
    *file = (struct sel_layout_file){0};
}
