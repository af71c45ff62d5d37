/* The host waits for a device, and the device then for the host: what had been launched ahead is used up. */
#include "diagnose/findings.h"

enum { HOLD_UP_PCT = 5 };

struct waits { /* of one kind at one line */
  enum tg__sync_kind kind;
  int64_t ns, longest_ns; /* of the gaps */
  uint32_t wait;          /* the call at the longest of them */
};
struct syncs {
  struct tg__facts *f;
  uint32_t *calls; /* of the runtime that wait, by start */
  size_t count, cap;
  int64_t kind_ns[TG__SYNC_KIND_COUNT]; /* of the gaps */
  struct tg__strings *lines;
  struct tg__map place_of; /* line and kind → place */
  struct waits *places;
  size_t place_count, place_cap;
  int64_t gaps, longest_gap_ns;
};

static const char *sync_advice(enum tg__sync_kind kind) {
  static const char *const advice[TG__SYNC_KIND_COUNT] = {
      [TG__SYNC_ITEM] = "Keep the value on the device: add losses up as tensors, and call .item() every N-th step.",
      [TG__SYNC_CPU] =
          "Copy to pinned memory with .to(\"cpu\", non_blocking=True) and read it a step later, or copy every "
          "N-th step.",
      [TG__SYNC_NUMPY] =
          "Stay with tensors on the device, or copy to pinned memory with non_blocking=True and read it a "
          "step later.",
      [TG__SYNC_TOLIST] = "Collect the values in a tensor on the device, and call .tolist() once, after the loop.",
      [TG__SYNC_PRINT] = "Print every N-th step, or a value that was copied a step earlier.",
      [TG__SYNC_TRUTH] =
          "Decide on the device: torch.where or a mask in place of `if tensor`; or decide by the value of the "
          "step before.",
      [TG__SYNC_METRIC] = "Update metrics with tensors on the device, and compute their values once an epoch.",
      [TG__SYNC_SIZE] = "Make the result of a fixed size: torch.where(mask, x, 0) in place of x[mask], or "
                        "torch.nonzero_static.",
      [TG__SYNC_DEVICE] =
          "Take torch.cuda.synchronize() out of the loop; to measure, use torch.cuda.Event or a profiler.",
      [TG__SYNC_STREAM] = "Let streams wait for each other with events (stream.wait_event), not the host for them.",
      [TG__SYNC_EVENT] =
          "Ask the event later (event.query), or let the stream wait for it (stream.wait_event), not the "
          "host.",
      [TG__SYNC_COPY] = "Copy from pinned memory with tensor.to(device, non_blocking=True).",
      [TG__SYNC_FREE] = "Keep the memory: no torch.cuda.empty_cache() in the loop; where the allocator releases it by "
                        "itself, less of it in use, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
  };
  return advice[kind]
             ? advice[kind]
             : "Keep values on the device: drop .item(), .cpu(), print(tensor) and torch.cuda.synchronize() in "
               "the loop, or do them every N-th step.";
}

static void see_waiting_call(struct syncs *s, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *const t = s->f->t;
  const bool copies_back = cls == TG__CLASS_MEMCPY && t->slices.cause[slice] != TG_NONE &&
                           tg__str_contains(tg__slice_name(t, slice), "Device -> Pageable");
  const uint32_t call = copies_back                                                            ? t->slices.cause[slice]
                        : cls == TG__CLASS_RUNTIME && tg__call_waits(tg__slice_name(t, slice)) ? slice
                                                                                               : TG_NONE;
  if (call == TG_NONE || tg__slice_class(t, call) != TG__CLASS_RUNTIME) return;
  TG__PUSH(s->f, s->calls, s->count, s->cap, call);
}

static bool starts_earlier(uint32_t a, uint32_t b, const void *ctx) {
  const int64_t *const start_ns = ((const struct tg__columns *)ctx)->slices.start_ns;
  return start_ns[a] != start_ns[b] ? start_ns[a] < start_ns[b] : a < b;
}

