/* SPDX-License-Identifier: Apache-2.0
 *
 * The naive model of the prefix tree, and the calls it makes. See tree_model.h.
 */
#include "tests/unit/index/tree_model.h"

#include "tests/lib/test.h"

static uint64_t below(struct model *model, uint64_t bound) { return sel_random_below(&model->random, bound); }

void model_end(struct model *model) {
    sel_tree_destroy(&model->tree);
    assert_null(model->tree);
    sel_layout_destroy(&model->layouts[0]);
    sel_layout_destroy(&model->layouts[1]);
}

static const struct sel_layout *layout_of(struct model *model, int variant) { return model->layouts[variant / 2]; }

static struct sel_prefix *prefix_of(struct model *model, const struct model_sequence *sequence) {
    struct sel_prefix *prefix;

    assert_ok(sel_prefix_create(&prefix, layout_of(model, sequence->variant), "salt", sequence->variant == 1 ? 4 : 0));
    assert_ok(sel_prefix_append(prefix, sequence->tokens, sequence->count));
    return prefix;
}

static bool is_prefix(const struct model_sequence *a, const struct model_sequence *b, uint32_t count) {
    return a->variant == b->variant && a->count >= count && b->count >= count &&
           memcmp(a->tokens, b->tokens, count * sizeof a->tokens[0]) == 0;
}

static bool present_anywhere(const struct model_record *record) {
    return record->present[0] || record->present[1] || record->present[2];
}

static bool has_child(const struct model *model, int parent, int tier /* -1: any, -2: in some tier */) {
    for (int i = 0; i < MODEL_RECORDS; i++) {
        const struct model_record *record = &model->records[i];
        if (record->alive && record->parent == parent &&
            (tier == -1 || (tier == -2 ? present_anywhere(record) : record->present[tier])))
            return true;
    }
    return false;
}

/* Few different tokens, so that sequences share much. Often one that goes on from a record, or one cut and changed. */
static void random_sequence(struct model *model, struct model_sequence *sequence) {
    const struct model_record *base = &model->records[below(model, MODEL_RECORDS)];

    memset(sequence, 0, sizeof *sequence);
    sequence->variant = (int)below(model, MODEL_VARIANTS);
    if (base->alive && below(model, 4) > 0) {
        *sequence = base->sequence;
        sequence->count = below(model, 3) > 0 ? sequence->count : (uint32_t)below(model, sequence->count + 1);
    }
    uint32_t more = (uint32_t)below(model, MODEL_TOKENS - sequence->count + 1);
    if (below(model, 2) > 0)
        more = more % 7;
    for (; more > 0; more--)
        sequence->tokens[sequence->count++] = (uint32_t)below(model, 10) == 0;
}

static int find_record(const struct model *model, const struct model_sequence *sequence, uint32_t count) {
    for (int i = 0; i < MODEL_RECORDS; i++)
        if (model->records[i].alive && model->records[i].sequence.count == count &&
            is_prefix(&model->records[i].sequence, sequence, count))
            return i;
    return -1;
}

/* Any held record that is a proper prefix, not always the deepest; or none: then pages are carried twice. */
static int random_parent(struct model *model, const struct model_sequence *sequence) {
    uint32_t limit = below(model, 2) ? sequence->count : (uint32_t)below(model, sequence->count);

    for (uint32_t count = limit; count-- > 1;) {
        int found = find_record(model, sequence, count);
        if (found >= 0 && present_anywhere(&model->records[found]))
            return found;
    }
    return -1;
}

static int insert_node(struct model *model, const struct model_sequence *sequence, int parent, struct sel_node **node) {
    struct sel_prefix *prefix = prefix_of(model, sequence);
    const struct sel_layout *layout = layout_of(model, sequence->variant);
    uint32_t first = parent < 0 ? 0 : model->records[parent].sequence.count / MODEL_PAGE;
    struct sel_node_spec spec = {.ns = layout->ns,
                                 .page_tokens = MODEL_PAGE,
                                 .tokens = sequence->count,
                                 .parent = parent < 0 ? NULL : model->records[parent].node,
                                 .page_keys = model->keys,
                                 .page_key_count = sequence->count / MODEL_PAGE - first,
                                 .base_key = *sel_prefix_page_key(prefix, sequence->count / MODEL_PAGE)};

    for (uint32_t i = 0; i < spec.page_key_count; i++)
        model->keys[i] = *sel_prefix_page_key(prefix, first + i + 1);
    assert_ok(sel_prefix_key_at(prefix, sequence->count, &spec.key));
    sel_prefix_destroy(&prefix);
    return sel_tree_insert(model->tree, &spec, node);
}

