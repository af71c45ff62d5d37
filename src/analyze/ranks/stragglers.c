/* stragglers: which rank holds up the others. A rank costs what it comes later than the middle one of the others, in
 * the collectives where it is the last; and what it does longer than they, in the time before, says why. */
#include "analyze/ranks/stragglers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyze/ranks/rank_steps.h"

enum cause { COMPUTE, COPY, DATA, HOST, CAUSE_COUNT };
static const char *const cause_names[CAUSE_COUNT] = {"compute", "copy", "data", "host"};

struct verdict {
  uint32_t rank;
  double late_ns, pct; /* a step */
  enum cause cause;
  double own_ns, middle_ns; /* a step, of the cause */
};
struct judging {
  const struct tg__ranks *r;
  const struct tg__rank_figures *f;
  const bool *common; /* by step of all ranks */
  struct verdict *verdicts;
  double *others;
  bool is_jitter; /* what the first rank costs */
};

/* A step; NaN for a rank without steps. */
static double part_of(const struct tg__rank_figures *f, enum cause c) {
  const int64_t *const share = f->share_ns;
  const int64_t parts[CAUSE_COUNT] = {share[TG__SHARE_COMPUTE], share[TG__SHARE_COPY], share[TG__SHARE_DATA],
                                      share[TG__SHARE_HOST] + share[TG__SHARE_REST]};
  return f->steps ? (double)parts[c] / (double)f->steps : NAN;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The middle one of all ranks, from which those of each rank's others follow: they are the sorted list without one. */
static void judge_causes(struct judging *j) {
  const uint32_t ranks = j->r->s->count;
  for (int c = 0; c < CAUSE_COUNT; c++) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < ranks; i++)
      if (j->f[i].steps) j->others[n++] = part_of(&j->f[i], (enum cause)c);
    qsort(j->others, n, sizeof *j->others, by_size);
    for (uint32_t i = 0; i < ranks && n > 1; i++) {
      const double own = part_of(&j->f[i], (enum cause)c);
      const uint32_t middle = (n - 2) / 2; /* of the n - 1 others, the lower of two */
      struct verdict *const v = &j->verdicts[i];
      if (!j->f[i].steps) continue;
      const double others = own <= j->others[middle] ? j->others[middle + 1] : j->others[middle];
      if (c == 0 || own - others > v->own_ns - v->middle_ns) {
        v->cause = (enum cause)c;
        v->own_ns = own;
        v->middle_ns = others;
      }
    }
  }
}

static bool costs_more(uint32_t a, uint32_t b, const void *ctx) {
  const struct judging *const j = ctx;
  const struct verdict *const x = &j->verdicts[a], *const y = &j->verdicts[b];
  if (x->late_ns != y->late_ns) return x->late_ns > y->late_ns;
  return x->own_ns - x->middle_ns > y->own_ns - y->middle_ns;
}

static void say_evidence(const struct judging *j, const struct verdict *v, char *text, size_t size) {
  const struct tg__rank_figures *const f = &j->f[v->rank];
  const int len = snprintf(text, size, "last in %lld of %lld collective%s", (long long)f->last, (long long)f->matched,
                           f->matched == 1 ? "" : "s");
  if (f->steps && v->own_ns > v->middle_ns)
    snprintf(text + len, size - (size_t)len, "; %s takes %.3f ms a step, with the middle one of the others %.3f ms",
             cause_names[v->cause], v->own_ns / 1e6, v->middle_ns / 1e6);
}

