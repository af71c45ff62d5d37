/* A device that waits: idle for a part of the step, held up by synchronisation or copies. */
#include "diagnose/samples.h"

enum {
  IDLE_PCT = 20,
  HOLD_UP_PCT = 5,
  FEW_EVENTS = 100,
  LITTLE_PCT = 20,
  LONG_QUEUED_NS = 50000,
  REPLAYED_PCT = 50,
  RECURS = 10,
  STRETCH_SHARE = 40 /* a gap of this part of a step is a stretch */
};

/* ---- utilisation of one device --------------------------------------------------------------- */

static bool kernel_spans(const struct tg__facts *f, int64_t device, struct tg__spans *out) {
  const struct tg__columns *t = f->t;
  const struct tg__rank *r = &t->ranks[f->rank];
  bool any = false;
  TG__EACH (k, tg__tracks_of(r)) {
    const struct tg__track *track = &t->tracks[k];
    if (track->device != device) continue;
    TG__EACH (i, tg__slices_of(track)) {
      const enum tg__class cls = tg__slice_class(t, i);
      const bool is_other = cls == TG__CLASS_DEVICE_OTHER && strcmp(tg__kernel_type(t, i), "MEMORY") != 0;
      if (cls != TG__CLASS_KERNEL && !is_other) continue;
      tg__spans_add_slice(out, t, i);
      any = true;
    }
  }
  tg__spans_union(out);
  return any;
}

static bool has_host(const struct tg__facts *f) {
  TG__EACH (k, tg__tracks_of(&f->t->ranks[f->rank]))
    if (f->t->tracks[k].kind == TG__TRACK_CPU && f->t->tracks[k].count) return true;
  return false;
}

static const char *idle_advice(const struct tg__facts *f, enum tg__gap_cause most, bool is_stretch, bool is_compiled) {
  const bool replays = 100 * f->replayed > REPLAYED_PCT * f->device_events;
  if (is_compiled)
    return "This is compiled, and launching it takes longer than the device works: let it be replayed as a CUDA graph, "
           "torch.compile(model, mode=\"reduce-overhead\"), with shapes that stay the same.";
  if (is_stretch && (most == TG__GAP_PYTHON || most == TG__GAP_HOST))
    return "Do that while the device works on the step before: in worker processes, or a thread that runs ahead; or do "
           "it on "
           "the device, or less of it.";
  switch (most) {
  case TG__GAP_DATA:
    return "Feed it faster: DataLoader(..., num_workers=4, pin_memory=True, persistent_workers=True).";
  case TG__GAP_SYNC:
    return "Remove .item(), .cpu(), print(tensor) and torch.cuda.synchronize() from the loop, or do them every N-th "
           "step.";
  case TG__GAP_COPY:
    return "Copy from pinned memory with tensor.to(device, non_blocking=True).";
  case TG__GAP_QUEUED:
    return replays
               ? "The kernels are replayed as a graph already, and follow each other with pauses: use fewer, larger "
                 "kernels."
               : "Kernels follow each other with pauses although they are queued: use fewer, larger kernels, or "
                 "capture the step with torch.cuda.CUDAGraph.";
  case TG__GAP_NONE:
    return has_host(f)
               ? "There is nothing to change where the program waits for requests or input; where it does not, stacks "
                 "(with_stack=True) or record_function() around its parts show what it does."
               : "Record the host too, to see why: profile(activities=[ProfilerActivity.CPU, "
                 "ProfilerActivity.CUDA]).";
  default:
    return replays
               ? "Most kernels are replayed as a graph already: shorten what the host does between two replays, or "
                 "let it prepare the next one meanwhile."
               : "The host does not launch fast enough: torch.compile(model, mode=\"reduce-overhead\"), or a larger "
                 "batch.";
  }
}

