/* The question kernel_breakdown: the kernels of each type on each rank, the smaller ones folded into one row. */
#include "analyze/device/device_rows.h"
#include "analyze/table/numpy_sort.h"

#include <math.h>
#include <stdlib.h>

struct work {
  struct tg_table *out;
  const struct tg__columns *t;
  const struct tg__device_rules *rules;
  int64_t most; /* names to show of a type on a rank; 0 = all */
  double ratio;
  bool memory;
  struct tg__kernel_sum *rows;
  struct tg__map row_of;
  size_t count, cap;
};

/* ---- what is folded -------------------------------------------------------------------------- */

/* Names from position `most` on, and those that come after the first `ratio` of the time. order: by falling time. */
static void fold_breakdown(struct tg__kernel_sum *sums, const uint32_t *order, size_t count, int64_t most,
                           double ratio) {
  long double total = 0, before = 0;
  for (size_t i = 0; i < count; i++) total += (long double)sums[order[i]].dur.sum;
  for (size_t i = 0; i < count; i++) {
    struct tg__kernel_sum *r = &sums[order[i]];
    r->folded = (int64_t)i >= most || (i > 0 && before >= (long double)ratio * total);
    before += (long double)r->dur.sum;
  }
}

/* ---- the table ------------------------------------------------------------------------------- */

static void put_breakdown_row(struct work *w, uint32_t rank, uint8_t type, uint32_t name, int64_t names, int64_t calls,
                              const struct tg__stats *dur) {
  const double std = tg__stats_std(dur);
  tg__put_rank(w->out, w->t, rank);
  tg__put_cstr(w->out, tg__work_type_names[type]);
  if (name == TG_NONE)
    tg__put_cstr(w->out, "others");
  else
    tg__put_trace_text(w->out, w->t, name);
  tg__put_int(w->out, names);
  tg__put_int(w->out, calls);
  tg__put_int(w->out, dur->sum);
  tg__put_real(w->out, tg__stats_mean(dur));
  tg__put_real(w->out, isnan(std) ? w->rules->std_of_one : std);
  tg__put_int(w->out, dur->min);
  tg__put_int(w->out, dur->max);
}

static void merge(struct tg__stats *into, const struct tg__stats *more) {
  if (into->count == 0 || more->min < into->min) into->min = more->min;
  if (into->count == 0 || more->max > into->max) into->max = more->max;
  into->count += more->count;
  into->sum += more->sum;
  into->squares += more->squares;
}

static void put_type(struct work *w, uint32_t rank, uint8_t type, const uint32_t *order, size_t count, bool may_fold) {
  const bool of_sums = may_fold && w->rules->folds_sums;
  struct tg__stats rest = {0};
  int64_t names = 0, calls = 0;
  for (size_t i = 0; i < count; i++) {
    const struct tg__kernel_sum *r = &w->rows[order[i]];
    struct tg__stats sum = {0};
    tg__stats_add(&sum, r->dur.sum);
    const struct tg__stats *shown = of_sums ? &sum : &r->dur;
    if (r->folded) {
      merge(&rest, shown);
      names++;
      calls += r->dur.count;
    } else {
      put_breakdown_row(w, rank, type, r->name, 1, r->dur.count, shown);
    }
  }
  if (names) put_breakdown_row(w, rank, type, TG_NONE, names, calls, &rest);
}

/* ---- one rank -------------------------------------------------------------------------------- */

static bool add_breakdown(struct work *w, const struct tg__device_rows *d, const struct tg__device_row *row) {
  const uint32_t name = d->t->slices.name[row->slice];
  uint32_t *slot = tg__map_slot(&w->row_of, (uint64_t)row->type << 32 | name, TG_NONE);
  if (!slot) return false;
  if (*slot == TG_NONE) {
    if (!tg__grow((void **)&w->rows, &w->cap, w->count + 1, sizeof *w->rows)) return false;
    *slot = (uint32_t)w->count;
    w->rows[w->count++] = (struct tg__kernel_sum){.name = name, .type = row->type};
  }
  tg__stats_add(&w->rows[*slot].dur, row->end_ns - row->start_ns);
  return true;
}

