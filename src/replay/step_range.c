/* step_range: the median of what each step saves, and how far chance may have moved it. */
#include "analyze/diff/bootstrap.h"
#include "replay/step_proof.h"

#include <math.h>
#include <stdlib.h>

static int compare_drawn(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

bool tg__replay_draw(const int64_t *saved, size_t steps, struct tg__saving *out) {
  struct tg__draws draws = {0};
  const size_t drawn = steps < TG__DRAW_MOST ? steps : TG__DRAW_MOST;
  double *const of_draw = tg__alloc(TG__DRAWS * sizeof *of_draw);
  double median;
  const bool ok = of_draw && tg__draws_make(&draws, drawn, 1) && tg__draws_quantile(&draws, saved, 0.5, of_draw) &&
                  tg__replay_median(saved, steps, &median);
  if (ok) {
    qsort(of_draw, TG__DRAWS, sizeof *of_draw, compare_drawn);
    out->median_ns = median;
    out->low_ns = median - draws.widen * fmax(0, median - of_draw[TG__DRAWS / 10]);
    out->high_ns = median + draws.widen * fmax(0, of_draw[TG__DRAWS - 1 - TG__DRAWS / 10] - median);
  }
  tg__draws_free(&draws);
  tg__free(of_draw);
  return ok;
}
