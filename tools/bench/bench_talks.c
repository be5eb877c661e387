/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations into a record store. A talk's turns are begun one after another, each the child of the one before, as an
 * engine spills a chain; several talks are on their way at a time.
 */
#include "tools/bench/bench_talks.h"

#include "base/check.h"
#include "base/checksum.h"
#include "tools/bench/bench_wait.h"

#include <stdlib.h>
#include <string.h>

#define TALKS_IN_FLIGHT 16

struct talk {
    struct turn {
        struct talk *talk;
        struct sel_lsm_write *write;
        struct sel_op data_op, end_op;
    } turns[BENCH_TURNS];
    bool active;
    unsigned begun, data_left, left; /* left: turns whose finish has not completed */
    int error;
    struct sel_key base, parent_key;
};

struct scribe {
    struct bench_store *store;
    const struct sel_layout *layout;
    struct sel_random *random;
    uint8_t *memory; /* what every page and row holds */
    struct iovec pages, row;
    uint64_t sums[BENCH_TURN_KEYS + 1];
    struct talk *talks;
    uint64_t started, count;
    int error;
};

static void data_done(struct sel_op *op) {
    struct turn *turn = SEL_CONTAINER(op, struct turn, data_op);
    turn->talk->data_left--;
    if (op->result && turn->talk->error == 0)
        turn->talk->error = op->result;
}

static void turn_done(struct sel_op *op) {
    struct turn *turn = SEL_CONTAINER(op, struct turn, end_op);
    turn->talk->left--;
    if (op->result && turn->talk->error == 0)
        turn->talk->error = op->result;
}

static int begin_turn(struct scribe *scribe, struct talk *talk) {
    struct bench_turn made;
    struct sel_random random = *scribe->random;
    struct sel_key base = talk->base;
    unsigned number = talk->begun;
    struct turn *turn = &talk->turns[number];
    bench_turn_make(&made, number, NULL, &random, scribe->layout->ns, &base);
    struct sel_lsm_record record = {.page_tokens = BENCH_PAGE_TOKENS,
                                    .tokens = made.spec.tokens,
                                    .parent_tokens = number * BENCH_TURN_TOKENS,
                                    .key = made.spec.key,
                                    .parent_key = talk->parent_key,
                                    .base_key = made.spec.base_key,
                                    .page_keys = made.page_keys,
                                    .page_key_count = made.spec.page_key_count,
                                    .time_s = 1};
    memcpy(record.ns, scribe->layout->ns, sizeof record.ns);
    turn->talk = talk;
    int rc = sel_lsm_write_begin(scribe->store->lsm, scribe->layout, &record,
                                 number ? talk->turns[number - 1].write : NULL, &turn->write);
    if (rc)
        return rc;
    *scribe->random = random;
    talk->base = base;
    talk->parent_key = record.key;
    talk->begun++;
    talk->data_left++;
    talk->left++;
    uint32_t pages = sel_layout_end_page(scribe->layout, record.tokens) -
                     sel_layout_first_page(scribe->layout, record.parent_tokens);
    scribe->pages = (struct iovec){scribe->memory, pages * scribe->layout->slot_bytes};
    sel_op_init(&turn->data_op, data_done);
    sel_op_init(&turn->end_op, turn_done);
    sel_lsm_write_data(turn->write, SEL_LSM_PAGES, 0, &scribe->pages, 1, &turn->data_op);
    sel_lsm_write_finish(turn->write, scribe->sums, NULL, &turn->end_op);
    return 0;
}

static void end_talk(struct scribe *scribe, struct talk *talk) {
    if (talk->error && scribe->error == 0)
        scribe->error = talk->error;
    for (unsigned i = 0; i < talk->begun; i++)
        sel_lsm_write_free(&talk->turns[i].write);
    talk->begun = 0;
    talk->active = false;
    memset(&talk->base, 0, sizeof talk->base);
    memset(&talk->parent_key, 0, sizeof talk->parent_key);
}

/* Takes every talk as far as it goes; how many are on their way. */
static unsigned advance(struct scribe *scribe) {
    unsigned busy = 0;
    for (unsigned i = 0; i < TALKS_IN_FLIGHT && scribe->error == 0; i++) {
        struct talk *talk = &scribe->talks[i];
        if (talk->begun == BENCH_TURNS && talk->left == 0)
            end_talk(scribe, talk);
        if (!talk->active && scribe->started < scribe->count) {
            talk->active = true;
            scribe->started++;
        }
        if (!talk->active)
            continue;
        int rc = 0;
        while (rc == 0 && talk->begun < BENCH_TURNS && talk->error == 0)
            rc = begin_turn(scribe, talk);
        if (rc && rc != SELENE_E_RETRY && rc != SELENE_E_NOSPACE)
            scribe->error = rc;
        busy++;
    }
    return busy;
}

static bool data_is_written(const struct scribe *scribe) {
    bool all = scribe->started == scribe->count;
    for (unsigned i = 0; i < TALKS_IN_FLIGHT; i++)
        all &= scribe->talks[i].data_left == 0 && (!scribe->talks[i].active || scribe->talks[i].begun == BENCH_TURNS);
    return all;
}

int bench_talks_write(struct bench_store *store, const struct sel_layout *layout, struct sel_random *random,
                      uint64_t count, bool commit, struct selene_message *message) {
    uint64_t bytes = layout->slot_bytes * (BENCH_TURN_KEYS + 1);
    struct scribe scribe = {.store = store, .layout = layout, .random = random, .count = count};
    scribe.memory = bench_memory(bytes, 77);
    scribe.talks = calloc(TALKS_IN_FLIGHT, sizeof *scribe.talks);
    if (scribe.memory == NULL || scribe.talks == NULL || layout->page_blocks != 1)
        scribe.error = scribe.memory && scribe.talks ? SELENE_E_INVALID : SELENE_E_NOMEM;
    for (size_t page = 0; scribe.error == 0 && page < SEL_COUNT(scribe.sums); page++) {
        uint64_t hash;
        sel_checksum_plane(&hash, scribe.memory + page * layout->slot_bytes, layout->page_bytes);
        scribe.sums[page] = sel_checksum_finish(&hash, 1);
    }
    while (scribe.error == 0 && advance(&scribe) > 0) {
        if (data_is_written(&scribe)) {
            if (!commit)
                break;
            sel_lsm_flush(store->lsm);
        }
        bench_store_turn(store);
    }
    /* After an error, and for what is not to be committed: the store itself is told to leave it (abort). */
    if (scribe.error == 0 && commit) {
        free(scribe.talks);
        bench_memory_free(scribe.memory, bytes);
        return 0;
    }
    for (unsigned i = 0; i < 50; i++) /* headers may still be on their way */
        bench_store_turn(store);
    bench_store_abort(store);
    free(scribe.talks);
    bench_memory_free(scribe.memory, bytes);
    return scribe.error ? sel_fail(message, scribe.error, "index: writing records: %s", sel_error_text(scribe.error))
                        : 0;
}