static const char *const while_doing[TG__GAP_CAUSE_COUNT] = {
    [TG__GAP_NONE] = "while nothing of the host was recorded", [TG__GAP_QUEUED] = "although work was queued",
    [TG__GAP_PYTHON] = "while the host is in Python",          [TG__GAP_HOST] = "while the host is in operators",
    [TG__GAP_LAUNCH] = "while the host is in launch calls",    [TG__GAP_COPY] = "while the host is in copy calls",
    [TG__GAP_SYNC] = "because the host waits for it",          [TG__GAP_DATA] = "while the host loads data",
};

const char *tg__utilisation_class(double busy_pct) {
  return busy_pct >= 90   ? "device bound"
         : busy_pct >= 80 ? "mostly device bound"
         : busy_pct >= 70 ? "held up by the host now and then"
         : busy_pct >= 50 ? "held up by the host"
                          : "mostly idle";
}

/* ---- before the first work of the window, or behind the last --------------------------------- */

struct edge {
  const struct tg__columns *t;
  int64_t start_ns, end_ns;
  uint32_t during; /* shortest slice of the host that covers most of it */
};

static void see_host(struct edge *e, uint32_t slice, enum tg__class cls) {
  const int64_t start = e->t->slices.start_ns[slice], end = tg__slice_end(e->t, slice);
  const int64_t covered = (end < e->end_ns ? end : e->end_ns) - (start > e->start_ns ? start : e->start_ns);
  if (!tg__class_is_host(cls) || 4 * covered < 3 * (e->end_ns - e->start_ns)) return;
  if (e->during == TG_NONE || e->t->slices.dur_ns[slice] < e->t->slices.dur_ns[e->during]) e->during = slice;
}

static struct edge longer_edge(const struct tg__facts *f, int64_t device) {
  const struct tg__window *const steps = &f->steps.window;
  int64_t first = steps->end_ns, last = steps->start_ns;
  TG__EACH_IN_STEPS (w, f) {
    if (!tg__class_is_device_work(w.cls) || tg__device_of(f, w.slice) != device) continue;
    const int64_t start = f->t->slices.start_ns[w.slice], end = tg__slice_end(f->t, w.slice);
    if (start < first) first = start;
    if (end > last) last = end;
  }
  const bool before = first - steps->start_ns > steps->end_ns - last;
  return (struct edge){f->t, before ? steps->start_ns : last, before ? first : steps->end_ns, TG_NONE};
}

/* In a step the host is busy with something there, such as the next input; a recording without steps may simply be
 * too long. */
static void describe_edges(struct tg__facts *f, int64_t device, struct tg__finding *x) {
  struct edge e = longer_edge(f, device);
  const int64_t edge_ns = e.end_ns - e.start_ns, rest_ns = f->window_ns - edge_ns;
  TG__EACH_IN_STEPS (w, f) see_host(&e, w.slice, w.cls);
  tg__finding_claim(f, x, e.start_ns, e.end_ns);
  if (e.during != TG_NONE) tg__where_slice(f, e.during, x);
  TG_ADD(x->evidence, "; of the rest %.2f ms lie %s", tg__ms(edge_ns),
         e.start_ns == f->steps.window.start_ns ? "before its first work, in one stretch"
                                                : "behind its last work, in one stretch");
  TG_FORMAT(x->advice,
            "Do what the host does there while the device works on the step before: a DataLoader with workers, "
            "or a thread that runs ahead; "
            "or do it on the device.");
  x->saving_ns = tg__per_step(f, edge_ns < rest_ns ? edge_ns : rest_ns);
  x->confidence = 0.5;
  x->method = "that stretch and the rest of the step go on side by side";
}

/* What closing the gaps is worth depends on what they are: what one part of the program does there goes on beside the
 * device's work, half of what else the host does there can go, or the device pauses half as long. */
