/* Other threads of the program compute in Python, and the loop waits for its turn: one thread at a time has the GIL,
 * and each takes a core that the loop, or a thread of torch that it waits for, may need. */
#include "diagnose/samples.h"

enum { THRESHOLD_PCT = 5, LEAST_LOOKS = 5, HOLDERS = 4, LEAST_STEPS = 5 };

struct holder {
  int64_t thread;
  struct tg__str frame; /* where it was seen first */
  size_t looks;
};
struct gil {
  struct tg__facts *f;
  struct tg__spans *seen, *waits; /* samples of the loop; those in which it waits for the GIL */
  struct tg__spans *bare;         /* without an operator */
  struct tg__spans *stretches;    /* of these, what are such waits for more than half of what was seen */
  size_t samples, looks, held;    /* looks: at the others meanwhile; held: one computes in a function of the program */
  size_t beside;                  /* one does so while the loop stands in an operator */
  int64_t at_ns, held_ns;         /* of the look at hand; of the last one that counts in held or beside */
  struct tg__lines lines;         /* of those that compute: a look at one thread counts 1 */
  struct holder holders[HOLDERS]; /* the first ones */
  size_t computing;               /* such looks */
};

static void see_loop(void *ctx, uint32_t slice, const struct tg__sample *s) {
  struct gil *const g = ctx;
  const int64_t start_ns = g->f->t->slices.start_ns[slice], end_ns = tg__slice_end(g->f->t, slice);
  if (s->thread) return;
  tg__spans_add(g->seen, start_ns, end_ns);
  if (s->doing != TG__DOING_GIL) return;
  tg__spans_add(g->waits, start_ns, end_ns);
  g->samples++;
}

static void add_holder(struct gil *g, const struct tg__sample *s) {
  size_t i = 0;
  while (i < HOLDERS && g->holders[i].thread && g->holders[i].thread != s->thread) i++;
  g->computing++;
  if (i == HOLDERS) return;
  if (!g->holders[i].looks) g->holders[i] = (struct holder){.thread = s->thread, .frame = s->frame};
  g->holders[i].looks++;
}

static void see_holder(void *ctx, uint32_t slice, const struct tg__sample *s) {
  struct gil *const g = ctx;
  const int64_t at_ns = g->f->t->slices.start_ns[slice];
  const bool waits = tg__spans_inside(g->waits, at_ns - 1, at_ns) > 0;
  if (!s->thread || !s->frame.len || (!waits && tg__spans_inside(g->bare, at_ns - 1, at_ns))) return;
  g->looks += waits && at_ns != g->at_ns;
  g->at_ns = at_ns;
  if (s->doing != TG__DOING_COMPUTE && s->doing != TG__DOING_READY) return; /* the GIL may be one's without a core */
  if (at_ns != g->held_ns) *(waits ? &g->held : &g->beside) += 1;
  g->held_ns = at_ns;
  tg__lines_add(&g->lines, s->frame, 1);
  add_holder(g, s);
}

static void find_stretches(struct gil *g) {
  for (size_t i = 0; i < g->bare->count; i++) {
    const struct tg__span b = g->bare->items[i];
    if (2 * tg__spans_inside(g->waits, b.start, b.end) > tg__spans_inside(g->seen, b.start, b.end))
      tg__spans_add(g->stretches, b.start, b.end);
  }
  tg__spans_union(g->stretches);
}

/* What the loop waits for its turn, now in one step and now in another: a fifth of them at least. Where no other
 * program uses the cores, its own threads are what it waits for a core for. *core_ns: that. */
