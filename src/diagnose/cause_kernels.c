/* What the kernels of a step that the device bounds are: copies, transposes, attention by hand, runs that could be one
 * kernel. Only their classes count, so that graphs and traces without operators are judged like others. */
#include "analyze/device/kernel_class.h"
#include "diagnose/findings.h"

#define IN(class) (1U << TG__KERNEL_##class)
enum { LONGEST_PAUSE_NS = 20000, RUN = 3, REACH = 4, LEAST_KERNELS = 10 };

struct work { /* a piece of device work */
  uint32_t slice;
  enum tg__kernel_class kind;
  bool is_copy; /* a memcpy inside the device */
  bool is_memset;
  bool is_math;      /* launched by the math kernel of attention */
  bool counts, goes; /* for the rule at hand: its time; all of it goes */
  bool is_half;      /* half of it goes */
};
struct kernels {
  struct tg__facts *f;
  struct work *items; /* of one device, by stream, then start; memsets, which are in no row, behind the others */
  size_t count, cap, in_rows;
  int64_t device;
  uint8_t *kinds;             /* by name: a class and one; 0: not looked at */
  struct tg__spans *updates;  /* when the host is inside an optimizer's step */
  int64_t bytes, graph_edges; /* of copies; how many are beside the kernels of a graph */
};
struct kernel_rule {
  enum tg__cause cause;
  unsigned classes;
  void (*choose)(struct kernels *k, unsigned classes);
  double least_pct, confidence; /* no confidence: what goes is not known */
  const char *what, *advice, *method;
};

/* ---- choosing -------------------------------------------------------------------------------- */

static bool is_in(const struct work *w, unsigned classes) { return classes >> w->kind & 1; }

static void choose_all(struct kernels *k, unsigned classes) {
  for (size_t i = 0; i < k->count; i++) k->items[i].counts = k->items[i].goes = is_in(&k->items[i], classes);
}

static bool is_of_graph(const struct kernels *k, size_t i) { return tg__is_replayed(k->f->t, k->items[i].slice); }

static void choose_copies(struct kernels *k, unsigned classes) {
  for (size_t i = 0; i < k->count; i++) {
    struct work *const w = &k->items[i];
    w->counts = w->goes = w->is_copy || is_in(w, classes);
    if (!w->counts) continue;
    const int64_t bytes = tg__arg_int(k->f->t, k->f->t->slices.args[w->slice], TG__K_BYTES, 0);
    size_t next = i + 1;
    while (next < k->in_rows && k->items[next].is_copy) next++;
    k->bytes += bytes > 0 && bytes < INT64_MAX / 2 - k->bytes ? bytes : 0;
    k->graph_edges +=
        !is_of_graph(k, i) && ((next < k->in_rows && is_of_graph(k, next)) || (i && is_of_graph(k, i - 1)));
  }
}

static bool follows(const struct kernels *k, size_t i) {
  const struct tg__columns *const t = k->f->t;
  const uint32_t a = k->items[i - 1].slice, b = k->items[i].slice;
  return tg__slice_track(t, a) == tg__slice_track(t, b) &&
         t->slices.start_ns[b] - tg__slice_end(t, a) <= LONGEST_PAUSE_NS;
}

/* The update of an optimizer is many tensors, each by itself. */
static bool is_in_update(const struct kernels *k, size_t i) {
  const struct tg__columns *const t = k->f->t;
  const uint32_t call = t->slices.cause[k->items[i].slice];
  const int64_t at = call == TG_NONE ? 0 : t->slices.start_ns[call];
  return call != TG_NONE && tg__spans_inside(k->updates, at, at + 1) > 0;
}

static void choose_half(struct kernels *k, unsigned classes) {
  for (size_t i = 0; i < k->count; i++) k->items[i].counts = k->items[i].is_half = is_in(&k->items[i], classes);
}

/* One kernel can do what is element by element, and one reduction among it: all but the longest of these go. */
static void fuse(struct kernels *k, size_t from, size_t to) {
  const int64_t *const dur_ns = k->f->t->slices.dur_ns;
  size_t longest = from;
  for (size_t i = from; i < to; i++) {
    k->items[i].counts = k->items[i].goes = true;
    if (dur_ns[k->items[i].slice] > dur_ns[k->items[longest].slice]) longest = i;
  }
  k->items[longest].goes = false;
}

