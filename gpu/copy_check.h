/* SPDX-License-Identifier: Apache-2.0
 *
 * What every back end checks before it touches memory.
 */
#ifndef SEL_GPU_COPY_CHECK_H
#define SEL_GPU_COPY_CHECK_H

#include "gpu/device.h"

/* More items than memory can hold: `items` is not what it says. So items times ranks times a few bytes cannot overflow. */
#define SEL_COPY_ITEMS_MAX (SIZE_MAX / 64 / SELENE_RANKS_MAX)

/* 0, or SELENE_E_INVALID when a count, a number or an address of the copy is out of range for the layout. Reads only the
 * copy and its arrays. Any thread. */
int sel_copy_check(const struct sel_layout *layout, const struct sel_copy *copy);
/* The same for a comparison. */
int sel_compare_check(const struct sel_layout *layout, const struct sel_compare *compare);

#endif
