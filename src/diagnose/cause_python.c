/* A program without a device spends its step in Python: which function, and what it is likely to be doing. */
#include <math.h>

#include "diagnose/samples.h"

enum { THRESHOLD_PCT = 10, EXPLAINS = 10 }; /* a function with less than a tenth of the time does not explain it */

/* Own time per name: a slice adds its duration to its name and takes it from its parent's. */
struct frames {
  struct tg__facts *facts;
  const struct tg__columns *t;
  int64_t load_until_ns; /* end of the loader's next the walk is in: what lies inside is the loader's */
  uint32_t load_track, loop_track;
  int64_t *own_ns;
  uint32_t *longest; /* slice per name of a Python frame */
};

/* The engine of autograd between two of its nodes is no Python, though Python called it. The loader's own frames,
 * which a step may begin in the middle of, are the loader's. A module is a label: what runs in it is the function,
 * where functions were recorded. To enter and leave a label is the recorder's work. */
static bool is_of_torch(struct tg__str name) {
  return tg__str_contains(name, "run_backward") || tg__str_contains(name, "_record_function_e") ||
         tg__str_has_prefix(name, "nn.Module: ") || tg__str_contains(name, "torch/utils/data/");
}

/* A label takes no time from the function that it stands in. */
static bool is_label(const struct frames *f, uint32_t slice, enum tg__class cls) {
  return cls == TG__CLASS_ANNOTATION && !(tg__slice_meaning(f->facts, slice) & TG__NAME_DATALOADER) &&
         tg__name_is_label(tg__slice_name(f->t, slice));
}

static uint32_t parent_of(const struct frames *f, uint32_t slice) {
  uint32_t parent = f->t->slices.parent[slice];
  while (parent != TG_NONE && is_label(f, parent, tg__slice_class(f->t, parent))) parent = f->t->slices.parent[parent];
  return parent;
}

static void see_frame(struct frames *f, uint32_t slice, enum tg__class cls) {
  if (is_label(f, slice, cls)) return;
  const struct tg__slices *s = &f->t->slices;
  const uint32_t parent = parent_of(f, slice), track = tg__slice_track(f->t, slice);
  if (track == f->load_track && s->start_ns[slice] < f->load_until_ns) return;
  if (f->loop_track != TG_NONE && track != f->loop_track) return; /* goes on beside the loop */
  if (cls == TG__CLASS_ANNOTATION && tg__slice_meaning(f->facts, slice) & TG__NAME_DATALOADER)
    f->load_until_ns = tg__slice_end(f->t, slice), f->load_track = track;
  f->own_ns[s->name[slice]] += s->dur_ns[slice];
  if (parent != TG_NONE) f->own_ns[s->name[parent]] -= s->dur_ns[slice];
  if (cls != TG__CLASS_PYTHON || is_of_torch(tg__name(f->t, s->name[slice]))) return;
  tg__keep_longest(f->t, &f->longest[s->name[slice]], slice);
}

/* The Python frame with most own time, TG_NONE without frames; *own_ns in the steps. */
static uint32_t busiest_frame(struct tg__facts *f, int64_t *own_ns) {
  const size_t names = tg__strings_count(f->t->strings);
  struct frames frames = {.facts = f,
                          .t = f->t,
                          .load_track = TG_NONE,
                          .loop_track = tg__loop_track(f),
                          .own_ns = tg__alloc_scratch(f, names, sizeof *frames.own_ns),
                          .longest = tg__alloc_scratch(f, names, sizeof *frames.longest)};
  uint32_t best = TG_NONE;
  *own_ns = 0;
  if (f->failed) return TG_NONE;
  memset(frames.longest, 0xff, (names + 1) * sizeof *frames.longest);
  TG__EACH_IN_STEPS (w, f) see_frame(&frames, w.slice, w.cls);
  for (size_t i = 0; i < names; i++) {
    if (frames.longest[i] == TG_NONE || frames.own_ns[i] <= *own_ns) continue;
    best = frames.longest[i];
    *own_ns = frames.own_ns[i];
  }
  return best;
}

static enum tg__cause cause_of_frame(const struct tg__facts *f, uint32_t frame) {
  const struct tg__str name = tg__slice_name(f->t, frame);
  if (tg__str_contains(name, "fsync") || tg__str_contains(name, "method flush of")) return TG__CAUSE_SYNC_LOGGING;
  if (f->t->slices.name[frame] == TG__K_PYTHON_GC) return TG__CAUSE_GC_PRESSURE;
  if (tg__str_contains(name, "function collect>") || tg__str_contains(name, "method collect of module"))
    return TG__CAUSE_GC_PRESSURE;
  return tg__doing_of_call(name) == TG__DOING_COMPUTE ? TG__CAUSE_SLOW_PYTHON_TRANSFORM : TG__CAUSE_HOST_WAITS;
}

