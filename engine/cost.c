/* SPDX-License-Identifier: Apache-2.0
 *
 * Speed and latency of the tiers [R3], see cost.h; and what a store's restores tell them.
 */
#include "engine/cost.h"

#include "engine/restore_priv.h"

/* The weight of a new sample as large as those before it: a change is followed within a few. */
#define NEW_WEIGHT 0.25
/* A sample counts as at most so many times slower than what was expected: one stall does not rule. */
#define OUTLIER 4
#define WAVE_NS SEL_NS_PER_SECOND
/* In which an unused speed doubles. */
#define RECOVER_NS (60 * SEL_NS_PER_SECOND)
/* 2^40: from a byte a second to more than any device has. */
#define RECOVER_MAX 40

/* 2 to the power of ns / RECOVER_NS, straight lines between whole powers. */
static double growth(uint64_t ns) {
    uint64_t whole = ns / RECOVER_NS;
    if (whole >= RECOVER_MAX)
        return (double)(UINT64_C(1) << RECOVER_MAX);
    return (double)(UINT64_C(1) << whole) * (1 + (double)(ns % RECOVER_NS) / (double)RECOVER_NS);
}

/* A value that was measured at a time, and goes down to a better one that is known to be possible. */
static double recovered(double value, double good, uint64_t at_ns, uint64_t now_ns) {
    double now = value / growth(now_ns > at_ns ? now_ns - at_ns : 0);
    return SEL_MIN(value, SEL_MAX(now, good));
}

static double speed_now(const struct sel_cost *cost, uint64_t now_ns) {
    return recovered(cost->ns_per_byte, cost->good_ns_per_byte, cost->speed_at_ns, now_ns);
}

static double latency_now(const struct sel_cost *cost, uint64_t now_ns) {
    return recovered(cost->latency_ns, cost->good_latency_ns, cost->latency_at_ns, now_ns);
}

void sel_cost_init(struct sel_cost *cost, double good_ns_per_byte, double good_latency_ns) {
    *cost = (struct sel_cost){.good_ns_per_byte = good_ns_per_byte, .good_latency_ns = good_latency_ns};
}

/* What was measured long ago weighs as little as it is believed in. */
static void sample_latency(struct sel_cost *cost, double expected, double sample, uint64_t now_ns) {
    double weight = 1 - (1 - NEW_WEIGHT) / growth(now_ns - cost->latency_at_ns);
    cost->latency_ns = expected + weight * (SEL_MIN(sample, OUTLIER * cost->latency_ns) - expected);
    cost->latency_at_ns = now_ns;
}

static void sample_speed(struct sel_cost *cost, double expected, double sample, double bytes, uint64_t now_ns) {
    double behind = cost->behind_bytes / growth(now_ns - cost->speed_at_ns), weight = bytes / (bytes + behind);
    cost->ns_per_byte = expected + weight * (SEL_MIN(sample, OUTLIER * cost->ns_per_byte) - expected);
    cost->behind_bytes = (1 - NEW_WEIGHT) * (behind + bytes);
    cost->good_ns_per_byte = SEL_MIN(cost->good_ns_per_byte, cost->ns_per_byte);
    cost->speed_at_ns = now_ns;
}

void sel_cost_sample(struct sel_cost *cost, uint64_t bytes, uint64_t ns, uint64_t now_ns) {
    double count = (double)bytes, time = (double)ns;
    if (bytes == 0 || ns == 0)
        return;
    if (cost->ns_per_byte <= 0) {
        cost->latency_ns = SEL_MIN(cost->good_latency_ns, time / 2);
        cost->latency_at_ns = now_ns;
        cost->ns_per_byte = (time - cost->latency_ns) / count;
        cost->speed_at_ns = now_ns;
        sample_speed(cost, cost->ns_per_byte, cost->ns_per_byte, count, now_ns);
        return;
    }
    double speed = speed_now(cost, now_ns), latency = latency_now(cost, now_ns), transfer = speed * count;
    if (transfer < latency)
        sample_latency(cost, latency, SEL_MAX(time - transfer, 0), now_ns);
    else
        sample_speed(cost, speed, SEL_MAX(time - latency, time / 4) / count, count, now_ns);
}

