/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated side of the catalogue (index/catalog.h), for crash tests. What is durable is a list of commits, which
 * lives in a sel_catalog_sim and outlives every catalogue opened on it: close one, crash, open the next.
 *
 *   power cut    sel_catalog_sim_crash keeps the first n commits: all of them (the index is intact), fewer (rolled back
 *                to an earlier commit), or SEL_CATALOG_SIM_ABSENT (the file is gone; open then asks for a rebuild)
 *   faults       the countdown-th commit from now fails, and `repeat` more after it
 *   steps        a hook runs before and after each commit, so that a test can count them and cut there
 *
 * Nothing here calls a file system. Safe to use from the store's thread and one catalogue helper; a hook runs on the
 * thread that commits.
 */
#ifndef SEL_TESTS_CATALOG_SIM_H
#define SEL_TESTS_CATALOG_SIM_H

#include "index/catalog.h"

#define SEL_CATALOG_SIM_ABSENT SIZE_MAX

struct sel_catalog_sim;

enum sel_catalog_sim_step {
    SEL_CATALOG_SIM_BEFORE = 0, /* non-zero from the hook: nothing is applied, and commit returns that */
    SEL_CATALOG_SIM_AFTER = 1   /* durable; non-zero from the hook: commit returns that all the same */
};
typedef int sel_catalog_sim_hook(void *context, enum sel_catalog_sim_step step,
                                 const struct sel_catalog_change *changes, size_t count);

/* Starts absent, as a directory without an index. SELENE_E_NOMEM or 0. */
int sel_catalog_sim_create(struct sel_catalog_sim **out);
void sel_catalog_sim_destroy(struct sel_catalog_sim **sim); /* no catalogue open on it; NULL-safe */

/* Opens what is durable. One at a time: SELENE_E_IN_USE otherwise. `*rebuild` is set when the index is absent; it is
 * then created empty. */
int sel_catalog_sim_open(struct sel_catalog **out, struct sel_catalog_sim *sim, bool *rebuild);

/* Commits that are durable since the index was made (by the first open, or the first one after a crash to ABSENT). */
size_t sel_catalog_sim_commits(const struct sel_catalog_sim *sim);
/* Keeps the first `keep_commits` commits (at most all), or makes the index absent. A catalogue still open on it belongs
 * to the process that died: it answers SELENE_E_CLOSED from now on and must still be closed to free it. */
int sel_catalog_sim_crash(struct sel_catalog_sim *sim, size_t keep_commits);

/* The `countdown`-th commit from now (1: the next) and the `repeat` ones after it fail with `error`, unapplied.
 * countdown 0: no fault. */
void sel_catalog_sim_fail(struct sel_catalog_sim *sim, uint64_t countdown, uint64_t repeat, int error);
void sel_catalog_sim_set_hook(struct sel_catalog_sim *sim, sel_catalog_sim_hook *hook, void *context);

#endif
