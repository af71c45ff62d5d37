/* Every figure of two traces side by side, with an interval and a verdict. */
#include "analyze/diff/diff.h"
#include "analyze/host/op_group.h"

#include <math.h>
#include <stdlib.h>

/* ---- adding rows ----------------------------------------------------------------------------- */

static struct tg__diff_row *add_diff_row(struct tg__diff_rows *rows, enum tg__diff_by by, const char *name, size_t len,
                                         const char *quantity, const char *unit) {
  if (!tg__grow((void **)&rows->items, &rows->cap, rows->count + 1, sizeof *rows->items)) return NULL;
  const uint32_t id = tg__strings_add(rows->names, name, len);
  if (id == TG_NONE) return NULL;
  struct tg__diff_row *r = &rows->items[rows->count++];
  *r = (struct tg__diff_row){.by = by,
                             .name = id,
                             .quantity = quantity,
                             .unit = unit,
                             .low = NAN,
                             .high = NAN,
                             .p = NAN,
                             .in_a = true,
                             .in_b = true};
  return r;
}

static bool has_interval(const struct tg__diff_side *a, const struct tg__diff_side *b) {
  return a->draws.weights && b->draws.weights;
}

static void put_change(struct tg__diff_row *r, const struct tg__change *c) {
  r->low = c->low;
  r->high = c->high;
  r->p = c->p;
}

/* ---- figures of whole steps ------------------------------------------------------------------ */

enum step_value { TOTAL, HOST, DEVICE_EVENTS, THREAD_CPU, COMPILED, REPLAYED, EAGER, FIRST_PART };

static int64_t diff_value_of(const struct tg__step_cost *c, unsigned what) {
  switch (what) {
  case TOTAL:
    return c->end_ns - c->start_ns;
  case HOST:
    return c->host_end_ns - c->host_start_ns;
  case DEVICE_EVENTS:
    return c->device_events;
  case THREAD_CPU:
    return c->thread_cpu_ns;
  case COMPILED:
    return c->compiled_ns;
  case REPLAYED:
    return c->replayed_ns;
  case EAGER:
    return c->eager_ns;
  default:
    return c->part_ns[what - FIRST_PART];
  }
}

static bool less_value(uint32_t a, uint32_t b, const void *ctx) {
  return ((const int64_t *)ctx)[a] < ((const int64_t *)ctx)[b];
}

static bool quantile_of(const int64_t *values, size_t n, double q, double *out) {
  int64_t *sorted = tg__alloc(n * sizeof *sorted);
  uint32_t *order = tg__order_new(n, less_value, values);
  const bool ok = sorted && order;
  for (size_t i = 0; ok && i < n; i++) sorted[i] = values[order[i]];
  if (ok) *out = tg__quantile(sorted, n, q);
  tg__free(sorted);
  tg__free(order);
  return ok;
}

/* What a step came to: the mean over its ranks, in whole ns. */
static void mean_of_ranks(const struct tg__diff_side *s, unsigned what, int64_t *values) {
  for (size_t i = 0; i < s->unit_count; i++) {
    int64_t *const v = &values[s->units[i].step];
    if (__builtin_add_overflow(*v, diff_value_of(&s->costs[i], what), v)) *v = INT64_MAX;
  }
  for (size_t i = 0; s->ranks > 1 && i < s->count; i++) values[i] = llround((double)values[i] / (double)s->ranks);
}

/* The figure of one side and, where there are steps enough, what it is in every draw. q below 0: the mean. */
static bool measure(const struct tg__diff_side *s, unsigned what, double q, double *figure, double draws[TG__DRAWS]) {
  int64_t *values = tg__alloc(s->count * sizeof *values);
  uint32_t *steps = tg__alloc(s->count * sizeof *steps);
  bool ok = values && steps;
  struct tg__stats stats = {0};
  if (ok) mean_of_ranks(s, what, values);
  for (size_t i = 0; ok && i < s->count; i++) {
    steps[i] = (uint32_t)i;
    tg__stats_add(&stats, values[i]);
  }
  if (ok && q < 0)
    *figure = tg__stats_mean(&stats);
  else
    ok = ok && quantile_of(values, s->count, q, figure);
  if (ok && s->draws.weights) {
    if (q < 0)
      tg__draws_mean(&s->draws, steps, values, s->count, draws);
    else
      ok = tg__draws_quantile(&s->draws, values, q, draws);
  }
  tg__free(values);
  tg__free(steps);
  return ok;
}

