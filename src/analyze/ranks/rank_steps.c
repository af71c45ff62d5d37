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

/* What a rank's collectives are about at each moment, by the clock of its file. */
struct times {
  struct tg__spans wait, transfer, late; /* late: it comes last, and the middle one of the others is there */
};
struct adding {
  const struct tg__ranks *r;
  const bool *common;
  bool by_step;
  size_t *first_step; /* of each rank, in the list of all steps */
  int64_t *starts;
  struct times *times; /* of each rank */
  struct tg__rank_figures *f;
};

static bool has_numbers(const struct tg__rank_summary *r) { return r->step_count > 0 && r->steps[0].number >= 0; }

/* Where a part is counted; NULL when its step does not count. */
static struct tg__rank_figures *place_of(const struct adding *w, const struct tg__part *p) {
  const struct tg__rank_summary *const rank = &w->r->s->ranks[p->rank];
  const bool is_one = !has_numbers(rank); /* then everything is in it */
  const uint32_t step = is_one ? 0 : rank->collectives[p->index].step;
  if (!is_one && (step == TG_NONE || !w->common[w->first_step[p->rank] + step])) return NULL;
  if (!w->by_step) return &w->f[p->rank];
  return rank->step_count ? &w->f[w->first_step[p->rank] + step] : NULL;
}

static void add_part(const struct adding *w, const struct tg__part *p, bool is_matched) {
  const struct tg__sum_collective *const c = &w->r->s->ranks[p->rank].collectives[p->index];
  struct tg__rank_figures *const f = place_of(w, p);
  if (f) f->collectives++;
  if (!is_matched) return;
  if (f) f->matched++;
  tg__spans_add(&w->times[p->rank].wait, c->start_ns, c->start_ns + p->wait_ns);
  tg__spans_add(&w->times[p->rank].transfer, c->start_ns + p->wait_ns, c->end_ns);
}

static void add_matches(const struct adding *w) {
  for (size_t i = 0; i < w->r->match_count; i++) {
    const struct tg__match *const m = &w->r->matches[i];
    int64_t middle;
    for (uint32_t k = 0; k < m->count; k++) add_part(w, &w->r->parts[m->first + k], tg__match_is_shared(m));
    if (!tg__match_is_shared(m)) continue;
    const struct tg__part *const last = &w->r->parts[m->last];
    const int64_t came = w->r->s->ranks[last->rank].collectives[last->index].start_ns;
    struct tg__rank_figures *const f = place_of(w, last);
    if (f) f->last++;
    if (middle_of_others(w->r, m, w->starts, &middle))
      tg__spans_add(&w->times[last->rank].late, came - (m->last_ns - middle), came);
  }
}

static void add_steps(const struct adding *w) {
  for (size_t i = 0, at = 0; i < w->r->s->count; i++) {
    w->first_step[i] = at;
    for (uint32_t k = 0; k < w->r->s->ranks[i].step_count; k++, at++)
      if (w->common[at]) add_step(&w->f[w->by_step ? at : i], &w->r->s->ranks[i].steps[k]);
  }
}

/* Collectives of a rank may run at the same time, so each moment counts once: for a transfer where one transfers. */
static bool add_times(const struct adding *w, uint32_t rank) {
  const struct tg__rank_summary *const s = &w->r->s->ranks[rank];
  struct times *const t = &w->times[rank];
  struct tg__spans moved = {0};
  tg__spans_union(&t->wait);
  tg__spans_union(&t->transfer);
  tg__spans_union(&t->late);
  bool done = !t->transfer.failed && !t->late.failed && tg__spans_take(&t->wait, &t->transfer, &moved);
  tg__spans_free(&moved);
  if (!has_numbers(s) && !w->by_step) w->f[rank].late_ns = tg__spans_length(&t->late);
  for (uint32_t k = 0; k < s->step_count && done; k++) {
    const size_t at = w->first_step[rank] + k;
    struct tg__rank_figures *const f = &w->f[w->by_step ? at : rank];
    const int64_t start = s->steps[k].start_ns, end = s->steps[k].end_ns;
    if (!w->common[at]) continue;
    f->wait_ns += tg__spans_inside(&t->wait, start, end);
    f->transfer_ns += tg__spans_inside(&t->transfer, start, end);
    if (has_numbers(s) || w->by_step) f->late_ns += tg__spans_inside(&t->late, start, end);
  }
  return done;
}

static bool add_all(const struct adding *w) {
  bool done = true;
  add_steps(w);
  add_matches(w);
  for (uint32_t i = 0; i < w->r->s->count; i++) {
    struct times *const t = &w->times[i];
    done = done && add_times(w, i);
    tg__spans_free(&t->wait);
    tg__spans_free(&t->transfer);
    tg__spans_free(&t->late);
  }
  return done;
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
  w.times = tg__alloc(((size_t)r->s->count + 1) * sizeof *w.times);
  if (!w.f || !w.first_step || !w.starts || !w.times || !add_all(&w)) {
    tg__free(w.f);
    w.f = NULL;
  }
  tg__free(w.first_step);
  tg__free(w.starts);
  tg__free(w.times);
  return w.f;
}
