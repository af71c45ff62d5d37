/* rank_steps: the figures of each rank, a step. */
#include "analyze/ranks/rank_steps.h"

static void add_step(struct tg__rank_figures *f, const struct tg__sum_step *s) {
  f->steps++;
  f->length_ns += s->end_ns - s->start_ns;
  f->communication_ns += s->communication_ns;
  for (int i = 0; i < TG__SHARE_COUNT; i++) f->share_ns[i] += s->share_ns[i];
}

/* The middle one of the others' comings, the lower of two: what a rank is late against. */
static bool middle_of_others(const struct tg__ranks *r, const struct tg__match *m, int64_t *starts, int64_t *out) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < m->count; k++) {
    const int64_t at = r->parts[m->first + k].start_ns;
    uint32_t place = n++;
    if (m->first + k == m->last) {
      n--;
      continue;
    }
    starts[place] = at;
  }
  if (n == 0) return false;
  for (uint32_t low = 0, high = n - 1, want = (n - 1) / 2; low < high;) { /* quick select */
    const int64_t pivot = starts[low + (high - low) / 2];
    uint32_t i = low, j = high;
    for (;;) {
      while (starts[i] < pivot) i++;
      while (starts[j] > pivot) j--;
      if (i >= j) break;
      const int64_t swap = starts[i];
      starts[i++] = starts[j];
      starts[j--] = swap;
    }
    if (want <= j)
      high = j;
    else
      low = j + 1;
  }
  *out = starts[(n - 1) / 2];
  return true;
}

struct adding {
  const struct tg__ranks *r;
  const bool *common;
  bool by_step;
  size_t *first_step; /* of each rank, in the list of all steps */
  int64_t *starts;
  struct tg__rank_figures *f;
};

/* Where a part is added up; NULL when its step does not count. */
static struct tg__rank_figures *place_of(const struct adding *w, const struct tg__part *p) {
  const struct tg__rank_summary *const rank = &w->r->s->ranks[p->rank];
  const bool has_no_steps = rank->step_count == 0 || rank->steps[0].number < 0; /* then everything is in it */
  const uint32_t step = has_no_steps ? 0 : rank->collectives[p->index].step;
  if (!has_no_steps && (step == TG_NONE || !w->common[w->first_step[p->rank] + step])) return NULL;
  if (!w->by_step) return &w->f[p->rank];
  return rank->step_count ? &w->f[w->first_step[p->rank] + step] : NULL;
}

static void add_part(struct tg__rank_figures *f, const struct tg__part *p, bool is_matched) {
  f->collectives++;
  if (!is_matched) return;
  f->matched++;
  f->has_wait = true;
  f->wait_ns += p->wait_ns;
  f->transfer_ns += p->end_ns - p->start_ns - p->wait_ns;
}

static void add_matches(const struct adding *w) {
  for (size_t i = 0; i < w->r->match_count; i++) {
    const struct tg__match *const m = &w->r->matches[i];
    int64_t middle;
    for (uint32_t k = 0; k < m->count; k++) {
      const struct tg__part *const p = &w->r->parts[m->first + k];
      struct tg__rank_figures *const f = place_of(w, p);
      if (f) add_part(f, p, tg__match_is_shared(m));
    }
    struct tg__rank_figures *const last = place_of(w, &w->r->parts[m->last]);
    if (!tg__match_is_shared(m) || !last) continue;
    last->last++;
    if (middle_of_others(w->r, m, w->starts, &middle)) last->late_ns += m->last_ns - middle;
  }
}

static void add_steps(const struct adding *w) {
  for (size_t i = 0, at = 0; i < w->r->s->count; i++) {
    w->first_step[i] = at;
    for (uint32_t k = 0; k < w->r->s->ranks[i].step_count; k++, at++)
      if (w->common[at]) add_step(&w->f[w->by_step ? at : i], &w->r->s->ranks[i].steps[k]);
  }
}

struct tg__rank_figures *tg__rank_figures(const struct tg__ranks *r, const bool *common, bool by_step) {
  struct adding w = {.r = r, .common = common, .by_step = by_step};
  size_t rows = r->s->count;
  uint32_t widest = 0;
  for (size_t i = 0; i < r->match_count; i++)
    if (r->matches[i].count > widest) widest = r->matches[i].count;
  for (uint32_t i = 0; by_step && i < r->s->count; i++) rows += r->s->ranks[i].step_count;
  w.f = tg__alloc((rows + 1) * sizeof *w.f);
  w.first_step = tg__alloc(((size_t)r->s->count + 1) * sizeof *w.first_step);
  w.starts = tg__alloc(((size_t)widest + 1) * sizeof *w.starts);
  if (w.f && w.first_step && w.starts) {
    add_steps(&w);
    add_matches(&w);
  } else {
    tg__free(w.f);
    w.f = NULL;
  }
  tg__free(w.first_step);
  tg__free(w.starts);
  return w.f;
}

double tg__rank_step_mean(const struct tg__ranks *r, const struct tg__rank_figures *f) {
  int64_t length = 0, steps = 0;
  for (uint32_t i = 0; i < r->s->count; i++) {
    length += f[i].length_ns;
    steps += f[i].steps;
  }
  return steps ? (double)length / (double)steps : 0;
}

int64_t tg__rank_step_most(const struct tg__ranks *r, const struct tg__rank_figures *f) {
  int64_t most = 1;
  for (uint32_t i = 0; i < r->s->count; i++)
    if (f[i].steps > most) most = f[i].steps;
  return most;
}
