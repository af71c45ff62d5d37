/* Tests of stats.c, with results worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/analyze.h"

static struct tg__stats stats_of(const int64_t *v, size_t n) {
  struct tg__stats s = {0};
  for (size_t i = 0; i < n; i++) tg__stats_add(&s, v[i]);
  return s;
}

static void none_and_one(void **state) {
  (void)state;
  const int64_t one[] = {7};
  const struct tg__stats empty = {0}, single = stats_of(one, 1);
  assert_true(isnan(tg__stats_mean(&empty)));
  assert_true(isnan(tg__stats_std(&empty)));
  assert_true(tg__stats_mean(&single) == 7.0);
  assert_true(isnan(tg__stats_std(&single)));
}

static void small_numbers(void **state) {
  (void)state;
  const int64_t v[] = {2, 4, 4, 4, 5, 5, 7, 9}; /* mean 5; squared deviations 9+1+1+1+0+0+4+16 = 32 over 7 */
  const struct tg__stats s = stats_of(v, 8);
  assert_int_equal(s.count, 8);
  assert_int_equal(s.sum, 40);
  assert_int_equal(s.min, 2);
  assert_int_equal(s.max, 9);
  assert_true(tg__stats_mean(&s) == 5.0);
  assert_true(tg__stats_std(&s) == sqrt(32.0 / 7.0));
}

static void close_together_and_far_from_zero(void **state) {
  (void)state;
  /* 1.6e18 ± 1: doubles could not even tell these apart. Deviations −1, 0, 1: variance 1. */
  const int64_t v[] = {1600000000000000000, 1600000000000000001, 1600000000000000002};
  const struct tg__stats s = stats_of(v, 3);
  assert_true(tg__stats_std(&s) == 1.0);
  const int64_t negative[] = {-3, -4}; /* mean −3.5, variance 0.5 */
  const struct tg__stats n = stats_of(negative, 2);
  assert_true(tg__stats_mean(&n) == -3.5);
  assert_true(tg__stats_std(&n) == sqrt(0.5));
}

static void sum_stops_at_the_limit(void **state) {
  (void)state;
  const int64_t v[] = {INT64_MAX, INT64_MAX, 5};
  const struct tg__stats s = stats_of(v, 3);
  assert_true(s.sum == INT64_MAX);
  assert_true(s.max == INT64_MAX && s.min == 5);
}

static void quantiles(void **state) {
  (void)state;
  const int64_t v[] = {10, 20, 40, 80};
  assert_true(isnan(tg__quantile(v, 0, 0.5)));
  assert_true(tg__quantile(v, 1, 0.99) == 10.0);
  assert_true(tg__quantile(v, 4, 0) == 10.0);
  assert_true(tg__quantile(v, 4, 1) == 80.0);
  assert_true(tg__quantile(v, 4, 0.5) == 30.0);  /* place 1.5 */
  assert_true(tg__quantile(v, 4, 0.25) == 17.5); /* place 0.75 */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(none_and_one), cmocka_unit_test(small_numbers),
                                     cmocka_unit_test(close_together_and_far_from_zero),
                                     cmocka_unit_test(sum_stops_at_the_limit), cmocka_unit_test(quantiles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
