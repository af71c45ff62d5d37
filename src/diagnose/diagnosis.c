/* diagnosis: the method as one answer, from the whole program down to one operation and back to what is measured next.
 * Its numbers are those of other questions. */
#include "diagnose/diagnosis.h"

/* ---- baseline ---------------------------------------------------------------------------------- */

static double mean_of(const int64_t *sorted, size_t from, size_t end) {
  double mean = 0;
  for (size_t i = from; i < end; i++) mean += (double)sorted[i] / (double)(end - from);
  return mean;
}

/* Squared distances from the mean of sorted[from..end). */
static double scatter_of(const int64_t *sorted, size_t from, size_t end) {
  const double mean = mean_of(sorted, from, end);
  double sum = 0;
  for (size_t i = from; i < end; i++) sum += ((double)sorted[i] - mean) * ((double)sorted[i] - mean);
  return sum;
}

bool tg__two_modes(const int64_t *sorted, size_t n, double *low, double *high) {
  const size_t least = (n + MODE_OF - 1) / MODE_OF > 2 ? (n + MODE_OF - 1) / MODE_OF : 2;
  size_t best = 0;
  double best_scatter = INFINITY;
  if (n < LEAST_FOR_MODES || n > MOST_FOR_MODES) return false;
  for (size_t cut = least; cut <= n - least; cut++) {
    const double scatter = scatter_of(sorted, 0, cut) + scatter_of(sorted, cut, n);
    if (scatter < best_scatter) best_scatter = scatter, best = cut;
  }
  if (!best) return false;
  *low = mean_of(sorted, 0, best);
  *high = mean_of(sorted, best, n);
  return *high - *low > GAP_OF_MODES * sqrt(best_scatter / (double)n) && *high - *low > LEAST_GAP * *low;
}

static void put_times(struct tg__diagnosis *d, const int64_t *sorted, size_t n) {
  static const struct {
    const char *name;
    double quantile;
  } figures[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}};
  const bool has_steps = tg__has_steps(d->f);
  char text[200];
  if (!has_steps)
    TG_FORMAT(text, "no steps are marked: this is the recording as one step");
  else if (d->f->steps.warm)
    TG_FORMAT(text, "%zu step%s; %zu at the start left out as warm-up, %.2f ms each", n, n == 1 ? "" : "s",
              d->f->steps.warm, tg__ms(d->f->steps.warm_ns));
  else
    TG_FORMAT(text, "%zu step%s; no warm-up among them", n, n == 1 ? "" : "s");
  for (size_t i = 0; i < (has_steps ? 3 : 1); i++)
    tg__put_diagnosis(d, "baseline", "step", has_steps ? figures[i].name : "whole recording",
                      tg__quantile(sorted, n, figures[i].quantile), NAN, i ? NULL : text, NULL);
}

static void put_modes(struct tg__diagnosis *d, const int64_t *sorted, size_t n) {
  double low, high;
  char text[200];
  if (!tg__two_modes(sorted, n, &low, &high)) return;
  TG_FORMAT(text,
            "the steps are of two kinds, of %.2f and %.2f ms: two things are measured, and the median is one of them",
            low / 1e6, high / 1e6);
  tg__put_diagnosis(d, "baseline", "step", "two modes", high - low, NAN, text,
                    tg__say_ask(d, TG__Q_steps, "--sort 'total_ns desc'"));
}

/* The conditions of the recording, and the facts that it leaves open. */
static void put_conditions(struct tg__diagnosis *d) {
  static const char *const keys[] = {"model", "batch_size", "input_shape", "gpu",   "dtype",  "mode",
                                     "cpu",   "cpu_cores",  "threads",     "torch", "python", "num_workers"};
  const struct tg__str said = tg__document_member(d->f->t, d->f->rank, "conditions");
  char text[500] = "";
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const struct tg__str s = tg__json_plain(tg__json_member(said, keys[i]));
    if (!s.len || tg__str_eq(s, TG_STR("null"))) continue;
    TG_ADD(text, "%s%s %.*s", *text ? ", " : "", keys[i], (int)(s.len < 60 ? s.len : 60), s.ptr);
  }
  if (!*text) TG_FORMAT(text, "the trace does not say under which conditions it was made");
  tg__put_diagnosis(d, "baseline", "conditions", "as recorded", NAN, NAN, text, NULL);
}

static void put_baseline(struct tg__diagnosis *d) {
  const size_t n = d->f->steps.count;
  int64_t *const lengths = tg__alloc((2 * n + 1) * sizeof *lengths), *const sorted = lengths ? lengths + n : NULL;
  for (size_t i = 0; lengths && i < n; i++) lengths[i] = d->f->steps.steps[i].end_ns - d->f->steps.steps[i].start_ns;
  uint32_t *const order = lengths ? tg__order_numbers(lengths, n) : NULL;
  for (size_t i = 0; order && i < n; i++) sorted[i] = lengths[order[i]];
  if (order) {
    put_times(d, sorted, n);
    put_modes(d, sorted, n);
    put_conditions(d);
  }
  d->f->failed |= !order;
  tg__free(order);
  tg__free(lengths);
}

