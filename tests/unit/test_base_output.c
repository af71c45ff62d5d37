/* Output: numbers as text, the buffer and its sink, JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/base.h"
#include "tachograph/error.h"

static int reset_allocator(void **state) {
  (void)state;
  tg__alloc_fail_after(-1);
  return 0;
}

static void assert_holds(const struct tg__out *o, const char *text) {
  assert_int_equal(o->err, TG_OK);
  assert_int_equal(o->len, strlen(text));
  assert_memory_equal(o->buf ? o->buf : "", text, o->len);
}

#define CHECK_TEXT(text, call)                                                                                         \
  do {                                                                                                                 \
    struct tg__out o = {0};                                                                                            \
    call;                                                                                                              \
    assert_holds(&o, text);                                                                                            \
    tg__out_free(&o);                                                                                                  \
  } while (0)

static void integers(void **state) {
  CHECK_TEXT("0", tg__out_int(&o, 0));
  CHECK_TEXT("7", tg__out_int(&o, 7));
  CHECK_TEXT("-10", tg__out_int(&o, -10));
  CHECK_TEXT("99", tg__out_int(&o, 99));
  CHECK_TEXT("100", tg__out_int(&o, 100));
  CHECK_TEXT("9223372036854775807", tg__out_int(&o, INT64_MAX));
  CHECK_TEXT("-9223372036854775808", tg__out_int(&o, INT64_MIN));
  CHECK_TEXT("18446744073709551615", tg__out_uint(&o, UINT64_MAX));
  uint64_t v = 1;
  for (int i = 0; i < 60; i++, v = v * 3 + 1) {
    char expected[32];
    snprintf(expected, sizeof expected, "%llu", (unsigned long long)v);
    CHECK_TEXT(expected, tg__out_uint(&o, v));
  }
}

static void doubles_read_back(void **state) {
  CHECK_TEXT("0", tg__out_double(&o, 0));
  CHECK_TEXT("-0", tg__out_double(&o, -0.0));
  CHECK_TEXT("0.1", tg__out_double(&o, 0.1));
  CHECK_TEXT("42", tg__out_double(&o, 42));
  CHECK_TEXT("-1.5", tg__out_double(&o, -1.5));
  CHECK_TEXT("1e+100", tg__out_double(&o, 1e100));
  CHECK_TEXT("5e-324", tg__out_double(&o, 5e-324));
  CHECK_TEXT("null", tg__out_double(&o, NAN));
  CHECK_TEXT("null", tg__out_double(&o, -INFINITY));
  uint64_t bits = 1;
  for (int i = 0; i < 20000; i++) {
    bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    double v;
    memcpy(&v, &bits, 8);
    if (!isfinite(v)) continue;
    struct tg__out o = {0};
    tg__out_double(&o, v);
    tg__out_char(&o, 0);
    assert_true(strtod(o.buf, NULL) == v);
    tg__out_free(&o);
  }
}

static void formats_longer_than_the_scratch_buffer(void **state) {
  static char text[3001];
  memset(text, 'q', 3000);
  CHECK_TEXT(text, tg__out_format(&o, "%s", text));
  CHECK_TEXT("a 5", tg__out_format(&o, "%c %d", 'a', 5));
}

/* ---- the sink -------------------------------------------------------------------------------- */

struct receiver {
  size_t total, calls, fail_at; /* fail_at: the call that fails, 0 = none */
  uint64_t hash;
};

static bool receive(void *ctx, const char *bytes, size_t len) {
  struct receiver *r = ctx;
  r->calls++;
  r->total += len;
  for (size_t i = 0; i < len; i++) r->hash = r->hash * 31 + (unsigned char)bytes[i];
  return r->calls != r->fail_at;
}

/* All ways of writing, in pieces of all sizes, reach the sink in order and complete. */
static void sink_receives_everything_in_order(void **state) {
  struct receiver r = {0};
  struct tg__out o = {.write = receive, .ctx = &r};
  uint64_t expected = 0;
  size_t total = 0;
  static char piece[600000];
  for (size_t len = 1; len < sizeof piece; len = len * 3 / 2 + 1) {
    for (size_t i = 0; i < len; i++) {
      piece[i] = (char)(i * 7 + len);
      expected = expected * 31 + (unsigned char)piece[i];
    }
    if (len % 2) {
      tg__out_bytes(&o, piece, len);
    } else {
      char *p = tg__out_reserve(&o, len);
      assert_non_null(p);
      memcpy(p, piece, len);
      tg__out_commit(&o, len);
    }
    total += len;
  }
  assert_int_equal(tg__out_flush(&o), TG_OK);
  assert_int_equal(r.total, total);
  assert_int_equal(r.hash, expected);
  tg__out_free(&o);
}

static void first_error_sticks(void **state) {
  struct receiver r = {.fail_at = 2};
  struct tg__out o = {.write = receive, .ctx = &r};
  static const char piece[300000];
  for (int i = 0; i < 10; i++) tg__out_bytes(&o, piece, sizeof piece);
  assert_int_equal(o.err, TG_IO);
  assert_int_equal(r.calls, 2);
  assert_null(tg__out_reserve(&o, 1));
  assert_int_equal(tg__out_flush(&o), TG_IO);
  tg__out_free(&o);
}

