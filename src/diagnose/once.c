/* What comes once: calls that load code or make memory at their first use, and one wait that is longer than all others
 * of a recording without steps. It is reported apart, and counts for no step. */
#include "diagnose/findings.h"

enum { LEAST_NS = 1000000, TIMES_USUAL = 20, IDLE_PCT = 80, MOST_PCT = 50 };

struct usual { /* of the calls of one name that are no longer than LEAST_NS; of the others in how many steps they are */
  int64_t count, sum_ns;
  size_t steps, step; /* step: the last of them, and one */
};
struct once {
  struct tg__facts *f;
  struct usual *usual; /* by name */
  struct tg__spans *idle, *calls;
  int64_t longest_ns, count;
  uint32_t longest;
  bool counts_steps; /* first the steps that have such calls are counted */
};

static void learn_usual(struct once *o, uint32_t slice, enum tg__class cls) {
  const int64_t dur = o->f->t->slices.dur_ns[slice];
  if (cls != TG__CLASS_RUNTIME || dur >= LEAST_NS) return;
  struct usual *u = &o->usual[o->f->t->slices.name[slice]];
  u->count++;
  u->sum_ns += dur;
}

static bool makes_something(struct tg__str call) {
  static const char *const parts[] = {"ModuleLoad",   "LibraryLoad",  "Malloc",           "HostAlloc",
                                      "HostRegister", "StreamCreate", "GraphInstantiate", "GetFunction"};
  return TG__HAS_ONE_OF(call, parts);
}

/* The call, and what the operator around it does in the same pause of the device: it makes ready what it launches. */
static void add_with_operator(struct once *o, uint32_t call) {
  const struct tg__columns *const t = o->f->t;
  const uint32_t unit = tg__sync_unit(t, call);
  const int64_t start = t->slices.start_ns[call], end = tg__slice_end(t, call);
  tg__spans_add(o->calls, start, end);
  size_t low = 0;
  TG__PARTITION(low, o->idle->count, i, o->idle->items[i].end <= start);
  if (low == o->idle->count || unit == call) return;
  const struct tg__span pause = o->idle->items[low];
  const int64_t from = t->slices.start_ns[unit] > pause.start ? t->slices.start_ns[unit] : pause.start,
                to = tg__slice_end(t, unit) < pause.end ? tg__slice_end(t, unit) : pause.end;
  if (from < to) tg__spans_add(o->calls, from, to);
}

/* A launch that takes much longer than others of its kind loads the kernel's code, unless the device works: then it
 * waits for room in the queue. */
static void see_call(struct once *o, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *t = o->f->t;
  const int64_t dur = t->slices.dur_ns[slice], start = t->slices.start_ns[slice];
  if (cls != TG__CLASS_RUNTIME || dur < LEAST_NS) return;
  const struct tg__str name = tg__slice_name(t, slice);
  struct usual *const u = &o->usual[t->slices.name[slice]];
  const bool launches = tg__str_contains(name, "Launch") && u->count && dur / TIMES_USUAL > u->sum_ns / u->count;
  if (!launches && !makes_something(name)) return;
  if (100 * tg__spans_inside(o->idle, start, start + dur) < IDLE_PCT * dur) return;
  if (o->counts_steps) {
    const size_t step = tg__steps_begun(&o->f->steps, start) + 1;
    u->steps += u->step != step;
    u->step = step;
    return;
  }
  if (u->steps > 1 && 2 * u->steps > o->f->steps.count) return; /* it comes again and again */
  add_with_operator(o, slice);
  o->count++;
  if (dur > o->longest_ns) o->longest_ns = dur, o->longest = slice;
}

static void find_idle(struct once *o) {
  const struct tg__facts *f = o->f;
  int64_t first = INT64_MAX;
  for (size_t i = 0; i < f->gaps.count; i++) {
    const struct tg__gap *const g = &f->gaps.items[i];
    tg__spans_add(o->idle, g->start_ns, g->end_ns);
    if (f->t->slices.start_ns[g->before] < first) first = f->t->slices.start_ns[g->before];
  }
  if (first > f->steps.window.start_ns) tg__spans_add(o->idle, f->steps.window.start_ns, first);
  tg__spans_union(o->idle);
}

