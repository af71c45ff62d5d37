/* How values lie: count, mean, sample deviation, quartiles by linear interpolation. */
#include "analyze/describe.h"

#include <math.h>
#include <stdlib.h>

static int by_int(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int by_real(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

struct tg__spread tg__spread_ints(int64_t *values, size_t count) {
  struct tg__stats s = {0};
  if (count > 1) qsort(values, count, sizeof *values, by_int);
  for (size_t i = 0; i < count; i++) tg__stats_add(&s, values[i]);
  return (struct tg__spread){.count = s.count,
                             .mean = tg__stats_mean(&s),
                             .std = tg__stats_std(&s),
                             .min = count ? (double)s.min : NAN,
                             .p25 = tg__quantile(values, count, 0.25),
                             .p50 = tg__quantile(values, count, 0.5),
                             .p75 = tg__quantile(values, count, 0.75),
                             .max = count ? (double)s.max : NAN};
}

static double quantile(const double *sorted, size_t n, double q) {
  if (n == 0) return NAN;
  const double place = q * (double)(n - 1);
  const size_t i = (size_t)place;
  return i + 1 >= n ? sorted[n - 1] : sorted[i] + (sorted[i + 1] - sorted[i]) * (place - (double)i);
}

struct tg__spread tg__spread_reals(double *values, size_t count) {
  long double sum = 0, squares = 0;
  if (count > 1) qsort(values, count, sizeof *values, by_real);
  for (size_t i = 0; i < count; i++) sum += values[i];
  const long double mean = count ? sum / (long double)count : 0;
  for (size_t i = 0; i < count; i++) squares += (values[i] - mean) * (values[i] - mean);
  return (struct tg__spread){.count = (int64_t)count,
                             .mean = count ? (double)mean : NAN,
                             .std = count > 1 ? (double)sqrtl(squares / (long double)(count - 1)) : NAN,
                             .min = count ? values[0] : NAN,
                             .p25 = quantile(values, count, 0.25),
                             .p50 = quantile(values, count, 0.5),
                             .p75 = quantile(values, count, 0.75),
                             .max = count ? values[count - 1] : NAN};
}

void tg__put_spread(struct tg_table *out, const struct tg__spread *s) {
  tg__put_int(out, s->count);
  tg__put_real(out, s->mean);
  tg__put_real(out, s->std);
  tg__put_real(out, s->min);
  tg__put_real(out, s->p25);
  tg__put_real(out, s->p50);
  tg__put_real(out, s->p75);
  tg__put_real(out, s->max);
}