static void end_run(struct kernels *k, size_t from, size_t to) {
  bool has_reduced = false;
  if (to - from < RUN) return;
  for (size_t i = from; i < to; i++) {
    const bool reduces = k->items[i].kind == TG__KERNEL_REDUCTION || k->items[i].kind == TG__KERNEL_SOFTMAX;
    if (reduces && has_reduced) fuse(k, from, i), from = i;
    has_reduced |= reduces;
  }
  fuse(k, from, to);
}

static void choose_runs(struct kernels *k, unsigned classes) {
  size_t from = 0;
  for (size_t i = 0; i < k->in_rows; i++) {
    const bool is_part = is_in(&k->items[i], classes) && !is_in_update(k, i);
    if (!is_part || (i > from && !follows(k, i))) end_run(k, from, i), from = is_part ? i : i + 1;
  }
  end_run(k, from, k->in_rows);
}

/* The product next to place i, before it or behind, with nothing but passes over the scores between; TG_NONE. */
static size_t product_beside(const struct kernels *k, size_t i, bool is_before) {
  for (size_t n = 0; n < REACH; n++) {
    if (is_before ? i == 0 || !follows(k, i) : i + 1 == k->in_rows || !follows(k, i + 1)) return TG_NONE;
    const struct work *const w = &k->items[i = is_before ? i - 1 : i + 1];
    if (w->kind == TG__KERNEL_PRODUCT) return i;
    if (!is_in(w, IN(ELEMENTWISE) | IN(RANDOM) | IN(COPY) | IN(CAST) | IN(SOFTMAX))) return TG_NONE;
  }
  return TG_NONE;
}

static void choose_pass(struct work *w) {
  w->counts = true;
  w->is_half = w->kind == TG__KERNEL_PRODUCT;
  w->goes = !w->is_half;
}

static void choose_attention(struct kernels *k, unsigned classes) {
  for (size_t i = 0; i < k->count; i++)
    if (k->items[i].is_math) choose_pass(&k->items[i]);
  for (size_t i = 0; i < k->count; i++) {
    if (!is_in(&k->items[i], classes)) continue;
    const size_t from = product_beside(k, i, true), to = product_beside(k, i, false);
    for (size_t j = from; from != TG_NONE && to != TG_NONE && j <= to; j++) choose_pass(&k->items[j]);
  }
}

static const struct kernel_rule rules[] = {
#define KERNEL_RULE(cause, ...) {TG__CAUSE_##cause, __VA_ARGS__},
#include "diagnose/kernel_rules.def"
};

/* ---- gathering ------------------------------------------------------------------------------- */

static bool is_math(const struct tg__columns *t, uint32_t slice) {
  uint32_t at = t->slices.cause[slice];
  while (at != TG_NONE && !tg__str_contains(tg__slice_name(t, at), "dot_product_attention_math"))
    at = t->slices.parent[at];
  return at != TG_NONE;
}

static void add_work(struct kernels *k, struct work w) { TG__PUSH(k->f, k->items, k->count, k->cap, w); }

static void see_work(struct kernels *k, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *const t = k->f->t;
  const uint32_t name = t->slices.name[slice];
  if ((cls != TG__CLASS_KERNEL && cls != TG__CLASS_MEMCPY) || tg__device_of(k->f, slice) != k->device) return;
  struct work w = {.slice = slice};
  if (cls == TG__CLASS_KERNEL) {
    if (!k->kinds[name]) k->kinds[name] = (uint8_t)(tg__kernel_class(tg__name(t, name)) + 1);
    w.kind = (enum tg__kernel_class)(k->kinds[name] - 1);
    w.is_math = w.kind != TG__KERNEL_COMPILED && is_math(t, slice);
  } else {
    w.is_copy = tg__str_contains(tg__name(t, name), "DtoD") || tg__str_contains(tg__name(t, name), "DeviceToDevice");
  }
  add_work(k, w);
}

/* ---- reporting ------------------------------------------------------------------------------- */

/* When chosen work runs beside no computation that was not chosen: that is what goes with it. A collective beside it
 * goes on in the meantime, and may as well later. */
static struct tg__spans *sum_up_work(struct kernels *k, int64_t *saving_ns) {
  const struct tg__columns *const t = k->f->t;
  struct tg__spans *const all = tg__new_spans(k->f), *const others = tg__new_spans(k->f),
                          *const goes = tg__new_spans(k->f), *const halves = tg__new_spans(k->f);
  for (size_t i = 0; i < k->count; i++) {
    const struct work *const w = &k->items[i];
    const int64_t start = t->slices.start_ns[w->slice], end = tg__slice_end(t, w->slice);
    if (w->counts || (w->kind != TG__KERNEL_COLLECTIVE && !w->is_memset))
      tg__spans_add(w->counts ? all : others, start, end);
    if (w->goes) tg__spans_add(goes, start, end);
    if (w->is_half) tg__spans_add(halves, start, end);
  }
  tg__spans_union(others);
  tg__spans_union(halves);
  struct tg__spans *const counted = tg__rest_of(k->f, all, others), *const left = tg__rest_of(k->f, goes, others);
  *saving_ns = tg__usual_inside(k->f, left) + tg__usual_inside(k->f, halves) / 2;
  tg__spans_free(others); /* each rule about kernels makes them, and there may be many */
  tg__spans_free(halves);
  tg__spans_free(left);
  return counted;
}

