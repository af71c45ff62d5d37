/* Answers the question "findings": gathers the facts of each rank, lets every rule look at them. */
#include "diagnose/sites.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- what rules use -------------------------------------------------------------------------- */

void tg__text_format(char *buf, size_t size, const char *format, ...) {
  va_list args;
  va_start(args, format);
  tg__format_words(buf, size, format, args);
  va_end(args);
}

void tg__text_add(char *buf, size_t size, const char *format, ...) {
  const size_t len = strlen(buf);
  va_list args;
  va_start(args, format);
  tg__format_words(buf + len, size - len, format, args);
  va_end(args);
}

struct tg__finding *tg__finding_add(struct tg__facts *f, enum tg__cause cause, double share_pct, double threshold_pct,
                                    int64_t cost_ns) {
  struct tg__finding *new = &f->overflow;
  tg__spans_free(&f->overflow.claim);
  if (tg__grow((void **)&f->found, &f->found_cap, f->found_count + 1, sizeof *f->found))
    new = &f->found[f->found_count++];
  else
    f->failed = true;
  *new = (struct tg__finding){.cause = cause,
                              .rank = f->rank,
                              .share_pct = share_pct,
                              .threshold_pct = threshold_pct,
                              .cost_ns = cost_ns,
                              .saving_bytes = TG_NULL_INT,
                              .saving_ns = TG_NULL_INT,
                              .saving_low_ns = TG_NULL_INT,
                              .saving_high_ns = TG_NULL_INT,
                              .rule_ns = TG_NULL_INT,
                              .model_ns = TG_NULL_INT,
                              .gone_ns = TG_NULL_INT,
                              .is_in_noise = f->noise.is_busy,
                              .is_unclear = f->noise.is_unclear,
                              .confidence = NAN,
                              .method = "what the cure saves was not estimated"};
  return new;
}

struct tg__finding *tg__find_above(struct tg__facts *f, enum tg__cause cause, double least_pct, int64_t sum_ns) {
  const double share = tg__pct(sum_ns, f->total_ns);
  return share > least_pct ? tg__finding_add(f, cause, share, least_pct, tg__per_step(f, sum_ns)) : NULL;
}

void tg__drop_last(struct tg__facts *f) {
  if (f->found_count) tg__spans_free(&f->found[--f->found_count].claim);
}

void tg__finding_expect(struct tg__facts *f, struct tg__finding *x, int64_t saving_sum_ns, double confidence,
                        const char *method) {
  x->saving_ns = tg__per_step(f, tg__steps_shortened(f, saving_sum_ns < 0 ? 0 : saving_sum_ns, 0, 0));
  x->gone_ns = saving_sum_ns;
  x->confidence = confidence;
  x->method = method;
}

void tg__expect_of_device(struct tg__facts *f, struct tg__finding *x, int64_t device_ns, int64_t wait_ns,
                          double confidence, const char *method) {
  x->saving_ns = tg__per_step(f, tg__steps_shortened(f, 0, device_ns, wait_ns));
  x->confidence = confidence;
  x->method = method;
}

void tg__expect_at_sites(struct tg__facts *f, struct tg__finding *x, int64_t saving_sum_ns, double confidence,
                         const char *method) {
  tg__finding_expect(f, x, saving_sum_ns, confidence, method);
  if (!f->has_device_work) return;
  if (f->device_bound) x->saving_ns = tg__per_step(f, tg__steps_shortened(f, 0, saving_sum_ns, 0));
  TG_ADD(x->evidence, "; times are the %s's, which is the slower side", f->device_bound ? "device" : "host");
}

struct tg__finding *tg__finding_of(const struct tg__facts *f, enum tg__cause cause) {
  for (size_t i = 0; i < f->found_count; i++)
    if (f->found[i].cause == cause) return &f->found[i];
  return NULL;
}

bool tg__has_found(const struct tg__facts *f, enum tg__cause cause) { return tg__finding_of(f, cause) != NULL; }

struct tg__sites *tg__facts_sites(struct tg__facts *f) {
  if (f->sites) return f->sites;
  f->sites = tg__alloc(sizeof *f->sites);
  if (f->sites) tg__sites_open(f, f->sites);
  f->failed |= !f->sites || f->sites->failed;
  return f->failed ? NULL : f->sites;
}

void tg__cannot_judge(struct tg__facts *f, enum tg__cause cause, const char *why) {
  TG_ADD(f->unjudged, "%s%s (%s)", *f->unjudged ? "; " : "", tg__cause_name(cause), why);
}

