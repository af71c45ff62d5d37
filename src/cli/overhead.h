/* overhead: what recording costs a step; private to the command line, which measures it. */
#ifndef TG_OVERHEAD_H
#define TG_OVERHEAD_H

#include "base/base.h"

/* Median of some values, and the interval that holds it in 95 of 100 cases: low and high are -1 below six values, all
 * three without any. Sorts the values. */
struct tg__median {
  int64_t median, low, high;
};
struct tg__median tg__overhead_median(int64_t *values, size_t count);
/* By how many percent steps take longer with recording than without, and between which it is in 95 of 100 cases. All
 * NaN: not known. */
struct tg__overhead {
  double percent, low, high;
};
/* From neighbouring steps, one bare and one recorded: how much longer the recorded one is, and what the bare one takes.
 * NaN below six pairs. Sorts both. */
struct tg__overhead tg__overhead_of_pairs(int64_t *extra_ns, int64_t *bare_ns, size_t count);
/* From durations of steps of both kinds, wherever they were. NaN where they do not say: fewer than six steps of a kind,
 * an interval wider than 5 points and a third of the overhead to each side, or steps that are shorter with recording.
 * Sorts both. */
struct tg__overhead tg__overhead_of(int64_t *with_ns, size_t with_count, int64_t *without_ns, size_t without_count);

#endif