static void say_copies(const struct kernels *k, int64_t copies, struct tg__finding *x) {
  if (k->bytes) TG_ADD(x->evidence, ", %.1f MB %s", (double)tg__per_step(k->f, k->bytes) / 1e6, tg__period_per(k->f));
  if (2 * k->graph_edges > copies) TG_ADD(x->evidence, "; most of them lie before or behind a graph");
}

static void report_kernels(struct kernels *k, const struct kernel_rule *r) {
  struct tg__facts *const f = k->f;
  int64_t saving_ns, chosen = 0;
  uint32_t longest = TG_NONE;
  const int64_t *const dur_ns = f->t->slices.dur_ns;
  for (size_t i = 0; i < k->count; i++) {
    const struct work *const w = &k->items[i];
    const bool leads = w->counts && (longest == TG_NONE || dur_ns[w->slice] > dur_ns[longest]);
    chosen += w->counts;
    if (leads && w->kind != TG__KERNEL_PRODUCT) longest = w->slice;
  }
  if (longest == TG_NONE) return;
  struct tg__spans *const counted = sum_up_work(k, &saving_ns);
  const int64_t sum_ns = tg__usual_sum(f, counted);
  struct tg__finding *const x = f->failed ? NULL : tg__find_above(f, r->cause, r->least_pct, sum_ns);
  if (x) {
    tg__claim_spans(f, x, counted);
    tg__where_slice(f, longest, x);
    TG_FORMAT(x->evidence, "%lld kernels %s %s: %.2f ms (%.1f %%)", (long long)tg__per_step(f, chosen),
              tg__period_per(f), r->what, tg__ms(x->cost_ns), x->share_pct);
    if (k->bytes || k->graph_edges) say_copies(k, chosen, x);
    TG_FORMAT(x->advice, "%s", r->advice);
    x->is_of_device = x->is_general = true;
    x->is_symptom = r->confidence <= 0; /* a finding that has a cure keeps its time */
    x->method = r->method;
    if (r->confidence > 0) tg__expect_of_device(f, x, saving_ns * (int64_t)f->steps.count, 0, r->confidence, r->method);
  }
  tg__spans_free(counted);
}

static void judge_device(struct kernels *k) {
  k->count = 0;
  TG__EACH_IN_STEPS (w, k->f) see_work(k, w.slice, w.cls);
  k->in_rows = k->count;
  TG__EACH_IN_STEPS (w, k->f)
    if (w.cls == TG__CLASS_MEMSET && tg__device_of(k->f, w.slice) == k->device)
      add_work(k, (struct work){.slice = w.slice, .kind = TG__KERNEL_FILL, .is_memset = true});
  const bool is_few = !tg__has_steps(k->f) && k->in_rows < LEAST_KERNELS;
  for (size_t r = 0; !is_few && !k->f->failed && r < sizeof rules / sizeof *rules; r++) {
    k->bytes = k->graph_edges = 0;
    for (size_t i = 0; i < k->count; i++) k->items[i].counts = k->items[i].goes = k->items[i].is_half = false;
    rules[r].choose(k, rules[r].classes);
    report_kernels(k, &rules[r]);
  }
}

void tg__judge_kernels(struct tg__facts *f) {
  if (!f->has_device_work || !f->device_bound || tg__has_little_work(f)) return;
  struct kernels k = {.f = f,
                      .device = INT64_MIN,
                      .updates = tg__new_spans(f),
                      .kinds = tg__alloc_scratch(f, tg__strings_count(f->t->strings), sizeof *k.kinds)};
  TG__EACH_IN_STEPS (w, f)
    if (tg__class_is_range(w.cls) && tg__slice_meaning(f, w.slice) & TG__NAME_OPTIMIZER_STEP)
      tg__spans_add_slice(k.updates, f->t, w.slice);
  tg__spans_union(k.updates);
  while (!f->failed && tg__next_device(f, &k.device)) judge_device(&k);
  tg__free(k.items);
}
