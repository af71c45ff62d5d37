/* Tables as text, JSON and CSV: every expected text is written out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "show/parts.h"

/* The table as a NUL-terminated text, the caller's. */
static char *write_table(const char *format, const struct tg_table *t, const struct tg__show_options *o) {
  struct tg__out out = {0};
  assert_int_equal(tg__format_find(format)->table(t, o, &out), TG_OK);
  tg__out_bytes(&out, "", 1);
  return out.buf;
}

static void expect(const char *format, struct tg_table *t, const struct tg__show_options *o, const char *text) {
  assert_false(t->failed);
  char *got = write_table(format, t, o);
  assert_string_equal(got, text);
  tg__free(got);
  tg__table_free(t);
}

static struct tg_table *two_rows(void) {
  struct tg_table *t = tg__table_new("ops");
  tg__table_add_column(t, "name", TG_TEXT, "");
  tg__table_add_column(t, "calls", TG_INT, "");
  tg__table_add_column(t, "self_cpu_ns", TG_INT, "ns");
  tg__table_add_column(t, "pct", TG_REAL, "%");
  tg__table_add_column(t, "ok", TG_BOOL, "");
  tg__put_cstr(t, "aten::mm");
  tg__put_int(t, 12);
  tg__put_int(t, 1234567);
  tg__put_real(t, 12.345);
  tg__put_bool(t, true);
  tg__put_cstr(t, "a,\"b\"\n");
  tg__put_null(t);
  tg__put_int(t, 999);
  tg__put_real(t, NAN);
  tg__put_null(t);
  return t;
}

static void text_is_aligned(void **state) {
  struct tg_table *t = two_rows();
  tg__table_note(t, "one %s", "note");
  expect("text", t, NULL,
         "                   self_\n"
         "name      calls   cpu_ns      pct   ok\n"
         "aten::mm     12  1.23 ms  12.35 %  yes\n"
         "a,\"b\"\xef\xbf\xbd        -   999 ns        -    -\n"
         "note: one note\n");
}

static void text_cuts_names_in_the_middle(void **state) {
  struct tg_table *t = tg__table_new("x");
  tg__table_add_column(t, "name", TG_TEXT, "");
  tg__table_add_column(t, "n", TG_INT, "");
  tg__put_cstr(t, "abcdefghijklmnopqrstuvwxyz0123456789");
  tg__put_int(t, 7);
  const struct tg__show_options o = {.width = 23};
  expect("text", t, &o,
         "name                  n\nabcdefghij\xe2\x80\xa6"
         "123456789  7\n"); /* 10 + 1 + 9 columns */
}

/* On wide screens a name keeps a sixth of the width, 23 of 138 columns, at the cost of columns on the right. */
static void text_keeps_names_readable(void **state) {
  static const char *const names[] = {"aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc", "dddddddddd", "eeeeeeeeee",
                                      "ffffffffff", "gggggggggg", "hhhhhhhhhh", "iiiiiiiiii", "jjjjjjjjjj"};
  struct tg_table *t = tg__table_new("x");
  tg__table_add_column(t, "name", TG_TEXT, "");
  for (size_t i = 0; i < 10; i++) tg__table_add_column(t, names[i], TG_INT, "");
  tg__put_cstr(t, "abcdefghijklmnopqrstuvwxyz0123456789");
  for (size_t i = 0; i < 10; i++) tg__put_int(t, 1);
  const struct tg__show_options o = {.width = 138};
  expect("text", t, &o,
         "name                     aaaaaaaaaa  bbbbbbbbbb  cccccccccc  dddddddddd  eeeeeeeeee  ffffffffff  gggggggggg  "
         "hhhhhhhhhh  iiiiiiiiii\n"
         "abcdefghijk\xe2\x80\xa6z0123456789           1           1           1           1           1           1   "
         "        1           1           1\n"
         "columns left out for lack of width: jjjjjjjjjj (a wider terminal, json or csv has them)\n");
}

static void text_leaves_columns_out_and_says_so(void **state) {
  struct tg_table *t = tg__table_new("x");
  tg__table_add_column(t, "aaaaaaaa", TG_INT, "");
  tg__table_add_column(t, "empty", TG_TEXT, ""); /* no row has a value: not shown, and no word about it */
  tg__table_add_column(t, "bbbbbbbb", TG_INT, "");
  tg__put_int(t, 1);
  tg__put_null(t);
  tg__put_int(t, 2);
  const struct tg__show_options o = {.width = 10};
  expect("text", t, &o,
         "aaaaaaaa\n       1\ncolumns left out for lack of width: bbbbbbbb (a wider terminal, json or csv has them)\n");
}

