/* SPDX-License-Identifier: Apache-2.0
 *
 * The catalogue of real layouts: each is valid, names are unique, and its sums are the published figures of the model:
 * bytes a token over all ranks (one rank where all hold the same), and bytes of resume state a checkpoint.
 */
#include "engine/selene.h"
#include "index/layout.h"
#include "tests/lib/test.h"

struct fact {
    const char *name;
    uint32_t page_tokens;
    uint32_t ranks;
    uint64_t page_bytes; /* of all that differs between ranks */
    uint64_t row_bytes;
    int pages_replicated;
    int row_replicated;
};

static const struct fact facts[] = {
    {"qwen3-8b", 64, 1, 64 * 147456, 0, 0, 0},
    {"qwen3-32b-tp4", 64, 4, 64 * 262144, 0, 0, 0},
    {"llama-3.1-8b", 64, 1, 64 * 131072, 0, 0, 0},
    {"llama-3.1-70b-tp4", 64, 4, 64 * 327680, 0, 0, 0},
    {"llama-3.1-70b-tp8", 64, 8, 64 * 327680, 0, 0, 0},
    {"minimax-m2-tp4", 64, 4, 64 * 253952, 0, 0, 0},
    {"gpt-oss-120b", 64, 1, 64 * 36864, 4718592, 0, 0},
    {"gpt-oss-120b-tp4", 64, 4, 64 * 36864, 4718592, 0, 0},
    {"gemma-3-27b", 64, 1, 64 * 81920, 436207616, 0, 0},
    {"deepseek-v3", 64, 1, 64 * 70272, 0, 1, 0},
    {"deepseek-v3-tp4", 64, 4, 64 * 70272, 0, 1, 0},
    {"deepseek-v3-tp8", 64, 8, 64 * 70272, 0, 1, 0},
    {"deepseek-v3.2-tp8", 64, 8, 64 * 78324, 0, 1, 0},
    {"kimi-k2-tp8", 64, 8, 64 * 70272, 0, 1, 0},
    {"glm-5.2-tp8", 64, 8, 64 * 92628, 0, 1, 0},
    {"deepseek-v4-flash-tp4", 256, 4, 985664, 4940160, 1, 1},
    {"deepseek-v4-flash-tp4-midpage", 256, 4, 985664, 4940160 + 10485760, 1, 1},
    {"deepseek-v4-pro-tp8", 256, 8, 1410928, 7025280, 1, 1},
    {"qwen3-next-80b", 64, 1, 64 * 24576, 77266944, 0, 0},
    {"qwen3-next-80b-tp2", 64, 2, 64 * 24576, 77266944, 0, 0},
    {"qwen3.5-9b", 64, 1, 64 * 32768, 51511296, 0, 0},
    {"qwen3.5-397b-tp2", 64, 2, 64 * 30720, 192061440, 0, 0},
    {"qwen3.6-27b", 64, 1, 64 * 65536, 153944064, 0, 0},
    {"qwen3.8-2.4t-tp4", 64, 4, 64 * 94208, 587292672, 0, 0},
    {"kimi-linear-48b", 64, 1, 64 * 8064, 43417600, 1, 0},
    {"kimi-k3-tp8", 64, 8, 64 * 27648, 449372160, 1, 0},
    {"nemotron-h-8b", 64, 1, 64 * 16384, 102137856, 0, 0},
    {"nemotron-nano-9b-v2", 64, 1, 64 * 16384, 143548416, 0, 0},
    {"nemotron-3-nano-30b", 64, 1, 64 * 6144, 49082368, 0, 0},
    {"minimax-m1-tp8", 64, 8, 64 * 40960, 293601280, 0, 0},
};

static void sums_are_the_published_ones(void **state) {
    (void)state;
    size_t count = sizeof facts / sizeof facts[0];

    for (size_t i = 0; i < count; i++) {
        const struct fact *fact = &facts[i];
        const struct selene_model *model = selene_model_find(fact->name);
        struct selene_message message = {""};
        struct sel_layout *layout;

        print_message("%s\n", fact->name);
        assert_non_null(model);
        assert_int_equal(sel_layout_create(&layout, &model->layout, &message), 0);
        assert_int_equal(layout->desc.page_tokens, fact->page_tokens);
        assert_int_equal(layout->desc.rank_count, fact->ranks);
        assert_int_equal(layout->page_bytes * (fact->pages_replicated ? 1 : fact->ranks), fact->page_bytes);
        assert_int_equal(layout->desc.row_bytes * (fact->row_replicated ? 1 : fact->ranks), fact->row_bytes);
        assert_int_equal(model->pages_replicated, fact->pages_replicated);
        assert_int_equal(model->row_replicated, fact->row_replicated);
        sel_layout_destroy(&layout);
    }
    assert_non_null(selene_model_at(count - 1));
    assert_null(selene_model_at(count));
    assert_null(selene_model_at(SIZE_MAX));
}

/* Entries fill their planes: every byte of a page belongs to a token. */
static void entries_fill_the_planes(void **state) {
    (void)state;
    const struct selene_model *model;

    for (size_t i = 0; (model = selene_model_at(i)) != NULL; i++)
        for (uint32_t p = 0; p < model->layout.plane_count; p++) {
            const struct selene_plane *plane = &model->layout.planes[p];
            assert_true(plane->entry_tokens > 0);
            assert_int_equal((uint64_t)model->layout.page_tokens / plane->entry_tokens * plane->entry_bytes,
                             plane->bytes);
        }
}

static void names_and_namespaces_are_unique(void **state) {
    (void)state;
    uint8_t ns[64][32];
    const struct selene_model *model;

    for (size_t i = 0; (model = selene_model_at(i)) != NULL; i++) {
        struct sel_layout *layout;
        assert_ptr_equal(selene_model_find(model->name), model);
        assert_true(strlen(model->about) > 0);
        assert_ok(sel_layout_create(&layout, &model->layout, NULL));
        memcpy(ns[i], layout->ns, 32);
        sel_layout_destroy(&layout);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(ns[i], ns[j], 32);
    }
    assert_null(selene_model_find("qwen3"));
    assert_null(selene_model_find(""));
    assert_null(selene_model_find(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_the_published_ones),
        cmocka_unit_test(entries_fill_the_planes),
        cmocka_unit_test(names_and_namespaces_are_unique),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
