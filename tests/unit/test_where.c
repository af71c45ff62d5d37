/* Tests of where.c: an expression, and the rows it keeps; a broken one, and where the caret stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <math.h>

#include <cmocka.h>

#include "analyze/analyze.h"

/*  row  name           dur_ns   bytes     pct    ok     other_ns
 *  0    conv2d         500      1024      10.5   true   500
 *  1    aten::Conv     1500     1000      20     false  100
 *  2    mm             2000000  null      null   null   null
 *  3    null           -7       0         0      true   7
 *  4    it's "x"       null     2000000   99     false  1        */
static struct tg_table *make_table(void) {
  struct tg_table *t = tg__table_new("test");
  tg__table_add_column(t, "name", TG_TEXT, "");
  tg__table_add_column(t, "dur_ns", TG_INT, "ns");
  tg__table_add_column(t, "bytes", TG_INT, "bytes");
  tg__table_add_column(t, "pct", TG_REAL, "%");
  tg__table_add_column(t, "ok", TG_BOOL, "");
  tg__table_add_column(t, "Input Dims", TG_INT, "ns");
  static const char *const names[] = {"conv2d", "aten::Conv", "mm", NULL, "it's \"x\""};
  static const int64_t durs[] = {500, 1500, 2000000, -7, TG_NULL_INT}, bytes[] = {1024, 1000, TG_NULL_INT, 0, 2000000};
  static const int64_t other[] = {500, 100, TG_NULL_INT, 7, 1};
  static const double pct[] = {10.5, 20, NAN, 0, 99};
  static const int ok[] = {1, 0, -1, 1, 0};
  for (int i = 0; i < 5; i++) {
    tg__put_cstr(t, names[i]);
    tg__put_int(t, durs[i]);
    tg__put_int(t, bytes[i]);
    tg__put_real(t, pct[i]);
    if (ok[i] < 0)
      tg__put_null(t);
    else
      tg__put_bool(t, ok[i]);
    tg__put_int(t, other[i]);
  }
  return t;
}

/* Which rows are left, as digits; dur_ns and bytes together tell rows apart. */
static void rows_left(const struct tg_table *t, char *out) {
  static const int64_t bytes[] = {1024, 1000, TG_NULL_INT, 0, 2000000};
  size_t n = 0;
  for (size_t i = 0; i < t->rows; i++)
    for (int k = 0; k < 5; k++)
      if (t->columns[2].ints[i] == bytes[k]) out[n++] = (char)('0' + k);
  out[n] = 0;
}