static void add_to(struct model *model, struct model_record *record, int tier) {
    bool parked = tier == SEL_TIER_MEMORY && below(model, 2);

    if (record->present[tier] || (record->parent >= 0 && !present_anywhere(&model->records[record->parent])))
        return;
    assert_ok(sel_tree_add_to(model->tree, record->node, (enum sel_tier)tier, parked));
    record->present[tier] = true;
    if (tier == SEL_TIER_MEMORY)
        record->parked = parked;
}

static void insert(struct model *model) {
    struct model_sequence sequence;
    int slot = 0;
    struct sel_node *node;

    random_sequence(model, &sequence);
    if (model->aligned_only)
        sequence.count -= sequence.count % MODEL_PAGE;
    while (slot < MODEL_RECORDS && model->records[slot].alive)
        slot++;
    if (sequence.count == 0 || slot == MODEL_RECORDS)
        return;
    int parent = random_parent(model, &sequence);
    if (find_record(model, &sequence, sequence.count) >= 0) {
        assert_int_equal(insert_node(model, &sequence, parent, &node), SELENE_E_INVALID);
        assert_null(node);
        return;
    }
    assert_ok(insert_node(model, &sequence, parent, &node));
    model->records[slot] = (struct model_record){
        .alive = true, .usable = below(model, 3) > 0, .sequence = sequence, .parent = parent, .node = node};
    if (below(model, 8) > 0)
        add_to(model, &model->records[slot], (int)below(model, SEL_TIER_COUNT));
}

/* Every other tree begins with records that are loaded. */
static void load(struct model *model) {
    uint64_t count = below(model, MODEL_RECORDS);

    assert_ok(sel_tree_load_begin(model->tree));
    while (count-- > 0)
        insert(model);
    sel_tree_load_end(model->tree);
    assert_ok(sel_tree_check(model->tree, NULL));
}

void model_begin(struct model *model, uint64_t seed, bool aligned_only) {
    static const struct selene_plane plane = {4096, 1, 1024};
    struct selene_layout desc = {.page_tokens = MODEL_PAGE, .rank_count = 1, .plane_count = 1, .planes = &plane};

    memset(model, 0, sizeof *model);
    sel_random_seed(&model->random, seed);
    model->aligned_only = aligned_only;
    assert_ok(sel_layout_create(&model->layouts[0], &desc, NULL));
    desc.rank_count = 2;
    assert_ok(sel_layout_create(&model->layouts[1], &desc, NULL));
    assert_ok(sel_tree_create(&model->tree, seed));
    if (seed % 2 == 0)
        load(model);
}

static void inherit(struct model *model, const struct model_record *child) {
    if (child->parent >= 0 && model->records[child->parent].last_use < child->last_use)
        model->records[child->parent].last_use = child->last_use;
}

/* Keeps to [P6]: the last copy stays while a descendant is held. */
static void remove_from(struct model *model, struct model_record *record, int tier) {
    int index = (int)(record - model->records);

    if (!record->present[tier] || record->pins[tier] > 0)
        return;
    record->present[tier] = false;
    if (!present_anywhere(record) && has_child(model, index, -2)) {
        record->present[tier] = true;
        return;
    }
    if (tier == SEL_TIER_MEMORY)
        record->parked = false;
    sel_tree_remove_from(model->tree, record->node, (enum sel_tier)tier);
    inherit(model, record);
}

static bool needed(const struct model *model, int index) {
    const struct model_record *record = &model->records[index];

    return present_anywhere(record) || record->pins[0] || record->pins[1] || record->pins[2] ||
           has_child(model, index, -1);
}

static void release(struct model *model, struct model_record *record) {
    int index = (int)(record - model->records);
    struct sel_node *node = record->node;
    bool freed = !needed(model, index);

    sel_tree_release(model->tree, &node);
    assert_int_equal(node == NULL, freed);
    while (index >= 0 && !needed(model, index)) {
        inherit(model, &model->records[index]);
        model->records[index].alive = false;
        index = model->records[index].parent;
    }
}

