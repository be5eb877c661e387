/* SPDX-License-Identifier: Apache-2.0
 *
 * Record lifetimes under pressure and faults: conversations grow, fork and rewind with several requests in flight,
 * in a memory that is too small, on disks that fail, fill, lie and lose power, with cancels, drains and restarts in
 * between. After every step the store checks itself [fault 7], and the rules that hold whatever happens are checked on
 * its tree:
 *
 *   - a record whose parent no tier holds does not exist [P6]
 *   - every restored byte is right [I1]
 *   - without faults, with room on disk: whatever was published is held [P3, P6], and its row is, too, where the rules
 *     do not let it go: roots, and records whose children have no children where a row is spared [T1, T8]
 *   - when nothing is in flight: what the disk keeps is what the tree names [T6]
 *   - without faults, when nothing is in flight: no childless record is without its row [P6, T7]
 */
#include "tests/sim/life_world.h"

#ifdef SELENE_SANITIZED
#define SEEDS 4
#else
#define SEEDS 50
#endif

#define SLOTS    5 /* requests at a time */
#define KEEP_MAX 512

struct slot {
    struct device_request device;
    uint64_t ticket; /* 0: free */
    bool restore;
    const struct life_talk *talk;
    uint64_t talk_said; /* the talk may be another by the time of the event */
    uint32_t tokens;
    struct sequence sequence; /* of its own */
};

/* What was published, by key: it may be held. */
struct published {
    struct sel_key key;
    uint32_t tokens;
};

struct run {
    struct life_world life;
    struct slot slots[SLOTS];
    struct published kept[KEEP_MAX];
    uint32_t kept_count;
    struct sel_disk_fault faults[4];
    uint32_t fault_count;
    bool faulty; /* something may fail: nothing has to be held */
    bool room;   /* the last tier holds everything */
    uint64_t steps, accepted, restored, shortened, drains, crashes;
};

static uint64_t below(struct run *run, uint64_t bound) { return life_below(&run->life, bound); }

/* ---- rules ---- */

struct rules {
    struct run *run;
    bool idle;
};

static bool held(const struct sel_node *node) {
    for (int tier = 0; tier < SEL_TIER_COUNT; tier++)
        if (node->tier[tier].present)
            return true;
    return false;
}
static bool pinned(const struct sel_node *node) {
    for (int tier = 0; tier < SEL_TIER_COUNT; tier++)
        if (node->tier[tier].pins)
            return true;
    return false;
}

static void rules_node(void *context, struct sel_node *node) {
    const struct rules *rules = context;
    selene_store *store = rules->run->life.world.store;
    if (node->parent && held(node) && !(node->flags & SEL_DOOMED))
        assert_true(held(node->parent));
    assert_true(held(node) || node->child || pinned(node));
    if (rules->idle && pinned(node))
        print_error("pinned: tokens %u, flags %x, pins %u %u, removals %d\n", node->tokens, node->flags,
                    node->tier[0].pins, node->tier[1].pins, !sel_list_empty(&store->removals));
    if (rules->idle)
        assert_false(pinned(node));
    if (rules->idle && !rules->run->faulty && !node->child)
        assert_true(sel_node_row_usable(store, node));
}

static void check_rules(struct run *run, bool idle) {
    struct rules rules = {run, idle};
    world_check(&run->life.world);
    sel_tree_visit(run->life.world.store->tree, rules_node, &rules);
}

/* ---- what has to be held ---- */

static void keep(struct run *run, const struct slot *slot) {
    struct published *entry = &run->kept[run->kept_count];
    if (run->kept_count == KEEP_MAX)
        return;
    assert_ok(selene_prefix_key(slot->sequence.prefix, slot->tokens, entry->key.bytes));
    entry->tokens = slot->tokens;
    run->kept_count++;
}

/* Rows that no history of commits in any tier allows to go. */
static bool row_must_be_held(const struct run *run, const struct sel_node *node) {
    const struct selene_options *options = &run->life.world.options;
    if (options->no_thinning || !node->parent || !node->child)
        return true;
    for (const struct sel_node *child = node->child; child; child = child->sibling_next)
        if (child->child)
            return false;
    return options->spare_rows > 0;
}