static void put_verdict(const struct judging *j, const struct verdict *v, int64_t place, struct tg_table *out) {
  const struct tg__rank_figures *const f = &j->f[v->rank];
  const bool is_late = v->late_ns > 0, has_cause = is_late && f->steps && v->own_ns > v->middle_ns;
  char text[200];
  say_evidence(j, v, text, sizeof text);
  tg__put_int(out, place);
  tg__put_int(out, j->r->s->ranks[v->rank].number);
  tg__put_real(out, f->matched ? v->pct : NAN);
  tg__put_real(out, f->matched ? v->late_ns : NAN);
  tg__put_int(out, f->last);
  tg__put_int(out, f->matched);
  tg__put_cstr(out, has_cause ? cause_names[v->cause] : "");
  tg__put_real(out, f->steps ? v->own_ns - v->middle_ns : NAN);
  tg__put_cstr(out, text);
}

/* Of the steps that all ranks have, how much later rank a comes than the middle one of the others, the lower of two:
 * what it costs them less what they cost it. false: no memory. */
static bool lead_of(struct judging *j, uint32_t a, double *lead, size_t *count) {
  const struct tg__ranks *const r = j->r;
  struct tg__rank_figures *const f = tg__rank_figures(r, j->common, true);
  size_t *const at = tg__alloc(((size_t)r->s->count + 1) * sizeof *at), *const past = tg__alloc(
                                                                            ((size_t)r->s->count + 1) * sizeof *past);
  size_t steps = 0;
  for (uint32_t i = 0; f && at && past && i < r->s->count; i++)
    at[i] = steps, past[i] = steps += r->s->ranks[i].step_count;
  bool goes_on = f && at && past;
  for (*count = 0; goes_on;) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->s->count && goes_on; i++) {
      while (at[i] < past[i] && !j->common[at[i]]) at[i]++;
      goes_on = at[i] < past[i];
      if (goes_on && i != a) j->others[n++] = (double)f[at[i]].late_ns;
    }
    if (!goes_on || !n) break;
    qsort(j->others, n, sizeof *j->others, by_size);
    lead[(*count)++] = (double)f[at[a]].late_ns - j->others[(n - 1) / 2];
    for (uint32_t i = 0; i < r->s->count; i++) at[i]++;
  }
  const bool done = f && at && past;
  tg__free(f);
  tg__free(at);
  tg__free(past);
  return done;
}

/* Is it no more than three times the standard error of its mean? The step in which it is most counts as the one with
 * most of the others: one of many says nothing. Of fewer than five nothing is known. */
static bool is_jitter(double *lead, size_t n) {
  enum { LEAST_STEPS = 5, ERRORS = 3 };
  double mean = 0, variance = 0;
  if (n < LEAST_STEPS) return false;
  qsort(lead, n, sizeof *lead, by_size);
  lead[n - 1] = lead[n - 2];
  for (size_t i = 0; i < n; i++) mean += lead[i] / (double)n;
  for (size_t i = 0; i < n; i++) variance += (lead[i] - mean) * (lead[i] - mean) / (double)n;
  return mean <= ERRORS * sqrt(variance / (double)n);
}

static bool look_at_jitter(struct judging *j, uint32_t first) {
  double *const lead = tg__alloc(((size_t)j->r->s->ranks[first].step_count + 1) * sizeof *lead);
  size_t count = 0;
  const bool done = lead && lead_of(j, first, lead, &count);
  j->is_jitter = done && is_jitter(lead, count);
  tg__free(lead);
  return done;
}

static void note_headline(const struct judging *j, const struct verdict *first, struct tg_table *out) {
  int64_t matched = 0;
  for (uint32_t i = 0; i < j->r->s->count; i++) matched += j->f[i].matched;
  if (matched == 0) {
    tg__table_note(out, "no collective has several ranks: ranked by what takes longer than with the others");
  } else if (first->pct >= 1 && j->is_jitter) {
    tg__table_note(out,
                   "rank %lld comes last by up to %.3f ms a step (%.1f %%), others as often or in other steps: that is "
                   "within what steps differ by, so no rank holds up the others",
                   (long long)j->r->s->ranks[first->rank].number, first->late_ns / 1e6, first->pct);
  } else if (first->pct >= 1) {
    tg__table_note(out, "rank %lld comes last and costs the others up to %.3f ms a step (%.1f %%)",
                   (long long)j->r->s->ranks[first->rank].number, first->late_ns / 1e6, first->pct);
  } else {
    tg__table_note(out, "no rank costs the others more than 1 %% of a step");
  }
}

