/* SPDX-License-Identifier: Apache-2.0
 *
 * The thinned ideal: examples worked by hand for each rule, and brute force: records as plain token sequences, each
 * asked anew for its parent and children after every publish.
 */
#include "tests/lib/test.h"

#include "tools/replay/ideal.h"
#include "tools/replay/ideal_thin.h"

#define REQUESTS 40
#define TOKENS   120
#define SESSIONS 3
#define PAGE     16
#define RECORDS  (REQUESTS * 4)

struct lines {
    struct workload base;
    uint32_t tokens[REQUESTS][TOKENS];
};

static void lines_expand(const struct workload *workload, size_t index, uint32_t *tokens) {
    const struct workload_request *request = &workload->requests[index];
    memcpy(tokens, ((const struct lines *)workload)->tokens[index],
           (request->prompt_tokens + request->reply_tokens) * sizeof *tokens);
}

static const struct workload_ops lines_ops = {lines_expand, NULL};

static struct lines lines;

static void lines_begin(void) {
    lines.base = (struct workload){.ops = &lines_ops, .session_count = SESSIONS, .tokens_max = TOKENS};
    lines.base.requests = calloc(REQUESTS, sizeof *lines.base.requests);
    assert_non_null(lines.base.requests);
}

static struct workload_request *line_add(uint32_t session, uint32_t prompt, uint32_t reply) {
    struct workload_request *request = &lines.base.requests[lines.base.count++];
    *request = (struct workload_request){.session = session, .prompt_tokens = prompt, .reply_tokens = reply};
    return request;
}

static void checkpoint_add(struct workload_request *request, enum checkpoint_kind kind, uint32_t tokens) {
    assert_ok(workload_checkpoint_add(&lines.base, request, kind, tokens));
}

/* ---- by hand ---- */

/* A prompt of the first `count` letters of `text`, with a prompt checkpoint at its end. */
static void say(uint32_t session, const char *text) {
    uint32_t count = (uint32_t)strlen(text);
    for (uint32_t i = 0; i < count; i++)
        lines.tokens[lines.base.count][i] = (unsigned char)text[i];
    checkpoint_add(line_add(session, count, 0), CHECKPOINT_PROMPT, count);
}

static void expect_hits(uint32_t spare_rows, const uint32_t *expected) {
    const struct ideal_thin_rules rules = {PAGE, true, true, spare_rows, SIZE_MAX};
    uint32_t hits[REQUESTS];
    assert_ok(ideal_thin_play(&lines.base, &rules, hits, NULL, NULL));
    for (size_t i = 0; i < lines.base.count; i++)
        if (hits[i] != expected[i])
            fail_msg("request %zu hit %u tokens, expected %u", i, hits[i], expected[i]);
    workload_base_free(&lines.base);
}

/* [T1, T8] A chain a-b-c-d; then one asks beside d, beside c, beside b. */
static void rows_go_up_to_the_spare_ones(void **state) {
    (void)state;
    static const uint32_t hits[3][7] = {{0, 1, 2, 3, 1, 1, 1}, {0, 1, 2, 3, 3, 1, 1}, {0, 1, 2, 3, 3, 2, 1}};
    for (uint32_t spare = 0; spare < 3; spare++) {
        lines_begin();
        for (uint32_t i = 1; i <= 4; i++)
            say(0, (const char *[]){"", "a", "ab", "abc", "abcd"}[i]);
        say(1, "abcx"), say(1, "abx"), say(1, "ax");
        lines.base.checkpoint_count = 4; /* those that ask publish nothing */
        for (size_t i = 4; i < 7; i++)
            lines.base.requests[i].checkpoint_count = 0;
        expect_hits(spare, hits[spare]);
    }
}

/* [T1] With two children it is a branch point and keeps its row, however long the branches grow. */
static void branch_points_keep_their_rows(void **state) {
    (void)state;
    lines_begin();
    say(0, "a"), say(0, "ab"), say(0, "abc"), say(0, "abC"), say(0, "abcd"), say(0, "abCd"), say(0, "ab!");
    expect_hits(0, (const uint32_t[]){0, 1, 2, 1, 3, 3, 1});
    lines_begin();
    say(0, "a"), say(0, "ab"), say(0, "abc"), say(0, "abC"), say(0, "abcd"), say(0, "abCd"), say(0, "abcde"),
        say(0, "abCde"), say(0, "ab!");
    expect_hits(1, (const uint32_t[]){0, 1, 2, 2, 3, 3, 4, 4, 2});
}

/* [T5] Published again where it had thinned: it keeps its row until a child of its own came, and is a branch then. */
static void a_row_that_came_back_is_held(void **state) {
    (void)state;
    lines_begin();
    say(0, "a"), say(0, "ab"), say(0, "abc"); /* ab has thinned */
    say(0, "ab");                             /* hits a, and comes back */
    say(0, "abcd");                           /* the chain below grows: ab would thin, but is held */
    say(0, "abx");                            /* hits ab */
    say(0, "aby");
    expect_hits(0, (const uint32_t[]){0, 1, 2, 1, 3, 2, 2});
}

