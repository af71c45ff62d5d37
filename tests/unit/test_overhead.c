/* What recording costs a step: medians, their intervals, and the overhead of two series or of pairs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "cli/overhead.h"

static void medians_with_the_interval_that_holds_them(void **state) {
  int64_t odd[] = {9, 1, 5}, six[] = {6, 1, 5, 2, 4, 3};
  struct tg__median m = tg__overhead_median(odd, 3);
  assert_true(m.median == 5 && m.low == -1 && m.high == -1); /* too few for an interval */
  m = tg__overhead_median(six,
                          6); /* the mean of 3 and 4, whole; (6 - 1.96 * 2.449) / 2 = 0.6: from the first to the last */
  assert_true(m.median == 3 && m.low == 1 && m.high == 6);
  m = tg__overhead_median(NULL, 0);
  assert_true(m.median == -1 && m.low == -1 && m.high == -1);
}

static void overhead_where_the_steps_say_so(void **state) {
  int64_t with[] = {1100, 1100, 1100, 1100, 1100, 1100}, without[] = {1000, 1000, 1000, 1000, 1000, 1000};
  struct tg__overhead o = tg__overhead_of(with, 6, without, 6);
  assert_true(fabs(o.percent - 10) < 1e-9 && fabs(o.low - 10) < 1e-9 && fabs(o.high - 10) < 1e-9);
  assert_true(isnan(tg__overhead_of(with, 5, without, 6).percent));
  assert_true(isnan(tg__overhead_of(without, 6, with, 6).percent)); /* recording makes no step shorter */
  with[5] = 1300; /* half an interval of (1300 - 1100) / 1000 / 2 = 10 %, more than 5 and more than a third of 10 */
  assert_true(isnan(tg__overhead_of(with, 6, without, 6).percent));
}

/* Whatever load there was in one pair, it was in both steps: 10 of 100 more each time, but for two pairs. */
static void overhead_of_pairs_stays_beside_a_drift(void **state) {
  int64_t extra[] = {10, 12, 14, 16, 18, 20, 90, -40}, bare[] = {100, 120, 140, 160, 180, 200, 100, 100};
  const struct tg__overhead o = tg__overhead_of_pairs(extra, bare, 8);
  /* Sorted: -40 10 12 14 16 18 20 90, median 15; bare 130; (8 - 1.96 * 2.83) / 2 = 1.2: from the second to the last but
   * one. */
  assert_true(fabs(o.percent - 100 * 15.0 / 130) < 1e-9);
  assert_true(fabs(o.low - 100 * 10.0 / 130) < 1e-9 && fabs(o.high - 100 * 20.0 / 130) < 1e-9);
  assert_true(isnan(tg__overhead_of_pairs(extra, bare, 5).percent));
  assert_true(isnan(tg__overhead_of_pairs(NULL, NULL, 0).percent));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(medians_with_the_interval_that_holds_them),
      cmocka_unit_test(overhead_where_the_steps_say_so),
      cmocka_unit_test(overhead_of_pairs_stays_beside_a_drift),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
