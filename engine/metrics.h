/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters as text, as a function of the numbers alone; selene_metrics_text hands it a store's.
 */
#ifndef SEL_ENGINE_METRICS_H
#define SEL_ENGINE_METRICS_H

#include "engine/selene.h"

/* Writes at most `size` bytes with the terminating 0; returns the length of the whole text, as snprintf does. */
size_t sel_metrics_print(const struct selene_stats *stats, char *text, size_t size);

#endif
