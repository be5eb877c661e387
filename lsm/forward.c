/* SPDX-License-Identifier: Apache-2.0 */
#include "lsm/lsm_priv.h"

void sel_forward_poll(struct sel_lsm *lsm) { (void)lsm; }
void sel_forward_removed(struct sel_lsm *lsm, const struct sel_location *location) { (void)lsm, (void)location; }
void sel_forward_change(struct sel_lsm *lsm, struct sel_lsm_write *write, struct sel_record_entry *entry) {
    (void)lsm, (void)write, (void)entry;
}
void sel_forward_committed(struct sel_lsm *lsm, struct sel_lsm_write *write) { (void)lsm, (void)write; }
void sel_forward_stop(struct sel_lsm *lsm) { (void)lsm; }