static const char *advice_for(enum tg__cause cause, enum tg__doing doing) {
  switch (cause) {
  case TG__CAUSE_SYNC_LOGGING:
    return "Write records through a buffer and flush it every N-th step: logging.handlers.MemoryHandler, or no "
           "os.fsync in the loop.";
  case TG__CAUSE_GC_PRESSURE:
    return "Collect rarely: gc.freeze() after set-up, gc.disable() in the loop and gc.collect() every N-th step.";
  case TG__CAUSE_REPEATED_FILE_LOAD:
    return "Read and parse the file once, before the loop, and keep what was read.";
  default:
    return tg__doing_advice(doing);
  }
}

/* Where the function works itself: its calls without what they call, but for labels. */
static struct tg__spans *own_time_of(struct tg__facts *f, uint32_t frame) {
  const struct frames of = {.facts = f, .t = f->t, .loop_track = tg__loop_track(f)};
  const uint32_t *const names = f->t->slices.name, name = names[frame];
  struct tg__spans *const calls = tg__new_spans(f), *const inside = tg__new_spans(f);
  TG__EACH_IN_STEPS (w, f) {
    if (is_label(&of, w.slice, w.cls) || (of.loop_track != TG_NONE && tg__slice_track(f->t, w.slice) != of.loop_track))
      continue;
    const uint32_t parent = parent_of(&of, w.slice);
    if (names[w.slice] == name)
      tg__spans_add_slice(calls, f->t, w.slice);
    else if (parent != TG_NONE && names[parent] == name)
      tg__spans_add_slice(inside, f->t, w.slice);
  }
  tg__spans_union(inside);
  return tg__rest_of(f, calls, inside);
}

struct stretch { /* of Python: a function that was recorded, or what lies between two lines that call operators */
  uint32_t frame;
  int64_t ns;
  struct tg__spans *own; /* of the frame */
  struct tg__pause pause;
  struct tg__sampled seen; /* of the pause */
  int64_t still_ns; /* of the steps, on no core and ready for none: where nothing was seen, and that is half of it; 0 */
};

/* What the collector takes away from a stretch of Python that makes much garbage goes with that stretch. */
static bool is_part_of(const struct stretch *s) {
  return s->pause.read != TG_NONE ? s->pause.all_ns >= s->ns : 2 * s->pause.all_ns >= 3 * s->ns;
}

static struct stretch longest_stretch(struct tg__facts *f, int64_t other_ns) {
  struct stretch s = {.own = tg__new_spans(f), .pause = {.read = TG_NONE, .when = tg__new_spans(f)}};
  s.frame = busiest_frame(f, &s.ns);
  if (s.frame != TG_NONE) s.own = own_time_of(f, s.frame);
  const int64_t usual = tg__usual_place_of(f, s.own);
  if (usual < s.ns) s.ns = usual;
  if (s.ns < other_ns / EXPLAINS || tg__pct(s.ns, f->total_ns) <= THRESHOLD_PCT)
    s.frame =
        TG_NONE; /* some frame is always the busiest: of modules or of the collector, where calls are not recorded */
  const bool collects = s.frame != TG_NONE && f->t->slices.name[s.frame] == TG__K_PYTHON_GC;
  if (s.frame != TG_NONE && !collects) return s;
  tg__find_longest_pause(f, &s.pause);
  if (collects && !is_part_of(&s)) return s;
  s.frame = TG_NONE;
  s.ns = collects ? s.pause.all_ns : s.pause.usual_ns;
  tg__sample_stretches(f, s.pause.when, &s.seen);
  return s;
}

/* Of usual steps, without waiting for other ranks, the loader and what is marked; 0: not known. */
static int64_t time_off_core(struct tg__facts *f) {
  struct tg__tally all = {0};
  for (size_t i = 0; i < f->steps.count; i++) {
    const struct tg__step_cost *const s = &f->steps.steps[i];
    if (s->thread_cpu_ns == TG_NULL_INT || s->core_wait_ns == TG_NULL_INT) return 0;
    const int64_t ns = s->end_ns - s->start_ns - s->thread_cpu_ns - s->core_wait_ns -
                       s->part_ns[TG__PART_COMMUNICATION] - s->part_ns[TG__PART_DATALOADER];
    if (ns > 0) tg__tally_in(&all, i + 1, ns);
  }
  return tg__tally_sum(f, &all) - tg__marked_waits(f);
}

