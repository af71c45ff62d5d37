/* layer_runs: distances at which four names in a row come again are the periods looked at; each is followed over the
 * whole sequence. So the time is linear in its length. */
#include "analyze/device/layer_runs.h"

#include <stdlib.h>

enum { GRAM = 4, LEAST_PERIOD = 4, LEAST_LAYERS = 3, CANDIDATES = 24, LEAST_PART = 64 };

struct search {
  const uint32_t *names;
  uint32_t count;
  uint32_t *seen; /* by distance: how often */
  uint32_t periods[CANDIDATES];
  unsigned period_count;
  tg__layer_fits *fits;
  const void *ctx;
  struct tg__layer_runs *out;
};

static bool count_distances(struct search *s) {
  struct tg__map last = {0};
  bool ok = true;
  for (uint32_t i = 0; ok && i + GRAM <= s->count; i++) {
    uint32_t *const slot = tg__map_slot(&last, tg__hash(s->names + i, GRAM * sizeof *s->names), TG_NONE);
    ok = slot != NULL;
    if (!ok) break;
    const uint32_t distance = *slot == TG_NONE ? 0 : i - *slot;
    if (distance >= LEAST_PERIOD && distance <= s->count / LEAST_LAYERS) s->seen[distance]++;
    *slot = i;
  }
  tg__map_free(&last);
  return ok;
}

static int by_value(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* Those seen most often, rising. */
static void choose_periods(struct search *s) {
  for (uint32_t d = LEAST_PERIOD; d <= s->count / LEAST_LAYERS; d++) {
    if (s->seen[d] < LEAST_LAYERS - 1) continue;
    unsigned at = s->period_count;
    while (at > 0 && s->seen[s->periods[at - 1]] < s->seen[d]) at--;
    if (at == CANDIDATES) continue;
    if (s->period_count < CANDIDATES) s->period_count++;
    for (unsigned k = s->period_count - 1; k > at; k--) s->periods[k] = s->periods[k - 1];
    s->periods[at] = d;
  }
  qsort(s->periods, s->period_count, sizeof *s->periods, by_value);
}

static uint32_t length_of(const struct tg__layer_run *x) { return x->period * x->count; }

static bool overlaps(const struct tg__layer_run *a, const struct tg__layer_run *b) {
  return a->first < b->first + length_of(b) && b->first < a->first + length_of(a);
}

/* A longer period replaces what it overlaps only where it covers a quarter more: so layers stay, and not pairs of
 * layers. */
static bool take_run(struct search *s, struct tg__layer_run x) {
  struct tg__layer_runs *const r = s->out;
  uint64_t covered = 0;
  size_t kept = 0;
  for (size_t i = 0; i < r->count; i++)
    if (overlaps(&r->items[i], &x)) covered += length_of(&r->items[i]);
  if (covered && (uint64_t)length_of(&x) * 4 <= covered * 5) return true;
  for (size_t i = 0; covered && i < r->count; i++)
    if (!overlaps(&r->items[i], &x)) r->items[kept++] = r->items[i];
  if (covered) r->count = kept;
  if (!tg__grow((void **)&r->items, &r->cap, r->count + 1, sizeof *r->items)) return false;
  r->items[r->count++] = x;
  return true;
}

static bool follow_period(struct search *s, uint32_t period) {
  for (uint32_t i = 0; i + period < s->count;) {
    uint32_t end = i;
    while (end + period < s->count && s->names[end] == s->names[end + period]) end++;
    const uint32_t length = end - i + period;
    const struct tg__layer_run x = {i, period, length / period, length % period};
    const bool counts = end > i && x.count >= LEAST_LAYERS && length_of(&x) >= s->count / LEAST_PART;
    if (counts && s->fits(s->ctx, &x) && !take_run(s, x)) return false;
    i = end + 1;
  }
  return true;
}

static int by_first(const void *a, const void *b) {
  const struct tg__layer_run *const x = a, *const y = b;
  return x->first < y->first ? -1 : x->first > y->first;
}

bool tg__layer_runs_find(const uint32_t *names, uint32_t count, tg__layer_fits *fits, const void *ctx,
                         struct tg__layer_runs *out) {
  struct search s = {.names = names, .count = count, .fits = fits, .ctx = ctx, .out = out};
  *out = (struct tg__layer_runs){0};
  if (count < LEAST_LAYERS * LEAST_PERIOD) return true;
  s.seen = tg__alloc(((size_t)count / LEAST_LAYERS + 1) * sizeof *s.seen);
  bool ok = s.seen && count_distances(&s);
  if (ok) choose_periods(&s);
  for (unsigned k = 0; ok && k < s.period_count; k++) ok = follow_period(&s, s.periods[k]);
  if (ok && out->count) qsort(out->items, out->count, sizeof *out->items, by_first);
  tg__free(s.seen);
  return ok;
}

void tg__layer_runs_free(struct tg__layer_runs *r) {
  tg__free(r->items);
  *r = (struct tg__layer_runs){0};
}
