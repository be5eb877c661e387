/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters over HTTP: GET /metrics answers with the last text that the store's owner handed over.
 *
 * A store belongs to one thread, and this server never touches it: once a second its owner makes the text
 * (selene_metrics_text) and sets it. Setting never waits for a client, nor for the server: where that is just copying the
 * text, the new one is left for the next time.
 */
#ifndef SEL_CLI_METRICS_HTTP_H
#define SEL_CLI_METRICS_HTTP_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sel_metrics_http;

/* See sel_http_start for addresses and errors. Until the first text is set /metrics answers 503. */
int sel_metrics_http_start(struct sel_metrics_http **out, const char *address, struct selene_message *message);
const char *sel_metrics_http_address(const struct sel_metrics_http *metrics);
/* Whether the text is a second old: time for a new one. Times are monotonic. Of the owner's thread, as is set. */
bool sel_metrics_http_due(const struct sel_metrics_http *metrics, uint64_t now_ns);
/* Takes over `*text` (malloc'ed), of so many bytes, and nulls it. */
void sel_metrics_http_set(struct sel_metrics_http *metrics, char **text, size_t bytes, uint64_t now_ns);
void sel_metrics_http_stop(struct sel_metrics_http **metrics); /* NULL-safe */

#endif
