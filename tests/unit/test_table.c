/* Tests of table.c and order.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "analyze/answering.h"
#include "unit/mini_trace.h"

static void cells(void **state) {
  (void)state;
  struct tg_table *t = tg__table_new("test");
  char name[] = "text";
  tg__table_add_column(t, name, TG_TEXT, "");
  name[0] = '?'; /* names are copied */
  tg__table_add_column(t, "int", TG_INT, "ns");
  tg__table_add_column(t, "real", TG_REAL, "%");
  tg__table_add_column(t, "bool", TG_BOOL, "");
  for (int i = 0; i < 200; i++) { /* past the first capacity */
    char text[16];
    snprintf(text, sizeof text, "row %d", i % 7);
    tg__put_cstr(t, text); /* the same buffer with other bytes must not be taken for the same text */
    tg__put_int(t, i);
    tg__put_real(t, i * 0.5);
    tg__put_bool(t, i % 2);
  }
  for (int c = 0; c < 4; c++) tg__put_null(t);
  tg__put_cstr(t, NULL);
  tg__put_int(t, 3);
  tg__put_int(t, 4); /* a whole number in a REAL column */
  tg__put_bool(t, true);
  assert_false(t->failed);
  assert_int_equal(t->rows, 202);
  assert_string_equal(t->columns[0].name, "text");
  assert_string_equal(t->columns[1].unit, "ns");
  assert_string_equal(mini_cell(t, 199, "text"), "row 3");
  assert_string_equal(mini_cell(t, 196, "text"), "row 0");
  assert_int_equal(mini_int(t, 199, "int"), 199);
  assert_true(mini_real(t, 199, "real") == 99.5);
  assert_int_equal(t->columns[3].bools[199], 1);
  assert_null(mini_cell(t, 200, "text"));
  assert_true(mini_int(t, 200, "int") == TG_NULL_INT);
  assert_true(isnan(mini_real(t, 200, "real")));
  assert_int_equal(t->columns[3].bools[200], -1);
  assert_null(mini_cell(t, 201, "text"));
  assert_true(mini_real(t, 201, "real") == 4.0);
  assert_int_equal(tg__strings_count(t->strings), 7);
  assert_int_equal(tg__table_column_index(t, "real"), 2);
  assert_true(tg__table_column_index(t, "rea") == SIZE_MAX);
  tg__table_free(t);
}

static void trace_texts(void **state) {
  (void)state;
  struct mini *a = mini_new(), *b = mini_new();
  const uint32_t x = mini_text(a, "x"), y = mini_text(a, "y"), z = mini_text(b, "z");
  struct tg_table *t = tg__table_new("test");
  tg__table_add_column(t, "text", TG_TEXT, "");
  const struct tg__columns *ta = mini_finish(a), *tb = mini_finish(b);
  tg__put_trace_text(t, ta, y);
  tg__put_trace_text(t, ta, x);
  tg__put_trace_text(t, ta, y);
  tg__put_trace_text(t, ta, TG_NONE);
  tg__put_trace_text(t, tb, z); /* the same id in another trace is another text */
  tg__put_trace_text(t, ta, mini_text(a, "added later"));
  static const char *const want[] = {"y", "x", "y", NULL, "z", "added later"};
  for (size_t i = 0; i < 6; i++) {
    const char *got = mini_cell(t, i, "text");
    if (!want[i])
      assert_null(got);
    else
      assert_string_equal(got, want[i]);
  }
  tg__table_free(t);
  mini_free(a);
  mini_free(b);
}

