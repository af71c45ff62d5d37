/* stragglers_hta: the straggler candidates of HolisticTraceAnalysis. In each iteration it takes the kernel
 * ncclKernel… with the largest difference in duration between the ranks and flags those ranks on which it starts
 * latest. Newer kernels (ncclDevKernel…) it does not know. */
#include "analyze/compat/compat.h"
#include "analyze/compat/hta/hta_rows.h"
#include "analyze/ranks/stragglers.h"

#include <math.h>

struct candidate { /* the last in row order of its rank, stream, iteration and name */
  uint32_t rank, name;
  int64_t stream, iteration;
  double start, duration; /* by the mean length of an iteration */
};
struct finding {
  struct tg__hta hta;
  const struct tg__step_selection *selection; /* iterations that count */
  struct candidate *items;
  size_t count, cap;
  double t0_us, mean_us;
  size_t iterations;
  uint32_t *order;
  int64_t *flags; /* per rank */
};

static double length_us(const struct finding *f, const struct tg__hta_rank *rank, const struct tg__hta_row *row) {
  return (double)tg__hta_dur_ns(&f->hta, rank, row) / 1000;
}

/* Extent of the rows that lie in an iteration, and how many iterations there are. */
static bool measure(struct finding *f) {
  struct tg__map seen = {0};
  bool any = false, failed = false;
  double last = 0;
  for (uint32_t r = 0; r < f->hta.t->rank_count; r++) {
    const struct tg__hta_rank *const rank = &f->hta.ranks[r];
    for (size_t i = 0; i < rank->count && !failed; i++) {
      const struct tg__hta_row *const row = &rank->rows[i];
      if (row->iteration < 0 || !tg__step_selection_has(f->selection, row->iteration)) continue;
      const double start = (double)row->ts_us, end = start + length_us(f, rank, row);
      failed = !tg__map_put(&seen, (uint64_t)row->iteration, 1);
      if (!any || start < f->t0_us) f->t0_us = start;
      if (!any || end > last) last = end;
      any = true;
    }
  }
  f->iterations = seen.count;
  f->mean_us = seen.count ? (last - f->t0_us) / (double)seen.count : 0;
  tg__map_free(&seen);
  return !failed;
}

static bool add_candidate(struct finding *f, struct tg__map *index, const struct candidate *c) {
  const struct {
    int64_t stream, iteration;
    uint64_t name, rank;
  } key = {c->stream, c->iteration, c->name, c->rank};
  uint32_t *const at = tg__map_slot(index, tg__hash(&key, sizeof key), TG_NONE);
  if (!at) return false;
  if (*at == TG_NONE) {
    if (!tg__grow((void **)&f->items, &f->cap, f->count + 1, sizeof *f->items)) return false;
    *at = (uint32_t)f->count++;
  }
  f->items[*at] = *c;
  return true;
}

static bool gather_stragglers_hta(struct finding *f) {
  struct tg__map index = {0};
  bool done = true;
  for (uint32_t r = 0; r < f->hta.t->rank_count; r++) {
    const struct tg__hta_rank *const rank = &f->hta.ranks[r];
    for (size_t i = 0; i < rank->count && done; i++) {
      const struct tg__hta_row *const row = &rank->rows[i];
      const uint32_t name = f->hta.t->slices.name[row->slice];
      const double length = length_us(f, rank, row);
      if (row->stream <= 0 || row->iteration <= 0 || !tg__step_selection_has(f->selection, row->iteration) ||
          length < 0.01 * f->mean_us)
        continue;
      if (!tg__str_has_prefix(tg__name(f->hta.t, name), "ncclKernel")) continue;
      const struct candidate c = {
          r, name, row->stream, row->iteration, ((double)row->ts_us - f->t0_us) / f->mean_us, length / f->mean_us};
      done = add_candidate(f, &index, &c);
    }
  }
  tg__map_free(&index);
  return done;
}

/* By stream and name, then iteration, then rank. */
static bool before(uint32_t a, uint32_t b, const void *ctx) {
  const struct finding *const f = ctx;
  const struct candidate *const x = &f->items[a], *const y = &f->items[b];
  if (x->stream != y->stream) return x->stream < y->stream;
  if (x->name != y->name) return tg__str_cmp(tg__name(f->hta.t, x->name), tg__name(f->hta.t, y->name)) < 0;
  if (x->iteration != y->iteration) return x->iteration < y->iteration;
  return x->rank < y->rank;
}

static bool same_kernel(const struct candidate *a, const struct candidate *b) {
  return a->stream == b->stream && a->name == b->name;
}

static double deviation(const struct finding *f, size_t from, size_t to) {
  double sum = 0, squares = 0;
  for (size_t i = from; i < to; i++) sum += f->items[f->order[i]].duration;
  const double n = (double)(to - from), mean = sum / n;
  for (size_t i = from; i < to; i++)
    squares += (f->items[f->order[i]].duration - mean) * (f->items[f->order[i]].duration - mean);
  return to - from < 2 ? NAN : sqrt(squares / (n - 1));
}