static void check_kept(struct run *run) {
    if (run->faulty || !run->room)
        return;
    for (uint32_t i = 0; i < run->kept_count; i++) {
        struct sel_node *node = life_node(&run->life, &run->kept[i].key, run->kept[i].tokens);
        assert_non_null(node);
        if (row_must_be_held(run, node) && !sel_node_row_usable(run->life.world.store, node))
            print_error("tokens %u: no row; memory %d disk %d flags %x\n", node->tokens,
                        node->tier[SEL_TIER_MEMORY].present, node->tier[SEL_TIER_DISK].present, node->flags);
        if (row_must_be_held(run, node))
            assert_true(sel_node_row_usable(run->life.world.store, node));
    }
}

/* ---- requests ---- */

static struct slot *free_slot(struct run *run) {
    for (uint32_t i = 0; i < SLOTS; i++)
        if (!run->slots[i].ticket)
            return &run->slots[i];
    return NULL;
}

/* The request's own copy of the conversation, since that may fork meanwhile. */
static void take_sequence(struct run *run, struct slot *slot, const struct life_talk *talk) {
    sequence_free(&slot->sequence);
    sequence_fork(&run->life.world, &slot->sequence, &talk->sequence, LIFE_TOKENS, 1, LIFE_TOKENS);
}

static void start_publish(struct run *run) {
    struct selene_publish_result result;
    struct slot *slot = free_slot(run);
    if (!slot)
        return;
    const struct life_talk *talk = life_say(&run->life, &slot->tokens);
    take_sequence(run, slot, talk);
    slot->restore = false;
    request_fill(&run->life.world, &slot->device, &slot->sequence, slot->tokens);
    assert_ok(selene_publish(run->life.world.store, slot->sequence.prefix, slot->tokens, &slot->device.state, &result));
    if (result.answer == SELENE_ACCEPTED) {
        slot->ticket = result.ticket;
        run->accepted++;
    }
}

static void start_restore(struct run *run) {
    struct slot *slot = free_slot(run);
    struct selene_match match;
    if (!slot)
        return;
    take_sequence(run, slot, &run->life.talks[below(run, LIFE_TALKS)]);
    slot->restore = true;
    assert_ok(selene_lookup(run->life.world.store, slot->sequence.prefix, below(run, LIFE_TOKENS + 1), &match));
    if (match.tokens == 0)
        return;
    request_clear(&run->life.world, &slot->device, 0xee);
    slot->tokens = (uint32_t)match.tokens;
    int result =
        selene_restore(run->life.world.store, slot->sequence.prefix, match.tokens, &slot->device.state, &slot->ticket);
    assert_true(result == 0 || result == SELENE_E_RETRY);
    if (result)
        slot->ticket = 0;
}

static void finish_restore(struct run *run, struct slot *slot, const struct selene_event *event) {
    run->restored++;
    run->shortened += event->tokens < slot->tokens;
    assert_true(event->tokens <= slot->tokens);
    if (event->result == 0)
        assert_int_equal(event->tokens, slot->tokens);
    if (!run->faulty && event->result != SELENE_E_CANCELLED)
        assert_int_equal(event->result, 0);
    assert_int_equal(
        request_wrong(&run->life.world, &slot->device, &slot->sequence, (uint32_t)event->tokens, event->tokens > 0), 0);
    if (event->result == 0)
        assert_int_equal(request_touched(&run->life.world, &slot->device, (uint32_t)event->tokens, 0xee), 0);
}

static void finish(struct run *run, const struct selene_event *event) {
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &run->slots[i];
        if (slot->ticket == 0 || slot->ticket != event->ticket)
            continue;
        slot->ticket = 0;
        if (slot->restore)
            finish_restore(run, slot, event);
        else if (event->result == 0)
            keep(run, slot);
        else if (!run->faulty && run->room) /* nothing is lost but what was given up [P1] */
            assert_int_equal(event->result, SELENE_E_CANCELLED);
    }
}

static void poll_some(struct run *run, int rounds) {
    struct selene_event events[4];
    for (int i = 0; i < rounds; i++) {
        int count = world_poll(&run->life.world, events, 4);
        for (int k = 0; k < count; k++)
            finish(run, &events[k]);
    }
}

static bool busy(const struct run *run) {
    for (uint32_t i = 0; i < SLOTS; i++)
        if (run->slots[i].ticket)
            return true;
    return false;
}

static void settle(struct run *run) {
    for (int i = 0; busy(run); i++) {
        assert_true(i < 20000); /* bounded, whatever happened [faults 24, 25] */
        if (run->life.world.disk)
            sel_disk_fault_release(run->life.world.disk);
        poll_some(run, 1);
    }
}

