/* SPDX-License-Identifier: Apache-2.0
 *
 * A burst: 128 conversations, 32 requests at once, five turns each, over every combination of tiers [P7]. A request looks
 * up what is held of its prompt, restores it, compares every byte, publishes its turn, and tries again when told to, as an
 * engine does. Where there is room for the working set no publication is lost, all is restored at the end, also after a
 * restart; in a memory that is too small what was dropped is counted, and nothing else is lost. Simulated edges: a run is
 * the same every time.
 */
#include "tests/unit/engine/world.h"

enum { TALKS = 128, LANES = 32, TURNS = 5, TURN = 20, TOKENS = TURN * TURNS, PAGES = (TOKENS + 7) / 8 };

enum lane_state { LANE_IDLE, LANE_LOOK, LANE_RESTORE, LANE_OFFER, LANE_PUBLISH };

struct lane {
    struct device_request device;
    enum lane_state state;
    uint32_t talk, turn;
    uint64_t ticket;
    uint64_t rounds; /* in this state */
};

struct run {
    struct world world;
    struct sequence talks[TALKS];
    struct lane lanes[LANES];
    uint32_t next, done;   /* requests: the first turns of all talks, then the second ones */
    uint32_t turns[TALKS]; /* done */
    uint64_t accepted, oversize, lost, restored_tokens;
};

/* What to try: slots of memory (0: none) and host budget, whether there is a disk, and its limit. */
struct tiers {
    const char *name;
    uint64_t warm_slots, budget_slots, disk_limit;
    bool disk, room;
};

static struct run run;

static void set_state(struct lane *lane, enum lane_state state) {
    lane->state = state;
    lane->rounds = 0;
}

static void begin_request(struct lane *lane) {
    uint32_t talk = run.next % TALKS, turn = run.next / TALKS;
    if (run.next == TALKS * TURNS || run.turns[talk] != turn) /* a turn follows the one before */
        return;
    run.next++;
    lane->talk = talk;
    lane->turn = turn;
    set_state(lane, LANE_LOOK);
}

static void look(struct lane *lane) {
    struct selene_match match;
    struct sequence *talk = &run.talks[lane->talk];
    assert_true(++lane->rounds < 20000);
    assert_ok(selene_lookup(run.world.store, talk->prefix, (lane->turn + 1) * TURN - 1, &match));
    if (match.tokens == 0) {
        set_state(lane, LANE_OFFER);
        return;
    }
    request_clear(&run.world, &lane->device, 0xee);
    int result = selene_restore(run.world.store, talk->prefix, match.tokens, &lane->device.state, &lane->ticket);
    assert_true(result == 0 || result == SELENE_E_RETRY);
    if (result == 0)
        set_state(lane, LANE_RESTORE);
}

static void end_request(struct lane *lane) {
    set_state(lane, LANE_IDLE);
    run.turns[lane->talk]++;
    run.done++;
}

static void offer(struct lane *lane) {
    struct selene_publish_result result;
    uint32_t tokens = (lane->turn + 1) * TURN;
    assert_true(++lane->rounds < 20000); /* no waiting in a circle [fault 24] */
    if (lane->rounds == 1)
        request_fill(&run.world, &lane->device, &run.talks[lane->talk], tokens);
    assert_ok(selene_publish(run.world.store, run.talks[lane->talk].prefix, tokens, &lane->device.state, &result));
    if (result.answer == SELENE_RETRY)
        return;
    assert_int_not_equal(result.answer, SELENE_PRESENT);
    lane->ticket = result.ticket;
    set_state(lane, LANE_PUBLISH);
    run.accepted += result.answer == SELENE_ACCEPTED;
    run.oversize += result.answer == SELENE_OVERSIZE;
    if (result.answer == SELENE_OVERSIZE)
        end_request(lane);
}

static void finish(const struct selene_event *event) {
    struct lane *lane = run.lanes;
    while (lane->ticket != event->ticket || (lane->state != LANE_RESTORE && lane->state != LANE_PUBLISH))
        assert_true(++lane < run.lanes + LANES);
    if (lane->state == LANE_PUBLISH) {
        run.lost += event->result != 0;
        end_request(lane);
        return;
    }
    /* A copy that left between look-up and restore is no fault; wrong bytes are. */
    assert_true(event->result == 0 || event->result == SELENE_E_GONE);
    assert_int_equal(request_wrong(&run.world, &lane->device, &run.talks[lane->talk], (uint32_t)event->tokens, true),
                     0);
    run.restored_tokens += event->tokens;
    set_state(lane, LANE_OFFER);
}

static void burst(void) {
    for (uint64_t round = 0; run.done < TALKS * TURNS; round++) {
        struct selene_event events[8];
        assert_true(round < 200000);
        for (int i = 0; i < LANES; i++) {
            if (run.lanes[i].state == LANE_IDLE)
                begin_request(&run.lanes[i]);
            if (run.lanes[i].state == LANE_LOOK)
                look(&run.lanes[i]);
            if (run.lanes[i].state == LANE_OFFER)
                offer(&run.lanes[i]);
        }
        int count = world_poll(&run.world, events, 8);
        for (int i = 0; i < count; i++)
            finish(&events[i]);
        if (round % 64 == 0)
            world_check(&run.world);
    }
}

/* What a checkpoint there can give: without rows, whole pages. */
static uint64_t usable(uint64_t tokens) { return run.world.shape.row_bytes ? tokens : tokens - tokens % 8; }

/* Talks whose last checkpoint comes back; all bytes of whatever comes back are compared. */
static uint64_t restore_all(void) {
    uint64_t whole = 0;
    for (int i = 0; i < TALKS; i++)
        whole += world_restore(&run.world, &run.lanes[0].device, &run.talks[i], TOKENS, NULL) == usable(TOKENS);
    return whole;
}

