/* SPDX-License-Identifier: Apache-2.0
 *
 * The drawing: a column a run, below each other four panels over the requests of the run. Panels in one row have the same
 * scales, so two runs can be compared by eye; each line ends in its last value, for what is too flat to be read.
 *
 * The colours can be told apart by people who see few, and lines differ in dashes as well. A viewer that prefers dark gets
 * other colours; one that knows no such rule gets a light card.
 */
#include "tools/replay/plot.h"

#include "cli/file.h"
#include "cli/sizes.h"
#include "tools/replay/svg.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define PANEL_WIDTH  420.0
#define PANEL_HEIGHT 130.0
#define PANEL_GAP    52.0 /* title and legend of the next one */
#define LEFT         78.0 /* numbers of the axis */
#define RIGHT        84.0 /* last values */
#define TOP          132.0
#define BOTTOM       56.0
#define LETTER       6.6 /* width of one, roughly: for legends */
#define LETTER_BOLD  9.2 /* of a run's name */
#define LABEL_GAP    13.0
#define LINES_MAX    2
#define TICKS_ABOUT  4

static const char style[] = "text { font-family: sans-serif; font-size: 12px; fill: #1f2328; }\n"
                            ".title { font-size: 17px; font-weight: bold; }\n"
                            ".run { font-size: 14px; font-weight: bold; }\n"
                            ".panel { font-weight: bold; }\n"
                            ".soft { fill: #59636e; }\n"
                            ".back { fill: #ffffff; }\n"
                            ".grid { stroke: #dde1e6; stroke-width: 1; }\n"
                            ".axis { stroke: #6e7781; stroke-width: 1; }\n"
                            "polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }\n"
                            ".a { stroke: #0067a6; } .at { fill: #0067a6; }\n"
                            ".b { stroke: #b54708; stroke-dasharray: 6 3; } .bt { fill: #b54708; }\n"
                            "line.a, line.b { stroke-width: 2; }\n"
                            "@media (prefers-color-scheme: dark) {\n"
                            "text { fill: #e6edf3; }\n"
                            ".soft { fill: #9da7b1; }\n"
                            ".back { fill: #0d1117; }\n"
                            ".grid { stroke: #2b323b; }\n"
                            ".axis { stroke: #8b949e; }\n"
                            ".a { stroke: #58a6ff; } .at { fill: #58a6ff; }\n"
                            ".b { stroke: #f0a35e; } .bt { fill: #f0a35e; }\n"
                            "}\n";

enum unit { COUNT, BYTES, PERCENT };

struct line {
    const char *name;
    /* False where the sample says nothing. */
    bool (*value)(const struct plot_run *run, size_t sample, double *value);
};
struct panel {
    const char *title;
    enum unit unit;
    struct line lines[LINES_MAX];
};

/* ---- what is drawn ---- */

static bool slots_used(const struct plot_run *run, size_t sample, double *value) {
    *value = (double)run->samples[sample].slots_used;
    return true;
}
static bool memory_held(const struct plot_run *run, size_t sample, double *value) {
    *value = (double)run->samples[sample].memory_held_bytes;
    return true;
}
static bool disk_held(const struct plot_run *run, size_t sample, double *value) {
    *value = (double)run->samples[sample].disk_held_bytes;
    return true;
}
static bool disk_allocated(const struct plot_run *run, size_t sample, double *value) {
    *value = (double)run->samples[sample].disk_allocated_bytes;
    return true;
}
static bool hit_ratio(const struct plot_run *run, size_t sample, double *value) {
    const struct plot_sample *at = &run->samples[sample];
    *value = at->tokens_in ? 100.0 * (double)at->tokens_hit / (double)at->tokens_in : 0;
    return at->tokens_in > 0;
}

static const struct panel panels[] = {
    {"Memory: slots", COUNT, {{"used", slots_used}}},
    {"Memory: bytes held", BYTES, {{"without padding", memory_held}}},
    {"Disk: bytes", BYTES, {{"held by records", disk_held}, {"allocated", disk_allocated}}},
    {"Hit ratio", PERCENT, {{"tokens restored of tokens asked for, so far", hit_ratio}}},
};
#define PANELS (sizeof panels / sizeof panels[0])

/* ---- scales ---- */

struct scale {
    double most;      /* at the end of the axis, above 0 */
    double step;      /* between ticks */
    double unit;      /* numbers at ticks are divided by it */
    const char *name; /* of the unit */
    int decimals;
};

/* 1, 2 or 5 times a power of ten, of which about `ticks` fit. */
static double nice_step(double most, int ticks) {
    double rough = most / ticks, power = pow(10, floor(log10(rough)));
    return power * (rough / power > 7 ? 10 : rough / power > 3 ? 5 : rough / power > 1.4 ? 2 : 1);
}

