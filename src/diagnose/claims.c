/* claims: which time each finding speaks of. Two findings never speak of the same: the one with the higher expected
 * saving keeps it. Also the order of findings, and what must hold of each. */
#include "diagnose/sites.h"

#include <stdio.h>

enum { LEAST_PCT = 3 };
static const double CERTAINTY_WITHOUT_ESTIMATE = 0.4;

/* ---- stating a claim ------------------------------------------------------------------------- */

void tg__finding_claim(const struct tg__facts *f, struct tg__finding *x, int64_t start_ns, int64_t end_ns) {
  const struct tg__window *w = &f->steps.window;
  const int64_t start = start_ns > w->start_ns ? start_ns : w->start_ns, end = end_ns < w->end_ns ? end_ns : w->end_ns;
  if (start < end) tg__spans_add(&x->claim, start, end);
}

void tg__claim_spans(const struct tg__facts *f, struct tg__finding *x, const struct tg__spans *s) {
  for (size_t i = 0; i < s->count; i++) tg__finding_claim(f, x, s->items[i].start, s->items[i].end);
}

/* The call of which the host's call `slice` is a part; NULL. Calls stand in the order of their slices. */
static const struct tg__site_call *call_around(const struct tg__sites *s, uint32_t slice) {
  size_t low = 0;
  TG__PARTITION(low, s->call_count, i, s->calls[i].slice <= slice);
  const struct tg__site_call *const c = low ? &s->calls[low - 1] : NULL;
  return c && s->f->t->slices.start_ns[slice] < tg__slice_end(s->f->t, c->slice) ? c : NULL;
}

/* Where the device is the slower side: the work that these calls launched. */
static void claim_device_work(const struct tg__sites *s, const bool *in, struct tg__finding *x) {
  const struct tg__columns *const t = s->f->t;
  const struct tg__extent of = tg__rank_slices(t, s->f->rank);
  x->is_of_device = true;
  TG__EACH (i, of) {
    const uint32_t cause = tg__class_is_device_work(tg__slice_class(t, i)) ? t->slices.cause[i] : TG_NONE;
    const struct tg__site_call *const c = cause == TG_NONE || cause < of.first ? NULL : call_around(s, cause);
    if (c && c->counted && c->site != TG_NONE && in[c->site])
      tg__finding_claim(s->f, x, t->slices.start_ns[i], tg__slice_end(t, i));
  }
}

void tg__claim_sites(const struct tg__sites *s, const bool *in, struct tg__finding *x) {
  const struct tg__columns *t = s->f->t;
  if (s->f->device_bound) {
    claim_device_work(s, in, x);
    return;
  }
  for (size_t i = 0; i < s->call_count; i++) {
    const struct tg__site_call *c = &s->calls[i];
    if (c->counted && c->site != TG_NONE && in[c->site])
      tg__finding_claim(s->f, x, t->slices.start_ns[c->slice], tg__slice_end(t, c->slice));
  }
}

/* ---- what a device waits of it ---------------------------------------------------------------- */

void tg__count_waiting(struct tg__facts *f, struct tg__finding *x) {
  struct tg__spans gaps = {0}, waits = {0};
  if (!f->has_device_work) return;
  for (size_t i = 0; i < f->gaps.count; i++) tg__spans_add(&gaps, f->gaps.items[i].start_ns, f->gaps.items[i].end_ns);
  tg__spans_union(&gaps);
  tg__spans_union(&x->claim);
  tg__spans_intersect(&gaps, &x->claim, &waits);
  const int64_t all_ns = tg__spans_length(&x->claim);
  const double part = all_ns ? (double)tg__spans_length(&waits) / (double)all_ns : 1;
  TG_ADD(x->evidence, "; the device waits for %.0f %% of that", 100 * part);
  x->share_pct *= part;
  x->cost_ns = (int64_t)(part * (double)x->cost_ns);
  if (x->saving_ns != TG_NULL_INT && x->saving_ns > x->cost_ns) x->saving_ns = x->cost_ns;
  f->failed |= gaps.failed || waits.failed;
  tg__spans_free(&gaps);
  tg__spans_free(&waits);
}

/* ---- what must hold -------------------------------------------------------------------------- */

int64_t tg__most_to_save(const struct tg__facts *f, const struct tg__finding *x) {
  const int64_t window = tg__per_step(f, f->sum_ns), mean = f->job_step_ns > window ? f->job_step_ns : window;
  return x->is_on_average && mean > f->median_ns ? mean : f->median_ns;
}

const char *tg__finding_fault(const struct tg__facts *f, const struct tg__finding *x) {
  const bool saves = x->saving_ns != TG_NULL_INT;
  if (!(x->share_pct >= 0 && x->share_pct <= 100 + 1e-6)) return "its share is not between 0 and 100 %";
  if (x->cost_ns != TG_NULL_INT && x->cost_ns < 0) return "its time is negative";
  if (saves && x->saving_ns < 0) return "its saving is negative";
  if (saves && x->saving_ns > tg__most_to_save(f, x)) return "its saving is above the median step";
  if (saves && !(x->confidence > 0 && x->confidence < 1)) return "its saving has no confidence";
  if (!x->evidence[0] || !x->advice[0]) return "it lacks evidence or advice";
  return NULL;
}

/* ---- resolving ------------------------------------------------------------------------------- */

double tg__expected_ns(int64_t saving_ns, double confidence, int64_t cost_ns) {
  if (saving_ns != TG_NULL_INT) return (double)saving_ns * (confidence > 0 ? confidence : CERTAINTY_WITHOUT_ESTIMATE);
  return cost_ns == TG_NULL_INT ? 0 : (double)cost_ns * CERTAINTY_WITHOUT_ESTIMATE;
}

