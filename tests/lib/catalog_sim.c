/* SPDX-License-Identifier: Apache-2.0
 *
 * What is durable is the list of commits; the table is derived from it: applied commit by commit while it grows, and
 * replayed from the start after a crash has cut the list.
 */
#include "tests/lib/catalog_sim.h"

#include "base/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    uint64_t key;
    uint32_t part;
    uint8_t table;
    uint8_t value[SEL_CATALOG_VALUE];
};

struct commit {
    struct sel_catalog_change *changes; /* values follow in the same allocation */
    size_t count;
};

struct sim_catalog {
    struct sel_catalog catalog;
    struct sel_catalog_sim *sim;
    uint64_t life; /* of the sim when it was opened */
};

struct sel_catalog_sim {
    pthread_mutex_t lock;
    struct commit *commits;
    size_t commit_count, commit_capacity;
    struct entry *entries; /* in order of table, key, part */
    size_t entry_count, entry_capacity;
    uint64_t life; /* grows with each crash: catalogues of an earlier life are dead */
    uint64_t fail_countdown, fail_repeat;
    int fail_error;
    sel_catalog_sim_hook *hook;
    void *hook_context;
    bool present;
    bool open;
};

static int compare(const struct entry *entry, uint8_t table, uint64_t key, uint32_t part) {
    if (entry->table != table)
        return entry->table < table ? -1 : 1;
    if (entry->key != key)
        return entry->key < key ? -1 : 1;
    return entry->part == part ? 0 : entry->part < part ? -1 : 1;
}

/* The first entry that is not before (table, key, part). */
static size_t lower_bound(const struct sel_catalog_sim *sim, uint8_t table, uint64_t key, uint32_t part) {
    size_t low = 0, high = sim->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&sim->entries[middle], table, key, part) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int grow(void **array, size_t *capacity, size_t need, size_t item_bytes) {
    if (need <= *capacity)
        return 0;
    size_t next = SEL_MAX(need, *capacity * 2 + 16);
    void *bigger = reallocarray(*array, next, item_bytes);
    if (bigger == NULL)
        return SELENE_E_NOMEM;
    *array = bigger;
    *capacity = next;
    return 0;
}

/* Cannot fail: the caller made room for one entry a change. */
static void apply_one(struct sel_catalog_sim *sim, const struct sel_catalog_change *change) {
    if (change->kind == SEL_CATALOG_DELETE) {
        size_t from = lower_bound(sim, change->table, change->key, 0), to = from;
        while (to < sim->entry_count && sim->entries[to].table == change->table && sim->entries[to].key == change->key)
            to++;
        memmove(&sim->entries[from], &sim->entries[to], (sim->entry_count - to) * sizeof(struct entry));
        sim->entry_count -= to - from;
        return;
    }
    size_t at = lower_bound(sim, change->table, change->key, change->part);
    struct entry *entry = &sim->entries[at];
    if (at == sim->entry_count || compare(entry, change->table, change->key, change->part) != 0) {
        memmove(entry + 1, entry, (sim->entry_count - at) * sizeof *entry);
        sim->entry_count++;
        *entry = (struct entry){.key = change->key, .part = change->part, .table = change->table};
    }
    memcpy(entry->value, change->value, SEL_CATALOG_VALUE);
}

static int apply(struct sel_catalog_sim *sim, const struct sel_catalog_change *changes, size_t count) {
    int rc = grow((void **)&sim->entries, &sim->entry_capacity, sim->entry_count + count, sizeof(struct entry));
    for (size_t i = 0; rc == 0 && i < count; i++)
        apply_one(sim, &changes[i]);
    return rc;
}

/* A deep copy: values of puts are laid behind the changes. */
static struct sel_catalog_change *copy_changes(const struct sel_catalog_change *changes, size_t count) {
    size_t bytes = count * sizeof *changes;
    struct sel_catalog_change *copy = malloc(bytes + count * SEL_CATALOG_VALUE + 1);
    if (copy == NULL)
        return NULL;
    uint8_t *values = (uint8_t *)copy + bytes;
    for (size_t i = 0; i < count; i++) {
        copy[i] = changes[i];
        copy[i].value = NULL;
        if (changes[i].kind == SEL_CATALOG_PUT) {
            memcpy(values + i * SEL_CATALOG_VALUE, changes[i].value, SEL_CATALOG_VALUE);
            copy[i].value = values + i * SEL_CATALOG_VALUE;
        }
    }
    return copy;
}