static void pin_or_unpin(struct model *model, struct model_record *record, int tier) {
    if (record->pins[tier] > 0 && below(model, 3) > 0) {
        sel_tree_unpin(model->tree, record->node, (enum sel_tier)tier);
        record->pins[tier]--;
    } else if (record->pins[tier] < 3) {
        sel_tree_pin(model->tree, record->node, (enum sel_tier)tier);
        record->pins[tier]++;
    }
}

static void set_parked(struct model *model, struct model_record *record) {
    if (!record->present[SEL_TIER_MEMORY])
        return;
    record->parked = below(model, 2);
    sel_tree_set_parked(model->tree, record->node, SEL_TIER_MEMORY, record->parked);
}

static void change(struct model *model) {
    struct model_record *record = &model->records[below(model, MODEL_RECORDS)];
    int tier = (int)below(model, SEL_TIER_COUNT);
    uint64_t action = below(model, 10);

    if (!record->alive || action < 2) {
        insert(model);
    } else if (action < 4) {
        add_to(model, record, tier);
    } else if (action < 6) {
        remove_from(model, record, tier);
        if (below(model, 2))
            release(model, record);
    } else if (action == 6) {
        release(model, record);
    } else if (action == 7) {
        pin_or_unpin(model, record, tier);
    } else if (action == 8) {
        set_parked(model, record);
    } else {
        record->last_use = ++model->clock;
        sel_tree_touch(model->tree, record->node, record->last_use);
    }
}

/* The coldest evictable record by the rule in tree.h, in its own words. */
static void compare_coldest(struct model *model, int tier, bool parked) {
    struct sel_node *coldest =
        sel_tree_coldest(model->tree, (enum sel_tier)tier, parked ? SEL_ORDER_PARKED : SEL_ORDER_CLEAN);
    const struct model_record *expected = NULL;
    bool found = false;

    for (int i = 0; i < MODEL_RECORDS; i++) {
        const struct model_record *record = &model->records[i];
        if (!record->alive || !record->present[tier] || record->pins[tier] > 0 || has_child(model, i, tier))
            continue;
        int copies = record->present[0] + record->present[1] + record->present[2];
        if (copies == 1 && has_child(model, i, -1))
            continue;
        if ((tier == SEL_TIER_MEMORY && record->parked) != parked)
            continue;
        if (expected == NULL || record->last_use < expected->last_use)
            expected = record;
        found |= record->node == coldest;
    }
    assert_int_equal(coldest != NULL, expected != NULL);
    if (coldest != NULL) {
        assert_true(found);
        assert_int_equal(coldest->last_use, expected->last_use);
    }
}

static void compare(struct model *model) {
    struct selene_message message = {""};
    uint64_t alive = 0, present[SEL_TIER_COUNT] = {0};

    if (sel_tree_check(model->tree, &message) != 0)
        fail_msg("%s", message.text);
    for (int i = 0; i < MODEL_RECORDS; i++) {
        const struct model_record *record = &model->records[i];
        if (!record->alive)
            continue;
        alive++;
        assert_int_equal(record->node->tokens, record->sequence.count);
        assert_int_equal(record->node->last_use, record->last_use);
        assert_ptr_equal(record->node->parent, record->parent < 0 ? NULL : model->records[record->parent].node);
        for (int tier = 0; tier < SEL_TIER_COUNT; tier++)
            present[tier] += record->present[tier];
    }
    assert_int_equal(sel_tree_count(model->tree), alive);
    for (int tier = 0; tier < SEL_TIER_COUNT; tier++) {
        assert_int_equal(sel_tree_tier_count(model->tree, (enum sel_tier)tier), present[tier]);
        compare_coldest(model, tier, false);
        compare_coldest(model, tier, true);
    }
}

void model_step(struct model *model) {
    change(model);
    compare(model);
}

static bool usable(void *context, const struct sel_node *node) {
    struct model *model = context;

    for (int i = 0; i < MODEL_RECORDS; i++)
        if (model->records[i].alive && model->records[i].node == node)
            return model->records[i].usable;
    fail_msg("asked about a node that is no record");
    return false;
}

/* The longest held record that is a prefix; its length, 0: none. */
static uint32_t brute_record(const struct model *model, const struct model_sequence *sequence, uint64_t limit,
                             bool need_row) {
    uint32_t best = 0;

    for (int i = 0; i < MODEL_RECORDS; i++) {
        const struct model_record *record = &model->records[i];
        uint32_t count = record->sequence.count;
        if (record->alive && present_anywhere(record) && (!need_row || record->usable) && count <= limit &&
            count > best && is_prefix(&record->sequence, sequence, count))
            best = count;
    }
    return best;
}

