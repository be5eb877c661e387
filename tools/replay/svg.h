/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing SVG: text into a stream that the caller opened; it looks for write errors when it closes the stream. Whatever a
 * text holds, the file stays well-formed XML. Coordinates are in pixels from the top left corner.
 */
#ifndef SELENE_REPLAY_SVG_H
#define SELENE_REPLAY_SVG_H

#include <stdio.h>

/* `title` is what screen readers say; `style` is a style sheet that may not hold "]]>". */
void svg_begin(FILE *file, int width, int height, const char *title, const char *style);
void svg_end(FILE *file);

void svg_rect(FILE *file, const char *class, double x, double y, double width, double height);
void svg_line(FILE *file, const char *class, double x1, double y1, double x2, double y2);

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };
/* y: of the line that letters stand on. */
void svg_text(FILE *file, const char *class, enum svg_anchor anchor, double x, double y, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* A line through points: begin, points, end. */
void svg_path_begin(FILE *file, const char *class);
void svg_path_point(FILE *file, double x, double y);
void svg_path_end(FILE *file);

#endif