static void expect_of_waits(struct tg__facts *f, struct tg__finding *x, enum tg__gap_cause most, int64_t ns,
                            bool is_stretch, bool is_compiled) {
  const bool by_host = most == TG__GAP_PYTHON || most == TG__GAP_HOST || most == TG__GAP_LAUNCH;
  x->is_statement = most == TG__GAP_NONE;
  if (most == TG__GAP_NONE) {
    x->method = "what would close these gaps was not recorded";
    return;
  }
  const int64_t gone = is_compiled              ? tg__steps_shortened(f, ns - ns / 10, 0, 0)
                       : by_host && !is_stretch ? tg__steps_shortened(f, ns / 2, 0, 0)
                       : most == TG__GAP_QUEUED ? tg__steps_shortened(f, 0, 0, ns / 2)
                                                : tg__steps_shortened(f, 0, 0, ns),
                rest_ns = f->window_ns - ns, busy_ns = f->device_busy_ns, /* that part stays as long as it is */
      most_ns = !is_stretch         ? gone
                : rest_ns < busy_ns ? rest_ns
                                    : busy_ns;
  x->saving_ns = tg__per_step(f, gone < most_ns ? gone : most_ns);
  x->confidence = 0.4;
  x->method = is_compiled             ? "replayed kernels follow each other, but for a tenth of the waiting"
              : by_host && is_stretch ? "that part and the work of the device go on side by side"
              : by_host               ? "the host takes half as long for what it does there"
              : most == TG__GAP_QUEUED
                  ? "the pauses between kernels are half as long"
                  : "these gaps close, as far as host and device have less to do than a step takes";
}

/* Pauses of a stream that has work are some microseconds; longer ones are for another stream, an event, or work that
 * the trace lacks. */
static int64_t long_queued(const struct tg__facts *f, int64_t device) {
  const struct tg__window *w = &f->steps.window;
  int64_t ns = 0;
  for (size_t i = 0; i < f->gaps.count; i++) {
    const struct tg__gap *const g = &f->gaps.items[i];
    const bool counts = g->device == device && g->cause == TG__GAP_QUEUED && g->start_ns >= w->start_ns &&
                        g->end_ns <= w->end_ns && g->end_ns - g->start_ns > LONG_QUEUED_NS;
    ns += counts ? g->end_ns - g->start_ns : 0;
  }
  return ns;
}

struct waits { /* of one device, in usual steps, times the steps */
  int64_t ns[TG__GAP_CAUSE_COUNT], all_ns;
  enum tg__gap_cause most;
};

static struct waits waits_of(struct tg__facts *f, int64_t device, struct tg__finding *x) {
  struct waits w = {.most = TG__GAP_NONE};
  for (enum tg__gap_cause c = 0; c < TG__GAP_CAUSE_COUNT; c++) {
    const struct tg__spans *const spans = tg__gap_spans(f, device, c);
    w.all_ns += w.ns[c] = tg__usual_sum(f, spans);
    tg__claim_spans(f, x, spans);
    if (w.ns[c] > w.ns[w.most]) w.most = c;
  }
  return w;
}

/* What the host does there, where the recorder looked. */
static void say_sampled(struct tg__facts *f, int64_t device, struct tg__finding *x) {
  struct tg__sampled seen;
  tg__sample_stretches(f, tg__gap_spans(f, device, TG__GAP_PYTHON), &seen);
  if (!seen.is_known) return;
  TG_FORMAT(x->where, "%.*s", (int)seen.frame.len, seen.frame.ptr);
  TG_ADD(x->evidence, "; by %zu samples of the stack it %s there for %.0f %% of the time", seen.count,
         tg__doing_words(seen.most), tg__pct(seen.doing_ns[seen.most], seen.ns));
  TG_FORMAT(x->advice, "%s", tg__doing_advice(seen.most));
}

bool tg__is_step_slice(const struct tg__facts *f, uint32_t slice) {
  const size_t begun = tg__steps_begun(&f->steps, f->t->slices.start_ns[slice]);
  const uint32_t step = begun ? f->steps.steps[begun - 1].step : TG_NONE;
  return (step != TG_NONE && f->t->steps[step].slice == slice) ||
         tg__name_is_profiler_step(tg__slice_name(f->t, slice), NULL);
}

/* Names the part of the program that holds the gaps of this cause. Returns whether they are long stretches of it, and
 * it is more than an operator of torch. */
