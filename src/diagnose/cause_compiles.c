/* What the process itself knows of torch.compile (compiles.h): the guard behind a recompilation, the reason of a break,
 * functions that run without it, and how much of the recorded time it took. */
#include "analyze/host/compiles.h"
#include "diagnose/timed.h"

#include <stdio.h>

enum { AGAIN_PCT = 5, RUN_PCT = 20, LONG_S = 10 };

typedef const struct tg__compile *compile;

static bool is_library(struct tg__str file) {
  return tg__str_contains(file, "/site-packages/") || tg__str_contains(file, "/dist-packages/") ||
         tg__str_has_prefix(file, "<");
}

static bool is_of(compile a, compile b) {
  return a->line == b->line && tg__str_eq(a->function, b->function) && tg__str_eq(a->file, b->file);
}

static void say_function(compile x, struct tg__finding *out) {
  char place[256];
  const bool has_line = x->broken_at >= 0 && x->broken_in.len;
  TG_FORMAT(
      out->where, "%s: %.*s",
      tg__compile_place(has_line ? x->broken_in : x->file, has_line ? x->broken_at : x->line, place, sizeof place),
      (int)x->function.len, x->function.ptr);
}

static void append(struct tg__finding *x, const char *format, struct tg__str text) {
  TG_ADD(x->evidence, format, (int)text.len, text.ptr);
}

static const char *advice_on_guard(struct tg__str guard) {
  if (tg__str_contains(guard, "size mismatch") || tg__str_contains(guard, ".size()"))
    return "Sizes change: compile with dynamic=True, name the size with torch._dynamo.mark_dynamic, or pad to a few "
           "sizes.";
  if (tg__str_contains(guard, "mismatch"))
    return "Call it with tensors of one type and one layout, or compile it once for each on purpose.";
  if (tg__str_contains(guard, "==") || tg__str_contains(guard, " is "))
    return "A Python value changes that the compiled code contains: keep it as it is, or make it a tensor.";
  return "Keep what the guard names as it is from call to call.";
}

/* ---- compiled again in the window --------------------------------------------------------------- */

struct again {
  compile last;
  int64_t ns, times, longest_step_ns;
  size_t steps, step;
};

static void see_again(const struct tg__facts *f, compile x, struct again *a) {
  const struct tg__window *const w = &f->steps.window;
  if (!x->is_again || !x->guard.len || x->start_ns == TG_NULL_INT || x->start_ns < w->start_ns ||
      x->start_ns >= w->end_ns)
    return;
  const size_t step = tg__steps_begun(&f->steps, x->start_ns);
  if (!step || step > f->steps.count) return;
  const int64_t length = f->steps.steps[step - 1].end_ns - f->steps.steps[step - 1].start_ns;
  a->ns += x->dur_ns;
  a->times++;
  a->steps += step != a->step;
  a->step = step;
  if (!a->last || length >= a->longest_step_ns) a->last = x, a->longest_step_ns = length;
}

/* Of all steps that were timed from the window's first on, the part that is compiling again; NAN: none were. */
static double share_of_run(struct tg__facts *f, const struct tg__compiles *c, int64_t *per_step_ns) {
  const struct tg__str run = tg__document_member(f->t, f->rank, "run");
  struct tg__timed all;
  int64_t first = 0, sum_ns = 0, again_ns = 0;
  const bool is_timed = tg__timed_read(f, &all) && tg__str_to_int(tg__json_member(run, "first_recorded_step"), &first);
  for (size_t i = 0; i < c->count; i++)
    if (c->items[i].is_again && c->items[i].guard.len && c->items[i].start_ns >= f->steps.window.start_ns)
      again_ns += c->items[i].dur_ns;
  size_t count = 0;
  for (size_t i = first > 0 ? (size_t)first : 0; is_timed && i < all.count; i++, count++) sum_ns += all.ns[i];
  *per_step_ns = count ? again_ns / (int64_t)count : 0;
  return count && sum_ns > 0 ? fmin(tg__pct(again_ns, sum_ns), 100) : NAN;
}

/* What the run shows of it counts, where all its steps were timed: a window with one holds too much of it. */
static void spread_over_run(struct tg__facts *f, const struct tg__compiles *c, struct tg__finding *x) {
  int64_t per_step_ns = 0;
  const double share = share_of_run(f, c, &per_step_ns);
  if (isnan(share)) return;
  x->share_pct = share;
  x->cost_ns = per_step_ns;
  TG_ADD(x->evidence, "; of all steps from there on that is %.1f %%", share);
}

