/* Tests of members.c: values of JSON text by hand, whatever bytes stand in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace/trace.h"
#include "unit/mini_trace.h"

/* A copy without a byte behind it: reading on is a fault that sanitizers see. */
static struct tg__str exact(const char *text, size_t len) {
  char *const own = malloc(len ? len : 1);
  assert_non_null(own);
  memcpy(own, text, len);
  return (struct tg__str){own, (uint32_t)len};
}

static void expect(const char *text, const char *key, const char *value) {
  const struct tg__str s = exact(text, strlen(text)), found = tg__json_member(s, key);
  if (found.len != strlen(value) || memcmp(found.ptr, value, found.len) != 0)
    fail_msg("%s of %s: %.*s, not %s", key, text, (int)found.len, found.ptr, value);
  free((char *)s.ptr);
}

static void test_members(void **state) {
  static const char usual[] = " {\"a\" : 1,\n\t\"b\": \"two, \\\"}{\", \"c\": {\"a\": [3, {\"a\": 4}], \"z\": 9} , "
                              "\"d:,\": [5], \"e\": -1.5e3}";
  expect(usual, "a", "1"); /* not those inside c */
  expect(usual, "b", "\"two, \\\"}{\"");
  expect(usual, "c", "{\"a\": [3, {\"a\": 4}], \"z\": 9}");
  expect(usual, "d:,", "[5]");
  expect(usual, "e", "-1.5e3");
  expect(usual, "z", "");
  expect(usual, "", "");
  expect("{\"a\":1,\"a\":2}", "a", "2");
  expect("{\"a\":null}", "a", "");
  expect("{\"a\":\"null\"}", "a", "\"null\"");
  expect("{\"ab\":1}", "a", "");
  expect("[\"a\", 1]", "a", "");
}

static void test_hostile(void **state) {
  static const char *const nothing[] = {
      "",     "{",       "{}", "{\"",  "{\"a",      "{\"a\"", "{\"a\":", "{\"a\":}",      "{\"a\":,\"b\":1}", "{a:1}",
      "{:1}", "\"a\":1", "1",  "null", "{\"a\" 1}", "}",      "]",       "{\"\\\"a\":1}", "{{\"a\":1}}"};
  for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) expect(nothing[i], "a", "");
  expect("{\"a\":1", "a", "1"); /* cut off behind the value */
  expect("{\"a\":\"x", "a", "\"x");
  expect("{\"a\":\"x\\", "a", "\"x\\");
  expect("{\"a\":[1,{", "a", "[1,{");
  expect("{\"b\":[1,2}, \"a\":3}", "a", "3"); /* brackets that do not fit */
  expect("{\"b\" 1, \"a\":3}", "a", "");      /* behind a damage nothing is found */
  static const char zeros[] = "{\"a\0b\":1,\"a\":\0}";
  const struct tg__str s = exact(zeros, sizeof zeros - 1);
  assert_int_equal(tg__json_member(s, "a").len, 0);
  free((char *)s.ptr);
}

/* A hundred thousand brackets in one another: neither the stack nor an int counts them. */
static void test_deep(void **state) {
  enum { DEEP = 100000 };
  char *const text = malloc(2 * DEEP + 16);
  assert_non_null(text);
  memcpy(text, "{\"b\":", 5);
  memset(text + 5, '[', DEEP);
  memset(text + 5 + DEEP, ']', DEEP);
  memcpy(text + 5 + 2 * DEEP, ",\"a\":7}", 7);
  const struct tg__str s = {text, 2 * DEEP + 12};
  assert_int_equal(tg__json_member(s, "b").len, 2 * DEEP);
  assert_true(tg__str_eq(tg__json_member(s, "a"), TG_STR("7")));
  free(text);
}

static void test_array(void **state) {
  const struct tg__str text = TG_STR("[ 1, [2, 3],,\"four\" ,{\"a\":5}]6");
  static const char *const values[] = {"1", "[2, 3]", "\"four\"", "{\"a\":5}"};
  size_t n = 0;
  for (struct tg__members m = tg__members_of(text); tg__members_next(&m); n++) {
    assert_true(n < 4);
    assert_int_equal(m.key.len, 0);
    assert_int_equal(m.value.len, strlen(values[n]));
    assert_memory_equal(m.value.ptr, values[n], m.value.len);
  }
  assert_int_equal(n, 4);
}

static void test_unquoted(void **state) {
  assert_true(tg__str_eq(tg__json_unquoted(TG_STR("\"host\"")), TG_STR("host")));
  assert_true(tg__json_unquoted(TG_STR("\"\"")).ptr && !tg__json_unquoted(TG_STR("\"\"")).len);
  assert_null(tg__json_unquoted(TG_STR("\"")).ptr);
  assert_null(tg__json_unquoted(TG_STR("host")).ptr);
  assert_null(tg__json_unquoted(TG_STR("\"hos")).ptr);
  assert_null(tg__json_unquoted(TG_STR("")).ptr);
}

static void test_document(void **state) {
  struct mini *const m = mini_new();
  struct tg__columns *const t = mini_finish(m);
  assert_true(tg__trace_add_meta(t, "host_name", "\"a\""));
  assert_true(tg__trace_add_meta(t, "host", "\"b\""));
  assert_true(tg__trace_add_meta(t, "host_name", "\"c\""));
  assert_true(tg__trace_add_meta(t, "no", "null"));
  assert_true(tg__str_eq(tg__document_member(t, 0, "host_name"), TG_STR("\"c\"")));
  assert_int_equal(tg__document_member(t, 0, "no").len, 0);
  assert_int_equal(tg__document_member(t, 0, "hos").len, 0);
  mini_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_members),  cmocka_unit_test(test_hostile),
                                     cmocka_unit_test(test_deep),     cmocka_unit_test(test_array),
                                     cmocka_unit_test(test_unquoted), cmocka_unit_test(test_document)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
