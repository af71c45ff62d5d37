/* rank_steps: the figures of each rank, a step: what `ranks` shows and `stragglers` judges. */
#ifndef TG_RANK_STEPS_H
#define TG_RANK_STEPS_H

#include "analyze/ranks/rank_set.h"

struct tg__rank_figures {
  int64_t steps;                                                                        /* that count */
  int64_t length_ns, share_ns[TG__SHARE_COUNT], communication_ns, wait_ns, transfer_ns; /* summed over them */
  int64_t collectives, matched, last; /* it took part in; of several ranks; came last in */
  int64_t late_ns;                    /* what coming last cost the others */
  bool has_wait;
};
/* Per rank over the steps of `common`; by_step: per step instead, those of all ranks in order. NULL on no memory;
 * free with tg__free. */
struct tg__rank_figures *tg__rank_figures(const struct tg__ranks *r, const bool *common, bool by_step);

/* Mean length of a step over all ranks; 0 when none has steps. */
double tg__rank_step_mean(const struct tg__ranks *r, const struct tg__rank_figures *f);
/* Steps over which late_ns adds up: the most that any rank has, at least 1. */
int64_t tg__rank_step_most(const struct tg__ranks *r, const struct tg__rank_figures *f);

#endif
