/* A device that waits: idle for the most part, held up by synchronisation or copies, or fed with crumbs. */
#include "diagnose/findings.h"

enum { IDLE_PCT = 50, HOLD_UP_PCT = 5, FEEDING_PCT = 20, MANY_KERNELS = 100, SHORT_KERNEL_NS = 10000 };
enum { MANY_OPS = 1000, SHORT_OP_NS = 5000, SHORT_OPS_PCT = 30 };

/* ---- utilisation of one device --------------------------------------------------------------- */

static bool kernel_spans(const struct tg__facts *f, int64_t device, struct tg__spans *out) {
  const struct tg__columns *t = f->t;
  const struct tg__rank *r = &t->ranks[f->rank];
  bool any = false;
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *track = &t->tracks[k];
    if (track->device != device) continue;
    TG__EACH (i, tg__slices_of(track)) {
      if (tg__slice_class(t, i) != TG__CLASS_KERNEL) continue;
      tg__spans_add(out, t->slices.start_ns[i], tg__slice_end(t, i));
      any = true;
    }
  }
  tg__spans_union(out);
  return any;
}

static const char *idle_advice(enum tg__gap_cause most) {
  switch (most) {
  case TG__GAP_DATA:
    return "Feed it faster: DataLoader(..., num_workers=4, pin_memory=True, persistent_workers=True).";
  case TG__GAP_SYNC:
    return "Remove .item(), .cpu(), print(tensor) and torch.cuda.synchronize() from the loop, or do them every N-th "
           "step.";
  case TG__GAP_COPY:
    return "Copy from pinned memory with tensor.to(device, non_blocking=True).";
  case TG__GAP_QUEUED:
    return "Kernels follow each other with pauses although they are queued: capture the step with "
           "torch.cuda.CUDAGraph, or use fewer, "
           "larger kernels.";
  case TG__GAP_NONE:
    return "Record the host too, to see why: profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]).";
  default:
    return "The host does not launch fast enough: torch.compile(model, mode=\"reduce-overhead\"), or a larger batch.";
  }
}

static const char *const while_doing[TG__GAP_CAUSE_COUNT] = {
    [TG__GAP_NONE] = "for reasons that are not in the trace", [TG__GAP_QUEUED] = "although work was queued",
    [TG__GAP_PYTHON] = "while the host is in Python",         [TG__GAP_HOST] = "while the host is in operators",
    [TG__GAP_LAUNCH] = "while the host is in launch calls",   [TG__GAP_COPY] = "while the host is in copy calls",
    [TG__GAP_SYNC] = "because the host waits for it",         [TG__GAP_DATA] = "while the host loads data",
};

/* ---- before the first work of the window, or behind the last --------------------------------- */

struct edge {
  const struct tg__columns *t;
  int64_t start_ns, end_ns;
  uint32_t during; /* shortest slice of the host that covers most of it */
};

static void see_host(void *ctx, uint32_t slice, enum tg__class cls) {
  struct edge *e = ctx;
  const int64_t start = e->t->slices.start_ns[slice], end = tg__slice_end(e->t, slice);
  const int64_t covered = (end < e->end_ns ? end : e->end_ns) - (start > e->start_ns ? start : e->start_ns);
  if (!tg__class_is_host(cls) || 4 * covered < 3 * (e->end_ns - e->start_ns)) return;
  if (e->during == TG_NONE || e->t->slices.dur_ns[slice] < e->t->slices.dur_ns[e->during]) e->during = slice;
}

static struct edge longer_edge(const struct tg__facts *f, int64_t device) {
  const struct tg__rank *r = &f->t->ranks[f->rank];
  const struct tg__window *w = &f->steps.window;
  int64_t first = w->end_ns, last = w->start_ns;
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *track = &f->t->tracks[k];
    for (uint32_t i = track->first; track->device == device && i < track->first + track->count; i++) {
      const int64_t start = f->t->slices.start_ns[i], end = tg__slice_end(f->t, i);
      if (!tg__class_is_device_work(tg__slice_class(f->t, i)) || start < w->start_ns || start >= w->end_ns) continue;
      if (start < first) first = start;
      if (end > last) last = end;
    }
  }
  const bool before = first - w->start_ns > w->end_ns - last;
  return (struct edge){f->t, before ? w->start_ns : last, before ? first : w->end_ns, TG_NONE};
}

/* In a step the host is busy with something there, such as the next input; a recording without steps may simply be
 * too long. */
