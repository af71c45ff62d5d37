/* by_class: which slices are of the classes that questions look for and that are few among all. */
#ifndef TG_BY_CLASS_H
#define TG_BY_CLASS_H

#include "analyze/analyze.h"

enum tg__list {
  TG__LIST_NONE,
  TG__LIST_WORK, /* of devices */
  TG__LIST_ANNOTATIONS,
  TG__LIST_GPU_ANNOTATIONS,
  TG__LIST_STEPS, /* whatever is named like a step of the profiler */
  TG__LIST_COUNT
};
struct tg__names_listed {
  const uint32_t *slices; /* rising, so by track, then start */
  size_t count;
  /* Of annotations, beside each other: they lie far apart in the trace, and are all that some questions look at.
   * Else NULL. */
  const uint32_t *names;
  const int64_t *dur_ns;
};
/* Those of one rank. Made when first asked for and kept with the trace; false on no memory. Needs TG__COL_CAT and
 * TG__COL_NAME. */
bool tg__names_listed(const struct tg__columns *t, enum tg__list which, uint32_t rank, struct tg__names_listed *out);

#endif