static bool add_step_figure(struct tg__diff_rows *rows, const struct tg__diff_side *const sides[TG__SIDES],
                            enum tg__diff_by by, const char *name, const char *quantity, const char *unit,
                            unsigned what, double q) {
  struct tg__diff_row *r = add_diff_row(rows, by, name, strlen(name), quantity, unit);
  if (!r || !measure(sides[0], what, q, &r->a, rows->draws[0]) || !measure(sides[1], what, q, &r->b, rows->draws[1]))
    return false;
  if (has_interval(sides[0], sides[1])) {
    const struct tg__change c =
        tg__draws_change(&sides[0]->draws, r->a, rows->draws[0], &sides[1]->draws, r->b, rows->draws[1]);
    put_change(r, &c);
  }
  return true;
}

static bool knows_cpu(const struct tg__diff_side *s) {
  for (size_t i = 0; i < s->unit_count; i++)
    if (s->costs[i].thread_cpu_ns == TG_NULL_INT) return false;
  return true;
}

enum tg_err tg__diff_step_rows(struct tg__diff_rows *rows, const struct tg__diff_side *a,
                               const struct tg__diff_side *b) {
  static const struct {
    const char *quantity, *unit;
    enum step_value what;
    double q;
  } figures[] = {{"p50", "ns", TOTAL, 0.5},
                 {"mean", "ns", TOTAL, -1},
                 {"p90", "ns", TOTAL, 0.9},
                 {"host", "ns", HOST, -1},
                 {"kernels", "", DEVICE_EVENTS, -1}};
  const struct tg__diff_side *const sides[] = {a, b};
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
    if (!add_step_figure(rows, sides, TG__DIFF_STEP, "step", figures[i].quantity, figures[i].unit, figures[i].what,
                         figures[i].q))
      return TG_MEMORY;
  }
  if (!knows_cpu(a) || !knows_cpu(b)) return TG_OK;
  return add_step_figure(rows, sides, TG__DIFF_STEP, "step", "thread_cpu", "ns", THREAD_CPU, -1) ? TG_OK : TG_MEMORY;
}

static void drop_zero_row(struct tg__diff_rows *rows) {
  if (rows->items[rows->count - 1].a == 0 && rows->items[rows->count - 1].b == 0) rows->count--;
}

/* The same time by what ran: another division of the step, so the quantity is another one. */
static enum tg_err add_code_rows(struct tg__diff_rows *rows, const struct tg__diff_side *const sides[TG__SIDES]) {
  static const struct {
    const char *name;
    enum step_value what;
  } codes[] = {{"compiled", COMPILED}, {"replayed", REPLAYED}, {"eager", EAGER}};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    if (!add_step_figure(rows, sides, TG__DIFF_CATEGORY, codes[i].name, "code", "ns", codes[i].what, -1))
      return TG_MEMORY;
    drop_zero_row(rows);
  }
  return TG_OK;
}

enum tg_err tg__diff_category_rows(struct tg__diff_rows *rows, const struct tg__diff_side *a,
                                   const struct tg__diff_side *b) {
  static const char *const parts[TG__PART_COUNT] = {"kernel",  "memcpy",     "memset",   "communication",
                                                    "runtime", "dataloader", "cpu_exec", "other"};
  const struct tg__diff_side *const sides[] = {a, b};
  for (unsigned p = 0; p < TG__PART_COUNT; p++) {
    if (!add_step_figure(rows, sides, TG__DIFF_CATEGORY, parts[p], "time", "ns", FIRST_PART + p, -1)) return TG_MEMORY;
    drop_zero_row(rows);
  }
  return a->has_code || b->has_code ? add_code_rows(rows, sides) : TG_OK;
}

/* ---- figures by name ------------------------------------------------------------------------- */

struct by_name {
  const struct tg__diff_side *sides[TG__SIDES];
  struct tg__diff_sorted entries[TG__SIDES];
  struct tg__strings *names;
  uint32_t *step; /* of the entries at hand */
  int64_t *value;
  size_t room, value_room;
};

