/* How fast the operators of a device are, by the shapes they were given: a large product far below the rate that others
 * of its type reach, and work that is at the bandwidth of the device's memory already. */
#include "analyze/work/roof.h"
#include "diagnose/work_bounds.h"

enum { SLOW_PCT = 60, PRODUCT_PCT = 5, BANDWIDTH_PCT = 80, MOST_PCT = 110, BOUND_PCT = 10, SLICES_MOST = 1 << 21 };
enum { LEAST_NS = 5000, LEAST_RATED_NS = 100000, FLOPS_PER_BYTE = 100 };

struct group { /* products of one shape and type */
  enum tg__precision precision;
  double flops, bytes;
  int64_t ns, calls;
};
struct rates {
  struct tg__facts *f;
  struct tg__roof roof;
  struct tg__peaks peaks;
  struct tg__map by_shape; /* hash of shapes, types and operator → group */
  struct group *groups;
  size_t count, cap;
  uint32_t *group_of;                      /* by node; TG_NONE */
  bool *is_bound;                          /* by node: at the bandwidth */
  double best[TG__PRECISION_COUNT], moved; /* FLOP/s; bytes of bound work */
};

static uint64_t shape_of(const struct rates *r, const struct tg__counted *c) {
  const struct tg__slices *const s = &r->f->t->slices;
  const uint32_t slice = r->roof.tree.nodes[c->node].slice;
  const uint32_t key[3] = {tg__arg_dims(r->f->t, s->args[slice]), s->name[slice], (uint32_t)c->precision};
  return tg__hash(key, sizeof key);
}

static void add_product(struct rates *r, const struct tg__counted *c) {
  uint32_t *const slot = tg__map_slot(&r->by_shape, shape_of(r, c), (uint32_t)r->count);
  if (!slot || (*slot == r->count && !tg__grow((void **)&r->groups, &r->cap, r->count + 1, sizeof *r->groups))) {
    r->f->failed = true;
    return;
  }
  if (*slot == r->count) r->groups[r->count++] = (struct group){.precision = c->precision};
  struct group *const g = &r->groups[*slot];
  g->flops += (double)c->work->flops;
  g->bytes += (double)c->work->bytes;
  g->ns += c->time_ns;
  g->calls++;
  r->group_of[c->node] = *slot;
}

static void look_at_node(struct rates *r, uint32_t track, uint32_t node) {
  struct tg__counted c;
  const struct tg__step_cost *const steps = r->f->steps.steps;
  if (!tg__roof_count(&r->roof, track, node, &c) || !c.work || c.work->bytes <= 0) return;
  const int64_t at = r->f->t->slices.start_ns[r->roof.tree.nodes[node].slice];
  const bool is_inside = at >= steps[0].host_start_ns && at < steps[r->f->steps.count - 1].host_end_ns;
  if (!is_inside || c.time_ns < LEAST_NS) return;
  if (c.work->kind == TG__WORK_MATMUL && c.work->flops > 0) add_product(r, &c);
  const double pct =
      1e11 * (double)c.work->bytes / (double)c.time_ns / (r->peaks.bytes > 0 ? r->peaks.bytes : INFINITY);
  r->is_bound[node] = pct >= BANDWIDTH_PCT && pct <= MOST_PCT;
  if (r->is_bound[node]) r->moved += (double)c.work->bytes;
}

static void look_at_nodes(struct rates *r) {
  TG__EACH (k, tg__tracks_of(&r->f->t->ranks[r->f->rank]))
    for (uint32_t i = r->roof.tree.first[k]; i < r->roof.tree.first[k + 1]; i++) look_at_node(r, k, i);
  for (size_t i = 0; i < r->count; i++) {
    const struct group *const g = &r->groups[i];
    double *const best = &r->best[g->precision];
    const double rate = 1e9 * g->flops / (double)g->ns;
    if (g->ns >= LEAST_RATED_NS && rate > *best) *best = rate;
  }
}

/* What the product would take at the best rate, and as fast as its inputs come from memory; the time it takes where it
 * may be bound by memory. */
static double fair_ns(const struct rates *r, const struct group *g) {
  const double by_rate = 1e9 * g->flops / r->best[g->precision];
  if (r->peaks.bytes <= 0) return g->flops < FLOPS_PER_BYTE * g->bytes ? (double)g->ns : by_rate;
  return fmax(by_rate, 1e9 * g->bytes / r->peaks.bytes);
}

static uint32_t slowest_group(const struct rates *r) {
  uint32_t slowest = TG_NONE;
  double most_ns = 0;
  for (uint32_t i = 0; i < r->count; i++) {
    const struct group *const g = &r->groups[i];
    const double fair = g->precision == TG__PRECISION_UNKNOWN || g->ns < LEAST_RATED_NS ? INFINITY : fair_ns(r, g);
    if (100 * fair > SLOW_PCT * (double)g->ns || (double)g->ns - fair <= most_ns) continue;
    most_ns = (double)g->ns - fair;
    slowest = i;
  }
  return slowest;
}

/* ---- saying it ------------------------------------------------------------------------------- */

