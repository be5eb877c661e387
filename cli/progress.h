/* SPDX-License-Identifier: Apache-2.0
 *
 * A progress bar on standard error, drawn only when that is a terminal, at most ten times a second. One at a time.
 *
 *     replay  [=========>          ]  47 %  5,652 / 12,031  1m 02s
 */
#ifndef SEL_CLI_PROGRESS_H
#define SEL_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct sel_progress {
    const char *label; /* must outlive it */
    uint64_t total;
    uint64_t start_ns;
    uint64_t drawn_ns;
    bool on;
};

void sel_progress_start(struct sel_progress *progress, const char *label, uint64_t total, bool wanted);
void sel_progress_update(struct sel_progress *progress, uint64_t done, const char *note); /* note: may be NULL */
/* Removes the bar; nothing of it stays on the screen. */
void sel_progress_finish(struct sel_progress *progress);
/* Removes what is drawn now, before other output to the terminal. The next update draws it again. */
void sel_progress_clear(void);

/* The line for so many columns, without control codes: for update, and for tests. */
#define SEL_PROGRESS_LINE 256
void sel_progress_line(char line[SEL_PROGRESS_LINE], const char *label, uint64_t done, uint64_t total,
                       uint64_t elapsed_ns, const char *note, unsigned columns);

#endif
