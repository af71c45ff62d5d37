/* describe: how values lie: count, mean, deviation and quartiles, as pandas describes a column. */
#ifndef TG_DESCRIBE_H
#define TG_DESCRIBE_H

#include "analyze/analyze.h"

struct tg__spread {
  int64_t count;
  double mean, std, min, p25, p50, p75, max; /* NaN when not known */
};
struct tg__spread tg__spread_ints(int64_t *values, size_t count); /* may sort them */
/* The values stay as they are; false on no memory. */
bool tg__spread_small(const int32_t *values, size_t count, struct tg__spread *out);
struct tg__spread tg__spread_reals(double *values, size_t count); /* sorts them */
/* Eight columns: count, mean, std, min, p25, p50, p75, max. */
void tg__put_spread(struct tg_table *out, const struct tg__spread *s);

#endif
