/* Time lost on the host: values read one by one, an optimizer that goes parameter by parameter, the recorder itself. */
#include "diagnose/sites.h"

static const double LEFT_OF_FUSED = 2.5;
enum { READS_PER_STEP = 20, READS_PCT = 5, OPTIMIZER_OPS = 30, OPTIMIZER_PCT = 5, OVERHEAD_PCT = 5 };

/* ---- reads of single values, and the optimizer ----------------------------------------------- */

struct host {
  struct tg__facts *f;
  const struct tg__columns *t;
  uint32_t read, update;             /* the longest aten::item, the longest Optimizer.step */
  int64_t reads, updates, gradients; /* gradients that arrive */
  struct tg__tally reads_ns, updates_ns;
  int64_t read_ns, update_ns; /* without the work of only one step */
  int64_t here_ns;            /* of the update the walk is in */
  uint32_t here_slice;
  struct calls {
    int64_t ops, outermost, multi_tensor;
  } sum, here; /* of updates that ended; of the one the walk is in */
  int64_t call_until_ns;
  int64_t update_from_ns,
      update_until_ns; /* the optimizer step the walk is in: what lies inside is the optimizer's, but for its closure */
  uint32_t update_track;
  bool after_closure, has_closure;
  struct tg__spans *update_spans, *read_spans;
};

/* What the update that the walk was in took and called, without its closure. */
static void end_update(struct host *h) {
  if (h->here_ns) tg__tally_add(h->f, &h->updates_ns, h->here_slice, h->here_ns);
  h->here_ns = 0;
  h->sum.ops += h->here.ops;
  h->sum.outermost += h->here.outermost;
  h->sum.multi_tensor += h->here.multi_tensor;
  h->here = (struct calls){0};
}

static void see_update(struct host *h, uint32_t slice) {
  h->updates++;
  tg__spans_add_slice(h->update_spans, h->t, slice);
  end_update(h);
  h->here_ns = h->t->slices.dur_ns[slice];
  h->here_slice = slice;
  h->update_from_ns = h->t->slices.start_ns[slice];
  h->update_until_ns = tg__slice_end(h->t, slice);
  h->update_track = tg__slice_track(h->t, slice);
  h->after_closure = false;
  tg__keep_longest(h->t, &h->update, slice);
}

/* One optimizer calls another: what the inner one does is the update. */
static void forget_outer(struct host *h) {
  h->updates--;
  h->update_spans->count--;
  h->here_ns = 0;
  h->here = (struct calls){0};
  if (h->update == h->here_slice) h->update = TG_NONE;
}

/* The update begins again where something of a closure ends. */
static void leave_closure(struct host *h, int64_t until_ns) {
  if (until_ns <= h->update_from_ns) return;
  h->here_ns -= until_ns - h->update_from_ns;
  h->update_from_ns = until_ns;
  h->here = (struct calls){0};
}

static void see_in_update(struct host *h, uint32_t slice, struct tg__str name) {
  const int64_t start_ns = h->t->slices.start_ns[slice];
  if (tg__is_of_closure(h->t, slice)) {
    h->gradients += tg__str_eq(name, TG_STR("torch::autograd::AccumulateGrad"));
    h->after_closure = h->has_closure = true;
    leave_closure(h, tg__slice_end(h->t, slice));
    return;
  }
  if (start_ns < h->update_from_ns) return; /* below something of the closure */
  if (h->after_closure)
    leave_closure(h, start_ns); /* the backward pass may run on another thread, without a trace on this one */
  h->after_closure = false;
  const bool is_outermost = start_ns >= h->call_until_ns;
  if (is_outermost) h->call_until_ns = tg__slice_end(h->t, slice);
  h->here.ops++;
  h->here.outermost += is_outermost;
  h->here.multi_tensor += tg__str_contains(name, "_foreach_") || tg__str_contains(name, "_fused_");
}

