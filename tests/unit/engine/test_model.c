/* SPDX-License-Identifier: Apache-2.0
 *
 * A seeded random life of a store against a simple model: publishes, forks, restores, cancels, faults of disk and
 * memory, drains, crashes and restarts, all interleaved, on simulated edges, so that a seed is a run. After every step
 * the store checks itself [fault 7]; every byte that a restore reports good is compared with what it must be.
 *
 * The model is the set of checkpoints that were ever accepted. A look-up may say less than the model (evicted, damaged),
 * never more; without faults, with a disk that holds all and drains before restarts, it must say exactly as much.
 */
#include "tests/unit/engine/world.h"

#define SEQUENCES 24
#define TOKENS    160
#define SLOTS     6 /* requests at a time */
#define BLOCKS    ((TOKENS + 7) / 8)

struct slot {
    struct device_request device;
    uint64_t ticket; /* 0: free */
    bool restore;
    uint32_t sequence, tokens;
};

struct run {
    struct world world;
    struct sel_random random;
    struct sequence sequences[SEQUENCES];
    uint32_t shared[SEQUENCES][SEQUENCES]; /* tokens that two sequences have in common */
    bool accepted[SEQUENCES][TOKENS + 1];  /* may be held, from the call on */
    bool published[SEQUENCES][TOKENS + 1]; /* were held, by their event */
    struct slot slots[SLOTS];
    struct sel_disk_fault faults[4];
    uint32_t fault_count;
    bool faulty;
    uint64_t restored, verified, shortened;
};

static uint64_t below(struct run *run, uint64_t bound) { return sel_random_below(&run->random, bound); }

static void make_sequences(struct run *run) {
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        uint32_t from = i ? (uint32_t)below(run, i) : 0;
        uint32_t shared = i % 3 ? (uint32_t)below(run, TOKENS) : 0;
        sequence_fork(&run->world, &run->sequences[i], &run->sequences[from], shared, 1000 + i, TOKENS);
        for (uint32_t k = 0; k <= i; k++) {
            uint32_t common = 0;
            while (common < TOKENS && run->sequences[i].tokens[common] == run->sequences[k].tokens[common])
                common++;
            run->shared[i][k] = run->shared[k][i] = common;
        }
    }
}

/* Whether a checkpoint may have given its row up: something beyond it was accepted [T1]. */
static bool may_be_thinned(const struct run *run, uint32_t sequence, uint32_t tokens) {
    for (uint32_t k = 0; k < SEQUENCES && run->world.shape.row_bytes; k++)
        for (uint32_t at = tokens + 1; at <= TOKENS && (k == sequence || run->shared[sequence][k] >= tokens); at++)
            if (run->accepted[k][at])
                return true;
    return false;
}

/* The deepest of these checkpoints for a sequence, at most `limit`. */
static uint32_t deepest(const struct run *run, const bool (*held)[TOKENS + 1], uint32_t sequence, uint32_t limit) {
    bool rows = run->world.shape.row_bytes > 0;
    uint32_t best = 0;
    for (uint32_t k = 0; k < SEQUENCES; k++)
        for (uint32_t at = 1; at <= TOKENS; at++) {
            if (!held[k][at] || (held == run->published && may_be_thinned(run, k, at)))
                continue;
            uint32_t reach = SEL_MIN(SEL_MIN(at, run->shared[sequence][k]), limit);
            if (rows && reach < at)
                continue;
            best = SEL_MAX(best, rows ? reach : reach - reach % 8);
        }
    return best;
}

static uint32_t at_most(const struct run *run, uint32_t sequence, uint32_t limit) {
    return deepest(run, run->accepted, sequence, limit);
}

static struct slot *free_slot(struct run *run) {
    for (uint32_t i = 0; i < SLOTS; i++)
        if (!run->slots[i].ticket)
            return &run->slots[i];
    return NULL;
}

static void start_publish(struct run *run) {
    struct slot *slot = free_slot(run);
    struct selene_publish_result result;
    if (!slot)
        return;
    slot->sequence = (uint32_t)below(run, SEQUENCES);
    slot->tokens = 1 + (uint32_t)below(run, TOKENS);
    slot->restore = false;
    struct sequence *sequence = &run->sequences[slot->sequence];
    request_fill(&run->world, &slot->device, sequence, slot->tokens);
    assert_ok(selene_publish(run->world.store, sequence->prefix, slot->tokens, &slot->device.state, &result));
    if (result.answer == SELENE_ACCEPTED) {
        slot->ticket = result.ticket;
        run->accepted[slot->sequence][slot->tokens] = true;
    }
    if (result.answer == SELENE_PRESENT)
        assert_true(at_most(run, slot->sequence, slot->tokens) + 8 > slot->tokens);
}

