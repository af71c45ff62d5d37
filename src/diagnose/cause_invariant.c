/* The same work in every step: operators that start from constants, or a function of a model that no gradient flows
 * through. */
#include "diagnose/sites.h"

enum { INVARIANT_PCT = 5 };

static const char *const makers[] = {"aten::arange",         "aten::ones",         "aten::zeros",
                                     "aten::full",           "aten::eye",          "aten::linspace",
                                     "aten::tril_indices",   "aten::triu_indices", "aten::hann_window",
                                     "aten::hamming_window", "aten::scalar_tensor"};
/* What brings in something new: chance, other data, the counter of a loop, or a change in place. */
static const char *const varied[] = {"aten::index",      "aten::index_select", "aten::gather",
                                     "aten::embedding",  "aten::unfold",       "aten::copy_",
                                     "aten::randn",      "aten::rand",         "aten::randint",
                                     "aten::randperm",   "aten::bernoulli",    "aten::multinomial",
                                     "aten::dropout",    "aten::normal",       "aten::uniform",
                                     "aten::lift_fresh", "aten::detach_",      "aten::stack",
                                     "aten::cat",        "aten::item",         "aten::_local_scalar_dense"};
/* These do so when they select another index each time. */
static const char *const select_ops[] = {"aten::select", "aten::slice", "aten::narrow"};

/* What a site is given in a step, call by call: is it the same in each step? A line may call an operator twice, on
 * two shapes. */
struct habit {
  uint64_t now, first; /* texts of shapes, and of the selected index; of the step under way and of the first one */
  size_t step;
  bool is_known, varies;
};
struct invariant {
  struct tg__sites *s;
  bool *in, *reported; /* by site: found now; reported before */
  struct habit *habits;
};

static void end_step(struct habit *h) {
  if (!h->now) return;
  h->varies |= h->is_known && h->now != h->first;
  h->first = h->now;
  h->is_known = true;
  h->now = 0;
}

static void learn_habits(struct invariant *v) {
  const struct tg__facts *f = v->s->f;
  for (size_t i = 0; i < v->s->call_count; i++) {
    const struct tg__site_call *c = &v->s->calls[i];
    if (!tg__is_forward(c)) continue;
    struct habit *h = &v->habits[c->site];
    const size_t step = tg__steps_begun(&f->steps, f->t->slices.start_ns[c->slice]);
    if (step != h->step) end_step(h);
    h->step = step;
    const bool is_select = TG__IS_ONE_OF(tg__site_name(v->s, &v->s->sites[c->site]), select_ops);
    const uint32_t values = is_select ? tg__call_arg(v->s, c->slice, TG__K_CONCRETE_INPUTS) : 0;
    h->varies |= values == TG_NONE; /* not known which place */
    const uint64_t given[3] = {h->now, tg__call_arg(v->s, c->slice, TG__K_INPUT_DIMS), values};
    h->now = tg__hash(given, sizeof given) | 1;
  }
  for (size_t i = 0; i < v->s->count; i++) end_step(&v->habits[i]);
}

static bool is_steady(const struct invariant *v, uint32_t site) {
  const struct tg__site *x = &v->s->sites[site];
  const struct tg__str name = tg__site_name(v->s, x);
  return x->kind == TG__CALL_FORWARD && !x->backward_calls && !v->habits[site].varies &&
         x->calls % (int64_t)v->s->f->steps.count == 0 && !TG__IS_ONE_OF(name, varied) &&
         !tg__str_has_suffix(name, "_");
}

/* Constants made in a model, and what is worked out of them before anything else comes in. */
static void find_chains(struct invariant *v) {
  uint64_t function = 0;
  for (size_t i = 0; i < v->s->call_count; i++) {
    const struct tg__site_call *c = &v->s->calls[i];
    const struct tg__site *x = tg__is_forward(c) ? &v->s->sites[c->site] : NULL;
    if (!x || x->module == TG_NONE || !is_steady(v, c->site)) {
      function = 0;
      continue;
    }
    const uint64_t here = tg__site_function(v->s, x, NULL);
    if (here && TG__IS_ONE_OF(tg__site_name(v->s, x), makers))
      function = here;
    else if (here != function)
      function = 0;
    if (function) v->in[c->site] = true;
  }
}

static bool shares_input(const struct tg__sites *s, const struct tg__site *a, const struct tg__site *b) {
  struct tg__shape x[TG_INPUTS], y[TG_INPUTS];
  const unsigned n = tg__call_shapes(s, a->slice, x), m = tg__call_shapes(s, b->slice, y);
  for (unsigned i = 0; i < n; i++)
    for (unsigned k = 0; k < m; k++)
      if (x[i].rank > 1 && x[i].rank == y[k].rank && memcmp(x[i].dim, y[k].dim, x[i].rank * sizeof *x[i].dim) == 0)
        return true;
  return false;
}

