/* Tests of interval.c: sets of time against a bitmap that cannot be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/analyze.h"

enum { LENGTH = 120, ROUNDS = 3000 };

static uint64_t seed = 20240501;
static unsigned random_below(unsigned limit) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(seed >> 33) % limit;
}

/* Random spans in [0, LENGTH), some sorted, some not, some empty, and the same as one flag per nanosecond. */
static void make_random(struct tg__spans *s, bool *on) {
  *s = (struct tg__spans){0};
  memset(on, 0, LENGTH);
  const unsigned count = random_below(30), longest = 1 + random_below(25);
  unsigned at = random_below(20);
  const bool in_order = random_below(2);
  for (unsigned i = 0; i < count; i++) {
    const unsigned start = in_order ? at : random_below(LENGTH), length = random_below(longest);
    const unsigned end = start + length < LENGTH ? start + length : LENGTH - 1;
    at = (at + random_below(9)) % LENGTH;
    tg__spans_add(s, start, end);
    for (unsigned ns = start; ns < end; ns++) on[ns] = true;
  }
  tg__spans_union(s);
}

static void check(const struct tg__spans *s, const bool *on) {
  bool got[LENGTH] = {0};
  int64_t length = 0;
  for (size_t i = 0; i < s->count; i++) {
    assert_true(s->items[i].start < s->items[i].end);
    assert_true(i == 0 || s->items[i - 1].end < s->items[i].start); /* touching ones are joined */
    for (int64_t ns = s->items[i].start; ns < s->items[i].end; ns++) got[ns] = true;
  }
  for (int ns = 0; ns < LENGTH; ns++) length += on[ns];
  assert_memory_equal(got, on, LENGTH);
  assert_int_equal(tg__spans_length(s), length);
}

static void random_sets(void **state) {
  (void)state;
  for (int round = 0; round < ROUNDS; round++) {
    struct tg__spans a, b, out = {0};
    bool in_a[LENGTH], in_b[LENGTH], want[LENGTH];
    make_random(&a, in_a);
    make_random(&b, in_b);
    check(&a, in_a);
    tg__spans_intersect(&a, &b, &out);
    for (int ns = 0; ns < LENGTH; ns++) want[ns] = in_a[ns] && in_b[ns];
    check(&out, want);
    tg__spans_subtract(&a, &b, &out);
    for (int ns = 0; ns < LENGTH; ns++) want[ns] = in_a[ns] && !in_b[ns];
    check(&out, want);
    const unsigned from = random_below(LENGTH), to = from + random_below(LENGTH - from);
    int64_t inside = 0;
    for (unsigned ns = from; ns < to; ns++) inside += in_a[ns];
    assert_int_equal(tg__spans_inside(&a, from, to), inside);
    assert_false(a.failed || b.failed || out.failed);
    tg__spans_free(&a);
    tg__spans_free(&b);
    tg__spans_free(&out);
  }
}

static void joins_and_extremes(void **state) {
  (void)state;
  struct tg__spans s = {0};
  tg__spans_add(&s, 10, 20);
  tg__spans_add(&s, 20, 30); /* touches */
  tg__spans_add(&s, 5, 5);   /* empty */
  tg__spans_add(&s, 40, 50);
  tg__spans_add(&s, 12, 15); /* inside an earlier one */
  tg__spans_add(&s, INT64_MIN + 1, INT64_MIN + 3);
  tg__spans_union(&s);
  assert_int_equal(s.count, 3);
  assert_int_equal(s.items[1].start, 10);
  assert_int_equal(s.items[1].end, 30);
  assert_int_equal(tg__spans_length(&s), 32);
  assert_int_equal(tg__spans_inside(&s, 25, 45), 10);
  tg__spans_add(&s, INT64_MIN + 1, INT64_MAX); /* longer than int64 can tell: stops at the limit */
  tg__spans_union(&s);
  assert_int_equal(s.count, 1);
  assert_true(tg__spans_length(&s) == INT64_MAX);
  tg__spans_free(&s);
}

static void out_of_memory(void **state) {
  (void)state;
  struct tg__spans s = {0};
  tg__alloc_fail_after(1);
  tg__spans_add(&s, 1, 2);
  tg__alloc_fail_after(-1);
  assert_true(s.failed);
  assert_int_equal(s.count, 0);
  tg__spans_free(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_sets), cmocka_unit_test(joins_and_extremes),
                                     cmocka_unit_test(out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
