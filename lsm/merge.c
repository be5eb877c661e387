/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging what the catalogue says with what the scan found, before and while the visitor is told.
 *
 *   - Records are shown in sequence order, wherever they come from, so that parents come first; for the exception see
 *     late.c.
 *   - Of several records with one key the one written last counts. A key is written again after its record was removed;
 *     the earlier extent can still be found, and a catalogue that was rolled back still names it, though its space may
 *     be gone by now.
 *   - Of several copies of one extent (copy forward left them, they have one sequence) the catalogue's counts if it is
 *     still there, else one that was found: verified, and copied before the other's space was given back.
 */
#include "lsm/open.h"

#include <stdlib.h>
#include <string.h>

static uint64_t order_of(const struct sel_found *found) {
    return found->kind == SEL_EXTENT_KIND_ROW ? found->pages_sequence : found->sequence;
}

/* Pages before rows; each by the sequence of the pages. */
static int by_sequence(const void *a, const void *b) {
    const struct sel_found *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (order_of(x) != order_of(y))
        return order_of(x) < order_of(y) ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static size_t first_of(const struct sel_opening *opening, uint8_t kind, uint64_t sequence) {
    size_t low = 0, high = opening->found_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct sel_found *found = &opening->found[middle];
        if (found->kind < kind || (found->kind == kind && order_of(found) < sequence))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_of(const struct sel_opening *opening, size_t at, uint8_t kind, uint64_t sequence) {
    return at < opening->found_count && opening->found[at].kind == kind && order_of(&opening->found[at]) == sequence;
}

/* The newest extent of this very record that was found and is not older than `least`, or NULL. Of pages there are
 * only copies, of rows also later ones. */
static const struct sel_found *part_of(const struct sel_opening *opening, uint8_t kind,
                                       const struct sel_record_entry *entry, uint64_t least) {
    uint64_t sequence = entry->location.sequence;
    const struct sel_found *newest = NULL;
    for (size_t at = first_of(opening, kind, sequence); is_of(opening, at, kind, sequence); at++) {
        const struct sel_found *found = &opening->found[at];
        if (found->sequence >= least && (newest == NULL || found->sequence > newest->sequence) &&
            sel_key_equal(&found->entry.key, &entry->key) && found->entry.tokens == entry->tokens &&
            memcmp(found->entry.ns, entry->ns, sizeof entry->ns) == 0)
            newest = found;
    }
    return newest;
}

static uint64_t generation_at(const struct sel_lsm *lsm, uint64_t place) {
    return sel_generation_short(sel_segment_find(lsm, (uint32_t)(place >> 32))->generation);
}

/* ---- one record a key ---- */

static int compare_keys(const struct sel_record_entry *x, const struct sel_record_entry *y) {
    int order = memcmp(x->key.bytes, y->key.bytes, sizeof x->key.bytes);
    if (order == 0)
        order = memcmp(x->ns, y->ns, sizeof x->ns);
    return order ? order : (x->tokens > y->tokens) - (x->tokens < y->tokens);
}

/* The latest first. */
static int by_key(const void *a, const void *b) {
    const struct sel_found *x = *(struct sel_found *const *)a, *y = *(struct sel_found *const *)b;
    int order = compare_keys(&x->entry, &y->entry);
    return order ? order : (x->sequence < y->sequence) - (x->sequence > y->sequence);
}

int sel_merge_prepare(struct sel_opening *opening) {
    if (opening->found_count == 0)
        return 0;
    qsort(opening->found, opening->found_count, sizeof *opening->found, by_sequence);
    opening->newest = malloc(opening->found_count * sizeof(struct sel_found *));
    if (opening->newest == NULL)
        return SELENE_E_NOMEM;
    size_t pages = 0, kept = 0;
    for (size_t i = 0; i < opening->found_count; i++)
        if (opening->found[i].kind == SEL_EXTENT_KIND_PAGES)
            opening->newest[pages++] = &opening->found[i];
    qsort(opening->newest, pages, sizeof(struct sel_found *), by_key);
    for (size_t i = 0; i < pages; i++) {
        struct sel_found *found = opening->newest[i], *last = kept ? opening->newest[kept - 1] : NULL;
        if (last == NULL || compare_keys(&last->entry, &found->entry) != 0)
            opening->newest[kept++] = found;
        else
            found->dropped = found->sequence < last->sequence; /* of copies of one extent, the first is shown */
    }
    opening->newest_count = kept;
    return 0;
}

static struct sel_found *newest_of(const struct sel_opening *opening, const struct sel_record_entry *entry) {
    size_t low = 0, high = opening->newest_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct sel_found *found = opening->newest[middle];
        int order = compare_keys(&found->entry, entry);
        if (order == 0)
            return found;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

bool sel_merge_was_found(const struct sel_opening *opening, const struct sel_record_entry *entry) {
    return newest_of(opening, entry) != NULL;
}

void sel_merge_supersede(struct sel_opening *opening, const struct sel_record_entry *entry) {
    struct sel_found *found = newest_of(opening, entry);
    if (found && found->sequence < entry->location.sequence)
        found->dropped = true;
}

/* Nothing was found that was written under this key after it. */
static bool is_newest(const struct sel_opening *opening, const struct sel_record_entry *entry) {
    const struct sel_found *found = newest_of(opening, entry);
    return found == NULL || found->sequence <= entry->location.sequence;
}

/* ---- showing ---- */

static void attach_pages(const struct sel_opening *opening, struct sel_record_entry *entry,
                         const struct sel_found *pages) {
    entry->pages_replicated = pages->replicated;
    entry->location.pages = pages->place;
    entry->location.pages_blocks = pages->blocks;
    entry->pages_generation = generation_at(opening->lsm, pages->place);
}

static void drop_row(struct sel_record_entry *entry) {
    entry->has_row = entry->row_replicated = false;
    entry->location.row = entry->row_generation = 0; /* row_sequence: up to there they are removed */
    entry->location.row_blocks = 0;
}

/* The newest row of the record counts [T5], be it in the catalogue or found; but a record without a row names the last
 * one that was removed, and what is not newer stays removed. True: one that was found. A hostile catalogue can have
 * records of its own where something was found: whoever is shown first has the blocks. */
static bool choose_row(const struct sel_opening *opening, struct sel_record_entry *entry) {
    bool there = entry->location.row && sel_open_place_fits(opening->lsm, entry, SEL_LSM_ROW);
    uint64_t least = entry->row_sequence + (there || !entry->has_row);
    const struct sel_found *row = part_of(opening, SEL_EXTENT_KIND_ROW, entry, least);
    if (row) {
        entry->has_row = true;
        entry->row_replicated = row->replicated;
        entry->row_sequence = row->sequence;
        entry->location.row = row->place;
        entry->location.row_blocks = row->blocks;
        entry->row_generation = generation_at(opening->lsm, row->place);
        there = sel_open_place_fits(opening->lsm, entry, SEL_LSM_ROW);
    }
    if (!there)
        drop_row(entry);
    return row && there;
}

static int show_found(struct sel_opening *opening, struct sel_found *found) {
    struct sel_lsm *lsm = opening->lsm;
    struct sel_record_entry *entry = &found->entry;
    entry->location.sequence = found->sequence;
    attach_pages(opening, entry, found);
    choose_row(opening, entry);
    int rc = SELENE_E_CORRUPT;
    if (sel_open_place_fits(lsm, entry, SEL_LSM_PAGES))
        rc = sel_open_show(opening, entry, found->page_keys);
    if (rc == SELENE_E_NOMEM || rc == SELENE_E_PARENT)
        return rc == SELENE_E_PARENT ? sel_late_keep(opening, entry, found->page_keys, found, false) : rc;
    found->accepted = rc == 0;
    lsm->stats.refused_records += rc != 0;
    lsm->stats.recovered_records += rc == 0;
    return 0;
}

int sel_merge_until(struct sel_opening *opening, uint64_t sequence) {
    int rc = 0;
    while (!rc && opening->next_found < opening->found_count) {
        struct sel_found *found = &opening->found[opening->next_found];
        if (found->kind != SEL_EXTENT_KIND_PAGES || found->sequence >= sequence)
            break;
        bool again = opening->next_found > 0 && found[-1].sequence == found->sequence;
        opening->next_found++;
        if (!found->dropped && !again)
            rc = show_found(opening, found);
    }
    return rc;
}

/* Its place in the catalogue, or the place of a copy; false: neither. `*changed`: the catalogue must be told. */
static bool find_places(struct sel_opening *opening, struct sel_record_entry *entry, bool *changed) {
    if (!sel_open_place_fits(opening->lsm, entry, SEL_LSM_PAGES)) {
        const struct sel_found *pages = part_of(opening, SEL_EXTENT_KIND_PAGES, entry, 0);
        if (pages == NULL)
            return false;
        attach_pages(opening, entry, pages);
        *changed = true;
    }
    *changed |= choose_row(opening, entry);
    return sel_open_place_fits(opening->lsm, entry, SEL_LSM_PAGES);
}

bool sel_merge_still_fits(const struct sel_opening *opening, struct sel_record_entry *entry) {
    if (entry->location.row && !sel_open_place_fits(opening->lsm, entry, SEL_LSM_ROW))
        drop_row(entry);
    return sel_open_place_fits(opening->lsm, entry, SEL_LSM_PAGES);
}

int sel_merge_keep_changed(struct sel_opening *opening, const struct sel_record_entry *entry) {
    if (opening->changed_count == opening->changed_capacity) {
        size_t capacity = opening->changed_capacity * 2 + 16;
        struct sel_record_entry *changed = realloc(opening->changed, capacity * sizeof *changed);
        if (changed == NULL)
            return SELENE_E_NOMEM;
        opening->changed = changed;
        opening->changed_capacity = capacity;
    }
    opening->changed[opening->changed_count++] = *entry;
    return 0;
}

int sel_merge_show(struct sel_opening *opening, struct sel_record_entry *entry, const struct sel_key *keys) {
    bool changed = false;
    uint64_t sequence = entry->location.sequence;
    if (!is_newest(opening, entry) || !find_places(opening, entry, &changed))
        return SELENE_E_GONE;
    for (size_t at = first_of(opening, SEL_EXTENT_KIND_PAGES, sequence);
         is_of(opening, at, SEL_EXTENT_KIND_PAGES, sequence); at++)
        opening->found[at].dropped = true;
    int rc = sel_open_show(opening, entry, keys);
    if (rc == SELENE_E_PARENT)
        return sel_late_keep(opening, entry, keys, NULL, changed);
    return rc || !changed ? rc : sel_merge_keep_changed(opening, entry);
}
