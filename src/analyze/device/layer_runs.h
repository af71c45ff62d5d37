/* layer_runs: where a sequence of kernels repeats itself: the layers of a model, one like the other. */
#ifndef TG_LAYER_RUNS_H
#define TG_LAYER_RUNS_H

#include "analyze/analyze.h"

struct tg__layer_run { /* `count` times the same `period` names, from number `first` of the sequence on */
  uint32_t first, period, count;
  uint32_t more; /* names behind them that go on like another one: so many places later all of it fits as well */
};
typedef bool tg__layer_fits(const void *ctx, const struct tg__layer_run *x); /* may it be a layer? */
struct tg__layer_runs {
  struct tg__layer_run *items; /* by first; none overlap */
  size_t count, cap;
};
/* Runs of three layers and more, of four kernels and more. false: no memory. To be freed either way. */
bool tg__layer_runs_find(const uint32_t *names, uint32_t count, tg__layer_fits *fits, const void *ctx,
                         struct tg__layer_runs *out);
void tg__layer_runs_free(struct tg__layer_runs *r);

#endif