/* The finding about device work of operators of this group, TG_NONE: of those at the bandwidth, with its place and
 * claim; NULL: they take less than least_pct. */
static struct tg__finding *find_work(const struct rates *r, uint32_t group, enum tg__cause cause, double least_pct) {
  struct tg__facts *const f = r->f;
  struct tg__spans *const spans = tg__new_spans(f);
  uint32_t longest = TG_NONE;
  TG__EACH_IN_STEPS (w, f) {
    const uint32_t node = tg__class_is_device_work(w.cls) ? tg__roof_behind(&r->roof, w.slice) : TG_NONE;
    if (node == TG_NONE || (group == TG_NONE ? !r->is_bound[node] : r->group_of[node] != group)) continue;
    tg__spans_add_slice(spans, f->t, w.slice);
    tg__keep_longest(f->t, &longest, w.slice);
  }
  tg__spans_union(spans);
  struct tg__finding *const x = tg__find_above(f, cause, least_pct, tg__usual_sum(f, spans));
  if (!x) return NULL;
  tg__claim_spans(f, x, spans);
  x->is_of_device = true;
  tg__where_slice(f, longest, x);
  return x;
}

static void report_slow_product(const struct rates *r, uint32_t slowest) {
  const struct group *const g = &r->groups[slowest];
  struct tg__facts *const f = r->f;
  struct tg__finding *const x = find_work(r, slowest, TG__CAUSE_SLOW_PRODUCT, PRODUCT_PCT);
  if (!x) return;
  const double rate = 1e9 * g->flops / (double)g->ns, best = r->best[g->precision];
  TG_FORMAT(
      x->evidence,
      "%lld products %s of one size run at %.1f TFLOP/s in %s, %.0f %% of the %.1f that another of the trace reaches: "
      "%.2f ms (%.1f %%)",
      (long long)tg__per_step(f, g->calls), tg__period_per(f), rate / 1e12, tg__precision_names[g->precision],
      100 * rate / best, best / 1e12, tg__ms(x->cost_ns), x->share_pct);
  TG_FORMAT(x->advice,
            "Try other sizes (multiples of 64 or 128, a padded vocabulary), operands that are contiguous, or other "
            "kernels: torch.compile(model, mode=\"max-autotune\"), or "
            "torch.backends.cuda.preferred_blas_library(\"cublaslt\").");
  tg__expect_of_device(
      f, x, (int64_t)((double)g->ns - fair_ns(r, g)), 0, 0.3,
      "it reaches the rate of the fastest product of its type, as far as its inputs come from memory as fast");
}

static void report_bandwidth(const struct rates *r) {
  struct tg__facts *const f = r->f;
  struct tg__finding *const x = find_work(r, TG_NONE, TG__CAUSE_MEMORY_BOUND, BOUND_PCT);
  if (!x) return;
  x->is_statement = x->is_symptom = true; /* what could be changed keeps its time */
  TG_FORMAT(x->evidence,
            "operators that move %.2f GB %s do so at %.0f %% of the memory bandwidth of %s: bound by memory, %.2f ms "
            "(%.1f %%)",
            r->moved / (double)f->steps.count / 1e9, tg__period_per(f),
            1e11 * r->moved / ((double)x->cost_ns * (double)f->steps.count) / r->peaks.bytes, r->peaks.source,
            tg__ms(x->cost_ns), x->share_pct);
  struct tg__work_bounds work;
  tg__bound_work(f, &work);
  tg__say_rows(f, &work, x->evidence, sizeof x->evidence);
  TG_FORMAT(x->advice,
            "They are as fast as the device's memory. Only fewer bytes make them faster: more rows for the same "
            "weights (a larger batch), narrower types, fewer passes.");
  x->method = "they are at the limit of the memory; what fewer bytes save depends on the program";
}

static void judge_rates(struct rates *r) {
  const size_t nodes = r->roof.tree.count;
  tg__peaks_known(r->f->t, r->f->rank, true, &r->peaks);
  r->group_of = tg__alloc_scratch(r->f, nodes, sizeof *r->group_of);
  r->is_bound = tg__alloc_scratch(r->f, nodes, sizeof *r->is_bound);
  if (r->f->failed) return;
  memset(r->group_of, 0xff, (nodes + 1) * sizeof *r->group_of);
  look_at_nodes(r);
  const uint32_t slowest = slowest_group(r);
  if (slowest != TG_NONE) report_slow_product(r, slowest);
  report_bandwidth(r);
  tg__map_free(&r->by_shape);
  tg__free(r->groups);
}

void tg__judge_rates(struct tg__facts *f) {
  const struct tg__ask a = {.rank = f->rank};
  if (!f->has_device_work || !f->device_bound || tg__has_little_work(f) || f->t->slices.count > SLICES_MOST) return;
  struct rates r = {.f = f};
  const enum tg_err err = tg__roof_open(f->t, &a, &r.roof, NULL);
  f->failed |= err == TG_MEMORY;
  if (!err) judge_rates(&r);
  tg__roof_close(&r.roof);
}
