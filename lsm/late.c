/* SPDX-License-Identifier: Apache-2.0
 *
 * Records whose parent has a later sequence. That is rare: the disk's copy of an inner record was damaged and given up
 * while its children stayed, and the record was written again from memory. They are met before their parent, refused for
 * want of it, kept here, and shown again when all others were; then each one that is taken lets its own children in.
 * Nothing is kept, sorted or searched where none is refused.
 */
#include "lsm/open.h"

#include <stdlib.h>
#include <string.h>

struct sel_late {
    struct sel_record_entry entry;
    struct sel_key *keys;    /* own, of a record of the catalogue */
    struct sel_found *found; /* or whose keys these are */
    bool changed, decided;
};

int sel_late_keep(struct sel_opening *opening, const struct sel_record_entry *entry, const struct sel_key *keys,
                  struct sel_found *found, bool changed) {
    if (opening->late_count == opening->late_capacity) {
        size_t capacity = opening->late_capacity * 2 + 16;
        struct sel_late *late = realloc(opening->late, capacity * sizeof *late);
        if (late == NULL)
            return SELENE_E_NOMEM;
        opening->late = late;
        opening->late_capacity = capacity;
    }
    struct sel_late *late = &opening->late[opening->late_count];
    *late = (struct sel_late){.entry = *entry, .found = found, .changed = changed};
    if (found == NULL && entry->page_key_count) {
        late->keys = malloc((size_t)entry->page_key_count * sizeof *keys);
        if (late->keys == NULL)
            return SELENE_E_NOMEM;
        memcpy(late->keys, keys, (size_t)entry->page_key_count * sizeof *keys);
    }
    opening->late_count++;
    return 0;
}

void sel_late_free(struct sel_opening *opening) {
    for (size_t i = 0; i < opening->late_count; i++)
        free(opening->late[i].keys);
    free(opening->late);
    opening->late = NULL;
    opening->late_count = opening->late_capacity = 0;
}

static int compare(const uint8_t *ns, const struct sel_key *key, uint32_t tokens,
                   const struct sel_record_entry *child) {
    int order = memcmp(key->bytes, child->parent_key.bytes, sizeof key->bytes);
    if (order == 0)
        order = memcmp(ns, child->ns, sizeof child->ns);
    return order ? order : (tokens > child->parent_tokens) - (tokens < child->parent_tokens);
}

static int by_parent(const void *a, const void *b) {
    const struct sel_record_entry *x = &(*(struct sel_late *const *)a)->entry;
    const struct sel_record_entry *y = &(*(struct sel_late *const *)b)->entry;
    int order = compare(x->ns, &x->parent_key, x->parent_tokens, y);
    return order ? order
                 : (x->location.sequence > y->location.sequence) - (x->location.sequence < y->location.sequence);
}

struct waiting { /* sorted by parent; those that were taken and whose children were not looked for yet */
    struct sel_late **sorted, **taken;
    size_t count, taken_count;
};

static size_t first_child(const struct waiting *waiting, const struct sel_record_entry *parent) {
    size_t low = 0, high = waiting->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(parent->ns, &parent->key, parent->tokens, &waiting->sorted[middle]->entry) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* SELENE_E_NOMEM only. What lies where another record was shown meanwhile is refused. */
static int try_one(struct sel_opening *opening, struct waiting *waiting, struct sel_late *late) {
    if (late->decided)
        return 0;
    struct sel_found *found = late->found;
    int rc = sel_merge_still_fits(opening, &late->entry) ? 0 : SELENE_E_GONE;
    if (!rc)
        rc = sel_open_show(opening, &late->entry, found ? found->page_keys : late->keys);
    if (rc == SELENE_E_NOMEM || rc == SELENE_E_PARENT)
        return rc == SELENE_E_NOMEM ? rc : 0;
    late->decided = true;
    if (rc) {
        opening->lsm->stats.refused_records++;
        return found ? 0 : sel_u64s_push(&opening->lsm->drop_records, late->entry.location.sequence);
    }
    waiting->taken[waiting->taken_count++] = late;
    if (found) {
        found->entry = late->entry;
        found->accepted = true;
        opening->lsm->stats.recovered_records++;
    }
    return late->changed && !found ? sel_merge_keep_changed(opening, &late->entry) : 0;
}

static int try_all(struct sel_opening *opening, struct waiting *waiting) {
    int rc = 0;
    for (size_t i = 0; i < opening->late_count && !rc; i++) {
        rc = try_one(opening, waiting, &opening->late[i]);
        while (waiting->taken_count > 0 && !rc) {
            const struct sel_record_entry *parent = &waiting->taken[--waiting->taken_count]->entry;
            for (size_t at = first_child(waiting, parent); at < waiting->count && !rc; at++) {
                if (compare(parent->ns, &parent->key, parent->tokens, &waiting->sorted[at]->entry) != 0)
                    break;
                rc = try_one(opening, waiting, waiting->sorted[at]);
            }
        }
    }
    return rc;
}

/* Their parent is nowhere. */
static int refuse_rest(struct sel_opening *opening) {
    int rc = 0;
    for (size_t i = 0; i < opening->late_count && !rc; i++) {
        const struct sel_late *late = &opening->late[i];
        if (late->decided)
            continue;
        opening->lsm->stats.refused_records++;
        if (late->found == NULL)
            rc = sel_u64s_push(&opening->lsm->drop_records, late->entry.location.sequence);
    }
    return rc;
}

int sel_late_show(struct sel_opening *opening) {
    struct waiting waiting = {.count = opening->late_count};
    if (waiting.count == 0)
        return 0;
    waiting.sorted = malloc(waiting.count * sizeof(struct sel_late *));
    waiting.taken = malloc(waiting.count * sizeof(struct sel_late *));
    int rc = waiting.sorted && waiting.taken ? 0 : SELENE_E_NOMEM;
    for (size_t i = 0; i < waiting.count && !rc; i++)
        waiting.sorted[i] = &opening->late[i];
    if (!rc) {
        qsort(waiting.sorted, waiting.count, sizeof(struct sel_late *), by_parent);
        rc = try_all(opening, &waiting);
    }
    if (!rc)
        rc = refuse_rest(opening);
    free(waiting.sorted);
    free(waiting.taken);
    return rc;
}
