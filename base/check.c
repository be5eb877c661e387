/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a failed SEL_CHECK ends: one line on stderr, then abort, so that a core dump shows the state.
 */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void sel_check_failed(const char *file, int line, const char *expression) {
    fprintf(stderr, "selene: %s:%d: check failed: %s\n", file, line, expression);
    fflush(stderr);
    abort();
}