static size_t iteration_end(const struct finding *f, size_t from) {
  size_t to = from + 1;
  while (to < f->count && same_kernel(&f->items[f->order[to]], &f->items[f->order[from]]) &&
         f->items[f->order[to]].iteration == f->items[f->order[from]].iteration)
    to++;
  return to;
}

static size_t kernel_end(const struct finding *f, size_t from) {
  size_t to = from + 1;
  while (to < f->count && same_kernel(&f->items[f->order[to]], &f->items[f->order[from]])) to++;
  return to;
}

/* The kernel with the largest difference in duration between ranks, mean over its iterations. false: none has two ranks
 * in one. */
static bool choose_kernel(const struct finding *f, size_t *from, size_t *to) {
  double best = -1;
  for (size_t i = 0, next; i < f->count; i = next) {
    double sum = 0;
    size_t n = 0;
    next = kernel_end(f, i);
    for (size_t k = i, end; k < next; k = end) {
      end = iteration_end(f, k);
      const double d = deviation(f, k, end);
      if (isnan(d)) continue;
      sum += d;
      n++;
    }
    if (n == 0 || sum / (double)n <= best) continue;
    best = sum / (double)n;
    *from = i;
    *to = next;
  }
  return best >= 0;
}

/* Flag the ranks that start no earlier than the `candidates`-th latest. false: an iteration has fewer. */
static bool flag_iterations(struct finding *f, size_t from, size_t to, size_t candidates) {
  for (size_t i = from; i < to; i = iteration_end(f, i)) {
    const size_t end = iteration_end(f, i);
    if (end - i < candidates) return false;
    for (size_t k = i; k < end; k++) {
      size_t later = 0;
      for (size_t x = i; x < end; x++) later += f->items[f->order[x]].start > f->items[f->order[k]].start;
      f->flags[f->items[f->order[k]].rank] += later < candidates;
    }
  }
  return true;
}

static void put_stragglers_hta_ranks(const struct finding *f, size_t candidates, struct tg_table *out) {
  const struct tg__columns *const t = f->hta.t;
  for (size_t place = 1; place <= candidates && place <= t->rank_count; place++) {
    uint32_t best = TG_NONE;
    for (uint32_t r = 0; r < t->rank_count; r++)
      if (f->flags[r] >= 0 && (best == TG_NONE || f->flags[r] > f->flags[best])) best = r;
    tg__put_int(out, (int64_t)place);
    tg__put_rank(out, t, best);
    tg__put_null(out);
    tg__put_null(out);
    tg__put_int(out, f->flags[best]);
    for (int i = 0; i < 4; i++) tg__put_null(out);
    f->flags[best] = -1;
  }
}

static enum tg_err find_stragglers_hta(struct finding *f, size_t candidates, struct tg_table *out, struct tg_error *e) {
  size_t from = 0, to = 0;
  if (!measure(f) || !gather_stragglers_hta(f)) return TG_MEMORY;
  if (f->count == 0)
    return tg__fail(e, TG_NO_DATA, -1,
                    "HolisticTraceAnalysis finds no candidates here: it needs steps and kernels called ncclKernel… "
                    "that take 1 %% of one; "
                    "rules=exact does not");
  f->order = tg__order_new(f->count, before, f);
  f->flags = tg__alloc(((size_t)f->hta.t->rank_count + 1) * sizeof *f->flags);
  if (!f->order || !f->flags) return TG_MEMORY;
  if (!choose_kernel(f, &from, &to))
    return tg__fail(e, TG_NO_DATA, -1,
                    "HolisticTraceAnalysis fails here: no kernel ncclKernel… is on two ranks in one step");
  if (!flag_iterations(f, from, to, candidates))
    return tg__fail(
        e, TG_NO_DATA, -1,
        "HolisticTraceAnalysis fails here: a step has fewer ranks with the kernel than candidates are asked for");
  put_stragglers_hta_ranks(f, candidates, out);
  return TG_OK;
}

enum tg_err tg__stragglers_hta(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                               struct tg_error *e) {
  struct tg__straggler_call call;
  enum tg_err err = tg__stragglers_read(a, &call, e);
  if (err) return err;
  if (a->job.summaries)
    return tg__fail(e, TG_NO_DATA, -1,
                    "rules=hta looks at single kernels, which a summary does not have: ask the folder with the traces");
  struct finding f = {.selection = &call.selection};
  err = tg__hta_open(&f.hta, t, TG_NONE, tg__hta_filter_of(a));
  if (!err) err = find_stragglers_hta(&f, call.candidates, out, e);
  tg__hta_close(&f.hta);
  tg__free(f.items);
  tg__free(f.order);
  tg__free(f.flags);
  return err;
}
