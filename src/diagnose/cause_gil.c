/* Other threads of the program compute in Python, and the loop waits for its turn: one thread at a time has the GIL. */
#include "diagnose/samples.h"

enum { THRESHOLD_PCT = 5, LEAST_LOOKS = 5, HOLDERS = 4 };

struct holder {
  int64_t thread;
  struct tg__str frame; /* where it was seen first */
  size_t looks;
};
struct gil {
  struct tg__facts *f;
  struct tg__spans *seen, *waits; /* samples of the loop; those in which it waits for the GIL */
  struct tg__spans *stretches;    /* without an operator, that are such waits for more than half of what was seen */
  size_t samples, looks, held;    /* looks: at the others meanwhile; held: one computes in a function of the program */
  int64_t at_ns;                  /* of the look at hand */
  bool is_held;
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
  if (!s->thread || !s->frame.len || !tg__spans_inside(g->waits, at_ns - 1, at_ns)) return;
  if (at_ns != g->at_ns) g->is_held = false;
  g->looks += at_ns != g->at_ns;
  g->at_ns = at_ns;
  if (s->doing != TG__DOING_COMPUTE) return;
  g->held += !g->is_held;
  g->is_held = true;
  tg__lines_add(&g->lines, s->frame, 1);
  add_holder(g, s);
}

static void find_stretches(struct gil *g) {
  const struct tg__spans *const bare = tg__bare_spans(g->f);
  for (size_t i = 0; i < bare->count; i++) {
    const struct tg__span b = bare->items[i];
    if (2 * tg__spans_inside(g->waits, b.start, b.end) > tg__spans_inside(g->seen, b.start, b.end))
      tg__spans_add(g->stretches, b.start, b.end);
  }
  tg__spans_union(g->stretches);
}

/* How the others share it, where there are several. */
static void say_holders(const struct gil *g, struct tg__finding *x) {
  for (size_t i = 0; g->holders[1].looks && i < HOLDERS && g->holders[i].looks; i++) {
    TG_ADD(x->evidence, "%s thread %lld (%.*s) %.0f %%", i ? "," : "; shared by", (long long)g->holders[i].thread,
           (int)g->holders[i].frame.len, g->holders[i].frame.ptr,
           100.0 * (double)g->holders[i].looks / (double)g->computing);
  }
}

static void report_gil(const struct gil *g, int64_t cost) {
  struct tg__facts *const f = g->f;
  int64_t in_function;
  const struct tg__str line = tg__lines_most(&g->lines, &in_function);
  struct tg__finding *const x = tg__find_above(f, TG__CAUSE_GIL_CONTENTION, THRESHOLD_PCT, cost);
  if (!x) return;
  tg__claim_spans(f, x, g->stretches);
  TG_FORMAT(x->where, "%.*s", (int)line.len, line.ptr);
  TG_FORMAT(
      x->evidence,
      "other threads have Python's own lock (the GIL) for %.1f %% of the steps while the loop needs it: %.2f ms of "
      "%s %.2f ms %s, by %zu samples; one of them computes in Python in %zu of %zu looks meanwhile",
      x->share_pct, tg__ms(x->cost_ns), tg__period_each(f), tg__step_ms(f, f->total_ns), tg__period_name(f), g->samples,
      g->held, g->looks);
  say_holders(g, x);
  TG_FORMAT(x->advice, "%s", tg__doing_advice(TG__DOING_GIL));
  tg__finding_expect(f, x, cost - cost / 10, 0.7, "the time the loop waits for its turn, but for a tenth");
}

void tg__judge_gil(struct tg__facts *f) {
  struct gil g = {.f = f, .seen = tg__new_spans(f), .waits = tg__new_spans(f), .stretches = tg__new_spans(f)};
  if (f->has_device_work || tg__loop_track(f) == TG_NONE) return; /* idle-device looks at devices */
  tg__each_sample(f, see_loop, &g);
  tg__spans_union(g.seen);
  tg__spans_union(g.waits);
  if (g.waits->count) {
    find_stretches(&g);
    tg__each_sample(f, see_holder, &g);
    if (g.held >= LEAST_LOOKS) report_gil(&g, tg__usual_sum(f, g.stretches));
  }
}
