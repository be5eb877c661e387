/* SPDX-License-Identifier: Apache-2.0
 *
 * A small HTTP server for pages that are made in memory: GET and HEAD, one thread, bounded connections. `http.c` is the
 * only file that knows libmicrohttpd.
 *
 * What a client can do: hold one of a few connections until it says nothing for some seconds, or until many others have
 * come after it, and be answered. Whoever runs the server is not involved: pages are asked for on the server's own thread.
 */
#ifndef SEL_CLI_HTTP_H
#define SEL_CLI_HTTP_H

#include "base/error.h"

#include <stddef.h>

struct sel_http;

struct sel_http_page {
    unsigned status; /* 200, 404, 503 */
    const char *content_type;
    char *body; /* malloc'ed; the server frees it. NULL: no memory, the connection is closed */
    size_t body_bytes;
};
/* Makes the page at a path ("/metrics", without the query). Runs on the server's thread. */
typedef void sel_http_make_page(void *context, const char *path, struct sel_http_page *page);

/* Listens on HOST:PORT, [IPV6]:PORT, :PORT or PORT; without a host on loopback only; port 0: one that is free. A name
 * with several addresses: the first that this machine has. Blocks
 * while a host name is looked up. SELENE_E_INVALID, _IN_USE, _IO, _PERMISSION with a message. */
int sel_http_start(struct sel_http **out, const char *address, sel_http_make_page *make, void *context,
                   struct selene_message *message);
/* "127.0.0.1:9400": where it really listens. */
const char *sel_http_address(const struct sel_http *http);
/* Ends all connections; no page is made from here on. NULL-safe. Not in a forked child: the thread is the parent's, and so
 * is the port once the child has ended or executed something else. */
void sel_http_stop(struct sel_http **http);

#endif
