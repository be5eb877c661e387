/* SPDX-License-Identifier: Apache-2.0
 *
 * The catalogue: the persistent, *derived* table of what the segments hold [D7, D8]. A table of functions with a real
 * side (catalog_lmdb.c) and a simulated one (tests/lib/catalog_sim.c) that loses any suffix of unsynced commits.
 *
 * It stores fixed-size values of SEL_CATALOG_VALUE bytes under (table, key, part), ordered by key and part. What is in
 * a value is the caller's (lsm/catalog_format.h); each value carries its own checksum.
 *
 *   table RECORDS   key = sequence number of the record, part 0 = the record, parts 1.. = its page keys
 *   table SEGMENTS  key = segment id, part 0 = its generation and how far it is indexed
 *   table META      key = 0, part 0 = store id, versions, clean-stop mark
 *
 * Commits block (they sync), so they run on the catalogue's helper thread, one at a time; reads at open run before
 * that.
 */
#ifndef SEL_INDEX_CATALOG_H
#define SEL_INDEX_CATALOG_H

#include "base/error.h"
#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEL_CATALOG_VALUE   256
#define SEL_CATALOG_VERSION 1 /* in the file name: index.v1.lmdb */

enum sel_catalog_table {
    SEL_CATALOG_META = 0,
    SEL_CATALOG_SEGMENTS = 1,
    SEL_CATALOG_RECORDS = 2,
    SEL_CATALOG_TABLES = 3
};
enum sel_catalog_change_kind { SEL_CATALOG_PUT = 0, SEL_CATALOG_DELETE = 1 /* all parts of the key */ };

struct sel_catalog_change {
    uint8_t kind;
    uint8_t table;
    uint32_t part; /* PUT only */
    uint64_t key;
    const uint8_t *value; /* PUT: SEL_CATALOG_VALUE bytes, kept alive by the caller until commit returns */
};

/* Return non-zero to stop; that value is returned by iterate. */
typedef int sel_catalog_visit(void *context, uint64_t key, uint32_t part, const uint8_t value[SEL_CATALOG_VALUE]);

struct sel_catalog;
struct sel_catalog_ops {
    /* One transaction, synced when it returns 0: all changes or none. Deleting what is not there is no error. Blocking.
     */
    int (*commit)(struct sel_catalog *catalog, const struct sel_catalog_change *changes, size_t count,
                  struct selene_message *message);
    /* Visits a table in key and part order, in one read snapshot. */
    int (*iterate)(struct sel_catalog *catalog, enum sel_catalog_table table, sel_catalog_visit *visit, void *context);
    /* Size of the file: it counts toward the disk limit [D6]. Cheap, any thread. */
    uint64_t (*file_bytes)(struct sel_catalog *catalog);
    void (*close)(struct sel_catalog *catalog); /* frees it */
};
struct sel_catalog {
    const struct sel_catalog_ops *ops;
};

/* Opens or creates DIR/index.v1.lmdb (one file, MDB_NOSUBDIR, no lock file: the store's own lock excludes others). An
 * existing file is validated *without mapping it* first (catalog_validate.h); a damaged one is set aside as
 * index.v1.lmdb.damaged-N, a new one is created, and `*rebuild` is set: the caller rebuilds it from the segments.
 * A missing file also sets `*rebuild`. `map_bytes_max` bounds the file's growth. */
int sel_catalog_lmdb_open(struct sel_catalog **out, const char *directory, uint64_t map_bytes_max,
                          const struct sel_log *log, bool *rebuild, struct selene_message *message);

#endif