static void start_restore(struct run *run) {
    struct slot *slot = free_slot(run);
    struct selene_match match;
    if (!slot)
        return;
    slot->sequence = (uint32_t)below(run, SEQUENCES);
    slot->restore = true;
    struct sequence *sequence = &run->sequences[slot->sequence];
    uint32_t limit = 1 + (uint32_t)below(run, TOKENS);
    assert_ok(selene_lookup(run->world.store, sequence->prefix, limit, &match));
    assert_true(match.tokens <= at_most(run, slot->sequence, limit));
    if (match.tokens == 0)
        return;
    request_clear(&run->world, &slot->device, 0xee);
    slot->tokens = (uint32_t)match.tokens;
    int result = selene_restore(run->world.store, sequence->prefix, match.tokens, &slot->device.state, &slot->ticket);
    assert_true(result == 0 || result == SELENE_E_RETRY);
    if (result)
        slot->ticket = 0;
}

static void finish(struct run *run, const struct selene_event *event) {
    struct slot *slot = NULL;
    for (uint32_t i = 0; i < SLOTS; i++)
        if (run->slots[i].ticket == event->ticket)
            slot = &run->slots[i];
    if (!slot)
        return; /* a drain */
    slot->ticket = 0;
    if (!slot->restore) {
        /* Without rows what came before a failure is held. */
        if (event->tokens)
            run->published[slot->sequence][event->tokens] = true;
        return;
    }
    struct sequence *sequence = &run->sequences[slot->sequence];
    run->restored++;
    run->shortened += event->tokens < slot->tokens;
    assert_true(event->tokens <= slot->tokens);
    if (event->result == 0)
        assert_int_equal(event->tokens, slot->tokens);
    if (!run->faulty && event->result != SELENE_E_CANCELLED)
        assert_int_equal(event->result, 0);
    assert_int_equal(request_wrong(&run->world, &slot->device, sequence, (uint32_t)event->tokens, true), 0);
    if (event->result == 0)
        assert_int_equal(request_touched(&run->world, &slot->device, (uint32_t)event->tokens, 0xee), 0);
    run->verified += event->tokens;
}

static void poll_some(struct run *run, int rounds) {
    struct selene_event events[4];
    for (int i = 0; i < rounds; i++) {
        int count = world_poll(&run->world, events, 4);
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
        if (run->world.disk)
            sel_disk_fault_release(run->world.disk);
        poll_some(run, 1);
    }
}

static void cancel_one(struct run *run) {
    struct slot *slot = &run->slots[below(run, SLOTS)];
    if (slot->ticket)
        (void)selene_cancel(run->world.store, slot->ticket);
}

static void arm_fault(struct run *run) {
    static const uint32_t kinds[] = {1u << SEL_DISK_WRITE, 1u << SEL_DISK_READ, 1u << SEL_DISK_SYNC,
                                     1u << SEL_DISK_READ, 1u << SEL_DISK_READ | 1u << SEL_DISK_WRITE};
    static const enum sel_disk_fault_action actions[] = {SEL_DISK_FAULT_FAIL, SEL_DISK_FAULT_FAIL, SEL_DISK_FAULT_FAIL,
                                                         SEL_DISK_FAULT_CORRUPT, SEL_DISK_FAULT_HOLD};
    if (!run->world.disk || run->fault_count == SEL_COUNT(run->faults)) {
        if (run->world.disk)
            sel_disk_fault_clear(run->world.disk);
        run->fault_count = 0;
        return;
    }
    struct sel_disk_fault *fault = &run->faults[run->fault_count++];
    uint32_t kind = (uint32_t)below(run, SEL_COUNT(kinds));
    *fault = (struct sel_disk_fault){.action = actions[kind],
                                     .kinds = kinds[kind],
                                     .countdown = 1 + below(run, 10),
                                     .repeat = below(run, 3),
                                     .corrupt_at = below(run, 1 << 20)};
    sel_disk_fault_arm(run->world.disk, fault);
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
/* Flips a bit of a memory copy that is not being copied into device memory or written. */
static void damage_memory(struct run *run) {
    struct victim victim = {.run = run};
    sel_tree_visit(run->world.store->tree, choose_victim, &victim);
    if (!victim.node || victim.node->tier[SEL_TIER_MEMORY].pins)
        return;
    const struct sel_memory *memory = victim.node->memory;
    const struct sel_copy_part *part = memory->row.count && below(run, 2) ? &memory->row : &memory->pages;
    uint8_t *slot = sel_slot_at(&run->world.store->slots, part->slots[below(run, part->count)]);
    slot[below(run, run->world.slot_bytes)] ^= (uint8_t)(1u << below(run, 8));
}

static void end_faults(struct run *run) {
    settle(run);
    run->fault_count = 0;
    if (!run->world.disk)
        return;
    sel_disk_fault_clear(run->world.disk);
    /* What is in flight may still be held back when it completes. */
    for (int i = 0; i < 60; i++) {
        sel_disk_fault_release(run->world.disk);
        poll_some(run, 1);
    }
    sel_disk_fault_release(run->world.disk);
}

/* Short windows without a warm tier: records take several of them. */
static void open_store(struct run *run) {
    world_open(&run->world);
    if (run->world.store->warm_slots == 0)
        run->world.store->window_slots = 1;
}

static void reopen(struct run *run, bool crash) {
    end_faults(run);
    if (!crash && run->world.disk) {
        struct selene_event event = world_drain(&run->world);
        assert_true(run->faulty || event.result == 0);
    }
    if (crash)
        world_crash(&run->world, below(run, 1 << 30));
    else
        world_close(&run->world);
    open_store(run);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        sequence_prefix(&run->world, &run->sequences[i]);
}

static void compare_all(struct run *run, bool exactly) {
    end_faults(run);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        uint64_t found = world_lookup(&run->world, &run->sequences[i], TOKENS, NULL);
        assert_true(found <= at_most(run, i, TOKENS));
        if (exactly && found < deepest(run, run->published, i, TOKENS))
            print_error("sequence %u: %lu held, %u published\n", i, (unsigned long)found,
                        deepest(run, run->published, i, TOKENS));
        if (exactly)
            assert_true(found >= deepest(run, run->published, i, TOKENS));
    }
}