/* The clock of the thread says that it waits, not what for. Operators compute. */
static void look_at_clock(struct tg__facts *f, struct stretch *s) {
  const bool is_named = s->frame != TG_NONE && cause_of_frame(f, s->frame) != TG__CAUSE_SLOW_PYTHON_TRANSFORM;
  if (is_named || s->seen.is_known) return;
  const int64_t still_ns = time_off_core(f);
  if (2 * still_ns >= s->ns) s->still_ns = still_ns;
}

/* Reading a file computes, or waits for the disk: what was seen waiting for something else reads none. */
static bool reads_file(const struct stretch *s) {
  return s->pause.read != TG_NONE &&
         (!s->seen.is_known || s->seen.most == TG__DOING_COMPUTE || s->seen.most == TG__DOING_DISK);
}

static enum tg__cause cause_of(const struct tg__facts *f, const struct stretch *s) {
  if (s->frame == TG_NONE && reads_file(s)) return TG__CAUSE_REPEATED_FILE_LOAD;
  if (s->still_ns) return TG__CAUSE_HOST_WAITS;
  if (s->frame != TG_NONE) return cause_of_frame(f, s->frame);
  return s->seen.is_known && s->seen.most != TG__DOING_COMPUTE ? TG__CAUSE_HOST_WAITS : TG__CAUSE_SLOW_PYTHON_TRANSFORM;
}

static enum tg__doing doing_in(const struct tg__facts *f, const struct stretch *s) {
  if (s->still_ns) return TG__DOING_WAIT;
  if (s->frame != TG_NONE) return tg__doing_of_call(tg__slice_name(f->t, s->frame));
  return s->seen.is_known ? s->seen.most : TG__DOING_COMPUTE;
}

static void say_seen(const struct tg__sampled *seen, struct tg__finding *x) {
  TG_FORMAT(x->where, "%.*s", (int)seen->frame.len, seen->frame.ptr);
  TG_ADD(
      x->evidence,
      "%.2f ms of them there: %zu samples of the stack, %.0f %% of their time in this function; it %s for %.0f %% of "
      "it, and is on a core for %.0f %%",
      tg__ms(x->cost_ns), seen->count, tg__pct(seen->function_ns, seen->ns), tg__doing_words(seen->most),
      tg__pct(seen->doing_ns[seen->most], seen->ns), tg__pct(seen->cpu_ns, seen->ns));
}

static void say_stretch(const struct tg__facts *f, const struct stretch *s, struct tg__finding *x) {
  if (s->frame != TG_NONE) {
    const enum tg__doing doing = doing_in(f, s);
    tg__where_slice(f, s->frame, x);
    TG_ADD(x->evidence, "the Python function with most own time takes %.2f ms of it%s%s", tg__step_ms(f, s->ns),
           doing == TG__DOING_COMPUTE ? "" : "; it ", doing == TG__DOING_COMPUTE ? "" : tg__doing_words(doing));
    return;
  }
  if (!reads_file(s) && s->seen.is_known) {
    say_seen(&s->seen, x);
    return;
  }
  TG_FORMAT(x->where, "%s", s->pause.where);
  if (s->seen.frame.len) TG_FORMAT(x->where, "%.*s", (int)s->seen.frame.len, s->seen.frame.ptr);
  if (reads_file(s)) tg__where_slice(f, s->pause.read, x);
  TG_ADD(x->evidence, "%.2f ms of them %s", tg__ms(x->cost_ns),
         reads_file(s) ? "from a file that is opened there, in most steps, to the next operator" : "there");
}

/* Calls of a device's runtime or of NCCL, and no device event: where no operator runs the host may wait for a device
 * that was not recorded. */
static bool lacks_device(const struct tg__facts *f) {
  TG__EACH_IN_STEPS (w, f)
    if (w.cls == TG__CLASS_RUNTIME ||
        (tg__class_is_host(w.cls) && tg__str_has_prefix(tg__slice_name(f->t, w.slice), "nccl:")))
      return true;
  return false;
}

/* The time of the steps; on a busy machine without what the loop's thread waited for a core, as what nine of ten steps
 * spend at a place has no such wait in it either. */
