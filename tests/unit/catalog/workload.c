/* SPDX-License-Identifier: Apache-2.0
 *
 * Random changes for the catalogue's tests, and the digest of what a catalogue holds.
 */
#include "tests/unit/catalog/workload.h"

#include "base/checksum.h"
#include "tests/lib/test.h"

#include <stdbool.h>

void workload_init(struct workload *load, uint64_t seed) {
    *load = (struct workload){.first_key = 1, .next_key = 1, .parts_max = 4};
    sel_random_seed(&load->random, seed);
}

void workload_destroy(struct workload *load) {
    free(load->changes);
    free(load->values);
}

void workload_clear(struct workload *load) { load->count = 0; }

void workload_value(uint8_t value[SEL_CATALOG_VALUE], uint64_t seed) {
    for (size_t i = 0; i < SEL_CATALOG_VALUE; i += 8) {
        seed = sel_mix64(seed + i);
        memcpy(value + i, &seed, 8);
    }
}

static struct sel_catalog_change *next_change(struct workload *load) {
    if (load->count == load->capacity) {
        load->capacity = load->capacity * 2 + 64;
        load->changes = reallocarray(load->changes, load->capacity, sizeof *load->changes);
        load->values = reallocarray(load->values, load->capacity, sizeof *load->values);
        if (!load->changes || !load->values)
            abort();
    }
    return &load->changes[load->count++];
}

void workload_put(struct workload *load, uint8_t table, uint64_t key, uint32_t part, uint64_t value_seed) {
    *next_change(load) = (struct sel_catalog_change){.kind = SEL_CATALOG_PUT, .table = table, .key = key, .part = part};
    workload_value(load->values[load->count - 1], value_seed);
}

void workload_delete(struct workload *load, uint8_t table, uint64_t key) {
    *next_change(load) = (struct sel_catalog_change){.kind = SEL_CATALOG_DELETE, .table = table, .key = key};
}

static uint64_t below(struct workload *load, uint64_t bound) { return sel_random_below(&load->random, bound); }

static void add_record(struct workload *load) {
    uint64_t key = load->next_key++;
    uint32_t parts = 1 + (uint32_t)below(load, load->parts_max);
    for (uint32_t part = 0; part < parts; part++)
        workload_put(load, SEL_CATALOG_RECORDS, key, part, sel_random_u64(&load->random));
}

/* Most of what is there, from the front, from the back or in between. */
static void delete_many(struct workload *load) {
    uint64_t held = load->next_key - load->first_key, keep = below(load, 4) ? below(load, held + 1) / 4 : 0;
    uint64_t from = load->first_key + below(load, keep + 1), to = from + (held - keep);
    for (uint64_t key = from; key < to; key++)
        workload_delete(load, SEL_CATALOG_RECORDS, key);
    if (from == load->first_key)
        load->first_key = to;
}

void workload_step(struct workload *load, size_t size) {
    uint64_t held = load->next_key - load->first_key;
    workload_clear(load);
    if (held > 0 && below(load, 24) == 0)
        delete_many(load);
    uint64_t adds = below(load, size + 1), deletes = held ? below(load, size + 1) : 0;
    if (below(load, 3) == 0)
        deletes = deletes * 2;
    for (uint64_t i = 0; i < adds; i++)
        add_record(load);
    for (uint64_t i = 0; i < deletes; i++)
        workload_delete(load, SEL_CATALOG_RECORDS, load->first_key + below(load, held + 1));
    for (uint64_t i = below(load, 4); i > 0; i--) /* rewrite some record that may or may not be there */
        workload_put(load, SEL_CATALOG_RECORDS, load->first_key + below(load, held + 1), (uint32_t)below(load, 3),
                     sel_random_u64(&load->random));
    for (uint64_t i = below(load, 6); i > 0; i--)
        workload_put(load, SEL_CATALOG_SEGMENTS, below(load, 40), 0, sel_random_u64(&load->random));
    if (below(load, 5) == 0)
        workload_delete(load, SEL_CATALOG_SEGMENTS, below(load, 40));
    workload_put(load, SEL_CATALOG_META, 0, 0, sel_random_u64(&load->random));
}

int workload_commit(struct workload *load, struct sel_catalog *catalog, struct selene_message *message) {
    for (size_t i = 0; i < load->count; i++)
        load->changes[i].value = load->changes[i].kind == SEL_CATALOG_PUT ? load->values[i] : NULL;
    return catalog->ops->commit(catalog, load->changes, load->count, message);
}

struct digest {
    uint64_t hash, key;
    size_t entries;
    uint32_t part;
    bool any, ordered;
};

static int digest_visit(void *context, uint64_t key, uint32_t part, const uint8_t value[SEL_CATALOG_VALUE]) {
    struct digest *digest = context;
    if (digest->any && (key < digest->key || (key == digest->key && part <= digest->part)))
        digest->ordered = false;
    digest->any = true;
    digest->key = key;
    digest->part = part;
    digest->entries++;
    digest->hash = sel_mix64(digest->hash ^ sel_mix64(key + 1)) ^ sel_mix64(part + 77);
    digest->hash = sel_hash64_seeded(value, SEL_CATALOG_VALUE, digest->hash);
    return 0;
}

uint64_t catalog_digest(struct sel_catalog *catalog, size_t *entries) {
    struct digest digest = {.ordered = true};
    for (unsigned table = 0; table < SEL_CATALOG_TABLES; table++) {
        digest.any = false;
        digest.hash = sel_mix64(digest.hash + table);
        assert_ok(catalog->ops->iterate(catalog, (enum sel_catalog_table)table, digest_visit, &digest));
    }
    assert_true(digest.ordered);
    if (entries)
        *entries = digest.entries;
    return digest.hash;
}