static void see_host(struct host *h, uint32_t slice, enum tg__class cls) {
  if (!tg__class_is_range(cls)) return;
  const struct tg__str name = tg__slice_name(h->t, slice);
  const bool in_update = h->update_track != TG_NONE && h->t->slices.start_ns[slice] < h->update_until_ns &&
                         tg__slice_track(h->t, slice) == h->update_track;
  if (tg__slice_meaning(h->f, slice) & TG__NAME_OPTIMIZER_STEP) {
    if (in_update) forget_outer(h);
    see_update(h, slice);
  } else if (cls == TG__CLASS_OP && in_update) {
    see_in_update(h, slice, name);
  } else if (cls == TG__CLASS_OP && tg__str_eq(name, TG_STR("torch::autograd::AccumulateGrad"))) {
    h->gradients++;
  } else if (cls == TG__CLASS_OP && tg__str_eq(name, TG_STR("aten::item"))) {
    h->reads++;
    tg__tally_add(h->f, &h->reads_ns, slice, h->t->slices.dur_ns[slice]);
    tg__spans_add_slice(h->read_spans, h->t, slice);
    tg__keep_longest(h->t, &h->read, slice);
  }
}

static struct host look_at_host(struct tg__facts *f) {
  struct host h = {.f = f,
                   .t = f->t,
                   .read = TG_NONE,
                   .update = TG_NONE,
                   .update_track = TG_NONE,
                   .call_until_ns = INT64_MIN,
                   .update_spans = tg__new_spans(f),
                   .read_spans = tg__new_spans(f)};
  TG__EACH_IN_STEPS (w, f) see_host(&h, w.slice, w.cls);
  end_update(&h);
  h.read_ns = tg__tally_sum(f, &h.reads_ns);
  h.update_ns = tg__tally_sum(f, &h.updates_ns);
  return h;
}

/* A device stands still behind such reads: where host-synchronisation has found that at the same place, it is one
 * finding, which speaks of that time, too. */
static void claim_waits_at(struct tg__facts *f, struct tg__finding *x) {
  for (size_t i = 0; i < f->found_count; i++) {
    const struct tg__finding *const other = &f->found[i];
    if (other->cause == TG__CAUSE_HOST_SYNCHRONISATION && strcmp(other->where, x->where) == 0)
      tg__claim_spans(f, x, &other->claim);
  }
}

static void report_scalar_reads(struct tg__facts *f, const struct host *h) {
  struct tg__finding *const x = tg__find_above(f, TG__CAUSE_PER_ELEMENT_ITEM, READS_PCT, h->read_ns);
  if (!x) return;
  tg__where_slice(f, h->read, x);
  TG_FORMAT(x->evidence, "%lld values %s are read with .item() or the like, %.2f ms (%.1f %%), the longest %.2f ms",
            (long long)tg__per_step(f, h->reads), tg__period_per(f), tg__ms(x->cost_ns), x->share_pct,
            tg__ms(f->t->slices.dur_ns[h->read]));
  TG_FORMAT(
      x->advice,
      "Reduce on the tensor and read once: one .tolist() or .item() after the loop instead of one for each element.");
  tg__claim_spans(f, x, h->read_spans);
  claim_waits_at(f, x);
  tg__finding_expect(f, x, h->read_ns, 0.7, "the time of the reads");
}

void tg__judge_scalar_reads(struct tg__facts *f) {
  struct host h = look_at_host(f);
  if (tg__per_step(f, h.reads) >= READS_PER_STEP && !tg__has_found(f, TG__CAUSE_PER_ELEMENT_ITEM))
    report_scalar_reads(f, &h);
}

/* Where nothing states how many parameters there are: the device no longer waits. */
static void expect_of_waiting(struct tg__finding *x) {
  x->saving_ns = x->cost_ns;
  x->confidence = 0.6;
  x->method = "the device does not wait for one launch after another";
}

/* One fused call does the work of the operators of all parameters: about two and a half of them each are left in
 * time. */
static void expect_of_fused(const struct host *h, struct tg__finding *x) {
  const double each = h->gradients ? (double)h->sum.outermost / (double)h->gradients : 0;
  if (each > LEFT_OF_FUSED)
    tg__finding_expect(h->f, x, (int64_t)((1 - LEFT_OF_FUSED / each) * (double)h->update_ns), 0.85,
                       "of the operators for each parameter, the time of two and a half is left");
  else if (x->claim.count && h->f->has_device_work)
    expect_of_waiting(x);
  else
    x->method = h->gradients ? "there are hardly more operators for each parameter than in one fused call"
                             : "how many parameters are updated is not in the trace: no gradient arrives in it";
}