static bool say_part(struct tg__facts *f, int64_t device, enum tg__gap_cause cause, struct tg__finding *x,
                     bool *is_compiled) {
  const struct tg__holder most = tg__find_holder(f, device, 1U << cause);
  *is_compiled = most.slice != TG_NONE && most.is_half && tg__is_in_compiled(f->t, most.slice);
  if (most.slice == TG_NONE) return false;
  tg__where_slice(f, most.slice, x);
  if (!most.is_half)
    TG_ADD(x->evidence, ", %.0f %% of it in %.*s", most.pct, (int)tg__slice_name(f->t, most.slice).len,
           tg__slice_name(f->t, most.slice).ptr);
  return most.is_half && !*is_compiled && most.longest_ns >= f->median_ns / STRETCH_SHARE &&
         !tg__str_has_prefix(tg__slice_name(f->t, most.slice), "aten::");
}

/* idle: without a kernel in usual steps. Part of it may lie outside the device's first and last work, part in
 * copies. */
static bool describe_waits(struct tg__facts *f, int64_t device, int64_t idle, struct tg__finding *x) {
  const struct waits w = waits_of(f, device, x);
  if (2 * w.all_ns < idle) {
    tg__spans_free(&x->claim);
    if (!tg__has_steps(f)) return false;
    describe_edges(f, device, x);
    return true;
  }
  if (w.most == TG__GAP_QUEUED && 2 * long_queued(f, device) > w.ns[TG__GAP_QUEUED]) return false;
  TG_ADD(x->evidence, "; between its work it stands still for %.2f ms %s, %.0f %% of that %s", tg__step_ms(f, w.all_ns),
         tg__period_per(f), tg__pct(w.ns[w.most], w.all_ns), while_doing[w.most]);
  bool is_compiled = false;
  const bool is_stretch =
      w.most != TG__GAP_QUEUED && w.most != TG__GAP_NONE && say_part(f, device, w.most, x, &is_compiled);
  TG_FORMAT(x->advice, "%s", idle_advice(f, w.most, is_stretch, is_compiled));
  if (w.most == TG__GAP_PYTHON) say_sampled(f, device, x);
  expect_of_waits(f, x, w.most, w.all_ns, is_stretch, is_compiled);
  return true;
}

/* Without a kernel of the device, in usual steps, times the steps. */
static int64_t idle_of(struct tg__facts *f, int64_t device, bool *any) {
  const struct tg__window *w = &f->steps.window;
  struct tg__spans *const kernels = tg__new_spans(f), *const window = tg__new_spans(f);
  *any = kernel_spans(f, device, kernels);
  tg__spans_add(window, w->start_ns, w->end_ns);
  return tg__usual_sum(f, tg__rest_of(f, tg__rest_of(f, window, kernels), &f->one_off));
}

static void judge_one_device(struct tg__facts *f, int64_t device) {
  const int64_t window = f->median_ns * (int64_t)f->steps.count;
  bool any;
  const int64_t idle = idle_of(f, device, &any);
  if (!any || window <= 0 || idle > window || 100 * idle <= IDLE_PCT * window) return;
  struct tg__finding *x =
      tg__finding_add(f, TG__CAUSE_IDLE_DEVICE, tg__pct(idle, window), IDLE_PCT, tg__per_step(f, idle));
  x->is_symptom = true;
  TG_FORMAT(x->where, "device %lld", (long long)device);
  TG_FORMAT(x->evidence, "kernels run %.1f %% of the time: %.2f of %.2f ms %s (%s)", tg__pct(window - idle, window),
            tg__step_ms(f, window - idle), tg__step_ms(f, window), tg__period_per(f),
            tg__utilisation_class(tg__pct(window - idle, window)));
  if (describe_waits(f, device, idle, x)) return;
  tg__drop_last(f);
  tg__cannot_judge(f, TG__CAUSE_IDLE_DEVICE,
                   !tg__has_steps(f) && f->gap_ns[TG__GAP_QUEUED] * 2 < idle
                       ? "the device works only in a part of the recording; record steps of it with "
                         "schedule(wait=1, warmup=2, active=5)"
                       : "it waits although work is queued, for an event, another stream or work that the trace lacks; "
                         "enable_cuda_sync_events=True records which");
}

