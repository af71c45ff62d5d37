/* rank_clocks: how the clocks of the ranks lie to each other. A collective that needs something from everybody ends
 * everywhere at about the same moment: the median distance between two ranks' ends is the offset of their clocks.
 * And none ends before the last has come, so each such collective also bounds the offset from both sides. */
#include <math.h>
#include <stdlib.h>

#include "analyze/ranks/comm_names.h"
#include "analyze/ranks/rank_set.h"

enum { LEAST_FOR_DRIFT = 16 };
#define LEAST_SPAN_NS 1000000000 /* over less, a drift of some parts in a million drowns in the ends' own spread */
#define MOST_DRIFT 1e-3

/* One collective on a rank and on its reference, which has an aligned clock. */
struct sample {
  int64_t at_ns;    /* end at the reference */
  int64_t ahead_ns; /* of the rank's end */
  int64_t low_ns, high_ns;
};
struct samples {
  struct sample *items;
  size_t count, cap;
  uint32_t reference;
};

static int64_t rank_time(const struct tg__ranks *r, uint32_t rank, int64_t ns) {
  return ns + r->s->ranks[rank].base_ns;
}

int64_t tg__ranks_time(const struct tg__ranks *r, uint32_t rank, int64_t ns) {
  const struct tg__clock *const c = &r->clocks[rank];
  const int64_t aligned = rank_time(r, rank, ns) - c->offset_ns;
  return c->drift == 0 ? aligned : aligned - llround(c->drift * (double)(aligned - c->origin_ns));
}

static bool smaller(uint32_t a, uint32_t b, const void *ctx) {
  return ((const int64_t *)ctx)[a] < ((const int64_t *)ctx)[b];
}

/* The lower of the two in the middle, so that a shift of all values shifts the median by exactly as much. */
static bool median(const int64_t *values, size_t n, uint32_t *order, int64_t *out) {
  if (!tg__sort_order(order, n, smaller, values)) return false;
  *out = values[order[(n - 1) / 2]];
  return true;
}

/* The slope between the medians of the first and of the last third: single late ends do not move it. */
static bool find_drift(struct tg__clock *c, const struct samples *s, int64_t *values, uint32_t *order,
                       int64_t spread_ns) {
  const size_t n = s->count, third = n / 3;
  int64_t early, late, early_at, late_at, spread;
  if (n < LEAST_FOR_DRIFT || s->items[n - 1].at_ns - s->items[0].at_ns < LEAST_SPAN_NS) return true;
  for (size_t i = 0; i < n; i++) values[i] = s->items[i].ahead_ns;
  if (!median(values, third, order, &early) || !median(values + n - third, third, order, &late)) return false;
  early_at = s->items[third / 2].at_ns;
  late_at = s->items[n - 1 - third / 2].at_ns;
  if (late_at <= early_at) return true;
  const double slope = (double)(late - early) / (double)(late_at - early_at);
  const int64_t origin = s->items[0].at_ns;
  if (fabs(slope) > MOST_DRIFT) return true;
  for (size_t i = 0; i < n; i++)
    values[i] = s->items[i].ahead_ns - llround(slope * (double)(s->items[i].at_ns - origin));
  int64_t offset;
  if (!median(values, n, order, &offset)) return false;
  for (size_t i = 0; i < n; i++) values[i] = llabs(values[i] - offset);
  if (!median(values, n, order, &spread)) return false;
  if (2 * spread > spread_ns) return true; /* it must explain half of what is left without it */
  c->drift = slope;
  c->origin_ns = origin;
  c->offset_ns = offset;
  c->spread_ns = spread;
  return true;
}

static bool sample_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct sample *const s = ctx;
  return s[a].at_ns < s[b].at_ns;
}

/* The bounds at the time the offset is stated for. */
static void find_bounds(struct tg__clock *c, const struct samples *s) {
  c->low_ns = INT64_MIN;
  c->high_ns = INT64_MAX;
  for (size_t i = 0; i < s->count; i++) {
    const int64_t gained = c->drift == 0 ? 0 : llround(c->drift * (double)(s->items[i].at_ns - c->origin_ns));
    if (s->items[i].low_ns - gained > c->low_ns) c->low_ns = s->items[i].low_ns - gained;
    if (s->items[i].high_ns - gained < c->high_ns) c->high_ns = s->items[i].high_ns - gained;
  }
}