static void cancel_one(struct run *run) {
    struct slot *slot = &run->slots[below(run, SLOTS)];
    if (slot->ticket)
        (void)selene_cancel(run->life.world.store, slot->ticket);
}

/* ---- faults ---- */

static void arm_fault(struct run *run) {
    static const struct {
        uint32_t kinds;
        enum sel_disk_fault_action action;
    } menu[] = {{1u << SEL_DISK_WRITE, SEL_DISK_FAULT_FAIL},
                {1u << SEL_DISK_READ, SEL_DISK_FAULT_FAIL},
                {1u << SEL_DISK_SYNC, SEL_DISK_FAULT_FAIL},
                {1u << SEL_DISK_PUNCH, SEL_DISK_FAULT_FAIL},
                {1u << SEL_DISK_READ, SEL_DISK_FAULT_CORRUPT},
                {1u << SEL_DISK_READ | 1u << SEL_DISK_WRITE, SEL_DISK_FAULT_HOLD}};
    struct world *world = &run->life.world;
    if (!world->disk)
        return;
    if (run->fault_count == SEL_COUNT(run->faults)) {
        sel_disk_fault_clear(world->disk);
        run->fault_count = 0;
        return;
    }
    if (below(run, 5) == 0) { /* [T6] */
        sel_catalog_sim_fail(world->catalog_sim, 1 + below(run, 3), below(run, 2), SELENE_E_IO);
        return;
    }
    uint32_t kind = (uint32_t)below(run, SEL_COUNT(menu));
    struct sel_disk_fault *fault = &run->faults[run->fault_count++];
    *fault = (struct sel_disk_fault){.action = menu[kind].action,
                                     .kinds = menu[kind].kinds,
                                     .countdown = 1 + below(run, 10),
                                     .repeat = below(run, 3),
                                     .corrupt_at = below(run, 1 << 20)};
    sel_disk_fault_arm(world->disk, fault);
}

struct victim {
    struct run *run;
    struct sel_node *node;
    uint64_t seen;
};
static void choose_victim(void *context, struct sel_node *node) {
    struct victim *victim = context;
    if (node->memory && below(victim->run, ++victim->seen) == 0)
        victim->node = node;
}
/* Flips a bit of a memory copy that is not being read or written. */
static void damage_memory(struct run *run) {
    struct victim victim = {.run = run};
    selene_store *store = run->life.world.store;
    sel_tree_visit(store->tree, choose_victim, &victim);
    if (!victim.node || victim.node->tier[SEL_TIER_MEMORY].pins)
        return;
    const struct sel_memory *memory = victim.node->memory;
    const struct sel_copy_part *part = memory->row.count && below(run, 2) ? &memory->row : &memory->pages;
    uint8_t *slot = sel_slot_at(&store->slots, part->slots[below(run, part->count)]);
    slot[below(run, store->slots.slot_bytes)] ^= (uint8_t)(1u << below(run, 8));
}

static void end_faults(struct run *run) {
    settle(run);
    run->fault_count = 0;
    if (!run->life.world.disk)
        return;
    sel_disk_fault_clear(run->life.world.disk);
    sel_catalog_sim_fail(run->life.world.catalog_sim, 0, 0, 0);
    /* What is in flight may still be held back when it completes. */
    for (int i = 0; i < 60; i++) {
        sel_disk_fault_release(run->life.world.disk);
        poll_some(run, 1);
    }
    sel_disk_fault_release(run->life.world.disk);
}

/* Nothing is in flight: no request, and nothing that the store does by itself. */
static void quiesce(struct run *run) {
    const selene_store *store = run->life.world.store;
    end_faults(run);
    for (int i = 0; store->spill_count || store->load_count || !sel_list_empty(&store->removals); i++) {
        assert_true(i < 20000);
        poll_some(run, 1);
    }
}

static void add_blocks(void *context, struct sel_node *node) {
    uint64_t *bytes = context;
    *bytes += (uint64_t)SEL_BLOCK_BYTES * ((uint64_t)node->disk.pages_blocks + node->disk.row_blocks);
}