static void step(struct run *run) {
    switch (below(run, 24)) {
    case 0 ... 8:
        start_publish(run);
        break;
    case 9 ... 15:
        start_restore(run);
        break;
    case 16:
        cancel_one(run);
        break;
    case 17:
        if (run->faulty)
            arm_fault(run);
        break;
    case 18:
        if (run->faulty)
            damage_memory(run);
        break;
    case 19:
        if (below(run, 12) == 0)
            reopen(run, run->faulty && below(run, 2));
        break;
    case 20:
        if (run->world.disk)
            sel_disk_fault_release(run->world.disk);
        break;
    default:
        poll_some(run, 1 + (int)below(run, 12));
    }
    world_check(&run->world);
}

/* Ranks that are alike, or not, or but for some pages [K1]; by the seed alone. */
static struct world_layout shape_of(uint64_t seed, bool rows) {
    static const uint32_t differ_every[] = {0, 0, 3, 7};
    struct world_layout shape = rows ? world_with_rows : world_without_rows;
    uint64_t kind = sel_mix64(seed);
    shape.rank_count = 2 + (uint32_t)(kind & 3);
    shape.pages_alike = kind & 4;
    shape.row_alike = kind & 8;
    shape.differ_every = differ_every[kind >> 4 & 3];
    return shape;
}

static void one_run(uint64_t seed, bool faulty) {
    static const uint64_t warm[] = {0, 12, 40, 100};
    static struct run run;
    memset(&run, 0, sizeof run);
    run.faulty = faulty;
    sel_random_seed(&run.random, seed);
    bool rows = below(&run, 2);
    uint64_t slots = warm[below(&run, SEL_COUNT(warm))];
    bool disk = slots == 0 || below(&run, 4) > 0;
    const struct world_layout shape = shape_of(seed, rows);
    world_init(&run.world, &shape, SLOTS * BLOCKS, slots, true);
    if (disk)
        world_disk(&run.world, seed);
    bool limited = disk && faulty && below(&run, 2);
    if (limited)
        run.world.options.disk_limit_bytes = 24 << 20;
    open_store(&run);
    make_sequences(&run);
    for (uint32_t i = 0; i < SLOTS; i++)
        request_make(&run.world, &run.slots[i].device, i * BLOCKS, BLOCKS);
    for (int i = 0; i < 600; i++)
        step(&run);
    compare_all(&run, disk && !faulty);
    if (getenv("SELENE_TEST_LOG"))
        print_message("seed %lu: rows %d warm %lu disk %d limited %d: %lu restores, %lu tokens, %lu shortened, %lu "
                      "stores abandoned\n",
                      (unsigned long)seed, rows, (unsigned long)slots, disk, limited, (unsigned long)run.restored,
                      (unsigned long)run.verified, (unsigned long)run.shortened,
                      (unsigned long)world_stats(&run.world).abandoned_stores);
    for (uint32_t i = 0; i < SLOTS; i++)
        request_free(&run.world, &run.slots[i].device);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        sequence_free(&run.sequences[i]);
    world_destroy(&run.world);
}

static void test_sound(void **state) {
    uint64_t seeds = test_count("SELENE_TEST_SEEDS", 12), first = test_count("SELENE_TEST_FIRST_SEED", 1);
    (void)state;
    for (uint64_t seed = first; seed < first + seeds; seed++)
        one_run(seed, false);
}

/* [I1, R4, P4, D9]; records that answer with another's content (fault 1), slots given out while a held back transfer
 * uses them (fault 5: freed slots are poisoned), structures that drift apart (fault 7), flipped bits (fault 22), what a
 * cancelled request had pinned (fault 23), waiting in a circle (fault 24), loads tried for ever (fault 26). */
static void test_faulty(void **state) {
    uint64_t seeds = test_count("SELENE_TEST_SEEDS", 12), first = test_count("SELENE_TEST_FIRST_SEED", 1);
    (void)state;
    for (uint64_t seed = first; seed < first + seeds; seed++)
        one_run(1000000 + seed, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sound), cmocka_unit_test(test_faulty)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