/* ---- kind -------------------------------------------------------------------------------------- */

static void put_kinds_of_bottleneck(struct tg__diagnosis *d) {
  struct tg_table *const t = tg__facts_ask(d->f, TG__Q_bottleneck, NULL, NULL);
  for (size_t i = 0; t && i < t->rows; i++) {
    const bool is_it = t->columns[tg__table_column_index(t, "is_bottleneck")].bools[i] > 0;
    const char *const name = tg__fact_cstr(t, i, "kind");
    char next[160];
    TG_FORMAT(next, "tachograph ask FILE %s", tg__fact_cstr(t, i, "next"));
    if (is_it) TG_FORMAT(d->kind, "%s", name);
    if (is_it) TG_FORMAT(d->kind_next, "%s", next);
    tg__put_diagnosis(d, "kind", is_it ? "bottleneck" : "kind", name, (double)tg__fact_number(t, i, "step_ns"),
                      tg__fact_real(t, i, "share_pct"), tg__fact_cstr(t, i, "evidence"), next);
  }
  tg__table_free(t);
}

/* Six questions with their numbers, in the order in which a profile is read. */
static void put_questions_of_profile(struct tg__diagnosis *d) {
  struct tg_table *const t = tg__facts_ask(d->f, TG__Q_six_questions, NULL, NULL);
  for (size_t i = 0; t && i < t->rows; i++) {
    char evidence[500], next[160];
    const bool is_share = strcmp(tg__fact_cstr(t, i, "unit"), "%") == 0;
    TG_FORMAT(next, "tachograph ask FILE %s", tg__fact_cstr(t, i, "next"));
    TG_FORMAT(evidence, "%s %s: %s", tg__fact_cstr(t, i, "question"), tg__fact_cstr(t, i, "answer"),
              tg__fact_cstr(t, i, "evidence"));
    tg__put_diagnosis(d, "kind", "question", tg__fact_cstr(t, i, "about"), NAN,
                      is_share ? tg__fact_real(t, i, "value") : NAN, evidence, next);
  }
  tg__table_free(t);
}

/* ---- what to change ---------------------------------------------------------------------------- */

/* NaN: unknown. */
static double change_ns(const struct tg_table *t, size_t row, const char *column) {
  const int64_t ns = t->columns[tg__table_column_index(t, column)].ints[row];
  return ns == TG_NULL_INT ? NAN : (double)ns;
}

static void put_one_change(struct tg__diagnosis *d, const struct tg_table *t, size_t i) {
  char evidence[1200];
  struct tg__next to_ask;
  const char *next = NULL;
  TG_FORMAT(evidence, "%s. %s", tg__fact_cstr(t, i, "evidence"), tg__fact_cstr(t, i, "advice"));
  if (tg__cause_next(tg__fact_text(t, i, "cause"), &to_ask)) next = tg__say_ask(d, to_ask.question, to_ask.words);
  if (i == 0 && next) TG_FORMAT(d->change_next, "%s", next);
  d->where = tg__fact_cstr(t, i, "where");
  d->low_ns = change_ns(t, i, "saving_low_ns");
  d->high_ns = change_ns(t, i, "saving_high_ns");
  tg__put_diagnosis(d, "change", tg__fact_cstr(t, i, "severity"), tg__fact_cstr(t, i, "cause"),
                    change_ns(t, i, "saving_ns"), tg__fact_real(t, i, "share_pct"), evidence, next);
}

static void put_changes(struct tg__diagnosis *d) {
  struct tg_table *const t = tg__facts_ask(d->f, TG__Q_findings, NULL, NULL);
  for (size_t i = 0; t && i < t->rows; i++) put_one_change(d, t, i);
  if (t && !t->rows)
    tg__put_diagnosis(d, "change", "none", "nothing found", NAN, NAN, "no rule fires: nothing here is promised", NULL);
  tg__table_free(t);
}

/* ---- the answer -------------------------------------------------------------------------------- */

static void put_parts(struct tg__facts *f, struct tg_table *out) {
  struct tg__diagnosis d = {.f = f, .out = out, .low_ns = NAN, .high_ns = NAN};
  put_baseline(&d);
  put_kinds_of_bottleneck(&d);
  put_questions_of_profile(&d);
  tg__put_components(&d);
  tg__put_operations(&d);
  put_changes(&d);
  tg__put_measures(&d);
}

enum tg_err tg__answer_diagnosis(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                 struct tg_error *e) {
  return tg__put_of_ranks(t, a, put_parts, "diagnosing", out, e);
}