/* In a recording without steps nothing says that a wait comes again that is as long as all others together. */
static void add_longest_gap(struct once *o) {
  struct tg__facts *const f = o->f;
  const struct tg__gap *longest = NULL;
  int64_t sum = 0;
  for (size_t i = 0; !tg__has_steps(f) && i < f->gaps.count; i++) {
    const struct tg__gap *const g = &f->gaps.items[i];
    const int64_t ns = g->end_ns - g->start_ns - tg__spans_inside(o->calls, g->start_ns, g->end_ns);
    sum += ns;
    if (ns >= LEAST_NS && (!longest || ns > longest->end_ns - longest->start_ns)) longest = g;
  }
  if (!longest || 100 * (longest->end_ns - longest->start_ns) <= MOST_PCT * sum) return;
  tg__spans_add(&f->one_off, longest->start_ns, longest->end_ns);
  const struct tg__str during =
      longest->during == TG_NONE ? TG_STR("nothing recorded") : tg__slice_name(f->t, longest->during);
  char calls[sizeof f->one_off_text], gap[160];
  TG_FORMAT(calls, "%s", f->one_off_text);
  TG_FORMAT(gap, "the device stands still once for %.2f ms during %.*s", tg__ms(longest->end_ns - longest->start_ns),
            (int)(during.len < 60 ? during.len : 60), during.ptr);
  const bool is_longer = longest->end_ns - longest->start_ns > tg__spans_length(o->calls);
  if (*calls)
    TG_FORMAT(f->one_off_text, "%s; %s", is_longer ? gap : calls, is_longer ? calls : gap);
  else
    TG_FORMAT(f->one_off_text, "%s", gap);
}

int64_t tg__jump_after(const struct tg__facts *f, size_t step) {
  enum { TIMES_STEP = 100 };
  const struct tg__step_cost *const steps = f->steps.steps;
  const int64_t ns = step + 1 < f->steps.count ? steps[step + 1].start_ns - steps[step].end_ns : 0;
  return f->median_ns > 0 && ns / TIMES_STEP >= f->median_ns ? ns : 0;
}

void tg__facts_find_one_off(struct tg__facts *f) {
  for (size_t i = 0; i < f->steps.count; i++)
    if (tg__jump_after(f, i)) tg__spans_add(&f->one_off, f->steps.steps[i].end_ns, f->steps.steps[i + 1].start_ns);
  struct once o = {.f = f,
                   .idle = tg__new_spans(f),
                   .calls = tg__new_spans(f),
                   .usual = tg__alloc_scratch(f, tg__strings_count(f->t->strings), sizeof *o.usual)};
  if (!f->gaps.device_count || f->failed) return;
  find_idle(&o);
  TG__EACH_IN_STEPS (w, f) learn_usual(&o, w.slice, w.cls);
  for (int pass = 0; pass < 2; pass++) {
    o.counts_steps = !pass;
    TG__EACH_IN_STEPS (w, f) see_call(&o, w.slice, w.cls);
  }
  tg__spans_union(o.calls);
  const uint32_t unit = o.count ? tg__sync_unit(f->t, o.longest) : TG_NONE;
  const struct tg__str in = unit == TG_NONE || unit == o.longest ? TG_STR("") : tg__slice_name(f->t, unit);
  const struct tg__str name = o.count ? tg__slice_name(f->t, o.longest) : TG_STR("");
  if (o.count)
    TG_FORMAT(f->one_off_text,
              "%lld call%s code or %s memory for the first time, %.2f ms, the longest %.*s of %.2f ms%s%.*s",
              (long long)o.count, o.count == 1 ? " loads" : "s load", o.count == 1 ? "makes" : "make",
              tg__ms(tg__spans_length(o.calls)), (int)(name.len < 60 ? name.len : 60), name.ptr, tg__ms(o.longest_ns),
              in.len ? " in " : "", (int)(in.len < 60 ? in.len : 60), in.ptr);
  tg__spans_add_all(&f->one_off, o.calls);
  add_longest_gap(&o);
  tg__spans_union(&f->one_off);
  f->failed |= f->one_off.failed || o.idle->failed || o.calls->failed;
}