/* [O1, O2] Terminal ones and messages close to their prompt wait, and are gone after one request of their session. */
static void deferred_captures_wait_for_one_request(void **state) {
    (void)state;
    for (int close = 0; close < 2; close++) {
        lines_begin();
        for (uint32_t i = 0; i < 6; i++)
            for (uint32_t t = 0; t < TOKENS; t++)
                lines.tokens[i][t] = 7 + (i == 3 && t >= 50) + 2 * (i == 5 && t >= 42);
        struct workload_request *first = line_add(0, 60, 10);
        checkpoint_add(first, CHECKPOINT_MESSAGE, close ? 60 - PAGE + 1 : 60 - PAGE);
        checkpoint_add(first, CHECKPOINT_PROMPT, 60);
        checkpoint_add(first, CHECKPOINT_TERMINAL, 70);
        checkpoint_add(line_add(1, 80, 0), CHECKPOINT_PROMPT, 0);  /* another session has no part in them */
        checkpoint_add(line_add(0, 80, 0), CHECKPOINT_PROMPT, 80); /* goes on from the terminal one */
        line_add(0, 60, 0); /* another turn after the message: gone, or offered */
        line_add(1, 90, 0);
        line_add(0, 43, 0);
        expect_hits(1, close ? (const uint32_t[]){0, 60, 70, 0, 80, 0} : (const uint32_t[]){0, 60, 70, 44, 80, 0});
    }
}

static void what_the_device_held_is_gone_after_a_restart(void **state) {
    (void)state;
    lines_begin();
    struct workload_request *first = line_add(0, 60, 10);
    memset(lines.tokens, 0, sizeof lines.tokens);
    checkpoint_add(first, CHECKPOINT_PROMPT, 60);
    checkpoint_add(first, CHECKPOINT_TERMINAL, 70);
    line_add(0, 80, 0);
    const struct ideal_thin_rules rules = {PAGE, true, true, 1, 1};
    uint32_t hits[2];
    assert_ok(ideal_thin_play(&lines.base, &rules, hits, NULL, NULL));
    assert_int_equal(hits[1], 60);
    workload_base_free(&lines.base);
}

/* ---- brute force ---- */

static void random_lines(uint64_t seed) {
    uint64_t random = mix_in(9, seed);
    lines_begin();
    for (size_t i = 0; i < REQUESTS; i++) {
        uint32_t prompt = mix_between(&random, 2, TOKENS - 20), reply = mix_between(&random, 0, 20), same = 0;
        size_t from = i > 0 ? mix_between(&random, i > 4 ? (uint32_t)i - 4 : 0, (uint32_t)i - 1) : 0;
        if (i > 0) {
            const struct workload_request *old = &lines.base.requests[from];
            same = mix_between(&random, 0, 4) ? old->prompt_tokens + old->reply_tokens : mix_between(&random, 1, 60);
            prompt = same < prompt || same + 2 > TOKENS - 20 ? prompt : same + mix_between(&random, 1, 2);
            memcpy(lines.tokens[i], lines.tokens[from], same * sizeof(uint32_t));
        }
        for (uint32_t t = same; t < TOKENS; t++)
            lines.tokens[i][t] = mix_between(&random, 0, 2);
        struct workload_request *request = line_add(mix_between(&random, 0, SESSIONS - 1), prompt, reply);
        uint32_t message = mix_between(&random, 1, prompt - 1);
        checkpoint_add(request, CHECKPOINT_MESSAGE, mix_between(&random, 0, 1) ? message : 0);
        checkpoint_add(request, CHECKPOINT_PROMPT, prompt);
        checkpoint_add(request, CHECKPOINT_TERMINAL, reply ? prompt + reply : 0);
    }
}

struct record {
    const uint32_t *tokens;
    uint32_t count;
    int parent;
    bool row, hold;
};

struct brute {
    struct record records[RECORDS], waiting[SESSIONS][4];
    int record_count, waiting_count[SESSIONS];
    uint32_t spare_rows;
};

static bool is_prefix(const struct record *record, const uint32_t *tokens, uint32_t count) {
    return record->count <= count && memcmp(record->tokens, tokens, record->count * sizeof *tokens) == 0;
}

static int brute_find(const struct brute *brute, const uint32_t *tokens, uint32_t limit, bool row) {
    int best = -1;
    for (int i = 0; i < brute->record_count; i++)
        if (is_prefix(&brute->records[i], tokens, limit) && (brute->records[i].row || !row) &&
            (best < 0 || brute->records[i].count > brute->records[best].count))
            best = i;
    return best;
}

static int only_child(const struct brute *brute, int parent, uint32_t *children) {
    int child = -1;
    *children = 0;
    for (int i = 0; i < brute->record_count; i++)
        if (brute->records[i].parent == parent)
            ++*children, child = i;
    return child;
}