static void no_memory_sticks(void **state) {
  struct tg__out o = {0};
  tg__out_text(&o, "kept");
  tg__alloc_fail_after(1);
  static const char piece[1000];
  tg__out_bytes(&o, piece, sizeof piece);
  tg__alloc_fail_after(-1);
  assert_int_equal(o.err, TG_MEMORY);
  tg__out_char(&o, 'x');
  assert_int_equal(o.len, 4);
  tg__out_free(&o);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_puts_its_commas(void **state) {
  struct tg__out out = {0};
  struct tg__jsonw w = {.out = &out};
  tg__json_open(&w, '{');
  tg__json_key(&w, "a");
  tg__json_int(&w, 1);
  tg__json_key(&w, "b");
  tg__json_open(&w, '[');
  tg__json_open(&w, '[');
  tg__json_close(&w, ']');
  tg__json_double(&w, 0.5);
  tg__json_double(&w, NAN);
  tg__json_bool(&w, true);
  tg__json_null(&w);
  tg__json_open(&w, '{');
  tg__json_close(&w, '}');
  tg__json_cstr(&w, NULL);
  tg__json_raw(&w, TG_STR("[1,2]"));
  tg__json_close(&w, ']');
  tg__json_key(&w, "c\"");
  tg__json_cstr(&w, "x");
  tg__json_close(&w, '}');
  assert_int_equal(w.depth, 0);
  assert_holds(&out, "{\"a\":1,\"b\":[[],0.5,null,true,null,{},null,[1,2]],\"c\\\"\":\"x\"}");
  tg__out_free(&out);
}

static void escapes(void **state) {
  CHECK_TEXT("plain", tg__json_escape(&o, TG_STR("plain"), true));
  CHECK_TEXT("a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0001\\u001f\x7f/",
             tg__json_escape(&o, TG_STR("a\"b\\c\n\t\r\b\f\x01\x1f\x7f/"), true));
  CHECK_TEXT("\xc3\xa9\xf0\x9f\x98\x80", tg__json_escape(&o, TG_STR("\xc3\xa9\xf0\x9f\x98\x80"), true));
  CHECK_TEXT("x\xef\xbf\xbdy", tg__json_escape(&o, TG_STR("x\xffy"), true));
  CHECK_TEXT("x\xffy", tg__json_escape(&o, TG_STR("x\xffy"), false));
  CHECK_TEXT("\\ud83d!", tg__json_escape(&o, TG_STR("\xed\xa0\xbd!"), false)); /* U+D83D encoded by itself */
  CHECK_TEXT("\\udfff", tg__json_escape(&o, TG_STR("\xed\xbf\xbf"), false));
  CHECK_TEXT("\xed\xa0", tg__json_escape(&o, TG_STR("\xed\xa0"), false)); /* cut: bytes stay */
  CHECK_TEXT("\\u0000", tg__json_escape(&o, TG_STR("\0"), true));
}

/* The fast path looks at eight bytes at once; a special byte must be seen at each place of them, whatever its
 * neighbours. */
static void escape_sees_every_position(void **state) {
  static const char special[] = {'"', '\\', 1, 0x1f};
  static const char around[] = {'!', '#', ' ', '[', ']', '~', 0x7f, '0'};
  for (size_t s = 0; s < sizeof special; s++) {
    for (size_t a = 0; a < sizeof around; a++) {
      for (size_t at = 0; at < 24; at++) {
        char text[24];
        memset(text, around[a], sizeof text);
        text[at] = special[s];
        struct tg__out o = {0};
        tg__json_escape(&o, (struct tg__str){text, sizeof text}, true);
        assert_int_equal(o.len, special[s] < 32 ? 29 : 25);
        assert_int_equal(o.buf[at], '\\');
        assert_int_equal(o.buf[o.len - 1],
                         at == 23 ? (special[s] < 32 ? (special[s] == 1 ? '1' : 'f') : special[s]) : around[a]);
        tg__out_free(&o);
      }
    }
  }
}

static void errors_have_words(void **state) {
  struct tg_error e;
  assert_int_equal(tg__fail(&e, TG_DAMAGED, 12, "byte %d of %s", 12, "x"), TG_DAMAGED);
  assert_int_equal(e.code, TG_DAMAGED);
  assert_int_equal(e.offset, 12);
  assert_string_equal(e.text, "byte 12 of x");
  assert_int_equal(tg__fail(NULL, TG_IO, -1, "nobody listens"), TG_IO);
  static char text[2000];
  memset(text, 'z', sizeof text - 1);
  tg__fail(&e, TG_IO, -1, "%s", text);
  assert_int_equal(strlen(e.text), sizeof e.text - 1);
  for (int code = 0; code < TG_ERR_COUNT; code++) {
    assert_true(strlen(tg_err_text((enum tg_err)code)) > 5);
    assert_in_range(tg_err_status((enum tg_err)code), code == TG_OK ? 0 : 2, 5);
  }
  assert_int_equal(tg_err_status(TG_NO_DATA), 3);
  assert_int_equal(tg_err_status((enum tg_err)999), 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(integers),
      cmocka_unit_test(doubles_read_back),
      cmocka_unit_test(formats_longer_than_the_scratch_buffer),
      cmocka_unit_test(sink_receives_everything_in_order),
      cmocka_unit_test(first_error_sticks),
      cmocka_unit_test_teardown(no_memory_sticks, reset_allocator),
      cmocka_unit_test(json_puts_its_commas),
      cmocka_unit_test(escapes),
      cmocka_unit_test(escape_sees_every_position),
      cmocka_unit_test(errors_have_words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