static void keeps(void **state) {
  (void)state;
  static const struct {
    const char *where, *rows;
  } cases[] = {
      {"dur_ns / bytes > 1", "1"},
      {"dur_ns / bytes < 1", "0"},
      {"dur_ns / bytes is null", "234"},
      {"(dur_ns / bytes) is null", "234"},
      {"dur_ns / `Input Dims` > 0.5", "01"},
      {"dur_ns / `Input Dims` > 50%", "01"},
      {"dur_ns / `Input Dims` = 100%", "0"},
      {"dur_ns + `Input Dims` = 1us", "0"},
      {"dur_ns - 500 > 0", "12"},
      {"dur_ns-500 > 0", "12"},
      {"dur_ns -500 > 0", "12"},
      {"2 * dur_ns >= 1us and ok", "0"},
      {"dur_ns + 2 * 250 = 1us", "0"},
      {"(dur_ns + 500) * 2 = 2us", "0"},
      {"(dur_ns + 500) / 2 in (500, 1us)", "01"},
      {"not (dur_ns / bytes > 1)", "0"},
      {"((dur_ns / bytes)) > 1", "1"},
      {"(dur_ns > 500) and (bytes > 0)", "1"},
      {"dur_ns / 1ms >= 2", "2"},
      {"pct / 2 > 5", "014"},
      {"dur_ns > 500", "12"},
      {"dur_ns >= 500", "012"},
      {"dur_ns = 500", "0"},
      {"dur_ns == 500", "0"},
      {"dur_ns != 500", "123"},
      {"dur_ns <> 500", "123"},
      {"dur_ns < -6.5", "3"},
      {"dur_ns < -7.5", ""},
      {"500 < dur_ns", "12"},
      {"dur_ns > 1us", "12"},
      {"dur_ns >= 1.5us", "12"},
      {"dur_ns = 2ms", "2"},
      {"dur_ns = 0.002S", "2"},
      {"dur_ns >= 1.5e3", "12"},
      {"dur_ns > .5us", "12"},
      {"bytes >= 1KB", "014"},
      {"bytes >= 1KiB", "04"},
      {"bytes = 2MB", "4"},
      {"pct > 10%", "014"},
      {"pct = 10.5", "0"},
      {"dur_ns < pct", "3"},
      {"bytes > pct", "014"},
      {"pct < bytes", "014"},
      {"pct >= `Input Dims`", "4"},
      {"ok = ok", "0134"},
      {"name = \"mm\"", "2"},
      {"name = 'mm'", "2"},
      {"name ~ \"conv\"", "01"},
      {"name !~ 'conv'", "24"},
      {"name ~ ''", "0124"},
      {"name = 'it''s'", NULL},
      {"name ~ \"it's\"", "4"},
      {"name ~ '\"x'", "4"},
      {"name >= 'conv2d'", "024"},
      {"name in ('mm', \"conv2d\")", "02"},
      {"name not in ('mm')", "014"},
      {"dur_ns in (500, 1.5us, 3)", "01"},
      {"name is null", "3"},
      {"name is not null", "0124"},
      {"dur_ns is null", "4"},
      {"pct is null", "2"},
      {"ok", "03"},
      {"not ok", "14"},
      {"ok = false", "14"},
      {"ok is null", "2"},
      {"dur_ns = `Input Dims`", "0"},
      {"dur_ns > `Input Dims`", "1"},
      {"pct < bytes", "014"},
      {"dur_ns > 0 and bytes > 0", "01"},
      {"dur_ns > 0 and bytes > 0 or name is null", "013"},
      {"name is null or dur_ns > 0 and bytes > 1000", "03"},
      {"(name is null or dur_ns > 0) and bytes > 1000", "0"},
      {"not (dur_ns > 500)", "03"}, /* null > 500 is unknown, and so is its opposite */
      {"not not dur_ns > 500", "12"},
      {"dur_ns > 0 or bytes is null", "012"},
      {"bytes > 5 or dur_ns > 5", "0124"},        /* unknown or true is true */
      {"not (bytes > 5 and dur_ns < 0)", "0123"}, /* unknown and false is false: row 2 stays, row 4 does not */
      {"DUR_NS > 5", NULL},
      {"dur_ns>500AND bytes=1000", NULL},
      {"dur_ns>500 AND bytes=1000", "1"},
      {"\t(\n(dur_ns > 500)) ", "12"},
      {"dur_ns < 99999999999999999999", "0123"},
      {"dur_ns > -99999999999999999999", "0123"},
      {"dur_ns < 1e999", "0123"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tg_table *t = make_table();
    struct tg_error e = {0};
    char left[8];
    const enum tg_err err = tg__where_filter(t, cases[i].where, &e);
    rows_left(t, left);
    if ((err == TG_OK) != (cases[i].rows != NULL)) fail_msg("%s: %s", cases[i].where, e.text);
    if (cases[i].rows && strcmp(left, cases[i].rows) != 0)
      fail_msg("%s: keeps %s, not %s", cases[i].where, left, cases[i].rows);
    tg__table_free(t);
  }
}

static void refuses(void **state) {
  (void)state;
  static const struct {
    const char *where;
    int column; /* where the caret stands, from 0 */
    const char *text;
  } cases[] = {
      {"", 0, "expected a column or a value, found the end"},
      {"dur_ns", 6, "expected a comparison such as = or >, found the end"},
      {"dur_ns > > 5", 9, "expected a column or a value, found >"},
      {"dur_ns > 5 bytes", 11, "expected and, or, or the end, found bytes"},
      {"(dur_ns > 5", 11, "expected and, or, or a closing ), found the end"},
      {"dur > 5", 0, "there is no column 'dur'; did you mean dur_ns?"},
      {"name = mm", 7, "there is no column 'mm'"},
      {"name = 5", 7, "name is text, not a number"},
      {"dur_ns = 'x'", 9, "dur_ns is a number, not text"},
      {"dur_ns ~ 'x'", 0, "~ compares text with text"},
      {"ok > 5", 5, "ok is yes or no, not a number"},
      {"dur_ns > 5MB", 9, "MB does not fit dur_ns, which has the unit ns"},
      {"dur_ns > 5parsec", 10, "the unit parsec is not known"},
      {"name = 'x", 7, "the quote ' is never closed"},
      {"name ~ \"x\" ; drop", 11, "; has no meaning here"},
      {"dur_ns in 5", 10, "expected a list such as (1, 2), found 5"},
      {"dur_ns in (5", 12, "expected a comma or ), found the end"},
      {"dur_ns is 5", 10, "expected null or not null, found 5"},
      {"dur_ns not 5", 11, "expected in, found 5"},
      {"dur_ns + bytes > 1", 9, "ns and bytes cannot be added or subtracted"},
      {"name + 1 > 2", 0, "+ - * / need numbers on both sides"},
      {"(dur_ns + 1 > 2", 15, "expected and, or, or a closing ), found the end"},
      {"dur_ns / > 2", 9, "expected a column or a value, found >"},
      {"dur_ns / bytes > 1ms", 17, "ms does not fit the expression, which has the unit none"},
      {"5 > 4", 0, "a comparison needs a column on one side"},
      {"5 is null", 0, "is null needs a column"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tg_table *t = make_table();
    struct tg_error e = {0};
    const enum tg_err err = tg__where_filter(t, cases[i].where, &e);
    if (err != TG_USAGE) fail_msg("%s: accepted", cases[i].where);
    if (!strstr(e.text, cases[i].text)) fail_msg("%s: %s", cases[i].where, e.text);
    const char *caret = strrchr(e.text, '\n');
    assert_non_null(caret);
    if (strlen(caret) != (size_t)cases[i].column + 4 || e.offset != cases[i].column)
      fail_msg("%s: caret elsewhere\n%s", cases[i].where, e.text);
    assert_int_equal(t->rows, 5);
    tg__table_free(t);
  }
}

/* Depth is bounded, so a hostile expression ends in a sentence. */
static void deep_nesting(void **state) {
  (void)state;
  char text[1024];
  struct tg_error e = {0};
  struct tg_table *t = make_table();
  memset(text, '(', sizeof text - 1);
  text[sizeof text - 1] = 0;
  assert_int_equal(tg__where_filter(t, text, &e), TG_USAGE);
  assert_non_null(strstr(e.text, "nested too deeply"));
  strcpy(text, "not not not not not not not not not not dur_ns > 500"); /* ten levels are fine */
  assert_int_equal(tg__where_filter(t, text, &e), TG_OK);
  assert_int_equal(t->rows, 2);
  tg__table_free(t);
}

static void no_memory(void **state) {
  (void)state;
  for (long call = 1; call < 20; call++) {
    struct tg_table *t = make_table();
    struct tg_error e = {0};
    tg__alloc_fail_after(call);
    const enum tg_err err = tg__where_filter(
        t, "name ~ 'conv' and (dur_ns / bytes > 5 or (dur_ns + 1) * 2 in (4, 6) or name in ('x', 'y'))", &e);
    tg__alloc_fail_after(-1);
    assert_true(err == TG_MEMORY || err == TG_OK);
    if (call == 1) assert_int_equal(err, TG_MEMORY);
    tg__table_free(t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(keeps), cmocka_unit_test(refuses), cmocka_unit_test(deep_nesting),
                                     cmocka_unit_test(no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
