/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters as text [spec 15]: every field of struct selene_stats is printed once, the text is what a Prometheus server
 * reads, and docs/COUNTERS.md says what the text says.
 */
#include "engine/metrics.h"
#include "tests/unit/engine/world.h"

#include <inttypes.h>

#define WORDS (sizeof(struct selene_stats) / sizeof(uint64_t))

static char *print_stats(const struct selene_stats *stats) {
    size_t length = sel_metrics_print(stats, NULL, 0);
    char *text = malloc(length + 1);
    assert_non_null(text);
    assert_int_equal(sel_metrics_print(stats, text, length + 1), length);
    assert_int_equal(strlen(text), length);
    return text;
}

static unsigned count_text(const char *text, const char *part) {
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        count++;
    return count;
}

/* Each word of the struct holds a number of its own, which must be found as a sample's value, in seconds or as it is. A
 * field that the table forgets, or has twice, fails here. */
static void test_every_field(void **state) {
    struct selene_stats stats;
    uint64_t words[WORDS];
    const uint64_t base = 7000000000000;
    char whole[64], seconds[64];
    (void)state;
    for (size_t i = 0; i < WORDS; i++)
        words[i] = base + i;
    memcpy(&stats, words, sizeof stats);
    stats.disk_state = 3;
    char *text = print_stats(&stats);
    for (size_t i = 0; i < WORDS; i++) {
        if (i == offsetof(struct selene_stats, disk_state) / sizeof(uint64_t))
            continue;
        snprintf(whole, sizeof whole, " %" PRIu64 "\n", words[i]);
        snprintf(seconds, sizeof seconds, " %" PRIu64 ".%09" PRIu64 "\n", words[i] / SEL_NS_PER_SECOND,
                 words[i] % SEL_NS_PER_SECOND);
        if (count_text(text, whole) + count_text(text, seconds) != 1)
            fail_msg("the number at offset %zu of struct selene_stats is not printed exactly once", i * sizeof *words);
    }
    assert_int_equal(count_text(text, "selene_disk_state{state=\"failing\"} 1\n"), 1);
    assert_int_equal(count_text(text, "selene_disk_state{"), 5);
    assert_int_equal(count_text(text, "} 1\n"), 1);
    free(text);
}

/* What one family said so far. */
struct family {
    char name[96], kind[16], help[256], labels[96];
    unsigned samples;
};

/* The names of the labels of a sample, as in "answer,reason". */
static void label_names(const char *line, char *names) {
    const char *at = strchr(line, '{');
    *names = 0;
    while (at && *at != '}') {
        const char *begin = at + 1, *equals = strchr(begin, '=');
        assert_non_null(equals);
        assert_int_equal(equals[1], '"');
        sprintf(names + strlen(names), "%s%.*s", *names ? "," : "", (int)(equals - begin), begin);
        at = strchr(equals + 2, '"');
        assert_non_null(at);
        at++;
        assert_true(*at == ',' || *at == '}');
    }
}

static void take_sample(struct family *family, const char *line) {
    size_t name = strcspn(line, "{ ");
    char labels[96];
    assert_true(name == strlen(family->name) && strncmp(line, family->name, name) == 0);
    label_names(line, labels);
    if (family->samples++ == 0)
        strcpy(family->labels, labels);
    assert_string_equal(family->labels, labels);
    const char *value = strrchr(line, ' ');
    assert_non_null(value);
    assert_true(value[1] && strspn(value + 1, "0123456789.") == strlen(value + 1));
}

static void end_family(const struct family *family, char *page, unsigned *count) {
    if (!*family->name)
        return;
    size_t length = strlen(family->name);
    bool total = length > 6 && strcmp(family->name + length - 6, "_total") == 0;
    assert_true(family->samples > 0);
    assert_int_equal(strncmp(family->name, "selene_", 7), 0);
    assert_int_equal(total, strcmp(family->kind, "counter") == 0);
    sprintf(page + strlen(page), "| `%s` | %s | %s | %s |\n", family->name, family->kind, family->labels, family->help);
    ++*count;
}

/* Reads the text as a server does, and makes the rows of docs/COUNTERS.md of it. */
static unsigned read_text(char *text, char *page) {
    struct family family = {.name = ""};
    unsigned count = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (strncmp(line, "# HELP ", 7) == 0) {
            end_family(&family, page, &count);
            memset(&family, 0, sizeof family);
            assert_int_equal(sscanf(line, "# HELP %95s %255[^\n]", family.name, family.help), 2);
        } else if (*line == '#') {
            char name[96];
            assert_int_equal(sscanf(line, "# TYPE %95s %15s", name, family.kind), 2);
            assert_string_equal(name, family.name);
            assert_int_equal(family.samples, 0);
        } else {
            take_sample(&family, line);
        }
    }
    end_family(&family, page, &count);
    return count;
}