static void describe_edges(struct tg__facts *f, int64_t device, struct tg__finding *x) {
  const size_t len = strlen(x->evidence);
  if (f->steps.source == TG__STEPS_WHOLE) {
    tg__say(x->evidence + len, sizeof x->evidence - len,
            "; most of the rest lies before its first or behind its last work");
    TG_SAY(x->advice,
           "Record a stretch in which the device works: torch.profiler.schedule(wait=1, warmup=2, active=5).");
    tg__expect(f, x, 0, 0.9, "a recording becomes better, nothing becomes faster");
    return;
  }
  struct edge e = longer_edge(f, device);
  const int64_t edge_ns = e.end_ns - e.start_ns, rest_ns = f->window_ns - edge_ns;
  tg__visit(f, see_host, &e);
  if (e.during != TG_NONE) tg__where_slice(f, e.during, x);
  tg__say(x->evidence + len, sizeof x->evidence - len, "; of the rest %.2f ms lie %s", tg__ms(edge_ns),
          e.start_ns == f->steps.window.start_ns ? "before its first work, in one stretch"
                                                 : "behind its last work, in one stretch");
  TG_SAY(x->advice, "Do what the host does there while the device works on the step before: a DataLoader with workers, "
                    "or a thread that runs ahead; "
                    "or do it on the device.");
  x->saving_ns = tg__per_step(f, edge_ns < rest_ns ? edge_ns : rest_ns);
  x->confidence = 0.5;
  x->method = "that stretch and the rest of the step go on side by side";
}

/* idle: without a kernel inside the window. Part of it may lie outside the device's first and last work, part in
 * copies. */
static void describe_waits(struct tg__facts *f, int64_t device, int64_t idle, struct tg__finding *x) {
  const struct tg__window *w = &f->steps.window;
  int64_t sum[TG__GAP_CAUSE_COUNT] = {0}, all = 0;
  enum tg__gap_cause most = TG__GAP_NONE;
  for (size_t i = 0; i < f->gaps.count; i++) {
    const struct tg__gap *g = &f->gaps.items[i];
    const int64_t start = g->start_ns > w->start_ns ? g->start_ns : w->start_ns,
                  end = g->end_ns < w->end_ns ? g->end_ns : w->end_ns;
    if (g->device != device || start >= end) continue;
    sum[g->cause] += end - start;
    all += end - start;
  }
  for (enum tg__gap_cause c = 0; c < TG__GAP_CAUSE_COUNT; c++)
    if (sum[c] > sum[most]) most = c;
  const size_t len = strlen(x->evidence);
  if (2 * all < idle) {
    describe_edges(f, device, x);
    return;
  }
  tg__say(x->evidence + len, sizeof x->evidence - len,
          "; between its work it stands still for %.2f ms %s, %.0f %% of that %s", tg__ms(tg__per_step(f, all)),
          tg__per(f), tg__pct(sum[most], all), while_doing[most]);
  TG_SAY(x->advice, "%s", idle_advice(most));
}

static void judge_one_device(struct tg__facts *f, int64_t device) {
  const struct tg__window *w = &f->steps.window;
  const int64_t window = w->end_ns - w->start_ns;
  struct tg__spans kernels = {0};
  const bool any = kernel_spans(f, device, &kernels);
  const int64_t busy = tg__spans_inside(&kernels, w->start_ns, w->end_ns);
  f->failed |= kernels.failed;
  tg__spans_free(&kernels);
  if (!any || window <= 0 || 100 * (window - busy) <= IDLE_PCT * window) return;
  struct tg__finding *x =
      tg__find(f, TG__CAUSE_IDLE_DEVICE, tg__pct(window - busy, window), IDLE_PCT, tg__per_step(f, window - busy));
  TG_SAY(x->where, "device %lld", (long long)device);
  TG_SAY(x->evidence, "kernels run %.1f %% of the time: %.2f of %.2f ms %s", tg__pct(busy, window),
         tg__ms(tg__per_step(f, busy)), tg__ms(tg__per_step(f, window)), tg__per(f));
  describe_waits(f, device, window - busy, x);
}

/* ---- what the host does to it ---------------------------------------------------------------- */

static void judge_hold_up(struct tg__facts *f, enum tg__gap_cause cause, enum tg__cause finding, const char *what,
                          const char *advice) {
  const int64_t window = (f->steps.window.end_ns - f->steps.window.start_ns) * (int64_t)f->gaps.device_count;
  const double share = tg__pct(f->gap_ns[cause], window);
  if (share <= HOLD_UP_PCT) return;
  const struct tg__gap *longest = NULL;
  int64_t count = 0;
  for (size_t i = 0; i < f->gaps.count; i++) {
    const struct tg__gap *g = &f->gaps.items[i];
    if (g->cause != cause || g->end_ns <= f->steps.window.start_ns || g->start_ns >= f->steps.window.end_ns) continue;
    count++;
    if (!longest || g->end_ns - g->start_ns > longest->end_ns - longest->start_ns) longest = g;
  }
  struct tg__finding *x = tg__find(f, finding, share, HOLD_UP_PCT, tg__per_step(f, f->gap_ns[cause]));
  if (longest && longest->during != TG_NONE)
    tg__where_slice(f, longest->during, x);
  else
    TG_SAY(x->where, "device %lld", (long long)(longest ? longest->device : -1));
  TG_SAY(x->evidence, "%lld times the device stood still while the host %s: %.2f ms %s (%.1f %%), the longest %.2f ms",
         (long long)count, what, tg__ms(x->cost_ns), tg__per(f), share,
         longest ? tg__ms(longest->end_ns - longest->start_ns) : 0);
  TG_SAY(x->advice, "%s", advice);
  if (f->steps.source == TG__STEPS_WHOLE && longest && 2 * (longest->end_ns - longest->start_ns) > f->gap_ns[cause])
    return; /* once: it may not come again */
  x->saving_ns = tg__per_step(f, tg__shortened(f, 0, 0, f->gap_ns[cause] / (int64_t)f->gaps.device_count));
  x->confidence = 0.6;
  x->method = "these gaps close, as far as host and device each have less to do than a step takes";
}

