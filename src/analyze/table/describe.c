/* How values lie: count, mean, sample deviation, quartiles by linear interpolation. */
#include "analyze/table/describe.h"

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

/* Byte by byte from the lowest, bytes that are the same in all values left out; small numbers take few passes. */
static void sort_by_bytes(int64_t *values, int64_t *spare, size_t count) {
  const uint64_t sign = (uint64_t)1 << 63;
  int64_t *from = values, *to = spare;
  uint64_t differ = 0;
  for (size_t i = 1; i < count; i++) differ |= (uint64_t)values[i] ^ (uint64_t)values[0];
  for (unsigned shift = 0; shift < 64; shift += 8) {
    size_t next[256] = {0}, at = 0;
    if (!(differ >> shift & 255)) continue;
    for (size_t i = 0; i < count; i++) next[((uint64_t)from[i] ^ sign) >> shift & 255]++;
    for (unsigned digit = 0; digit < 256; digit++) {
      const size_t here = next[digit];
      next[digit] = at;
      at += here;
    }
    for (size_t i = 0; i < count; i++) to[next[((uint64_t)from[i] ^ sign) >> shift & 255]++] = from[i];
    int64_t *sorted = to;
    to = from;
    from = sorted;
  }
  if (from != values) memcpy(values, from, count * sizeof *values);
}

static void sort_ints(int64_t *values, size_t count) {
  enum { FEW = 64 };
  int64_t *spare = count > FEW ? tg__realloc(NULL, count * sizeof *spare) : NULL;
  if (spare)
    sort_by_bytes(values, spare, count);
  else if (count > 1)
    qsort(values, count, sizeof *values, by_int);
  tg__free(spare);
}

static struct tg__spread spread_sorted(int64_t *values, size_t count) {
  struct tg__stats s = {0};
  sort_ints(values, count);
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

/* ---- numbers that lie close together are counted instead of sorted --------------------------- */

struct counted { /* how often each number from `least` on is there */
  int64_t least;
  size_t range, total;
  size_t *times;
};

static int64_t nth(const struct counted *c, size_t n) {
  size_t k = 0;
  for (size_t past = c->times[0]; past <= n; past += c->times[k]) k++;
  return c->least + (int64_t)k;
}

/* As tg__quantile. */
static double counted_quantile(const struct counted *c, double q) {
  const double place = q * (double)(c->total - 1);
  const size_t i = (size_t)floor(place);
  const double here = (double)nth(c, i), next = (double)nth(c, i + 1 < c->total ? i + 1 : i);
  return here + (next - here) * (place - (double)i);
}

static struct tg__spread spread_counted(const struct counted *c) {
  struct tg__stats s = {.count = (int64_t)c->total, .min = c->least, .max = c->least + (int64_t)c->range - 1};
  for (size_t k = 0; k < c->range; k++) {
    const int64_t value = c->least + (int64_t)k;
    s.sum += value * (int64_t)c->times[k];
    s.squares += (__int128)(value * value) * (int64_t)c->times[k];
  }
  return (struct tg__spread){.count = s.count,
                             .mean = tg__stats_mean(&s),
                             .std = tg__stats_std(&s),
                             .min = (double)s.min,
                             .p25 = counted_quantile(c, 0.25),
                             .p50 = counted_quantile(c, 0.5),
                             .p75 = counted_quantile(c, 0.75),
                             .max = (double)s.max};
}

/* Room to count numbers from `least` to `most`; false when it is better to sort them: when they are far apart, or
 * large. */
static bool open_counted(struct counted *c, size_t count, int64_t least, int64_t most) {
  if (count == 0 || least < INT32_MIN || most > INT32_MAX || (uint64_t)(most - least) >= count) return false;
  *c = (struct counted){.least = least, .range = (size_t)(most - least) + 1, .total = count};
  c->times = tg__alloc(c->range * sizeof *c->times);
  return c->times != NULL;
}

static struct tg__spread close_counted(struct counted *c) {
  const struct tg__spread spread = spread_counted(c);
  tg__free(c->times);
  return spread;
}

struct tg__spread tg__spread_ints(int64_t *values, size_t count) {
  struct counted c;
  int64_t least = INT64_MAX, most = INT64_MIN;
  for (size_t i = 0; i < count; i++) {
    least = values[i] < least ? values[i] : least;
    most = values[i] > most ? values[i] : most;
  }
  if (!open_counted(&c, count, least, most)) return spread_sorted(values, count);
  for (size_t i = 0; i < count; i++) c.times[values[i] - least]++;
  return close_counted(&c);
}

bool tg__spread_small(const int32_t *values, size_t count, struct tg__spread *out) {
  struct counted c;
  int32_t least = INT32_MAX, most = INT32_MIN;
  for (size_t i = 0; i < count; i++) {
    least = values[i] < least ? values[i] : least;
    most = values[i] > most ? values[i] : most;
  }
  if (open_counted(&c, count, least, most)) {
    for (size_t i = 0; i < count; i++) c.times[values[i] - least]++;
    *out = close_counted(&c);
    return true;
  }
  int64_t *const copy = tg__realloc(NULL, (count + 1) * sizeof *copy);
  for (size_t i = 0; copy && i < count; i++) copy[i] = values[i];
  if (copy) *out = spread_sorted(copy, count);
  tg__free(copy);
  return copy != NULL;
}

/* ---- fractions ------------------------------------------------------------------------------- */

/* Doubles stand in the order of their bits as whole numbers once all bits but the sign of negative ones are turned
 * over. */
static int64_t turned_over(int64_t bits) { return bits < 0 ? bits ^ INT64_MAX : bits; }

static bool sort_reals(double *values, size_t count) {
  int64_t *bits = tg__realloc(NULL, (count + 1) * sizeof *bits);
  for (size_t i = 0; bits && i < count; i++) {
    memcpy(&bits[i], &values[i], sizeof *bits);
    bits[i] = turned_over(bits[i]);
  }
  if (bits) sort_ints(bits, count);
  for (size_t i = 0; bits && i < count; i++) {
    const int64_t back = turned_over(bits[i]);
    memcpy(&values[i], &back, sizeof back);
  }
  const bool done = bits != NULL;
  tg__free(bits);
  return done;
}

static double quantile(const double *sorted, size_t n, double q) {
  if (n == 0) return NAN;
  const double place = q * (double)(n - 1);
  const size_t i = (size_t)place;
  return i + 1 >= n ? sorted[n - 1] : sorted[i] + (sorted[i + 1] - sorted[i]) * (place - (double)i);
}

struct tg__spread tg__spread_reals(double *values, size_t count) {
  long double sum = 0, squares = 0;
  if (!sort_reals(values, count)) qsort(values, count, sizeof *values, by_real);
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