/* One figure of one row on one side: its values a step, gathered; their mean over all steps. false on no memory. */
static bool gather_diff(struct by_name *w, int side, uint32_t row, unsigned figure, size_t *count, double *mean) {
  const struct tg__diff_sorted *entries = &w->entries[side];
  const uint32_t begin = entries->first[row], end = entries->first[row + 1];
  if (!tg__grow((void **)&w->step, &w->room, end - begin + 1, sizeof *w->step) ||
      !tg__grow((void **)&w->value, &w->value_room, end - begin + 1, sizeof *w->value))
    return false;
  struct tg__stats stats = {0};
  *count = 0;
  for (uint32_t i = begin; i < end; i++) {
    const int64_t v = entries->items[i].v[figure];
    if (!v) continue;
    w->step[*count] = entries->items[i].step;
    w->value[(*count)++] = v;
    tg__stats_add(&stats, v);
  }
  *mean = (double)((long double)stats.sum / ((long double)w->sides[side]->count * (long double)w->sides[side]->ranks));
  return true;
}

/* The same in every step: every draw has the same mean. */
static bool is_constant(const struct by_name *w, int side, size_t count) {
  if (count && count != w->sides[side]->count) return false;
  for (size_t i = 1; i < count; i++)
    if (w->value[i] != w->value[0]) return false;
  return true;
}

/* What the gathered figure is in every draw. */
static void draw(const struct by_name *w, int side, size_t count, bool constant, double mean, double out[TG__DRAWS]) {
  const struct tg__diff_side *s = w->sides[side];
  if (!constant) tg__draws_mean(&s->draws, w->step, w->value, count, out);
  for (size_t r = 0; r < TG__DRAWS; r++) out[r] = constant ? mean : out[r] / (double)s->ranks;
}

static bool add_figure(struct tg__diff_rows *rows, struct by_name *w, enum tg__diff_by by, uint32_t row,
                       unsigned figure) {
  double mean[TG__SIDES];
  bool constant[TG__SIDES];
  const bool draws = has_interval(w->sides[0], w->sides[1]);
  size_t count[TG__SIDES];
  for (int side = 0; side < TG__SIDES; side++) {
    if (!gather_diff(w, side, row, figure, &count[side], &mean[side])) return false;
    constant[side] = is_constant(w, side, count[side]);
    if (draws) draw(w, side, count[side], constant[side], mean[side], rows->draws[side]);
  }
  if (!count[0] && !count[1]) return true;
  const struct tg__str name = tg__strings_get(w->names, row);
  struct tg__diff_row *r =
      add_diff_row(rows, by, name.ptr, name.len, tg__diff_figure_names[figure], figure == TG__DIFF_CALLS ? "" : "ns");
  if (!r) return false;
  r->a = mean[0], r->b = mean[1];
  r->in_a = w->entries[0].first[row] < w->entries[0].first[row + 1];
  r->in_b = w->entries[1].first[row] < w->entries[1].first[row + 1];
  struct tg__change c = {mean[1] - mean[0], mean[1] - mean[0], mean[1] != mean[0] ? 0 : 1};
  if (draws && !(constant[0] && constant[1]))
    c = tg__draws_change(&w->sides[0]->draws, mean[0], rows->draws[0], &w->sides[1]->draws, mean[1], rows->draws[1]);
  if (draws) put_change(r, &c);
  return true;
}

/* Rows in the order they are to be looked at. Each costs thousands of draws, so of very many names the smallest are
 * left out. */
enum { MOST_NAMES = 2000 };

static double size_of(const struct by_name *w, uint32_t row) {
  double ns = 0;
  for (int side = 0; side < TG__SIDES; side++) {
    const struct tg__diff_sorted *entries = &w->entries[side];
    for (uint32_t i = entries->first[row]; i < entries->first[row + 1]; i++)
      ns += fabs((double)entries->items[i].v[TG__DIFF_CPU]) + fabs((double)entries->items[i].v[TG__DIFF_DEVICE]);
  }
  return ns;
}

static bool diff_is_larger(uint32_t a, uint32_t b, const void *ctx) {
  return ((const double *)ctx)[a] > ((const double *)ctx)[b];
}

/* NULL on no memory. *count: of all rows, then of these. */
static uint32_t *choose_rows(const struct by_name *w, uint32_t *count) {
  uint32_t *order = tg__alloc(((size_t)*count + 1) * sizeof *order);
  double *sizes = tg__alloc(((size_t)*count + 1) * sizeof *sizes);
  bool ok = order && sizes;
  for (uint32_t i = 0; ok && i < *count; i++) {
    order[i] = i;
    sizes[i] = size_of(w, i);
  }
  if (ok && *count > MOST_NAMES) {
    ok = tg__sort_index(order, *count, diff_is_larger, sizes);
    *count = MOST_NAMES;
  }
  tg__free(sizes);
  if (ok) return order;
  tg__free(order);
  return NULL;
}