void tg__judge_idle_device(struct tg__facts *f) {
  if (!f->has_device_work) {
    tg__cannot_judge(f, TG__CAUSE_IDLE_DEVICE, "no device work in the trace");
    return;
  }
  int64_t last = INT64_MIN;
  for (;;) { /* devices in rising order; there are few */
    int64_t next = INT64_MAX;
    for (uint32_t k = 0; k < f->t->ranks[f->rank].track_count; k++) {
      const struct tg__track *track = &f->t->tracks[f->t->ranks[f->rank].first_track + k];
      if (track->kind == TG__TRACK_DEVICE && track->device > last && track->device < next) next = track->device;
    }
    if (next == INT64_MAX) break;
    judge_one_device(f, last = next);
  }
  judge_hold_up(f, TG__GAP_SYNC, TG__CAUSE_HOST_SYNCHRONISATION, "waited for it before launching more",
                "Keep values on the device: drop .item(), .cpu(), print(tensor) and torch.cuda.synchronize() in the "
                "loop, or do them every "
                "N-th step.");
  judge_hold_up(f, TG__GAP_COPY, TG__CAUSE_BLOCKING_COPY, "was inside a copy call",
                "Copy from pinned memory without waiting: DataLoader(..., pin_memory=True) and tensor.to(device, "
                "non_blocking=True).");
}

/* ---- many small pieces ----------------------------------------------------------------------- */

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

static bool less_duration(uint32_t a, uint32_t b, const void *ctx) {
  return ((const int64_t *)ctx)[a] < ((const int64_t *)ctx)[b];
}

static bool median(const int64_t *values, size_t n, int64_t *out) {
  uint32_t *const order = tg__order_new(n, less_duration, values);
  if (!order) return false;
  *out = values[order[n / 2]];
  tg__free(order);
  return true;
}

static void judge_small_kernels(struct tg__facts *f, int64_t pieces, int64_t typical) {
  const int64_t wait = f->gap_ns[TG__GAP_PYTHON] + f->gap_ns[TG__GAP_HOST] + f->gap_ns[TG__GAP_LAUNCH];
  const double share =
      tg__pct(wait, (f->steps.window.end_ns - f->steps.window.start_ns) * (int64_t)f->gaps.device_count);
  if (pieces < MANY_KERNELS || typical >= SHORT_KERNEL_NS || share <= FEEDING_PCT) return;
  struct tg__finding *x = tg__find(f, TG__CAUSE_MANY_SMALL_OPS, share, FEEDING_PCT, tg__per_step(f, wait));
  TG_SAY(x->where, "kernels of the %s", tg__period(f));
  TG_SAY(x->evidence,
         "%lld kernels %s, half of them shorter than %.1f us; the device waits %.2f ms %s (%.1f %%) for the host to "
         "launch the next",
         (long long)pieces, tg__per(f), (double)typical / 1e3, tg__ms(x->cost_ns), tg__per(f), share);
  TG_SAY(x->advice, "Put more work into each launch: torch.compile(model, mode=\"reduce-overhead\") fuses kernels and "
                    "replays them as a CUDA "
                    "graph; or a larger batch.");
  const int64_t each = wait / (int64_t)f->gaps.device_count;
  tg__expect(f, x, each - each / 10, 0.5,
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
  TG_SAY(x->advice, "Do the same with fewer operations: batch them, use a fused layer, or torch.compile(model).");
}

void tg__judge_small_ops(struct tg__facts *f) {
  struct pieces p = {.t = f->t, .kernels = f->has_device_work, .track_end_op = TG_NONE};
  tg__visit(f, see_piece, &p);
  end_op(&p, TG_NONE);
  int64_t typical = 0;
  if (p.failed || (p.count && !median(p.durations, p.count, &typical))) f->failed = true;
  const int64_t pieces = tg__per_step(f, (int64_t)p.count);
  if (!f->failed && p.count && f->has_device_work) judge_small_kernels(f, pieces, typical);
  if (!f->failed && p.count && !f->has_device_work) judge_small_host_ops(f, pieces, typical, p.short_ns);
  tg__free(p.durations);
}
