/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefix keys, incrementally [L2, L3].
 *
 * A prefix keeps K0 .. Kn, all its tokens (as little-endian bytes, ready to hash; a cut or a key in mid-page needs
 * them), and the extra material by page. Page keys are computed the moment a page is full and kept until it is cut off.
 *
 * Invariants: key_count == tokens / P + 1; extras are sorted by page; a prefix is fed either tokens or page hashes.
 * A call that fails changes nothing: room is reserved first.
 */
#include "index/keys.h"

#include "base/bytes.h"
#include "base/check.h"
#include "index/sha256.h"

#include <stdlib.h>

#define PREFIX_MAGIC UINT32_C(0x53504658) /* "SPFX" */

enum feed { FEED_NONE = 0, FEED_TOKENS = 1, FEED_HASHES = 2 };

struct extra {
    uint32_t page;
    uint32_t count;
    uint8_t *bytes;
};

struct sel_prefix {
    uint32_t magic;
    uint32_t page_tokens;
    enum feed feed;
    uint8_t ns[SEL_NAMESPACE_BYTES];
    uint64_t tokens;
    struct sel_key *keys;
    size_t key_capacity;
    uint32_t *le_tokens; /* FEED_TOKENS: all of them */
    size_t token_capacity;
    struct extra *extras;
    size_t extra_count;
};

static int grow(void **array, size_t *capacity, size_t needed, size_t item_bytes) {
    size_t wanted = SEL_MAX(needed, *capacity + *capacity / 2);

    if (needed <= *capacity)
        return 0;
    void *grown = realloc(*array, wanted * item_bytes); /* at most 2^31 items of 32 bytes */
    if (grown == NULL)
        return SELENE_E_NOMEM;
    *array = grown;
    *capacity = wanted;
    return 0;
}

static int reserve(struct sel_prefix *prefix, uint64_t tokens) {
    void *keys = prefix->keys;
    void *le_tokens = prefix->le_tokens;
    int rc = grow(&keys, &prefix->key_capacity, tokens / prefix->page_tokens + 1, sizeof *prefix->keys);

    prefix->keys = keys;
    if (rc == 0 && prefix->feed != FEED_HASHES)
        rc = grow(&le_tokens, &prefix->token_capacity, tokens, sizeof *prefix->le_tokens);
    prefix->le_tokens = le_tokens;
    return rc;
}

static void add_counted(struct sel_sha256_state *state, const void *bytes, size_t count) {
    uint8_t length[8];

    sel_put_u64(length, count);
    sel_sha256_add(state, length, sizeof length);
    sel_sha256_add(state, bytes, count);
}

int sel_prefix_create(struct sel_prefix **out, const struct sel_layout *layout, const void *salt, size_t salt_bytes) {
    struct sel_prefix *prefix;
    struct sel_sha256_state state;

    *out = NULL;
    if (salt == NULL && salt_bytes > 0)
        return SELENE_E_INVALID;
    prefix = calloc(1, sizeof *prefix);
    if (prefix == NULL)
        return SELENE_E_NOMEM;
    prefix->magic = PREFIX_MAGIC;
    prefix->page_tokens = layout->desc.page_tokens;
    memcpy(prefix->ns, layout->ns, sizeof prefix->ns);
    if (reserve(prefix, 0) != 0) {
        sel_prefix_destroy(&prefix);
        return SELENE_E_NOMEM;
    }
    sel_sha256_begin(&state);
    sel_sha256_add(&state, prefix->ns, sizeof prefix->ns);
    add_counted(&state, salt, salt_bytes);
    sel_sha256_end(&state, prefix->keys[0].bytes);
    *out = prefix;
    return 0;
}

void sel_prefix_destroy(struct sel_prefix **prefix) {
    struct sel_prefix *p = *prefix;

    *prefix = NULL;
    if (p == NULL)
        return;
    SEL_CHECK_MAGIC(p, PREFIX_MAGIC);
    for (size_t i = 0; i < p->extra_count; i++)
        free(p->extras[i].bytes);
    free(p->extras);
    free(p->le_tokens);
    free(p->keys);
    p->magic = 0;
    free(p);
}