/* A sentence is never cut or left out: where the row is too long for it, it stands below, at most 30 columns wide. */
static void text_puts_sentences_below(void **state) {
  static const char *const sentence = "Release gradients instead: zero_grad(set_to_none=True).";
  for (unsigned width = 30; width <= 70; width += 40) {
    struct tg_table *t = tg__table_new("x");
    tg__table_add_column(t, "cause", TG_TEXT, "");
    tg__table_add_column(t, "advice", TG_TEXT, "");
    tg__table_add_column(t, "n", TG_INT, "");
    t->columns[1].role = TG__ROLE_OUTCOME;
    tg__put_cstr(t, "zeros");
    tg__put_cstr(t, sentence);
    tg__put_int(t, 7);
    const struct tg__show_options o = {.width = width};
    expect("text", t, &o,
           width == 30 ? "cause  n\nzeros  7\n    advice: Release gradients\n            instead:\n"
                         "            zero_grad(set_to_n\n            one=True).\n"
                       : "cause  advice                                                   n\n"
                         "zeros  Release gradients instead: zero_grad(set_to_none=True).  7\n");
  }
}

/* Zeros of devices go at any width, all others only where it is too small. A head has two lines, three where there is
 * less room: aaaaaa_bbbbbb_cccccc takes 13 columns in two lines, 7 in three. */
static void text_leaves_devices_out_and_keeps_heads_low(void **state) {
  static const char *const texts[] = {
      "            aaaaaa_  device_\nname  bbbbbb_cccccc        x\nabcd           5 ns        0\n"
      "columns of zeros left out: device_ns (json and csv have them)\n",
      "      aaaaaa_\n      bbbbbb_  device_\nname   cccccc        x\nabcd     5 ns        0\n"
      "columns of zeros\n      left out:\n      device_ns (json\n      and csv have\n      them)\n"};
  static const unsigned widths[] = {0, 22};
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
    struct tg_table *t = tg__table_new("x");
    tg__table_add_column(t, "name", TG_TEXT, "");
    tg__table_add_column(t, "device_ns", TG_INT, "ns");
    tg__table_add_column(t, "aaaaaa_bbbbbb_cccccc", TG_INT, "ns");
    tg__table_add_column(t, "device_x", TG_INT, "");
    tg__put_cstr(t, "abcd");
    tg__put_int(t, 0);
    tg__put_int(t, 5);
    tg__put_int(t, 0);
    expect("text", t, &(struct tg__show_options){.width = widths[i]}, texts[i]);
  }
  struct tg_table *t = tg__table_new("x");
  tg__table_add_column(t, "name", TG_TEXT, "");
  tg__table_add_column(t, "device_ns", TG_INT, "ns");
  expect("text", t, NULL, "      device_\nname       ns\n(no rows)\n");
}

