/* Answers the question "steps": the breakdown as rows, one a step, or its statistics over steps. */
#include <math.h>
#include <stdio.h>

#include "analyze/overview/steps.h"

enum { VALUE_COUNT = 2 + TG__PART_COUNT + 15 };

static void step_values(const struct tg__step_cost *s, bool has_code, int64_t v[VALUE_COUNT]) {
  size_t n = 0;
  v[n++] = s->end_ns - s->start_ns;
  v[n++] = s->host_end_ns - s->host_start_ns;
  for (size_t p = 0; p < TG__PART_COUNT; p++) v[n++] = s->part_ns[p];
  v[n++] = s->computation_ns;
  v[n++] = s->communication_ns;
  v[n++] = s->overlap_ns;
  v[n++] = s->neither_ns;
  v[n++] = s->device_events;
  v[n++] = s->label_ns;
  v[n++] = s->part_ns[TG__PART_CPU_EXEC] - s->label_ns;
  v[n++] = s->part_ns[TG__PART_OTHER] + s->label_ns;
  v[n++] = s->thread_cpu_ns;
  v[n++] = s->core_wait_ns;
  v[n++] = s->preemptions;
  v[n++] = has_code ? s->compiled_ns : TG_NULL_INT;
  v[n++] = has_code ? s->replayed_ns : TG_NULL_INT;
  v[n++] = has_code ? s->eager_ns : TG_NULL_INT;
  v[n] = s->short_kernels;
}

static void put_number(struct tg_table *out, int64_t number) {
  char text[24];
  snprintf(text, sizeof text, "%lld", (long long)number);
  tg__put_cstr(out, text);
}

static void put_step_step(const struct tg__columns *t, uint32_t rank, const struct tg__step_cost *s, bool has_code,
                          struct tg_table *out) {
  int64_t v[VALUE_COUNT];
  step_values(s, has_code, v);
  tg__put_rank(out, t, rank);
  put_number(out, s->step == TG_NONE ? 0 : t->steps[s->step].number);
  if (s->step == TG_NONE)
    tg__put_cstr(out, "whole recording");
  else
    tg__put_trace_text(out, t, t->steps[s->step].name);
  tg__put_int(out, s->start_ns);
  for (size_t i = 0; i < VALUE_COUNT; i++) tg__put_int(out, v[i]);
}

/* Only the annotation, even of a step that the breakdown leaves out. */
static void put_annotation(const struct tg__columns *t, const struct tg__step *s, struct tg_table *out) {
  tg__put_rank(out, t, s->rank);
  put_number(out, s->number);
  tg__put_trace_text(out, t, s->name);
  tg__put_int(out, s->start_ns);
  tg__put_int(out, s->end_ns - s->start_ns);
  tg__put_int(out, s->end_ns - s->start_ns);
  for (size_t i = 2; i < VALUE_COUNT; i++) tg__put_null(out);
}

/* ---- statistics over steps ------------------------------------------------------------------- */

static const char *const statistic_names[] = {"mean", "std", "min", "p10", "p50", "p90", "p99", "max"};
enum { STATISTIC_COUNT = sizeof statistic_names / sizeof *statistic_names };

static bool less_value(uint32_t a, uint32_t b, const void *ctx) {
  return ((const int64_t *)ctx)[a] < ((const int64_t *)ctx)[b];
}

/* values: n of them; sorted, index: room for n. The results are real numbers, NaN where there is none. */
static bool statistics(const int64_t *values, size_t n, int64_t *sorted, uint32_t *index, double out[STATISTIC_COUNT]) {
  struct tg__stats s = {0};
  for (size_t i = 0; i < n; i++) {
    if (values[i] == TG_NULL_INT) { /* a value of some steps is not one of all */
      for (size_t k = 0; k < STATISTIC_COUNT; k++) out[k] = NAN;
      return true;
    }
    tg__stats_add(&s, values[i]);
  }
  if (!tg__sort_order(index, n, less_value, values)) return false;
  for (size_t i = 0; i < n; i++) sorted[i] = values[index[i]];
  out[0] = tg__stats_mean(&s);
  out[1] = tg__stats_std(&s);
  out[2] = (double)s.min;
  out[3] = tg__quantile(sorted, n, 0.1);
  out[4] = tg__quantile(sorted, n, 0.5);
  out[5] = tg__quantile(sorted, n, 0.9);
  out[6] = tg__quantile(sorted, n, 0.99);
  out[7] = (double)s.max;
  return true;
}

static bool put_step_summary(const struct tg__columns *t, uint32_t rank, const struct tg__breakdown *b,
                             struct tg_table *out) {
  const size_t n = b->count;
  int64_t *values = tg__alloc((VALUE_COUNT + 1) * n * sizeof *values),
          *sorted = values ? values + VALUE_COUNT * n : NULL;
  uint32_t *index = tg__alloc(n * sizeof *index);
  double result[VALUE_COUNT][STATISTIC_COUNT];
  bool ok = values && index;
  for (size_t i = 0; ok && i < n; i++) {
    int64_t v[VALUE_COUNT];
    step_values(&b->steps[i], b->has_code, v);
    for (size_t c = 0; c < VALUE_COUNT; c++) values[c * n + i] = v[c];
  }
  for (size_t c = 0; ok && c < VALUE_COUNT; c++) ok = statistics(values + c * n, n, sorted, index, result[c]);
  for (size_t k = 0; ok && k < STATISTIC_COUNT; k++) {
    tg__put_rank(out, t, rank);
    tg__put_cstr(out, statistic_names[k]);
    tg__put_null(out);
    tg__put_null(out);
    for (size_t c = 0; c < VALUE_COUNT; c++) {
      if (isnan(result[c][k]))
        tg__put_null(out);
      else
        tg__put_int(out, llround(result[c][k]));
    }
  }
  tg__free(index);
  tg__free(values);
  return ok;
}

