/* Intervals of time, and the arithmetic that questions share. */
#ifndef TG_SPANS_H
#define TG_SPANS_H

#include "base/base.h"

enum {
  TG__LOW_OCCUPANCY_PCT = 30
}; /* below it a computing kernel is worth a look: in kernels, in joins, in findings */

/* Microseconds without the digits that a conversion of large nanoseconds would lose. */
static inline double tg__us_of(int64_t ns) {
  const int64_t exact = (int64_t)1 << 53;
  const int64_t whole = ns / 1000, rest = ns % 1000;
  return ns > -exact && ns < exact ? (double)ns / 1000 : (double)whole + (double)rest / 1000;
}

/* Sorted, disjoint intervals [start, end) in ns; touching ones are joined (interval.c). */
struct tg__span {
  int64_t start, end;
};
struct tg__spans {
  struct tg__span *items;
  size_t count, cap;
  bool failed;
};
void tg__spans_add(struct tg__spans *s, int64_t start, int64_t end); /* any order; then tg__spans_union */
void tg__spans_add_all(struct tg__spans *s, const struct tg__spans *of);
void tg__spans_union(struct tg__spans *s); /* sort and join */
void tg__spans_intersect(const struct tg__spans *a, const struct tg__spans *b, struct tg__spans *out);
void tg__spans_subtract(const struct tg__spans *a, const struct tg__spans *b, struct tg__spans *out);
/* Move what of `left` lies in `s` to *part, which is empty. false: out of memory. */
bool tg__spans_take(struct tg__spans *left, const struct tg__spans *s, struct tg__spans *part);
int64_t tg__spans_length(const struct tg__spans *s);
/* Length of the part inside a window. */
int64_t tg__spans_inside(const struct tg__spans *s, int64_t start, int64_t end);
void tg__spans_free(struct tg__spans *s);

/* Count, sum, min, max, mean and sample standard deviation of int64 values, exact where it can be (stats.c). */
struct tg__stats {
  int64_t count, sum, min, max;
  __int128 squares;
};
void tg__stats_add(struct tg__stats *s, int64_t v);
double tg__stats_mean(const struct tg__stats *s); /* NaN when empty */
double tg__stats_std(const struct tg__stats *s);  /* NaN below two values; computed from integers, rounded once */
double tg__quantile(const int64_t *sorted, size_t n, double q); /* linear interpolation at q × (n−1); NaN when empty */

#endif