static struct scale scale_make(double most, enum unit unit, int ticks) {
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct scale scale = {.unit = 1, .name = ""};
    size_t power = 0;
    if (unit == PERCENT)
        return (struct scale){.most = 100, .step = 25, .unit = 1, .name = "%"};
    for (; unit == BYTES && power + 1 < sizeof names / sizeof names[0] && most / scale.unit >= 1024; power++)
        scale.unit *= 1024;
    if (unit == BYTES)
        scale.name = names[power];
    scale.step = nice_step(fmax(most, 1) / scale.unit, ticks);
    if (scale.unit == 1)
        scale.step = fmax(scale.step, 1); /* no parts of a slot or byte */
    scale.decimals = scale.step >= 1 ? 0 : (int)ceil(-log10(scale.step) - 1e-9);
    scale.step *= scale.unit;
    scale.most = fmax(ceil(most / scale.step - 1e-9), 1) * scale.step;
    return scale;
}

static void value_print(char text[SEL_SIZE_TEXT], double value, enum unit unit) {
    uint64_t whole = value >= (double)UINT64_MAX ? UINT64_MAX : (uint64_t)value;
    if (unit == BYTES)
        sel_size_print(text, whole);
    else if (unit == COUNT)
        sel_count_print(text, whole);
    else
        snprintf(text, SEL_SIZE_TEXT, "%.2f %%", value);
}

static void tick_print(char text[SEL_SIZE_TEXT], double value, const struct scale *scale) {
    if (scale->unit == 1 && value < (double)UINT64_MAX)
        sel_count_print(text, (uint64_t)(value + 0.5));
    else
        snprintf(text, SEL_SIZE_TEXT, "%.*f", scale->decimals, value / scale->unit);
}

/* ---- drawing ---- */

struct drawing {
    FILE *file;
    const struct plot_run *runs;
    size_t count;
    struct scale across, up[PANELS];
};

static double run_left(size_t run) { return LEFT + (double)run * (LEFT + PANEL_WIDTH + RIGHT); }
static double panel_top(size_t panel) { return TOP + (double)panel * (PANEL_HEIGHT + PANEL_GAP); }

static double place_x(const struct drawing *drawing, size_t run, double request) {
    return run_left(run) + PANEL_WIDTH * request / drawing->across.most;
}
static double place_y(const struct drawing *drawing, size_t panel, double value) {
    return panel_top(panel) + PANEL_HEIGHT * (1 - value / drawing->up[panel].most);
}

static void scales_make(struct drawing *drawing) {
    double last = 0;
    for (size_t run = 0; run < drawing->count; run++)
        last = fmax(last, (double)drawing->runs[run].samples[drawing->runs[run].count - 1].request);
    drawing->across = scale_make(last, COUNT, 5);
    drawing->across.most = fmax(last, 1);
    for (size_t panel = 0; panel < PANELS; panel++) {
        double most = 0, value;
        for (size_t run = 0; run < drawing->count; run++)
            for (size_t sample = 0; sample < drawing->runs[run].count; sample++)
                for (size_t i = 0; i < LINES_MAX && panels[panel].lines[i].name; i++)
                    if (panels[panel].lines[i].value(&drawing->runs[run], sample, &value))
                        most = fmax(most, value);
        drawing->up[panel] = scale_make(most, panels[panel].unit, TICKS_ABOUT);
    }
}

static void axes_draw(const struct drawing *drawing, size_t run, size_t panel) {
    const struct scale *up = &drawing->up[panel], *across = &drawing->across;
    double left = run_left(run), right = left + PANEL_WIDTH, top = panel_top(panel), bottom = top + PANEL_HEIGHT;
    char text[SEL_SIZE_TEXT];
    for (int i = 0; i * up->step <= up->most * 1.0001; i++) {
        double y = place_y(drawing, panel, i * up->step);
        svg_line(drawing->file, "grid", left, y, right, y);
        tick_print(text, i * up->step, up);
        svg_text(drawing->file, "soft", SVG_END, left - 8, y + 4, "%s", text);
    }
    for (int i = 0; i * across->step <= across->most * 1.0001; i++) {
        double x = place_x(drawing, run, i * across->step);
        svg_line(drawing->file, "grid", x, top, x, bottom);
        if (panel + 1 < PANELS)
            continue;
        tick_print(text, i * across->step, across);
        svg_text(drawing->file, "soft", SVG_MIDDLE, x, bottom + 18, "%s", text);
    }
    svg_line(drawing->file, "axis", left, bottom, right, bottom);
    svg_line(drawing->file, "axis", left, top, left, bottom);
    if (panel + 1 == PANELS)
        svg_text(drawing->file, "soft", SVG_MIDDLE, (left + right) / 2, bottom + 38, "requests");
}

