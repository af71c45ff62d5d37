/* Operators that cost more than they must: attention written out by hand, work in a wider type than the model's, and
 * casts that another cast takes back. */
#include "diagnose/sites.h"

enum { ATTENTION_PCT = 5, REACH_BACK = 12, REACH_ON = 8, LEAST_LENGTH = 16, TYPE_PCT = 5, LARGE = 1000, CAST_PCT = 5 };

/* ---- attention ------------------------------------------------------------------------------- */

struct attention {
  struct tg__sites *s;
  bool *in;        /* by site: part of one */
  uint32_t *order; /* counted calls of forward, in order of time on their threads */
  size_t count;
  int64_t layers;
  uint32_t top; /* softmax that costs most */
};

static const char *const products[] = {"aten::matmul", "aten::bmm", "aten::baddbmm", "aten::einsum"};
static const char *const softmaxes[] = {"aten::softmax", "aten::_softmax"};

static const struct tg__site *site_at(const struct attention *a, size_t k) {
  return &a->s->sites[a->s->calls[a->order[k]].site];
}

/* Shapes of call k when it is a product of two matrices at least; einsum has none, and is taken as it is. */
static bool is_product(const struct attention *a, size_t k, struct tg__shape shapes[TG_INPUTS], bool *has_shapes) {
  if (!TG__IS_ONE_OF(tg__site_name(a->s, site_at(a, k)), products)) return false;
  const unsigned first = tg__str_eq(tg__site_name(a->s, site_at(a, k)), TG_STR("aten::baddbmm")) ? 1 : 0;
  const unsigned n = tg__call_shapes(a->s, a->s->calls[a->order[k]].slice, shapes);
  if (first && n > 2) shapes[0] = shapes[1], shapes[1] = shapes[2];
  *has_shapes = n >= 2 + first && shapes[0].rank >= 2 && shapes[1].rank >= 2;
  return true;
}

/* Scores of length × keys come out of one product in front of the softmax and go into one behind it. */
static bool find_products(const struct attention *a, size_t k, size_t *from, size_t *to) {
  struct tg__shape scores[TG_INPUTS], x[TG_INPUTS];
  bool known;
  if (!tg__call_shapes(a->s, a->s->calls[a->order[k]].slice, scores) || scores[0].rank < 3) return false;
  const int64_t rows = scores[0].dim[scores[0].rank - 2], keys = scores[0].dim[scores[0].rank - 1];
  if (rows < LEAST_LENGTH || keys < LEAST_LENGTH) return false;
  bool before = false, behind = false;
  for (size_t i = k; !before && i > 0 && k - i < REACH_BACK; i--) {
    if (!is_product(a, i - 1, x, &known)) continue;
    before = !known || (x[0].dim[x[0].rank - 2] == rows && x[1].dim[x[1].rank - 1] == keys);
    *from = i - 1;
  }
  for (size_t i = k + 1; before && !behind && i < a->count && i - k < REACH_ON; i++) {
    if (!is_product(a, i, x, &known)) continue;
    behind = !known || (x[0].dim[x[0].rank - 2] == rows && x[0].dim[x[0].rank - 1] == keys);
    *to = i;
  }
  return before && behind;
}

static void find_attention(struct attention *a) {
  int64_t most = -1;
  for (size_t k = 0; k < a->count; k++) {
    size_t from = 0, to = 0;
    if (!TG__IS_ONE_OF(tg__site_name(a->s, site_at(a, k)), softmaxes) || !find_products(a, k, &from, &to)) continue;
    for (size_t i = from; i <= to; i++) a->in[a->s->calls[a->order[i]].site] = true;
    a->layers++;
    if (tg__site_ns(site_at(a, k)) <= most) continue;
    most = tg__site_ns(site_at(a, k));
    a->top = a->s->calls[a->order[k]].site;
  }
}

/* Passes over the scores go away; of the two products about half, as scores stay in the cache between them. */
static void report_attention(struct attention *a) {
  struct tg__facts *f = a->s->f;
  int64_t ns = 0, saving = 0;
  for (size_t i = 0; i < a->s->count; i++) {
    if (!a->in[i]) continue;
    const int64_t own = tg__site_ns(&a->s->sites[i]);
    ns += own;
    saving += TG__IS_ONE_OF(tg__site_name(a->s, &a->s->sites[i]), products) ? own / 2 : own;
  }
  struct tg__finding *const x = tg__find_at(a->s, TG__CAUSE_HANDWRITTEN_ATTENTION, ATTENTION_PCT, ns, a->top);
  if (!x) return;
  struct tg__shape scores[TG_INPUTS];
  tg__call_shapes(a->s, a->s->sites[a->top].slice, scores);
  TG_FORMAT(
      x->evidence,
      "%lld times %s a product, a softmax over %lld x %lld scores and a product follow each other; with what lies "
      "between%s %.2f ms "
      "(%.1f %%)",
      (long long)tg__per_step(f, a->layers), tg__period_per(f), (long long)scores[0].dim[scores[0].rank - 2],
      (long long)scores[0].dim[scores[0].rank - 1], tg__if_backward(a->s, a->in, " and their backward"),
      tg__ms(x->cost_ns), x->share_pct);
  TG_FORMAT(x->advice, "Use torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=... or attn_mask=...), "
                       "which never writes the "
                       "scores to memory.");
  tg__expect_at_sites(f, x, saving, 0.8,
                      "all passes over the scores between the two products, and half of the products");
  if (f->device_bound) tg__claim_sites(a->s, a->in, x);
}

