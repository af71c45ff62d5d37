/* torch.compile compiles again and again: its own ranges show each time. Compiling only in the
 * first recorded steps is warming up. */
#include "diagnose/findings.h"

enum { COMPILE_PCT = 5, TIMES = 3 };

struct compiling {
  struct tg__facts *f;
  int64_t ns, times, until_ns;
  uint32_t longest, track;
  size_t steps, step; /* steps in which something was compiled; the last of them, and one */
};

bool tg__is_compiling(struct tg__str name) {
  return tg__str_contains(name, "compile_inner") || tg__str_contains(name, "entire_frame_compile");
}

static void visit_compiler_frame(struct compiling *c, uint32_t slice, enum tg__class cls) {
  const struct tg__columns *t = c->f->t;
  if (!tg__class_is_range(cls) || !tg__is_compiling(tg__slice_name(t, slice))) return;
  const uint32_t track = tg__slice_track(t, slice);
  if (track == c->track && t->slices.start_ns[slice] < c->until_ns) return;
  c->track = track;
  c->until_ns = tg__slice_end(t, slice);
  c->ns += t->slices.dur_ns[slice];
  c->times++;
  tg__keep_longest(t, &c->longest, slice);
  const size_t step = tg__steps_begun(&c->f->steps, t->slices.start_ns[slice]);
  c->steps += step != c->step;
  c->step = step;
}

void tg__judge_compiling(struct tg__facts *f) {
  struct compiling c = {.f = f, .longest = TG_NONE, .track = TG_NONE};
  if (!tg__has_steps(f)) return;
  TG__EACH_IN_STEPS (w, f) visit_compiler_frame(&c, w.slice, w.cls);
  const double share = tg__pct(c.ns, f->sum_ns);
  const bool goes_on = c.steps >= TIMES && 2 * c.step > f->steps.count; /* in the second half, too */
  if (share <= COMPILE_PCT || !goes_on) return;
  struct tg__finding *x = tg__finding_add(f, TG__CAUSE_RECOMPILATION, share, COMPILE_PCT, tg__per_step(f, c.ns));
  tg__where_slice(f, c.longest, x);
  TG_FORMAT(x->evidence,
            "torch.compile compiles %lld times in %zu of %zu steps: %.2f ms a step (%.1f %%), the longest %.2f ms",
            (long long)c.times, c.steps, f->steps.count, tg__ms(x->cost_ns), share,
            tg__ms(f->t->slices.dur_ns[c.longest]));
  TG_FORMAT(x->advice,
            "TORCH_LOGS=recompiles names the guard that fails. Compile once, outside the loop; keep shapes and "
            "Python numbers as they are, "
            "or compile with dynamic=True.");
  x->is_on_average = true;
  tg__finding_expect(f, x, c.ns, 0.9, "the time of compiling");
}
