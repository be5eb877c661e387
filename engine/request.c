/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests in flight and events for the caller. An event lives in the request it ends, so that ending one cannot fail.
 */
#include "engine/store_priv.h"

#include <string.h>

void sel_request_begin(selene_store *store, struct sel_request *request, int kind,
                       void (*cancel)(struct sel_request *request)) {
    request->event.kind = kind;
    request->event.ticket = ++store->ticket_next;
    request->started_ns = sel_mono_ns(store->clock);
    request->cancel = cancel;
    sel_list_init(&request->link);
    sel_list_add_tail(&store->requests, &request->link);
    store->request_count++;
}

void sel_request_end(selene_store *store, struct sel_request *request, int result) {
    request->event.result = result;
    request->event.elapsed_ns = sel_mono_ns(store->clock) - request->started_ns;
    sel_list_remove(&request->link);
    store->request_count--;
    sel_list_add_tail(&store->events, &request->link);
}

int sel_event_prepare(const selene_store *store, struct sel_request **event) {
    *event = store->options.report_commits ? calloc(1, sizeof **event) : NULL;
    return *event || !store->options.report_commits ? 0 : SELENE_E_NOMEM;
}

void sel_event_committed(selene_store *store, struct sel_request **out, const struct sel_node *node) {
    struct sel_request *event = *out;
    *out = NULL;
    if (!event)
        return;
    event->event.kind = SELENE_EVENT_COMMITTED;
    event->event.tokens = node->tokens;
    memcpy(event->event.key, node->key.bytes, sizeof node->key.bytes);
    sel_list_init(&event->link);
    sel_list_add_tail(&store->events, &event->link);
}

void sel_rate_add(struct sel_rate *rate, uint64_t bytes, uint64_t ns) {
    /* A quarter of each new sample: follows a change within a few samples, one outlier does not rule. */
    const double weight = 0.25;
    if (bytes == 0 || ns == 0)
        return;
    double sample = (double)bytes / (double)ns;
    rate->bytes_per_ns = rate->bytes_per_ns > 0 ? rate->bytes_per_ns * (1 - weight) + sample * weight : sample;
}
