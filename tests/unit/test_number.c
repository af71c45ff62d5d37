/* Times: any spelling of a number of microseconds, to nanoseconds, exactly. Expected values worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>

#include <cmocka.h>

#include "trace/import.h"

static const struct {
  const char *text;
  int64_t ns;
  bool rounded;
} good[] = {
    {"0", 0, false},
    {"1", 1000, false},
    {"1.5", 1500, false},
    {"0.001", 1, false},
    {"-2.25", -2250, false},
    {"1e3", 1000000, false},
    {"1010", 1010000, false},
    {"1.01e3", 1010000, false},
    {"1E-3", 1, false},
    {"12e-1", 1200, false},
    {"+7", 7000, false},
    {"9007199254740993.125", 9007199254740993125, false},
    {"9223372036854775.807", INT64_MAX, false},
    {"1712195495502094.565", 1712195495502094565, false},
    {"0.0005", 0, true}, /* half goes to the even neighbour: 0 */
    {"0.0015", 2, true}, /* … 2 */
    {"0.0025", 2, true}, /* … 2 */
    {"0.00150000000000000000000000000000000000000000000000000000000000000000001", 2, true}, /* just above half */
    {"0.00250000000000000000000000000000000000000000000000000000000000000000001", 3, true},
    {"1.0004", 1000, true},
    {"1.0006", 1001, true},
    {"1.0000", 1000, false},
    {"0.0000000001", 0, true},
    {"1e-30", 0, true},
    {"00012", 12000, false},
    {"-1.-500", -1500, false},
    {"0.-05", -50, false},
    {"-0.5", -500, false},
};
static const char *const bad[] = {"",
                                  "-",
                                  ".",
                                  "e5",
                                  "1e",
                                  "1e+",
                                  "NaN",
                                  "Infinity",
                                  "-Infinity",
                                  "1.2.3",
                                  "1 2",
                                  "0x10",
                                  "9223372036854775.808",
                                  "1e30",
                                  "1e99999999999",
                                  "abc"};

static void test_good(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    int64_t ns = -1;
    bool rounded = false;
    if (!tg__parse_time_slow(good[i].text, strlen(good[i].text), &ns, &rounded))
      fail_msg("%s is refused", good[i].text);
    if (ns != good[i].ns || rounded != good[i].rounded)
      fail_msg("%s gives %lld, rounded %d", good[i].text, (long long)ns, rounded);
  }
}

static void test_bad(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    int64_t ns;
    bool rounded = false;
    if (tg__parse_time_slow(bad[i], strlen(bad[i]), &ns, &rounded)) fail_msg("%s is taken for a time", bad[i]);
  }
}

/* The fast path of the parser and the slow one must agree: every time is also tried inside an event. */
static void test_fast_path_agrees(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    char text[256];
    const int n = snprintf(text, sizeof text,
                           "[{\"ph\":\"i\",\"name\":\"a\",\"ts\":%s},{\"ph\":\"i\",\"name\":\"a\",\"ts\":\"%s\"}]",
                           good[i].text, good[i].text);
    for (int portable = 0; portable < 2; portable++) {
      struct tg__columns *t;
      struct tg_error e;
      assert_int_equal(tg__trace_open_bytes(text, (size_t)n, 1, 0, portable, &t, &e), TG_OK);
      assert_int_equal(t->marks.count, 2);
      assert_int_equal(t->marks.ts_ns[0], good[i].ns);
      assert_int_equal(t->marks.ts_ns[1], good[i].ns);
      assert_int_equal(t->ranks[0].loss[TG__LOSS_bent_rounded_time], good[i].rounded ? 2 : 0);
      assert_int_equal(t->ranks[0].loss[TG__LOSS_bent_text_time], 1);
      tg__trace_free(t);
    }
  }
}

/* Numbers in args come back as they were written, whatever their spelling. */
static void test_spelling_is_kept(void **state) {
  (void)state;
  static const char *const numbers[] = {"0",
                                        "-0",
                                        "1",
                                        "-1",
                                        "123456789012345678",
                                        "1234567890123456789",
                                        "18446744073709551616",
                                        "0.5",
                                        "-0.125",
                                        "0.0",
                                        "10.00",
                                        "3.14159265358979",
                                        "1e5",
                                        "1E-7",
                                        "1.5e300",
                                        "0.000000000000000001",
                                        "123456789.123456789",
                                        "99999999999999999999999999",
                                        "-5.25e+2"};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    char text[256];
    const int n =
        snprintf(text, sizeof text, "[{\"ph\":\"i\",\"name\":\"a\",\"ts\":1,\"args\":{\"v\":%s}}]", numbers[i]);
    struct tg__columns *t;
    struct tg_error e;
    struct tg__val v;
    assert_int_equal(tg__trace_open_bytes(text, (size_t)n, 1, 0, i % 2, &t, &e), TG_OK);
    assert_true(tg__arg(t, t->marks.args[0], tg__strings_find(t->strings, "v", 1), false, &v));
    struct tg__out o = {0};
    struct tg__jsonw w = {.out = &o};
    tg__val_json(t, &v, &w);
    tg__out_char(&o, 0);
    assert_string_equal(o.buf, numbers[i]);
    assert_int_equal(t->ranks[0].loss[TG__LOSS_bent_not_available], 0);
    tg__out_free(&o);
    tg__trace_free(t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_bad),
                                     cmocka_unit_test(test_fast_path_agrees), cmocka_unit_test(test_spelling_is_kept)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