/* 4 + 4 × (2 + 6) = 36 wide: where there is less, all that is 0 everywhere goes; counts stay. */
static void text_leaves_zeros_out_first(void **state) {
  static const struct {
    unsigned width;
    const char *text;
  } cases[] = {
      {36, "name  aaaaaa  bbbbbb  cccccc  counts\nabcd    0 ns    5 ns    0 ns       0\nabcd       -    6 ns    0 ns   "
           "    0\n"},
      {35, "name  bbbbbb  counts\nabcd    5 ns       0\nabcd    6 ns       0\n"
           "columns of zeros left out:\n      aaaaaa, cccccc (json and csv\n      have them)\n"},
      {12, "name  bbbbbb\nabcd    5 ns\nabcd    6 ns\n"
           "columns left out for lack of width: counts (a wider terminal, json or csv has them)\n"
           "columns of zeros left out: aaaaaa, cccccc (json and csv have them)\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tg_table *t = tg__table_new("x");
    tg__table_add_column(t, "name", TG_TEXT, "");
    tg__table_add_column(t, "aaaaaa", TG_INT, "ns");
    tg__table_add_column(t, "bbbbbb", TG_INT, "ns");
    tg__table_add_column(t, "cccccc", TG_REAL, "ns");
    tg__table_add_column(t, "counts", TG_INT, "");
    for (int row = 0; row < 2; row++) {
      tg__put_cstr(t, "abcd");
      if (row)
        tg__put_null(t);
      else
        tg__put_int(t, 0);
      tg__put_int(t, 5 + row);
      tg__put_real(t, 0);
      tg__put_int(t, 0);
    }
    const struct tg__show_options o = {.width = cases[i].width};
    expect("text", t, &o, cases[i].text);
  }
}

static void text_knows_wide_and_combining_characters(void **state) {
  struct tg_table *t = tg__table_new("x");
  tg__table_add_column(t, "name", TG_TEXT, "");
  tg__table_add_column(t, "n", TG_INT, "");
  tg__put_cstr(t, "\xe6\xbc\xa2\xe5\xad\x97"); /* two characters, four columns */
  tg__put_int(t, 1);
  tg__put_cstr(t, "e\xcc\x81"
                  "1234"); /* e with an accent: five columns */
  tg__put_int(t, 2);
  expect("text", t, NULL,
         "name   n\n\xe6\xbc\xa2\xe5\xad\x97   1\ne\xcc\x81"
         "1234  2\n");
}

static void text_sends_no_escapes_to_the_terminal(void **state) {
  struct tg_table *t = tg__table_new("x");
  tg__table_add_column(t, "name", TG_TEXT, "");
  tg__put_cstr(t, "\033[31mred\xc2\x9b"
                  "2J");
  expect("text", t, NULL,
         "name\n\xef\xbf\xbd[31mred\xef\xbf\xbd"
         "2J\n");
}

static void text_shows_points_in_time_exactly(void **state) {
  struct tg_table *t = tg__table_new("x");
  tg__table_add_column_as(t, "start_ns", TG_INT, "ns", TG__ROLE_INSTANT);
  tg__put_int(t, 1694039968955744123);
  tg__put_int(t, -5);
  expect("text", t, NULL, "               start_ns\n1694039968955744.123 us\n              -0.005 us\n");
}

static void json_is_one_object(void **state) {
  struct tg_table *t = two_rows();
  tg__table_note(t, "a \"note\"");
  t->losses = tg__alloc(2 * sizeof *t->losses);
  t->losses[0] = (struct tg__loss_row){"cut_end", "the end", 1, 77};
  t->losses[1] = (struct tg__loss_row){"bent", "bent", 2, -1};
  t->loss_count = 2;
  expect(
      "json", t, NULL,
      "{\"question\":\"ops\",\n\"columns\":[{\"name\":\"name\",\"type\":\"text\",\"unit\":\"\"},{\"name\":\"calls\","
      "\"type\":\"int\",\"unit\":\"\"},"
      "{\"name\":\"self_cpu_ns\",\"type\":\"int\",\"unit\":\"ns\"},{\"name\":\"pct\",\"type\":\"real\",\"unit\":\"%\"},"
      "{\"name\":\"ok\",\"type\":\"bool\",\"unit\":\"\"}],\n\"rows\":[\n[\"aten::mm\",12,1234567,12.345,true],\n"
      "[\"a,\\\"b\\\"\\n\",null,999,null,null]],\n\"notes\":[\"a \\\"note\\\"\"],\n\"losses\":["
      "{\"name\":\"cut_end\",\"count\":1,\"offset\":77,\"meaning\":\"the "
      "end\"},{\"name\":\"bent\",\"count\":2,\"offset\":null,\"meaning\":\"bent\"}]}\n");
}

static void csv_quotes_what_must_be_quoted(void **state) {
  expect("csv", two_rows(), NULL,
         "name,calls,self_cpu_ns,pct,ok\r\naten::mm,12,1234567,12.345,true\r\n\"a,\"\"b\"\"\n\",,999,,\r\n");
}

static struct tg_table *formulas(void) {
  static const char *const cells[] = {"=1+1", "+x", "-x", "@x", "\tx", "x=1", "", " x"};
  struct tg_table *t = tg__table_new("x");
  tg__table_add_column(t, "t", TG_TEXT, "");
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) tg__put_cstr(t, cells[i]);
  return t;
}

static void csv_disarms_formulas(void **state) {
  expect("csv", formulas(), NULL, "t\r\n'=1+1\r\n'+x\r\n'-x\r\n'@x\r\n'\tx\r\nx=1\r\n\"\"\r\n\" x\"\r\n");
  const struct tg_arg keep = {"formulas", "keep"};
  const struct tg__show_options o = {.args = &keep, .arg_count = 1};
  expect("csv", formulas(), &o, "t\r\n=1+1\r\n+x\r\n-x\r\n@x\r\n\tx\r\nx=1\r\n\"\"\r\n\" x\"\r\n");
}

static void csv_never_disarms_numbers(void **state) {
  struct tg_table *t = tg__table_new("x");
  tg__table_add_column(t, "i", TG_INT, "");
  tg__table_add_column(t, "r", TG_REAL, "");
  tg__put_int(t, -5);
  tg__put_real(t, -0.5);
  expect("csv", t, NULL, "i,r\r\n-5,-0.5\r\n");
}