/* The call that waits when a gap begins; TG_NONE. */
static uint32_t call_at(const struct syncs *s, int64_t ns) {
  const struct tg__columns *const t = s->f->t;
  size_t low = 0;
  TG__PARTITION(low, s->count, i, t->slices.start_ns[s->calls[i]] <= ns);
  return low && tg__slice_end(t, s->calls[low - 1]) >= ns ? s->calls[low - 1] : TG_NONE;
}

/* A long gap in which the host does one thing after the wait: that thing is what the device waits for. */
static bool is_of_other(const struct syncs *s, const struct tg__gap *g, uint32_t wait) {
  enum { LONG_NS = 1000000 };
  const struct tg__columns *const t = s->f->t;
  return g->end_ns - g->start_ns >= LONG_NS && g->during != TG_NONE && !tg__is_step_slice(s->f, g->during) &&
         t->slices.start_ns[g->during] >= tg__slice_end(t, wait);
}

/* The host waits in it, or was waiting when it began, and has to launch again. */
static bool is_held_up(const struct syncs *s, const struct tg__gap *g, uint32_t *wait) {
  *wait = call_at(s, g->start_ns);
  const bool is_after =
      *wait != TG_NONE && (g->cause == TG__GAP_PYTHON || g->cause == TG__GAP_HOST || g->cause == TG__GAP_LAUNCH);
  if (g->cause == TG__GAP_SYNC && *wait == TG_NONE) *wait = g->during;
  return g->cause == TG__GAP_SYNC || (is_after && !is_of_other(s, g, *wait));
}

/* NULL on no memory. */
static struct waits *waits_at(struct syncs *s, uint32_t wait, enum tg__sync_kind kind) {
  struct tg__out line = {0};
  if (wait != TG_NONE) tg__user_line(s->f->t, wait, &line);
  const uint32_t text = tg__strings_add(s->lines, line.buf ? line.buf : "", line.len);
  uint32_t *const at = tg__map_slot(&s->place_of, (uint64_t)text << 8 | kind, (uint32_t)s->place_count);
  bool done = !line.err && text != TG_NONE && at;
  tg__out_free(&line);
  if (done && *at == s->place_count) {
    done = tg__grow((void **)&s->places, &s->place_cap, s->place_count + 1, sizeof *s->places);
    if (done) s->places[s->place_count++] = (struct waits){.kind = kind, .wait = wait};
  }
  s->f->failed |= !done;
  return done ? &s->places[*at] : NULL;
}

static void count_gap(struct syncs *s, const struct tg__gap *g, uint32_t wait) {
  const int64_t ns = g->end_ns - g->start_ns;
  const enum tg__sync_kind kind = tg__sync_kind_behind(s->f->t, wait, g->before);
  s->kind_ns[kind] += ns;
  s->gaps++;
  if (ns > s->longest_gap_ns) s->longest_gap_ns = ns;
  struct waits *const x = waits_at(s, wait, kind);
  if (!x) return;
  x->ns += ns;
  if (ns > x->longest_ns) x->longest_ns = ns, x->wait = wait;
}

/* Of all devices, in usual steps, times the steps. */
static int64_t gather_gaps(struct syncs *s, struct tg__finding *x) {
  struct tg__facts *const f = s->f;
  const struct tg__window *const w = &f->steps.window;
  int64_t sum = 0;
  for (size_t from = 0, to; from < f->gaps.count; from = to) {
    struct tg__spans *const all = tg__new_spans(f);
    for (to = from; to < f->gaps.count && f->gaps.items[to].device == f->gaps.items[from].device; to++) {
      const struct tg__gap *const g = &f->gaps.items[to];
      uint32_t wait;
      if (g->end_ns <= w->start_ns || g->start_ns >= w->end_ns || !is_held_up(s, g, &wait)) continue;
      if (tg__spans_inside(&f->one_off, g->start_ns, g->end_ns)) continue;
      tg__spans_add(all, g->start_ns, g->end_ns);
      tg__finding_claim(f, x, g->start_ns, g->end_ns);
      count_gap(s, g, wait);
    }
    sum += tg__usual_sum(f, tg__rest_of(f, all, &f->one_off));
  }
  return sum;
}

