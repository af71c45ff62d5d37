/* The model runs more than once a step, and only some of these passes have a backward pass. */
#include "diagnose/sites.h"

enum { AGAIN_PCT = 10 };

/* Trained sites come first in the order, by operator, module and shapes. */
static int compared(const struct tg__site *a, const struct tg__site *b) {
  if (!a->backward_calls != !b->backward_calls) return a->backward_calls ? -1 : 1;
  if (a->module != b->module) return a->module < b->module ? -1 : 1;
  if (a->name != b->name) return a->name < b->name ? -1 : 1;
  return a->dims == b->dims ? 0 : a->dims < b->dims ? -1 : 1;
}

static bool comes_first(uint32_t a, uint32_t b, const void *ctx) {
  const struct tg__site *const sites = ctx;
  const int order = compared(&sites[a], &sites[b]);
  return order ? order < 0 : a < b;
}

/* The same operator of the same module on the same shapes, called from elsewhere, and trained there. TG_NONE: none. */
static uint32_t trained_elsewhere(const struct tg__sites *s, const uint32_t *order, const struct tg__site *x) {
  struct tg__site trained = *x;
  trained.backward_calls = 1;
  size_t at = 0;
  TG__PARTITION(at, s->count, i, compared(&s->sites[order[i]], &trained) < 0);
  return at < s->count && !compared(&s->sites[order[at]], &trained) ? order[at] : TG_NONE;
}

/* ---- of the same input? ------------------------------------------------------------------------ */

/* A tensor of that shape is filled, or a part of a larger one is taken. */
static bool makes(const struct tg__sites *s, uint32_t slice, const struct tg__shape *input) {
  static const char *const fills[] = {"aten::normal_", "aten::uniform_", "aten::random_", "aten::bernoulli_",
                                      "aten::copy_"},
                           *const parts[] = {"aten::index", "aten::index_select", "aten::slice", "aten::narrow"};
  struct tg__shape of[TG_INPUTS];
  const struct tg__str name = tg__slice_name(s->f->t, slice);
  const bool takes = TG__IS_ONE_OF(name, parts);
  if ((!takes && !TG__IS_ONE_OF(name, fills)) || !tg__call_shapes(s, slice, of) || of[0].rank != input->rank)
    return false;
  for (unsigned i = takes; i < input->rank; i++)
    if (of[0].dim[i] != input->dim[i]) return false;
  return input->rank > (takes ? 1 : 0);
}

/* A call outside of modules, or what it calls, makes an input of these shapes: of any of the first operator's inputs,
 * as the other ones are weights. Or a batch is loaded. */
static bool makes_input(const struct tg__sites *s, const struct tg__site_call *c, uint32_t first) {
  const struct tg__columns *const t = s->f->t;
  struct tg__shape inputs[TG_INPUTS];
  const unsigned count = tg__call_shapes(s, first, inputs);
  if (c->kind == TG__CALL_LOAD) return true;
  if (!tg__is_forward(c) || s->sites[c->site].module != TG_NONE) return false;
  for (uint32_t i = c->slice; i < first && t->slices.start_ns[i] < tg__slice_end(t, c->slice); i++)
    for (unsigned k = 0; k < count && k < TG_INPUTS; k++)
      if (makes(s, i, &inputs[k])) return true;
  return false;
}

/* The same part was taken before in this step, by the same numbers. */
static bool is_taken_again(const struct tg__sites *s, size_t call, int64_t step_ns) {
  const uint32_t *const names = s->f->t->slices.name, slice = s->calls[call].slice,
                        of = tg__call_arg(s, slice, TG__K_INPUT_DIMS),
                        by = tg__call_arg(s, slice, TG__K_CONCRETE_INPUTS);
  const struct tg__str name = tg__slice_name(s->f->t, slice);
  const bool has_numbers = by != TG_NONE && (tg__str_contains(name, "slice") || tg__str_contains(name, "narrow"));
  for (size_t i = call; has_numbers && i-- > 0;) {
    const uint32_t other = s->calls[i].slice;
    if (s->f->t->slices.start_ns[other] < step_ns) return false;
    if (names[other] == names[slice] && tg__call_arg(s, other, TG__K_CONCRETE_INPUTS) == by &&
        tg__call_arg(s, other, TG__K_INPUT_DIMS) == of)
      return true;
  }
  return false;
}

/* In most steps an input is made between a pass that is trained by and one that is not (in: sites of these): samples
 * for another model, or the next state of a game. */
static bool has_own_input(const struct tg__sites *s, const uint32_t *order, const bool *in) {
  bool *const trained = tg__alloc_scratch(s->f, s->count, sizeof *trained);
  size_t pairs = 0, own = 0, last = SIZE_MAX, step = 0;
  for (uint32_t i = 0; trained && i < s->count; i++)
    if (in[i]) trained[trained_elsewhere(s, order, &s->sites[i])] = true;
  for (size_t i = 0; trained && i < s->call_count; i++) {
    const struct tg__site_call *const c = &s->calls[i];
    if (!tg__is_forward(c) || (!in[c->site] && !trained[c->site])) continue;
    const size_t here = tg__steps_begun(&s->f->steps, s->f->t->slices.start_ns[c->slice]);
    if (last != SIZE_MAX && here && here == step && in[c->site] != in[s->calls[last].site]) {
      const int64_t step_ns = s->f->steps.steps[here - 1].host_start_ns;
      size_t k = last + 1;
      while (k < i && (!makes_input(s, &s->calls[k], c->slice) || is_taken_again(s, k, step_ns))) k++;
      pairs++;
      own += k < i;
    }
    last = i;
    step = here;
  }
  return 2 * own > pairs;
}

void tg__judge_forward(struct tg__facts *f) {
  struct tg__sites *const s = !tg__has_steps(f) ? NULL : tg__facts_sites(f);
  bool *const in = s ? tg__alloc_scratch(f, s->count, sizeof *in) : NULL;
  int64_t ns = 0, calls;
  uint32_t *const order = in && s->count ? tg__order_new(s->count, comes_first, s->sites) : NULL;
  f->failed |= in && s->count && !order;
  for (uint32_t i = 0; order && i < s->count; i++) {
    const struct tg__site *const x = &s->sites[i];
    if (x->kind != TG__CALL_FORWARD || x->module == TG_NONE || x->backward_calls) continue;
    in[i] = trained_elsewhere(s, order, x) != TG_NONE;
  }
  const uint32_t top = order && !has_own_input(s, order, in) ? tg__sum_sites(s, in, &ns, &calls) : TG_NONE;
  struct tg__finding *const x = order ? tg__find_at(s, TG__CAUSE_REPEATED_FORWARD, AGAIN_PCT, ns, top) : NULL;
  if (x) {
    const uint32_t other = trained_elsewhere(s, order, &s->sites[top]);
    tg__say_site(s, top, tg__common_frame(s, s->sites[top].path, other), x);
    TG_FORMAT(x->evidence,
              "modules that are trained run here as well, on the same shapes, and no backward pass follows: %.2f ms %s "
              "(%.1f %%)",
              tg__ms(x->cost_ns), tg__period_per(f), x->share_pct);
    TG_FORMAT(x->advice,
              "Take what is needed from the output of the pass that is trained by (metrics of the same batch), or "
              "do it every N-th step (an evaluation).");
    tg__claim_sites(s, in, x);
    /* another batch, or another mode, may be what it is for */
    tg__expect_at_sites(f, x, ns, 0.35, "the time of the passes without a backward pass");
  }
  tg__free(order);
}