/* ---- text that must become JSON -------------------------------------------------------------- */

static void is_valid(const char *raw, bool want) {
  const struct tg__str s = {raw, (uint32_t)strlen(raw)};
  if (tg__json_is_valid(s) != want) fail_msg("%s: want %d", raw, want);
}

static void json_is_distinguished_from_what_is_not(void **state) {
  static const char *const good[] = {
      "1", "-0", "1.5e-3", "\"a\\u00e9\"", "[]", "{}", " [1, {\"a\": [null, true, false]}, \"\"] ", "\"\xc3\xa9\""};
  static const char *const bad[] = {"",           "01",       "1.",      ".5",   "-",       "+1",
                                    "1e",         "NaN",      "-1.-500", "[1,]", "[,1]",    "{\"a\"}",
                                    "{\"a\":1,}", "{a:1}",    "[1",      "1 2",  "\"\\p\"", "\"\\u12g4\"",
                                    "\"\n\"",     "\"\xff\"", "\"",      "tru",  "[1}",     "nullx"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) is_valid(good[i], true);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) is_valid(bad[i], false);
}

static void nesting_has_a_limit(void **state) {
  enum { DEPTH = 512 };
  char text[2 * (DEPTH + 1)];
  for (int depth = DEPTH; depth <= DEPTH + 1; depth++) {
    memset(text, '[', (size_t)depth);
    memset(text + depth, ']', (size_t)depth);
    assert_int_equal(tg__json_is_valid((struct tg__str){text, 2 * (uint32_t)depth}), depth == DEPTH);
  }
}

static void becomes(const char *raw, const char *want) {
  struct tg__out out = {0};
  tg__json_value(&out, (struct tg__str){raw, (uint32_t)strlen(raw)});
  tg__out_bytes(&out, "", 1);
  assert_string_equal(out.buf, want);
  tg__out_free(&out);
}

static void values_that_are_no_json_become_strings(void **state) {
  becomes("[1, 2]", "[1, 2]");
  becomes("NaN", "\"NaN\"");
  becomes("N/A", "\"N/A\"");
  becomes("-1.-500", "\"-1.-500\"");
  becomes("[1, NaN, -Infinity]", "[1, \"NaN\", \"-Infinity\"]");
  becomes("{\"a\": N/A}", "{\"a\": \"N/A\"}");
  becomes("[\"\\p\"]", "[\"\\\\p\"]");
  becomes("[\"a\tb\"]", "[\"a\\tb\"]");
  becomes("[1, 2", "\"[1, 2\"");
  becomes("\"\xff\"", "\"\xef\xbf\xbd\"");
}

static void string_bodies_are_valid_utf8(void **state) {
  static const struct {
    const char *in, *out;
  } cases[] = {{"a\"b\\\n", "a\\\"b\\\\\\n"},
               {"\xff\xc3", "\xef\xbf\xbd\xef\xbf\xbd"},
               {"x\xed\xa0\x80y", "x\\ud800y"},
               {"\xc3\xa9", "\xc3\xa9"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tg__out out = {0};
    tg__json_body(&out, (struct tg__str){cases[i].in, (uint32_t)strlen(cases[i].in)});
    tg__out_bytes(&out, "", 1);
    assert_string_equal(out.buf, cases[i].out);
    tg__out_free(&out);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_is_aligned),
      cmocka_unit_test(text_cuts_names_in_the_middle),
      cmocka_unit_test(text_keeps_names_readable),
      cmocka_unit_test(text_leaves_columns_out_and_says_so),
      cmocka_unit_test(text_puts_sentences_below),
      cmocka_unit_test(text_leaves_zeros_out_first),
      cmocka_unit_test(text_leaves_devices_out_and_keeps_heads_low),
      cmocka_unit_test(text_knows_wide_and_combining_characters),
      cmocka_unit_test(text_sends_no_escapes_to_the_terminal),
      cmocka_unit_test(text_shows_points_in_time_exactly),
      cmocka_unit_test(json_is_one_object),
      cmocka_unit_test(csv_quotes_what_must_be_quoted),
      cmocka_unit_test(csv_disarms_formulas),
      cmocka_unit_test(csv_never_disarms_numbers),
      cmocka_unit_test(json_is_distinguished_from_what_is_not),
      cmocka_unit_test(nesting_has_a_limit),
      cmocka_unit_test(values_that_are_no_json_become_strings),
      cmocka_unit_test(string_bodies_are_valid_utf8),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
