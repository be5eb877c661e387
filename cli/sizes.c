/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and printing sizes. The fraction is kept as an integer over a power of ten, so that "1.1G" is exact to the
 * byte and nothing depends on the locale.
 */
#include "cli/sizes.h"

#include "base/selene_error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int digits_read(const char **text, uint64_t *value) {
    const char *at = *text;
    uint64_t sum = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(sum, UINT64_C(10), &sum) || __builtin_add_overflow(sum, (uint64_t)(*at - '0'), &sum))
            return SELENE_E_OVERFLOW;
    if (at == *text)
        return SELENE_E_PARSE;
    *text = at;
    *value = sum;
    return 0;
}

/* At most nine digits of a fraction count: more cannot change a byte of what fits in memory or on a disk. */
static int fraction_read(const char **text, uint64_t *part, uint64_t *of) {
    const char *at = *text;
    *part = 0, *of = 1;
    if (*at != '.')
        return 0;
    at++;
    if (*at < '0' || *at > '9')
        return SELENE_E_PARSE;
    for (; *at >= '0' && *at <= '9'; at++)
        if (*of < UINT64_C(1000000000))
            *part = *part * 10 + (uint64_t)(*at - '0'), *of *= 10;
    *text = at;
    return 0;
}

static int suffix_read(const char **text, unsigned *shift) {
    static const char letters[] = "KMGTP";
    *shift = 0;
    if (**text == '\0')
        return 0;
    const char *found = strchr(letters, **text & ~0x20);
    if (found == NULL || *found == '\0')
        return SELENE_E_PARSE;
    *shift = 10 * (unsigned)(found - letters + 1);
    *text += 1;
    if (strcmp(*text, "iB") == 0)
        *text += 2;
    return **text == '\0' ? 0 : SELENE_E_PARSE;
}

int sel_size_parse(const char *text, uint64_t *bytes) {
    uint64_t whole, part, of, scaled;
    unsigned shift;
    *bytes = 0;
    int result = digits_read(&text, &whole);
    if (result == 0)
        result = fraction_read(&text, &part, &of);
    if (result == 0)
        result = suffix_read(&text, &shift);
    if (result)
        return result;
    if (shift == 0 && part)
        return SELENE_E_PARSE; /* half a byte */
    if (__builtin_mul_overflow(whole, UINT64_C(1) << shift, &scaled))
        return SELENE_E_OVERFLOW;
    uint64_t rest = (uint64_t)(((unsigned __int128)part << shift) / of);
    return __builtin_add_overflow(scaled, rest, bytes) ? SELENE_E_OVERFLOW : 0;
}

int sel_number_parse(const char *text, uint64_t *number) {
    *number = 0;
    int result = digits_read(&text, number);
    return result == 0 && *text ? SELENE_E_PARSE : result;
}

const char *sel_size_print(char text[SEL_SIZE_TEXT], uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    double value = (double)bytes;
    for (; value >= 1024 && (unit > 0 || bytes >= 10240) && unit < 6; unit++)
        value /= 1024;
    if (unit == 0)
        snprintf(text, SEL_SIZE_TEXT, "%" PRIu64 " B", bytes);
    else
        snprintf(text, SEL_SIZE_TEXT, value < 10 ? "%.2f %s" : value < 100 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

const char *sel_count_print(char text[SEL_SIZE_TEXT], uint64_t number) {
    char plain[24];
    int count = snprintf(plain, sizeof plain, "%" PRIu64, number), to = 0;
    for (int i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0)
            text[to++] = ',';
        text[to++] = plain[i];
    }
    text[to] = '\0';
    return text;
}
