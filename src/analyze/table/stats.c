/* stats: count, sum, extremes, mean and deviation of integers, in integers as far as they go. */
#include "analyze/analyze.h"

#include <math.h>

#define INT128_MAX ((__int128)((~(unsigned __int128)0) >> 1))

void tg__stats_add(struct tg__stats *s, int64_t v) {
  if (s->count == 0 || v < s->min) s->min = v;
  if (s->count == 0 || v > s->max) s->max = v;
  s->count++;
  /* Only invented times reach these limits; stopping at them keeps the results ordered. */
  if (__builtin_add_overflow(s->sum, v, &s->sum)) s->sum = v < 0 ? INT64_MIN : INT64_MAX;
  if (__builtin_add_overflow(s->squares, (__int128)v * v, &s->squares)) s->squares = INT128_MAX;
}

double tg__stats_mean(const struct tg__stats *s) {
  if (s->count == 0) return NAN;
  return (double)((long double)s->sum / (long double)s->count);
}

double tg__stats_std(const struct tg__stats *s) {
  if (s->count < 2) return NAN;
  /* With the mean as a + rest/n, the squared deviations sum to Σ(x − a)² − rest²/n: no large numbers cancel in
   * floating point. */
  const int64_t a = s->sum / s->count, rest = s->sum % s->count;
  const __int128 about_a = s->squares - (__int128)a * ((__int128)s->sum + rest);
  long double deviation = (long double)about_a - (long double)rest * (long double)rest / (long double)s->count;
  if (deviation < 0) deviation = 0;
  return (double)sqrtl(deviation / (long double)(s->count - 1));
}

double tg__quantile(const int64_t *sorted, size_t n, double q) {
  if (n == 0) return NAN;
  const double place = q * (double)(n - 1);
  const size_t i = (size_t)floor(place);
  if (i + 1 >= n) return (double)sorted[n - 1];
  return (double)sorted[i] + ((double)sorted[i + 1] - (double)sorted[i]) * (place - (double)i);
}