/* text: b a null b; n: 2 5 1 2; r: 1.5 NaN 2.5 0.5 */
static struct tg_table *small(void) {
  static const char *const texts[] = {"b", "a", NULL, "b"};
  static const int64_t ints[] = {2, 5, 1, 2};
  static const double reals[] = {1.5, NAN, 2.5, 0.5};
  struct tg_table *t = tg__table_new("test");
  tg__table_add_column(t, "text", TG_TEXT, "");
  tg__table_add_column(t, "n", TG_INT, "");
  tg__table_add_column(t, "r", TG_REAL, "");
  tg__table_add_column(t, "row", TG_INT, "");
  for (int i = 0; i < 4; i++) {
    tg__put_cstr(t, texts[i]);
    tg__put_int(t, ints[i]);
    tg__put_real(t, reals[i]);
    tg__put_int(t, i);
  }
  return t;
}

static void sorting(void **state) {
  (void)state;
  static const struct {
    const char *sort, *order;
  } cases[] = {
      {"text", "1032"},
      {"-text", "0312"},
      {"text desc", "0312"},
      {"text asc", "1032"},
      {"n", "1032"},
      {"-n", "1032"},
      {"n asc", "2031"},
      {"r", "2031"},
      {"r asc", "3021"},
      {"text, n asc, r asc", "1302"},
      {" text desc ,-r", "0312"},
      {"n asc,r asc", "2301"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tg_table *t = small();
    struct tg_error e = {0};
    char got[5] = {0};
    assert_int_equal(tg__sort_table(t, cases[i].sort, &e), TG_OK);
    for (size_t k = 0; k < 4; k++) got[k] = (char)('0' + mini_int(t, k, "row"));
    if (strcmp(got, cases[i].order) != 0) fail_msg("sort=%s gives %s, not %s", cases[i].sort, got, cases[i].order);
    tg__table_free(t);
  }
}

static void sorting_refuses(void **state) {
  (void)state;
  struct tg_table *t = small();
  struct tg_error e = {0};
  assert_int_equal(tg__sort_table(t, "tex", &e), TG_USAGE);
  assert_string_equal(e.text, "sort: there is no column 'tex'; did you mean text?");
  assert_int_equal(tg__sort_table(t, "banana", &e), TG_USAGE);
  assert_string_equal(e.text, "sort: there is no column 'banana'; there are text, n, r, row");
  assert_int_equal(tg__sort_table(t, "n,,r", &e), TG_USAGE);
  assert_int_equal(tg__sort_table(t, "n,n,n,n,n,n,n,n,n", &e), TG_USAGE);
  tg__table_free(t);
}

static void keeping_rows(void **state) {
  (void)state;
  struct tg_table *t = small();
  const uint32_t rows[] = {3, 1};
  tg__table_keep_rows(t, rows, 2);
  assert_int_equal(t->rows, 2);
  assert_int_equal(mini_int(t, 0, "row"), 3);
  assert_string_equal(mini_cell(t, 1, "text"), "a");
  assert_true(mini_real(t, 0, "r") == 0.5);
  tg__table_note(t, "%d of %s", 2, "four");
  assert_int_equal(t->note_count, 1);
  assert_string_equal(t->notes[0], "2 of four");
  tg__table_keep_rows(t, rows, 0);
  assert_int_equal(t->rows, 0);
  tg__table_free(t);
}

/* Whichever allocation fails, the table says so and nothing else happens. */
static void no_memory(void **state) {
  (void)state;
  for (long call = 1; call < 40; call++) {
    tg__alloc_fail_after(call);
    struct tg_table *t = tg__table_new("test");
    if (t) {
      tg__table_add_column(t, "text", TG_TEXT, "");
      tg__table_add_column(t, "n", TG_INT, "");
      for (int i = 0; i < 100 && t->column_count == 2; i++) {
        tg__put_cstr(t, i % 2 ? "odd" : "even");
        tg__put_int(t, i);
      }
      tg__table_note(t, "note");
    }
    tg__alloc_fail_after(-1);
    if (t && !t->failed) assert_int_equal(t->rows, 100);
    tg__table_free(t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(cells),        cmocka_unit_test(trace_texts),
                                     cmocka_unit_test(sorting),      cmocka_unit_test(sorting_refuses),
                                     cmocka_unit_test(keeping_rows), cmocka_unit_test(no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