static enum tg__sync_kind most_of(const struct syncs *s) {
  enum tg__sync_kind most = TG__SYNC_OTHER;
  for (enum tg__sync_kind k = 0; k < TG__SYNC_KIND_COUNT; k++)
    if (s->kind_ns[k] > s->kind_ns[most]) most = k;
  return most;
}

/* The call that waits at the longest gap of the line with most of them. */
static uint32_t worst_wait(const struct syncs *s, enum tg__sync_kind kind) {
  const struct waits *worst = NULL;
  for (size_t i = 0; i < s->place_count; i++)
    if (s->places[i].kind == kind && (!worst || s->places[i].ns > worst->ns)) worst = &s->places[i];
  return worst ? worst->wait : TG_NONE;
}

static void describe_syncs(struct syncs *s, int64_t each_ns, struct tg__finding *x) {
  struct tg__facts *const f = s->f;
  const enum tg__sync_kind kind = most_of(s);
  const uint32_t wait = worst_wait(s, kind);
  int64_t all_ns = 0;
  for (enum tg__sync_kind k = 0; k < TG__SYNC_KIND_COUNT; k++) all_ns += s->kind_ns[k];
  if (wait != TG_NONE)
    tg__where_slice(f, tg__sync_unit(f->t, wait), x);
  else
    TG_FORMAT(x->where, "device %lld", (long long)f->gaps.items[0].device);
  TG_FORMAT(
      x->evidence,
      "%lld time%s the device stood still while the host waited for it before launching more, or behind such a wait: "
      "%.2f ms %s (%.1f %%), the longest %.2f ms",
      (long long)s->gaps, s->gaps == 1 ? "" : "s", tg__ms(each_ns), tg__period_per(f), x->share_pct,
      tg__ms(s->longest_gap_ns));
  if (kind != TG__SYNC_OTHER)
    TG_ADD(x->evidence, "; %.0f %% of that by %s", tg__pct(s->kind_ns[kind], all_ns), tg__sync_kind_names[kind]);
  TG_FORMAT(x->advice, "%s", sync_advice(kind));
}

static void report_syncs(struct syncs *s) {
  struct tg__facts *const f = s->f;
  struct tg__finding *const x = tg__finding_add(f, TG__CAUSE_HOST_SYNCHRONISATION, 0, HOLD_UP_PCT, 0);
  const int64_t each_ns = gather_gaps(s, x) / (int64_t)f->gaps.device_count;
  x->share_pct = tg__pct(each_ns, f->window_ns);
  x->cost_ns = tg__per_step(f, each_ns);
  if (x->share_pct <= HOLD_UP_PCT) {
    tg__drop_last(f);
    return;
  }
  describe_syncs(s, x->cost_ns, x);
  tg__expect_of_device(f, x, 0, each_ns, 0.6,
                       "these gaps close, as far as host and device each have less to do than a step takes");
}

void tg__judge_syncs(struct tg__facts *f) {
  if (!f->has_device_work || !f->gaps.count || tg__has_little_work(f)) return;
  struct syncs s = {.f = f, .lines = tg__strings_new()};
  TG__EACH_IN_STEPS (w, f) see_waiting_call(&s, w.slice, w.cls);
  f->failed |= !s.lines || !tg__sort_index(s.calls, s.count, starts_earlier, f->t);
  if (!f->failed) report_syncs(&s);
  if (s.lines) tg__strings_free(s.lines);
  tg__map_free(&s.place_of);
  tg__free(s.places);
  tg__free(s.calls);
}