static bool judge_straggler(struct judging *j, struct tg_table *out) {
  const uint32_t ranks = j->r->s->count;
  uint32_t *const order = tg__alloc((size_t)ranks * sizeof *order);
  j->verdicts = tg__alloc((size_t)ranks * sizeof *j->verdicts);
  j->others = tg__alloc((size_t)ranks * sizeof *j->others);
  bool done = order && j->verdicts && j->others;
  for (uint32_t i = 0; done && i < ranks; i++) {
    const struct tg__rank_figures *const f = &j->f[i];
    const double late = (double)f->late_ns / (double)(f->steps ? f->steps : 1);
    j->verdicts[i] = (struct verdict){.rank = i, .late_ns = late, .pct = tg__rank_late_pct(f)};
  }
  if (done) judge_causes(j);
  done = done && tg__sort_order(order, ranks, costs_more, j);
  for (uint32_t i = 0; done && i < ranks; i++) put_verdict(j, &j->verdicts[order[i]], (int64_t)i + 1, out);
  done = done && (!ranks || look_at_jitter(j, j->verdicts[order[0]].rank));
  if (done) note_headline(j, &j->verdicts[order[0]], out);
  tg__free(order);
  tg__free(j->verdicts);
  tg__free(j->others);
  return done;
}

static enum tg_err answer_exact(const struct tg__columns *t, const struct tg__ask *a,
                                const struct tg__step_selection *selection, bool align, struct tg_table *out,
                                struct tg_error *e) {
  if (t->rank_count < 2)
    return tg__fail(e, TG_NO_DATA, -1,
                    "one rank has no others to hold up: open the folder that holds the files of all ranks");
  struct tg__ranks r;
  struct tg__rank_figures *f = NULL;
  bool has_common, *steps = NULL;
  enum tg_err err = tg__ranks_open(&r, t, a, align, e);
  if (!err) {
    steps = tg__ranks_common_steps(&r, selection, &has_common);
    err = steps ? tg__step_selection_check(selection, &r, steps, e) : TG_MEMORY;
  }
  if (!err) {
    f = steps ? tg__rank_figures(&r, steps, false) : NULL;
    struct judging j = {.r = &r, .f = f, .common = steps};
    if (!f || !judge_straggler(&j, out)) err = TG_MEMORY;
  }
  if (!err) tg__ranks_note(&r, out);
  tg__free(f);
  tg__free(steps);
  tg__ranks_close(&r);
  return err;
}

enum tg_err tg__stragglers_read(const struct tg__ask *a, struct tg__straggler_call *call, struct tg_error *e) {
  static const char *const clocks[] = {"aligned", "files"};
  size_t clock;
  char *end;
  enum tg_err err = tg__ask_choice(a, "clock", clocks, 2, &clock, e);
  if (!err) err = tg__step_selection_read(&call->selection, a, e);
  if (err) return err;
  const char *const text = tg__ask_arg(a, "candidates");
  const long candidates = strtol(text, &end, 10);
  if (*end || end == text || candidates < 0 || candidates > 1000000)
    return tg__fail(e, TG_USAGE, -1, "candidates=%.60s is not a number of ranks: use a whole number such as 2", text);
  call->is_aligned = clock == 0;
  call->candidates = candidates < 1 ? 1 : (size_t)candidates;
  return TG_OK;
}

enum tg_err tg__answer_stragglers(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                  struct tg_error *e) {
  struct tg__straggler_call call;
  const enum tg_err err = tg__stragglers_read(a, &call, e);
  return err ? err : answer_exact(t, a, &call.selection, call.is_aligned, out, e);
}
