/* usual: what a usual step holds. One step of many in which something takes long says nothing of the others, and a
 * mean would spread it over all of them. */
#include "diagnose/findings.h"

enum { LEAST_STEPS = 5, OF_TEN_STEPS = 10 };

static bool is_smaller(uint32_t a, uint32_t b, const void *ctx) {
  return ((const int64_t *)ctx)[a] < ((const int64_t *)ctx)[b];
}

uint32_t *tg__order_numbers(const int64_t *values, size_t n) { return tg__order_new(n, is_smaller, values); }

bool tg__median_of(const int64_t *values, size_t n, int64_t *out) {
  uint32_t *const order = tg__order_numbers(values, n);
  *out = 0;
  if (order && n) *out = n % 2 ? values[order[n / 2]] : values[order[n / 2 - 1]] / 2 + values[order[n / 2]] / 2;
  tg__free(order);
  return order != NULL;
}

/* ---- step by step ---------------------------------------------------------------------------- */

/* What usual steps have, times the steps. The median does not see what comes in a few steps: it is the mean where that
 * is less. Frees the values; NULL: on no memory. */
static int64_t usual_of(struct tg__facts *f, int64_t *values) {
  const size_t n = f->steps.count;
  struct tg__tally all = {0};
  int64_t median = 0;
  for (size_t i = 0; values && i < n; i++) tg__tally_in(&all, i + 1, values[i]);
  f->failed |= !values || !tg__median_of(values, n, &median);
  tg__free(values);
  const int64_t sum = tg__tally_sum(f, &all);
  return median * (int64_t)n < sum ? median * (int64_t)n : sum;
}

static int64_t *new_values(const struct tg__facts *f) { return tg__alloc((f->steps.count + 1) * sizeof(int64_t)); }

int64_t tg__usual_length(struct tg__facts *f) {
  int64_t *const values = new_values(f), median = 0;
  for (size_t i = 0; values && i < f->steps.count; i++)
    values[i] = f->steps.steps[i].end_ns - f->steps.steps[i].start_ns;
  f->failed |= !values || !tg__median_of(values, f->steps.count, &median);
  tg__free(values);
  return median;
}

/* By step, the part of these intervals; NULL on no memory. */
static int64_t *parts_inside(struct tg__facts *f, const struct tg__spans *s) {
  int64_t *const values = new_values(f);
  for (size_t i = 0; values && i < f->steps.count; i++)
    values[i] = tg__spans_inside(s, f->steps.steps[i].start_ns, f->steps.steps[i].end_ns);
  f->failed |= !values || s->failed;
  return values;
}

int64_t tg__usual_inside(struct tg__facts *f, const struct tg__spans *s) {
  return tg__per_step(f, usual_of(f, parts_inside(f, s)));
}

int64_t tg__usual_sum(struct tg__facts *f, const struct tg__spans *s) {
  return tg__usual_inside(f, s) * (int64_t)f->steps.count;
}

int64_t tg__usual_part(struct tg__facts *f, enum tg__step_part part) {
  int64_t *const values = new_values(f);
  for (size_t i = 0; values && i < f->steps.count; i++) values[i] = f->steps.steps[i].part_ns[part];
  return usual_of(f, values);
}

int64_t tg__least_part(struct tg__facts *f, enum tg__step_part part) {
  const size_t n = f->steps.count;
  int64_t *const values = new_values(f), least = 0;
  struct tg__tally all = {0};
  for (size_t i = 0; values && i < n; i++) tg__tally_in(&all, i + 1, values[i] = f->steps.steps[i].part_ns[part]);
  uint32_t *const order = values ? tg__order_numbers(values, n) : NULL;
  if (order && n) least = values[order[(n - 1) / OF_TEN_STEPS]] * (int64_t)n;
  f->failed |= !order;
  tg__free(order);
  tg__free(values);
  const int64_t sum = tg__tally_sum(f, &all);
  return least < sum ? least : sum;
}

/* A thread that has no core stands still wherever it has come to: here in one step, there in another. The time
 * that nine of ten steps spend at a place does not depend on what else the machine does. */
int64_t tg__usual_place(struct tg__facts *f, const int64_t *ns) {
  const size_t n = f->steps.count;
  uint32_t *const order = tg__order_numbers(ns, n);
  const int64_t usual = order ? ns[order[(n - 1) / (f->noise.is_busy ? OF_TEN_STEPS : 2)]] : 0;
  f->failed |= !order;
  tg__free(order);
  return usual * (int64_t)n;
}

int64_t tg__usual_place_of(struct tg__facts *f, const struct tg__spans *s) {
  int64_t *const ns = parts_inside(f, s);
  const int64_t usual = ns ? tg__usual_place(f, ns) : 0;
  tg__free(ns);
  return usual;
}

/* ---- what need not come in each step --------------------------------------------------------- */

void tg__tally_in(struct tg__tally *y, size_t step, int64_t ns) {
  y->here_ns = step == y->step ? y->here_ns + ns : ns;
  y->step = step;
  y->sum_ns += ns;
  if (step == y->most_step) {
    if (y->here_ns > y->most_ns) y->most_ns = y->here_ns;
  } else if (y->here_ns > y->most_ns) {
    y->next_ns = y->most_ns;
    y->most_ns = y->here_ns;
    y->most_step = step;
  } else if (y->here_ns > y->next_ns) {
    y->next_ns = y->here_ns;
  }
}

/* Device work runs later than its step on the host: it belongs where it was launched. */
void tg__tally_add(const struct tg__facts *f, struct tg__tally *y, uint32_t slice, int64_t ns) {
  const uint32_t call = f->t->slices.cause[slice];
  const bool is_launched = call != TG_NONE && tg__class_is_device_work(tg__slice_class(f->t, slice));
  tg__tally_in(y, tg__steps_begun(&f->steps, f->t->slices.start_ns[is_launched ? call : slice]), ns);
}

int64_t tg__tally_sum(const struct tg__facts *f, const struct tg__tally *y) {
  return f->steps.count < LEAST_STEPS ? y->sum_ns : y->sum_ns - y->most_ns + y->next_ns;
}
