/* SPDX-License-Identifier: Apache-2.0
 *
 * Intrusive lists against an array that is kept beside them, under random operations.
 */
#include "base/list.h"
#include "base/random.h"
#include "tests/lib/test.h"

#define ITEMS 40

struct item {
    int number;
    struct sel_list link;
};

/* Two lists and what they should hold. */
struct model {
    struct item items[ITEMS];
    struct sel_list heads[2];
    struct item *order[2][ITEMS];
    size_t counts[2];
};

static void check_model(const struct model *model) {
    for (int l = 0; l < 2; l++) {
        size_t seen = 0;
        const struct sel_list *previous = &model->heads[l];
        for (struct sel_list *at = model->heads[l].next; at != &model->heads[l]; at = at->next) {
            assert_ptr_equal(at->prev, previous);
            assert_true(seen < model->counts[l]);
            assert_ptr_equal(SEL_LIST_ENTRY(at, struct item, link), model->order[l][seen++]);
            previous = at;
        }
        assert_ptr_equal(model->heads[l].prev, previous);
        assert_int_equal(seen, model->counts[l]);
        assert_int_equal(sel_list_empty(&model->heads[l]), seen == 0);
    }
}

static void model_remove(struct model *model, struct item *item) {
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < model->counts[l]; i++)
            if (model->order[l][i] == item) {
                memmove(&model->order[l][i], &model->order[l][i + 1], (--model->counts[l] - i) * sizeof(void *));
                return;
            }
}

static void add_or_remove(struct model *model, struct item *item, int l, bool at_head) {
    if (sel_list_linked(&item->link)) {
        sel_list_remove(&item->link);
        sel_list_remove(&item->link); /* harmless */
        model_remove(model, item);
    } else if (at_head) {
        sel_list_add_head(&model->heads[l], &item->link);
        memmove(&model->order[l][1], &model->order[l][0], model->counts[l]++ * sizeof(void *));
        model->order[l][0] = item;
    } else {
        sel_list_add_tail(&model->heads[l], &item->link);
        model->order[l][model->counts[l]++] = item;
    }
}

static void pop(struct model *model, int l) {
    struct sel_list *first = sel_list_pop(&model->heads[l]);
    if (model->counts[l] == 0) {
        assert_null(first);
        return;
    }
    assert_ptr_equal(first, &model->order[l][0]->link);
    assert_false(sel_list_linked(first));
    model_remove(model, model->order[l][0]);
}

static void splice(struct model *model, int l) {
    sel_list_splice_tail(&model->heads[l], &model->heads[!l]);
    memcpy(&model->order[l][model->counts[l]], model->order[!l], model->counts[!l] * sizeof(void *));
    model->counts[l] += model->counts[!l];
    model->counts[!l] = 0;
}

static void test_random_operations(void **state) {
    (void)state;
    static struct model model;
    struct sel_random random;
    sel_random_seed(&random, 5);
    for (int i = 0; i < ITEMS; i++)
        sel_list_init(&model.items[i].link);
    sel_list_init(&model.heads[0]);
    sel_list_init(&model.heads[1]);
    for (int step = 0; step < 20000; step++) {
        uint64_t what = sel_random_below(&random, 50);
        int l = (int)sel_random_below(&random, 2);
        if (what < 40)
            add_or_remove(&model, &model.items[sel_random_below(&random, ITEMS)], l, what < 20);
        else if (what < 48)
            pop(&model, l);
        else
            splice(&model, l);
        check_model(&model);
    }
}

static void test_removing_while_walking(void **state) {
    (void)state;
    struct item items[5];
    struct sel_list head;
    int sum = 0;
    sel_list_init(&head);
    for (int i = 0; i < 5; i++) {
        items[i].number = i + 1;
        sel_list_init(&items[i].link);
        sel_list_add_tail(&head, &items[i].link);
    }
    SEL_LIST_FOR_EACH(at, &head) {
        sum += SEL_LIST_ENTRY(at, struct item, link)->number;
        sel_list_remove(at);
    }
    assert_int_equal(sum, 15);
    assert_true(sel_list_empty(&head));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_removing_while_walking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
