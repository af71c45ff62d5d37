/* A step made of many small pieces: of kernels too short for what it takes to launch them, of operators too short for
 * their dispatch. */
#include "diagnose/findings.h"

enum { FEEDING_PCT = 20, MANY_KERNELS = 100, SHORT_KERNEL_NS = 10000 };
enum { MANY_OPS = 1000, SHORT_OP_NS = 5000, SHORT_OPS_PCT = 30 };

struct pieces {
  struct tg__facts *f;
  const struct tg__columns *t;
  int64_t *durations; /* kernels, or operators without operators inside */
  size_t count, cap;
  uint32_t track_end_op; /* the operator seen last: inner when the next does not start inside it */
  int64_t short_ns;
};

static void add_piece(struct pieces *p, int64_t dur) {
  TG__PUSH(p->f, p->durations, p->count, p->cap, dur);
  if (dur < SHORT_OP_NS) p->short_ns += dur;
}

static void end_op(struct pieces *p, uint32_t next) {
  const uint32_t last = p->track_end_op;
  p->track_end_op = next;
  if (last == TG_NONE) return;
  const bool holds_next = next != TG_NONE && p->t->slices.start_ns[next] >= p->t->slices.start_ns[last] &&
                          tg__slice_end(p->t, next) <= tg__slice_end(p->t, last) &&
                          tg__slice_track(p->t, next) == tg__slice_track(p->t, last);
  if (!holds_next) add_piece(p, p->t->slices.dur_ns[last]);
}

/* Returns a range of compiled code where most of the gaps lie in such; TG_NONE. */
static uint32_t claim_gaps(const struct tg__facts *f, struct tg__finding *x) {
  const struct tg__columns *const t = f->t;
  int64_t all_ns = 0, compiled_ns = 0;
  uint32_t range = TG_NONE;
  for (size_t i = 0; i < f->gaps.count; i++) {
    const struct tg__gap *const g = &f->gaps.items[i];
    if (g->cause != TG__GAP_PYTHON && g->cause != TG__GAP_HOST && g->cause != TG__GAP_LAUNCH) continue;
    tg__finding_claim(f, x, g->start_ns, g->end_ns);
    all_ns += g->end_ns - g->start_ns;
    const uint32_t call = t->slices.cause[g->after];
    if (call == TG_NONE || !tg__is_in_compiled(t, call)) continue;
    compiled_ns += g->end_ns - g->start_ns;
    for (uint32_t s = call; s != TG_NONE; s = t->slices.parent[s]) /* the outermost */
      if (tg__is_compiled_range(tg__slice_name(t, s))) range = s;
  }
  return 2 * compiled_ns >= all_ns ? range : TG_NONE;
}

/* The kernel that is launched most often; TG_NONE. */
static uint32_t most_frequent(struct tg__facts *f) {
  struct tg__map counts = {0};
  uint32_t slice = TG_NONE, most = 0;
  TG__EACH_IN_STEPS (w, f) {
    uint32_t *const n = w.cls == TG__CLASS_KERNEL ? tg__map_slot(&counts, f->t->slices.name[w.slice], 0) : NULL;
    f->failed |= w.cls == TG__CLASS_KERNEL && !n;
    if (n && ++*n > most) most = *n, slice = w.slice;
  }
  tg__map_free(&counts);
  return slice;
}

/* The part of the program that launches them; where nothing of the host is there but calls, the kernels. */
static void say_kernels(struct tg__facts *f, struct tg__finding *x) {
  const struct tg__holder most =
      tg__find_holder(f, TG__ANY_DEVICE, 1U << TG__GAP_PYTHON | 1U << TG__GAP_HOST | 1U << TG__GAP_LAUNCH);
  if (most.slice != TG_NONE && tg__slice_class(f->t, most.slice) != TG__CLASS_RUNTIME) {
    tg__where_slice(f, most.slice, x);
    return;
  }
  const uint32_t kernel = most_frequent(f);
  if (kernel == TG_NONE) return;
  const struct tg__str name = tg__slice_name(f->t, kernel);
  TG_FORMAT(x->where, "kernels of the %s, most often %.*s", tg__period_name(f), (int)(name.len < 120 ? name.len : 120),
            name.ptr);
}