static bool fit(struct tg__clock *c, struct samples *s) {
  int64_t *const values = tg__alloc((s->count + 1) * sizeof *values);
  uint32_t *const order = tg__alloc((s->count + 1) * sizeof *order);
  bool done =
      values && order && tg__sort_items((void **)&s->items, s->count, sizeof *s->items, sample_before, s->items);
  for (size_t i = 0; done && i < s->count; i++) values[i] = s->items[i].ahead_ns;
  done = done && median(values, s->count, order, &c->offset_ns);
  for (size_t i = 0; done && i < s->count; i++) values[i] = llabs(s->items[i].ahead_ns - c->offset_ns);
  done = done && median(values, s->count, order, &c->spread_ns);
  done = done && find_drift(c, s, values, order, c->spread_ns);
  if (done) {
    find_bounds(c, s);
    if (c->low_ns <= c->high_ns && c->offset_ns < c->low_ns) c->offset_ns = c->low_ns;
    if (c->low_ns <= c->high_ns && c->offset_ns > c->high_ns) c->offset_ns = c->high_ns;
    c->collectives = (int64_t)s->count;
    c->reference = s->reference;
    c->is_aligned = true;
  }
  tg__free(values);
  tg__free(order);
  return done;
}

static bool take_sample(const struct tg__ranks *r, const struct tg__part *p, const struct tg__part *reference,
                        struct samples *s) {
  const struct tg__sum_collective *const mine = &r->s->ranks[p->rank].collectives[p->index];
  const struct tg__sum_collective *const theirs = &r->s->ranks[reference->rank].collectives[reference->index];
  const int64_t start = rank_time(r, p->rank, mine->start_ns), end = rank_time(r, p->rank, mine->end_ns);
  const int64_t their_start = tg__ranks_time(r, reference->rank, theirs->start_ns);
  const int64_t their_end = tg__ranks_time(r, reference->rank, theirs->end_ns);
  if (!tg__grow((void **)&s->items, &s->cap, s->count + 1, sizeof *s->items)) return false;
  s->items[s->count++] = (struct sample){their_end, end - their_end, start - their_end, end - their_start};
  s->reference = reference->rank;
  return true;
}

/* Collectives with a rank that is aligned say something about those that are not. */
static bool gather_samples(const struct tg__ranks *r, const bool *together, struct samples *samples) {
  for (size_t i = 0; i < r->match_count; i++) {
    const struct tg__match *const m = &r->matches[i];
    const struct tg__part *const parts = r->parts + m->first;
    uint32_t anchor = 0;
    if (!together[m->kind] || !tg__match_is_shared(m)) continue;
    while (anchor < m->count && !r->clocks[parts[anchor].rank].is_aligned) anchor++;
    for (uint32_t k = 0; anchor < m->count && k < m->count; k++)
      if (!r->clocks[parts[k].rank].is_aligned && !take_sample(r, &parts[k], &parts[anchor], &samples[parts[k].rank]))
        return false;
  }
  return true;
}

/* From one rank outward: first those that share a group with it, then those that share one with these. */
static bool align_all(struct tg__ranks *r, const bool *together, struct samples *samples) {
  for (bool found = true; found;) {
    found = false;
    for (uint32_t i = 0; i < r->s->count; i++) samples[i].count = 0;
    if (!gather_samples(r, together, samples)) return false;
    for (uint32_t i = 0; i < r->s->count; i++) {
      if (r->clocks[i].is_aligned || samples[i].count == 0) continue;
      if (!fit(&r->clocks[i], &samples[i])) return false;
      found = true;
    }
  }
  return true;
}

/* The lowest rank without a known clock that shares a collective; TG_NONE when there is none. */
static uint32_t next_reference(const struct tg__ranks *r, const bool *together) {
  uint32_t lowest = TG_NONE;
  for (size_t i = 0; i < r->match_count; i++) {
    const struct tg__match *const m = &r->matches[i];
    if (!together[m->kind] || !tg__match_is_shared(m)) continue;
    const uint32_t rank =
        r->parts[m->first].rank; /* parts are by rank; those of one collective are all known or none is */
    if (!r->clocks[rank].is_aligned && rank < lowest) lowest = rank;
  }
  return lowest;
}

bool tg__ranks_align(struct tg__ranks *r) {
  const uint32_t strings = tg__strings_count(r->s->strings);
  bool *const together = tg__alloc((size_t)strings + 1);
  struct samples *const samples = tg__alloc(((size_t)r->s->count + 1) * sizeof *samples);
  bool done = together && samples;
  for (size_t i = 0; done && i < r->match_count; i++) {
    const uint32_t kind = r->matches[i].kind;
    together[kind] = tg__comm_ends_together(tg__strings_get(r->s->strings, kind));
  }
  for (uint32_t first; done && (first = next_reference(r, together)) != TG_NONE; r->clock_sets++) {
    r->clocks[first].is_aligned = true;
    r->clocks[first].reference = first;
    done = align_all(r, together, samples);
  }
  for (uint32_t i = 0; samples && i < r->s->count; i++) tg__free(samples[i].items);
  tg__free(samples);
  tg__free(together);
  return done;
}