static void heading_draw(const struct drawing *drawing, size_t run, size_t panel) {
    const struct panel *what = &panels[panel];
    const char *unit = drawing->up[panel].name;
    double x = run_left(run), y = panel_top(panel) - 12;
    char total[SEL_SIZE_TEXT];
    svg_text(drawing->file, "panel", SVG_START, x, y, "%s%s%s", what->title, *unit ? ", " : "", unit);
    x += (double)(strlen(what->title) + strlen(unit) + (*unit ? 2 : 0)) * LETTER * 1.12 + 16;
    for (size_t i = 0; i < LINES_MAX && what->lines[i].name; i++) {
        svg_line(drawing->file, i ? "b" : "a", x, y - 4, x + 22, y - 4);
        svg_text(drawing->file, "soft", SVG_START, x + 28, y, "%s", what->lines[i].name);
        x += 28 + (double)strlen(what->lines[i].name) * LETTER + 14;
    }
    if (what->unit == COUNT)
        svg_text(drawing->file, "soft", SVG_START, x, y, "of %s in all",
                 sel_count_print(total, drawing->runs[run].slots_total));
}

static void line_draw(const struct drawing *drawing, size_t run, size_t panel, size_t line, double *last_y) {
    const struct plot_run *it = &drawing->runs[run];
    double value = 0, last = 0, x = 0;
    bool any = false;
    char text[SEL_SIZE_TEXT];
    svg_path_begin(drawing->file, line ? "b" : "a");
    for (size_t i = 0; i < it->count; i++) {
        if (!panels[panel].lines[line].value(it, i, &value))
            continue;
        x = place_x(drawing, run, (double)it->samples[i].request);
        svg_path_point(drawing->file, x, place_y(drawing, panel, value));
        last = value;
        any = true;
    }
    svg_path_end(drawing->file);
    if (!any)
        return;
    double y = place_y(drawing, panel, last) + 4;
    if (line > 0 && fabs(y - *last_y) < LABEL_GAP)
        y = *last_y + (y > *last_y ? LABEL_GAP : -LABEL_GAP);
    *last_y = y;
    value_print(text, last, panels[panel].unit);
    svg_text(drawing->file, line ? "bt" : "at", SVG_START, x + 6, y, "%s", text);
}

/* Cut to what fits into a column; letters are as wide as the wide ones. */
static void text_draw(const struct drawing *drawing, const char *class, size_t run, double y, double letter,
                      const char *text) {
    size_t length = strlen(text), most = (size_t)((LEFT + PANEL_WIDTH + RIGHT) / letter) - 2;
    bool cut = length > most;
    if (cut)
        for (length = most - 3; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;) /* not in a character */
            length--;
    svg_text(drawing->file, class, SVG_START, run_left(run), y, "%.*s%s", (int)length, text, cut ? "..." : "");
}

static void run_draw(const struct drawing *drawing, size_t run) {
    const struct plot_run *it = &drawing->runs[run];
    text_draw(drawing, "run", run, 58, LETTER_BOLD, it->name);
    text_draw(drawing, "soft", run, 74, LETTER, it->about);
    text_draw(drawing, "soft", run, 90, LETTER, it->switches);
    for (size_t panel = 0; panel < PANELS; panel++) {
        double last_y = 0;
        axes_draw(drawing, run, panel);
        heading_draw(drawing, run, panel);
        for (size_t i = 0; i < LINES_MAX && panels[panel].lines[i].name; i++)
            line_draw(drawing, run, panel, i, &last_y);
    }
}

static int draw(const void *context, FILE *file) {
    struct drawing drawing = *(const struct drawing *)context;
    int width = (int)(run_left(drawing.count) - LEFT + 16);
    int height = (int)(panel_top(PANELS - 1) + PANEL_HEIGHT + BOTTOM);
    drawing.file = file;
    scales_make(&drawing);
    svg_begin(file, width, height, "selene-replay: memory, disk and hit ratio over the run", style);
    svg_rect(file, "back", 0, 0, width, height);
    svg_text(file, "title", SVG_START, run_left(0), 30, "Memory, disk and hit ratio over the run");
    for (size_t run = 0; run < drawing.count; run++)
        run_draw(&drawing, run);
    svg_end(file);
    return 0;
}

int plot_write(const char *path, const struct plot_run *runs, size_t count, struct selene_message *message) {
    struct drawing drawing = {.runs = runs, .count = count};
    return sel_file_write(path, draw, &drawing, message);
}
