/* SPDX-License-Identifier: Apache-2.0
 *
 * One store on a simulated disk with its model, for tests of single faults: opened empty, with small segments.
 */
#ifndef SEL_TESTS_CRASH_SCENE_H
#define SEL_TESTS_CRASH_SCENE_H

#include "tests/crash/world.h"

#define SCENE_WRITES 6

struct scene {
    struct model model;
    struct world world;
    struct world_write writes[SCENE_WRITES];
};
extern struct scene scene;

/* `faulty`: with a fault wrapper around the disk. */
void scene_open(bool faulty);
void scene_close(void);
/* Seven tokens more than its parent. */
struct model_record *scene_add(struct model_record *parent, bool has_row);

#endif
