/* rank_load: what a rank works and what it waits in collectives, of a step on average. */
#include "analyze/overview/steps.h"

enum tg_err tg__rank_load(const struct tg__columns *t, uint32_t rank, struct tg__rank_load *out) {
  struct tg__breakdown b = {0};
  const enum tg_err err = tg__steps_breakdown(t, rank, TG__STEPS_DETECTED, &b);
  *out = (struct tg__rank_load){0};
  for (size_t i = 0; !err && i < b.count && b.source != TG__STEPS_RECORDING; i++) {
    const double n = (double)b.count, total = (double)(b.steps[i].end_ns - b.steps[i].start_ns);
    const double wait = (double)b.steps[i].part_ns[TG__PART_COMMUNICATION];
    /* No work is what a rank waits for a core, up to what is not waiting for others anyway. */
    const double no_core = b.steps[i].core_wait_ns == TG_NULL_INT ? 0 : (double)b.steps[i].core_wait_ns;
    const double busy = total - wait > no_core ? total - wait - no_core : 0;
    out->total_ns += total / n;
    out->wait_ns += wait / n;
    out->busy_ns += busy / n;
  }
  tg__breakdown_free(&b);
  return err;
}
