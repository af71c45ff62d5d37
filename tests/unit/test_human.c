/* Numbers for people: three digits, the right unit, also where rounding carries over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ranks/ranks.h"
#include "show/show.h"

static void expect(char *(*write)(int64_t, char *), int64_t v, const char *text) {
  char buf[32];
  assert_string_equal(write(v, buf), text);
}

static void test_ns(void **state) {
  expect(tg__human_ns, 0, "0 ns");
  expect(tg__human_ns, 999, "999 ns");
  expect(tg__human_ns, 1000, "1.00 us");
  expect(tg__human_ns, 1234, "1.23 us");
  expect(tg__human_ns, 12345, "12.3 us");
  expect(tg__human_ns, 123456, "123 us");
  expect(tg__human_ns, 1500000, "1.50 ms");
  expect(tg__human_ns, 9996000, "10.0 ms"); /* not 10.00 */
  expect(tg__human_ns, 99960000, "100 ms");
  expect(tg__human_ns, 999499, "999 us");
  expect(tg__human_ns, 999500, "1.00 ms");
  expect(tg__human_ns, 61000000000, "61.0 s");
  expect(tg__human_ns, 3600000000000, "3600 s");
  expect(tg__human_ns, -1234, "-1.23 us");
  expect(tg__human_ns, TG_NULL_INT, "-");
  expect(tg__human_ns, INT64_MAX, "9223372037 s");
}

static void test_bytes(void **state) {
  expect(tg__human_bytes, 0, "0 B");
  expect(tg__human_bytes, 999, "999 B");
  expect(tg__human_bytes, 4500000, "4.50 MB");
  expect(tg__human_bytes, 1000000000000, "1.00 TB");
  expect(tg__human_bytes, -2048, "-2.05 kB");
}

static void test_counts(void **state) {
  expect(tg__human_count, 0, "0");
  expect(tg__human_count, 999, "999");
  expect(tg__human_count, 1000, "1 000");
  expect(tg__human_count, 1234567, "1 234 567");
  expect(tg__human_count, -12345, "-12 345");
  expect(tg__human_count, INT64_MAX, "9 223 372 036 854 775 807");
  expect(tg__human_count, TG_NULL_INT, "-");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ns), cmocka_unit_test(test_bytes),
                                     cmocka_unit_test(test_counts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
