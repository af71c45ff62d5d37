/* timed: every step that `tachograph run` timed. Work of every so many steps shows here though the window holds one
 * such step, or none. */
#include "diagnose/timed.h"

#include "diagnose/samples.h"

#include <math.h>

enum { LEAST_STEPS = 8, TIMES_USUAL = 2, WARM_PART = 3, WARM_PCT = 5, MOST_LONG = 512, LEAST_HITS = 3, NEXT_FEW = 4 };
enum { OF_SLOTS_PCT = 80, OF_LONG_PCT = 60, ALIKE = 3, LEVELS = 4, RECORDER_NS = 2000000 };

/* ---- reading ----------------------------------------------------------------------------------- */

static struct tg__members of_run(const struct tg__facts *f, const char *key) {
  return tg__members_of(tg__json_member(tg__document_member(f->t, f->rank, "run"), key));
}

/* A number that time can be added up of; -1. */
static int64_t next_number(struct tg__members *m) {
  int64_t value;
  return tg__members_next(m) && tg__str_to_int(m->value, &value) && value >= 0 && value < INT64_MAX >> 20 ? value : -1;
}

static bool read_steps(struct tg__facts *f, struct tg__timed *s) {
  size_t numbers = 0;
  for (struct tg__members m = of_run(f, "timed"); tg__members_next(&m);) numbers++;
  const size_t most = numbers / 3;
  if (most < LEAST_STEPS) return false;
  s->ns = tg__alloc_scratch(f, most, sizeof *s->ns);
  s->cpu_ns = tg__alloc_scratch(f, most, sizeof *s->cpu_ns);
  s->is_recorded = tg__alloc_scratch(f, most, sizeof *s->is_recorded);
  if (f->failed) return false;
  for (struct tg__members m = of_run(f, "timed"); s->count < most; s->count++) {
    const int64_t ns = next_number(&m), cpu_ns = next_number(&m), recorded = next_number(&m);
    if (ns < 0 || cpu_ns < 0 || recorded < 0) return false;
    s->ns[s->count] = ns;
    s->cpu_ns[s->count] = cpu_ns;
    s->is_recorded[s->count] = recorded > 0;
  }
  return true;
}

/* Those from `from` on that are recorded or not; NULL on no memory, which f then says. */
static int64_t *some_of(struct tg__facts *f, const struct tg__timed *s, const int64_t *values, size_t from,
                        bool recorded, size_t *n) {
  int64_t *const some = tg__alloc_scratch(f, s->count, sizeof *some);
  *n = 0;
  for (size_t i = from; some && i < s->count; i++)
    if (s->is_recorded[i] == recorded) some[(*n)++] = values[i];
  return some;
}

/* Their median; 0: of none. */
static int64_t median_of(struct tg__facts *f, const struct tg__timed *s, bool recorded) {
  size_t n;
  int64_t *const some = some_of(f, s, s->ns, 0, recorded, &n), median = 0;
  f->failed |= some && !tg__median_of(some, n, &median);
  return median;
}

/* ---- steps that are long ----------------------------------------------------------------------- */

/* Things warm up: leading steps that are more than twice as long as usual, as long as they are few. */
static void find_warm_up(struct tg__timed *s) {
  while (s->warm < s->count && s->ns[s->warm] > TIMES_USUAL * s->usual_ns) s->warm++;
  if (WARM_PART * s->warm > s->count) s->warm = 0;
}

/* By how much a step is too long; 0: it is not. A recorded one may be longer for the recorder's sake: -1, not known. */
static int64_t excess_of(const struct tg__timed *s, size_t i) {
  const int64_t more = s->ns[i] - s->usual_ns, least = (TIMES_USUAL - 1) * s->usual_ns;
  if (!s->is_recorded[i]) return more > least ? more : 0;
  return more > least + RECORDER_NS ? more : -1;
}

struct hits {
  size_t count, slots;
  int64_t excess_ns, least_ns, most_ns;
};

/* Of the steps at this distance from one another. */
static struct hits hits_of(const struct tg__timed *s, size_t first, size_t period, int64_t least_ns) {
  struct hits h = {.least_ns = INT64_MAX};
  for (size_t i = s->warm + (first - s->warm) % period; i < s->count; i += period) {
    const int64_t ns = excess_of(s, i);
    if (ns < 0) continue;
    h.slots++;
    if (!ns || ns < least_ns) continue;
    h.count++;
    h.excess_ns += ns;
    if (ns < h.least_ns) h.least_ns = ns;
    if (ns > h.most_ns) h.most_ns = ns;
  }
  return h;
}

