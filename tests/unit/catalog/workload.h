/* SPDX-License-Identifier: Apache-2.0
 *
 * Random changes as the record store makes them, for the catalogue's tests: records with several parts under ascending
 * keys, deletes of some or nearly all of them, rewritten segment and meta entries. And ways to look at a catalogue.
 */
#ifndef SEL_TESTS_CATALOG_WORKLOAD_H
#define SEL_TESTS_CATALOG_WORKLOAD_H

#include "base/random.h"
#include "index/catalog.h"

struct workload {
    struct sel_random random;
    uint64_t first_key, next_key; /* records that may be there: [first, next) */
    struct sel_catalog_change *changes;
    uint8_t (*values)[SEL_CATALOG_VALUE];
    size_t count, capacity;
    uint32_t parts_max; /* of a record */
};

void workload_init(struct workload *load, uint64_t seed);
void workload_destroy(struct workload *load);

void workload_clear(struct workload *load); /* forgets the changes made so far */
void workload_put(struct workload *load, uint8_t table, uint64_t key, uint32_t part, uint64_t value_seed);
void workload_delete(struct workload *load, uint8_t table, uint64_t key);
/* Makes one random commit of up to about `size` changes; now and then one that deletes nearly everything. */
void workload_step(struct workload *load, size_t size);
int workload_commit(struct workload *load, struct sel_catalog *catalog, struct selene_message *message);

/* The bytes of a value with this seed. */
void workload_value(uint8_t value[SEL_CATALOG_VALUE], uint64_t seed);

/* A hash over every key, part and value of all tables in the order of iteration, and how many there are. Fails the test
 * when the order is wrong or iterate fails. */
uint64_t catalog_digest(struct sel_catalog *catalog, size_t *entries);

#endif