void tg__judge_attention(struct tg__facts *f) {
  struct tg__sites *s = tg__facts_sites(f);
  if (!s) return;
  struct attention a = {.s = s,
                        .in = tg__alloc_scratch(f, s->count, sizeof *a.in),
                        .order = tg__alloc_scratch(f, s->call_count, sizeof *a.order)};
  for (size_t i = 0; !f->failed && i < s->call_count; i++)
    if (s->calls[i].kind == TG__CALL_FORWARD && s->calls[i].counted) a.order[a.count++] = (uint32_t)i;
  find_attention(&a);
  if (a.layers) report_attention(&a);
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool is_double(struct tg__str type) {
  return tg__str_eq(type, TG_STR("double")) || tg__str_eq(type, TG_STR("c10::complex<double>"));
}

struct inputs {
  bool has_double, has_narrow, is_large; /* tensors with dimensions: of 64 bits, of fewer; one of a thousand elements */
};
static struct inputs inputs_of(const struct tg__sites *s, const struct tg__site *x) {
  struct inputs in = {0};
  struct tg__shape shapes[TG_INPUTS];
  const unsigned n = x->types == TG_NONE ? 0 : tg__call_shapes(s, x->slice, shapes);
  for (unsigned i = 0; i < n; i++) {
    struct tg__str type;
    if (!shapes[i].rank || !tg__list_text(tg__name(s->f->t, x->types), i, &type)) continue;
    in.has_double |= is_double(type);
    in.has_narrow |= tg__str_eq(type, TG_STR("float")) || tg__str_eq(type, TG_STR("c10::BFloat16")) ||
                     tg__str_eq(type, TG_STR("c10::Half"));
    in.is_large |= tg__shape_elements(&shapes[i]) >= LARGE;
  }
  return in;
}

/* The model's own type: what gradients arrive in, or without training what its modules are given. */
static bool model_is_double(const struct tg__sites *s) {
  for (size_t i = 0; i < s->call_count; i++) {
    if (s->calls[i].kind != TG__CALL_ACCUMULATE) continue;
    const uint32_t types = tg__call_arg(s, s->calls[i].slice, TG__K_INPUT_TYPE);
    struct tg__str type;
    if (types != TG_NONE && tg__list_text(tg__name(s->f->t, types), 0, &type)) return is_double(type);
  }
  for (size_t i = 0; i < s->count; i++) {
    const struct inputs in = inputs_of(s, &s->sites[i]);
    if (s->sites[i].module != TG_NONE && in.has_narrow && !in.has_double) return false;
  }
  return true; /* nothing narrower was seen */
}

static const char *const casts[] = {"aten::to", "aten::_to_copy", "aten::copy_", "aten::type_as"};

static void judge_doubles(struct tg__sites *s) {
  struct tg__facts *const f = s->f;
  int64_t ns = 0, saving = 0, calls = 0, most_mixed = -1, most = -1;
  uint32_t mixed = TG_NONE, top = TG_NONE;
  for (uint32_t i = 0; i < s->count; i++) {
    const struct tg__site *x = &s->sites[i];
    const struct inputs in = inputs_of(s, x);
    if (x->kind != TG__CALL_FORWARD || !x->calls || !in.has_double || !in.is_large) continue;
    const int64_t own = tg__site_ns(x);
    ns += own;
    saving += TG__IS_ONE_OF(tg__site_name(s, x), casts) ? own : own / 2;
    calls += x->calls;
    if (in.has_narrow && own > most_mixed) most_mixed = own, mixed = i;
    if (own > most) most = own, top = i;
  }
  struct tg__finding *const x = tg__find_at(s, TG__CAUSE_DTYPE_PROMOTION, TYPE_PCT, ns, mixed == TG_NONE ? top : mixed);
  if (!x) return;
  TG_FORMAT(x->evidence,
            "%lld operators %s work on tensors of 64-bit floats, %.2f ms (%.1f %%), although the model is narrower%s",
            (long long)tg__per_step(f, calls), tg__period_per(f), tg__ms(x->cost_ns), x->share_pct,
            mixed == TG_NONE ? "" : "; here a narrower tensor meets a 64-bit one, and the result is 64-bit");
  TG_FORMAT(x->advice, "Convert the 64-bit tensor once, where it is made: numpy makes float64, so "
                       "torch.from_numpy(a).float(), or dtype=torch.float32.");
  tg__expect_at_sites(f, x, saving, 0.85,
                      "half of the time of operators on 64-bit floats, which are twice the bytes, and the casts");
}

/* ---- back and forth -------------------------------------------------------------------------- */

struct cast {
  uint64_t key, back;      /* 0: no cast, or of few elements. back: the key of one that undoes it */
  struct tg__str from, to; /* types */
};

/* What is copied inside the call, from one type to another. A copy into the same type is no cast. */
static struct cast cast_of(const struct tg__sites *s, const struct tg__site_call *c) {
  enum { INNER = 4 };
  const struct tg__columns *const t = s->f->t;
  struct tg__shape shapes[TG_INPUTS];
  struct cast x = {0};
  if (!tg__is_forward(c) || !TG__IS_ONE_OF(tg__site_name(s, &s->sites[c->site]), casts)) return x;
  const uint64_t function = tg__site_function(s, &s->sites[c->site], NULL);
  uint32_t i = c->slice;
  while (i < t->slices.count && i < c->slice + INNER && !tg__str_eq(tg__slice_name(t, i), TG_STR("aten::copy_"))) i++;
  if (!function || i == t->slices.count || i == c->slice + INNER || t->slices.start_ns[i] >= tg__slice_end(t, c->slice))
    return x;
  const uint32_t types = tg__arg_str(t, t->slices.args[i], TG__K_INPUT_TYPE);
  const int64_t elements = tg__call_shapes(s, i, shapes) && shapes[0].rank ? tg__shape_elements(&shapes[0]) : 0;
  if (types == TG_NONE || elements < LARGE || !tg__list_text(tg__name(t, types), 0, &x.to) ||
      !tg__list_text(tg__name(t, types), 1, &x.from) || tg__str_eq(x.to, x.from))
    return x;
  const uint64_t to = tg__hash(x.to.ptr, x.to.len), from = tg__hash(x.from.ptr, x.from.len);
  x.key = tg__hash((const uint64_t[]){function, (uint64_t)elements, from, to}, 4 * sizeof to);
  x.back = tg__hash((const uint64_t[]){function, (uint64_t)elements, to, from}, 4 * sizeof to);
  return x;
}

struct back_and_forth {
  struct tg__tally ns;
  int64_t count, most;
  uint32_t top;        /* site */
  struct cast example; /* of it */
  bool *in;            /* by site */
};

/* Calls go by themselves: two casts on one line are one site. */
static void find_casts(struct tg__sites *s, struct back_and_forth *out) {
  struct tg__map keys = {0};
  for (size_t i = 0; i < s->call_count; i++) {
    const uint64_t key = cast_of(s, &s->calls[i]).key;
    if (key) s->f->failed |= !tg__map_put(&keys, key, 1);
  }
  for (size_t i = 0; keys.count && i < s->call_count; i++) {
    const struct tg__site_call *const c = &s->calls[i];
    const struct cast x = cast_of(s, c);
    if (!x.key || tg__map_get(&keys, x.back) == TG_NONE) continue;
    const struct tg__site *const site = &s->sites[c->site];
    const int64_t ns = tg__call_ns(s, c) + (site->calls ? site->backward_ns / site->calls : 0);
    tg__tally_add(s->f, &out->ns, c->slice, ns);
    out->count++;
    out->in[c->site] = true;
    if (ns > out->most) out->most = ns, out->top = c->site, out->example = x;
  }
  tg__map_free(&keys);
}

static void judge_casts(struct tg__sites *s) {
  struct tg__facts *const f = s->f;
  struct back_and_forth b = {.in = tg__alloc_scratch(f, s->count, sizeof *b.in), .top = TG_NONE};
  if (b.in) find_casts(s, &b);
  const int64_t ns = tg__tally_sum(f, &b.ns);
  struct tg__finding *const x = tg__find_at(s, TG__CAUSE_CASTS_BACK_AND_FORTH, CAST_PCT, ns, b.top);
  if (x) {
    TG_FORMAT(
        x->evidence,
        "%lld casts %s, here from %.*s to %.*s, are taken back by a cast of as many elements in the same function: "
        "%.2f ms%s (%.1f %%)",
        (long long)tg__per_step(f, b.count), tg__period_per(f), (int)b.example.from.len, b.example.from.ptr,
        (int)b.example.to.len, b.example.to.ptr, tg__ms(x->cost_ns), tg__if_backward(s, b.in, " with backward"),
        x->share_pct);
    TG_FORMAT(x->advice,
              "Stay in one type from the first of these operators to the last: cast once in front of them and "
              "once behind, or let torch.autocast decide which operators need the wider type.");
    /* that a result is rounded on purpose cannot be seen: never high */
    tg__expect_at_sites(f, x, ns, 0.35, "the time of these casts");
    tg__report_sites(s, b.in, x);
  }
}

void tg__judge_types(struct tg__facts *f) {
  struct tg__sites *const s = tg__facts_sites(f);
  if (s && !model_is_double(s)) judge_doubles(s);
  const bool by_kernels = f->device_bound; /* these casts are then conversions, or parts of runs: cause_kernels.c */
  if (s && !by_kernels && tg__has_steps(f) && !tg__has_found(f, TG__CAUSE_DTYPE_PROMOTION)) judge_casts(s);
}
