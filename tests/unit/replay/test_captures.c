/* SPDX-License-Identifier: Apache-2.0
 *
 * What a replay's device holds of each session, and which of it is offered when [O1, O2]. Pages of 64 tokens.
 */
#include "tests/lib/test.h"
#include "tools/replay/captures.h"

#include <malloc.h>

#define TOKENS 2001
static uint64_t hash[TOKENS], other[TOKENS]; /* of two sequences that part at 800 tokens */

static struct captures *open_captures(bool defer) {
    struct captures *captures;
    for (uint32_t i = 0; i < TOKENS; i++) {
        hash[i] = i + 1;
        other[i] = i <= 800 ? hash[i] : UINT64_MAX - i;
    }
    assert_ok(captures_create(&captures, 64, defer, 2));
    return captures;
}

static bool add(struct captures *captures, uint32_t session, uint64_t request, enum checkpoint_kind kind,
                uint32_t tokens) {
    struct checkpoint checkpoint = {.tokens = tokens, .kind = kind};
    bool offered;
    assert_ok(captures_add(captures, session, request, &checkpoint, hash, &offered));
    return offered;
}

/* Messages at 500 and 990, the prompt at 1000, the end of the reply at 1300; of them `offered` are offered at once. */
static void turn(struct captures *captures, uint32_t session, int offered) {
    uint64_t request;
    assert_ok(captures_begin(captures, session, 1000, 100, hash, &request));
    assert_int_not_equal(request, 0);
    int found = add(captures, session, request, CHECKPOINT_MESSAGE, 500);
    found += add(captures, session, request, CHECKPOINT_MESSAGE, 990);
    found += add(captures, session, request, CHECKPOINT_PROMPT, 1000);
    found += add(captures, session, request, CHECKPOINT_TERMINAL, 1300);
    assert_int_equal(found, offered);
    assert_ok(captures_end(captures, request));
}

static uint32_t resume(struct captures *captures, uint32_t session, const uint64_t *sequence, uint64_t above,
                       uint32_t limit) {
    uint32_t tokens;
    assert_ok(captures_resume(captures, session, sequence, above, limit, &tokens));
    return tokens;
}

/* The longest deferred one that is a prefix, fits, and is more than the store holds; once. */
static void the_longest_deferred_capture_is_offered(void **state) {
    (void)state;
    struct captures *captures = open_captures(true);
    const struct {
        const uint64_t *sequence;
        uint64_t above;
        uint32_t limit, expected;
    } cases[] = {{hash, 0, 2000, 1300},  {hash, 1000, 2000, 1300}, {hash, 1299, 1300, 1300}, {hash, 1300, 2000, 0},
                 {hash, 500, 1299, 990}, {hash, 989, 990, 990},    {hash, 990, 1299, 0},     {hash, 0, 989, 0},
                 {other, 500, 2000, 0},  {hash, 0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        turn(captures, 0, 2);
        turn(captures, 1, 2);
        assert_int_equal(resume(captures, 0, cases[i].sequence, cases[i].above, cases[i].limit), cases[i].expected);
        assert_int_equal(resume(captures, 0, hash, 0, 2000), 0); /* the session's captures are gone */
        assert_int_equal(resume(captures, 1, hash, 0, 2000), 1300);
    }
    captures_destroy(&captures);
    assert_null(captures);
    captures_destroy(&captures);
}

static void without_deferring_all_are_offered_at_once(void **state) {
    (void)state;
    struct captures *captures = open_captures(false);
    turn(captures, 0, 4);
    assert_int_equal(resume(captures, 0, hash, 0, 2000), 0);
    captures_destroy(&captures);
}

/* What left the device leaves the rules, too: memory does not grow with the turns. */
static void captures_that_are_gone_take_no_memory(void **state) {
    (void)state;
    struct captures *captures = open_captures(true);
    size_t before = 0;
    for (int i = 0; i < 5000; i++) {
        turn(captures, 0, 2);
        resume(captures, 0, hash, 0, 2000);
        if (i == 100)
            before = mallinfo2().uordblks;
    }
    assert_int_equal(mallinfo2().uordblks, before);
    captures_destroy(&captures);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_deferred_capture_is_offered),
        cmocka_unit_test(without_deferring_all_are_offered_at_once),
        cmocka_unit_test(captures_that_are_gone_take_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