/* ---- what the host does to it ---------------------------------------------------------------- */

static void judge_copy_calls(struct tg__facts *f) {
  const int64_t each_ns = f->gap_ns[TG__GAP_COPY] / (int64_t)f->gaps.device_count;
  const double share = tg__pct(each_ns, f->window_ns);
  if (share <= HOLD_UP_PCT) return;
  const struct tg__gap *longest = NULL;
  int64_t count = 0;
  struct tg__finding *x = tg__finding_add(f, TG__CAUSE_BLOCKING_COPY, share, HOLD_UP_PCT, tg__per_step(f, each_ns));
  for (size_t i = 0; i < f->gaps.count; i++) {
    const struct tg__gap *g = &f->gaps.items[i];
    if (g->cause != TG__GAP_COPY || g->end_ns <= f->steps.window.start_ns || g->start_ns >= f->steps.window.end_ns)
      continue;
    if (tg__spans_inside(&f->one_off, g->start_ns, g->end_ns)) continue;
    tg__finding_claim(f, x, g->start_ns, g->end_ns);
    count++;
    if (!longest || g->end_ns - g->start_ns > longest->end_ns - longest->start_ns) longest = g;
  }
  if (longest && longest->during != TG_NONE)
    tg__where_slice(f, longest->during, x);
  else
    TG_FORMAT(x->where, "device %lld", (long long)(longest ? longest->device : -1));
  TG_FORMAT(
      x->evidence,
      "%lld time%s the device stood still while the host was inside a copy call: %.2f ms %s (%.1f %%), the longest "
      "%.2f ms",
      (long long)count, count == 1 ? "" : "s", tg__ms(x->cost_ns), tg__period_per(f), share,
      longest ? tg__ms(longest->end_ns - longest->start_ns) : 0);
  TG_FORMAT(x->advice,
            "Copy from pinned memory without waiting: DataLoader(..., pin_memory=True) and tensor.to(device, "
            "non_blocking=True).");
  tg__expect_of_device(f, x, 0, each_ns, 0.6,
                       "these gaps close, as far as host and device each have less to do than a step takes");
}

/* A handful of kernels that run for a small part of the time, or a recording without steps in which hardly one comes
 * again, is a toy or a cut-out: how the device is used at work does not show there. */
bool tg__has_little_work(const struct tg__facts *f) {
  const bool is_little = 100 * f->device_busy_ns < LITTLE_PCT * f->window_ns;
  const bool is_once = !tg__has_steps(f) && f->device_events < RECURS * f->device_names;
  return is_little && (f->device_events < FEW_EVENTS || is_once);
}

bool tg__next_device(const struct tg__facts *f, int64_t *device) {
  int64_t next = INT64_MAX;
  TG__EACH (k, tg__tracks_of(&f->t->ranks[f->rank])) {
    const struct tg__track *const track = &f->t->tracks[k];
    if (track->kind == TG__TRACK_DEVICE && track->device > *device && track->device < next) next = track->device;
  }
  *device = next;
  return next != INT64_MAX;
}

void tg__judge_idle_device(struct tg__facts *f) {
  if (!f->has_device_work) {
    tg__cannot_judge_device(f, TG__CAUSE_IDLE_DEVICE, "no device work in the trace");
    return;
  }
  if (tg__has_little_work(f)) {
    char why[160];
    TG_FORMAT(why, "%lld piece%s of device work in %.1f %% of the time: too few; record steps of the real work",
              (long long)f->device_events, f->device_events == 1 ? "" : "s", tg__pct(f->device_busy_ns, f->window_ns));
    tg__cannot_judge(f, TG__CAUSE_IDLE_DEVICE, why);
    return;
  }
  for (int64_t device = INT64_MIN; tg__next_device(f, &device);) judge_one_device(f, device);
  judge_copy_calls(f);
}
