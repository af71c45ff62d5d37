/* ranges: between what and what the saving of each finding lies. The model of the steps runs with the findings' changes
 * one after the other, so that each is worth what those before it leave; how far such figures were off where the cure
 * was measured (changes.def) widens that. */
#include "diagnose/findings.h"
#include "replay/replay.h"

enum change {
#define SPREAD(id, below_pct, above_pct, meaning) CHANGE_##id,
#include "diagnose/changes.def"
  CHANGE_NONE
};
static const struct {
  int below_pct, above_pct; /* of the saving */
} spreads[] = {
#define SPREAD(id, below_pct, above_pct, meaning) {below_pct, above_pct},
#include "diagnose/changes.def"
};

static const enum change change_of[TG__CAUSE_COUNT] = {
#define CAUSE(id, name, meaning, change) CHANGE_##change,
#include "diagnose/causes.def"
};

static bool is_modelled(enum tg__cause cause) {
  switch (cause) {
#define MODELLED(id) case TG__CAUSE_##id:
#include "diagnose/changes.def"
    return true;
  default:
    return false;
  }
}

static bool has_saving(const struct tg__finding *x) {
  return x->saving_ns != TG_NULL_INT && x->saving_ns > 0 && change_of[x->cause] != CHANGE_NONE;
}

static bool saves_more(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__finding *const x = (const struct tg__finding *)ctx + a, *const y =
                                                                               (const struct tg__finding *)ctx + b;
  const double of_x = tg__expected_ns(x->saving_ns, x->confidence, x->cost_ns),
               of_y = tg__expected_ns(y->saving_ns, y->confidence, y->cost_ns);
  return of_x != of_y ? of_x > of_y : a < b;
}

static bool is_fetch(const void *ctx, uint32_t slice) {
  struct tg__facts *const f = *(struct tg__facts *const *)ctx;
  const enum tg__class cls = tg__slice_class(f->t, slice);
  return tg__class_is_range(cls) && tg__slice_meaning(f, slice) & TG__NAME_DATALOADER;
}

static bool replay_change(struct tg__facts *f, struct tg__replay_model *m, const struct tg__finding *x,
                          const struct tg__spans *left, struct tg__saving *out) {
  const bool waits = change_of[x->cause] == CHANGE_OVERLAP;
  const enum tg__replay_cut cut = waits ? TG__CUT_WAITS : x->is_of_device ? TG__CUT_DEVICE : TG__CUT_HOST;
  const struct tg__replay_change workers = {
      .kind = TG__CHANGE_WORKERS, .workers = x->workers, .selects = is_fetch, .ctx = &f};
  const double part = waits ? 1 : (double)x->gone_ns / (double)tg__spans_length(&x->claim);
  if (x->workers) return tg__replay_load_ahead(m, &workers, out) == TG_OK;
  return tg__replay_cut(m, cut, left, part, out) == TG_OK;
}

/* What the time of the finding becomes shorter by; false where the model cannot express it. *taken: what the findings
 * before it spoke of. */
static bool replay_finding(struct tg__facts *f, struct tg__replay_model *m, const struct tg__finding *x,
                           struct tg__spans *taken, struct tg__saving *out) {
  if (!tg__spans_length(&x->claim)) return false;
  if (change_of[x->cause] != CHANGE_OVERLAP && !x->workers && x->gone_ns == TG_NULL_INT) return false;
  struct tg__spans left = {0};
  tg__spans_subtract(&x->claim, taken, &left);
  f->failed |= left.failed || !replay_change(f, m, x, &left, out);
  tg__spans_add_all(taken, &left);
  tg__spans_union(taken);
  f->failed |= taken->failed;
  tg__spans_free(&left);
  return !f->failed && out->slices > 0;
}

/* Sets the model's figure, and chooses which of the two figures the finding states. The model's figure is of the median
 * step: 0 for what occurs in few steps. The rule's figure is the mean of all steps. */
static void set_figures(const struct tg__facts *f, struct tg__finding *x, double median_ns) {
  const int64_t most_ns = tg__most_to_save(f, x);
  x->model_ns = llround(median_ns);
  if (!is_modelled(x->cause) || x->model_ns == 0) return;
  x->saving_ns = x->model_ns < 0 ? 0 : x->model_ns < most_ns ? x->model_ns : most_ns;
  x->method = "the model of the steps, replayed with the change";
}

/* The range holds the figure of the finding, too, and nothing above the step. A wait that goes saves what it took at
 * most. */
static void set_range(const struct tg__facts *f, struct tg__finding *x, double low_ns, double high_ns) {
  const enum change change = change_of[x->cause];
  const double saving_ns = (double)x->saving_ns;
  low_ns = fmin(low_ns, saving_ns);
  high_ns = fmax(high_ns, saving_ns);
  x->saving_low_ns = llround(low_ns - saving_ns * spreads[change].below_pct / 100);
  x->saving_high_ns = llround(high_ns + saving_ns * spreads[change].above_pct / 100);
  int64_t most_ns = tg__most_to_save(f, x);
  const bool is_wait = change == CHANGE_MOVE || change == CHANGE_OVERLAP;
  if (is_wait && x->cost_ns != TG_NULL_INT && x->cost_ns >= x->saving_ns && x->cost_ns < most_ns) most_ns = x->cost_ns;
  if (x->saving_high_ns > most_ns) x->saving_high_ns = most_ns;
}

void tg__find_ranges(struct tg__facts *f) {
  struct tg__replay_model *m = NULL;
  struct tg__spans taken[2] = {{0}, {0}}; /* of the host, of devices */
  uint32_t *const order = tg__alloc((f->found_count + 1) * sizeof *order);
  bool any = false;
  f->failed |= !order || !tg__sort_order(order, f->found_count, saves_more, f->found);
  for (size_t i = 0; !f->failed && i < f->found_count; i++) {
    f->found[i].rule_ns = f->found[i].saving_ns;
    any |= has_saving(&f->found[i]);
  }
  if (any) f->failed |= tg__replay_model_open(f->t, f->rank, &m) != TG_OK;
  for (size_t i = 0; any && !f->failed && i < f->found_count; i++) {
    struct tg__finding *const x = &f->found[order[i]];
    struct tg__saving saving;
    if (!has_saving(x)) continue;
    const bool is_replayed = !*tg__replay_model_fault(m) && replay_finding(f, m, x, &taken[x->is_of_device], &saving);
    if (is_replayed) set_figures(f, x, saving.median_ns);
    set_range(f, x, is_replayed ? saving.low_ns : (double)x->saving_ns,
              is_replayed ? saving.high_ns : (double)x->saving_ns);
  }
  tg__replay_model_close(m);
  tg__spans_free(&taken[0]);
  tg__spans_free(&taken[1]);
  tg__free(order);
}
