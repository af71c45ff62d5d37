/* rank_steps: the figures of each rank, a step: what `ranks` shows and `stragglers` judges. */
#ifndef TG_RANK_STEPS_H
#define TG_RANK_STEPS_H

#include <math.h>

#include "analyze/ranks/rank_set.h"

struct tg__rank_figures {
  int64_t steps;                                                                        /* that count */
  int64_t length_ns, share_ns[TG__SHARE_COUNT], communication_ns, wait_ns, transfer_ns; /* summed over them */
  int64_t collectives, matched, last; /* it took part in; of several ranks; came last in */
  int64_t late_ns;                    /* what coming last cost the others: of its steps, each moment once */
};
/* Per rank over the steps of `common`; by_step: per step instead, those of all ranks in order. NULL on no memory;
 * free with tg__free. */
struct tg__rank_figures *tg__rank_figures(const struct tg__ranks *r, const bool *common, bool by_step);

static inline double tg__rank_late_pct(const struct tg__rank_figures *f) {
  return f->matched && f->length_ns > 0 ? 100 * (double)f->late_ns / (double)f->length_ns : NAN;
}

#endif
