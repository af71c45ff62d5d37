/* diff_totals: adding up names of one side. */
#ifndef TG_DIFF_TOTALS_H
#define TG_DIFF_TOTALS_H

#include "analyze/compat/compat.h"
#include "analyze/diff/diff.h"

enum tg__diff_device { TG__DIFF_ON_ALL, TG__DIFF_ON_CPU, TG__DIFF_ON_GPU };

struct tg__diff_totals {
  bool short_names;
  tg__diff_count *count_trace; /* by the rules asked for */
  enum tg__diff_device device;
  struct tg__strings *names; /* id = position in totals */
  struct total *totals;      /* private */
  size_t count, cap;
  /* one side */
  int side;
  const struct tg__columns *t;
  struct tg__ask selection;
  uint32_t *row_of; /* by string id of the trace */
};
/* false on no memory. */
bool tg__diff_count_one(struct tg__diff_totals *w, uint32_t slice, bool is_device, int64_t dur_ns);

#endif
