/* What recording costs a step: medians of two series, their intervals, and the ratio. */
#include "cli/overhead.h"

#include <math.h>
#include <stdlib.h>

enum { LEAST_VALUES = 6 }; /* fewer hold the median between the least and the greatest in less than 95 of 100 cases */
enum { ANYHOW_PCT = 5 };   /* half an interval that says enough of whatever overhead */

static int by_value(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

struct tg__median tg__overhead_median(int64_t *values, size_t count) {
  if (!count) return (struct tg__median){-1, -1, -1};
  qsort(values, count, sizeof *values, by_value);
  const int64_t median = count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
  if (count < LEAST_VALUES) return (struct tg__median){median, -1, -1};
  const size_t below = (size_t)(((double)count - 1.96 * sqrt((double)count)) / 2);
  return (struct tg__median){median, values[below], values[count - 1 - below]};
}

struct tg__overhead tg__overhead_of(int64_t *with, size_t with_count, int64_t *without, size_t without_count) {
  const struct tg__median a = tg__overhead_median(without, without_count), b = tg__overhead_median(with, with_count);
  const struct tg__overhead unknown = {NAN, NAN, NAN};
  if (a.low < 0 || b.low < 0 || a.median <= 0) return unknown;
  /* The two series are independent: their intervals add as the sides of a right triangle. */
  const double ratio = (double)b.median / (double)a.median, percent = 100 * (ratio - 1);
  const double width =
      100 * hypot((double)(b.high - b.low) / (double)a.median, ratio * (double)(a.high - a.low) / (double)a.median) / 2;
  /* Recording cannot make a step shorter: where it seems to, the program's own steps differ. */
  if (width > fmax(ANYHOW_PCT, percent / 3) || percent + width < 0) return unknown;
  return (struct tg__overhead){percent, percent - width, percent + width};
}

struct tg__overhead tg__overhead_of_pairs(int64_t *extra_ns, int64_t *bare_ns, size_t count) {
  const struct tg__median extra = tg__overhead_median(extra_ns, count), bare = tg__overhead_median(bare_ns, count);
  if (count < LEAST_VALUES || bare.median <= 0) return (struct tg__overhead){NAN, NAN, NAN};
  const double one = 100 / (double)bare.median;
  return (struct tg__overhead){one * (double)extra.median, one * (double)extra.low, one * (double)extra.high};
}
