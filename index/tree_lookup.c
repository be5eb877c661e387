/* SPDX-License-Identifier: Apache-2.0
 *
 * Look-ups in the prefix tree [R1, L5, L6].
 *
 * The page keys held are closed under prefixes: a record carries the pages since its parent's last full page, its
 * ancestors carry those before, and what leaves goes from the leaves up [P6, R4]. So the deepest page held is found by
 * bisection. From there on down, every page key held is looked at: first the tails recorded under it, the longest
 * first, then the record that ends exactly there. The first one that counts is the deepest.
 *
 * A record that no tier holds (it failed everywhere and waits for its last pin to go) counts for nothing.
 */
#include "index/tree_priv.h"

#define FETCH_AHEAD 8
/* Among the holders of one page key, one that is in memory is worth looking for, but not for long. */
#define HOLDERS_SEEN 8

struct lookup {
    const struct sel_tree *tree;
    const struct sel_prefix *prefix;
    uint64_t limit;
    uint32_t page_tokens;
    uint16_t ns;
    sel_tree_usable *usable;
    void *context;
};

struct sel_node *sel_tree_find(const struct sel_tree *tree, const uint8_t ns[32], const struct sel_key *key,
                               uint64_t tokens) {
    int number = sel_tree_find_namespace(tree, ns);

    if (number < 0 || tokens == 0 || tokens > SEL_PREFIX_TOKENS_MAX)
        return NULL;
    struct sel_identity identity = {key, (uint32_t)tokens, (uint16_t)number};
    uint32_t ref = sel_tree_loading(tree) ? sel_tree_load_find(tree, &identity) : sel_tree_map_find(tree, &identity);
    return ref == 0 || (ref & SEL_REF_ENTRY) ? NULL : sel_node_at(tree, ref);
}

/* The first holder of a page key of the prefix, as a ref. */
static uint32_t holder_of(const struct lookup *lookup, uint32_t page) {
    struct sel_identity identity = {sel_prefix_page_key(lookup->prefix, page), page * lookup->page_tokens, lookup->ns};

    return sel_tree_map_find(lookup->tree, &identity);
}

/* A held record that carries the page which ends at this key; one in memory if that is soon found. */
static struct sel_node *carrier_of(const struct lookup *lookup, uint32_t page) {
    struct sel_node *best = NULL;
    int seen = 0;

    for (uint32_t ref = holder_of(lookup, page); ref != 0; ref = sel_ref_place(lookup->tree, ref)[PLACE_SAME_PAGE]) {
        struct sel_node *node = sel_ref_owner(lookup->tree, ref);
        if (node == NULL || !sel_node_present(node))
            continue;
        if (best == NULL || node->tier[SEL_TIER_MEMORY].present)
            best = node;
        if (best->tier[SEL_TIER_MEMORY].present || ++seen == HOLDERS_SEEN)
            break;
    }
    return best;
}

/* The number of full pages of the prefix that are held, and the record that carries the last of them. */
static uint32_t deepest_page(const struct lookup *lookup, struct sel_node **carrier) {
    uint32_t low = 0, high = (uint32_t)(lookup->limit / lookup->page_tokens);

    *carrier = NULL;
    while (low < high) {
        uint32_t middle = high - (high - low) / 2;
        struct sel_node *node = carrier_of(lookup, middle);
        if (node != NULL) {
            *carrier = node;
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

static bool counts(const struct lookup *lookup, const struct sel_node *node) {
    return sel_node_present(node) && (lookup->usable == NULL || lookup->usable(lookup->context, node));
}

/* The longest tail under a holder that is a prefix of the sequence and counts. */
static struct sel_node *tail_under(const struct lookup *lookup, uint32_t holder) {
    uint32_t number = sel_ref_place(lookup->tree, holder)[PLACE_TAILS];

    for (; number != 0; number = sel_node_at(lookup->tree, number)->place[PLACE_TAIL_NEXT]) {
        uint32_t tokens = sel_node_at(lookup->tree, number)->tokens;
        struct sel_key key;
        if (tokens > lookup->limit)
            continue;
        if (sel_prefix_key_at(lookup->prefix, tokens, &key) != 0)
            return NULL; /* page hashes: no keys in mid-page */
        uint32_t ref = sel_tree_map_find(lookup->tree, &(struct sel_identity){&key, tokens, lookup->ns});
        if (ref != 0 && counts(lookup, sel_node_at(lookup->tree, ref)))
            return sel_node_at(lookup->tree, ref);
    }
    return NULL;
}

/* The deepest record that is a prefix of the sequence and counts. */
static struct sel_node *deepest_record(const struct lookup *lookup) {
    struct sel_node *carrier;

    for (uint32_t page = deepest_page(lookup, &carrier) + 1; page-- > 0;) {
        if (page > FETCH_AHEAD)
            sel_tree_map_prefetch(lookup->tree, sel_prefix_page_key(lookup->prefix, page - FETCH_AHEAD));
        uint32_t holder = holder_of(lookup, page);
        if (holder == 0)
            continue; /* only K0, when nothing hangs under it */
        struct sel_node *node = tail_under(lookup, holder);
        if (node == NULL && !(holder & SEL_REF_ENTRY) && counts(lookup, sel_node_at(lookup->tree, holder)))
            node = sel_node_at(lookup->tree, holder);
        if (node != NULL)
            return node;
    }
    return NULL;
}

static bool begin(struct lookup *lookup, const struct sel_tree *tree, const struct sel_prefix *prefix,
                  uint64_t limit_tokens) {
    int ns = sel_tree_find_namespace(tree, sel_prefix_namespace(prefix));

    SEL_CHECK(!sel_tree_loading(tree));
    /* The tree has the page size from whoever came first, which may be a record on a damaged disk. */
    if (ns < 0 || tree->namespaces[ns].page_tokens != sel_prefix_page_tokens(prefix))
        return false;
    *lookup = (struct lookup){.tree = tree,
                              .prefix = prefix,
                              .limit = SEL_MIN(limit_tokens, sel_prefix_tokens(prefix)),
                              .page_tokens = tree->namespaces[ns].page_tokens,
                              .ns = (uint16_t)ns};
    return true;
}

struct sel_match sel_tree_longest(const struct sel_tree *tree, const struct sel_prefix *prefix, uint64_t limit_tokens,
                                  bool has_rows, sel_tree_usable *usable, void *context) {
    struct sel_match match = {NULL, 0};
    struct lookup lookup;

    if (!begin(&lookup, tree, prefix, limit_tokens))
        return match;
    if (has_rows) {
        lookup.usable = usable;
        lookup.context = context;
        match.node = deepest_record(&lookup);
        match.tokens = match.node ? match.node->tokens : 0;
    } else {
        match.tokens = (uint64_t)deepest_page(&lookup, &match.node) * lookup.page_tokens;
    }
    return match;
}

struct sel_node *sel_tree_ancestor(const struct sel_tree *tree, const struct sel_prefix *prefix,
                                   uint64_t limit_tokens) {
    struct lookup lookup;

    return begin(&lookup, tree, prefix, limit_tokens) ? deepest_record(&lookup) : NULL;
}
