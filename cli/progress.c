/* SPDX-License-Identifier: Apache-2.0
 *
 * The bar is one line, redrawn in place; `shown` says whether something of it is on the screen.
 */
#include "cli/progress.h"

#include "cli/cli.h"
#include "cli/sizes.h"

#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REDRAW_NS (SEL_NS_PER_SECOND / 10)
#define BAR_MAX   40

static bool shown;

static unsigned terminal_columns(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static void duration(char *text, size_t size, uint64_t ns) {
    uint64_t seconds = ns / SEL_NS_PER_SECOND;
    if (seconds < 60)
        snprintf(text, size, "%" PRIu64 "s", seconds);
    else if (seconds < 3600)
        snprintf(text, size, "%" PRIu64 "m %02" PRIu64 "s", seconds / 60, seconds % 60);
    else
        snprintf(text, size, "%" PRIu64 "h %02" PRIu64 "m", seconds / 3600, seconds / 60 % 60);
}

/* What does not fit is left out from the right: first the note, then the bar shrinks; the line never wraps. */
void sel_progress_line(char line[SEL_PROGRESS_LINE], const char *label, uint64_t done, uint64_t total,
                       uint64_t elapsed_ns, const char *note, unsigned columns) {
    char now[SEL_SIZE_TEXT], all[SEL_SIZE_TEXT], time[32], right[160], bar[BAR_MAX + 1];
    if (done > total)
        done = total;
    unsigned percent = total ? (unsigned)((unsigned __int128)done * 100 / total) : 100;
    duration(time, sizeof time, elapsed_ns);
    snprintf(right, sizeof right, "%3u %%  %s / %s  %s", percent, sel_count_print(now, done),
             sel_count_print(all, total), time);
    size_t fixed = strlen(label) + strlen(right) + 7, room = columns > fixed ? columns - fixed : 0;
    unsigned width = room < BAR_MAX ? (unsigned)room : BAR_MAX, full = percent * width / 100;
    for (unsigned i = 0; i < width; i++)
        bar[i] = i < full ? '=' : i == full ? '>' : ' ';
    bar[width] = '\0';
    int used = snprintf(line, SEL_PROGRESS_LINE, "%s  [%s]  %s", label, bar, right);
    if (note && used > 0 && used + 2 + strlen(note) < columns && columns < SEL_PROGRESS_LINE)
        snprintf(line + used, SEL_PROGRESS_LINE - (size_t)used, "  %s", note);
    if (columns < SEL_PROGRESS_LINE)
        line[columns] = '\0';
}

void sel_progress_start(struct sel_progress *progress, const char *label, uint64_t total, bool wanted) {
    *progress = (struct sel_progress){.label = label, .total = total, .on = wanted && isatty(STDERR_FILENO)};
    progress->start_ns = sel_cli_now_ns();
}

void sel_progress_update(struct sel_progress *progress, uint64_t done, const char *note) {
    char line[SEL_PROGRESS_LINE];
    if (!progress->on)
        return;
    uint64_t now = sel_cli_now_ns();
    if (now - progress->drawn_ns < REDRAW_NS)
        return;
    progress->drawn_ns = now;
    sel_progress_line(line, progress->label, done, progress->total, now - progress->start_ns, note,
                      terminal_columns() - 1);
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
    shown = true;
}

void sel_progress_finish(struct sel_progress *progress) {
    sel_progress_clear();
    progress->on = false;
}

void sel_progress_clear(void) {
    if (!shown)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    shown = false;
}