/* Is a layer of torch's called between the function `key` and the operator? */
static bool is_in_layer(const struct tg__sites *s, const struct tg__site *x, uint64_t key) {
  uint32_t p = x->path;
  while (p && tg__frame_key(s, p) != key &&
         !tg__str_has_prefix(tg__paths_text(&s->paths, s->paths.label[p]), "torch/nn/modules/"))
    p = s->paths.up[p];
  return p && tg__frame_key(s, p) != key;
}

/* A function called inside a module in training, without a gradient on any result: it works on buffers, or on
 * the batch. On the batch when its first input has the shape of something that is used elsewhere, or when it calls
 * layers: what those make has no gradient because they are frozen, and what goes into a frozen layer is data. */
static bool is_constant_function(const struct invariant *v, uint64_t key, uint32_t first) {
  const struct tg__sites *s = v->s;
  for (uint32_t i = 0; i < s->count; i++) {
    const struct tg__site *x = &s->sites[i];
    if (!x->calls) continue;
    const bool inside = tg__site_in_frame(s, x, key) != 0;
    if (inside && (!is_steady(v, i) || x->module != s->sites[first].module || is_in_layer(s, x, key))) return false;
    if (!inside && i != first && shares_input(s, &s->sites[first], x)) return false;
  }
  return true;
}

static void find_functions(struct invariant *v) {
  uint64_t judged = 0;
  for (size_t i = 0; i < v->s->call_count; i++) {
    const struct tg__site_call *c = &v->s->calls[i];
    if (!tg__is_forward(c) || v->s->sites[c->site].module == TG_NONE) continue;
    const uint64_t key = tg__site_function(v->s, &v->s->sites[c->site], NULL);
    if (!key || key == judged || v->reported[c->site]) continue;
    judged = key;
    if (100 * v->s->sites[c->site].forward_ns < v->s->f->total_ns)
      continue; /* worth a look only where the first call takes a while */
    if (!is_constant_function(v, key, c->site)) continue;
    for (size_t k = 0; k < v->s->count; k++)
      if (v->s->sites[k].calls && tg__site_in_frame(v->s, &v->s->sites[k], key)) v->in[k] = true;
  }
}

static bool trains(const struct tg__sites *s) {
  for (size_t i = 0; i < s->call_count; i++)
    if (s->calls[i].kind == TG__CALL_ACCUMULATE) return true;
  return false;
}

static void report_invariant(const struct invariant *v, const char *evidence, const char *when, double confidence) {
  struct tg__facts *f = v->s->f;
  int64_t ns, calls;
  const uint32_t top = tg__sum_sites(v->s, v->in, &ns, &calls);
  struct tg__finding *const x = tg__find_at(v->s, TG__CAUSE_LOOP_INVARIANT_RECOMPUTE, INVARIANT_PCT, ns, top);
  if (!x) return;
  TG_FORMAT(x->evidence, "%lld operators %s %s, %.2f ms (%.1f %%)", (long long)tg__per_step(f, calls),
            tg__period_per(f), evidence, tg__ms(x->cost_ns), x->share_pct);
  TG_FORMAT(
      x->advice,
      "%sompute it once, in __init__ or before the loop, and keep it: register_buffer(..., persistent=False) moves "
      "it with the model.",
      when);
  tg__expect_at_sites(f, x, ns, confidence, "the time of these operators");
  tg__claim_sites(v->s, v->in, x);
}

void tg__judge_invariants(struct tg__facts *f) {
  struct tg__sites *s = !tg__has_steps(f) || f->steps.count < 2 ? NULL : tg__facts_sites(f);
  if (!s || !trains(s)) return;
  struct invariant v = {.s = s,
                        .in = tg__alloc_scratch(f, s->count, sizeof *v.in),
                        .reported = tg__alloc_scratch(f, s->count, sizeof *v.reported),
                        .habits = tg__alloc_scratch(f, s->count, sizeof *v.habits)};
  if (f->failed) return;
  learn_habits(&v);
  find_chains(&v);
  report_invariant(&v, "make the same constants again and work only on them", "C", 0.8);
  memcpy(v.reported, v.in, s->count);
  memset(v.in, 0, s->count);
  find_functions(&v);
  report_invariant(&v, "run with the same shapes in each step, inside a model, and no gradient flows through them",
                   "If what goes in is no new data, c", 0.5);
}
