/* SPDX-License-Identifier: Apache-2.0
 *
 * Start of a tool and the parsing of single option values.
 */
#include "cli/cli.h"

#include "cli/progress.h"
#include "cli/sizes.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sel_cli_start(const char *tool_and_version) {
    argp_program_version = tool_and_version;
    argp_err_exit_status = SEL_EXIT_USAGE;
    setlocale(LC_CTYPE, "");
    signal(SIGPIPE, SIG_IGN); /* a reader that left is a write error, which is reported */
}

uint64_t sel_cli_now_ns(void) { return sel_mono_ns(sel_clock_system()); }

void sel_cli_error(const char *format, ...) {
    va_list list;
    sel_progress_clear();
    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
}

static void outside(struct argp_state *state, const char *option, const char *text, uint64_t least, uint64_t most) {
    argp_error(state, "--%s: found `%s`, expected %" PRIu64 " to %" PRIu64, option, text, least, most);
}

uint64_t sel_cli_number(struct argp_state *state, const char *option, const char *text, uint64_t least, uint64_t most) {
    uint64_t value;
    int result = sel_number_parse(text, &value);
    if (result == SELENE_E_PARSE)
        argp_error(state, "--%s: found `%s`, expected a whole number", option, text);
    else if (result || value < least || value > most)
        outside(state, option, text, least, most);
    return value;
}

uint64_t sel_cli_size(struct argp_state *state, const char *option, const char *text, uint64_t least, uint64_t most) {
    uint64_t value;
    int result = sel_size_parse(text, &value);
    if (result == SELENE_E_PARSE)
        argp_error(state, "--%s: found `%s`, expected a size such as 4096, 256M or 1.5G", option, text);
    else if (result || value < least || value > most)
        outside(state, option, text, least, most);
    return value;
}

void sel_cli_listed(struct argp_state *state) {
    if (fflush(stdout) || ferror(stdout))
        argp_failure(state, SEL_EXIT_USAGE, errno, "cannot write to standard output");
    exit(SEL_EXIT_OK);
}

/* Digits and a point only, so that neither "inf" nor "0x1p-1" nor a locale's comma is a fraction. */
double sel_cli_fraction(struct argp_state *state, const char *option, const char *text) {
    uint64_t whole = 0, part = 0, of = 1;
    size_t digits = strspn(text, "0123456789"), rest = 0;
    for (size_t i = 0; i < digits && whole < 10; i++)
        whole = whole * 10 + (uint64_t)(text[i] - '0');
    const char *at = text + digits;
    if (*at == '.') {
        rest = strspn(++at, "0123456789");
        for (size_t i = 0; i < rest && i < 15; i++)
            part = part * 10 + (uint64_t)(at[i] - '0'), of *= 10;
        at += rest;
    }
    double value = (double)whole + (double)part / (double)of;
    if (digits + rest == 0 || *at || value <= 0 || value > 1)
        argp_error(state, "--%s: found `%s`, expected a fraction above 0 and at most 1", option, text);
    return value;
}

int sel_cli_choice(struct argp_state *state, const char *option, const char *text, const char *const *words) {
    char list[256] = "";
    size_t used = 0;
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], text) == 0)
            return i;
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
    }
    argp_error(state, "--%s: found `%s`, expected one of: %s", option, text, list);
    return 0;
}