static char *read_file(const char *path) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = calloc(1, 1 << 17);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 17) - 1, file) > 0);
    fclose(file);
    return text;
}

/* The format is right, and the page has exactly these rows in this order. SELENE_TEST_LOG=1 prints them, to be pasted. */
static void test_text_and_page(void **state) {
    struct selene_stats stats = {0};
    (void)state;
    char *text = print_stats(&stats), *page = calloc(1, 1 << 16), *document = read_file(COUNTERS_PAGE);
    assert_non_null(page);
    assert_int_equal(text[strlen(text) - 1], '\n');
    unsigned families = read_text(text, page);
    if (getenv("SELENE_TEST_LOG"))
        fputs(page, stderr);
    assert_int_equal(families, count_text(document, "\n| `selene_"));
    assert_non_null(strstr(document, page));
    free(text);
    free(page);
    free(document);
}

/* As snprintf: the length of all of it, whatever fits, always terminated, nothing beyond. */
static void test_buffers(void **state) {
    struct world world;
    char buffer[512];
    (void)state;
    world_init(&world, &world_with_rows, 16, 20, true);
    world_open(&world);
    int64_t length = selene_metrics_text(world.store, NULL, 0);
    assert_true(length > (int64_t)sizeof buffer);
    char *whole = malloc((size_t)length + 1);
    assert_non_null(whole);
    assert_int_equal(selene_metrics_text(world.store, whole, (size_t)length + 1), length);
    assert_int_equal(strlen(whole), length);
    for (size_t size = 0; size < sizeof buffer; size++) {
        memset(buffer, '#', sizeof buffer);
        assert_int_equal(selene_metrics_text(world.store, buffer, size), length);
        for (size_t i = 0; i + 1 < size; i++)
            assert_int_equal(buffer[i], whole[i]);
        if (size)
            assert_int_equal(buffer[size - 1], 0);
        for (size_t i = size; i < sizeof buffer; i++)
            assert_int_equal(buffer[i], '#');
    }
    assert_int_equal(selene_metrics_text(world.store, NULL, 1), SELENE_E_INVALID);
    assert_int_equal(selene_metrics_text(NULL, buffer, sizeof buffer), SELENE_E_INVALID);
    free(whole);
    world_destroy(&world);
}

/* A publish that was accepted and failed is counted, one that was cancelled is not; the text says what the struct says. */
static void test_failed_publish(void **state) {
    struct world world;
    struct device_request request;
    struct sequence sequence;
    struct selene_publish_result result;
    struct sel_disk_fault fault = {
        .action = SEL_DISK_FAULT_FAIL, .kinds = 1u << SEL_DISK_WRITE, .countdown = 1, .repeat = UINT64_MAX};
    (void)state;
    world_init(&world, &world_with_rows, 64, 0, true);
    world_disk(&world, 1);
    world_open(&world);
    request_make(&world, &request, 0, 32);
    sequence_make(&world, &sequence, 1, 40);
    request_fill(&world, &request, &sequence, 40);
    request.state.wait = &request.wait;
    assert_ok(selene_publish(world.store, sequence.prefix, 40, &request.state, &result));
    assert_ok(selene_cancel(world.store, result.ticket));
    assert_int_equal(world_wait(&world, result.ticket).result, SELENE_E_CANCELLED);
    assert_int_equal(world_stats(&world).publishes_failed, 0);
    request.state.wait = NULL;
    sel_disk_fault_arm(world.disk, &fault);
    assert_ok(selene_publish(world.store, sequence.prefix, 40, &request.state, &result));
    assert_int_equal(result.answer, SELENE_ACCEPTED);
    assert_true(world_wait(&world, result.ticket).result < 0);
    sel_disk_fault_clear(world.disk);
    struct selene_stats stats = world_stats(&world);
    assert_int_equal(stats.publishes_failed, 1);
    char *text = print_stats(&stats);
    assert_non_null(strstr(text, "\nselene_publishes_failed_total 1\n"));
    assert_non_null(strstr(text, "\nselene_publishes_total{answer=\"accepted\",reason=\"none\"} 2\n"));
    free(text);
    world_check(&world);
    sequence_free(&sequence);
    request_free(&world, &request);
    world_close_failed(&world);
    world_destroy(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field),
        cmocka_unit_test(test_text_and_page),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_failed_publish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