void tg__cannot_judge_device(struct tg__facts *f, enum tg__cause cause, const char *why) {
  const struct tg__str conditions = tg__document_member(f->t, f->rank, "conditions");
  const bool has_gpu = tg__json_unquoted(tg__json_member(conditions, "gpu")).len > 0; /* named, and not recorded */
  if (f->has_device_work || f->t->ranks[f->rank].device_count || has_gpu) tg__cannot_judge(f, cause, why);
}

const char tg__busy_machine[] = "other programs kept the machine busy";

void tg__finding_withhold(struct tg__facts *f, enum tg__cause cause, double share_pct, const char *why) {
  TG_ADD(f->uncertain, "%s%s, %.1f %% (%s)", *f->uncertain ? "; " : "", tg__cause_name(cause), share_pct, why);
}

uint32_t tg__loop_track(const struct tg__facts *f) {
  const bool marked = tg__has_steps(f) && f->steps.count;
  const uint32_t step = marked ? f->t->steps[f->steps.steps[0].step].slice : TG_NONE;
  return step == TG_NONE ? TG_NONE : tg__slice_track(f->t, step);
}

int64_t tg__per_step(const struct tg__facts *f, int64_t sum) {
  return f->steps.count ? sum / (int64_t)f->steps.count : sum;
}

void *tg__alloc_scratch(struct tg__facts *f, size_t count, size_t item_bytes) {
  void *const p = count < SIZE_MAX / item_bytes ? tg__arena_get(&f->scratch, (count + 1) * item_bytes) : NULL;
  f->failed |= !p;
  return p ? memset(p, 0, (count + 1) * item_bytes) : NULL;
}

struct tg__scratch_spans {
  struct tg__spans spans;
  struct tg__scratch_spans *next;
};

struct tg__spans *tg__new_spans(struct tg__facts *f) {
  struct tg__scratch_spans *const s = tg__alloc_scratch(f, 1, sizeof *s);
  if (!s) return &f->overflow_spans;
  s->next = f->scratch_spans;
  f->scratch_spans = s;
  return &s->spans;
}

static void empty_scratch(struct tg__facts *f) {
  for (struct tg__scratch_spans *s = f->scratch_spans; s; s = s->next) {
    f->failed |= s->spans.failed;
    tg__spans_free(&s->spans);
  }
  f->scratch_spans = NULL;
  tg__spans_free(&f->overflow_spans);
  tg__arena_free(&f->scratch);
}

bool tg__is_one_of(struct tg__str name, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strlen(names[i]) == name.len && memcmp(names[i], name.ptr, name.len) == 0) return true;
  return false;
}

bool tg__has_one_of(struct tg__str name, const char *const *parts, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (tg__str_contains(name, parts[i])) return true;
  return false;
}

const char *tg__period_per(const struct tg__facts *f) { return tg__has_steps(f) ? "a step" : "in all"; }
const char *tg__period_name(const struct tg__facts *f) { return tg__has_steps(f) ? "step" : "recording"; }
const char *tg__period_each(const struct tg__facts *f) { return tg__has_steps(f) ? "each" : "the"; }

void tg__where_slice(const struct tg__facts *f, uint32_t slice, struct tg__finding *out) {
  const struct tg__str name = tg__slice_name(f->t, slice);
  struct tg__out line = {0};
  const struct tg__str module = tg__compiled_module(f->t, slice);
  if (!tg__is_user_frame(name)) tg__user_line(f->t, slice, &line);
  if (line.len && module.len) tg__out_format(&line, " in %.*s", (int)module.len, module.ptr);
  if (line.len)
    TG_FORMAT(out->where, "%.*s at %.*s", (int)(name.len < 90 ? name.len : 90), name.ptr, (int)line.len, line.buf);
  else
    TG_FORMAT(out->where, "%.*s", (int)name.len, name.ptr);
  tg__out_free(&line);
}

struct tg__slice_walk tg__slices_begin(const struct tg__facts *f) {
  const struct tg__extent tracks = tg__tracks_of(&f->t->ranks[f->rank]);
  return (struct tg__slice_walk){.f = f, .track = tracks.first, .past_track = tracks.past};
}

bool tg__slices_next(struct tg__slice_walk *w) {
  const struct tg__columns *const t = w->f->t;
  const struct tg__window *const steps = &w->f->steps.window;
  for (;; w->track++) {
    while (w->next < w->past && t->slices.start_ns[w->next] < steps->start_ns) w->next++;
    if (w->next < w->past && t->slices.start_ns[w->next] < steps->end_ns) break;
    if (w->track == w->past_track) return false;
    w->next = t->tracks[w->track].first;
    w->past = w->next + t->tracks[w->track].count;
  }
  w->slice = w->next++;
  w->cls = tg__slice_class(t, w->slice);
  return true;
}