uint64_t sel_cost_time(const struct sel_cost *cost, uint64_t bytes, uint64_t now_ns) {
    if (bytes == 0 || cost->ns_per_byte <= 0)
        return 0;
    double ns = latency_now(cost, now_ns) + speed_now(cost, now_ns) * (double)bytes;
    return ns < 1e18 ? (uint64_t)ns + 1 : UINT64_C(1000000000000000000); /* 32 years */
}

/* ---- waves ---- */

void sel_wave_join(struct sel_wave *wave) { wave->users++; }

void sel_wave_begin(struct sel_wave *wave, uint64_t now_ns) {
    if (wave->running++ == 0)
        wave->since_ns = now_ns;
}

void sel_wave_end(struct sel_wave *wave, uint64_t bytes, uint64_t now_ns) {
    SEL_CHECK(wave->running > 0);
    wave->bytes += bytes;
    if (--wave->running == 0)
        wave->busy_ns += now_ns - wave->since_ns;
}

void sel_wave_leave(struct sel_wave *wave) {
    SEL_CHECK(wave->users > 0);
    wave->users--;
}

bool sel_wave_take(struct sel_wave *wave, uint64_t now_ns, uint64_t *bytes, uint64_t *ns) {
    *bytes = wave->bytes;
    *ns = wave->busy_ns + (wave->running ? now_ns - wave->since_ns : 0);
    if (wave->users > 0 && (*ns < WAVE_NS || *bytes == 0))
        return false;
    wave->bytes = wave->busy_ns = 0;
    wave->since_ns = now_ns;
    return true;
}

/* ---- a store's ---- */

void sel_costs_init(selene_store *store) {
    /* Host memory to device: 10 GB/s and two hops between threads. NVMe: 2 GB/s and one read. A network: as a drive. */
    sel_cost_init(&store->cost[SEL_TIER_MEMORY], 0.1, 20e3);
    sel_cost_init(&store->cost[SEL_TIER_DISK], 0.5, 150e3);
    sel_cost_init(&store->cost[SEL_TIER_POOL], 0.5, 150e3);
}

static void take(selene_store *store, enum sel_tier tier, uint64_t now) {
    uint64_t bytes, ns;
    if (sel_wave_take(&store->wave[tier], now, &bytes, &ns))
        sel_cost_sample(&store->cost[tier], bytes, ns, now);
}

void sel_transfer_join(selene_store *store, enum sel_tier tier) { sel_wave_join(&store->wave[tier]); }

void sel_transfer_leave(selene_store *store, enum sel_tier tier) {
    sel_wave_leave(&store->wave[tier]);
    take(store, tier, sel_mono_ns(store->clock));
}

void sel_transfer_begin(selene_store *store, enum sel_tier tier) {
    sel_wave_begin(&store->wave[tier], sel_mono_ns(store->clock));
}

void sel_transfer_end(selene_store *store, enum sel_tier tier, uint64_t bytes) {
    uint64_t now = sel_mono_ns(store->clock);
    sel_wave_end(&store->wave[tier], bytes, now);
    if (store->wave[tier].users)
        take(store, tier, now);
}

uint64_t sel_cost_estimate(const selene_store *store, const uint64_t bytes[SEL_TIER_COUNT]) {
    uint64_t now = sel_mono_ns(store->clock), sum = 0;
    for (int tier = 0; tier < SEL_TIER_COUNT; tier++) {
        uint64_t ns = sel_cost_time(&store->cost[tier], bytes[tier], now);
        if (bytes[tier] && ns == 0)
            return 0;
        sum += ns;
    }
    return sum;
}