/* Steps to the nearest leaf along only children; a branch point is no leaf, however near. */
static bool brute_thins(const struct brute *brute, int at) {
    uint32_t children, steps = 1;
    int child = only_child(brute, at, &children);
    if (brute->records[at].parent < 0 || brute->records[at].hold || children != 1)
        return false;
    while ((child = only_child(brute, child, &children)) >= 0 && children == 1)
        steps++;
    return children > 1 || steps > brute->spare_rows;
}

static void brute_publish(struct brute *brute, const uint32_t *tokens, uint32_t count) {
    int known = brute_find(brute, tokens, count, false);
    if (known >= 0 && brute->records[known].count == count) {
        brute->records[known].hold |= !brute->records[known].row;
        brute->records[known].row = true;
        return;
    }
    brute->records[brute->record_count++] = (struct record){tokens, count, known, true, false};
    if (known >= 0)
        brute->records[known].hold = false;
    for (uint32_t i = 0; i <= brute->spare_rows && known >= 0; i++, known = brute->records[known].parent)
        if (brute_thins(brute, known))
            brute->records[known].row = false;
}

static uint32_t brute_request(struct brute *brute, size_t index) {
    const struct workload_request *request = &lines.base.requests[index];
    const struct checkpoint *checkpoints = workload_checkpoints(&lines.base, request);
    const uint32_t *tokens = lines.tokens[index];
    struct record *waiting = brute->waiting[request->session];
    int *count = &brute->waiting_count[request->session];
    int match = brute_find(brute, tokens, request->prompt_tokens - 1, true);
    uint32_t hit = match < 0 ? 0 : brute->records[match].count, resumed = 0;
    for (int i = 0; i < *count; i++)
        if (is_prefix(&waiting[i], tokens, request->prompt_tokens - 1) && waiting[i].count > hit)
            resumed = waiting[i].count > resumed ? waiting[i].count : resumed;
    *count = 0;
    if (resumed) {
        brute_publish(brute, tokens, resumed);
        hit = resumed;
    }
    for (uint32_t i = 0; i < request->checkpoint_count; i++) {
        uint32_t at = checkpoints[i].tokens;
        bool message = checkpoints[i].kind == CHECKPOINT_MESSAGE;
        if (at <= hit)
            continue;
        if (checkpoints[i].kind == CHECKPOINT_TERMINAL || (message && at + PAGE > request->prompt_tokens))
            waiting[(*count)++] = (struct record){tokens, at, -1, false, false};
        else
            brute_publish(brute, tokens, at);
    }
    return hit;
}

static void the_model_is_what_brute_force_finds(void **state) {
    (void)state;
    static struct brute brute;
    uint32_t hits[REQUESTS], plain[REQUESTS], fewer = 0, some = 0;
    for (uint64_t seed = 0; seed < test_count("SELENE_TEST_SEEDS", 100); seed++) {
        random_lines(seed);
        assert_ok(ideal_play(&lines.base, PAGE, true, plain, NULL, NULL));
        for (uint32_t spare = 0; spare < 4; spare++) {
            const struct ideal_thin_rules rules = {PAGE, true, true, spare, SIZE_MAX};
            brute = (struct brute){.spare_rows = spare};
            assert_ok(ideal_thin_play(&lines.base, &rules, hits, NULL, NULL));
            for (size_t i = 0; i < REQUESTS; i++) {
                if (hits[i] != brute_request(&brute, i))
                    fail_msg("seed %llu, %u spare rows, request %zu", (unsigned long long)seed, spare, i);
                some += hits[i] > 0;
                fewer += hits[i] < plain[i];
            }
        }
        workload_base_free(&lines.base);
    }
    assert_true(some > 1000 && fewer > 100);
}

/* With neither it is the plain ideal; it never hits more. */
static void without_thinning_and_deferring_it_is_the_ideal(void **state) {
    (void)state;
    uint32_t hits[REQUESTS], plain[REQUESTS];
    for (uint64_t seed = 0; seed < test_count("SELENE_TEST_SEEDS", 100); seed++) {
        const struct ideal_thin_rules rules = {PAGE, false, false, 1, SIZE_MAX};
        struct workload *workload;
        assert_ok(workload_agent_create(&workload, seed, REQUESTS, UINT32_MAX));
        assert_ok(ideal_play(workload, PAGE, true, plain, NULL, NULL));
        assert_ok(ideal_thin_play(workload, &rules, hits, NULL, NULL));
        assert_memory_equal(hits, plain, sizeof hits);
        workload_destroy(&workload);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_go_up_to_the_spare_ones),
        cmocka_unit_test(branch_points_keep_their_rows),
        cmocka_unit_test(a_row_that_came_back_is_held),
        cmocka_unit_test(deferred_captures_wait_for_one_request),
        cmocka_unit_test(what_the_device_held_is_gone_after_a_restart),
        cmocka_unit_test(the_model_is_what_brute_force_finds),
        cmocka_unit_test(without_thinning_and_deferring_it_is_the_ideal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
