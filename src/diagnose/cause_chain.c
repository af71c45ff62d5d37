/* Operators that work element by element on the same large tensor, one after the other: each reads and writes all of
 * it, where one fused operation would do so once. */
#include "diagnose/sites.h"

enum { CHAIN_PCT = 10, LENGTH = 4, LARGE = 1 << 15 };

static const char *const elementwise[] = {
    "aten::add",       "aten::sub",        "aten::rsub",     "aten::mul",        "aten::div",   "aten::pow",
    "aten::neg",       "aten::exp",        "aten::log",      "aten::log1p",      "aten::sqrt",  "aten::rsqrt",
    "aten::abs",       "aten::tanh",       "aten::sigmoid",  "aten::erf",        "aten::relu",  "aten::silu",
    "aten::gelu",      "aten::clamp",      "aten::sin",      "aten::cos",        "aten::where", "aten::square",
    "aten::clamp_min", "aten::reciprocal", "aten::softplus", "aten::sign",       "aten::lerp",  "aten::addcmul",
    "aten::addcdiv",   "aten::maximum",    "aten::minimum",  "aten::gt",         "aten::lt",    "aten::ge",
    "aten::le",        "aten::leaky_relu", "aten::elu",      "aten::masked_fill"};

struct chains {
  struct tg__sites *s;
  bool *in;                    /* by site */
  struct tg__tally ns, saving; /* of all */
  int64_t count, length;       /* length: of the longest */
  uint32_t top;                /* site of the chain that costs most */
  int64_t most;
};

/* Elements of the larger of its tensors when the call is of that kind; 0. */
static int64_t elements_of(const struct tg__sites *s, const struct tg__site_call *c) {
  struct tg__shape shapes[TG_INPUTS];
  if (!tg__is_forward(c) || s->sites[c->site].reported) return 0;
  if (!TG__IS_ONE_OF(tg__site_name(s, &s->sites[c->site]), elementwise)) return 0;
  const unsigned n = tg__call_shapes(s, c->slice, shapes);
  int64_t most = 0;
  for (unsigned i = 0; i < n && i < TG_INPUTS; i++) {
    const int64_t elements = shapes[i].rank ? tg__shape_elements(&shapes[i]) : 0;
    if (elements > most) most = elements;
  }
  return most >= LARGE ? most : 0;
}

static int64_t mean(int64_t ns, int64_t calls) { return calls > 0 ? ns / calls : 0; }

/* Calls [from, to) are a chain. The longest of each direction stays: what is fused is worked out all the same, and
 * stored once. A chain of powers only does not count: it is a square or a cube. */
static void add_chain(struct chains *x, size_t from, size_t to) {
  int64_t ns = 0, forward = 0, backward = 0, most = 0;
  uint32_t top = TG_NONE;
  if (to - from < LENGTH) return;
  for (size_t i = from; i < to; i++) {
    const uint32_t site = x->s->calls[i].site;
    const struct tg__site *y = &x->s->sites[site];
    const int64_t ahead = tg__call_ns(x->s, &x->s->calls[i]), back = mean(y->backward_ns, y->calls);
    x->in[site] = true;
    ns += ahead + back;
    const bool is_power = tg__str_eq(tg__site_name(x->s, y), TG_STR("aten::pow"));
    if (!is_power && ahead > forward) forward = ahead;
    if (!is_power && back > backward) backward = back;
    if (ahead + back > most) most = ahead + back, top = site;
  }
  tg__tally_add(x->s->f, &x->ns, x->s->calls[from].slice, ns);
  tg__tally_add(x->s->f, &x->saving, x->s->calls[from].slice, ns - forward - backward);
  x->count++;
  if ((int64_t)(to - from) > x->length) x->length = (int64_t)(to - from);
  if (ns > x->most) x->most = ns, x->top = top;
}

/* In one function, or from module to module: what a Sequential calls is as much in a row. */
static void find_chains(struct chains *x) {
  int64_t elements = 0;
  uint64_t function = 0;
  bool of_module = false;
  size_t from = 0;
  for (size_t i = 0; i < x->s->call_count; i++) {
    const struct tg__site_call *c = &x->s->calls[i];
    const int64_t here = elements_of(x->s, c);
    const uint64_t in = here ? tg__site_function(x->s, &x->s->sites[c->site], NULL) : 0;
    const bool is_of_module = here && x->s->sites[c->site].module != TG_NONE;
    if (!in || here != elements || (in != function && !(is_of_module && of_module))) {
      if (elements) add_chain(x, from, i);
      from = i;
    }
    elements = in ? here : 0;
    function = in;
    of_module = is_of_module;
  }
  if (elements) add_chain(x, from, x->s->call_count);
}

static void report_chains(struct chains *x) {
  struct tg__facts *f = x->s->f;
  const int64_t ns = tg__tally_sum(f, &x->ns);
  struct tg__finding *const y = tg__find_at(x->s, TG__CAUSE_UNFUSED_ELEMENTWISE, CHAIN_PCT, ns, x->top);
  if (!y) return;
  TG_FORMAT(
      y->evidence,
      "%lld times %s up to %lld operators in a row go through the same large tensor element by element: %.2f ms%s "
      "(%.1f %%)",
      (long long)tg__per_step(f, x->count), tg__period_per(f), (long long)x->length, tg__ms(y->cost_ns),
      tg__if_backward(x->s, x->in, " with backward"), y->share_pct);
  TG_FORMAT(y->advice, "Use the one operator that does all of it (F.gelu, F.silu, F.layer_norm, torch.addcmul, …), or "
                       "torch.compile the function or the modules around them, which makes one.");
  tg__expect_at_sites(f, y, tg__tally_sum(f, &x->saving), 0.6,
                      "all but the longest operator of each chain, forward and backward");
  tg__report_sites(x->s, x->in, y);
}

void tg__judge_chains(struct tg__facts *f) {
  struct tg__sites *s = !tg__has_steps(f) ? NULL : tg__facts_sites(f);
  if (!s) return;
  struct chains x = {.s = s, .in = tg__alloc_scratch(f, s->count, sizeof *x.in), .top = TG_NONE};
  if (f->failed) return;
  find_chains(&x);
  report_chains(&x);
}
