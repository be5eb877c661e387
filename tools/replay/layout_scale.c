/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling of layouts.
 */
#include "tools/replay/layout_scale.h"

#include <stdlib.h>
#include <string.h>

static uint64_t divided(uint64_t bytes, uint64_t divisor) { return bytes / divisor ? bytes / divisor : 1; }

/* The fewest tokens an entry must cover so that each of a page's entries has a byte. page_tokens always will do. */
static uint32_t entry_tokens_for(uint32_t page_tokens, uint32_t entry_tokens, uint64_t bytes) {
    uint32_t tokens = entry_tokens;
    while (page_tokens % tokens || page_tokens / tokens > bytes)
        tokens += entry_tokens;
    return tokens;
}

static struct selene_plane plane_scale(uint32_t page_tokens, const struct selene_plane *plane, uint64_t divisor) {
    struct selene_plane scaled = {.bytes = divided(plane->bytes, divisor)};
    if (plane->entry_tokens == 0)
        return scaled;
    scaled.entry_tokens = plane->entry_tokens;
    scaled.entry_bytes = (uint32_t)(plane->entry_bytes / divisor);
    if (scaled.entry_bytes == 0) {
        scaled.entry_tokens = entry_tokens_for(page_tokens, plane->entry_tokens, scaled.bytes);
        scaled.entry_bytes = (uint32_t)(scaled.bytes / (page_tokens / scaled.entry_tokens));
    }
    return scaled;
}

int layout_scale(struct sel_layout_file *out, const struct selene_layout *layout, bool pages_replicated,
                 bool row_replicated, uint64_t divisor) {
    struct selene_plane *planes = calloc(layout->plane_count, sizeof *planes);
    uint8_t *description = malloc(layout->description_bytes + 1);
    *out = (struct sel_layout_file){.layout = *layout};
    out->layout.planes = planes;
    out->layout.description = description;
    out->pages_replicated = pages_replicated, out->row_replicated = row_replicated;
    if (planes == NULL || description == NULL) {
        sel_layout_file_free(out);
        return SELENE_E_NOMEM;
    }
    for (uint32_t p = 0; p < layout->plane_count; p++)
        planes[p] = plane_scale(layout->page_tokens, &layout->planes[p], divisor);
    if (layout->description_bytes)
        memcpy(description, layout->description, layout->description_bytes);
    if (layout->row_bytes)
        out->layout.row_bytes = divided(layout->row_bytes, divisor);
    return 0;
}