static int check_changes(const struct sel_catalog_change *changes, size_t count, struct selene_message *message) {
    for (size_t i = 0; i < count; i++) {
        const struct sel_catalog_change *change = &changes[i];
        if (change->kind > SEL_CATALOG_DELETE || change->table >= SEL_CATALOG_TABLES ||
            (change->kind == SEL_CATALOG_PUT && change->value == NULL))
            return sel_fail(message, SELENE_E_INVALID, "catalogue: change %zu: kind %u, table %u", i, change->kind,
                            change->table);
    }
    return 0;
}

/* Counts a commit down; true when it is to fail. */
static bool fault_hits(struct sel_catalog_sim *sim) {
    if (sim->fail_countdown == 0 || --sim->fail_countdown > 0)
        return false;
    if (sim->fail_repeat > 0) {
        sim->fail_repeat--;
        sim->fail_countdown = 1;
    }
    return true;
}

static int append_commit(struct sim_catalog *catalog, const struct sel_catalog_change *changes, size_t count,
                         struct selene_message *message) {
    struct sel_catalog_sim *sim = catalog->sim;
    if (catalog->life != sim->life)
        return sel_fail(message, SELENE_E_CLOSED, "simulated catalogue: its process is dead");
    if (fault_hits(sim))
        return sel_fail(message, sim->fail_error, "simulated catalogue: commit fails as asked");
    struct commit commit = {.changes = copy_changes(changes, count), .count = count};
    int rc = commit.changes ? 0 : SELENE_E_NOMEM;
    if (rc == 0)
        rc = grow((void **)&sim->commits, &sim->commit_capacity, sim->commit_count + 1, sizeof commit);
    if (rc == 0)
        rc = apply(sim, changes, count);
    if (rc == 0)
        sim->commits[sim->commit_count++] = commit;
    else
        free(commit.changes);
    return rc;
}

static bool is_dead(struct sim_catalog *catalog) {
    pthread_mutex_lock(&catalog->sim->lock);
    bool dead = catalog->life != catalog->sim->life;
    pthread_mutex_unlock(&catalog->sim->lock);
    return dead;
}

static int sim_commit(struct sel_catalog *base, const struct sel_catalog_change *changes, size_t count,
                      struct selene_message *message) {
    struct sim_catalog *catalog = SEL_CONTAINER(base, struct sim_catalog, catalog);
    struct sel_catalog_sim *sim = catalog->sim;
    int rc = is_dead(catalog) ? sel_fail(message, SELENE_E_CLOSED, "simulated catalogue: its process is dead")
                              : check_changes(changes, count, message);
    if (rc == 0 && sim->hook)
        rc = sim->hook(sim->hook_context, SEL_CATALOG_SIM_BEFORE, changes, count);
    if (rc)
        return rc;
    pthread_mutex_lock(&sim->lock);
    rc = append_commit(catalog, changes, count, message);
    pthread_mutex_unlock(&sim->lock);
    if (rc == 0 && sim->hook)
        rc = sim->hook(sim->hook_context, SEL_CATALOG_SIM_AFTER, changes, count);
    return rc;
}

static int sim_iterate(struct sel_catalog *base, enum sel_catalog_table table, sel_catalog_visit *visit,
                       void *context) {
    struct sim_catalog *catalog = SEL_CONTAINER(base, struct sim_catalog, catalog);
    struct sel_catalog_sim *sim = catalog->sim;
    int rc = 0;
    pthread_mutex_lock(&sim->lock);
    if (catalog->life != sim->life)
        rc = SELENE_E_CLOSED;
    for (size_t i = lower_bound(sim, (uint8_t)table, 0, 0); rc == 0 && i < sim->entry_count; i++) {
        const struct entry *entry = &sim->entries[i];
        if (entry->table != table)
            break;
        rc = visit(context, entry->key, entry->part, entry->value);
    }
    pthread_mutex_unlock(&sim->lock);
    return rc;
}