/* How likely long steps that come by chance fall into so many of the slots of some distance, as a logarithm. */
static double log_chance(const struct hits *h, size_t seen, size_t all_long) {
  const double rate = (double)all_long / (double)seen, tried = (double)seen * (double)seen / 18;
  const double choices =
      lgamma((double)h->slots + 1) - lgamma((double)h->count + 1) - lgamma((double)(h->slots - h->count) + 1);
  return log(tried) + choices + (double)h->count * log(rate);
}

struct longs { /* those that are too long by at least so much */
  size_t at[MOST_LONG], count, seen;
};

static void find_longs(const struct tg__timed *s, int64_t least_ns, struct longs *out) {
  out->count = out->seen = 0;
  for (size_t i = s->warm; i < s->count && out->count < MOST_LONG; i++) {
    const int64_t ns = excess_of(s, i);
    out->seen += ns >= 0;
    if (ns > 0 && ns >= least_ns) out->at[out->count++] = i;
  }
}

/* Long steps that the program makes are alike, come in nearly all slots of one distance, and most of those that are so
 * long do. */
static void find_period_of(const struct tg__facts *f, int64_t least_ns, struct tg__timed *s) {
  struct longs all;
  find_longs(s, least_ns, &all);
  for (size_t a = 0; a < all.count; a++) {
    for (size_t b = a + 1; b < all.count && b <= a + NEXT_FEW; b++) {
      const size_t period = all.at[b] - all.at[a];
      const struct hits h = period >= LEAST_HITS ? hits_of(s, all.at[a], period, least_ns) : (struct hits){0};
      if (h.count < LEAST_HITS || 100 * h.count < OF_SLOTS_PCT * h.slots || h.excess_ns <= s->excess_ns ||
          100 * h.count < OF_LONG_PCT * all.count || ALIKE * h.least_ns < h.most_ns)
        continue;
      if (log_chance(&h, all.seen, all.count) > log(f->noise.is_busy ? 0.005 : 0.05)) continue;
      s->period = period;
      s->first_long = s->warm + (all.at[a] - s->warm) % period;
      s->long_count = h.count;
      s->slot_count = h.slots;
      s->excess_ns = h.excess_ns;
    }
  }
}

/* A busy machine makes some steps long as well, by less than the program makes its own, or one by far more. */
static void find_period(const struct tg__facts *f, struct tg__timed *s) {
  int64_t most_ns = 0;
  for (size_t i = s->warm; i < s->count; i++)
    if (excess_of(s, i) > most_ns) most_ns = excess_of(s, i);
  for (unsigned level = 0; level < LEVELS && !s->period; level++) find_period_of(f, most_ns /= ALIKE, s);
}

bool tg__timed_is_slot(const struct tg__timed *s, int64_t number) {
  const int64_t behind = number - (int64_t)s->first_long;
  return s->period && behind >= 0 && behind % (int64_t)s->period == 0;
}

static void sum_up_timed(struct tg__timed *s) {
  for (size_t i = s->warm; i < s->count; i++) {
    const int64_t excess = excess_of(s, i);
    s->sum_ns += excess < 0 ? s->usual_ns : s->ns[i];
    if (tg__timed_is_slot(s, (int64_t)i) && excess > 0 && s->ns[i] > s->longest_ns)
      s->longest_ns = s->ns[i], s->longest_cpu_ns = s->cpu_ns[i];
  }
}

bool tg__timed_read(struct tg__facts *f, struct tg__timed *s) {
  *s = (struct tg__timed){0};
  if (!read_steps(f, s)) return false;
  s->usual_ns = median_of(f, s, false);
  const int64_t recorded_ns = median_of(f, s, true);
  if (f->failed || s->usual_ns <= 0) return false;
  for (size_t i = 0; i < s->count; i++)
    if (s->is_recorded[i] && recorded_ns > s->usual_ns) s->ns[i] -= recorded_ns - s->usual_ns;
  find_warm_up(s);
  find_period(f, s);
  sum_up_timed(s);
  return !f->failed;
}

struct tg__str tg__timed_place(const struct tg__facts *f, const struct tg__timed *s) {
  struct tg__lines seen = {.count = 0};
  struct tg__members m = of_run(f, "long_steps");
  int64_t in_function;
  for (int64_t number; (number = next_number(&m)) >= 0 && tg__members_next(&m);) {
    const struct tg__str frame = tg__user_frame_of_stack(tg__json_unquoted(m.value));
    if (frame.len && tg__timed_is_slot(s, number)) tg__lines_add(&seen, frame, 1);
  }
  return tg__lines_most(&seen, &in_function);
}