static int64_t time_of_steps(const struct tg__facts *f) {
  int64_t waited_ns = 0;
  for (size_t i = 0; f->noise.is_busy && i < f->steps.count; i++)
    if (f->steps.steps[i].core_wait_ns != TG_NULL_INT) waited_ns += f->steps.steps[i].core_wait_ns;
  const double rest = 1 - (double)waited_ns / (double)f->sum_ns;
  return (int64_t)((double)f->total_ns * fmax(rest, 0));
}

/* What seems to compute, and has a core for less than a tenth of it, may as well have slept and been woken. */
static bool is_doubtful(const struct tg__facts *f, const struct stretch *s) {
  return f->noise.is_busy && s->frame == TG_NONE && s->seen.is_known && s->seen.most == TG__DOING_COMPUTE &&
         10 * s->seen.cpu_ns < s->seen.doing_ns[TG__DOING_COMPUTE];
}

static void report_stretch(struct tg__facts *f, const struct stretch *s, int64_t other) {
  const enum tg__cause cause = cause_of(f, s);
  const int64_t all = time_of_steps(f), least = s->ns < other ? s->ns : other, cost = least < all ? least : all;
  struct tg__finding *x = tg__finding_add(f, cause, tg__pct(cost, all), THRESHOLD_PCT, tg__per_step(f, cost));
  TG_FORMAT(x->evidence, "no operator runs during %.2f ms of each %.2f ms step (%.1f %%); ", tg__step_ms(f, other),
            tg__step_ms(f, f->total_ns), tg__pct(other, f->total_ns));
  if (all < f->total_ns)
    TG_ADD(x->evidence, "without its waits for a core a step takes %.2f ms; ", tg__step_ms(f, all));
  TG_FORMAT(x->advice, "%s", advice_for(cause, doing_in(f, s)));
  say_stretch(f, s, x);
  if (s->still_ns)
    TG_ADD(x->evidence,
           "; the thread is on no core, and ready for none, for %.2f ms of a step: it waits, for what was not recorded",
           tg__step_ms(f, s->still_ns));
  tg__claim_spans(f, x, s->frame != TG_NONE ? s->own : s->pause.when);
  const bool has_place = s->frame != TG_NONE || strstr(x->where, ".py(");
  tg__finding_expect(f, x, cost - cost / 10,
                     !has_place                                 ? 0.3
                     : cause == TG__CAUSE_SLOW_PYTHON_TRANSFORM ? 0.6
                                                                : 0.85,
                     "the time without operators there, but for a tenth");
}

/* Where operators wait longest for Python: a function that was recorded, else two lines that operators are called
 * from. The pauses between operators in general are not meant: each is short, and together they are the price of
 * Python. */
void tg__judge_python(struct tg__facts *f) {
  struct tg__tally bare = {0};
  for (size_t i = 0; i < f->steps.count; i++)
    tg__tally_in(&bare, i + 1, f->steps.steps[i].part_ns[TG__PART_OTHER] + f->steps.steps[i].label_ns);
  const int64_t other = tg__tally_sum(f, &bare);
  const double share = tg__pct(other, f->total_ns);
  if (f->has_device_work || share <= THRESHOLD_PCT || !tg__has_steps(f)) return; /* idle-device looks at devices */
  if (lacks_device(f)) {
    tg__cannot_judge(f, TG__CAUSE_SLOW_PYTHON_TRANSFORM,
                     "a device is used and was not recorded; add ProfilerActivity.CUDA to the activities");
    return;
  }
  struct stretch s = longest_stretch(f, other);
  const bool is_long = tg__pct(s.ns, time_of_steps(f)) > THRESHOLD_PCT && !is_doubtful(f, &s);
  if (is_long) look_at_clock(f, &s);
  const bool is_wait = s.frame != TG_NONE && 2 * tg__marked_waits(f) > s.ns, /* which is reported as such */
      is_gil = s.seen.is_known && s.seen.most == TG__DOING_GIL && tg__has_found(f, TG__CAUSE_GIL_CONTENTION);
  if (is_long && !is_wait && !is_gil) report_stretch(f, &s, other);
  const double without_waits = tg__pct(other - tg__marked_waits(f), f->total_ns);
  if (!is_long && f->noise.is_busy && without_waits > THRESHOLD_PCT)
    tg__finding_withhold(f, TG__CAUSE_SLOW_PYTHON_TRANSFORM, without_waits, tg__busy_machine);
}