static bool name_before(uint32_t a, uint32_t b, const void *ctx) {
  const struct work *w = ctx;
  if (w->rows[a].type != w->rows[b].type) return w->rows[a].type < w->rows[b].type;
  return tg__str_cmp(tg__name(w->t, w->rows[a].name), tg__name(w->t, w->rows[b].name)) < 0;
}

/* By falling time, equal times as its sort leaves them: sorted ascending over the reversed column, and reversed
 * again. */
static bool sort_type(const struct work *w, uint32_t *order, size_t count) {
  int64_t *keys = tg__alloc((count + 1) * sizeof *keys);
  uint32_t *places = tg__alloc((count + 1) * sizeof *places), *by_name = tg__alloc((count + 1) * sizeof *by_name);
  const bool ok = keys && places && by_name;
  if (ok) {
    memcpy(by_name, order, count * sizeof *order);
    for (size_t i = 0; i < count; i++) keys[i] = w->rows[order[count - 1 - i]].dur.sum;
    tg__numpy_argsort(keys, places, count);
    for (size_t i = 0; i < count; i++) order[count - 1 - i] = by_name[count - 1 - places[i]];
  }
  tg__free(keys);
  tg__free(places);
  tg__free(by_name);
  return ok;
}

static bool put_one_type(struct work *w, const struct tg__device_rows *d, uint32_t *order, size_t count) {
  const uint8_t type = w->rows[order[0]].type;
  const bool may_fold = w->most > 0 && count > (size_t)w->most;
  if (!sort_type(w, order, count)) return false;
  if (may_fold && !w->rules->fold) fold_breakdown(w->rows, order, count, w->most, w->ratio);
  if (may_fold && w->rules->fold && !w->rules->fold(w->rows, order, count, w->most, w->ratio)) return false;
  put_type(w, d->rank, type, order, count, may_fold);
  return true;
}

static bool kernels_of_rank(struct tg__device_rows *d, void *ctx) {
  struct work *w = ctx;
  w->rules = d->rules;
  w->count = 0;
  tg__map_free(&w->row_of);
  for (size_t i = 0; i < d->count; i++) {
    const struct tg__device_row *row = &d->rows[i];
    if (row->type == TG__TYPE_OTHER || (row->type == TG__TYPE_MEMORY && !w->memory)) continue;
    if (!add_breakdown(w, d, row)) return false;
  }
  uint32_t *order = tg__order_new(w->count, name_before, w);
  bool ok = order != NULL;
  for (size_t first = 0, past; ok && first < w->count; first = past) {
    for (past = first + 1; past < w->count && w->rows[order[past]].type == w->rows[order[first]].type; past++) continue;
    ok = put_one_type(w, d, order + first, past - first);
  }
  tg__free(order);
  return ok;
}

static enum tg_err read_ratio(const struct tg__ask *a, double *ratio, struct tg_error *e) {
  const char *text = tg__ask_arg(a, "ratio");
  char *end;
  *ratio = strtod(text, &end);
  if (end != text && !*end && *ratio >= 0 && *ratio <= 1) return TG_OK;
  return tg__fail(e, TG_USAGE, -1, "%s: ratio=%.60s is not a number from 0 to 1", a->question->name, text);
}

enum tg_err tg__answer_kernel_breakdown(const struct tg__columns *t, const struct tg__ask *a, struct tg_table *out,
                                        struct tg_error *e) {
  struct work w = {.out = out, .t = t};
  int64_t memory;
  enum tg_err err = tg__ask_integer(a, "kernels", &w.most, e);
  if (!err) err = tg__ask_integer(a, "memory", &memory, e);
  if (!err) err = read_ratio(a, &w.ratio, e);
  if (err) return err;
  w.memory = memory != 0;
  err = tg__device_each_rank(t, a, kernels_of_rank, &w, e);
  tg__map_free(&w.row_of);
  tg__free(w.rows);
  return err;
}
