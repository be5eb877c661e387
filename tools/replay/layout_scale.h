/* SPDX-License-Identifier: Apache-2.0
 *
 * Which layout is played, and in what size: a model's real one with bytes per plane and row divided by N, so that a
 * trace of long contexts fits the machine while everything else (tokens, pages, planes, ranks) stays as it is.
 */
#ifndef SELENE_REPLAY_LAYOUT_SCALE_H
#define SELENE_REPLAY_LAYOUT_SCALE_H

#include "cli/layout_file.h"

/* Bytes of planes and row divided by `divisor`, at least 1. Entries shrink with their plane; where an entry would
 * shrink below a byte, entries are joined to cover more tokens each. SELENE_E_NOMEM. Free with sel_layout_file_free. */
int layout_scale(struct sel_layout_file *out, const struct selene_layout *layout, bool pages_replicated,
                 bool row_replicated, uint64_t divisor);

#endif