static void leave_out_first(const struct tg__columns *t, uint32_t rank, struct tg__breakdown *b, struct tg_table *out) {
  const double times = tg__steps_leave_out_first(b);
  if (times > 0)
    tg__table_note(out,
                   "rank %lld: the first step is left out: its CPU time is %.1f times that of those after it, as a "
                   "recording costs most where it begins",
                   (long long)t->ranks[rank].number, times);
  if (b->warm)
    tg__table_note(out, "rank %lld: warm-up is left out: the first %zu step%s take%s %.2f ms%s, the usual one %.2f ms",
                   (long long)t->ranks[rank].number, b->warm, b->warm == 1 ? "" : "s", b->warm == 1 ? "s" : "",
                   (double)b->warm_ns / 1e6, b->warm == 1 ? "" : " each", (double)b->usual_ns / 1e6);
}

/* ---- the question ---------------------------------------------------------------------------- */

enum by { BY_STEP, BY_SUMMARY, BY_ANNOTATION, BY_RECORDING, BY_COUNT };

static bool is_wanted_step(const struct tg__ask *a, uint32_t rank, int64_t start_ns, int64_t end_ns) {
  if (!a->has_steps) return true;
  for (size_t i = 0; i < a->window_count; i++)
    if (a->windows[i].rank == rank && a->windows[i].start_ns == start_ns && a->windows[i].end_ns == end_ns) return true;
  return false;
}

static void note_kind(const struct tg__columns *t, uint32_t rank, const struct tg__breakdown *b, bool asked_recording,
                      struct tg_table *out) {
  const long long number = (long long)t->ranks[rank].number;
  if (!b->count) {
    tg__table_note(out, "rank %lld: no steps and no operators, so there is nothing to divide", number);
  } else if (b->source == TG__STEPS_RECORDING && !asked_recording) {
    tg__table_note(
        out,
        "rank %lld: no steps in the trace; the row is the whole recording (call prof.step() in the loop to get steps)",
        number);
  }
  if (b->left_out)
    tg__table_note(out, "rank %lld: %zu step%s at the end left out, %s device work is not in the trace", number,
                   b->left_out, b->left_out == 1 ? "" : "s", b->left_out == 1 ? "its" : "their");
}

static enum tg_err answer_step_of_rank(const struct tg__columns *t, const struct tg__ask *a, uint32_t rank, enum by by,
                                       struct tg_table *out) {
  const bool is_recording = by == BY_RECORDING;
  struct tg__breakdown b;
  enum tg_err err = tg__steps_breakdown(t, rank, is_recording ? TG__STEPS_RECORDING : TG__STEPS_DETECTED, &b);
  if (err) goto done;
  note_kind(t, rank, &b, is_recording, out);
  if (b.source != TG__STEPS_RECORDING) {
    size_t kept = 0;
    for (size_t i = 0; i < b.count; i++)
      if (is_wanted_step(a, rank, b.steps[i].host_start_ns, b.steps[i].host_end_ns)) b.steps[kept++] = b.steps[i];
    b.count = kept;
  }
  if (by == BY_SUMMARY && b.count) {
    if (!a->has_steps) leave_out_first(t, rank, &b, out);
    if (!put_step_summary(t, rank, &b, out)) err = TG_MEMORY;
    tg__table_note(out, "rank %lld: statistics over %zu step%s, each rounded to whole ns",
                   (long long)t->ranks[rank].number, b.count, b.count == 1 ? "" : "s");
  } else if (by != BY_SUMMARY) {
    for (size_t i = 0; i < b.count; i++) put_step_step(t, rank, &b.steps[i], b.has_code, out);
  }
done:
  tg__breakdown_free(&b);
  return err;
}

enum tg_err tg__answer_steps(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                             struct tg_error *e) {
  static const char *const choices[BY_COUNT] = {"step", "summary", "annotation", "whole"};
  size_t by;
  const enum tg_err wrong = tg__ask_choice(a, "by", choices, BY_COUNT, &by, e);
  if (wrong) return wrong;
  for (uint32_t i = 0; by == BY_ANNOTATION && i < t->step_count; i++) {
    const struct tg__step *s = &t->steps[i];
    if (tg__ask_has_rank(a, s->rank) && is_wanted_step(a, s->rank, s->start_ns, s->end_ns)) put_annotation(t, s, out);
  }
  for (uint32_t r = 0; by != BY_ANNOTATION && r < t->rank_count; r++) {
    if (!tg__ask_has_rank(a, r)) continue;
    const enum tg_err err = answer_step_of_rank(t, a, r, (enum by)by, out);
    if (err) return tg__no_memory(e, "dividing the steps of rank %lld", (long long)t->ranks[r].number);
  }
  if (!out->rows && !tg__ask_first_step(t, a))
    return tg__fail(e, TG_NO_DATA, -1, "the trace marks no steps%s; %scall prof.step() in the loop that is recorded",
                    by == BY_ANNOTATION ? "" : " and holds no operators, so there is nothing to divide",
                    by == BY_ANNOTATION ? "" : "record with ProfilerActivity.CPU among the activities, and ");
  return TG_OK;
}
