/* rank_load: what a rank works and what it waits in collectives, of a step on average. */
#include "analyze/overview/steps.h"

/* The operators of one step with their shapes, as a sum of hashes: the order does not count. */
static uint64_t work_of(const struct tg__columns *t, uint32_t rank, const struct tg__step_cost *step) {
  uint64_t sum = 0;
  bool has_shapes = false;
  TG__EACH (k, tg__tracks_of(&t->ranks[rank])) {
    TG__EACH (i, tg__slices_of(&t->tracks[k])) {
      const int64_t start = t->slices.start_ns[i];
      if (start < step->host_start_ns || start >= step->host_end_ns || tg__slice_class(t, i) != TG__CLASS_OP) continue;
      const struct tg__str name = tg__name(t, t->slices.name[i]);
      const uint32_t dims = tg__arg_dims(t, t->slices.args[i]);
      const struct tg__str shape = dims == TG_NONE ? TG_STR("") : tg__name(t, dims);
      const uint64_t both[2] = {tg__hash(name.ptr, name.len), tg__hash(shape.ptr, shape.len)};
      sum += tg__hash(both, sizeof both);
      has_shapes |= dims != TG_NONE;
    }
  }
  return has_shapes ? sum : 0;
}

enum tg_err tg__rank_load(const struct tg__columns *t, uint32_t rank, struct tg__rank_load *out) {
  struct tg__breakdown b = {0};
  const enum tg_err err = tg__steps_breakdown(t, rank, TG__STEPS_DETECTED, &b);
  *out = (struct tg__rank_load){0};
  const bool has_steps = !err && b.count && b.source != TG__STEPS_RECORDING;
  for (size_t i = 0; has_steps && i < b.count; i++) {
    const double n = (double)b.count, total = (double)(b.steps[i].end_ns - b.steps[i].start_ns);
    const double wait = (double)b.steps[i].part_ns[TG__PART_COMMUNICATION];
    /* No work is what a rank waits for a core, up to what is not waiting for others anyway. */
    const double no_core = b.steps[i].core_wait_ns == TG_NULL_INT ? 0 : (double)b.steps[i].core_wait_ns;
    const double busy = total - wait > no_core ? total - wait - no_core : 0;
    out->total_ns += total / n;
    out->wait_ns += wait / n;
    out->busy_ns += busy / n;
    out->operators_ns += (double)b.steps[i].part_ns[TG__PART_CPU_EXEC] / n;
  }
  if (has_steps) out->work = work_of(t, rank, &b.steps[b.count / 2]);
  tg__breakdown_free(&b);
  return err;
}