/* The record store keeps what the tree names, and nothing else is charged as live [T6, D5]. */
static void check_live(struct run *run) {
    struct world *world = &run->life.world;
    uint64_t bytes = 0;
    if (!world->disk)
        return;
    sel_tree_visit(world->store->tree, add_blocks, &bytes);
    /* What the record store found damaged by itself leaves with its next transaction. */
    for (int i = 0; i < 400 && world_stats(world).disk_live_bytes > bytes; i++)
        poll_some(run, 1);
    assert_int_equal(world_stats(world).disk_live_bytes, bytes);
}

/* ---- draining, closing, crashing ---- */

static void drain(struct run *run) {
    end_faults(run);
    struct selene_event event = world_drain(&run->life.world);
    run->drains++;
    if (run->life.disk && !run->faulty && run->room)
        assert_int_equal(event.result, 0);
}

static void reopen(struct run *run, bool crash) {
    if (crash)
        end_faults(run);
    else
        drain(run);
    run->crashes += crash;
    if (crash)
        world_crash(&run->life.world, below(run, 1 << 30));
    else if (run->faulty)
        world_close_failed(&run->life.world);
    else
        world_close(&run->life.world);
    world_open(&run->life.world);
    life_prefixes(&run->life);
    for (uint32_t i = 0; i < SLOTS; i++)
        if (run->slots[i].sequence.count)
            sequence_prefix(&run->life.world, &run->slots[i].sequence);
    if (crash || !run->life.disk)
        run->kept_count = 0; /* what was in memory alone is gone */
    check_rules(run, true);
    check_kept(run);
}

static void step(struct run *run) {
    switch (below(run, 32)) {
    case 0 ... 12:
        start_publish(run);
        break;
    case 13 ... 18:
        start_restore(run);
        break;
    case 19:
        cancel_one(run);
        break;
    case 20:
        if (run->faulty)
            arm_fault(run);
        break;
    case 21:
        if (run->faulty)
            damage_memory(run);
        break;
    case 22:
        if (below(run, 30) == 0)
            reopen(run, below(run, 2));
        break;
    case 23:
        if (below(run, 8) == 0)
            drain(run);
        break;
    case 24:
        if (run->life.world.disk)
            sel_disk_fault_release(run->life.world.disk);
        break;
    default:
        poll_some(run, 1 + (int)below(run, 12));
    }
    check_rules(run, false);
}

static void era(struct run *run, uint64_t seed, uint64_t steps) {
    static const uint64_t warm[] = {0, 20, 60, 200, 4096};
    struct sel_random random;
    sel_random_seed(&random, seed);
    uint64_t slots = warm[sel_random_below(&random, SEL_COUNT(warm))];
    bool disk = slots == 0 || sel_random_below(&random, 4) > 0;
    bool limited = disk && sel_random_below(&random, 4) == 0;
    run->faulty = sel_random_below(&random, 2) != 0;
    run->room = disk ? !limited : slots >= 4096;
    run->kept_count = 0;
    life_open(&run->life, seed, slots, disk, SLOTS);
    if (limited) {
        run->life.world.options.disk_limit_bytes = 24 << 20;
        world_close(&run->life.world);
        world_open(&run->life.world);
        life_prefixes(&run->life);
    }
    for (uint32_t i = 0; i < SLOTS; i++)
        request_make(&run->life.world, &run->slots[i].device, i * LIFE_BLOCKS, LIFE_BLOCKS);
    for (int i = 0; i < 500 && run->steps < steps; i++, run->steps++)
        step(run);
    quiesce(run);
    check_rules(run, true);
    check_kept(run);
    check_live(run);
    for (uint32_t i = 0; i < SLOTS; i++) {
        request_free(&run->life.world, &run->slots[i].device);
        sequence_free(&run->slots[i].sequence);
    }
    life_close(&run->life);
}

static void test_faults(void **state) {
    uint64_t seeds = test_count("SELENE_TEST_SEEDS", SEEDS), first = test_count("SELENE_TEST_FIRST_SEED", 1);
    uint64_t steps = test_count("SELENE_TEST_STEPS", 10000);
    (void)state;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        static struct run run;
        memset(&run, 0, sizeof run);
        for (uint64_t part = 0; run.steps < steps; part++)
            era(&run, seed * 1000 + part, steps);
        if (getenv("SELENE_TEST_LOG"))
            print_message("seed %lu: %lu accepted, %lu restored, %lu shortened, %lu drains, %lu crashes\n",
                          (unsigned long)seed, (unsigned long)run.accepted, (unsigned long)run.restored,
                          (unsigned long)run.shortened, (unsigned long)run.drains, (unsigned long)run.crashes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