/* One recompilation counts: the step that holds it is long. The saving in later steps is not known. */
static void judge_again(struct tg__facts *f, const struct tg__compiles *c) {
  struct again a = {0};
  if (!tg__has_steps(f)) return;
  for (size_t i = 0; i < c->count; i++) see_again(f, &c->items[i], &a);
  struct tg__finding *x = tg__finding_of(f, TG__CAUSE_RECOMPILATION);
  const double share = tg__pct(a.ns, f->sum_ns);
  if (!a.last || (!x && share <= AGAIN_PCT)) return;
  if (!x) {
    x = tg__finding_add(f, TG__CAUSE_RECOMPILATION, share < 100 ? share : 100, AGAIN_PCT, tg__per_step(f, a.ns));
    TG_FORMAT(
        x->evidence,
        "torch.compile compiles again in %zu of %zu steps, %.2f ms together; the longest of these steps takes %.2f "
        "ms, %.1f times the usual %.2f ms",
        a.steps, f->steps.count, tg__ms(a.ns), tg__ms(a.longest_step_ns),
        f->median_ns ? (double)a.longest_step_ns / (double)f->median_ns : 0.0, tg__ms(f->median_ns));
    x->is_on_average = x->is_warning = true;
    x->method = "whether it comes again is not known";
    spread_over_run(f, c, x);
  }
  say_function(a.last, x);
  append(x, "; this no longer holds: %.*s", a.last->guard);
  TG_FORMAT(x->advice, "%s", advice_on_guard(a.last->guard));
}

/* ---- breaks -------------------------------------------------------------------------------------- */

static void explain_breaks(struct tg__facts *f, const struct tg__compiles *c) {
  struct tg__finding *const x = tg__finding_of(f, TG__CAUSE_GRAPH_BREAK);
  compile known = NULL;
  for (size_t i = 0; x && i < c->count; i++) {
    const compile y = &c->items[i];
    char function[128];
    uint32_t len = 0;
    while (len < y->function.len && y->function.ptr[len] != ' ') len++;
    snprintf(function, sizeof function, ": %.*s", (int)(len < 100 ? len : 100), y->function.ptr);
    if (y->outcome == TG__COMPILE_DONE && y->broken_at >= 0 && strstr(x->where, function)) known = y;
  }
  if (!known) return;
  say_function(known, x);
  append(x, "; the reason: %.*s", known->reason);
}

/* ---- functions that run without it --------------------------------------------------------------- */

/* The first function of the program that comes out so, and how many compilations of others do. */
static compile first_with(const struct tg__compiles *c, enum tg__compile_outcome outcome, int64_t *others) {
  compile first = NULL;
  *others = 0;
  for (size_t i = 0; i < c->count; i++) {
    const compile x = &c->items[i];
    if (x->outcome != outcome || is_library(x->file) || (outcome == TG__COMPILE_LEFT_OUT && !x->reason.len)) continue;
    if (first)
      *others += !is_of(first, x);
    else
      first = x;
  }
  return first;
}

static void judge_limit(struct tg__facts *f, const struct tg__compiles *c) {
  int64_t ns = 0, versions = 0, others;
  const compile first = first_with(c, TG__COMPILE_LIMIT, &others);
  if (!first) return;
  for (size_t i = 0; i < c->count; i++) {
    if (!is_of(first, &c->items[i])) continue;
    ns += c->items[i].dur_ns;
    versions += c->items[i].outcome == TG__COMPILE_DONE && !c->items[i].is_backward;
  }
  struct tg__finding *const x = tg__finding_add(f, TG__CAUSE_RECOMPILE_LIMIT, 0, TG__NO_THRESHOLD, TG_NULL_INT);
  x->is_warning = true;
  x->method = "what the calls that run without it would take with it is not known";
  say_function(first, x);
  TG_FORMAT(
      x->evidence,
      "torch.compile made %lld versions of it in %.2f s, and reached its limit: a call that fits none of them runs as "
      "if it were not compiled",
      (long long)versions, (double)ns / 1e9);
  append(x, "; this no longer held: %.*s", first->guard);
  if (others) TG_ADD(x->evidence, "; the same for %lld more", (long long)others);
  TG_FORMAT(x->advice, "%s", advice_on_guard(first->guard));
}

static void judge_left_out(struct tg__facts *f, const struct tg__compiles *c) {
  int64_t others;
  const compile first = first_with(c, TG__COMPILE_LEFT_OUT, &others);
  if (!first) return;
  struct tg__finding *const x = tg__finding_add(f, TG__CAUSE_UNCOMPILED_FUNCTION, 0, TG__NO_THRESHOLD, TG_NULL_INT);
  x->is_warning = true;
  x->method = "what it would take compiled is not known";
  say_function(first, x);
  TG_FORMAT(x->evidence, "torch.compile leaves the whole function out, and it runs as if it were not compiled");
  append(x, ": %.*s", first->reason);
  if (others) TG_ADD(x->evidence, "; and %lld more", (long long)others);
  TG_FORMAT(x->advice,
            "Take this line out of the function, or out of its loop: inside a loop or a with block dynamo cannot "
            "go on behind a break. Or compile the functions that are called in it.");
}

/* ---- how much of the recorded time it took ------------------------------------------------------- */

struct total {
  int64_t ns, dynamo_ns, backend_ns, inductor_ns, codegen_ns, times, again, hits, misses;
  compile longest;
};

