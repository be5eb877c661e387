/* SPDX-License-Identifier: Apache-2.0
 *
 * SVG is text. Numbers get a decimal point in every locale: the tools set LC_CTYPE alone.
 */
#include "tools/replay/svg.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#define TEXT_BYTES 512

/* The length of the UTF-8 character at `text` that XML allows, 0: none. */
static size_t character_bytes(const unsigned char *text) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t bytes = *text < 0x80 ? 1 : *text >> 5 == 6 ? 2 : *text >> 4 == 14 ? 3 : *text >> 3 == 30 ? 4 : 0;
    if (bytes == 0)
        return 0;
    uint32_t code = bytes == 1 ? *text : *text & (0x7f >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if (text[i] >> 6 != 2) /* also the 0 at the end */
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    if (code < 0x20 || code == 0x7f || code < least[bytes] || (code >= 0xd800 && code < 0xe000) ||
        (code & 0xfffe) == 0xfffe || code > 0x10ffff)
        return 0;
    return bytes;
}

static void escaped(FILE *file, const char *text) {
    while (*text) {
        size_t bytes = character_bytes((const unsigned char *)text);
        if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else if (bytes)
            fwrite(text, 1, bytes, file);
        else
            fputc('?', file);
        text += bytes ? bytes : 1;
    }
}

void svg_begin(FILE *file, int width, int height, const char *title, const char *style) {
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n"
            "<title>",
            width, height, width, height);
    escaped(file, title);
    fprintf(file, "</title>\n<style><![CDATA[\n%s]]></style>\n", style);
}

void svg_end(FILE *file) { fputs("</svg>\n", file); }

void svg_rect(FILE *file, const char *class, double x, double y, double width, double height) {
    fprintf(file, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", class, x, y, width,
            height);
}

void svg_line(FILE *file, const char *class, double x1, double y1, double x2, double y2) {
    fprintf(file, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x1, y1, x2, y2);
}

void svg_text(FILE *file, const char *class, enum svg_anchor anchor, double x, double y, const char *format, ...) {
    static const char *const anchors[] = {"start", "middle", "end"};
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(file, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, anchors[anchor], x, y);
    escaped(file, text);
    fputs("</text>\n", file);
}

void svg_path_begin(FILE *file, const char *class) { fprintf(file, "<polyline class=\"%s\" points=\"", class); }

void svg_path_point(FILE *file, double x, double y) { fprintf(file, "%.1f,%.1f ", x, y); }

void svg_path_end(FILE *file) { fputs("\"/>\n", file); }