/* Of a device that has work all the time in the update the host's time there says nothing. */
static void count_waits_of_update(struct tg__facts *f, const struct host *h, struct tg__finding *x) {
  const double share = x->share_pct;
  const int64_t cost_ns = x->cost_ns;
  tg__claim_spans(f, x, h->update_spans);
  tg__count_waiting(f, x);
  if (!f->device_bound || x->share_pct > OPTIMIZER_PCT) return;
  x->share_pct = share;
  x->cost_ns = cost_ns;
  tg__spans_free(&x->claim);
}

static void report_optimizer(struct tg__facts *f, const struct host *h) {
  struct tg__finding *const x = tg__find_above(f, TG__CAUSE_SINGLE_TENSOR_OPTIMIZER, OPTIMIZER_PCT, h->update_ns);
  if (!x) return;
  tg__where_slice(f, h->update, x);
  TG_FORMAT(x->evidence,
            "the update takes %.2f ms %s (%.1f %%) in %lld operators, none of them for several tensors at once",
            tg__ms(x->cost_ns), tg__period_per(f), x->share_pct, (long long)tg__per_step(f, h->sum.ops));
  TG_FORMAT(x->advice, "Build the optimizer with fused=True, or foreach=True where fused is not available.");
  if (!h->has_closure) count_waits_of_update(f, h, x);
  expect_of_fused(h, x);
  if (x->saving_ns != TG_NULL_INT && x->saving_ns > x->cost_ns) x->saving_ns = x->cost_ns;
}

void tg__judge_optimizer(struct tg__facts *f) {
  struct host h = look_at_host(f);
  if (!h.updates)
    tg__cannot_judge(f, TG__CAUSE_SINGLE_TENSOR_OPTIMIZER, "no Optimizer.step in the trace");
  else if (!h.sum.multi_tensor && h.sum.ops >= OPTIMIZER_OPS * h.updates)
    report_optimizer(f, &h);
}

/* ---- the recorder ---------------------------------------------------------------------------- */

/* CUPTI's kinds of overhead that come without a recording, too: a full queue of launches keeps the host waiting while
 * it is ahead of the device; code is compiled and loaded at its first use. */
static bool is_of_program(struct tg__str kind) {
  static const char *const kinds[] = {"Command Buffer Full", "Driver Compiler", "Lazy Function Loading",
                                      "Runtime Triggered Module Loading"};
  return TG__IS_ONE_OF(kind, kinds);
}

void tg__judge_overhead(struct tg__facts *f) {
  struct tg__spans *const spans = tg__new_spans(f);
  uint32_t longest = TG_NONE;
  TG__EACH_IN_STEPS (w, f) {
    if (w.cls != TG__CLASS_OVERHEAD || is_of_program(tg__slice_name(f->t, w.slice))) continue;
    tg__spans_add_slice(spans, f->t, w.slice);
    tg__keep_longest(f->t, &longest, w.slice);
  }
  tg__spans_union(spans);
  const int64_t inside = tg__usual_sum(f, spans);
  const double share = tg__pct(inside, f->steps.window.end_ns - f->steps.window.start_ns);
  if (share > OVERHEAD_PCT) {
    struct tg__finding *x =
        tg__finding_add(f, TG__CAUSE_PROFILER_OVERHEAD, share, OVERHEAD_PCT, tg__per_step(f, inside));
    tg__where_slice(f, longest, x);
    x->method = "without a recording the program does not spend this time";
    TG_FORMAT(x->evidence, "the recording itself takes %.2f ms %s (%.1f %%), by its own account", tg__ms(x->cost_ns),
              tg__period_per(f), share);
    TG_FORMAT(x->advice,
              "Record less: leave out with_stack, record_shapes and profile_memory, and record few steps with "
              "torch.profiler.schedule(wait, warmup, active).");
  }
}