static struct total total_of(const struct tg__compiles *c) {
  struct total sum = {.ns = c->lost_ns, .times = c->lost};
  for (size_t i = 0; i < c->count; i++) {
    const compile x = &c->items[i];
    sum.ns += x->dur_ns;
    sum.dynamo_ns += x->dynamo_ns;
    sum.backend_ns += x->backend_ns;
    sum.inductor_ns += x->inductor_ns;
    sum.codegen_ns += x->codegen_ns;
    sum.times++;
    sum.again += x->is_again && !x->is_backward;
    sum.hits += x->hits > 0 ? x->hits : 0;
    sum.misses += x->misses > 0 ? x->misses : 0;
    if (!sum.longest || x->dur_ns > sum.longest->dur_ns) sum.longest = x;
  }
  return sum;
}

static void judge_compile_time(struct tg__facts *f, const struct tg__compiles *c) {
  const struct total sum = total_of(c);
  int64_t run_ns = 0;
  if (!tg__str_to_int(tg__json_member(tg__document_member(f->t, f->rank, "run"), "run_ns"), &run_ns)) return;
  const double share = tg__pct(sum.ns, run_ns), s = 1e9;
  if (!sum.longest || share <= RUN_PCT || (double)sum.ns < LONG_S * s) return;
  struct tg__finding *const x =
      tg__finding_add(f, TG__CAUSE_COMPILE_TIME, share < 100 ? share : 100, RUN_PCT, TG_NULL_INT);
  x->is_warning = true;
  x->method = "the time passes outside the steps";
  say_function(sum.longest, x);
  TG_FORMAT(
      x->evidence,
      "torch.compile takes %.1f s of the program's %.1f s (%.1f %%): %lld compilation%s, %lld of them again; dynamo "
      "%.1f s, the backend %.1f s, Inductor %.1f s and its code %.1f s; caches: %lld found, %lld not; the longest "
      "took %.1f s",
      (double)sum.ns / s, (double)run_ns / s, share, (long long)sum.times, sum.times == 1 ? "" : "s",
      (long long)sum.again, (double)sum.dynamo_ns / s, (double)sum.backend_ns / s, (double)sum.inductor_ns / s,
      (double)sum.codegen_ns / s, (long long)sum.hits, (long long)sum.misses, (double)sum.longest->dur_ns / s);
  TG_FORMAT(x->advice,
            "Compile less, or once: keep Inductor's caches from run to run (TORCHINDUCTOR_CACHE_DIR), compile "
            "the block that the model repeats instead of the model, and make sizes that change dynamic.");
}

void tg__judge_compiles(struct tg__facts *f) {
  struct tg__compiles c;
  tg__compiles_open(f->t, f->rank, &c);
  f->failed |= c.failed;
  if (!f->failed && (c.count || c.lost)) {
    judge_again(f, &c);
    explain_breaks(f, &c);
    judge_limit(f, &c);
    judge_left_out(f, &c);
    judge_compile_time(f, &c);
  }
  tg__compiles_close(&c);
}

/* ---- advice of others ---------------------------------------------------------------------------- */

/* Is most of its time in code that torch.compile made? */
static bool is_compiled(struct tg__facts *f, const struct tg__spans *regions, const struct tg__finding *x) {
  struct tg__spans *const both = tg__new_spans(f);
  const int64_t all = tg__spans_length(&x->claim);
  tg__spans_intersect(regions, &x->claim, both);
  return all ? 2 * tg__spans_length(both) >= all : regions->count > 0;
}

/* What is compiled already is not advised to be compiled: ", or torch.compile …" is cut off. */
static void drop_compile_advice(struct tg__finding *x) {
  static const char hint[] = " It is compiled already: the question compiles has what was broken and left out.";
  char *const at = strstr(x->advice, "torch.compile");
  if (!at) return;
  static const char before[] = ", or ";
  const size_t n = sizeof before - 1;
  if ((size_t)(at - x->advice) > n && memcmp(at - n, before, n) == 0) {
    char *from = at - n;
    const char *const next = strstr(at, ". ");
    const size_t len = strlen(next ? next : ".");
    memmove(from, next ? next : ".", len + 1);
  }
  TG_ADD(x->advice, "%s", hint);
}

void tg__judge_compiled_advice(struct tg__facts *f) {
  struct tg__spans *const regions = tg__new_spans(f);
  TG__EACH_IN_STEPS (w, f)
    if (tg__class_is_range(w.cls) && tg__name_is_compiled_region(tg__slice_name(f->t, w.slice)))
      tg__spans_add_slice(regions, f->t, w.slice);
  tg__spans_union(regions);
  for (size_t i = 0; i < f->found_count && regions->count; i++) {
    struct tg__finding *const x = &f->found[i];
    const bool is_ours = x->cause == TG__CAUSE_RECOMPILATION || x->cause == TG__CAUSE_GRAPH_BREAK ||
                         x->cause == TG__CAUSE_COMPILE_TIME || x->cause == TG__CAUSE_RECOMPILE_LIMIT ||
                         x->cause == TG__CAUSE_UNCOMPILED_FUNCTION;
    tg__spans_union(&x->claim);
    if (!is_ours && is_compiled(f, regions, x)) drop_compile_advice(x);
  }
}
