/* The model runs more than once a step, and only some of these passes have a backward pass. */
#include "diagnose/sites.h"

enum { AGAIN_PCT = 10 };

/* The same operator of the same module on the same shapes, called from elsewhere, and this call is trained by. */
static bool is_trained_elsewhere(const struct tg__sites *s, uint32_t site, uint32_t *by) {
  const struct tg__site *const x = &s->sites[site];
  for (uint32_t i = 0; i < s->count; i++) {
    const struct tg__site *const y = &s->sites[i];
    if (y->module != x->module || y->name != x->name || y->dims != x->dims || !y->backward_calls || i == site) continue;
    *by = i;
    return true;
  }
  return false;
}

/* The innermost function that calls both. 0: not known. */
static uint64_t function_of_both(const struct tg__sites *s, uint32_t a, uint32_t b) {
  for (uint32_t path = s->sites[a].path; path; path = s->paths.up[path]) {
    const uint64_t key = tg__frame_key(s, path);
    if (key && tg__site_in_frame(s, &s->sites[b], key)) return key;
  }
  return 0;
}

void tg__judge_forward(struct tg__facts *f) {
  struct tg__sites *const s = f->steps.source == TG__STEPS_RECORDING ? NULL : tg__facts_sites(f);
  bool *const in = s ? tg__alloc((s->count + 1) * sizeof *in) : NULL;
  int64_t ns = 0;
  uint32_t top = TG_NONE, other = TG_NONE, by;
  f->failed |= s && !in;
  for (uint32_t i = 0; in && i < s->count; i++) {
    const struct tg__site *const x = &s->sites[i];
    in[i] =
        x->kind == TG__CALL_FORWARD && x->module != TG_NONE && !x->backward_calls && is_trained_elsewhere(s, i, &by);
    if (!in[i]) continue;
    ns += x->forward_ns;
    if (top == TG_NONE || x->forward_ns > s->sites[top].forward_ns) top = i, other = by;
  }
  const double share = tg__pct(ns, f->total_ns);
  if (top != TG_NONE && share > AGAIN_PCT) {
    struct tg__finding *const x = tg__find(f, TG__CAUSE_REPEATED_FORWARD, share, AGAIN_PCT, tg__per_step(f, ns));
    tg__say_site(s, top, function_of_both(s, top, other), x);
    TG_SAY(x->evidence,
           "modules that are trained run here as well, on the same shapes, and no backward pass follows: %.2f ms %s "
           "(%.1f %%)",
           tg__ms(x->cost_ns), tg__per(f), share);
    TG_SAY(x->advice,
           "Take what is needed from the output of the pass that is trained by (metrics of the same batch), or "
           "do it every N-th step (an evaluation).");
    tg__claim_sites(s, in, x);
    /* another batch, or another mode, may be what it is for */
    tg__expect_at_sites(f, x, ns, 0.35, "the time of the passes without a backward pass");
  }
  tg__free(in);
}