static int64_t lost(const struct gil *g, int64_t *core_ns) {
  const struct tg__facts *const f = g->f;
  struct tg__tally turns = {0}, cores = {0};
  size_t hit = 0;
  for (size_t i = 0; i < f->steps.count; i++) {
    const struct tg__step_cost *const s = &f->steps.steps[i];
    const int64_t turn_ns = tg__spans_inside(g->stretches, s->host_start_ns, s->host_end_ns);
    const bool is_known = s->core_wait_ns != TG_NULL_INT && s->thread_cpu_ns != TG_NULL_INT;
    const int64_t rest_ns = is_known ? s->host_end_ns - s->host_start_ns - s->thread_cpu_ns - turn_ns : 0,
                  wait_ns = rest_ns < s->core_wait_ns ? rest_ns : s->core_wait_ns;
    tg__tally_in(&turns, i + 1, turn_ns);
    tg__tally_in(&cores, i + 1, wait_ns > 0 ? wait_ns : 0);
    hit += 100 * (turn_ns + (wait_ns > 0 ? wait_ns : 0)) > THRESHOLD_PCT * (s->host_end_ns - s->host_start_ns);
  }
  const bool is_often = hit * LEAST_STEPS >= f->steps.count;
  *core_ns = is_often ? tg__tally_sum(f, &cores) : 0;
  return is_often ? tg__tally_sum(f, &turns) : 0;
}

/* How the others share it, where there are several. */
static void say_holders(const struct gil *g, struct tg__finding *x) {
  for (size_t i = 0; g->holders[1].looks && i < HOLDERS && g->holders[i].looks; i++) {
    TG_ADD(x->evidence, "%s thread %lld (%.*s) %.0f %%", i ? "," : "; shared by", (long long)g->holders[i].thread,
           (int)g->holders[i].frame.len, g->holders[i].frame.ptr,
           100.0 * (double)g->holders[i].looks / (double)g->computing);
  }
}

static void report_gil(const struct gil *g, int64_t cost, int64_t core_ns) {
  struct tg__facts *const f = g->f;
  int64_t in_function;
  const struct tg__str line = tg__lines_most(&g->lines, &in_function);
  struct tg__finding *const x = tg__find_above(f, TG__CAUSE_GIL_CONTENTION, THRESHOLD_PCT, cost);
  if (!x) return;
  tg__claim_spans(f, x, g->stretches);
  TG_FORMAT(x->where, "%.*s", (int)line.len, line.ptr);
  TG_FORMAT(
      x->evidence,
      "other threads %s for %.1f %% of the steps while the loop needs %s: %.2f ms of %s %.2f ms %s, by %zu samples; "
      "one of them computes in Python in %zu of %zu looks meanwhile",
      core_ns ? "compute in Python" : "have Python's own lock (the GIL)", x->share_pct,
      core_ns ? "their lock (the GIL) or a core" : "it", tg__ms(x->cost_ns), tg__period_each(f),
      tg__step_ms(f, f->total_ns), tg__period_name(f), g->samples, g->held, g->looks);
  if (core_ns)
    TG_ADD(x->evidence, "; %.2f ms of that it waits for a core, which no other program has", tg__step_ms(f, core_ns));
  if (core_ns && g->beside)
    TG_ADD(x->evidence, ", and in %zu more looks it stands in an operator and one of them computes", g->beside);
  say_holders(g, x);
  TG_FORMAT(x->advice, "%s", tg__doing_advice(TG__DOING_GIL));
  tg__finding_expect(f, x, cost - cost / 10, core_ns ? 0.35 : 0.7,
                     "the time the loop waits for its turn, but for a tenth");
}

void tg__judge_gil(struct tg__facts *f) {
  struct gil g = {.f = f, .seen = tg__new_spans(f), .waits = tg__new_spans(f), .stretches = tg__new_spans(f)};
  if (f->has_device_work || tg__loop_track(f) == TG_NONE) return; /* idle-device looks at devices */
  tg__each_sample(f, see_loop, &g);
  tg__spans_union(g.seen);
  tg__spans_union(g.waits);
  if (!g.waits->count) return;
  g.bare = tg__bare_spans(f);
  find_stretches(&g);
  tg__each_sample(f, see_holder, &g);
  if (!g.held || g.held + g.beside < LEAST_LOOKS) return;
  int64_t core_ns = 0;
  const bool is_quiet = !f->noise.is_busy && !f->noise.is_unclear;
  const int64_t turns_ns = is_quiet ? lost(&g, &core_ns) : tg__usual_sum(f, g.stretches);
  if (core_ns < turns_ns) core_ns = 0; /* elsewhere they need cores as well */
  report_gil(&g, turns_ns + core_ns, core_ns);
}