/* About what LMDB takes: two meta pages, and 14 entries a page. */
static uint64_t sim_file_bytes(struct sel_catalog *base) {
    struct sel_catalog_sim *sim = SEL_CONTAINER(base, struct sim_catalog, catalog)->sim;
    pthread_mutex_lock(&sim->lock);
    uint64_t bytes = (2 + (sim->entry_count + 13) / 14) * UINT64_C(4096);
    pthread_mutex_unlock(&sim->lock);
    return bytes;
}

static void sim_close(struct sel_catalog *base) {
    struct sim_catalog *catalog = SEL_CONTAINER(base, struct sim_catalog, catalog);
    struct sel_catalog_sim *sim = catalog->sim;
    pthread_mutex_lock(&sim->lock);
    if (catalog->life == sim->life)
        sim->open = false;
    pthread_mutex_unlock(&sim->lock);
    free(catalog);
}

static const struct sel_catalog_ops sim_ops = {
    .commit = sim_commit, .iterate = sim_iterate, .file_bytes = sim_file_bytes, .close = sim_close};

static void drop_commits(struct sel_catalog_sim *sim, size_t keep) {
    while (sim->commit_count > keep)
        free(sim->commits[--sim->commit_count].changes);
}

int sel_catalog_sim_create(struct sel_catalog_sim **out) {
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return SELENE_E_NOMEM;
    pthread_mutex_init(&(*out)->lock, NULL);
    return 0;
}

void sel_catalog_sim_destroy(struct sel_catalog_sim **sim) {
    if (*sim == NULL)
        return;
    SEL_CHECK(!(*sim)->open);
    drop_commits(*sim, 0);
    free((*sim)->commits);
    free((*sim)->entries);
    pthread_mutex_destroy(&(*sim)->lock);
    free(*sim);
    *sim = NULL;
}

int sel_catalog_sim_open(struct sel_catalog **out, struct sel_catalog_sim *sim, bool *rebuild) {
    *out = NULL;
    struct sim_catalog *catalog = calloc(1, sizeof *catalog);
    if (catalog == NULL)
        return SELENE_E_NOMEM;
    pthread_mutex_lock(&sim->lock);
    int rc = sim->open ? SELENE_E_IN_USE : 0;
    if (rc == 0) {
        *rebuild = !sim->present;
        sim->present = sim->open = true;
        *catalog = (struct sim_catalog){.catalog.ops = &sim_ops, .sim = sim, .life = sim->life};
    }
    pthread_mutex_unlock(&sim->lock);
    if (rc)
        free(catalog);
    else
        *out = &catalog->catalog;
    return rc;
}

size_t sel_catalog_sim_commits(const struct sel_catalog_sim *sim) { return sim->commit_count; }

int sel_catalog_sim_crash(struct sel_catalog_sim *sim, size_t keep_commits) {
    pthread_mutex_lock(&sim->lock);
    sim->life++;
    sim->open = false;
    if (keep_commits == SEL_CATALOG_SIM_ABSENT)
        sim->present = false;
    int rc = 0;
    size_t keep = sim->present ? SEL_MIN(keep_commits, sim->commit_count) : 0;
    if (keep < sim->commit_count) {
        drop_commits(sim, keep);
        sim->entry_count = 0;
        for (size_t i = 0; rc == 0 && i < keep; i++)
            rc = apply(sim, sim->commits[i].changes, sim->commits[i].count);
    }
    pthread_mutex_unlock(&sim->lock);
    return rc;
}

void sel_catalog_sim_fail(struct sel_catalog_sim *sim, uint64_t countdown, uint64_t repeat, int error) {
    pthread_mutex_lock(&sim->lock);
    sim->fail_countdown = countdown;
    sim->fail_repeat = repeat;
    sim->fail_error = error;
    pthread_mutex_unlock(&sim->lock);
}

void sel_catalog_sim_set_hook(struct sel_catalog_sim *sim, sel_catalog_sim_hook *hook, void *context) {
    sim->hook = hook;
    sim->hook_context = context;
}