/* The longest page boundary that a held record goes through. */
static uint32_t brute_pages(const struct model *model, const struct model_sequence *sequence, uint64_t limit) {
    uint32_t best = 0;

    for (int i = 0; i < MODEL_RECORDS; i++) {
        const struct model_record *record = &model->records[i];
        if (!record->alive || !present_anywhere(record))
            continue;
        for (uint32_t count = MODEL_PAGE; count <= limit; count += MODEL_PAGE)
            if (count > best && is_prefix(&record->sequence, sequence, count))
                best = count;
    }
    return best;
}

static void assert_carries(struct model *model, const struct sel_match *match, const struct model_sequence *sequence) {
    for (int i = 0; i < MODEL_RECORDS; i++) {
        const struct model_record *record = &model->records[i];
        if (!record->alive || record->node != match->node)
            continue;
        uint32_t first = record->parent < 0 ? 0 : model->records[record->parent].sequence.count / MODEL_PAGE;
        assert_true(is_prefix(&record->sequence, sequence, (uint32_t)match->tokens));
        assert_true(match->tokens > (uint64_t)first * MODEL_PAGE);
        assert_true(present_anywhere(record));
        return;
    }
    fail_msg("the match is no record");
}

static void compare_find(struct model *model, const struct model_sequence *sequence, const struct sel_prefix *prefix) {
    struct sel_key key;
    const uint8_t *ns = layout_of(model, sequence->variant)->ns;
    uint64_t tokens = below(model, sequence->count + 1);
    int expected = find_record(model, sequence, (uint32_t)tokens);

    assert_ok(sel_prefix_key_at(prefix, tokens, &key));
    assert_ptr_equal(sel_tree_find(model->tree, ns, &key, tokens), expected < 0 ? NULL : model->records[expected].node);
    assert_null(sel_tree_find(model->tree, ns, &key, tokens + 1));
    assert_null(sel_tree_find(model->tree, model->layouts[1 - sequence->variant / 2]->ns, &key, tokens));
}

/* The keys of a record are those that it was added with. */
static void compare_keys(struct model *model) {
    const struct model_record *record = &model->records[below(model, MODEL_RECORDS)];
    uint32_t first = 0, end = record->sequence.count / MODEL_PAGE;
    struct sel_key base;

    if (!record->alive)
        return;
    if (record->parent >= 0)
        first = model->records[record->parent].sequence.count / MODEL_PAGE;
    struct sel_prefix *prefix = prefix_of(model, &record->sequence);
    sel_tree_keys(model->tree, record->node, model->keys, &base);
    for (uint32_t page = first; page < end; page++)
        assert_true(sel_key_equal(&model->keys[page - first], sel_prefix_page_key(prefix, page + 1)));
    assert_true(sel_key_equal(&base, sel_prefix_page_key(prefix, end)));
    sel_prefix_destroy(&prefix);
}

void model_look_up(struct model *model) {
    struct model_sequence sequence;
    struct sel_match match;

    random_sequence(model, &sequence);
    struct sel_prefix *prefix = prefix_of(model, &sequence);
    uint64_t limit = below(model, 2) ? UINT64_MAX : below(model, sequence.count + 1);

    match = sel_tree_longest(model->tree, prefix, limit, true, usable, model);
    assert_int_equal(match.tokens, brute_record(model, &sequence, limit, true));
    assert_int_equal(match.tokens, match.node ? match.node->tokens : 0);
    if (match.node != NULL)
        assert_carries(model, &match, &sequence);

    match = sel_tree_longest(model->tree, prefix, limit, false, NULL, NULL);
    assert_int_equal(match.tokens, brute_pages(model, &sequence, limit < sequence.count ? limit : sequence.count));
    assert_int_equal(match.node != NULL, match.tokens > 0);
    if (match.node != NULL)
        assert_carries(model, &match, &sequence);

    struct sel_node *ancestor = sel_tree_ancestor(model->tree, prefix, limit);
    assert_int_equal(ancestor ? ancestor->tokens : 0, brute_record(model, &sequence, limit, false));
    compare_find(model, &sequence, prefix);
    compare_keys(model);
    sel_prefix_destroy(&prefix);
}