static void judge_small_kernels(struct tg__facts *f, int64_t pieces, int64_t typical) {
  const int64_t wait =
      (f->gap_ns[TG__GAP_PYTHON] + f->gap_ns[TG__GAP_HOST] + f->gap_ns[TG__GAP_LAUNCH]) / (int64_t)f->gaps.device_count;
  const double share = tg__pct(wait, f->window_ns);
  if (tg__has_little_work(f) || pieces < MANY_KERNELS || typical >= SHORT_KERNEL_NS || share <= FEEDING_PCT) return;
  struct tg__finding *x = tg__finding_add(f, TG__CAUSE_MANY_SMALL_OPS, share, FEEDING_PCT, tg__per_step(f, wait));
  say_kernels(f, x);
  TG_FORMAT(x->evidence,
            "%lld kernels %s, half of them shorter than %.1f us; the device waits %.2f ms %s (%.1f %%) for the host to "
            "launch the next",
            (long long)pieces, tg__period_per(f), (double)typical / 1e3, tg__ms(x->cost_ns), tg__period_per(f), share);
  const uint32_t range = claim_gaps(f, x);
  if (range != TG_NONE) tg__where_slice(f, range, x);
  TG_FORMAT(
      x->advice, "%s",
      range != TG_NONE
          ? "This is compiled, and launching its kernels takes longer than they run: let them be replayed as a CUDA "
            "graph, "
            "torch.compile(model, mode=\"reduce-overhead\"), with shapes that stay the same; or use a larger batch."
          : "Put more work into each launch: torch.compile(model, mode=\"reduce-overhead\") fuses kernels and "
            "replays them "
            "as a CUDA graph; or a larger batch.");
  x->is_general = true;
  tg__finding_expect(f, x, wait - wait / 10, 0.5,
                     "launches cost the host nothing, and kernels follow each other, but for a tenth of the waiting");
}

static void judge_small_host_ops(struct tg__facts *f, int64_t pieces, int64_t typical, int64_t short_ns) {
  if (pieces < MANY_OPS || typical >= SHORT_OP_NS) return;
  struct tg__finding *const x = tg__find_above(f, TG__CAUSE_MANY_SMALL_OPS, SHORT_OPS_PCT, short_ns);
  if (!x) return;
  TG_FORMAT(x->where, "operators of the %s", tg__period_name(f));
  TG_FORMAT(x->evidence,
            "%lld operators %s, half of them shorter than %.1f us; those below %.0f us take %.2f ms %s (%.1f %%)",
            (long long)pieces, tg__period_per(f), (double)typical / 1e3, SHORT_OP_NS / 1e3, tg__ms(x->cost_ns),
            tg__period_per(f), x->share_pct);
  x->method = "it depends on how many of them can be joined";
  TG_FORMAT(x->advice, "Do the same with fewer operations: batch them, use a fused layer, or torch.compile(model).");
}

void tg__judge_small_ops(struct tg__facts *f) {
  struct pieces p = {.f = f, .t = f->t, .track_end_op = TG_NONE};
  TG__EACH_IN_STEPS (w, f) {
    if (f->has_device_work && w.cls == TG__CLASS_KERNEL) add_piece(&p, f->t->slices.dur_ns[w.slice]);
    if (!f->has_device_work && w.cls == TG__CLASS_OP) end_op(&p, w.slice);
  }
  end_op(&p, TG_NONE);
  int64_t typical = 0;
  f->failed |= p.count && !tg__median_of(p.durations, p.count, &typical);
  const int64_t pieces = tg__per_step(f, (int64_t)p.count);
  if (!f->failed && p.count && f->has_device_work) judge_small_kernels(f, pieces, typical);
  if (!f->failed && p.count && !f->has_device_work) judge_small_host_ops(f, pieces, typical, p.short_ns);
  tg__free(p.durations);
}
