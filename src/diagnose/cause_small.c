/* A step made of many small pieces: of kernels too short for what it takes to launch them, of operators too short for
 * their dispatch. */
#include "diagnose/findings.h"

enum { FEEDING_PCT = 20, MANY_KERNELS = 100, SHORT_KERNEL_NS = 10000 };
enum { MANY_OPS = 1000, SHORT_OP_NS = 5000, SHORT_OPS_PCT = 30 };

struct pieces {
  const struct tg__columns *t;
  int64_t *durations; /* kernels, or operators without operators inside */
  size_t count, cap;
  bool kernels, failed;
  uint32_t track_end_op; /* the operator seen last: inner when the next does not start inside it */
  int64_t short_ns;
};

static void add_piece(struct pieces *p, int64_t dur) {
  if (!tg__grow((void **)&p->durations, &p->cap, p->count + 1, sizeof *p->durations)) {
    p->failed = true;
    return;
  }
  p->durations[p->count++] = dur;
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

static void see_piece(void *ctx, uint32_t slice, enum tg__class cls) {
  struct pieces *p = ctx;
  if (p->kernels && cls == TG__CLASS_KERNEL) add_piece(p, p->t->slices.dur_ns[slice]);
  if (!p->kernels && cls == TG__CLASS_OP) end_op(p, slice);
}

static void claim_gaps(const struct tg__facts *f, struct tg__finding *x) {
  for (size_t i = 0; i < f->gaps.count; i++) {
    const struct tg__gap *const g = &f->gaps.items[i];
    if (g->cause == TG__GAP_PYTHON || g->cause == TG__GAP_HOST || g->cause == TG__GAP_LAUNCH)
      tg__claim(f, x, g->start_ns, g->end_ns);
  }
}

static void judge_small_kernels(struct tg__facts *f, int64_t pieces, int64_t typical) {
  const int64_t wait =
      (f->gap_ns[TG__GAP_PYTHON] + f->gap_ns[TG__GAP_HOST] + f->gap_ns[TG__GAP_LAUNCH]) / (int64_t)f->gaps.device_count;
  const double share = tg__pct(wait, f->window_ns);
  if (tg__has_little_work(f) || pieces < MANY_KERNELS || typical >= SHORT_KERNEL_NS || share <= FEEDING_PCT) return;
  struct tg__finding *x = tg__find(f, TG__CAUSE_MANY_SMALL_OPS, share, FEEDING_PCT, tg__per_step(f, wait));
  TG_SAY(x->where, "kernels of the %s", tg__period(f));
  TG_SAY(x->evidence,
         "%lld kernels %s, half of them shorter than %.1f us; the device waits %.2f ms %s (%.1f %%) for the host to "
         "launch the next",
         (long long)pieces, tg__per(f), (double)typical / 1e3, tg__ms(x->cost_ns), tg__per(f), share);
  TG_SAY(x->advice, "Put more work into each launch: torch.compile(model, mode=\"reduce-overhead\") fuses kernels and "
                    "replays them as a CUDA "
                    "graph; or a larger batch.");
  x->is_general = true;
  claim_gaps(f, x);
  tg__expect(f, x, wait - wait / 10, 0.5,
             "launches cost the host nothing, and kernels follow each other, but for a tenth of the waiting");
}

static void judge_small_host_ops(struct tg__facts *f, int64_t pieces, int64_t typical, int64_t short_ns) {
  const double share = tg__pct(short_ns, f->total_ns);
  if (pieces < MANY_OPS || typical >= SHORT_OP_NS || share <= SHORT_OPS_PCT) return;
  struct tg__finding *x = tg__find(f, TG__CAUSE_MANY_SMALL_OPS, share, SHORT_OPS_PCT, tg__per_step(f, short_ns));
  TG_SAY(x->where, "operators of the %s", tg__period(f));
  TG_SAY(x->evidence,
         "%lld operators %s, half of them shorter than %.1f us; those below %.0f us take %.2f ms %s (%.1f %%)",
         (long long)pieces, tg__per(f), (double)typical / 1e3, SHORT_OP_NS / 1e3, tg__ms(x->cost_ns), tg__per(f),
         share);
  x->method = "it depends on how many of them can be joined";
  TG_SAY(x->advice, "Do the same with fewer operations: batch them, use a fused layer, or torch.compile(model).");
}

void tg__judge_small_ops(struct tg__facts *f) {
  struct pieces p = {.t = f->t, .kernels = f->has_device_work, .track_end_op = TG_NONE};
  tg__visit(f, see_piece, &p);
  end_op(&p, TG_NONE);
  int64_t typical = 0;
  if (p.failed || (p.count && !tg__median_of(p.durations, p.count, &typical))) f->failed = true;
  const int64_t pieces = tg__per_step(f, (int64_t)p.count);
  if (!f->failed && p.count && f->has_device_work) judge_small_kernels(f, pieces, typical);
  if (!f->failed && p.count && !f->has_device_work) judge_small_host_ops(f, pieces, typical, p.short_ns);
  tg__free(p.durations);
}
