/* rank_load: what a rank works and what it waits in collectives, of a step on average. */
#include "analyze/overview/steps.h"

#include <math.h>

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

enum quantity { TOTAL, WAIT, BUSY, OPERATORS, STILL, QUANTITIES };

/* Of step i; -1: not known. */
static void look_at_step(const struct tg__step_cost *s, int64_t of[QUANTITIES]) {
  const int64_t total = s->end_ns - s->start_ns, wait = s->part_ns[TG__PART_COMMUNICATION];
  /* No work is what a rank waits for a core, up to what is not waiting for others anyway. */
  const int64_t no_core = s->core_wait_ns == TG_NULL_INT ? 0 : s->core_wait_ns;
  of[TOTAL] = total;
  of[WAIT] = wait;
  of[BUSY] = total - wait > no_core ? total - wait - no_core : 0;
  /* It may wait for a core inside a collective as well: what it computes is no less than its time on one. */
  const int64_t on_core = s->thread_cpu_ns < total - wait ? s->thread_cpu_ns : total - wait;
  if (s->thread_cpu_ns != TG_NULL_INT && of[BUSY] < on_core) of[BUSY] = on_core;
  of[OPERATORS] = s->part_ns[TG__PART_CPU_EXEC];
  const int64_t still = of[BUSY] - s->thread_cpu_ns - s->part_ns[TG__PART_DATALOADER];
  of[STILL] = s->thread_cpu_ns == TG_NULL_INT || s->core_wait_ns == TG_NULL_INT ? -1 : still > 0 ? still : 0;
}

static bool is_smaller(uint32_t a, uint32_t b, const void *ctx) {
  return ((const int64_t *)ctx)[a] < ((const int64_t *)ctx)[b];
}

struct spread {
  double mean, variance; /* the largest value counts as the next: one step of many says nothing of the others */
  double least, most;    /* nine of ten are no less; no more */
  bool is_known;
};

static bool spread_of(const int64_t *values, size_t n, struct spread *out) {
  enum { LEAST_STEPS = 5, OF_TEN = 10 };
  uint32_t *const order = tg__order_new(n, is_smaller, values);
  if (!order) return false;
  for (int pass = 0; pass < 2; pass++) {
    for (size_t i = 0; i < n; i++) {
      const double x = (double)values[order[n >= LEAST_STEPS && i == n - 1 ? n - 2 : i]];
      *(pass ? &out->variance : &out->mean) += (pass ? (x - out->mean) * (x - out->mean) : x) / (double)n;
    }
  }
  out->is_known = values[order[0]] >= 0;
  const size_t tenth = (n - 1) / OF_TEN;
  out->least = (double)values[order[tenth]];
  out->most = (double)values[order[n - 1 - tenth]];
  tg__free(order);
  return true;
}

/* values: of each quantity those of all steps. */
static bool sum_up_load(const int64_t *values, size_t n, struct tg__rank_load *out) {
  struct spread x[QUANTITIES] = {{0}};
  for (int q = 0; q < QUANTITIES; q++)
    if (!spread_of(values + (size_t)q * n, n, &x[q])) return false;
  *out = (struct tg__rank_load){.total_ns = x[TOTAL].mean,
                                .wait_ns = x[WAIT].mean,
                                .busy_ns = x[BUSY].mean,
                                .operators_ns = x[OPERATORS].mean,
                                .error_ns = sqrt(x[BUSY].variance / (double)n),
                                .least_still_ns = x[STILL].is_known ? x[STILL].least : NAN,
                                .most_still_ns = x[STILL].is_known ? x[STILL].most : NAN};
  return true;
}

enum tg_err tg__rank_load(const struct tg__columns *t, uint32_t rank, struct tg__rank_load *out) {
  struct tg__breakdown b = {0};
  enum tg_err err = tg__steps_breakdown(t, rank, TG__STEPS_DETECTED, &b);
  *out = (struct tg__rank_load){0};
  const bool has_steps = !err && b.count && b.source != TG__STEPS_RECORDING;
  int64_t *const values = has_steps ? tg__alloc(b.count * QUANTITIES * sizeof *values) : NULL;
  for (size_t i = 0; values && i < b.count; i++) {
    int64_t of[QUANTITIES];
    look_at_step(&b.steps[i], of);
    for (size_t q = 0; q < QUANTITIES; q++) values[q * b.count + i] = of[q];
  }
  if (has_steps && (!values || !sum_up_load(values, b.count, out))) err = TG_MEMORY;
  if (!err && has_steps) out->work = work_of(t, rank, &b.steps[b.count / 2]);
  tg__free(values);
  tg__breakdown_free(&b);
  return err;
}
