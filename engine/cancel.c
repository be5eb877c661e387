/* SPDX-License-Identifier: Apache-2.0
 *
 * selene_cancel [R6]: the request stops starting things; its event comes when nothing touches the caller's memory.
 */
#include "engine/store_priv.h"

int selene_cancel(selene_store *store, uint64_t ticket) {
    int result = sel_store_usable(store);
    if (result)
        return result;
    SEL_LIST_FOR_EACH(link, &store->requests) {
        struct sel_request *request = SEL_LIST_ENTRY(link, struct sel_request, link);
        if (request->event.ticket == ticket) {
            request->cancel(request);
            sel_store_kick(store);
            return 0;
        }
    }
    return SELENE_E_NOTFOUND;
}