/* What the trace at hand, or the ranks that were looked at, came to by these names. */
static enum tg_err sort_names(struct by_name *w, int side, enum tg__diff_by by, struct tg_table *notes) {
  const struct tg__diff_side *const s = w->sides[side];
  struct tg__diff_named own = {0};
  const enum tg_err err = s->t ? tg__diff_collect(s, by, &own) : TG_OK;
  const struct tg__diff_named *const n = s->t ? &own : &s->named[by];
  const bool ok = !err && tg__diff_named_sort(n, s->count, w->names, &w->entries[side]);
  if (ok && notes && n->loose)
    tg__table_note(notes, "%c: %lld device event%s no known launch and no step to count for", s->letter,
                   (long long)n->loose, n->loose == 1 ? " has" : "s have");
  if (ok && notes && by == TG__DIFF_MODULE && !n->has_modules)
    tg__op_group_notes(&(struct tg__op_group){.parts = {TG__GROUP_MODULE}, .count = 1}, notes);
  tg__diff_named_free(&own);
  return err ? err : ok ? TG_OK : TG_MEMORY;
}

enum tg_err tg__diff_name_rows(struct tg__diff_rows *rows, enum tg__diff_by by, const struct tg__diff_side *a,
                               const struct tg__diff_side *b, bool is_only_kind, struct tg_table *notes) {
  struct by_name w = {.sides = {a, b}, .names = tg__strings_new()};
  enum tg_err err = w.names ? TG_OK : TG_MEMORY;
  for (int side = 0; !err && side < TG__SIDES; side++)
    err = sort_names(&w, side, by, is_only_kind || by == TG__DIFF_FAMILY ? notes : NULL);
  uint32_t count = err ? 0 : tg__strings_count(w.names);
  const uint32_t all = count;
  for (int side = 0; !err && side < TG__SIDES; side++)
    if (!tg__diff_sorted_end(&w.entries[side], all)) err = TG_MEMORY;
  uint32_t *order = err ? NULL : choose_rows(&w, &count);
  if (!err && !order) err = TG_MEMORY;
  if (!err && count < all)
    tg__table_note(notes, "%s: the %u smallest of %u names are left out", tg__diff_by_names[by], all - count, all);
  for (uint32_t i = 0; !err && i < count; i++)
    for (unsigned figure = 0; !err && figure < TG__DIFF_FIGURES; figure++)
      if (!add_figure(rows, &w, by, order[i], figure)) err = TG_MEMORY;
  tg__free(order);
  for (int side = 0; side < TG__SIDES; side++) tg__diff_sorted_free(&w.entries[side]);
  tg__free(w.step);
  tg__free(w.value);
  tg__strings_free(w.names);
  return err;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static struct tg__diff_row *find_row(struct tg__diff_rows *rows, struct tg__str name) {
  for (size_t i = rows->kind_begin; i < rows->count; i++)
    if (tg__str_eq(tg__strings_get(rows->names, rows->items[i].name), name)) return &rows->items[i];
  return NULL;
}

/* false on no memory. */
static bool add_peaks(struct tg__diff_rows *rows, const struct tg__diff_named *n, int side) {
  for (size_t i = 0; i < n->count; i++) {
    const struct tg__str device = tg__strings_get(n->names, n->items[i].row);
    struct tg__diff_row *r = find_row(rows, device);
    if (!r && (r = add_diff_row(rows, TG__DIFF_MEMORY, device.ptr, device.len, "peak", "bytes")) != NULL)
      r->in_a = r->in_b = false;
    if (!r) return false;
    *(side ? &r->b : &r->a) = (double)n->items[i].v[TG__DIFF_PEAK];
    *(side ? &r->in_b : &r->in_a) = true;
  }
  return true;
}

/* None when only one of the two was recorded with memory. */
enum tg_err tg__diff_memory_rows(struct tg__diff_rows *rows, const struct tg__diff_side *a,
                                 const struct tg__diff_side *b) {
  const struct tg__diff_side *const sides[] = {a, b};
  struct tg__diff_named own[TG__SIDES] = {0};
  const struct tg__diff_named *peaks[TG__SIDES];
  enum tg_err err = TG_OK;
  for (int side = 0; side < TG__SIDES; side++) {
    peaks[side] = sides[side]->t ? &own[side] : &sides[side]->named[TG__DIFF_MEMORY];
    if (!err && sides[side]->t) err = tg__diff_collect(sides[side], TG__DIFF_MEMORY, &own[side]);
  }
  for (int side = 0; !err && peaks[0]->count && peaks[1]->count && side < TG__SIDES; side++)
    if (!add_peaks(rows, peaks[side], side)) err = TG_MEMORY;
  for (int side = 0; side < TG__SIDES; side++) tg__diff_named_free(&own[side]);
  return err;
}

/* ---- verdicts -------------------------------------------------------------------------------- */

static bool less_p(uint32_t a, uint32_t b, const void *ctx) {
  return ((const struct tg__diff_row *)ctx)[a].p < ((const struct tg__diff_row *)ctx)[b].p;
}

/* The largest p that still counts when so many rows are looked at once: of what is called changed, one in twenty may
 * be chance (Benjamini and Hochberg). Negative: none. */
static double largest_p(const struct tg__diff_row *rows, size_t count) {
  uint32_t *order = tg__alloc((count + 1) * sizeof *order);
  size_t known = 0;
  double limit = -1;
  for (size_t i = 0; order && i < count; i++)
    if (!isnan(rows[i].p)) order[known++] = (uint32_t)i;
  if (order && tg__sort_index(order, known, less_p, rows))
    for (size_t k = 0; k < known; k++)
      if (rows[order[k]].p <= 0.05 * (double)(k + 1) / (double)known) limit = rows[order[k]].p;
  tg__free(order);
  return limit;
}

static bool is_time(const struct tg__diff_row *r) { return strcmp(r->unit, "ns") == 0; }

static bool is_big(const struct tg__diff_rows *rows, const struct tg__diff_row *r) {
  const double delta = fabs(r->b - r->a), share = rows->least_pct / 100;
  if (delta == 0 || delta < share * fabs(r->a)) return false;
  return r->by == TG__DIFF_STEP || !is_time(r) || delta >= share / 4 * rows->step_ns;
}

/* Is there a change at all, however small? Figures of whole steps are few: each is judged by its own interval. */
static bool is_sure(const struct tg__diff_row *r, double limit) {
  if (isnan(r->p)) return !is_time(r); /* counted once, and counts do not waver */
  return r->by == TG__DIFF_STEP ? r->low > 0 || r->high < 0 : r->p <= limit;
}

static const char *verdict_of(const struct tg__diff_rows *rows, struct tg__diff_row *r, double limit) {
  const bool drawn = !isnan(r->p), sure = is_sure(r, limit);
  r->changed = r->in_a != r->in_b && (sure || !drawn);
  if (r->changed) return r->in_a ? "removed" : "added";
  if (rows->withheld && is_time(r)) return "withheld";
  if (!drawn && is_time(r)) return "too few steps";
  if (!sure || !is_big(rows, r)) return "no difference";
  r->changed = true;
  if (is_time(r)) return r->b < r->a ? "faster" : "slower";
  return r->b < r->a ? "fewer" : "more";
}

static int compare_rows(const void *left, const void *right) {
  const struct tg__diff_row *x = left, *y = right;
  if (x->changed != y->changed) return x->changed ? -1 : 1;
  if (is_time(x) != is_time(y)) return is_time(x) ? -1 : 1;
  const double dx = fabs(x->b - x->a), dy = fabs(y->b - y->a);
  if (dx != dy) return dx > dy ? -1 : 1;
  if (x->name != y->name) return x->name < y->name ? -1 : 1; /* first seen first: in A, in the order of its file */
  return strcmp(x->quantity, y->quantity);
}

void tg__diff_judge(struct tg__diff_rows *rows) {
  struct tg__diff_row *items = rows->items + rows->kind_begin;
  const size_t count = rows->count - rows->kind_begin;
  rows->kind_begin = rows->count;
  if (!count) return;
  const double limit = largest_p(items, count);
  for (size_t i = 0; i < count; i++) items[i].verdict = verdict_of(rows, &items[i], limit);
  if (items->by != TG__DIFF_STEP) qsort(items, count, sizeof *items, compare_rows);
}