struct rank { /* of a finding among the others */
  double expected_ns;
  int level; /* 0: names a place; 1: of the whole step; 2: a symptom */
};

static bool ranks_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct rank *const x = (const struct rank *)ctx + a, *const y = (const struct rank *)ctx + b;
  if (x->level != y->level) return x->level < y->level;
  return x->expected_ns != y->expected_ns ? x->expected_ns > y->expected_ns : a < b;
}

static int64_t common_ns(struct tg__facts *f, const struct tg__spans *a, const struct tg__spans *b) {
  struct tg__spans both = {0};
  tg__spans_intersect(a, b, &both);
  const int64_t ns = tg__spans_length(&both);
  f->failed |= both.failed;
  tg__spans_free(&both);
  return ns;
}

/* The finding with most of this time says that it is this, too. */
static void report_owner(struct tg__facts *f, const uint32_t *kept, size_t count, const struct tg__finding *x) {
  struct tg__finding *owner = NULL;
  int64_t most = 0;
  for (size_t i = 0; i < count; i++) {
    struct tg__finding *const other = &f->found[kept[i]];
    const int64_t ns = x->is_of_device == other->is_of_device ? common_ns(f, &x->claim, &other->claim) : 0;
    if (ns > most) most = ns, owner = other;
  }
  if (!owner || owner->cause == x->cause) return;
  TG_ADD(owner->evidence, "; the same time is %s (%.1f %%)", tg__cause_name(x->cause), x->share_pct);
}

/* false: others hold most of its time already. Their share of the rest is taken off. */
static bool take_time(struct tg__facts *f, const uint32_t *kept, size_t count, struct tg__finding *x) {
  const int64_t own = tg__spans_length(&x->claim);
  struct tg__spans taken = {0};
  for (size_t i = 0; i < count; i++)
    if (f->found[kept[i]].is_of_device == x->is_of_device) tg__spans_add_all(&taken, &f->found[kept[i]].claim);
  tg__spans_union(&taken);
  const int64_t lost = common_ns(f, &x->claim, &taken);
  f->failed |= taken.failed;
  tg__spans_free(&taken);
  if (!own || !lost) return true;
  if (2 * lost >= own) return false;
  const double left = (double)(own - lost) / (double)own;
  x->share_pct *= left;
  if (x->cost_ns != TG_NULL_INT) x->cost_ns = (int64_t)(left * (double)x->cost_ns);
  if (x->saving_ns != TG_NULL_INT) x->saving_ns = (int64_t)(left * (double)x->saving_ns);
  return true;
}

static bool is_worth_reporting(const struct tg__facts *f, const struct tg__finding *x) {
  const int64_t weight = x->saving_ns != TG_NULL_INT ? x->saving_ns : x->cost_ns;
  return x->is_warning || weight == TG_NULL_INT ||
         100 * (double)weight >= LEAST_PCT * (double)tg__per_step(f, f->total_ns);
}

static void say_withheld(struct tg__facts *f, const struct tg__finding *x, const char *why) {
  TG_ADD(f->withheld, "%s%s (%s)", *f->withheld ? "; " : "", tg__cause_name(x->cause), why);
}

static void keep_findings(struct tg__facts *f, const uint32_t *order, uint32_t *kept, bool *is_kept) {
  size_t count = 0;
  int64_t saved = 0;
  for (size_t i = 0; i < f->found_count; i++) {
    struct tg__finding *const x = &f->found[order[i]];
    if (x->is_symptom && tg__spans_length(&x->claim) && !take_time(f, kept, count, x)) {
      report_owner(f, kept, count, x);
      continue;
    }
    if (!x->is_symptom && !x->is_warning && !take_time(f, kept, count, x)) {
      report_owner(f, kept, count, x);
      continue;
    }
    const int64_t most = tg__most_to_save(f, x);
    if (x->saving_ns != TG_NULL_INT && x->saving_ns > most - saved)
      x->saving_ns = saved < most ? most - saved : 0; /* what is saved above cannot be saved again */
    const char *const fault = tg__finding_fault(f, x);
    if (fault || !is_worth_reporting(f, x)) {
      say_withheld(f, x, fault ? fault : "worth less than 3 % of the time");
      continue;
    }
    if (x->saving_ns != TG_NULL_INT) saved += x->saving_ns;
    is_kept[order[i]] = true;
    kept[count++] = order[i];
  }
}

void tg__resolve_claims(struct tg__facts *f) {
  const size_t n = f->found_count;
  uint32_t *const order = tg__alloc((n + 1) * sizeof *order), *const kept = tg__alloc((n + 1) * sizeof *kept);
  struct rank *const ranks = tg__alloc((n + 1) * sizeof *ranks);
  bool *const is_kept = tg__alloc(n + 1);
  bool ok = order && kept && ranks && is_kept;
  for (size_t i = 0; ok && i < n; i++) {
    struct tg__finding *const x = &f->found[i];
    is_kept[i] = false;
    tg__spans_union(&x->claim);
    ok = !x->claim.failed;
    ranks[i] = (struct rank){tg__expected_ns(x->saving_ns, x->confidence, x->cost_ns), x->is_symptom   ? 2
                                                                                       : x->is_general ? 1
                                                                                                       : 0};
  }
  ok = ok && tg__sort_order(order, n, ranks_before, ranks);
  if (ok) keep_findings(f, order, kept, is_kept);
  size_t count = 0;
  for (size_t i = 0; ok && i < n; i++) {
    if (is_kept[i])
      f->found[count++] = f->found[i];
    else
      tg__spans_free(&f->found[i].claim);
  }
  if (ok) f->found_count = count;
  f->failed |= !ok;
  tg__free(order);
  tg__free(kept);
  tg__free(ranks);
  tg__free(is_kept);
}