static void open_run(const struct world_layout *shape, const struct tiers *tiers) {
    memset(&run, 0, sizeof run);
    world_init(&run.world, shape, LANES * PAGES, tiers->warm_slots, true);
    if (tiers->disk)
        world_disk(&run.world, 1);
    run.world.options.host_budget_bytes = tiers->budget_slots * run.world.slot_bytes;
    run.world.options.disk_limit_bytes = tiers->disk_limit;
    run.world.options.max_active_requests = LANES;
    run.world.options.log_level = SEL_LOG_ERROR;
    world_open(&run.world);
    for (uint32_t i = 0; i < TALKS; i++)
        sequence_make(&run.world, &run.talks[i], i + 1, TOKENS);
    for (uint32_t i = 0; i < LANES; i++)
        request_make(&run.world, &run.lanes[i].device, i * PAGES, PAGES);
}

static void close_run(void) {
    for (int i = 0; i < TALKS; i++)
        sequence_free(&run.talks[i]);
    for (int i = 0; i < LANES; i++)
        request_free(&run.world, &run.lanes[i].device);
    world_destroy(&run.world);
}

static void check_room(bool disk) {
    struct selene_stats stats = world_stats(&run.world);
    assert_int_equal(stats.dropped_records + stats.publishes_failed + stats.evictions[SELENE_TIER_DISK], 0);
    uint64_t prompts = 0;
    for (uint32_t turn = 1; turn < TURNS; turn++)
        prompts += usable(turn * TURN);
    assert_int_equal(run.restored_tokens, TALKS * prompts);
    assert_int_equal(restore_all(), TALKS);
    if (!disk)
        return;
    world_reopen(&run.world, run.talks, TALKS);
    assert_int_equal(restore_all(), TALKS);
}

/* Memory alone, and too small: with rows each publish is a record, which is there, or counted as evicted. */
static void check_short(void) {
    struct selene_stats stats = world_stats(&run.world);
    uint64_t evicted = stats.evictions[SELENE_TIER_MEMORY];
    assert_true(evicted > 0);
    if (run.world.shape.row_bytes)
        assert_int_equal(stats.records[SELENE_TIER_MEMORY] + evicted, TALKS * TURNS);
    uint64_t whole = restore_all();
    assert_true(whole > 0 && whole < TALKS);
}

static void all_tiers(const struct world_layout *shape) {
    static const struct tiers tiers[] = {
        {.name = "memory", .warm_slots = 4000, .room = true},
        {.name = "disk", .disk = true, .room = true},
        {.name = "disk, tiny budget", .budget_slots = 6, .disk = true, .room = true},
        {.name = "memory and disk", .warm_slots = 4000, .disk = true, .room = true},
        {.name = "little memory and disk", .warm_slots = 120, .disk = true, .room = true},
        {.name = "little memory, tiny budget, disk", .warm_slots = 60, .budget_slots = 70, .disk = true, .room = true},
        {.name = "little memory, limited disk", .warm_slots = 120, .disk_limit = 192 << 20, .disk = true, .room = true},
        {.name = "too little memory", .warm_slots = 700},
    };
    for (size_t i = 0; i < SEL_COUNT(tiers); i++) {
        open_run(shape, &tiers[i]);
        burst();
        struct selene_stats stats = world_stats(&run.world);
        print_message("%s: %lu accepted, %lu lost, %lu tokens restored, %lu spills, %lu evicted from memory\n",
                      tiers[i].name, (unsigned long)run.accepted, (unsigned long)run.lost,
                      (unsigned long)run.restored_tokens, (unsigned long)stats.spills,
                      (unsigned long)stats.evictions[SELENE_TIER_MEMORY]);
        assert_int_equal(run.lost + run.oversize, 0);
        assert_int_equal(run.accepted, TALKS * TURNS);
        if (tiers[i].room)
            check_room(tiers[i].disk);
        else
            check_short();
        close_run();
    }
}

static void test_burst_with_rows(void **state) {
    (void)state;
    all_tiers(&world_with_rows);
}

static void test_burst_without_rows(void **state) {
    (void)state;
    all_tiers(&world_without_rows);
}

/* [P6]: a leaf that leaves takes thinned ancestors along that are now childless, and they are counted, too. */
static void test_dropped_is_counted(void **state) {
    static const struct tiers little = {.name = "little memory", .warm_slots = 60};
    uint64_t accepted = 0;
    (void)state;
    open_run(&world_with_rows, &little);
    for (int i = 0; i < 20; i++)
        for (uint32_t tokens = 10; tokens <= TOKENS; tokens += 10) {
            assert_int_equal(world_publish(&run.world, &run.lanes[0].device, &run.talks[i], tokens), SELENE_ACCEPTED);
            struct selene_stats stats = world_stats(&run.world);
            assert_int_equal(stats.records[SELENE_TIER_MEMORY] + stats.evictions[SELENE_TIER_MEMORY], ++accepted);
        }
    assert_true(world_stats(&run.world).rows_thinned[SELENE_TIER_MEMORY] > 0);
    close_run();
}

/* [P7]: with no tier the cache is off: nothing is held, nothing fails. */
static void test_no_tier(void **state) {
    static const struct tiers none = {.name = "none"};
    (void)state;
    open_run(&world_with_rows, &none);
    burst();
    assert_int_equal(run.oversize, TALKS * TURNS);
    assert_int_equal(run.accepted + run.restored_tokens, 0);
    assert_int_equal(world_stats(&run.world).slots_total, 0);
    close_run();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_burst_with_rows),
                                       cmocka_unit_test(test_burst_without_rows),
                                       cmocka_unit_test(test_dropped_is_counted), cmocka_unit_test(test_no_tier)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
