/* SPDX-License-Identifier: Apache-2.0
 *
 * The record store's calls while there is none in the tree: opening says so. Built only then.
 */
#include "lsm/lsm.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

int sel_lsm_open(struct sel_lsm **out, const struct sel_lsm_config *config, sel_lsm_visit *visit, sel_lsm_moved *moved,
                 void *context, struct selene_message *message) {
    *out = NULL;
    return sel_fail(message, SELENE_E_UNSUPPORTED, "disk_directory: built without a disk tier");
}
int sel_lsm_close(struct sel_lsm **lsm) { return 0; }
void sel_lsm_abort(struct sel_lsm **lsm) {}
void sel_lsm_poll(struct sel_lsm *lsm) {}
uint64_t sel_lsm_deadline_ns(const struct sel_lsm *lsm) { return UINT64_MAX; }
int sel_lsm_write_begin(struct sel_lsm *lsm, const struct sel_layout *layout, const struct sel_lsm_record *record,
                        struct sel_lsm_write *parent, struct sel_lsm_write **out) {
    return SELENE_E_UNSUPPORTED;
}
void sel_lsm_write_data(struct sel_lsm_write *write, enum sel_lsm_part part, uint64_t offset, const struct iovec *iov,
                        int iov_count, struct sel_op *op) {}
void sel_lsm_write_finish(struct sel_lsm_write *write, const uint64_t *page_sums, const uint64_t *row_sums,
                          struct sel_op *op) {}
void sel_lsm_write_abandon(struct sel_lsm_write **write) {}
struct sel_location sel_lsm_write_location(const struct sel_lsm_write *write) {
    return (struct sel_location){0};
}
void sel_lsm_write_free(struct sel_lsm_write **write) {}
uint64_t sel_lsm_record_bytes(const struct sel_layout *layout, uint32_t pages, uint32_t page_keys,
                              bool pages_replicated, bool has_row, bool row_replicated) {
    return 0;
}
void sel_lsm_flush(struct sel_lsm *lsm) {}
void sel_lsm_reader_open(struct sel_lsm *lsm, const struct sel_layout *layout, const struct sel_lsm_record *record,
                         const struct sel_location *location, enum sel_lsm_part part, const struct iovec *iov,
                         int iov_count, struct sel_lsm_reader **out, struct sel_op *op) {}
void sel_lsm_reader_read(struct sel_lsm_reader *reader, uint64_t offset, const struct iovec *iov, int iov_count,
                         struct sel_op *op) {}
const uint64_t *sel_lsm_reader_sums(const struct sel_lsm_reader *reader, size_t *count) { return NULL; }
bool sel_lsm_reader_replicated(const struct sel_lsm_reader *reader) { return false; }
void sel_lsm_reader_close(struct sel_lsm_reader **reader) {}
void sel_lsm_remove(struct sel_lsm *lsm, const struct sel_location *location, struct sel_op *op) {}
void sel_lsm_remove_row(struct sel_lsm *lsm, const struct sel_lsm_record *record, const struct sel_location *location,
                        struct sel_op *op) {}
uint64_t sel_lsm_shortage(const struct sel_lsm *lsm, uint64_t bytes) { return 0; }
enum sel_lsm_state sel_lsm_state(const struct sel_lsm *lsm) { return SEL_LSM_OK; }
void sel_lsm_get_stats(const struct sel_lsm *lsm, struct sel_lsm_stats *stats) {}
int sel_lsm_check(struct sel_lsm *lsm, struct selene_message *message) { return 0; }
