/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables and the progress line: aligned by what is seen, whatever bytes a cell holds.
 */
#include "tests/lib/test.h"

#include "cli/progress.h"
#include "cli/table.h"

static char *printed(struct sel_table *table) {
    char *text = NULL;
    size_t count;
    FILE *file = open_memstream(&text, &count);
    assert_non_null(file);
    sel_table_print(table, file);
    fclose(file);
    return text;
}

static void columns_are_aligned(void **state) {
    (void)state;
    struct sel_table *table = sel_table_create("lrl");
    const char *cells[] = {"tier", "MiB", "", "m\xc3\xa4mory", "7", "x", "\xe4\xba\xac", "12,031", "\xff\x01"};
    for (size_t i = 0; i < 9; i++)
        sel_table_cell(table, "%s", cells[i]);
    sel_table_rule(table);
    sel_table_cell(table, "end");
    sel_table_end_row(table);
    char *text = printed(table);
    assert_string_equal(text, "tier       MiB\n"
                              "m\xc3\xa4mory       7  x\n"
                              "\xe4\xba\xac      12,031  ?\?\n"
                              "------------------\n"
                              "end\n");
    free(text);
    sel_table_destroy(&table);
    sel_table_destroy(&table);
}

static void a_table_without_memory_says_so(void **state) {
    (void)state;
    sel_table_cell(NULL, "x");
    sel_table_rule(NULL);
    sel_table_end_row(NULL);
    char *text = printed(NULL);
    assert_non_null(strstr(text, "no memory"));
    free(text);
}

static void widths_of_texts(void **state) {
    (void)state;
    assert_int_equal(sel_text_columns(""), 0);
    assert_int_equal(sel_text_columns("abc"), 3);
    assert_int_equal(sel_text_columns("\xc3\xa4\xcc\x88"), 1);         /* a combining mark */
    assert_int_equal(sel_text_columns("\xf0\x9f\x98\x80"), 2);         /* an emoji */
    assert_int_equal(sel_text_columns("\xc0\xaf\xed\xa0\x80\xf5"), 6); /* overlong, surrogate, too large */
    assert_int_equal(sel_text_columns("\xe4\xba"), 2);                 /* cut */
}

static void the_line_fits_any_terminal(void **state) {
    (void)state;
    char line[SEL_PROGRESS_LINE];
    sel_progress_line(line, "replay", 50, 100, UINT64_C(62000000000), "hit 37 %", 120);
    assert_non_null(strstr(line, " 50 %  50 / 100  1m 02s  hit 37 %"));
    assert_non_null(strstr(line, "[====================>                   ]"));
    for (unsigned columns = 1; columns < 300; columns++) {
        sel_progress_line(line, "replay", UINT64_MAX, UINT64_MAX, UINT64_MAX, "note", columns);
        assert_true(strlen(line) <= columns);
    }
    sel_progress_line(line, "replay", 0, 0, 0, NULL, 80);
    assert_non_null(strstr(line, "100 %"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_aligned),
        cmocka_unit_test(a_table_without_memory_says_so),
        cmocka_unit_test(widths_of_texts),
        cmocka_unit_test(the_line_fits_any_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
