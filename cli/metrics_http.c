/* SPDX-License-Identifier: Apache-2.0
 *
 * The pages of the metrics endpoint, and the text between two threads, see metrics_http.h.
 */
#include "cli/metrics_http.h"

#include "base/clock.h"
#include "cli/http.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FRESH_NS SEL_NS_PER_SECOND

struct sel_metrics_http {
    struct sel_http *http;
    pthread_mutex_t lock; /* held for a copy of the text on the server's thread, for a swap on the owner's */
    char *text;           /* NULL: none yet */
    size_t bytes;
    uint64_t set_ns; /* the owner's */
    bool set;
};

static void fixed_page(struct sel_http_page *page, unsigned status, const char *content_type, const char *text) {
    *page = (struct sel_http_page){status, content_type, strdup(text), strlen(text)};
}

static void counters_page(struct sel_metrics_http *metrics, struct sel_http_page *page) {
    pthread_mutex_lock(&metrics->lock);
    size_t bytes = metrics->bytes;
    char *copy = metrics->text ? malloc(bytes + 1) : NULL;
    bool none = metrics->text == NULL;
    if (copy)
        memcpy(copy, metrics->text, bytes);
    pthread_mutex_unlock(&metrics->lock);
    if (none)
        fixed_page(page, 503, "text/plain", "No counters yet.\n");
    else
        *page = (struct sel_http_page){200, "text/plain; version=0.0.4", copy, bytes};
}

static void make_page(void *context, const char *path, struct sel_http_page *page) {
    if (strcmp(path, "/metrics") == 0)
        counters_page(context, page);
    else if (strcmp(path, "/") == 0)
        fixed_page(page, 200, "text/html; charset=utf-8",
                   "<!DOCTYPE html>\n<html><head><title>Selene</title></head>\n"
                   "<body><h1>Selene</h1><p><a href=\"/metrics\">Counters</a></p></body></html>\n");
    else
        fixed_page(page, 404, "text/plain", "There is /metrics.\n");
}

int sel_metrics_http_start(struct sel_metrics_http **out, const char *address, struct selene_message *message) {
    *out = NULL;
    struct sel_metrics_http *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return sel_fail(message, SELENE_E_NOMEM, "no memory");
    pthread_mutex_init(&metrics->lock, NULL);
    int result = sel_http_start(&metrics->http, address, make_page, metrics, message);
    if (result) {
        sel_metrics_http_stop(&metrics);
        return result;
    }
    *out = metrics;
    return 0;
}

const char *sel_metrics_http_address(const struct sel_metrics_http *metrics) { return sel_http_address(metrics->http); }

bool sel_metrics_http_due(const struct sel_metrics_http *metrics, uint64_t now_ns) {
    return !metrics->set || now_ns - metrics->set_ns >= FRESH_NS;
}

void sel_metrics_http_set(struct sel_metrics_http *metrics, char **text, size_t bytes, uint64_t now_ns) {
    char *old = *text;
    if (pthread_mutex_trylock(&metrics->lock) == 0) {
        old = metrics->text;
        metrics->text = *text;
        metrics->bytes = bytes;
        pthread_mutex_unlock(&metrics->lock);
        metrics->set = true;
        metrics->set_ns = now_ns;
    }
    free(old);
    *text = NULL;
}

void sel_metrics_http_stop(struct sel_metrics_http **pointer) {
    struct sel_metrics_http *metrics = *pointer;
    if (!metrics)
        return;
    sel_http_stop(&metrics->http);
    pthread_mutex_destroy(&metrics->lock);
    free(metrics->text);
    free(metrics);
    *pointer = NULL;
}