bool tg__is_of_closure(const struct tg__columns *t, uint32_t slice) {
  const struct tg__str name = tg__slice_name(t, slice);
  return tg__str_has_prefix(name, "autograd::engine::") || tg__str_has_prefix(name, "torch::autograd::") ||
         tg__arg_int(t, t->slices.args[slice], TG__K_SEQUENCE_NUMBER, -1) >= 0;
}

/* ---- facts ----------------------------------------------------------------------------------- */

static void sum_up(struct tg__facts *f) {
  struct tg__tally all = {0};
  for (size_t i = 0; i < f->steps.count; i++) {
    const struct tg__step_cost *s = &f->steps.steps[i];
    tg__tally_in(&all, i + 1, s->end_ns - s->start_ns);
    for (unsigned p = 0; p < TG__PART_COUNT; p++) f->part_ns[p] += s->part_ns[p];
    f->label_ns += s->label_ns;
  }
  f->total_ns = tg__tally_sum(f, &all);
  f->sum_ns = f->all_ns = all.sum_ns;
  f->has_device_work = f->gaps.device_count > 0;
  f->median_ns = tg__usual_length(f);
}

struct tg__spans *tg__rest_of(struct tg__facts *f, struct tg__spans *of, const struct tg__spans *others) {
  struct tg__spans *const left = tg__new_spans(f);
  tg__spans_union(of);
  if (!f->failed) tg__spans_subtract(of, others, left);
  f->failed |= of->failed || others->failed || left->failed;
  tg__spans_free(of);
  return left;
}

/* Gaps of one cause on one device, without what comes once. */
struct tg__spans *tg__gap_spans(struct tg__facts *f, int64_t device, enum tg__gap_cause cause) {
  struct tg__spans *const all = tg__new_spans(f);
  for (size_t i = 0; i < f->gaps.count; i++) {
    const struct tg__gap *const g = &f->gaps.items[i];
    if (g->device == device && g->cause == cause) tg__spans_add(all, g->start_ns, g->end_ns);
  }
  return tg__rest_of(f, all, &f->one_off);
}

static void sum_up_gaps(struct tg__facts *f) {
  for (size_t i = 0; i < f->gaps.count; i++) {
    if (i && f->gaps.items[i].device == f->gaps.items[i - 1].device) continue;
    for (enum tg__gap_cause c = TG__GAP_NONE; c < TG__GAP_CAUSE_COUNT; c++)
      f->gap_ns[c] += tg__usual_sum(f, tg__gap_spans(f, f->gaps.items[i].device, c));
  }
}

static void count_device_events(struct tg__facts *f) {
  struct tg__map names = {0};
  TG__EACH_IN_STEPS (w, f) {
    if (!tg__class_is_device_work(w.cls)) continue;
    f->failed |= !tg__map_put(&names, f->t->slices.name[w.slice], 1);
    f->device_events++;
    f->replayed += tg__is_replayed(f->t, w.slice);
  }
  f->device_names = (int64_t)names.count;
  tg__map_free(&names);
}

/* What comes once is no part of a recording that is judged as a whole. */
static void leave_out_once(struct tg__facts *f) {
  const int64_t ns = tg__spans_inside(&f->one_off, f->steps.window.start_ns, f->steps.window.end_ns);
  if (tg__has_steps(f) || ns >= f->total_ns) return;
  f->total_ns -= ns;
  f->sum_ns = f->median_ns = f->total_ns;
}

enum tg_err tg__facts_open(const struct tg__columns *t, uint32_t rank, struct tg__facts *f) {
  *f = (struct tg__facts){.t = t, .rank = rank};
  enum tg_err err = tg__names_open(&f->names, t) ? TG_OK : TG_MEMORY;
  if (!err) err = tg__steps_breakdown(t, rank, TG__STEPS_DETECTED, &f->steps);
  if (!err && !f->steps.count) { /* only the device was recorded */
    tg__breakdown_free(&f->steps);
    err = tg__steps_breakdown(t, rank, TG__STEPS_CALLS, &f->steps);
  }
  if (!err) tg__steps_leave_out_first(&f->steps);
  if (!err) err = tg__gaps_find(t, rank, &f->gaps);
  if (err) return err;
  f->noise = tg__noise_of(t, rank, &f->steps);
  sum_up(f);
  tg__facts_find_one_off(f);
  sum_up_gaps(f);
  leave_out_once(f);
  count_device_events(f);
  tg__find_bounds(f);
  return f->failed ? TG_MEMORY : TG_OK;
}

void tg__facts_close(struct tg__facts *f) {
  tg__names_close(&f->names);
  tg__breakdown_free(&f->steps);
  tg__gaps_free(&f->gaps);
  for (size_t i = 0; i < f->found_count; i++) tg__spans_free(&f->found[i].claim);
  tg__spans_free(&f->overflow.claim);
  tg__spans_free(&f->one_off);
  tg__free(f->found);
  if (f->sites) tg__sites_close(f->sites);
  tg__free(f->sites);
  empty_scratch(f);
}