/* ---- notes about all steps --------------------------------------------------------------------- */

static void note_warm_up(const struct tg__timed *s, struct tg_table *out) {
  int64_t ns = 0;
  for (size_t i = 0; i < s->warm; i++) ns += s->ns[i];
  if (s->warm && 100 * (double)ns > WARM_PCT * (double)s->sum_ns)
    tg__table_note(out,
                   "warm-up: the first %zu of %zu timed steps take %.2f ms%s, the usual one %.2f ms; figures of all "
                   "steps are without them",
                   s->warm, s->count, tg__ms(ns / (int64_t)s->warm), s->warm > 1 ? " each" : "", tg__ms(s->usual_ns));
}

enum { PARTS = 5, LEAST_GROWING = 50, GROWS_PCT = 130, KINDS_LEAST = 40, KIND_PCT = 15, KINDS_APART_PCT = 150 };

/* The medians of the bare steps of each fifth; false: too few. */
static bool medians_of_parts(struct tg__facts *f, const struct tg__timed *s, const int64_t *values,
                             int64_t medians[PARTS]) {
  size_t n;
  int64_t *const some = some_of(f, s, values, s->warm, false, &n);
  for (size_t k = 0; some && k < PARTS; k++)
    f->failed |= !tg__median_of(some + k * n / PARTS, (k + 1) * n / PARTS - k * n / PARTS, &medians[k]);
  return !f->failed && n >= LEAST_GROWING;
}

/* Where others keep the machine busy, the time on a core must grow as well. */
static bool note_growth(struct tg__facts *f, const struct tg__timed *s, struct tg_table *out) {
  int64_t wall[PARTS], cpu[PARTS];
  if (!medians_of_parts(f, s, s->ns, wall) || !medians_of_parts(f, s, s->cpu_ns, cpu)) return false;
  bool grows = 100 * wall[PARTS - 1] > GROWS_PCT * wall[0];
  for (size_t k = 1; k < PARTS; k++) grows &= wall[k] >= wall[k - 1];
  if (f->noise.is_busy) grows &= 2 * (cpu[PARTS - 1] - cpu[0]) >= wall[PARTS - 1] - wall[0];
  if (grows)
    tg__table_note(out,
                   "steps become longer: %.2f ms in the first fifth of the timed ones, %.2f ms in the last (%.2f and "
                   "%.2f ms on a core); something is kept from step to step",
                   tg__ms(wall[0]), tg__ms(wall[PARTS - 1]), tg__ms(cpu[0]), tg__ms(cpu[PARTS - 1]));
  return grows;
}

/* Two kinds of steps: between the two is the widest gap, and hardly a step. */
static void note_kinds(struct tg__facts *f, const struct tg__timed *s, struct tg_table *out) {
  const int64_t *const values = f->noise.is_busy ? s->cpu_ns : s->ns;
  size_t n, at = 0;
  int64_t *const some = some_of(f, s, values, s->warm, false, &n);
  double widest = 1;
  uint32_t *const order = some && n ? tg__order_numbers(some, n) : NULL;
  f->failed |= n && !order;
  for (size_t i = n * KIND_PCT / 100; order && n >= KINDS_LEAST && i + 1 < n - n * KIND_PCT / 100; i++) {
    const double gap = (double)some[order[i + 1]] / (double)(some[order[i]] + 1);
    if (gap > widest) widest = gap, at = i + 1;
  }
  const int64_t low = at ? some[order[at / 2]] : 0, high = at ? some[order[at + (n - at) / 2]] : 0;
  const int64_t before = at ? some[order[at - 1]] : 0, after = at ? some[order[at]] : 0;
  if (at && 100 * high > KINDS_APART_PCT * low && 2 * (after - before) > high - low)
    tg__table_note(out, "steps of two kinds: %.0f %% of those timed take %.2f ms%s, the others %.2f ms",
                   tg__pct((int64_t)at, (int64_t)n), tg__ms(low), f->noise.is_busy ? " on a core" : "", tg__ms(high));
  tg__free(order);
}

void tg__note_timed(struct tg__facts *f, struct tg_table *out) {
  struct tg__timed s;
  if (!tg__timed_read(f, &s)) return;
  note_warm_up(&s, out);
  if (!note_growth(f, &s, out)) note_kinds(f, &s, out);
}
