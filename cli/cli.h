/* SPDX-License-Identifier: Apache-2.0
 *
 * What every command-line tool includes: messages, time, exit codes and the set-up of option parsing (glibc argp).
 *
 * Exit codes of all tools: 0 the job was done and all is well; 1 it was done and found what must not be (a wrong byte,
 * a lost record, a goal missed); 2 it was not done: bad usage, bad input, a directory that cannot be used.
 */
#ifndef SEL_CLI_CLI_H
#define SEL_CLI_CLI_H

#include "base/clock.h"
#include "base/error.h"

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sel_exit { SEL_EXIT_OK = 0, SEL_EXIT_FOUND = 1, SEL_EXIT_USAGE = 2 };

/* Before argp_parse: usage errors exit with SEL_EXIT_USAGE, --version prints "NAME VERSION". */
void sel_cli_start(const char *tool_and_version);

/* Monotonic time. */
uint64_t sel_cli_now_ns(void);

/* "TOOL: text" on stderr, after a progress bar that may be there was cleared. */
void sel_cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For a parser of options: each ends the process through argp_error (exit 2) when `text` is not what it must be; the
 * message names the option, what was found and what was expected. */
uint64_t sel_cli_number(struct argp_state *state, const char *option, const char *text, uint64_t least, uint64_t most);
uint64_t sel_cli_size(struct argp_state *state, const char *option, const char *text, uint64_t least, uint64_t most);
double sel_cli_fraction(struct argp_state *state, const char *option, const char *text); /* 0 < f <= 1 */
/* Index of `text` in a NULL-terminated list of words. */
int sel_cli_choice(struct argp_state *state, const char *option, const char *text, const char *const *words);

/* Ends the process for an option that only prints: 0 when it was all written, else a message and SEL_EXIT_USAGE. */
void __attribute__((noreturn)) sel_cli_listed(struct argp_state *state);

#endif