static void run_rules(struct tg__facts *f) {
#define RULE(function)                                                                                                 \
  if (!f->failed) function(f);                                                                                         \
  empty_scratch(f);
#include "diagnose/causes.def"
}

/* ---- the answer ------------------------------------------------------------------------------ */

static enum tg_err judge_rank(const struct tg__columns *t, const struct tg__ask *a, uint32_t rank, struct tg_table *out,
                              size_t *judged) {
  struct tg__facts f;
  enum tg_err err = tg__facts_open(t, rank, &f);
  f.is_of_several = a->job.is_part || t->rank_count > 1;
  f.questions = a->question->catalog;
  if (!err && f.steps.count) run_rules(&f);
  if (!err) tg__judge_memory(&f);
  if (!err && !f.failed) tg__resolve_claims(&f);
  if (!err && !f.failed) tg__find_ranges(&f);
  if (!err && f.failed) err = TG_MEMORY;
  if (!err && !f.steps.count && !f.found_count)
    tg__table_note(out,
                   "a rank has neither steps nor operators nor calls that launch work, so nothing was judged there");
  *judged += f.steps.count > 0 || f.has_memory;
  if (!err && f.steps.count) tg__note_checks(&f, out);
  if (!err && f.steps.count) tg__note_limits(&f, out);
  if (!err && f.failed) err = TG_MEMORY;
  if (!err && f.unjudged[0]) tg__table_note(out, "not judged: %s", f.unjudged);
  if (!err && f.one_off_text[0]) tg__table_note(out, "left out, as it comes once: %s", f.one_off_text);
  if (!err && f.withheld[0]) tg__table_note(out, "not reported: %s", f.withheld);
  if (!err && f.uncertain[0]) tg__table_note(out, "withheld: %s", f.uncertain);
  for (size_t i = 0; !err && i < f.found_count; i++) {
    tg__say_settings(&f, &f.found[i]);
    tg__put_finding(t, &f.found[i], out);
  }
  tg__facts_close(&f);
  return err;
}

/* The rank that the others wait for shows whichever rank was asked for. */
enum tg_err tg__merged_findings(const struct tg__rank_source *ranks, struct tg_table *rows, struct tg_error *e) {
  struct tg__straggler s;
  struct tg__columns *slow = NULL;
  uint32_t rank = 0;
  struct tg__rank_load *const loads = tg__alloc(((size_t)ranks->count + 1) * sizeof *loads);
  enum tg_err err = loads ? TG_OK : tg__no_memory(e, "looking for causes");
  for (uint32_t r = 0; !err && r < ranks->count && ranks->count > 1; r++) err = ranks->load(ranks, r, &loads[r], e);
  if (!err) tg__note_missing_ranks(ranks->t, ranks->count, rows);
  if (!err && tg__find_straggler(loads, ranks->count, &s)) err = ranks->open(ranks, (uint32_t)s.which, &slow, &rank, e);
  if (!err && slow) err = tg__trace_load(slow, TG__COL_ALL, e);
  tg__free(loads);
  if (err || !tg__findings_of_ranks(rows, slow, rank, &s)) return err;
  return tg__no_memory(e, "looking for causes");
}

/* The same where they are all in memory. */
static enum tg_err compare_ranks(const struct tg__columns *t, struct tg_table *rows) {
  struct tg__straggler s;
  struct tg__rank_load *const loads = tg__alloc(((size_t)t->rank_count + 1) * sizeof *loads);
  enum tg_err err = loads ? TG_OK : TG_MEMORY;
  for (uint32_t r = 0; !err && r < t->rank_count && t->rank_count > 1; r++) err = tg__rank_load(t, r, &loads[r]);
  const bool is_slow = !err && tg__find_straggler(loads, t->rank_count, &s);
  tg__note_missing_ranks(t, t->rank_count, rows);
  if (!err) err = tg__findings_of_ranks(rows, is_slow ? t : NULL, is_slow ? (uint32_t)s.which : 0, &s);
  tg__free(loads);
  return err;
}

enum tg_err tg__answer_findings(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                struct tg_error *e) {
  size_t judged = 0;
  enum tg_err err = TG_OK;
  for (uint32_t r = 0; !err && r < t->rank_count; r++)
    if (tg__ask_has_rank(a, r)) err = judge_rank(t, a, r, out, &judged);
  if (err) return tg__no_memory(e, "looking for causes");
  if (!a->is_joined && compare_ranks(t, out)) return tg__no_memory(e, "looking for causes");
  if (judged) return TG_OK;
  return tg__no_steps_to_judge(e);
}