/* Index of the first extra whose page is at least `page`. */
static size_t extra_position(const struct sel_prefix *prefix, uint32_t page) {
    size_t low = 0, high = prefix->extra_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (prefix->extras[middle].page < page)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct extra *extra_of(const struct sel_prefix *prefix, uint32_t page) {
    static const struct extra none = {0};

    if (prefix->extra_count == 0)
        return &none;
    size_t at = extra_position(prefix, page);
    return at < prefix->extra_count && prefix->extras[at].page == page ? &prefix->extras[at] : &none;
}

/* The key after the first `count` tokens of page `page`: the next page key when that is all of them. */
static void hash_page(const struct sel_prefix *prefix, uint32_t page, uint32_t count, struct sel_key *out) {
    static const uint8_t mid_page = 0x01;
    const struct extra *extra = extra_of(prefix, page);
    struct sel_sha256_state state;

    sel_sha256_begin(&state);
    sel_sha256_add(&state, &prefix->keys[page], sizeof prefix->keys[page]);
    if (count < prefix->page_tokens)
        sel_sha256_add(&state, &mid_page, 1);
    sel_sha256_add(&state, prefix->le_tokens + (size_t)page * prefix->page_tokens, count * sizeof *prefix->le_tokens);
    add_counted(&state, extra->bytes, extra->count);
    sel_sha256_end(&state, out->bytes);
}

int sel_prefix_append(struct sel_prefix *prefix, const uint32_t *tokens, size_t count) {
    SEL_CHECK_MAGIC(prefix, PREFIX_MAGIC);
    if (count == 0)
        return 0;
    if (tokens == NULL || prefix->feed == FEED_HASHES)
        return SELENE_E_INVALID;
    if (count > SEL_PREFIX_TOKENS_MAX - prefix->tokens)
        return SELENE_E_OVERFLOW;
    if (reserve(prefix, prefix->tokens + count) != 0)
        return SELENE_E_NOMEM;
    prefix->feed = FEED_TOKENS;
    for (size_t i = 0; i < count; i++)
        prefix->le_tokens[prefix->tokens + i] = htole32(tokens[i]);

    uint32_t page = (uint32_t)(prefix->tokens / prefix->page_tokens);
    prefix->tokens += count;
    for (; page < prefix->tokens / prefix->page_tokens; page++)
        hash_page(prefix, page, prefix->page_tokens, &prefix->keys[page + 1]);
    return 0;
}

int sel_prefix_set_extra(struct sel_prefix *prefix, uint32_t page, const void *bytes, size_t count) {
    SEL_CHECK_MAGIC(prefix, PREFIX_MAGIC);
    size_t at = extra_position(prefix, page);

    if (prefix->feed == FEED_HASHES || bytes == NULL || count == 0 || count > SEL_EXTRA_BYTES_MAX ||
        page < prefix->tokens / prefix->page_tokens || page > SEL_PREFIX_TOKENS_MAX / prefix->page_tokens)
        return SELENE_E_INVALID;
    if (at < prefix->extra_count && prefix->extras[at].page == page)
        return SELENE_E_INVALID;
    uint8_t *copy = malloc(count);
    struct extra *extras = realloc(prefix->extras, (prefix->extra_count + 1) * sizeof *extras);
    if (extras != NULL)
        prefix->extras = extras;
    if (copy == NULL || extras == NULL) {
        free(copy);
        return SELENE_E_NOMEM;
    }
    memcpy(copy, bytes, count);
    memmove(&extras[at + 1], &extras[at], (prefix->extra_count - at) * sizeof *extras);
    extras[at] = (struct extra){.page = page, .count = (uint32_t)count, .bytes = copy};
    prefix->extra_count++;
    return 0;
}

int sel_prefix_append_hashes(struct sel_prefix *prefix, const uint8_t (*hashes)[32], size_t page_count) {
    static const uint8_t page_hash = 0x02;
    uint32_t page = (uint32_t)(prefix->tokens / prefix->page_tokens);

    SEL_CHECK_MAGIC(prefix, PREFIX_MAGIC);
    if (page_count == 0)
        return 0;
    if (hashes == NULL || prefix->feed == FEED_TOKENS || prefix->extra_count > 0)
        return SELENE_E_INVALID;
    if (page_count > (SEL_PREFIX_TOKENS_MAX - prefix->tokens) / prefix->page_tokens)
        return SELENE_E_OVERFLOW;
    enum feed before = prefix->feed;
    prefix->feed = FEED_HASHES;
    if (reserve(prefix, prefix->tokens + page_count * prefix->page_tokens) != 0) {
        prefix->feed = before;
        return SELENE_E_NOMEM;
    }
    for (size_t i = 0; i < page_count; i++) {
        struct sel_sha256_state state;
        sel_sha256_begin(&state);
        sel_sha256_add(&state, &prefix->keys[0], sizeof prefix->keys[0]);
        sel_sha256_add(&state, &page_hash, 1);
        sel_sha256_add(&state, hashes[i], 32);
        sel_sha256_end(&state, prefix->keys[page + i + 1].bytes);
    }
    prefix->tokens += page_count * prefix->page_tokens;
    return 0;
}

/* Extra material stays with a page as long as one of its tokens does. */
int sel_prefix_truncate(struct sel_prefix *prefix, uint64_t tokens) {
    SEL_CHECK_MAGIC(prefix, PREFIX_MAGIC);
    if (tokens > prefix->tokens || (prefix->feed == FEED_HASHES && tokens % prefix->page_tokens != 0))
        return SELENE_E_INVALID;
    if (tokens == prefix->tokens)
        return 0;
    while (prefix->extra_count > 0) {
        struct extra *last = &prefix->extras[prefix->extra_count - 1];
        if ((uint64_t)last->page * prefix->page_tokens < tokens)
            break;
        free(last->bytes);
        prefix->extra_count--;
    }
    prefix->tokens = tokens;
    return 0;
}

uint64_t sel_prefix_tokens(const struct sel_prefix *prefix) { return prefix->tokens; }

uint32_t sel_prefix_page_tokens(const struct sel_prefix *prefix) { return prefix->page_tokens; }

const uint8_t *sel_prefix_namespace(const struct sel_prefix *prefix) { return prefix->ns; }

const struct sel_key *sel_prefix_page_key(const struct sel_prefix *prefix, uint32_t page) {
    return page <= prefix->tokens / prefix->page_tokens ? &prefix->keys[page] : NULL;
}

int sel_prefix_key_at(const struct sel_prefix *prefix, uint64_t tokens, struct sel_key *out) {
    SEL_CHECK_MAGIC(prefix, PREFIX_MAGIC);
    if (tokens > prefix->tokens)
        return SELENE_E_INVALID;
    uint32_t page = (uint32_t)(tokens / prefix->page_tokens);
    uint32_t tail = (uint32_t)(tokens % prefix->page_tokens);
    if (tail == 0)
        *out = prefix->keys[page];
    else if (prefix->feed == FEED_HASHES)
        return SELENE_E_INVALID;
    else
        hash_page(prefix, page, tail, out);
    return 0;
}
